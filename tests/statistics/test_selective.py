"""Risks of what is decided: against scipy's exact test, survey formulas and sequences by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binomtest
from scipy.stats import t as student

from mirage.statistics.selective import Errors, errors_of, fallback, risk_p_value


@pytest.mark.parametrize(("wrong", "decided"), [(0, 14), (3, 40), (11, 90)])
def test_items_by_themselves_have_the_exact_binomial_test(wrong: int, decided: int) -> None:
    errors = errors_of(np.arange(decided) < wrong, np.arange(decided))
    assert errors == (wrong, decided)
    exact = binomtest(wrong, decided, 0.2, alternative="less").pvalue
    assert risk_p_value([errors], 0.2) == pytest.approx(exact, abs=1e-12)


def test_clusters_divide_the_effective_number_by_the_design_effect() -> None:
    # 24 answers of two sentences; in 12 of them both are wrong: as if there were 24 sentences.
    codes = np.repeat(np.arange(24), 2)
    errors = errors_of(codes < 12, codes)
    between = 24 / 23 * 24 * 1**2 / 48**2  # sums less rate times size are 1 or -1
    effect = between * 47 / 0.25
    few = (student.ppf(0.95, 47) / student.ppf(0.95, 23)) ** 2
    assert errors.decided == pytest.approx(48 / effect * few)
    assert errors.wrong == pytest.approx(errors.decided / 2)
    assert 22 < errors.decided < 24


def test_with_few_errors_items_of_a_cluster_count_as_identical() -> None:
    codes = np.repeat(np.arange(10), 4)
    few = (student.ppf(0.95, 39) / student.ppf(0.95, 9)) ** 2
    assert errors_of(np.zeros(40, dtype=bool), codes) == (0, pytest.approx(10 * few))
    assert errors_of(np.zeros(4, dtype=bool), np.zeros(4, dtype=int)) == (0, 1)


def test_a_balanced_risk_is_of_the_mean_of_two_error_rates() -> None:
    kinds = Errors(2, 30), Errors(5, 40)
    rng = np.random.default_rng(0)
    drawn = [beta.rvs(w + 1, n - w, size=200_000, random_state=rng) for w, n in kinds]
    expected = np.mean((drawn[0] + drawn[1]) / 2 >= 0.2)
    assert risk_p_value(kinds, 0.2) == pytest.approx(expected, abs=0.002)
    assert risk_p_value((Errors(0, 100), Errors(0, 0)), 0.2) == 1


def test_fallback_carries_the_level_of_rejected_hypotheses() -> None:
    p_values, levels = np.array([0.02, 0.04, 0.06, 0.02, 0.06]), np.array([0.025, 0.025, 0, 0, 0])
    assert fallback(p_values, levels).tolist() == [True, True, False, False, False]
    assert fallback(p_values[1:], levels[:4]).tolist() == [False, False, False, False]
    fixed = np.array([0.05, 0, 0])
    assert fallback(np.array([0.04, 0.05, 0.051]), fixed).tolist() == [True, True, False]
