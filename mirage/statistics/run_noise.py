"""Noise between runs that one system made at different times.

A system that nobody changed can be better on one day than on another: a hosted model is updated, or
runs on other hardware. All queries of a run share such noise, so more queries or repeats do not
reduce it. Several runs of an unchanged system (A/A runs) measure it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import chdtri, ndtr, ndtri

from mirage._base.arrays import Floats, Ints
from mirage.statistics.clusters import cluster_sums

FEWEST_RUNS = 3
"""The smallest number of runs from which the noise between runs is estimated."""

_DRAWS = 200  # quantiles of the unknown variance
_STEPS = 50  # halvings of the interval in which a bound is searched


class RunNoise(NamedTuple):
    """The noise between the runs of a baseline, which is a system that nobody changed.

    Attributes:
        runs: Number of runs.
        between: Sample variance of the means of the runs, one per feature.
        within: The part of ``between`` that would also occur without noise between runs, because
            single answers vary.
    """

    runs: int
    between: Floats
    within: Floats

    def widen_p_values(self, p_values: Floats, means: Floats, features: Floats | int = 1) -> Floats:
        """Return p-values that allow for the noise between runs.

        A p-value and the mean that it tests imply a standard error, if the mean is normally
        distributed. Possible variances between runs (:meth:`_variances`) are added to the square of
        this standard error. The result is the mean of the p-values with these larger errors.

        Args:
            p_values: One-sided p-values without noise between runs.
            means: The means that are tested against 0.
            features: Number of features for which the p-values were corrected.
        """
        # Noise is independent between features in the worst case, so the correction for their
        # number is undone before and repeated after the noise is added.
        single = p_values / features
        apply = (single < 0.5) & (means > 0) & (self.between > 0)
        score = -ndtri(np.where(apply, np.maximum(single, 1e-12), 0.25))
        error = np.where(apply, means / score, 1.0)
        widened = ndtr(-means / np.sqrt(error**2 + self._variances())).mean(axis=0) * features
        return np.where(apply, np.clip(widened, p_values, 1.0), p_values)

    def widen_bounds(self, bounds: Floats, means: Floats, width: Floats, alpha: float) -> Floats:
        """Return upper bounds that allow for the noise between runs.

        Args:
            bounds: Upper bounds without noise between runs, as shares of ``width``; infinite if
                there is no bound.
            means: The means to which the bounds belong, as shares of ``width``.
            width: Width of the range of each feature, in the unit of the feature.
            alpha: Error rate of each bound: the probability that the mean is above it.
        """
        apply = np.isfinite(bounds) & (self.between > 0)
        if alpha >= 0.5 or not apply.any():
            return bounds
        distance = np.subtract(bounds, means, out=np.ones_like(bounds), where=apply)
        variances = (distance / ndtri(alpha)) ** 2 + self._variances() / width**2
        low, high = distance, np.sqrt(variances.max(axis=0)) * -ndtri(alpha)
        for _ in range(_STEPS):
            middle = (low + high) / 2
            is_enough = ndtr(-middle / np.sqrt(variances)).mean(axis=0) <= alpha
            low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
        return np.where(apply, np.minimum(means + high, 1.0), bounds)

    def _variances(self) -> Floats:
        """Return, for each feature, possible variances of the difference of a run and the baseline.

        The first axis has the possible variances.

        The sample variance of ``runs`` normal means is a multiple of a chi-squared deviate with
        ``runs - 1`` degrees of freedom. Dividing the observed variance by quantiles of that deviate
        gives a sample of the variances that are compatible with it (generalized inference, Tsui &
        Weerahandi 1989, Journal of the American Statistical Association 84, 602-607). The variance
        of the difference between one run and the mean of ``runs`` runs is ``1 + 1 / runs`` times
        the variance of one run.
        """
        degrees = self.runs - 1
        deviates = chdtri(degrees, (np.arange(_DRAWS) + 0.5) / _DRAWS)
        deviates = deviates.reshape(-1, *[1] * self.between.ndim)
        possible = degrees * self.between / deviates - self.within
        return np.asarray((1 + 1 / self.runs) * possible.clip(0.0))


def run_noise(repeats: Floats, codes: Ints, runs: int) -> RunNoise:
    """Estimate the noise between runs by two-way analysis of variance of queries and runs.

    Args:
        repeats: Values of all repeats of all runs, of shape ``(runs * repeats per run, queries,
            features)``. The repeats of the first run come first. A missing value is NaN.
        codes: Cluster of each query.
        runs: Number of runs, at least 2.

    Example:
        >>> import numpy as np
        >>> values = np.array([0.2, 0.3, 0.4])[:, None, None] + np.zeros((3, 10, 1))
        >>> run_noise(values, np.arange(10), 3).between.round(3)
        array([0.01])
    """
    each = repeats.reshape(runs, -1, *repeats.shape[1:])
    present = ~np.isnan(each)
    counts = present.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = np.where(present, each, 0.0).sum(axis=1) / counts
    complete = ~np.isnan(values).any(axis=0)
    # A query without a value in one of the runs counts as a query without noise.
    centred = np.where(complete, values - values.mean(axis=0), 0.0)
    queries = np.maximum(complete.sum(axis=0), 1)
    means = centred.sum(axis=1) / queries
    residuals = np.where(complete, centred - means[:, None], 0.0)
    sums = np.stack([cluster_sums(codes, residual) for residual in residuals])
    clusters = max(sums.shape[1], 2)
    within = np.square(sums).sum(axis=(0, 1)) * clusters / (clusters - 1) / (runs - 1) / queries**2
    return RunNoise(runs, np.square(means).sum(axis=0) / (runs - 1), within)
