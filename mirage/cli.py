"""The command line: a thin shell over the library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
surrogate = typer.Typer(no_args_is_help=True)
app.add_typer(surrogate, name="surrogate", help="Rebuild or check the surrogates that ship.")

Language = Annotated[str, typer.Argument(help="ISO 639-1 code, such as sw.")]


@app.callback()
def main() -> None:
    """Rank retrieval-augmented generation systems in 18 languages."""


@app.command()
def rank(
    language: Language,
    responses: Annotated[Path, typer.Argument(help='JSON Lines: {"query_id": ..., "text": ...}')],
    name: Annotated[str, typer.Option(help="What to call the model.")] = "",
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Rank a model's responses to the bundled queries of a language."""
    from mirage import Leaderboard, MirageError

    try:
        ranking = Leaderboard.bundled(language).rank(responses, name=name or responses.stem)
    except MirageError as error:
        raise typer.BadParameter(str(error)) from None
    typer.echo(ranking.to_json() if json else str(ranking))


@app.command()
def queries(language: Language) -> None:
    """Print the bundled queries of a language, with their passages, as JSON Lines."""
    from mirage import MirageDataset, MirageError

    try:
        dataset = MirageDataset.bundled(language)
    except MirageError as error:
        raise typer.BadParameter(str(error)) from None
    for query in dataset:
        typer.echo(query.model_dump_json(exclude={"reference", "relevant", "metadata"}))


@surrogate.command()
def rebuild(
    folder: Annotated[Path, typer.Argument(help="Where to write the artifacts.")],
    jobs: Annotated[int, typer.Option(help="Processes to use; -1 is one a core.")] = -1,
) -> None:
    """Train the surrogates of all languages again, bit for bit, from the bundled corpora."""
    from mirage.surrogate.pretraining import write_pretrained

    write_pretrained(folder, n_jobs=jobs)
    typer.echo(f"{folder}: 18 surrogates and a manifest")
