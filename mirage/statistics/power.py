"""Verdicts of the regression test on many simulated comparisons, to estimate its power."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats
from mirage.statistics.flips import FEWEST_UNITS, SHARED_LEVEL, flips_p_value
from mirage.statistics.permutation import without_skew
from mirage.statistics.run_noise import RunNoise

_AT_ONCE = 2_000_000  # largest number of elements of a temporary array


class SimulatedVerdicts(NamedTuple):
    """Verdicts on simulated comparisons, each of shape ``(simulations,)``.

    Attributes:
        worse: Whether any feature is significantly worse at the level ``alpha``. A feature is worse
            if two tests are both significant: the permutation test
            (:func:`~mirage.statistics.permutation.single_step_p_values`) and the one-sided test of
            the mean (:func:`~mirage.statistics.bounds.weighted_means`). It is also worse if the
            test of answers that turned from right to wrong is significant
            (:mod:`mirage.statistics.flips`).
        no_worse: Whether the upper bounds of the mean losses
            (:func:`~mirage.statistics.upper_bounds`) are below the margin for all features.
    """

    worse: NDArray[np.bool_]
    no_worse: NDArray[np.bool_]


def simulated_verdicts(
    sums: Floats,
    sizes: Floats,
    *,
    alpha: float = 0.05,
    margin: float = 0.1,
    permutations: int = 199,
    seed: int = 0,
    facts: Sequence[int] = (),
    noise: RunNoise | None = None,
) -> SimulatedVerdicts:
    """Return the verdicts on many simulated comparisons, all with the same number of clusters.

    All simulations share the same random permutations and weightings.

    Args:
        sums: Losses since the baseline, summed over the queries of each cluster, of shape
            ``(simulations, clusters, features)``. A loss is a share of the range of its feature.
        sizes: Number of queries of each cluster, of shape ``(simulations, clusters)``.
        alpha: Significance level of each verdict.
        margin: Largest acceptable mean loss. The verdict ``no_worse`` is true if the test rules out
            a loss this large.
        permutations: Number of random permutations, and of random weightings.
        seed: Random seed.
        facts: Indices of the features that check facts. Large losses in these features count as
            answers that turned from right to wrong, which are tested by :func:`_flip_p_values`. The
            test assumes that all answers were reworded, which is the worst case.
        noise: Noise between runs, with variances of shape ``(simulations, features)``, for values
            as shares of the range of each feature. By default the tests assume no noise.

    Returns:
        Both verdicts on each simulated comparison.
    """
    rng = np.random.default_rng(seed)
    clusters, features = sums.shape[1:]
    signs = rng.choice([-1.0, 1.0], size=(permutations, clusters))
    weights = rng.exponential(size=(permutations, clusters + 1))
    worse, no_worse = [], []
    # Blocks limit memory: not all permutations of all simulations fit.
    for some in _blocks(len(sums), permutations * features):
        p_values = _p_values(sums[some], signs)
        if len(facts) and clusters >= FEWEST_UNITS:
            p_values = p_values * SHARED_LEVEL
        margin_p, gain_p = _bound_p_values(sums[some], sizes[some], margin, weights)
        p_values = np.maximum(p_values, gain_p / 2)
        if len(facts) and clusters >= FEWEST_UNITS:
            losses = sums[some][:, :, list(facts)]
            flipped = (losses >= 0.5).any(axis=1)
            flips = np.where(flipped, _flip_p_values(losses)[:, None], 1.0)
            p_values[:, list(facts)] = np.minimum(p_values[:, list(facts)], flips)
        if noise is not None:
            means = sums[some].sum(axis=1) / sizes[some].sum(axis=1, keepdims=True)
            different = sums[some].any(axis=1).sum(axis=1, keepdims=True)
            block = RunNoise(noise.runs, noise.between[some], noise.within[some])
            p_values = block.widen_p_values(p_values, means, np.maximum(different, 1))
            margin_p = block.widen_p_values(margin_p, margin - means)
        worse.append(p_values.min(axis=1) <= alpha)
        no_worse.append(margin_p.max(axis=1) <= alpha)
    return SimulatedVerdicts(np.concatenate(worse), np.concatenate(no_worse))


def _blocks(simulations: int, numbers: int) -> Iterator[slice]:
    step = max(1, _AT_ONCE // numbers)
    return (slice(start, start + step) for start in range(0, simulations, step))


def _p_values(sums: Floats, signs: Floats) -> Floats:
    """Return the p-values of the permutation test, of shape ``(simulations, features)``."""
    simulations, clusters, features = sums.shape
    flat = sums.swapaxes(0, 1).reshape(clusters, -1)
    squares = np.square(flat).sum(axis=0)
    changed = np.where(squares > 0, squares, 1.0)
    counts = np.full(flat.shape[1], float(clusters))

    def transformed(signed: Floats, cubed: Floats) -> Floats:
        statistics = without_skew(signed, cubed, changed, counts)
        # A feature without any difference must never be the largest.
        return np.where(squares > 0, statistics, -np.inf).reshape(-1, simulations, features)

    total = flat.sum(axis=0)
    observed = transformed(total[None], (flat**3).sum(axis=0)[None])[0]
    largest = transformed(signs @ flat, signs @ flat**3).max(axis=2, keepdims=True)
    rounding = np.where(np.isinf(observed), 0.0, 1e-6 * (1 + np.abs(observed)))
    larger = np.count_nonzero(largest > observed + rounding, axis=0)
    as_large = (np.count_nonzero(largest >= observed - rounding, axis=0) + larger) / 2
    p = (0.5 + as_large) / (1 + len(signs))
    return np.where(total.reshape(simulations, features) > 0, p, 1.0)


def _flip_p_values(sums: Floats) -> Floats:
    """Return the p-value of :func:`flips_p_value` for each simulation.

    A cluster counts as an answer that turned from right to wrong if it lost at least half of the
    range of any feature and gained in none. It counts as an answer that turned from wrong to right
    if it gained in any feature and did not lose half of the range of any.

    Args:
        sums: Losses on the features that check facts, summed over the queries of each cluster, of
            shape ``(simulations, clusters, features)``. A loss is a share of the feature's range.
    """
    lost, gained = (sums >= 0.5).any(axis=2), (sums < 0).any(axis=2)
    worse, better = (lost & ~gained).sum(axis=1), (gained & ~lost).sum(axis=1)
    units = sums.shape[1]
    counts = zip(worse.tolist(), better.tolist(), strict=True)
    return np.array([flips_p_value(units, *pair, reworded=units) for pair in counts])


def _bound_p_values(
    sums: Floats, sizes: Floats, margin: float, weights: Floats
) -> tuple[Floats, Floats]:
    """Return the p-values of two hypotheses about the mean loss.

    The first hypothesis is that the mean loss is at least ``margin``, and the second that it is at
    most 0. Each p-value is the share of the random weightings of clusters for which the weighted
    mean loss agrees with the hypothesis. Both results have the shape ``(simulations, features)``.
    """
    simulations, clusters, features = sums.shape
    lost = (weights[:, :-1] @ sums.swapaxes(0, 1).reshape(clusters, -1)).reshape(
        -1, simulations, features
    )
    size = weights[:, :-1] @ sizes.T
    imagined = weights[:, -1:] * sizes.max(axis=1)
    allowed = (margin * size - (1 - margin) * imagined)[..., None]
    return (lost >= allowed).mean(axis=0), (lost <= imagined[..., None]).mean(axis=0)
