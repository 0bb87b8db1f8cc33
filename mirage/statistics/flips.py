"""Exact tests of how many units turned from right to wrong when none turned the other way."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.stats import binom

FEWEST_UNITS = 28
"""Units below which flips are not tested: the p-value of three flips would be above 0.047."""

MOST_UNITS = 100
"""Cap on the number of units in :func:`flip_p_value`: above it, p-values hardly change."""

REWORDED = 0.02
"""Share of right answers that features misread as wrong when the answers are reworded.

``python validation/truth/gate.py --part wording`` measures it.
"""

SHARED_LEVEL = 1.5
"""Factor on the p-values of a permutation test if flips are tested as well.

``python validation/truth/gate.py --part wording`` prints how often either test raises a false
alarm.
"""


@cache
def flip_p_value(units: int, worse: int) -> float:
    """Return the p-value of ``worse`` units that turned from right to wrong and none the other way.

    Each unit changes with the same unknown probability, for better or worse with equal chances. The
    p-value is the largest over that probability (Suissa & Shuster 1991, The 2 x 2 Matched-Pairs
    Trial: Exact Unconditional Design and Analysis, Biometrics 47, 361-372).

    Args:
        units: Number of queries, or clusters; larger numbers than :data:`MOST_UNITS` are capped.
        worse: Number of units that turned from right to wrong.

    Returns:
        The p-value; 1 if ``worse`` is not between 1 and ``units``.

    Example:
        >>> round(flip_p_value(30, 3), 3)
        0.047
    """
    units = min(units, MOST_UNITS)
    if not 0 < worse <= units:
        return 1.0
    # The maximum over the unknown probability is taken on a grid of 1,001 values.
    counts = np.arange(worse, units + 1)[:, None]
    chances = binom.pmf(counts, units, np.linspace(0.0, 1.0, 1001))
    return float((chances * 0.5**counts).sum(axis=0).max())


@cache
def base_rate_p_value(reworded: int, worse: int) -> float:
    """Return the probability that ``worse`` or more of ``reworded`` answers are misread as wrong.

    Example:
        >>> round(base_rate_p_value(40, 3), 3), round(base_rate_p_value(100, 3), 3)
        (0.046, 0.323)
    """
    return float(binom.sf(worse - 1, reworded, REWORDED))


def flips_p_value(units: int, worse: int, better: int, reworded: int) -> float:
    """Return the p-value of flips: the larger one of the two tests of this module.

    If any unit turned from wrong to right, flips add no evidence to that of a permutation test.

    Args:
        units: Number of queries, or clusters.
        worse: Number of units that turned from right to wrong.
        better: Number of units that turned from wrong to right.
        reworded: Number of units with an answer that changed.

    Returns:
        The p-value; 1 below :data:`FEWEST_UNITS` units, or if a unit turned from wrong to right.

    Example:
        >>> round(flips_p_value(100, 3, 0, reworded=3), 3)
        0.045
        >>> round(flips_p_value(100, 3, 0, reworded=100), 3)
        0.323
    """
    if units < FEWEST_UNITS or better:
        return 1.0
    return max(flip_p_value(units, worse), base_rate_p_value(reworded, worse))
