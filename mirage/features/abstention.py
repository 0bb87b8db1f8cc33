"""Whether a response abstains where it should, and only there."""

from __future__ import annotations

from mirage.features.answer_claims import answer_claims
from mirage.features.base import Answered, Definition, Facts, NotComputed
from mirage.text import ABSTAINS_AT, abstains

__all__ = ["abstention", "invention"]

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


DEFINITIONS = (
    Definition("abstention", abstention, Facts("higher", 0, 1, ("answerable",))),
    Definition("invention", invention, Facts("lower", 0, 1, ("unanswerable queries",))),
)
