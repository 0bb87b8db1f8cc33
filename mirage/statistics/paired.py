"""How much higher one system is than another on the same queries, and whether by chance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, check_level
from mirage.statistics.clusters import FEWEST_FOR_MEANS, cluster_sums, mean_intervals
from mirage.statistics.permutation import permutation_p_values

__all__ = ["PairedMean", "gap_interval", "paired_means"]


class PairedMean(NamedTuple):
    """The mean of paired differences.

    Attributes:
        mean: over the queries that have one; NaN where none has.
        interval: lower and upper end; NaN where too few clusters differ to say.
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
    """The mean of each column of paired differences, its interval and its p-value.

    P-values are those of :func:`mirage.statistics.permutation_p_values`: what the two got for a
    query is swapped, for all queries of a cluster together. Intervals are those of
    :func:`gap_interval`.

    Args:
        gaps: ``(queries, columns)``, NaN where a query has none.
        codes: the cluster of each query, counted from 0.
        level: of the intervals.
        permutations: how many to draw, where there are more.
        seed: of the draws.

    Raises:
        SettingError: there is no such level, or fewer than one permutation.
    """
    check_level(level)
    if not gaps.shape[1]:
        return []
    # A cluster that has none cannot turn the sum.
    sums = np.nan_to_num(cluster_sums(codes, gaps))
    p = permutation_p_values(sums, permutations=permutations, seed=seed).tolist()
    rows = []
    for column, chance in zip(gaps.T, p, strict=True):
        known = ~np.isnan(column)
        if not known.any():
            rows.append(PairedMean(np.nan, NO_INTERVAL, np.nan, 0))
            continue
        own = column[known]
        ends = gap_interval(own, codes[known], level=level)
        rows.append(PairedMean(float(own.mean()), ends, chance, int(known.sum())))
    return rows


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
    farthest, clusters = np.abs(gaps).max(), len(np.unique(codes))
    size = max(round(len(gaps) / clusters), 1)
    added = np.repeat([farthest, -farthest], size)
    names = np.repeat([codes.max() + 1, codes.max() + 2], size)
    ends = np.full(1, np.inf)
    values, groups = np.concatenate([gaps, added]), np.concatenate([codes, names])
    low, high = mean_intervals(values[:, None], groups, -ends, ends, level=level)[0].tolist()
    return low, high
