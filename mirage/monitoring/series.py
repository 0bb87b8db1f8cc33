"""Features of a model over a series of commits, and tests for significant losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats
from mirage._base.tables import Table, to_text
from mirage.errors import SettingError, UnknownNameError
from mirage.features import FeatureSuite, FeatureTable
from mirage.features.registry import facts
from mirage.monitoring.history import Commit
from mirage.statistics.clusters import cluster_codes
from mirage.statistics.permutation import exchange_p_values
from mirage.testing.comparison import DECIMALS, each_time
from mirage.testing.gate import GATED, beyond_wording, mean_of_pairs, more_than_wording

_SPLITS = 1000  # maximum number of splits of a query's answers; a sample if there are more
_POOLED = 120  # maximum number of earlier answers per query that a commit is compared with


class Step(NamedTuple):
    """One feature at one commit.

    Attributes:
        feature: Name of the feature.
        mean: Mean over the queries that have the feature; NaN if none has.
        low: Lower end of the mean's confidence interval; NaN if there are fewer than ten queries
            or clusters.
        high: Upper end of the interval.
        p: P-value of the loss since the reference commit, corrected for the number of features;
            NaN if the commit was not compared.
        worse: Whether the loss is statistically significant.
    """

    feature: str
    mean: float
    low: float
    high: float
    p: float
    worse: bool


@dataclass(frozen=True, eq=False)
class CommitChanges:
    """A commit of a series, with the tests of its features.

    Attributes:
        commit: The commit and its measurements.
        steps: The result for each feature.
        reference: SHA of the reference commit that it is compared with; empty if it is not
            compared.
    """

    commit: Commit
    steps: tuple[Step, ...]
    reference: str = ""

    @property
    def worse(self) -> tuple[str, ...]:
        """The features with a statistically significant loss since the reference."""
        return tuple(step.feature for step in self.steps if step.worse)

    @property
    def summary(self) -> str:
        """The features that got worse, in words."""
        return ", ".join(self.worse) or ("no" if self.reference else "not compared")


@dataclass(frozen=True, eq=False)
class Series:
    """A series of commits of one model on the same queries.

    Attributes:
        commits: The commits in the order of their addition.
        alpha: Probability of any false alarm among the ``length`` commits after a reference.
        length: Number of commits that are compared with each reference.
    """

    commits: tuple[CommitChanges, ...]
    alpha: float
    length: int

    def __str__(self) -> str:
        return "\n\n".join(map(to_text, self.tables()))

    @property
    def title(self) -> str:
        """The model, the dataset and the number of queries."""
        first = self.commits[0].commit.baseline
        return f"{first.table.model} on {first.dataset}, {len(first.table)} queries"

    @property
    def note(self) -> str:
        """The meaning of ``worse`` in this series."""
        return (
            f"worse: significant loss since the commit in the column before; the probability of "
            f"any false alarm in {self.length} commits is at most {self.alpha:g}"
        )

    def tables(self) -> tuple[Table, ...]:
        """Return a table of the commits, and a table of the means of each feature."""
        rows = tuple(_commit_row(entry) for entry in self.commits)
        highlights = tuple(bool(entry.worse) for entry in self.commits)
        header = ("time", "commit", "rank", "against", "worse")
        tables = [Table(self.title, header, rows, highlights, (self.note,), 1, (0, 3, 4)).filled()]
        for j, step in enumerate(self.commits[0].steps):
            steps = [(entry.commit, entry.steps[j]) for entry in self.commits]
            tables.append(
                Table(
                    step.feature,
                    ("commit", "mean", "95 % interval", "p"),
                    tuple(_step_row(commit, each) for commit, each in steps),
                    tuple(each.worse for _, each in steps),
                    name=0,
                )
            )
        return tuple(tables)


def compare_commits(
    commits: Sequence[Commit],
    *,
    alpha: float = 0.05,
    length: int = 30,
    features: Sequence[str] = (),
) -> Series:
    """Test each commit of a series for significant losses since its reference commit.

    The reference is the last accepted commit before, or the first commit. A commit is compared with
    the reference and all later commits that are not worse, whose answers count as repeats of one
    run. Each of the ``length`` commits after a reference is tested at the level ``alpha / length``
    (Bonferroni). So the probability of any false alarm among them is at most ``alpha``, however
    they depend on each other. Later commits are not compared until another commit is accepted.

    The null hypothesis is that these queries are answered as before. The test permutes the answers
    to each query between the runs, with all their features together, and the queries of a cluster
    together (:func:`worsening_p_values`). Repeats and earlier commits show which queries always
    vary. So a few queries that were always right and are now wrong are enough for an alarm. The
    gate (:func:`assert_no_regression`) tests another hypothesis: whether the system is worse on
    new queries like these. ``validation/coverage/history.py`` prints false alarm rates and power.

    Args:
        commits: A series of :meth:`History.series <mirage.monitoring.History.series>`.
        alpha: Probability of any false alarm; above 0 and below 1.
        length: Number of commits that are compared with each reference.
        features: Features to show and compare. The default are the features of the last commit's
            entry, or if that has none, the features of the gate that all commits have.

    Raises:
        SettingError: There is no commit, ``alpha`` or ``length`` is out of range, or no feature is
            in all commits.
        UnknownNameError: One of ``features`` is not in all commits.
    """
    if not 0 < alpha < 1 or length < 1:
        raise SettingError(
            f"alpha must be above 0 and below 1, and length at least 1; got alpha={alpha!r}, "
            f"length={length!r}"
        )
    if not commits:
        raise SettingError("the series has no commit; `mirage check --history` adds one")
    tables = [commit.baseline.table for commit in commits]
    names = _names_to_compare(tables, features or commits[-1].features)
    reference, since, rows = commits[0], 0, []
    earlier = reference.baseline.table.columns(names)
    for commit in commits:
        table = commit.baseline.table.columns(names)
        is_compared = commit is not reference and since < length
        p = np.full(len(names), np.nan)
        if is_compared:
            lower = commit.baseline.lower_is_better
            p = worsening_p_values(earlier, table, lower)
        since += commit is not reference
        rows.append(
            CommitChanges(commit, _steps(table, p, alpha / length), reference.sha * is_compared)
        )
        if commit.accepted:
            reference, since, earlier = commit, 0, table
        elif is_compared and not rows[-1].worse:
            earlier = _pooled(reference.baseline.table, earlier, table)
    return Series(tuple(rows), alpha, length)


def _pooled(reference: FeatureTable, earlier: FeatureTable, table: FeatureTable) -> FeatureTable:
    """Return both tables' answers as repeats of one run.

    If there are more than ``_POOLED`` answers per query, those of the reference and the latest of
    the rest are used. The limit bounds the time of a test. The reference is always included, so
    that a slow decline is detected.
    """
    repeats = np.concatenate([each_time(earlier), each_time(table.select(earlier.query_ids))])
    first = min(len(each_time(reference)), _POOLED)
    if len(repeats) > _POOLED:
        repeats = np.concatenate([repeats[:first], repeats[len(repeats) - _POOLED + first :]])
    return replace(earlier, values=mean_of_pairs(repeats), repeats=repeats)


def _names_to_compare(tables: Sequence[FeatureTable], requested: Sequence[str]) -> list[str]:
    """Return the requested features, or by default those of the gate and user-defined features."""
    names = [n for n in tables[0].features if all(n in table.features for table in tables)]
    if requested:
        for name in requested:
            if name not in names:
                raise UnknownNameError("feature of all commits", name, names)
        return list(dict.fromkeys(requested))
    answers, library_names = "answer_match" in names, set(FeatureSuite.available())
    gate = {entry.name for entry in GATED.values() if not (entry.substitute_for and answers)}
    defaults = [name for name in names if name in gate or name not in library_names] or names
    if not defaults:
        raise SettingError("no feature is in all commits of the series; start a new history file")
    return defaults


def worsening_p_values(
    before: FeatureTable, after: FeatureTable, lower_is_better: Sequence[str] = ()
) -> Floats:
    """Return the p-value of the loss in each feature.

    The null hypothesis is that every query is answered as before. The allowances for wording and
    style are subtracted first, as in the gate (:func:`mirage.testing.gate.more_than_wording`). A
    feature can only be worse if its mean is. If both runs have one answer per query, the test is a
    sign test; see :func:`mirage.statistics.permutation.exchange_p_values`.

    Returns:
        One p-value per feature, corrected for the number of features.
    """
    after = after.select(before.query_ids).columns(before.features)
    earlier, later = each_time(before), each_time(after)
    values = np.concatenate([earlier, later])
    sign = np.array([1.0 if name in lower_is_better else -1.0 for name in before.features])
    pairs = sign * (values[:, None] - values[None])  # how much worse the first is
    pairs[np.abs(pairs) < 1.5 * 10.0**-DECIMALS] = 0.0
    codes = cluster_codes(before.query_ids, after.clusters)
    each = _losses_by_split(pairs, len(later), before.features)
    members = np.eye(codes.max() + 1)[codes]
    sums = np.einsum("sqf,qc->scf", each, members, optimize=True)
    # The allowance for style is subtracted from the observed loss only. This cannot make p smaller.
    between_runs = pairs[len(earlier) :, : len(earlier)].reshape(-1, *before.values.shape)
    observed = np.nan_to_num(more_than_wording(between_runs, before.features))
    return exchange_p_values(sums, members.T @ observed)


def _losses_by_split(pairs: Floats, later: int, names: Sequence[str]) -> Floats:
    """Return how much worse each query is in each split of its answers over two runs.

    The loss is the mean over all pairs of an answer of the later run and one of the earlier run.

    Returns:
        Losses ``(splits, queries, features)``; 0 for a query without a pair.
    """
    answers = len(pairs)
    beyond = beyond_wording(pairs[None], names)
    # Pairs within one run cancel, as both orders occur. So rows can be summed before the split.
    rows = np.nan_to_num(beyond).sum(axis=1)
    is_value = (~np.isnan(pairs[np.arange(answers), np.arange(answers)])).astype(np.float64)
    sides = _splits(answers, later)
    counts = np.tensordot(sides, is_value, 1)
    counts *= is_value.sum(axis=0) - counts
    means: Floats = np.zeros(counts.shape)
    np.divide(np.tensordot(sides, rows, 1), counts, out=means, where=counts > 0)
    return means


def _splits(answers: int, later: int) -> Floats:
    """Return splits of a query's answers over two runs, ``(splits, answers)``; 1 is the later run.

    The result contains all splits, or a sample if there are more than ``_SPLITS``. The observed
    split, with the later run's answers last, is always included.
    """
    if comb(answers, later) > _SPLITS:
        order = np.random.default_rng(0).random((_SPLITS, answers)).argsort(axis=1)
        order[0] = np.arange(answers)[::-1]
        return (order < later).astype(np.float64)
    ways = np.array([*combinations(range(answers), later)])
    sides = np.zeros((len(ways), answers))
    np.put_along_axis(sides, ways, 1.0, axis=1)
    return sides


def _steps(table: FeatureTable, p: Floats, level: float) -> tuple[Step, ...]:
    entries = (facts(name, table.facts) for name in table.features)
    widths = np.array([entry.high - entry.low for entry in entries])
    ends = table.intervals()
    # Equal values of a feature without a range do not show how far other values can be.
    ends[~np.isfinite(widths) & (ends[:, 0] == ends[:, 1])] = np.nan
    means = mean_of_pairs(table.values)
    return tuple(
        Step(name, float(mean), float(a), float(b), float(each), bool(each <= level))
        for name, mean, (a, b), each in zip(table.features, means, ends, p, strict=True)
    )


def _commit_row(entry: CommitChanges) -> tuple[str, ...]:
    commit = entry.commit
    rank = "" if commit.rank is None else str(commit.rank)
    return (
        commit.time[:16],
        commit.sha[:10],
        rank,
        entry.reference[:10],
        entry.summary,
    )


def _step_row(commit: Commit, step: Step) -> tuple[str, ...]:
    interval = "" if np.isnan(step.low) else f"[{step.low:.3f}, {step.high:.3f}]"
    p = "" if np.isnan(step.p) else f"{step.p:.4f}"
    mean = "" if np.isnan(step.mean) else f"{step.mean:.3f}"
    return commit.sha[:10], mean, interval, p
