"""Split texts into tokens, the units that overlap metrics count."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cached_property, lru_cache

from mirage.languages import Language
from mirage.text._unicode import nfc

__all__ = [
    "SENTENCE_MARK",
    "UNSPACED",
    "fold",
    "fold_sentences",
    "is_blank",
    "split_tokens",
    "token_runs",
    "tokenize",
]

UNSPACED = (
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46"  # Thai
    "\u3041-\u30ff\u31f0-\u31ff"  # kana
    "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""Letters of scripts without spaces, to be put in the brackets of a regular expression."""


def tokenize(text: str, language: str | Language | None) -> list[str]:
    """Split a text into tokens: words, or characters if the script has no spaces between words.

    Combining marks stay with their letter. In scripts without spaces, a run of Latin letters and
    digits is still one token. Case is folded, digits become ASCII digits, and full-width letters
    become ordinary ones. Punctuation, symbols and characters without width are left out.

    Args:
        text: Text to split.
        language: Language of the text. If None, the script decides: Han, kana and Thai are split
            into characters, all other scripts into words.

    Raises:
        UnknownNameError: If there is no such language.

    Example:
        >>> tokenize("The Nile covers 6650 km.", "en")
        ['the', 'nile', 'covers', '6650', 'km']
        >>> tokenize("ナイル川", "ja")
        ['ナ', 'イ', 'ル', '川']
    """
    folded = fold(text)
    if language is None:
        return _BY_SCRIPT.findall(folded)
    return split_tokens(folded, Language.of(language))


def split_tokens(folded: str, entry: Language) -> list[str]:
    """Return the tokens of a text that :func:`fold` returned."""
    return _CHARACTERS.findall(folded) if entry.tokens == "character" else folded.split()


def token_runs(text: str, language: str | Language | None) -> list[list[str]]:
    """Return the tokens of a text, with one list for each stretch without spaces or punctuation.

    Args:
        text: Text to split.
        language: Language of the text; ``None`` if the script decides, as for :func:`tokenize`.

    Example:
        >>> token_runs("ナイル川, Nile", "ja")
        [['ナ', 'イ', 'ル', '川'], ['nile']]
    """
    by_script = language is None or Language.of(language).tokens == "character"
    find = (_BY_SCRIPT if language is None else _CHARACTERS).findall
    return [find(run) if by_script else [run] for run in fold(text).split()]


@lru_cache(maxsize=8192)
def fold(text: str) -> str:
    """Return a text with folded case, digits and width, and with spaces in place of punctuation."""
    return _fold_by(_FOLD, nfc(text))


def _fold_by(table: _Fold, text: str) -> str:
    """Replace each character of an NFC-normalised text with its folded form, and fold the case.

    Args:
        table: The folded form of each character.
        text: The NFC-normalised text.
    """
    if text.isascii():
        return text.translate(table).casefold()
    try:
        # Translating bytes takes a fraction of the time.
        folded = text.encode(_LATIN).translate(table.by_byte, _SOFT_HYPHEN)
    except UnicodeEncodeError:
        return _LOOSE_MARKS.sub("", nfc(text.translate(table).casefold()))
    # The encoding has neither marks nor letters that compose.
    return folded.decode(_LATIN).casefold()


SENTENCE_MARK = "\x1e"
"""Control character between the sentences of a folded text; it counts as a blank."""


def fold_sentences(sentences: Iterable[str]) -> str:
    """Fold sentences that are already in NFC, and join them with :data:`SENTENCE_MARK`."""
    return _fold_by(_FOLD_SENTENCES, SENTENCE_MARK.join(sentences))


def is_blank(character: str) -> bool:
    """Return whether the folded form of a character is a blank."""
    return _FOLD[ord(character)] == " "


_LATIN = "cp1252"
_SOFT_HYPHEN = "\u00ad".encode(_LATIN)  # the only character of the encoding that is deleted


class _Fold(dict[int, str]):
    """A table for :meth:`str.translate` that folds characters; filled as they are looked up."""

    @cached_property
    def by_byte(self) -> bytes:
        """The folded forms of the characters of Windows-1252, for :meth:`bytes.translate`."""
        characters = bytes(range(256)).decode(_LATIN, "replace")
        return "".join([self[ord(character)] or " " for character in characters]).encode(_LATIN)

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


_ZERO_WIDTH_SPACE = "\u200b"  # separates words in Thai
_INVISIBLE = "\u0640\u20e3\ufe0e\ufe0f"  # Arabic tatweel, keycap, emoji and text presentation
_FOLD = _Fold()
_FOLD_SENTENCES = _Fold({ord(SENTENCE_MARK): SENTENCE_MARK})
# A search for a set of characters is fast, so the blank before it is checked afterwards.
_LOOSE_MARKS = re.compile(r"[^\w\s](?<!\S.)[^\w\s]*")
_CHARACTERS = re.compile(
    rf"[{UNSPACED}][^\w\s]*|(?:[0-9a-z\u00df-\u024f\u1e00-\u1eff][^\w\s]*)+|\w[^\w\s]*"
)
_BY_SCRIPT = re.compile(rf"[{UNSPACED}][^\w\s]*|[^\s{UNSPACED}]+")
