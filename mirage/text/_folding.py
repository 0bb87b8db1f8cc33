"""Fold a text character by character, and map folded offsets to the original ones."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from mirage.text.mentions import bare

__all__ = ["FoldedText", "fold"]


class FoldedText(NamedTuple):
    """A text that :func:`fold` returned, with the offsets of its characters in the original text.

    Attributes:
        text: The folded text: in lower case, without accents and with ASCII digits. Punctuation and
            spaces are kept.
        offsets: For each character of the folded text, its index in the original text.
    """

    text: str
    offsets: Sequence[int]

    def folded_index(self, offset: int) -> int:
        """Return the index in the folded text of the original character at ``offset``."""
        return bisect_left(self.offsets, offset)


@lru_cache(maxsize=512)
def fold(text: str) -> FoldedText:
    """Fold a text in the Unicode form NFC: remove differences of case, accents and digit scripts.

    Letters become lower case and lose accents and vowel points, and digits become ASCII digits.
    Full-width forms become ordinary letters. Letters that are interchangeable in Arabic scripts
    become one letter.
    """
    if text.isascii():
        return FoldedText(text.lower(), range(len(text)))
    letters: list[str] = []
    offsets: list[int] = []
    for offset, character in enumerate(text):
        folded = _fold_character(character)
        letters.append(folded)
        offsets += [offset] * len(folded)
    return FoldedText("".join(letters), offsets)


@lru_cache(maxsize=1 << 14)
def _fold_character(character: str) -> str:
    if character.isascii():
        return character.lower()
    if unicodedata.category(character) == "Nd":
        return str(unicodedata.decimal(character))
    if "\uff00" <= character <= "\uffef":  # full-width forms
        character = unicodedata.normalize("NFKC", character)
    return bare(character.casefold())
