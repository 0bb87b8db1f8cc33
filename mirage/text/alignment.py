"""Find the words of a reference that an answer replaces with others in the same context."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from mirage.languages import Language
from mirage.text import tokenize
from mirage.text.mentions import stems
from mirage.text.numbers import plain_numbers

__all__ = ["Replacement", "replacements"]

SHARED_CONTEXT = {"word": 3, "character": 8}
"""Minimum number of shared tokens before and after a replacement together, by type of token."""

LONGEST_REPLACEMENT = {"word": 5, "character": 10}
"""Maximum number of tokens of the replaced text and of the new text, by type of token.

Longer differences are differences between unrelated sentences.
"""

MOST_ALIGNED = 1000
"""Maximum number of tokens of an answer to align; alignment takes quadratic time."""


class Replacement(NamedTuple):
    """Words of a reference that an answer replaces with other words.

    In languages whose tokens are characters, the words are pairs of neighbouring characters.

    Attributes:
        before: Words of the reference.
        instead: Words of the answer in their place.
    """

    before: tuple[str, ...]
    instead: tuple[str, ...]


@lru_cache(maxsize=4096)
def replacements(reference: str, answer: str, code: str) -> tuple[Replacement, ...]:
    """Return the words of a reference that an answer replaces, and the words in their place.

    Only short differences count, and only if both texts have the same words around them. The
    alignment uses the algorithm of Ratcliff and Obershelp (:mod:`difflib`).

    Args:
        reference: The reference answer.
        answer: The answer to compare with it.
        code: ISO 639-1 code of the language of both texts.
    """
    entry = Language.of(code)
    reference_tokens, answer_tokens = (
        _tokens(reference, entry),
        _tokens(answer, entry)[:MOST_ALIGNED],
    )
    if not _share_context(reference_tokens, answer_tokens, SHARED_CONTEXT[entry.tokens]):
        return ()
    steps = SequenceMatcher(None, reference_tokens, answer_tokens, autojunk=False).get_opcodes()
    matches = []
    for step, (kind, first, last, start, end) in enumerate(steps):
        if kind != "replace" or max(last - first, end - start) > LONGEST_REPLACEMENT[entry.tokens]:
            continue
        around = sum(
            b - a
            for k, a, b, _, _ in (*steps[max(step - 1, 0) : step], *steps[step + 1 :][:1])
            if k == "equal"
        )
        if around >= SHARED_CONTEXT[entry.tokens]:
            matches.append(
                Replacement(
                    _words(reference_tokens, first, last, entry),
                    _words(answer_tokens, start, end, entry),
                )
            )
    return tuple(matches)


def _share_context(first: Sequence[str], second: Sequence[str], context: int) -> bool:
    """Return whether two texts share a run of tokens that a replacement may have beside it.

    Of ``context`` tokens before and after a replacement, at least half are on one side of it.
    """
    length = (context + 1) // 2
    runs, others = (
        zip(*(tokens[start:] for start in range(length)), strict=False)
        for tokens in (first, second)
    )
    return not set(runs).isdisjoint(others)


def _words(tokens: tuple[str, ...], start: int, end: int, entry: Language) -> tuple[str, ...]:
    """Return the words in a range of tokens.

    In a language whose tokens are single characters, return pairs of neighbouring characters
    instead: every pair with a character in the range, followed by the numbers in the range.
    """
    if entry.tokens == "word":
        return tokens[start:end]
    near = tokens[max(start - 1, 0) : end + 1]
    pairs = (f"{a}{b}" for a, b in pairwise(near))
    return (*pairs, *filter(str.isdecimal, tokens[start:end]))


@lru_cache(maxsize=4096)
def _tokens(text: str, entry: Language) -> tuple[str, ...]:
    return tuple(filter(None, stems(tokenize(plain_numbers(text), entry), entry)))
