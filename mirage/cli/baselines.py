"""Commands about baselines, which the pytest plugin compares later runs with: save."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mirage.cli.inputs import (
    DatasetOption,
    JsonOption,
    LanguageArgument,
    check_folder,
    dataset_of,
    runs_of,
)
from mirage.cli.shell import example, out, out_json

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command(epilog=example("mirage baseline save sw my-rag.jsonl --out baseline.json"))(save)
    app.add_typer(group, name="baseline", help="Save what later runs are compared with.")


def save(
    language: LanguageArgument,
    responses: Annotated[
        Path,
        typer.Argument(
            metavar="RESPONSES",
            help='JSON Lines {"query_id": ..., "text": ...}; - is standard input.',
            show_default=False,
        ),
    ],
    file: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="FILE",
            help="The baseline; one that is there is replaced.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What to call the model.  [default: the file's name]",
            show_default=False,
        ),
    ] = None,
    dataset: DatasetOption = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A feature; may be repeated.  [default: the eight that need no model]",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Save a model's features as a small file to commit.

    assert_no_regression compares later runs with it, in pytest.
    """
    from mirage.features import FeatureSuite
    from mirage.testing import save_baseline

    check_folder(file)
    asked = dataset_of(language, dataset)
    suite = FeatureSuite(feature) if feature else None
    (run,) = runs_of(asked.language, [responses], [name] if name else None)
    saved = save_baseline(run, file, on=asked, suite=suite)
    table = saved.table
    if as_json:
        failed = len(saved.failed)
        out_json({"queries": len(table), "features": table.features, "failed": failed})
    else:
        out(f"{file}: {len(table)} queries, {len(table.features)} features")
