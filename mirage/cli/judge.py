"""mirage judge: verdicts of LLMs on pairs of models' responses."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._history import current_commit
from mirage.cli._inputs import check_folder, check_page, dataset_of, runs_of
from mirage.cli._llms import LLMSettings, naming_models, prompt_of, usage_of
from mirage.cli._output import out, out_either, print_records, say, summarise
from mirage.cli._shell import (
    app,
    end_inconclusive,
    example,
    fall_short,
    flag,
    keeping,
    option,
)
from mirage.errors import MirageError

if TYPE_CHECKING:
    from mirage.arena import PairwiseJudge
    from mirage.arena.anchor_pairs import AnchorPairs
    from mirage.arena.verdicts import Judged
    from mirage.dataset import MirageDataset
    from mirage.models import Run


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
    prompt: options.PairPrompt = None,
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
    anchors: Annotated[
        Path | None,
        option(
            "FILE",
            "File of anchor pairs. The judge judges each of these pairs three times in every run, "
            "which shows whether the judge has changed. Needs --history. If the file does not "
            "exist, the command draws 40 pairs from this run and writes them to it.",
        ),
    ] = None,
    history: options.History = None,
    as_json: options.SummaryJson = False,
) -> None:
    """Let an LLM compare models' responses in pairs.

    Prints an estimate of the cost on standard error before the first call. To rank the models from
    the votes, use --report or `mirage fit`. The exit status is 1 if a call failed or an answer of
    the judge contains no verdict.

    With --history, the score of the first model against the others is added to a history file. With
    --anchors too, the exit status is 3 if the judge has changed since earlier runs, because the
    scores are then not comparable.
    """
    from mirage.arena import PairwiseJudge
    from mirage.arena.cautions import position_cautions
    from mirage.llm.estimates import sum_estimates
    from mirage.ranking import Ranking

    if (anchors is None) != (history is None) or (anchors and judgments is not None):
        raise MirageError(
            "--anchors and --history must be given together, and not with --judgments"
        )
    commit = current_commit() if history is not None else ""
    check_page(page)
    for output in (anchors, history):
        check_folder(output)
    questions = dataset_of(language, dataset)
    runs = runs_of(questions.language, responses)
    settings = LLMSettings(llm, base_url, budget)
    judges = list(map(settings.llm, name))
    arena = PairwiseJudge(
        judges, both_orders=both_orders, prompt=prompt_of(prompt), reference=reference
    )
    plan: dict[str, Any] = {"queries": queries, "seed": seed}
    plan |= {} if judgments is None else {"judgments": judgments}
    check_folder(file)
    estimate = arena.estimate(questions, runs, out=file, **plan)
    frozen = None if anchors is None else _anchor_pairs(anchors, questions, runs, seed, dry_run)
    if frozen is not None:
        estimate = sum_estimates([estimate, frozen.estimate(arena)])
    if dry_run:
        out_either(estimate, asdict(estimate), as_json)
        return
    say(str(estimate))
    compare = arena.compare if judgments is None else arena.compare_adaptively
    with keeping(file, cached=settings.cache), naming_models(judges, settings):
        judged = compare(questions, runs, out=file, **plan)
    if file is None:
        print_records(judged.votes)
    moved = _record(arena, judged, runs[0], questions, frozen, history, commit, queries, seed)
    counts, usage = judged.describe(), usage_of(judges)
    text = ", ".join(f"{n} {what}" for what, n in counts.items())
    summarise(f"{text}; {usage}", file, counts | asdict(usage), as_json=as_json)
    if page is None or file is None or as_json:
        for caution in position_cautions(judged.votes):
            say(caution)
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
    end_inconclusive([f"{shift}: scores are not comparable with earlier ones" for shift in moved])


def _anchor_pairs(
    path: Path, dataset: MirageDataset, runs: list[Run], seed: int, dry_run: bool
) -> AnchorPairs:
    """Return the anchor pairs in a file; if there is no file, draw pairs and write them to it."""
    from mirage.arena.anchor_pairs import AnchorPairs

    if path.exists():
        return AnchorPairs.load(path)
    pairs = AnchorPairs.draw(dataset, runs, seed=seed)
    if not dry_run:
        pairs.save(path)
        say(f"{path}: {len(pairs.pairs)} anchor pairs drawn; keep this file")
    return pairs


def _record(
    arena: PairwiseJudge,
    judged: Judged,
    run: Run,
    dataset: MirageDataset,
    pairs: AnchorPairs | None,
    history: Path | None,
    commit: str,
    queries: int,
    seed: int,
) -> list[str]:
    """Append the verdicts on anchor pairs and the score of the first model to the history file.

    ``run`` has the responses of the first model.

    Returns:
        A description of each judge that has changed.
    """
    if pairs is None or history is None:
        return []
    from mirage.monitoring import History
    from mirage.monitoring.judges import compare_judge_runs, judged_baseline

    store = History(history)
    for verdicts in pairs.judge(arena):
        store.append_judge(verdicts, commit)
    names = [llm.model for llm in arena.judges]
    sample = dataset.sample(min(queries, len(dataset)), seed=seed).query_ids
    store.append(judged_baseline(judged, run.model, names, dataset, sample), commit)
    all_series = [
        compare_judge_runs(series)
        for series in store.judge_runs()
        if series[-1].verdicts.judge in names and series[-1].verdicts.pairs_digest == pairs.digest
    ]
    for series in all_series:
        say(str(series))
    return [series.shift for series in all_series if series.shift]
