"""Computation of BM25 scores from an inverted index, with numba if there are many questions.

The index has one column per term, with the passages that contain the term and what the term adds to
their scores. Columns are memory-mapped from files, which could change while the index is open. Each
column is therefore checked when it is added to the scores: a passage number out of range would make
the program write outside of the array.
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
"""A column with an entry for at least 1 in 8 passages is faster to add as a dense array."""

ROOM = 2**26
"""Most bytes that the dense arrays may take together."""

Scores = NDArray[np.float32]
Integers = NDArray[np.int64]
Add = Callable[[Scores, Integers], None]
"""A function of the scores of all passages and some column numbers.

It adds these columns to the scores, in the order of the numbers, and changes the scores in place.
It raises a DatasetError if a column is damaged.
"""


class Columns(NamedTuple):
    """An inverted index with one column per term.

    The entries of term ``i`` have the positions ``starts[i]`` to ``starts[i + 1] - 1`` in the other
    two arrays: ``rows`` has the numbers of the passages that contain the term, and ``impacts`` what
    the term adds to their scores.
    """

    starts: Integers
    rows: NDArray[np.int32]
    impacts: Scores

    def column(self, number: int, size: int) -> tuple[NDArray[np.int32], Scores]:
        """Return the rows and impacts of a column after checking them.

        Args:
            number: The number of the column.
            size: The number of passages of the index.

        Raises:
            DatasetError: The column is damaged.
        """
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
    """Return a function that adds columns with numba, and gives the same sums as with numpy.

    Compiling takes a second or two. If numba is not installed, the function of :func:`numpy_adder`
    is returned. Long columns that several questions use are copied to dense arrays, with one entry
    per passage and 0 for passages without the term.

    Args:
        columns: The inverted index.
        size: The number of passages.
        question_columns: For each question, the columns that will be added.
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
    """Return dense copies of long columns that several questions use.

    The first value has, for each column, the row of its copy in the matrix, or -1 if it has none.
    The second value is the matrix, of shape ``(copies, passages)``.
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
    """Return the compiled function that adds columns, or ``None`` if numba is not installed.

    The function returns -1, or the number of the first damaged column.
    """
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
