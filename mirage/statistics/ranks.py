"""Ranks of logits, how sure they are, and how far two orders agree.

There is one rule for what is equal: logits that agree to :data:`DECIMALS` decimals, for those of
one fit differ by less through rounding alone. Ranks, their intervals, the confidence that one is
better and Kendall's tau all go by it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from mirage._base.arrays import Floats, Ints
from mirage.statistics.bootstrap import Interval, check_level

__all__ = [
    "DECIMALS",
    "confidences_by_draws",
    "confidences_by_t",
    "kendall_tau",
    "p_better_by_draws",
    "p_better_by_intervals",
    "p_better_by_t",
    "rank_intervals_by_confidence",
    "ranks",
    "t_intervals",
]

DECIMALS = 8
"""Logits that agree to so many decimals are equal."""

_NORMAL = 1.959964  # standard deviations from the middle of a 95 % interval to its ends


def ranks(logits: ArrayLike) -> Ints:
    """Ranks along the last axis, 1 for the largest logit; equal logits share the better rank."""
    rounded = np.round(np.asarray(logits, dtype=np.float64), DECIMALS)
    models = rounded.shape[-1]
    better = [
        models - np.searchsorted(np.sort(row), row, side="right")
        for row in rounded.reshape(-1, models)
    ]
    return np.asarray(better, dtype=np.intp).reshape(rounded.shape) + 1


def t_intervals(
    logits: Floats, covariance: Floats, degrees: float, *, level: float = 0.95
) -> Floats:
    """Lower and upper end for each logit, by Student's t: ``(models, 2)``."""
    from scipy.special import stdtrit

    check_level(level)
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0))
    reach = stdtrit(degrees, (1 + level) / 2) * deviation
    return np.stack([logits - reach, logits + reach], axis=1)


def rank_intervals_by_confidence(confidence: Floats, *, level: float = 0.95) -> Ints:
    """Best and worst rank of each model, from its differences with the others: ``(models, 2)``.

    A model's best rank counts the models that are surely better, its worst rank those that are
    not surely worse; sure is a confidence above ``(1 + level) / 2``. The rule is that of Mogstad,
    Romano, Shaikh & Wilhelm (2024), Inference for Ranks with Applications to Mobility across
    Neighbourhoods and Academic Achievement across Countries, Review of Economic Studies 91,
    476-518, without their allowance for many pairs; ``benchmarks/judged_ranking.py`` shows how
    often an interval holds the true rank.

    Args:
        confidence: ``[i, j]`` that model i is better than j, as :func:`confidences_by_t` gives;
            where it is NaN, nothing is sure.
        level: of confidence, as :func:`check_level` has it.
    """
    check_level(level)
    sure = confidence > (1 + level) / 2
    return np.stack([1 + sure.sum(axis=0), len(sure) - sure.sum(axis=1)], axis=1)


def confidences_by_draws(draws: Floats) -> Floats:
    """:func:`p_better_by_draws` of each column over each, ``(models, models)``."""
    columns = list(draws.T)
    return np.array([[p_better_by_draws(a, b) for b in columns] for a in columns])


def confidences_by_t(logits: Floats, covariance: Floats, degrees: float) -> Floats:
    """:func:`p_better_by_t` of each model over each, ``(models, models)``; the diagonal is 0.5."""
    own = np.diag(covariance)
    errors = np.sqrt(np.maximum(own[:, None] + own - 2 * covariance, 0))
    p = p_better_by_t(logits[:, None] - logits, errors, degrees)
    np.fill_diagonal(p, 0.5)
    return p


def p_better_by_draws(a: Floats, b: Floats) -> float:
    """Share of the draws in which ``a`` ranks before ``b``; equal ranks count half.

    Args:
        a: a model's logit in each draw.
        b: another's, in the same draws.
    """
    ahead = np.sign(np.round(a, DECIMALS) - np.round(b, DECIMALS))
    return float((ahead.mean() + 1) / 2)


def p_better_by_t(
    differences: Floats | float, errors: Floats | float, degrees: Floats | float
) -> Floats:
    """Confidence that each difference of logits is above 0: one-sided, by Student's t.

    ``errors`` are their standard errors; NaN without degrees of freedom, or where an argument is.
    """
    from scipy.special import stdtr

    exact = np.round(errors, DECIMALS) == 0
    by_t = stdtr(degrees, differences / np.where(exact, 1, errors))
    return np.array(np.where(exact, _certain(differences), by_t), dtype=np.float64)


def p_better_by_intervals(difference: float, a: Interval, b: Interval) -> float:
    """Confidence that a difference of logits is above 0, from the 95 % interval of each.

    The logits are taken as normal and independent, with a standard deviation of the interval's
    length / (2 * 1.96). ``a`` and ``b`` are lower and upper end for each; NaN where an argument is.
    """
    error = math.hypot(*((upper - lower) / (2 * _NORMAL) for lower, upper in (a, b)))
    if error == 0:
        return float(_certain(difference))
    return 0.5 * math.erfc(-difference / (error * math.sqrt(2)))


def _certain(differences: Floats | float) -> Floats:
    """1, 0, or 0.5 where two logits are equal, when nothing says that either may be another."""
    return np.asarray((np.sign(np.round(differences, DECIMALS)) + 1) / 2, dtype=np.float64)


def kendall_tau(values: ArrayLike, others: ArrayLike) -> Floats:
    """Kendall's tau-b of each row of ``values (..., models)`` with ``others (models,)``.

    Kendall (1945), The Treatment of Ties in Ranking Problems, Biometrika 33, 239-251. NaN where
    all are equal in one of the orders.
    """
    rounded = [np.round(np.asarray(x, dtype=np.float64), DECIMALS) for x in (values, others)]
    first, second = np.triu_indices(rounded[1].shape[-1], 1)
    order, wanted = (np.sign(x[..., first] - x[..., second]) for x in rounded)
    decided = np.count_nonzero(order, axis=-1) * np.count_nonzero(wanted)
    with np.errstate(invalid="ignore"):
        return np.asarray((order * wanted).sum(axis=-1) / np.sqrt(decided))
