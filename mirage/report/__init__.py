"""The report: a ranking as one HTML file, and the paper's figures as plots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.report.fonts import MissingFontWarning
    from mirage.report.judges import measure_judges
    from mirage.report.page import render, write
    from mirage.report.plots import (
        plot_features,
        plot_fewer_judgments,
        plot_importances,
        plot_new_models,
        plot_ranks,
    )

__all__ = [
    "MissingFontWarning",
    "measure_judges",
    "plot_features",
    "plot_fewer_judgments",
    "plot_importances",
    "plot_new_models",
    "plot_ranks",
    "render",
    "write",
]

__getattr__, __dir__ = lazy(__name__, __file__)
