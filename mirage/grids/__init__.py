"""Grids of RAG pipelines: run every combination of settings, and get one table of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.grids.cells import Cell
    from mirage.grids.effects import component_effects
    from mirage.grids.grid import Grid
    from mirage.grids.tables import ResultTable

__all__ = [
    "Cell",
    "Grid",
    "ResultTable",
    "component_effects",
]

_NAMES = {
    "mirage.grids.cells": ("Cell",),
    "mirage.grids.effects": ("component_effects",),
    "mirage.grids.grid": ("Grid",),
    "mirage.grids.tables": ("ResultTable",),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
