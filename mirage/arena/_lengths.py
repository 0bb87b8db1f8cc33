"""How long an answer is."""

from __future__ import annotations

from mirage.errors import JudgmentError
from mirage.models import Query, Run
from mirage.text import parse, tokenize

__all__ = ["answer_tokens"]


def answer_tokens(run: Run, query: Query) -> int:
    """Tokens of the answer, without its reason section and its citations."""
    response = run[query.id]
    if response.text is None:
        raise JudgmentError(
            f"model {run.model!r} failed on query {query.id!r}, on which there are votes: "
            f"{response.error}; give the run that was judged"
        )
    answer = parse(response.text, query.language, query.shown_to(response)).answer_text
    return len(tokenize(answer, query.language))
