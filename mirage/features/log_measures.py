"""The direction and range of the measures of production logs that are not features."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mirage.features.base import Facts

TRAFFIC: Mapping[str, Facts] = MappingProxyType(
    {
        "failed": Facts("lower", 0, 1),
        "empty_answer": Facts("lower", 0, 1),
        "abstains": Facts("none", 0, 1),
        "cites": Facts("none", 0, 1),
        "question_carried": Facts("higher", 0, 1),
        "passages_shown": Facts("none", 0),
        "question_length": Facts("none", 0),
        "other_language": Facts("none", 0, 1),
    }
)
"""The direction and range of each column of :func:`mirage.monitoring.traffic.traffic`, by name."""

NEW_WORDS: Mapping[str, Facts] = MappingProxyType({"new_words": Facts("none", 0, 1)})
"""The same for the column of :func:`mirage.monitoring.traffic.new_words`."""
