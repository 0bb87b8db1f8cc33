"""Output formats of a table of cells: text, Markdown, LaTeX, CSV, HTML and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mirage._base.files import validated
from mirage._base.quoting import csv_text, html_text
from mirage._base.tables import Table, to_html
from mirage.errors import DatasetError
from mirage.grids.cells import Cell, Score, differing_axes
from mirage.models import Record
from mirage.statistics.bootstrap import NO_INTERVAL

COUNTS = ("n", "failed", "unmeasured")
FAILED = "failed"
NO_SETTING = "-"


def readable_table(
    name: str,
    cells: Sequence[Cell],
    axes: Sequence[str],
    metrics: Sequence[str],
    notes: Sequence[str],
) -> Table:
    """Return the printed table, with one row per cell and the intervals of its scores.

    Settings and numbers of queries that all cells share are notes below the table. If the numbers
    differ, or some queries have no value, they get a column.
    """
    differing = differing_axes(cells, axes) or ("cell",)
    metrics_with_counts = _metrics_with_counts(cells, metrics)
    header = [*differing]
    for metric in metrics:
        header += [metric, f"{metric} n"] if metric in metrics_with_counts else [metric]
    header += ["n"] if "" in metrics_with_counts else []
    rows = []
    for cell in cells:
        row = [cell.settings.get(axis, "") or NO_SETTING for axis in differing]
        unscored = [metric for metric in metrics if metric not in cell.scores]
        for metric in metrics:
            score = cell.scores.get(metric)
            row.append(FAILED if cell.failure and metric in unscored[:1] else format_score(score))
            row += [score.counts if score else ""] if metric in metrics_with_counts else []
        if "" in metrics_with_counts:
            row.append(next((score.counts for score in cell.scores.values()), ""))
        rows.append(tuple(row))
    return Table(
        title=name,
        header=tuple(header),
        rows=tuple(rows),
        notes=(*_notes(cells, axes, differing, metrics, metrics_with_counts), *notes),
        name=len(differing) - 1,
        texts=tuple(range(len(differing) - 1)),
    )


def settings_line(cell: Cell, axes: Sequence[str]) -> str:
    """Return the settings of some axes in one line."""
    return " | ".join(cell.settings.get(axis, "") or NO_SETTING for axis in axes)


def format_score(score: Score | None) -> str:
    """Return a mean with its interval, with three decimals, or one decimal if it is 10 or more."""
    if score is None or math.isnan(score.mean):
        return "" if score is None else "-"
    digits = 1 if abs(score.mean) >= 10 else 3
    low, high = score.interval
    ends = "" if math.isnan(low) else f" [{low:.{digits}f}, {high:.{digits}f}]"
    return f"{score.mean:.{digits}f}{ends}"


def _metrics_with_counts(cells: Sequence[Cell], metrics: Sequence[str]) -> set[str]:
    """Return the metrics whose counts need a column, or ``{""}`` if all metrics share one."""
    scored = [cell.scores for cell in cells if cell.scores]
    metrics_with_counts = set()
    for metric in metrics:
        counts = {scores[metric][2:] for scores in scored if metric in scores}
        if len(counts) > 1 or any(any(missing) for _, *missing in counts):
            metrics_with_counts.add(metric)
    if metrics_with_counts and all(
        len({score[2:] for score in scores.values()}) == 1 for scores in scored
    ):
        return {""}
    return metrics_with_counts


def _notes(
    cells: Sequence[Cell],
    axes: Sequence[str],
    differing: Sequence[str],
    metrics: Sequence[str],
    metrics_with_counts: set[str],
) -> Iterator[str]:
    shared = [
        f"{axis}: {next(cell.settings[axis] for cell in cells if cell.settings.get(axis))}"
        for axis in axes
        if axis not in differing and any(cell.settings.get(axis) for cell in cells)
    ]
    if shared:
        yield ", ".join(shared)
    metrics_by_n: dict[int, list[str]] = {}
    for metric in metrics:
        ns = {cell.scores[metric].n for cell in cells if metric in cell.scores}
        if (
            len(ns) == 1
            and "" not in metrics_with_counts
            and metric not in metrics_with_counts
            and max(ns)
        ):
            metrics_by_n.setdefault(max(ns), []).append(metric)
    for n, names in metrics_by_n.items():
        prefix = "" if len(names) == len(metrics) else f"{', '.join(names)}: "
        yield f"{prefix}{n} queries"
    if any(not math.isnan(s.interval[0]) for cell in cells for s in cell.scores.values()):
        yield "in brackets: 95 % intervals"
    reasons: dict[str, list[str]] = {}
    for cell in cells:
        if cell.failure:
            reasons.setdefault(cell.failure, []).append(settings_line(cell, differing))
    for reason, names in reasons.items():
        yield f"failed: {', '.join(names)}: {reason}"


def html_page(table: Table) -> str:
    """Return an HTML page with only the table."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html_text(table.title)}</title></head><body>{to_html(table)}"
        "</body></html>"
    )


# One row per cell and metric ----------------------------------------------------------------------


def columns(
    cells: Sequence[Cell], axes: Sequence[str], metrics: Sequence[str]
) -> dict[str, list[Any]]:
    """Return the table as columns, with one row per cell and metric."""
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
    """Return the whole table as one JSON object, in which NaN is ``null``."""
    whole = {
        "name": name,
        "metrics": list(metrics),
        "notes": list(notes),
        "cells": [
            {
                "settings": dict(cell.settings),
                "scores": {
                    metric: {
                        "mean": _nan_to_null(score.mean),
                        "interval": list(map(_nan_to_null, score.interval)),
                        **{kind: getattr(score, kind) for kind in COUNTS},
                    }
                    for metric, score in cell.scores.items()
                },
                "failure": cell.failure,
                "query_ids": list(cell.query_ids),
                "values": {
                    metric: list(map(_nan_to_null, column.tolist()))
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
    """Return the name, cells, metrics and notes of a table in JSON."""
    try:
        row = json.loads(text)
    except ValueError as error:
        raise DatasetError(f"{source}: not valid JSON ({error})") from None
    if not isinstance(row, dict):
        raise DatasetError(f"{source}: expected a table as a JSON object, got {type(row).__name__}")
    document = validated(_Table, row, source)
    cells = []
    for position, cell in enumerate(document.cells):
        for metric, column in cell.values.items():
            if len(column) != len(cell.query_ids):
                raise DatasetError(
                    f"{source}, cell {position}: {len(column)} values of {metric!r} for "
                    f"{len(cell.query_ids)} queries"
                )
        cells.append(
            Cell(
                cell.settings,
                {metric: _score(score) for metric, score in cell.scores.items()},
                cell.failure,
                cell.query_ids,
                {
                    metric: np.array([_null_to_nan(x) for x in column], dtype=np.float64)
                    for metric, column in cell.values.items()
                },
                cell.clusters,
            )
        )
    return document.name, tuple(cells), document.metrics, document.notes


def _score(score: _Score) -> Score:
    low, high = map(_null_to_nan, score.interval)
    ends = NO_INTERVAL if math.isnan(low) else (low, high)
    return Score(_null_to_nan(score.mean), ends, score.n, score.failed, score.unmeasured)


def _nan_to_null(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _null_to_nan(value: float | None) -> float:
    return math.nan if value is None else value
