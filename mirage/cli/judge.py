"""mirage judge: verdicts of LLMs on pairs of models' responses."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import check_folder, dataset_of, runs_of
from mirage.cli._llms import LLMSettings, naming_models, prompt_of
from mirage.cli._output import out, out_either, print_records, say, summarise
from mirage.cli._shell import app, example, fall_short, flag, keeping, option

__all__ = ["judge"]


@app.command(
    epilog=example(
        "mirage judge a.jsonl b.jsonl --language sw --judge gpt-4o --dry-run",
        "mirage judge a.jsonl b.jsonl --language sw --judge gpt-4o --out votes.jsonl --report "
        "ranking.html",
    )
)
def judge(
    responses: options.Responses,
    name: Annotated[
        list[str],
        option(
            "NAME",
            "LLM that judges; repeat the option to let several LLMs vote.",
            "--judge",
        ),
    ],
    language: options.Language = None,
    dataset: options.Dataset = None,
    queries: Annotated[int, option("N", "Number of queries to sample.", min=1)] = 100,
    judgments: Annotated[
        int | None,
        option(
            "N",
            "Judge at most N pairs of responses, and choose the most informative ones.  [default: "
            "all pairs on the sampled queries]",
            min=1,
        ),
    ] = None,
    both_orders: options.BothOrders = False,
    prompt: options.Prompt = None,
    reference: Annotated[
        bool,
        flag(
            "Show the judge the right answers. Pairs on queries without right answers are skipped.",
            "--reference",
        ),
    ] = False,
    file: options.Growing = None,
    dry_run: options.DryRun = False,
    base_url: options.BaseUrl = None,
    llm: options.Llm = None,
    budget: options.Budget = None,
    seed: options.Seed = 0,
    page: options.Page = None,
    as_json: Annotated[
        bool, flag("Print the summary as JSON; needs --out or --dry-run.", "--json")
    ] = False,
) -> None:
    """Let an LLM compare models' responses in pairs.

    Prints an estimate of the cost on standard error before the first call. To rank the models from
    the votes, use --report or `mirage fit`. The exit status is 1 if a call failed or an answer of
    the judge contains no verdict.
    """
    from mirage.arena import PairwiseJudge
    from mirage.ranking import Ranking

    check_folder(page)
    questions = dataset_of(language, dataset)
    runs = runs_of(questions.language, responses)
    settings = LLMSettings(llm, base_url, budget)
    judges = list(map(settings.llm, name))
    arena = PairwiseJudge(
        judges, both_orders=both_orders, prompt=prompt_of(prompt), reference=reference
    )
    plan: dict[str, Any] = {"queries": queries, "seed": seed}
    plan |= {} if judgments is None else {"judgments": judgments}
    estimate = arena.estimate(questions, runs, **plan)
    if dry_run:
        out_either(estimate, asdict(estimate), as_json)
        return
    say(str(estimate))
    check_folder(file)
    compare = arena.compare if judgments is None else arena.compare_adaptively
    with keeping(file, cached=settings.cache), naming_models(judges, settings):
        judged = compare(questions, runs, out=file, **plan)
    if file is None:
        print_records(judged.votes)
    counts = judged.describe()
    text = ", ".join(f"{n} {what}" for what, n in counts.items())
    summarise(text, file, counts, as_json=as_json)
    if page is not None:
        ranking = Ranking.from_judgments(
            judged, dataset=questions, runs=runs, agreement=arena.agreement
        )
        ranking.write(page)
        if file is not None and not as_json:
            out(ranking)
    lost = len(judged.failed) + len(judged.invalid)
    if lost:
        fall_short([f"{lost} of {len(judged.votes)} votes failed or name no verdict"])
