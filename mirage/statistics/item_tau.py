"""Kendall's tau between two measures of the same items, with an interval for clustered items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, check_level, ratio
from mirage.statistics.clusters import small_sample

FEWEST_FOR_TAU = 30
"""The smallest number of clusters for an interval of a tau between items."""

_BLOCK = 512  # items compared with all others at a time, to limit memory


class MeanTau(NamedTuple):
    """The mean of Kendall's tau over several columns, with its interval.

    Attributes:
        tau: Mean over the columns for which tau is defined; NaN if there is none.
        interval: Lower and upper end; NaN if there are too few clusters.
        n: Largest number of items in a column.
        columns: Number of columns for which tau is defined.
    """

    tau: float
    interval: Interval
    n: int
    columns: int


def mean_tau(
    pairs: Sequence[tuple[Floats, Floats]], codes: Ints, *, level: float = 0.95
) -> MeanTau:
    """Return Kendall's (1945) tau-b between two measures of the same items, averaged over columns.

    The interval is Student's t on Fisher's scale ``atanh``, with the variance of the jackknife over
    clusters (Arvesen 1969, Jackknifing U-Statistics, Annals of Mathematical Statistics 40,
    2076-2100). It is NaN with fewer than :data:`FEWEST_FOR_TAU` clusters.
    ``validation/coverage/grids.py`` prints its coverage.

    Args:
        pairs: One pair of arrays per column: the first and the second measure of each item, each of
            shape ``(items,)``. An item is ignored if one of its two values is NaN.
        codes: Cluster of each item, counted from 0.
        level: Confidence level of the interval.

    Returns:
        The mean tau, its interval, and the numbers of items and columns that were used.

    Raises:
        SettingError: If ``level`` is not between 0 and 1.

    Example:
        >>> import numpy as np
        >>> round(mean_tau([(np.arange(4.0), np.array([1.0, 2, 4, 3]))], np.arange(4)).tau, 2)
        0.67
    """
    check_level(level)
    clusters = int(codes.max()) + 1 if len(codes) else 0
    taus, jackknifed, largest = [], [], 0
    for first, second in pairs:
        present = ~(np.isnan(first) | np.isnan(second))
        tau, without_cluster = _taus(first[present], second[present], codes[present], clusters)
        if not np.isnan(tau):
            taus.append(tau)
            jackknifed.append(without_cluster)
            largest = max(largest, int(present.sum()))
    if not taus:
        return MeanTau(np.nan, NO_INTERVAL, 0, 0)
    mean = float(np.mean(taus))
    ends = _interval(mean, np.mean(jackknifed, axis=0), codes, level)
    return MeanTau(mean, ends, largest, len(taus))


def _taus(first: Floats, second: Floats, codes: Ints, clusters: int) -> tuple[float, Floats]:
    """Return tau-b over all items, and tau-b without each of the clusters in turn.

    ``first`` and ``second`` are the two measures, and ``codes`` has the cluster of each item.
    """
    inside = np.zeros((clusters, 3))
    sums = np.zeros((clusters, 3))
    order = np.argsort(codes, kind="stable")
    a, b, sorted_codes = first[order], second[order], codes[order]
    for start in range(0, len(a), _BLOCK):
        block = slice(start, start + _BLOCK)
        x = np.sign(a[block, None] - a).astype(np.int8)
        y = np.sign(b[block, None] - b).astype(np.int8)
        products = np.stack([x * y, x * x, y * y])
        totals = products.sum(axis=2, dtype=np.int64).T
        np.add.at(sums, sorted_codes[block], totals)
        same = sorted_codes[block, None] == sorted_codes
        np.add.at(inside, sorted_codes[block], (products * same).sum(axis=2, dtype=np.int64).T)
    # A pair within a cluster is counted twice in its sums; a pair of two clusters once in each.
    whole = sums.sum(axis=0) / 2
    remaining = whole - (sums - inside / 2)
    with np.errstate(invalid="ignore"):
        without_cluster = ratio(remaining[:, 0], np.sqrt(remaining[:, 1] * remaining[:, 2]))
        tau = ratio(whole[0], np.sqrt(whole[1] * whole[2]))
    return float(tau), without_cluster


def _interval(mean: float, jackknifed: Floats, codes: Ints, level: float) -> Interval:
    from scipy.special import stdtrit

    sizes = np.bincount(codes)
    count = len(sizes)
    if count < FEWEST_FOR_TAU or np.isnan(jackknifed).any() or not abs(mean) < 1:
        return NO_INTERVAL
    # atanh is infinite at -1 and 1.
    scaled = np.arctanh(np.clip(jackknifed, -1 + 1e-9, 1 - 1e-9))
    variance = (count - 1) / count * np.square(scaled - scaled.mean()).sum()
    reach = float(stdtrit(small_sample(sizes).degrees, (1 + level) / 2)) * np.sqrt(variance)
    if not reach > 0:
        return NO_INTERVAL
    low, high = np.tanh(np.arctanh(mean) + np.array([-reach, reach])).tolist()
    return low, high
