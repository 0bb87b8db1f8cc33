"""Tokens: what overlap measures count."""

from __future__ import annotations

import re
import unicodedata

from mirage.languages import Language
from mirage.text._unicode import nfc

__all__ = ["tokenize"]


def tokenize(text: str, language: str | Language) -> list[str]:
    """The tokens that overlap measures count: words, or characters where a script has no spaces.

    Combining marks stay with their letter. In a language of characters, a run of Latin letters
    and digits is one token. Case is folded, every script's digits are ASCII digits, full-width
    letters are plain ones, and punctuation, symbols and characters without a width are left out.

    Raises:
        UnknownNameError: no such language.
    """
    characters = Language.of(language).tokens == "character"
    folded = _LOOSE_MARKS.sub("", nfc(nfc(text).translate(_FOLD).casefold()))
    return _CHARACTERS.findall(folded) if characters else folded.split()


class _Fold(dict[int, str]):
    """What each character becomes in a token, for :meth:`str.translate`; found when first met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if 0xFF00 <= code <= 0xFFEF:  # full-width and half-width forms
            char = unicodedata.normalize("NFKC", char)
        category = unicodedata.category(char[0])
        if category == "Nd":
            char = str(unicodedata.decimal(char))
        elif char in _INVISIBLE or (category == "Cf" and char != _ZERO_WIDTH_SPACE):
            char = ""
        elif category[0] not in "LMN":
            char = " "
        self[code] = char
        return char


_ZERO_WIDTH_SPACE = "\u200b"  # parts words in Thai
_INVISIBLE = "\u0640\u20e3\ufe0e\ufe0f"  # Arabic tatweel, keycap, emoji and text presentation
_FOLD = _Fold()
_LOOSE_MARKS = re.compile(r"(?<!\S)[^\w\s]+")
_CHARACTERS = re.compile(r"(?:[0-9a-z\u00df-\u024f\u1e00-\u1eff][^\w\s]*)+|\w[^\w\s]*")
