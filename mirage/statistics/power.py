"""What the verdicts on a comparison would be, for many simulated comparisons at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats
from mirage.statistics.flips import FEWEST_UNITS, SHARED_LEVEL, flips_p_value
from mirage.statistics.permutation import without_skew

__all__ = ["SimulatedVerdicts", "simulated_verdicts"]

_AT_ONCE = 2_000_000  # numbers in an array


class SimulatedVerdicts(NamedTuple):
    """Verdicts on simulated comparisons, ``(simulations,)`` each.

    Attributes:
        worse: whether :func:`~mirage.statistics.single_step_p_values` are at most alpha somewhere,
            or the p-value of flips is (:mod:`mirage.statistics.flips`).
        no_worse: whether :func:`~mirage.statistics.upper_bounds` are within the margin everywhere.
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
) -> SimulatedVerdicts:
    """The verdicts on many comparisons of as many clusters; the same draws serve all of them.

    Args:
        sums: of how much worse the queries of each cluster are, ``(simulations, clusters,
            features)``, in shares of the features' ranges.
        sizes: how many queries each cluster has, ``(simulations, clusters)``.
        alpha: the level of each verdict.
        margin: the mean loss that ``no_worse`` excludes.
        permutations: how many ways to swap, and weightings, are drawn.
        seed: of these draws.
        facts: Indices of the features that read facts. Half of such a feature, lost by a cluster,
            counts as a flip, unless any cluster gained some; all answers count as reworded.
    """
    rng = np.random.default_rng(seed)
    clusters, features = sums.shape[1:]
    signs = rng.choice([-1.0, 1.0], size=(permutations, clusters))
    weights = rng.exponential(size=(permutations, clusters + 1))
    worse, no_worse = [], []
    for some in _blocks(len(sums), permutations * features):
        p_values = _worse(sums[some], signs)
        if len(facts) and clusters >= FEWEST_UNITS:
            p_values = np.minimum(p_values * SHARED_LEVEL, _flips(sums[some][:, :, list(facts)]))
        worse.append(p_values <= alpha)
        no_worse.append(_no_less(sums[some], sizes[some], margin, weights) <= alpha)
    return SimulatedVerdicts(np.concatenate(worse), np.concatenate(no_worse))


def _blocks(simulations: int, numbers: int) -> Iterator[slice]:
    step = max(1, _AT_ONCE // numbers)
    return (slice(start, start + step) for start in range(0, simulations, step))


def _worse(sums: Floats, signs: Floats) -> Floats:
    """The least p-value of each simulation."""
    simulations, clusters, features = sums.shape
    flat = sums.swapaxes(0, 1).reshape(clusters, -1)
    squares = np.square(flat).sum(axis=0)
    changed = np.where(squares > 0, squares, 1.0)
    counts = np.full(flat.shape[1], float(clusters))

    def measured(signed: Floats, cubed: Floats) -> Floats:
        measures = without_skew(signed, cubed, changed, counts)
        # Where nothing differs, nothing is measured.
        return np.where(squares > 0, measures, -np.inf).reshape(-1, simulations, features)

    total = flat.sum(axis=0)
    observed = measured(total[None], (flat**3).sum(axis=0)[None])[0]
    largest = measured(signs @ flat, signs @ flat**3).max(axis=2, keepdims=True)
    rounding = np.where(np.isinf(observed), 0.0, 1e-6 * (1 + np.abs(observed)))
    larger = np.count_nonzero(largest > observed + rounding, axis=0)
    as_large = (np.count_nonzero(largest >= observed - rounding, axis=0) + larger) / 2
    p = (0.5 + as_large) / (1 + len(signs))
    return np.asarray(np.where(total.reshape(simulations, features) > 0, p, 1.0).min(axis=1))


def _flips(sums: Floats) -> Floats:
    """Return the p-value of the flips of each simulation."""
    lost, gained = (sums >= 0.5).any(axis=2), (sums < 0).any(axis=2)
    worse, better = (lost & ~gained).sum(axis=1), (gained & ~lost).sum(axis=1)
    units = sums.shape[1]
    counts = zip(worse.tolist(), better.tolist(), strict=True)
    return np.array([flips_p_value(units, *pair, reworded=units) for pair in counts])


def _no_less(sums: Floats, sizes: Floats, margin: float, weights: Floats) -> Floats:
    """The largest p-value of each simulation for a loss of the margin or more."""
    largest = sizes.max(axis=1)[:, None, None]
    beyond = sums - margin * sizes[:, :, None]
    imagined = np.broadcast_to(largest * (1 - margin), (len(sums), 1, sums.shape[2]))
    units = np.concatenate([beyond, imagined], axis=1).swapaxes(0, 1)
    weighted = weights @ units.reshape(len(units), -1)
    p = (weighted >= 0).mean(axis=0).reshape(len(sums), -1)
    return np.asarray(p.max(axis=1))
