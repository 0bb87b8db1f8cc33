"""mirage report: a ranking, and all about it, as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import check_folder, file_of, leaderboard_of, ranked
from mirage.cli._output import out, out_json_text
from mirage.cli._shell import app, example, option

__all__ = ["report"]


@app.command(epilog=example("mirage report sw my-rag.jsonl --out report.html"))
def report(
    language: options.Language,
    responses: options.Responses,
    file: Annotated[Path, option("FILE", "The page to write.", "--out")],
    name: options.Names = None,
    dataset: options.Dataset = None,
    surrogate: options.Surrogate = None,
    trust: options.Trust = False,
    official: options.Official = False,
    copies: options.Copies = None,
    votes: Annotated[
        Path | None, option("FILE", "Votes of judges: shows how far they agree, and their biases.")
    ] = None,
    jobs: options.Jobs = 1,
    as_json: options.Json = False,
) -> None:
    """Rank models, and write all about it as one HTML page."""
    from mirage.arena import read_votes
    from mirage.report import measure_judges, write
    from mirage.report.judges import JudgeFinding

    check_folder(file)
    board = leaderboard_of(language, dataset, surrogate, trust, official, copies)
    ranking = ranked(board, responses, name, jobs)
    runs = ranking.evidence.runs.values() if ranking.evidence else ()
    judges: list[JudgeFinding] = []
    if votes is not None:
        judges = measure_judges(read_votes(file_of(votes)), board.dataset, runs)
    write(ranking, file, judges=judges)
    if as_json:
        out_json_text(ranking.to_json())
    else:
        out(f"{file}: written")
