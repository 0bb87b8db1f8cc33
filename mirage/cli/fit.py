"""mirage fit: a ranking from judgments or votes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import check_folder, file_of
from mirage.cli._output import out, out_json_text
from mirage.cli._shell import app, argument, example, option

__all__ = ["fit"]


@app.command(
    epilog=example(
        "mirage fit votes.jsonl --report ranking.html",
        "mirage fit judgments.jsonl --tournaments 200 --json",
    )
)
def fit(
    file: Annotated[
        Path,
        argument(
            "JUDGMENTS",
            "JSON Lines of judgments, or of votes as `mirage judge` writes them; - is standard "
            "input.",
        ),
    ],
    ties: Annotated[str, option("HOW", "half (a win), drop, or davidson.")] = "half",
    ridge: Annotated[float, option("N", "Holds back models that won or lost everything.")] = 0.1,
    tournaments: Annotated[
        int,
        option(
            "N",
            "Bootstrap so many tournaments for logits and intervals.  [default: none; one fit, "
            "intervals by its sandwich covariance]",
            min=0,
            show_default=False,
        ),
    ] = 0,
    judge: Annotated[str | None, option("NAME", "Count one judge only.")] = None,
    votes: Annotated[str, option("HOW", "What a jury brings: majority, or all.")] = "majority",
    seed: options.Seed = 0,
    page: options.Page = None,
    as_json: options.Json = False,
) -> None:
    """Turn judgments or votes into a Bradley-Terry ranking."""
    from mirage.arena import BradleyTerry, read_judged
    from mirage.ranking import Ranking
    from mirage.report import write

    check_folder(page)
    model = BradleyTerry(ties=ties, ridge=ridge)  # type: ignore[arg-type]  # it checks
    ranking = Ranking.from_judgments(
        read_judged(file_of(file), judge=judge, votes=votes),  # type: ignore[arg-type]  # it checks
        bradley_terry=model,
        tournaments=tournaments,
        seed=seed,
    )
    if page is not None:
        write(ranking, page)
    if as_json:
        out_json_text(ranking.to_json())
    else:
        out(ranking)
