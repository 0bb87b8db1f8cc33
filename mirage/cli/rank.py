"""mirage rank: rank models by their responses, among models that were ranked before."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._history import current_commit
from mirage.cli._inputs import (
    check_folder,
    check_page,
    existing,
    leaderboard_of,
    read_runs,
    response_files,
)
from mirage.cli._llms import LLMSettings, naming_models, prompt_of
from mirage.cli._output import out, out_either, out_json_text, say
from mirage.cli._shell import app, example, fall_short, keeping, option, shortfalls
from mirage.errors import MirageError, UnknownNameError

if TYPE_CHECKING:
    from mirage.leaderboard import Leaderboard
    from mirage.ranking import Ranking


@app.command(
    epilog=example(
        "mirage rank my-rag.jsonl --language sw --at-least anchor/uncited",
        "my-pipeline | mirage rank my-rag=- --language sw --json",
        "mirage rank my-rag.jsonl --language sw --level hard --report report.html",
        "mirage rank my-rag.jsonl --language sw --judge gpt-4o --judgments 100 --dry-run",
    )
)
def rank(
    responses: options.Responses,
    language: options.Language = None,
    at_least: Annotated[
        list[str] | None,
        option(
            "MODEL",
            "Exit with status 1 unless each of your models is better than MODEL, a model in the "
            "ranking, with a probability of at least --confidence; may be repeated.",
        ),
    ] = None,
    confidence: Annotated[
        float,
        option(
            "P",
            "With --at-least: required probability that your model is better than MODEL. With 0.5, "
            "a higher logit is enough.",
        ),
    ] = 0.9,
    allow_failed: options.AllowFailed = 0,
    board: Annotated[
        str,
        option(
            "NAME",
            "Leaderboard to rank on: bundled; official, with the 19 LLMs of MIRAGE-Bench "
            "(downloads data, needs mirage-rag[hub]); or a folder with copies of the official "
            "datasets.",
        ),
    ] = "bundled",
    level: options.Level = "quick",
    dataset: options.Dataset = None,
    surrogate: Annotated[
        Path | None,
        option(
            "FILE",
            "With --dataset: surrogate for these queries, written by `mirage surrogate train`.",
        ),
    ] = None,
    trust: options.Trust = False,
    judge: Annotated[
        list[str] | None,
        option(
            "NAME",
            "LLM that compares your responses with those of the leaderboard's models, or a file of "
            "votes from `mirage label --pairs`. Repeat the option to let several LLMs vote.",
        ),
    ] = None,
    judgments: Annotated[
        int | None,
        option(
            "N",
            "With --judge: number of pairs of responses to compare for each model.  [default: "
            "all pairs]",
            min=1,
        ),
    ] = None,
    until_width: Annotated[
        float | None,
        option(
            "LOGITS",
            "With --judge: stop when the 95 % interval of the ranked model's logit is at most "
            "this wide.",
        ),
    ] = None,
    until_against: Annotated[
        str | None,
        option(
            "MODEL",
            "With --judge: stop as soon as the ranked model is significantly better or worse than "
            "MODEL of the leaderboard.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        option(
            "FILE",
            "With --judge: append each vote to this file as it arrives. Repeat the command to "
            "resume an interrupted run.  [default: no file; the judge's answers are cached]",
            "--out",
            show_default=False,
        ),
    ] = None,
    dry_run: options.DryRun = False,
    both_orders: options.BothOrders = False,
    prompt: options.PairPrompt = None,
    base_url: options.BaseUrl = None,
    llm: options.Llm = None,
    budget: options.Budget = None,
    seed: options.Seed = 0,
    page: options.Page = None,
    history: options.History = None,
    jobs: options.Jobs = 1,
    as_json: options.Json = False,
) -> None:
    """Rank models by their responses, with 95 % intervals.

    The models are ranked together with the models of a leaderboard. By default no LLM is called: a
    regression, the surrogate, predicts the logit (strength) of each model from features of its
    responses. With --judge, an LLM compares some of the responses with those of the leaderboard, so
    that the intervals are valid even if the surrogate is wrong.
    """
    if allow_failed and not at_least:
        raise MirageError("--allow-failed applies to the checks of --at-least; give --at-least too")
    _check_options(judge, judgments, until_width, until_against, file, dry_run, both_orders, prompt)
    commit = current_commit() if history is not None else ""
    check_folder(file)
    check_page(page)
    models = response_files(responses)
    leaderboard = leaderboard_of(language, board, dataset, surrogate, trust, level)
    _check_models([*(at_least or ()), *filter(None, [until_against])], leaderboard, models)
    if not judge:
        ranking = leaderboard.rank_many(models, n_jobs=jobs)
    else:
        settings = LLMSettings(llm, base_url, budget)
        judged = _judge(
            leaderboard,
            models,
            judge,
            settings,
            {"judgments": judgments, "seed": seed},
            {"until_width": until_width, "until_against": until_against, "out": file},
            both_orders=both_orders,
            prompt=prompt_of(prompt),
            dry_run=dry_run,
            jobs=jobs,
            as_json=as_json,
        )
        if judged is None:
            return
        ranking = judged
    if as_json:
        out_json_text(ranking.to_json())
    else:
        out(ranking, bold_marked=True)
    if page is not None:
        ranking.write(page)
    if history is not None:
        _record(ranking, leaderboard, models, history, commit)
    if at_least:
        from mirage.testing import assert_ranks

        above = partial(assert_ranks, ranking, confidence=confidence, allow_failed=allow_failed)
        fall_short(
            shortfalls(
                partial(above, at_least=other, model=model)
                for other in at_least
                for model in models
            )
        )


def _check_options(judge: list[str] | None, *settings: object) -> None:
    if not judge and any(settings):
        raise MirageError(
            "--judgments, --until-width, --until-against, --out, --dry-run, --both-orders and "
            "--prompt need --judge"
        )


def _check_models(names: list[str], board: Leaderboard, models: dict[str, Path]) -> None:
    ranked = [*(board.prefix + anchor for anchor in board.anchors), *models]
    for name in names:
        if name not in ranked:
            raise UnknownNameError("model", name, ranked, "in this ranking")


def _judge(
    board: Leaderboard,
    models: dict[str, Path],
    names: list[str],
    settings: LLMSettings,
    plan: dict[str, Any],
    stop: dict[str, Any],
    *,
    both_orders: bool,
    prompt: str | None,
    dry_run: bool,
    jobs: int,
    as_json: bool,
) -> Ranking | None:
    """Return the ranking by judges, which are the LLMs or the file of votes in ``names``.

    ``plan`` has the settings that choose the pairs to judge, and ``stop`` those that stop the
    judges early. If ``dry_run`` is true, print an estimate of calls, tokens and cost instead, and
    return ``None``.
    """
    from mirage.arena import PairwiseJudge
    from mirage.llm.estimates import sum_estimates

    if any(name.endswith(".jsonl") for name in names):
        if dry_run or both_orders or prompt or stop["out"]:
            raise MirageError(
                "--dry-run, --both-orders, --prompt and --out need an LLM as --judge, not a file "
                "of votes"
            )
        return _rank_by_votes(board, models, names, {**plan, **stop}, jobs)
    llms = list(map(settings.llm, names))
    plan = {"judge": PairwiseJudge(llms, both_orders=both_orders, prompt=prompt), **plan}
    estimate = sum_estimates(board.estimate(path, name, **plan) for name, path in models.items())
    if dry_run:
        out_either(estimate, asdict(estimate), as_json)
        return None
    say(str(estimate))
    with keeping(stop["out"], cached=settings.cache), naming_models(llms, settings):
        return board.rank_many(models, **plan, **stop, n_jobs=jobs)


def _rank_by_votes(
    board: Leaderboard,
    models: dict[str, Path],
    names: list[str],
    settings: dict[str, Any],
    jobs: int,
) -> Ranking:
    """Return the ranking by people's votes, from the only file in ``names``."""
    from mirage.arena.judgment_files import RecordedJudge

    if len(names) > 1:
        raise MirageError("--judge accepts either a single file of votes or the names of LLMs")
    return board.rank_many(
        models, judge=RecordedJudge(existing(Path(names[0]))), **settings, n_jobs=jobs
    )


def _record(
    ranking: Ranking, board: Leaderboard, models: dict[str, Path], history: Path, commit: str
) -> None:
    from mirage.monitoring import History
    from mirage.testing.baseline import baseline_of

    for run in read_runs(board.dataset.language, models):
        baseline = baseline_of(run, on=board)
        History(history).append(baseline, commit, rank=ranking[run.model].rank)
