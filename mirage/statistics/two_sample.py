"""How far the means of two independent sets of queries are apart, and whether by chance."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats, Ints
from mirage.errors import SettingError
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, check_level
from mirage.statistics.clusters import mean_intervals

__all__ = ["MeanDifference", "exchanged_p_values", "mean_differences"]

_CELLS = 5_000_000  # of clusters by permutations at a time


class MeanDifference(NamedTuple):
    """How far two means are apart.

    Attributes:
        before: mean of the first set, over the queries that have a value; NaN where none has.
        after: that of the second.
        difference: ``after - before``.
        interval: its lower and upper end; NaN where one of the means has no interval.
        p: chance of as large a difference, on either side, in any column, if nothing changed in
            any; 1 where one of the means is NaN.
    """

    before: float
    after: float
    difference: float
    interval: Interval
    p: float


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
    """The difference of the means of each column, its interval, and its p-value.

    The interval is made of those of the two means
    (:func:`mirage.statistics.clusters.mean_intervals`), whose distances from the mean add up as
    standard errors do: ``difference - sqrt((after - lower of after)^2 + (upper of before -
    before)^2)`` is the lower end, and so the upper one (Newcombe 1998, Interval Estimation for the
    Difference between Independent Proportions, Statistics in Medicine 17, 873-890, method 10; Zou &
    Donner 2008, Construction of Confidence Limits about Effect Measures, Statistics in Medicine 27,
    1693-1702). P-values are those of :func:`exchanged_p_values`. ``benchmarks/logs.py`` prints how
    often either is wrong.

    What is in both sets, such as a user, makes the two means alike, so that their difference is
    surer than is said here.

    Args:
        before: ``(queries, columns)``, NaN where a query has no value.
        before_codes: the cluster of each query.
        after: the same of the second set.
        after_codes: the cluster of each of its queries.
        low: the least value that each column can have; minus infinity where there is none.
        high: the greatest.
        level: of the intervals.
        permutations: how many to draw.
        seed: of these draws.

    Raises:
        SettingError: there is no such level, or fewer than one permutation.
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
    known = ~np.isnan(values)
    return [
        float(column[some].mean()) if some.any() else float("nan")
        for column, some in zip(values.T, known.T, strict=True)
    ]


def _difference(
    before: float, after: float, of_before: Floats, of_after: Floats, p: float
) -> MeanDifference:
    difference = after - before
    if np.isnan([*of_before, *of_after]).any():
        return MeanDifference(before, after, difference, NO_INTERVAL, p)
    down = np.hypot(after - of_after[0], of_before[1] - before)
    up = np.hypot(of_after[1] - after, before - of_before[0])
    ends = float(difference - down), float(difference + up)
    return MeanDifference(before, after, difference, ends, p)


def exchanged_p_values(
    before: Floats,
    before_codes: Ints,
    after: Floats,
    after_codes: Ints,
    *,
    permutations: int = 4999,
    seed: int = 0,
) -> Floats:
    """Two-sided p-values of differences between two sets, one a column, corrected for all columns.

    If nothing changed, each cluster could as well have been in the other set, all its columns
    together. A column is measured by the difference of the means over its clustered standard error,
    so that sets of other spread or size are no change (Janssen 1997, Studentized Permutation Tests
    for Non-i.i.d. Hypotheses and the Generalized Behrens-Fisher Problem, Statistics & Probability
    Letters 36, 9-21; Chung & Romano 2013, Annals of Statistics 41, 484-507), and by the share of
    the draws in which that is as large; of all columns the smallest share counts (single-step
    minimum of p, Westfall & Young 1993, Resampling-Based Multiple Testing, section 2.3). Where
    there are no more than ``permutations`` ways to exchange clusters, all are gone through; else
    the sets as they are count as one of the draws.

    Arguments as of :func:`mean_differences`.

    Raises:
        SettingError: ``permutations`` is below 1.
    """
    if permutations < 1:
        raise SettingError(f"a permutation test takes 1 permutation or more, not {permutations}")
    shift = int(before_codes.max(initial=-1)) + 1
    codes = np.concatenate([before_codes, after_codes + shift])
    values = np.vstack([before, after])
    later = np.zeros(int(codes.max(initial=-1)) + 1, dtype=bool)
    later[np.unique(after_codes + shift)] = True
    units = _Units.of(values, codes, len(later))
    few = comb(len(later), int(later.sum())) <= permutations
    # All ways have the one that was seen among them; of those drawn it counts as one.
    blocks = [_all_ways(later)] if few else [later[None], *_drawn_ways(later, permutations, seed)]
    return _smallest(units.measures(later[None])[0], np.concatenate([*map(units.measures, blocks)]))


def _all_ways(later: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """All ways to choose as many, ``(ways, clusters)``."""
    chosen = np.array(list(combinations(range(len(later)), int(later.sum()))), dtype=np.intp)
    ways = np.zeros((len(chosen), len(later)), dtype=bool)
    np.put_along_axis(ways, chosen, values=True, axis=1)
    return ways


def _drawn_ways(
    later: NDArray[np.bool_], permutations: int, seed: int
) -> Iterator[NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    block = max(_CELLS // len(later), 1)
    for start in range(0, permutations, block):
        rows = min(block, permutations - start)
        yield rng.permuted(np.tile(later, (rows, 1)), axis=1)


class _Units(NamedTuple):
    """Sums over each cluster, of which those over a set are made, ``(clusters, columns)``."""

    values: Floats
    counts: Floats
    some: Floats

    @classmethod
    def of(cls, values: Floats, codes: Ints, clusters: int) -> _Units:
        known = ~np.isnan(values)
        # About the mean of all, so that squares do not swamp what they differ by.
        centred = np.where(known, values - np.nan_to_num(_means(values)), 0.0)
        sums, counts = (
            np.stack([np.bincount(codes, column, clusters) for column in part.T], axis=1)
            for part in (centred, known.astype(np.float64))
        )
        return cls(*(part.astype(np.float64) for part in (sums, counts, counts > 0)))

    def measures(self, later: NDArray[np.bool_]) -> Floats:
        """The size of the differences in standard errors, ``(draws, columns)``."""
        means, variances = zip(
            *(self._of(z.astype(np.float64)) for z in (later, ~later)), strict=True
        )
        difference, variance = np.abs(means[0] - means[1]), variances[0] + variances[1]
        scale = np.abs(self.values).max(initial=1e-300)
        nothing = np.isnan(difference) | (difference <= 1e-9 * scale)
        with np.errstate(divide="ignore", invalid="ignore"):
            sizes = difference / np.sqrt(variance)
        return np.where(nothing, 0.0, np.nan_to_num(sizes, nan=0.0, posinf=np.inf))

    def _of(self, weights: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of a set, of which clusters are a part or not."""
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


def _smallest(seen: Floats, measures: Floats) -> Floats:
    """Corrected p-values of what was seen ``(columns,)`` among draws ``(draws, columns)``."""
    # Rounded, for a way and its mirror image are equal but for that.
    ranks = [np.sort(column) for column in measures.round(9).T]

    def shares(sizes: Floats) -> Floats:
        places = [
            np.searchsorted(rank, column) for rank, column in zip(ranks, sizes.T, strict=True)
        ]
        return 1 - np.stack(places, axis=-1) / len(measures)

    least = shares(measures.round(9)).min(axis=1)
    return np.array([(least <= own + 1e-12).mean() for own in shares(seen.round(9))])
