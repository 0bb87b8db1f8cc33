"""The noise of a comparison, and comparisons that are simulated from it.

Noise is the difference between the feature values of a query in two runs of a system that got no
worse.
"""

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


@dataclass(frozen=True, eq=False)
class Noise:
    """Differences between equally good runs, from which simulated comparisons are drawn.

    A unit is a query, or a whole cluster if only the sum over its queries is known. The last unit
    is a dummy with the value 0, which pads small clusters to the size of the largest cluster.

    Attributes:
        pairs: How much worse one answer is than another answer to the same query, as a share of a
            feature's range; of shape ``(pairs of answers, units + 1, features)``.
        members: Indices of the units of each cluster, of shape ``(clusters, largest size)``.
        sizes: Number of queries in each cluster.
        possible_losses: Mean loss in each cluster if all of its queries drop to their worst value,
            as a share of a feature's range, of shape ``(clusters, features)``.
        moved: Share of the queries that get better or worse because the system changed, in
            addition to the random differences in ``pairs``.
        correlation: Correlation of these changes between queries of one cluster.
        feature_correlation: Correlation of these changes between features.
        facts: Whether each feature checks facts. For these features,
            :func:`~mirage.testing.assert_no_regression` also counts the answers that turned from
            right to wrong (:mod:`mirage.testing._flips`).
    """

    pairs: Floats
    members: Ints
    sizes: Ints
    possible_losses: Floats
    moved: float
    correlation: float
    feature_correlation: float
    facts: tuple[bool, ...]

    def clusters(self, queries: int) -> int:
        """Return the number of clusters that contain about this many queries in total."""
        return max(1, round(queries / float(self.sizes.mean())))

    def without_duplicates(self, column: int) -> Noise:
        """Return a copy without duplicate features and without features whose values never differ.

        Such features add nothing to a simulated verdict, and dropping them saves time. Two
        features are duplicates if their ``pairs`` are equal. If ``moved`` is above 0, their
        ``possible_losses`` must be equal as well.

        Args:
            column: Index of a feature to keep; it becomes the first one.
        """
        flat = self.pairs.reshape(-1, self.pairs.shape[2])
        if self.moved:
            flat = np.concatenate([flat, self.possible_losses])
        _, first, groups = np.unique(flat, axis=1, return_index=True, return_inverse=True)
        distinct = {
            int(j) for j in first if flat[:, j].any() and (flat[:, j] != flat[:, column]).any()
        }
        columns = [column, *sorted(distinct - {column})]
        facts = tuple(
            any(fact for fact, group in zip(self.facts, groups, strict=True) if group == groups[j])
            for j in columns
        )
        pairs, possible_losses = self.pairs[:, :, columns], self.possible_losses[:, columns]
        return replace(self, pairs=pairs, possible_losses=possible_losses, facts=facts)


def assumed_noise(
    unstable: float, moved: float, size: int, correlation: float, features: int
) -> Noise:
    """Generate the noise of features with the values 0 and 1 from assumed rates of change.

    The first feature is treated as one that checks facts, see :attr:`Noise.facts`.

    Args:
        unstable: Share of the answers that differ when a query is repeated.
        moved: Share of the queries that a change of the system makes better or worse.
        size: Number of queries in each cluster.
        correlation: Correlation of the system's changes between two queries of one cluster. It is
            also the correlation between two features, for these changes and for repeats.
        features: Number of features.
    """
    rng = np.random.default_rng(0)
    rows = 500
    values = np.zeros((rows, features + 1))
    half = round(rows / 2 * unstable)
    values[:half], values[half : 2 * half] = 1.0, -1.0
    # Each feature copies the last column in random rows, which correlates the features.
    values = rng.permuted(values, axis=0)
    follows = rng.random((rows, features)) < np.sqrt(correlation)
    pairs = np.where(follows, values[:, -1:], values[:, :-1])
    pairs = np.concatenate([pairs, -pairs])  # equally good runs differ by 0 on average
    return Noise(
        _append_empty_unit(pairs[:, None]),
        np.zeros((1, size), np.intp),
        np.array([size]),
        np.ones((1, features)),
        moved,
        correlation,
        correlation,
        (True, *[False] * (features - 1)),
    )


def measured_noise(
    table: FeatureTable,
    possible_losses: Floats,
    clusters: Mapping[str, str],
    moved: float,
    correlation: float,
) -> Noise:
    """Measure how much the answers of one run differ between its repeats.

    The noise consists of the differences between all pairs of answers to the same query, in both
    orders. Such a difference has twice the variance of a single answer, for any number of repeats.
    So the mean of ``k`` sampled differences varies as much as the difference between two means of
    ``k`` answers.

    Args:
        table: Features of a run with repeats.
        possible_losses: How much each query can lose, as a share of a feature's range; of shape
            ``(queries, features)``.
        clusters: Cluster of each query, by query id.
        moved: Share of the queries that a change of the system makes better or worse.
        correlation: Correlation of changes between queries of one cluster. The correlation of
            changes between features is estimated: it is the mean absolute correlation of two
            features over the queries.
    """
    repeats = np.empty((0, 0, 0)) if table.repeats is None else table.repeats
    wording = np.array([GATED[n].wording if n in GATED else 0.0 for n in table.features])
    pairs = np.stack([first - second for first, second in permutations(repeats, 2)])
    # The gate ignores differences this small, so they are no noise for it either.
    beyond = np.where(np.abs(pairs) <= wording + 1e-6, 0.0, np.nan_to_num(pairs))
    codes = cluster_codes(table.query_ids, clusters)
    members, sizes = _cluster_members(codes)
    possible_losses = cluster_sums(codes, possible_losses) / sizes[:, None]
    pairs = _append_empty_unit(beyond / _widths(table))
    return Noise(
        pairs,
        members,
        sizes,
        possible_losses,
        moved,
        correlation,
        _mean_correlation(table.values),
        _facts(table.features),
    )


def observed_noise(losses: Floats, codes: Ints, shrink: Floats, names: Sequence[str]) -> Noise:
    """Return the noise of one comparison: the losses of its clusters, each with both signs.

    Since each loss occurs with both signs, the noise has a mean of 0.

    Args:
        losses: Loss of each query, as a share of a feature's range, of shape ``(queries,
            features)``.
        codes: Index of the cluster of each query.
        shrink: Factor by which each feature's losses are multiplied.
        names: Names of the features.
    """
    sums = cluster_sums(codes, losses) * shrink
    sizes = np.bincount(codes)
    members = np.arange(len(sizes))[:, None]
    possible_losses = np.ones(sums.shape)
    pairs = _append_empty_unit(np.stack([sums, -sums]))
    return Noise(pairs, members, sizes, possible_losses, 0.0, 0.0, 0.0, _facts(names))


def _mean_correlation(values: Floats) -> float:
    """Return the mean absolute correlation over all pairs of columns.

    NaN is replaced by the mean of the column. Columns without variation are ignored; the result is
    0 if fewer than two columns vary.
    """
    centred = np.nan_to_num(values - np.nanmean(values, axis=0))
    sizes = np.sqrt(np.square(centred).sum(axis=0))
    units = centred[:, sizes > 1e-9] / sizes[sizes > 1e-9]
    pairs = np.triu_indices(units.shape[1], 1)
    correlations = np.abs((units.T @ units)[pairs])
    return float(correlations.mean()) if len(correlations) else 0.0


def _facts(names: Sequence[str]) -> tuple[bool, ...]:
    """Return whether each feature checks facts; a drop in such a feature is a factual error."""
    return tuple(name in FACTS for name in names)


def _widths(table: FeatureTable) -> Floats:
    feature_facts = [facts(name, table.facts) for name in table.features]
    return np.array([entry.high - entry.low for entry in feature_facts])


def _append_empty_unit(pairs: Floats) -> Floats:
    return np.concatenate([pairs, np.zeros_like(pairs[:, :1])], axis=1)


def _cluster_members(codes: Ints) -> tuple[Ints, Ints]:
    """Return the indices of each cluster's queries, and the sizes of the clusters.

    Rows of smaller clusters are padded with the index of a dummy query, whose differences are 0.
    """
    sizes = np.bincount(codes)
    members = np.full((len(sizes), sizes.max()), len(codes), dtype=np.intp)
    for cluster in range(len(sizes)):
        members[cluster, : sizes[cluster]] = np.flatnonzero(codes == cluster)
    return members, sizes


def simulate_comparisons(
    noise: Noise,
    clusters: int,
    repeats: int,
    simulations: int,
    *,
    loss: float = 0.0,
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """Simulate comparisons between two runs, with a loss in the first feature.

    Args:
        noise: Differences between equally good runs.
        clusters: Number of clusters in each comparison.
        repeats: Number of answers per query in both runs.
        simulations: Number of comparisons.
        loss: Mean loss in the first feature, as a share of its range. Random queries drop to their
            worst value until the mean loss is reached.
        seed: Random seed.

    Returns:
        The sums of losses over the queries of each cluster, of shape ``(simulations, clusters,
        features)``, and the sizes of the clusters, of shape ``(simulations, clusters)``.
    """
    rng = np.random.default_rng(seed)
    picked = rng.integers(len(noise.sizes), size=(simulations, clusters))
    units, sizes = noise.members[picked], noise.sizes[picked]
    sums = np.zeros((*picked.shape, noise.pairs.shape[2]))
    for _ in range(repeats):
        pair = rng.integers(len(noise.pairs), size=units.shape)
        sums += noise.pairs[pair, units].sum(axis=2) / repeats
    better, worse = (_draw_moved(rng, sizes, noise) for _ in range(2))
    possible = noise.possible_losses[picked]
    # A query that the change moves has one new value in all repeats, so its noise is dropped.
    sums *= (1 - (better + worse) / sizes[..., None]).clip(0)
    sums += (worse - better) * possible
    mean_possible = float(noise.sizes @ noise.possible_losses[:, 0] / noise.sizes.sum())
    lost = _draw_affected(rng, sizes, min(loss / mean_possible, 1.0), noise.correlation)
    sums[..., 0] = sums[..., 0] * (1 - lost / sizes) + lost * possible[..., 0]
    return sums, sizes.astype(np.float64)


def _draw_moved(rng: np.random.Generator, sizes: Ints, noise: Noise) -> Ints:
    """Draw how many queries a change of the system makes better, or makes worse.

    ``sizes`` are the sizes of the clusters, of shape ``(simulations, clusters)``. The result has
    one number for each simulated comparison, cluster and feature. With a probability equal to the
    square root of ``noise.feature_correlation``, a feature uses a draw that all features share, and
    otherwise a draw of its own.
    """
    share = noise.moved / 2
    shared = _draw_affected(rng, sizes, share, noise.correlation)[..., None]
    features = noise.pairs.shape[2]
    if features == 1 or not share:
        return np.repeat(shared, features, axis=2)
    single = _draw_affected(
        rng, np.repeat(sizes[..., None], features, axis=2), share, noise.correlation
    )
    follows = rng.random(single.shape) < np.sqrt(noise.feature_correlation)
    return np.where(follows, shared, single)


def _draw_affected(rng: np.random.Generator, sizes: Ints, share: float, correlation: float) -> Ints:
    """Draw the number of affected queries in each cluster.

    ``sizes`` are the sizes of the clusters, and ``share`` is the probability that a query is
    affected. With a probability equal to the square root of ``correlation``, a query follows a draw
    that its cluster shares, and otherwise a draw of its own. As a result, two queries of a cluster
    have the correlation ``correlation``.
    """
    together = rng.binomial(sizes, np.sqrt(correlation))
    return together * (rng.random(sizes.shape) < share) + rng.binomial(sizes - together, share)
