"""mirage plan: how many queries and repeats are needed to detect a loss."""

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

BUDGETS = ("calls", "cost")
TOKENS = ("prompt_tokens", "answer_tokens")

ASSUMPTIONS = {
    "unstable": 0.1,
    "moved": 0.1,
    "cluster_size": 1.0,
    "correlation": 0.2,
    "features": 4.0,
    "prompt_tokens": 2000.0,
    "answer_tokens": 300.0,
    "query_cost": 0.0,
}
"""The assumptions that --assume may replace, with their defaults."""


@app.command(
    epilog=example(
        "mirage plan --loss 0.1 --price 0.15,0.6",
        "mirage plan --loss 0.05 --baseline baseline.json --queries 200",
        "mirage plan --budget cost=50 --price 2.5,10 --assume query_cost=1.5",
    )
)
def plan(
    loss: Annotated[
        float,
        option("SHARE", "Loss to detect: the share of the queries on which a feature gets worse."),
    ] = 0.1,
    power: Annotated[
        float, option("P", "Target power: the probability of detecting the loss.")
    ] = 0.8,
    alpha: options.Alpha = 0.05,
    baseline: Annotated[
        Path | None,
        option(
            "FILE",
            "Baseline file written by `mirage baseline` from responses with repeats. Its stability "
            "and clusters replace the assumptions of --assume.",
        ),
    ] = None,
    dataset: Annotated[
        Path | None,
        option(
            "FILE",
            "With --baseline: the queries of the baseline as JSON Lines, if they are your own.  "
            "[default: the bundled queries]",
        ),
    ] = None,
    cluster: options.Cluster = None,
    queries: Annotated[
        int | None,
        option("N", "Largest number of queries to consider.  [default: 2000]", min=1),
    ] = None,
    budget: Annotated[
        list[str] | None,
        option(
            "KIND=NUMBER",
            "Find the best combination of queries and repeats within this limit per run: calls=N "
            "or cost=N.",
        ),
    ] = None,
    price: Annotated[
        str | None,
        option(
            "IN,OUT",
            "Price of a million input tokens and of a million output tokens, such as 2.5,10.",
        ),
    ] = None,
    assume: Annotated[
        list[str] | None,
        option(
            "NAME=NUMBER",
            "Change an assumption; may be repeated. Names and defaults: unstable=0.1: share of "
            "answers that differ when a query is repeated; moved=0.1: share of queries that a "
            "change to the system makes better or worse; cluster_size=1: queries per cluster; "
            "correlation=0.2: correlation of effects within a cluster and between features; "
            "features=4: number of features that `mirage check` compares; prompt_tokens=2000 and "
            "answer_tokens=300: tokens per call; query_cost=0: cost of writing a query.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Compute the sample size (queries, repeats) to detect a loss.

    No system and no LLM is called: comparisons are simulated and tested as `mirage check` tests
    them. Prints the number of queries, the number of responses per run, and their cost. The exit
    status is 1 if no number of repeats reaches the target power.
    """
    from mirage.llm import Price
    from mirage.testing import plan as simulate_plan
    from mirage.testing.baseline import read_baseline

    caps = named_numbers("--budget", budget)
    for name in caps:
        if name not in BUDGETS:
            raise UnknownNameError("kind of budget", name, BUDGETS)
    assumed = ASSUMPTIONS | _assumptions(assume)
    known_run = None if baseline is None else read_baseline(baseline)
    if known_run is None and (dataset or cluster):
        raise MirageError(
            "--dataset and --cluster define the clusters of the queries of a baseline; give "
            "--baseline too"
        )
    tokens = [_count("--assume", name, assumed[name]) for name in TOKENS]
    call_cost = 0.0 if price is None else Price(*pair_of("--price", price)).cost(*tokens)
    result = simulate_plan(
        loss,
        power=power,
        alpha=alpha,
        baseline=known_run,
        on=None if known_run is None else dataset_of(known_run.table.language, dataset),
        cluster=cluster,
        queries=queries,
        calls=_count("--budget", "calls", caps["calls"]) if "calls" in caps else None,
        cost=caps.get("cost"),
        call_cost=call_cost,
        query_cost=assumed["query_cost"],
        unstable=assumed["unstable"],
        moved=assumed["moved"],
        cluster_size=_count("--assume", "cluster_size", assumed["cluster_size"]),
        correlation=assumed["correlation"],
        features=_count("--assume", "features", assumed["features"]),
    )
    plain = asdict(result)
    plain["designs"] = [_plain(design) for design in result.designs]
    plain["best"] = None if result.best is None else _plain(result.best)
    out_either(result, plain, as_json)
    if result.best is None or not result.best.enough:
        fall_short([f"no number of repeats detects a loss of {loss:g} with power {power:g}"])


def _plain(design: object) -> dict[str, object]:
    plain: dict[str, object] = design._asdict()  # type: ignore[attr-defined]
    return {**plain, "chances": plain["chances"]._asdict()}  # type: ignore[attr-defined]


def _count(option: str, name: str, number: float) -> int:
    if not number.is_integer():
        raise MirageError(f"{option}: {name} must be a whole number, got {number:g}")
    return int(number)


def _assumptions(texts: list[str] | None) -> dict[str, float]:
    assumed = named_numbers("--assume", texts)
    for name in assumed:
        if name not in ASSUMPTIONS:
            raise UnknownNameError("assumption", name, ASSUMPTIONS)
    return assumed
