"""Read production logs for commands, and format their results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage.cli._inputs import LogReading, log_of
from mirage.cli._output import wrapped
from mirage.cli._scores import feature_plain, feature_text, table_plain

if TYPE_CHECKING:
    from mirage.features import FeatureSuite
    from mirage.monitoring.drifts import Clustered, Drift
    from mirage.monitoring.log_streams import MeasuredLog
    from mirage.monitoring.logs import Log
    from mirage.monitoring.traffic import LogMeasures
    from mirage.monitoring.untested import UntestedDocuments
    from mirage.monitoring.watches import Watch


def model_logs(language: str, files: dict[str, Path], reading: LogReading) -> list[Log]:
    """Return the logs in files, split by model, with all queries clustered by the same rule."""
    from mirage.monitoring.logs import regroup

    logs = [log_of(language, file, reading, name) for name, file in files.items()]
    return list(regroup([part for log in logs for part in log.by_model().values()]))


def measured_logs(
    logs: Iterable[Log], features: Sequence[str] | None, jobs: int
) -> list[LogMeasures]:
    """Return for each log the features that can be measured."""
    from mirage.features import FeatureSuite
    from mirage.monitoring.traffic import measure_log

    suite: FeatureSuite | None = FeatureSuite(features) if features else None
    return [measure_log(log.dataset, log.run, suite, n_jobs=jobs) for log in logs]


def log_text(log: Clustered, side: LogMeasures) -> str:
    """Return a table of the features of a log, with notes on their limits."""
    from mirage.monitoring.drifts import cautions

    return "\n".join([feature_text(side.table), *map(wrapped, cautions(log, side))])


def log_plain(side: LogMeasures) -> dict[str, Any]:
    """Return the features of a log as JSON data."""
    from mirage.monitoring.drifts import unmeasured

    return {**feature_plain(side.table), "not_measured": unmeasured(side)}


def streamed_plain(log: MeasuredLog) -> dict[str, Any]:
    """Return the features of a log whose values are in a file as JSON data."""
    from mirage.monitoring.drifts import unmeasured

    plain = table_plain(log.measures.table, log.missing)
    return {**plain, "not_measured": unmeasured(log.measures)}


def drift_plain(result: Drift) -> dict[str, Any]:
    """Return a comparison of logs as JSON data."""
    return {
        "before": result.before,
        "after": result.after,
        "queries": result.queries,
        "days": result.days,
        "clusters": result.clusters,
        "clustering": result.clustering,
        "verdict": result.verdict,
        "alpha": result.alpha,
        "margin": result.margin,
        "changes": [asdict(shift) for shift in result.shifts],
        "not_measured": dict(result.unmeasured),
    }


def untested_plain(result: UntestedDocuments) -> dict[str, Any]:
    """Return the documents that no test has as JSON data."""
    return {
        "log": result.log,
        "tests": result.tests,
        "documents": result.documents,
        "questions": result.questions,
        "questions_with_untested_documents_only": result.untested,
        "untested": [row._asdict() for row in result],
    }


def watch_plain(result: Watch) -> dict[str, Any]:
    """Return the trends of a log as JSON data."""
    return {
        "name": result.name,
        "periods": result.periods,
        "needed": result.needed,
        "alpha": result.alpha,
        "worse": [trend.feature for trend in result.fell],
        "trends": [trend._asdict() for trend in result.trends],
    }
