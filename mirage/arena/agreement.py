"""Agreement of judges on which of two responses is better, measured by kappa.

Kappa is computed by :mod:`mirage.statistics`. It is undefined, and therefore NaN, if every verdict
is a tie.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.arena import _votes
from mirage.arena._votes import BootstrapSettings, Items, VoteStatistic, bootstrap_fields
from mirage.errors import JudgmentError
from mirage.models import Vote
from mirage.statistics.agreement import Sums, cohen_of, fleiss_of, terms
from mirage.statistics.clusters import cluster_codes


@dataclass(frozen=True)
class PairAgreement(VoteStatistic):
    """The agreement of two judges on which of two responses is better.

    Attributes:
        judges: Names of the two judges.
        value: Cohen's kappa; NaN if every verdict is a tie or no item was judged by both.
        interval: Lower and upper end of the confidence interval of ``value`` at ``level``. NaN if
            there are fewer than 14 queries, if the agreement is equal on all queries, or if kappa
            is undefined on some bootstrap samples.
        agreement: Share of items on which both judges gave the same verdict.
        items: Number of items that both judged. An item is a pair of responses to one query. The
            number of different queries is ``queries``.
    """

    judges: tuple[str, str]
    agreement: float
    items: int

    def __str__(self) -> str:
        line = f"Cohen's kappa of {self.judges[0]} and {self.judges[1]}: "
        if not self.items:
            return line + "undefined, because they judged nothing in common"
        return line + _agreement_text(self)


@dataclass(frozen=True)
class JudgeAgreement(VoteStatistic):
    """The agreement of all judges, and of every two of them, on which of two responses is better.

    Attributes:
        judges: Sorted names of the judges.
        value: Fleiss' kappa; NaN if every verdict is a tie or no item was judged by all.
        interval: Lower and upper end of the confidence interval of ``value`` at ``level``; NaN in
            the same cases as for :class:`PairAgreement`.
        agreement: Share of the pairs of judges that gave the same verdict, averaged over items.
        items: Number of items that all judges judged. An item is a pair of responses to one query.
            ``value``, ``interval`` and ``agreement`` use only these items, which belong to
            ``queries`` queries.
        partly_judged: Number of items that some judges judged, but not all.
        left_out: Number of votes that are invalid or failed.
        pairs: Agreement of every two judges, on the items that both judged.
    """

    judges: tuple[str, ...]
    agreement: float
    items: int
    partly_judged: int
    left_out: int
    pairs: tuple[PairAgreement, ...]

    def __str__(self) -> str:
        line = f"Fleiss' kappa of {len(self.judges)} judges: "
        line += (
            _agreement_text(self) if self.items else "undefined, because nothing was judged by all"
        )
        if self.partly_judged:
            line += f"; {self.partly_judged} judged by some only"
        return line + _votes.left_out_note(self.left_out)


def _agreement_text(result: PairAgreement | JudgeAgreement) -> str:
    kappa = "undefined, because every verdict is a tie" if np.isnan(result.value) else result.figure
    return (
        f"{kappa}; the same verdict on {result.agreement:.1%} of {result.items} pairs of responses "
        f"to {result.queries} queries"
    )


def judge_agreement(
    votes: Iterable[Vote],
    *,
    cluster: Mapping[str, str] = MappingProxyType({}),
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> JudgeAgreement:
    """Measure the agreement of judges on which of two responses to a query is better.

    An item is a query with two models. A judge's verdict on it is one of the models, or a tie. If a
    judge saw both orders and its votes differ, its verdict is a tie. Each item is counted twice,
    once with each model named first, so that kappa does not depend on the names. The chance
    agreement therefore assumes that a judge prefers either model equally often.

    Args:
        votes: Votes of at least two judges. Invalid and failed votes are left out, and counted.
        cluster: Cluster name by query id; a query that is not listed is a cluster by itself.
        draws: Number of bootstrap samples.
        level: Confidence level of the intervals.
        seed: Random seed of the bootstrap.

    Returns:
        Fleiss' kappa of all judges and Cohen's kappa of every two judges, with their intervals.

    Raises:
        JudgmentError: There is only one judge, no two judges have an item in common, no vote has a
            verdict, or a judge voted twice on the same models in the same order.

    Example:
        >>> from mirage.arena import judge_agreement
        >>> from mirage.models import Vote
        >>> votes = [
        ...     Vote(query_id=f"q{i}", model_a="x", model_b="y", judge=judge, verdict=verdict)
        ...     for i in range(20)
        ...     for judge, verdict in (("j1", "ab"[i % 2]), ("j2", "a" if i % 4 else "b"))
        ... ]
        >>> judge_agreement(votes).agreement
        0.25
    """
    table = _votes.tabulate(votes)
    items = _votes.items(table)
    settings = BootstrapSettings(cluster_codes(table.queries, cluster), draws, level, seed)
    pairs = tuple(
        _pair_agreement(items, x, y, (table.judges[x], table.judges[y]), settings)
        for x, y in combinations(range(len(table.judges)), 2)
    )
    if not any(pair.items for pair in pairs):
        raise JudgmentError(
            "agreement needs valid votes of at least two judges on the same query and pair of "
            f"models; there are none among the votes of {', '.join(map(repr, table.judges))}"
        )
    by_all = ~np.isnan(items.score).any(axis=1)
    labels = _labels(items.score[by_all])
    counts = np.eye(3)[labels].sum(axis=1)
    both = terms(counts) + terms(counts[:, ::-1]) if len(labels) else np.empty((0, 10))
    return JudgeAgreement(
        *bootstrap_fields(items.query[by_all], both, fleiss_of, settings),
        judges=table.judges,
        agreement=float(Sums.of(both.sum(axis=0)).agreement),
        items=len(labels),
        partly_judged=len(items.query) - len(labels),
        left_out=table.left_out,
        pairs=pairs,
    )


def _pair_agreement(
    items: Items, x: int, y: int, names: tuple[str, str], settings: BootstrapSettings
) -> PairAgreement:
    """Return the agreement of judges ``x`` and ``y`` on the items that both judged."""
    common = ~np.isnan(items.score[:, [x, y]]).any(axis=1)
    query = items.query[common]
    labels_x, labels_y = _labels(items.score[common][:, [x, y]]).T
    # Each item counts once with either model first; the swap turns label 0 into 2 and 2 into 0.
    cells = np.eye(9)[labels_x * 3 + labels_y] + np.eye(9)[8 - (labels_x * 3 + labels_y)]
    return PairAgreement(
        *bootstrap_fields(query, cells, cohen_of, settings),
        judges=names,
        agreement=float(np.mean(labels_x == labels_y)) if len(query) else np.nan,
        items=len(query),
    )


def _labels(score: Floats) -> Ints:
    """Return scores as labels: 0 if the second model won, 1 for a tie, 2 if the first won."""
    return (score * 2).astype(np.intp)
