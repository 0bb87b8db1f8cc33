"""Statistical functions on arrays: agreement, classification, intervals and permutation tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.statistics.agreement import (
        cohen_kappa,
        fleiss_kappa,
        gwet_ac1,
        krippendorff_alpha,
    )
    from mirage.statistics.bounds import mean_bounds, upper_bounds
    from mirage.statistics.classification import Calibration, Threshold, calibration, roc_auc
    from mirage.statistics.item_tau import MeanTau, mean_tau
    from mirage.statistics.paired import PairedMean, paired_means
    from mirage.statistics.permutation import holm, permutation_p_values, single_step_p_values
    from mirage.statistics.prediction_powered import PoweredMean, powered_mean
    from mirage.statistics.two_sample import MeanDifference, mean_differences
    from mirage.statistics.variance import VarianceComponents, variance_components

__all__ = [
    "Calibration",
    "MeanDifference",
    "MeanTau",
    "PairedMean",
    "PoweredMean",
    "Threshold",
    "VarianceComponents",
    "calibration",
    "cohen_kappa",
    "fleiss_kappa",
    "gwet_ac1",
    "holm",
    "krippendorff_alpha",
    "mean_bounds",
    "mean_differences",
    "mean_tau",
    "paired_means",
    "permutation_p_values",
    "powered_mean",
    "roc_auc",
    "single_step_p_values",
    "upper_bounds",
    "variance_components",
]

__getattr__, __dir__ = lazy(__name__, __file__)
