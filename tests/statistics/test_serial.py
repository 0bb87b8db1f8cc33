"""Differences between periods whose values depend on each other over time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_ind

from mirage.errors import SettingError
from mirage.statistics.serial import FEWEST_DAYS, day_inflation, serial_differences

DAYS = np.repeat(np.arange(6), 10)


def alternating(means: np.ndarray) -> np.ndarray:
    """Return ten values per day with that mean, so that successive values are not alike."""
    return (np.repeat(means, 10) + np.tile([9.0, -9.0], 30))[:, None]


def test_independent_days_of_equal_size_are_compared_by_their_means() -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 6))
    result = serial_differences(alternating(first), DAYS, alternating(second + 3), DAYS)
    # Student's statistic, with the degrees of freedom of one of the two periods.
    test = ttest_ind(second + 3, first)
    wide = test.confidence_interval()
    error = (wide.high - wide.low) / 2 / 2.228
    assert result.reach[0] == pytest.approx(2.571 * error, rel=1e-3)
    assert result.p[0] > test.pvalue


def test_too_few_days_have_no_test() -> None:
    values = np.random.default_rng(0).normal(size=(60, 1))
    few = np.minimum(DAYS, FEWEST_DAYS - 2)
    result = serial_differences(values, DAYS, values, few)
    assert np.isnan([result.p[0], result.reach[0]]).all()


def test_equal_values_are_no_difference() -> None:
    result = serial_differences(np.ones((60, 1)), DAYS, np.ones((60, 1)), DAYS)
    assert (result.p[0], result.reach[0]) == (1, 0)
    lost = serial_differences(np.ones((60, 1)), DAYS, np.zeros((60, 1)), DAYS)
    assert lost.p[0] == 0


def test_missing_values_are_ignored() -> None:
    values = np.random.default_rng(0).normal(size=(60, 1))
    missing = np.concatenate([values, np.full((10, 1), np.nan)])
    days = np.append(DAYS, np.full(10, 6))
    first = serial_differences(values, DAYS, values + 1, DAYS)
    second = serial_differences(missing, days, missing + 1, days)
    np.testing.assert_array_equal(first, second)


def test_correlated_values_inflate_the_variance_of_days() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(4000, 2))
    for i in range(1, 4000):
        noise[i, 0] += 0.9 * noise[i - 1, 0]
    days = np.arange(4000) // 20
    of_days = np.repeat(rng.normal(size=200), 20)
    correlated, plain = day_inflation(noise, days)
    assert 1.5 < correlated < 2.2
    assert plain < 1.05
    # An effect that a whole day shares does not correlate days.
    assert day_inflation((noise[:, 1] + of_days)[:, None], days)[0] < 1.2


def test_the_level_must_be_a_probability() -> None:
    with pytest.raises(SettingError):
        serial_differences(np.ones((60, 1)), DAYS, np.ones((60, 1)), DAYS, level=1.0)
