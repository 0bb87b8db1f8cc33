"""mirage features: responses scored by features."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import dataset_of, named_numbers, runs_of
from mirage.cli._output import out_either
from mirage.cli._scores import feature_plain, feature_text
from mirage.cli._shell import app, example, fall_short, flag, option, shortfalls
from mirage.errors import UnknownNameError

__all__ = ["features"]


@app.command(
    epilog=example(
        "mirage features sw my-rag.jsonl",
        "mirage features sw my-rag.jsonl --min citation_recall@10=0.6",
    )
)
def features(
    language: options.Language,
    responses: options.Responses,
    name: options.Names = None,
    feature: options.Features = None,
    minimum: Annotated[
        list[str] | None,
        option(
            "NAME=NUMBER",
            "Fall short (status 1) where the mean of a feature is lower; may be repeated.",
            "--min",
        ),
    ] = None,
    allow_failed: options.AllowFailed = 0,
    per_query: Annotated[
        bool, flag("Show each query, and not the means only.", "--per-query")
    ] = False,
    dataset: options.Dataset = None,
    cluster: options.Cluster = None,
    jobs: options.Jobs = 1,
    as_json: options.Json = False,
) -> None:
    """Score responses by features, such as citation_recall@10.

    Means come with 95 % intervals.

    A value that cannot be computed is left out of the mean, and counted.
    """
    from mirage.features import FeatureSuite, canonical_name

    queries = dataset_of(language, dataset)
    suite = FeatureSuite(feature) if feature else FeatureSuite.offline().applicable(queries)
    minimums = {
        canonical_name(text): least for text, least in named_numbers("--min", minimum).items()
    }
    for label in minimums:
        if label not in suite.names:
            raise UnknownNameError("feature of this suite", label, suite.names)
    runs = runs_of(queries.language, responses, name)
    tables = [suite.score(queries, run, cluster=cluster, n_jobs=jobs) for run in runs]
    text = "\n\n".join(feature_text(table, per_query) for table in tables)
    out_either(text, [feature_plain(table) for table in tables], as_json)
    if minimums:
        from mirage.testing import assert_feature

        fall_short(
            shortfalls(
                partial(assert_feature, run, label, ge=least, on=queries, allow_failed=allow_failed)
                for run in runs
                for label, least in minimums.items()
            )
        )
