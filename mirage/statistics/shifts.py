"""An alarm for a judge that is asked about the same items again in every run.

The null hypothesis is that the judge has not changed: all its verdicts on one item, in all runs,
are independent draws from one distribution, which may differ between items. No assumption is made
about these distributions. ``validation/coverage/judge_drift.py`` prints false alarm rates and
power.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats, Ints

__all__ = ["PERMUTATIONS", "ShiftEvidence", "shift_evidence"]

PERMUTATIONS = 10_000
"""Number of random permutations behind each p-value."""


class ShiftEvidence(NamedTuple):
    """The evidence that the verdicts have shifted; both arrays have one element per run.

    Attributes:
        evidence: The e-value after each run: 1 for the first run. If the judge has not changed, the
            probability that it ever reaches ``1 / alpha`` is at most ``alpha``, so its inverse is a
            p-value at any time.
        start: Position of the run at which the shift most likely began.
    """

    evidence: Floats
    start: Ints


def shift_evidence(
    counts: Sequence[Ints], *, permutations: int = PERMUTATIONS, seed: int = 0
) -> ShiftEvidence:
    """Return, for each run, the evidence so far that a judge's verdicts have shifted.

    Each run is compared with all earlier ones by two permutation tests. Verdicts on one item are
    permuted between the run and the earlier runs. One statistic is the sum over items of the
    squared differences between the shares of each verdict, which detects changes in any direction.
    The other is the squared sum of the differences, which detects small changes in a common
    direction. Ties are broken at random, so the p-values of successive runs are independent and
    uniform if the judge has not changed (Vovk, Gammerman & Shafer 2005, Algorithmic Learning in a
    Random World, theorem 8.2). Each p-value becomes an e-value (Vovk & Wang 2021, E-values:
    Calibration, Combination and Applications, Annals of Statistics 49, equation 2). For each
    possible start of a shift, the e-values since then are multiplied, and the products are averaged
    with fixed weights, as in :func:`mirage.statistics.alarms.rise_evidence` (Shin, Ramdas & Rinaldo
    2024, E-detectors, New England Journal of Statistics in Data Science 2). By Ville's inequality
    the average reaches ``1 / alpha`` with a probability of at most ``alpha``.

    Args:
        counts: For each run, how often each item got each verdict, ``(items, verdicts)``. The
            number of verdicts may differ between runs and items.
        permutations: Number of random permutations of each test.
        seed: Random seed.

    Example:
        >>> import numpy as np
        >>> before = np.array([[3, 0], [0, 3], [2, 1], [3, 0], [1, 2]] * 8)
        >>> shifts = shift_evidence([before, before, before[:, ::-1]])
        >>> bool(shifts.evidence[1] < 2), bool(shifts.evidence[2] > 20), int(shifts.start[2])
        (True, True, 2)
    """
    evidence, start = np.ones(len(counts)), np.zeros(len(counts), dtype=np.intp)
    earlier = np.array(counts[0]) if len(counts) else np.zeros((0, 0), dtype=np.intp)
    # One row per start and one column per statistic. For the start, ties count as no shift.
    products, tied_products = np.ones((0, 2)), np.ones((0, 2))
    for run in range(1, len(counts)):
        rng = np.random.default_rng([seed, run])
        p, tied_p = _p_values(earlier, np.asarray(counts[run]), permutations, rng)
        products = np.concatenate([products, np.ones((1, 2))]) * _calibrate(p)
        tied_products = np.concatenate([tied_products, np.ones((1, 2))]) * _calibrate(tied_p)
        starts = np.arange(1, run + 1)
        # The weights of all starts, also of those still to come, sum to 1.
        evidence[run] = (products.mean(axis=1) / (starts * (starts + 1.0))).sum() + 1 / (run + 1.0)
        start[run] = starts[tied_products.mean(axis=1).argmax()]
        earlier = earlier + counts[run]
    return ShiftEvidence(evidence, start)


def _calibrate(p_values: Floats) -> Floats:
    """Return an e-value for each p-value: the mean of ``k p^(k - 1)`` over ``k`` from 0 to 1."""
    p = np.minimum(p_values, 1 - 1e-6)
    return np.asarray((1 - p + p * np.log(p)) / (p * np.log(p) ** 2))


def _p_values(
    earlier: Ints, later: Ints, permutations: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return the p-values of the two permutation tests.

    Returns:
        The p-values with ties broken at random, and those in which ties count as at least as far.
    """
    pooled, size = earlier + later, later.sum(axis=1)
    observed = _statistics(later[None], pooled)
    drawn = _statistics(_draw(pooled, size, permutations, rng), pooled)
    tolerance = 1e-9 * (1 + np.abs(observed))
    above = (drawn > observed + tolerance).sum(axis=0)
    equal = (np.abs(drawn - observed) <= tolerance).sum(axis=0)
    broken = (above + rng.random(2) * (1 + equal)) / (1 + permutations)
    return broken, (above + 1 + equal) / (1 + permutations)


def _draw(pooled: Ints, size: Ints, permutations: int, rng: np.random.Generator) -> Ints:
    """Draw the verdicts of one run from the pooled verdicts on each item, without replacement.

    Returns:
        The counts, ``(permutations, items, verdicts)``.
    """
    drawn = np.empty((permutations, *pooled.shape), dtype=np.int64)
    open_size = np.broadcast_to(size, drawn.shape[:2]).copy()
    rest = pooled.sum(axis=1)
    for verdict, available in enumerate(pooled.T[:-1]):
        rest = rest - available
        drawn[..., verdict] = rng.hypergeometric(available, rest, open_size)
        open_size -= drawn[..., verdict]
    drawn[..., -1] = open_size
    return drawn


def _statistics(run: Ints, pooled: Ints) -> Floats:
    """Return both statistics of the counts of runs, ``(runs, 2)``.

    A run minus its share of the pooled counts is proportional to the difference between the run and
    the earlier runs.
    """
    size = run.sum(axis=2, keepdims=True)
    total = np.maximum(pooled.sum(axis=1), 1)[:, None]
    excess = run - size * (pooled / total)
    separate = (excess**2).sum(axis=(1, 2))
    joint = (excess.sum(axis=1) ** 2).sum(axis=1)
    return np.stack([separate, joint], axis=1)
