"""mirage plan: how many queries, repeats and calls tell whether a loss is there."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import dataset_of, named_numbers
from mirage.cli._llms import pair_of
from mirage.cli._output import out_either
from mirage.cli._shell import app, example, fall_short, option
from mirage.errors import MirageError, UnknownNameError

__all__ = ["plan"]

BUDGETS = ("calls", "cost")


@app.command(
    epilog=example(
        "mirage plan --loss 0.1 --price 0.15,0.6",
        "mirage plan --loss 0.05 --baseline baseline.json --queries 200",
        "mirage plan --budget cost=50 --price 2.5,10 --query-cost 1.5",
    )
)
def plan(
    loss: Annotated[
        float, option("SHARE", "The loss worth finding: of the queries, in a feature.")
    ] = 0.1,
    power: Annotated[
        float, option("P", "How often it is to be found, and its absence told.")
    ] = 0.8,
    alpha: Annotated[float, option("P", "The probability of a false alarm.")] = 0.05,
    baseline: Annotated[
        Path | None,
        option("FILE", "What `mirage baseline save` wrote, of responses with repeats."),
    ] = None,
    dataset: options.Dataset = None,
    cluster: options.Cluster = None,
    queries: Annotated[int | None, option("N", "As many as there are at most.", min=1)] = None,
    budget: Annotated[
        list[str] | None,
        option("WHAT=NUMBER", "What a run may take, calls=N or cost=N; for the surest split."),
    ] = None,
    price: options.Price = None,
    tokens: Annotated[
        str, option("IN,OUT", "With --price: tokens of an answer's prompt and text, about.")
    ] = "2000,300",
    query_cost: Annotated[float, option("MONEY", "What writing a query costs.")] = 0.0,
    cluster_size: Annotated[
        int, option("N", "Without --baseline: queries that hang together.", min=1)
    ] = 1,
    unstable: Annotated[
        float, option("SHARE", "Answers that are others if asked again, where no repeats say.")
    ] = 0.1,
    moved: Annotated[
        float, option("SHARE", "Queries that any change of the system moves, either way.")
    ] = 0.1,
    correlation: Annotated[
        float, option("R", "Of what a change does to queries that hang together.")
    ] = 0.2,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Say how many queries and repeats find a loss.

    Before anything is asked: queries, answers a run, and money.

    Comparisons are simulated, and judged as `mirage check` does. Falls short (status 1) where none
    of the numbers of repeats is enough.
    """
    from mirage.llm import Price
    from mirage.testing import plan as planned
    from mirage.testing import read_baseline

    caps = named_numbers("--budget", budget)
    for name in caps:
        if name not in BUDGETS:
            raise UnknownNameError("kind of budget", name, BUDGETS)
    known = None if baseline is None else read_baseline(baseline)
    if known is None and (dataset or cluster):
        raise MirageError("--dataset and --cluster go with --baseline, and say what hangs together")
    prompt, answer = pair_of("--tokens", tokens, "of prompt and text, such as 2000,300")
    call_cost = 0.0
    if price is not None:
        call_cost = Price(*pair_of("--price", price)).cost(int(prompt), int(answer))
    result = planned(
        loss,
        power=power,
        alpha=alpha,
        baseline=known,
        on=None if known is None else dataset_of(known.table.language, dataset),
        cluster=cluster,
        queries=queries,
        calls=int(caps["calls"]) if "calls" in caps else None,
        cost=caps.get("cost"),
        call_cost=call_cost,
        query_cost=query_cost,
        unstable=unstable,
        moved=moved,
        cluster_size=cluster_size,
        correlation=correlation,
        seed=seed,
    )
    plain = asdict(result)
    plain["designs"] = [_plain(design) for design in result.designs]
    plain["best"] = None if result.best is None else _plain(result.best)
    out_either(result, plain, as_json)
    if result.best is None or not result.best.enough:
        fall_short([f"nothing here finds a loss of {loss:g} with power {power:g}"])


def _plain(design: object) -> dict[str, object]:
    plain: dict[str, object] = design._asdict()  # type: ignore[attr-defined]
    return {**plain, "chances": plain["chances"]._asdict()}  # type: ignore[attr-defined]
