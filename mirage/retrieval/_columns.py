"""Sum columns of an inverted index into passage scores, with numba if there are many questions.

The columns are memory-mapped from files, which could change while the index is open. Each column
is therefore checked when it is added: a row out of range would write outside the scores array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import are_within
from mirage.errors import DatasetError

WIDE = 8
"""A column with an entry for at least 1 in 8 passages is faster to add as a dense row."""

ROOM = 2**26
"""Most bytes that the dense rows may take."""

Scores = NDArray[np.float32]
Integers = NDArray[np.int64]
Add = Callable[[Scores, Integers], None]
"""A function that adds the numbered columns, in order, to the scores of all passages.

It raises a DatasetError if a column is damaged.
"""


class Columns(NamedTuple):
    """An inverted index: term ``i`` adds ``impacts[starts[i]:starts[i + 1]]`` to its ``rows``."""

    starts: Integers
    rows: NDArray[np.int32]
    impacts: Scores

    def column(self, number: int, size: int) -> tuple[NDArray[np.int32], Scores]:
        """Return the rows and impacts of a column after checking them."""
        begin, end = self.starts[number], self.starts[number + 1]
        rows, impacts = self.rows[begin:end], self.impacts[begin:end]
        sound = 0 <= begin <= end <= len(self.rows) and are_within(rows, size)
        if not sound or (len(impacts) and not (impacts.min() >= 0 and impacts.max() < np.inf)):
            raise _damage_error(number)
        return rows, impacts


def _damage_error(number: int) -> DatasetError:
    return DatasetError(
        f"column {number} of the BM25 index is damaged; delete the index and build it again"
    )


def numpy_adder(columns: Columns) -> Add:
    """Return a function that adds columns with numpy."""

    def add(scores: Scores, numbers: Integers) -> None:
        for number in numbers.tolist():
            np.add.at(scores, *columns.column(number, len(scores)))  # faster than +=

    return add


def compiled_adder(columns: Columns, size: int, question_columns: Sequence[Integers]) -> Add:
    """Return a function that adds columns with numba, with the same sums as numpy.

    Compiling takes a second or two. If numba is not installed, return the function of
    :func:`numpy_adder`. The longest columns that several questions share are stored as dense rows,
    with 0 for passages without the term.
    """
    kernel = _kernel()
    if kernel is None:
        return numpy_adder(columns)
    slots, dense = _dense_rows(columns, size, question_columns)

    def add(scores: Scores, numbers: Integers) -> None:
        damaged = kernel(scores, *columns, numbers, slots, dense)
        if damaged >= 0:
            raise _damage_error(damaged)

    return add


def _dense_rows(
    columns: Columns, size: int, question_columns: Sequence[Integers]
) -> tuple[Integers, Scores]:
    """Return the dense row of each column, and the matrix of dense rows, one entry per passage.

    The row is -1 if the column has no dense row.
    """
    slots = np.full(len(columns.starts) - 1, -1)
    # The empty slice keeps np.concatenate from failing if there is no question.
    numbers, counts = np.unique(np.concatenate([*question_columns, slots[:0]]), return_counts=True)
    lengths = columns.starts[numbers + 1] - columns.starts[numbers]
    wide = np.flatnonzero((lengths * WIDE >= size) & (counts > 1))
    most = wide[np.argsort(-(lengths * counts)[wide], kind="stable")][: ROOM // (4 * size)]
    dense = np.zeros((len(most), size), np.float32)
    for slot, number in enumerate(numbers[most].tolist()):
        rows, impacts = columns.column(number, size)
        dense[slot, rows] = impacts
        slots[number] = slot
    return slots, dense


@cache
def _kernel() -> Any:
    """Return the compiled function; it returns -1, or the number of the first damaged column."""
    try:
        from numba import njit
    except ImportError:
        return None

    def add(
        scores: Any, starts: Any, rows: Any, impacts: Any, numbers: Any, slots: Any, dense: Any
    ) -> int:
        size, total = len(scores), min(len(rows), len(impacts))
        for number in numbers:
            slot = slots[number]
            if slot >= 0:
                scores += dense[slot]
                continue
            begin, end = starts[number], starts[number + 1]
            if begin < 0 or end > total:
                return int(number)
            for entry in range(begin, end):
                row, impact = rows[entry], impacts[entry]
                if row < 0 or row >= size or not 0 <= impact < np.inf:
                    return int(number)
                scores[row] += impact
        return -1

    return njit(add)
