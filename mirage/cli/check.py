"""mirage check: is a model worse than its baseline?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import dataset_of, runs_of
from mirage.cli._output import out_either, out_json
from mirage.cli._shell import app, argument, example, fall_short, option

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
    allow_failed: options.AllowFailed = 0,
    dataset: options.Dataset = None,
    cluster: options.Cluster = None,
    as_json: options.Json = False,
) -> None:
    """Compare a model with its baseline.

    Falls short (status 1) where it is worse, but for chance. Another wording is no regression,
    unless --feature asks for it.
    """
    from mirage.testing import FellShortError, assert_no_regression

    queries = dataset_of(language, dataset)
    (run,) = runs_of(queries.language, [responses], [name] if name else None)
    try:
        comparison = assert_no_regression(
            run,
            baseline,
            alpha,
            features=feature,
            on=queries,
            cluster=cluster,
            allow_failed=allow_failed,
        )
    except FellShortError as error:
        if as_json:
            out_json({"held": False, "reason": str(error)})
        fall_short([str(error)])
    else:
        changes = [change for change in comparison.changes if change.queries]
        names = ", ".join(change.feature for change in changes)
        text = f"{run.model} is no worse than the baseline in {names}"
        out_either(text, {"held": True, "features": list(map(_plain, changes))}, as_json)


def _plain(change: Change) -> dict[str, Any]:
    return {
        "feature": change.feature,
        "before": change.before,
        "now": change.after,
        "worse": change.worse,
        "better": change.better,
        "p": change.p,
    }
