"""mirage fit: a ranking from judgments or votes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from mirage.cli import _options as options
from mirage.cli._inputs import file_of
from mirage.cli._output import out, out_json
from mirage.cli._shell import app, example


@app.command(
    epilog=example("mirage fit votes.jsonl", "mirage fit judgments.jsonl --tournaments 200 --json")
)
def fit(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="JUDGMENTS",
            help="JSON Lines of judgments, or of votes as `mirage judge` writes them; - is "
            "standard input.",
        ),
    ],
    ties: Annotated[
        str, typer.Option(metavar="HOW", help="half (a win), drop, or davidson.")
    ] = "half",
    ridge: Annotated[
        float, typer.Option(metavar="N", help="Holds back models that won or lost everything.")
    ] = 0.1,
    tournaments: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Bootstrap so many tournaments for the intervals, and intervals of ranks.  "
            "[default: none; sandwich intervals]",
            show_default=False,
        ),
    ] = 0,
    judge: Annotated[str | None, typer.Option(metavar="NAME", help="Count one judge only.")] = None,
    votes: Annotated[
        str, typer.Option(metavar="HOW", help="What a jury brings: majority, or all.")
    ] = "majority",
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Turn judgments or votes into a Bradley-Terry ranking."""
    from mirage.arena import BradleyTerry, read_judgments

    model = BradleyTerry(ties=ties, ridge=ridge)  # type: ignore[arg-type]  # it checks
    judgments = read_judgments(file_of(file), judge=judge, votes=votes)  # type: ignore[arg-type]
    if tournaments:
        drawn = model.bootstrap(
            judgments, tournaments=tournaments, queries=None, seed=seed, progress=True
        )
        between = [tuple(ends) for ends in drawn.rank_interval().tolist()]
        rows = _rows(drawn.models, drawn.mean, drawn.interval(), between)
        alone: tuple[str, ...] = ()
    else:
        fitted = model.fit(judgments)
        rows = _rows(fitted.models, fitted.logits, fitted.interval(), [None] * len(fitted.models))
        alone = fitted.separated
    queries = len(judgments.query_ids)
    if as_json:
        plain = [row._asdict() for row in rows]
        out_json(
            {"judgments": len(judgments), "queries": queries, "separated": alone, "models": plain}
        )
    else:
        out(_fitted(f"{len(judgments)} judgments on {queries} queries", rows, alone))


class _Row(NamedTuple):
    rank: int
    model: str
    logit: float
    interval: tuple[float, float]
    rank_interval: tuple[int, int] | None


def _rows(models: Sequence[str], logits: Any, ends: Any, between: Sequence[Any]) -> list[_Row]:
    from mirage.statistics.ranks import ranks

    columns = (ranks(logits).tolist(), models, logits.tolist(), map(tuple, ends.tolist()), between)
    return sorted(_Row(*row) for row in zip(*columns, strict=True))


def _fitted(title: str, rows: Sequence[_Row], alone: Sequence[str]) -> str:
    from mirage._base.tables import Table, to_text

    header = ("rank", "model", "logit", "95 % interval", "rank interval")
    cells = tuple(
        (
            str(row.rank),
            row.model,
            f"{row.logit:.2f}",
            "" if row.interval[0] != row.interval[0] else "[{:.2f}, {:.2f}]".format(*row.interval),
            "" if row.rank_interval is None else "{}-{}".format(*row.rank_interval),
        )
        for row in rows
    )
    why = "won or lost every judgment, so the size of its logit says little"
    notes = tuple(f"{model}: {why}" for model in alone)
    return to_text(Table(title, header, cells, (False,) * len(cells), notes).filled())
