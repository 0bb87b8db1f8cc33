"""Output formats of a result table: text, Markdown, LaTeX, CSV, HTML and JSON.

The table has one row per cell, that is, per RAG pipeline and dataset.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

import numpy as np
from pydantic import Field

from mirage._base.files import validated
from mirage._base.quoting import csv_text, html_text
from mirage._base.tables import Table, to_html
from mirage.errors import DatasetError
from mirage.grids._metrics import is_of_ranking
from mirage.grids.cells import EXPLANATIONS, NOT_RUN, Cell, Score, differing_axes, is_unfinished
from mirage.models import Record
from mirage.statistics.bootstrap import NO_INTERVAL
from mirage.statistics.clusters import cluster_codes, no_interval_reasons

COUNTS = ("n", "failed", "unmeasured")
Style = Literal["interval", "side", "mean"]
STYLES: tuple[Style, ...] = ("interval", "side", "mean")
"""The things that a table can show next to a mean.

``"interval"`` shows the confidence interval, ``"side"`` the longer side of the interval (±), and
``"mean"`` nothing.
"""

FAILED = "failed"
NO_SETTING = "-"


def readable_table(
    name: str,
    cells: Sequence[Cell],
    axes: Sequence[str],
    metrics: Sequence[str],
    notes: Sequence[str],
    best: Mapping[str, Collection[int]] = {},
    style: Style = "interval",
) -> Table:
    """Return the table to print, with one row per cell and one column per metric.

    Notes below the table list the settings that all cells share, and the number of queries that
    most cells have. Footnotes mark cells that failed or that have another number of queries.

    Args:
        name: The title of the table.
        cells: The cells, one per row.
        axes: The axes whose settings are shown, such as ``retriever``.
        metrics: The metrics, one per column.
        notes: Further lines to print below the table.
        best: The positions of the best cells by metric; their means get a star.
        style: What to show next to a mean: ``"interval"`` for the confidence interval, ``"side"``
            for its longer side (±), or ``"mean"`` for nothing.
    """
    differing = differing_axes(cells, axes) or ("cell",)
    usual = {metric: _usual_counts(cells, metric) for metric in metrics}
    footnotes: dict[str, str] = {}
    columns = [[cell.settings.get(axis, "") or NO_SETTING for cell in cells] for axis in differing]
    for metric in metrics:
        marks = best.get(metric, ())
        texts, references = [], []
        for i, cell in enumerate(cells):
            score, remark = cell.scores.get(metric), ""
            text = format_score(score, style, "*" if i in marks else " " if marks else "")
            if score is None and cell.failure and _first_unscored(cell, metrics) == metric:
                text, remark = FAILED, f"failed: {cell.failure}"
                if is_unfinished(cell):
                    text, remark = "not run", NOT_RUN
            elif score is not None and score.counts != usual[metric]:
                remark = f"n = {score.counts}"
            texts.append(text)
            references.append(_reference(remark, footnotes))
        width = max(map(len, references), default=0)
        columns.append(
            [text + ref.ljust(width) for text, ref in zip(texts, references, strict=True)]
        )
    lines = [f"({key}) {remark}" for remark, key in footnotes.items()]
    return Table(
        title=name,
        header=(*differing, *metrics),
        rows=tuple(zip(*columns, strict=True)),
        notes=(
            *lines,
            *_other_failures(cells, metrics),
            *_notes(cells, axes, differing, usual, any(best.values()), style),
            *notes,
        ),
        name=len(differing) - 1,
        texts=tuple(range(len(differing) - 1)),
    )


def lacks_score(cell: Cell, metric: str) -> bool:
    """Return whether a cell has no score of a metric although it should have one.

    A closed-book cell (without retrieval) has no retrieval measures, a cell without a processor no
    compression, and many generators have no cost.
    """
    closed_book = cell.settings.get("retriever") == "none"
    is_unused = metric in EXPLANATIONS or (closed_book and is_of_ranking(metric))
    return metric not in cell.scores and not is_unused


def _first_unscored(cell: Cell, metrics: Sequence[str]) -> str:
    return next((metric for metric in metrics if lacks_score(cell, metric)), "")


def _other_failures(cells: Sequence[Cell], metrics: Sequence[str]) -> list[str]:
    """Return the failures of cells that have all of their scores, perhaps on few queries."""
    failures = (cell.failure for cell in cells if not _first_unscored(cell, metrics))
    return [f"failed: {failure}" for failure in dict.fromkeys(failures) if failure]


def _reference(remark: str, footnotes: dict[str, str]) -> str:
    """Return the mark that refers to a footnote, such as " (a)"; add the footnote if it is new.

    Args:
        remark: The text of the footnote. If it is empty, the result is an empty string.
        footnotes: The letter of each footnote by its text.
    """
    if not remark:
        return ""
    if remark not in footnotes:
        number, letters = len(footnotes) + 1, ""
        while number:
            number, digit = divmod(number - 1, 26)
            letters = chr(ord("a") + digit) + letters
        footnotes[remark] = letters
    return f" ({footnotes[remark]})"


def settings_line(cell: Cell, axes: Sequence[str]) -> str:
    """Return the settings of a cell on some axes as one line, with ``-`` for a missing setting."""
    return " | ".join(cell.settings.get(axis, "") or NO_SETTING for axis in axes)


def format_score(score: Score | None, style: Style = "interval", mark: str = "") -> str:
    """Format a mean and its interval, such as ``0.667 [0.400, 0.900]``.

    Numbers have three decimals, or one if the mean is 10 or more. If the mean is below 0.001, they
    have two significant digits. The text is ``-`` if the mean is NaN, and empty if there is
    no score.

    Args:
        score: The score of a cell, or ``None`` if it has none.
        style: What to show next to the mean: ``"interval"`` for the confidence interval, ``"side"``
            for its longer side (±), or ``"mean"`` for nothing.
        mark: A character to write directly after the mean.
    """
    if score is None or math.isnan(score.mean):
        return "" if score is None else "-"
    form = ".2g" if 0 < abs(score.mean) < 0.001 else ".1f" if abs(score.mean) >= 10 else ".3f"
    low, high = score.interval
    ends = ""
    if not math.isnan(low) and style == "interval":
        ends = f" [{low:{form}}, {high:{form}}]"
    elif not math.isnan(low) and style == "side":
        ends = f" ±{max(high - score.mean, score.mean - low):{form}}"
    return f"{score.mean:{form}}{mark}{ends}"


def _usual_counts(cells: Sequence[Cell], metric: str) -> str:
    """Return the most common text in :attr:`Score.counts <mirage.grids.cells.Score.counts>`.

    Only the scores of ``metric`` count. The result is empty if there are none.
    """
    counts = Counter(cell.scores[metric].counts for cell in cells if metric in cell.scores)
    return counts.most_common(1)[0][0] if counts else ""


def _notes(
    cells: Sequence[Cell],
    axes: Sequence[str],
    differing: Sequence[str],
    usual: Mapping[str, str],
    has_best: bool,
    style: Style,
) -> Iterator[str]:
    shared = [
        f"{axis}: {next(cell.settings[axis] for cell in cells if cell.settings.get(axis))}"
        for axis in axes
        if axis not in differing and any(cell.settings.get(axis) for cell in cells)
    ]
    if shared:
        yield ", ".join(shared)
    metrics_by_counts: dict[str, list[str]] = {}
    for metric, counts in usual.items():
        if counts.strip("0"):
            metrics_by_counts.setdefault(counts, []).append(metric)
    for counts, names in metrics_by_counts.items():
        prefix = "" if len(names) == len(usual) else f"{', '.join(names)}: "
        number, _, missing = counts.partition(" ")
        yield f"{prefix}{number} queries{f' {missing}' if missing else ''}"
    if any(not math.isnan(s.interval[0]) for cell in cells for s in cell.scores.values()):
        yield _STYLE_NOTES[style]
    if reasons := dict.fromkeys(chain.from_iterable(_no_intervals(cell, usual) for cell in cells)):
        yield f"no interval: {', or '.join(reasons)}"
    if has_best:
        yield (
            "*: the best cell of its dataset, and cells that are not significantly different from "
            "it (paired test, Holm, 0.05; without the oracle)"
        )
    if explained := {name: EXPLANATIONS[name] for name in usual if name in EXPLANATIONS}:
        yield ", ".join(f"{metric}: {text}" for metric, text in explained.items())


def _no_intervals(cell: Cell, metrics: Collection[str]) -> Iterator[str]:
    """Yield the reasons why the means of a cell on these metrics have no interval."""
    codes = cluster_codes(cell.query_ids, cell.clusters)
    for name in cell.values.keys() & metrics:
        column, ends = cell.values[name][:, None], np.array([cell.scores[name].interval])
        yield from no_interval_reasons([name], column, codes, ends).values()


_STYLE_NOTES: Mapping[Style, str] = {
    "interval": "in brackets: 95 % intervals",
    "side": "±: the longer side of the 95 % interval",
    "mean": "95 % intervals: use a wider terminal, or write .csv, .md or .json",
}


def html_page(table: Table) -> str:
    """Return an HTML page that contains only the table."""
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
    """Return a table with one row per cell and metric, as a mapping from column name to values.

    The columns are the axes, then metric, mean, lower and upper (the ends of the interval), n,
    failed and unmeasured (numbers of queries), and failure (why the cell failed).
    """
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
    """Return the text of a CSV file with a header line; NaN becomes an empty field.

    Args:
        by_name: The columns by name.
    """
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
    bounds: dict[str, tuple[float, float]] = Field(default_factory=dict)


class _Table(Record):
    name: str
    metrics: tuple[str, ...]
    notes: tuple[str, ...]
    order: str = ""
    cells: tuple[_Cell, ...]


def to_json(
    name: str, cells: Sequence[Cell], metrics: Sequence[str], notes: Sequence[str], order: str
) -> str:
    """Return the whole table as one JSON object; NaN becomes ``null``.

    Args:
        name: The name of the table.
        cells: The cells, one per row.
        metrics: The names of the metrics.
        notes: Lines that are printed below the table.
        order: The metric by which the printed rows are sorted. If it is empty, they keep the order
            of ``cells``.
    """
    whole = {
        "name": name,
        "metrics": list(metrics),
        "notes": list(notes),
        **({"order": order} if order else {}),
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
                "bounds": {metric: list(ends) for metric, ends in cell.bounds.items()},
            }
            for cell in cells
        ],
    }
    return json.dumps(whole, ensure_ascii=False)


def from_json(
    text: str, source: str
) -> tuple[str, tuple[Cell, ...], tuple[str, ...], tuple[str, ...], str]:
    """Return the name, cells, metrics, notes and order of a table that :func:`to_json` wrote.

    Args:
        text: The JSON text.
        source: The name of the text in error messages, such as the path of its file.

    Raises:
        DatasetError: If the text is not such a table.
    """
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
                    f"{source}, cell {position}: expected one value of {metric!r} per query, got "
                    f"{len(column)} values for {len(cell.query_ids)} queries"
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
                cell.bounds,
            )
        )
    return document.name, tuple(cells), document.metrics, document.notes, document.order


def _score(score: _Score) -> Score:
    low, high = map(_null_to_nan, score.interval)
    ends = NO_INTERVAL if math.isnan(low) else (low, high)
    return Score(_null_to_nan(score.mean), ends, score.n, score.failed, score.unmeasured)


def _nan_to_null(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _null_to_nan(value: float | None) -> float:
    return math.nan if value is None else value
