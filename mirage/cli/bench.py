"""mirage bench: grids of pipelines, run once and read as one table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mirage.cli import _options as options
from mirage.cli._history import File, Label, Sha, check_history, commit_of
from mirage.cli._inputs import check_folder, file_of, named_texts
from mirage.cli._llms import budget_of
from mirage.cli._output import out_either
from mirage.cli._shell import argument, example, fall_short, group, keeping, option
from mirage.errors import UnknownNameError

if TYPE_CHECKING:
    from mirage.benchmarking import Grid, ResultTable
    from mirage.executors import Executor

__all__ = ["commands"]

commands = group("bench", "Run grids of pipelines, and read them as one table.")

GridFile = Annotated[Path, argument("GRID", "The YAML file of the grid.")]
Store = Annotated[
    Path | None,
    option("DIR", "Where steps are kept.  [default: NAME.store beside the grid]"),
]
Limit = Annotated[
    int | None, option("N", "Queries of each dataset, the first ones.  [default: all]", min=1)
]
Table = Annotated[
    Path | None,
    option(
        "FILE",
        "Write the table, by the ending: .txt, .md, .csv, .tex, .json or .html.",
        "--out",
    ),
]


@commands.command(
    epilog=example("mirage bench plan mkqa.yaml", "mirage bench plan mkqa.yaml --limit 50")
)
def plan(
    grid: GridFile,
    store: Store = None,
    limit: Limit = None,
    trust: options.TrustKeys = False,
    as_json: options.Json = False,
) -> None:
    """Show what is left to do, and what it will take, before anything is spent.

    Steps and their items, calls, tokens, money, time and disk; and which keys would go to which
    hosts.
    """
    planned = _grid(grid, trust).plan(store, limit=limit)
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
        "mirage bench run mkqa.yaml --limit 20",
        "mirage bench run mkqa.yaml --budget cost=5 --out table.md",
        "mirage bench run mkqa.yaml --history history.sqlite --label e5-large",
    )
)
def run(
    grid: GridFile,
    store: Store = None,
    limit: Limit = None,
    budget: options.Budget = None,
    executor: Annotated[
        str | None,
        option(
            "NAME",
            "ray: the workers of a Ray cluster (RAY_ADDRESS, or this machine) do what is slow.",
        ),
    ] = None,
    file: Table = None,
    history: File = None,
    commit: Sha = None,
    label: Label = "",
    trust: options.TrustKeys = False,
    as_json: options.Json = False,
) -> None:
    """Do what has not been done, and print the table.

    What was done once is never done again, and the same command goes on where it was stopped.
    Falls short (status 1) where a cell fails; the others go on.
    """
    check_folder(file)
    check_history(history, commit, label)
    read = _grid(grid, trust)
    with keeping(read.store(store).folder, cached=True), _executor(executor) as workers:
        table = read.run(store, limit=limit, budget=budget_of(budget), executor=workers)
    if history is not None:
        _remember(table, read, history, commit_of(commit), label)
    _show(table, file, as_json)


@commands.command(epilog=example("mirage bench table mkqa.yaml --out table.tex"))
def table(
    grid: GridFile,
    store: Store = None,
    limit: Limit = None,
    file: Table = None,
    as_json: options.Json = False,
) -> None:
    """Print the table of what was run; a cell that was not says so. Nothing is run."""
    check_folder(file)
    _show(_grid(grid).table(store, limit=limit), file, as_json, failing=False)


@commands.command(
    epilog=example(
        "mirage bench compare mkqa.yaml --metric qa_match",
        "mirage bench compare mkqa.yaml --metric qa_match --baseline retriever=bm25 "
        "--baseline reranker=none",
    )
)
def compare(
    grid: GridFile,
    metric: Annotated[
        list[str] | None, option("NAME", "May be repeated.  [default: all metrics]")
    ] = None,
    baseline: Annotated[
        list[str] | None,
        option(
            "AXIS=VALUE",
            "Compare each cell with the one that has this setting; may be repeated.  [default: "
            "all pairs]",
        ),
    ] = None,
    store: Store = None,
    limit: Limit = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Test differences between cells of what was run: paired, and corrected for their number."""
    read = _grid(grid).table(store, limit=limit)
    found = read.compare(*(metric or ()), baseline=_baseline(baseline), seed=seed)
    plain = [
        row._asdict() | {"cell": row.cell.settings, "baseline": row.baseline.settings}
        for row in found
    ]
    out_either(found, plain, as_json)


@commands.command(epilog=example("mirage bench report mkqa.yaml mkqa.html"))
def report(
    grid: GridFile,
    file: Annotated[Path, argument("FILE", "The HTML file to write.")],
    store: Store = None,
    limit: Limit = None,
    as_json: options.Json = False,
) -> None:
    """Write the table of what was run as one HTML page, with every response behind its cell."""
    from mirage.report import write_grid

    check_folder(file)
    read = _grid(grid)
    table = read.table(store, limit=limit)
    write_grid(table, file, runs=read.runs(store, limit=limit), datasets=read.datasets)
    out_either(f"{file}: {len(table)} cells", {"file": file, "cells": len(table)}, as_json)


def _grid(path: Path, trust: bool = False) -> Grid:
    from mirage.benchmarking import Grid

    return Grid.read(file_of(path), trust=trust)


@contextmanager
def _executor(name: str | None) -> Iterator[Executor | None]:
    """The executor of a name, while the work lasts."""
    if name is None:
        yield None
        return
    if name != "ray":
        raise UnknownNameError("executor", name, ("ray",))
    from mirage.executors import ray_executor

    with ray_executor() as executor:
        yield executor


def _remember(table: ResultTable, grid: Grid, history: Path, commit: str, label: str) -> None:
    """Add each cell that was measured, with all its metrics."""
    from mirage.testing import History
    from mirage.testing.baseline import baseline_of_cell

    datasets = grid.datasets
    for cell in table:
        if cell.values:
            baseline = baseline_of_cell(cell, datasets[cell.settings["dataset"]])
            names = baseline.table.features
            History(history).append(baseline, commit, label=label, features=names)


def _show(table: ResultTable, file: Path | None, as_json: bool, failing: bool = True) -> None:
    if file is not None:
        table.write(file)
    out_either(table, json.loads(table.to_json()), as_json)
    if failing:
        fall_short(f"{cell.name}: {cell.failure}" for cell in table if cell.failure)


def _baseline(texts: list[str] | None) -> dict[str, str] | None:
    return named_texts("--baseline", texts) if texts else None
