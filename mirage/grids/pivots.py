"""Two-dimensional result tables: some axes become rows, and other axes become columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirage._base.tables import Printed, Table, frame_of
from mirage.errors import SettingError, UnknownNameError
from mirage.grids import _rendering as rendering
from mirage.grids.cells import Cell, Score, differing_axes

if TYPE_CHECKING:
    import pandas as pd

Key = tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Pivot(Printed):
    """A table of scores by row and column; ``pivot[row, column]`` returns one score.

    Attributes:
        title: The title of the table.
        axes: The axes whose settings are the rows, such as ``("retriever", "reranker")``.
        rows: For each row, its settings in the order of ``axes``.
        columns: For each column, its settings followed by the name of the metric.
        scores: The score of each row and column; ``None`` if the cell failed. If the grid has no
            cell for a combination, there is no entry.
        notes: Lines that are printed below the table.
    """

    title: str
    axes: tuple[str, ...]
    rows: tuple[Key, ...]
    columns: tuple[Key, ...]
    scores: Mapping[tuple[Key, Key], Score | None]
    notes: tuple[str, ...] = ()

    def __getitem__(self, key: tuple[Key, Key]) -> Score:
        score = self.scores.get(key)
        if score is None:
            raise UnknownNameError("pair of row and column", key, map(str, self.scores))
        return score

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Pivot({self.title!r}, {len(self.rows)} rows, {len(self.columns)} columns)"

    def to_pandas(self) -> pd.DataFrame:
        """Return the means as a DataFrame with the rows and columns of the printed table.

        A mean is NaN if the cell failed or does not exist.
        """
        columns: dict[str, list[object]] = {
            axis: [row[i] for row in self.rows] for i, axis in enumerate(self.axes)
        }
        for column, name in zip(self.columns, self._header(), strict=True):
            scores = [self.scores.get((row, column)) for row in self.rows]
            columns[name] = [float("nan") if score is None else score.mean for score in scores]
        return frame_of(columns)

    def _header(self) -> list[str]:
        """Return the heading of each column, without the settings that all columns share."""
        positions = range(len(self.columns[0]) if self.columns else 0)
        differing = [i for i in positions if len({column[i] for column in self.columns}) > 1] or [
            *positions
        ]
        return [" ".join(column[i] for i in differing if column[i]) for column in self.columns]

    def _cell(self, row: Key, column: Key) -> str:
        if (row, column) not in self.scores:
            return ""
        score = self.scores[row, column]
        return rendering.FAILED if score is None else rendering.format_score(score)

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


def pivot_cells(
    title: str,
    cells: Sequence[Cell],
    rows: Sequence[str],
    columns: Sequence[str],
    metrics: Sequence[str],
    notes: Sequence[str],
) -> Pivot:
    """Arrange the scores of cells in rows and columns; see :meth:`ResultTable.pivot`.

    Args:
        title: The title of the table.
        cells: The cells.
        rows: The axes whose settings become rows.
        columns: The axes whose settings become columns.
        metrics: The names of the metrics; each metric gets separate columns.
        notes: Lines to print below the table.

    Raises:
        SettingError: If two cells would have the same row and column.
    """
    scores: dict[tuple[Key, Key], Score | None] = {}
    cell_at: dict[tuple[Key, Key], Cell] = {}
    row_keys: dict[Key, None] = {}
    column_keys: dict[Key, None] = {}
    for cell in cells:
        row = tuple(cell.settings.get(axis, "") for axis in rows)
        for metric in metrics:
            if metric not in cell.scores and not cell.failure:
                continue
            key = row, (*(cell.settings.get(axis, "") for axis in columns), metric)
            if key in cell_at:
                differing = differing_axes([cell_at[key], cell], [*cell.settings])
                raise SettingError(
                    f"two cells of the grid belong to row {' | '.join(row)}, column "
                    f"{' | '.join(key[1])}: they differ by {', '.join(differing)}; add these axes "
                    "to rows= or columns=, or select cells with where()"
                )
            cell_at[key] = cell
            scores[key] = cell.scores.get(metric)
            row_keys[row] = column_keys[key[1]] = None
    return Pivot(title, tuple(rows), tuple(row_keys), tuple(column_keys), scores, tuple(notes))
