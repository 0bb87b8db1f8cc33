"""Clusters of dependent queries, such as queries on one document, or paraphrases of one question.

A cluster is a name that dependent queries share. Standard errors, intervals and tests treat
clusters as independent of each other. They use sums over clusters, so that queries may depend on
each other in any way within a cluster (Liang & Zeger 1986, Longitudinal Data Analysis Using
Generalized Linear Models, Biometrika 73, 13-22; Cameron & Miller 2015, A Practitioner's Guide to
Cluster-Robust Inference, Journal of Human Resources 50, 317-372). A query without a cluster is a
cluster by itself. ``validation/coverage/clusters.py`` prints coverage and false positive rates with
clusters and without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mirage._base.arrays import Floats, Ints

FEWEST = 4
"""The smallest number of clusters for an interval of a logit."""

FEWEST_FOR_MEANS = 10
"""The smallest number of clusters for an interval of a mean."""

NEAR = 0.05
"""The largest distance from an end of the range that counts as near, as a share of the range."""


def cluster_names(query_ids: Iterable[str], clusters: Mapping[str, str]) -> list[str]:
    """Return a cluster name for each query; a query without a cluster gets a name of its own.

    ``clusters`` maps query ids to names of clusters.
    """
    return [f"cluster {clusters[id_]}" if id_ in clusters else f"query {id_}" for id_ in query_ids]


def cluster_codes(query_ids: Iterable[str], clusters: Mapping[str, str]) -> Ints:
    """Return each query's cluster index, counted from 0 in the order of first occurrence.

    ``clusters`` maps query ids to names of clusters. A query without a cluster is a cluster by
    itself.
    """
    codes: dict[str, int] = {}
    names = cluster_names(query_ids, clusters)
    return np.array([codes.setdefault(name, len(codes)) for name in names], dtype=np.intp)


def cluster_sums(codes: Ints, values: Floats) -> Floats:
    """Return the sum of each column of ``values`` over the queries of each cluster.

    A query without a value (NaN) is ignored. The sum is NaN if no query of a cluster has a value.

    Args:
        codes: Cluster of each query, counted from 0.
        values: Values of shape ``(queries, columns)``.

    Returns:
        The sums, of shape ``(clusters, columns)``.
    """
    size = int(codes.max()) + 1 if len(codes) else 0
    present = ~np.isnan(values)
    filled = np.where(present, values, 0.0)
    sums = np.stack([np.bincount(codes, column, size) for column in filled.T], axis=1)
    counts = np.stack([np.bincount(codes, column, size) for column in present.T], axis=1)
    return np.where(counts > 0, sums, np.nan)


class SmallSample(NamedTuple):
    """Corrections of a cluster-robust variance for a small number of clusters.

    Attributes:
        factors: Factor by which the squared sum of residuals of each cluster is multiplied, of
            shape ``(clusters,)``.
        degrees: Degrees of freedom of Student's t.
    """

    factors: Floats
    degrees: float


def small_sample(sizes: ArrayLike) -> SmallSample:
    """Return the small-sample correction of a cluster-robust variance.

    Residuals of large clusters are too small, because these clusters pull the estimate towards
    themselves. The squared residual of a cluster is therefore divided by 1 minus the cluster's
    share of the queries. The degrees of freedom are Satterthwaite's (Bell & McCaffrey 2002, Bias
    Reduction in Standard Errors for Linear Regression with Multi-Stage Samples, Survey Methodology
    28, 169-181; Pustejovsky & Tipton 2018, Journal of Business & Economic Statistics 36, 672-683).
    Factors and degrees are computed for the mean of values that are identical within each cluster,
    which is the worst case. Clusters of equal size have the factor ``G / (G - 1)`` and ``G - 1``
    degrees. With one cluster, factors are NaN and degrees are 0.

    Args:
        sizes: Number of queries in each cluster.
    """
    counts = np.asarray(sizes, dtype=np.float64)
    if len(counts) < 2:
        return SmallSample(np.full(len(counts), np.nan), 0.0)
    # The closed form avoids rounding errors in the common case of equal sizes.
    if (counts == counts[0]).all():
        return SmallSample(np.full(len(counts), len(counts) / (len(counts) - 1)), len(counts) - 1)
    share, square = counts / counts.sum(), counts**2
    factors = 1 / (1 - share)
    # Sums of residuals have the covariance D - h d' - d h' + h h' sum(d), with the shares h and the
    # squares D = diag(d). Below: the weighted sum of its diagonal, and of its squared elements.
    total = square.sum()
    crossed = share**2 * total - 2 * share * square
    trace = factors @ (square + crossed)
    share_sum, square_sum = factors @ share**2, factors @ square**2
    cross_sum = factors @ (share * square)
    off_diagonal = (
        2 * share_sum * square_sum
        + (total * share_sum) ** 2
        + 2 * cross_sum**2
        - 4 * total * share_sum * cross_sum
    )
    diagonal = factors**2 @ (square * (square + 2 * crossed))
    degrees = max(trace**2 / (off_diagonal + diagonal), 1.0)
    return SmallSample(factors * total / trace, float(degrees))


def mean_intervals(
    values: Floats, codes: Ints, low: Floats, high: Floats, *, level: float = 0.95
) -> Floats:
    """Return the confidence interval for the mean of each column.

    If values have a finite range, the variance of their mean ``m`` is assumed to be ``phi m (1 -
    m)``, in units of the range. The interval contains each ``m`` that a test by Student's t does
    not reject. It is a score interval (Wilson 1927, Journal of the American Statistical Association
    22, 209-212) with the variance of Wedderburn (1974, Quasi-likelihood Functions, Biometrika 61,
    439-447). Its width is therefore above 0 even if all values are equal, for example if all
    answers are right.

    ``phi`` is estimated from the variance between clusters. The estimate is unreliable if nearly
    all values are near an end of the range (:data:`NEAR`) and a few other values determine the
    mean, as with language probabilities. If fewer than :data:`FEWEST_FOR_MEANS` clusters have a
    value that is not near this end, ``phi`` is therefore at least the value that it would have if
    the queries within each cluster were identical.

    Values without a finite range have the interval of Student's t. Both kinds use
    :func:`small_sample`.

    Args:
        values: Values of shape ``(queries, columns)``; NaN if a query has no value.
        codes: Cluster of each query.
        low: Lowest possible value of each column; minus infinity if there is none.
        high: Highest possible value of each column; infinity if there is none.
        level: Confidence level of the intervals.

    Returns:
        The intervals, of shape ``(columns, 2)``; NaN with fewer than :data:`FEWEST_FOR_MEANS`
        clusters. Also NaN if all values are equal and the range is not finite.
    """
    columns = zip(values.T, low.tolist(), high.tolist(), strict=True)
    return np.array(
        [_mean_interval(column, codes, least, most, level) for column, least, most in columns]
    )


def _mean_interval(
    column: Floats, codes: Ints, low: float, high: float, level: float
) -> tuple[float, float]:
    from scipy.special import stdtrit

    present = ~np.isnan(column)
    cluster, sizes = np.unique(codes[present], return_inverse=True, return_counts=True)[1:]
    if len(sizes) < FEWEST_FOR_MEANS:
        return np.nan, np.nan
    mean, correction = float(column[present].mean()), small_sample(sizes)
    residuals = np.bincount(cluster, column[present] - mean)
    variance = float(correction.factors @ residuals**2) / sizes.sum() ** 2
    reach = float(stdtrit(correction.degrees, (1 + level) / 2))
    width = high - low
    if not np.isfinite(width):
        # Equal values give no estimate of the spread; rounding can make their variance positive.
        if not (variance > 0 and np.ptp(column[present]) > 0):
            return np.nan, np.nan
        error = reach * np.sqrt(variance)
        return mean - error, mean + error
    share = (mean - low) / width
    most = share * (1 - share)
    spread = variance / width**2 / most if most > 1e-12 else 0.0
    end = high if share > 0.5 else low
    if len(np.unique(cluster[np.abs(column[present] - end) > NEAR * width])) < FEWEST_FOR_MEANS:
        spread = max(spread, 1 / (correction.degrees + 1))
    # The ends are the two roots of a quadratic equation in m.
    square = reach**2 * spread
    centre, root = 2 * share + square, np.sqrt(square**2 + 4 * square * max(most, 0.0))
    ends = ((centre - root) / (2 + 2 * square), (centre + root) / (2 + 2 * square))
    # Rounding errors can exceed the range.
    return max(low + width * ends[0], low), min(low + width * ends[1], high)


def no_interval_reasons(
    names: Sequence[str], values: Floats, codes: Ints, intervals: Floats
) -> dict[str, str]:
    """Return the reason why :func:`mean_intervals` has no interval for a mean, by column.

    Columns with an interval, or without any value, are left out.

    Args:
        names: Names of the columns.
        values: Values of shape ``(queries, columns)``; NaN if a query has no value.
        codes: Cluster of each query.
        intervals: The intervals, of shape ``(columns, 2)``.
    """
    reasons = {}
    for name, column, (low, _) in zip(names, values.T, intervals, strict=True):
        present = ~np.isnan(column)
        if np.isnan(low) and present.any():
            clusters = len(np.unique(codes[present]))
            reasons[name] = few_clusters(clusters, int(present.sum())) or (
                "all values are equal, and their range is not known"
            )
    return reasons


def few_clusters(clusters: int, queries: int, fewest: int = FEWEST_FOR_MEANS) -> str:
    """Return a message if there are too few clusters for an interval; else an empty string."""
    if clusters >= fewest:
        return ""
    unit = "queries" if clusters == queries else "clusters of queries"
    return f"too few {unit} ({clusters}; at least {fewest} are needed)"


def multipliers(clusters: Sequence[str], draws: int, *, seed: int) -> Floats:
    """Return one standard normal deviate for each draw and cluster, of shape ``(draws, clusters)``.

    The multiplier bootstrap (or score bootstrap) simulates an estimate from another sample. To do
    so, it multiplies the influence of each cluster on the estimate by the deviate of the cluster
    (Kline & Santos 2012, A Score Based Approach to Wild Bootstrap Inference, Journal of Econometric
    Methods 1, 23-41). The deviates depend on the name of the cluster. Estimates on the same
    clusters, such as those in several languages on parallel questions, therefore get the same
    deviates.

    Args:
        clusters: Name of each cluster.
        draws: Number of draws.
        seed: Random seed.
    """
    columns = [
        np.random.default_rng([seed, *name.encode()]).standard_normal(draws) for name in clusters
    ]
    return np.stack(columns, axis=1)
