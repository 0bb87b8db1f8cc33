"""Differences between two sets of queries, against an enumeration of all ways to exchange."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from mirage.errors import SettingError
from mirage.statistics.clusters import mean_intervals
from mirage.statistics.two_sample import exchanged_p_values, mean_differences

# Values of two columns in six clusters of one to three queries; three clusters are in each set.
VALUES = np.array(
    [
        [0.1, 3.0],
        [0.4, np.nan],
        [0.3, 2.0],
        [0.2, 2.5],
        [0.6, 1.0],
        [0.9, 0.5],
        [0.8, np.nan],
        [0.7, 2.8],
        [0.5, 0.0],
        [0.2, 2.7],
    ]
)
CODES = np.array([0, 0, 1, 2, 2, 3, 3, 3, 4, 5])


def clustered_variance(values: np.ndarray, codes: np.ndarray) -> float:
    """Return the variance of a mean: squared sums of residuals of each cluster, G / (G - 1)."""
    residuals = values - values.mean()
    sums = [residuals[codes == code].sum() for code in np.unique(codes)]
    return float(np.square(sums).sum() / len(values) ** 2 * len(sums) / (len(sums) - 1))


def statistic(values: np.ndarray, later: tuple[int, ...]) -> float:
    has_value = ~np.isnan(values)
    in_later = np.isin(CODES, later)
    first, second = has_value & ~in_later, has_value & in_later
    variance = sum(clustered_variance(values[part], CODES[part]) for part in (first, second))
    return float(abs(values[first].mean() - values[second].mean()) / np.sqrt(variance))


def test_p_values_enumerate_all_ways_to_exchange_clusters() -> None:
    ways = list(combinations(range(6), 3))
    table = np.array([[statistic(column, way) for column in VALUES.T] for way in ways]).round(9)
    share = np.mean(table[:, None] <= table[None], axis=1)  # (ways, columns): share at least as far
    smallest, observed = share.min(axis=1), share[ways.index((3, 4, 5))]
    expected = [(smallest <= each + 1e-12).mean() for each in observed]
    before, after = CODES < 3, CODES >= 3
    p = exchanged_p_values(VALUES[before], CODES[before], VALUES[after], CODES[after] - 3)
    assert p.tolist() == pytest.approx(expected)
    assert 0 < p.min() < p.max() < 1


def test_drawn_p_values_near_enumerated_ones() -> None:
    before, after = CODES < 3, CODES >= 3
    sets = VALUES[before], CODES[before], VALUES[after], CODES[after] - 3
    drawn = exchanged_p_values(*sets, permutations=19)  # one less than the 20 ways
    again = exchanged_p_values(*sets, permutations=19)
    assert drawn.tolist() == again.tolist()
    assert exchanged_p_values(*sets, permutations=20).tolist() == exchanged_p_values(*sets).tolist()
    means = np.mean(
        [exchanged_p_values(*sets, permutations=19, seed=s) for s in range(200)], axis=0
    )
    assert means == pytest.approx(exchanged_p_values(*sets), abs=0.1)


def test_the_interval_of_a_difference_joins_those_of_both_means() -> None:
    rng = np.random.default_rng(9)
    before, after = rng.random((30, 1)) ** 3, rng.random((40, 1)) ** 0.5
    low, high = np.zeros(1), np.ones(1)
    (row,) = mean_differences(
        before, np.arange(30), after, np.arange(40), low, high, permutations=9
    )
    means = before.mean(), after.mean()
    assert (row.before, row.after, row.difference) == pytest.approx((*means, means[1] - means[0]))
    (first,), (second,) = (
        mean_intervals(values, np.arange(len(values)), low, high) for values in (before, after)
    )
    down = np.hypot(means[1] - second[0], first[1] - means[0])
    up = np.hypot(second[1] - means[1], means[0] - first[0])
    assert row.interval == pytest.approx((row.difference - down, row.difference + up))


def test_less_than_one_permutation_is_refused() -> None:
    with pytest.raises(SettingError, match="permutations must be at least 1, got 0"):
        exchanged_p_values(VALUES, CODES, VALUES, CODES, permutations=0)


def test_a_difference_without_variance_is_as_far_as_its_mirror_image() -> None:
    before, after = np.full((4, 1), 0.1), np.full((4, 1), 0.7)
    p = exchanged_p_values(before, np.arange(4), after, np.arange(4))
    assert p.tolist() == [2 / 70]  # of the 70 ways to choose 4 of 8 clusters
