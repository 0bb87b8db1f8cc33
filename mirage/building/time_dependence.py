"""Whether the answer to a question changes as time goes by, as an LLM says.

MEMERAG (Cruz Blandón et al. 2025, arXiv 2502.17163), section 3.1, leaves such questions out: what
a passage of some year says is no error then, and what a model says of today is no invention. The
wording of the prompt is our own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mirage.errors import LLMError
from mirage.languages import Language
from mirage.llm import LLM
from mirage.llm.questions import BRACKETS, Form, Question, ask_all, final_verdict
from mirage.models import Query

__all__ = ["TimeDependence", "time_independent"]

_STABLE, _CHANGES = "STABLE", "CHANGES"

_TASK = f"""\
You sort questions by whether their right answer changes as time goes by.

A question is {_CHANGES} if people who ask it a few years apart could rightly get different \
answers: who holds an office or a record, what is the latest, the next or the largest so far, how \
old, how many or how expensive something is at present, which rules are in force.

A question is {_STABLE} if the answer is the same whenever it is asked: what happened and why, who \
made or discovered something, what a word means, how nature works, what a lasting thing or place \
is like, or how matters stood at a time that the question names.

The question is in """

_FORM = Form(
    text="Say in one or two sentences what could make the answer change. Then end with a line that "
    f"holds nothing but your verdict in double square brackets: [[{_CHANGES}]] or [[{_STABLE}]]",
    reminder="Your last line has to be the verdict in double square brackets and nothing else: "
    f"[[{_CHANGES}]] or [[{_STABLE}]]",
    read=lambda text: final_verdict(text, (_STABLE, _CHANGES)),
    sought="verdict",
    breaks=(BRACKETS,),
)


class TimeDependence(NamedTuple):
    """Questions by whether their answers change over time; each is in one of the three.

    Attributes:
        stable: their answers stay the same.
        changing: their answers change.
        undecided: by id, why the LLM gave no verdict.
    """

    stable: tuple[Query, ...]
    changing: tuple[Query, ...]
    undecided: dict[str, str]


def time_independent(
    queries: Iterable[Query], llm: LLM, *, progress: bool = True
) -> TimeDependence:
    """Ask an LLM of each question whether its answer changes over time.

    It is asked again up to five times where it ends in no verdict. With the LLM's cache a second
    call asks only what the first one got no answer to.

    Args:
        queries: the questions.
        llm: who says so.
        progress: show a progress bar on stderr, if that is a terminal.

    Raises:
        LLMError: no question was decided, with the reason for the first; or there is no key.
    """
    questions = list(queries)
    what = "questions sorted by time"
    outcomes = ask_all(llm, [*map(_question, questions)], what=what, progress=progress)
    by_query = list(zip(questions, outcomes, strict=True))
    undecided = {
        query.id: f"there was {outcome.invalid or f'no answer: {outcome.failed}'}"
        for query, outcome in by_query
        if outcome.value is None
    }
    if undecided and len(undecided) == len(questions):
        raise LLMError(
            f"of none of {len(questions)} questions is known whether its answer changes over time; "
            f"of query {questions[0].id!r} because {undecided[questions[0].id]}"
        )
    stable, changing = (
        tuple(query for query, outcome in by_query if outcome.value == verdict)
        for verdict in (_STABLE, _CHANGES)
    )
    return TimeDependence(stable, changing, undecided)


def _question(query: Query) -> Question[str]:
    return Question(
        task=f"{_TASK}{Language.of(query.language).name}.",
        aim="Sort the question marked <question {word}>",
        form=_FORM,
        material=(("question", query.text),),
    )
