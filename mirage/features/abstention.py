"""Whether a response abstains where it should, and only there."""

from __future__ import annotations

from mirage.features.base import Answered, Definition, Facts, NotComputed
from mirage.text import ABSTAINS_AT, abstains

__all__ = ["abstention"]

_NOBODY_KNOWS = NotComputed("the query does not say whether a passage answers it")


def abstention(item: Answered) -> float | NotComputed:
    """Whether the response abstains where no passage answers the query, and answers where one does.

    1 where it does right by :attr:`~mirage.Query.answerable`, 0 where it does wrong; an abstention
    is what :func:`mirage.text.abstains` takes for one. Whether an answer is true is not looked at.
    An empty answer tells the reader nothing, not even that there is no answer: 0 either way. Not
    computed where nobody knows whether a passage answers the query.
    """
    query, answer = item.query, item.parsed.answer_text
    if query.answerable is None:
        return _NOBODY_KNOWS
    if not answer.strip():
        return 0.0
    silent = abstains(answer, query.language, question=query.text) >= ABSTAINS_AT
    return float(silent is not query.answerable)


DEFINITIONS = (Definition("abstention", abstention, Facts("higher", 0, 1, ("answerable",))),)
