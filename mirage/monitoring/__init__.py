"""Monitoring of a system over time: production logs, drift, and the history of a model's runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.monitoring.drifts import drift
    from mirage.monitoring.history import Commit, History
    from mirage.monitoring.series import compare_commits
    from mirage.monitoring.watches import watch

__all__ = [
    "Commit",
    "History",
    "compare_commits",
    "drift",
    "watch",
]

_NAMES = {
    "mirage.monitoring.drifts": ("drift",),
    "mirage.monitoring.history": ("Commit", "History"),
    "mirage.monitoring.series": ("compare_commits",),
    "mirage.monitoring.watches": ("watch",),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
