"""mirage features: responses scored by features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import dataset_of, file_of, named_numbers, run_names, runs_of
from mirage.cli._logs import log_plain, log_text, logs_of, measured_logs
from mirage.cli._output import out_either, say
from mirage.cli._scores import feature_plain, feature_text
from mirage.cli._shell import app, end, example, fall_short, flag, option
from mirage.errors import MirageError, UnknownNameError

if TYPE_CHECKING:
    from mirage.dataset import MirageDataset
    from mirage.features import FeatureTable
    from mirage.models import Run
    from mirage.testing.feature_bounds import CheckedRun

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
            "Fall short (status 1) if the mean of a feature is lower, by its 90 % interval; may be "
            "repeated.",
            "--min",
        ),
    ] = None,
    cannot_tell: Annotated[
        int,
        option(
            "STATUS",
            "With --min: exit status if the interval holds the number; 0 passes.",
            min=0,
            max=125,
        ),
    ] = 2,
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

    Exit status with --min: 1 if the interval of a mean is below the number, 0 if it is not, and 2
    if it is on both sides, so that the queries are too few to tell.
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
    plain = [feature_plain(table) for table in tables]
    checks, reasons = _check_minimums(runs, tables, minimums, queries, allow_failed)
    for entry in plain:
        own = [check for check in checks if check.run.model == entry["model"]]
        if minimums:
            entry["minimums"] = list(map(_check_plain, own))
    out_either(text, plain, as_json)
    fall_short(reasons)
    unclear = [check for check in checks if check.result.verdict == "cannot tell"]
    for check in unclear:
        say(check.unclear_reason(), "inconclusive:", "yellow")
    if unclear:
        end(cannot_tell)


def _check_minimums(
    runs: Sequence[Run],
    tables: Sequence[FeatureTable],
    minimums: Mapping[str, float],
    queries: MirageDataset,
    allow_failed: int,
) -> tuple[list[CheckedRun], list[str]]:
    """Return the runs compared with each minimum, and why some of them fall short."""
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
    """Return what came of a minimum, for machines."""
    result = check.result
    return {
        "feature": result.feature,
        "minimum": result.bounds["ge"],
        "interval": result.interval,
        "level": result.level,
        "verdict": result.verdict,
    }


def _check_logs(dataset: Path | None, minimum: list[str] | None) -> None:
    if dataset is not None:
        raise MirageError("a log has its own questions; leave out --dataset")
    if minimum:
        raise MirageError("--min is for responses; `mirage drift` compares logs")
