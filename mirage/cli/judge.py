"""mirage judge: verdicts of LLMs on pairs of models' responses."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import check_folder, dataset_of, runs_of
from mirage.cli._llms import llms_of, naming_models
from mirage.cli._output import out, out_either, print_records, say, summarise
from mirage.cli._shell import app, example, fall_short, flag, keeping, option
from mirage.errors import MirageError

__all__ = ["judge"]


@app.command(
    epilog=example(
        "mirage judge sw a.jsonl b.jsonl --model gpt-4o --dry-run",
        "mirage judge sw a.jsonl b.jsonl --model gpt-4o --out votes.jsonl --report ranking.html",
    )
)
def judge(
    language: options.Language,
    responses: options.Responses,
    model: Annotated[list[str], option("NAME", "The judge; several make a jury.")],
    base_url: options.BaseUrl = None,
    name: options.Names = None,
    file: options.Growing = None,
    dry_run: Annotated[
        bool, flag("Say what it would take, and ask nothing.", "--dry-run", "--estimate")
    ] = False,
    dataset: options.Dataset = None,
    queries: Annotated[int, option("N", "Queries to draw.", min=1)] = 100,
    pairs: Annotated[float, option("SHARE", "Share of them on which a pair is judged.")] = 1.0,
    judgments: Annotated[
        int | None, option("N", "Judge so many pairs at most: those that tell most.", min=1)
    ] = None,
    target: Annotated[
        float | None,
        option(
            "TAU",
            "With --judgments: stop where Kendall's tau with the ranking by all pairs is expected "
            "to be this.",
        ),
    ] = None,
    both_orders: Annotated[
        bool, flag("Ask twice, with either response first.", "--both-orders")
    ] = False,
    seed: options.Seed = 0,
    key_from: options.KeyFrom = None,
    max_tokens: options.MaxTokens = 1024,
    temperature: options.Temperature = 0.0,
    concurrency: options.Concurrency = 8,
    budget: options.Budget = None,
    price: options.Price = None,
    cache: options.Cache = True,
    page: options.Page = None,
    as_json: Annotated[
        bool, flag("With --out or --dry-run: print a summary as JSON.", "--json")
    ] = False,
) -> None:
    """Have an LLM judge pairs of models' responses.

    Says on standard error what that may take, before the first call. With --report, or by
    `mirage fit`, the votes become a ranking. Falls short (status 1) where a vote failed or named
    no verdict.
    """
    from mirage.arena import PairwiseJudge
    from mirage.ranking import Ranking
    from mirage.report import write

    if judgments is not None and pairs != 1:
        raise MirageError("--judgments chooses the pairs; leave out --pairs")
    if judgments is None and target is not None:
        raise MirageError("--target goes with --judgments")
    check_folder(page)
    questions = dataset_of(language, dataset)
    runs = runs_of(questions.language, responses, name)
    judges = llms_of(
        model,
        base_url,
        key_from,
        max_tokens=max_tokens,
        temperature=temperature,
        concurrency=concurrency,
        cache=cache,
        budget=budget,
        price=price,
    )
    arena = PairwiseJudge(judges, both_orders=both_orders)
    plan: dict[str, Any] = {"queries": queries, "seed": seed}
    plan |= {"pairs": pairs} if judgments is None else {"judgments": judgments}
    estimate = arena.estimate(questions, runs, **plan)
    if dry_run:
        out_either(estimate, asdict(estimate), as_json)
        return
    say(str(estimate))
    check_folder(file)
    with keeping(file, cached=cache), naming_models(judges, key_from):
        if judgments is None:
            judged = arena.compare(questions, runs, out=file, **plan)
        else:
            judged = arena.compare_adaptively(questions, runs, target=target, out=file, **plan)
    if file is None:
        print_records(judged.votes)
    counts = judged.describe()
    summarise(", ".join(f"{n} {what}" for what, n in counts.items()), counts, file, as_json)
    if page is not None:
        ranking = Ranking.from_judgments(
            judged, dataset=questions, runs=runs, agreement=arena.agreement
        )
        write(ranking, page)
        if file is not None and not as_json:
            out(ranking)
    lost = len(judged.failed) + len(judged.invalid)
    if lost:
        fall_short([f"{lost} of {len(judged.votes)} votes failed or name no verdict"])
