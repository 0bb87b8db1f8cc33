"""mirage check: is a model worse than its baseline?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._history import File, Label, Sha, check_history, commit_of
from mirage.cli._inputs import check_folder, dataset_of, runs_of
from mirage.cli._output import out_either, out_json
from mirage.cli._shell import app, argument, end, example, fall_short, option

if TYPE_CHECKING:
    from mirage.testing.comparison import Change

__all__ = ["check"]


@app.command(
    epilog=example(
        "mirage check sw my-rag.jsonl --baseline baseline.json",
        "mirage check sw my-rag.jsonl --baseline baseline.json --feature answer_rougeL",
    )
)
def check(
    language: options.Language,
    responses: Annotated[
        Path,
        argument("RESPONSES", 'JSON Lines {"query_id": ..., "text": ...}; - is standard input.'),
    ],
    baseline: Annotated[Path, option("FILE", "What `mirage baseline save` wrote.")],
    name: Annotated[
        str | None, option("NAME", "What to call the model.  [default: the file's name]")
    ] = None,
    feature: Annotated[
        list[str] | None,
        option(
            "NAME",
            "A feature of the baseline to compare; may be repeated.  [default: language, "
            "citations, support, facts, abstention]",
        ),
    ] = None,
    alpha: Annotated[float, option("P", "The probability of a false alarm.")] = 0.05,
    margin: Annotated[
        float,
        option("SHARE", "The loss that `no worse` excludes: of all queries, in every feature."),
    ] = 0.1,
    cannot_tell: Annotated[
        int, option("STATUS", "How to end where nobody can tell; 0 passes.", min=0, max=125)
    ] = 2,
    allow_failed: options.AllowFailed = 0,
    dataset: options.Dataset = None,
    cluster: options.Cluster = None,
    comment: Annotated[
        Path | None, option("FILE", "Write a comment for the pull request, in Markdown.")
    ] = None,
    junit: Annotated[Path | None, option("FILE", "Write JUnit XML, a test case a feature.")] = None,
    history: File = None,
    commit: Sha = None,
    label: Label = "",
    as_json: options.Json = False,
) -> None:
    """Compare a model with its baseline.

    Ends with status 1 if it is worse, 0 if it is no worse than the margin, and 2 if the queries are
    too few to tell or nothing measures correctness. Another wording is no regression, unless
    --feature asks for it.
    """
    from mirage._base.files import write_text
    from mirage.testing import FellShortError, History, comments
    from mirage.testing.regressions import (
        check_compared,
        compared,
        measured,
        more_to_tell,
        summary,
        told,
    )

    check_history(history, commit, label)
    for file in (comment, junit):
        check_folder(file)
    queries = dataset_of(language, dataset)
    (run,) = runs_of(queries.language, [responses], [name] if name else None)
    runs = compared(
        run, baseline, alpha, margin=margin, features=feature, on=queries, cluster=cluster
    )
    if history is not None:
        History(history).append(measured(runs), commit_of(commit), label=label)
    more = more_to_tell(runs.comparison)
    if comment is not None:
        write_text(comment, comments.comment(runs, allow_failed=allow_failed, more=more))
    if junit is not None:
        write_text(junit, comments.junit(runs, allow_failed=allow_failed))
    try:
        comparison = check_compared(runs, "pass", allow_failed)
    except FellShortError as error:
        if as_json:
            out_json({"verdict": "worse", "held": False, "reason": str(error)})
        fall_short([str(error)])
    else:
        plain: dict[str, Any] = {
            "verdict": comparison.verdict,
            "held": True,
            "margin": margin,
            "features": list(map(_plain, comparison.compared)),
            "not_compared": comparison.not_compared,
            "evidence": comparison.evidence.kinds,
            "reason": summary(comparison, more),
        }
        if comparison.identical is not None:
            plain["identical"] = int(comparison.identical.sum())
        if more is not None:
            plain["to_tell"] = more._asdict()
        out_either(told(comparison, more), plain, as_json)
        if comparison.verdict == "cannot tell":
            end(cannot_tell)


def _plain(change: Change) -> dict[str, Any]:
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
