"""Computation of BM25 scores from an inverted index, with numba if there are many questions.

The index has one column per term. A column lists the passages that contain the term, and the amount
that the term adds to the score of each. Columns are memory-mapped from files, which could change
while the index is open. Each column is therefore checked when it is added to the scores: a passage
row that is out of range would make the program write outside of the array.

Sums of floats depend on the order of addition. Every function here adds the columns of a question
in the order of its terms, so all of them compute identical scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage.errors import DatasetError

WIDE = 8
"""Columns with entries for at least 1 in 8 passages are faster to add as dense arrays."""

ROOM = 2**26
"""The maximum number of bytes of all dense arrays together."""

JOINED = 2**11
"""Columns with fewer entries than this on average are joined and added with one call of numpy.

Joining copies the entries, so it saves no time for longer columns.
"""

_INFINITY = np.float32(np.inf).view(np.uint32)

Scores = NDArray[np.float32]
Integers = NDArray[np.int64]
Sum = Callable[[Scores, Sequence[int]], None]
"""A function that sums columns of the index, in the given order.

Its arguments are an array for the scores of all passages, which is overwritten, and the indices of
columns. It raises a DatasetError if a column is damaged.
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

    def add(self, scores: Scores, numbers: Sequence[int]) -> None:
        """Add the entries of columns to scores, in place and in the given order.

        Args:
            scores: The scores of all passages.
            numbers: The indices of the columns, counted from 0; at least one.

        Raises:
            DatasetError: A column is damaged.
        """
        starts, rows, impacts = self
        positive_rows = rows.view(np.uint32)  # negative rows become larger than any size
        size = min(len(rows), len(impacts))
        row_parts, impact_parts, entries = [], [], 0
        for number in numbers:
            begin, end = starts.item(number), starts.item(number + 1)
            if not 0 <= begin <= end <= size:
                raise _damage_error(number)
            row_parts.append(positive_rows[begin:end])
            impact_parts.append(impacts[begin:end])
            entries += end - begin
        if len(numbers) > 1 and entries < JOINED * len(numbers):
            joined = np.concatenate(row_parts, dtype=np.intp, casting="unsafe")
            if _add_entries(scores, joined, np.concatenate(impact_parts)):
                return
            scores = np.zeros_like(scores)  # find the damaged column
        for number, part, values in zip(numbers, row_parts, impact_parts, strict=True):
            if not _add_entries(scores, part.astype(np.intp), values):
                raise _damage_error(number)


def _add_entries(scores: Scores, rows: NDArray[np.intp], impacts: Scores) -> bool:
    """Add impacts to the scores of rows, in place, and return whether all of them are valid."""
    # As unsigned integers, the bits of negative, infinite and NaN impacts are at least those of
    # infinity.
    if len(impacts) and np.maximum.reduce(impacts.view(np.uint32)) >= _INFINITY:
        return False
    try:
        np.add.at(scores, rows, impacts)  # faster than +=, and faster than with other integers
    except IndexError:
        return False
    return True


def _damage_error(number: int) -> DatasetError:
    return DatasetError(
        f"column {number} of the BM25 index is damaged; delete the index and build it again"
    )


def numpy_sum(columns: Columns, size: int) -> Sum:
    """Return a function that sums columns of an index with numpy.

    The longest columns are copied to dense arrays when they are first used. A dense array has one
    entry per passage, which is 0 if the passage lacks the term.

    Args:
        columns: The inverted index.
        size: The number of passages.
    """
    return _sum(columns, size, columns.add)


def compiled_sum(columns: Columns, size: int) -> Sum:
    """Return a function that sums columns of an index with numba.

    The sums are the same as with numpy. Compiling takes about a second. The longest columns are
    copied as in :func:`numpy_sum`. If numba is not installed, the result of :func:`numpy_sum` is
    returned.

    Args:
        columns: The inverted index.
        size: The number of passages.
    """
    kernel = _kernel()
    if kernel is None:
        return numpy_sum(columns, size)
    starts, rows, impacts = columns
    arrays = (starts, rows.view(np.uint32), impacts, impacts.view(np.uint32))

    def add(scores: Scores, numbers: Sequence[int]) -> None:
        added = kernel(scores, np.array(numbers, np.int64), *arrays)
        if added < len(numbers):
            raise _damage_error(numbers[added])

    return _sum(columns, size, add)


def _sum(columns: Columns, size: int, add: Callable[[Scores, Sequence[int]], None]) -> Sum:
    """Return a function that sums columns, and that keeps dense copies of the longest ones.

    Args:
        columns: The inverted index.
        size: The number of passages.
        add: A function that adds columns to scores, in place and in the given order.
    """
    wide = _wide_columns(columns, size)
    copies: dict[int, Scores] = {}

    def dense(number: int) -> Scores:
        if number not in copies:
            copy = np.zeros(size, np.float32)
            add(copy, [number])
            copies[number] = copy
        return copies[number]

    def sum_up(scores: Scores, numbers: Sequence[int]) -> None:
        order = list(numbers)
        if len(order) > 1 and order[1] in wide:
            order[:2] = order[1], order[0]  # the sum of two floats does not depend on their order
        if order and order[0] in wide:
            np.copyto(scores, dense(order.pop(0)))
        else:
            scores.view(np.uint8).fill(0)  # twice as fast as filling an array of floats
        waiting: list[int] = []
        for number in order:
            if number not in wide:
                waiting.append(number)
                continue
            if waiting:
                add(scores, waiting)
                waiting = []
            scores += dense(number)
        if waiting:
            add(scores, waiting)

    return sum_up


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
