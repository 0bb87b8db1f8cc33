"""How much higher one system is than another on the same queries, and whether by chance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, check_level
from mirage.statistics.clusters import FEWEST_FOR_MEANS, cluster_sums, mean_intervals
from mirage.statistics.permutation import sign_flip_tests

__all__ = ["PairedMean", "gap_interval", "paired_means"]


class PairedMean(NamedTuple):
    """The mean of paired differences.

    Attributes:
        mean: over the queries that have one; NaN where none has.
        interval: Lower and upper end; NaN if there are fewer than ten clusters or none differs.
        p: chance of a mean as far from 0, on either side, if the two are alike.
        n: the queries.
    """

    mean: float
    interval: Interval
    p: float
    n: int


def paired_means(
    gaps: Floats,
    codes: Ints,
    *,
    level: float = 0.95,
    permutations: int = 10_000,
    seed: int = 0,
) -> list[PairedMean]:
    """Return the mean of each column of paired differences, its interval and its p-value.

    Both come from one test: what the two got for a query is swapped, for all queries of a cluster
    together (:func:`mirage.statistics.permutation.sign_flip_tests`). An interval holds 0 if and
    only if p is above ``1 - level``. The ends that this does not decide are at least as far as
    those of Student's t with two added clusters (:func:`gap_interval`), because a small sample of a
    skewed metric often misses its largest differences. ``benchmarks/paired.py`` prints coverage and
    false positive rates.

    Args:
        gaps: Differences, ``(queries, columns)``, NaN if a query has none.
        codes: Cluster of each query, counted from 0.
        level: Confidence level of the intervals.
        permutations: Number of swaps to draw, if there are more.
        seed: Random seed.

    Raises:
        SettingError: ``level`` is not between 0 and 1, or ``permutations`` is below 1.
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
        known = ~np.isnan(column)
        if not known.any():
            rows.append(PairedMean(np.nan, NO_INTERVAL, np.nan, 0))
            continue
        ends = _widened(column[known], codes[known], (low, high), level)
        rows.append(PairedMean(float(column[known].mean()), ends, p, int(known.sum())))
    return rows


def _widened(gaps: Floats, codes: Ints, ends: Interval, level: float) -> Interval:
    """Return the ends of the test, moved out to Student's t unless that would take in 0."""
    low, high = ends
    if len(np.unique(codes)) < FEWEST_FOR_MEANS or not gaps.any() or not np.isfinite(ends).all():
        return NO_INTERVAL
    student_low, student_high = _student_ends(gaps, codes, level)
    return (
        low if low > 0 else min(low, student_low),
        high if high < 0 else max(high, student_high),
    )


def gap_interval(gaps: Floats, codes: Ints, *, level: float = 0.95) -> Interval:
    """Lower and upper end for the mean of paired differences, Student's t between clusters.

    Two clusters are added that differ as far as any query does, one to each side: without them
    differences that are nearly all alike, such as those of right and wrong answers of which one
    system has almost all, would seem surer than they are. The idea is that of Agresti & Min (2005),
    Simple Improved Confidence Intervals for Comparing Matched Proportions, Statistics in Medicine
    24, 729-740, who add half a pair to each cell. NaN where fewer than
    :data:`~mirage.statistics.clusters.FEWEST_FOR_MEANS` clusters differ; ``benchmarks/grids.py``
    prints how often intervals hold.

    Args:
        gaps: ``(queries,)``, none of them NaN.
        codes: the cluster of each query.
        level: share of the intervals that hold the mean.
    """
    if len(np.unique(codes[gaps != 0])) < FEWEST_FOR_MEANS:
        return NO_INTERVAL
    return _student_ends(gaps, codes, level)


def _student_ends(gaps: Floats, codes: Ints, level: float) -> Interval:
    """Return the ends of Student's t between clusters, with one added to each side."""
    farthest, clusters = np.abs(gaps).max(), len(np.unique(codes))
    size = max(round(len(gaps) / clusters), 1)
    added = np.repeat([farthest, -farthest], size)
    names = np.repeat([codes.max() + 1, codes.max() + 2], size)
    ends = np.full(1, np.inf)
    values, groups = np.concatenate([gaps, added]), np.concatenate([codes, names])
    low, high = mean_intervals(values[:, None], groups, -ends, ends, level=level)[0].tolist()
    return low, high
