"""Features of a model over a series of commits, and tests for significant drops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats
from mirage._base.tables import Table, to_text
from mirage.errors import SettingError, UnknownNameError
from mirage.features import FeatureSuite, FeatureTable
from mirage.features.registry import facts
from mirage.monitoring.history import Commit
from mirage.statistics.alarms import FEWEST_VALUES, RiseEvidence, rise_evidence
from mirage.statistics.clusters import cluster_codes
from mirage.testing.comparison import DECIMALS, each_time
from mirage.testing.gate import GATED, mean_of_pairs, more_than_wording


class Step(NamedTuple):
    """The mean of one feature at one commit, and the test for a drop.

    Attributes:
        feature: Name of the feature.
        mean: Mean over the queries for which the feature has a value; NaN if there are none.
        low: Lower end of the mean's confidence interval; NaN if there are fewer than ten queries
            or clusters.
        high: Upper end of the interval.
        p: P-value of a lasting drop since the reference commit, corrected for the number of
            features. It remains valid if it is checked after every commit. NaN if the commit was
            not compared.
        worse: Whether the drop is statistically significant.
        since: SHA of the commit at which the drop most likely began; empty if it is not
            significant.
    """

    feature: str
    mean: float
    low: float
    high: float
    p: float
    worse: bool
    since: str


@dataclass(frozen=True, eq=False)
class CommitChanges:
    """A commit of a series, with the tests of its features.

    Attributes:
        commit: The commit and its measurements.
        steps: The result for each feature.
        reference: SHA of the reference commit that the commit is compared with; empty if the
            commit is not compared.
    """

    commit: Commit
    steps: tuple[Step, ...]
    reference: str = ""

    @property
    def worse(self) -> tuple[str, ...]:
        """The features with a statistically significant drop since the reference."""
        return tuple(step.feature for step in self.steps if step.worse)

    @property
    def summary(self) -> str:
        """A text that lists the features that got worse, each with the commit where its drop began.

        The text is ``"no"`` if no feature got worse, and ``"not compared"`` without a reference.
        """
        drops = [f"{step.feature} since {step.since[:10]}" for step in self.steps if step.worse]
        return ", ".join(drops) or ("no" if self.reference else "not compared")


@dataclass(frozen=True, eq=False)
class Series:
    """A series of commits of one model on the same queries.

    Attributes:
        commits: The commits in the order in which they were added.
        alpha: Probability of any false alarm after a reference commit.
    """

    commits: tuple[CommitChanges, ...]
    alpha: float

    def __str__(self) -> str:
        return "\n\n".join(map(to_text, self.tables()))

    @property
    def title(self) -> str:
        """A title with the model, the dataset and the number of queries."""
        first = self.commits[0].commit.baseline
        return f"{first.table.model} on {first.dataset}, {len(first.table)} queries"

    @property
    def note(self) -> str:
        """An explanation of the column ``worse`` for the page and the tables."""
        return (
            f"worse: significant drop that lasts, after the commit in the column before; the "
            f"probability of any false alarm in all commits is at most {self.alpha:g}; the "
            f"commits of a day are one value, and at least {FEWEST_VALUES} earlier days are needed"
        )

    def tables(self) -> tuple[Table, ...]:
        """Return a table of the commits, and a table of the means of each feature."""
        labels = _labels([entry.commit.sha for entry in self.commits])
        rows = tuple(map(_commit_row, self.commits, labels))
        highlights = tuple(bool(entry.worse) for entry in self.commits)
        header = ("time", "commit", "rank", "against", "worse")
        tables = [Table(self.title, header, rows, highlights, (self.note,), 1, (0, 3, 4)).filled()]
        for j, step in enumerate(self.commits[0].steps):
            steps = [entry.steps[j] for entry in self.commits]
            tables.append(
                Table(
                    step.feature,
                    ("commit", "mean", "95 % interval", "p"),
                    tuple(map(_step_row, steps, labels)),
                    tuple(each.worse for each in steps),
                    name=0,
                )
            )
        return tuple(tables)


def compare_commits(
    commits: Sequence[Commit],
    *,
    alpha: float = 0.05,
    features: Sequence[str] = (),
) -> Series:
    """Test for each commit of a series whether a feature has dropped and stayed lower.

    The null hypothesis is that the mean of a feature over these queries has not dropped since the
    reference, which is the last accepted commit, or the first. Single queries may change in either
    direction. The mean of a run varies by chance, and by influences that all answers of the run
    share, such as the day. This variance is estimated from the series itself, in which the mean of
    all commits of a day is one value. So a drop can begin on the fifth day at the earliest, and a
    series with fewer days is not compared.

    The evidence for a drop is computed by :func:`mirage.statistics.alarms.rise_evidence`. The
    probability of any false alarm is at most ``alpha`` for the whole series, however long it gets
    and however often it is tested. Losses that wording or style can explain are subtracted first,
    as in :func:`mirage.testing.assert_no_regression`. That function tests another hypothesis:
    whether the system is worse on new queries like these. ``validation/coverage/history.py`` prints
    false alarm rates and power.

    Args:
        commits: One of the series that :meth:`History.series <mirage.monitoring.History.series>`
            returns.
        alpha: Probability of any false alarm after a reference; above 0 and below 1.
        features: Features to show and compare. By default those that the last commit names
            (:attr:`Commit.features <mirage.monitoring.Commit>`). If it names none, the default
            features of ``assert_no_regression`` and user-defined features, if all commits have
            them.

    Returns:
        The result for each commit.

    Raises:
        SettingError: There is no commit, ``alpha`` is out of range, or no feature is in all
            commits.
        UnknownNameError: One of ``features`` is not in all commits.
    """
    if not 0 < alpha < 1:
        raise SettingError(f"alpha must be above 0 and below 1, got {alpha!r}")
    if not commits:
        raise SettingError("the history has no commit; add one with `mirage check --history`")
    tables = [commit.baseline.table for commit in commits]
    names = _names_to_compare(tables, features or commits[-1].features)
    accepted = [i for i, commit in enumerate(commits) if commit.accepted and i > 0]
    ends = [0, *accepted, len(commits) - 1]
    rows = _compare_with_first(commits[:1], names, alpha)
    for first, last in pairwise(ends):
        # An accepted commit is compared with the reference before it.
        rows += _compare_with_first(commits[first : last + 1], names, alpha)[1:]
    return Series(tuple(rows), alpha)


def _compare_with_first(
    commits: Sequence[Commit], names: Sequence[str], alpha: float
) -> list[CommitChanges]:
    """Return the changes of each commit since the first commit, their common reference."""
    tables = [commit.baseline.table.columns(names) for commit in commits]
    lower = commits[-1].baseline.lower_is_better
    losses = np.stack([_mean_losses(tables[0], table, lower) for table in tables])
    days = [commit.time[:10] for commit in commits]
    evidence, start = _evidence_by_day(losses, days, _smallest_changes(tables[0]))
    # Bonferroni: the sum of the error rates of all features is at most alpha.
    p_values = np.minimum(len(names) / evidence, 1.0)
    days_before = np.array([len({*days[: i + 1]}) - 1 for i in range(len(days))])
    p_values[days_before < FEWEST_VALUES] = np.nan
    rows = []
    for i, (commit, table) in enumerate(zip(commits, tables, strict=True)):
        since = [commits[j].sha for j in start[i].tolist()]
        steps = _steps(table, p_values[i], since, alpha)
        against = commits[0].sha if days_before[i] >= FEWEST_VALUES else ""
        rows.append(CommitChanges(commit, steps, against))
    return rows


def _evidence_by_day(losses: Floats, days: Sequence[str], smallest: Floats) -> RiseEvidence:
    """Return the evidence for a rise after each commit, treating a day as one value.

    Commits that were measured on one day share the noise of this day, so the mean of their losses
    is one value of the series.

    Args:
        losses: Losses of each commit, of shape ``(commits, features)``.
        days: Day on which each commit was measured, in chronological order.
        smallest: Smallest credible standard deviation of a value, for each feature.
    """
    first = [i for i, day in enumerate(days) if i == 0 or day != days[i - 1]]
    if len(first) == len(days):
        return rise_evidence(losses, smallest=smallest)
    evidence, start = np.ones_like(losses), np.zeros(losses.shape, dtype=np.intp)
    for i in range(len(days)):
        begins = [position for position in first if position <= i]
        sums = np.add.reduceat(losses[: i + 1], begins)
        values = sums / np.diff([*begins, i + 1])[:, None]
        by_day = rise_evidence(values, smallest=smallest, latest=True)
        evidence[i], start[i] = by_day.evidence[-1], np.array(begins)[by_day.start[-1]]
    return RiseEvidence(evidence, start)


def _mean_losses(
    reference: FeatureTable, table: FeatureTable, lower_is_better: Sequence[str]
) -> Floats:
    """Return the mean loss of each feature since the reference.

    Losses that wording or style can explain are subtracted
    (:func:`mirage.testing.gate.more_than_wording`). A query that lacks a value in one of the two
    tables, or in both, counts as no loss.
    """
    earlier, later = each_time(reference), each_time(table.select(reference.query_ids))
    sign = np.array([1.0 if name in lower_is_better else -1.0 for name in reference.features])
    pairs = sign * (later[:, None] - earlier[None])
    pairs[np.abs(pairs) < 1.5 * 10.0**-DECIMALS] = 0.0
    beyond = more_than_wording(pairs.reshape(-1, *reference.values.shape), reference.features)
    return np.asarray(np.nan_to_num(beyond).mean(axis=0))


def _smallest_changes(table: FeatureTable) -> Floats:
    """Return the smallest plausible standard deviation, between runs, of each feature's mean.

    It assumes that one answer per run is expected to change from the worst value to the best or
    back, and that the answers of a cluster change together. Without this minimum, a system that has
    always given the same answers would cause an alarm at its first change.
    """
    entries = [facts(name, table.facts) for name in table.features]
    widths = np.array([entry.high - entry.low for entry in entries])
    # Without a range, the range of the values in the reference is used.
    values = np.nan_to_num(each_time(table)).reshape(-1, len(table.features))
    widths = np.where(np.isfinite(widths), widths, np.ptp(values, axis=0))
    clusters = int(cluster_codes(table.query_ids, table.clusters).max()) + 1
    smallest = widths / (np.sqrt(clusters * len(table)) * len(each_time(table)))
    return np.asarray(np.maximum(smallest, 10.0**-DECIMALS))


def _names_to_compare(tables: Sequence[FeatureTable], requested: Sequence[str]) -> list[str]:
    """Return the requested features, which all commits must have.

    By default, these are the default features of the regression test (:mod:`mirage.testing.gate`)
    and all user-defined features. If the commits share none of them, all shared features are
    returned.
    """
    names = [n for n in tables[0].features if all(n in table.features for table in tables)]
    if requested:
        for name in requested:
            if name not in names:
                raise UnknownNameError("feature", name, names, "among those that all commits share")
        return list(dict.fromkeys(requested))
    answers, library_names = "answer_match" in names, set(FeatureSuite.available())
    gate = {entry.name for entry in GATED.values() if not (entry.substitute_for and answers)}
    defaults = [name for name in names if name in gate or name not in library_names] or names
    if not defaults:
        raise SettingError(
            "no feature was measured in all commits of the history; start a new history file"
        )
    return defaults


def _steps(
    table: FeatureTable, p_values: Floats, since: Sequence[str], alpha: float
) -> tuple[Step, ...]:
    entries = (facts(name, table.facts) for name in table.features)
    widths = np.array([entry.high - entry.low for entry in entries])
    ends = table.intervals()
    # Equal values of a feature without a range do not show how far other values can be.
    ends[~np.isfinite(widths) & (ends[:, 0] == ends[:, 1])] = np.nan
    means = mean_of_pairs(table.values)
    rows = zip(table.features, means, ends, p_values.tolist(), since, strict=True)
    return tuple(
        Step(name, float(mean), float(low), float(high), p, p <= alpha, sha if p <= alpha else "")
        for name, mean, (low, high), p, sha in rows
    )


def _labels(shas: Sequence[str]) -> list[str]:
    """Return the shortened SHAs, with a number from the second measurement of a commit on."""
    counts = [shas[: i + 1].count(sha) for i, sha in enumerate(shas)]
    return [
        sha[:10] + (f" ({count})" if count > 1 else "")
        for sha, count in zip(shas, counts, strict=True)
    ]


def _commit_row(entry: CommitChanges, label: str) -> tuple[str, ...]:
    commit = entry.commit
    rank = "" if commit.rank is None else str(commit.rank)
    return (
        commit.time[:16],
        label,
        rank,
        entry.reference[:10],
        entry.summary,
    )


def _step_row(step: Step, label: str) -> tuple[str, ...]:
    interval = "" if np.isnan(step.low) else f"[{step.low:.3f}, {step.high:.3f}]"
    p = "" if np.isnan(step.p) else f"{step.p:.4f}"
    mean = "" if np.isnan(step.mean) else f"{step.mean:.3f}"
    return label, mean, interval, p
