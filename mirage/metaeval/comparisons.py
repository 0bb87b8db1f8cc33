"""Comparisons of judges on the same sentences, with permutation tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from mirage._base.arrays import Bools
from mirage._base.tables import Rows, Table, frame_of, to_text
from mirage.errors import JudgmentError
from mirage.metaeval.gold import MEAN, Truth
from mirage.statistics.bootstrap import Interval, sums_by_query
from mirage.statistics.classification import Tallies, intervals, sentence_weights
from mirage.statistics.differences import CorrectedDifference
from mirage.statistics.permutation import holm, permutation_p_values

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Comparison(CorrectedDifference):
    """The difference in balanced accuracy of two judges on the same sentences.

    Attributes:
        judges: The names of the two judges. The balanced accuracy of the first is at least that of
            the second.
        differing: The number of sentences on which exactly one of the two judges is right.
    """

    judges: tuple[str, str]
    differing: int


@dataclass(frozen=True, eq=False)
class Comparisons(Rows[Comparison]):
    """The pairwise comparisons of judges in one language, or of their means over all languages.

    Iterating yields the comparisons. ``comparisons["a", "b"]`` is the comparison of two judges, in
    either order.

    Attributes:
        language: The language code, or ``mean`` for the means over all languages.
        level: The confidence level of the intervals.
        permutations: The number of permutations behind each p-value.
    """

    language: str
    level: float
    permutations: int

    def __getitem__(self, judges: tuple[str, str]) -> Comparison:
        for row in self:
            if set(row.judges) == set(judges):
                return row
        raise JudgmentError(
            f"the judges {judges[0]!r} and {judges[1]!r} were not compared; pass the names of two "
            "different judges of the evaluation"
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with one row per comparison."""
        columns = ("better", "other", "difference", "lower", "upper", "p", "corrected", "differing")
        rows = [
            (*row.judges, row.difference, *row.interval, row.p, row.corrected, row.differing)
            for row in self
        ]
        return frame_of(rows, list(columns))

    def __str__(self) -> str:
        rows = tuple(
            (
                " - ".join(row.judges),
                f"{100 * row.difference:+.1f}",
                _format_interval(row.interval),
                f"{row.p:.4f}",
                f"{row.corrected:.4f}",
                row.mark,
            )
            for row in self
        )
        scope = "mean of the languages" if self.language == MEAN else self.language
        title = f"Differences of balanced accuracy in points, {scope}"
        header = ("judges", "points", f"{100 * self.level:g} % interval", "p", "Holm", "")
        notes = (
            f"p: {self.permutations} permutations that swap two judges' labels of a query; "
            f"Holm: corrected for {len(self)} comparisons; * 0.05, ** 0.01, *** 0.001.",
        )
        return to_text(Table(title, header, rows, notes=notes, name=0))


def _format_interval(interval: Interval) -> str:
    """Return the ends of an interval in percentage points, as text; empty if there is none."""
    lower, upper = interval
    return "" if np.isnan(lower) else f"{100 * lower:+.1f} to {100 * upper:+.1f}"


def compare(
    settings: Comparisons,
    truth: Truth,
    judges: tuple[str, ...],
    right: Bools,
    tallies: Sequence[Tallies],
    seed: int,
) -> Comparisons:
    """Test each pair of judges for a difference in balanced accuracy.

    :meth:`MetaEvaluation.compare` describes the test.

    Args:
        settings: A ``Comparisons`` without rows. The result has the same language, level and number
            of permutations.
        truth: The sentences and their labels.
        judges: The names of the judges.
        right: Whether each judge labelled each sentence correctly, of shape ``(sentences,
            judges)``.
        tallies: Counts of all sentences, and of those that each judge labelled correctly; one entry
            per language that the comparison covers.
        seed: Random seed.
    """
    in_language = truth.rows(settings.language)
    weights = sentence_weights(truth.language[in_language], truth.label[in_language])
    cluster, values = truth.cluster[in_language], right[in_language].astype(np.float64)
    pairs = list(combinations(range(len(judges)), 2))
    first, second = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    gaps = values[:, first] - values[:, second]
    # The weighted sum over sentences is the difference of balanced accuracies.
    # Sentences of a query are swapped together, so only their sum matters.
    units = sums_by_query(cluster, weights[:, None] * gaps)
    p = permutation_p_values(units, permutations=settings.permutations, seed=seed)
    contrasts = np.eye(len(judges))[first] - np.eye(len(judges))[second]
    ends_of_pairs = intervals(tallies, contrasts, level=settings.level)
    rows = []
    for column, corrected in enumerate(holm(p).tolist()):
        a, b = pairs[column]
        difference = float(units[:, column].sum())
        lower, upper = ends_of_pairs[column].tolist()
        if difference < 0:
            a, b, difference, lower, upper = b, a, -difference, -upper, -lower
        differing = int(np.count_nonzero(gaps[:, column]))
        names, ends = (judges[a], judges[b]), (lower, upper)
        rows.append(
            Comparison(
                difference=difference,
                interval=ends,
                p=float(p[column]),
                corrected=corrected,
                judges=names,
                differing=differing,
            )
        )
    return replace(settings, rows=tuple(rows))
