"""Where a text mentions candidate answers, with the exact place of each mention."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from mirage.languages import Language
from mirage.text._folding import fold
from mirage.text.mentions import MENTIONED_AT, mention
from mirage.text.sentences import sentence_pieces
from mirage.text.words import IN_WORD

__all__ = ["Forms", "Place", "Span", "best_places", "locate", "sentence_spans"]

Forms = tuple[str, ...]
Span = tuple[int, int]


class Place(NamedTuple):
    """Where a text mentions a candidate, and whether it does so letter by letter."""

    start: int
    end: int
    verbatim: bool
    candidate: int = 0


_WORDS = re.compile(rf"[{IN_WORD}]+(?:[.,:٫٬/-][{IN_WORD}]+)*")
_CHARACTERS = re.compile(r"[0-9a-z\u00df-\u024f]+(?:[.,:/-][0-9]+)*|\w[^\w\s]?")


@lru_cache(maxsize=4096)
def locate(forms: Forms, text: str, language: str) -> tuple[Place, ...]:
    """Return the places at which a text mentions a short answer in one of its forms.

    The text has to be in NFC. Places do not overlap.
    """
    entry = Language.of(language)
    places = [
        Place(start + first, start + last, verbatim)
        for start, end in sentence_spans(text, language)
        for form in forms
        if mention(form, text[start:end], entry) >= MENTIONED_AT
        for first, last, verbatim in _places(form, text[start:end], entry)
    ]
    return tuple(best_places(places))


@lru_cache(maxsize=1024)
def sentence_spans(text: str, language: str) -> tuple[Span, ...]:
    """Return the places of the sentences of a text in NFC."""
    spans, start = [], 0
    for piece in sentence_pieces(text, language):
        spans.append((start, start + len(piece)))
        start += len(piece)
    return tuple(spans) or ((0, len(text)),)


def best_places(places: Iterable[Place]) -> list[Place]:
    """Return the places in order; of overlapping ones a verbatim one, or else the longest."""
    chosen: list[Place] = []
    ranked = sorted(places, key=lambda p: (not p.verbatim, p.start - p.end, p.start, p.candidate))
    for place in ranked:
        if all(place.end <= other.start or place.start >= other.end for other in chosen):
            chosen.append(place)
    return sorted(chosen)


def _places(form: str, sentence: str, entry: Language) -> Iterator[tuple[int, int, bool]]:
    """The places of one form in a sentence that mentions it, verbatim or nearly so."""
    verbatim = [(start, end, True) for start, end in _verbatim(form, sentence, entry)]
    yield from verbatim or ((*span, False) for span in _nearest(form, sentence, entry))


def _verbatim(form: str, sentence: str, entry: Language) -> Iterator[Span]:
    folded = fold(sentence)
    for match in _form_pattern(form, entry).finditer(folded.text):
        start, end = folded.offsets[match.start()], folded.offsets[match.end() - 1] + 1
        yield start, end


@lru_cache(maxsize=4096)
def _form_pattern(form: str, entry: Language) -> re.Pattern[str]:
    """A pattern for a form with the ending that a language may add to it."""
    body = r"\s+".join(map(re.escape, fold(form).text.split()))
    if not body:
        return re.compile("(?!)")
    if entry.tokens == "character":
        digits = r"(?<![\d.,])", r"(?![\d]|[.,]\d)"
        before = digits[0] if form[0].isdecimal() else ""
        return re.compile(before + body + (digits[1] if form[-1].isdecimal() else ""))
    prefixes = rf"(?:{entry.prefixes})?" if entry.prefixes else ""
    after = r"(?![\d]|[.,]\d)" if form[-1].isdecimal() else ""
    return re.compile(rf"(?<![{IN_WORD}])(?<!\d[.,]){prefixes}{body}{after}[{IN_WORD}]*")


def _nearest(form: str, sentence: str, entry: Language) -> Iterator[Span]:
    """The shortest runs of words that mention a form; a mention grows with the text."""
    pattern = _CHARACTERS if entry.tokens == "character" else _WORDS
    words = [match.span() for match in pattern.finditer(fold(sentence).text)]
    offsets = fold(sentence).offsets
    words = [(offsets[start], offsets[end - 1] + 1) for start, end in words]

    def mentions(span: Span) -> bool:
        start, end = words[span[0]][0], words[span[1]][1]
        return mention(form, sentence[start:end], entry) >= MENTIONED_AT

    first, final = 0, len(words) - 1
    while first <= final and mentions((first, final)):
        ends = [(first, last) for last in range(first, len(words))]
        last = ends[bisect_left(ends, True, hi=len(ends) - 1, key=mentions)][1]
        starts = [(start, last) for start in range(last, first - 1, -1)]
        start = starts[bisect_left(starts, True, hi=len(starts) - 1, key=mentions)][0]
        yield words[start][0], words[last][1]
        first = last + 1
