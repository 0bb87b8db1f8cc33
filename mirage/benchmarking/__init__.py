"""Grids of RAG pipelines: run every combination of settings and read one table of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.benchmarking.cells import AXES, Cell, Score
    from mirage.benchmarking.comparisons import CellComparisons, CellDifference
    from mirage.benchmarking.config import GridConfig, read_config
    from mirage.benchmarking.effects import (
        AxisEffect,
        ComponentEffects,
        SettingMean,
        component_effects,
    )
    from mirage.benchmarking.grid import Grid
    from mirage.benchmarking.pivots import Pivot
    from mirage.benchmarking.plan import Plan, PlanRow
    from mirage.benchmarking.store import STEPS, Node, ResultStore
    from mirage.benchmarking.tables import ResultTable

__all__ = [
    "AXES",
    "STEPS",
    "AxisEffect",
    "Cell",
    "CellComparisons",
    "CellDifference",
    "ComponentEffects",
    "Grid",
    "GridConfig",
    "Node",
    "Pivot",
    "Plan",
    "PlanRow",
    "ResultStore",
    "ResultTable",
    "Score",
    "SettingMean",
    "component_effects",
    "read_config",
]

__getattr__, __dir__ = lazy(__name__, __file__)
