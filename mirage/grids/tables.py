"""Tables of experiments: one row per cell and one column per metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mirage._base.files import write_text
from mirage._base.tables import WIDTH, Printed, Table, frame_of, parts, to_text
from mirage.errors import SettingError, UnknownNameError
from mirage.grids import _rendering as rendering
from mirage.grids._metrics import higher_is_better
from mirage.grids.cells import RESOURCES, Cell, axes_of, differing_axes, is_unfinished
from mirage.grids.comparisons import CellComparisons, Correction, best_cells, compare_cells
from mirage.grids.pivots import Pivot, pivot_cells

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class ResultTable(Printed, Sequence[Cell]):
    """The results of an experiment: a sequence of cells with their scores.

    A cell holds the results of one RAG pipeline on one dataset.

    Attributes:
        name: The name of the experiment.
        cells: The cells, in the order of the grid. If a cell failed, its ``failure`` is the reason.
        metrics: The names of the metrics, in the order of the columns.
        notes: Lines that are printed below the table.
        order: The metric by which the printed rows of each dataset are sorted, best first. If it is
            empty, rows are in the order of ``cells``.

    Example:
        >>> from mirage.grids import Cell, ResultTable
        >>> from mirage.grids.cells import Score
        >>> cells = tuple(
        ...     Cell({"retriever": name}, {"qa_match": Score(mean)})
        ...     for name, mean in [("bm25", 0.41), ("oracle", 0.72)]
        ... )
        >>> table = ResultTable("small", cells, ("qa_match",))
        >>> table.cell(retriever="oracle").scores["qa_match"].mean
        0.72
    """

    name: str
    cells: tuple[Cell, ...]
    metrics: tuple[str, ...]
    notes: tuple[str, ...] = ()
    order: str = ""

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def __getitem__(self, key: int) -> Cell:  # type: ignore[override]
        return self.cells[key]

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes on which cells have a setting, such as ``retriever``.

        The axes of :data:`AXES` come first, in the order of that list.
        """
        return axes_of(self)

    @property
    def differing(self) -> tuple[str, ...]:
        """The axes in which cells differ, or all of them if no axis differs.

        A missing setting, such as the corpus of a closed-book cell (without retrieval), counts as
        a difference only if two cells have no other difference.
        """
        return differing_axes(self, self.axes)

    def values_of(self, axis: str) -> tuple[str, ...]:
        """Return the distinct settings on one axis, in the order of the cells.

        The result includes an empty string if a cell has no setting on this axis.

        Raises:
            UnknownNameError: If the table has no such axis.
        """
        if axis not in self.axes:
            raise UnknownNameError("axis", axis, self.axes)
        return tuple(dict.fromkeys(cell.settings.get(axis, "") for cell in self))

    def where(self, **settings: str | int) -> ResultTable:
        """Return a table of the cells that have all of these settings.

        For example, ``where(retriever="bm25", show_k=5)`` selects the cells that have both.

        Args:
            settings: Settings by axis.

        Raises:
            UnknownNameError: If there is no such axis, or if one of the settings does not occur.
        """
        for axis, value in settings.items():
            if str(value) not in self.values_of(axis):
                raise UnknownNameError(axis, str(value), self.values_of(axis))
        cells = tuple(
            cell
            for cell in self
            if all(cell.settings.get(axis, "") == str(value) for axis, value in settings.items())
        )
        return replace(self, cells=cells)

    def cell(self, **settings: str | int) -> Cell:
        """Return the only cell that has all of these settings.

        Args:
            settings: Settings by axis, as for :meth:`where`.

        Raises:
            UnknownNameError: If there is no such axis, or if one of the settings does not occur.
            SettingError: If no cell or more than one cell has these settings.
        """
        cells = self.where(**settings).cells
        if len(cells) != 1:
            raise SettingError(
                f"{len(cells)} cells of {self.name} have the settings {settings}; "
                "give settings that exactly one cell has"
            )
        return cells[0]

    def compare(
        self,
        *metrics: str,
        baseline: Mapping[str, str | int] | None = None,
        level: float = 0.95,
        correction: Correction = "holm",
        permutations: int | None = None,
        seed: int = 0,
    ) -> CellComparisons:
        """Return the differences between cells on the same queries, with p-values and intervals.

        :func:`mirage.statistics.paired_means` computes the p-values and intervals, and treats the
        queries of one cluster as one observation. If the range of the metric is known, p and
        interval allow for rare large differences that these queries lack. Otherwise a note says
        that they do not. P-values are corrected for the number of rows. Retrieval metrics do not
        depend on processor, generator, prompt and ``show_k``, so each pair of rankings has one row.

        Args:
            metrics: Names of metrics. By default all metrics except those of resource use (seconds,
                tokens, cost and truncated), which have no value per query.
            baseline: Settings of the baseline, such as ``{"retriever": "bm25"}``. Each cell without
                these settings is compared with the baseline cell whose other settings are the same.
                The baseline cell may lack some of the other settings; for example, a closed-book
                cell (without retrieval) has no reranker and no number of passages. By default all
                pairs of cells on the same dataset are compared.
            level: Confidence level of the intervals.
            correction: ``"holm"`` limits the probability of at least one false positive. ``"bh"``
                (Benjamini and Hochberg), for exploring a large grid, limits the expected share of
                false positives among the significant rows.
            permutations: Number of random permutations; if fewer are possible, all are used. By
                default 10,000, or 40 per row if that is more. With fewer permutations, no row of a
                long table could be significant after the correction.
            seed: Random seed of the permutations.

        Raises:
            UnknownNameError: If there is no such metric or axis.
            SettingError: If no two cells can be compared, a metric is of resource use, the
                correction is unknown, or ``level`` or ``permutations`` is out of range.

        Example:
            >>> import numpy as np
            >>> from mirage.grids import Cell, ResultTable
            >>> ids = [f"q{i}" for i in range(20)]
            >>> values = {"bm25": np.arange(20) % 4 == 0, "oracle": np.arange(20) % 4 != 1}
            >>> cells = tuple(
            ...     Cell.measured({"retriever": name}, ids, {"qa_match": right * 1.0})
            ...     for name, right in values.items()
            ... )
            >>> table = ResultTable("small", cells, ("qa_match",))
            >>> (row,) = table.compare(baseline={"retriever": "bm25"})
            >>> round(row.difference, 2), row.p < 0.05
            (0.5, True)
        """
        self._check(metrics)
        if amounts := [metric for metric in metrics if metric in RESOURCES]:
            others = [metric for metric in self.metrics if metric not in RESOURCES]
            raise SettingError(
                f"{', '.join(amounts)} cannot be tested, because cells only have its mean and no "
                f"values per query; compare {', '.join(others) or 'other metrics'}"
            )
        return compare_cells(
            self.name,
            self.cells,
            metrics or [metric for metric in self.metrics if metric not in RESOURCES],
            baseline,
            level=level,
            correction=correction,
            permutations=permutations,
            seed=seed,
        )

    def pivot(
        self, rows: Sequence[str], columns: Sequence[str] = (), metrics: Sequence[str] = ()
    ) -> Pivot:
        """Return the scores in a table, such as with retrievers in rows and prompts in columns.

        Args:
            rows: Axes whose settings become rows.
            columns: Axes whose settings become columns.
            metrics: Names of metrics; each metric gets separate columns. All metrics by default.

        Raises:
            UnknownNameError: If there is no such axis or metric.
            SettingError: If two cells would have the same row and column.
        """
        for axis in (*rows, *columns):
            self.values_of(axis)
        self._check(metrics)
        names = metrics or self.metrics
        return pivot_cells(self.name, self.cells, rows, columns, names, self.notes)

    def _check(self, metrics: Sequence[str]) -> None:
        for metric in metrics:
            if metric not in self.metrics:
                raise UnknownNameError("metric", metric, self.metrics)

    # Printing, export and import ------------------------------------------------------------------

    def __repr__(self) -> str:
        unfinished = sum(map(is_unfinished, self))
        failed = sum(bool(cell.failure) for cell in self) - unfinished
        counts = [f"{failed} of them failed"] if failed else []
        counts += [f"{unfinished} not run yet"] if unfinished else []
        cells = ", ".join([f"{len(self)} cells", *counts])
        return f"ResultTable({self.name!r}, {cells}, {', '.join(self.metrics)})"

    def _tables(self, style: rendering.Style = "interval") -> tuple[Table]:
        order, best = self._rows
        return (
            rendering.readable_table(
                self.name,
                [self.cells[i] for i in order],
                self.axes,
                self.metrics,
                self.notes,
                {metric: {order.index(i) for i in cells} for metric, cells in best.items()},
                style,
            ),
        )

    def to_text(self, width: int = WIDTH) -> str:
        """Return the table as plain text with one row per cell.

        If the table is too wide, each interval is shortened to ± and the length of its longer side,
        or left out. If it is still too wide, its columns are split into several tables.

        Args:
            width: Maximum number of characters per line.
        """
        tables = [self._tables(style)[0] for style in rendering.STYLES]
        split = [parts(table, width) for table in tables]
        whole = (part for part, table in zip(split, tables, strict=True) if part == (table,))
        numbered = (part for part in split if len(part) == 1)
        fitting = next(whole, None) or next(numbered, None) or split[0]
        return "\n\n".join(to_text(table, width) for table in fitting)

    @cached_property
    def _rows(self) -> tuple[list[int], dict[str, set[int]]]:
        """The positions of the cells in printed order, and of the best cells by metric.

        All positions are indices in ``cells``. A metric has best cells only if its direction
        (higher or lower is better) is known. It has none on a dataset if it failed in a cell that
        has other metrics, for example because of the judge.
        """
        best = {}
        for metric in self.metrics:
            if (higher := higher_is_better(metric)) is not None:
                marked = best_cells(self.cells, metric, higher=higher)
                # A cell on which only this metric failed might be the best one of its dataset.
                unknown = {
                    cell.settings.get("dataset")
                    for cell in self
                    if cell.failure
                    and cell.values
                    and rendering.lacks_score(cell, metric)
                    and cell.settings.get("retriever") != "oracle"
                    and not is_unfinished(cell)
                }
                best[metric] = {
                    i for i in marked if self.cells[i].settings.get("dataset") not in unknown
                }
        order = list(range(len(self)))
        if self.order:
            self._check([self.order])
            datasets = list(dict.fromkeys(cell.settings.get("dataset", "") for cell in self))
            sign = 1 if higher_is_better(self.order) is False else -1

            def rank(i: int) -> tuple[int, bool, float]:
                score = self.cells[i].scores.get(self.order)
                mean = np.nan if score is None else score.mean
                dataset = datasets.index(self.cells[i].settings.get("dataset", ""))
                return dataset, bool(np.isnan(mean)), sign * np.nan_to_num(mean)

            order.sort(key=rank)
        return order, best

    def to_csv(self) -> str:
        """Return the table as CSV, with one line per cell and metric, and unrounded numbers.

        If a spreadsheet program would read a name as a formula, such as ``=1+1``, an apostrophe is
        put in front of it.
        """
        return rendering.to_csv(self._columns)

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with one row per cell and metric.

        The columns are the axes, then metric, mean, lower, upper, n, failed, unmeasured and
        failure (why the cell failed).

        Raises:
            MissingPackageError: If pandas is not installed.
        """
        return frame_of(self._columns)

    @property
    def _columns(self) -> dict[str, list[Any]]:
        return rendering.columns(self.cells, self.axes, self.metrics)

    def to_json(self) -> str:
        """Return the whole table as JSON, including the value of every query.

        :meth:`from_json` reads it back.
        """
        return rendering.to_json(self.name, self.cells, self.metrics, self.notes, self.order)

    @classmethod
    def from_json(cls, text: str, *, source: str = "the table") -> ResultTable:
        """Read a table that :meth:`to_json` wrote.

        Args:
            text: The JSON text.
            source: The name of the text in error messages, such as the path of its file.

        Raises:
            DatasetError: If the text is not such a table; the message says which part is invalid.
        """
        return cls(*rendering.from_json(text, source))

    def write(self, path: str | Path) -> None:
        """Write the table to a file, in the format that the suffix of the file name selects.

        ``.txt`` is plain text with at most 80 characters per line, and ``.md`` is Markdown.
        ``.csv``, ``.tex`` and ``.json`` are the results of :meth:`to_csv`, :meth:`to_latex` and
        :meth:`to_json`. ``.html`` is a page that contains only the table;
        :func:`mirage.report.write_grid` writes a page with the details of each cell.

        Args:
            path: The path of the file.

        Raises:
            SettingError: If the file name has another suffix.
            DatasetError: If the file cannot be written.
        """
        path = Path(path)
        writers: dict[str, Callable[[], str]] = {
            ".txt": self.__str__,
            ".md": self.to_markdown,
            ".csv": self.to_csv,
            ".tex": self.to_latex,
            ".json": self.to_json,
            ".html": lambda: rendering.html_page(*self._tables()),
        }
        if path.suffix.lower() not in writers:
            raise SettingError(f"{path}: the file name must end in one of {', '.join(writers)}")
        text = writers[path.suffix.lower()]()
        write_text(path, text.rstrip("\n") + "\n")
