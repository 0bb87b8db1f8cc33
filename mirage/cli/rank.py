"""mirage rank: models by their responses, among models that were ranked before."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from mirage.cli import _options as options
from mirage.cli._inputs import leaderboard_of, ranked, run_names
from mirage.cli._output import out
from mirage.cli._shell import app, example, fall_short, option, shortfalls
from mirage.errors import UnknownNameError

__all__ = ["rank"]


@app.command(
    epilog=example(
        "mirage rank sw my-rag.jsonl --at-least anchor/uncited",
        "my-pipeline | mirage rank sw - --name my-rag --json",
    )
)
def rank(
    language: options.Language,
    responses: options.Responses,
    name: options.Names = None,
    at_least: Annotated[
        list[str] | None,
        option(
            "MODEL",
            "Fall short (status 1) where a model is not better than this one, with the confidence "
            "below; may be repeated.",
        ),
    ] = None,
    confidence: Annotated[
        float, option("P", "Of --at-least; 0.5 asks to be ahead, no more.")
    ] = 0.9,
    allow_failed: options.AllowFailed = 0,
    dataset: options.Dataset = None,
    surrogate: options.Surrogate = None,
    trust: options.Trust = False,
    official: options.Official = False,
    copies: options.Copies = None,
    jobs: options.Jobs = 1,
    as_json: options.Json = False,
) -> None:
    """Rank models by their responses, with 95 % intervals.

    They stand among models that were ranked before. The queries are, by default, the bundled
    ones of a language, which `mirage queries` prints.
    """
    board = leaderboard_of(language, dataset, surrogate, trust, official, copies)
    names = run_names(responses, name)
    known = [*(board.prefix + anchor for anchor in board.anchors), *names]
    for other in at_least or ():
        if other not in known:
            raise UnknownNameError("model of this ranking", other, known)
    ranking = ranked(board, responses, name, jobs)
    out(ranking.to_json() if as_json else _emphasised(str(ranking)))
    if at_least:
        from mirage.testing import assert_ranks

        above = partial(assert_ranks, ranking, confidence=confidence, allow_failed=allow_failed)
        fall_short(
            shortfalls(
                partial(above, at_least=other, model=model) for other in at_least for model in names
            )
        )


def _emphasised(text: str) -> str:
    """A table with the rows that it marks in bold, which shows on terminals only."""
    return "\n".join(
        typer.style(line, bold=True) if line.startswith("*") else line for line in text.split("\n")
    )
