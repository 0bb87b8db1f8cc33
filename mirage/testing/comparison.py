"""Whether a run is worse than an earlier one on the same queries, or merely different."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from mirage._base.arrays import Floats
from mirage.features import FeatureTable
from mirage.statistics.clusters import cluster_codes, cluster_sums
from mirage.statistics.permutation import single_step_p_values
from mirage.testing.gate import more_than_wording

__all__ = ["Change", "Comparison", "compare"]


DECIMALS = 6
"""A difference that these decimals do not show is none: files and platforms round."""


FEWEST = 4
"""Queries below which nothing can be called worse."""

FEWEST_CLUSTERS = 5
"""Clusters below which nothing is called worse.

Of four that all differ, as clusters mostly do, one run in sixteen would be: each way to swap them
is as likely, and in one of the sixteen all are worse.
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
    """

    feature: str
    before: float
    after: float
    queries: int
    worse: int
    better: int
    p: float
    fell: bool


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two runs on the same queries, feature by feature.

    Attributes:
        before: the features of the earlier run.
        after: those of the later run, in the same order.
        changes: one a feature.
        worsening: how much worse each value is, ``(queries, features)``; above 0 is worse, NaN
            where it is not in both runs.
        clusters: how many clusters the queries are in; as many as queries where none are shared.
    """

    before: FeatureTable
    after: FeatureTable
    changes: tuple[Change, ...]
    worsening: Floats
    clusters: int

    @property
    def fewest(self) -> int:
        """Clusters, or queries that share none, below which nothing is called worse."""
        return FEWEST_CLUSTERS if self.clusters < len(self.before) else FEWEST

    def regressed(self, alpha: float) -> tuple[Change, ...]:
        """The features that got worse by more than chance, at this level for all together."""
        if self.clusters < self.fewest:
            return ()
        return tuple(change for change in self.changes if change.fell and change.p <= alpha)


def compare(
    before: FeatureTable,
    after: FeatureTable,
    lower_is_better: Collection[str] = (),
    *,
    clusters: Mapping[str, str] = MappingProxyType({}),
) -> Comparison:
    """Compare two runs query by query.

    If the later run is no worse, each query's two responses could as well have come the other way
    round, all their features together. What is tested, and how p is corrected for the number of
    features, says :func:`mirage.statistics.single_step_p_values`. The draws are the same in every
    call. What another wording alone changes is taken off before: see
    :data:`mirage.testing.gate.GATED`.

    A run of the same system that answers anew is called worse with a probability of about
    ``alpha``, mostly less. Four queries have to differ, all for the worse, before p can be below
    0.05. What hangs together is exchanged as one: where queries are in clusters, what is tested are
    the sums over clusters, of which there have to be :data:`FEWEST_CLUSTERS`.

    Args:
        before: the earlier run.
        after: the later run; it has the queries and features of the earlier one, in any order.
        lower_is_better: the features of which a smaller value is the better one.
        clusters: by query id, what a query hangs together with; one that is not there is by itself.
    """
    after = after.select(before.query_ids).columns(before.features)
    earlier, later = before.values.round(DECIMALS), after.values.round(DECIMALS)
    sign = np.array([1.0 if name in lower_is_better else -1.0 for name in before.features])
    worsening = sign * (later - earlier)
    worsening[np.abs(worsening) < 1.5 * 10.0**-DECIMALS] = 0.0
    tested = more_than_wording(worsening, before.features)
    codes = cluster_codes(before.query_ids, clusters)
    p_values = single_step_p_values(cluster_sums(codes, tested))
    fell = np.nansum(tested, axis=0) > 10.0**-DECIMALS
    changes = [
        _change(name, worsening[:, j], earlier[:, j], later[:, j], p_values[j], fell[j])
        for j, name in enumerate(before.features)
    ]
    return Comparison(before, after, tuple(changes), worsening, int(codes.max()) + 1)


def _change(
    name: str, worsening: Floats, before: Floats, after: Floats, p: float, fell: bool
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
    )
