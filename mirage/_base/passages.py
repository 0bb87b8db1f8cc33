"""Compare the texts and ids of passages and documents."""

from __future__ import annotations

import re
import unicodedata

NOTHING_JUDGED = (
    "the qrels contain none of the retrieved passages; were they made for another corpus, with "
    "other ids?"
)
"""Reason why a run cannot be measured if the qrels judge none of its passages."""

_WORD = re.compile(r"[^\W_]+")
_GRAM = 5  # characters of an n-gram
_SHARED = 0.5  # versions of one passage share at least this part of their n-grams


def document_of(passage_id: str) -> str:
    """Return the document id of a passage id: ``36897421`` for ``36897421#2``."""
    return passage_id.partition("#")[0]


def plain_text(text: str) -> str:
    """Return a text in the Unicode form NFKC with single spaces, for comparison."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def bare_text(text: str) -> str:
    """Return the words of a text in lower case, without markup and punctuation."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def is_other_text(text: str, other: str) -> bool:
    """Return whether two texts with equal ids are different passages, not versions of one passage.

    The function compares the character 5-grams of both texts. The texts are different passages if
    they share less than half of the 5-grams of the text that has fewer. If a text is empty, the
    result is ``False``.
    """
    first, second = bare_text(text), bare_text(other)
    if not first or not second or first in second or second in first:
        return False
    grams, other_grams = _grams(first), _grams(second)
    return len(grams & other_grams) < _SHARED * min(len(grams), len(other_grams))


def _grams(text: str) -> frozenset[str]:
    return frozenset(text[i : i + _GRAM] for i in range(max(1, len(text) - _GRAM + 1)))
