"""Confidence intervals of Kendall's tau on held-out models."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, check_level

FEWEST_MODELS = 8
"""The smallest number of models for an interval."""


def held_out_tau_interval(
    models: Ints, predicted: Floats, actual: Floats, *, level: float = 0.95
) -> Interval:
    """Return a confidence interval for the mean of Kendall's tau over several held-out splits.

    Each split holds out some of the models, and tau compares the predicted and the true order of
    the held-out models. Tau is ``2 p - 1`` for the share ``p`` of pairs of held-out models in the
    right order; ties count half. The variance of the share is estimated by the jackknife, which
    leaves out all pairs of one model at a time (Efron & Stein 1981, The Jackknife Estimate of
    Variance, Annals of Statistics 9, 586-596). It is at least the variance of a share of ``n``
    independent pairs, for ``n`` models. The interval is a score interval (Wilson 1927, Journal of
    the American Statistical Association 22, 209-212) with Student's t.
    ``validation/coverage/held_out_tau.py`` prints the coverage.

    Args:
        models: Integer that identifies each held-out model, of shape ``(splits, held out)``.
        predicted: Predicted values of these models, in the same shape.
        actual: True values of these models, in the same shape.
        level: Confidence level of the interval.

    Returns:
        The interval; NaN with fewer than :data:`FEWEST_MODELS` models, or with one model per split.

    Example:
        >>> models = np.array(list(combinations(range(10), 2)))
        >>> low, high = held_out_tau_interval(models, models, models)
        >>> round(low, 2), round(high, 2)
        (0.44, 1.0)
    """
    from scipy.special import ndtri, stdtrit

    check_level(level)
    number, pairs = len(np.unique(models)), list(combinations(range(models.shape[1]), 2))
    if number < FEWEST_MODELS or not pairs:
        return NO_INTERVAL
    a, b = (list(column) for column in zip(*pairs, strict=True))
    order = np.sign(predicted[:, a] - predicted[:, b]) * np.sign(actual[:, a] - actual[:, b])
    right = (order.ravel() + 1) / 2
    code = np.unique(models, return_inverse=True)[1].reshape(models.shape)
    first, second = code[:, a].ravel(), code[:, b].ravel()
    pairs_of_model, right_of_model = (
        np.bincount(first, weights, number) + np.bincount(second, weights, number)
        for weights in (np.ones_like(right), right)
    )
    share = float(right.mean())
    without = (right.sum() - right_of_model) / (len(right) - pairs_of_model)
    variance = (number - 1) / number * float(np.square(without - without.mean()).sum())
    most, tail = share * (1 - share), (1 + level) / 2
    spread = variance / most if most > 1e-12 else 0.0
    square = max(stdtrit(number - 1, tail) ** 2 * spread, ndtri(tail) ** 2 / number)
    centre, root = 2 * share + square, np.sqrt(square**2 + 4 * square * most)
    low, high = ((centre + sign * root) / (1 + square) - 1 for sign in (-1, 1))
    return max(float(low), -1.0), min(float(high), 1.0)
