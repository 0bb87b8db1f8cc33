"""A test for lasting drops in a production log that can be repeated every day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage._base.tables import Printed, Table
from mirage.errors import SettingError
from mirage.features import FeatureSuite
from mirage.features.registry import facts
from mirage.monitoring.drifts import log_days
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
    """

    feature: str
    before: float
    after: float
    p: float
    worse: bool
    since: str


@dataclass(frozen=True)
class Watch(Printed):
    """The tests of all measures of a log for lasting drops; prints as a table.

    Attributes:
        name: Name of the log.
        periods: Names of the periods that have questions, the oldest first.
        trends: The result for each measure for which higher or lower values are better.
        alpha: Probability of any false alarm, in all periods together.
        needed: Smallest number of periods with which a drop can be tested.
    """

    name: str
    periods: tuple[str, ...]
    trends: tuple[Trend, ...]
    alpha: float
    needed: int

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
    the test estimates this variance from the log. Each day of the week may have its own mean. The
    test also allows for correlation of successive answers
    (:func:`mirage.statistics.serial.day_inflation`).
    ``validation/coverage/drift.py`` prints false alarm rates and power. A single comparison of two
    periods (:func:`mirage.monitoring.drift`) detects smaller losses.

    Args:
        log: The log, from :func:`mirage.monitoring.logs.read`; every line needs a time.
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
    names = tuple(parts)
    weekday = np.array([min(p.times.values()).weekday() for p in parts.values()]) % _WEEK[period]
    losses = (directed.values * np.array([*signs.values()]))[order]
    evidence, starts = trend_evidence(losses, codes[order], weekday, widths)
    # Bonferroni: the sum of the error rates of all measures is at most alpha.
    p_values, start = np.minimum(len(signs) / evidence[-1], 1.0), starts[-1]
    if len(parts) < needed:
        p_values[:] = np.nan
    trends = []
    for j, name in enumerate(signs):
        p, worse = float(p_values[j]), bool(p_values[j] <= alpha)
        values, later = directed.values[:, j], codes >= start[j]
        trends.append(
            Trend(
                name,
                float(np.nanmean(values[~later] if worse else values)),
                float(np.nanmean(values[later])) if worse else float("nan"),
                p,
                worse,
                names[start[j]] if worse else "",
            )
        )
    return Watch(log.dataset.name, names, tuple(trends), alpha, needed)


def fewest_periods(period: str) -> int:
    """Return the smallest number of days, weeks or months with which a drop can be tested."""
    return FEWEST_VALUES + 1 if _WEEK[period] == 1 else _WEEK[period] + 2


def trend_evidence(values: Floats, periods: Ints, groups: Ints, widths: Floats) -> RiseEvidence:
    """Return the evidence that the mean of a column has risen and stayed higher, after each period.

    Args:
        values: Values in chronological order, of shape ``(queries, columns)``. Larger values are
            worse; missing values are NaN.
        periods: The period of each query, numbered from 0.
        groups: The group of each period, such as its day of the week; each group may have its own
            mean.
        widths: Width of the range of each column; infinite if there is none.
    """
    counts = np.stack([np.bincount(periods, ~np.isnan(column)) for column in values.T], axis=1)
    sums = np.stack([np.bincount(periods, np.nan_to_num(column)) for column in values.T], axis=1)
    # A period without a value has the mean of all, which is no evidence for a change.
    overall = sums.sum(axis=0) / counts.sum(axis=0)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), overall)
    # For values of 0 and 1 in equal numbers, the range is twice the standard deviation.
    widths = np.where(np.isfinite(widths), widths, 2 * np.nanstd(values, axis=0))
    smallest = widths / np.maximum(np.median(counts, axis=0), 1)
    return rise_evidence(
        means,
        smallest=np.maximum(smallest, 1e-9),
        groups=groups,
        inflation=day_inflation(values, periods),
    )
