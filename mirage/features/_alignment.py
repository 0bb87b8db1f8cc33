"""What stands in an answer in place of what its reference says, where both say the same around."""

from __future__ import annotations

from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from mirage.languages import Language
from mirage.text import tokenize
from mirage.text.mentions import stem
from mirage.text.numbers import plain_numbers

__all__ = ["Replacement", "replacements"]

AROUND = {"word": 3, "character": 8}
"""Tokens beside a replacement that reference and answer share, at least, on both sides together."""

LONGEST = {"word": 5, "character": 10}
"""Tokens on either side of a replacement, at most; longer ones are other sentences."""

ALIGNED = 1000
"""Tokens of an answer that are aligned, at most."""


class Replacement(NamedTuple):
    """Words, or pairs of characters, of a reference, and what an answer says in their place."""

    before: tuple[str, ...]
    instead: tuple[str, ...]


@lru_cache(maxsize=4096)
def replacements(reference: str, answer: str, code: str) -> tuple[Replacement, ...]:
    """The few words of a reference in whose place an answer has others, between words of both.

    The alignment is that of Ratcliff and Obershelp, of :mod:`difflib`.
    """
    entry = Language.of(code)
    told, said = _tokens(reference, entry), _tokens(answer, entry)[:ALIGNED]
    steps = SequenceMatcher(None, told, said, autojunk=False).get_opcodes()
    found = []
    for place, (kind, *span) in enumerate(steps):
        around = sum(
            b - a
            for k, a, b, _, _ in (*steps[max(place - 1, 0) : place], *steps[place + 1 :][:1])
            if k == "equal"
        )
        first, last, start, end = span
        short = max(last - first, end - start) <= LONGEST[entry.tokens]
        if kind == "replace" and short and around >= AROUND[entry.tokens]:
            found.append(
                Replacement(_words(told, first, last, entry), _words(said, start, end, entry))
            )
    return tuple(found)


def _words(tokens: tuple[str, ...], start: int, end: int, entry: Language) -> tuple[str, ...]:
    """The tokens; of characters, all pairs that one of them is in, and numbers."""
    if entry.tokens == "word":
        return tokens[start:end]
    near = tokens[max(start - 1, 0) : end + 1]
    pairs = (f"{a}{b}" for a, b in pairwise(near))
    return (*pairs, *filter(str.isdecimal, tokens[start:end]))


@lru_cache(maxsize=4096)
def _tokens(text: str, entry: Language) -> tuple[str, ...]:
    tokens = (stem(token, entry) for token in tokenize(plain_numbers(text), entry))
    return tuple(token for token in tokens if token)
