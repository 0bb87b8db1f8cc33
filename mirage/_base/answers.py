"""Notes on answers that are empty or were cut off, so that their scores are not misread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class _Answer(Protocol):
    @property
    def text(self) -> str | None: ...
    @property
    def cut_off(self) -> bool: ...


def incomplete_note(answers: Iterable[_Answer]) -> str:
    """Return how many answers were cut off or are empty, as a phrase; empty if none is.

    An empty answer that was cut off counts as cut off. Failures are not counted.
    """
    texts = [answer for answer in answers if answer.text is not None]
    cut_off = sum(answer.cut_off for answer in texts)
    empty = sum(not (answer.text or "").strip() and not answer.cut_off for answer in texts)
    parts = []
    if cut_off:
        parts.append(f"{cut_off} of {len(texts)} answers end at the limit on their length")
    if empty:
        parts.append(f"{empty} of {len(texts)} answers are empty")
    return "; ".join(parts)
