"""A test for lasting drops in a production log that can be repeated every day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats, Ints
from mirage._base.tables import Printed, Table
from mirage.errors import SettingError
from mirage.features import FeatureSuite
from mirage.features.registry import facts
from mirage.monitoring.drifts import (
    describe_less_measured,
    log_days,
    missing_values,
    value_counts,
)
from mirage.monitoring.logs import Log
from mirage.monitoring.traffic import measure_log
from mirage.statistics.alarms import FEWEST_VALUES, RiseEvidence, rise_evidence
from mirage.statistics.serial import day_inflation
from mirage.text.recurring import recurring_sentences

_WEEK = {"day": 7, "week": 1, "month": 1}  # number of periods in a weekly pattern


class Trend(NamedTuple):
    """The change of one measure of a log over its periods (days, weeks or months).

    Attributes:
        feature: Name of the measure.
        before: Mean of the periods before ``since``, or of all periods if ``since`` is empty.
        after: Mean of the periods from ``since`` on; NaN if ``since`` is empty.
        p: P-value of a lasting change for the worse, corrected for the number of measures. It
            remains valid if it is checked after every period. NaN if there are too few periods.
        worse: Whether the change is statistically significant.
        since: Name of the period in which the change most likely began; empty if it is not
            significant.
        queries: Number of questions with a value.
    """

    feature: str
    before: float
    after: float
    p: float
    worse: bool
    since: str
    queries: int


@dataclass(frozen=True)
class Watch(Printed):
    """The tests of all measures of a log for lasting drops; prints as a table.

    Attributes:
        name: Name of the log.
        periods: Names of the periods that have questions, the oldest first.
        trends: The result for each measure for which higher or lower values are better.
        alpha: Probability of any false alarm, in all periods together.
        needed: Smallest number of periods with which a drop can be tested.
        queries: Number of questions.
        less_measured: The measures that a growing share of answered questions has no value of. In
            these entries, ``before`` and ``after`` are the shares without a value. Questions
            without an answer are counted in ``failed`` instead.
    """

    name: str
    periods: tuple[str, ...]
    trends: tuple[Trend, ...]
    alpha: float
    needed: int
    queries: int
    less_measured: tuple[Trend, ...] = ()

    @property
    def fell(self) -> tuple[Trend, ...]:
        """The measures with a significant drop that lasts to the last period."""
        return tuple(trend for trend in self.trends if trend.worse)

    @property
    def has_enough(self) -> bool:
        """Whether a drop can be tested: there are enough periods, and a measure to test."""
        return bool(self.trends) and len(self.periods) >= self.needed

    def _tables(self) -> tuple[Table]:
        rows = tuple(
            (
                trend.feature,
                f"{trend.before:.3f}",
                f"{trend.after:.3f}" if trend.worse else "",
                "" if np.isnan(trend.p) else f"{trend.p:.4f}",
                f"worse since {trend.since}" if trend.worse else "",
            )
            for trend in self.trends
        )
        notes = [f"probability of any false alarm in all periods: {100 * self.alpha:g} %"]
        if not self.has_enough:
            notes.append(f"at least {self.needed} periods are needed, got {len(self.periods)}")
        counts = {trend.feature: (trend.queries,) for trend in self.trends}
        notes += value_counts(counts, (self.queries,))
        if self.less_measured:
            since = min(trend.since for trend in self.less_measured)
            notes.append(f"since {since}, {describe_less_measured(self.less_measured)}")
        title = f"{self.name}: {len(self.periods)} periods, {self.periods[0]} to {self.periods[-1]}"
        return (Table(title, ("", "before", "since", "p", ""), rows, notes=tuple(notes), name=0),)


def watch(
    log: Log,
    *,
    period: str = "day",
    suite: FeatureSuite | None = None,
    alpha: float = 0.05,
    n_jobs: int = 1,
    progress: bool = True,
) -> Watch:
    """Test whether any measure of a log has got worse and stayed worse.

    The function compares means of days, weeks or months. Call it on the whole log as often as you
    like: the probability of any false alarm is at most ``alpha`` for the whole life of the log
    (:func:`mirage.statistics.alarms.rise_evidence`). Means vary between days by more than chance;
    the test estimates this variance from the log. A day with few questions counts less than a full
    day, and so does the current day, of which the log has only the first questions. Each day of the
    week may have its own mean. The test also allows for correlation of successive answers
    (:func:`mirage.statistics.serial.day_inflation`).
    ``validation/coverage/drift.py`` prints false alarm rates and power. A single comparison of two
    periods (:func:`mirage.monitoring.drift`) detects smaller losses.

    The function also tests whether a growing share of answered questions has no value of a measure,
    for example because lines do not list the passages (:attr:`Watch.less_measured`).

    Args:
        log: The log, from :func:`mirage.monitoring.logs.read`; every line needs a time,
            unless lines without one are skipped (``skip_damaged``).
        period: ``day``, ``week`` or ``month`` (ISO 8601, UTC).
        suite: The features; by default all that need neither gold data nor a model.
        alpha: Probability of any false alarm.
        n_jobs: Number of processes that compute features, as in joblib.
        progress: Whether to show progress bars.

    Returns:
        The result for each measure for which higher or lower values are better.

    Raises:
        DatasetError: A line has no time.
        FeatureError: No feature can be computed, or a feature fails.
        SettingError: ``alpha`` is not between 0 and 1.
        UnknownNameError: There is no such period.
    """
    if not 0 < alpha < 1:
        raise SettingError(f"alpha must be above 0 and below 1, such as 0.05; got {alpha}")
    log = log.dated()
    parts = log.by(period)
    needed = fewest_periods(period)
    # The first days decide what is a template. A faulty sentence would otherwise become one as soon
    # as it is in most answers of the log.
    first = [r.text for part in list(parts.values())[:needed] for r in part.run if r.text]
    table = measure_log(
        log.dataset,
        log.run,
        suite,
        recurring=recurring_sentences(first),
        n_jobs=n_jobs,
        progress=progress,
    ).table
    position = {id_: i for i, part in enumerate(parts.values()) for id_ in part.dataset.query_ids}
    codes = np.array([position[id_] for id_ in table.query_ids])
    entries = [facts(name, table.facts) for name in table.features]
    signs = {
        name: -1.0 if higher else 1.0
        for name, entry in zip(table.features, entries, strict=True)
        if (higher := entry.higher_is_better(table.language)) is not None
        and not np.isnan(table[name]).all()
    }
    directed = table.columns(list(signs))
    ranges = [facts(name, table.facts) for name in signs]
    widths = np.array([entry.high - entry.low for entry in ranges])
    order = log_days(log).order
    weekday = np.array([min(p.times.values()).weekday() for p in parts.values()]) % _WEEK[period]
    losses = directed.values * np.array([*signs.values()])
    groups, missing = missing_values(directed.values, table["failed"])
    evidence, starts = trend_evidence(
        np.hstack([losses, missing])[order],
        codes[order],
        weekday,
        np.append(widths, np.ones(len(groups))),
        latest=True,
    )
    # Bonferroni: the sum of the error rates of all tests is at most alpha.
    p_values, start = np.minimum(evidence.shape[1] / evidence[-1], 1.0), starts[-1]
    if len(parts) < needed:
        p_values[:] = np.nan
    tests = _Tests(codes, tuple(parts), p_values, start, alpha)
    count = len(signs)
    trends = [tests.trend(name, directed.values[:, j], j) for j, name in enumerate(signs)]
    shares = [
        tests.trend([*signs][j], missing[:, k], count + k)
        for k, group in enumerate(groups)
        for j in group
    ]
    return Watch(
        log.dataset.name,
        tests.names,
        tuple(trends),
        alpha,
        needed,
        len(table),
        tuple(share for share in shares if share.worse),
    )


class _Tests(NamedTuple):
    """The results of the tests of all columns.

    Attributes:
        codes: The period of each question, numbered from 0.
        names: Names of the periods.
        p_values: Corrected p-value of each column.
        start: The period in which the change of each column most likely began.
        alpha: Probability of any false alarm.
    """

    codes: Ints
    names: tuple[str, ...]
    p_values: Floats
    start: Ints
    alpha: float

    def trend(self, name: str, values: Floats, column: int) -> Trend:
        """Return the change of a measure, whose test has the position ``column``."""
        p, since = float(self.p_values[column]), int(self.start[column])
        worse, later = p <= self.alpha, self.codes >= since
        return Trend(
            name,
            float(np.nanmean(values[~later] if worse else values)),
            float(np.nanmean(values[later])) if worse else float("nan"),
            p,
            worse,
            self.names[since] if worse else "",
            int((~np.isnan(values)).sum()),
        )


def fewest_periods(period: str) -> int:
    """Return the smallest number of days, weeks or months with which a drop can be tested."""
    return FEWEST_VALUES + 1 if _WEEK[period] == 1 else _WEEK[period] + 2


def trend_evidence(
    values: Floats, periods: Ints, groups: Ints, widths: Floats, *, latest: bool = False
) -> RiseEvidence:
    """Return the evidence that the mean of a column has risen and stayed higher, after each period.

    The mean of a period has a weight that depends on its number of values, because the mean of few
    values varies more.

    Args:
        values: Values in chronological order, of shape ``(queries, columns)``. Larger values are
            worse; missing values are NaN.
        periods: The period of each query, numbered from 0.
        groups: The group of each period, such as its day of the week; each group may have its own
            mean.
        widths: Width of the range of each column; infinite if there is none.
        latest: Whether to compute only the evidence after the last period.
    """
    days = _day_means(values, periods)
    # For values of 0 and 1 in equal numbers, the range is twice the standard deviation.
    widths = np.where(np.isfinite(widths), widths, 2 * np.nanstd(values, axis=0))
    weights, smallest = _day_weights(days, groups, widths)
    return rise_evidence(
        days.means,
        smallest=np.maximum(smallest, 1e-9),
        groups=groups,
        inflation=day_inflation(values, periods),
        weights=weights,
        latest=latest,
    )


class _DayMeans(NamedTuple):
    """The values of each period; the arrays have the shape ``(periods, columns)``.

    Attributes:
        counts: Number of values.
        means: Mean of the values; 0 if there is none.
        squares: Sum of the squared deviations from the mean.
    """

    counts: Floats
    means: Floats
    squares: Floats


def _day_means(values: Floats, periods: Ints) -> _DayMeans:
    present = ~np.isnan(values)
    filled = np.where(present, values, 0.0)
    counts, sums = (_period_sums(each, periods) for each in (present, filled))
    means = sums / np.maximum(counts, 1)
    deviations = np.where(present, filled - means[periods], 0.0)
    return _DayMeans(counts, means, _period_sums(deviations**2, periods))


def _period_sums(values: Floats | NDArray[np.bool_], periods: Ints) -> Floats:
    return np.stack([np.bincount(periods, column) for column in values.T], axis=1)


def _day_weights(days: _DayMeans, groups: Ints, widths: Floats) -> tuple[Floats, Floats]:
    """Return the weight of each period's mean, and the smallest credible standard deviation.

    A mean of ``n`` values has the variance ``b + w / n``. Here ``b`` is the variance between
    periods of a group, and ``w`` is the variance within periods; both are estimated by the method
    of moments (Searle, Casella & McCulloch 1992, Variance Components, chapter 3). ``w`` is
    increased as if one value of a period of average length could change from the worst value to
    the best. Otherwise a first failure after many successes would count as impossible. The weight
    is inversely proportional to the variance; a period without a value has the weight 0. The
    weights of each column have the mean 1.

    Args:
        days: The values of each period.
        groups: The group of each period.
        widths: Width of the range of each column.
    """
    counts, means, squares = days
    totals, used = counts.sum(axis=0), (counts > 0).sum(axis=0)
    within = squares.sum(axis=0) / np.maximum(totals - used, 1)
    members = np.eye(int(groups.max()) + 1)[groups]
    sizes = np.maximum(members.T @ counts, 1)
    centred = means - members @ (members.T @ (counts * means) / sizes)
    degrees = used - (members.T @ counts > 0).sum(axis=0)
    excess = (counts * centred**2).sum(axis=0) - degrees * within
    scale = totals - (members.T @ counts**2 / sizes).sum(axis=0)
    between = np.where(scale > 0, np.maximum(excess, 0.0) / np.maximum(scale, 1), 0.0)
    flips = widths**2 * used / np.maximum(totals, 1)
    divisors = np.maximum(counts, 1)
    variances = np.maximum(between + (within + flips) / divisors, 1e-18)
    weights = np.where(counts > 0, 1 / variances, 0.0)
    weights *= np.maximum(used, 1) / np.maximum(weights.sum(axis=0), 1e-300)
    smallest = flips * (weights / divisors).sum(axis=0) / np.maximum(used, 1)
    return weights, np.sqrt(smallest)
