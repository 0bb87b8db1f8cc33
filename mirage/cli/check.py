"""mirage check: compare a model with its baseline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._history import current_commit
from mirage.cli._inputs import check_folder, dataset_of, run_of
from mirage.cli._output import out_either, out_json, say
from mirage.cli._shell import app, end_inconclusive, example, fall_short, option

if TYPE_CHECKING:
    from mirage.testing.comparison import Change, Comparison
    from mirage.testing.planning import ExtraQueries


@app.command(
    epilog=example(
        "mirage check my-rag.jsonl --baseline baseline.json",
        "mirage check my-rag.jsonl --baseline baseline.json --feature answer_rougeL",
    )
)
def check(
    responses: options.OneResponses,
    baseline: Annotated[Path, option("FILE", "Baseline file written by `mirage baseline`.")],
    language: Annotated[
        str | None,
        options.language_option(
            "Language of the queries as an ISO 639-1 code, such as sw.  [default: the language of "
            "the baseline]"
        ),
    ] = None,
    feature: Annotated[
        list[str] | None,
        option(
            "NAME",
            "Compare this feature of the baseline; may be repeated.  [default: features of "
            "language, citations, support, facts and abstention]",
            autocompletion=options.complete_feature,
            show_default=False,
        ),
    ] = None,
    alpha: options.Alpha = 0.05,
    margin: Annotated[
        float,
        option(
            "SHARE",
            "Largest acceptable mean loss of a feature, as a share of its range; 0.1 means that "
            "one answer in ten drops from best to worst. Exit status 0 means that a larger loss is "
            "ruled out.",
        ),
    ] = 0.1,
    allow_failed: options.AllowFailed = 0,
    dataset: options.Dataset = None,
    cluster: options.Cluster = None,
    comment: options.Comment = None,
    junit: Annotated[
        Path | None,
        option("FILE", "Also write the result as JUnit XML, with one test case per feature."),
    ] = None,
    history: options.History = None,
    as_json: options.Json = False,
) -> None:
    """Compare a model's responses with its baseline.

    Exit status: 0 if a loss above the margin is ruled out or all answers are identical, 1 if the
    model is significantly worse, and 3 if the result is inconclusive because there are too few
    queries or no feature measures correctness. A mere change of wording does not count as worse,
    unless you compare a feature of the wording with --feature. To compare scores that another tool
    computed, use `mirage compare`.
    """
    from mirage._base.files import write_text
    from mirage.monitoring import History
    from mirage.monitoring.judges import compare_judge_runs
    from mirage.testing import FellShortError, comments
    from mirage.testing.baseline import read_baseline
    from mirage.testing.regressions import (
        check_comparison,
        compare_with_baseline,
        extra_queries,
        later_baseline,
        result_table,
        summary,
    )

    commit = current_commit() if history is not None else ""
    for file in (comment, junit):
        check_folder(file)
    saved = read_baseline(baseline)
    if language is None and dataset is None:
        language = saved.table.language
    queries = dataset_of(language, dataset)
    run = run_of(queries.language, responses)
    runs = compare_with_baseline(
        run, saved, alpha, margin=margin, features=feature, on=queries, cluster=cluster
    )
    shifts = []
    if history is not None:
        store = History(history)
        store.append(later_baseline(runs), commit)
        shifts = [compare_judge_runs(series).shift for series in store.judge_runs()]
    for shift in filter(None, shifts):
        say(f"{shift}: this comparison uses no judge, but judged scores may have changed")
    more = extra_queries(runs.comparison)
    if comment is not None:
        write_text(comment, comments.comment(runs, allow_failed=allow_failed, more=more))
    if junit is not None:
        write_text(junit, comments.junit(runs, allow_failed=allow_failed))
    failures = {"failed": len(run.failed)}
    try:
        comparison = check_comparison(runs, "pass", allow_failed)
    except FellShortError as error:
        if as_json:
            out_json(
                _plain(runs.comparison, more)
                | failures
                | {"verdict": "worse", "reason": str(error)}
            )
        fall_short([str(error)])
    else:
        reason = summary(comparison, more)
        plain = (
            _plain(comparison, more) | failures | {"verdict": comparison.verdict, "reason": reason}
        )
        out_either(result_table(comparison, more), plain, as_json)
        if comparison.verdict == "inconclusive":
            end_inconclusive([f"the comparison of {run.model} with the baseline"])


def _plain(comparison: Comparison, more: ExtraQueries | None) -> dict[str, Any]:
    """Return a comparison as JSON data."""
    from mirage.testing.regressions import not_measured

    plain: dict[str, Any] = {
        "margin": comparison.margin,
        "features": list(map(_change_plain, comparison.compared)),
        "not_compared": comparison.not_compared,
        "not_measured": not_measured(comparison),
        "evidence": comparison.evidence.kinds,
    }
    if comparison.identical is not None:
        plain["identical"] = int(comparison.identical.sum())
    if more is not None:
        plain["extra_queries"] = more._asdict()
    return plain


def _change_plain(change: Change) -> dict[str, Any]:
    return {
        "feature": change.feature,
        "before": change.before,
        "now": change.after,
        "worse": change.worse,
        "better": change.better,
        "p": change.p,
        "lost_at_most": change.lost_at_most,
        "allowance": change.allowance,
        "beyond_at_most": change.beyond_at_most,
    }
