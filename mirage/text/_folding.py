"""Text folded character by character, so that a place in it is a place in the original."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from mirage.text.mentions import bare

__all__ = ["FoldedText", "fold"]


class FoldedText(NamedTuple):
    """A text without case, accents and the script's own digits, and where each character is from.

    Attributes:
        text: The folded text. Punctuation and spaces stay.
        offsets: For each folded character the index of the original character.
    """

    text: str
    offsets: Sequence[int]

    def place(self, offset: int) -> int:
        """Return the index in the folded text of the original character at ``offset``."""
        return bisect_left(self.offsets, offset)


@lru_cache(maxsize=512)
def fold(text: str) -> FoldedText:
    """Fold a text in NFC."""
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
