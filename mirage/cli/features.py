"""mirage features: responses scored by features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import (
    dataset_of,
    file_of,
    is_log,
    log_fields,
    log_of,
    named_numbers,
    run_names,
    runs_of,
)
from mirage.cli._output import out_either, wrapped
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
    files, names = list(map(file_of, responses)), run_names(responses, name)
    fields = log_fields(field)
    logged = [is_log(file, fields) for file in files]
    if any(logged):
        _check_logs(files, logged, dataset, minimum)
        _of_logs(
            language, dict(zip(files, names, strict=True)), log_fields(field, cluster), feature,
            per_query, jobs, as_json,
        )  # fmt: skip
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


def _check_logs(
    files: Sequence[Path],
    logged: Sequence[bool],
    dataset: Path | None,
    minimum: Sequence[str] | None,
) -> None:
    if not all(logged):
        other = files[logged.index(False)]
        raise MirageError(
            f"{other}: has no question in its first line, as logs have; give logs, or responses"
        )
    if dataset is not None:
        raise MirageError("a log has its own questions; leave out --dataset")
    if minimum:
        raise MirageError("--min is for responses; `mirage drift` compares logs")


def _of_logs(
    language: str,
    files: Mapping[Path, str],
    fields: Mapping[str, str],
    feature: Sequence[str] | None,
    per_query: bool,
    jobs: int,
    as_json: bool,
) -> None:
    """Print what logs say, a table a model."""
    from mirage.features import FeatureSuite
    from mirage.features.traffic import measured
    from mirage.testing.drifts import grouped, unmeasured

    suite = FeatureSuite(feature) if feature else None
    texts, plain = [], []
    for path, name in files.items():
        for log in log_of(language, path, fields, name).by_model().values():
            side = measured(log.dataset, log.run, suite, n_jobs=jobs)
            reasons = unmeasured(side)
            text = feature_text(side.table, per_query)
            texts.append("\n".join([text, *map(wrapped, grouped(reasons))]))
            plain.append({**feature_plain(side.table), "not_measured": reasons})
    out_either("\n\n".join(texts), plain, as_json)
