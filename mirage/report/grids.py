"""The table of a grid as one HTML file, and behind each cell all that was answered and shown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from mirage._base.quoting import script_json
from mirage.benchmarking import Cell, ResultTable, Score
from mirage.dataset import MirageDataset
from mirage.errors import SettingError, UnknownNameError
from mirage.models import Query, Response, Run
from mirage.report._elements import Child, cut, label, rounded, tag
from mirage.report._file import save, whole
from mirage.report._responses import (
    SAMPLINGS,
    Excerpt,
    Sampling,
    plain_query,
    plain_response,
    whole_query,
)
from mirage.report._sections import language, number, scrolling, sortable
from mirage.report._sections import table as html_table

__all__ = ["render_grid", "write_grid"]

MOST_BYTES = 30_000_000
"""What responses and passages may take of the file before they are cut shorter."""


def write_grid(
    table: ResultTable,
    path: str | Path,
    *,
    runs: Sequence[Run | None] = (),
    datasets: Mapping[str, MirageDataset] | None = None,
) -> None:
    """Write the table of a grid as one HTML file that needs nothing else, for any browser.

    Behind each cell that has a run is a page with every response, the passages that it was made
    from, and its number by every metric. Nothing is left out; long texts are cut, and say so.

    Args:
        table: the cells.
        path: the file to write.
        runs: the responses of each cell, in the order of the cells; ``None`` where there are none.
        datasets: the queries, by the cells' setting ``dataset``.

    Raises:
        SettingError: there are more or fewer runs than cells.
        UnknownNameError: a cell with a run is on a dataset that is not given.
        MirageError: the file cannot be written.
    """
    save(render_grid(table, runs=runs, datasets=datasets), path)


def render_grid(
    table: ResultTable,
    *,
    runs: Sequence[Run | None] = (),
    datasets: Mapping[str, MirageDataset] | None = None,
) -> str:
    """The text of the file that :func:`write_grid` writes; it takes ``runs`` and ``datasets``, too.

    Raises:
        SettingError: there are more or fewer runs than cells.
        UnknownNameError: a cell with a run is on a dataset that is not given.
    """
    given = list(runs) or [None] * len(table)
    if len(given) != len(table):
        raise SettingError(f"{len(given)} runs for {len(table)} cells; give one a cell, or None")
    behind = [_Behind.of(cell, run, datasets or {}) for cell, run in zip(table, given, strict=True)]
    for sampling in SAMPLINGS:
        sampling = sampling._replace(all_passages=True)
        data = _data(table, behind, sampling)
        if len(script_json(data)) <= MOST_BYTES:
            break
    words = f"{len(table)} cells, {len(table.metrics)} metrics"
    navigation = tag("nav", tag("ul", tag("li", tag("a", "Table", href="#table"))))
    navigation.set("aria-label", "Sections")
    main = tag(
        "main",
        tag("div", _overview(table, behind, sampling), id="overview"),
        tag("article", id="page", hidden=True),
        id="main",
    )
    title = label(table.name) or "A grid"
    return whole(title, words, navigation, main, data, "grid.js")


@dataclass(frozen=True)
class _Behind:
    """What is behind a cell: its run, and the queries by id; nothing where it has no run."""

    cell: Cell
    run: Run | None = None
    dataset: str = ""
    code: str = ""
    queries: Mapping[str, Query] | None = None

    @classmethod
    def of(cls, cell: Cell, run: Run | None, datasets: Mapping[str, MirageDataset]) -> _Behind:
        if run is None:
            return cls(cell)
        name = cell.settings.get("dataset", "")
        if name not in datasets:
            raise UnknownNameError("dataset", name, datasets)
        dataset = datasets[name]
        return cls(cell, run, name, dataset.language, {query.id: query for query in dataset})

    def responses(self) -> Iterator[tuple[Query, Response]]:
        """Every query that was asked, with its response; one that has none is a failure."""
        if self.run is None or self.queries is None:
            return
        for query in self.queries.values():
            response = self.run.get(query.id)
            if response is not None:
                yield query, response
            elif query.id in self.cell.query_ids:
                yield query, Response(query_id=query.id, text=None, error="no response")


# The table ----------------------------------------------------------------------------------------


def _overview(table: ResultTable, behind: Sequence[_Behind], sampling: Sampling) -> Iterator[Child]:
    cells = any(part.run is not None for part in behind)
    axes = table.differing
    head = [sortable("Cell", first="up", aria_sort="ascending")]
    head += [sortable(axis, numeric=False, first="up") for axis in axes]
    head += [sortable(metric) for metric in table.metrics]
    rows = [_row(place, part, axes, table.metrics) for place, part in enumerate(behind)]
    hint = "In brackets are 95 % intervals of the mean over queries."
    if cells:
        hint += " The number of a cell leads to its responses."
    shown = html_table(head, rows, id="cells", class_="sortable grid")
    heading = tag("h2", "Table", id="table")
    yield tag("section", heading, *scrolling(shown, "All cells", hint))
    same = {axis: "".join(table.values_of(axis)) for axis in table.axes if axis not in axes}
    lines = [", ".join(f"{axis}: {value}" for axis, value in same.items() if value), *table.notes]
    if cells:
        lines.append(
            f"Responses are cut after {sampling.response:,} characters and passages after "
            f"{sampling.passage:,}; what is cut says so."
        )
    yield tag("ul", (tag("li", tag("bdi", cut(line, 1000)[0])) for line in lines if line))


def _row(place: int, part: _Behind, axes: Sequence[str], metrics: Sequence[str]) -> Element:
    cell, first = part.cell, str(place + 1)
    inside: Child = first
    if part.run is not None:
        inside = tag("a", first, href=f"#cell/{place}", title=label(cell.name))
    cells: list[Child] = [tag("th", inside, scope="row", class_="number", data_v=first)]
    for axis in axes:
        name = label(cell.settings.get(axis, "") or "-")
        cells.append(tag("td", tag("bdi", name), class_="name", data_v=name.casefold()))
    if cell.failure and not cell.scores:
        cells.append(_failed(cell, columns=max(len(metrics), 1)))
        return tag("tr", cells)
    for metric in metrics:
        missing = bool(cell.failure) and metric not in cell.scores
        cells.append(_failed(cell) if missing else _score(cell.scores.get(metric)))
    return tag("tr", cells)


def _failed(cell: Cell, columns: int = 1) -> Element:
    why = tag("bdi", cut(cell.failure, 300)[0])
    return tag("td", "failed: ", why, class_="error", colspan=str(columns))


def _score(score: Score | None) -> Element:
    if score is None:
        return number(math.nan, "")
    cell = number(score.mean, _shown(score.mean))
    cell.append(tag("span", _ends(score), class_="hint"))
    if score.failed or score.unmeasured:
        cell.append(tag("span", f" n = {score.counts}", class_="hint"))
    return cell


def _shown(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}".replace("-", "−")


def _ends(score: Score) -> str:
    low, high = score.interval
    return "" if math.isnan(low) else f" [{_shown(low)}, {_shown(high)}]"


# What the page's script reads ---------------------------------------------------------------------


def _data(table: ResultTable, behind: Sequence[_Behind], sampling: Sampling) -> dict[str, Any]:
    names = list(dict.fromkeys(part.dataset for part in behind if part.run is not None))
    wholes = {name: _whole_queries([p for p in behind if p.dataset == name]) for name in names}
    return {
        "metrics": [label(metric) for metric in table.metrics],
        "marks": {},
        "datasets": [_plain_dataset(table, name, behind, wholes[name], sampling) for name in names],
        "cells": [
            _plain_cell(part, table.metrics, names, wholes.get(part.dataset, {}), sampling)
            for part in behind
        ],
    }


def _whole_queries(behind: Sequence[_Behind]) -> dict[str, Query]:
    """The queries of a dataset, each with the passages that any response to it was made from."""
    runs = [part.run for part in behind if part.run is not None]
    queries = behind[0].queries or {}
    return {id_: whole_query(query, runs) for id_, query in queries.items()}


def _plain_dataset(
    table: ResultTable,
    name: str,
    behind: Sequence[_Behind],
    queries: Mapping[str, Query],
    sampling: Sampling,
) -> dict[str, Any]:
    code = next(part.code for part in behind if part.dataset == name and part.run is not None)
    return {
        "code": code,
        "direction": language(code).direction,
        "scored": [label(metric) for metric in table.metrics],
        "queries": [
            plain_query(query, set(query.passage_ids), sampling) | {"n": n}
            for n, query in enumerate(queries.values())
        ],
    }


def _plain_cell(
    part: _Behind,
    metrics: Sequence[str],
    names: Sequence[str],
    queries: Mapping[str, Query],
    sampling: Sampling,
) -> dict[str, Any]:
    cell = part.cell
    plain: dict[str, Any] = {"name": label(cell.name)}
    if part.run is None:
        return plain
    places = {id_: n for n, id_ in enumerate(queries)}
    at = {id_: i for i, id_ in enumerate(cell.query_ids)}
    rows = []
    for query, response in part.responses():
        item = Excerpt(part.code, cell.name, "", query, queries[query.id], response)
        row = plain_response(item, sampling, faults=False)
        row["query"] = places[query.id]
        if query.id in at and cell.values:
            row |= _plain_values(cell, at[query.id], metrics)
        rows.append(row)
    scores = [
        [label(name), f"{_shown(score.mean)}{_ends(score)}, n = {score.counts}"]
        for name, score in cell.scores.items()
    ]
    return plain | {"dataset": names.index(part.dataset), "scores": scores, "rows": rows}


def _plain_values(cell: Cell, place: int, metrics: Sequence[str]) -> dict[str, Any]:
    values = [
        float(cell.values[metric][place]) if metric in cell.values else np.nan for metric in metrics
    ]
    missing = {str(i): "no number" for i, value in enumerate(values) if math.isnan(value)}
    return {"features": list(map(rounded, values)), "missing": missing}
