"""mirage features: responses scored by features."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import dataset_of, file_of, named_numbers, run_names, runs_of
from mirage.cli._logs import log_plain, log_text, logs_of, measured_logs
from mirage.cli._output import out_either
from mirage.cli._scores import feature_plain, feature_text
from mirage.cli._shell import app, example, fall_short, flag, option, shortfalls
from mirage.errors import MirageError, UnknownNameError

__all__ = ["features"]


@app.command(
    epilog=example(
        "mirage features sw my-rag.jsonl",
        "mirage features sw my-rag.jsonl --min citation_recall@10=0.6",
        "mirage features sw log.jsonl --field answer=output.text",
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
    field: options.Fields = None,
    jobs: options.Jobs = 1,
    as_json: options.Json = False,
) -> None:
    """Score responses by features, such as citation_recall@10.

    Means come with 95 % intervals.

    A value that cannot be computed is left out of the mean, and counted. Of a log, whose lines
    have a question, what can be measured without references is, and the rest says why not.
    """
    from mirage.features import FeatureSuite, canonical_name
    from mirage.languages import Language

    Language.of(language)
    names = run_names(responses, name)
    files = list(map(file_of, responses))
    logs = logs_of(language, dict(zip(names, files, strict=True)), field, cluster)
    if logs is not None:
        _check_logs(dataset, minimum)
        sides = measured_logs(logs, feature, jobs)
        text = "\n\n".join(
            log_text(log, side, per_query) for log, side in zip(logs, sides, strict=True)
        )
        out_either(text, list(map(log_plain, sides)), as_json)
        return
    queries = dataset_of(language, dataset)
    suite = FeatureSuite(feature) if feature else FeatureSuite.offline().applicable(queries)
    minimums = {
        canonical_name(text): least for text, least in named_numbers("--min", minimum).items()
    }
    for label in minimums:
        if label not in suite.names:
            raise UnknownNameError("feature of this suite", label, suite.names)
    runs = runs_of(queries.language, files, names)
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


def _check_logs(dataset: Path | None, minimum: list[str] | None) -> None:
    if dataset is not None:
        raise MirageError("a log has its own questions; leave out --dataset")
    if minimum:
        raise MirageError("--min is for responses; `mirage drift` compares logs")
