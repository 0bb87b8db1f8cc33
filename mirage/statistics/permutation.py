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
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirage._base.arrays import Floats, Ints
from mirage.errors import SettingError

__all__ = [
    "exchange_p_values",
    "holm",
    "permutation_p_values",
    "sign_flip_tests",
    "single_step_p_values",
    "without_skew",
]

Flips = NDArray[np.bool_]
"""Which units are swapped, ``(ways, units)``."""

_BLOCK = 1000  # permutations at a time
_COLUMNS = 64  # comparisons at a time, of which all permutations are in memory
_FEWEST_WAYS = 2000  # of which an interval is a quantile


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


class SignFlipTests(NamedTuple):
    """P-values and interval ends of paired differences, each ``(comparisons,)``."""

    p: Floats
    low: Floats
    high: Floats


def sign_flip_tests(
    differences: Floats,
    sizes: Floats,
    *,
    level: float = 0.95,
    permutations: int = 10_000,
    seed: int = 0,
) -> SignFlipTests:
    """Return two-sided p-values of paired differences and the intervals that belong to them.

    P-values are those of :func:`permutation_p_values`. An interval holds every mean that the same
    test does not reject when it is subtracted from the differences, so that it holds 0 if and only
    if p is above ``1 - level``. Its ends are quantiles of the means of random subsets of units
    (Hartigan 1969, Using Subsample Values as Typical Values, Journal of the American Statistical
    Association 64, 1303-1317). Two queries without a difference are added as one unit: they leave p
    as it is, and keep an interval open if all differences are equal (as Agresti & Min 2005,
    Statistics in Medicine 24, 729-740, add half a pair to each cell).

    Args:
        differences: Sum of the differences of each unit, ``(units, comparisons)``.
        sizes: Number of queries of each unit, ``(units, comparisons)``.
        level: Confidence level of the intervals.
        permutations: Number of swaps to draw, if there are more.
        seed: Random seed.

    Raises:
        SettingError: ``permutations`` is below 1.
    """
    if permutations < 1:
        raise SettingError(f"a permutation test takes 1 permutation or more, not {permutations}")
    columns = differences.shape[1]
    tests = SignFlipTests(np.ones(columns), np.full(columns, -np.inf), np.full(columns, np.inf))
    differing = np.count_nonzero(differences, axis=0)
    few = 2.0 ** np.minimum(differing, 62) <= permutations
    rows = max(permutations, _FEWEST_WAYS) + _FEWEST_WAYS
    rng = np.random.default_rng([seed, 1])
    others = rng.random((rows if few.any() else 0, len(differences) + 1)) < 0.5
    for column in np.flatnonzero(few & (differing > 0)).tolist():
        places = np.flatnonzero(differences[:, column])
        ways = (np.arange(2 ** len(places))[:, None] >> np.arange(len(places)) & 1).astype(bool)
        ways = np.tile(ways, (-(-_FEWEST_WAYS // len(ways)), 1))
        flips = others[: len(ways)].copy()
        flips[:, places] = ways
        units, counts = _with_two_equal(differences[:, [column]], sizes[:, [column]])
        ends = _subset_means(flips, units, counts)
        _read_off(tests, np.array([column]), units, ends, level)
    many = np.flatnonzero(~few)
    used = np.flatnonzero(differences[:, many].any(axis=1))
    for start in range(0, len(many), _COLUMNS):
        chosen = many[start : start + _COLUMNS]
        units, counts = _with_two_equal(differences[:, chosen], sizes[:, chosen])
        blocks = _drawn_flips(len(units), used, permutations, seed)
        drawn = [_subset_means(flips, units, counts) for flips in blocks]
        same = np.full((1, len(chosen)), np.inf)  # no swap counts as one of the ways
        lower = np.concatenate([-same, *(low for low, _ in drawn)])
        upper = np.concatenate([same, *(high for _, high in drawn)])
        _read_off(tests, chosen, units, (lower, upper), level)
    return tests


def _with_two_equal(differences: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Return sums and sizes of units, with a last one of two units' size and no difference."""
    mean_size = sizes.sum(axis=0) / np.maximum(np.count_nonzero(sizes, axis=0), 1)
    none = np.zeros((1, differences.shape[1]))
    return np.concatenate([differences, none]), np.concatenate([sizes, 2 * mean_size[None]])


def _drawn_flips(
    units: int, used: Ints, permutations: int, seed: int
) -> Iterator[NDArray[np.bool_]]:
    """Draw which units are swapped, ``(ways, units)``, block by block.

    Those of the ``used`` units are the draws of :func:`permutation_p_values`.
    """
    rng, others = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    size = -(-len(used) // 8)
    for start in range(0, permutations, _BLOCK):
        rows = min(_BLOCK, permutations - start)
        bits = np.frombuffer(rng.bytes(rows * size), dtype=np.uint8).reshape(rows, size)
        flips = others.random((rows, units)) < 0.5
        flips[:, used] = np.unpackbits(bits, axis=1, count=len(used))
        yield flips


def _subset_means(flips: Flips, units: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Return the lower and the higher mean of the swapped units and the others, per way."""
    signs = flips.astype(np.float64)
    swapped, counts = signs @ units, signs @ sizes
    rest = units.sum(axis=0) - swapped
    rounding = 5e-10 * np.abs(units).sum(axis=0)
    means = []
    for sums, queries in ((swapped, counts), (rest, sizes.sum(axis=0) - counts)):
        exact = np.where(np.abs(sums) <= rounding, 0.0, sums)
        means.append((exact, queries > 0.5, np.maximum(queries, 0.5)))
    lower = [np.where(there, sums / n, -np.inf) for sums, there, n in means]
    upper = [np.where(there, sums / n, np.inf) for sums, there, n in means]
    return np.minimum(*lower), np.maximum(*upper)


def _read_off(
    tests: SignFlipTests, columns: Ints, units: Floats, ends: tuple[Floats, Floats], level: float
) -> None:
    """Set p-values and interval ends of some columns from the subset means of all ways."""
    lower, upper = ends
    ways = len(lower)
    positive = units.sum(axis=0) >= 0
    as_far = np.where(positive, (lower <= 0).sum(axis=0), (upper >= 0).sum(axis=0))
    tests.p[columns] = as_far / ways
    rank = int((1 - level) * ways + 1e-9)
    if rank >= ways:
        return
    tests.low[columns] = np.partition(lower, rank, axis=0)[rank]
    tests.high[columns] = -np.partition(-upper, rank, axis=0)[rank]


def _as_far(sums: Floats, units: Floats) -> Floats:
    """How many of the sums of each column lie as far from 0 as the one without swapping."""
    rounding = 1e-9 * np.abs(units).sum(axis=0)
    as_far = np.abs(sums) >= np.abs(units.sum(axis=0)) - rounding
    return np.asarray(as_far.sum(axis=0), dtype=np.float64)


def single_step_p_values(differences: Floats, *, permutations: int = 9999, seed: int = 0) -> Floats:
    """One-sided p-values of paired differences, one a column, corrected for all columns.

    A column is measured by its Student's t with the skewness taken out (Hall 1992, On the Removal
    of Skewness by Transformation, Journal of the Royal Statistical Society B 54, 221-228): a few
    large gains that weigh up many small losses are a skew and not a fall, and signed ranks, or t
    itself at a few dozen units, take them for one. A column's measure is compared with the largest
    over all columns in each of the ways to swap that are drawn (single-step maximum method,
    Westfall & Young 1993, Resampling-Based Multiple Testing, section 2.6): so p is corrected for
    their number, and not more than their dependence on each other calls for.

    Ways to swap that come out the same as without swapping count half (mid-p, Lancaster 1961,
    Significance Tests in Discrete Distributions, Journal of the American Statistical Association
    56, 223-234): where few units differ, there are few ways, and the plain p-value is far too
    careful. ``benchmarks/regression.py`` prints how often either is wrong.

    Args:
        differences: ``(units, columns)``; the larger, the stronger the evidence; NaN where a unit
            has none.
        permutations: how many to draw.
        seed: of the draws.

    Returns:
        A p-value a column; 1 for one whose mean is not above 0.

    Raises:
        SettingError: ``permutations`` is below 1.
    """
    p = np.ones(differences.shape[1])
    counts = np.count_nonzero(~np.isnan(differences), axis=0)
    values = np.nan_to_num(differences, nan=0.0)
    changed = values.any(axis=0)
    if not changed.any():
        return p
    units, counts = values[values.any(axis=1)][:, changed], counts[changed]
    size = units.shape[1]
    rng = np.random.default_rng(seed)

    def signs(rows: int) -> Floats:
        return rng.choice([-1.0, 1.0], size=(rows, len(units)))

    def measures(sums: Floats) -> Floats:
        return without_skew(sums[:, :size], sums[:, size:], np.square(units).sum(axis=0), counts)

    powers = np.hstack([units, units**3])
    observed = measures(powers.sum(axis=0)[None])[0]
    rounding = 1e-6 * (1 + np.abs(observed))
    rounding[np.isinf(observed)] = 0.0
    as_large = np.zeros(size)
    for sums in _sums_by_chance(powers, signs, permutations):
        largest = measures(sums).max(axis=1, keepdims=True)
        as_large += np.count_nonzero(largest >= observed - rounding, axis=0) / 2
        as_large += np.count_nonzero(largest > observed + rounding, axis=0) / 2
    fell = units.sum(axis=0) > 0
    p[changed] = np.where(fell, (0.5 + as_large) / (1 + permutations), 1.0)
    return p


def without_skew(sums: Floats, cubes: Floats, squares: Floats, counts: Floats) -> Floats:
    """Hall's transformed t from the sums of values, cubes and squares; infinite if all are equal.

    With ``w`` the mean over the standard deviation and ``g`` the skewness, it is ``sqrt(n)`` times
    ``w + g w^2 / 3 + g^2 w^3 / 27 + g / (6 n)``.
    """
    mean, square = sums / counts, squares / counts
    variance = square - mean**2
    equal = variance <= 1e-9 * square
    deviation = np.sqrt(np.where(equal, 1.0, variance))
    skew = (cubes / counts - 3 * mean * square + 2 * mean**3) / deviation**3
    w = mean / deviation
    hall = np.sqrt(counts) * (w + skew * w**2 / 3 + skew**2 * w**3 / 27 + skew / (6 * counts))
    return np.where(equal, np.copysign(np.inf, mean), hall)


def exchange_p_values(
    sums: Floats, observed: Floats, *, permutations: int = 9999, seed: int = 0
) -> Floats:
    """One-sided p-values where each unit's answers come from two runs, one p a column.

    If a unit answers as before, each way to split its answers over the two runs is as likely. A
    split of each unit is drawn, apart from the others'. A column is measured by the evidence of its
    units (:func:`_evidence`): what was lost where it was always there counts for more than what
    comes and goes. That is compared with the draws, and its rank among them with the best over all
    columns (single-step minimum method, Westfall & Young 1993, Resampling-Based Multiple Testing,
    section 2.6). Exact in that p is at or below a level in no more than that share of the runs, if
    nothing changed (Phipson & Smyth 2010, Permutation P-values Should Never Be Zero, Statistical
    Applications in Genetics and Molecular Biology 9, 39), as long as the split that was seen is
    among the splits.

    Args:
        sums: what each unit comes to in each split, ``(splits, units, columns)``.
        observed: what each unit comes to in the split that was seen, ``(units, columns)``; or less.
        permutations: how many to draw.
        seed: of the draws.

    Returns:
        A p-value a column; 1 for one whose sum, or evidence, is not above 0.

    Raises:
        SettingError: ``permutations`` is below 1.
    """
    if permutations < 1:
        raise SettingError(f"a permutation test takes 1 permutation or more, not {permutations}")
    p = np.ones(observed.shape[1])
    varied = np.ptp(sums, axis=0).any(axis=0)
    scale = np.abs(sums[..., varied]).max(axis=(0, 1))
    moving = np.ptp(sums, axis=0).any(axis=1)  # the others say nothing, in any split
    sums, observed = (
        (each[..., moving, :][..., varied] / scale).round(9) for each in (sums, observed)
    )
    splits, units, columns = sums.shape
    share = ((sums < observed).mean(axis=0) + (sums <= observed).mean(axis=0)) / 2
    seen = _evidence(share.clip(0.5 / splits, 1 - 0.5 / splits)).sum(axis=0)
    fell = (observed.sum(axis=0) > 0) & (seen > 0)
    if not fell.any():
        return p
    flat = sums.reshape(splits, -1)
    less = np.stack([less + same / 2 for less, same in map(_less_and_same, flat.T)], axis=1)
    evidence = _evidence(less / splits).reshape(-1, columns)
    rng = np.random.default_rng(seed)
    drawn = [seen[None]]
    for rows in [_BLOCK] * (permutations // _BLOCK) + [permutations % _BLOCK]:
        places = rng.integers(splits, size=(rows, units)) * units + np.arange(units)
        drawn.append(evidence[places].sum(axis=1))
    ranks = np.stack([_less_and_same(column)[0] for column in np.concatenate(drawn).round(9).T])
    as_large = (ranks.max(axis=0) >= ranks[:, :1]).mean(axis=1)
    p[varied] = np.where(fell, as_large, 1.0)
    return p


def _less_and_same(column: Floats) -> tuple[Ints, Ints]:
    """How many of a column are less than each of its values, and how many the same."""
    _, places, counts = np.unique(column, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - counts)[places], counts[places]


def _evidence(shares: Floats) -> Floats:
    """How much says of a unit that it got worse, by the share of its splits that come to less.

    Of splits that come to the same, half count. With ``p`` the share of the others,
    ``1 / (2 sqrt(p))`` are odds that it got worse (a calibrator of Vovk & Wang 2021, E-values:
    Calibration, Combination and Applications, Annals of Statistics 49, 1736-1754, section 2). The
    evidence is the logarithm of ``0.9 + 0.1 odds``, as if a tenth of the units changed: what tells
    a mixture in which few did (Donoho & Jin 2004, Higher Criticism for Detecting Sparse
    Heterogeneous Mixtures, Annals of Statistics 32, 962-994). That for the better is taken off.
    """
    worse, better = (np.log(0.9 + 0.05 / np.sqrt(p)) for p in (1 - shares, shares))
    return worse - better


def _sums_by_chance(
    units: Floats, signs: Callable[[int], Floats], permutations: int
) -> Iterator[Floats]:
    """The sums of each column under signs that are drawn, ``(ways, columns)``, block by block."""
    if permutations < 1:
        raise SettingError(f"a permutation test takes 1 permutation or more, not {permutations}")
    for start in range(0, permutations, _BLOCK):
        yield signs(min(_BLOCK, permutations - start)) @ units


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
