"""The cells of an experiment: one pipeline on one dataset each, measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage.statistics.bootstrap import NO_INTERVAL, Interval
from mirage.statistics.clusters import cluster_codes, mean_intervals

__all__ = ["AXES", "Cell", "Score", "axes_of", "differing_axes"]

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


class Score(NamedTuple):
    """One metric of one cell.

    Attributes:
        mean: over the queries that are measured; NaN where none is.
        interval: lower and upper end for the mean over all such queries; NaN with fewer than ten
            clusters of them, of a metric without bounds that is the same everywhere, and of
            published figures.
        n: queries that are measured.
        failed: queries without a response.
        unmeasured: queries with a response of which the metric gives no number.
    """

    mean: float
    interval: Interval = NO_INTERVAL
    n: int = 0
    failed: int = 0
    unmeasured: int = 0

    @property
    def counts(self) -> str:
        """How many queries the mean is of, and of how many others there is none, and why."""
        kinds = {"failed": self.failed, "unmeasured": self.unmeasured}
        lost = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
        return f"{self.n} ({lost})" if lost else str(self.n)


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
            if not np.isfinite(high - low) and len(np.unique(column[known])) < 2:
                ends = NO_INTERVAL  # numbers that are all alike do not say what others may be
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


def axes_of(cells: Iterable[Cell]) -> tuple[str, ...]:
    """What cells have settings of, in the order of :data:`AXES`; others behind these."""
    known = dict.fromkeys(axis for cell in cells for axis in cell.settings)
    return tuple(sorted(known, key=lambda axis: AXES.index(axis) if axis in AXES else len(AXES)))


def differing_axes(cells: Sequence[Cell], axes: Sequence[str]) -> tuple[str, ...]:
    """The axes in which cells differ; all of them, where there is one cell.

    What a cell lacks, as closed book lacks a corpus, is a difference only where nothing else is.
    """
    values = {axis: [cell.settings.get(axis, "") for cell in cells] for axis in axes}
    telling = tuple(axis for axis in axes if len({value for value in values[axis] if value}) > 1)
    if len({tuple(values[axis][i] for axis in telling) for i in range(len(cells))}) < len(cells):
        telling = tuple(axis for axis in axes if len(set(values[axis])) > 1)
    return telling or tuple(axes)
