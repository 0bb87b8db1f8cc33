"""Executors, which map a function over items in one thread, in several threads or on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.executors.base import Executor, LocalExecutor
    from mirage.executors.ray import ray_executor

__all__ = [
    "Executor",
    "LocalExecutor",
    "ray_executor",
]

_NAMES = {
    "mirage.executors.base": ("Executor", "LocalExecutor"),
    "mirage.executors.ray": ("ray_executor",),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
