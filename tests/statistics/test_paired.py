"""Paired differences: means, coverage of intervals, p-values and clusters of queries."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.statistics import paired_means
from mirage.statistics.paired import gap_interval
from mirage.statistics.permutation import permutation_p_values


def test_the_mean_is_over_the_queries_that_have_a_difference() -> None:
    gaps = np.array([[1.0, np.nan], [0.0, np.nan], [np.nan, np.nan], [1.0, np.nan]])
    first, none = paired_means(gaps, np.arange(4))
    assert (first.difference, first.n) == (2 / 3, 3)
    assert first.p == 0.5  # of the four ways to swap the two that differ, two are as far from 0
    assert np.isnan(first.interval).all()
    assert none.n == 0
    assert np.isnan([none.difference, none.p]).all()


def test_queries_of_a_cluster_are_swapped_together() -> None:
    gaps = np.ones((40, 1))
    alone, together = (
        paired_means(gaps, codes)[0] for codes in (np.arange(40), np.arange(40) // 4)
    )
    assert alone.p < 0.001
    assert together.p == permutation_p_values(np.full((10, 1), 4.0))[0] == 2 / 2**10
    assert np.ptp(together.interval) > 1.5 * np.ptp(alone.interval)


def test_the_interval_has_a_query_more_to_each_side() -> None:
    # With a gap of 1 and one of -1 added, 10 of 20 become 11 of 22, less 1 of 22: a mean of 10/22,
    # a variance of (12/22 - (10/22)^2) / 21, and Student's t of 21 degrees of freedom is 2.0796.
    gaps = np.repeat([1.0, 0.0], 10)
    error = 2.0796 * np.sqrt((12 / 22 - (10 / 22) ** 2) / 21)
    assert gap_interval(gaps, np.arange(20)) == pytest.approx(
        (10 / 22 - error, 10 / 22 + error), abs=1e-4
    )
    assert np.isnan(gap_interval(np.repeat([1.0, 0.0], [9, 11]), np.arange(20))).all()


def test_the_interval_with_added_queries_stays_within_the_limit() -> None:
    gaps = np.repeat([1.0, 0.0], [14, 1])
    assert gap_interval(gaps, np.arange(15))[1] > 1
    assert gap_interval(gaps, np.arange(15), most=1)[1] == 1


@pytest.mark.parametrize(("better", "worse"), [(0.9, 0.0), (0.25, 0.25), (0.6, 0.1)])
def test_intervals_of_few_queries_hold(better: float, worse: float) -> None:
    rng = np.random.default_rng(0)
    draws = rng.random((400, 20))
    gaps = np.where(draws < better, 1.0, np.where(draws < better + worse, -1.0, 0.0))
    ends = np.array([gap_interval(row, np.arange(20)) for row in gaps])
    low, high = ends[~np.isnan(ends[:, 0])].T
    assert np.mean((low <= better - worse) & (better - worse <= high)) > 0.93


def random_gaps(rng: np.random.Generator) -> np.ndarray:
    """Return differences of many shapes: labels, shares, skewed, with gaps, or nearly all 0."""
    size = int(rng.integers(10, 60))
    shapes = (
        rng.choice([1.0, -1.0, 0.0], size, p=[0.3, 0.15, 0.55]),
        rng.choice([1.0, 0.0], size, p=[0.1, 0.9]),
        rng.normal(rng.choice([0.0, 0.3]), 1, size),
        rng.lognormal(0, 1, size) - rng.choice([0.5, 1.6]),
        np.where(rng.random(size) < 0.05, -1.0, 0.05),
        np.where(rng.random(size) < 0.2, np.nan, rng.normal(0.2, 0.5, size)),
    )
    return shapes[int(rng.integers(len(shapes)))]


def test_an_interval_holds_0_exactly_if_p_is_above_its_level() -> None:
    rng = np.random.default_rng(5)
    decided = 0
    for number in range(300):
        gaps = random_gaps(rng)
        codes = np.arange(len(gaps)) // int(rng.integers(1, 3))
        level = float(rng.choice([0.8, 0.95, 0.99]))
        (row,) = paired_means(
            gaps[:, None],
            codes,
            most=float(rng.choice([np.abs(np.nan_to_num(gaps)).max(), np.inf])),
            level=level,
            permutations=999,
            seed=number,
        )
        low, high = row.interval
        if np.isnan(low):
            continue
        assert low - 1e-12 <= row.difference <= high + 1e-12
        assert (low <= 0 <= high) == (row.p > 1 - level + 1e-12)
        decided += row.p <= 1 - level
    assert decided > 50


def test_many_columns_have_the_p_values_of_one_permutation_test() -> None:
    rng = np.random.default_rng(6)
    gaps = np.stack([rng.choice([1.0, -1.0, 0.0], 40) for _ in range(80)], axis=1)
    gaps[12:, :5] = 0.0  # few differ: all ways to swap are gone through
    rows = paired_means(gaps, np.arange(40), permutations=2000, seed=3)
    np.testing.assert_allclose(
        [row.p for row in rows], permutation_p_values(gaps, permutations=2000, seed=3)
    )


def slightly_better_with_failures(
    rng: np.random.Generator, queries: int, draws: int, share: float
) -> np.ndarray:
    """Return differences with a mean of 0: a little better, but with a few complete failures."""
    gain = 0.75 * share / (1 - share) * (0.5 + rng.random((queries, draws)))
    return np.where(rng.random((queries, draws)) < share, -0.75, gain)


@pytest.mark.parametrize(("queries", "share"), [(20, 0.02), (40, 0.05), (100, 0.05)])
def test_rare_failures_that_a_sample_lacks_are_no_difference(queries: int, share: float) -> None:
    gaps = slightly_better_with_failures(np.random.default_rng(2), queries, 300, share)
    rows = paired_means(gaps, np.arange(queries), most=1, permutations=999)
    assert np.mean([row.p <= 0.05 for row in rows]) < 0.07
    assert all((row.interval[0] <= 0 <= row.interval[1]) == (row.p > 0.05) for row in rows)


def test_a_limit_changes_nothing_for_right_and_wrong_answers() -> None:
    gaps = np.random.default_rng(3).choice([1.0, -1.0, 0.0], (30, 4), p=[0.4, 0.1, 0.5])
    limited, unlimited = (paired_means(gaps, np.arange(30), most=most) for most in (1.0, np.inf))
    assert [row.p for row in limited] == [row.p for row in unlimited]
    assert [row.interval for row in limited] == [row.interval for row in unlimited]


def test_clear_differences_stay_significant_with_a_limit() -> None:
    gaps = np.random.default_rng(4).normal(0.2, 0.2, (50, 100)).clip(-1, 1)
    rows = paired_means(gaps, np.arange(50), most=1.0, permutations=999)
    assert np.mean([row.p <= 0.05 for row in rows]) > 0.95


def test_no_end_of_an_interval_is_beyond_the_largest_difference() -> None:
    gaps = np.repeat([1.0, 0.0], [14, 1])[:, None]
    unlimited, limited = (paired_means(gaps, np.arange(15), most=most)[0] for most in (np.inf, 1))
    assert unlimited.interval[1] > 1
    assert limited.interval == (unlimited.interval[0], 1.0)
