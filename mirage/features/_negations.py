"""Sentences that say of a passage's sentence the opposite: a negation more, or one less."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from mirage.languages import Language
from mirage.text import split_sentences
from mirage.text.lexicon import lexicon
from mirage.text.mentions import bare
from mirage.text.words import IN_WORD

__all__ = ["negates", "negation_faults"]

CARRIED = 0.6
"""Share of a sentence's tokens that a passage's sentence holds if it is taken from it."""

LONGEST = 3
"""Tokens that differ at a place where only a negation differs, at most."""


SHORTEST = 4
"""Words or pairs of characters that a sentence has, to be compared."""


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
        held = _held(text[start:end], code)
        for sentence in _nearest(held, sources):
            tokens, source = _tokens(text[start:end], code), _tokens(sentence, code)
            if any(token.negates for token in (*tokens, *source)):
                for first, last in _differences(tokens, source, code):
                    yield start + first, start + last


def negates(text: str, code: str) -> bool:
    """Return whether a text has a negation, as a word or as part of one."""
    return any(token.negates for token in _tokens(text, code))


def _nearest(held: frozenset[str], sources: Sequence[tuple[frozenset[str], str]]) -> Iterator[str]:
    """The sentences that this one is taken from, or that are taken up in it; two at most."""
    near = []
    for words, sentence in sources:
        shorter = min(len(words), len(held))
        shared = len(words & held) if shorter >= SHORTEST else 0
        if shared and shared >= CARRIED * shorter:
            near.append((shared, sentence))
    yield from (sentence for _, sentence in sorted(near, reverse=True)[:2])


def _differences(
    tokens: Sequence[_Token], source: Sequence[_Token], code: str
) -> Iterator[tuple[int, int]]:
    """The places between shared stretches at which one side negates and the other does not."""
    matcher = SequenceMatcher(
        None, [t.text for t in tokens], [t.text for t in source], autojunk=False
    )
    codes = matcher.get_opcodes()
    scale = 2 if Language.of(code).tokens == "character" else 1
    shortest, most = 2 * scale, LONGEST * scale
    for place, (tag, a, b, c, d) in enumerate(codes):
        if tag == "equal" or b - a > most or d - c > most:
            continue
        before = codes[place - 1][2] - codes[place - 1][1] if place else 0
        behind = codes[place + 1][2] - codes[place + 1][1] if place + 1 < len(codes) else 0
        if before + behind < 2 * shortest or (before and before < shortest - 1):
            continue
        ours = sum(token.negates for token in tokens[a:b])
        theirs = sum(token.negates for token in source[c:d])
        # Besides the negation both say about as much; at an end nothing more may be said.
        more, less = (b - a - ours, d - c - theirs) if ours else (d - c - theirs, b - a - ours)
        fits = more <= less + (1 if before and behind else 0) * scale
        if fits and bool(ours) != bool(theirs):
            first, last = (a, b) if ours else (max(a - 1, 0), min(b + 1, len(tokens)))
            yield tokens[first].start, tokens[last - 1].end


@lru_cache(maxsize=2048)
def _sentences(passage: str, code: str) -> tuple[tuple[frozenset[str], str], ...]:
    return tuple((_held(sentence, code), sentence) for sentence in split_sentences(passage, code))


def _held(text: str, code: str) -> frozenset[str]:
    """The words of a sentence, or its pairs of characters where no space parts words."""
    parts = _pattern(code).findall(text.casefold())
    if Language.of(code).tokens == "character":
        return frozenset(map("".join, pairwise(parts)))
    return frozenset(parts)


def _pattern(code: str) -> re.Pattern[str]:
    return _CHARACTER if Language.of(code).tokens == "character" else _WORD


@lru_cache(maxsize=1024)
def _tokens(text: str, code: str) -> tuple[_Token, ...]:
    whole, stretches = _negations(code)
    marked = [match.span() for match in stretches.finditer(text.casefold())] if stretches else []
    return tuple(
        _Token(
            bare(match[0].casefold()),
            match.start(),
            match.end(),
            bool(whole and whole.fullmatch(match[0].casefold()))
            or any(start < match.end() and match.start() < end for start, end in marked),
        )
        for match in _pattern(code).finditer(text)
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
