"""Statistical functions on arrays: agreement, classification, intervals, tests and studies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.statistics.bounds import upper_bounds
    from mirage.statistics.classification import calibration
    from mirage.statistics.paired import paired_means
    from mirage.statistics.prediction_powered import powered_mean
    from mirage.statistics.studies import validate
    from mirage.statistics.two_sample import mean_differences
    from mirage.statistics.worlds import StudyDesign

__all__ = [
    "StudyDesign",
    "calibration",
    "mean_differences",
    "paired_means",
    "powered_mean",
    "upper_bounds",
    "validate",
]

_NAMES = {
    "mirage.statistics.bounds": ("upper_bounds",),
    "mirage.statistics.classification": ("calibration",),
    "mirage.statistics.paired": ("paired_means",),
    "mirage.statistics.prediction_powered": ("powered_mean",),
    "mirage.statistics.studies": ("validate",),
    "mirage.statistics.two_sample": ("mean_differences",),
    "mirage.statistics.worlds": ("StudyDesign",),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
