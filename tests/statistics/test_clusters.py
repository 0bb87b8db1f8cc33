"""Clusters of dependent queries: small-sample corrections and coverage of intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mirage._base.arrays import Floats, Ints
from mirage.statistics.clusters import (
    FEWEST_FOR_MEANS,
    cluster_codes,
    cluster_names,
    cluster_sums,
    mean_intervals,
    multipliers,
    no_interval_reasons,
    small_sample,
)

UNIT = np.array([0.0]), np.array([1.0])
ANY = np.array([-np.inf]), np.array([np.inf])


def test_a_query_without_a_cluster_is_one_by_itself() -> None:
    clusters = {"a": "d", "c": "d", "e": "b"}
    assert cluster_codes("abcde", clusters).tolist() == [0, 1, 0, 2, 3]
    names = cluster_names("abcde", clusters)
    assert len(set(names)) == 4  # the query b is not in the cluster of that name
    assert names[0] == names[2]


def test_sums_ignore_missing_values() -> None:
    values = np.array([[1.0, np.nan], [2.0, 5.0], [4.0, np.nan]])
    sums = cluster_sums(np.array([0, 1, 0]), values)
    np.testing.assert_array_equal(sums, [[5.0, np.nan], [2.0, 5.0]])


@given(st.lists(st.integers(1, 9), min_size=2, max_size=12))
def test_the_correction_is_that_of_its_matrices(sizes: list[int]) -> None:
    n = np.array(sizes, dtype=float)
    share = n / n.sum()
    # The sums are n times the deviation of a cluster from the mean of all queries.
    moved = np.eye(len(n)) - np.outer(share, np.ones(len(n)))
    product = np.diag(1 / (1 - share)) @ moved @ np.diag(n**2) @ moved.T
    factors, degrees = small_sample(sizes)
    trace = np.trace(product)
    np.testing.assert_allclose(factors, (n**2).sum() / trace / (1 - share))
    assert degrees == pytest.approx(max(trace**2 / np.trace(product @ product), 1.0))
    if len(set(sizes)) == 1:
        np.testing.assert_allclose(factors, len(n) / (len(n) - 1))
        assert degrees == pytest.approx(len(n) - 1)


def test_one_cluster_has_no_correction() -> None:
    factors, degrees = small_sample([7])
    assert np.isnan(factors).all()
    assert degrees == 0


def test_a_mean_without_ends_has_the_interval_of_student() -> None:
    values = np.random.default_rng(0).normal(3, 2, 12)
    (ends,) = mean_intervals(values[:, None], np.arange(12), *ANY)
    expected = stats.t.interval(0.95, 11, values.mean(), stats.sem(values))
    np.testing.assert_allclose(ends, expected)


def test_the_interval_of_a_share_is_a_score_interval() -> None:
    values = np.array([1.0] * 9 + [0.0] * 3)
    ((low, high),) = mean_intervals(values[:, None], np.arange(12), *UNIT)
    for end in (low, high):  # its variance is m (1 - m) / (n - 1), for Student's t
        assert abs(0.75 - end) == pytest.approx(
            stats.t.ppf(0.975, 11) * np.sqrt(end * (1 - end) / 11)
        )
    ((low, high),) = mean_intervals(np.ones((12, 1)), np.arange(12), *UNIT)
    assert 0.6 < low < 0.8
    assert high == pytest.approx(1)
    rated = mean_intervals(1 + 4 * values[:, None], np.arange(12), np.array([1.0]), np.array([5.0]))
    np.testing.assert_allclose(rated, 1 + 4 * mean_intervals(values[:, None], np.arange(12), *UNIT))


def test_copies_of_queries_in_their_clusters_do_not_narrow_the_interval() -> None:
    values = np.random.default_rng(1).random((15, 1))
    once = mean_intervals(values, np.arange(15), *UNIT)
    copied = np.repeat(values, 6, axis=0)
    np.testing.assert_allclose(mean_intervals(copied, np.repeat(np.arange(15), 6), *UNIT), once)
    apart = mean_intervals(copied, np.arange(90), *UNIT)
    assert np.ptp(apart) < 0.5 * np.ptp(once)


def test_few_clusters_have_no_interval() -> None:
    values = np.random.default_rng(1).random((40, 1))
    few = np.arange(40) % (FEWEST_FOR_MEANS - 1)
    assert np.isnan(mean_intervals(values, few, *UNIT)).all()
    assert np.isfinite(mean_intervals(values, np.arange(40) % FEWEST_FOR_MEANS, *UNIT)).all()
    values[few > 4] = np.nan  # only clusters with a value count
    assert np.isnan(mean_intervals(values, np.arange(40), *UNIT)).any() == (
        np.count_nonzero(few <= 4) < FEWEST_FOR_MEANS
    )


def cluster_layout(kind: str, queries: int) -> Ints:
    if kind == "fives":
        return np.arange(queries) // 5
    sizes = np.tile([1, 1, 2, 1, 3, 5, 1, 10], queries)
    return np.repeat(np.arange(len(sizes)), sizes)[:queries]


def correlated_normals(
    rng: np.random.Generator, codes: Ints, correlation: float, times: int
) -> Floats:
    shared = rng.normal(size=(times, int(codes.max()) + 1))[:, codes]
    individual = rng.normal(size=(times, len(codes)))
    return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * individual


@pytest.mark.parametrize("kind", ["fives", "mixed"])
@pytest.mark.parametrize("correlation", [0.2, 0.7])
def test_intervals_of_means_have_their_coverage(kind: str, correlation: float) -> None:
    rng, codes = np.random.default_rng(2), cluster_layout(kind, 60)
    right = (correlated_normals(rng, codes, correlation, 300) < stats.norm.ppf(0.8)).astype(float)
    ends = mean_intervals(right.T, codes, np.zeros(300), np.ones(300))
    coverage = np.mean((ends[:, 0] <= 0.8) & (ends[:, 1] >= 0.8))
    assert coverage >= 0.92  # 0.95, less 2.4 standard errors
    naive = mean_intervals(right.T, np.arange(60), np.zeros(300), np.ones(300))
    assert np.mean((naive[:, 0] <= 0.8) & (naive[:, 1] >= 0.8)) < coverage


@given(st.integers(10, 40), st.floats(0, 1))
def test_intervals_stay_in_the_range(n: int, share: float) -> None:
    for values in ((np.arange(n) < share * n) * 1.0, np.full(n, share)):
        low, high = mean_intervals(values[:, None], np.arange(n), *UNIT)[0]
        assert 0 <= low <= high <= 1


def test_a_missing_interval_has_a_reason() -> None:
    values = np.array([[1.0, np.nan, 2.0, 0.0], *[[0.0, np.nan, 2.0, np.nan]] * 11])
    ends = np.array([0.0, 0, -np.inf, 0]), np.array([1.0, 1, np.inf, 1])
    codes = np.arange(12)
    intervals = mean_intervals(values, codes, *ends)
    assert no_interval_reasons("abcd", values, codes, intervals) == {
        "c": "all values are equal, and their range is not known",
        "d": "too few queries (1; at least 10 are needed)",
    }
    codes = codes // 3
    intervals = mean_intervals(values, codes, *ends)
    reasons = no_interval_reasons("abcd", values, codes, intervals)
    assert reasons["a"] == "too few clusters of queries (4; at least 10 are needed)"


def test_multipliers_depend_on_the_name_of_the_cluster() -> None:
    first, second = multipliers(["a", "b"], 4000, seed=1), multipliers(["c", "a"], 4000, seed=1)
    np.testing.assert_array_equal(first[:, 0], second[:, 1])
    assert abs(np.corrcoef(first[:, 1], second[:, 0])[0, 1]) < 0.06
    assert not np.array_equal(first, multipliers(["a", "b"], 4000, seed=2))
    assert first.std() == pytest.approx(1, abs=0.03)
