"""Differences between the means of two periods in which successive values are correlated.

Answers from the same day are correlated, because they share the load, the news and the users of
that day. Successive answers are correlated too. Tests that treat queries as independent therefore
report changes although nothing changed. ``validation/coverage/drift.py`` prints false positive
rates and power.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.statistics.bootstrap import check_level
from mirage.statistics.clusters import small_sample

FEWEST_DAYS = 4
"""The smallest number of days in a period for an interval.

A single day cannot show how much days vary.
"""

_FEWEST_A_DAY = 8  # below this mean number of values per day, weeks are used instead of days
_LARGEST = 0.98  # the largest correlation of successive values


class SerialDifferences(NamedTuple):
    """Tests of the differences between two periods; each array has the shape ``(columns,)``.

    Attributes:
        p: Two-sided p-value, not corrected for the number of columns; NaN if there are too few
            days.
        reach: Distance from the difference to the ends of its confidence interval.
    """

    p: Floats
    reach: Floats


def serial_differences(
    before: Floats,
    before_days: Ints,
    after: Floats,
    after_days: Ints,
    *,
    level: float = 0.95,
) -> SerialDifferences:
    """Test the differences between the means of two periods, with days as clusters.

    The variance of each mean is cluster-robust (:func:`mirage.statistics.clusters.small_sample`),
    with days as clusters. It is multiplied by :func:`day_inflation`, because neighbouring days are
    correlated if successive values are correlated. Student's t has the degrees of freedom of the
    period with fewer days (Hsu 1938, Contributions to the Theory of Student's t-test as Applied to
    the Problem of Two Samples, Statistical Research Memoirs 2, 1-24). The test is conservative for
    few independent groups, whatever their sizes and variances (Ibragimov & Muller 2016, Inference
    with Few Heterogeneous Clusters, Review of Economics and Statistics 98, 83-96).

    Args:
        before: Values of the earlier period in chronological order, of shape ``(queries,
            columns)``; NaN if a query has no value.
        before_days: The day of each query of the earlier period, as an integer.
        after: Values of the later period, in the same form.
        after_days: The day of each query of the later period, as an integer.
        level: Confidence level of the intervals.

    Returns:
        The p-value of each column, and the distance from its difference to the ends of its
        interval.

    Raises:
        SettingError: If ``level`` is not between 0 and 1.

    Example:
        >>> import numpy as np
        >>> days = np.repeat(np.arange(7), 10)
        >>> noise = np.random.default_rng(0).normal(size=(2, 70, 1))
        >>> result = serial_differences(noise[0], days, noise[1] - 2, days)
        >>> bool(result.p[0] < 0.001), round(float(result.reach[0]), 1)
        (True, 0.5)
    """
    check_level(level)
    columns = [
        _test_column(*_without_missing(earlier, before_days), *_without_missing(later, after_days))
        for earlier, later in zip(before.T, after.T, strict=True)
    ]
    from scipy.special import stdtr, stdtrit

    differences, errors, degrees = np.array(columns).reshape(-1, 3).T
    with np.errstate(divide="ignore", invalid="ignore"):
        sizes = np.where(differences == 0, np.minimum(errors, 0.0), np.abs(differences) / errors)
    return SerialDifferences(2 * stdtr(degrees, -sizes), stdtrit(degrees, (1 + level) / 2) * errors)


def _without_missing(column: Floats, days: Ints) -> tuple[Floats, Ints]:
    present = ~np.isnan(column)
    return column[present], np.unique(days[present], return_counts=True)[1]


def _test_column(
    before: Floats, before_sizes: Ints, after: Floats, after_sizes: Ints
) -> tuple[float, float, float]:
    """Return the difference of the means, its standard error and the degrees of freedom.

    ``before_sizes`` and ``after_sizes`` are the numbers of values on each day. All three results
    are NaN if a period has too few days.
    """
    if min(len(before_sizes), len(after_sizes)) < FEWEST_DAYS:
        return np.nan, np.nan, np.nan
    lengths = np.array([len(before), len(after)])
    correlation = _successive_correlation(np.concatenate([before, after]), lengths)
    variance, degrees = 0.0, np.inf
    for values, sizes in ((before, before_sizes), (after, after_sizes)):
        correction = small_sample(sizes)
        starts = np.cumsum(sizes) - sizes
        sums = np.add.reduceat(values - values.mean(), starts)
        each = float(correction.factors @ sums**2) / len(values) ** 2
        variance += each * _inflation(correlation, sizes)
        degrees = min(degrees, correction.degrees)
    return float(after.mean() - before.mean()), float(np.sqrt(variance)), degrees


def day_inflation(values: Floats, days: Ints) -> Floats:
    """Return the factor by which correlation between days increases the variance of each mean.

    The correlation between days is computed from the correlation of successive values, under the
    assumption that the values are a first-order autoregression. The correlation of successive
    values is estimated within days, or within weeks if days have few values. A change from one day
    or week to the next therefore does not count as correlation.

    Args:
        values: Values in chronological order, of shape ``(queries, columns)``; NaN if a query has
            no value.
        days: The day of each query, as a number.

    Returns:
        The factors, of shape ``(columns,)``: the variance of the mean, divided by the expected
        value of its estimate under the assumption that days are independent; at least 1.
    """
    inflations = []
    for column in values.T:
        present, sizes = _without_missing(column, days)
        span = 1 if len(present) >= _FEWEST_A_DAY * len(sizes) else 7
        lengths = np.add.reduceat(sizes, np.arange(0, len(sizes), span))
        correlation = _successive_correlation(present, lengths)
        inflations.append(_inflation(correlation, sizes) if len(sizes) > 1 else 1.0)
    return np.array(inflations)


def _successive_correlation(values: Floats, lengths: Ints) -> float:
    """Return the correlation of successive values, corrected for its bias in short series.

    The correction is that of Kendall (1954, Note on Bias in the Estimation of Autocorrelation,
    Biometrika 41, 403-404).

    Args:
        values: The values of all periods, one period after the other.
        lengths: Number of values of each period; at least 1.
    """
    length = len(values) / max(len(lengths), 1)
    if length <= 4:
        return 0.0
    starts = np.cumsum(lengths) - lengths
    residuals = values - np.repeat(np.add.reduceat(values, starts) / lengths, lengths)
    pairs = residuals[1:] * residuals[:-1]
    pairs[starts[1:] - 1] = 0.0  # values of two periods
    products, squares = float(pairs.sum()), float(residuals @ residuals)
    if squares <= 0:
        return 0.0
    return float(np.clip((length * products / squares + 1) / (length - 3), 0.0, _LARGEST))


def _inflation(correlation: float, sizes: Ints) -> float:
    """Return the factor by which a variance is underestimated if days count as independent.

    The variance is that of the sum of all values. The factor is the true variance, divided by the
    expected value of the estimate. It is at least 1.

    Args:
        correlation: Correlation of successive values.
        sizes: Number of values of each day.
    """
    count, whole = len(sizes), _sum_variance(np.array([sizes.sum()]), correlation)[0]
    apart = _sum_variance(sizes, correlation).sum()
    return float(max(whole / ((apart - whole / count) * count / (count - 1)), 1.0))


def _sum_variance(sizes: Ints, correlation: float) -> Floats:
    """Return the variance of sums of successive values of a first-order autoregression.

    ``sizes`` is the number of values in each sum, and ``correlation`` is that of successive values.
    """
    rest = 1 - correlation
    return np.asarray(
        sizes * (1 + correlation) / rest
        - 2 * correlation * (1 - correlation ** sizes.astype(np.float64)) / rest**2
    )
