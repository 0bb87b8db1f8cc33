"""Quantiles without scipy are those of scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cases import each_case
from scipy.special import betaincinv, ndtri, stdtrit

from mirage.statistics.quantiles import (
    beta_quantile,
    normal_quantile,
    normal_quantiles,
    t_quantile,
    t_quantiles,
)

PROBABILITIES = (1e-12, 1e-6, 0.005, 0.025, 0.3, 0.4999, 0.5, 0.501, 0.65, 0.975, 0.995, 1 - 1e-9)
NEAR = 1e-12


@each_case("p", PROBABILITIES)
def test_normal_quantiles(p: float) -> None:
    assert normal_quantile(p) == pytest.approx(ndtri(p), rel=NEAR, abs=1e-15)


@each_case("p", PROBABILITIES)
@each_case("degrees", [1, 1.01, 2, 3.7, 7.490722838487319, 39, 99, 1e3, 123456.7])
def test_t_quantiles(degrees: float, p: float) -> None:
    assert t_quantile(degrees, p) == pytest.approx(stdtrit(degrees, p), rel=NEAR, abs=1e-15)


@each_case("p", PROBABILITIES)
@each_case("n", [1, 2, 5, 40, 60, 61, 1_000, 34_200])
def test_beta_quantiles_of_counts(n: int, p: float) -> None:
    for count in sorted({1, 2, n // 3, n // 2, n - 1, n} & set(range(1, n + 1))):
        expected = betaincinv(count, n - count + 1, p)
        assert beta_quantile(count, n - count + 1, p) == pytest.approx(expected, rel=NEAR)


def test_random_parameters() -> None:
    rng = np.random.default_rng(0)
    for _ in range(3000):
        a, b, degrees = np.exp(rng.uniform(0, 9, size=3)).tolist()
        p = float(rng.uniform())
        assert beta_quantile(a, b, p) == pytest.approx(betaincinv(a, b, p), rel=NEAR)
        assert t_quantile(degrees, p) == pytest.approx(stdtrit(degrees, p), rel=NEAR, abs=1e-13)


@each_case("size", [1, 3, 200, 6_000])
@each_case("degrees", [1, 1.3, 7.490722838487319, 39, 5_000.5])
def test_many_quantiles_at_once(degrees: float, size: int) -> None:
    p = (np.arange(size) + 0.5) / size
    np.testing.assert_allclose(normal_quantiles(p), ndtri(p), NEAR, 1e-15)
    np.testing.assert_allclose(t_quantiles(degrees, p), stdtrit(degrees, p), NEAR, 1e-13)


def test_ends_of_the_range() -> None:
    assert math.isnan(t_quantile(math.nan, 0.9))
    assert t_quantile(math.inf, 0.9) == normal_quantile(0.9)
    assert t_quantile(5, 0.25) == -t_quantile(5, 0.75)
