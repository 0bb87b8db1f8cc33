"""Exact tests of how many units turned from right to wrong, if none turned the other way.

A unit is a query or a cluster of queries. A flip is the change of a unit from right to wrong.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.stats import binom

FEWEST_UNITS = 28
"""The smallest number of units for a test of flips.

With fewer units, the p-value of three flips would be above 0.047.
"""

MOST_UNITS = 100
"""The largest number of units that :func:`flip_p_value` uses; with more, p-values hardly change."""

REWORDED = 0.02
"""The share of right answers that features mistake for wrong ones if the answers are reworded.

``python validation/truth/gate.py --part wording`` measures it.
"""

SHARED_LEVEL = 1.5
"""Factor by which the p-values of a permutation test are multiplied if flips are tested as well.

``python validation/truth/gate.py --part wording`` prints how often either test raises a false
alarm.
"""


@cache
def flip_p_value(units: int, worse: int) -> float:
    """Return the exact p-value of a number of flips, if no unit turned from wrong to right.

    A flip is a query or cluster that turned from right to wrong.

    Under the null hypothesis, each unit changes with the same unknown probability, and changes for
    better and for worse are equally likely. The p-value is the maximum over all values of the
    unknown probability (Suissa & Shuster 1991, The 2 x 2 Matched-Pairs Trial: Exact Unconditional
    Design and Analysis, Biometrics 47, 361-372).

    Args:
        units: Number of queries or clusters. If it is above :data:`MOST_UNITS`, the p-value is that
            for :data:`MOST_UNITS`.
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
    """Return the p-value for the hypothesis that all answers counted as wrong are still right.

    A feature sometimes counts a right answer as wrong after it was reworded. The probability of
    this error is assumed to be :data:`REWORDED` for each answer.

    Args:
        reworded: Number of right answers that were reworded.
        worse: Number of reworded answers that the feature counts as wrong.

    Example:
        >>> round(base_rate_p_value(40, 3), 3), round(base_rate_p_value(100, 3), 3)
        (0.046, 0.323)
    """
    return float(binom.sf(worse - 1, reworded, REWORDED))


def flips_p_value(units: int, worse: int, better: int, reworded: int) -> float:
    """Return the p-value of the number of units that turned from right to wrong.

    It is the larger of two p-values. :func:`flip_p_value` allows for chance, and
    :func:`base_rate_p_value` allows for right answers that count as wrong after they were reworded.
    If any unit turned from wrong to right, the result is 1. The regression test
    (:func:`mirage.testing.assert_no_regression`) then depends only on its permutation test
    (:func:`mirage.statistics.permutation.single_step_p_values`).

    Args:
        units: Number of queries, or of clusters.
        worse: Number of units that turned from right to wrong.
        better: Number of units that turned from wrong to right.
        reworded: Number of units with an answer that changed.

    Returns:
        The p-value. It is 1 if there are fewer than :data:`FEWEST_UNITS` units, or if a unit turned
        from wrong to right.

    Example:
        >>> round(flips_p_value(100, 3, 0, reworded=3), 3)
        0.045
        >>> round(flips_p_value(100, 3, 0, reworded=100), 3)
        0.323
    """
    if units < FEWEST_UNITS or better:
        return 1.0
    return max(flip_p_value(units, worse), base_rate_p_value(reworded, worse))
