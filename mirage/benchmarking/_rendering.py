"""How a table of cells is written: as text, Markdown, LaTeX, CSV, HTML and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mirage._base.files import validated
from mirage._base.quoting import csv_text, html_text
from mirage._base.tables import Table, to_html
from mirage.benchmarking.cells import Cell, Score, differing_axes
from mirage.errors import DatasetError
from mirage.models import Record
from mirage.statistics.bootstrap import NO_INTERVAL

__all__ = [
    "FAILED",
    "columns",
    "from_json",
    "named",
    "number",
    "page",
    "shown",
    "to_csv",
    "to_json",
]

COUNTS = ("n", "failed", "unmeasured")
FAILED = "failed"
NO_SETTING = "-"


def shown(
    name: str,
    cells: Sequence[Cell],
    axes: Sequence[str],
    metrics: Sequence[str],
    notes: Sequence[str],
) -> Table:
    """The table to read: a row a cell, its numbers with their intervals.

    What all cells share stands below it: settings, and how many queries were measured. Where that
    differs, or there is none of some, that has a column.
    """
    differing = differing_axes(cells, axes) or ("cell",)
    counted = _counted(cells, metrics)
    header = [*differing]
    for metric in metrics:
        header += [metric, f"{metric} n"] if metric in counted else [metric]
    header += ["n"] if "" in counted else []
    rows = []
    for cell in cells:
        row = [cell.settings.get(axis, "") or NO_SETTING for axis in differing]
        missing = [metric for metric in metrics if metric not in cell.scores]
        for metric in metrics:
            score = cell.scores.get(metric)
            row.append(FAILED if cell.failure and metric in missing[:1] else number(score))
            row += [score.counts if score else ""] if metric in counted else []
        if "" in counted:
            row.append(next((score.counts for score in cell.scores.values()), ""))
        rows.append(tuple(row))
    return Table(
        title=name,
        header=tuple(header),
        rows=tuple(rows),
        notes=(*_notes(cells, axes, differing, metrics, counted), *notes),
        name=len(differing) - 1,
        texts=tuple(range(len(differing) - 1)),
    )


def named(cell: Cell, axes: Sequence[str]) -> str:
    """The settings of some axes in a line."""
    return " | ".join(cell.settings.get(axis, "") or NO_SETTING for axis in axes)


def number(score: Score | None) -> str:
    """A mean with its interval; three digits behind the point, or one where it is above 10."""
    if score is None or math.isnan(score.mean):
        return "" if score is None else "-"
    digits = 1 if abs(score.mean) >= 10 else 3
    low, high = score.interval
    ends = "" if math.isnan(low) else f" [{low:.{digits}f}, {high:.{digits}f}]"
    return f"{score.mean:.{digits}f}{ends}"


def _counted(cells: Sequence[Cell], metrics: Sequence[str]) -> set[str]:
    """The metrics whose counts need a column; ``""`` where all metrics share one."""
    scored = [cell.scores for cell in cells if cell.scores]
    counted = set()
    for metric in metrics:
        counts = {scores[metric][2:] for scores in scored if metric in scores}
        if len(counts) > 1 or any(any(lost) for _, *lost in counts):
            counted.add(metric)
    if counted and all(len({score[2:] for score in scores.values()}) == 1 for scores in scored):
        return {""}
    return counted


def _notes(
    cells: Sequence[Cell],
    axes: Sequence[str],
    differing: Sequence[str],
    metrics: Sequence[str],
    counted: set[str],
) -> Iterator[str]:
    same = [
        f"{axis}: {next(cell.settings[axis] for cell in cells if cell.settings.get(axis))}"
        for axis in axes
        if axis not in differing and any(cell.settings.get(axis) for cell in cells)
    ]
    if same:
        yield ", ".join(same)
    known: dict[int, list[str]] = {}
    for metric in metrics:
        ns = {cell.scores[metric].n for cell in cells if metric in cell.scores}
        if len(ns) == 1 and "" not in counted and metric not in counted and max(ns):
            known.setdefault(max(ns), []).append(metric)
    for n, names in known.items():
        of = "" if len(names) == len(metrics) else f"{', '.join(names)}: "
        yield f"{of}{n} queries"
    if any(not math.isnan(s.interval[0]) for cell in cells for s in cell.scores.values()):
        yield "in brackets: 95 % intervals"
    reasons: dict[str, list[str]] = {}
    for cell in cells:
        if cell.failure:
            reasons.setdefault(cell.failure, []).append(named(cell, differing))
    for reason, names in reasons.items():
        yield f"failed: {', '.join(names)}: {reason}"


def page(table: Table) -> str:
    """An HTML file with the table alone."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html_text(table.title)}</title></head><body>{to_html(table)}"
        "</body></html>"
    )


# A row a cell and metric --------------------------------------------------------------------------


def columns(
    cells: Sequence[Cell], axes: Sequence[str], metrics: Sequence[str]
) -> dict[str, list[Any]]:
    """The table as columns, a row for each cell and metric."""
    rows = []
    for cell in cells:
        for metric in metrics:
            score = cell.scores.get(metric)
            if score is None and not cell.failure:
                continue
            mean, interval, *counts = score or Score(np.nan)
            settings = (cell.settings.get(axis, "") for axis in axes)
            failure = "" if score else cell.failure
            rows.append((*settings, metric, mean, *interval, *counts, failure))
    names = (*axes, "metric", "mean", "lower", "upper", *COUNTS, "failure")
    return {name: [row[j] for row in rows] for j, name in enumerate(names)}


def to_csv(by_name: Mapping[str, Sequence[Any]]) -> str:
    """Return columns as comma-separated values; a number that is NaN is blank."""
    return csv_text(list(by_name), zip(*by_name.values(), strict=True))


# JSON ---------------------------------------------------------------------------------------------

Number = float | None


class _Score(Record):
    mean: Number
    interval: tuple[Number, Number]
    n: int
    failed: int
    unmeasured: int


class _Cell(Record):
    settings: dict[str, str]
    scores: dict[str, _Score]
    failure: str
    query_ids: tuple[str, ...]
    values: dict[str, tuple[Number, ...]]
    clusters: dict[str, str]


class _Table(Record):
    name: str
    metrics: tuple[str, ...]
    notes: tuple[str, ...]
    cells: tuple[_Cell, ...]


def to_json(name: str, cells: Sequence[Cell], metrics: Sequence[str], notes: Sequence[str]) -> str:
    """The whole table as one JSON object; ``null`` where a number is NaN."""
    whole = {
        "name": name,
        "metrics": list(metrics),
        "notes": list(notes),
        "cells": [
            {
                "settings": dict(cell.settings),
                "scores": {
                    metric: {
                        "mean": _plain(score.mean),
                        "interval": list(map(_plain, score.interval)),
                        **{kind: getattr(score, kind) for kind in COUNTS},
                    }
                    for metric, score in cell.scores.items()
                },
                "failure": cell.failure,
                "query_ids": list(cell.query_ids),
                "values": {
                    metric: list(map(_plain, column.tolist()))
                    for metric, column in cell.values.items()
                },
                "clusters": dict(cell.clusters),
            }
            for cell in cells
        ],
    }
    return json.dumps(whole, ensure_ascii=False)


def from_json(
    text: str, source: str
) -> tuple[str, tuple[Cell, ...], tuple[str, ...], tuple[str, ...]]:
    """Name, cells, metrics and notes of a table.

    Raises:
        DatasetError: the text is no such table; says where.
    """
    try:
        row = json.loads(text)
    except ValueError as error:
        raise DatasetError(f"{source}: is no JSON ({error})") from None
    if not isinstance(row, dict):
        raise DatasetError(f"{source}: is no table but a JSON {type(row).__name__}")
    read = validated(_Table, row, source)
    cells = []
    for place, cell in enumerate(read.cells):
        for metric, column in cell.values.items():
            if len(column) != len(cell.query_ids):
                raise DatasetError(
                    f"{source}, cell {place}: {len(column)} values of {metric!r} for "
                    f"{len(cell.query_ids)} queries"
                )
        cells.append(
            Cell(
                cell.settings,
                {metric: _score(score) for metric, score in cell.scores.items()},
                cell.failure,
                cell.query_ids,
                {
                    metric: np.array([_number(x) for x in column], dtype=np.float64)
                    for metric, column in cell.values.items()
                },
                cell.clusters,
            )
        )
    return read.name, tuple(cells), read.metrics, read.notes


def _score(score: _Score) -> Score:
    low, high = map(_number, score.interval)
    ends = NO_INTERVAL if math.isnan(low) else (low, high)
    return Score(_number(score.mean), ends, score.n, score.failed, score.unmeasured)


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _number(value: float | None) -> float:
    return math.nan if value is None else value
