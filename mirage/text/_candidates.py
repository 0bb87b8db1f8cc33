"""Find the mentions of candidate answers in a text, with their exact offsets.

A candidate answer is a short answer, right or wrong, that a text may give to a question.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from mirage.languages import Language
from mirage.text._folding import fold
from mirage.text._values import equal_spans, form_values
from mirage.text.mentions import MENTIONED_AT, mention
from mirage.text.sentences import sentence_pieces
from mirage.text.words import IN_WORD

__all__ = ["Forms", "Occurrence", "Span", "locate", "select_occurrences", "sentence_spans"]

Forms = tuple[str, ...]
Span = tuple[int, int]


class Occurrence(NamedTuple):
    """The span of a text that mentions a candidate.

    Attributes:
        start: Offset of the first character.
        end: Offset after the last character.
        verbatim: Whether the span contains the candidate letter by letter, apart from case and
            accents.
        ending: Number of letters of the span after the candidate, as in Niger and "Nigeria". They
            may belong to an ending or to another word.
        candidate: Index of the candidate. :func:`locate` always returns 0; callers replace it.
    """

    start: int
    end: int
    verbatim: bool
    ending: int = 0
    candidate: int = 0


_WORDS = re.compile(rf"[{IN_WORD}]+(?:[.,:٫٬/-][{IN_WORD}]+)*")
_CHARACTERS = re.compile(r"[0-9a-z\u00df-\u024f]+(?:[.,:/-][0-9]+)*|\w[^\w\s]?")


@lru_cache(maxsize=4096)
def locate(forms: Forms, text: str, language: str) -> tuple[Occurrence, ...]:
    """Return the spans of a text that mention a candidate answer in one of its spellings.

    Other ways to write the same date, year, amount or name count too, such as ``15.04.1912`` for
    ``15 April 1912``. The spans do not overlap.

    Args:
        forms: Spellings of the candidate.
        text: Text in NFC.
        language: ISO 639-1 code of the text.
    """
    entry = Language.of(language)
    occurrences = [
        Occurrence(start + first, start + last, verbatim, ending)
        for start, end in sentence_spans(text, language)
        for form in forms
        if mention(form, text[start:end], entry) >= MENTIONED_AT
        for first, last, verbatim, ending in _find_form(form, text[start:end], entry)
    ]
    occurrences += (
        Occurrence(start, end, False)
        for value in form_values(forms, language)
        for start, end in equal_spans(value, text, language)
    )
    return tuple(select_occurrences(occurrences))


@lru_cache(maxsize=1024)
def sentence_spans(text: str, language: str) -> tuple[Span, ...]:
    """Return the start and end offset of each sentence of a text in NFC."""
    spans, start = [], 0
    for piece in sentence_pieces(text, language):
        spans.append((start, start + len(piece)))
        start += len(piece)
    return tuple(spans) or ((0, len(text)),)


def select_occurrences(occurrences: Iterable[Occurrence]) -> list[Occurrence]:
    """Select occurrences that do not overlap, and return them in the order of the text.

    If occurrences overlap, the longest verbatim one is kept, or the longest if none is verbatim. If
    they are equally long, the one with the shortest ending is kept.
    """
    chosen: list[Occurrence] = []
    ranked = sorted(
        occurrences,
        key=lambda p: (not p.verbatim, p.start - p.end, p.start, p.ending, p.candidate),
    )
    for occurrence in ranked:
        if all(occurrence.end <= other.start or occurrence.start >= other.end for other in chosen):
            chosen.append(occurrence)
    return sorted(chosen)


def _find_form(form: str, sentence: str, entry: Language) -> Iterator[tuple[int, int, bool, int]]:
    """Yield the span of each mention of one spelling in a sentence.

    After the span follow whether it is verbatim, and the number of letters of its ending.
    Approximate matches are searched for only if there is no verbatim one.
    """
    verbatim = [(*span, True, ending) for span, ending in _find_verbatim(form, sentence, entry)]
    yield from verbatim or ((*span, False, 0) for span in _find_approximate(form, sentence, entry))


def _find_verbatim(form: str, sentence: str, entry: Language) -> Iterator[tuple[Span, int]]:
    folded = fold(sentence)
    for match in _form_pattern(form, entry).finditer(folded.text):
        start, end = folded.offsets[match.start()], folded.offsets[match.end() - 1] + 1
        yield (start, end), len(match["ending"])


@lru_cache(maxsize=4096)
def _form_pattern(form: str, entry: Language) -> re.Pattern[str]:
    """Return a pattern for a spelling, alone or with prefixes and endings of the language."""
    body = r"\s+".join(map(re.escape, fold(form).text.split()))
    if not body:
        return re.compile("(?!)")  # matches nothing
    if entry.tokens == "character":
        # A number must not match inside of a longer number, such as 12 in 3.12 or 120.
        digits = r"(?<![\d.,])", r"(?![\d]|[.,]\d)"
        before = digits[0] if form[0].isdecimal() else ""
        after = digits[1] if form[-1].isdecimal() else ""
        return re.compile(f"{before}{body}{after}(?P<ending>)")
    prefixes = rf"(?:{entry.prefixes})?" if entry.prefixes else ""
    after = r"(?![\d]|[.,]\d)" if form[-1].isdecimal() else ""
    return re.compile(
        rf"(?<![{IN_WORD}])(?<!\d[.,]){prefixes}{body}{after}(?P<ending>[{IN_WORD}]*)"
    )


def _find_approximate(form: str, sentence: str, entry: Language) -> Iterator[Span]:
    """Yield the span of each minimal sequence of words that approximately matches a spelling.

    A sequence is minimal if it does not match without its first or its last word. Both ends are
    found by bisection, which is possible because more words never make the match worse.
    """
    pattern = _CHARACTERS if entry.tokens == "character" else _WORDS
    words = [match.span() for match in pattern.finditer(fold(sentence).text)]
    offsets = fold(sentence).offsets
    words = [(offsets[start], offsets[end - 1] + 1) for start, end in words]

    def is_mentioned_in(span: Span) -> bool:
        start, end = words[span[0]][0], words[span[1]][1]
        return mention(form, sentence[start:end], entry) >= MENTIONED_AT

    # After each match the search continues after it, as long as the rest mentions the form.
    first, final = 0, len(words) - 1
    while first <= final and is_mentioned_in((first, final)):
        ends = [(first, last) for last in range(first, len(words))]
        last = ends[bisect_left(ends, True, hi=len(ends) - 1, key=is_mentioned_in)][1]
        starts = [(start, last) for start in range(last, first - 1, -1)]
        start = starts[bisect_left(starts, True, hi=len(starts) - 1, key=is_mentioned_in)][0]
        yield words[start][0], words[last][1]
        first = last + 1
