"""Comparisons of judges on the same sentences, with the chance that they are alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from mirage._base.arrays import Bools, Floats
from mirage._base.tables import Rows, Table, frame_of, to_text
from mirage.errors import JudgmentError
from mirage.metaeval._gold import MEAN, Truth
from mirage.statistics.bootstrap import Interval, sums_by_query
from mirage.statistics.classification import interval, sentence_weights
from mirage.statistics.permutation import holm, permutation_p_values

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Comparison", "Comparisons", "Unit", "compare"]

Unit = Literal["query", "sentence"]
"""What a permutation test swaps between two judges as one."""


class Comparison(NamedTuple):
    """Two judges on the same sentences.

    Attributes:
        judges: their names; the first has the higher balanced accuracy, or the same.
        difference: of the balanced accuracies, first minus second.
        interval: bootstrap interval of the difference, lower and upper.
        p: chance of so large a difference, of either sign, if the two judges are alike.
        corrected: the same, corrected for the number of comparisons (Holm).
        differing: sentences that one of the two got right and the other wrong.
    """

    judges: tuple[str, str]
    difference: float
    interval: Interval
    p: float
    corrected: float
    differing: int

    @property
    def mark(self) -> str:
        """``***`` where the corrected p is at most 0.001, ``**`` 0.01, ``*`` 0.05; else empty."""
        return "*" * sum(self.corrected <= at for at in (0.05, 0.01, 0.001))


@dataclass(frozen=True, eq=False)
class Comparisons(Rows[Comparison]):
    """Every two judges in one language, or in the mean of all; iterates over them.

    ``comparisons["a", "b"]`` is the comparison of these two, in whichever order it stands.
    """

    language: str
    level: float
    permutations: int
    unit: Unit

    def __getitem__(self, judges: tuple[str, str]) -> Comparison:
        for row in self:
            if set(row.judges) == set(judges):
                return row
        raise JudgmentError(f"{judges[0]!r} and {judges[1]!r} were not compared")

    def to_pandas(self) -> pd.DataFrame:
        """A frame, a row a comparison."""
        columns = ("better", "other", "difference", "lower", "upper", "p", "corrected", "differing")
        rows = [(*row.judges, row.difference, *row.interval, *row[3:]) for row in self]
        return frame_of(rows, list(columns))

    def __str__(self) -> str:
        rows = tuple(
            (
                " - ".join(row.judges),
                f"{100 * row.difference:+.1f}",
                _between(row.interval),
                f"{row.p:.4f}",
                f"{row.corrected:.4f}",
                row.mark,
            )
            for row in self
        )
        where = "mean of the languages" if self.language == MEAN else self.language
        title = f"Differences of balanced accuracy in points, {where}"
        header = ("judges", "points", f"{100 * self.level:g} % interval", "p", "Holm", "")
        notes = (
            f"p: {self.permutations} permutations that swap what two judges said of a {self.unit}; "
            f"Holm: corrected for {len(self)} comparisons; * 0.05, ** 0.01, *** 0.001.",
        )
        return to_text(Table(title, header, rows, (False,) * len(rows), notes, name=0))


def _between(interval: Interval) -> str:
    """The ends in points; blank where there are none."""
    lower, upper = interval
    return "" if np.isnan(lower) else f"{100 * lower:+.1f} to {100 * upper:+.1f}"


def compare(
    settings: Comparisons,
    truth: Truth,
    judges: tuple[str, ...],
    right: Bools,
    draws: Floats,
    seed: int,
) -> Comparisons:
    """Compare every two judges; :meth:`MetaEvaluation.compare` says how.

    ``settings`` are comparisons without a row. ``right`` is whether each judge gave a sentence its
    label, ``(sentences, judges)``; ``draws`` are those of the balanced accuracies in the language,
    ``(draws, judges)``.
    """
    here = truth.rows(settings.language)
    weights = sentence_weights(truth.language[here], truth.label[here])
    cluster, values = truth.cluster[here], right[here].astype(np.float64)
    pairs = list(combinations(range(len(judges)), 2))
    first, second = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    gaps = values[:, first] - values[:, second]
    units = weights[:, None] * gaps
    if settings.unit == "query":
        units = sums_by_query(cluster, units)
    p = permutation_p_values(units, permutations=settings.permutations, seed=seed)
    rows = []
    for column, corrected in enumerate(holm(p).tolist()):
        a, b = pairs[column]
        difference = float(units[:, column].sum())
        drawn = draws[:, a] - draws[:, b]
        lower, upper = interval(drawn, difference, len(np.unique(cluster)), settings.level)
        if difference < 0:
            a, b, difference, lower, upper = b, a, -difference, -upper, -lower
        differing = int(np.count_nonzero(gaps[:, column]))
        names, ends = (judges[a], judges[b]), (lower, upper)
        rows.append(Comparison(names, difference, ends, float(p[column]), corrected, differing))
    return replace(settings, rows=tuple(rows))
