"""Is one judge better than another, or is it chance? Paired permutation tests, many at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirage._base.arrays import Floats
from mirage.errors import JudgmentError

__all__ = ["holm", "permutation_p_values"]

_BLOCK = 1000  # permutations at a time


def permutation_p_values(differences: Floats, permutations: int, seed: int) -> Floats:
    """Two-sided p-values of paired differences, one a column.

    If two judges are alike, what one said of a unit (a sentence, or all sentences of a query)
    could as well have been said by the other: swapping the two turns the sign of the unit's
    difference. The statistic is the sum of a column, and p the share of the ways to swap in which
    it lies as far from 0 as without swapping, or farther (Fisher 1935, The Design of Experiments,
    section 21; Good 2005, Permutation, Parametric and Bootstrap Tests of Hypotheses, chapter 3).

    Where there are no more than ``permutations`` ways to swap the units that differ, all are gone
    through, and p is exact. Otherwise they are drawn, and the way without swapping counts as one
    of them, so that p is never 0 (Phipson & Smyth 2010, Statistical Applications in Genetics and
    Molecular Biology 9, 39).

    Args:
        differences: ``(units, comparisons)``.
        permutations: how many to draw.
        seed: of the draws.

    Raises:
        JudgmentError: ``permutations`` is below 1.
    """
    if permutations < 1:
        raise JudgmentError(f"a permutation test takes 1 permutation or more, not {permutations}")
    differing = np.count_nonzero(differences, axis=0)
    p = np.empty(differences.shape[1])
    # 2 ** 62 is more than anyone asks for, and 2 ** 64 more than an integer holds.
    few = 2.0 ** np.minimum(differing, 62) <= permutations
    for column in np.flatnonzero(few).tolist():
        p[column] = _exact(differences[differences[:, column] != 0, column])
    if not few.all():
        p[~few] = _drawn(differences[:, ~few], permutations, seed)
    return p


def _exact(values: Floats) -> float:
    ways = np.arange(2 ** len(values))
    swapped = (ways[:, None] >> np.arange(len(values))) & 1
    return float(np.mean(_as_far(swapped.astype(np.float64), values[:, None])))


def _drawn(values: Floats, permutations: int, seed: int) -> Floats:
    """Swaps are drawn for all columns together: each unit is swapped in all or in none."""
    rng = np.random.default_rng(seed)
    values = values[values.any(axis=1)]
    units, size = len(values), -(-len(values) // 8)
    farther = np.zeros(values.shape[1])
    for start in range(0, permutations, _BLOCK):
        rows = min(_BLOCK, permutations - start)
        bits = np.frombuffer(rng.bytes(rows * size), dtype=np.uint8).reshape(rows, size)
        swapped = np.unpackbits(bits, axis=1, count=units).astype(np.float64)
        farther += _as_far(swapped, values).sum(axis=0)
    return (1 + farther) / (1 + permutations)


def _as_far(swapped: Floats, values: Floats) -> NDArray[np.bool_]:
    """Whether each way to swap gives a sum as far from 0 as no swap, ``(ways, columns)``."""
    observed = values.sum(axis=0)
    rounding = 1e-9 * np.abs(values).sum(axis=0)
    sums = observed - 2 * (swapped @ values)
    return np.asarray(np.abs(sums) >= np.abs(observed) - rounding)


def holm(p_values: ArrayLike) -> Floats:
    """P-values corrected for their number by Holm's method.

    To call significant what lies at or below 0.05 here is wrong about any true null hypothesis at
    all in 5 % of the families or fewer, however the tests depend on each other (Holm 1979,
    Scandinavian Journal of Statistics 6, 65-70).
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected
