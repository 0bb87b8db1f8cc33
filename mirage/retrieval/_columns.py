"""Adding columns of an inverted index to scores; those of many questions compiled by numba."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Add", "Columns", "adding", "adding_compiled"]

WIDE = 8
"""A column that has one passage in so many, or more, is quicker to add with a place for each."""

ROOM = 2**26
"""Bytes that columns with a place for each passage may take."""

Scores = NDArray[np.float32]
Integers = NDArray[np.int64]
Add = Callable[[Scores, Integers], None]
"""Adds columns, by their numbers and in their order, to the scores of all passages."""


class Columns(NamedTuple):
    """Column ``i`` adds ``impacts[starts[i]:starts[i + 1]]`` to the scores of those ``rows``."""

    starts: Integers
    rows: NDArray[np.int32]
    impacts: Scores


def adding(columns: Columns) -> Add:
    """Adds columns by numpy."""

    def add(scores: Scores, numbers: Integers) -> None:
        for number in numbers.tolist():
            place = slice(columns.starts[number], columns.starts[number + 1])
            np.add.at(scores, columns.rows[place], columns.impacts[place])  # faster than +=

    return add


def adding_compiled(columns: Columns, size: int, asked: Sequence[Integers]) -> Add:
    """As :func:`adding`, compiled by numba, with the same sums; that itself where there is none.

    Compiling takes a second or two.

    Args:
        columns: the columns.
        size: passages.
        asked: the columns that will be added, a question each. Of those that several have, the
            longest are spread: what they lack adds 0.
    """
    kernel = _kernel()
    if kernel is None:
        return adding(columns)
    slots, spread = _spread(columns, size, asked)

    def add(scores: Scores, numbers: Integers) -> None:
        kernel(scores, columns.starts, columns.rows, columns.impacts, numbers, slots, spread)

    return add


def _spread(columns: Columns, size: int, asked: Sequence[Integers]) -> tuple[Integers, Scores]:
    """The row of each column in a matrix with a place for each passage, -1 for none; the matrix."""
    slots = np.full(len(columns.starts) - 1, -1)
    numbers, counts = np.unique(np.concatenate([*asked, slots[:0]]), return_counts=True)
    lengths = columns.starts[numbers + 1] - columns.starts[numbers]
    wide = np.flatnonzero((lengths * WIDE >= size) & (counts > 1))
    most = wide[np.argsort(-(lengths * counts)[wide], kind="stable")][: ROOM // (4 * size)]
    spread = np.zeros((len(most), size), np.float32)
    for slot, number in enumerate(numbers[most].tolist()):
        place = slice(columns.starts[number], columns.starts[number + 1])
        spread[slot, columns.rows[place]] = columns.impacts[place]
        slots[number] = slot
    return slots, spread


@cache
def _kernel() -> Any:
    try:
        from numba import njit
    except ImportError:
        return None

    def add(
        scores: Any, starts: Any, rows: Any, impacts: Any, numbers: Any, slots: Any, spread: Any
    ) -> None:
        for number in numbers:
            slot = slots[number]
            if slot >= 0:
                scores += spread[slot]
            else:
                for place in range(starts[number], starts[number + 1]):
                    scores[rows[place]] += impacts[place]

    return njit(add)
