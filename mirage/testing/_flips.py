"""Answers that turned from right to wrong when nothing else changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy.stats import binom

from mirage._base.arrays import Floats, Ints
from mirage.statistics.clusters import cluster_sums
from mirage.testing._lost_facts import FACTS

__all__ = ["FEWEST_UNITS", "flip_p_value", "flip_p_values"]

FEWEST_UNITS = 28
"""Units below which the permutation test alone decides.

From here on a false alarm by either test has a probability of at most 0.050 when few units change;
with 20 units it would be 0.051, with 13 units 0.053.
"""

_FLIPPED = 0.5
"""Share of a feature's range that a query has to lose to count as turned from right to wrong."""


def flip_p_values(losses: Floats, codes: Ints, names: Sequence[str]) -> Floats:
    """Return the p-value of the answers that turned from right to wrong, one per feature.

    It is 1 unless every unit that changed in any feature lost a fact, and none gained anything.
    There the permutation test is conservative: given that three answers changed, it is
    ``0.5 ** 3 / 2`` that all are worse, although few runs change exactly three answers.

    Args:
        losses: Loss of each query as a share of a feature's range, beyond what another wording
            changes, ``(queries, features)``; NaN or infinite where there is none.
        codes: Cluster of each query.
        names: Names of the features.
    """
    p = np.ones(len(names))
    losses = np.where(np.isfinite(losses), losses, 0.0)
    columns = np.array([name in FACTS for name in names], dtype=bool)
    changed = np.asarray(cluster_sums(codes, np.abs(losses)).any(axis=1))
    flips = losses * (losses >= _FLIPPED) * columns
    flipped = np.asarray(cluster_sums(codes, flips).any(axis=1))
    if len(changed) < FEWEST_UNITS or not flipped.any():
        return p
    if (losses[:, columns] < 0).any() or (changed != flipped).any():
        return p
    least = flip_p_value(len(changed), int(flipped.sum()))
    p[flips.any(axis=0)] = least
    return p


@cache
def flip_p_value(units: int, worse: int) -> float:
    """Return how often at least so many units change, and all of them for the worse.

    Each unit changes with the same unknown probability, for better or worse with equal chances;
    the p-value is the largest over that probability (Suissa & Shuster 1991, The 2 x 2 Matched-Pairs
    Trial: Exact Unconditional Design and Analysis, Biometrics 47, 361-372).

    >>> round(flip_p_value(30, 3), 3)
    0.047
    """
    shares = np.linspace(0.0, 1.0, 1001)
    counts = np.arange(worse, units + 1)[:, None]
    chances = binom.pmf(counts, units, shares) * 0.5**counts
    return float(chances.sum(axis=0).max())
