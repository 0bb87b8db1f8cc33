"""How far judges agree on which of two responses is better: kappa, on votes.

Kappa is that of :mod:`mirage.statistics`. It is undefined, and NaN, where every verdict is a tie.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.arena import _votes
from mirage.arena._votes import Drawing, Items, Measured, measured
from mirage.errors import JudgmentError
from mirage.models import Vote
from mirage.statistics.agreement import Sums, cohen_of, fleiss_of, terms
from mirage.statistics.clusters import cluster_codes

__all__ = ["JudgeAgreement", "PairAgreement", "judge_agreement"]


@dataclass(frozen=True)
class PairAgreement(Measured):
    """How far two judges agree.

    Attributes:
        judges: their names.
        value: Cohen's kappa; NaN where every verdict is a tie, or there is no common item.
        interval: lower and upper end for it, at ``level``; NaN with fewer than 14 queries, where
            all agree alike, and where kappa is undefined on some draws of queries.
        agreement: share of items on which both gave the same verdict.
        items: pairs of responses to one query that both judged; ``queries`` says to how many.
    """

    judges: tuple[str, str]
    agreement: float
    items: int

    def __str__(self) -> str:
        line = f"Cohen's kappa of {self.judges[0]} and {self.judges[1]}: "
        if not self.items:
            return line + "undefined, for they judged nothing in common"
        return line + _described(self)


@dataclass(frozen=True)
class JudgeAgreement(Measured):
    """How far all judges agree, and each two of them.

    Attributes:
        judges: their names, sorted.
        value: Fleiss' kappa; NaN where every verdict is a tie, or no item has a verdict of all.
        interval: as that of a :class:`PairAgreement`.
        agreement: share of the pairs of judges that gave the same verdict, mean over items.
        items: pairs of responses to one query that all judged; what is said of all judges rests
            on these alone; ``queries`` says to how many they are.
        partly_judged: items that some judged, but not all.
        left_out: votes that are invalid or failed.
        pairs: each two judges, on the items that both judged.
    """

    judges: tuple[str, ...]
    agreement: float
    items: int
    partly_judged: int
    left_out: int
    pairs: tuple[PairAgreement, ...]

    def __str__(self) -> str:
        line = f"Fleiss' kappa of {len(self.judges)} judges: "
        line += _described(self) if self.items else "undefined, for nothing was judged by all"
        if self.partly_judged:
            line += f"; {self.partly_judged} judged by some only"
        return line + _votes.leftover(self.left_out)


def _described(result: PairAgreement | JudgeAgreement) -> str:
    kappa = "undefined, for every verdict is a tie" if np.isnan(result.value) else result.figure
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
    """How far judges agree on which of two responses to a query is better.

    An item is a query with two models; a judge's verdict on it is one of them, or a tie. A judge
    asked in both orders whose votes differ says: a tie. Each item enters twice, once with either
    model named first, so that kappa does not depend on names: the chance that a judge prefers the
    one is taken to be that it prefers the other.

    Args:
        votes: of two judges or more; invalid and failed ones are left out, and counted.
        cluster: as ``draws``, ``level`` and ``seed``, that of :func:`mirage.arena.position_bias`.

    Raises:
        JudgmentError: there is one judge only, no two judges have an item in common, no vote has
            a verdict, or a judge voted twice on the same models in the same order.
    """
    table = _votes.tabulate(votes)
    items = _votes.items(table)
    drawing = Drawing(cluster_codes(table.queries, cluster), draws, level, seed)
    pairs = tuple(
        _pair(items, x, y, (table.judges[x], table.judges[y]), drawing)
        for x, y in combinations(range(len(table.judges)), 2)
    )
    if not any(pair.items for pair in pairs):
        raise JudgmentError(
            f"agreement takes two judges or more on the same queries and models; the votes of "
            f"{', '.join(map(repr, table.judges))} have none in common"
        )
    by_all = ~np.isnan(items.score).any(axis=1)
    labels = _labels(items.score[by_all])
    counts = np.eye(3)[labels].sum(axis=1)
    both = terms(counts) + terms(counts[:, ::-1]) if len(labels) else np.empty((0, 10))
    return JudgeAgreement(
        *measured(items.query[by_all], both, fleiss_of, drawing),
        judges=table.judges,
        agreement=float(Sums.of(both.sum(axis=0)).agreement),
        items=len(labels),
        partly_judged=len(items.query) - len(labels),
        left_out=table.left_out,
        pairs=pairs,
    )


def _pair(items: Items, x: int, y: int, names: tuple[str, str], drawing: Drawing) -> PairAgreement:
    common = ~np.isnan(items.score[:, [x, y]]).any(axis=1)
    query = items.query[common]
    labels_x, labels_y = _labels(items.score[common][:, [x, y]]).T
    # With the other model named first, label 0 is 2 and 2 is 0.
    cells = np.eye(9)[labels_x * 3 + labels_y] + np.eye(9)[8 - (labels_x * 3 + labels_y)]
    return PairAgreement(
        *measured(query, cells, cohen_of, drawing),
        judges=names,
        agreement=float(np.mean(labels_x == labels_y)) if len(query) else np.nan,
        items=len(query),
    )


def _labels(score: Floats) -> Ints:
    """0, 1, 2: the second model, a tie, the first."""
    return (score * 2).astype(np.intp)
