"""Adding columns of an inverted index to scores, compiled where numba is installed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Add", "add_columns", "add_columns_compiled"]

Scores = NDArray[np.float32]
Add = Callable[[Scores, NDArray[np.int32], Scores, NDArray[np.int64], NDArray[np.int64]], None]


def add_columns(
    scores: Scores,
    rows: NDArray[np.int32],
    impacts: Scores,
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> None:
    """Add ``impacts[begin:end]`` to the scores of ``rows[begin:end]``, for each begin and end."""
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        np.add.at(scores, rows[begin:end], impacts[begin:end])  # faster than +=


@cache
def add_columns_compiled() -> Add:
    """:func:`add_columns` compiled by numba, with the same sums; itself where there is no numba.

    Compiling takes a second or two.
    """
    try:
        from numba import njit
    except ImportError:
        return add_columns

    def add(scores: Any, rows: Any, impacts: Any, begins: Any, ends: Any) -> None:
        for column in range(len(begins)):
            for place in range(begins[column], ends[column]):
                scores[rows[place]] += impacts[place]

    compiled: Add = njit(add)
    return compiled
