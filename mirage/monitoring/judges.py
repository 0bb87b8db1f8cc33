"""Test whether a judge has changed, and whether the judge or the system caused a drop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mirage._base.arrays import Ints
from mirage._base.tables import Printed, Table
from mirage.arena.anchor_pairs import self_agreement
from mirage.arena.verdicts import Judged
from mirage.dataset import MirageDataset, clusters_of
from mirage.errors import SettingError
from mirage.features import Facts, FeatureTable
from mirage.features.registry import facts
from mirage.monitoring.history import JudgeRun
from mirage.monitoring.series import Series
from mirage.statistics.bootstrap import Interval
from mirage.statistics.shifts import shift_evidence
from mirage.testing.baseline import Baseline, fingerprint

JUDGED_SCORE = "judged_score"
"""The name of the feature that stores a judge's verdicts in a history.

``@`` and the names of the judges are appended to it.
"""


CLEARED = 0.2
"""If the p-value of a change of the judge is above this, a drop is attributed to the system."""


@dataclass(frozen=True, eq=False)
class JudgeStep:
    """One run of a judge on its anchor pairs, compared with the reference run.

    The reference run is the last accepted run before this one, or the first run with the current
    prompt, parameters and endpoint, whichever is later.

    Attributes:
        run: The run.
        agreement: The agreement of the judge with itself: the probability that two of its verdicts
            on one pair in this run are equal.
        interval: The 95 % confidence interval of ``agreement``; NaN with fewer than 14 queries, or
            if all queries have the same agreement.
        same: The probability that a verdict of this run equals one of the reference run on the same
            pair; NaN for the reference run.
        p: P-value of any change since the reference run. It remains valid if it is checked after
            every run. NaN for the reference run.
        moved: Whether the judge has changed significantly: the p-value of this run, or of an
            earlier one, is at most ``alpha``.
        since: SHA of the run with which the change most likely began; empty if there is none.
        changed: Whether the prompt, the parameters or the endpoint differ from those of the run
            before. If so, later runs are compared with this one.
    """

    run: JudgeRun
    agreement: float
    interval: Interval
    same: float
    p: float
    moved: bool
    since: str
    changed: bool

    @property
    def summary(self) -> str:
        """A few words on whether the settings or the verdicts of the judge have changed.

        Empty for a reference run whose settings are the same as in the run before.
        """
        if self.changed:
            return "new prompt, parameters or endpoint"
        if self.moved:
            return f"changed since {self.since[:10]}"
        return "" if np.isnan(self.p) else "no significant change"


@dataclass(frozen=True)
class JudgeSeries(Printed):
    """The runs of one judge on the same anchor pairs; prints as a table.

    Attributes:
        steps: The runs in order.
        alpha: Probability of any false alarm after a reference run.
    """

    steps: tuple[JudgeStep, ...]
    alpha: float

    @property
    def judge(self) -> str:
        """The name of the judge."""
        return self.steps[-1].run.verdicts.judge

    @property
    def shift(self) -> str:
        """A phrase that states how the judge has changed, and since when; empty if it has not.

        A significant change since the last reference run has priority over a new prompt, new
        parameters or a new endpoint.
        """
        if self.steps[-1].moved:
            return f"judge {self.judge} has changed since {self.steps[-1].since[:10]}"
        changes = [step.run.sha for step in self.steps if step.changed]
        change = "a new prompt, parameters or endpoint"
        return f"judge {self.judge} has {change} since {changes[-1][:10]}" if changes else ""

    def _tables(self) -> tuple[Table]:
        counts = self.steps[-1].run.verdicts.counts
        rows = tuple(
            (
                step.run.time[:16],
                step.run.sha[:10],
                f"{100 * step.agreement:.0f} %",
                "" if np.isnan(step.interval[0]) else "{:.0%} to {:.0%}".format(*step.interval),
                "" if np.isnan(step.same) else f"{100 * step.same:.0f} %",
                "" if np.isnan(step.p) else f"{step.p:.4f}",
                step.summary,
            )
            for step in self.steps
        )
        notes = (
            "itself: agreement of repeated verdicts in one run, with 95 % interval",
            "reference: agreement with the verdicts of the reference run",
            f"p is valid after every run; probability of any false alarm: {100 * self.alpha:g} %",
        )
        title = f"Judge {self.judge} on {len(counts)} anchor pairs"
        header = ("time", "run", "itself", "", "reference", "p", "")
        return (Table(title, header, rows, notes=notes, name=1),)


def compare_judge_runs(runs: Sequence[JudgeRun], *, alpha: float = 0.05) -> JudgeSeries:
    """Test after each run whether a judge has changed since the reference run.

    The reference is the last accepted run, or the first run with the current prompt, parameters and
    endpoint, whichever is later. The test needs two runs. It can be repeated after every run: the
    probability of any false alarm is at most ``alpha``
    (:func:`mirage.statistics.shifts.shift_evidence`).

    Args:
        runs: One of the series that :meth:`History.judge_runs
            <mirage.monitoring.History.judge_runs>` returns.
        alpha: Probability of any false alarm after a reference; above 0 and below 1.

    Returns:
        The result for each run.

    Raises:
        SettingError: There is no run, or ``alpha`` is out of range.
    """
    if not 0 < alpha < 1:
        raise SettingError(f"alpha must be above 0 and below 1, got {alpha!r}")
    if not runs:
        raise SettingError(
            "the history has no judge run; add one with `mirage judge --anchors FILE "
            "--history FILE`"
        )
    steps: list[JudgeStep] = []
    segment: list[JudgeRun] = []
    for position, run in enumerate(runs):
        changed = bool(
            position and run.verdicts.settings_digest != runs[position - 1].verdicts.settings_digest
        )
        segment = [run] if changed else [*segment, run]
        steps.append(_step(segment, alpha, changed))
        if run.accepted:
            segment = [run]
    return JudgeSeries(tuple(steps), alpha)


def _step(segment: Sequence[JudgeRun], alpha: float, changed: bool) -> JudgeStep:
    """Compare the last of these runs with the first, which is the reference run.

    ``changed`` is true if the last run has a new prompt, new parameters or a new endpoint.
    """
    run = segment[-1]
    counts = [each.verdicts.counts for each in segment]
    agreement, interval = self_agreement(counts[-1], run.verdicts.query_ids)
    if len(segment) == 1:
        return JudgeStep(run, agreement, interval, np.nan, np.nan, False, "", changed)
    evidence, start = shift_evidence(counts)
    alarms = np.flatnonzero(evidence >= 1 / alpha)
    since = segment[int(start[alarms[0]])].sha if len(alarms) else ""
    return JudgeStep(
        run,
        agreement,
        interval,
        _same_verdicts(counts[0], counts[-1]),
        float(min(1 / evidence[-1], 1.0)),
        bool(len(alarms)),
        since,
        changed,
    )


def _same_verdicts(first: Ints, last: Ints) -> float:
    shares = [counts / counts.sum(axis=1, keepdims=True) for counts in (first, last)]
    return float((shares[0] * shares[1]).sum(axis=1).mean())


def judged_baseline(
    judged: Judged,
    model: str,
    judges: Sequence[str],
    dataset: MirageDataset,
    query_ids: Sequence[str],
) -> Baseline:
    """Return a model's judged score on each query, as a baseline that a history can store.

    The score is the mean over the model's judgments: 1 for a win, 0.5 for a tie, 0 for a loss.
    The scores form one feature, whose name is :data:`JUDGED_SCORE` with the names of the judges.

    Args:
        judged: The judgments of all models.
        model: Name of the model to score.
        judges: The names of the judges, for the name of the feature.
        dataset: The dataset that contains the judged queries.
        query_ids: Ids of the queries that were sampled for judging. A sampled query without a
            judgment of the model has a missing score.
    """
    scores: dict[str, list[float]] = {id_: [] for id_ in query_ids}
    for judgment in judged:
        if model in (judgment.model_a, judgment.model_b):
            won = judgment.verdict == ("a" if judgment.model_a == model else "b")
            scores[judgment.query_id].append(0.5 if judgment.verdict == "tie" else float(won))
    name = f"{JUDGED_SCORE}@{','.join(judges)}"
    values = np.array([[np.mean(row) if row else np.nan] for row in scores.values()])
    table = FeatureTable(
        model,
        dataset.language,
        tuple(scores),
        (name,),
        values,
        {(id_, name): "no verdict" for id_, row in scores.items() if not row},
        {name: Facts("higher", 0, 1)},
        clusters_of(dataset),
    )
    return Baseline(table, dataset.name, fingerprint(dataset))


def explain_drops(series: Series, judges: Iterable[JudgeSeries]) -> tuple[str, ...]:
    """Return a note for each drop of a judged feature: whether the judge or the system changed.

    ``series`` contains the commits of a model, and ``judges`` the runs of each judge on anchor
    pairs. Only significant drops at the last commit have a note. A drop is attributed to the system
    only if the judge has runs on anchor pairs, has not changed significantly, and the p-value of
    its change is above :data:`CLEARED`.
    """
    notes = []
    judge_series = list(judges)
    for step in series.commits[-1].steps:
        if not step.worse or not _is_judged(step.feature):
            continue
        drop = f"{step.feature} is worse since {step.since[:10]}"
        raters = [each for each in judge_series if _rates(each.judge, step.feature)]
        shifts = [each.shift for each in raters if each.shift]
        unclear = [each for each in raters if not each.steps[-1].p > CLEARED]
        if shifts:
            notes.append(
                f"{drop}, but the {'; '.join(shifts)}: this drop is no evidence against the system"
            )
        elif unclear:
            p = unclear[0].steps[-1].p
            why = "has one run only" if np.isnan(p) else f"may have changed too (p = {p:.2f})"
            notes.append(
                f"{drop}: system or judge, because the judge {why}; run it again on "
                "its anchor pairs"
            )
        elif raters:
            notes.append(
                f"{drop}: the system changed, because the judge shows no significant change on its "
                "anchor pairs"
            )
        else:
            notes.append(
                f"{drop}: system or judge, because the history has no anchor pairs of this judge"
            )
    return tuple(notes)


def _is_judged(feature: str) -> bool:
    name = feature.partition("@")[0]
    return name == JUDGED_SCORE or "LLM" in facts(name, {}).needs


def _rates(judge: str, feature: str) -> bool:
    """Return whether a judge may have rated a feature.

    The name of a judged score lists its judges. Other features may come from any judge.
    """
    name, _, judges = feature.partition("@")
    return name != JUDGED_SCORE or judge in judges.split(",")
