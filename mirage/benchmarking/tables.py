"""The table of an experiment: a row a cell, a column a metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage.errors import SettingError, UnknownNameError
from mirage.statistics.bootstrap import Interval
from mirage.statistics.clusters import cluster_codes, mean_intervals

__all__ = ["AXES", "Cell", "ResultTable", "Score"]

AXES = (
    "dataset",
    "corpus",
    "retriever",
    "reranker",
    "processor",
    "generator",
    "prompt",
    "show_k",
)
"""What cells differ by, in the order of a pipeline."""

NO_INTERVAL = (np.nan, np.nan)


class Score(NamedTuple):
    """One metric of one cell.

    Attributes:
        mean: over the queries that are measured; NaN where none is.
        interval: lower and upper end for the mean over all such queries; NaN with fewer than ten
            clusters of them, and of published figures.
        n: queries that are measured.
        failed: queries without a response.
        unmeasured: queries with a response of which the metric gives no number.
    """

    mean: float
    interval: Interval = NO_INTERVAL
    n: int = 0
    failed: int = 0
    unmeasured: int = 0


@dataclass(frozen=True, eq=False)
class Cell:
    """One pipeline on one dataset, measured.

    Attributes:
        settings: what it is, by axis, such as ``{"retriever": "bm25", "show_k": "5"}``.
        scores: its metrics, by name.
        failure: why it could not be run; empty where it was.
        query_ids: the queries, in the order of ``values``.
        values: the number of each query by metric, ``(queries,)``, NaN where there is none. Empty
            of published figures.
        clusters: what queries hang together with, by query id.
    """

    settings: Mapping[str, str]
    scores: Mapping[str, Score] = field(default_factory=dict)
    failure: str = ""
    query_ids: tuple[str, ...] = ()
    values: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    clusters: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def measured(
        cls,
        settings: Mapping[str, str],
        query_ids: Sequence[str],
        values: Mapping[str, NDArray[np.float64]],
        *,
        failed: Iterable[str] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
        clusters: Mapping[str, str] | None = None,
    ) -> Cell:
        """A cell from the number of each query by metric.

        Args:
            settings: what it is.
            query_ids: the queries.
            values: their numbers by metric, NaN where there is none.
            failed: queries without a response.
            bounds: the lowest and highest value of a metric, where it has them.
            clusters: what queries hang together with, by query id.
        """
        codes = cluster_codes(query_ids, clusters or {})
        lost = np.isin(np.array(query_ids, dtype=object), list(failed))
        scores = {}
        for name, column in values.items():
            low, high = (bounds or {}).get(name, (-np.inf, np.inf))
            known = ~np.isnan(column)
            ends = mean_intervals(column[:, None], codes, np.array([low]), np.array([high]))[0]
            scores[name] = Score(
                float(column[known].mean()) if known.any() else np.nan,
                (float(ends[0]), float(ends[1])),
                int(known.sum()),
                int((lost & ~known).sum()),
                int((~lost & ~known).sum()),
            )
        return cls(settings, scores, "", tuple(query_ids), dict(values), dict(clusters or {}))

    @property
    def name(self) -> str:
        """Its settings in a line."""
        return " | ".join(value for value in self.settings.values() if value)


@dataclass(frozen=True, eq=False, repr=False)
class ResultTable(Sequence[Cell]):
    """What an experiment measured: cells, each with its metrics.

    Attributes:
        name: of the experiment.
        cells: in the order of the grid; one that failed says why.
        metrics: the names of the metrics, in order.
    """

    name: str
    cells: tuple[Cell, ...]
    metrics: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def __getitem__(self, key: int) -> Cell:  # type: ignore[override]
        return self.cells[key]

    @property
    def axes(self) -> tuple[str, ...]:
        """What the cells have settings of, in the order of :data:`AXES`; others behind these."""
        known = dict.fromkeys(axis for cell in self for axis in cell.settings)
        return tuple(sorted(known, key=lambda axis: AXES.index(axis) if axis in AXES else 99))

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
        return ResultTable(self.name, kept, self.metrics)

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
