"""Cells of an experiment: each holds the results of one pipeline on one dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage.statistics.bootstrap import NO_INTERVAL, Interval
from mirage.statistics.clusters import cluster_codes, mean_intervals

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
"""The axes (settings in which cells may differ), in the order of the steps of a pipeline."""


RESOURCES = {
    "seconds": "time until the answer to a query, with retries",
    "tokens": "tokens of prompt and answer per query",
    "cost": "cost of generation per query",
    "truncated": "share of prompts that lack a passage because the context is full",
}
"""The metrics of a generator's resource use, with an explanation.

Cells have only their means over queries, and no value for each query.
"""

COMPRESSION = "compression"
"""The name of the metric that :func:`mirage.retrieval.compression` computes.

Only cells with a context processor have it.
"""

EXPLANATIONS = {
    **RESOURCES,
    COMPRESSION: "share of the passages' characters that the processor removed",
}
"""Explanations of metrics, by name, that are printed below tables."""


NOT_RUN = "not run yet"
"""The end of the failure of a cell with a step whose result is not in the store."""


class Score(NamedTuple):
    """The score of one cell on one metric.

    Attributes:
        mean: The mean over the queries that have a value; NaN if no query has one.
        interval: The lower and upper end of the 95 % confidence interval of the mean. NaN if there
            are fewer than ten clusters of queries, if a metric without known bounds has the same
            value on all queries, or if the score was copied from a publication.
        n: The number of queries that have a value.
        failed: The number of queries without a response.
        unmeasured: The number of queries with a response but without a value of the metric.
    """

    mean: float
    interval: Interval = NO_INTERVAL
    n: int = 0
    failed: int = 0
    unmeasured: int = 0

    @property
    def counts(self) -> str:
        """The number of queries with a value and, in brackets, without one: ``9 (1 failed)``.

        Queries without a response are counted as failed, and queries whose response has no value
        as unmeasured.
        """
        kinds = {"failed": self.failed, "unmeasured": self.unmeasured}
        missing = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
        return f"{self.n} ({missing})" if missing else str(self.n)


@dataclass(frozen=True, eq=False)
class Cell:
    """The results of one pipeline on one dataset.

    Attributes:
        settings: The settings by axis (kind of setting), such as ``{"retriever": "bm25", "show_k":
            "5"}``.
        scores: The scores by metric.
        failure: The reason why the cell, or some of its metrics, could not be computed; empty if
            there was no error.
        query_ids: The ids of the queries, in the order of ``values``.
        values: By metric, an array with the value of each query, of shape ``(queries,)``. NaN if a
            query has no value. The mapping is empty if the scores were copied from a publication.
        clusters: The cluster of each query, by query id. Queries of one cluster, such as queries
            about one document, are not independent of each other. A query without an entry is a
            cluster by itself.
        bounds: The lowest and highest possible value of each metric with a finite range.

    Example:
        >>> values = {"qa_match": np.array([1.0, 0.0, 1.0, np.nan])}
        >>> cell = Cell.measured({"retriever": "bm25"}, ["a", "b", "c", "d"], values, failed=["d"])
        >>> cell.name, round(cell.scores["qa_match"].mean, 2)
        ('bm25', 0.67)
        >>> cell.scores["qa_match"].counts
        '3 (1 failed)'
    """

    settings: Mapping[str, str]
    scores: Mapping[str, Score] = field(default_factory=dict)
    failure: str = ""
    query_ids: tuple[str, ...] = ()
    values: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    clusters: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)

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
        """Return a cell whose scores are computed from the value of each query.

        Args:
            settings: The settings by axis.
            query_ids: The ids of the queries.
            values: By metric, an array with the value of each query; NaN if a query has none.
            failed: The ids of queries without a response.
            bounds: The lowest and highest possible value of each metric. A metric that is not
                listed has no bounds. Comparisons then assume the range of 0 to 1 if all values are
                in it. Otherwise they assume that these queries contain all rare large differences
                between cells, such as complete failures of one of them.
            clusters: The cluster of each query, by query id. By default every query is a cluster by
                itself.
        """
        codes = cluster_codes(query_ids, clusters or {})
        is_failed = np.isin(np.array(query_ids, dtype=object), list(failed))
        scores = {}
        for name, column in values.items():
            low, high = (bounds or {}).get(name, (-np.inf, np.inf))
            has_value = ~np.isnan(column)
            ends = mean_intervals(column[:, None], codes, np.array([low]), np.array([high]))[0]
            if not np.isfinite(high - low) and len(np.unique(column[has_value])) < 2:
                ends = NO_INTERVAL  # equal values without bounds show no spread
            scores[name] = Score(
                float(column[has_value].mean()) if has_value.any() else np.nan,
                (float(ends[0]), float(ends[1])),
                int(has_value.sum()),
                int((is_failed & ~has_value).sum()),
                int((~is_failed & ~has_value).sum()),
            )
        finite = {name: ends for name, ends in (bounds or {}).items() if np.isfinite(ends).all()}
        return cls(
            settings, scores, "", tuple(query_ids), dict(values), dict(clusters or {}), finite
        )

    @property
    def name(self) -> str:
        """The settings of the cell in one line, such as ``bm25 | gpt-4o | 5``."""
        return " | ".join(value for value in self.settings.values() if value)


def common_bounds(cells: Sequence[Cell], metric: str) -> Interval:
    """Return the lowest and highest possible value of a metric in all of these cells.

    If a cell has no bounds for the metric, they are assumed to be 0 and 1, as in
    :func:`mirage.testing.compare_scores`. If a value is beyond this range, or a cell has no values
    per query, the bounds are infinite.
    """
    if cells and all(metric in cell.bounds for cell in cells):
        low, high = zip(*(cell.bounds[metric] for cell in cells), strict=True)
        return float(min(low)), float(max(high))
    columns = [cell.values[metric] for cell in cells if metric in cell.values]
    if len(columns) < len(cells) or any(((c < 0) | (c > 1)).any() for c in columns):
        return -np.inf, np.inf
    return 0.0, 1.0


def is_unfinished(cell: Cell) -> bool:
    """Return whether a cell lacks scores only because some of its steps have not run yet."""
    return cell.failure.endswith(NOT_RUN) and "; " not in cell.failure


def axes_of(cells: Iterable[Cell]) -> tuple[str, ...]:
    """Return the axes on which cells have settings: first those in :data:`AXES`, in its order."""
    axes = dict.fromkeys(axis for cell in cells for axis in cell.settings)
    return tuple(sorted(axes, key=lambda axis: AXES.index(axis) if axis in AXES else len(AXES)))


def differing_axes(cells: Sequence[Cell], axes: Sequence[str]) -> tuple[str, ...]:
    """Return the axes in which cells differ, or all of them if no axis differs.

    An axis is the name of a setting, such as ``retriever``. A missing setting, such as the corpus
    of a closed-book cell (without retrieval), counts as a difference only if two cells have no
    other difference.

    Args:
        cells: The cells.
        axes: The axes to compare.
    """
    values = {axis: [cell.settings.get(axis, "") for cell in cells] for axis in axes}
    differing = tuple(axis for axis in axes if len({value for value in values[axis] if value}) > 1)
    if len({tuple(values[axis][i] for axis in differing) for i in range(len(cells))}) < len(cells):
        differing = tuple(axis for axis in axes if len(set(values[axis])) > 1)
    return differing or tuple(axes)
