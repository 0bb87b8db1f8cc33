"""What commands say of production logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage.cli._inputs import is_log, log_fields, log_of
from mirage.cli._output import wrapped
from mirage.cli._scores import feature_plain, feature_text
from mirage.errors import MirageError

if TYPE_CHECKING:
    from mirage.features import FeatureSuite
    from mirage.features.traffic import Measured
    from mirage.sources.logs import Log
    from mirage.testing import Drift

__all__ = ["NO_PLACE", "drift_plain", "log_plain", "log_text", "logs_of", "measured_logs"]

NO_PLACE = (
    "a log has no place on a board: nothing in it says which passages answer, and without that a "
    "quotation of a passage that does not answer would rank as high as one of a passage that does"
)


def logs_of(
    language: str,
    files: Mapping[str, Path],
    fields: list[str] | None,
    cluster: str | None = None,
) -> list[Log] | None:
    """Return the logs in files by name, one per model, all clustered by one rule.

    Return ``None`` if these are files of responses.
    """
    given = log_fields(fields)
    logged = {name: is_log(file, given) for name, file in files.items()}
    if not any(logged.values()):
        return None
    for name, is_one in logged.items():
        if not is_one:
            raise MirageError(
                f"{files[name]}: has no question in its first line, as a log has; give logs, or "
                "responses"
            )
    from mirage.sources.logs import regroup

    given = log_fields(fields, cluster)
    read = [log_of(language, file, given, name) for name, file in files.items()]
    return list(regroup([part for log in read for part in log.by_model().values()]))


def measured_logs(logs: Iterable[Log], features: Sequence[str] | None, jobs: int) -> list[Measured]:
    """What can be measured of each."""
    from mirage.features import FeatureSuite
    from mirage.features.traffic import measured

    suite: FeatureSuite | None = FeatureSuite(features) if features else None
    return [measured(log.dataset, log.run, suite, n_jobs=jobs) for log in logs]


def log_text(log: Log, side: Measured, per_query: bool = False) -> str:
    """Return a table of what was measured, with notes on what limits it."""
    from mirage.testing.drifts import cautions

    return "\n".join([feature_text(side.table, per_query), *map(wrapped, cautions(log, side))])


def log_plain(side: Measured) -> dict[str, Any]:
    """The same for machines."""
    from mirage.testing.drifts import unmeasured

    return {**feature_plain(side.table), "not_measured": unmeasured(side)}


def drift_plain(result: Drift) -> dict[str, Any]:
    """A comparison for machines."""
    return {
        "before": result.before,
        "after": result.after,
        "queries": result.queries,
        "clusters": result.clusters,
        "clustering": result.clustering,
        "verdict": result.verdict,
        "alpha": result.alpha,
        "margin": result.margin,
        "changes": [shift._asdict() for shift in result.shifts],
        "not_measured": dict(result.unmeasured),
    }
