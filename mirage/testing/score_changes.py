"""The result of comparing scores that any tool computed: a verdict for each metric, and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mirage._base.tables import Printed, Table
from mirage.features.table import TOLERANCE
from mirage.scores.metrics import MetricFacts
from mirage.statistics.bootstrap import Interval
from mirage.testing._score_pairs import UNSEEN, Failures
from mirage.testing.comparison import Comparison, Verdict
from mirage.testing.planning import MOST, extra_queries_needed

_SHOWN = 5  # items to list in a note
_LOSSES = 10  # items with the largest losses


class Loss(NamedTuple):
    """An item whose score got worse: its name, and its mean score before and after."""

    item: str
    before: float
    after: float


class NeededItems(NamedTuple):
    """The number of items that would make an inconclusive comparison conclusive.

    Attributes:
        metric: The metric that needs the most items.
        items: Number of items in total; ``None`` if :data:`mirage.testing.planning.MOST` are too
            few.
        repeats: Number of repeats of each item that is enough instead; ``None`` if it is not known.
        power: Probability of the right verdict with these numbers.
    """

    metric: str
    items: int | None
    repeats: int | None
    power: float

    def __str__(self) -> str:
        if self.items is None:
            return f"{self.metric}: even {MOST} items like these would be inconclusive"
        again = f", or {self.repeats} repeats of each item" if self.repeats else ""
        return (
            f"{self.metric}: a verdict needs about {self.items} items like these{again} (power "
            f"{self.power:g})"
        )


@dataclass(frozen=True, eq=False)
class MetricChange:
    """The change of one metric between two systems, over the items that both have.

    Attributes:
        metric: Name of the metric.
        facts: Direction and scale of the metric.
        before: Mean of the earlier scores; :attr:`ScoreComparison.failures` decides how failures
            count.
        after: Mean of the later scores.
        difference: ``after`` minus ``before``.
        interval: 95 % confidence interval of the difference; NaN if there are too few items. It
            excludes 0 only if the p-value of this direction is at most 0.05.
        p: P-value of a loss, corrected for the number of metrics by Holm's method.
        p_better: P-value of a gain, corrected in the same way.
        lost_at_most: One-sided upper confidence bound of the mean loss, at the level ``1 - alpha``.
            It is a share of the scale, and infinite if the metric has no scale. Items that only
            the earlier system has count as complete losses, unless failures are skipped. Earlier
            scores that failed are left out.
        unseen: Largest gain that items outside the sample are assumed to have, if the metric has no
            scale; otherwise 0.
        items: Number of items that both systems have.
        clusters: Number of clusters; equal to ``items`` if no items share a cluster.
        worse: Number of items whose score got worse.
        better: Number of items whose score got better.
        failed: Number of failed scores before and after.
        worst: The score that replaces failed scores if failures count as the worst score.
        unscored: Number of items without a score from either system.
        left_out: Number of items that ``lost_at_most`` leaves out, because they have no earlier
            score.
        verdict: ``worse``, ``no worse`` or ``inconclusive``.
        is_better: Whether the gain is statistically significant. If earlier scores failed, the
            verdict must also be ``no worse``.
        comparison: The same comparison in the form of :func:`assert_no_regression
            <mirage.testing.assert_no_regression>`, with the metric as its only feature.
        whole: The comparison on which ``lost_at_most`` is based.
    """

    metric: str
    facts: MetricFacts
    before: float
    after: float
    difference: float
    interval: Interval
    p: float
    p_better: float
    lost_at_most: float
    unseen: float
    items: int
    clusters: int
    worse: int
    better: int
    failed: tuple[int, int]
    worst: float
    unscored: int
    left_out: int
    verdict: Verdict
    is_better: bool
    comparison: Comparison
    whole: Comparison

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The items whose scores got worse the most, the largest loss first."""
        worsening = np.nan_to_num(self.comparison.worsening[:, 0])
        order = [
            i for i in np.argsort(-worsening, kind="stable")[:_LOSSES] if worsening[i] > TOLERANCE
        ]
        before, after = self.comparison.before, self.comparison.after
        return tuple(
            Loss(before.query_ids[i], float(before.values[i, 0]), float(after.values[i, 0]))
            for i in order
        )


@dataclass(frozen=True, eq=False)
class ScoreComparison(Printed):
    """A comparison of the scores of two systems; prints as a table.

    Attributes:
        before: Name of the earlier scores.
        after: Name of the later scores.
        changes: The change of each metric.
        only_before: Items that only the earlier scores have.
        only_after: Items that only the later scores have.
        not_compared: Metrics that are not compared, each with the reason.
        alpha: Significance level of each verdict.
        margin: The loss that ``no worse`` rules out, as a share of the scale.
        failures: How failures count: ``"worst"`` or ``"skip"``.
        remarks: Further notes, such as that the scores of repeated items are averaged.
        lacking: The metrics in ``not_compared`` that only one side has scores of. Without them,
            the verdict is never ``no worse``.
    """

    before: str
    after: str
    changes: tuple[MetricChange, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    not_compared: Mapping[str, str]
    alpha: float
    margin: float
    failures: Failures
    remarks: tuple[str, ...]
    lacking: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict on all metrics together.

        It is ``worse`` if any metric is ``worse``. It is ``no worse`` if all metrics are ``no
        worse`` and both sides have scores of them. Otherwise it is ``inconclusive``.
        """
        verdicts = {change.verdict for change in self.changes}
        if "worse" in verdicts:
            return "worse"
        return "no worse" if verdicts == {"no worse"} and not self.lacking else "inconclusive"

    @cached_property
    def needed(self) -> NeededItems | None:
        """The number of items with which every inconclusive metric would get a verdict.

        It is estimated for the inconclusive metric whose losses vary most. Metrics without a scale
        are ignored, and so are metrics whose loss is above the margin but is offset by earlier
        failures, because more items would not help. ``None`` if no metric is left.
        """
        candidates = [
            change
            for change in self.changes
            if change.verdict == "inconclusive"
            and change.facts.has_scale
            and not (change.failed[0] and change.whole.losses.mean() > self.margin)
        ]
        if not candidates:
            return None
        hardest = max(candidates, key=lambda change: float(np.square(change.whole.losses).mean()))
        extra = extra_queries_needed(hardest.whole)
        items = None if extra.queries is None else len(hardest.whole.losses) + extra.queries
        return NeededItems(hardest.metric, items, extra.repeats, extra.power)

    @property
    def summary(self) -> str:
        """The verdict in one sentence."""
        name, other = self.after, self.before
        worse = [change.metric for change in self.changes if change.verdict == "worse"]
        if worse:
            return f"{name} is worse than {other} in {', '.join(worse)}"
        better = [change.metric for change in self.changes if change.is_better]
        also = f", and better in {', '.join(better)}" if better else ""
        if self.verdict == "no worse":
            lost = f"no metric lost {self.margin:g} of its scale"
            return f"{name} is no worse than {other}: {lost}{also}"
        return f"inconclusive: {'; '.join(self._doubts())}{also}"

    def _doubts(self) -> list[str]:
        """Return the reasons for the verdict ``inconclusive``."""
        doubts = []
        unsure, unscaled = (
            [
                change.metric
                for change in self.changes
                if change.verdict == "inconclusive" and change.facts.has_scale == has_scale
            ]
            for has_scale in (True, False)
        )
        if unscaled:
            doubts.append(f"the scale of {', '.join(unscaled)} is not known")
        if unsure:
            doubts.append(
                f"{', '.join(unsure)} of {self.after} may have lost more than {self.margin:g} of "
                "the scale"
            )
        if self.lacking:
            first, several = self.lacking[0], len(self.lacking) > 1
            reason = f"{first}: " * several + self.not_compared[first]
            names = f"{', '.join(self.lacking)} {'were' if several else 'was'}"
            doubts.append(
                f"{names} not compared ({reason}); if this is intended, choose the metrics with "
                "--metric"
            )
        return doubts

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on failures, missing items, directions, and the number of items that are needed."""
        return (
            *self._failure_notes(),
            *self._item_notes(),
            *self._metric_notes(),
            *self.remarks,
            *(f"not compared, {name}: {why}" for name, why in self.not_compared.items()),
        )

    def _failure_notes(self) -> list[str]:
        notes = []
        how = "count as the worst score" if self.failures == "worst" else "are left out"
        for change in self.changes:
            if any(change.failed):
                earlier, later = change.failed
                worst = f" ({change.worst:g})" if self.failures == "worst" else ""
                notes.append(
                    f"{change.metric}: failed scores {how}{worst}: {earlier} before, {later} after"
                )
            if change.failed[0] and self.failures == "worst":
                notes.append(_scored_before(change))
        return notes

    def _item_notes(self) -> list[str]:
        notes = []
        for items, name in ((self.only_before, self.before), (self.only_after, self.after)):
            if items:
                listed = ", ".join(item[:60] for item in items[:_SHOWN])
                more = ", ..." if len(items) > _SHOWN else ""
                notes.append(f"only in {name}: {_count(len(items), 'item')}: {listed}{more}")
        if self.only_before and self.failures == "worst":
            notes.append(
                '"no worse" counts items that are only before as complete losses; --failures skip '
                "leaves them out"
            )
        return notes

    def _metric_notes(self) -> list[str]:
        notes = []
        assumed = [change.metric for change in self.changes if change.facts.assumed]
        if assumed:
            notes.append(
                f"assumed that higher is better: {', '.join(assumed)}; --lower-is-better NAME "
                "changes it"
            )
        lower = [change.metric for change in self.changes if change.facts.lower_is_better]
        if lower:
            notes.append(f"lower is better: {', '.join(lower)}")
        for change in self.changes:
            if not change.facts.has_scale:
                notes += self._scale_notes(change)
            if change.unscored:
                notes.append(
                    f"{change.metric}: {_count(change.unscored, 'item')} without a score from "
                    "either system, not compared"
                )
        if self.needed is not None:
            notes.append(str(self.needed))
        return notes

    def _scale_notes(self, change: MetricChange) -> list[str]:
        name = change.metric
        notes = [f'{name}: "no worse" needs its scale, --scale {name}=LOW:HIGH']
        if change.verdict == "inconclusive" and change.comparison.regressed(self.alpha):
            notes.append(
                f"{name}: the loss on these items is significant, but rare gains of up to "
                f"{change.unseen:.3g} ({UNSEEN} times the range of the scores) could outweigh it; "
                "state the largest possible score with --scale"
            )
        return notes

    def _tables(self) -> tuple[Table, ...]:
        header = (
            *("metric", "verdict", "before", "after", "change", "95 % interval"),
            *("p (worse)", "lost ≤", "items", "clusters"),
        )
        rows = tuple(_cells(change) for change in self.changes)
        marked = tuple(change.verdict == "worse" for change in self.changes)
        title = f"{self.summary} (alpha {self.alpha:g})"
        return (Table(title, header, rows, marked, self.notes, name=0).filled(),)

    def plain(self) -> dict[str, Any]:
        """Return the comparison as a dictionary that can be written as JSON."""
        return {
            "verdict": self.verdict,
            "summary": self.summary,
            "before": self.before,
            "after": self.after,
            "alpha": self.alpha,
            "margin": self.margin,
            "failures": self.failures,
            "metrics": [_plain(change) for change in self.changes],
            "needed": None if self.needed is None else self.needed._asdict(),
            "only_before": list(self.only_before),
            "only_after": list(self.only_after),
            "not_compared": dict(self.not_compared),
            "notes": list(self.notes),
        }


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _scored_before(change: MetricChange) -> str:
    """Return a note on the scores that ``no worse`` compares, if earlier scores failed."""
    [whole] = change.whole.changes
    return (
        f'{change.metric}: "no worse" leaves out scores that failed before: '
        f"{_count(change.left_out, 'item')} left out, mean of the other {whole.queries}: "
        f"{whole.before:.3f} before, {whole.after:.3f} after; --failures skip leaves them out of "
        "all figures"
    )


def _cells(change: MetricChange) -> tuple[str, ...]:
    low, high = change.interval
    lost = change.lost_at_most
    grouped = change.clusters < change.items
    verdict = f"{change.verdict}, better" if change.is_better else change.verdict
    return (
        change.metric,
        verdict,
        f"{change.before:.3f}",
        f"{change.after:.3f}",
        f"{change.difference:+.3f}",
        "" if math.isnan(low) else f"[{low:+.3f}, {high:+.3f}]",
        f"{change.p:.4f}",
        f"{lost:.3f}" if math.isfinite(lost) else "",
        str(change.items),
        str(change.clusters) if grouped else "",
    )


def _plain(change: MetricChange) -> dict[str, Any]:
    return {
        "metric": change.metric,
        "verdict": change.verdict,
        "is_better": change.is_better,
        "before": change.before,
        "after": change.after,
        "difference": change.difference,
        "interval": list(change.interval),
        "p": change.p,
        "p_better": change.p_better,
        "lost_at_most": change.lost_at_most,
        "items": change.items,
        "clusters": change.clusters,
        "worse_items": change.worse,
        "better_items": change.better,
        "failed_before": change.failed[0],
        "failed_after": change.failed[1],
        "left_out": change.left_out,
        "without_score": change.unscored,
        "lower_is_better": change.facts.lower_is_better,
        "direction_assumed": change.facts.assumed,
        "scale": [change.facts.low, change.facts.high],
        "losses": [loss._asdict() for loss in change.losses],
    }
