"""What queries differ by though nothing got lost, and comparisons that are simulated from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.features import FeatureTable
from mirage.features.registry import facts
from mirage.statistics.clusters import cluster_codes, cluster_sums
from mirage.testing._lost_facts import FACTS
from mirage.testing.gate import GATED

__all__ = ["Noise", "assumed", "measured", "observed", "simulated"]


@dataclass(frozen=True, eq=False)
class Noise:
    """What queries differ by though nothing got lost, in a form to draw from.

    Attributes:
        pairs: how much worse one answer is than another, as a share of a feature's range, ``(pairs,
            units + 1, features)``. A unit is a query, or a cluster of which only the sum is known;
            the last is none, and 0.
        members: the units of each cluster, ``(clusters, most of them)``; the last stands for none.
        sizes: how many queries each cluster has.
        rooms: how much the queries of each cluster can lose on average, as a share of a feature's
            range, ``(clusters, features)``.
        moved: share of the queries that a change moves one way or the other, besides.
        correlation: of what happens to the queries of one cluster.
        facts: Whether each feature reads facts, so that the gate counts its flips.
    """

    pairs: Floats
    members: Ints
    sizes: Ints
    rooms: Floats
    moved: float
    correlation: float
    facts: tuple[bool, ...]

    def clusters(self, queries: int) -> int:
        """How many clusters have about so many queries."""
        return max(1, round(queries / float(self.sizes.mean())))

    def without_twins(self, column: int) -> Noise:
        """The same without features that are as others, or never differ, and so say nothing.

        The feature of this column comes first.
        """
        flat = self.pairs.reshape(-1, self.pairs.shape[2])
        _, first, twins = np.unique(flat, axis=1, return_index=True, return_inverse=True)
        kept = {int(j) for j in first if flat[:, j].any() and (flat[:, j] != flat[:, column]).any()}
        columns = [column, *sorted(kept - {column})]
        facts = tuple(
            any(fact for fact, twin in zip(self.facts, twins, strict=True) if twin == twins[j])
            for j in columns
        )
        pairs, rooms = self.pairs[:, :, columns], self.rooms[:, columns]
        return replace(self, pairs=pairs, rooms=rooms, facts=facts)


def assumed(unstable: float, moved: float, size: int, correlation: float) -> Noise:
    """One feature that reads facts; a share of the answers differs if a query is asked again."""
    values = np.zeros((1000, 2, 1))
    half = round(500 * unstable)
    values[:half, 0], values[half : 2 * half, 0] = 1.0, -1.0
    members, rooms = np.zeros((1, size), np.intp), np.ones((1, 1))
    return Noise(values, members, np.array([size]), rooms, moved, correlation, (True,))


def measured(
    table: FeatureTable,
    rooms: Floats,
    clusters: Mapping[str, str],
    moved: float,
    correlation: float,
) -> Noise:
    """The features of a model that was asked several times, each in a column.

    ``rooms`` are what each query can lose, ``(queries, features)``.

    Each pair of answers to a query is as likely either way round, and differs by twice the
    variance within the query, whatever the number of repeats: so means over ``k`` pairs that are
    drawn vary as differences of means over ``k`` answers do.
    """
    repeats = np.empty((0, 0, 0)) if table.repeats is None else table.repeats
    wording = np.array([GATED[n].wording if n in GATED else 0.0 for n in table.features])
    pairs = np.stack([one - other for one, other in permutations(repeats, 2)])
    beyond = np.where(np.abs(pairs) <= wording + 1e-6, 0.0, np.nan_to_num(pairs))
    codes = cluster_codes(table.query_ids, clusters)
    members, sizes = _members(codes)
    rooms = cluster_sums(codes, rooms) / sizes[:, None]
    pairs = _with_none(beyond / _widths(table))
    return Noise(pairs, members, sizes, rooms, moved, correlation, _facts(table.features))


def observed(losses: Floats, codes: Ints, shrink: Floats, names: Sequence[str]) -> Noise:
    """What the clusters of a comparison differ by, turned either way; ``shrink`` by feature."""
    sums = cluster_sums(codes, losses) * shrink
    sizes = np.bincount(codes)
    members = np.arange(len(sizes))[:, None]
    rooms = np.ones(sums.shape)
    pairs = _with_none(np.stack([sums, -sums]))
    return Noise(pairs, members, sizes, rooms, 0.0, 0.0, _facts(names))


def _facts(names: Sequence[str]) -> tuple[bool, ...]:
    """Return whether each feature reads facts."""
    return tuple(name in FACTS for name in names)


def _widths(table: FeatureTable) -> Floats:
    known = [facts(name, table.facts) for name in table.features]
    return np.array([entry.high - entry.low for entry in known])


def _with_none(pairs: Floats) -> Floats:
    return np.concatenate([pairs, np.zeros_like(pairs[:, :1])], axis=1)


def _members(codes: Ints) -> tuple[Ints, Ints]:
    """The queries of each cluster, filled up with one that is none, and how many they are."""
    sizes = np.bincount(codes)
    members = np.full((len(sizes), sizes.max()), len(codes), dtype=np.intp)
    for cluster in range(len(sizes)):
        members[cluster, : sizes[cluster]] = np.flatnonzero(codes == cluster)
    return members, sizes


def simulated(
    noise: Noise,
    clusters: int,
    repeats: int,
    simulations: int,
    *,
    loss: float = 0.0,
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """Comparisons of so many clusters, each query asked so often in both runs.

    So many queries lose all that they have of the first feature that its mean loses ``loss``.

    Returns:
        How much worse the queries of each cluster are, ``(simulations, clusters, features)``, and
        the sizes of the clusters.
    """
    rng = np.random.default_rng(seed)
    picked = rng.integers(len(noise.sizes), size=(simulations, clusters))
    units, sizes = noise.members[picked], noise.sizes[picked]
    sums = np.zeros((*picked.shape, noise.pairs.shape[2]))
    for _ in range(repeats):
        pair = rng.integers(len(noise.pairs), size=units.shape)
        sums += noise.pairs[pair, units].sum(axis=2) / repeats
    better, worse = (_hit(rng, sizes, noise.moved / 2, noise.correlation) for _ in range(2))
    rooms = noise.rooms[picked]
    sums *= (1 - (better + worse) / sizes).clip(0)[..., None]
    sums += (worse - better)[..., None] * rooms
    room = float(noise.sizes @ noise.rooms[:, 0] / noise.sizes.sum())
    lost = _hit(rng, sizes, min(loss / room, 1.0), noise.correlation)
    sums[..., 0] = sums[..., 0] * (1 - lost / sizes) + lost * rooms[..., 0]
    return sums, sizes.astype(np.float64)


def _hit(rng: np.random.Generator, sizes: Ints, share: float, correlation: float) -> Ints:
    """How many queries of each cluster something happens to, with this share and correlation.

    A query goes with its cluster with the square root of the correlation, or else by itself.
    """
    together = rng.binomial(sizes, np.sqrt(correlation))
    return together * (rng.random(sizes.shape) < share) + rng.binomial(sizes - together, share)
