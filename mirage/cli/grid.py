"""mirage grid: run grids of pipelines, and print them as one table."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from mirage._base.tables import WIDTH
from mirage.cli import _options as options
from mirage.cli._history import current_commit
from mirage.cli._inputs import check_folder, check_page, executor_of, file_of, named_texts
from mirage.cli._llms import budget_of
from mirage.cli._output import out_either
from mirage.cli._shell import argument, example, fall_short, group, keeping, option
from mirage.errors import UnknownNameError

if TYPE_CHECKING:
    from mirage.grids import Grid, ResultTable
    from mirage.grids.comparisons import Correction

commands = group("grid", "Run grids of RAG pipelines, and compare them in one table.")

GridFile = Annotated[Path, argument("GRID", "YAML file that describes the grid.")]
Limit = Annotated[
    int | None, option("N", "Use only the first N queries of each dataset.  [default: all]", min=1)
]
Table = Annotated[
    Path | None,
    option(
        "FILE",
        "Also write the table to this file, in the format of its suffix: .txt, .md, .csv, .tex, "
        ".json or .html.",
        "--out",
    ),
]
Width = Annotated[
    int | None,
    option(
        "N", "Maximum width of the table in characters.  [default: width of the terminal]", min=40
    ),
]
Order = Annotated[
    str | None,
    option("METRIC", "Sort the rows by this metric, best first.  [default: order in the file]"),
]
Page = Annotated[
    Path | None,
    option(
        "FILE",
        "Also write an HTML page on which each cell of the table links to its responses.",
        "--report",
    ),
]


@commands.command(
    epilog=example("mirage grid plan mkqa.yaml", "mirage grid plan mkqa.yaml --limit 50")
)
def plan(
    grid: GridFile,
    limit: Limit = None,
    trust: options.TrustGrid = False,
    as_json: options.Json = False,
) -> None:
    """Estimate the remaining work, without calling an LLM.

    Prints an estimate for each step: the numbers of items, calls and tokens, and the cost, time and
    disk space. Also lists the hosts that `mirage grid run` would send API keys to.
    """
    planned = _grid(grid, trust).plan(limit=limit)
    plain = {
        "cells": planned.cells,
        "stored": planned.stored,
        "steps": {row.step: vars(row) for row in (*planned, planned.total)},
        "notes": planned.notes,
        "keys": [use._asdict() for use in planned.keys],
    }
    out_either(planned, plain, as_json)


@commands.command(
    epilog=example(
        "mirage grid run mkqa.yaml --limit 20",
        "mirage grid run mkqa.yaml --budget cost=5 --out table.md",
        "mirage grid run mkqa.yaml --history history.sqlite",
    )
)
def run(
    grid: GridFile,
    limit: Limit = None,
    budget: options.Budget = None,
    executor: options.Executor = None,
    file: Table = None,
    page: Page = None,
    order: Order = None,
    width: Width = None,
    history: options.History = None,
    trust: options.TrustGrid = False,
    as_json: options.Json = False,
) -> None:
    """Run the remaining steps, and print the table of results.

    Finished steps are stored and never repeated, so the same command resumes an interrupted run. If
    a cell (one combination of a dataset and the parts of a pipeline) fails, the other cells still
    run, and the exit status is 1.
    """
    check_folder(file)
    check_page(page)
    commit = current_commit() if history is not None else ""
    pipelines = _grid(grid, trust)
    with keeping(pipelines.store(None).folder, cached=True), executor_of(executor) as workers:
        table = pipelines.run(limit=limit, budget=budget_of(budget), executor=workers)
    if history is not None:
        _record(table, pipelines, history, commit)
    if page is not None:
        _write_page(table, pipelines, page, limit)
    _show(_ordered(table, order), file, as_json, width)


@commands.command(epilog=example("mirage grid table mkqa.yaml --out table.tex --report mkqa.html"))
def table(
    grid: GridFile,
    limit: Limit = None,
    file: Table = None,
    page: Page = None,
    order: Order = None,
    width: Width = None,
    trust: options.TrustGrid = False,
    as_json: options.Json = False,
) -> None:
    """Print the table of finished cells, without running anything.

    A cell is one combination of a dataset and the parts of a pipeline.
    """
    check_folder(file)
    check_page(page)
    pipelines = _grid(grid, trust)
    table = pipelines.table(limit=limit)
    if page is not None:
        _write_page(table, pipelines, page, limit)
    _show(_ordered(table, order), file, as_json, width, failing=False)


@commands.command(
    epilog=example(
        "mirage grid compare mkqa.yaml --metric qa_match",
        "mirage grid compare mkqa.yaml --metric qa_match --baseline retriever=bm25 "
        "--baseline reranker=none",
    )
)
def compare(
    grid: GridFile,
    metric: Annotated[
        list[str] | None, option("NAME", "Metric to compare; may be repeated.  [default: all]")
    ] = None,
    baseline: Annotated[
        list[str] | None,
        option(
            "AXIS=VALUE",
            "Compare each cell with the cell that has this setting and is otherwise equal; may be "
            "repeated.  [default: compare all pairs of cells]",
        ),
    ] = None,
    correction: Annotated[
        str,
        option(
            "NAME",
            "Correction of the p-values for multiple testing: holm limits the probability of any "
            "false positive; bh (Benjamini-Hochberg) limits the share of false positives among "
            "the significant differences, which suits the exploration of a large grid.",
        ),
    ] = "holm",
    limit: Limit = None,
    trust: options.TrustGrid = False,
    as_json: options.Json = False,
) -> None:
    """Test differences between finished cells of a grid.

    A cell is one combination of entries, such as a dataset, a retriever and a generator. The tests
    are paired by query, and the p-values are corrected for multiple testing. To compare scores that
    other tools computed, use `mirage compare`.
    """
    table = _grid(grid, trust).table(limit=limit)
    differences = table.compare(
        *(metric or ()),
        baseline=named_texts("--baseline", baseline) if baseline else None,
        correction=cast("Correction", correction),
    )
    plain = [
        vars(row) | {"cell": row.cell.settings, "baseline": row.baseline.settings}
        for row in differences
    ]
    out_either(differences, plain, as_json)


@commands.command(
    epilog=example(
        "mirage grid from-bergen bergen/config", "mirage grid from-bergen bergen --out bergen.yaml"
    )
)
def from_bergen(
    folder: Annotated[
        Path, argument("FOLDER", "BERGEN's config folder, or the folder that contains it.")
    ],
    file: Annotated[
        Path | None, option("FILE", "Also write the grid to this YAML file.", "--out")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Convert a BERGEN configuration into a grid file.

    BERGEN is a library for benchmarking RAG systems. Prints which files were converted, how the
    results may differ from BERGEN's, and why other files could not be converted. The files are only
    read: nothing in them is executed.
    """
    from mirage._base.files import write_text
    from mirage.grids.bergen import convert

    check_folder(file)
    conversion = convert(folder, "bergen" if file is None else file.stem)
    if file is not None:
        write_text(file, conversion.to_yaml())
    plain = {"grid": conversion.grid, "files": [each._asdict() for each in conversion.files]}
    out_either(conversion, plain, as_json)


def _grid(path: Path, trust: bool = False) -> Grid:
    from mirage.grids import Grid

    return Grid.read(file_of(path), trust=trust)


def _write_page(table: ResultTable, grid: Grid, page: Path, limit: int | None) -> None:
    from mirage.report import write_grid

    write_grid(table, page, runs=grid.runs(limit=limit), datasets=grid.datasets)


def _record(table: ResultTable, grid: Grid, history: Path, commit: str) -> None:
    """Append each finished cell of a grid to a history file, with all metrics of the cell."""
    from mirage.monitoring import History
    from mirage.testing.baseline import baseline_of_cell

    datasets = grid.datasets
    for cell in table:
        if cell.values:
            baseline = baseline_of_cell(cell, datasets[cell.settings["dataset"]])
            names = baseline.table.features
            History(history).append(baseline, commit, features=names)


def _ordered(table: ResultTable, order: str | None) -> ResultTable:
    if order is not None and order not in table.metrics:
        raise UnknownNameError("metric", order, table.metrics)
    return table if order is None else replace(table, order=order)


def _show(
    table: ResultTable,
    file: Path | None,
    as_json: bool,
    width: int | None,
    failing: bool = True,
) -> None:
    if file is not None:
        table.write(file)
    # A file or pipe has no width, so the table gets the default width.
    columns = width or (shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH)
    out_either(table.to_text(columns), json.loads(table.to_json()), as_json)
    if failing:
        fall_short(f"{cell.name}: {cell.failure}" for cell in table if cell.failure)
