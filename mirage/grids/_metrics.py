"""The kinds of metrics of a grid: features of responses, retrieval measures, and resource use."""

from __future__ import annotations

import re

from mirage.errors import MissingPackageError, UnknownNameError, nearest_name
from mirage.features.registry import DEFINITIONS, canonical_name, facts
from mirage.grids.cells import COMPRESSION, RESOURCES

_MEASURE = re.compile(r"(P|R|AP|RR|nDCG|Success|Rprec|Bpref|ERR|RBP|infAP|SetP|SetR|SetF)\b.*")

_COMMON = re.compile(r"((P|R|AP|RR|nDCG|Success)@[1-9]\d*)|AP|RR|nDCG|Rprec|Bpref")
"""Names of measures that are certainly valid, so that ir_measures need not be imported."""

_SIMILAR = 0.75
"""The similarity from which an unknown name is taken for a misspelt metric."""


def check_metric(metric: str) -> None:
    """Raise an error if there is no metric with this name.

    Raises:
        UnknownNameError: If there is no such metric; the message suggests the nearest name.
        SettingError: If a retrieval measure lacks its cutoff.
    """
    if not is_measure(metric) or _COMMON.fullmatch(metric):
        return
    from mirage.retrieval.evaluation import parse_measure

    ours = [*DEFINITIONS, *RESOURCES, COMPRESSION]
    try:
        parse_measure(metric)
    except UnknownNameError as error:
        raise UnknownNameError("metric", metric, [*error.known, *ours]) from None
    except MissingPackageError:
        # The package is missing, so it cannot be asked whether it has the measure. A grid without
        # the measure still has other results, so only a likely misspelling is an error.
        if nearest_name(metric, ours, _SIMILAR) is not None and not _MEASURE.fullmatch(metric):
            raise UnknownNameError("metric", metric, ours) from None


def cutoff_of(metric: str) -> int | None:
    """Return the number of passages that a retrieval measure reads: 5 for ``R@5``.

    The result is ``None`` if the measure reads the whole ranking, such as ``AP``, or if the metric
    is no retrieval measure.
    """
    match = re.search(r"@(\d+)$", metric) if is_measure(metric) else None
    return None if match is None else int(match[1])


def is_feature(metric: str) -> bool:
    """Return whether a metric is computed from responses (a feature of :mod:`mirage.features`)."""
    return canonical_name(metric).partition("@")[0] in DEFINITIONS


def is_measure(metric: str) -> bool:
    """Return whether a metric is computed from the ranking of passages, such as ``R@5``.

    Every name that is not a feature, a resource such as ``cost``, or the compression by a context
    processor is assumed to be a retrieval measure.
    """
    return metric not in (*RESOURCES, COMPRESSION) and not is_feature(metric)


def is_of_ranking(metric: str) -> bool:
    """Return whether a metric is a retrieval measure with a known name, such as ``R@5``.

    Cells with the same ranking of passages have the same value of such a metric.
    """
    return _MEASURE.fullmatch(metric) is not None and is_measure(metric)


def higher_is_better(metric: str) -> bool | None:
    """Return whether higher values of a metric are better; ``None`` if that is unknown.

    Example:
        >>> higher_is_better("R@5"), higher_is_better("cost"), higher_is_better("my_metric")
        (True, False, None)
    """
    if metric in RESOURCES:
        return False
    if is_feature(metric):
        direction = facts(metric).direction
        return {"higher": True, "lower": False}.get(direction)
    return True if _MEASURE.fullmatch(metric) else None
