"""Error rates of judges by fine-grained label, which show the errors that judges miss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mirage._base.arrays import Bools
from mirage._base.tables import Rows, Table, frame_of, to_text
from mirage.metaeval.gold import MEAN, Truth

if TYPE_CHECKING:
    import pandas as pd


JUDGES_SHOWN = 6  # columns of judges in one table


class FineError(NamedTuple):
    """The error rate of a judge on the sentences with one fine-grained label.

    Attributes:
        label: The correct label of these sentences.
        fine: Their fine-grained label.
        judge: The name of the judge.
        sentences: The number of sentences.
        wrong: The number of these sentences to which the judge gave another label than ``label``,
            or no label.
    """

    label: str
    fine: str
    judge: str
    sentences: int
    wrong: int

    @property
    def share(self) -> float:
        """The share of the sentences on which the judge is wrong."""
        return self.wrong / self.sentences


@dataclass(frozen=True, eq=False)
class FineErrors(Rows[FineError]):
    """Error rates of judges by fine-grained label, as in Figure 5 of MEMERAG (arXiv 2502.17163).

    Iterating yields one :class:`FineError` per fine-grained label and judge.

    Sentences of all languages have the same weight. Sentences without a fine-grained label are left
    out.

    Attributes:
        language: The language code, or ``mean`` for all languages.
        judges: The names of the judges.
    """

    language: str
    judges: tuple[str, ...]

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with one row per fine-grained label and judge."""
        rows = [(*row, row.share) for row in self]
        return frame_of(rows, [*FineError._fields, "share"])

    def __str__(self) -> str:
        parts = (
            self.judges[start : start + JUDGES_SHOWN]
            for start in range(0, len(self.judges), JUDGES_SHOWN)
        )
        return "\n\n".join(to_text(self._table(part)) for part in parts)

    def _table(self, judges: tuple[str, ...]) -> Table:
        lines: dict[tuple[str, str, int], list[str]] = {}
        for row in self:
            shares = lines.setdefault((row.label, row.fine, row.sentences), [])
            if row.judge in judges:
                shares.append(f"{100 * row.share:.0f}")
        scope = "all languages" if self.language == MEAN else self.language
        numbers = [f"({self.judges.index(judge) + 1})" for judge in judges]
        legend = ", ".join(f"{number} {name}" for number, name in zip(numbers, judges, strict=True))
        return Table(
            f"Sentences judged wrong in %, by label and fine-grained label, {scope}",
            ("label", "sentences", *numbers),
            tuple(
                (f"{label}: {fine}", str(sentences), *shares)
                for (label, fine, sentences), shares in lines.items()
            ),
            (False,) * len(lines),
            (f"Judges: {legend}",),
            name=0,
        )


def fine_errors(truth: Truth, judges: tuple[str, ...], right: Bools, language: str) -> FineErrors:
    """Count each judge's errors by label and fine-grained label.

    The result is sorted by label and, within a label, starts with the most frequent fine-grained
    label.

    Args:
        truth: The sentences and their labels.
        judges: The names of the judges.
        right: Whether each judge labelled each sentence correctly, of shape
            ``(sentences, judges)``.
        language: The language of the sentences to count, or ``mean`` for all languages.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for row in np.flatnonzero(truth.rows(language)).tolist():
        for fine in truth.labelled.fine[row]:
            groups.setdefault((truth.names[truth.label[row]], fine), []).append(row)
    rows = [
        FineError(label, fine, judge, len(members), int(np.count_nonzero(~right[members, column])))
        for (label, fine), members in sorted(
            groups.items(), key=lambda group: (group[0][0], -len(group[1]), group[0][1])
        )
        for column, judge in enumerate(judges)
    ]
    return FineErrors(tuple(rows), language, judges)
