"""mirage rank: models by their responses, among models that were ranked before."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._history import File, Label, Sha, check_history, commit_of
from mirage.cli._inputs import check_folder, file_of, leaderboard_of, ranked, run_names, runs_of
from mirage.cli._llms import llms_of, naming_models
from mirage.cli._logs import NO_PLACE, drift_plain, log_plain, log_text, logs_of, measured_logs
from mirage.cli._output import out, out_either, out_json_text, say, wrapped
from mirage.cli._shell import app, example, fall_short, flag, keeping, option, shortfalls
from mirage.errors import MirageError, UnknownNameError

if TYPE_CHECKING:
    from mirage.sources.logs import Log

__all__ = ["rank"]


@app.command(
    epilog=example(
        "mirage rank sw my-rag.jsonl --at-least anchor/uncited",
        "my-pipeline | mirage rank sw - --name my-rag --json",
        "mirage rank sw my-rag.jsonl --judge gpt-4o --judgments 100 --dry-run",
        "mirage rank sw log.jsonl other-log.jsonl",
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
    judge: Annotated[
        list[str] | None,
        option("NAME", "An LLM that compares some responses with anchors'; several make a jury."),
    ] = None,
    judgments: Annotated[
        int | None,
        option("N", "With --judge: pairs to compare for each model.  [default: all]", min=1),
    ] = None,
    until_width: Annotated[
        float | None, option("LOGITS", "With --judge: stop once the interval is no wider.")
    ] = None,
    until_against: Annotated[
        str | None,
        option("ANCHOR", "With --judge: stop once it is sure who of the two is better."),
    ] = None,
    file: options.Growing = None,
    dry_run: Annotated[
        bool, flag("With --judge: say what it would take, and ask nothing.", "--dry-run")
    ] = False,
    both_orders: Annotated[
        bool, flag("With --judge: ask twice, with either response first.", "--both-orders")
    ] = False,
    seed: options.Seed = 0,
    cluster: options.Cluster = None,
    field: options.Fields = None,
    base_url: options.BaseUrl = None,
    key_from: options.KeyFrom = None,
    max_tokens: options.MaxTokens = 1024,
    budget: options.Budget = None,
    price: options.Price = None,
    jobs: options.Jobs = 1,
    history: File = None,
    commit: Sha = None,
    label: Label = "",
    as_json: options.Json = False,
) -> None:
    """Rank models by their responses, with 95 % intervals.

    They stand among models that were ranked before. The queries are, by default, the bundled
    ones of a language, which `mirage queries` prints. With --judge an LLM compares some of the
    responses with the anchors', and the interval holds whatever the surrogate is worth.

    Logs, whose lines have a question, have no place among them: of these is said what can be
    measured, and how each differs from the first.
    """
    from mirage.arena import PairwiseJudge
    from mirage.languages import Language
    from mirage.llm.estimates import sum_estimates

    _check_judging(judge, judgments, until_width, until_against, file, dry_run, both_orders)
    check_history(history, commit, label)
    Language.of(language)
    names, files = run_names(responses, name), list(map(file_of, responses))
    logs = logs_of(language, dict(zip(names, files, strict=True)), field, cluster)
    if logs is not None:
        _check_logs(at_least, judge, dataset, surrogate, official, history)
        _told_of_logs(logs, seed, jobs, as_json)
        return
    board = leaderboard_of(language, dataset, surrogate, trust, official, copies)
    known = [*(board.prefix + anchor for anchor in board.anchors), *names]
    for other in (*(at_least or ()), *filter(None, [until_against])):
        if other not in known:
            raise UnknownNameError("model of this ranking", other, known)
    if not judge:
        ranking = ranked(board, files, names, jobs)
    else:
        llms = llms_of(judge, base_url, key_from, max_tokens=max_tokens, budget=budget, price=price)
        asked: dict[str, Any] = {
            "judge": PairwiseJudge(llms, both_orders=both_orders),
            "judgments": judgments,
            "seed": seed,
        }
        models = dict(zip(names, files, strict=True))
        estimate = sum_estimates(board.estimate(path, own, **asked) for own, path in models.items())
        if dry_run:
            out_either(estimate, asdict(estimate), as_json)
            return
        say(str(estimate))
        check_folder(file)
        with keeping(file, cached=True), naming_models(llms, key_from):
            ranking = board.rank_all(
                models,
                **asked,
                until_width=until_width,
                until_against=until_against,
                out=file,
                n_jobs=jobs,
            )
    if as_json:
        out_json_text(ranking.to_json())
    else:
        out(ranking, bold_marked=True)
    if history is not None:
        from mirage.testing import History
        from mirage.testing.baseline import baseline_of

        for run in runs_of(board.dataset.language, files, names):
            History(history).append(
                baseline_of(run, on=board),
                commit_of(commit),
                label=label,
                rank=ranking[run.model].rank,
            )
    if at_least:
        from mirage.testing import assert_ranks

        above = partial(assert_ranks, ranking, confidence=confidence, allow_failed=allow_failed)
        fall_short(
            shortfalls(
                partial(above, at_least=other, model=model) for other in at_least for model in names
            )
        )


def _check_logs(*settings: object) -> None:
    if any(setting not in (None, [], False) for setting in settings):
        raise MirageError(
            f"{NO_PLACE}; leave out --at-least, --judge, --dataset, --surrogate, --official and "
            "--history"
        )


def _told_of_logs(logs: list[Log], seed: int, jobs: int, as_json: bool) -> None:
    """Print that logs have no place, what each says, and how the others differ from the first."""
    from mirage.testing.drifts import drift_of

    sides = measured_logs(logs, None, jobs)
    results = [
        drift_of(logs[0], log, (sides[0], side), seed=seed)
        for log, side in zip(logs[1:], sides[1:], strict=True)
    ]
    texts = [wrapped(NO_PLACE), *map(log_text, logs, sides), *map(str, results)]
    plain = {
        "place": None,
        "why": NO_PLACE,
        "models": list(map(log_plain, sides)),
        "differences": list(map(drift_plain, results)),
    }
    out_either("\n\n".join(texts), plain, as_json)


def _check_judging(judge: list[str] | None, *settings: object) -> None:
    if not judge and any(settings):
        raise MirageError(
            "--judgments, --until-width, --until-against, --out, --dry-run and --both-orders go "
            "with --judge"
        )
