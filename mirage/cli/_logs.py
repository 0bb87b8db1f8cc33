"""Read production logs for commands, and format their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage.cli._inputs import LogReading, log_of
from mirage.cli._output import wrapped
from mirage.cli._scores import feature_plain, feature_text, table_plain

if TYPE_CHECKING:
    from mirage.features import FeatureSuite
    from mirage.monitoring.drifts import Clustered, Drift, Shift
    from mirage.monitoring.log_streams import MeasuredLog
    from mirage.monitoring.logs import Log
    from mirage.monitoring.traffic import LogMeasures
    from mirage.monitoring.untested import UntestedDocuments
    from mirage.monitoring.watches import Watch


def model_logs(language: str, files: dict[str, Path], reading: LogReading) -> list[Log]:
    """Read logs, split them by model, and cluster all their queries by one rule."""
    from mirage.monitoring.logs import regroup

    logs = [log_of(language, file, reading, name) for name, file in files.items()]
    return list(regroup([part for log in logs for part in log.by_model().values()]))


def measured_logs(
    logs: Iterable[Log], features: Sequence[str] | None, jobs: int
) -> list[LogMeasures]:
    """Compute features of each log, by default all for which the log has the data."""
    from mirage.features import FeatureSuite
    from mirage.monitoring.traffic import measure_log

    suite: FeatureSuite | None = FeatureSuite(features) if features else None
    return [measure_log(log.dataset, log.run, suite, n_jobs=jobs) for log in logs]


def log_text(log: Clustered, side: LogMeasures) -> str:
    """Return a table of a log's measures, with warnings such as "too few clusters".

    ``side`` has the measures of ``log``.
    """
    from mirage.monitoring.drifts import cautions

    return "\n".join([feature_text(side.table), *map(wrapped, cautions(log, side))])


def log_plain(side: LogMeasures) -> dict[str, Any]:
    """Return the measures of a log as JSON data."""
    from mirage.monitoring.drifts import unmeasured

    return {**feature_plain(side.table), "not_measured": unmeasured(side)}


def streamed_plain(log: MeasuredLog) -> dict[str, Any]:
    """Return, as JSON data, the feature means of a log whose values were written to a file."""
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
        "less_measured": [asdict(shift) for shift in result.less_measured],
        "not_measured": dict(result.unmeasured),
    }


def each_text(name: str, period: str, results: Mapping[str, Drift]) -> str:
    """Return a table of a log's periods, followed by the comparisons of the periods that differ.

    Args:
        name: Name of the log.
        period: ``day``, ``week`` or ``month``.
        results: The comparison of each period with all others, by period.
    """
    from mirage._base.tables import Table, parts, to_text

    table = Table(
        f"{name}: {len(results)} {period}s, each compared with the others",
        (period, "questions", "clusters", "result", "changed measures"),
        tuple(
            (key, str(result.queries[1]), str(result.clusters[1]), *_outcome(result))
            for key, result in results.items()
        ),
        tuple(bool(result.fell) for result in results.values()),
        tuple(_each_notes(period, list(results.values()))),
        name=0,
        texts=(3, 4),
    )
    overview = [to_text(part) for part in parts(table)]
    details = [str(r) for r in results.values() if _changes(r) or r.less_measured]
    return "\n\n".join([*overview, *details])


def _changes(result: Drift) -> list[Shift]:
    return [shift for shift in result.shifts if shift.changed]


def _outcome(result: Drift) -> tuple[str, str]:
    """Return the outcome of a comparison as a short text, and a text on the measures that changed.

    The second text names one measure and counts the others, as in ``"support and 2 more"``.
    """
    changes = _changes(result)
    if result.less_measured and not result.fell:
        return "fewer values", result.less_measured[0].feature
    if not changes:
        return "no intervals" if result.verdict == "inconclusive" else "no change", ""
    first = (result.fell or changes)[0].feature
    more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
    better = any(shift.worse is False for shift in changes)
    return "worse" if result.fell else "better" if better else "changed", first + more


def _each_notes(period: str, results: Sequence[Drift]) -> list[str]:
    from mirage.statistics.clusters import FEWEST_FOR_MEANS
    from mirage.statistics.serial import FEWEST_DAYS

    alpha = sum(result.alpha for result in results)
    notes = [f"false positive rate of all {period}s together: {100 * alpha:g} %"]
    if any(not result.comparable for result in results):
        notes.append(
            f"no intervals: a {period} needs at least {FEWEST_FOR_MEANS} clusters and "
            f"{FEWEST_DAYS} days"
        )
    if any(result.less_measured for result in results):
        notes.append(
            f"fewer values: significantly fewer questions of the {period} could be measured, so "
            "losses may be hidden; mirage logs features shows the reasons"
        )
    return notes


def untested_plain(result: UntestedDocuments) -> dict[str, Any]:
    """Return the documents that no test covers, as JSON data."""
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
        "queries": result.queries,
        "trends": [trend._asdict() for trend in result.trends],
        "less_measured": [trend._asdict() for trend in result.less_measured],
    }
