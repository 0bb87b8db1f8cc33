"""The kinds of metrics of a grid: features of responses, retrieval measures, and resource use."""

from __future__ import annotations

import re

from mirage.features.registry import DEFINITIONS, canonical_name, facts
from mirage.grids.cells import COMPRESSION, RESOURCES

_MEASURE = re.compile(r"(P|R|AP|RR|nDCG|Success|Rprec|Bpref|ERR|RBP|infAP|SetP|SetR|SetF)\b.*")


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
