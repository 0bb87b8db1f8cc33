"""How features moved over commits, and which changes are told from noise."""

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
from mirage.features import FeatureTable, feature_names
from mirage.features.registry import facts
from mirage.report import Moment, Point, Timeline
from mirage.statistics.clusters import cluster_codes, mean_intervals
from mirage.statistics.permutation import exchange_p_values
from mirage.testing.comparison import DECIMALS, each_time
from mirage.testing.gate import GATED, beyond_wording, mean_of_pairs, more_than_wording
from mirage.testing.history import Commit

__all__ = ["Moved", "Series", "Step", "moved", "worsening_p_values"]

_SPLITS = 1000  # ways to split a query's answers over two runs; more are drawn
_POOLED = 120  # answers per query of earlier commits that a later one is compared with


class Step(NamedTuple):
    """A feature at a commit.

    Attributes:
        feature: its name.
        mean: over the queries that have it; NaN where none has.
        low: lower end of the mean's interval; NaN below ten queries, or clusters.
        high: its upper end.
        p: chance of an outcome as bad in any feature, if no query answers otherwise than it did at
            the reference; NaN where it was not compared.
        worse: whether that is told from noise.
    """

    feature: str
    mean: float
    low: float
    high: float
    p: float
    worse: bool


@dataclass(frozen=True, eq=False)
class Moved:
    """A commit of a series.

    Attributes:
        commit: what was measured.
        steps: one a feature.
        reference: the SHA of the commit from which on it is compared with what was before; empty
            where it is not compared.
    """

    commit: Commit
    steps: tuple[Step, ...]
    reference: str = ""

    @property
    def worse(self) -> tuple[str, ...]:
        """The features that got worse since the reference, told from noise."""
        return tuple(step.feature for step in self.steps if step.worse)


@dataclass(frozen=True, eq=False)
class Series:
    """A model over commits, on the same queries.

    Attributes:
        commits: in the order in which they came.
        alpha: chance of any alarm among ``length`` commits after a reference without a change.
        length: commits after a reference that are compared with it.
    """

    commits: tuple[Moved, ...]
    alpha: float
    length: int

    def __str__(self) -> str:
        return "\n\n".join(map(to_text, self.tables()))

    @property
    def title(self) -> str:
        """The model, the dataset, and how many queries."""
        first = self.commits[0].commit.baseline
        return f"{first.table.model} on {first.dataset}, {len(first.table)} queries"

    @property
    def _note(self) -> str:
        return (
            f"worse: told from noise, against the commit in the column before; in {self.length} "
            f"commits without a change, any alarm has a chance of {self.alpha:g} at most"
        )

    def timeline(self) -> Timeline:
        """What :func:`mirage.report.write_history` draws."""
        return Timeline(
            self.title,
            (self._note,),
            tuple(map(_moment, self.commits)),
            {
                step.feature: [_point(one.steps[j]) for one in self.commits]
                for j, step in enumerate(self.commits[0].steps)
            },
        )

    def tables(self) -> tuple[Table, ...]:
        """A table of the commits, and one of each feature's means."""
        rows = tuple(_row(one) for one in self.commits)
        marked = tuple(bool(one.worse) for one in self.commits)
        header = ("time", "commit", "label", "rank", "against", "worse")
        tables = [Table(self.title, header, rows, marked, (self._note,), 2, (0, 1, 4, 5)).filled()]
        for j, step in enumerate(self.commits[0].steps):
            steps = [(one.commit, one.steps[j]) for one in self.commits if j < len(one.steps)]
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


def moved(
    commits: Sequence[Commit],
    *,
    alpha: float = 0.05,
    length: int = 30,
    features: Sequence[str] = (),
) -> Series:
    """How a model's features moved, and where they got worse by more than answering anew.

    Each commit is compared with the reference, the last one before it that was accepted, or the
    first, and with all commits since that were not told to be worse: their answers count as repeats
    of one run. The ``length`` commits after a reference are each tested at ``alpha / length``, so
    that the chance of any alarm among them is ``alpha`` at most if nothing changed, however they
    hang together (Bonferroni); later ones are not compared, until another commit is accepted.

    What is tested is whether these very queries are answered as before. The answers to a query are
    exchanged between the runs, all features together, queries of one cluster as one
    (:func:`worsening_p_values`): so repeats, and commits, tell a query that changed from one that
    always did, and it takes few that were always right and no longer are. The gate asks another
    question, whether queries like these would be worse.
    ``benchmarks/history.py`` prints alarms without a change, and what is found.

    Args:
        commits: one series of :meth:`History.series <mirage.testing.History.series>`.
        alpha: chance of any alarm, above 0 and below 1.
        length: commits after a reference that are compared with it.
        features: which to show and compare; by default what the last commit says, or
            else those of the gate that all commits have.

    Raises:
        SettingError: there is no commit, ``alpha`` or ``length`` is out of range, or no feature is
            in all commits.
        UnknownNameError: one of ``features`` is not in all commits.
    """
    if not 0 < alpha < 1 or length < 1:
        raise SettingError(f"alpha={alpha!r} lies between 0 and 1, and length={length!r} above 0")
    if not commits:
        raise SettingError("there is no commit in this series; `mirage check --history` adds one")
    tables = [commit.baseline.table for commit in commits]
    names = _names(tables, features or commits[-1].features)
    reference, since, rows = commits[0], 0, []
    earlier = reference.baseline.table.columns(names)
    for commit in commits:
        table = commit.baseline.table.columns(names)
        compared = commit is not reference and since < length
        p = np.full(len(names), np.nan)
        if compared:
            lower = commit.baseline.lower_is_better
            p = worsening_p_values(earlier, table, lower)
        since += commit is not reference
        rows.append(Moved(commit, _steps(table, p, alpha / length), reference.sha * compared))
        if commit.accepted:
            reference, since, earlier = commit, 0, table
        elif compared and not rows[-1].worse:
            earlier = _pooled(reference.baseline.table, earlier, table)
    return Series(tuple(rows), alpha, length)


def _pooled(reference: FeatureTable, earlier: FeatureTable, table: FeatureTable) -> FeatureTable:
    """Return both tables' answers as repeats of one run.

    Of more than ``_POOLED`` answers per query, the reference's own and the latest others stay: a
    slow decline is still compared with the reference, and a commit's test takes bounded time.
    """
    repeats = np.concatenate([each_time(earlier), each_time(table.select(earlier.query_ids))])
    own = min(len(each_time(reference)), _POOLED)
    if len(repeats) > _POOLED:
        repeats = np.concatenate([repeats[:own], repeats[len(repeats) - _POOLED + own :]])
    return replace(earlier, values=mean_of_pairs(repeats), repeats=repeats)


def _names(tables: Sequence[FeatureTable], asked: Sequence[str]) -> list[str]:
    """The features to compare: those that are asked for, or the gate's and one's own."""
    names = [n for n in tables[0].features if all(n in table.features for table in tables)]
    if asked:
        for name in asked:
            if name not in names:
                raise UnknownNameError("feature of all commits", name, names)
        return list(dict.fromkeys(asked))
    answers, ours = "answer_match" in names, set(feature_names())
    gate = {entry.name for entry in GATED.values() if not (entry.substitute_for and answers)}
    compared = [name for name in names if name in gate or name not in ours] or names
    if not compared:
        raise SettingError("no feature is in all commits of the series; begin another file")
    return compared


def worsening_p_values(
    before: FeatureTable, after: FeatureTable, lower_is_better: Sequence[str] = ()
) -> Floats:
    """Chances of answers as much worse in any feature, if each query is answered as before.

    What another wording alone changes is taken off first, as the gate does; where answers have
    become worse alike, what the median query lost is taken off as well. A feature is worse only
    where its mean is. With one answer a query in both runs it is a test of signs; see
    :func:`mirage.statistics.permutation.exchange_p_values`.

    Args:
        before: the features of the earlier run, each repeat.
        after: those of the later run, with the same queries and features in any order.
        lower_is_better: the features of which a smaller value is the better one.

    Returns:
        A p-value a feature, corrected for their number.
    """
    after = after.select(before.query_ids).columns(before.features)
    earlier, later = each_time(before), each_time(after)
    values = np.concatenate([earlier, later])
    sign = np.array([1.0 if name in lower_is_better else -1.0 for name in before.features])
    pairs = sign * (values[:, None] - values[None])  # how much worse the first is
    pairs[np.abs(pairs) < 1.5 * 10.0**-DECIMALS] = 0.0
    codes = cluster_codes(before.query_ids, after.clusters)
    each = _each_split(pairs, len(later), before.features)
    members = np.eye(codes.max() + 1)[codes]
    sums = np.einsum("sqf,qc->scf", each, members, optimize=True)
    # What all answers lose alike is taken off what was seen alone, which makes p no smaller.
    seen = pairs[len(earlier) :, : len(earlier)].reshape(-1, *before.values.shape)
    observed = np.nan_to_num(more_than_wording(seen, before.features))
    return exchange_p_values(sums, members.T @ observed)


def _each_split(pairs: Floats, later: int, names: Sequence[str]) -> Floats:
    """How much worse queries are in each split, the mean over pairs of one answer of either run.

    ``pairs`` are ``(answers, answers, queries, features)``. What pairs within one side come to is
    0, for they stand there either way round: so rows may be summed before they are split. A query
    without a pair has 0.
    """
    answers = len(pairs)
    beyond = beyond_wording(pairs[None], names)
    rows = np.nan_to_num(beyond).sum(axis=1)
    known = (~np.isnan(pairs[np.arange(answers), np.arange(answers)])).astype(np.float64)
    sides = _splits(answers, later)
    counts = np.tensordot(sides, known, 1)
    counts *= known.sum(axis=0) - counts
    means: Floats = np.zeros(counts.shape)
    np.divide(np.tensordot(sides, rows, 1), counts, out=means, where=counts > 0)
    return means


def _splits(answers: int, later: int) -> Floats:
    """Which of a query's answers are the later run's, ``(splits, answers)``: all ways, or some.

    The last answers, which are, are one of them.
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
    known = [facts(name, table.facts) for name in table.features]
    low, high = (np.array([getattr(one, end) for one in known]) for end in ("low", "high"))
    codes = cluster_codes(table.query_ids, table.clusters)
    ends = mean_intervals(table.values, codes, low, high)
    # Numbers without bounds that are all alike do not say what others may be.
    ends[~np.isfinite(high - low) & (ends[:, 0] == ends[:, 1])] = np.nan
    means = mean_of_pairs(table.values)
    return tuple(
        Step(name, float(mean), float(a), float(b), float(each), bool(each <= level))
        for name, mean, (a, b), each in zip(table.features, means, ends, p, strict=True)
    )


def _moment(one: Moved) -> Moment:
    commit = one.commit
    known = commit.sha, commit.time, commit.label, commit.rank, commit.accepted
    return Moment(*known, one.reference, one.worse)


def _point(step: Step) -> Point:
    return Point(step.mean, step.low, step.high, step.p)


def _row(one: Moved) -> tuple[str, ...]:
    commit = one.commit
    rank = "" if commit.rank is None else str(commit.rank)
    worse = ", ".join(one.worse) or ("no" if one.reference else "not compared")
    return commit.time[:16], commit.sha[:10], commit.label, rank, one.reference[:10], worse


def _step_row(commit: Commit, step: Step) -> tuple[str, ...]:
    interval = "" if np.isnan(step.low) else f"[{step.low:.3f}, {step.high:.3f}]"
    p = "" if np.isnan(step.p) else f"{step.p:.4f}"
    mean = "" if np.isnan(step.mean) else f"{step.mean:.3f}"
    return commit.sha[:10], mean, interval, p
