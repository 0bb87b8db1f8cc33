"""Sentences that recur in most answers of a system, such as a footer that its prompt asks for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

__all__ = ["is_recurring", "recurring_sentences"]

FEWEST_ANSWERS = 10
"""Number of answers below which no sentence is called recurring."""

SHARE = 0.5
"""Smallest share of the answers that contain a recurring sentence."""

FEWEST_CHARACTERS = 8
"""Smallest number of letters and digits of a recurring sentence; "Yes." recurs by chance."""

_END = re.compile(r"[.!?:…。！？：।॥؟۔\n]+")
_WORD = re.compile(r"\w+")


def recurring_sentences(answers: Iterable[str]) -> frozenset[str]:
    """Return the sentences that at least half of the answers contain, without case and marks.

    Questions differ, so a sentence that recurs in most answers is part of a template. Empty if
    there are fewer than ten answers.

    Example:
        >>> answers = [f"It was in {year}. Powered by Acme Search!" for year in range(1900, 1910)]
        >>> sorted(recurring_sentences(answers))
        ['powered by acme search']
    """
    counts: Counter[str] = Counter()
    number = 0
    for answer in answers:
        number += 1
        counts.update(set(_pieces(answer)))
    if number < FEWEST_ANSWERS:
        return frozenset()
    return frozenset(piece for piece, count in counts.items() if count >= SHARE * number)


def is_recurring(text: str, recurring: frozenset[str]) -> bool:
    """Return whether a text consists of sentences that :func:`recurring_sentences` returned."""
    pieces = _pieces(text) if recurring else []
    return bool(pieces) and recurring.issuperset(pieces)


def _pieces(text: str) -> list[str]:
    """Return the folded sentences of a text that are long enough to be compared."""
    pieces = (" ".join(_WORD.findall(piece.casefold())) for piece in _END.split(text))
    return [piece for piece in pieces if len(piece) >= FEWEST_CHARACTERS]
