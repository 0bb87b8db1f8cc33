"""Ranks, their intervals, confidence and Kendall's tau, by hand and against scipy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from profiles import examples
from scipy import stats

from mirage.statistics.ranks import (
    confidences_by_draws,
    confidences_by_t,
    kendall_tau,
    p_better_by_draws,
    p_better_by_intervals,
    p_better_by_t,
    ranks,
)

properties = settings(max_examples=examples(100), deadline=None)
few = st.sampled_from([-1.5, 0.0, 0.1, 3.0])


# Ranks


def test_equal_logits_share_the_better_rank() -> None:
    assert ranks(np.array([0.5, 2.0, 0.5, -1.0, 2.0 + 1e-12])).tolist() == [3, 1, 3, 5, 1]


@properties
@given(arrays(np.float64, (4, 6), elements=few))
def test_ranks_are_scipys(logits: Any) -> None:
    expected = stats.rankdata(-logits, method="min", axis=1)
    assert np.array_equal(ranks(logits), expected)
    assert np.array_equal(ranks(logits[0]), expected[0])
    assert np.array_equal(ranks(logits[None]), expected[None])


# Confidence


def test_p_better_of_draws_by_hand() -> None:
    a, b = np.array([1.0, 0.0, 2.0, 0.0]), np.array([0.0, 1.0, 2.0 + 1e-12, -1.0])
    assert p_better_by_draws(a, b) == 2.5 / 4  # two wins and a tie in four draws
    assert p_better_by_draws(b, a) == 1.5 / 4
    assert p_better_by_draws(a, a) == 0.5


@given(arrays(np.float64, (2, 30), elements=st.one_of(few, st.floats(-5, 5))))
@properties
def test_p_better_agrees_with_ranks(draws: Any) -> None:
    places = ranks(draws.T)
    share = np.mean(places[:, 0] < places[:, 1]) + np.mean(places[:, 0] == places[:, 1]) / 2
    assert p_better_by_draws(*draws) == pytest.approx(share)
    assert p_better_by_draws(*draws) + p_better_by_draws(*draws[::-1]) == pytest.approx(1)


def test_p_better_by_t_is_in_the_tables() -> None:
    # Student's t, one-sided 5 % and 2.5 %: 2.015 with 5 degrees of freedom, 2.228 with 10.
    assert p_better_by_t(2.015, 1, 5) == pytest.approx(0.95, abs=1e-4)
    assert p_better_by_t(-2.228 / 3, 1 / 3, 10) == pytest.approx(0.025, abs=1e-4)
    assert p_better_by_t(0.0, 1, 3) == 0.5
    assert math.isnan(p_better_by_t(1.0, math.nan, 0))


def test_confidences_of_pairs_use_the_variance_of_their_difference() -> None:
    logits = np.array([1.0, 0.2, -1.2])
    covariance = np.array([[0.5, 0.3, -0.2], [0.3, 0.4, 0.1], [-0.2, 0.1, 0.9]])
    expected = np.full((3, 3), 0.5)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        weights = np.eye(3)[i] - np.eye(3)[j]
        error = np.sqrt(weights @ covariance @ weights)
        expected[i, j] = stats.t.cdf((logits[i] - logits[j]) / error, 6)
        expected[j, i] = 1 - expected[i, j]
    np.testing.assert_allclose(confidences_by_t(logits, covariance, 6), expected)


def test_confidences_of_draws_are_those_of_each_pair() -> None:
    draws = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 2.0], [2.0, 2.0, 2.0], [0.0, -1.0, 2.0]])
    pairs = confidences_by_draws(draws)
    assert pairs[0].tolist() == [0.5, 2.5 / 4, 0.5 / 4]
    assert (pairs + pairs.T == 1).all()


def test_without_error_the_sign_is_certain() -> None:
    assert [p_better_by_t(x, 0.0, 9) for x in (0.3, -0.3, 0.0)] == [1, 0, 0.5]
    assert [p_better_by_intervals(x, (1, 1), (2, 2)) for x in (0.3, -0.3, 0.0)] == [1, 0, 0.5]


def test_rounding_errors_are_no_difference() -> None:
    # Two models with the same wins on every query: their logits differ by the error of the fit.
    assert p_better_by_t(2e-13, 0.0, 9) == 0.5
    assert p_better_by_t(2e-13, 1e-13, 9) == 0.5
    assert p_better_by_intervals(-2e-13, (1, 1), (1, 1)) == 0.5


def test_p_better_of_intervals_is_normal() -> None:
    # Both are 2 * 1.96 * 0.3 and 0.4 long, so the difference has a standard error of 0.5.
    a, b = (0.0, 2 * 1.959964 * 0.3), (5.0, 5.0 + 2 * 1.959964 * 0.4)
    for z in (-2.0, 0.0, 0.5, 1.644854):
        assert p_better_by_intervals(0.5 * z, a, b) == pytest.approx(stats.norm.cdf(z))
    assert math.isnan(p_better_by_intervals(math.nan, a, b))
    assert math.isnan(p_better_by_intervals(1.0, a, (math.nan, math.nan)))


# Kendall's tau


def test_kendall_tau_by_hand() -> None:
    # Of six pairs one is the other way round, or tied: 5 of sqrt(6 * 5).
    assert kendall_tau([3, 4, 2, 1], [4, 3, 2, 1]) == pytest.approx(4 / 6)
    assert kendall_tau([4, 4, 2, 1], [4, 3, 2, 1]) == pytest.approx(5 / math.sqrt(30))
    assert kendall_tau([1, 1 + 1e-12, 0], [2, 2, 1]) == 1
    assert math.isnan(kendall_tau([1, 1], [1, 2]))


@properties
@given(arrays(np.float64, st.tuples(st.just(3), st.integers(2, 8)), elements=few))
def test_kendall_tau_is_that_of_scipy(values: Any) -> None:
    expected = [stats.kendalltau(row, values[2]).statistic for row in values[:2]]
    assert kendall_tau(values[:2], values[2]) == pytest.approx(np.array(expected), nan_ok=True)
