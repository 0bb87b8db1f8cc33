"""The table of an experiment: a row a cell, a column a metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage._base.files import write_text
from mirage._base.tables import Printed, Table, frame_of
from mirage.benchmarking import _rendering as rendering
from mirage.benchmarking.cells import AXES, Cell, Score, axes_of, differing_axes
from mirage.benchmarking.comparisons import CellComparisons, compared
from mirage.benchmarking.pivots import Pivot, pivoted
from mirage.errors import SettingError, UnknownNameError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AXES", "Cell", "ResultTable", "Score"]


@dataclass(frozen=True, eq=False, repr=False)
class ResultTable(Printed, Sequence[Cell]):
    """What an experiment measured: cells, each with its metrics.

    Attributes:
        name: of the experiment.
        cells: in the order of the grid; one that failed says why.
        metrics: the names of the metrics, in order.
        notes: what a reader should know of it.
    """

    name: str
    cells: tuple[Cell, ...]
    metrics: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def __getitem__(self, key: int) -> Cell:  # type: ignore[override]
        return self.cells[key]

    @property
    def axes(self) -> tuple[str, ...]:
        """What the cells have settings of, in the order of :data:`AXES`; others behind these."""
        return axes_of(self)

    @property
    def differing(self) -> tuple[str, ...]:
        """The axes in which cells differ; all of them, where there is one cell.

        What a cell lacks, as closed book lacks a corpus, is a difference only where nothing else
        is.
        """
        return differing_axes(self, self.axes)

    def values_of(self, axis: str) -> tuple[str, ...]:
        """The settings of one axis, in the order of the cells.

        Raises:
            UnknownNameError: there is no such axis.
        """
        if axis not in self.axes:
            raise UnknownNameError("axis", axis, self.axes)
        return tuple(dict.fromkeys(cell.settings.get(axis, "") for cell in self))

    def where(self, **settings: str | int) -> ResultTable:
        """The cells with these settings, such as ``where(retriever="bm25", show_k=5)``.

        Raises:
            UnknownNameError: there is no such axis, or no cell has such a setting of it.
        """
        for axis, value in settings.items():
            if str(value) not in self.values_of(axis):
                raise UnknownNameError(axis, str(value), self.values_of(axis))
        kept = tuple(
            cell
            for cell in self
            if all(cell.settings.get(axis, "") == str(value) for axis, value in settings.items())
        )
        return replace(self, cells=kept)

    def cell(self, **settings: str | int) -> Cell:
        """The one cell with these settings.

        Raises:
            UnknownNameError: as :meth:`where`.
            SettingError: there is none, or more than one.
        """
        cells = self.where(**settings).cells
        if len(cells) != 1:
            raise SettingError(f"{len(cells)} cells of {self.name} have the settings {settings}")
        return cells[0]

    def compare(
        self,
        *metrics: str,
        baseline: Mapping[str, str | int] | None = None,
        level: float = 0.95,
        permutations: int | None = None,
        seed: int = 0,
    ) -> CellComparisons:
        """How much higher cells are than others on the same queries, and whether by chance.

        P-values and intervals are those of :func:`mirage.statistics.paired_means`; queries that
        hang together count as one. P-values are corrected for the number of rows by Holm's method.

        Args:
            metrics: names of metrics; by default all.
            baseline: settings to compare with, such as ``{"retriever": "bm25"}``: each cell is
                compared with the one that has these and is alike in all others, or has none of
                these, as a closed-book cell has no number of passages. By default any two cells on
                one dataset are compared.
            level: of the intervals.
            permutations: how many to draw, where there are more; by default 10,000, or 40 for
                each row where rows are many, for with fewer none could be called different.
            seed: of the draws.

        Raises:
            UnknownNameError: there is no such metric or axis.
            SettingError: no two cells can be compared.
        """
        self._check(metrics)
        return compared(
            self.name,
            self.cells,
            metrics or self.metrics,
            baseline,
            level=level,
            permutations=permutations,
            seed=seed,
        )

    def pivot(
        self, rows: Sequence[str], columns: Sequence[str] = (), metrics: Sequence[str] = ()
    ) -> Pivot:
        """The table as papers print it, such as retrievers by generators.

        Args:
            rows: axes whose settings are rows.
            columns: axes whose settings are columns.
            metrics: names of metrics, a column each; by default all.

        Raises:
            UnknownNameError: there is no such axis or metric.
            SettingError: two cells would stand in one place.
        """
        for axis in (*rows, *columns):
            self.values_of(axis)
        self._check(metrics)
        shown = metrics or self.metrics
        return pivoted(self.name, self.cells, rows, columns, shown, self.notes)

    def _check(self, metrics: Sequence[str]) -> None:
        for metric in metrics:
            if metric not in self.metrics:
                raise UnknownNameError("metric", metric, self.metrics)

    # To read, to print, to keep -------------------------------------------------------------------

    def __repr__(self) -> str:
        failed = sum(bool(cell.failure) for cell in self)
        lost = f", {failed} of them failed" if failed else ""
        return f"ResultTable({self.name!r}, {len(self)} cells{lost}, {', '.join(self.metrics)})"

    def _tables(self) -> tuple[Table]:
        return (rendering.shown(self.name, self.cells, self.axes, self.metrics, self.notes),)

    def to_csv(self) -> str:
        """Return the table as CSV: one line per cell and metric, numbers in full.

        A name that a spreadsheet program would take for a formula, such as ``=1+1``, has an
        apostrophe in front.
        """
        return rendering.to_csv(self._columns)

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row for each cell and metric.

        Its columns are the axes, then metric, mean, lower, upper, n, failed, unmeasured, and why
        the cell failed.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        return frame_of(self._columns)

    @property
    def _columns(self) -> dict[str, list[Any]]:
        return rendering.columns(self.cells, self.axes, self.metrics)

    def to_json(self) -> str:
        """The whole table, values per query included; :meth:`from_json` reads it."""
        return rendering.to_json(self.name, self.cells, self.metrics, self.notes)

    @classmethod
    def from_json(cls, text: str, *, source: str = "the table") -> ResultTable:
        """A table from what :meth:`to_json` wrote.

        Args:
            text: the JSON.
            source: what errors call it, such as its path.

        Raises:
            DatasetError: it is no such table; says where.
        """
        name, cells, metrics, notes = rendering.from_json(text, source)
        return cls(name, cells, metrics, notes)

    def write(self, path: str | Path) -> None:
        """Write the table in the form that the file's name ends in.

        ``.txt`` is plain text of 80 columns, ``.md`` Markdown, ``.csv`` and ``.tex`` as
        :meth:`to_csv` and :meth:`to_latex`, ``.json`` what :meth:`from_json` reads, ``.html`` a
        page with the table alone; :func:`mirage.report.write_grid` writes one with what is behind
        each cell.

        Raises:
            SettingError: the name ends in none of these.
            DatasetError: the file cannot be written.
        """
        path = Path(path)
        forms: dict[str, Callable[[], str]] = {
            ".txt": self.__str__,
            ".md": self.to_markdown,
            ".csv": self.to_csv,
            ".tex": self.to_latex,
            ".json": self.to_json,
            ".html": lambda: rendering.page(*self._tables()),
        }
        if path.suffix.lower() not in forms:
            raise SettingError(f"{path}: a table is written to a file in {', '.join(forms)}")
        text = forms[path.suffix.lower()]()
        write_text(path, text.rstrip("\n") + "\n")
