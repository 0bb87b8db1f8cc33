"""Differences between the means of two independent sets of queries, with intervals and tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats, Ints
from mirage.errors import SettingError
from mirage.statistics.bootstrap import NO_INTERVAL, check_level
from mirage.statistics.clusters import mean_intervals
from mirage.statistics.differences import Difference

_CELLS = 5_000_000  # largest number of clusters times permutations in memory


@dataclass(frozen=True, kw_only=True)
class MeanDifference(Difference):
    """The difference ``after - before`` between the means of two sets of queries.

    Attributes:
        before: Mean of the first set over the queries that have a value; NaN if no query has a
            value.
        after: Mean of the second set, computed in the same way.
    """

    before: float
    after: float


def mean_differences(
    before: Floats,
    before_codes: Ints,
    after: Floats,
    after_codes: Ints,
    low: Floats,
    high: Floats,
    *,
    level: float = 0.95,
    permutations: int = 4999,
    seed: int = 0,
) -> list[MeanDifference]:
    """Return the difference of the means of each column, its interval, and its p-value.

    The interval combines the intervals of the two means
    (:func:`mirage.statistics.clusters.mean_intervals`). The distances from each mean to the ends of
    its interval are combined like standard errors. The lower end is ``difference - sqrt((after -
    lower of after)^2 + (upper of before - before)^2)``, and the upper end is analogous (Newcombe
    1998, Interval Estimation for the Difference between Independent Proportions, Statistics in
    Medicine 17, 873-890, method 10; Zou & Donner 2008, Construction of Confidence Limits about
    Effect Measures, Statistics in Medicine 27, 1693-1702). P-values are those of
    :func:`exchanged_p_values`. ``validation/coverage/logs.py`` prints the error rates of both.

    If the two sets have something in common, such as users, the two means are correlated. The
    intervals and p-values are then conservative.

    Args:
        before: Values of the first set, of shape ``(queries, columns)``; NaN if a query has no
            value.
        before_codes: Cluster of each query of the first set.
        after: Values of the second set, of shape ``(queries, columns)``.
        after_codes: Cluster of each query of the second set.
        low: Lowest possible value of each column; minus infinity if there is none.
        high: Highest possible value of each column; infinity if there is none.
        level: Confidence level of the intervals.
        permutations: Number of random permutations.
        seed: Random seed.

    Returns:
        One result per column; the interval is NaN if one of the means has no interval.

    Raises:
        SettingError: If ``level`` is not between 0 and 1, or ``permutations`` is below 1.

    Example:
        >>> import numpy as np
        >>> before, after = np.tile([[0.0], [1.0]], (20, 1)), np.ones((40, 1))
        >>> codes, low, high = np.arange(40), np.zeros(1), np.ones(1)
        >>> result = mean_differences(before, codes, after, codes, low, high, permutations=199)[0]
        >>> result.difference, result.p
        (0.5, 0.005)
    """
    check_level(level)
    p = exchanged_p_values(
        before, before_codes, after, after_codes, permutations=permutations, seed=seed
    ).tolist()
    ends = [
        mean_intervals(values, codes, low, high, level=level)
        for values, codes in ((before, before_codes), (after, after_codes))
    ]
    means = [_means(before), _means(after)]
    rows = zip(*means, *ends, p, strict=True)
    return [_difference(*row) for row in rows]


def _means(values: Floats) -> list[float]:
    present = ~np.isnan(values)
    return [
        float(column[has_value].mean()) if has_value.any() else float("nan")
        for column, has_value in zip(values.T, present.T, strict=True)
    ]


def _difference(
    before: float, after: float, before_ends: Floats, after_ends: Floats, p: float
) -> MeanDifference:
    interval = NO_INTERVAL
    if not np.isnan([*before_ends, *after_ends]).any():
        down = np.hypot(after - after_ends[0], before_ends[1] - before)
        up = np.hypot(after_ends[1] - after, before - before_ends[0])
        interval = float(after - before - down), float(after - before + up)
    return MeanDifference(
        difference=after - before, interval=interval, p=p, before=before, after=after
    )


def exchanged_p_values(
    before: Floats,
    before_codes: Ints,
    after: Floats,
    after_codes: Ints,
    *,
    permutations: int = 4999,
    seed: int = 0,
) -> Floats:
    """Return two-sided p-values of differences between two sets, corrected for all columns.

    Under the null hypothesis, each cluster could as well have been in the other set; all columns of
    a cluster are exchanged together. The statistic of a column is the difference of the means
    divided by its clustered standard error, so a change of the spread or of the cluster sizes alone
    does not count as a difference (Janssen 1997, Studentized Permutation Tests for Non-i.i.d.
    Hypotheses and the Generalized Behrens-Fisher Problem, Statistics & Probability Letters 36,
    9-21; Chung & Romano 2013, Annals of Statistics 41, 484-507). To correct the p-value of a column
    for the number of columns, it is compared with the smallest p-value over all columns after each
    exchange (single-step minimum of p, Westfall & Young 1993, Resampling-Based Multiple Testing,
    section 2.3). If there are at most ``permutations`` ways to divide the clusters into two sets,
    all of them are used. Otherwise divisions are drawn at random, and the observed division counts
    as one of the draws.

    Args:
        before: Values of the first set, of shape ``(queries, columns)``; NaN if a query has no
            value.
        before_codes: Cluster of each query of the first set, counted from 0.
        after: Values of the second set, of shape ``(queries, columns)``.
        after_codes: Cluster of each query of the second set, counted from 0.
        permutations: Number of random exchanges.
        seed: Random seed.

    Returns:
        One p-value per column.

    Raises:
        SettingError: If ``permutations`` is below 1.
    """
    if permutations < 1:
        raise SettingError(f"permutations must be at least 1, got {permutations}")
    # Clusters of the two sets are different units even if their codes are equal.
    shift = int(before_codes.max(initial=-1)) + 1
    codes = np.concatenate([before_codes, after_codes + shift])
    values = np.vstack([before, after])
    later = np.zeros(int(codes.max(initial=-1)) + 1, dtype=bool)
    later[np.unique(after_codes + shift)] = True
    units = _Units.of(values, codes, len(later))
    few = comb(len(later), int(later.sum())) <= permutations
    # The enumeration of all ways includes the observed sets; add them to random draws.
    blocks = [_all_ways(later)] if few else [later[None], *_draw_ways(later, permutations, seed)]
    return _corrected_p_values(
        units.measures(later[None])[0], np.concatenate([*map(units.measures, blocks)])
    )


def _all_ways(later: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return all ways to choose the clusters of the second set; their number stays the same.

    ``later`` is true for the clusters that are now in the second set. The result has the shape
    ``(ways, clusters)``; each row is true for the chosen clusters.
    """
    chosen = np.array(list(combinations(range(len(later)), int(later.sum()))), dtype=np.intp)
    ways = np.zeros((len(chosen), len(later)), dtype=bool)
    np.put_along_axis(ways, chosen, values=True, axis=1)
    return ways


def _draw_ways(
    later: NDArray[np.bool_], permutations: int, seed: int
) -> Iterator[NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    block = max(_CELLS // len(later), 1)
    for start in range(0, permutations, block):
        rows = min(block, permutations - start)
        yield rng.permuted(np.tile(later, (rows, 1)), axis=1)


class _Units(NamedTuple):
    """Sums and counts of the values of each cluster, of shape ``(clusters, columns)``.

    Attributes:
        values: Sum of the values.
        counts: Number of values.
        some: 1 if the cluster has a value, else 0.
    """

    values: Floats
    counts: Floats
    some: Floats

    @classmethod
    def of(cls, values: Floats, codes: Ints, clusters: int) -> _Units:
        present = ~np.isnan(values)
        # Centre the values, because differences of large squares lose precision.
        centred = np.where(present, values - np.nan_to_num(_means(values)), 0.0)
        sums, counts = (
            np.stack([np.bincount(codes, column, clusters) for column in part.T], axis=1)
            for part in (centred, present.astype(np.float64))
        )
        return cls(*(part.astype(np.float64) for part in (sums, counts, counts > 0)))

    def measures(self, later: NDArray[np.bool_]) -> Floats:
        """Return the absolute difference of the means of the two sets, in standard errors.

        Each row of ``later`` is one draw, and is true for the clusters of the second set. The
        result has the shape ``(draws, columns)``.
        """
        means, variances = zip(
            *(self._mean_and_variance(z.astype(np.float64)) for z in (later, ~later)), strict=True
        )
        difference, variance = np.abs(means[0] - means[1]), variances[0] + variances[1]
        scale = np.abs(self.values).max(initial=1e-300)
        nothing = np.isnan(difference) | (difference <= 1e-9 * scale)
        with np.errstate(divide="ignore", invalid="ignore"):
            sizes = difference / np.sqrt(variance)
        return np.where(nothing, 0.0, np.nan_to_num(sizes, nan=0.0, posinf=np.inf))

    def _mean_and_variance(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the mean of a set of clusters and the variance of this mean.

        ``weights`` is 1 for clusters in the set and 0 for others, of shape ``(draws, clusters)``.
        Both results have the shape ``(draws, columns)``.
        """
        total, count, some = (weights @ part for part in self)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = total / count
            squares = (
                weights @ self.values**2
                - 2 * mean * (weights @ (self.values * self.counts))
                + mean**2 * (weights @ self.counts**2)
            )
            squares[squares < 1e-12 * (weights @ self.values**2 + 1e-300)] = 0.0
            variance = squares / count**2 * some / (some - 1)
        return mean, variance


def _corrected_p_values(observed: Floats, measures: Floats) -> Floats:
    """Return the corrected p-value of each column.

    ``observed`` contains the statistic of each column. Each row of ``measures`` contains the
    statistics after clusters were exchanged between the two sets.
    """
    # Rounded, because the statistics of a way and its mirror image differ by rounding errors.
    ranks = [np.sort(column) for column in measures.round(9).T]

    def shares(sizes: Floats) -> Floats:
        positions = [
            np.searchsorted(rank, column) for rank, column in zip(ranks, sizes.T, strict=True)
        ]
        return 1 - np.stack(positions, axis=-1) / len(measures)

    least = shares(measures.round(9)).min(axis=1)
    return np.array([(least <= share + 1e-12).mean() for share in shares(observed.round(9))])
