"""Normal form, line breaks and spaces of Unicode text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

BREAKS = r"\n\r\v\f\x85\u2028\u2029"
BREAK = re.compile(f"[{BREAKS}]")
# Includes the characters without width that models write: writing direction, byte order mark.
SPACE = r" \t\xa0\u3000\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff"
# These characters neither compose with the character before them nor change in NFC: characters
# below U+0300, and Cyrillic letters, punctuation, kana, Han and Hangul.
_BELOW = "\x00-\u02ff"
STABLE = f"{_BELOW}\u0400-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e\u3001-\u3029"
STABLE += "\u3041-\u3096\u309d-\u30fa\u4e00-\u9fff\uac00-\ud7a3"
_ABOVE = re.compile(f"[^{_BELOW}]")  # a single range is searched much faster
_MAY_CHANGE = re.compile(f"[^{STABLE}]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARK_RUN = re.compile(r"([^\w\s\x00-\x7f]{30})")


def nfc(text: str) -> str:
    """Return the text in NFC, without lone surrogates, which libraries in C and Rust reject."""
    above = None if text.isascii() else _ABOVE.search(text)
    if above is None or not _MAY_CHANGE.search(text, above.start()):
        return text
    if _SURROGATE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    # Normalising n combining marks in a row takes time n * n, so longer runs are cut, as in
    # Unicode's Stream-Safe Text Format (UAX 15, section 13). No script writes 30 in a row.
    return "".join(unicodedata.normalize("NFC", part) for part in _MARK_RUN.split(text))


def any_of(words: Iterable[str]) -> str:
    """Return a pattern that matches any of the words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
