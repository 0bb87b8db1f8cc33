"""Means of paired differences of two systems on the same queries, with intervals and p-values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, check_level
from mirage.statistics.clusters import FEWEST_FOR_MEANS, cluster_sums, mean_intervals
from mirage.statistics.differences import Difference
from mirage.statistics.permutation import sign_flip_tests


@dataclass(frozen=True, kw_only=True)
class PairedDifference(Difference):
    """The mean of the paired differences of two systems, over ``n`` queries."""

    n: int


def paired_means(
    gaps: Floats,
    codes: Ints,
    *,
    level: float = 0.95,
    permutations: int = 10_000,
    seed: int = 0,
) -> list[PairedDifference]:
    """Return the mean of each column of paired differences, with its interval and p-value.

    Interval and p-value come from the same permutation test, which swaps the results of the two
    systems on all queries of a cluster together
    (:func:`mirage.statistics.permutation.sign_flip_tests`). An interval includes 0 if and only if p
    is above ``1 - level``. In a small sample of a skewed metric, the largest differences may be
    missing, and such an interval would be too narrow. Its ends are therefore moved out to those of
    Student's t interval with two added clusters (:func:`gap_interval`). If an interval excludes 0,
    its end nearer to 0 stays in place. ``validation/coverage/paired.py`` prints coverage and false
    positive rates.

    Args:
        gaps: Differences, of shape ``(queries, columns)``; NaN if a query has no difference.
        codes: Cluster of each query, counted from 0.
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
    rows = []
    for column, p, low, high in zip(gaps.T, *(each.tolist() for each in tests), strict=True):
        present = ~np.isnan(column)
        if not present.any():
            rows.append(PairedDifference(difference=np.nan, interval=NO_INTERVAL, p=np.nan, n=0))
            continue
        ends = _widen_interval(column[present], codes[present], (low, high), level)
        mean, n = float(column[present].mean()), int(present.sum())
        rows.append(PairedDifference(difference=mean, interval=ends, p=p, n=n))
    return rows


def _widen_interval(gaps: Floats, codes: Ints, ends: Interval, level: float) -> Interval:
    """Move the ends of an interval out to those of Student's t interval, if these are farther out.

    If the interval excludes 0, its end nearer to 0 stays in place.
    """
    low, high = ends
    if len(np.unique(codes)) < FEWEST_FOR_MEANS or not gaps.any() or not np.isfinite(ends).all():
        return NO_INTERVAL
    student_low, student_high = _student_ends(gaps, codes, level)
    return (
        low if low > 0 else min(low, student_low),
        high if high < 0 else max(high, student_high),
    )


def gap_interval(gaps: Floats, codes: Ints) -> Interval:
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

    Returns:
        Lower and upper end; NaN if the systems differ in fewer than
        :data:`~mirage.statistics.clusters.FEWEST_FOR_MEANS` clusters.
    """
    if len(np.unique(codes[gaps != 0])) < FEWEST_FOR_MEANS:
        return NO_INTERVAL
    return _student_ends(gaps, codes, 0.95)


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
