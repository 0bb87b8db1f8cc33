"""One-sided confidence bounds for means, mainly of values with a limited range."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Bools, Floats, Ints
from mirage.errors import SettingError
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, check_level
from mirage.statistics.clusters import cluster_sums, mean_intervals
from mirage.statistics.quantiles import beta_quantile

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
    """Return the upper confidence bound for the mean of each column.

    The method adds a hypothetical cluster to the data. This cluster is as large as the largest one,
    and all its values are the largest possible value. Clusters are weighted by random exponential
    deviates, and the bound is a percentile of the weighted means (Gaffke 2005, Three Test
    Statistics for a Nonparametric One-Sided Hypothesis on the Mean of a Nonnegative Variable,
    Mathematical Methods of Statistics 14, 451-467; Learned-Miller & Thomas 2019, arXiv 1905.06208).
    For values of 0 and 1 without clusters, it is Clopper and Pearson's bound. If all ``n`` values
    are 0, for example, the bound is ``1 - (1 - level) ** (1 / n)``; Student's t would give 0.
    ``validation/power/power.py`` prints the false positive rate of tests that use the bound.

    Args:
        values: Values of shape ``(queries, columns)``, none above ``most``; NaN if a query has no
            value.
        codes: Cluster of each query, counted from 0.
        most: Largest possible value.
        level: Confidence level of the bound.
        weightings: Number of random weightings.
        seed: Random seed.

    Returns:
        One bound per column; NaN for a column without values.

    Raises:
        SettingError: If ``level`` is not between 0 and 1, or if ``weightings`` is below 1.

    Example:
        >>> import numpy as np
        >>> upper_bounds(np.zeros((28, 1)), np.arange(28)).round(1)
        array([0.1])
    """
    check_level(level)
    means = weighted_means(values, codes, most=most, weightings=weightings, seed=seed)
    return np.asarray(np.quantile(means, level, axis=0))


def weighted_means(
    values: Floats,
    codes: Ints,
    *,
    most: float = 1.0,
    weightings: int = 9999,
    seed: int = 0,
) -> Floats:
    """Return the randomly weighted means from which :func:`upper_bounds` takes a percentile.

    The share of these means that are 0 or more is a p-value for the null hypothesis that the true
    mean is 0 or more. It is at most 0.05 if the upper bound at the level 0.95 is below 0.

    Args:
        values: Values of shape ``(queries, columns)``, none above ``most``; NaN if a query has no
            value.
        codes: Cluster of each query, counted from 0.
        most: Largest possible value.
        weightings: Number of random weightings.
        seed: Random seed.

    Returns:
        The means, of shape ``(weightings, columns)``; NaN for a column without values.

    Raises:
        SettingError: If ``weightings`` is below 1.

    Example:
        >>> import numpy as np
        >>> (weighted_means(np.full((4, 1), -1.0), np.arange(4)) >= 0).mean().round(2)
        np.float64(0.06)
    """
    sums, sizes, added = _weighted_sums(values, codes, weightings, seed)
    return np.asarray((sums + most * added) / (sizes + added))


def _weighted_sums(
    values: Floats, codes: Ints, weightings: int, seed: int
) -> tuple[Floats, Floats, Floats]:
    """Return weighted sums and sizes of the clusters, and weighted sizes of a hypothetical one.

    The hypothetical cluster is as large as the largest one. Weights are exponential deviates. Each
    array has one row per weighting and one column per column of ``values``; columns of sizes are
    merged into one if they are equal. Sizes are NaN for a column without values.
    """
    if weightings < 1:
        raise SettingError(f"weightings must be at least 1, got {weightings}")
    counts = cluster_sums(codes, (~np.isnan(values)).astype(np.float64))
    if (counts == counts[:, :1]).all():
        counts = counts[:, :1]
    largest = counts.max(axis=0, initial=0.0)
    largest[largest == 0] = np.nan  # makes the bound NaN for a column without values
    sums = np.nan_to_num(cluster_sums(codes, values))
    rng = np.random.default_rng(seed)
    blocks = []
    for start in range(0, weightings, _BLOCK):
        weights = rng.exponential(size=(min(_BLOCK, weightings - start), len(sums) + 1))
        blocks.append((weights[:, :-1] @ sums, weights[:, :-1] @ counts, weights[:, -1:] * largest))
    parts = [np.concatenate(part) for part in zip(*blocks, strict=True)]
    return parts[0], parts[1], parts[2]


class RareDifferences(NamedTuple):
    """P-values and intervals that allow for rare differences; shape ``(comparisons,)`` each.

    Attributes:
        p: P-value of the hypothesis that the mean is 0 or on the other side of 0.
        low: Lower end of the interval of each mean.
        high: Upper end of the interval of each mean.
    """

    p: Floats
    low: Floats
    high: Floats


def rare_differences(
    differences: Floats,
    codes: Ints,
    most: Floats,
    *,
    level: float = 0.95,
    weightings: int = 9999,
    seed: int = 0,
) -> RareDifferences:
    """Test whether rare large differences that a sample lacks could outweigh its mean difference.

    If one system is slightly better on nearly all queries and fails completely on a few of them, a
    small sample may contain no such failure. A permutation test then mistakes the system for the
    better one. The regression test of :func:`mirage.testing.comparison.compare` and
    :func:`mirage.statistics.paired_means` therefore also require that the bound of
    :func:`upper_bounds` excludes a mean of 0. The bound adds a hypothetical cluster in which all
    queries have the largest possible difference, against the observed mean.

    The interval excludes 0 if and only if p is at most ``1 - level``. Each of its ends is a
    one-sided bound at this level, because the error is mostly on one side if differences are
    skewed. If all differences are 0 or the largest possible one, the p-value equals that of a
    one-sided sign test, apart from the random weightings. ``validation/coverage/paired.py`` prints
    error rates.

    Args:
        differences: Differences of shape ``(queries, comparisons)``; NaN if a query has none.
        codes: Cluster of each query, counted from 0.
        most: Largest possible absolute difference of each comparison, of shape ``(comparisons,)``.
        level: Confidence level.
        weightings: Number of random weightings.
        seed: Random seed.

    Raises:
        SettingError: If ``weightings`` is below 1.

    Example:
        >>> import numpy as np
        >>> gains = np.full((20, 1), 0.02)  # one failure in 50 queries would outweigh them
        >>> rare_differences(gains, np.arange(20), np.ones(1)).p.round(1)
        array([0.7])
    """
    sums, sizes, added = _weighted_sums(differences, codes, weightings, seed)
    worst = most * added
    tail = np.full((1, differences.shape[1]), np.inf)  # the sample itself counts as a weighting
    lower = np.concatenate([-tail, (sums - worst) / (sizes + added)])
    upper = np.concatenate([tail, (sums + worst) / (sizes + added)])
    ways = len(lower)
    positive = np.nansum(differences, axis=0) >= 0
    p = np.where(positive, (lower <= 0).sum(axis=0), (upper >= 0).sum(axis=0)) / ways
    rank = min(int((1 - level) * ways + 1e-9), ways - 1)  # rounding must not lower the rank
    low = np.partition(lower, rank, axis=0)[rank]
    high = -np.partition(-upper, rank, axis=0)[rank]
    return RareDifferences(p, low, high)


def share_interval(hits: Bools, codes: Ints, *, level: float = 0.95) -> Interval:
    """Return a confidence interval for the share of queries that have a property.

    Without clusters it is the interval of Clopper and Pearson (1934, Biometrika 26, 404-413), whose
    coverage is at least nominal. With clusters both ends are computed by :func:`upper_bounds`, of
    which Clopper and Pearson's bounds are a special case. ``validation/coverage/feature_bounds.py``
    prints the coverage with clusters.

    Args:
        hits: Whether each query has the property.
        codes: Cluster of each query, counted from 0.
        level: Confidence level of the interval.

    Returns:
        The interval; NaN without queries.

    Example:
        >>> low, high = share_interval(np.arange(30) < 2, np.arange(30))
        >>> round(low, 3), round(high, 3)
        (0.008, 0.221)
    """
    check_level(level)
    queries, count, tail = len(hits), int(hits.sum()), (1 - level) / 2
    if not queries:
        return NO_INTERVAL
    if len(np.unique(codes)) == queries:
        low = beta_quantile(count, queries - count + 1, tail) if count else 0.0
        high = beta_quantile(count + 1, queries - count, 1 - tail) if count < queries else 1.0
        return low, high
    values, ends = hits.astype(np.float64)[:, None], (np.zeros(1), np.ones(1))
    lower, upper = mean_bounds(values, codes, *ends, level=1 - tail)[0].tolist()
    return lower, upper


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

    Each bound is one-sided: it is on the correct side of the mean with confidence ``level``. If the
    range of values has a finite end on the side of a bound, the method is that of
    :func:`upper_bounds`. This method needs no minimum number of queries, and its bound equals the
    mean only if the mean is at the end of the range. Otherwise the method is Student's t between
    clusters (:func:`mirage.statistics.clusters.mean_intervals`). It gives NaN if there are fewer
    than ten clusters or all values are equal. ``validation/coverage/feature_bounds.py`` prints the
    coverage of the bounds.

    Args:
        values: Values of shape ``(queries, columns)``; NaN if a query has no value.
        codes: Cluster of each query, counted from 0.
        low: Lowest possible value of each column; minus infinity if there is none.
        high: Highest possible value of each column; infinity if there is none.
        level: Confidence level of each bound.
        weightings: Number of random weightings in :func:`upper_bounds`.

    Returns:
        The bounds, of shape ``(columns, 2)``; NaN for a column without values.

    Raises:
        SettingError: If ``level`` is not above 0.5 and below 1.
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
