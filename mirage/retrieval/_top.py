"""Selection of the highest of many scores, with the same result on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BLOCK = 16
_STRIPES = np.arange(_BLOCK)[:, None]
_FEW = 256
"""Up to this number of scores, sorting all of them is faster than selecting the highest."""


def top_rows(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the positions of the ``k`` highest scores, highest first.

    Positions with equal scores are in ascending order.

    Args:
        scores: The scores, none of which is negative.
        k: The number of positions to return.
    """
    n = len(scores) // _BLOCK
    if n <= k:
        return _top_rows(scores, k)
    bits = scores.view(np.int32)  # in the order of the scores, and faster to compare
    # A block is a column of this table. Positions ascend within each row, and from row to row.
    table = bits[: n * _BLOCK].reshape(_BLOCK, n)
    highest = table.max(axis=0)
    # At least k blocks contain a score of `least` or more, so each of the k highest scores is at
    # least `least`.
    ordered = highest.copy()
    ordered.partition(n - k)
    least = ordered[n - k]
    blocks = (highest >= least).nonzero()[0]
    candidates = (table.take(blocks, axis=1).ravel() >= least).nonzero()[0]
    rows: NDArray[np.int64] = (_STRIPES * n + blocks).ravel()[candidates]
    if len(scores) > n * _BLOCK:
        rows = np.append(rows, n * _BLOCK + (bits[n * _BLOCK :] >= least).nonzero()[0])
    return rows[_top_rows(scores[rows], k)]


def _top_rows(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    if len(scores) <= max(k, _FEW):
        order: NDArray[np.int64] = (-scores).argsort(kind="stable")
        return order[:k]
    least = np.partition(scores, len(scores) - k)[len(scores) - k]
    above = (scores > least).nonzero()[0]
    equal = (scores == least).nonzero()[0][: k - len(above)]
    rows: NDArray[np.int64] = np.concatenate([above, equal])
    return rows[(-scores[rows]).argsort(kind="stable")]
