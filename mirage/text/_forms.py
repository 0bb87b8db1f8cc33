"""The sentences, tokens and stems of a text, which several features need.

Folding a text character by character is slow, so all of them are derived from one folded copy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from mirage.languages import Language
from mirage.text._unicode import nfc
from mirage.text.mentions import stems
from mirage.text.numbers import without_numbers
from mirage.text.sentences import all_sentence_spans
from mirage.text.tokens import SENTENCE_MARK, fold_sentences, is_blank, split_tokens, tokenize

__all__ = ["TextForm", "text_form"]


class TextForm(NamedTuple):
    """The sentences, tokens and stems of a text.

    Attributes:
        sentences: The sentences, as by :func:`mirage.text.split_sentences`.
        tokens: The tokens, as by :func:`mirage.text.tokenize`.
        sentence_stems: The stems of the tokens of each sentence, without numbers.
        stems: The stems of the tokens of the text, without numbers.
    """

    sentences: tuple[str, ...]
    tokens: Sequence[str]
    sentence_stems: Sequence[Sequence[str]]
    stems: Sequence[str]


@lru_cache(maxsize=4096)
def text_form(text: str, entry: Language) -> TextForm:
    """Return the sentences, tokens and stems of a text.

    Example:
        >>> form = text_form("Dr. Livingstone came. He saw 2 km of rapids.", Language.of("en"))
        >>> form.sentence_stems
        [['dr', 'livingstone', 'came'], ['he', 'saw', 'km', 'of', 'rapids']]
    """
    normal = nfc(text)
    spans = all_sentence_spans(normal, entry)
    sentences = tuple([normal[start:end] for start, end in spans])
    if normal == text and _are_separate(text, spans):
        folded = fold_sentences(sentences)
        if _MARKED_DIGIT.search(folded) is None:
            tokens = split_tokens(folded, entry)
            plain = _DIGITS.sub(" ", folded)
            sentence_stems = [
                stems(split_tokens(part, entry), entry) for part in plain.split(SENTENCE_MARK)
            ]
            return TextForm(
                sentences,
                tokens,
                sentence_stems,
                [stem for part in sentence_stems for stem in part],
            )
    return TextForm(
        sentences,
        tokenize(text, entry),
        [stems(tokenize(without_numbers(part), entry), entry) for part in sentences],
        stems(tokenize(without_numbers(text), entry), entry),
    )


_DIGITS = re.compile("[0-9]+")
# If a number is replaced by a blank, a mark behind it has no letter left.
_MARKED_DIGIT = re.compile(r"[0-9][^\w\s]")
_NUMBER_MARKS = frozenset(".,٫٬'’")


def _are_separate(text: str, spans: Sequence[tuple[int, int]]) -> bool:
    """Return whether no token and no number extends across the border of a sentence.

    It is also false if a part of the text is in no sentence, or if the text has the control
    character that separates folded sentences.
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
