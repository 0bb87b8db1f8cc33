"""Comparison of two production logs: whether the answers or the questions changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage._base.tables import Printed, Table
from mirage.dataset import clusters_of
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.features import FeatureSuite, FeatureTable
from mirage.features.base import Facts, Need
from mirage.features.registry import facts
from mirage.monitoring.logs import FEWEST_JOINED, Clustering, Log, regroup
from mirage.monitoring.traffic import NEW_WORDS, LogMeasures, measure_log, new_words
from mirage.statistics.bootstrap import NO_INTERVAL
from mirage.statistics.clusters import FEWEST_FOR_MEANS, cluster_codes
from mirage.statistics.permutation import holm
from mirage.statistics.serial import FEWEST_DAYS, serial_differences
from mirage.statistics.two_sample import MeanDifference, mean_differences
from mirage.testing.comparison import Verdict
from mirage.text.recurring import recurring_sentences

QUESTIONS = ("question_length", "other_language", "new_words")
"""Measures of the questions alone, which do not depend on the system."""

_MOST = 0.5  # a cluster with a larger share of the questions is reported
_BLOCKS = 10  # blocks of lines that count as days in a log without times
_CITED = ("support_lexical", "relevance_lexical")


@dataclass(frozen=True, kw_only=True)
class Shift(MeanDifference):
    """The change of one measure between two logs.

    Attributes:
        feature: Name of the measure: a feature, a measure of
            :func:`mirage.monitoring.traffic.traffic`, or ``new_words``
            (:func:`mirage.monitoring.traffic.new_words`).
        changed: Whether the difference is statistically significant.
        worse: Whether the difference is for the worse; ``None`` if neither higher nor lower values
            are better.
        lost_at_most: The largest loss in the confidence interval of the difference, as a share of
            the measure's range. If the share of questions with a value fell, the missing values
            count as complete losses. NaN if neither higher nor lower values are better. Infinite
            if there is no interval or the range is not finite.
        queries: Number of questions with a value, in the earlier and the later log.
    """

    feature: str
    changed: bool
    worse: bool | None
    lost_at_most: float
    queries: tuple[int, int]


@dataclass(frozen=True)
class Drift(Printed):
    """The changes from one log to another; prints as a table.

    Attributes:
        before: Name of the earlier log.
        after: Name of the later log.
        shifts: The change of each measure.
        unmeasured: Reasons why other features are not compared, by name.
        queries: Number of questions in the earlier and the later log.
        days: Number of days in the earlier and the later log; ``None`` if lines have no time.
        clusters: Number of clusters in the earlier and the later log.
        largest: Share of the questions in the largest cluster, for the earlier and the later log.
        clustering: Description of how questions are grouped into clusters.
        alpha: False positive rate for all measures together.
        margin: The loss that ``no worse`` rules out; ``None`` if it is not tested.
        less_measured: The measures of which significantly fewer answered questions have a value.
            In these entries, ``before`` and ``after`` are the shares of answered questions without
            a value. Questions without an answer are counted in ``failed`` instead.
    """

    before: str
    after: str
    shifts: tuple[Shift, ...]
    unmeasured: Mapping[str, str]
    queries: tuple[int, int]
    days: tuple[int, int] | None
    clusters: tuple[int, int]
    largest: tuple[float, float]
    clustering: str
    alpha: float
    margin: float | None
    less_measured: tuple[Shift, ...] = ()

    @property
    def fell(self) -> tuple[Shift, ...]:
        """The measures with a statistically significant change for the worse."""
        return tuple(shift for shift in self.shifts if shift.changed and shift.worse)

    @property
    def comparable(self) -> tuple[Shift, ...]:
        """The measures that have an interval and for which higher or lower values are better.

        Only these measures can be called worse.
        """
        return tuple(
            shift
            for shift in self.shifts
            if not np.isnan(shift.lost_at_most) and not np.isnan(shift.interval[0])
        )

    @property
    def inconclusive(self) -> tuple[Shift, ...]:
        """The measures for which a loss above the margin cannot be ruled out."""
        threshold = np.inf if self.margin is None else self.margin
        return tuple(shift for shift in self.shifts if shift.lost_at_most > threshold)

    @property
    def verdict(self) -> Verdict | None:
        """The verdict: ``"worse"``, ``"no worse"`` (by more than the margin) or ``"inconclusive"``.

        It is ``"inconclusive"`` if :attr:`comparable` is empty or :attr:`less_measured` is not.
        Otherwise, it is ``None`` if no loss is significant and there is no margin.
        """
        if self.fell:
            return "worse"
        if self.less_measured or not self.comparable:
            return "inconclusive"
        if self.margin is None:
            return None
        return "inconclusive" if self.inconclusive else "no worse"

    @property
    def needed_days(self) -> str:
        """A message that states how many days are needed for intervals.

        It is empty if both logs have enough days, or if lines have no time.
        """
        if self.days is None or min(self.days) >= FEWEST_DAYS:
            return ""
        return (
            f"each log needs at least {FEWEST_DAYS} days to show how much days vary, but they have "
            f"{self.days[0]} and {self.days[1]}; mirage logs watch compares single days"
        )

    def __getitem__(self, feature: str) -> Shift:
        shifts = {shift.feature: shift for shift in self.shifts}
        if feature not in shifts:
            raise UnknownNameError("measure", feature, shifts, "in this comparison")
        return shifts[feature]

    def _tables(self) -> tuple[Table]:
        counts = " and ".join(
            f"{queries} questions in {clusters} cluster{'' if clusters == 1 else 's'}"
            for queries, clusters in zip(self.queries, self.clusters, strict=True)
        )
        header = ("", "before", "after", "change", "95 % interval", "")
        rows = tuple(map(_cells, self.shifts))
        title = f"{self.before} and {self.after}: {counts}"
        return (Table(title, header, rows, notes=tuple(self._notes()), name=0),)

    def _notes(self) -> list[str]:
        notes = [f"clusters: {self.clustering}"]
        notes += _cluster_notes(min(self.clusters), max(self.largest))
        if self.days is None:
            notes.append(
                f"not all lines have a time: the lines are assumed to be in the order of time, and "
                f"{_BLOCKS} blocks of them count as days"
            )
        if self.needed_days:
            notes.append(self.needed_days)
        if min(self.clusters) < FEWEST_FOR_MEANS or self.needed_days:
            notes.append("without intervals no change is reported")
        else:
            without = [s.feature for s in self.shifts if np.isnan(s.interval[0])]
            if without:
                words = f"without an interval, so no change is reported: {', '.join(without)}"
                notes.append(words)
        questions = [s.feature for s in self.shifts if s.changed and s.feature in QUESTIONS]
        if questions and self.fell:
            notes.append(
                f"the questions changed too ({', '.join(questions)}): they may be the cause of "
                "the losses"
            )
        notes.append(f"false positive rate of all changes together: {100 * self.alpha:g} %")
        counts = {s.feature: s.queries for s in self.shifts if s.feature not in NEW_WORDS}
        notes += value_counts(counts, self.queries)
        if self.less_measured:
            notes.append(describe_less_measured(self.less_measured))
        return [*notes, *_group_reasons(self.unmeasured)]


def _cluster_notes(clusters: int, largest: float) -> list[str]:
    """Return notes on a log with too few clusters for intervals, or with a very large cluster.

    ``clusters`` is the number of clusters, and ``largest`` is the share of the questions in the
    largest one.
    """
    notes = []
    if clusters < FEWEST_FOR_MEANS:
        notes.append(f"intervals need at least {FEWEST_FOR_MEANS} clusters, so there are none")
    if largest > _MOST:
        notes.append(
            f"one cluster has {100 * largest:.0f} % of the questions; if this is wrong, set "
            "cluster to the field that identifies clusters, such as the session"
        )
    return notes


def value_counts(counts: Mapping[str, Sequence[int]], totals: Sequence[int]) -> list[str]:
    """Return a line for each group of measures of which the same number of questions has a value.

    Measures with a value for all questions are left out.

    Args:
        counts: Number of questions with a value, by measure: in one log, or in an earlier and a
            later one.
        totals: Number of all questions, in the same form.
    """
    names: dict[tuple[int, ...], list[str]] = {}
    for name, present in counts.items():
        names.setdefault(tuple(present), []).append(name)
    lines = []
    for present, group in names.items():
        if present == tuple(totals):
            continue
        parts = [f"{number} of {all_}" for number, all_ in zip(present, totals, strict=True)]
        words = f"{parts[0]} questions"
        if len(parts) > 1:
            words += f" before and of {parts[1]} after"
        lines.append(f"values of {words}: {', '.join(group)}")
    return lines


class _Shares(Protocol):
    """A test of the share of questions without a value of a measure."""

    @property
    def feature(self) -> str:
        """Name of the measure."""

    @property
    def before(self) -> float:
        """Earlier share of questions without a value."""

    @property
    def after(self) -> float:
        """Later share of questions without a value."""


def describe_less_measured(changes: Sequence[_Shares]) -> str:
    """Return a sentence that lists the measures of which fewer questions have a value."""
    names: dict[tuple[float, float], list[str]] = {}
    for change in changes:
        names.setdefault((change.before, change.after), []).append(change.feature)
    groups = "; ".join(
        f"{', '.join(group)} (no value on {100 * before:.0f} % of answered questions before and "
        f"{100 * after:.0f} % after)"
        for (before, after), group in names.items()
    )
    return (
        f"significantly fewer questions could be measured, so losses may be hidden: {groups}; "
        "mirage logs features shows the reasons"
    )


class Clustered(Protocol):
    """The protocol of logs whose questions are grouped into clusters.

    Two classes satisfy it: :class:`mirage.monitoring.logs.Log` (a log in memory) and
    :class:`mirage.monitoring.log_streams.MeasuredLog` (a log whose values are in a file).
    """

    @property
    def clustering(self) -> Clustering:
        """How questions are grouped into clusters, such as ``"sessions"``."""

    @property
    def joined(self) -> int:
        """The number of clusters that would remain if sessions with an equal question were joined.

        It is used only if :attr:`clustering` is ``"sessions"``.
        """


def describe_clusters(log: Clustered) -> str:
    """Return a phrase that describes how the questions of a log are grouped into clusters."""
    if log.clustering == "field":
        return "questions with the same value in the cluster field"
    if log.clustering == "questions":
        return "equal questions (no line names a user or session)"
    if log.clustering == "questions and sessions":
        return "equal questions and the questions of one user or session, joined"
    return (
        f"the questions of one user or session; joining equal questions as well would leave only "
        f"{log.joined} (fewer than {FEWEST_JOINED}), so equal questions of different users count "
        "separately, and intervals are valid for other users who ask the same questions"
    )


def _describe_both(before: Log, after: Log) -> str:
    words = list(dict.fromkeys(map(describe_clusters, (before, after))))
    return words[0] if len(words) == 1 else f"before, {words[0]}; after, {words[1]}"


def cautions(log: Clustered, side: LogMeasures) -> list[str]:
    """Return warnings about ``side``, the measures of a log, one line each.

    The warnings are about too few clusters, measures that are 0 because no answer cites a passage,
    and features that cannot be measured.
    """
    table = side.table
    codes = cluster_codes(table.query_ids, table.clusters)
    clusters = int(codes.max()) + 1
    notes = _cluster_notes(clusters, _largest_share(codes))
    if notes or log.clustering == "sessions":
        notes.insert(0, f"{clusters} clusters: {describe_clusters(log)}")
    uncited = [name for name in _CITED if name in table.features]
    cites = table["cites"]
    if uncited and (cites == 0).any() and not (cites > 0).any():
        notes.append(f"no answer cites a passage, so {' and '.join(uncited)} are 0")
    notes += _unknown_passages(table)
    return [*notes, *_group_reasons(unmeasured(side))]


def _unknown_passages(table: FeatureTable) -> list[str]:
    """Return a line with the number of questions whose passages are unknown, if there are some."""
    unknown = int(np.isnan(table["passages_shown"]).sum())
    if not 0 < unknown < len(table):
        return []
    return [
        f"{unknown} of {len(table)} lines do not list the passages that were shown, and measures "
        "that need passages leave them out; if none was shown, write an empty list"
    ]


def _group_reasons(reasons: Mapping[str, str]) -> list[str]:
    """Return a line with the features that are not measured, grouped by reason, if there are any.

    ``reasons`` maps the name of each such feature to the reason.
    """
    names: dict[str, list[str]] = {}
    for name, why in reasons.items():
        names.setdefault(why, []).append(name)
    groups = "; ".join(f"{', '.join(group)} ({why})" for why, group in names.items())
    return [f"not measured: {groups}"] if groups else []


def _cells(shift: Shift) -> tuple[str, ...]:
    word = {None: "changed", True: "worse", False: "better"}[shift.worse] if shift.changed else ""
    return (shift.feature, f"{shift.before:.3f}", f"{shift.after:.3f}", *shift.cells, word)


def drift(
    before: Log,
    after: Log,
    *,
    suite: FeatureSuite | None = None,
    margin: float | None = None,
    alpha: float = 0.05,
    seed: int = 0,
    n_jobs: int = 1,
    progress: bool = True,
) -> Drift:
    """Compare two logs of a system that contain different questions.

    The function compares features that need no gold data, measures of the shown passages, rates of
    failures, empty answers and abstentions, and the questions themselves. If both logs have the
    same questions, :func:`mirage.testing.assert_no_regression` detects smaller losses. Sentences
    that recur in most answers of the earlier log count as a template in both logs, and are not
    scored.

    A measure changed if its corrected p-value is at most ``alpha`` and the interval of its
    difference excludes 0. Two tests are made, and the result has the larger p-value and the wider
    interval. The first, :func:`mirage.statistics.mean_differences`, treats clusters of questions as
    independent. The second, :func:`mirage.statistics.serial.serial_differences`, treats days as the
    units and allows for correlation of successive answers. ``validation/coverage/logs.py`` and
    ``validation/coverage/drift.py`` print their error rates. The questions of both logs are
    clustered by the same rule (:func:`mirage.monitoring.logs.regroup`). If either log has fewer
    than ten clusters or four days, there are no intervals and the verdict is ``inconclusive``. If
    lines have no times, they are assumed to be in chronological order, and are divided into ten
    blocks that count as days.

    The same two tests compare the share of answered questions without a value of each measure, with
    the significance level ``alpha`` of their own. If it rose significantly, losses may be hidden,
    and the verdict is ``inconclusive`` unless a measure got worse (:attr:`Drift.less_measured`).

    The error rates hold for a single comparison. To check a log every day, use
    :func:`mirage.monitoring.watch`.

    The verdict is ``no worse`` if no interval includes a loss above the margin. If the true loss
    equals the margin, 95 % intervals give this verdict in about one of 40 comparisons, and more
    often for rates close to 1.

    Args:
        before: The earlier log, from :func:`mirage.monitoring.logs.read`.
        after: The later log.
        suite: The features; by default all that need neither gold data nor a model.
        margin: The loss that ``no worse`` rules out, as a share of each measure's range. By
            default ``no worse`` is not tested.
        alpha: False positive rate for all measures together.
        seed: Random seed of the permutation tests.
        n_jobs: Number of processes that compute features, as in joblib.
        progress: Whether to show progress bars.

    Returns:
        The change of each measure, and a verdict.

    Raises:
        DatasetError: The logs are in different languages.
        FeatureError: No feature can be computed, or a feature fails.
        SettingError: ``alpha`` or ``margin`` is not between 0 and 1.
    """
    for name, share in (("alpha", alpha), ("margin", margin)):
        if share is not None:
            _check_share(name, share)
    if before.dataset.language != after.dataset.language:
        raise DatasetError(
            f"{before.dataset.name} is in {before.dataset.language!r}, but {after.dataset.name} "
            f"is in {after.dataset.language!r}; compare logs in the same language"
        )
    before, after = regroup([before, after])
    # A sentence of the later answers alone is a change, and no template.
    recurring = recurring_sentences(filter(None, (response.text for response in before.run)))
    sides = [
        measure_log(
            log.dataset, log.run, suite, recurring=recurring, n_jobs=n_jobs, progress=progress
        )
        for log in (before, after)
    ]
    return drift_of(before, after, sides, margin=margin, alpha=alpha, seed=seed)


def drift_each(
    log: Log,
    period: str,
    *,
    suite: FeatureSuite | None = None,
    alpha: float = 0.05,
    seed: int = 0,
    n_jobs: int = 1,
    progress: bool = True,
) -> dict[str, Drift]:
    """Compare each day, week or month of a log with all other periods together.

    Use it if you do not know in advance which period may differ. Each comparison is made by
    :func:`drift`, with the significance level ``alpha`` divided by the number of periods
    (Bonferroni). So ``alpha`` is the false positive rate for all periods and measures together.

    Args:
        log: The log, from :func:`mirage.monitoring.logs.read`; every line needs a time.
        period: ``day``, ``week`` or ``month`` (ISO 8601, UTC). An interval needs four days, so
            single days have none.
        suite: The features; by default all that need neither gold data nor a model.
        alpha: False positive rate for all periods and measures together.
        seed: Random seed of the permutation tests.
        n_jobs: Number of processes that compute features, as in joblib.
        progress: Whether to show progress bars.

    Returns:
        The comparisons by name of the period. In each, all other periods are the earlier log, and
        this period is the later log.

    Raises:
        DatasetError: A line has no time, or there is only one period.
        FeatureError: No feature can be computed, or a feature fails.
        SettingError: ``alpha`` is not between 0 and 1.
        UnknownNameError: There is no such period.
    """
    _check_share("alpha", alpha)
    pairs = log.each(period)
    whole = measure_log(log.dataset, log.run, suite, n_jobs=n_jobs, progress=progress)
    results = {}
    for name, (others, part) in pairs.items():
        sides = [
            LogMeasures(
                replace(
                    whole.table.select(side.dataset.query_ids), clusters=clusters_of(side.dataset)
                ),
                whole.unmet,
            )
            for side in (others, part)
        ]
        results[name] = drift_of(others, part, sides, alpha=alpha / len(pairs), seed=seed)
    return results


def _check_share(name: str, share: float) -> None:
    if not 0 < share < 1:
        raise SettingError(f"{name} must be above 0 and below 1, such as 0.05; got {share}")


def drift_of(
    before: Log,
    after: Log,
    sides: Sequence[LogMeasures],
    *,
    margin: float | None = None,
    alpha: float = 0.05,
    seed: int = 0,
) -> Drift:
    """Compare two logs of one language, given the measures that were computed on them.

    The questions of both logs must be clustered by the same rule
    (:func:`mirage.monitoring.logs.regroup`).

    Args:
        before: The earlier log.
        after: The later log.
        sides: The measures of the earlier and the later log.
        margin: Largest acceptable loss for the verdict ``no worse``, as a share of each measure's
            range. With ``None``, this verdict is not tested.
        alpha: False positive rate for all measures together.
        seed: Random seed of the permutation test.

    Returns:
        The change of each measure, and a verdict.
    """
    tables = _with_new_words(before, after, *(side.table for side in sides))
    earlier, later = tables
    columns = [name for name in earlier.features if _in_both(name, *tables)]
    codes = [cluster_codes(table.query_ids, table.clusters) for table in tables]
    shifts = shifts_between(
        earlier.columns(columns),
        later.columns(columns),
        times=(log_days(before), log_days(after)),
        alpha=alpha,
        seed=seed,
    )
    return Drift(
        before.dataset.name,
        after.dataset.name,
        shifts,
        _not_compared(sides, tables, columns),
        (len(earlier), len(later)),
        _count_days(before, after),
        (int(codes[0].max()) + 1, int(codes[1].max()) + 1),
        (_largest_share(codes[0]), _largest_share(codes[1])),
        _describe_both(before, after),
        alpha,
        margin,
        _less_measured(earlier, later, (log_days(before), log_days(after)), alpha, seed),
    )


def _less_measured(
    before: FeatureTable,
    after: FeatureTable,
    times: tuple[LogDays, LogDays],
    alpha: float,
    seed: int,
) -> tuple[Shift, ...]:
    """Return the measures that significantly fewer answered questions have a value of.

    A measure that the later log lacks has a value for none of its questions.
    """
    names = [
        name
        for name in before.features
        if name not in NEW_WORDS and not np.isnan(before[name]).all()
    ]
    none = np.full(len(after), np.nan)
    later = [after[name] if name in after.features else none for name in names]
    groups, values = missing_values(
        np.vstack([before.columns(names).values, np.column_stack(later)]),
        np.concatenate([table["failed"] for table in (before, after)]),
    )
    if not groups:
        return ()
    labels = tuple(f"no value of {names[group[0]]}" for group in groups)
    tables = [
        replace(
            table,
            features=labels,
            values=part,
            facts=dict.fromkeys(labels, Facts("lower", 0, 1)),
            reasons={},
        )
        for table, part in ((before, values[: len(before)]), (after, values[len(before) :]))
    ]
    shifts = shifts_between(*tables, times=times, alpha=alpha, seed=seed)
    return tuple(
        replace(shift, feature=names[j])
        for shift, group in zip(shifts, groups, strict=True)
        for j in group
        if shift.changed and shift.worse
    )


def missing_values(values: Floats, failed: Floats) -> tuple[list[list[int]], Floats]:
    """Return which answered questions lack a value, without repetitions.

    Args:
        values: Values of the measures, of shape ``(questions, measures)``; missing ones are NaN.
        failed: 1 for each question without an answer, else 0.

    Returns:
        Groups of measures (positions) that lack values on the same questions, and a column for
        each group: 1 if an answered question has no value, 0 if it has one, and NaN for a question
        without an answer. Measures that all answered questions have are left out.
    """
    missing = np.isnan(values) & (failed == 0)[:, None]
    groups: dict[bytes, list[int]] = {}
    for j in np.flatnonzero(missing.any(axis=0)).tolist():
        groups.setdefault(missing[:, j].tobytes(), []).append(j)
    firsts = [group[0] for group in groups.values()]
    return list(groups.values()), np.where(failed[:, None] == 0, missing[:, firsts], np.nan)


def shifts_between(
    before: FeatureTable,
    after: FeatureTable,
    *,
    times: tuple[LogDays, LogDays] | None = None,
    alpha: float,
    level: float = 0.95,
    permutations: int = 4999,
    seed: int,
) -> tuple[Shift, ...]:
    """Test each column of two tables for a difference between their means.

    Args:
        before: The earlier table.
        after: The later table, with the same columns.
        times: The days of the rows of both tables, from :func:`log_days`. If given, a second test
            allows for correlation between days. By default all clusters of queries count as
            independent.
        alpha: False positive rate for all columns together.
        level: Confidence level of the intervals.
        permutations: Number of random permutations in the permutation test.
        seed: Random seed of the permutation test.

    Returns:
        The change of each column.
    """
    column_facts = [facts(name, {**before.facts, **after.facts}) for name in before.features]
    low, high = (np.array([getattr(fact, end) for fact in column_facts]) for end in ("low", "high"))
    codes = [cluster_codes(table.query_ids, table.clusters) for table in (before, after)]
    sets = (before.values, codes[0], after.values, codes[1], low, high)
    rows = mean_differences(*sets, level=level, permutations=permutations, seed=seed)
    if times is not None:
        first, second = times
        tests = serial_differences(
            before.values[first.order],
            first.days,
            after.values[second.order],
            second.days,
            level=level,
        )
        p_values = holm(np.nan_to_num(tests.p, nan=1.0))
        ends = zip(p_values.tolist(), tests.reach.tolist(), (high - low).tolist(), strict=True)
        rows = [_widen(row, *each) for row, each in zip(rows, ends, strict=True)]
    totals = len(before), len(after)
    return tuple(
        _shift(
            name,
            row,
            fact.higher_is_better(before.language),
            fact.high - fact.low,
            alpha,
            tuple(int((~np.isnan(table[name])).sum()) for table in (before, after)),
            totals,
        )
        for name, row, fact in zip(before.features, rows, column_facts, strict=True)
    )


def _widen(row: MeanDifference, p: float, reach: float, width: float) -> MeanDifference:
    """Combine two tests of a difference: keep the larger p-value, and widen the interval.

    ``row`` is the result of the first test. The second test has the p-value ``p``, and its interval
    extends by ``reach`` to both sides of the difference. The combined interval covers both
    intervals, but does not extend beyond ``-width`` and ``width``, where ``width`` is the length of
    the range of the values. It is NaN if either interval is missing.
    """
    # The difference cannot leave the range of the values.
    low = max(min(row.interval[0], row.difference - reach), -width)
    high = min(max(row.interval[1], row.difference + reach), width)
    interval = NO_INTERVAL if np.isnan([reach, *row.interval]).any() else (low, high)
    return replace(row, p=max(row.p, p), interval=interval)


class LogDays(NamedTuple):
    """The questions of a log in chronological order.

    Attributes:
        order: Positions of the questions in the log, in chronological order.
        days: Index of the day of each question, in chronological order. If lines have no time, it
            is the index of the block of lines that contains the question.
    """

    order: Ints
    days: Ints


def log_days(log: Log) -> LogDays:
    """Return the questions of a log in chronological order, with their days."""
    ids = log.dataset.query_ids
    if _has_times(log):
        times = [log.times[id_] for id_ in ids]
        order = np.array(sorted(range(len(ids)), key=lambda i: times[i]), dtype=np.intp)
        dates = np.array([times[i].toordinal() for i in order.tolist()])
        return LogDays(order, np.unique(dates, return_inverse=True)[1])
    order = np.arange(len(ids))
    return LogDays(order, order * _BLOCKS // max(len(ids), 1))


def _has_times(log: Log) -> bool:
    return all(id_ in log.times for id_ in log.dataset.query_ids)


def _count_days(before: Log, after: Log) -> tuple[int, int] | None:
    if not (_has_times(before) and _has_times(after)):
        return None
    first, second = (len(np.unique(log_days(log).days)) for log in (before, after))
    return first, second


def _largest_share(codes: Ints) -> float:
    return float(np.bincount(codes).max() / len(codes))


def _with_new_words(
    before: Log, after: Log, earlier: FeatureTable, later: FeatureTable
) -> list[FeatureTable]:
    columns = new_words(before.dataset, after.dataset, earlier.clusters, later.clusters)
    return [
        replace(
            table,
            features=(*table.features, *NEW_WORDS),
            values=np.column_stack([table.values, column]),
            facts={**table.facts, **NEW_WORDS},
        )
        for table, column in zip((earlier, later), columns, strict=True)
    ]


def _in_both(name: str, *tables: FeatureTable) -> bool:
    return all(name in table.features and not np.isnan(table[name]).all() for table in tables)


def _not_compared(
    sides: Sequence[LogMeasures], tables: list[FeatureTable], columns: list[str]
) -> dict[str, str]:
    """Return the features that are not compared, each with the reason."""
    reasons: dict[str, str] = {}
    for side, table in zip(sides, tables, strict=True):
        for name in table.features:
            if name not in columns and np.isnan(table[name]).all():
                why = next((w for (_, f), w in table.reasons.items() if f == name), "no value")
                reasons.setdefault(name, f"{why} (on all of {len(table)} questions)")
        for name, why in unmeasured(side).items():
            reasons.setdefault(name, why)
    return reasons


def unmeasured(side: LogMeasures) -> dict[str, str]:
    """Return the features that cannot be measured on a log, each with the reason."""
    lists_passages = not np.isnan(side.table["passages_shown"]).all()
    return {name: _describe_needs(needs, lists_passages) for name, needs in side.unmet.items()}


def _describe_needs(needs: tuple[Need, ...], lists_passages: bool) -> str:
    if needs == ("passages",) and lists_passages:
        return "all lists of passages in the log are empty"
    if needs == ("passages",):
        return "the log does not say which passages were shown"
    return f"needs {' and '.join(_GOLD.get(need, need) for need in needs)}"


_GOLD: Mapping[Need, str] = {
    "reference": "a reference",
    "answers": "short answers",
    "answerable": "the label whether a passage answers",
    "unanswerable queries": "the label that no passage answers",
}


def _shift(
    name: str,
    row: MeanDifference,
    higher: bool | None,
    width: float,
    alpha: float,
    queries: tuple[int, ...],
    totals: tuple[int, int],
) -> Shift:
    low, high = row.interval
    changed = row.p <= alpha and (low > 0 or high < 0)
    worse = None if higher is None else bool((row.difference < 0) is higher)
    lost = float("nan")
    if higher is not None:
        lost = (-low if higher else high) / width
        # Without a finite range, no share of it can be ruled out.
        lost = float("inf") if np.isnan(lost) or np.isinf(width) else lost
    before, after = queries
    # As in the regression test, values that only the earlier log has count as complete losses.
    still_measured = min(after * totals[0] / max(before * totals[1], 1), 1.0)
    lost = 1 - still_measured * (1 - lost) if np.isfinite(lost) else lost
    return Shift(
        **asdict(row),
        feature=name,
        changed=changed,
        worse=worse,
        lost_at_most=lost,
        queries=(before, after),
    )
