"""Write rankings and grids as HTML files, and plot the figures of the papers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.report.grids import write_grid
    from mirage.report.plots import (
        plot_features,
        plot_fewer_judgments,
        plot_gains,
        plot_importances,
        plot_new_models,
        plot_retrieval,
    )
    from mirage.report.reviews import write_review

__all__ = [
    "plot_features",
    "plot_fewer_judgments",
    "plot_gains",
    "plot_importances",
    "plot_new_models",
    "plot_retrieval",
    "write_grid",
    "write_review",
]

_NAMES = {
    "mirage.report.grids": ("write_grid",),
    "mirage.report.plots": (
        "plot_features",
        "plot_fewer_judgments",
        "plot_gains",
        "plot_importances",
        "plot_new_models",
        "plot_retrieval",
    ),
    "mirage.report.reviews": ("write_review",),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
