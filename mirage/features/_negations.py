"""Sentences that say of a passage's sentence the opposite: a negation more, or one less."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from mirage.languages import Language
from mirage.text import split_sentences
from mirage.text.lexicon import lexicon
from mirage.text.mentions import bare
from mirage.text.words import IN_WORD

__all__ = ["negation_faults"]

CARRIED = 0.6
"""Share of a sentence's tokens that a passage's sentence holds if it is taken from it."""

LONGEST = 3
"""Tokens that differ at a place where only a negation differs, at most."""


class _Token(NamedTuple):
    text: str
    start: int
    end: int
    negates: bool


_WORD = re.compile(rf"[^\W_][{IN_WORD}]*")
_CHARACTER = re.compile(r"[A-Za-z0-9]+|\w[\u0e31\u0e34-\u0e3a\u0e47-\u0e4e]*")


def negation_faults(
    text: str, places: Sequence[tuple[int, int]], passages: Sequence[str], code: str
) -> Iterator[tuple[int, int]]:
    """Where sentences negate what their passage does not, or leave its negation out."""
    sources = [source for passage in passages for source in _sentences(passage, code)]
    for start, end in places:
        tokens = _tokens(text[start:end], code)
        if len(tokens) < 4 or (not any(t.negates for t in tokens) and not sources):
            continue
        held = frozenset(token.text for token in tokens)
        best = max(sources, key=lambda source: len(held & source[0]), default=None)
        if best is None or len(held & best[0]) < CARRIED * len(held):
            continue
        if any(t.negates for t in tokens) or any(t.negates for t in best[1]):
            for first, last in _differences(tokens, best[1]):
                yield start + first, start + last


def _differences(tokens: Sequence[_Token], source: Sequence[_Token]) -> Iterator[tuple[int, int]]:
    """The places between shared stretches at which one side negates and the other does not."""
    matcher = SequenceMatcher(
        None, [t.text for t in tokens], [t.text for t in source], autojunk=False
    )
    codes = matcher.get_opcodes()
    shortest = 2 if len(tokens) == 0 or len(tokens[0].text) > 1 else 4
    most = LONGEST if shortest == 2 else 2 * LONGEST
    for place, (tag, a, b, c, d) in enumerate(codes):
        if tag == "equal" or b - a > most or d - c > most:
            continue
        before = codes[place - 1][2] - codes[place - 1][1] if place else 0
        behind = codes[place + 1][2] - codes[place + 1][1] if place + 1 < len(codes) else 0
        if before + behind < 2 * shortest or (before and before < shortest - 1):
            continue
        ours = sum(token.negates for token in tokens[a:b])
        theirs = sum(token.negates for token in source[c:d])
        if bool(ours) != bool(theirs):
            first, last = (a, b) if ours else (max(a - 1, 0), min(b + 1, len(tokens)))
            yield tokens[first].start, tokens[last - 1].end


@lru_cache(maxsize=2048)
def _sentences(passage: str, code: str) -> tuple[tuple[frozenset[str], tuple[_Token, ...]], ...]:
    pieces = (_tokens(sentence, code) for sentence in split_sentences(passage, code))
    return tuple((frozenset(token.text for token in piece), piece) for piece in pieces)


def _tokens(text: str, code: str) -> tuple[_Token, ...]:
    entry = Language.of(code)
    whole, stretches = _negations(code)
    marked = [match.span() for match in stretches.finditer(text.casefold())] if stretches else []
    pattern = _CHARACTER if entry.tokens == "character" else _WORD
    return tuple(
        _Token(
            bare(match[0].casefold()),
            match.start(),
            match.end(),
            bool(whole and whole.fullmatch(match[0].casefold()))
            or any(start < match.end() and match.start() < end for start, end in marked),
        )
        for match in pattern.finditer(text)
    )


@lru_cache(maxsize=64)
def _negations(code: str) -> tuple[re.Pattern[str] | None, re.Pattern[str] | None]:
    """Patterns of negations: those that are words or parts of them, and those that are stretches.

    A script without spaces between words has the second kind only.
    """
    forms = lexicon(code).negation
    by_length = sorted(forms, key=len, reverse=True)
    if Language.of(code).tokens == "character":
        return None, re.compile("|".join(re.escape(form.strip("*")) for form in by_length))
    words = [form for form in forms if " " not in form]
    alternatives = "|".join(re.escape(form).replace(r"\*", f"[{IN_WORD}]*") for form in words)
    phrases = "|".join(
        rf"(?<![{IN_WORD}]){re.escape(form)}(?![{IN_WORD}])".replace(r"\*", f"[{IN_WORD}]*")
        for form in forms
        if " " in form
    )
    return re.compile(alternatives), re.compile(phrases) if phrases else None
