"""Is one system better than another, or is it chance? Paired permutation tests, many at a time.

If two systems are alike, what one gave for a unit (a query, a sentence) could as well have come
from the other. Swapping the two turns the sign of the unit's differences, of all columns together
(Fisher 1935, The Design of Experiments, section 21; Good 2005, Permutation, Parametric and
Bootstrap Tests of Hypotheses, chapter 3). Where ways to swap are drawn, the way without swapping
counts as one of them, so that p is never 0 (Phipson & Smyth 2010, Statistical Applications in
Genetics and Molecular Biology 9, 39).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from mirage._base.arrays import Floats
from mirage.errors import SettingError

__all__ = ["holm", "permutation_p_values", "single_step_p_values"]

_BLOCK = 1000  # permutations at a time


def permutation_p_values(
    differences: Floats, *, permutations: int = 10_000, seed: int = 0
) -> Floats:
    """Two-sided p-values of paired differences, one a column, each for itself.

    The statistic is the sum of a column, and p the share of the ways to swap in which it lies as
    far from 0 as without swapping, or farther. Where there are no more than ``permutations`` ways
    to swap the units that differ, all are gone through, and p is exact.

    Args:
        differences: ``(units, comparisons)``.
        permutations: how many to draw.
        seed: of the draws.

    Raises:
        SettingError: ``permutations`` is below 1.
    """
    differing = np.count_nonzero(differences, axis=0)
    p = np.empty(differences.shape[1])
    # 2 ** 62 is more than anyone asks for, and 2 ** 64 more than an integer holds.
    few = 2.0 ** np.minimum(differing, 62) <= permutations
    for column in np.flatnonzero(few).tolist():
        units = differences[differences[:, column] != 0, column]
        ways = np.arange(2 ** len(units))[:, None] >> np.arange(len(units)) & 1
        p[column] = _as_far((1.0 - 2 * ways) @ units, units) / len(ways)
    units = differences[:, ~few]
    units = units[units.any(axis=1)]
    rng = np.random.default_rng(seed)
    size = -(-len(units) // 8)

    def signs(rows: int) -> Floats:
        bits = np.frombuffer(rng.bytes(rows * size), dtype=np.uint8).reshape(rows, size)
        return np.where(np.unpackbits(bits, axis=1, count=len(units)), -1.0, 1.0)

    farther = sum(_as_far(sums, units) for sums in _sums_by_chance(units, signs, permutations))
    p[~few] = (1 + farther) / (1 + permutations)
    return p


def _as_far(sums: Floats, units: Floats) -> Floats:
    """How many of the sums of each column lie as far from 0 as the one without swapping."""
    rounding = 1e-9 * np.abs(units).sum(axis=0)
    as_far = np.abs(sums) >= np.abs(units.sum(axis=0)) - rounding
    return np.asarray(as_far.sum(axis=0), dtype=np.float64)


def single_step_p_values(differences: Floats, *, permutations: int = 9999, seed: int = 0) -> Floats:
    """One-sided p-values of paired differences, one a column, corrected for all columns.

    A column is measured by its sum and, as Wilcoxon's test does (1945, Individual Comparisons by
    Ranking Methods, Biometrics Bulletin 1, 80-83), by its signed ranks, each over the root of its
    sum of squares: sums see a few large differences better, ranks many small ones. The larger of a
    column's two measures is compared with the largest over all columns in each of the ways to swap
    that are drawn (single-step maximum method, Westfall & Young 1993, Resampling-Based Multiple
    Testing, section 2.6): so p is corrected for their number, and not more than their dependence
    on each other calls for.

    Args:
        differences: ``(units, columns)``; the larger, the stronger the evidence.
        permutations: how many to draw.
        seed: of the draws.

    Returns:
        A p-value a column; 1 for one of zeros.

    Raises:
        SettingError: ``permutations`` is below 1.
    """
    p = np.ones(differences.shape[1])
    changed = differences.any(axis=0)
    if not changed.any():
        return p
    units = differences[differences.any(axis=1)][:, changed]
    measures = np.hstack([units, _signed_ranks(units)])
    measures /= np.sqrt(np.square(measures).sum(axis=0))
    rng = np.random.default_rng(seed)

    def signs(rows: int) -> Floats:
        return rng.choice([-1.0, 1.0], size=(rows, len(units)))

    observed = measures.sum(axis=0).reshape(2, -1).max(axis=0)
    # 1e-9: sums of the same numbers in another order are the same sum.
    as_large = sum(
        np.count_nonzero(sums.max(axis=1, keepdims=True) >= observed - 1e-9, axis=0)
        for sums in _sums_by_chance(measures, signs, permutations)
    )
    p[changed] = (1 + as_large) / (1 + permutations)
    return p


def _sums_by_chance(
    units: Floats, signs: Callable[[int], Floats], permutations: int
) -> Iterator[Floats]:
    """The sums of each column under signs that are drawn, ``(ways, columns)``, block by block."""
    if permutations < 1:
        raise SettingError(f"a permutation test takes 1 permutation or more, not {permutations}")
    for start in range(0, permutations, _BLOCK):
        yield signs(min(_BLOCK, permutations - start)) @ units


def _signed_ranks(columns: Floats) -> Floats:
    """Ranks of the sizes among those that are not 0, with their signs; 0 stays 0."""
    from scipy.stats import rankdata

    sizes = np.where(columns == 0, np.nan, np.abs(columns))
    return np.nan_to_num(rankdata(sizes, axis=0, nan_policy="omit")) * np.sign(columns)


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
