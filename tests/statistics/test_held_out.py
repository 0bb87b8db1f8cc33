"""The interval of Kendall's tau on held-out models, by hand and by its properties."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples
from scipy.stats import norm
from scipy.stats import t as student

from mirage.errors import SettingError
from mirage.statistics.held_out import held_out_tau_interval
from mirage.statistics.ranks import kendall_tau


def all_pairs(models: int) -> np.ndarray:
    return np.array(list(combinations(range(models), 2)))


def test_all_pairs_in_order_have_wilsons_interval() -> None:
    models = all_pairs(12)
    low, high = held_out_tau_interval(models, models, models)
    square = norm.ppf(0.975) ** 2 / 12
    assert (low, high) == pytest.approx((2 / (1 + square) - 1, 1))
    assert held_out_tau_interval(models, -models, models) == pytest.approx((-high, -low))


def test_jackknife_by_hand() -> None:
    models = all_pairs(10)
    predicted = np.random.default_rng(0).permutation(10)[models]
    right = (np.sign(predicted[:, 0] - predicted[:, 1]) == -1).astype(float)
    without = np.array([right[(models != model).all(axis=1)].mean() for model in range(10)])
    share = right.mean()
    spread = 0.9 * np.square(without - without.mean()).sum() / (share * (1 - share))
    square = max(student.ppf(0.975, 9) ** 2 * spread, norm.ppf(0.975) ** 2 / 10)
    ends = np.roots([1 + square, -(2 * share + square), share**2]).real
    interval = held_out_tau_interval(models, predicted, models)
    assert interval == pytest.approx(tuple(2 * np.sort(ends) - 1))


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 10_000), st.integers(8, 20), st.integers(2, 4))
def test_the_interval_contains_tau_and_ignores_the_order(
    seed: int, number: int, held_out: int
) -> None:
    rng = np.random.default_rng(seed)
    models = np.array([rng.permutation(number)[:held_out] for _ in range(3 * number)])
    actual = rng.normal(size=number)
    predicted = actual[models] + rng.normal(size=models.shape)
    low, high = held_out_tau_interval(models, predicted, actual[models])
    tau = np.mean(list(map(kendall_tau, predicted, actual[models])))
    assert -1 <= low <= tau + 1e-12
    assert tau <= high + 1e-12
    assert high <= 1
    columns = rng.permutation(held_out)
    turned = held_out_tau_interval(
        models[::-1][:, columns], predicted[::-1][:, columns], actual[models][::-1][:, columns]
    )
    assert turned == pytest.approx((low, high))


def test_few_models_and_single_models_have_no_interval() -> None:
    few = all_pairs(7)
    assert np.isnan(held_out_tau_interval(few, few, few)).all()
    single = np.arange(20)[:, None]
    assert np.isnan(held_out_tau_interval(single, single, single)).all()
    with pytest.raises(SettingError, match="level must be between 0 and 1"):
        held_out_tau_interval(few, few, few, level=95)
