"""Adding columns of an inverted index to scores; those of many questions compiled by numba.

The columns come from files, which stay open while they are used. Each span of rows is therefore
checked when it is added: a row out of range would be written outside the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import are_within
from mirage.errors import DatasetError

__all__ = ["Add", "Columns", "adding", "adding_compiled"]

WIDE = 8
"""A column that has one passage in so many, or more, is quicker to add with a place for each."""

ROOM = 2**26
"""Bytes that columns with a place for each passage may take."""

Scores = NDArray[np.float32]
Integers = NDArray[np.int64]
Add = Callable[[Scores, Integers], None]
"""Adds columns, by their numbers and in their order, to the scores of all passages.

Raises DatasetError if a column is damaged.
"""


class Columns(NamedTuple):
    """Column ``i`` adds ``impacts[starts[i]:starts[i + 1]]`` to the scores of those ``rows``."""

    starts: Integers
    rows: NDArray[np.int32]
    impacts: Scores

    def column(self, number: int, size: int) -> tuple[NDArray[np.int32], Scores]:
        """Return the rows and impacts of a column, checked.

        Args:
            number: The number of the column.
            size: The number of passages.

        Raises:
            DatasetError: A row is out of range, or an impact is negative or not finite.
        """
        begin, end = self.starts[number], self.starts[number + 1]
        rows, impacts = self.rows[begin:end], self.impacts[begin:end]
        sound = 0 <= begin <= end <= len(self.rows) and are_within(rows, size)
        if not sound or (len(impacts) and not (impacts.min() >= 0 and impacts.max() < np.inf)):
            raise _damaged(number)
        return rows, impacts


def _damaged(number: int) -> DatasetError:
    return DatasetError(
        f"column {number} of the BM25 index is damaged; delete the index and build it anew"
    )


def adding(columns: Columns) -> Add:
    """Return a function that adds columns by numpy."""

    def add(scores: Scores, numbers: Integers) -> None:
        for number in numbers.tolist():
            np.add.at(scores, *columns.column(number, len(scores)))  # faster than +=

    return add


def adding_compiled(columns: Columns, size: int, asked: Sequence[Integers]) -> Add:
    """Return a function that adds columns with the same sums as :func:`adding`, by numba.

    Compiling takes a second or two. Without numba, the function is that of :func:`adding`.

    Args:
        columns: The columns.
        size: The number of passages.
        asked: The columns that will be added, for each question. The longest of those that several
            questions share are spread: what they lack adds 0.
    """
    kernel = _kernel()
    if kernel is None:
        return adding(columns)
    slots, spread = _spread(columns, size, asked)

    def add(scores: Scores, numbers: Integers) -> None:
        fault = kernel(scores, *columns, numbers, slots, spread)
        if fault >= 0:
            raise _damaged(fault)

    return add


def _spread(columns: Columns, size: int, asked: Sequence[Integers]) -> tuple[Integers, Scores]:
    """Return the row of each column in a matrix with a place for each passage, and the matrix.

    The row is -1 for a column that has none.
    """
    slots = np.full(len(columns.starts) - 1, -1)
    numbers, counts = np.unique(np.concatenate([*asked, slots[:0]]), return_counts=True)
    lengths = columns.starts[numbers + 1] - columns.starts[numbers]
    wide = np.flatnonzero((lengths * WIDE >= size) & (counts > 1))
    most = wide[np.argsort(-(lengths * counts)[wide], kind="stable")][: ROOM // (4 * size)]
    spread = np.zeros((len(most), size), np.float32)
    for slot, number in enumerate(numbers[most].tolist()):
        rows, impacts = columns.column(number, size)
        spread[slot, rows] = impacts
        slots[number] = slot
    return slots, spread


@cache
def _kernel() -> Any:
    """Return the compiled function, which returns the number of a damaged column, or -1."""
    try:
        from numba import njit
    except ImportError:
        return None

    def add(
        scores: Any, starts: Any, rows: Any, impacts: Any, numbers: Any, slots: Any, spread: Any
    ) -> int:
        size, total = len(scores), min(len(rows), len(impacts))
        for number in numbers:
            slot = slots[number]
            if slot >= 0:
                scores += spread[slot]
                continue
            begin, end = starts[number], starts[number + 1]
            if begin < 0 or end > total:
                return int(number)
            for place in range(begin, end):
                row, impact = rows[place], impacts[place]
                if row < 0 or row >= size or not 0 <= impact < np.inf:
                    return int(number)
                scores[row] += impact
        return -1

    return njit(add)
