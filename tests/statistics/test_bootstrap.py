"""Draws of queries and of clusters, their covariance and intervals, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mirage.errors import SettingError
from mirage.statistics.bootstrap import (
    bootstrap,
    draw_clusters,
    draw_queries,
    draws_covariance,
    draws_degrees,
    middle,
    ratio,
    widened,
)


def mean_of(sums: np.ndarray) -> np.ndarray:
    return np.asarray(ratio(sums[..., 0], sums[..., 1]))


def shares(queries: int) -> np.ndarray:
    return np.stack([np.arange(queries) % 4 == 0, np.ones(queries)], axis=1).astype(float)


def test_draws_count_their_picks() -> None:
    counts = draw_queries(5, 3, 40, seed=2)
    picks = np.random.default_rng(2).integers(5, size=(40, 3))
    assert counts.tolist() == [np.bincount(row, minlength=5).tolist() for row in picks]


def test_clusters_are_drawn_whole_and_in_the_order_of_their_names() -> None:
    counts = draw_clusters(["b", "a", "b", "c"], None, 30, seed=1)
    by_name = draw_queries(3, 3, 30, seed=1)
    assert counts.tolist() == by_name[:, [1, 0, 1, 2]].tolist()
    half = draw_clusters(["b", "a", "b", "c"], 2, 30, seed=1)
    assert set(half[:, [1, 0, 3]].sum(axis=1).tolist()) == {2}  # round(2 / 4 * 3 clusters)
    assert draw_clusters(["a", "b"], 9, 5, seed=0).sum(axis=1).tolist() == [2] * 5
    assert draw_clusters(["a", "b", "c"], 0, 5, seed=0).sum(axis=1).tolist() == [1] * 5


@pytest.mark.parametrize("drawn", [4, 8, 16])
def test_the_covariance_of_draws_is_corrected_for_their_size(drawn: int) -> None:
    counts = draw_queries(8, drawn, 50, seed=3)
    draws = counts @ np.random.default_rng(4).normal(size=(8, 3)) / drawn
    expected = np.cov(draws, rowvar=False) * drawn / 7
    np.testing.assert_allclose(draws_covariance(draws, counts), expected)
    assert draws_degrees(counts) == pytest.approx(7)


def test_widened_draws_have_the_width_of_student() -> None:
    counts = draw_queries(8, 4, 50, seed=3)
    draws = counts @ np.random.default_rng(4).normal(size=(8, 2)) / 4
    reach = stats.t.ppf(0.9, 7) / stats.norm.ppf(0.9)
    expected = draws.mean(axis=0) + np.sqrt(4 / 7) * reach * (draws - draws.mean(axis=0))
    np.testing.assert_allclose(widened(draws, counts, level=0.8), expected)


def test_the_middle_is_between_percentiles() -> None:
    assert middle(np.arange(101.0), 0.9).tolist() == pytest.approx([5, 95])
    for level in (0.0, 1.0):
        with pytest.raises(SettingError, match="level must be between 0 and 1"):
            middle(np.arange(5.0), level)


def test_an_interval_needs_14_queries_or_clusters() -> None:
    for queries, is_missing in ((13, True), (14, False)):
        share, interval = bootstrap(np.arange(queries), shares(queries), mean_of, draws=200)
        assert share == pytest.approx(4 / queries)
        assert np.isnan(interval).all() == is_missing
    for clusters, is_missing in ((13, True), (14, False)):
        interval = bootstrap(
            np.arange(42), shares(42), mean_of, cluster=np.arange(42) % clusters, draws=200
        )[1]
        assert np.isnan(interval).all() == is_missing


def test_the_interval_is_centred_on_the_share() -> None:
    share, (low, high) = bootstrap(np.arange(40), shares(40), mean_of, draws=400, seed=5)
    counts = draw_queries(40, 40, 400, seed=5)
    draws = widened(mean_of(counts @ shares(40))[:, None], counts)[:, 0]
    low_end, high_end = middle(draws - draws.mean(), 0.95)
    assert (low, high) == pytest.approx((share + low_end, share + high_end))


def test_a_ratio_below_nothing_is_nan() -> None:
    assert ratio(np.array([1.0, 2.0, 0.0]), np.array([2.0, 0.0, 0.0])).tolist() == pytest.approx(
        [0.5, np.nan, np.nan], nan_ok=True
    )


def test_less_than_one_draw_is_refused() -> None:
    with pytest.raises(SettingError, match="draws must be at least 1, got 0"):
        bootstrap(np.arange(20), shares(20), mean_of, draws=0)
