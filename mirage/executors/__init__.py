"""Executors, which map a function over items: in this thread, in several, or on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.executors.base import Executor, LocalExecutor, Once, in_order
    from mirage.executors.ray import RayExecutor, ray_executor

__all__ = ["Executor", "LocalExecutor", "Once", "RayExecutor", "in_order", "ray_executor"]

__getattr__, __dir__ = lazy(__name__, __file__)
