"""The highest of many scores, in an order that is the same everywhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["top_rows"]


def top_rows(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """The places of the ``k`` highest scores, highest first; of equal ones the earlier first."""
    if k >= len(scores):
        return np.argsort(-scores, kind="stable")
    least = np.partition(scores, len(scores) - k)[len(scores) - k]
    above = np.flatnonzero(scores > least)
    level = np.flatnonzero(scores == least)[: k - len(above)]
    rows = np.concatenate([above, level])
    return rows[np.argsort(-scores[rows], kind="stable")]
