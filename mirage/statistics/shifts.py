"""An alarm for changes of a judge that labels the same items in every run.

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

PERMUTATIONS = 10_000
"""Number of random permutations behind each p-value."""


class ShiftEvidence(NamedTuple):
    """The evidence that the verdicts have shifted; both arrays have one element per run.

    Attributes:
        evidence: The e-value after each run: 1 for the first run. If the judge has not changed, the
            probability that the e-value ever reaches ``1 / alpha`` is at most ``alpha``. Therefore
            1 divided by the e-value is a p-value that is valid at any time.
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
    Random World, theorem 8.2). If a statistic is 0, as for a run with the same verdicts as before,
    its p-value is 1. Each p-value becomes an e-value (Vovk & Wang 2021, E-values:
    Calibration, Combination and Applications, Annals of Statistics 49, equation 2). For each
    possible start of a shift, the e-values since then are multiplied, and the products are averaged
    with fixed weights, as in :func:`mirage.statistics.alarms.rise_evidence` (Shin, Ramdas & Rinaldo
    2024, E-detectors, New England Journal of Statistics in Data Science 2). By Ville's inequality
    the average reaches ``1 / alpha`` with a probability of at most ``alpha``.

    Args:
        counts: For each run, how often each item got each verdict, of shape ``(items, verdicts)``.
            The number of verdicts may differ between runs and items.
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
    """Return the p-values of the two permutation tests of :func:`shift_evidence`.

    ``earlier`` and ``later`` have the number of times that each item got each verdict.

    Returns:
        The p-values with ties broken at random, but 1 for a statistic of 0; and the p-values in
        which ties count fully.
    """
    pooled, size = earlier + later, later.sum(axis=1)
    expected = size[:, None] * (pooled / np.maximum(pooled.sum(axis=1, keepdims=True), 1))
    excess = later - expected
    observed = np.array([(excess**2).sum(), (excess.sum(axis=0) ** 2).sum()])
    drawn = np.zeros((permutations, 2))
    sums = np.zeros((permutations, pooled.shape[1]))
    for each in np.unique(size).tolist():
        rows = size == each
        outcomes, chances = _outcomes(pooled[rows], each)
        excess = outcomes[None] - expected[rows][:, None]
        index = _draw(chances, permutations, rng)
        drawn[:, 0] += np.take((excess**2).sum(axis=2).ravel(), index).sum(axis=1)
        for verdict in range(pooled.shape[1]):
            sums[:, verdict] += np.take(excess[..., verdict].ravel(), index).sum(axis=1)
    drawn[:, 1] = (sums**2).sum(axis=1)
    tolerance = 1e-9 * (1 + np.abs(observed))
    above = (drawn > observed + tolerance).sum(axis=0)
    equal = (np.abs(drawn - observed) <= tolerance).sum(axis=0)
    broken = (above + rng.random(2) * (1 + equal)) / (1 + permutations)
    broken[observed <= tolerance] = 1.0
    return broken, (above + 1 + equal) / (1 + permutations)


def _outcomes(pooled: Ints, size: int) -> tuple[Ints, Floats]:
    """Return all possible counts of verdicts among ``size`` verdicts, and their probabilities.

    The verdicts are drawn without replacement from all verdicts on the item, so that their counts
    have a multivariate hypergeometric distribution. ``pooled`` contains the number of times that
    each item got each verdict, in the run and all earlier runs together.

    Returns:
        The possible counts of verdicts, of shape ``(outcomes, verdicts)``, and the probability of
        each outcome for each item, of shape ``(items, outcomes)``.
    """
    from scipy.special import comb

    verdicts = pooled.shape[1]
    grid = np.indices((size + 1,) * verdicts).reshape(verdicts, -1).T
    outcomes = grid[grid.sum(axis=1) == size]
    chances = comb(pooled[:, None], outcomes[None]).prod(axis=2)
    possible = chances.any(axis=0)
    totals = comb(pooled.sum(axis=1), size)[:, None]
    return outcomes[possible], chances[:, possible] / totals


def _draw(chances: Floats, permutations: int, rng: np.random.Generator) -> Ints:
    """Draw one outcome per item, and return its position in the flattened ``chances``.

    ``chances`` has the probability of each outcome, of shape ``(items, outcomes)``. The result has
    the shape ``(permutations, items)``.
    """
    limits = chances.cumsum(axis=1)
    uniform = rng.random((permutations, len(chances)))
    index = np.broadcast_to(np.arange(len(chances)) * chances.shape[1], uniform.shape).copy()
    for limit in limits[:, :-1].T:
        index += uniform >= limit
    return index
