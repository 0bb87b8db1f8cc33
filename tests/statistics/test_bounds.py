"""Confidence bounds for means: Clopper and Pearson's for shares, and refused levels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mirage.errors import SettingError
from mirage.statistics import upper_bounds
from mirage.statistics.bounds import mean_bounds, share_interval


@pytest.mark.parametrize("ones", [0, 1, 5, 19])
def test_the_bound_of_a_share_is_that_of_clopper_and_pearson(ones: int) -> None:
    values = (np.arange(20) < ones).astype(float)[:, None]
    expected = stats.beta.ppf(0.9, ones + 1, 20 - ones)
    assert upper_bounds(values, np.arange(20), level=0.9) == pytest.approx([expected], abs=0.01)


def test_copies_of_queries_in_their_clusters_change_no_bound() -> None:
    values = np.random.default_rng(1).random((20, 2))
    alone = upper_bounds(values, np.arange(20))
    copies = upper_bounds(np.repeat(values, 3, axis=0), np.repeat(np.arange(20), 3))
    assert copies == pytest.approx(alone)


def test_bounds_in_a_range_are_mirrored() -> None:
    values = np.random.default_rng(2).random((30, 1)) ** 2
    low, high = np.array([-1.0]), np.array([3.0])
    ends = mean_bounds(values, np.arange(30), low, high)
    mirrored = mean_bounds(2 - values, np.arange(30), low, high)
    assert ends[0, 0] < values.mean() < ends[0, 1]
    assert mirrored == pytest.approx(2 - ends[:, ::-1])


def test_levels_out_of_range_are_refused() -> None:
    values, codes = np.zeros((20, 1)), np.arange(20)
    for level in (0.0, 1.0):
        with pytest.raises(SettingError, match="level must be between 0 and 1"):
            upper_bounds(values, codes, level=level)
    with pytest.raises(SettingError, match="level must be between 0 and 1"):
        mean_bounds(values, codes, np.zeros(1), np.ones(1), level=0.5)
    with pytest.raises(SettingError, match="weightings must be at least 1, got 0"):
        upper_bounds(values, codes, weightings=0)


# Shares -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "queries"), [(0, 12), (1, 40), (7, 30), (40, 40), (1, 1)])
def test_the_interval_of_a_share_is_that_of_clopper_and_pearson(count: int, queries: int) -> None:
    hits = np.arange(queries) < count
    for level in (0.8, 0.95):
        expected = stats.binomtest(count, queries).proportion_ci(level, "exact")
        interval = share_interval(hits, np.arange(queries), level=level)
        assert interval == pytest.approx((expected.low, expected.high))


def test_clusters_widen_the_interval_of_a_share() -> None:
    hits = np.arange(40) < 8
    alone = share_interval(hits, np.arange(40))
    together = share_interval(hits, np.arange(40) // 4)
    assert together[0] < alone[0] < 0.2 < alone[1] < together[1]
    # Identical queries in clusters of four are ten observations.
    ten = share_interval(np.arange(10) < 2, np.arange(10))
    assert together == pytest.approx(ten, abs=0.02)
    assert np.isnan(share_interval(np.zeros(0, dtype=bool), np.zeros(0, dtype=int))).all()
