"""mirage fit: rank from judgments or votes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import check_page, file_of
from mirage.cli._output import out, out_json_text
from mirage.cli._shell import app, argument, example, option


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
            "Judgments as JSON Lines, or the votes that `mirage judge` wrote; - reads standard "
            "input.",
        ),
    ],
    ties: Annotated[
        str,
        option(
            "HOW",
            "How to treat ties: half (half a win for each), drop (ignore ties) or davidson "
            "(Davidson's model, which has a parameter for ties).",
        ),
    ] = "half",
    tournaments: Annotated[
        int,
        option(
            "N",
            "Compute logits and intervals from N bootstrap samples of the queries.  [default: one "
            "fit to all judgments, with intervals from the sandwich covariance]",
            min=0,
            show_default=False,
        ),
    ] = 0,
    page: options.Page = None,
    as_json: options.Json = False,
) -> None:
    """Rank models from judgments or votes with a Bradley-Terry model.

    Prints the logit of each model, its strength in natural-log odds, with a 95 % interval.
    """
    from mirage.arena import BradleyTerry, read_judged
    from mirage.ranking import Ranking

    check_page(page)
    model = BradleyTerry(ties=ties)  # type: ignore[arg-type]  # it checks
    judgments = read_judged(file_of(file))
    ranking = Ranking.from_judgments(judgments, bradley_terry=model, tournaments=tournaments)
    if page is not None:
        ranking.write(page)
    if as_json:
        out_json_text(ranking.to_json())
    else:
        out(ranking)
