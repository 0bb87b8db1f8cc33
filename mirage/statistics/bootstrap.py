"""Bootstrap intervals from queries drawn with replacement; queries are the clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats, Ints
from mirage.errors import SettingError
from mirage.statistics.clusters import small_sample
from mirage.statistics.quantiles import normal_quantile, t_quantile

Interval = tuple[float, float]

NO_INTERVAL = (np.nan, np.nan)


FEWEST_QUERIES = 14
"""The smallest number of queries for an interval of a share or of a coefficient of agreement.

The limit also applies to intervals of differences between shares.

With fewer queries and verdicts that are nearly all equal, every kind of interval that was tried
covers the true value too rarely (``validation/coverage/intervals.py``).
"""


def bootstrap(
    query: Ints,
    values: Floats,
    statistic: Callable[[Floats], Floats],
    *,
    cluster: Ints | None = None,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[float, Interval]:
    """Compute a statistic from the column sums of a table, with a bootstrap interval.

    Queries are the clusters, because judgments on one query are not independent. If queries
    themselves depend on each other, whole clusters of queries are drawn instead. The interval is
    centred on the statistic. Its width is that of the percentile interval of the bootstrap draws,
    corrected for a small number of queries (:func:`widened`).

    Args:
        query: Query of each row of ``values``, as an integer.
        values: The table, of shape ``(rows, columns)``.
        statistic: Function that gets the sums of the columns, of shape ``(..., columns)``, and
            returns the statistic, of shape ``(...)``. Its values must be between -1 and 1.
        cluster: Cluster of each row's query, as an integer; by default each query is its own
            cluster.
        draws: Number of bootstrap draws.
        level: Confidence level of the interval.
        seed: Random seed.

    Returns:
        The statistic and its interval. The statistic is NaN if there are no rows. The interval is
        NaN if there are fewer than :data:`FEWEST_QUERIES` queries (or clusters, if they are given),
        if the statistic is NaN for a draw, or if all draws are equal.

    Raises:
        SettingError: If ``draws`` is below 1 or ``level`` is not between 0 and 1.
    """
    if draws < 1:
        raise SettingError(f"draws must be at least 1, got {draws}")
    check_level(level)
    if not len(query):
        return np.nan, NO_INTERVAL
    value = float(statistic(values.sum(axis=0)))
    group = query if cluster is None else cluster
    sums = sums_by_query(group, values)
    if len(sums) < FEWEST_QUERIES:
        return value, NO_INTERVAL
    counts = draw_queries(len(sums), len(sums), draws, seed=seed)
    query_groups = np.unique(np.stack([group, query], axis=1), axis=0)[:, 0]
    # Each query has the count of its cluster; the correction needs the sizes of clusters.
    code = np.unique(query_groups, return_inverse=True)[1]
    drawn = statistic(counts.astype(np.float64) @ sums)
    drawn = widened(drawn, counts[:, code], code.tolist(), level=level)
    if not np.ptp(drawn) > 0:
        return value, NO_INTERVAL
    lower, upper = np.clip(value + middle(drawn - drawn.mean(), level), -1, 1).tolist()
    return value, (lower, upper)


def sums_by_query(query: Ints, values: Floats) -> Floats:
    """Return the sums of the rows that belong to the same query, sorted by query.

    ``query`` has an integer for each row of ``values`` that identifies its query.
    """
    row = np.unique(query, return_inverse=True)[1]
    return np.stack([np.bincount(row, column) for column in values.T], axis=1)


def middle(drawn: Floats | Ints, level: float) -> Floats:
    """Return the ends of the central interval that contains the share ``level`` of the draws.

    ``drawn`` has the shape ``(draws, ...)``, and the result the shape ``(2, ...)``.
    """
    check_level(level)
    return np.asarray(np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0))


def draws_covariance(
    draws: Floats, counts: NDArray[np.int32], clusters: Sequence[str] = ()
) -> Floats:
    """Return the covariance matrix of estimates, computed from bootstrap draws of queries.

    It is the covariance of the draws times ``m / (n - 1)`` if each draw consists of ``m`` of ``n``
    queries. With ``m = n``, the variance of the draws is smaller than that of the estimates, by a
    factor of ``(n - 1) / n``; with a smaller ``m`` it is larger (Rao & Wu 1988, Resampling
    Inference with Complex Survey Data, Journal of the American Statistical Association 83,
    231-241). The result is NaN with fewer than two queries.

    Args:
        draws: The estimates on each draw, of shape ``(draws, estimates)``.
        counts: Number of times that each draw contains each query, of shape ``(draws, queries)``.
        clusters: Cluster of each query, if whole clusters were drawn (:func:`draw_clusters`). Then
            ``m`` and ``n`` count clusters instead of queries, and the factor has the correction of
            :func:`mirage.statistics.clusters.small_sample`.
    """
    about = draws - draws.mean(axis=0)
    return np.asarray(about.T @ about / max(len(draws) - 1, 1) * _scale(counts, clusters) ** 2)


def draws_degrees(counts: NDArray[np.int32], clusters: Sequence[str] = ()) -> float:
    """Return the degrees of freedom of a covariance from :func:`draws_covariance`.

    Their number is the number of queries minus one. If whole clusters were drawn, it is the number
    that :func:`mirage.statistics.clusters.small_sample` returns for these clusters.

    Args:
        counts: Number of times that each draw contains each query, of shape ``(draws, queries)``.
        clusters: Cluster of each query, if whole clusters were drawn.
    """
    return small_sample(_cluster_counts(counts, clusters)[1]).degrees


def widened(
    draws: Floats, counts: NDArray[np.int32], clusters: Sequence[str] = (), *, level: float = 0.95
) -> Floats:
    """Spread bootstrap draws about their mean, so that percentile intervals reach nominal coverage.

    With few queries, plain percentile intervals are too narrow (Hesterberg 2015, What Teachers
    Should Know About the Bootstrap, American Statistician 69, 371-386). The percentile interval of
    the result is as wide as an interval by Student's t, with the covariance of
    :func:`draws_covariance` and the degrees of freedom of :func:`draws_degrees`.

    Args:
        draws: The estimates on each draw, of shape ``(draws, estimates)``.
        counts: Number of times that each draw contains each query, of shape ``(draws, queries)``.
        clusters: Cluster of each query, if whole clusters were drawn.
        level: Confidence level of the percentile intervals.

    Returns:
        The spread draws, in the shape of ``draws``; NaN with fewer than two queries.
    """
    check_level(level)
    mean = draws.mean(axis=0)
    tail = (1 + level) / 2
    degrees = max(float(draws_degrees(counts, clusters)), 1)
    reach = t_quantile(degrees, tail) / normal_quantile(tail)
    return np.asarray(mean + _scale(counts, clusters) * reach * (draws - mean))


def _scale(counts: NDArray[np.int32], clusters: Sequence[str]) -> float:
    """Return the factor by which deviations of draws from their mean must be multiplied.

    Its square is the factor of the covariance in :func:`draws_covariance`.
    """
    once, sizes = _cluster_counts(counts, clusters)
    weights = np.square(sizes) / np.square(sizes).sum()
    factor = small_sample(sizes).factors @ weights
    return float(np.sqrt(once.sum() / len(sizes) * factor))


def _cluster_counts(counts: NDArray[np.int32], clusters: Sequence[str]) -> tuple[Ints, Ints]:
    """Return how often the first draw contains each cluster, and the size of each cluster.

    The first draw is enough, because all draws contain the same number of clusters.
    """
    if not clusters:
        return counts[0].astype(np.intp), np.ones(counts.shape[1], dtype=np.intp)
    _, first, sizes = np.unique(clusters, return_index=True, return_counts=True)
    return counts[0][first].astype(np.intp), sizes


def ratio(above: Floats, below: Floats) -> Floats:
    """Return ``above / below``; elements are NaN if ``below`` is 0."""
    quotient = np.full(np.broadcast(above, below).shape, np.nan)
    return np.asarray(np.divide(above, below, out=quotient, where=below != 0), dtype=np.float64)


def draw_queries(queries: int, size: int, draws: int, *, seed: int) -> NDArray[np.int32]:
    """Draw queries at random, and return how often each draw contains each query.

    Queries are drawn with replacement, as in MIRAGE-Bench (arXiv 2410.13716), which calls a draw a
    tournament. The result has the shape ``(draws, queries)``.

    Args:
        queries: Total number of queries.
        size: Number of queries in each draw.
        draws: Number of draws.
        seed: Random seed.
    """
    picks = np.random.default_rng(seed).integers(queries, size=(draws, size))
    cells = picks + np.arange(draws)[:, None] * queries
    counts = np.bincount(cells.ravel(), minlength=draws * queries)
    return counts.reshape(draws, queries).astype(np.int32)


def draw_clusters(
    clusters: Sequence[str], size: int | None, draws: int, *, seed: int
) -> NDArray[np.int32]:
    """Draw whole clusters at random, and return how often each draw contains each query.

    The result has the shape ``(draws, queries)``. The draws depend only on the sorted names of the
    clusters. Datasets with the same clusters, such as translations, therefore get the same draws,
    even if their queries are in a different order.

    Args:
        clusters: Cluster of each query.
        size: Average number of queries in a draw, at most the total number of queries. ``None``
            means the total number.
        draws: Number of draws.
        seed: Random seed.
    """
    names, code = np.unique(clusters, return_inverse=True)
    share = 1.0 if size is None else min(size / len(clusters), 1.0)
    return draw_queries(len(names), max(round(share * len(names)), 1), draws, seed=seed)[:, code]


def check_level(level: float) -> None:
    """Raise a SettingError if a confidence level is not between 0 and 1."""
    if not 0 < level < 1:
        raise SettingError(f"level must be between 0 and 1, such as 0.95, got {level}")
