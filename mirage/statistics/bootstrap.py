"""Intervals by drawing queries with replacement: queries are the clusters of all that is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats, Ints
from mirage.errors import SettingError
from mirage.statistics.clusters import small_sample

__all__ = [
    "FEWEST_QUERIES",
    "NO_INTERVAL",
    "Interval",
    "bootstrap",
    "check_level",
    "draw_clusters",
    "draw_queries",
    "draws_covariance",
    "draws_degrees",
    "middle",
    "ratio",
    "sums_by_query",
    "widened",
]

Interval = tuple[float, float]

NO_INTERVAL = (np.nan, np.nan)


FEWEST_QUERIES = 14
"""Queries below which shares, their differences and coefficients of agreement have no interval.

Of fewer, intervals of every kind that was tried hold the truth too rarely where verdicts are nearly
all alike (``benchmarks/intervals.py``).
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
    """A statistic of sums, and its interval when queries are drawn with replacement.

    Queries are the clusters: what is judged on one query is not independent. Where queries hang
    together, ``cluster`` is what each row's query hangs together by, and whole clusters are drawn.
    ``values`` has a row for each of ``query`` and a column for each sum; ``statistic`` maps sums
    ``(..., columns)`` to numbers ``(...)`` from -1 to 1. The interval is about the statistic, as
    wide as :func:`widened` draws say. It is NaN with fewer than :data:`FEWEST_QUERIES` of what is
    drawn, where a draw has no value, and where all draws are equal, which says nothing; without a
    row the statistic is NaN, too.
    """
    if draws < 1:
        raise SettingError(f"an interval takes 1 draw or more, not {draws}")
    check_level(level)
    if not len(query):
        return np.nan, NO_INTERVAL
    value = float(statistic(values.sum(axis=0)))
    group = query if cluster is None else cluster
    sums = sums_by_query(group, values)
    if len(sums) < FEWEST_QUERIES:
        return value, NO_INTERVAL
    counts = draw_queries(len(sums), len(sums), draws, seed=seed)
    of_queries = np.unique(np.stack([group, query], axis=1), axis=0)[:, 0]
    code = np.unique(of_queries, return_inverse=True)[1]
    drawn = statistic(counts.astype(np.float64) @ sums)
    drawn = widened(drawn, counts[:, code], code.tolist(), level=level)
    if not np.ptp(drawn) > 0:
        return value, NO_INTERVAL
    lower, upper = np.clip(value + middle(drawn - drawn.mean(), level), -1, 1).tolist()
    return value, (lower, upper)


def sums_by_query(query: Ints, values: Floats) -> Floats:
    """The sums of each query's rows of ``values``, in the order of the sorted queries."""
    row = np.unique(query, return_inverse=True)[1]
    return np.stack([np.bincount(row, column) for column in values.T], axis=1)


def middle(drawn: Floats | Ints, level: float) -> Floats:
    """The percentiles along the first axis that hold the middle ``level``: ``(2, ...)``."""
    check_level(level)
    return np.asarray(np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0))


def draws_covariance(
    draws: Floats, counts: NDArray[np.int32], clusters: Sequence[str] = ()
) -> Floats:
    """Covariance of estimates from what they were on queries drawn with replacement.

    It is that of the draws, times ``m / (n - 1)`` where ``m`` of ``n`` queries were drawn: with
    ``m = n`` draws vary less than estimates do, by a factor of ``(n - 1) / n``, and with fewer
    they vary more (Rao & Wu 1988, Resampling Inference with Complex Survey Data, Journal of the
    American Statistical Association 83, 231-241). NaN with fewer than two queries.

    Args:
        draws: the estimates, ``(draws, estimates)``.
        counts: how often each draw has each query, ``(draws, queries)``.
        clusters: the cluster of each query where clusters were drawn (:func:`draw_clusters`); then
            they are what is counted, and the factor has the correction of
            :func:`mirage.statistics.clusters.small_sample`.
    """
    about = draws - draws.mean(axis=0)
    return np.asarray(about.T @ about / max(len(draws) - 1, 1) * _scale(counts, clusters) ** 2)


def draws_degrees(counts: NDArray[np.int32], clusters: Sequence[str] = ()) -> float:
    """Degrees of freedom of :func:`draws_covariance`: one less than there are queries drawn from.

    Of clusters, those of :func:`mirage.statistics.clusters.small_sample`.
    """
    return small_sample(_drawn(counts, clusters)[1]).degrees


def widened(
    draws: Floats, counts: NDArray[np.int32], clusters: Sequence[str] = (), *, level: float = 0.95
) -> Floats:
    """Draws, moved away from their mean until their percentiles hold the truth.

    The middle ``level`` is then as wide as Student's t makes it with one degree of freedom less
    than there are queries, from the covariance of :func:`draws_covariance`; percentiles of few
    queries are too near to each other (Hesterberg 2015, What Teachers Should Know About the
    Bootstrap, American Statistician 69, 371-386). Arguments as of :func:`draws_covariance`; NaN
    with fewer than two queries.
    """
    from scipy.special import ndtri, stdtrit

    check_level(level)
    mean = draws.mean(axis=0)
    tail = (1 + level) / 2
    reach = stdtrit(max(draws_degrees(counts, clusters), 1), tail) / ndtri(tail)
    return np.asarray(mean + _scale(counts, clusters) * reach * (draws - mean))


def _scale(counts: NDArray[np.int32], clusters: Sequence[str]) -> float:
    """The factor on the deviations of draws."""
    once, sizes = _drawn(counts, clusters)
    weights = np.square(sizes) / np.square(sizes).sum()
    factor = small_sample(sizes).factors @ weights
    return float(np.sqrt(once.sum() / len(sizes) * factor))


def _drawn(counts: NDArray[np.int32], clusters: Sequence[str]) -> tuple[Ints, Ints]:
    """How often the first draw has each cluster, and how many queries that is."""
    if not clusters:
        return counts[0].astype(np.intp), np.ones(counts.shape[1], dtype=np.intp)
    _, first, sizes = np.unique(clusters, return_index=True, return_counts=True)
    return counts[0][first].astype(np.intp), sizes


def ratio(above: Floats, below: Floats) -> Floats:
    """The quotient, NaN where ``below`` is 0."""
    quotient = np.full(np.broadcast(above, below).shape, np.nan)
    return np.asarray(np.divide(above, below, out=quotient, where=below != 0), dtype=np.float64)


def draw_queries(queries: int, size: int, draws: int, *, seed: int) -> NDArray[np.int32]:
    """How often each draw of ``size`` queries, with replacement, has each: ``(draws, queries)``.

    The resampling of the paper's tournaments (MIRAGE-Bench, arXiv 2410.13716).
    """
    picks = np.random.default_rng(seed).integers(queries, size=(draws, size))
    cells = picks + np.arange(draws)[:, None] * queries
    counts = np.bincount(cells.ravel(), minlength=draws * queries)
    return counts.reshape(draws, queries).astype(np.int32)


def draw_clusters(
    clusters: Sequence[str], size: int | None, draws: int, *, seed: int
) -> NDArray[np.int32]:
    """How often each draw has each query when whole clusters are drawn: ``(draws, queries)``.

    Clusters are drawn in the order of their names, so that the same clusters in another order, or
    in another language, are drawn alike.

    Args:
        clusters: the cluster of each query.
        size: queries that a draw has at most, on average; ``None`` for as many as there are.
        draws: how many.
        seed: of the draws.
    """
    names, code = np.unique(clusters, return_inverse=True)
    share = 1.0 if size is None else min(size / len(clusters), 1.0)
    return draw_queries(len(names), max(round(share * len(names)), 1), draws, seed=seed)[:, code]


def check_level(level: float) -> None:
    """Refuse, with a SettingError, a level of confidence that is not between 0 and 1."""
    if not 0 < level < 1:
        raise SettingError(f"level is a share between 0 and 1, such as 0.95, not {level}")
