"""A result table as papers print it: some settings are rows, others columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirage._base.tables import Printed, Table, frame_of
from mirage.benchmarking import _rendering as rendering
from mirage.benchmarking.cells import Cell, Score, differing_axes
from mirage.errors import SettingError, UnknownNameError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Pivot", "pivoted"]

Key = tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Pivot(Printed):
    """Scores by row and column; ``pivot[row, column]`` is one of them.

    Attributes:
        title: what it is of.
        axes: the axes of the rows.
        rows: the settings of each row, in the order of ``axes``.
        columns: the settings of each column, and the metric last.
        scores: by row and column, where there is one; ``None`` where the cell failed.
        notes: what a reader should know of it.
    """

    title: str
    axes: tuple[str, ...]
    rows: tuple[Key, ...]
    columns: tuple[Key, ...]
    scores: Mapping[tuple[Key, Key], Score | None]
    notes: tuple[str, ...] = ()

    def __getitem__(self, place: tuple[Key, Key]) -> Score:
        score = self.scores.get(place)
        if score is None:
            raise UnknownNameError("row and column", place, map(str, self.scores))
        return score

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Pivot({self.title!r}, {len(self.rows)} rows, {len(self.columns)} columns)"

    def to_pandas(self) -> pd.DataFrame:
        """A frame of the means, a row a row; columns are named as they are printed.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        columns: dict[str, list[object]] = {
            axis: [row[i] for row in self.rows] for i, axis in enumerate(self.axes)
        }
        for column, name in zip(self.columns, self._header(), strict=True):
            scores = [self.scores.get((row, column)) for row in self.rows]
            columns[name] = [float("nan") if score is None else score.mean for score in scores]
        return frame_of(columns)

    def _header(self) -> list[str]:
        """The name of each column: what all have in common is left out."""
        depth = range(len(self.columns[0]) if self.columns else 0)
        telling = [i for i in depth if len({column[i] for column in self.columns}) > 1] or [*depth]
        return [" ".join(column[i] for i in telling if column[i]) for column in self.columns]

    def _cell(self, row: Key, column: Key) -> str:
        if (row, column) not in self.scores:
            return ""
        score = self.scores[row, column]
        return rendering.FAILED if score is None else rendering.number(score)

    def _tables(self) -> tuple[Table]:
        metrics = list(dict.fromkeys(column[-1] for column in self.columns))
        notes = [] if len(metrics) > 1 else [", ".join(metrics)]
        if any(score and score.interval[0] == score.interval[0] for score in self.scores.values()):
            notes.append("in brackets: 95 % intervals")
        table = Table(
            self.title,
            (*self.axes, *self._header()),
            tuple(
                (*(setting or "-" for setting in row), *(self._cell(row, c) for c in self.columns))
                for row in self.rows
            ),
            notes=(*notes, *self.notes),
            name=len(self.axes) - 1,
            texts=tuple(range(len(self.axes) - 1)),
        )
        return (table,)


def pivoted(
    title: str,
    cells: Sequence[Cell],
    rows: Sequence[str],
    columns: Sequence[str],
    metrics: Sequence[str],
    notes: Sequence[str],
) -> Pivot:
    """Cells by rows and columns; :meth:`ResultTable.pivot` says how."""
    scores: dict[tuple[Key, Key], Score | None] = {}
    owner: dict[tuple[Key, Key], Cell] = {}
    row_keys: dict[Key, None] = {}
    column_keys: dict[Key, None] = {}
    for cell in cells:
        row = tuple(cell.settings.get(axis, "") for axis in rows)
        for metric in metrics:
            if metric not in cell.scores and not cell.failure:
                continue
            place = row, (*(cell.settings.get(axis, "") for axis in columns), metric)
            if place in owner:
                differing = differing_axes([owner[place], cell], [*cell.settings])
                raise SettingError(
                    f"two cells stand in row {' | '.join(row)}, column {' | '.join(place[1])}: "
                    f"they differ by {', '.join(differing)}; make that rows or columns, or choose "
                    "cells with where()"
                )
            owner[place] = cell
            scores[place] = cell.scores.get(metric)
            row_keys[row] = column_keys[place[1]] = None
    return Pivot(title, tuple(rows), tuple(row_keys), tuple(column_keys), scores, tuple(notes))
