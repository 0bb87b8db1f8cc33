"""Whether a run is worse than an earlier one on the same queries, no worse, or nobody can tell."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats, Ints
from mirage.features import FeatureTable
from mirage.features.registry import facts
from mirage.statistics.bounds import upper_bounds
from mirage.statistics.clusters import cluster_codes, cluster_sums
from mirage.statistics.permutation import single_step_p_values
from mirage.testing._evidence import Evidence, evidence_of
from mirage.testing._flips import with_flips
from mirage.testing.gate import GATED, mean_of_pairs, more_than_wording

__all__ = ["Change", "Comparison", "Verdict", "compare", "each_time"]

Verdict = Literal["worse", "no worse", "cannot tell"]
"""What a comparison comes to.

``worse``: a feature got worse, by more than chance. ``no worse``: no feature can have lost more
than the margin, and correctness was measured; or all answers are identical to the baseline's.
``cannot tell``: neither.
"""

DECIMALS = 6
"""A difference that these decimals do not show is none: files and platforms round."""


FEWEST = 4
"""Queries below which nothing can be called worse."""

FEWEST_CLUSTERS = 5
"""Clusters below which nothing is called worse.

Of four that all differ, as clusters mostly do, one run in sixteen would be: each way to swap them
is as likely, and in one of the sixteen all are worse.
"""


FEW = 12
"""Clusters below which a loss is only called one where it excludes what may not have been seen.

Where most queries lose a little and few win much, a handful of queries may well show losses alone:
three of four losing, all of eight are drawn so once in ten times, and all of twelve once in thirty.
"""


@dataclass(frozen=True)
class Change:
    """How one feature changed, over the queries that have it in both runs.

    Attributes:
        feature: its name.
        before: mean in the earlier run; NaN where no query has it in both.
        after: mean in the later run.
        queries: how many have it in both.
        worse: on how many of them it got worse.
        better: on how many it got better.
        p: chance of an outcome as bad in any feature if nothing got worse but by chance; corrected
            for the number of features.
        fell: whether the mean got worse, by more than another wording makes of it.
        lost_at_most: upper end of a one-sided interval for the loss, at the level 1 less alpha: a
            mean over all queries, of which those without the feature lose nothing, as a share of
            the feature's range. 0.1 is as much as if every tenth query lost all that it can.
            Infinite where the feature's range is not known, or no query has it in both runs.
        gained_at_most: the same of the gain; below 0 it is a loss. Minus infinity from
            :data:`FEW` clusters on, and where the range is not known: nothing is asked of it then.
        allowance: how much of the mean loss counts as style, in units of the feature. It can stop
            an alarm, and is no part of ``lost_at_most``.
        beyond_at_most: ``lost_at_most`` after the allowance.
    """

    feature: str
    before: float
    after: float
    queries: int
    worse: int
    better: int
    p: float
    fell: bool
    lost_at_most: float
    gained_at_most: float = -float("inf")
    allowance: float = 0.0
    beyond_at_most: float = float("inf")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two runs on the same queries, feature by feature.

    Attributes:
        before: the features of the earlier run.
        after: those of the later run, in the same order.
        changes: one a feature.
        worsening: how much worse each value is, ``(queries, features)``; above 0 is worse, NaN
            where it is not in both runs. Of repeats, the mean.
        tested: the same beyond what another wording changes.
        losses: ``worsening`` as a share of the feature's range; 0 where a query has none, 1 where
            the later run lacks it, infinite where the range is not known.
        codes: the cluster of each query.
        clusters: how many clusters the queries are in; as many as queries where none are shared.
        lower: the features of which a smaller value is the better one.
        alpha: the level of each verdict.
        margin: the loss that ``no worse`` excludes, as a share of a feature's range.
        identical: whether each answer is identical to the baseline's; ``None`` if not known.
        failed: the ids of the queries that the model failed on in either run.
    """

    before: FeatureTable
    after: FeatureTable
    changes: tuple[Change, ...]
    worsening: Floats
    tested: Floats
    losses: Floats
    codes: Ints
    clusters: int
    lower: frozenset[str]
    alpha: float
    margin: float
    identical: NDArray[np.bool_] | None = None
    failed: frozenset[str] = frozenset()

    @property
    def verdict(self) -> Verdict:
        """Whether the later run is worse, no worse than the margin, or nobody can tell."""
        if self.unchanged:
            return "no worse"
        if self.regressed(self.alpha):
            return "worse"
        certain = self.compared and not self.unclear and self.evidence.is_enough
        return "no worse" if certain else "cannot tell"

    @property
    def unchanged(self) -> bool:
        """Whether all answers are known to be identical to the baseline's, and any was measured."""
        return self.identical is not None and bool(self.identical.all() and self.compared)

    @cached_property
    def evidence(self) -> Evidence:
        """The correctness measures that the verdict rests on."""
        return evidence_of(
            self.before, self.after, self.lower, self.margin, self.identical, self.failed
        )

    @property
    def compared(self) -> tuple[Change, ...]:
        """The features that a query has in both runs."""
        return tuple(change for change in self.changes if change.queries)

    @property
    def not_compared(self) -> dict[str, str]:
        """The features that no query has in both runs, and why."""
        reasons = {**self.before.unmeasured, **self.after.unmeasured}
        why = "no query has it in both runs"
        return {
            change.feature: reasons.get(change.feature, why)
            for change in self.changes
            if not change.queries
        }

    @property
    def unclear(self) -> tuple[Change, ...]:
        """The features of which more than the margin may be lost, for all that is known."""
        return tuple(change for change in self.compared if change.lost_at_most > self.margin)

    @property
    def fewest(self) -> int:
        """Clusters, or queries that share none, below which nothing is called worse."""
        return FEWEST_CLUSTERS if self.clusters < len(self.before) else FEWEST

    def regressed(self, alpha: float) -> tuple[Change, ...]:
        """The features that got worse by more than chance, at this level for all together."""
        if self.clusters < self.fewest or self.unchanged:
            return ()
        return tuple(
            change
            for change in self.changes
            if change.fell and change.p <= alpha and change.gained_at_most < 0
        )


def compare(
    before: FeatureTable,
    after: FeatureTable,
    lower_is_better: Collection[str] = (),
    *,
    clusters: Mapping[str, str] = MappingProxyType({}),
    alpha: float = 0.05,
    margin: float = 0.1,
    identical: NDArray[np.bool_] | None = None,
    failed: Collection[str] = (),
) -> Comparison:
    """Compare two runs query by query.

    If the later run is no worse, each query's two responses could as well have come the other way
    round, all their features together. What is tested, and how p is corrected for the number of
    features, says :func:`mirage.statistics.single_step_p_values`. The draws are the same in every
    call. What another wording alone changes is taken off before: see
    :data:`mirage.testing.gate.GATED`.

    A run of the same system that answers anew is called worse with a probability of about
    ``alpha``, mostly less. Four queries have to differ, all for the worse, before p can be below
    0.05. From 28 queries on, answers that turned from right to wrong are counted as well, over all
    features that read facts: three are enough if none turned the other way and at most 40 answers
    changed, six if 100 did (:mod:`mirage.statistics.flips`). What hangs together is exchanged as
    one: if queries are in clusters, what is tested are the sums over clusters, of which there have
    to be :data:`FEWEST_CLUSTERS`. If a model was asked several times, each of its responses is
    compared with each of the other run's, and a query counts once, with the mean. Below :data:`FEW`
    clusters a loss also has to exclude, by :func:`mirage.statistics.upper_bounds`, that what was
    not seen makes up for it.

    A run is no worse if correctness measures cover at least half of the answers that changed
    (:mod:`mirage.testing._evidence`), and if in every feature
    :func:`mirage.statistics.upper_bounds` of the whole loss, style included, is within the margin,
    each at the level of ``alpha``: to say so of all takes no correction for their number
    (an intersection-union test, Berger 1982, Multiparameter Hypothesis Testing and Acceptance
    Sampling, Technometrics 24, 295-300). Where the run has no value and the earlier one had one,
    all is lost, but for a feature that good answers may lack. It takes 29 queries, or clusters,
    without any change to exclude a loss of 0.1, and more the more answers change.

    Args:
        before: the earlier run.
        after: the later run; it has the queries and features of the earlier one, in any order.
        lower_is_better: the features of which a smaller value is the better one.
        clusters: by query id, what a query hangs together with; one that is not there is by itself.
        alpha: the level of each verdict.
        margin: the loss that ``no worse`` excludes; see :attr:`Change.lost_at_most`.
        identical: whether each answer is identical to the baseline's, in the order of the earlier
            run's queries; ``None`` if not known. If all are, the run is no worse.
        failed: the ids of the queries that the model failed on in either run.
    """
    after = after.select(before.query_ids).columns(before.features)
    earlier, later = each_time(before), each_time(after)
    sign = np.array([1.0 if name in lower_is_better else -1.0 for name in before.features])
    pairs = sign * (later[:, None] - earlier[None])
    pairs = pairs.reshape(-1, *before.values.shape)
    pairs[np.abs(pairs) < 1.5 * 10.0**-DECIMALS] = 0.0
    worsening = mean_of_pairs(pairs)
    tested = more_than_wording(pairs, before.features)
    codes = cluster_codes(before.query_ids, clusters)
    beyond = _losses(before, after, tested)
    p_values = single_step_p_values(cluster_sums(codes, tested))
    changed = (np.nan_to_num(worsening) != 0).any(axis=1)
    if identical is not None:
        changed |= ~identical
    p_values = with_flips(p_values, beyond, codes, before.features, changed)
    fell = np.nansum(tested, axis=0) > 10.0**-DECIMALS
    losses = _losses(before, after, worsening)
    count = int(codes.max()) + 1
    lost, left = (_bounds(each, codes, level=1 - alpha) for each in (losses, beyond))
    gained = np.full(losses.shape[1], -np.inf)
    if count < FEW:
        bounds = _bounds(-beyond, codes, level=1 - alpha)
        gained = np.where(np.isfinite(bounds), bounds, -np.inf)
    allowed = np.nan_to_num(mean_of_pairs(worsening - tested))
    changes = [
        replace(
            _change(
                name,
                worsening[:, j],
                before.values[:, j],
                after.values[:, j],
                p_values[j],
                fell[j],
                lost[j],
                gained[j],
            ),
            allowance=max(float(allowed[j]), 0.0),
            beyond_at_most=float(left[j]),
        )
        for j, name in enumerate(before.features)
    ]
    return Comparison(
        before,
        after,
        tuple(changes),
        worsening,
        tested,
        losses,
        codes,
        count,
        frozenset(lower_is_better),
        alpha,
        margin,
        identical,
        frozenset(failed),
    )


def _bounds(losses: Floats, codes: Ints, *, level: float) -> Floats:
    """Return the most that each feature may have lost; infinite if its range is not known."""
    bounds = np.full(losses.shape[1], np.inf)
    ranged = np.isfinite(losses).all(axis=0)
    if ranged.any():
        bounds[ranged] = upper_bounds(losses[:, ranged], codes, level=level)
    return bounds


def each_time(table: FeatureTable) -> Floats:
    """The values of each time that the model was asked, ``(repeats, queries, features)``."""
    values = table.values[None] if table.repeats is None else table.repeats
    return values.round(DECIMALS)


def _losses(before: FeatureTable, after: FeatureTable, worsening: Floats) -> Floats:
    """What each query lost, as a share of the feature's range."""
    known = [facts(name, {**after.facts, **before.facts}) for name in before.features]
    width = np.array([entry.high - entry.low for entry in known])
    may_lack = np.array([name in GATED and GATED[name].may_lack for name in before.features])
    gone = np.isnan(after.values) & ~np.isnan(before.values) & ~may_lack
    losses = np.where(gone, 1.0, np.nan_to_num(worsening) / width)
    return np.where(np.isfinite(width), losses, np.inf)


def _change(
    name: str,
    worsening: Floats,
    before: Floats,
    after: Floats,
    p: float,
    fell: bool,
    lost_at_most: float,
    gained_at_most: float,
) -> Change:
    both = ~np.isnan(worsening)
    queries = int(both.sum())
    return Change(
        feature=name,
        before=float(before[both].mean()) if queries else float("nan"),
        after=float(after[both].mean()) if queries else float("nan"),
        queries=queries,
        worse=int((worsening > 0).sum()),
        better=int((worsening < 0).sum()),
        p=float(p),
        fell=bool(fell),
        lost_at_most=float(lost_at_most) if queries else float("inf"),
        gained_at_most=float(gained_at_most),
    )
