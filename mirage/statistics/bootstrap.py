"""Intervals by drawing queries with replacement: queries are the clusters of all that is judged."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats, Ints
from mirage.errors import SettingError

__all__ = [
    "NO_INTERVAL",
    "Interval",
    "bootstrap",
    "check_level",
    "draw_queries",
    "expanded_level",
    "middle",
    "percentiles",
    "ratio",
    "resampled",
    "sums_by_query",
]

Interval = tuple[float, float]

NO_INTERVAL = (np.nan, np.nan)


def bootstrap(
    query: Ints,
    values: Floats,
    statistic: Callable[[Floats], Floats],
    *,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[float, Interval]:
    """A statistic of sums, and its percentile interval when queries are drawn with replacement.

    Queries are the clusters: what is judged on one query is not independent. ``values`` has a row
    for each of ``query`` and a column for each sum; ``statistic`` maps sums ``(..., columns)`` to
    numbers ``(...)``. The interval (Efron & Tibshirani 1993, An Introduction to the Bootstrap,
    chapter 13) is NaN with fewer than two queries, and where a draw has no value; without a row
    the statistic is NaN, too.
    """
    if not len(query):
        return np.nan, NO_INTERVAL
    counts, query = resampled(query, draws=draws, seed=seed)
    value = float(statistic(values.sum(axis=0)))
    drawn = statistic(counts @ sums_by_query(query, values))
    return value, percentiles(drawn, counts.shape[1], level)


def sums_by_query(query: Ints, values: Floats) -> Floats:
    """The sums of each query's rows of ``values``, in the order of the sorted queries."""
    row = np.unique(query, return_inverse=True)[1]
    return np.stack([np.bincount(row, column) for column in values.T], axis=1)


def resampled(query: Ints, *, draws: int, seed: int) -> tuple[Floats, Ints]:
    """How often each draw has each query that occurs, ``(draws, queries)``, and the codes anew."""
    if draws < 1:
        raise SettingError(f"an interval takes 1 draw or more, not {draws}")
    present, codes = np.unique(query, return_inverse=True)
    counts = draw_queries(len(present), len(present), draws, seed=seed)
    return counts.astype(np.float64), codes


def percentiles(drawn: Floats, queries: int, level: float) -> Interval:
    """The middle ``level`` of the draws, NaN where there are fewer than two queries."""
    check_level(level)
    if queries < 2:
        return NO_INTERVAL
    lower, upper = middle(drawn, level).tolist()
    return lower, upper


def middle(drawn: Floats | Ints, level: float) -> Floats:
    """The percentiles along the first axis that hold the middle ``level``: ``(2, ...)``."""
    check_level(level)
    return np.asarray(np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0))


def expanded_level(level: float, queries: int) -> float:
    """The level at which percentiles of the bootstrap hold the truth as often as ``level`` says.

    Percentiles are too near to each other where queries are few: they are those of a normal
    distribution whose variance lacks a factor of n / (n - 1), where Student's t is due. The
    expanded percentile interval makes up for both (Hesterberg 2015, What Teachers Should Know
    About the Bootstrap, American Statistician 69, 371-386).

    Args:
        level: the share of intervals that is to hold the truth.
        queries: drawn from; two or more.
    """
    from scipy.special import ndtr, stdtrit

    reach = stdtrit(queries - 1, (1 + level) / 2) * np.sqrt(queries / (queries - 1))
    return float(1 - 2 * ndtr(-reach))


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


def check_level(level: float) -> None:
    """Refuse, with a SettingError, a level of confidence that is not between 0 and 1."""
    if not 0 < level < 1:
        raise SettingError(f"level is a share between 0 and 1, such as 0.95, not {level}")
