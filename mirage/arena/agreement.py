"""How far judges agree: Cohen's and Fleiss' kappa, on plain arrays and on votes.

Kappa is the agreement beyond chance, as a share of what there could be: ``(po - pe) / (1 - pe)``,
with ``po`` the observed agreement and ``pe`` the one expected of judges who keep how often they
give each verdict and otherwise guess. 1 is full agreement, 0 what chance gives, below 0 less. It
is undefined, and NaN, where everybody gives one and the same verdict throughout.

Sources: Cohen (1960), A Coefficient of Agreement for Nominal Scales, Educational and Psychological
Measurement 20, 37-46. Fleiss (1971), Measuring Nominal Scale Agreement Among Many Raters,
Psychological Bulletin 76, 378-382.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from mirage._base.arrays import Floats, Ints
from mirage.arena import _votes
from mirage.arena._votes import Items
from mirage.errors import JudgmentError
from mirage.models import Vote
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, bootstrap, ratio

__all__ = ["JudgeAgreement", "PairAgreement", "cohen_kappa", "fleiss_kappa", "judge_agreement"]

_ALL_TIES = "undefined, for every verdict is a tie"


def cohen_kappa(a: ArrayLike, b: ArrayLike) -> float:
    """Cohen's (1960) kappa of two judges' labels, unweighted.

    Args:
        a: one judge's label of each item, of any type.
        b: the other's, in the same order.

    Returns:
        Kappa, NaN where both give one and the same label throughout.

    Raises:
        JudgmentError: the labels are not two columns of the same length, or there are none.
    """
    labels_a, labels_b = np.asarray(a), np.asarray(b)
    if labels_a.ndim != 1 or labels_a.shape != labels_b.shape or not labels_a.size:
        raise JudgmentError(
            "kappa takes two columns with the labels of the same items, not shapes "
            f"{labels_a.shape} and {labels_b.shape}"
        )
    labels, codes = np.unique(np.concatenate([labels_a, labels_b]), return_inverse=True)
    cells = codes[: len(labels_a)] * len(labels) + codes[len(labels_a) :]
    return float(_cohen(np.bincount(cells, minlength=len(labels) ** 2).astype(np.float64)))


def fleiss_kappa(counts: ArrayLike) -> float:
    """Fleiss' (1971) kappa of any number of judges, the same number on each item.

    Args:
        counts: how many judges gave an item a label, ``(items, labels)``; each row sums to the
            number of judges, who need not be the same persons from row to row.

    Returns:
        Kappa, NaN where all judges give one and the same label throughout.

    Raises:
        JudgmentError: the counts are not such a table: a row sums to another number than the
            first, or to less than 2.
    """
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2 or not table.size or (table < 0).any():
        raise JudgmentError(f"counts are a table of items by labels, not of shape {table.shape}")
    judges = table.sum(axis=1)
    odd = np.flatnonzero((judges != judges[0]) | (judges < 2))
    if len(odd):
        raise JudgmentError(
            f"item {odd[0]} has {judges[odd[0]]:g} labels; Fleiss' kappa takes the same number, 2 "
            "or more, on every item"
        )
    return float(_fleiss(_fleiss_values(table).sum(axis=0), judges[0]))


@dataclass(frozen=True)
class PairAgreement:
    """How far two judges agree.

    Attributes:
        judges: their names.
        value: Cohen's kappa; NaN where every verdict is a tie, or there is no common item.
        interval: lower and upper end for it; NaN with fewer than two queries, and where kappa is
            undefined on some draws of queries.
        level: of the interval.
        agreement: share of items on which both gave the same verdict.
        items: pairs of responses to one query that both judged.
        queries: to which these are responses.
    """

    judges: tuple[str, str]
    value: float
    interval: Interval
    level: float
    agreement: float
    items: int
    queries: int

    def __str__(self) -> str:
        line = f"Cohen's kappa of {self.judges[0]} and {self.judges[1]}: "
        if not self.items:
            return line + "undefined, for they judged nothing in common"
        return line + _described(self)


@dataclass(frozen=True)
class JudgeAgreement:
    """How far all judges agree, and each two of them.

    Attributes:
        judges: their names, sorted.
        value: Fleiss' kappa; NaN where every verdict is a tie, or no item has a verdict of all.
        interval: lower and upper end for it; NaN with fewer than two queries, and where kappa is
            undefined on some draws of queries.
        level: of the interval.
        agreement: share of the pairs of judges that gave the same verdict, mean over items.
        items: pairs of responses to one query that all judged; what is said of all judges rests
            on these alone.
        queries: to which these are responses.
        partly_judged: items that some judged, but not all.
        left_out: votes that are invalid or failed.
        pairs: each two judges, on the items that both judged.
    """

    judges: tuple[str, ...]
    value: float
    interval: Interval
    level: float
    agreement: float
    items: int
    queries: int
    partly_judged: int
    left_out: int
    pairs: tuple[PairAgreement, ...]

    def __str__(self) -> str:
        line = f"Fleiss' kappa of {len(self.judges)} judges: "
        if not self.items:
            line += "undefined, for nothing was judged by all"
        else:
            line += _described(self)
        if self.partly_judged:
            line += f"; {self.partly_judged} judged by some only"
        return line + _votes.leftover(self.left_out)


def _described(result: PairAgreement | JudgeAgreement) -> str:
    kappa = _ALL_TIES
    if not np.isnan(result.value):
        kappa = _votes.shown(result.value, result.interval, result.level)
    return (
        f"{kappa}; the same verdict on {result.agreement:.1%} of {result.items} pairs of responses "
        f"to {result.queries} queries"
    )


def judge_agreement(
    votes: Iterable[Vote], draws: int = 1000, level: float = 0.95, seed: int = 0
) -> JudgeAgreement:
    """How far judges agree on which of two responses to a query is better.

    An item is a query with two models; a judge's verdict on it is one of them, or a tie. A judge
    asked in both orders whose votes differ says: a tie. Each item enters twice, once with either
    model named first, so that kappa does not depend on names: the chance that a judge prefers the
    one is taken to be that it prefers the other.

    Args:
        votes: of two judges or more; invalid and failed ones are left out, and counted.
        draws: bootstrap samples, of queries, behind each interval.
        level: share of the draws that an interval holds.
        seed: of the draws.

    Raises:
        JudgmentError: there is one judge only, no two judges have an item in common, no vote has
            a verdict, or a judge voted twice on the same models in the same order.
    """
    table = _votes.tabulate(votes)
    items = _votes.items(table)
    names = range(len(table.judges))
    pairs = tuple(
        _pair(items, x, y, (table.judges[x], table.judges[y]), draws, level, seed)
        for x, y in combinations(names, 2)
    )
    if not any(pair.items for pair in pairs):
        raise JudgmentError(
            f"agreement takes two judges or more on the same queries and models; the votes of "
            f"{', '.join(map(repr, table.judges))} have none in common"
        )
    by_all = ~np.isnan(items.score).any(axis=1)
    labels = _labels(items.score[by_all])
    counts = np.stack([np.count_nonzero(labels == label, axis=1) for label in range(3)], axis=1)
    sums = _fleiss_values(counts.astype(np.float64)) + _fleiss_values(counts[:, ::-1].astype(float))
    value, interval, agreement = np.nan, NO_INTERVAL, np.nan
    if len(labels):
        agreement = float(_pairs_agreeing(sums.sum(axis=0), len(table.judges)))
        value, interval = bootstrap(
            items.query[by_all], sums, lambda s: _fleiss(s, len(table.judges)), draws, level, seed
        )
    return JudgeAgreement(
        judges=table.judges,
        value=value,
        interval=interval,
        level=level,
        agreement=agreement,
        items=len(labels),
        queries=_votes.counted(items.query[by_all]),
        partly_judged=len(items.query) - len(labels),
        left_out=table.left_out,
        pairs=pairs,
    )


def _pair(
    items: Items, x: int, y: int, names: tuple[str, str], draws: int, level: float, seed: int
) -> PairAgreement:
    common = ~np.isnan(items.score[:, [x, y]]).any(axis=1)
    query = items.query[common]
    labels_x, labels_y = _labels(items.score[common][:, [x, y]]).T
    value, interval, agreement = np.nan, NO_INTERVAL, np.nan
    if len(query):
        agreement = float(np.mean(labels_x == labels_y))
        # With the other model named first, label 0 is 2 and 2 is 0.
        cells = np.eye(9)[labels_x * 3 + labels_y] + np.eye(9)[8 - (labels_x * 3 + labels_y)]
        value, interval = bootstrap(query, cells, _cohen, draws, level, seed)
    return PairAgreement(
        names, value, interval, level, agreement, len(query), _votes.counted(query)
    )


def _labels(score: Floats) -> Ints:
    """0, 1, 2: the second model, a tie, the first."""
    return (score * 2).astype(np.intp)


def _cohen(cells: Floats) -> Floats:
    """Kappa of tables of label by label, ``(..., labels * labels)``; sums of counts are exact."""
    size = round(cells.shape[-1] ** 0.5)
    table = cells.reshape(*cells.shape[:-1], size, size)
    total = table.sum(axis=(-1, -2))
    same = np.trace(table, axis1=-2, axis2=-1)
    expected = (table.sum(axis=-1) * table.sum(axis=-2)).sum(axis=-1)
    return ratio(total * same - expected, total**2 - expected)


def _fleiss_values(counts: Floats) -> Floats:
    """What Fleiss' kappa sums over items: the squares of an item's counts, and its counts."""
    return np.concatenate([np.square(counts).sum(axis=1, keepdims=True), counts], axis=1)


def _fleiss(sums: Floats, judges: float) -> Floats:
    """Kappa from sums of :func:`_fleiss_values`, ``(..., 1 + labels)`` (Fleiss 1971)."""
    expected = ratio(np.square(sums[..., 1:]).sum(axis=-1), np.square(sums[..., 1:].sum(axis=-1)))
    return ratio(_pairs_agreeing(sums, judges) - expected, 1 - expected)


def _pairs_agreeing(sums: Floats, judges: float) -> Floats:
    """Share of pairs of judges that gave an item the same label, mean over items."""
    given = sums[..., 1:].sum(axis=-1)
    return ratio(sums[..., 0] - given, given * (judges - 1))
