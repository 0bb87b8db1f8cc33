"""Joint ranges of ranks, and the interval of the model that came first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from mirage.errors import SettingError
from mirage.statistics.rank_sets import error_draws, rank_sets, winner_interval
from mirage.statistics.ranks import ranks


def test_two_models_are_compared_by_an_ordinary_t_test() -> None:
    # One difference has no multiplicity: it is significant beyond t(9) = 2.262.
    errors = error_draws(np.eye(2) / 2, 9.0)  # the difference has the standard deviation 1
    reach = np.quantile(np.abs(errors[:, 0] - errors[:, 1]), 0.95)
    assert reach == pytest.approx(2.262, rel=0.05)
    assert rank_sets(np.array([reach + 0.01, 0.0]), errors).tolist() == [[1, 1], [2, 2]]
    assert rank_sets(np.array([reach - 0.01, 0.0]), errors).tolist() == [[1, 2], [1, 2]]


def test_the_critical_value_is_that_of_tukeys_range() -> None:
    # Tukey's studentised range q(.95; 10 means, infinite degrees) is 4.474.
    errors = error_draws(np.eye(10), 1e9)
    estimates = np.zeros(10)
    estimates[0] = 4.474 * 1.04
    assert rank_sets(estimates, errors)[0].tolist() == [1, 1]
    estimates[0] = 4.474 * 0.96
    assert rank_sets(estimates, errors)[0].tolist() == [1, 10]


@pytest.mark.slow
def test_all_ranges_hold_for_nearly_equal_models() -> None:
    rng = np.random.default_rng(0)
    truth = np.linspace(0, 0.05, 19)
    joint = winner = 0
    for sample in range(200):
        scores = truth + rng.normal(size=(14, 19))
        estimates, covariance = scores.mean(axis=0), np.cov(scores.T) / 14
        errors = error_draws(covariance, 13.0, seed=sample)
        low, high = rank_sets(estimates, errors).T
        true_ranks = ranks(truth)
        joint += bool(((low <= true_ranks) & (true_ranks <= high)).all())
        lower, upper = winner_interval(estimates, errors)
        winner += bool(lower <= truth[estimates.argmax()] <= upper)
    assert joint >= 185  # 190 of 200 are asked, with a standard error of 3
    assert winner >= 184


def test_the_winner_of_distant_models_has_an_ordinary_interval() -> None:
    errors = error_draws(np.eye(5) * 0.01, 1e9)
    low, high = winner_interval(np.array([5.0, 0.0, 0.1, 0.0, 0.2]), errors)
    assert (low, high) == pytest.approx((5 - 0.2, 5 + 0.2), abs=0.02)
    wide = winner_interval(np.zeros(5), errors)
    assert wide[1] - wide[0] > 1.2 * (high - low)


def test_models_without_uncertainty_are_ranked_exactly() -> None:
    assert rank_sets(np.array([1.0, 3.0, 1.0]), np.zeros((10, 3))).tolist() == [
        [2, 3],
        [1, 1],
        [2, 3],
    ]


def test_each_model_has_its_degrees_of_freedom() -> None:
    errors = error_draws(np.eye(3), np.array([4.0, 50.0, 0.0]))
    assert np.isnan(errors[:, 2]).all()
    ends = [np.quantile(np.abs(errors[:, model]), 0.95) for model in (0, 1)]
    assert ends == pytest.approx(student.ppf(0.975, [4, 50]), rel=0.06)
    assert np.array_equal(error_draws(np.eye(2), np.full(2, 9.0)), error_draws(np.eye(2), 9.0))


def test_a_model_without_a_covariance_differs_from_none() -> None:
    errors = error_draws(np.eye(3) * 1e-4, 20.0)
    errors[:, 1] = np.nan
    estimates = np.array([3.0, 2.0, 1.0])
    assert rank_sets(estimates, errors).tolist() == [[1, 2], [1, 3], [2, 3]]
    assert winner_interval(estimates, errors) == winner_interval(estimates[::2], errors[:, ::2])
    assert np.isnan(winner_interval(np.array([2.0, 3.0, 1.0]), errors)).all()
    assert np.isnan(error_draws(np.eye(2), 0.0)).all()
    with pytest.raises(SettingError, match="level must be between 0 and 1"):
        rank_sets(estimates, errors, level=95)


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=8), st.integers(0, 5))
def test_a_range_contains_the_rank_of_the_estimate(values: list[float], seed: int) -> None:
    estimates = np.array(values)
    errors = np.random.default_rng(seed).normal(size=(200, len(values)))
    low, high = rank_sets(estimates, errors).T
    assert ((low <= ranks(estimates)) & (ranks(estimates) <= high)).all()


def test_a_model_alone_does_not_widen_the_ranges_of_the_others() -> None:
    rng = np.random.default_rng(0)
    errors = rng.normal(scale=0.1, size=(4000, 6))
    errors[:, 5] = 0.3 * rng.standard_t(2, size=4000)
    estimates = np.array([5.0, 4.0, 3.0, 2.0, 1.0, 3.1])
    jointly = rank_sets(estimates, errors)
    apart = rank_sets(estimates, errors, alone=np.arange(6) == 5)
    assert (apart[:, 0] >= jointly[:, 0]).all()
    assert (apart[:, 1] <= jointly[:, 1]).all()
    assert apart[0].tolist() == [1, 1]
    # The others are ranked as if the uncertain model were not there, which adds at most one rank.
    others = rank_sets(estimates[:5], errors[:, :5])
    assert ((others <= apart[:5]) & (apart[:5] <= others + 1)).all()


def test_the_range_of_a_model_alone_holds() -> None:
    rng = np.random.default_rng(1)
    truth = np.append(np.linspace(-1, 1, 9), 0.1)
    scales = np.append(np.full(9, 0.1), 0.3)
    held = 0
    for _ in range(300):
        estimates = truth + scales * np.append(rng.normal(size=9), rng.standard_t(3))
        draws = rng.normal(size=(1000, 10))
        draws[:, 9] = rng.standard_t(3, size=1000)
        low, high = rank_sets(estimates, scales * draws, alone=np.arange(10) == 9)[9]
        held += bool(low <= ranks(truth)[9] <= high)
    assert held >= 280  # 285 of 300 are asked, with a standard error of 4
