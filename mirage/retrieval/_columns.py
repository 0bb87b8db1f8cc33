"""Computation of BM25 scores from an inverted index, with numba if there are many questions.

The index has one column per term. A column lists the passages that contain the term, and the amount
that the term adds to the score of each. Columns are memory-mapped from files, which could change
while the index is open. Each column is therefore checked when it is added to the scores: a passage
row that is out of range would make the program write outside of the array.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage.errors import DatasetError

WIDE = 8
"""Columns with entries for at least 1 in 8 passages are faster to add as dense arrays."""

ROOM = 2**26
"""The maximum number of bytes of all dense arrays together."""

_INFINITY = np.float32(np.inf).view(np.uint32)

Scores = NDArray[np.float32]
Integers = NDArray[np.int64]
Add = Callable[[Scores, Integers], None]
"""A function that adds columns of the index to scores.

Its arguments are the scores of all passages and the indices of columns. It adds these columns to
the scores in place, in the given order. It raises a DatasetError if a column is damaged.
"""


class Columns(NamedTuple):
    """An inverted index with one column per term.

    The entries of term ``i`` are at the positions ``starts[i]`` to ``starts[i + 1] - 1`` of the
    other two arrays. ``rows`` has the corpus rows of the passages that contain the term, and
    ``impacts`` the amounts that the term adds to the scores of these passages.
    """

    starts: Integers
    rows: NDArray[np.int32]
    impacts: Scores

    def add(self, scores: Scores, number: int) -> None:
        """Add the entries of a column to scores, in place.

        Args:
            scores: The scores of all passages.
            number: The index of the column, counted from 0.

        Raises:
            DatasetError: The column is damaged.
        """
        begin, end = self.starts[number : number + 2].tolist()
        if not 0 <= begin <= end <= min(len(self.rows), len(self.impacts)):
            raise _damage_error(number)
        impacts = self.impacts[begin:end]
        # As unsigned integers, the bits of negative, infinite and NaN impacts are at least those of
        # infinity, and negative rows are larger than any size.
        if end > begin and np.maximum.reduce(impacts.view(np.uint32)) >= _INFINITY:
            raise _damage_error(number)
        try:
            np.add.at(scores, self.rows[begin:end].view(np.uint32), impacts)  # faster than +=
        except IndexError:
            raise _damage_error(number) from None


def _damage_error(number: int) -> DatasetError:
    return DatasetError(
        f"column {number} of the BM25 index is damaged; delete the index and build it again"
    )


def numpy_adder(columns: Columns, size: int) -> Add:
    """Return a function that adds columns of an index to scores with numpy.

    When one of the longest columns is used for the first time, it is copied to a dense array, which
    has one entry per passage and 0 for passages without the term.

    Args:
        columns: The inverted index.
        size: The number of passages.
    """
    wide = _wide_columns(columns, size)
    dense: dict[int, Scores] = {}

    def add(scores: Scores, numbers: Integers) -> None:
        for number in numbers.tolist():
            if number not in wide:
                columns.add(scores, number)
                continue
            if number not in dense:
                filled = np.zeros(size, np.float32)
                columns.add(filled, number)
                dense[number] = filled
            scores += dense[number]

    return add


def compiled_adder(columns: Columns, size: int) -> Add:
    """Return a function that adds columns of an index to scores with numba.

    The sums are the same as with numpy. Compiling takes about a second. The longest columns are
    copied as in :func:`numpy_adder`. If numba is not installed, the result of :func:`numpy_adder`
    is returned.

    Args:
        columns: The inverted index.
        size: The number of passages.
    """
    kernel = _kernel()
    if kernel is None:
        return numpy_adder(columns, size)
    starts, rows, impacts = columns
    arrays = (starts, rows.view(np.uint32), impacts, impacts.view(np.uint32))
    wide = _wide_columns(columns, size)
    dense: dict[int, Scores] = {}

    def add(scores: Scores, numbers: Integers) -> None:
        added = 0
        for i, number in enumerate(numbers.tolist()):
            if number in wide:
                add_all(scores, numbers[added:i])
                if number not in dense:
                    dense[number] = np.zeros(size, np.float32)
                    add_all(dense[number], numbers[i : i + 1])
                scores += dense[number]
                added = i + 1
        add_all(scores, numbers[added:])

    def add_all(scores: Scores, numbers: Integers) -> None:
        added = kernel(scores, numbers, *arrays)
        if added < len(numbers):
            raise _damage_error(int(numbers[added]))

    return add


def _wide_columns(columns: Columns, size: int) -> frozenset[int]:
    """Return the indices of the longest columns, which are worth copying to dense arrays.

    Each of these columns has entries for at least 1 in :data:`WIDE` of the ``size`` passages. Their
    dense arrays take at most :data:`ROOM` bytes together.
    """
    lengths = np.diff(columns.starts)
    numbers = np.flatnonzero(lengths * WIDE >= size)
    longest = numbers[np.argsort(-lengths[numbers], kind="stable")]
    return frozenset(longest[: ROOM // (4 * size)].tolist())


@cache
def _kernel() -> Any:
    """Return the compiled function that adds columns, or ``None`` if numba is not installed.

    Its arguments are the scores, the indices of the columns, and four arrays of the index: the
    starts, the rows, the impacts, and the impacts as integers with the same bits. It returns the
    number of columns that it added before it found a damaged one.
    """
    try:
        from numba import njit
    except ImportError:
        return None
    infinity = _INFINITY

    def add(scores: Any, numbers: Any, starts: Any, rows: Any, impacts: Any, bits: Any) -> int:
        # Comparing integers is faster than comparing floats. As unsigned integers, negative rows
        # are larger than any size, and the bits of negative, infinite and NaN impacts are at least
        # those of infinity.
        size = np.uint32(len(scores))
        for i in range(len(numbers)):
            begin, end = starts[numbers[i]], starts[numbers[i] + 1]
            if not 0 <= begin <= end <= len(rows):
                return i
            highest = np.uint32(0)
            for entry in range(begin, end):
                row = rows[entry]
                if row >= size:
                    return i
                highest = max(highest, bits[entry])
                scores[row] += impacts[entry]
            if highest >= infinity:
                return i
        return len(numbers)

    return njit(add)
