"""Whether a system answers worse than it did, by its logs, and whether it is asked other things."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Ints
from mirage._base.tables import Printed, Table
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.features import FeatureSuite, FeatureTable
from mirage.features.base import Need
from mirage.features.registry import facts
from mirage.features.traffic import NEW_WORDS, Measured, measured, new_words
from mirage.sources.logs import FEWEST_JOINED, Log, regroup
from mirage.statistics.bootstrap import Interval
from mirage.statistics.clusters import FEWEST_FOR_MEANS, cluster_codes
from mirage.statistics.two_sample import MeanDifference, mean_differences
from mirage.testing.comparison import Verdict

__all__ = ["Drift", "Shift", "cautions", "drift", "drift_of", "shifts_between", "unmeasured"]

QUESTIONS = ("question_length", "other_language", "new_words")
"""Measures of the questions alone, which no system has a part in."""

_MOST = 0.5  # the share of the questions from which on one cluster is mentioned
_CITED = ("support_lexical", "relevance_lexical")


class Shift(NamedTuple):
    """How one measure of a log moved.

    Attributes:
        feature: its name, a feature's or one of :func:`mirage.features.traffic.traffic`, or
            ``new_words`` (:func:`mirage.features.traffic.new_words`).
        before: mean in the earlier log.
        after: mean in the later one.
        difference: ``after - before``.
        interval: of the difference; NaN below ten clusters in either.
        p: chance of as large a difference in any measure if nothing changed, corrected for their
            number.
        changed: whether it moved by more than chance.
        worse: whether it changed to the worse; ``None`` where neither way is worse.
        lost_at_most: the end of the interval that is the greater loss, as a share of the measure's
            range; NaN if neither way is a loss, infinite without an interval or a finite range.
        queries: how many have it, earlier and later.
    """

    feature: str
    before: float
    after: float
    difference: float
    interval: Interval
    p: float
    changed: bool
    worse: bool | None
    lost_at_most: float
    queries: tuple[int, int]


@dataclass(frozen=True)
class Drift(Printed):
    """What changed from one log to another; prints as a table.

    Attributes:
        before: name of the earlier log.
        after: name of the later one.
        shifts: one a measure.
        unmeasured: why other features are not compared, by name.
        queries: questions of the earlier log, and of the later.
        clusters: how many clusters they are in.
        largest: the share of the questions that the largest cluster has, in either log.
        clustering: What the clusters are, in words.
        alpha: of all measures together, how often one is said to have changed if none did.
        margin: the loss that ``no worse`` excludes; ``None`` where nobody asked.
        level: of the intervals.
    """

    before: str
    after: str
    shifts: tuple[Shift, ...]
    unmeasured: Mapping[str, str]
    queries: tuple[int, int]
    clusters: tuple[int, int]
    largest: tuple[float, float]
    clustering: str
    alpha: float
    margin: float | None
    level: float

    @property
    def fell(self) -> tuple[Shift, ...]:
        """The measures that got worse by more than chance."""
        return tuple(shift for shift in self.shifts if shift.changed and shift.worse)

    @property
    def measured(self) -> tuple[Shift, ...]:
        """The measures that could have been called worse: with a direction and an interval."""
        return tuple(
            shift
            for shift in self.shifts
            if not np.isnan(shift.lost_at_most) and not np.isnan(shift.interval[0])
        )

    @property
    def unclear(self) -> tuple[Shift, ...]:
        """Those that may have lost more than the margin, for all that is known."""
        least = np.inf if self.margin is None else self.margin
        return tuple(shift for shift in self.shifts if shift.lost_at_most > least)

    @property
    def verdict(self) -> Verdict | None:
        """Return ``"worse"``, ``"no worse"`` (than the margin) or ``"cannot tell"``.

        The comparison cannot tell if no measure that has a better and a worse side has an interval.
        ``None`` if nothing got worse by more than chance and no margin was given.
        """
        if self.fell:
            return "worse"
        if not self.measured:
            return "cannot tell"
        if self.margin is None:
            return None
        return "cannot tell" if self.unclear else "no worse"

    def __getitem__(self, feature: str) -> Shift:
        shifts = {shift.feature: shift for shift in self.shifts}
        if feature not in shifts:
            raise UnknownNameError("measure of this drift", feature, shifts)
        return shifts[feature]

    def _tables(self) -> tuple[Table]:
        many = " and ".join(
            f"{queries} questions in {clusters} cluster{'' if clusters == 1 else 's'}"
            for queries, clusters in zip(self.queries, self.clusters, strict=True)
        )
        header = ("", "before", "after", "change", f"{100 * self.level:g} % interval", "")
        rows = tuple(map(_cells, self.shifts))
        title = f"{self.before} and {self.after}: {many}"
        return (Table(title, header, rows, notes=tuple(self._notes()), name=0),)

    def _notes(self) -> list[str]:
        notes = [f"clusters: {self.clustering}"]
        notes += _hanging(min(self.clusters), max(self.largest))
        if min(self.clusters) < FEWEST_FOR_MEANS:
            notes.append("without intervals nothing is called a change")
        else:
            without = [s.feature for s in self.shifts if np.isnan(s.interval[0])]
            if without:
                words = f"without an interval, and so never called a change: {', '.join(without)}"
                notes.append(words)
        asked = [s.feature for s in self.shifts if s.changed and s.feature in QUESTIONS]
        if asked and self.fell:
            notes.append(
                f"the questions changed too ({', '.join(asked)}): what got worse may be owed to "
                "them"
            )
        notes.append(f"a change: by chance in {100 * self.alpha:g} % of such comparisons at most")
        return [*notes, *_grouped(self.unmeasured)]


def _hanging(clusters: int, largest: float) -> list[str]:
    """What it does to intervals how many clusters there are, and which share the largest has."""
    notes = []
    if clusters < FEWEST_FOR_MEANS:
        notes.append(f"below {FEWEST_FOR_MEANS} clusters there is no interval")
    if largest > _MOST:
        notes.append(
            f"one cluster has {100 * largest:.0f} % of the questions; if it should not, name the "
            "field whose values are the clusters (cluster), such as the session"
        )
    return notes


def describe_clusters(log: Log) -> str:
    """Return what the clusters of a log are, in words."""
    if log.clustering == "field":
        return "questions with one value in the field named as cluster"
    if log.clustering == "questions":
        return "equal questions (no line names a user or session)"
    if log.clustering == "questions and sessions":
        return "equal questions and the questions of one user or session, joined"
    return (
        f"the questions of one user or session; joining equal questions as well would leave only "
        f"{log.joined} (fewer than {FEWEST_JOINED}), so equal questions of different users count "
        "separately, and intervals hold for other users who ask the same questions"
    )


def _describe_both(before: Log, after: Log) -> str:
    words = list(dict.fromkeys(map(describe_clusters, (before, after))))
    return words[0] if len(words) == 1 else f"before, {words[0]}; after, {words[1]}"


def cautions(log: Log, side: Measured) -> list[str]:
    """Return what limits the measures of a log, one line each."""
    table = side.table
    codes = cluster_codes(table.query_ids, table.clusters)
    clusters = int(codes.max()) + 1
    notes = _hanging(clusters, _largest(codes))
    if notes or log.clustering == "sessions":
        notes.insert(0, f"{clusters} clusters: {describe_clusters(log)}")
    uncited = [name for name in _CITED if name in table.features]
    if uncited and np.nansum(table["cites"]) == 0:
        notes.append(f"no answer cites a passage, so that {' and '.join(uncited)} are 0")
    return [*notes, *_grouped(unmeasured(side))]


def _grouped(reasons: Mapping[str, str]) -> list[str]:
    """Why features are not measured, in a line."""
    names: dict[str, list[str]] = {}
    for name, why in reasons.items():
        names.setdefault(why, []).append(name)
    groups = "; ".join(f"{', '.join(some)} ({why})" for why, some in names.items())
    return [f"not measured: {groups}"] if groups else []


def _cells(shift: Shift) -> tuple[str, ...]:
    low, high = shift.interval
    word = {None: "changed", True: "worse", False: "better"}[shift.worse] if shift.changed else ""
    return (
        shift.feature,
        f"{shift.before:.3f}",
        f"{shift.after:.3f}",
        f"{shift.difference:+.3f}",
        "" if low != low else f"[{low:+.3f}, {high:+.3f}]",
        word,
    )


def drift(
    before: Log,
    after: Log,
    *,
    suite: FeatureSuite | None = None,
    margin: float | None = None,
    alpha: float = 0.05,
    level: float = 0.95,
    permutations: int = 4999,
    seed: int = 0,
    n_jobs: int = 1,
    progress: bool = True,
) -> Drift:
    """Compare what a system answered, and was asked, at two times: on different questions.

    Compared are features that need no gold, what retrieval shows, rates of failures, empty answers
    and abstentions, and the questions themselves. A measure changed where both its corrected
    p-value is at most ``alpha`` and the interval of its difference excludes 0: see
    :func:`mirage.statistics.mean_differences`, which counts what hangs together once, and
    ``benchmarks/logs.py`` for how often that is wrong. Below ten clusters in either log there is no
    interval, and the comparison cannot tell. Logs are clustered by the rule of
    :func:`mirage.sources.logs.regroup`.

    No worse than the margin is what no interval of a measure reaches: with 95 % intervals a loss of
    the margin is called so in about one case of forty, more where rates are next to 1.

    On the same questions :func:`mirage.testing.assert_no_regression` sees more.

    Args:
        before: the earlier log, of :func:`mirage.sources.logs.read`.
        after: the later one.
        suite: the features; by default all that need neither gold nor a model.
        margin: the loss that ``no worse`` excludes, as a share of each measure's range.
        alpha: how often any measure is said to have changed, where none did.
        level: of the intervals.
        permutations: how many are drawn for p-values.
        seed: of these draws.
        n_jobs: processes that compute features, as in joblib.
        progress: show progress bars.

    Raises:
        DatasetError: the logs are in two languages.
        FeatureError: no feature can be computed, or one fails.
        SettingError: a share is not between 0 and 1.
    """
    for name, share in (("alpha", alpha), ("margin", margin)):
        if share is not None and not 0 < share < 1:
            raise SettingError(f"{name} is a share between 0 and 1, such as 0.05, not {share}")
    if before.dataset.language != after.dataset.language:
        raise DatasetError(
            f"{before.dataset.name} is in {before.dataset.language!r}, and {after.dataset.name} in "
            f"{after.dataset.language!r}; compare logs of one language"
        )
    before, after = regroup([before, after])
    sides = [
        measured(log.dataset, log.run, suite, n_jobs=n_jobs, progress=progress)
        for log in (before, after)
    ]
    return drift_of(
        before,
        after,
        sides,
        margin=margin,
        alpha=alpha,
        level=level,
        permutations=permutations,
        seed=seed,
    )


def drift_of(
    before: Log,
    after: Log,
    sides: Sequence[Measured],
    *,
    margin: float | None = None,
    alpha: float = 0.05,
    level: float = 0.95,
    permutations: int = 4999,
    seed: int = 0,
) -> Drift:
    """Compare two measured logs of one language, as :func:`drift` does.

    Both logs have to be clustered by one rule (:func:`mirage.sources.logs.regroup`).
    """
    tables = _with_new_words(before, after, *(side.table for side in sides))
    earlier, later = tables
    columns = [name for name in earlier.features if _in_both(name, *tables)]
    codes = [cluster_codes(table.query_ids, table.clusters) for table in tables]
    shifts = shifts_between(
        earlier.columns(columns),
        later.columns(columns),
        alpha=alpha,
        level=level,
        permutations=permutations,
        seed=seed,
    )
    return Drift(
        before.dataset.name,
        after.dataset.name,
        shifts,
        _not_compared(sides, tables, columns),
        (len(earlier), len(later)),
        (int(codes[0].max()) + 1, int(codes[1].max()) + 1),
        (_largest(codes[0]), _largest(codes[1])),
        _describe_both(before, after),
        alpha,
        margin,
        level,
    )


def shifts_between(
    before: FeatureTable,
    after: FeatureTable,
    *,
    alpha: float,
    level: float,
    permutations: int,
    seed: int,
) -> tuple[Shift, ...]:
    """How each column moved, of two tables with the same columns."""
    known = [facts(name, {**before.facts, **after.facts}) for name in before.features]
    low, high = (np.array([getattr(fact, end) for fact in known]) for end in ("low", "high"))
    codes = [cluster_codes(table.query_ids, table.clusters) for table in (before, after)]
    sets = (before.values, codes[0], after.values, codes[1], low, high)
    rows = mean_differences(*sets, level=level, permutations=permutations, seed=seed)
    return tuple(
        _shift(
            name,
            row,
            fact.higher_is_better(before.language),
            fact.high - fact.low,
            alpha,
            tuple(int((~np.isnan(table[name])).sum()) for table in (before, after)),
        )
        for name, row, fact in zip(before.features, rows, known, strict=True)
    )


def _largest(codes: Ints) -> float:
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
    sides: Sequence[Measured], tables: list[FeatureTable], columns: list[str]
) -> dict[str, str]:
    """Why a feature of either side is not compared."""
    reasons: dict[str, str] = {}
    for side, table in zip(sides, tables, strict=True):
        for name in table.features:
            if name not in columns and np.isnan(table[name]).all():
                why = next((w for (_, f), w in table.reasons.items() if f == name), "no value")
                reasons.setdefault(name, f"{why} (on all of {len(table)} questions)")
        for name, why in unmeasured(side).items():
            reasons.setdefault(name, why)
    return reasons


def unmeasured(side: Measured) -> dict[str, str]:
    """Why features cannot be measured on a log, by name."""
    return {name: _lacking(needs) for name, needs in side.unmet.items()}


def _lacking(needs: tuple[Need, ...]) -> str:
    if needs == ("passages",):
        return "the log does not say which passages were shown"
    return f"needs {' and '.join(_GOLD.get(need, need) for need in needs)}"


_GOLD: Mapping[Need, str] = {
    "reference": "a reference",
    "answers": "short answers",
    "answerable": "to know whether a passage answers",
    "unanswerable queries": "to know that no passage answers",
}


def _shift(
    name: str,
    row: MeanDifference,
    higher: bool | None,
    width: float,
    alpha: float,
    queries: tuple[int, ...],
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
    return Shift(
        name,
        row.before,
        row.after,
        row.difference,
        row.interval,
        row.p,
        changed,
        worse,
        lost,
        (before, after),
    )
