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
from mirage.text.number_terms import is_number, located_numbers

__all__ = ["Replacement", "replacements"]

SHARED_CONTEXT = {"word": 3, "character": 8}
"""Minimum number of shared tokens before and after a replacement together, by type of token."""

SHORT_ANSWER = {"word": 12, "character": 30}
"""Maximum number of tokens of an answer in which another difference may be beside a number."""

SHORTEST_NAME = 3
"""Minimum number of letters of a name in a short answer; a shorter word may be a unit."""

LONGEST_REPLACEMENT = {"word": 5, "character": 10}
"""Maximum number of tokens of the replaced text and of the new text, by type of token.

Longer differences are differences between unrelated sentences.
"""

MOST_ALIGNED = 1000
"""Maximum number of tokens of an answer to align; alignment takes quadratic time."""


_Step = tuple[str, int, int, int, int]


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
    if not _share_context(reference_tokens, answer_tokens, entry):
        return ()
    steps = SequenceMatcher(None, reference_tokens, answer_tokens, autojunk=False).get_opcodes()
    longest = LONGEST_REPLACEMENT[entry.tokens]
    matches = []
    for step, (kind, first, last, start, end) in enumerate(steps):
        short = max(last - first, end - start) <= longest
        if (
            kind == "replace"
            and short
            and _has_context(reference_tokens, answer_tokens, steps, step, entry)
        ):
            matches.append(
                Replacement(
                    _words(reference_tokens, first, last, entry),
                    _words(answer_tokens, start, end, entry),
                )
            )
    return tuple(matches)


def _has_context(
    reference: Sequence[str],
    answer: Sequence[str],
    steps: Sequence[_Step],
    step: int,
    entry: Language,
) -> bool:
    """Return whether enough words around a difference are the same in both texts.

    It is enough if a short answer is otherwise the same. If one number replaces another, it is also
    enough if a short reference is otherwise the same, and a short answer may have another
    difference nearby.

    Args:
        reference: The tokens of the reference.
        answer: The tokens of the answer.
        steps: The steps of their alignment.
        step: Index of the difference in the steps.
        entry: The language of both texts.
    """
    _, first, last, start, end = steps[step]
    needed = SHARED_CONTEXT[entry.tokens]
    if _shared_around(steps, step) >= needed:
        return True
    rest = len(answer) - (end - start)
    if any(map(is_number, reference[first:last])) and any(map(is_number, answer[start:end])):
        needed = min(needed, rest, len(reference) - (last - first))
        is_short = len(answer) <= SHORT_ANSWER[entry.tokens]
        return _shared_around(steps, step, over_gaps=is_short) >= needed
    has_name = entry.tokens == "word" and max(map(len, answer[start:end])) >= SHORTEST_NAME
    return has_name and 0 < rest <= _shared_around(steps, step)


def _shared_around(steps: Sequence[_Step], step: int, *, over_gaps: bool = False) -> int:
    """Return the number of shared tokens directly before and after a step of an alignment.

    Args:
        steps: The steps of the alignment.
        step: Index of the step.
        over_gaps: Whether to include, on each side, the shared tokens beyond the next difference.
    """
    reach = 3 if over_gaps else 1
    near = steps[max(step - reach, 0) : step + reach + 1]
    return sum(last - first for kind, first, last, _, _ in near if kind == "equal")


def _share_context(reference: Sequence[str], answer: Sequence[str], entry: Language) -> bool:
    """Return whether two texts may have enough words in common around a difference.

    This quick check makes most alignments unnecessary. Long texts need a common run of half of the
    required tokens, because at least half of them must be on one side of the difference. For short
    texts, which may need fewer tokens, the result is always true.
    """
    context, longest = SHARED_CONTEXT[entry.tokens], LONGEST_REPLACEMENT[entry.tokens]
    if len(reference) < context + longest or len(answer) <= max(
        context + longest, SHORT_ANSWER[entry.tokens]
    ):
        return True
    length = (context + 1) // 2
    runs, others = (
        zip(*(tokens[start:] for start in range(length)), strict=False)
        for tokens in (reference, answer)
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
    return (*pairs, *filter(is_number, tokens[start:end]))


@lru_cache(maxsize=4096)
def _tokens(text: str, entry: Language) -> tuple[str, ...]:
    """Return the stems of a text's words; a number is one token, whatever its form."""
    tokens: list[str] = []
    until = 0
    for start, end, term in located_numbers(text, entry.code):
        tokens += [*stems(tokenize(text[until:start], entry), entry), term]
        until = end
    tokens += stems(tokenize(text[until:], entry), entry)
    return tuple(filter(None, tokens))
