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
    "kendall_tau",
    "p_better_by_draws",
    "p_better_by_intervals",
    "p_better_by_t",
    "rank_intervals",
    "ranks",
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


def rank_intervals(draws: ArrayLike, *, level: float = 0.95) -> Ints:
    """Percentiles of each model's rank, best and worst, rounded outwards: ``(models, 2)``.

    Args:
        draws: logits, ``(draws, models)``.
        level: share of the draws that an interval holds.

    Raises:
        SettingError: ``level`` is not between 0 and 1.
    """
    check_level(level)
    best, worst = np.quantile(ranks(draws), [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.stack([np.floor(best), np.ceil(worst)], axis=1).astype(np.intp)


def p_better_by_draws(a: Floats, b: Floats) -> float:
    """Share of the draws in which ``a`` ranks before ``b``; equal ranks count half.

    Args:
        a: a model's logit in each draw.
        b: another's, in the same draws.
    """
    ahead = np.sign(np.round(a, DECIMALS) - np.round(b, DECIMALS))
    return float((ahead.mean() + 1) / 2)


def p_better_by_t(difference: float, error: float, degrees: float) -> float:
    """Confidence that a difference of logits is above 0: one-sided, by Student's t.

    Args:
        difference: of the two logits.
        error: its standard error.
        degrees: of freedom.

    Returns:
        The confidence; NaN without degrees of freedom, or where an argument is NaN.
    """
    from scipy.special import stdtr

    if round(error, DECIMALS) == 0:
        return _certain(difference)
    return float(stdtr(degrees, difference / error))


def p_better_by_intervals(difference: float, a: Interval, b: Interval) -> float:
    """Confidence that a difference of logits is above 0, from the 95 % interval of each.

    The logits are taken as normal and independent, with a standard deviation of the interval's
    length / (2 * 1.96).

    Args:
        difference: of the two logits.
        a: lower and upper end for one.
        b: for the other.

    Returns:
        The confidence; NaN where an argument is NaN.
    """
    error = math.hypot(*((upper - lower) / (2 * _NORMAL) for lower, upper in (a, b)))
    if error == 0:
        return _certain(difference)
    return 0.5 * math.erfc(-difference / (error * math.sqrt(2)))


def _certain(difference: float) -> float:
    """1, 0, or 0.5 where two logits are equal, when nothing says that either may be another."""
    return float((np.sign(round(difference, DECIMALS)) + 1) / 2)


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
