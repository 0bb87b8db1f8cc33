"""Write the table of a grid as one HTML file, with the responses and passages of each cell.

A grid is a set of RAG pipelines. A cell is one combination of a dataset and the parts of a
pipeline.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from mirage._base.quoting import script_json
from mirage.dataset import MirageDataset
from mirage.errors import SettingError, UnknownNameError
from mirage.grids import Cell, ResultTable
from mirage.grids.cells import Score, is_unfinished
from mirage.models import Query, Response, Run
from mirage.report._responses import (
    SAMPLINGS,
    Excerpt,
    Sampling,
    plain_query,
    plain_response,
    whole_query,
)
from mirage.report.elements import Child, cut, label, rounded, tag
from mirage.report.file import save, whole
from mirage.report.sections import language, number, scrolling, sortable
from mirage.report.sections import table as html_table

MOST_BYTES = 28_000_000
"""Largest size of the JSON with all responses and passages. Above this, texts are cut shorter. If
that is not enough, only some queries are shown."""

_HOPELESS = 1.5
"""If the estimated size exceeds this multiple of :data:`MOST_BYTES`, stricter limits are tried."""

_ESTIMATED_FROM = 200
"""Approximate number of responses that are sampled to estimate the size."""


def write_grid(
    table: ResultTable,
    path: str | Path,
    *,
    runs: Sequence[Run | None] = (),
    datasets: Mapping[str, MirageDataset] | None = None,
) -> None:
    """Write the table of a grid as one self-contained HTML file for any browser.

    Each cell that has a run (its recorded responses) links to a page with every response, its
    passages and its value of every metric. Long texts are cut and marked as cut. If the file would
    still be larger than 30 MB, it shows only a share of the queries, which the page states. The
    shown queries are evenly spaced, and the same for every cell.

    Args:
        table: The cells: combinations of a dataset and the parts of a pipeline, with their results.
        path: Path of the file.
        runs: The responses of each cell, in the order of the cells; ``None`` for a cell without
            responses. By default no cell has responses.
        datasets: The datasets by name, as in the setting ``dataset`` of the cells. Required if
            there are runs.

    Raises:
        SettingError: If the numbers of runs and cells differ.
        UnknownNameError: If the dataset of a cell with a run is not in ``datasets``.
        MirageError: If the file cannot be written.

    Example:
        >>> from mirage.papers.bergen import published
        >>> from mirage.report import write_grid
        >>> write_grid(published(4), "grid.html")  # doctest: +SKIP
    """
    save(render_grid(table, runs=runs, datasets=datasets), path)


def render_grid(
    table: ResultTable,
    *,
    runs: Sequence[Run | None] = (),
    datasets: Mapping[str, MirageDataset] | None = None,
) -> str:
    """Return the page that :func:`write_grid` writes, as a string.

    Args:
        table: The cells with their results.
        runs: The responses of each cell, in the order of the cells; ``None`` for a cell without
            responses. By default no cell has responses.
        datasets: The datasets by name. Required if there are runs.

    Raises:
        SettingError: If the numbers of runs and cells differ.
        UnknownNameError: If the dataset of a cell with a run is not in ``datasets``.
    """
    cell_runs = list(runs) or [None] * len(table)
    if len(cell_runs) != len(table):
        raise SettingError(
            f"runs must have one item (a run or None) per cell of the grid, got {len(cell_runs)} "
            f"items for {len(table)} cells"
        )
    cells = [
        _CellData.of(cell, run, datasets or {}) for cell, run in zip(table, cell_runs, strict=True)
    ]
    data, sampling, share = _fitting_data(table, cells)
    lead = f"{len(table)} cells, {len(table.metrics)} metrics"
    navigation = tag("nav", tag("ul", tag("li", tag("a", "Table", href="#table"))))
    navigation.set("aria-label", "Sections")
    main = tag(
        "main",
        tag("div", _overview(table, cells, sampling, share), id="overview"),
        tag("article", id="page", hidden=True),
        id="main",
    )
    title = label(table.name) or "A grid"
    return whole(title, lead, navigation, main, data, "grid.js")


@dataclass(frozen=True)
class _CellData:
    """A cell with its run and queries.

    Attributes:
        cell: The cell.
        run: The responses; ``None`` if there are none.
        dataset: Name of the dataset; empty if there is no run.
        code: Language code; empty if there is no run.
        queries: The queries of the dataset by id; ``None`` if there is no run.
    """

    cell: Cell
    run: Run | None = None
    dataset: str = ""
    code: str = ""
    queries: Mapping[str, Query] | None = None

    @classmethod
    def of(cls, cell: Cell, run: Run | None, datasets: Mapping[str, MirageDataset]) -> _CellData:
        if run is None:
            return cls(cell)
        name = cell.settings.get("dataset", "")
        if name not in datasets:
            raise UnknownNameError("dataset", name, datasets)
        dataset = datasets[name]
        return cls(cell, run, name, dataset.language, {query.id: query for query in dataset})

    def responses(self, query_ids: Iterable[str] | None = None) -> Iterator[tuple[Query, Response]]:
        """Yield queries of the cell with their responses.

        If a query of the cell has no response, a failed response is yielded.

        Args:
            query_ids: Ids of the queries; by default all.
        """
        if self.run is None or self.queries is None:
            return
        for id_ in self.queries if query_ids is None else query_ids:
            query = self.queries[id_]
            response = self.run.get(query.id)
            if response is not None:
                yield query, response
            elif query.id in self.cell.query_ids:
                yield query, Response(query_id=query.id, text=None, error="no response")


# The table ----------------------------------------------------------------------------------------


def _overview(
    table: ResultTable, cells: Sequence[_CellData], sampling: Sampling, share: float
) -> Iterator[Child]:
    has_runs = any(part.run is not None for part in cells)
    axes = table.differing
    head = [sortable("Cell", first="up", aria_sort="ascending")]
    head += [sortable(axis, numeric=False, first="up") for axis in axes]
    head += [sortable(metric) for metric in table.metrics]
    rows = [_row(index, part, axes, table.metrics) for index, part in enumerate(cells)]
    hint = "Brackets contain 95 % intervals of the mean over queries."
    if has_runs:
        hint += " The number of a cell links to its responses."
    rendered = html_table(head, rows, id="cells", class_="sortable grid")
    heading = tag("h2", "Table", id="table")
    yield tag("section", heading, *scrolling(rendered, "All cells", hint))
    same = {axis: "".join(table.values_of(axis)) for axis in table.axes if axis not in axes}
    lines = [", ".join(f"{axis}: {value}" for axis, value in same.items() if value), *table.notes]
    if has_runs:
        lines.append(
            f"Responses are cut after {sampling.response:,} characters and passages after "
            f"{sampling.passage:,}; cut texts are marked."
        )
    if share < 1:
        lines.append(
            f"To limit the size of the file, it shows {share:.1%} of the queries, the same ones "
            "for every cell. Means are those of all queries."
        )
    yield tag("ul", (tag("li", tag("bdi", cut(line, 1000)[0])) for line in lines if line))


def _row(index: int, part: _CellData, axes: Sequence[str], metrics: Sequence[str]) -> Element:
    cell, first = part.cell, str(index + 1)
    inside: Child = first
    if part.run is not None:
        inside = tag("a", first, href=f"#cell/{index}", title=label(cell.name))
    cells: list[Child] = [tag("th", inside, scope="row", class_="number", data_v=first)]
    for axis in axes:
        name = label(cell.settings.get(axis, "") or "-")
        cells.append(tag("td", tag("bdi", name), class_="name", data_v=name.casefold()))
    if cell.failure and not cell.scores:
        cells.append(_failure_cell(cell, columns=max(len(metrics), 1)))
        return tag("tr", cells)
    for metric in metrics:
        missing = bool(cell.failure) and metric not in cell.scores
        cells.append(_failure_cell(cell) if missing else _score_cell(cell.scores.get(metric)))
    return tag("tr", cells)


def _failure_cell(cell: Cell, columns: int = 1) -> Element:
    why = tag("bdi", cut(cell.failure, 300)[0])
    label = "" if is_unfinished(cell) else "failed: "
    return tag("td", label, why, class_="error", colspan=str(columns))


def _score_cell(score: Score | None) -> Element:
    if score is None:
        return number(math.nan, "")
    cell = number(score.mean, _format_value(score.mean))
    cell.append(tag("span", _format_interval(score), class_="hint"))
    if score.failed or score.unmeasured:
        cell.append(tag("span", f" n = {score.counts}", class_="hint"))
    return cell


def _format_value(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}".replace("-", "−")


def _format_interval(score: Score) -> str:
    low, high = score.interval
    return "" if math.isnan(low) else f" [{_format_value(low)}, {_format_value(high)}]"


# Data for the page's script ---------------------------------------------------------------------


def _fitting_data(
    table: ResultTable, cells: Sequence[_CellData]
) -> tuple[dict[str, Any], Sampling, float]:
    """Return the page's data, cut to the size limit of the file.

    The limits on the lengths of texts, and the share of queries that are shown, are returned too.
    """
    queries = {
        name: _whole_queries([part for part in cells if part.dataset == name])
        for name in dict.fromkeys(part.dataset for part in cells if part.run is not None)
    }
    for sampling in SAMPLINGS:
        sampling = sampling._replace(all_passages=True)
        size = _estimated_size(cells, queries, sampling)
        if size > _HOPELESS * MOST_BYTES:
            continue
        data = _data(table, cells, queries, sampling)
        size = _bytes(data)
        if size <= MOST_BYTES:
            return data, sampling, 1.0
    total = sum(map(len, queries.values()))
    share = 1.0
    while True:
        share *= min(0.95 * MOST_BYTES / size, 0.95)
        some = {name: _spread(group, share) for name, group in queries.items()}
        data = _data(table, cells, some, sampling)
        size = _bytes(data)
        shown = sum(map(len, some.values()))
        if size <= MOST_BYTES or shown == len(queries):
            return data, sampling, shown / total


def _estimated_size(
    cells: Sequence[_CellData], queries: Mapping[str, Mapping[str, Query]], sampling: Sampling
) -> float:
    """Estimate the size of the page's data in bytes.

    The estimate uses a sample of the responses, and the lengths of all passages.
    """
    pairs = [(part, *pair) for part in cells for pair in part.responses()]
    some = pairs[:: max(1, len(pairs) // _ESTIMATED_FROM)]
    size = sum(
        _bytes(plain_response(_excerpt(part, query, response, queries), sampling, faults=False))
        for part, query, response in some
    )
    passages = (p for group in queries.values() for q in group.values() for p in q.passages)
    texts = sum(min(len(passage.text), sampling.passage) for passage in passages)
    return texts + (size * len(pairs) / len(some) if some else 0)


def _bytes(value: Any) -> int:
    return len(script_json(value).encode())


def _spread(queries: Mapping[str, Query], share: float) -> dict[str, Query]:
    """Return a share of the queries at evenly spaced positions, at least one query."""
    count = max(1, int(len(queries) * share))
    ids = list(queries)
    return {ids[i * len(ids) // count]: queries[ids[i * len(ids) // count]] for i in range(count)}


def _excerpt(
    part: _CellData, query: Query, response: Response, queries: Mapping[str, Mapping[str, Query]]
) -> Excerpt:
    whole = queries[part.dataset][query.id]
    return Excerpt(part.code, part.cell.name, "", query, whole, response)


def _data(
    table: ResultTable,
    cells: Sequence[_CellData],
    queries: Mapping[str, Mapping[str, Query]],
    sampling: Sampling,
) -> dict[str, Any]:
    names = list(queries)
    return {
        "metrics": [label(metric) for metric in table.metrics],
        "marks": {},
        "datasets": [_plain_dataset(table, name, cells, queries[name], sampling) for name in names],
        "cells": [_plain_cell(part, table.metrics, names, queries, sampling) for part in cells],
    }


def _whole_queries(cells: Sequence[_CellData]) -> dict[str, Query]:
    """Return the queries of the cells' dataset, each with the passages of all responses to it."""
    runs = [part.run for part in cells if part.run is not None]
    queries = cells[0].queries or {}
    return {id_: whole_query(query, runs) for id_, query in queries.items()}


def _plain_dataset(
    table: ResultTable,
    name: str,
    cells: Sequence[_CellData],
    queries: Mapping[str, Query],
    sampling: Sampling,
) -> dict[str, Any]:
    of_dataset = [part for part in cells if part.dataset == name and part.run is not None]
    code = of_dataset[0].code
    positions = {id_: n for n, id_ in enumerate(of_dataset[0].queries or {})}
    return {
        "code": code,
        "direction": language(code).direction,
        "scored": [label(metric) for metric in table.metrics],
        "queries": [
            plain_query(query, set(query.passage_ids), sampling) | {"n": positions[id_]}
            for id_, query in queries.items()
        ],
    }


def _plain_cell(
    part: _CellData,
    metrics: Sequence[str],
    names: Sequence[str],
    queries: Mapping[str, Mapping[str, Query]],
    sampling: Sampling,
) -> dict[str, Any]:
    cell = part.cell
    plain: dict[str, Any] = {"name": label(cell.name)}
    if part.run is None:
        return plain
    positions = {id_: n for n, id_ in enumerate(queries[part.dataset])}
    value_index = {id_: i for i, id_ in enumerate(cell.query_ids)}
    rows = []
    for query, response in part.responses(positions):
        item = _excerpt(part, query, response, queries)
        row = plain_response(item, sampling, faults=False)
        row["query"] = positions[query.id]
        if query.id in value_index and cell.values:
            row |= _plain_values(cell, value_index[query.id], metrics)
        rows.append(row)
    scores = [
        [label(name), f"{_format_value(score.mean)}{_format_interval(score)}, n = {score.counts}"]
        for name, score in cell.scores.items()
    ]
    return plain | {"dataset": names.index(part.dataset), "scores": scores, "rows": rows}


def _plain_values(cell: Cell, index: int, metrics: Sequence[str]) -> dict[str, Any]:
    values = [
        float(cell.values[metric][index]) if metric in cell.values else np.nan for metric in metrics
    ]
    missing = {str(i): "no value" for i, value in enumerate(values) if math.isnan(value)}
    return {"features": list(map(rounded, values)), "missing": missing}
