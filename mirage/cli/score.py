"""mirage score: responses against short answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import file_of, runs_of
from mirage.cli._output import out_either
from mirage.cli._scores import feature_plain, feature_text
from mirage.cli._shell import app, example, flag, option

if TYPE_CHECKING:
    from mirage.dataset import MirageDataset
    from mirage.models import Run

__all__ = ["score"]

METRICS = ("qa_match", "qa_exact", "qa_f1", "qa_precision", "qa_recall", "qa_char3_recall")
"""The metrics that are computed where none are named."""


@app.command(
    epilog=example(
        "mirage score my-rag.jsonl --answers answers.jsonl --language en",
        "mirage score my-rag.jsonl --answers mkqa.jsonl.gz --form mkqa --language sw",
    )
)
def score(
    responses: options.Responses,
    answers: Annotated[Path, option("FILE", "Questions with their short answers.")],
    form: Annotated[
        str, option("FORM", "Of the answers: answers (JSON Lines), kilt, mkqa or xor-tydi.")
    ] = "answers",
    language: Annotated[str | None, option("CODE", "Of answers that do not name theirs.")] = None,
    metric: Annotated[
        list[str] | None,
        option("NAME", "A feature, such as qa_rougeL or bergen_match; may be repeated."),
    ] = None,
    name: options.Names = None,
    cluster: options.Cluster = None,
    per_query: Annotated[
        bool, flag("Show each query, and not the means only.", "--per-query")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Score responses by short answers: match, F1, character recall.

    Means come with 95 % intervals. Failed responses, and queries whose answers nothing can be
    measured by, are left out of the means and counted.
    """
    from mirage.dataset import MirageDataset
    from mirage.features import FeatureSuite

    queries = MirageDataset.from_qa(file_of(answers), form, language=language)
    suite = FeatureSuite(metric or METRICS)
    runs = runs_of(queries.language, responses, name)
    tables = [suite.score(queries, run, cluster=cluster) for run in runs]
    parts = [
        f"{feature_text(table, per_query)}\n{_missing(queries, run)}"
        for table, run in zip(tables, runs, strict=True)
    ]
    plain = [
        feature_plain(table) | {"failed": [response.query_id for response in run.failed]}
        for table, run in zip(tables, runs, strict=True)
    ]
    out_either("\n\n".join(parts), plain, as_json)


def _missing(queries: MirageDataset, run: Run) -> str:
    """How many responses failed, and how many queries nothing can be measured by."""
    without = sum(not query.answers for query in queries)
    return (
        f"{len(run.failed)} of {len(run)} responses failed; {without} of {len(queries)} queries "
        "have no short answer"
    )
