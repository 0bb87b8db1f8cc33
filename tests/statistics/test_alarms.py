"""The alarm for a series that is looked at after every value."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import dblquad

from mirage.statistics.alarms import FEWEST_VALUES, rise_evidence

NONE = np.zeros(1)


def test_the_evidence_is_the_likelihood_ratio_with_level_and_variance_integrated_out() -> None:
    values = np.array([0.3, -0.2, 0.1, 0.4, 1.9])
    evidence, start = rise_evidence(values[:, None], smallest=NONE)
    centred = values - values.mean()
    step = np.array([-0.2] * 4 + [0.8])  # the only possible start, without its mean

    def density(size: float, spread: float) -> float:
        rest = ((centred - size * spread * step) ** 2).sum()
        return float(spread ** -(len(values)) * np.exp(-rest / (2 * spread**2)))

    def prior(size: float) -> float:
        return float(2 * np.exp(-(size**2) / 20) / np.sqrt(20 * np.pi))

    ends = (0.05, 50.0)
    after, _ = dblquad(lambda size, spread: prior(size) * density(size, spread), *ends, 0, 40)
    before, _ = dblquad(lambda size, spread: prior(size) * density(0.0, spread), *ends, 0, 40)
    # The fifth value gets a fifth of the weight; starts still to come have the rest.
    assert evidence[-1, 0] == pytest.approx(0.2 * after / before + 0.8, rel=1e-3)
    assert start[-1, 0] == FEWEST_VALUES


def test_the_evidence_depends_neither_on_the_level_nor_on_the_unit() -> None:
    values = np.random.default_rng(0).normal(size=(30, 3))
    first = rise_evidence(values, smallest=np.zeros(3)).evidence
    second = rise_evidence(5 + 0.01 * values, smallest=np.zeros(3)).evidence
    np.testing.assert_allclose(first, second, rtol=1e-6)


def test_false_alarms_of_a_whole_life_are_at_most_the_level() -> None:
    values = np.random.default_rng(0).normal(size=(60, 2000))
    evidence = rise_evidence(values, smallest=np.zeros(2000)).evidence
    assert (evidence.max(axis=0) >= 20).mean() <= 0.05
    assert evidence[FEWEST_VALUES].mean() == pytest.approx(1.0, abs=0.1)


def test_a_rise_is_detected_and_a_fall_is_not() -> None:
    values = np.random.default_rng(0).normal(size=(20, 2))
    values[12:] += [4.0, -4.0]
    evidence, start = rise_evidence(values, smallest=np.zeros(2))
    assert evidence[-1, 0] > 1000
    assert start[-1, 0] == 12
    assert evidence[-1, 1] < 1


def test_groups_have_their_own_levels() -> None:
    noise = np.random.default_rng(0).normal(size=(28, 1))
    weekday = np.arange(28) % 7
    levels = np.linspace(-20, 20, 7)[weekday][:, None]
    plain = rise_evidence(noise, smallest=NONE, groups=weekday).evidence
    shifted = rise_evidence(noise + levels, smallest=NONE, groups=weekday).evidence
    np.testing.assert_allclose(plain, shifted)


def test_values_that_never_varied_need_more_than_the_smallest_change() -> None:
    values = np.zeros((21, 2))
    values[-1] = [0.01, 0.3]
    evidence = rise_evidence(values, smallest=np.full(2, 0.01)).evidence
    assert evidence[-1, 0] < 2
    assert evidence[-1, 1] > 20


def test_correlated_values_are_weaker_evidence() -> None:
    values = np.random.default_rng(0).normal(size=(20, 1)) + (np.arange(20) >= 12)[:, None]
    plain, inflated = (
        rise_evidence(values, smallest=NONE, inflation=np.array([factor])).evidence[-1, 0]
        for factor in (1.0, 2.0)
    )
    assert inflated < plain
