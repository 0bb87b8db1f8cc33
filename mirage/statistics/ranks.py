"""Ranks of logits, their confidence, and the agreement of two orders.

Logits that agree to :data:`DECIMALS` decimals count as equal, because rounding errors alone can
cause smaller differences. Ranks, rank intervals, the confidence that one model is better, and
Kendall's tau all use this rule.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from mirage._base.arrays import Floats, Ints
from mirage.statistics.bootstrap import Interval, check_level

DECIMALS = 8
"""The number of decimals to which logits must agree to count as equal."""

_NORMAL = 1.959964  # half width of a 95 % interval in standard deviations


def ranks(logits: ArrayLike) -> Ints:
    """Return ranks along the last axis, starting at 1; equal logits share the better rank.

    Example:
        >>> ranks([0.3, 1.2, 0.3, -1.0]).tolist()
        [2, 1, 2, 4]
    """
    rounded = np.round(np.asarray(logits, dtype=np.float64), DECIMALS)
    models = rounded.shape[-1]
    better = [
        models - np.searchsorted(np.sort(row), row, side="right")
        for row in rounded.reshape(-1, models)
    ]
    return np.asarray(better, dtype=np.intp).reshape(rounded.shape) + 1


def t_intervals(
    logits: Floats, covariance: Floats, degrees: Floats | float, *, level: float = 0.95
) -> Floats:
    """Return Student's t confidence interval of each logit, of shape ``(models, 2)``.

    Args:
        logits: Logit of each model, of shape ``(models,)``.
        covariance: Covariance of the logits, of shape ``(models, models)``.
        degrees: Degrees of freedom of each logit, or of all logits.
        level: Confidence level.
    """
    from scipy.special import stdtrit

    check_level(level)
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0))
    reach = stdtrit(degrees, (1 + level) / 2) * deviation
    return np.stack([logits - reach, logits + reach], axis=1)


def confidences_by_draws(draws: Floats) -> Floats:
    """Return a matrix of confidences that one model is better than another, from draws of logits.

    Element ``[i, j]`` is the share of draws in which model i has a larger logit than model j; equal
    logits count half. ``draws`` has the shape ``(draws, models)``.
    """
    columns = list(draws.T)
    return np.array([[p_better_by_draws(a, b) for b in columns] for a in columns])


def confidences_by_t(logits: Floats, covariance: Floats, degrees: Floats | float) -> Floats:
    """Return a matrix of confidences that one model is better than another, by Student's t.

    Element ``[i, j]`` is the confidence that model i is better than model j. The diagonal is 0.5.

    Args:
        logits: Logit of each model, of shape ``(models,)``.
        covariance: Covariance of the logits, of shape ``(models, models)``.
        degrees: Degrees of freedom of each logit, or of all logits. A difference of two logits has
            the smaller number of the two.
    """
    variances = np.diag(covariance)
    by_model = np.broadcast_to(np.asarray(degrees, dtype=np.float64), variances.shape)
    errors = np.sqrt(np.maximum(variances[:, None] + variances - 2 * covariance, 0))
    smaller = np.minimum(by_model[:, None], by_model)
    p = p_better_by_t(logits[:, None] - logits, errors, smaller)
    np.fill_diagonal(p, 0.5)
    return p


def p_better_by_draws(a: Floats, b: Floats) -> float:
    """Return the share of draws in which model ``a`` has a larger logit than model ``b``.

    Each argument has the logits of one model, one per draw. Equal logits count half.
    """
    ahead = np.sign(np.round(a, DECIMALS) - np.round(b, DECIMALS))
    return float((ahead.mean() + 1) / 2)


def p_better_by_t(
    differences: Floats | float, errors: Floats | float, degrees: Floats | float
) -> Floats:
    """Return the one-sided confidence that each difference of logits is above 0.

    It is computed from Student's t distribution.

    Args:
        differences: The differences of logits.
        errors: Standard error of each difference. If it is 0, the difference is known exactly.
        degrees: Degrees of freedom of each standard error.

    Returns:
        The confidence, between 0 and 1. NaN if there are no degrees of freedom, or if an argument
        is NaN.
    """
    from scipy.special import stdtr

    exact = np.round(errors, DECIMALS) == 0
    by_t = stdtr(degrees, differences / np.where(exact, 1, errors))
    return np.array(np.where(exact, _exact_confidence(differences), by_t), dtype=np.float64)


def p_better_by_intervals(difference: float, a: Interval, b: Interval) -> float:
    """Return the confidence that a difference of logits is above 0, from their 95 % intervals.

    The logits are treated as normal and independent. The standard deviation of a logit is the
    length of its interval divided by ``2 * 1.96``.

    Args:
        difference: The first logit minus the second.
        a: Lower and upper end of the interval of the first logit.
        b: Lower and upper end of the interval of the second logit.

    Returns:
        The confidence, between 0 and 1; NaN if an argument is NaN.
    """
    error = math.hypot(*((upper - lower) / (2 * _NORMAL) for lower, upper in (a, b)))
    if error == 0:
        return float(_exact_confidence(difference))
    return 0.5 * math.erfc(-difference / (error * math.sqrt(2)))


def _exact_confidence(differences: Floats | float) -> Floats:
    """Return 1 for exactly known differences above 0, 0 for those below 0, and 0.5 for 0."""
    return np.asarray((np.sign(np.round(differences, DECIMALS)) + 1) / 2, dtype=np.float64)


def kendall_tau(values: ArrayLike, others: ArrayLike) -> Floats:
    """Return Kendall's tau-b between each row of ``values`` and ``others``.

    Tau is NaN if all values of the row, or all ``others``, are equal. Source: Kendall (1945), The
    Treatment of Ties in Ranking Problems, Biometrika 33, 239-251.

    Args:
        values: Values of shape ``(..., models)``; larger is better.
        others: Values of shape ``(models,)``; larger is better.

    Example:
        >>> float(kendall_tau([1, 2, 3, 4], [1, 2, 4, 3]).round(3))
        0.667
    """
    rounded = [np.round(np.asarray(x, dtype=np.float64), DECIMALS) for x in (values, others)]
    first, second = np.triu_indices(rounded[1].shape[-1], 1)
    order, wanted = (np.sign(x[..., first] - x[..., second]) for x in rounded)
    decided = np.count_nonzero(order, axis=-1) * np.count_nonzero(wanted)
    with np.errstate(invalid="ignore"):
        return np.asarray((order * wanted).sum(axis=-1) / np.sqrt(decided))
