"""Texts and ids of passages: when two of them are of one passage, and of one document."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["NOTHING_JUDGED", "bare_text", "document_of", "is_other_text", "plain_text"]

NOTHING_JUDGED = (
    "the qrels name no passage that was found; were they made on another corpus, with other ids?"
)
"""The reason why nothing is measured if no id and no text of a run's passages is known."""

_WORD = re.compile(r"[^\W_]+")
_GRAM = 5
_SHARED = 0.5


def document_of(passage_id: str) -> str:
    """Return the document of a passage by its id: ``36897421`` of ``36897421#2``."""
    return passage_id.partition("#")[0]


def plain_text(text: str) -> str:
    """Return a text in which blanks and Unicode's forms (NFKC) make no difference."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def bare_text(text: str) -> str:
    """Return the words of a text, in which markup, signs and case make no difference."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def is_other_text(text: str, other: str) -> bool:
    """Return whether two texts that go by one id are two passages, and not versions of one.

    They are if the shorter one shares less than half of its 5-grams of characters with the longer
    one. An empty text is no other text.
    """
    first, second = bare_text(text), bare_text(other)
    if not first or not second or first in second or second in first:
        return False
    grams, others = _grams(first), _grams(second)
    return len(grams & others) < _SHARED * min(len(grams), len(others))


def _grams(text: str) -> frozenset[str]:
    return frozenset(text[i : i + _GRAM] for i in range(max(1, len(text) - _GRAM + 1)))
