"""Exact tests of how many units turned from right to wrong when none turned the other way."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.stats import binom

__all__ = [
    "FEWEST_UNITS",
    "MOST_UNITS",
    "REWORDED",
    "SHARED_LEVEL",
    "base_rate_p_value",
    "flip_p_value",
    "flips_p_value",
]

FEWEST_UNITS = 28
"""Units below which no flips are counted: three of them would have a p-value above 0.047."""

MOST_UNITS = 100
"""Units above which :func:`flip_p_value` counts no more: from here on it hardly changes."""

REWORDED = 0.02
"""Share of right answers that features read as wrong when they are put in other words.

``python benchmarks/gate.py --part wording`` measures it.
"""

SHARED_LEVEL = 1.5
"""Factor of a permutation test's p-values if flips are counted beside it.

The same command prints how often either test raises a false alarm.
"""


@cache
def flip_p_value(units: int, worse: int) -> float:
    """Return how often at least so many units change, and all of them for the worse.

    Each unit changes with the same unknown probability, for better or worse with equal chances;
    the p-value is the largest over that probability (Suissa & Shuster 1991, The 2 x 2 Matched-Pairs
    Trial: Exact Unconditional Design and Analysis, Biometrics 47, 361-372).

    Args:
        units: Number of queries, or clusters; above :data:`MOST_UNITS` it counts no more.
        worse: Number of units that turned from right to wrong.

    >>> round(flip_p_value(30, 3), 3)
    0.047
    """
    units = min(units, MOST_UNITS)
    if not 0 < worse <= units:
        return 1.0
    counts = np.arange(worse, units + 1)[:, None]
    chances = binom.pmf(counts, units, np.linspace(0.0, 1.0, 1001))
    return float((chances * 0.5**counts).sum(axis=0).max())


@cache
def base_rate_p_value(reworded: int, worse: int) -> float:
    """Return how often at least so many answers are misread because they are reworded.

    Args:
        reworded: Number of answers that changed.
        worse: Number of these that seem to have turned from right to wrong.

    >>> round(base_rate_p_value(40, 3), 3), round(base_rate_p_value(100, 3), 3)
    (0.046, 0.323)
    """
    return float(binom.sf(worse - 1, reworded, REWORDED))


def flips_p_value(units: int, worse: int, better: int, reworded: int) -> float:
    """Return the p-value of flips: the larger one of both tests of this module.

    If any unit turned from wrong to right, flips are no evidence beyond a permutation test's.

    Args:
        units: Number of queries, or clusters.
        worse: Number of units that turned from right to wrong.
        better: Number of units that turned from wrong to right.
        reworded: Number of units with an answer that changed.

    Returns:
        The p-value; 1 below :data:`FEWEST_UNITS` units, or if a unit turned from wrong to right.

    >>> round(flips_p_value(100, 3, 0, reworded=3), 3)
    0.045
    >>> round(flips_p_value(100, 3, 0, reworded=100), 3)
    0.323
    """
    if units < FEWEST_UNITS or better:
        return 1.0
    return max(flip_p_value(units, worse), base_rate_p_value(reworded, worse))
