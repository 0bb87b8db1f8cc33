"""mirage features: score responses by features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import (
    check_folder,
    check_level,
    dataset_of,
    executor_of,
    file_of,
    language_of,
    named_numbers,
    read_runs,
    response_files,
)
from mirage.cli._output import out_either
from mirage.cli._scores import feature_plain, feature_text, scored_plain, scored_text
from mirage.cli._shell import app, end_inconclusive, example, fall_short, option
from mirage.errors import MirageError, UnknownNameError

if TYPE_CHECKING:
    from pathlib import Path

    from mirage.dataset import MirageDataset
    from mirage.features import FeatureTable
    from mirage.models import Run
    from mirage.testing.feature_bounds import CheckedRun

SHORT_ANSWER_FEATURES = (
    "qa_match",
    "qa_exact",
    "qa_f1",
    "qa_precision",
    "qa_recall",
    "qa_char3_recall",
)
"""Default features for datasets that have questions with short answers."""


@app.command(
    epilog=example(
        "mirage features my-rag.jsonl --language sw",
        "mirage features my-rag.jsonl --language sw --min citation_recall@10=0.6",
        "mirage features my-rag.jsonl --dataset mkqa.jsonl.gz --form mkqa --language sw",
        "mirage features my-rag.jsonl --dataset queries.jsonl --jobs -1 --out values.parquet",
    )
)
def features(
    responses: options.Responses,
    language: options.Language = None,
    feature: options.Features = None,
    minimum: Annotated[
        list[str] | None,
        option(
            "NAME=NUMBER",
            "Exit with status 1 if the 90 % interval of the mean of feature NAME is below NUMBER, "
            "or with status 3 if it contains NUMBER. Example: citation_recall@10=0.6. May be "
            "repeated; cannot be combined with --out.",
            "--min",
        ),
    ] = None,
    allow_failed: options.AllowFailed = 0,
    dataset: options.Dataset = None,
    level: options.Level = "quick",
    form: Annotated[
        str | None,
        option(
            "FORMAT",
            "Format of --dataset if it has questions with short answers: answers (JSON Lines), "
            "kilt, mkqa or xor-tydi. The last two also need --language. The default features are "
            "then qa_match, qa_f1 and other metrics of short answers. Cannot be combined with "
            "--out.",
        ),
    ] = None,
    cluster: options.Cluster = None,
    out: options.ValueFile = None,
    jobs: options.Jobs = 1,
    executor: options.Executor = None,
    as_json: options.Json = False,
) -> None:
    """Score responses by features, such as citation_recall@10.

    Prints the mean of each feature with a 95 % confidence interval. Values that cannot be computed
    are counted and left out of the mean. --json also prints the value of each query, unless --out
    writes the values to a file.

    With --min, the exit status depends on the 90 % confidence interval of each mean: 1 if any
    interval is entirely below its minimum; otherwise 3 if any contains its minimum (too few queries
    to decide); otherwise 0. For a feature with a range, such as 0 to 1, this interval exists even
    if there are too few queries for the 95 % interval of the table. The exit status is also 1 if
    more than --allow-failed queries have no response or a failed one.
    """
    from mirage.features import FeatureSuite
    from mirage.features.registry import canonical_name
    from mirage.testing.feature_bounds import check_range

    if form is not None and dataset is None:
        raise MirageError("--form describes the file that --dataset names; give --dataset too")
    if allow_failed and not minimum:
        raise MirageError("--allow-failed applies to the checks of --min; give --min too")
    if executor is not None and out is None:
        raise MirageError("--executor needs --out FILE, the file to which the values are written")
    files = response_files(responses)
    if out is not None:
        if minimum or form is not None:
            raise MirageError(
                "--out cannot be combined with --min or --form; run a separate command for each"
            )
        _write(files, out, language, feature, dataset, level, cluster, jobs, executor, as_json)
        return
    queries = dataset_of(language, dataset, form, level=level)
    if feature or form is not None:
        suite = FeatureSuite(feature or SHORT_ANSWER_FEATURES)
    else:
        suite = FeatureSuite.default().applicable(queries)
    minimums = {
        canonical_name(text): least for text, least in named_numbers("--min", minimum).items()
    }
    for label in minimums:
        if label not in suite.names:
            raise UnknownNameError("feature", label, suite.names, "in this suite")
        check_range(label, {"ge": minimums[label]}, suite.facts)
    runs = read_runs(queries.language, files)
    tables = suite.score_all(queries, runs, cluster=cluster, n_jobs=jobs)
    text = "\n\n".join(_text(table, run) for table, run in zip(tables, runs, strict=True))
    plain = [_plain(table, run) for table, run in zip(tables, runs, strict=True)]
    checks, reasons = _check_minimums(runs, tables, minimums, queries, allow_failed)
    for entry in plain:
        if minimums:
            entry["minimums"] = [
                _check_plain(check) for check in checks if check.run.model == entry["model"]
            ]
    out_either(text, plain, as_json)
    fall_short(reasons)
    end_inconclusive(
        check.inconclusive_reason() for check in checks if check.result.verdict == "inconclusive"
    )


def _write(
    files: Mapping[str, Path],
    path: Path,
    language: str | None,
    features: Sequence[str] | None,
    dataset: Path | None,
    level: str,
    cluster: str | None,
    jobs: int,
    executor: str | None,
    as_json: bool,
) -> None:
    """Write feature values to a file, reading the inputs block by block, and print the means."""
    from mirage.features import FeatureSuite
    from mirage.features.streams import RunFiles, score_stream

    check_folder(path)
    code = None if language is None else language_of(language)
    if dataset is not None:
        check_level(level, "--dataset")
    queries = dataset_of(language, None, level=level) if dataset is None else file_of(dataset)
    suite = FeatureSuite(features) if features else None
    with (
        RunFiles(queries, files, language=code, cluster=cluster) as stream,
        executor_of(executor) as workers,
    ):
        scored = score_stream(stream, suite, path, n_jobs=jobs, executor=workers)
    out_either("\n\n".join(map(scored_text, scored)), list(map(scored_plain, scored)), as_json)


def _text(table: FeatureTable, run: Run) -> str:
    failed = f"\n{len(run.failed)} of {len(run)} responses failed" if run.failed else ""
    return feature_text(table) + failed


def _plain(table: FeatureTable, run: Run) -> dict[str, Any]:
    return feature_plain(table) | {"failed": [response.query_id for response in run.failed]}


def _check_minimums(
    runs: Sequence[Run],
    tables: Sequence[FeatureTable],
    minimums: Mapping[str, float],
    queries: MirageDataset,
    allow_failed: int,
) -> tuple[list[CheckedRun], list[str]]:
    """Check the mean of each feature in each run against its minimum.

    Args:
        runs: The runs.
        tables: The features of each run.
        minimums: The minimum of each feature's mean, by name of the feature.
        queries: The queries of the runs.
        allow_failed: Number of queries that a model may fail on. If it fails on more, its checks
            fail without a result.

    Returns:
        The results of the checks, and a message for each failed check.
    """
    if not minimums:
        return [], []
    from mirage.testing import FellShortError
    from mirage.testing.feature_bounds import check_table

    checks, reasons = [], []
    for run, table in zip(runs, tables, strict=True):
        for label, least in minimums.items():
            limits = {"ge": least}
            try:
                check = check_table(table, label, limits, queries, run, allow_failed=allow_failed)
            except FellShortError as error:
                reasons.append(str(error))
                continue
            checks.append(check)
            if check.result.verdict == "broken":
                reasons.append(str(check.failure()))
    return checks, reasons


def _check_plain(check: CheckedRun) -> dict[str, Any]:
    """Return the comparison of a feature with its minimum as JSON data."""
    result = check.result
    return {
        "feature": result.feature,
        "minimum": result.bounds["ge"],
        "interval": result.interval,
        "level": result.level,
        "verdict": result.verdict,
    }
