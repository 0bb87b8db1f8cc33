"""Length of an answer in tokens."""

from __future__ import annotations

from mirage.errors import JudgmentError
from mirage.models import Query, Run
from mirage.text import parse, tokenize


def answer_tokens(run: Run, query: Query) -> int:
    """Return the number of tokens of an answer, without its reason section and citations.

    Args:
        run: The run that contains the response.
        query: The query of the response.

    Raises:
        JudgmentError: The model failed on this query.
    """
    response = run[query.id]
    if response.text is None:
        raise JudgmentError(
            f"model {run.model!r} failed on query {query.id!r}, although there are votes on its "
            f"response ({response.error}); pass the run that was judged"
        )
    answer = parse(response.text, query.language, query.shown_to(response)).answer_text
    return len(tokenize(answer, query.language))
