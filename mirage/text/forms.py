"""The sentences, tokens and stems of a text, which several features need.

Folding a text character by character is slow, so all three are derived from one folded copy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from string import digits
from typing import NamedTuple

from mirage.languages import Language
from mirage.text._unicode import nfc
from mirage.text.mentions import stems
from mirage.text.numbers import without_numbers
from mirage.text.sentences import all_sentence_spans
from mirage.text.tokens import (
    SENTENCE_MARK,
    fold,
    fold_sentences,
    is_blank,
    split_tokens,
)

__all__ = ["TextForm", "text_form"]


class TextForm(NamedTuple):
    """The sentences, tokens and stems of a text.

    Tokens and stems are joined by spaces. One string takes less memory than a list of strings, and
    the garbage collector does not have to visit it.

    Attributes:
        tokens: The tokens that :func:`mirage.text.tokenize` returns.
        stems: The stems of the tokens of the text, without numbers.
        sentence_stems: The stems of the tokens of each sentence, without numbers, as one string
            that :meth:`by_sentence` splits.
        is_split: Whether the stems of the sentences, taken together, equal the stems of the text.
    """

    tokens: str
    stems: str
    sentence_stems: str
    is_split: bool

    def by_sentence(self) -> list[list[str]]:
        """Return the stems of each sentence."""
        if not self.sentence_stems:
            return []
        return [part.split() for part in self.sentence_stems[1:].split(SENTENCE_MARK)]


@lru_cache(maxsize=4096)
def text_form(text: str, entry: Language) -> TextForm:
    """Split a text into tokens, and compute stems for the whole text and for each sentence.

    Args:
        text: The text.
        entry: The language of the text.

    Example:
        >>> form = text_form("Dr. Livingstone came. He saw 2 km of rapids.", Language.of("en"))
        >>> form.tokens
        'dr livingstone came he saw 2 km of rapids'
        >>> form.by_sentence()
        [['dr', 'livingstone', 'came'], ['he', 'saw', 'km', 'of', 'rapids']]
    """
    normal = nfc(text)
    spans = all_sentence_spans(normal, entry)
    sentences = [normal[start:end] for start, end in spans]
    if normal == text and _are_separate(text, spans):
        folded = fold_sentences(sentences)
        if folded.isascii() or _MARKED_DIGIT.search(folded) is None:
            marked = _join_tokens(folded.replace(SENTENCE_MARK, f" {_BORDER} "), entry)
            parts = _split_at_borders(_join_stems(_blank_digits(marked), entry))
            tokens = _join(_split_at_borders(marked))
            return TextForm(tokens, _join(parts), _mark(parts), is_split=True)
    plain, *parts = [fold(without_numbers(part)) for part in (text, *sentences)]
    plain, *parts = [_join_stems(_join_tokens(part, entry), entry) for part in (plain, *parts)]
    return TextForm(_join_tokens(fold(text), entry), plain, _mark(parts), is_split=False)


def _join_tokens(folded: str, entry: Language) -> str:
    """Return the tokens of a folded text, joined by spaces."""
    return " ".join(split_tokens(folded, entry))


def _join_stems(tokens: str, entry: Language) -> str:
    """Return the stems of tokens that are separated by spaces, joined by single spaces."""
    words = tokens.split()
    has_accents = entry.script == "Latin" or entry.prefixes or _ACCENT.search(tokens)
    return " ".join(stems(words, entry) if has_accents else words)


_BORDER = "A"  # between sentences; a token of its own, because a folded text has no capitals


def _split_at_borders(marked: str) -> list[str]:
    return [part.strip() for part in marked.split(_BORDER)]


# A character that may differ in a stem. A folded text is in NFC, and stems keep the marks of Indian
# scripts and Thai.
_ACCENT = re.compile("[^\x00-\x7f\u0900-\u1aaf\u3005\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]")


def _join(parts: Sequence[str]) -> str:
    return " ".join(filter(None, parts))


def _mark(parts: Sequence[str]) -> str:
    """Join texts with a mark before each, so that an empty text differs from a missing one."""
    return "".join([f"{SENTENCE_MARK}{part}" for part in parts])


def _blank_digits(folded: str) -> str:
    """Return a folded text with a space in place of each digit."""
    for digit in digits:  # replacing one character after another is faster than a pattern
        folded = folded.replace(digit, " ")
    return folded


# If a number is replaced with a blank, a combining mark after it has no letter to belong to.
_MARKED_DIGIT = re.compile(r"[0-9][^\w\s]")
_NUMBER_MARKS = frozenset(".,٫٬'’")


def _are_separate(text: str, spans: Sequence[tuple[int, int]]) -> bool:
    """Return whether no token and no number extends over more than one sentence.

    The result is also ``False`` if a part of the text is in no sentence, or if the text contains
    :data:`SENTENCE_MARK`.
    """
    if not spans or SENTENCE_MARK in text:
        return False
    before = 0
    for start, end in spans:
        if before:
            gap, last, first = text[before:start], text[before - 1], text[start]
            if not (gap.isspace() if gap else is_blank(last)):
                return False
            if first.isdecimal() and (last.isdecimal() or last in _NUMBER_MARKS):
                return False
        elif text[:start].strip():
            return False
        before = end
    return not text[before:].strip()
