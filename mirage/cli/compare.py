"""mirage compare: compare the scores of two systems that any evaluation tool computed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

from mirage.cli import _options as options
from mirage.cli import _score_options as score_options
from mirage.cli._inputs import check_folder, file_of
from mirage.cli._output import out_either
from mirage.cli._shell import app, argument, end_inconclusive, example, fall_short, option


@app.command(
    epilog=example(
        "mirage compare ragas-main.csv ragas-pr.csv",
        "mirage compare main.eval pr.eval --field cluster=metadata.document",
        "mirage compare scores.csv scores.csv --field score=quality --scale quality=1:5 "
        "--before-system gpt-4o --after-system gpt-5",
    )
)
def compare(
    before: Annotated[
        Path,
        argument(
            "BEFORE",
            "Earlier scores, one per item and metric: a results file from ragas, DeepEval, "
            "promptfoo, inspect_ai, lm-evaluation-harness, pydantic-evals, TruLens, Langfuse or "
            "Phoenix, OpenTelemetry spans, or any table.",
        ),
    ],
    after: Annotated[Path, argument("AFTER", "Later scores on the same items.")],
    metric: score_options.Metrics = None,
    field: score_options.Fields = None,
    format: score_options.Format = None,
    before_system: Annotated[
        str | None, option("NAME", "Name of the earlier system, if BEFORE has several.")
    ] = None,
    after_system: Annotated[
        str | None, option("NAME", "Name of the later system, if AFTER has several.")
    ] = None,
    lower_is_better: score_options.Lower = None,
    higher_is_better: score_options.Higher = None,
    scale: score_options.Scale = None,
    failures: Annotated[
        str,
        option(
            "KIND",
            "worst: a failed or missing score counts as the worst score of the scale; skip: items "
            "that failed in either system, or that either lacks, are left out.",
        ),
    ] = "worst",
    alpha: options.Alpha = 0.05,
    margin: Annotated[
        float,
        option(
            "SHARE",
            "Largest acceptable mean loss, as a share of the scale. Exit status 0 means that a "
            "larger loss is ruled out.",
        ),
    ] = 0.1,
    comment: options.Comment = None,
    junit: Annotated[
        Path | None,
        option("FILE", "Also write the result as JUnit XML, with one test case per metric."),
    ] = None,
    report: Annotated[Path | None, option("FILE", "Also write the result as an HTML page.")] = None,
    as_json: options.Json = False,
) -> None:
    """Compare per-item scores of two systems, from any tool.

    The scores are compared item by item. Items of one cluster count as one, repeats of an item are
    averaged, and p-values are corrected for the number of metrics. To compare responses by the
    features of this library, use `mirage check`; `mirage grid compare` compares cells of a grid.

    Exit status: 0 if a loss above the margin is ruled out in all metrics, 1 if a metric is
    significantly worse, and 3 if the result is inconclusive, or if a metric is missing in one file
    and no --metric was chosen.
    """
    from mirage._base.files import write_text
    from mirage.testing import compare_scores
    from mirage.testing.comments import score_comment, score_junit
    from mirage.testing.score_page import write_comparison

    for file in (comment, junit, report):
        check_folder(file)
    result = compare_scores(
        file_of(before),
        file_of(after),
        metrics=metric or None,
        fields=score_options.score_fields(field),
        format=format,
        before_system=before_system,
        after_system=after_system,
        lower_is_better=lower_is_better or (),
        higher_is_better=higher_is_better or (),
        scales=score_options.score_scales(scale),
        failures=cast("Any", failures),
        alpha=alpha,
        margin=margin,
    )
    if comment is not None:
        write_text(comment, score_comment(result))
    if junit is not None:
        write_text(junit, score_junit(result))
    if report is not None:
        write_comparison(result, report)
    out_either(result, result.plain(), as_json)
    if result.verdict == "worse":
        fall_short([result.summary])
    if result.verdict == "inconclusive":
        end_inconclusive([result.summary.removeprefix("inconclusive: ")])
