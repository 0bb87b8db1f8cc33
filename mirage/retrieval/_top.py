"""Selection of the highest of many scores, with the same result on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BLOCK = 32
_FEW = 256
"""Up to this number of scores, sorting all of them is faster than selecting the highest."""


def top_rows(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the positions of the ``k`` highest scores, highest first.

    Positions with equal scores are in ascending order.
    """
    n = len(scores) // _BLOCK
    if n <= k:
        return _top_rows(scores, k)
    # At least k blocks contain a score of `least` or more, so each of the k highest scores is at
    # least `least`.
    highest = scores[: n * _BLOCK].reshape(_BLOCK, n).max(axis=0)
    least = np.partition(highest, n - k)[n - k]
    rows: NDArray[np.int64] = (scores >= least).nonzero()[0]
    return rows[_top_rows(scores[rows], k)]


def _top_rows(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    if len(scores) <= max(k, _FEW):
        return np.argsort(-scores, kind="stable")[:k]
    least = np.partition(scores, len(scores) - k)[len(scores) - k]
    above = (scores > least).nonzero()[0]
    equal = (scores == least).nonzero()[0][: k - len(above)]
    rows = np.concatenate([above, equal])
    return rows[np.argsort(-scores[rows], kind="stable")]
