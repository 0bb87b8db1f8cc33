"""mirage audit: find problems in an evaluation that was computed by any tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mirage.cli import _options as options
from mirage.cli import _score_options as score_options
from mirage.cli._inputs import file_of
from mirage.cli._output import out_either
from mirage.cli._shell import app, argument, example, fall_short


@app.command(
    epilog=example(
        "mirage audit ragas-main.csv ragas-pr.csv",
        "mirage audit results.json --metric score",
    )
)
def audit(
    files: Annotated[
        list[Path],
        argument(
            "FILES",
            "Scores, one per item and metric, in the formats of `mirage compare`. Several files, "
            "or several systems in a file, are also checked against each other.",
        ),
    ],
    metric: score_options.Metrics = None,
    field: score_options.Fields = None,
    format: score_options.Format = None,
    lower_is_better: score_options.Lower = None,
    higher_is_better: score_options.Higher = None,
    scale: score_options.Scale = None,
    as_json: options.Json = False,
) -> None:
    """Find problems in evaluation results from any tool.

    Reports failed scores that a mean leaves out, items that one of two compared systems lacks,
    duplicates, and clusters of related items that an interval ignores. Also reports scores at a
    ceiling, a judge that always gives the same label, ties between two systems on nearly all items,
    too few items, repeats that disagree, and scores that depend on the length of answers. Each
    finding states its figures, and its effect on the mean or the interval.

    Exit status: 0 if nothing was found, 1 otherwise.
    """
    from mirage.testing import audit_scores

    result = audit_scores(
        *map(file_of, files),
        metrics=metric or None,
        fields=score_options.score_fields(field),
        format=format,
        lower_is_better=lower_is_better or (),
        higher_is_better=higher_is_better or (),
        scales=score_options.score_scales(scale),
    )
    out_either(result, result.plain(), as_json)
    if result.findings:
        kinds = ", ".join(dict.fromkeys(finding.kind for finding in result.findings))
        fall_short([kinds])
