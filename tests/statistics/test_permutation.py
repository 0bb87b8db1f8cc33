"""Permutation tests and their correction, against values known by hand and by simulation."""

from __future__ import annotations

from functools import partial
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples
from scipy.stats import skew

from mirage.errors import SettingError
from mirage.statistics import permutation
from mirage.statistics.classification import sentence_weights
from mirage.statistics.permutation import (
    holm,
    permutation_p_values,
    sign_flip_tests,
    single_step_p_values,
    without_skew,
)

properties = settings(max_examples=examples(100), deadline=None)


def p_value(values: list[float], permutations: int = 10_000, seed: int = 0) -> float:
    differences = np.array(values, dtype=float)[:, None]
    return float(permutation_p_values(differences, permutations=permutations, seed=seed)[0])


# Exact


def test_all_differences_for_one_judge() -> None:
    # Of the 2^6 ways to swap two are as far: none swapped, and all.
    assert p_value([1, 1, 1, 1, 1, 1]) == 2 / 2**6
    assert p_value([1, 1, 1, 1, 1, 1, 0, 0]) == 2 / 2**6  # equal units say nothing


def test_the_sign_test_by_hand() -> None:
    # 9 against 1: as far are 0, 1, 9 and 10 of 10.
    assert p_value([1] * 9 + [-1]) == 2 * (1 + comb(10, 1)) / 2**10
    assert p_value([1] * 5 + [-1] * 5) == 1
    assert p_value([0, 0, 0]) == 1
    assert p_value([0.3]) == 1  # both ways are as far


@properties
@given(st.lists(st.sampled_from([-3, -2, -1, 0, 1, 2, 5]), min_size=1, max_size=9))
def test_exact_p_values_go_through_all_ways(values: list[int]) -> None:
    sums = [
        abs(sum(s * v for s, v in zip(signs, values, strict=True)))
        for signs in product((1, -1), repeat=len(values))
    ]
    expected = np.mean([far >= abs(sum(values)) for far in sums])
    assert p_value([v / 7 for v in values]) == expected  # sums of sevenths are rounded


# Drawn


def test_drawn_p_values_near_exact_ones() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(0.35, 1, size=(13, 4))
    exact = permutation_p_values(values, permutations=2**13)
    drawn = permutation_p_values(values, permutations=2**13 - 1)
    assert (exact * 2**13 == np.round(exact * 2**13)).all()
    assert not np.array_equal(exact, drawn)
    error = np.sqrt(exact * (1 - exact) / 2**13)
    assert (np.abs(exact - drawn) < 4 * error).all()


def test_a_drawn_p_value_is_never_zero() -> None:
    assert p_value([1] * 200, permutations=999) == 1 / 1000


def test_the_same_seed_gives_the_same_and_columns_do_not_disturb_each_other() -> None:
    values = np.random.default_rng(0).normal(0.1, 1, size=(60, 3))
    p_values = partial(permutation_p_values, permutations=2500)
    first = p_values(values, seed=7)
    np.testing.assert_array_equal(first, p_values(values, seed=7))
    np.testing.assert_array_equal(first[:1], p_values(values[:, :1], seed=7))
    assert not np.array_equal(first, p_values(values, seed=8))


def test_remembered_swaps_are_those_that_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = np.random.default_rng(0).normal(0.1, 1, size=(60, 3))
    sizes = np.ones((60, 3))
    remembered = [sign_flip_tests(differences, sizes, permutations=2500) for _ in range(2)]
    monkeypatch.setattr(permutation, "_REMEMBERED", 0)
    drawn = sign_flip_tests(differences, sizes, permutations=2500)
    for tests in remembered:
        np.testing.assert_array_equal(tests, drawn)


def test_less_than_one_permutation_is_refused() -> None:
    with pytest.raises(SettingError, match="permutations must be at least 1, got 0"):
        p_value([1.0], permutations=0)


# One side, corrected for all columns


def test_single_step_p_values_by_hand() -> None:
    # All six for the worse: one of 2^6 ways is as bad, and counts half.
    worse, nothing = np.ones(6), np.zeros(6)
    p = single_step_p_values(np.stack([worse, -worse, nothing], axis=1))
    # Whenever the first column's sum is as large as can be, or the second's: 2 of 2^6.
    assert p[0] == pytest.approx(2 / 2**7, abs=4 * np.sqrt(1 / 64 / 9999))
    assert p[1:].tolist() == [1, 1]
    alone = single_step_p_values(worse[:, None], seed=1)
    assert alone == pytest.approx([1 / 2**7], abs=4 * np.sqrt(1 / 128 / 9999))
    assert single_step_p_values(np.ones((30, 1)), permutations=99).tolist() == [0.5 / 100]
    with pytest.raises(SettingError, match="permutations must be at least 1, got 0"):
        single_step_p_values(worse[:, None], permutations=0)


def test_single_step_p_values_of_skewed_columns_by_enumeration() -> None:
    # Few large losses and many small gains, and the reverse: the cubes of the units decide.
    units = np.array([[3.0, -0.5, 0.4], [2.0, -0.3, 0.1], *([[-0.2, 0.7, 0.3]] * 5), [0.1, 2.5, 0]])
    counts, squares = np.full(3, 8), (units**2).sum(axis=0)
    signs = np.array(list(product((1.0, -1.0), repeat=8)))
    measures = without_skew(signs @ units, signs @ units**3, squares, counts)
    observed, largest = measures[0], measures.max(axis=1)[:, None].round(9)
    more, same = largest > observed.round(9), largest == observed.round(9)
    expected = (more + same / 2).mean(axis=0)
    drawn = single_step_p_values(units, permutations=9999)
    assert drawn == pytest.approx(expected, abs=4 * np.sqrt(0.25 / 9999))


def test_the_measure_is_halls_transformed_t() -> None:
    # Hall (1992), with the mean, the standard deviation and the skewness of scipy.
    sample = np.random.default_rng(5).exponential(size=30) - 0.7
    w, g, n = sample.mean() / sample.std(), skew(sample), 30
    by_hand = np.sqrt(n) * (w + g * w**2 / 3 + g**2 * w**3 / 27 + g / (6 * n))
    squares, counts = np.array([(sample**2).sum()]), np.array([n])
    sums, cubes = np.array([[sample.sum()]]), np.array([[(sample**3).sum()]])
    assert without_skew(sums, cubes, squares, counts)[0, 0] == pytest.approx(by_hand)


def test_a_unit_without_a_value_is_no_unit_of_its_column() -> None:
    values = np.random.default_rng(6).normal(0.3, 1, 20)
    padded = np.concatenate([values, np.full(30, np.nan)])[:, None]
    assert single_step_p_values(padded) == pytest.approx(single_step_p_values(values[:, None]))


# False positives


def null_differences(rng: np.random.Generator, sentences_alike: float) -> np.ndarray:
    """Return weighted differences of two judges with equal accuracy, one row per query.

    There are 120 queries in three languages with 1 to 3 sentences each. With probability
    ``sentences_alike``, a judge is right on a later sentence of a query if it is right on the
    first.
    """
    query = np.repeat(np.arange(120), rng.integers(1, 4, size=120))
    language, label = query % 3, (rng.random(len(query)) < 0.3).astype(int)
    first = np.unique(query, return_index=True)[1][query]
    right = rng.random((len(query), 2)) < 0.65
    alike = rng.random((len(query), 2)) < sentences_alike
    right = np.where(alike, right[first], right)
    gaps = sentence_weights(language, label) * (right[:, 0].astype(float) - right[:, 1])
    return np.stack(
        [gaps, np.bincount(query, gaps, minlength=120)[query] * (np.arange(len(query)) == first)]
    )


def false_positives(sentences_alike: float, simulations: int) -> tuple[float, float]:
    """Return the share of p-values at or below 0.05 when sentences or queries are swapped."""
    rng = np.random.default_rng(5)
    p_values = [
        permutation_p_values(null_differences(rng, sentences_alike).T, permutations=399, seed=seed)
        for seed in range(simulations)
    ]
    by_sentence, by_query = np.mean(np.array(p_values) <= 0.05, axis=0)
    return float(by_sentence), float(by_query)


@pytest.mark.parametrize(
    ("simulations", "error"), [(400, 0.02), pytest.param(2000, 0.01, marks=pytest.mark.slow)]
)
def test_false_positive_rate_of_null_simulations(simulations: int, error: float) -> None:
    by_sentence, by_query = false_positives(0.0, simulations)
    assert abs(by_sentence - 0.05) <= error
    assert abs(by_query - 0.05) <= error


@pytest.mark.slow
def test_swapping_queries_keeps_the_level_if_errors_within_a_response_are_correlated() -> None:
    by_sentence, by_query = false_positives(0.9, 2000)
    assert 0.04 <= by_query <= 0.06
    assert by_sentence > 0.07


# Many comparisons


def test_holm_by_hand() -> None:
    # The example of the R documentation's algorithm: sorted 0.01, 0.02, 0.03, 0.04 of four.
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.02]), [0.04, 0.06, 0.06, 0.06])
    # And what R's p.adjust(c(0.01, 0.6, 0.5, 0.9), "holm") gives: no p is above 1.
    np.testing.assert_allclose(holm([0.01, 0.6, 0.5, 0.9]), [0.04, 1, 1, 1])
    assert holm([0.2]).tolist() == [0.2]
    assert holm([]).tolist() == []


@properties
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_rejects_what_the_step_down_rejects(p: list[float]) -> None:
    """Check against the step-down procedure of Holm (1979), section 2.

    It goes through the sorted p-values until one is above 0.05 / remaining.
    """
    order = sorted(range(len(p)), key=lambda i: p[i])
    rejected = set()
    for position, i in enumerate(order):
        if p[i] * (len(p) - position) > 0.05:
            break
        rejected.add(i)
    assert {i for i, corrected in enumerate(holm(p)) if corrected <= 0.05} == rejected
