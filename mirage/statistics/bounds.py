"""One-sided confidence bounds for means, above all of values whose range is known."""

from __future__ import annotations

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.errors import SettingError
from mirage.statistics.bootstrap import check_level
from mirage.statistics.clusters import cluster_sums, mean_intervals

__all__ = ["mean_bounds", "upper_bounds"]

_BLOCK = 1000  # draws at a time


def upper_bounds(
    values: Floats,
    codes: Ints,
    *,
    most: float = 1.0,
    level: float = 0.95,
    weightings: int = 9999,
    seed: int = 0,
) -> Floats:
    """Upper ends of one-sided intervals for the mean of each column.

    One cluster more is imagined, as large as the largest, that has the largest possible value
    alone, and clusters are weighted by exponential deviates: the bound is the percentile of the
    weighted means (Gaffke 2005, Three Test Statistics for a Nonparametric One-Sided Hypothesis on
    the Mean of a Nonnegative Variable, Mathematical Methods of Statistics 14, 451-467;
    Learned-Miller & Thomas 2019, arXiv 1905.06208). Of 0 and 1 without clusters it is Clopper and
    Pearson's: of ``n`` zeros it is ``1 - (1 - level) ** (1 / n)``, where Student's t says 0.
    ``benchmarks/power.py`` prints how often what is below such a bound is called so wrongly.

    Args:
        values: ``(queries, columns)``, none above ``most``; NaN where a query has none.
        codes: the cluster of each query.
        most: the largest value that there can be.
        level: share of the bounds that are no smaller than the mean.
        weightings: how many are drawn.
        seed: of these draws.

    Returns:
        One bound per column; NaN for a column without a value.

    Raises:
        SettingError: ``level`` is not between 0 and 1, or ``weightings`` is below 1.
    """
    check_level(level)
    if weightings < 1:
        raise SettingError(f"a bound takes 1 weighting or more, not {weightings}")
    known = ~np.isnan(values)
    counts = cluster_sums(codes, known.astype(np.float64))
    largest = counts.max(axis=0, initial=0.0)
    largest[largest == 0] = np.nan
    sizes = np.vstack([counts, largest])
    sums = np.vstack([np.nan_to_num(cluster_sums(codes, values)), most * largest])
    rng = np.random.default_rng(seed)
    means = []
    for start in range(0, weightings, _BLOCK):
        weights = rng.exponential(size=(min(_BLOCK, weightings - start), len(sizes)))
        means.append(weights @ sums / (weights @ sizes))
    return np.asarray(np.quantile(np.concatenate(means), level, axis=0))


def mean_bounds(
    values: Floats,
    codes: Ints,
    low: Floats,
    high: Floats,
    *,
    level: float = 0.95,
    weightings: int = 9999,
) -> Floats:
    """Return a lower and an upper confidence bound for the mean of each column.

    Each bound is one-sided: the lower one is no larger than the mean in a share ``level`` of cases,
    and so is the upper one no smaller. A bound towards a finite end of the range is that of
    :func:`upper_bounds`, which needs no minimum number of queries and is never at the mean unless
    the mean is at that end. Towards an infinite end it is Student's t between clusters
    (:func:`mirage.statistics.clusters.mean_intervals`): NaN for fewer than ten clusters, and for
    values that are all equal. ``benchmarks/feature_bounds.py`` prints how often bounds hold.

    Args:
        values: ``(queries, columns)``, NaN where a query has none.
        codes: The cluster of each query, counted from 0.
        low: The least value that each column can have; minus infinity if there is none.
        high: The greatest.
        level: Confidence of each bound.
        weightings: How many weightings :func:`upper_bounds` draws.

    Returns:
        ``(columns, 2)``; NaN for a column without a value.

    Raises:
        SettingError: ``level`` is not above 0.5 and below 1.
    """
    check_level(2 * level - 1)
    infinite = np.full(len(low), np.inf)
    bounds = mean_intervals(values, codes, -infinite, infinite, level=2 * level - 1)
    for side, ends, sign in ((0, low, -1.0), (1, high, 1.0)):
        finite = np.flatnonzero(np.isfinite(ends))
        if len(finite):
            # Distances from the end of the range are at most 0.
            beyond = sign * (values[:, finite] - ends[finite])
            distances = upper_bounds(beyond, codes, most=0.0, level=level, weightings=weightings)
            bounds[finite, side] = ends[finite] + sign * distances
    return bounds
