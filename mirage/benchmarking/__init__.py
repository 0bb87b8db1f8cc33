"""Grids of pipelines: run once, never twice, and read as one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.benchmarking.cells import AXES, Cell, Score
    from mirage.benchmarking.comparisons import CellComparisons, CellDifference
    from mirage.benchmarking.pivots import Pivot
    from mirage.benchmarking.tables import ResultTable

__all__ = ["AXES", "Cell", "CellComparisons", "CellDifference", "Pivot", "ResultTable", "Score"]

__getattr__, __dir__ = lazy(__name__, __file__)
