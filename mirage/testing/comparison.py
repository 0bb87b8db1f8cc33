"""Comparison of a run with an earlier run on the same queries."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats, Ints
from mirage.features import FeatureTable
from mirage.features.registry import facts
from mirage.statistics.bounds import weighted_means
from mirage.statistics.clusters import cluster_codes, cluster_sums
from mirage.statistics.permutation import single_step_p_values
from mirage.statistics.run_noise import FEWEST_RUNS, run_noise
from mirage.testing._evidence import Evidence, evidence_of
from mirage.testing._flips import with_flips
from mirage.testing.gate import mean_of_pairs, more_than_wording

Verdict = Literal["worse", "no worse", "inconclusive"]
"""The result of a comparison.

``worse``: the loss in at least one feature is statistically significant. ``no worse``: no feature
can have dropped by more than the margin, and correctness was measured; or all answers are identical
to the baseline's. ``inconclusive``: neither of these holds.
"""

DECIMALS = 6
"""Number of decimals that are compared; smaller differences come from rounding."""


FEWEST = 4
"""The smallest number of queries with which a run can be called worse."""

FEWEST_CLUSTERS = 5
"""The smallest number of clusters with which a run can be called worse.

With four clusters that all differ, as clusters mostly do, the false positive rate would be 1/16.
All 16 ways to swap the clusters are equally likely, and in one of them all clusters are worse.
"""


@dataclass(frozen=True)
class Change:
    """The change of one feature, over the queries that have a value in both runs.

    Attributes:
        feature: Name of the feature.
        before: Mean in the earlier run; NaN if no query has a value in both runs.
        after: Mean in the later run.
        queries: Number of queries with a value in both runs.
        worse: Number of these queries whose value got worse.
        better: Number of these queries whose value got better.
        p: P-value of the loss, corrected for the number of features; see :func:`compare`.
        fell: Whether the mean got worse, not counting differences that wording or style can
            explain.
        lost_at_most: One-sided upper confidence bound of the mean loss over all queries, at the
            level ``1 - alpha``. It is a share of the feature's range: the loss is 0.1 if every
            tenth query drops from the best value to the worst. :attr:`Comparison.losses` describes
            the losses of queries without a value. Infinite if the range is not known, or if no
            query has a value in both runs.
        allowance: Part of the mean loss that wording or style can explain, in units of the feature.
            It can prevent a ``worse`` verdict, and is not subtracted from ``lost_at_most``.
        beyond_at_most: The same bound as ``lost_at_most``, but for the part of the loss that
            wording or style cannot explain.
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
    allowance: float
    beyond_at_most: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """A comparison of two runs on the same queries, feature by feature.

    Attributes:
        before: Features of the earlier run.
        after: Features of the later run, with queries and features in the same order.
        changes: The change of each feature.
        worsening: How much worse each value is, of shape ``(queries, features)``; above 0 is worse,
            NaN if the value is missing in either run. With repeats, it is the mean over all pairs
            of repeats.
        tested: ``worsening`` without the differences that wording or style can explain
            (:data:`mirage.testing.gate.GATED`).
        losses: ``worsening`` as a share of the feature's range; infinite if the range is not known.
            If only the earlier run has a value, the loss is 1. For other missing values, it is 0.
        codes: Index of the cluster of each query.
        clusters: Number of clusters; equal to the number of queries if none share a cluster.
        lower: Features for which smaller is better.
        alpha: Significance level of each verdict.
        margin: The loss that ``no worse`` rules out, as a share of a feature's range.
        identical: Whether each answer is identical to the baseline's; ``None`` if not known.
        failed: Ids of the queries that the model failed on in either run, including those that are
            not in the tables.
        runs: Number of runs that the baseline consists of.
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
    runs: int = 1

    @property
    def verdict(self) -> Verdict:
        """The verdict on the later run: ``worse``, ``no worse`` or ``inconclusive``."""
        if self.unchanged:
            return "no worse"
        if self.regressed(self.alpha):
            return "worse"
        certain = self.compared and not self.inconclusive and self.evidence.is_enough
        return "no worse" if certain else "inconclusive"

    @property
    def left_out(self) -> int:
        """The number of queries that are not compared because the earlier run failed on them."""
        return len(self.failed - set(self.before.query_ids))

    @property
    def unchanged(self) -> bool:
        """Whether all answers equal the baseline's, and at least one feature was compared."""
        if self.identical is None or self.left_out:
            return False
        return bool(self.identical.all() and self.compared)

    @cached_property
    def evidence(self) -> Evidence:
        """The correctness measures that the verdict is based on."""
        return evidence_of(
            self.before, self.after, self.lower, self.margin, self.identical, self.failed
        )

    @property
    def compared(self) -> tuple[Change, ...]:
        """The changes of the features that have a value in both runs for at least one query."""
        return tuple(change for change in self.changes if change.queries)

    @property
    def not_compared(self) -> dict[str, str]:
        """The features for which no query has a value in both runs, each with the reason."""
        reasons = {**self.before.unmeasured, **self.after.unmeasured}
        why = "no query has a value in both runs"
        return {
            change.feature: reasons.get(change.feature, why)
            for change in self.changes
            if not change.queries
        }

    @property
    def inconclusive(self) -> tuple[Change, ...]:
        """The features for which a loss above the margin cannot be ruled out."""
        return tuple(change for change in self.compared if change.lost_at_most > self.margin)

    @property
    def fewest(self) -> int:
        """The smallest number of clusters with which a run can be called worse.

        If no queries share a cluster, it is the smallest number of queries.
        """
        return FEWEST_CLUSTERS if self.clusters < len(self.before) else FEWEST

    def regressed(self, alpha: float) -> tuple[Change, ...]:
        """Return the features whose loss is statistically significant.

        Args:
            alpha: Significance level for all features together.
        """
        if self.clusters < self.fewest or self.unchanged:
            return ()
        return tuple(change for change in self.changes if change.fell and change.p <= alpha)


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
    runs: int = 1,
) -> Comparison:
    """Compare two runs query by query.

    The test for ``worse`` combines a paired permutation test with an upper bound on the mean gain.
    Under the null hypothesis, the two responses to a query are exchangeable, with all their
    features. :func:`mirage.statistics.single_step_p_values` defines the statistic and the
    correction for the number of features. Its random draws are the same in every call. Differences
    that a mere change of wording can explain do not count; see :data:`mirage.testing.gate.GATED`.

    * The false positive rate is about ``alpha``, mostly less. In this test, at least four queries
      must differ, all for the worse, for a p-value below 0.05.
    * With at least 28 queries (or clusters), a second test counts the answers that turned from
      right to wrong in any feature that checks facts. If at most 40 answers changed, three such
      answers are significant, provided that none turned from wrong to right. If 100 changed, six
      are needed (:mod:`mirage.statistics.flips`).
    * The queries of a cluster are swapped together, so the test uses sums over clusters. At least
      :data:`FEWEST_CLUSTERS` clusters are needed.
    * With repeats, each response is compared with each response of the other run to the same
      query. The query counts once, with the mean of these differences.
    * If gains are rare but large, a sample may contain none of them, and the permutation test would
      call the run worse. So the upper bound of the mean gain, at the level ``1 - 2 * alpha``, must
      be below 0 as well (:func:`mirage.statistics.upper_bounds`). Features without a known range
      are exempt from this condition.
    * If the earlier run consists of three or more ``runs``, the noise between runs is estimated
      from them (:mod:`mirage.statistics.run_noise`), and both verdicts allow for it. With fewer
      runs, they do not.

    A run is ``no worse`` if two conditions hold. First, correctness measures cover at least half of
    the answers that changed (:mod:`mirage.testing._evidence`). Second, the upper bound of the whole
    loss (:func:`mirage.statistics.upper_bounds`), style included, is within the margin in every
    feature. Each bound has the level ``1 - alpha``. The bounds of all features must be within the
    margin, so no correction for the number of features is needed (an intersection-union test,
    Berger 1982, Multiparameter Hypothesis Testing and Acceptance Sampling, Technometrics 24,
    295-300). If a query has a value in the earlier run only, it counts as a complete loss. At least
    29 unchanged queries or clusters are needed to rule out a loss of 0.1, and more if answers
    change.

    Args:
        before: Features of the earlier run.
        after: Features of the later run, with the same queries and features in any order.
        lower_is_better: Features for which smaller is better.
        clusters: Cluster of each query, by query id. A query that is not listed is its own
            cluster.
        alpha: Significance level of each verdict.
        margin: The loss that ``no worse`` rules out, see :attr:`Change.lost_at_most`.
        identical: Whether each answer is identical to the baseline's, in the order of the earlier
            run's queries; ``None`` if not known. If all are identical, the run is no worse.
        failed: Ids of the queries that the model failed on in either run. If the tables lack some
            of them, these are counted as left out.
        runs: Number of runs, made at different times, whose repeats the earlier table contains.

    Returns:
        The comparison; its ``verdict`` is ``worse``, ``no worse`` or ``inconclusive``.

    Example:
        >>> import numpy as np
        >>> from mirage.features import FeatureTable
        >>> ids = tuple(f"q{i}" for i in range(30))
        >>> before = FeatureTable("m", "en", ids, ("answer_match",), np.ones((30, 1)))
        >>> after = FeatureTable("m", "en", ids, ("answer_match",), np.zeros((30, 1)))
        >>> compare(before, after).verdict
        'worse'
    """
    after = after.select(before.query_ids).columns(before.features)
    earlier, later = each_time(before), each_time(after)
    sign = np.array([1.0 if name in lower_is_better else -1.0 for name in before.features])
    pairs = sign * (later[:, None] - earlier[None])
    pairs = pairs.reshape(-1, *before.values.shape)
    # Files and platforms round differently, so such small differences are not real.
    pairs[np.abs(pairs) < 1.5 * 10.0**-DECIMALS] = 0.0
    worsening = mean_of_pairs(pairs)
    tested = more_than_wording(pairs, before.features)
    codes = cluster_codes(before.query_ids, clusters)
    beyond = _losses(before, after, tested)
    # Without digests of the answers, an answer counts as changed if any of its features did.
    changed = (np.nan_to_num(worsening) != 0).any(axis=1)
    if identical is not None:
        changed |= ~identical
    losses = _losses(before, after, worsening)
    lost, unexplained, gain_p_values = _bounds(losses, beyond, codes, level=1 - alpha)
    p_values = with_flips(
        single_step_p_values(cluster_sums(codes, tested)),
        gain_p_values / 2,  # the bound of the gain has the level 1 - 2 * alpha
        np.where(newly_missing(before, after), 0.0, beyond),  # a missing value is no flip
        codes,
        before.features,
        changed,
    )
    # A feature whose mean improved is never worse, whatever its p-value.
    fell = np.nansum(tested, axis=0) > 10.0**-DECIMALS
    count = int(codes.max()) + 1
    if runs >= FEWEST_RUNS and before.repeats is not None:
        noise = run_noise(before.repeats, codes, runs)
        different = int(np.count_nonzero(np.nan_to_num(tested).any(axis=0)))
        p_values = noise.widen_p_values(p_values, mean_of_pairs(tested), max(different, 1))
        width = _widths(before, after)
        lost, unexplained = (
            noise.widen_bounds(bounds, each.mean(axis=0), width, alpha)
            for bounds, each in ((lost, losses), (unexplained, beyond))
        )
    allowed = np.nan_to_num(mean_of_pairs(worsening - tested))
    changes = []
    for j, name in enumerate(before.features):
        both = ~np.isnan(worsening[:, j])
        queries = int(both.sum())
        changes.append(
            Change(
                feature=name,
                before=float(before.values[both, j].mean()) if queries else float("nan"),
                after=float(after.values[both, j].mean()) if queries else float("nan"),
                queries=queries,
                worse=int((worsening[:, j] > 0).sum()),
                better=int((worsening[:, j] < 0).sum()),
                p=float(p_values[j]),
                fell=bool(fell[j]),
                lost_at_most=float(lost[j]) if queries else float("inf"),
                allowance=max(float(allowed[j]), 0.0),
                beyond_at_most=float(unexplained[j]),
            )
        )
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
        runs,
    )


def _bounds(
    losses: Floats, beyond: Floats, codes: Ints, *, level: float
) -> tuple[Floats, Floats, Floats]:
    """Return upper bounds of the mean loss, and p-values of the hypothesis that the mean improved.

    Args:
        losses: Loss of each query; infinite if the feature's range is not known.
        beyond: Loss of each query, without differences that wording or style can explain.
        codes: Index of the cluster of each query.
        level: Confidence level of the bounds.

    Returns:
        The bounds of the mean of ``losses``, the bounds of the mean of ``beyond``, and the p-values
        for ``beyond``, each with one value per feature. For features without a known range, the
        bounds are infinite and the p-values are 0.
    """
    upper, p_values = np.full((2, losses.shape[1]), np.inf), np.zeros(losses.shape[1])
    has_range = np.isfinite(losses).all(axis=0)
    if has_range.any():
        columns = [losses[:, has_range], beyond[:, has_range], -beyond[:, has_range]]
        # All columns share the random weightings, which take most of the time.
        means = np.stack(np.split(weighted_means(np.hstack(columns), codes), 3, axis=1))
        upper[:, has_range] = np.quantile(means[:2], level, axis=1)
        p_values[has_range] = (means[2] >= 0).mean(axis=0)
    return upper[0], upper[1], p_values


def each_time(table: FeatureTable) -> Floats:
    """Return the rounded values of each repeat, of shape ``(repeats, queries, features)``.

    A table without repeats counts as one repeat.
    """
    values = table.values[None] if table.repeats is None else table.repeats
    return values.round(DECIMALS)


def _losses(before: FeatureTable, after: FeatureTable, worsening: Floats) -> Floats:
    """Return the loss of each query on each feature, as a share of the feature's range.

    A loss is ``worsening`` divided by the width of the range. If the range of a feature is not
    known, all its losses are infinite. If only the earlier run has a value, the loss is 1. For
    other missing values, it is 0.

    Args:
        before: Features of the earlier run.
        after: Features of the later run, with queries and features in the same order.
        worsening: How much worse each value is, of shape ``(queries, features)``; above 0 is worse,
            NaN if the value is missing in either run.

    Returns:
        The losses, of shape ``(queries, features)``.
    """
    width = _widths(before, after)
    missing = newly_missing(before, after)
    losses = np.where(missing, 1.0, np.nan_to_num(worsening) / width)
    return np.where(np.isfinite(width), losses, np.inf)


def newly_missing(before: FeatureTable, after: FeatureTable) -> NDArray[np.bool_]:
    """Return a mask ``(queries, features)`` of the values that only the earlier run has."""
    return np.isnan(after.values) & ~np.isnan(before.values)


def _widths(before: FeatureTable, after: FeatureTable) -> Floats:
    """Return the width of each feature's range; infinite if the range is not known."""
    feature_facts = [facts(name, {**after.facts, **before.facts}) for name in before.features]
    return np.array([entry.high - entry.low for entry in feature_facts])
