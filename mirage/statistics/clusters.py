"""What hangs together counts as one: queries on one document, paraphrases, parallel questions.

A cluster is a name that such queries share. All that says how sure a figure is goes by clusters:
what varies independently is the sum over a cluster, whatever goes on within it (Liang & Zeger 1986,
Longitudinal Data Analysis Using Generalized Linear Models, Biometrika 73, 13-22; Cameron & Miller
2015, A Practitioner's Guide to Cluster-Robust Inference, Journal of Human Resources 50, 317-372).
A query that shares nothing is a cluster by itself. ``benchmarks/clusters.py`` prints how often
intervals and alarms are wrong with clusters and without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mirage._base.arrays import Floats, Ints

__all__ = [
    "FEWEST",
    "FEWEST_FOR_MEANS",
    "NEAR",
    "SmallSample",
    "cluster_codes",
    "cluster_names",
    "cluster_sums",
    "mean_intervals",
    "multipliers",
    "small_sample",
]

FEWEST = 4
"""Clusters below which no logit has an interval."""

FEWEST_FOR_MEANS = 10
"""Clusters below which a mean has no interval."""

NEAR = 0.05
"""The share of a range within which a value is next to its end."""


def cluster_names(query_ids: Iterable[str], clusters: Mapping[str, str]) -> list[str]:
    """A name for the cluster of each query: its own where ``clusters`` has none for it."""
    return [f"cluster {clusters[id_]}" if id_ in clusters else f"query {id_}" for id_ in query_ids]


def cluster_codes(query_ids: Iterable[str], clusters: Mapping[str, str]) -> Ints:
    """The clusters of queries, counted from 0 in the order in which they come."""
    seen: dict[str, int] = {}
    names = cluster_names(query_ids, clusters)
    return np.array([seen.setdefault(name, len(seen)) for name in names], dtype=np.intp)


def cluster_sums(codes: Ints, values: Floats) -> Floats:
    """Sums over the queries of each cluster, ``(clusters, columns)``, of ``(queries, columns)``.

    A query without a value (NaN) has no part in them; NaN where none of a cluster has one.
    """
    size = int(codes.max()) + 1 if len(codes) else 0
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    sums = np.stack([np.bincount(codes, column, size) for column in filled.T], axis=1)
    counts = np.stack([np.bincount(codes, column, size) for column in known.T], axis=1)
    return np.where(counts > 0, sums, np.nan)


class SmallSample(NamedTuple):
    """What makes up for few clusters.

    Attributes:
        factors: on the square of each cluster's sum of residuals, ``(clusters,)``.
        degrees: of freedom of Student's t.
    """

    factors: Floats
    degrees: float


def small_sample(sizes: ArrayLike) -> SmallSample:
    """The correction of a cluster-robust variance, from the number of queries in each cluster.

    Residuals of large clusters are too small, for they have moved the estimate; their squares are
    divided by 1 less their share of the queries, and degrees of freedom are Satterthwaite's (Bell
    & McCaffrey 2002, Bias Reduction in Standard Errors for Linear Regression with Multi-Stage
    Samples, Survey Methodology 28, 169-181; Pustejovsky & Tipton 2018, Journal of Business &
    Economic Statistics 36, 672-683), both as for a mean of queries that are alike within a cluster,
    which is the worst case. Clusters of one size have the factor ``G / (G - 1)`` and ``G - 1``
    degrees. With one cluster factors are NaN, and degrees 0.
    """
    counts = np.asarray(sizes, dtype=np.float64)
    if len(counts) < 2:
        return SmallSample(np.full(len(counts), np.nan), 0.0)
    if (counts == counts[0]).all():
        return SmallSample(np.full(len(counts), len(counts) / (len(counts) - 1)), len(counts) - 1)
    share, square = counts / counts.sum(), counts**2
    factors = 1 / (1 - share)
    # Residuals' sums have the covariance D - h d' - d h' + h h' sum(d), where h are the shares and
    # D = diag(d) the squares; below are the weighted sum of its diagonal, and that of its squares.
    total = square.sum()
    crossed = share**2 * total - 2 * share * square
    trace = factors @ (square + crossed)
    of_shares, of_squares = factors @ share**2, factors @ square**2
    of_both = factors @ (share * square)
    everywhere = (
        2 * of_shares * of_squares
        + (total * of_shares) ** 2
        + 2 * of_both**2
        - 4 * total * of_shares * of_both
    )
    diagonal = factors**2 @ (square * (square + 2 * crossed))
    degrees = max(trace**2 / (everywhere + diagonal), 1.0)
    return SmallSample(factors * total / trace, float(degrees))


def mean_intervals(
    values: Floats, codes: Ints, low: Floats, high: Floats, *, level: float = 0.95
) -> Floats:
    """Lower and upper end for the mean of each column over the queries that have it.

    With ends to its range, a mean has the variance ``phi m (1 - m)``, in units of the range, and
    the interval holds each ``m`` that is no farther from the mean than Student's t says (a score
    interval, as Wilson 1927, Journal of the American Statistical Association 22, 209-212, with
    the variance of Wedderburn 1974, Quasi-likelihood Functions, Biometrika 61, 439-447): so that
    answers that are all right do not make it certain that all others are. ``phi`` is estimated
    between clusters; where fewer than :data:`FEWEST_FOR_MEANS` of them have anything that is not
    near the nearer end (:data:`NEAR`), it is no less than if all that is in a cluster were alike:
    nearly all probabilities of a language are next to 0 or 1, and the few others make the mean.
    Other means have t's interval. Both with :func:`small_sample`; NaN below
    :data:`FEWEST_FOR_MEANS` clusters, and for values without ends to their range that are all
    equal.

    Args:
        values: ``(queries, columns)``, NaN where a query has none.
        codes: the cluster of each query.
        low: the least value that each column can have; minus infinity where there is none.
        high: the greatest.
        level: share of the intervals that hold the mean.

    Returns:
        ``(columns, 2)``.
    """
    columns = zip(values.T, low.tolist(), high.tolist(), strict=True)
    return np.array(
        [_mean_interval(column, codes, least, most, level) for column, least, most in columns]
    )


def _mean_interval(
    column: Floats, codes: Ints, low: float, high: float, level: float
) -> tuple[float, float]:
    from scipy.special import stdtrit

    known = ~np.isnan(column)
    cluster, sizes = np.unique(codes[known], return_inverse=True, return_counts=True)[1:]
    if len(sizes) < FEWEST_FOR_MEANS:
        return np.nan, np.nan
    mean, correction = float(column[known].mean()), small_sample(sizes)
    residuals = np.bincount(cluster, column[known] - mean)
    variance = float(correction.factors @ residuals**2) / sizes.sum() ** 2
    reach = float(stdtrit(correction.degrees, (1 + level) / 2))
    width = high - low
    if not np.isfinite(width):
        # Equal values say nothing of others. Rounding gives them a variance above 0.
        if not (variance > 0 and np.ptp(column[known]) > 0):
            return np.nan, np.nan
        error = reach * np.sqrt(variance)
        return mean - error, mean + error
    share = (mean - low) / width
    most = share * (1 - share)
    spread = variance / width**2 / most if most > 1e-12 else 0.0
    end = high if share > 0.5 else low
    if len(np.unique(cluster[np.abs(column[known] - end) > NEAR * width])) < FEWEST_FOR_MEANS:
        spread = max(spread, 1 / (correction.degrees + 1))
    square = reach**2 * spread
    centre, root = 2 * share + square, np.sqrt(square**2 + 4 * square * max(most, 0.0))
    ends = ((centre - root) / (2 + 2 * square), (centre + root) / (2 + 2 * square))
    return low + width * ends[0], low + width * ends[1]


def multipliers(clusters: Sequence[str], draws: int, *, seed: int) -> Floats:
    """A standard normal deviate for each draw and cluster, ``(draws, clusters)``.

    They are what influences are multiplied by where an estimate is drawn anew: the multiplier, or
    score, bootstrap (Kline & Santos 2012, A Score Based Approach to Wild Bootstrap Inference,
    Journal of Econometric Methods 1, 23-41). They go by the name of a cluster: estimates that rest
    on the same clusters, such as those in several languages on parallel questions, are drawn
    together.
    """
    columns = [
        np.random.default_rng([seed, *name.encode()]).standard_normal(draws) for name in clusters
    ]
    return np.stack(columns, axis=1)
