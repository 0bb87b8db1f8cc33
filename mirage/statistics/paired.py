"""Means of paired differences of two systems on the same queries, with intervals and p-values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mirage._base.arrays import Floats, Ints
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, check_level
from mirage.statistics.bounds import rare_differences
from mirage.statistics.clusters import FEWEST_FOR_MEANS, cluster_sums, mean_intervals
from mirage.statistics.differences import Difference
from mirage.statistics.permutation import SignFlipTests, sign_flip_tests

_COLUMNS = 64  # comparisons at a time, because all their weighted means are in memory


@dataclass(frozen=True, kw_only=True)
class PairedDifference(Difference):
    """The mean of the paired differences of two systems, over ``n`` queries."""

    n: int


def paired_means(
    gaps: Floats,
    codes: Ints,
    *,
    most: ArrayLike = np.inf,
    level: float = 0.95,
    permutations: int = 10_000,
    seed: int = 0,
) -> list[PairedDifference]:
    """Return the mean of each column of paired differences, with its interval and p-value.

    The p-value is the larger one of two. The first comes from a permutation test, which swaps the
    results of the two systems on all queries of a cluster together
    (:func:`mirage.statistics.permutation.sign_flip_tests`). It is valid if differences are equally
    likely in both directions. If one system is slightly better on nearly all queries and fails
    completely on a few of them, a small sample may contain no failure, and the test would call this
    system better. The second p-value therefore allows for rare differences of the largest possible
    size (:func:`mirage.statistics.bounds.rare_differences`). It needs ``most``, and changes nothing
    if all differences are 0 or ``most``, as for right and wrong answers. Without ``most``, only the
    first p-value is used, and rare large differences that the sample lacks cannot be ruled out.

    An interval includes 0 if and only if p is above ``1 - level``. In a small sample of a skewed
    metric, the largest differences may be missing, and an interval from permutations would be too
    narrow. Its ends are therefore moved out to those of Student's t interval with two added
    clusters (:func:`gap_interval`). If an interval excludes 0, its end nearer to 0 stays in place.
    ``validation/coverage/paired.py`` prints coverage and false positive rates.

    Args:
        gaps: Differences, of shape ``(queries, columns)``; NaN if a query has no difference.
        codes: Cluster of each query, counted from 0.
        most: Largest possible absolute difference, of all columns or of each one. For scores with a
            range, it is the width of the range. The default is no limit.
        level: Confidence level of the intervals.
        permutations: Number of random permutations. If there are at most this many ways to swap the
            results of the two systems, all of them are used instead.
        seed: Random seed.

    Returns:
        One result per column. The interval is NaN with fewer than ten clusters, or if all
        differences are 0.

    Raises:
        SettingError: If ``level`` is not between 0 and 1, or ``permutations`` is below 1.

    Example:
        >>> import numpy as np
        >>> gaps = np.array([[0.1], [0.3], [0.2], [-0.1], [0.2], [0.3], [0.1], [0.2], [0.0], [0.2]])
        >>> result = paired_means(gaps, np.arange(10))[0]
        >>> round(result.difference, 2), round(result.p, 3)
        (0.15, 0.016)
        >>> round(paired_means(gaps, np.arange(10), most=1)[0].p, 1)
        0.3
    """
    check_level(level)
    if not gaps.shape[1]:
        return []
    tests = sign_flip_tests(
        np.nan_to_num(cluster_sums(codes, gaps)),
        cluster_sums(codes, (~np.isnan(gaps)).astype(np.float64)),
        level=level,
        permutations=permutations,
        seed=seed,
    )
    limits = np.broadcast_to(np.asarray(most, dtype=np.float64), gaps.shape[1:])
    _allow_for_rare_differences(tests, gaps, codes, limits, level, permutations, seed)
    rows = []
    ends = zip(gaps.T, limits.tolist(), *(each.tolist() for each in tests), strict=True)
    for column, limit, p, low, high in ends:
        present = ~np.isnan(column)
        if not present.any():
            rows.append(PairedDifference(difference=np.nan, interval=NO_INTERVAL, p=np.nan, n=0))
            continue
        interval = _widen_interval(column[present], codes[present], (low, high), limit, level)
        mean, n = float(column[present].mean()), int(present.sum())
        rows.append(PairedDifference(difference=mean, interval=interval, p=p, n=n))
    return rows


def _allow_for_rare_differences(
    tests: SignFlipTests,
    gaps: Floats,
    codes: Ints,
    limits: Floats,
    level: float,
    permutations: int,
    seed: int,
) -> None:
    """Raise the p-values and widen the intervals of ``tests`` to those of rare differences.

    Columns without a limit stay as they are. So do columns in which every query is a cluster and
    differs by 0 or by the limit, because the permutation test is then valid and more cautious.
    """
    sizes = np.abs(gaps)
    sign_test = np.isnan(gaps) | (sizes == 0) | (np.abs(sizes - limits) <= 1e-9)
    is_exact = sign_test.all(axis=0) & (len(np.unique(codes)) == len(codes))
    affected = np.flatnonzero(np.isfinite(limits) & ~is_exact)
    for start in range(0, len(affected), _COLUMNS):
        chosen = affected[start : start + _COLUMNS]
        p, low, high = rare_differences(
            gaps[:, chosen],
            codes,
            limits[chosen],
            level=level,
            weightings=permutations,
            seed=seed,
        )
        tests.p[chosen] = np.maximum(tests.p[chosen], p)
        tests.low[chosen] = np.minimum(tests.low[chosen], low)
        tests.high[chosen] = np.maximum(tests.high[chosen], high)


def _widen_interval(
    gaps: Floats, codes: Ints, ends: Interval, limit: float, level: float
) -> Interval:
    """Move the ends of an interval out to those of Student's t interval, if these are farther out.

    If the interval excludes 0, its end nearer to 0 stays in place. No end is beyond ``limit``.
    """
    low, high = ends
    if len(np.unique(codes)) < FEWEST_FOR_MEANS or not gaps.any() or not np.isfinite(ends).all():
        return NO_INTERVAL
    student_low, student_high = _student_ends(gaps, codes, level)
    return (
        low if low > 0 else max(min(low, student_low), -limit),
        high if high < 0 else min(max(high, student_high), limit),
    )


def gap_interval(gaps: Floats, codes: Ints, *, most: float = np.inf) -> Interval:
    """Return a 95 % interval for the mean of paired differences, allowing for clusters.

    The interval uses Student's t and the variance between clusters. Two hypothetical clusters are
    added, one with the largest absolute difference of any query and one with its negative. Without
    them, the interval is too narrow if nearly all differences are equal, for example if both
    systems answer almost all queries correctly. The idea is that of Agresti & Min (2005), Simple
    Improved Confidence Intervals for Comparing Matched Proportions, Statistics in Medicine 24,
    729-740, who add half a pair to each cell of a 2 x 2 table. ``validation/coverage/grids.py``
    prints the coverage of the intervals.

    Args:
        gaps: Differences, of shape ``(queries,)``, without NaN.
        codes: Cluster of each query, counted from 0.
        most: Largest possible absolute difference; no end is beyond it.

    Returns:
        Lower and upper end; NaN if the systems differ in fewer than
        :data:`~mirage.statistics.clusters.FEWEST_FOR_MEANS` clusters.
    """
    if len(np.unique(codes[gaps != 0])) < FEWEST_FOR_MEANS:
        return NO_INTERVAL
    low, high = _student_ends(gaps, codes, 0.95)
    return max(low, -most), min(high, most)


def _student_ends(gaps: Floats, codes: Ints, level: float) -> Interval:
    """Return Student's t interval, with the two added clusters of :func:`gap_interval`."""
    farthest, clusters = np.abs(gaps).max(), len(np.unique(codes))
    size = max(round(len(gaps) / clusters), 1)
    added = np.repeat([farthest, -farthest], size)
    names = np.repeat([codes.max() + 1, codes.max() + 2], size)
    ends = np.full(1, np.inf)
    values, groups = np.concatenate([gaps, added]), np.concatenate([codes, names])
    low, high = mean_intervals(values[:, None], groups, -ends, ends, level=level)[0].tolist()
    return low, high
