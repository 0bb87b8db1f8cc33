"""Write rankings, grids and histories as HTML files, and plot the figures of the papers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.report.fonts import MissingFontWarning
    from mirage.report.grids import render_grid, write_grid
    from mirage.report.histories import (
        Moment,
        Point,
        Timeline,
        render_history,
        write_history,
    )
    from mirage.report.judges import measure_judges
    from mirage.report.page import render, write
    from mirage.report.plots import (
        plot_features,
        plot_fewer_judgments,
        plot_gains,
        plot_importances,
        plot_new_models,
        plot_ranks,
        plot_retrieval,
    )
    from mirage.report.reviews import render_review, write_review

__all__ = [
    "MissingFontWarning",
    "Moment",
    "Point",
    "Timeline",
    "measure_judges",
    "plot_features",
    "plot_fewer_judgments",
    "plot_gains",
    "plot_importances",
    "plot_new_models",
    "plot_ranks",
    "plot_retrieval",
    "render",
    "render_grid",
    "render_history",
    "render_review",
    "write",
    "write_grid",
    "write_history",
    "write_review",
]

__getattr__, __dir__ = lazy(__name__, __file__)
