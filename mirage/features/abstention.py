"""Whether a response abstains when it should, and whether it answers wrongly when it does not."""

from __future__ import annotations

from statistics import mean

from mirage.features.answer_claims import answer_claims
from mirage.features.answers import NO_ANSWERS
from mirage.features.base import Answered, Definition, Facts, NotComputed
from mirage.text import ABSTAINS_AT, abstains

__all__ = ["abstention", "incorrect_attempt", "invention"]

CLEAR = 0.9
"""The certainty that makes an abstention of an answer which states a known wrong answer."""

_NOBODY_KNOWS = NotComputed("the query does not say whether a passage answers it")
_ANSWERED = NotComputed("a passage answers the query, so that nothing need be made up")


def abstention(item: Answered) -> float | NotComputed:
    """Whether the response abstains where no passage answers the query, and answers where one does.

    1 if it does right by :attr:`~mirage.Query.answerable`, 0 if it does wrong. An abstention is
    what :func:`mirage.text.abstains` takes for one, and never a response that asserts every right
    answer of the query. An empty answer tells the reader nothing, not even that there is no
    answer: 0 either way. Not computed if nobody knows whether a passage answers the query.
    """
    query, answer = item.query, item.parsed.answer_text
    if query.answerable is None:
        return _NOBODY_KNOWS
    if not answer.strip():
        return 0.0
    return float(_abstains(item) is not query.answerable)


def _abstains(item: Answered) -> bool:
    """Whether the answer abstains: surely not where it states what is right.

    "Not the Congo, as one reads, but the Nile" has the signs of an abstention, and so has "it is
    not known for certain, but the Congo, I think": there the signs have to be clear.
    """
    query = item.query
    claims = answer_claims(item)
    if query.answerable and claims.right and all(claims.right):
        return False
    doubtful = query.answerable and any(claims.wrong)
    sure = abstains(item.parsed.answer_text, query.language, question=query.text)
    return sure >= (CLEAR if doubtful else ABSTAINS_AT)


def invention(item: Answered) -> float | NotComputed:
    """1 where no passage answers the query and the response answers all the same, else 0.

    The part of :func:`abstention` that tells a system that makes things up. Not computed for
    queries that a passage answers.
    """
    if item.query.answerable is not False:
        return _ANSWERED if item.query.answerable else _NOBODY_KNOWS
    right = abstention(item)
    return right if isinstance(right, NotComputed) else 1 - right


def incorrect_attempt(item: Answered) -> float | NotComputed:
    """Return the share of an attempted answer that is not right.

    In [0, 1]. A response that abstains, and an empty one, attempt nothing: 0. Any other response
    has 1 if no passage answers the query, else the share of the query's short answers that it does
    not assert. Unlike :func:`~mirage.features.answers.wrong_answer`, it needs no list of wrong
    answers. After the grade "incorrect", as against "correct" and "not attempted", of SimpleQA (Wei
    et al. 2024, arXiv 2411.04368). Not computed if a passage may answer the query and it has no
    :attr:`~mirage.Query.answers`.
    """
    query = item.query
    if query.answerable is not False and not query.answers:
        return NO_ANSWERS
    if not item.parsed.answer_text.strip() or _abstains(item):
        return 0.0
    if query.answerable is False:
        return 1.0
    return 1 - mean(answer_claims(item).right)


DEFINITIONS = (
    Definition("abstention", abstention, Facts("higher", 0, 1, ("answerable",))),
    Definition("invention", invention, Facts("lower", 0, 1, ("unanswerable queries",))),
    Definition("incorrect_attempt", incorrect_attempt, Facts("lower", 0, 1, ("answers",))),
)
