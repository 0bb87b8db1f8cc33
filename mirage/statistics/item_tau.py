"""Kendall's tau between two numbers of the same items, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, check_level, ratio
from mirage.statistics.clusters import small_sample

__all__ = ["FEWEST_FOR_TAU", "MeanTau", "mean_tau"]

FEWEST_FOR_TAU = 30
"""Clusters below which a tau between items has no interval."""

_BLOCK = 512  # items compared with all others at a time


class MeanTau(NamedTuple):
    """A mean of taus.

    Attributes:
        tau: the mean over the columns that have one; NaN where none has.
        interval: lower and upper end; NaN where there are too few clusters.
        n: items, the most that any column has.
        columns: that have a tau.
    """

    tau: float
    interval: Interval
    n: int
    columns: int


def mean_tau(
    pairs: Sequence[tuple[Floats, Floats]], codes: Ints, *, level: float = 0.95
) -> MeanTau:
    """The mean over columns of Kendall's (1945) tau-b between two numbers of the same items.

    The interval is Student's t, with the variance of the jackknife over clusters (Arvesen 1969,
    Jackknifing U-Statistics, Annals of Mathematical Statistics 40, 2076-2100), on Fisher's scale
    ``atanh``. NaN below :data:`FEWEST_FOR_TAU` clusters; ``benchmarks/grids.py`` prints how often
    it holds.

    Args:
        pairs: two columns each, ``(items,)``; an item that is NaN in either counts for neither.
        codes: the cluster of each item, counted from 0.
        level: of the interval.

    Raises:
        SettingError: there is no such level.
    """
    check_level(level)
    clusters = int(codes.max()) + 1 if len(codes) else 0
    taus, without, most = [], [], 0
    for first, second in pairs:
        known = ~(np.isnan(first) | np.isnan(second))
        tau, left_out = _taus(first[known], second[known], codes[known], clusters)
        if not np.isnan(tau):
            taus.append(tau)
            without.append(left_out)
            most = max(most, int(known.sum()))
    if not taus:
        return MeanTau(np.nan, NO_INTERVAL, 0, 0)
    mean = float(np.mean(taus))
    ends = _interval(mean, np.mean(without, axis=0), codes, level)
    return MeanTau(mean, ends, most, len(taus))


def _taus(first: Floats, second: Floats, codes: Ints, clusters: int) -> tuple[float, Floats]:
    """Tau-b of all items, and of all but those of each cluster."""
    inside = np.zeros((clusters, 3))
    sums = np.zeros((clusters, 3))
    order = np.argsort(codes, kind="stable")
    a, b, own = first[order], second[order], codes[order]
    for start in range(0, len(a), _BLOCK):
        block = slice(start, start + _BLOCK)
        x = np.sign(a[block, None] - a).astype(np.int8)
        y = np.sign(b[block, None] - b).astype(np.int8)
        products = np.stack([x * y, x * x, y * y])
        totals = products.sum(axis=2, dtype=np.int64).T
        np.add.at(sums, own[block], totals)
        same = own[block, None] == own
        np.add.at(inside, own[block], (products * same).sum(axis=2, dtype=np.int64).T)
    # Each pair within a cluster stands twice in its sums, and all others once in those of both.
    whole = sums.sum(axis=0) / 2
    left = whole - (sums - inside / 2)
    with np.errstate(invalid="ignore"):
        rest = ratio(left[:, 0], np.sqrt(left[:, 1] * left[:, 2]))
        tau = ratio(whole[0], np.sqrt(whole[1] * whole[2]))
    return float(tau), rest


def _interval(mean: float, without: Floats, codes: Ints, level: float) -> Interval:
    from scipy.special import stdtrit

    sizes = np.bincount(codes)
    count = len(sizes)
    if count < FEWEST_FOR_TAU or np.isnan(without).any() or not abs(mean) < 1:
        return NO_INTERVAL
    scaled = np.arctanh(np.clip(without, -1 + 1e-9, 1 - 1e-9))
    variance = (count - 1) / count * np.square(scaled - scaled.mean()).sum()
    reach = float(stdtrit(small_sample(sizes).degrees, (1 + level) / 2)) * np.sqrt(variance)
    if not reach > 0:
        return NO_INTERVAL
    low, high = np.tanh(np.arctanh(mean) + np.array([-reach, reach])).tolist()
    return low, high
