"""Permutation tests of whether one system is better than another, for many comparisons at a time.

If two systems are equal, the result of one system for a unit (a query, a sentence) could as well
have come from the other system. Swapping the two results changes the sign of the unit's
differences, in all columns together (Fisher 1935, The Design of Experiments, section 21; Good 2005,
Permutation, Parametric and Bootstrap Tests of Hypotheses, chapter 3). A way to swap is a choice of
the units whose results are swapped. If ways to swap are drawn at random, swapping no unit counts as
one of the draws, so that p is never 0 (Phipson & Smyth 2010, Statistical Applications in Genetics
and Molecular Biology 9, 39).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirage._base.arrays import Floats, Ints
from mirage.errors import SettingError

Flips = NDArray[np.bool_]
"""Whether each unit is swapped in each way to swap, of shape ``(ways, units)``."""

_BLOCK = 1000  # permutations at a time
_COLUMNS = 64  # comparisons at a time, because all their permutations are in memory
_REMEMBERED = 80_000_000  # largest number of choices, of a bit each, that are kept in memory
_FEWEST_WAYS = 2000  # smallest number of subsets whose quantiles are used as ends of intervals


def permutation_p_values(
    differences: Floats, *, permutations: int = 10_000, seed: int = 0
) -> Floats:
    """Return two-sided p-values of paired differences, one per column, without correction.

    A unit is, for example, a query. Swapping the results of the two systems for a unit changes the
    sign of the unit's differences. The test statistic is the sum of a column. The p-value is the
    share of swaps after which the sum is at least as far from 0 as without swapping. If there are
    at most ``permutations`` ways to swap the units that differ, all are enumerated, and p is exact.

    Args:
        differences: Difference of the two systems on each unit, of shape ``(units, comparisons)``.
        permutations: Number of random permutations. If there are at most this many ways to swap the
            results of the two systems, all of them are used instead.
        seed: Random seed.

    Raises:
        SettingError: If ``permutations`` is below 1.

    Example:
        >>> import numpy as np
        >>> permutation_p_values(np.array([[0.1], [0.3], [0.2], [0.2], [0.4]]))
        array([0.0625])
    """
    differing = np.count_nonzero(differences, axis=0)
    p = np.empty(differences.shape[1])
    # The cap of 62 avoids overflow and is far above any sensible number of permutations.
    few = 2.0 ** np.minimum(differing, 62) <= permutations
    for column in np.flatnonzero(few).tolist():
        units = differences[differences[:, column] != 0, column]
        ways = np.arange(2 ** len(units))[:, None] >> np.arange(len(units)) & 1
        p[column] = _count_as_far((1.0 - 2 * ways) @ units, units) / len(ways)
    units = differences[:, ~few]
    units = units[units.any(axis=1)]
    rng = np.random.default_rng(seed)
    size = -(-len(units) // 8)

    def signs(rows: int) -> Floats:
        bits = np.frombuffer(rng.bytes(rows * size), dtype=np.uint8).reshape(rows, size)
        return np.where(np.unpackbits(bits, axis=1, count=len(units)), -1.0, 1.0)

    exceedances = sum(
        _count_as_far(sums, units) for sums in _random_sums(units, signs, permutations)
    )
    p[~few] = (1 + exceedances) / (1 + permutations)
    return p


class SignFlipTests(NamedTuple):
    """P-values and intervals of paired differences; each array has the shape ``(comparisons,)``.

    Attributes:
        p: Two-sided p-value of each mean difference.
        low: Lower end of the interval of each mean difference.
        high: Upper end of the interval of each mean difference.
    """

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
    """Return two-sided p-values of paired differences and the matching intervals.

    A unit is a query, or a cluster of queries whose results are swapped together. P-values are
    those of :func:`permutation_p_values`. An interval contains every mean that the test does not
    reject, that is, for which p is above ``1 - level`` after the mean is subtracted from the
    differences. It therefore includes 0 if and only if p is above ``1 - level``. Its ends are
    quantiles of the means of random subsets of units (Hartigan 1969, Using Subsample Values as
    Typical Values, Journal of the American Statistical Association 64, 1303-1317). Two queries with
    a difference of 0 are added as one unit. They do not change p, but they make the interval wider
    than 0 if all differences are equal (Agresti & Min 2005, Statistics in Medicine 24, 729-740, add
    half a pair to each cell for the same reason).

    Args:
        differences: Sum of the differences of each unit, of shape ``(units, comparisons)``.
        sizes: Number of queries of each unit, of shape ``(units, comparisons)``.
        level: Confidence level of the intervals.
        permutations: Number of random permutations. If there are at most this many ways to swap the
            results of the two systems, all of them are used instead.
        seed: Random seed.

    Returns:
        P-values, and lower and upper ends of the intervals. The ends are infinite if too few units
        have a difference other than 0, so that no interval has this level.

    Raises:
        SettingError: If ``permutations`` is below 1.
    """
    if permutations < 1:
        raise SettingError(f"permutations must be at least 1, got {permutations}")
    columns = differences.shape[1]
    tests = SignFlipTests(np.ones(columns), np.full(columns, -np.inf), np.full(columns, np.inf))
    differing = np.count_nonzero(differences, axis=0)
    few = 2.0 ** np.minimum(differing, 62) <= permutations
    rows = max(permutations, _FEWEST_WAYS) + _FEWEST_WAYS
    rng = np.random.default_rng([seed, 1])
    random_flips = rng.random((rows if few.any() else 0, len(differences) + 1)) < 0.5
    for column in np.flatnonzero(few & (differing > 0)).tolist():
        differing_units = np.flatnonzero(differences[:, column])
        ways = (
            np.arange(2 ** len(differing_units))[:, None] >> np.arange(len(differing_units)) & 1
        ).astype(bool)
        # Repeat the few ways, so that enough random swaps of the other units join them.
        ways = np.tile(ways, (-(-_FEWEST_WAYS // len(ways)), 1))
        flips = random_flips[: len(ways)].copy()
        flips[:, differing_units] = ways
        units, counts = _append_equal_unit(differences[:, [column]], sizes[:, [column]])
        ends = _subset_means(flips, units, counts)
        _set_results(tests, np.array([column]), units, ends, level)
    many = np.flatnonzero(~few)
    changed_units = np.flatnonzero(differences[:, many].any(axis=1))
    for start in range(0, len(many), _COLUMNS):
        chosen = many[start : start + _COLUMNS]
        units, counts = _append_equal_unit(differences[:, chosen], sizes[:, chosen])
        blocks = _draw_flips(len(units), changed_units, permutations, seed)
        drawn = [_subset_means(flips, units, counts) for flips in blocks]
        same = np.full((1, len(chosen)), np.inf)  # swapping no unit counts as one of the ways
        lower = np.concatenate([-same, *(low for low, _ in drawn)])
        upper = np.concatenate([same, *(high for _, high in drawn)])
        _set_results(tests, chosen, units, (lower, upper), level)
    return tests


def _append_equal_unit(differences: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Return the differences and sizes of units (queries), with a unit of difference 0 added.

    Its size is twice the mean size of the units: two queries if each unit is a query.
    """
    mean_size = sizes.sum(axis=0) / np.maximum(np.count_nonzero(sizes, axis=0), 1)
    none = np.zeros((1, differences.shape[1]))
    return np.concatenate([differences, none]), np.concatenate([sizes, 2 * mean_size[None]])


def _draw_flips(
    units: int, changed_units: Ints, permutations: int, seed: int
) -> Iterator[NDArray[np.bool_]]:
    """Yield random choices of the units (such as queries) whose results are swapped, in blocks.

    Each block has the shape ``(permutations in the block, units)``. ``changed_units`` are the
    indices of units with a difference; for these, choices are as in :func:`permutation_p_values`.
    """
    rng = np.random.default_rng(seed)
    size = -(-len(changed_units) // 8)
    for flips in _unchanged_flips(units, permutations, seed):
        rows = len(flips)
        bits = np.frombuffer(rng.bytes(rows * size), dtype=np.uint8).reshape(rows, size)
        flips[:, changed_units] = np.unpackbits(bits, axis=1, count=len(changed_units))
        yield flips


def _unchanged_flips(units: int, permutations: int, seed: int) -> Iterator[Flips]:
    """Yield random choices of the units (such as queries) whose results are swapped, in blocks.

    Each block has the shape ``(permutations in the block, units)``. Small results are cached.
    """
    if permutations * units > _REMEMBERED:
        yield from _drawn_flips(units, permutations, seed)
        return
    for packed in _remembered_flips(units, permutations, seed):
        yield np.unpackbits(packed, axis=1, count=units).view(np.bool_)


def _drawn_flips(units: int, permutations: int, seed: int) -> Iterator[Flips]:
    rng = np.random.default_rng([seed, 1])
    for start in range(0, permutations, _BLOCK):
        yield rng.random((min(_BLOCK, permutations - start), units)) < 0.5


@lru_cache(maxsize=1)
def _remembered_flips(units: int, permutations: int, seed: int) -> tuple[NDArray[np.uint8], ...]:
    """Return the blocks of :func:`_drawn_flips`, packed as bits; the last result is cached."""
    blocks = _drawn_flips(units, permutations, seed)
    return tuple(np.packbits(flips, axis=1) for flips in blocks)


def _subset_means(flips: Flips, units: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Return the mean difference of swapped units and that of other units, the lower one first.

    ``flips`` marks the swapped units. Both arrays have the shape ``(permutations, comparisons)``.
    """
    signs = flips.astype(np.float64)
    swapped, counts = signs @ units, signs @ sizes
    rest = units.sum(axis=0) - swapped
    rounding = 5e-10 * np.abs(units).sum(axis=0)
    means = []
    for sums, queries in ((swapped, counts), (rest, sizes.sum(axis=0) - counts)):
        exact = np.where(np.abs(sums) <= rounding, 0.0, sums)
        means.append((exact, queries > 0.5, np.maximum(queries, 0.5)))
    lower = [np.where(nonempty, sums / n, -np.inf) for sums, nonempty, n in means]
    upper = [np.where(nonempty, sums / n, np.inf) for sums, nonempty, n in means]
    return np.minimum(*lower), np.maximum(*upper)


def _set_results(
    tests: SignFlipTests, columns: Ints, units: Floats, ends: tuple[Floats, Floats], level: float
) -> None:
    """Write the p-values and interval ends of the given columns into ``tests``.

    Args:
        tests: The tests of all columns, which the function changes.
        columns: Positions of the given columns in ``tests``.
        units: Sum of the differences of each unit in the given columns, of shape ``(units,
            columns)``.
        ends: The lower and the higher means that :func:`_subset_means` returns, with one row per
            permutation.
        level: Confidence level of the intervals.
    """
    lower, upper = ends
    ways = len(lower)
    positive = units.sum(axis=0) >= 0
    as_far = np.where(positive, (lower <= 0).sum(axis=0), (upper >= 0).sum(axis=0))
    tests.p[columns] = as_far / ways
    rank = int((1 - level) * ways + 1e-9)  # rounding errors must not lower the rank
    if rank >= ways:
        return
    tests.low[columns] = np.partition(lower, rank, axis=0)[rank]
    tests.high[columns] = -np.partition(-upper, rank, axis=0)[rank]


def _count_as_far(sums: Floats, units: Floats) -> Floats:
    """Count the permutations of each column that are at least as extreme as the observed data.

    Args:
        sums: Sum of the differences after each permutation, with one row per permutation.
        units: Observed differences, with one row per unit.
    """
    rounding = 1e-9 * np.abs(units).sum(axis=0)
    as_far = np.abs(sums) >= np.abs(units.sum(axis=0)) - rounding
    return np.asarray(as_far.sum(axis=0), dtype=np.float64)


def single_step_p_values(differences: Floats, *, permutations: int = 9999, seed: int = 0) -> Floats:
    """Test whether each mean paired difference is above 0; correct for the number of columns.

    The test statistic of a column is its Student's t with the skewness removed (Hall 1992, On the
    Removal of Skewness by Transformation, Journal of the Royal Statistical Society B 54, 221-228).
    If a few large gains balance many small losses, the data are skewed, but there is no regression.
    Tests of signed ranks, and plain t with a few dozen units, mistake this for a regression. A
    column's statistic is compared with the largest statistic over all columns in each random
    permutation (single-step maximum method, Westfall & Young 1993, Resampling-Based Multiple
    Testing, section 2.6). The correction therefore takes the dependence between columns into
    account.

    Permutations with the same statistic as the observed data count half (mid-p, Lancaster 1961,
    Significance Tests in Discrete Distributions, Journal of the American Statistical Association
    56, 223-234). If few units differ, there are few distinct permutations, and the plain p-value
    would be far too conservative. ``validation/power/regression.py`` prints the error rates.

    Args:
        differences: Differences of shape ``(units, columns)``; NaN if a unit has no value.
        permutations: Number of random permutations.
        seed: Random seed.

    Returns:
        One-sided p-value of each column; 1 if its mean is not above 0.

    Raises:
        SettingError: If ``permutations`` is below 1.
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
    for sums in _random_sums(powers, signs, permutations):
        largest = measures(sums).max(axis=1, keepdims=True)
        as_large += np.count_nonzero(largest >= observed - rounding, axis=0) / 2
        as_large += np.count_nonzero(largest > observed + rounding, axis=0) / 2
    # The test is one-sided: a column that did not get worse has p = 1.
    fell = units.sum(axis=0) > 0
    p[changed] = np.where(fell, (0.5 + as_large) / (1 + permutations), 1.0)
    return p


def without_skew(sums: Floats, cubes: Floats, squares: Floats, counts: Floats) -> Floats:
    """Return Hall's transformed t of each column.

    The result is ``sqrt(n)`` times ``w + g w^2 / 3 + g^2 w^3 / 27 + g / (6 n)``. Here ``w`` is the
    mean divided by the standard deviation, ``g`` is the skewness, and ``n`` is the number of
    values. If all values are equal, the result is infinite.

    Args:
        sums: Sum of the values.
        cubes: Sum of the cubed values.
        squares: Sum of the squared values.
        counts: Number of values.
    """
    mean, square = sums / counts, squares / counts
    variance = square - mean**2
    equal = variance <= 1e-9 * square
    deviation = np.sqrt(np.where(equal, 1.0, variance))
    skew = (cubes / counts - 3 * mean * square + 2 * mean**3) / deviation**3
    w = mean / deviation
    hall = np.sqrt(counts) * (w + skew * w**2 / 3 + skew**2 * w**3 / 27 + skew / (6 * counts))
    return np.where(equal, np.copysign(np.inf, mean), hall)


def _random_sums(
    units: Floats, signs: Callable[[int], Floats], permutations: int
) -> Iterator[Floats]:
    """Yield the sums of the columns of ``units`` after random sign flips, in blocks.

    A block has the shape ``(permutations of the block, columns)``. ``signs`` is a function that
    takes a number of rows and returns that many rows of random signs.
    """
    if permutations < 1:
        raise SettingError(f"permutations must be at least 1, got {permutations}")
    for start in range(0, permutations, _BLOCK):
        yield signs(min(_BLOCK, permutations - start)) @ units


def holm(p_values: ArrayLike) -> Floats:
    """Return p-values corrected for multiple tests by Holm's method.

    At a level of 0.05, the probability of rejecting any true null hypothesis is at most 5 %,
    whatever the dependence between the tests (Holm 1979, Scandinavian Journal of Statistics 6,
    65-70).

    Args:
        p_values: The p-values, in any order.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected
