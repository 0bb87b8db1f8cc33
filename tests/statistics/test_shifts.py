"""The alarm for a judge that is asked about the same items again in every run."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest, multivariate_hypergeom

from mirage.statistics.shifts import _draw, _outcomes, _p_values, shift_evidence


def runs(rng: np.random.Generator, chances: np.ndarray, count: int, repeats: int = 3) -> list:
    return [rng.multinomial(repeats, chances) for _ in range(count)]


def chances_of(rng: np.random.Generator, items: int = 40, noise: float = 0.1) -> np.ndarray:
    chances = np.full((items, 3), noise / 2)
    chances[np.arange(items), rng.integers(0, 3, items)] = 1 - noise
    return chances


def test_outcomes_have_the_chances_of_the_multivariate_hypergeometric() -> None:
    pooled = np.array([[4, 3, 2], [9, 0, 0], [1, 1, 7]])
    outcomes, chances = _outcomes(pooled, 3)
    for row, counts in enumerate(pooled):
        expected = multivariate_hypergeom(counts, 3).pmf(outcomes)
        assert chances[row] == pytest.approx(expected)
    rng = np.random.default_rng(0)
    index = _draw(chances, 40_000, rng) - np.arange(3) * len(outcomes)
    shares = [np.bincount(index[:, row], minlength=len(outcomes)) / 40_000 for row in range(3)]
    assert np.abs(np.array(shares) - chances).max() < 0.012


def test_p_values_of_an_unchanged_judge_are_uniform() -> None:
    rng = np.random.default_rng(1)
    p = []
    for _ in range(400):
        chances = chances_of(rng, 10, 0.2)
        earlier, later = sum(runs(rng, chances, 2)), runs(rng, chances, 1)[0]
        p.append(_p_values(earlier, later, 99, rng)[0])
    for column in np.array(p).T:
        assert kstest(column, "uniform").pvalue > 0.001


def test_identical_verdicts_are_no_evidence() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        same = runs(rng, chances_of(rng, noise=0.0), 6)
        assert (shift_evidence(same, permutations=200, seed=seed).evidence <= 1).all()


def test_a_moved_judge_alarms_and_the_start_is_named() -> None:
    rng = np.random.default_rng(2)
    before = chances_of(rng)
    after = before.copy()
    after[:8] = after[:8, [1, 2, 0]]
    shifts = shift_evidence([*runs(rng, before, 8), *runs(rng, after, 3)])
    assert (shifts.evidence[:8] < 20).all()
    assert shifts.evidence[10] > 20
    assert shifts.start[10] == 8


def test_two_runs_are_enough_and_one_is_no_evidence() -> None:
    before = np.array([[3, 0, 0], [0, 3, 0], [0, 0, 3], [3, 0, 0]] * 10)
    assert shift_evidence([before]).evidence.tolist() == [1]
    assert shift_evidence([]).evidence.tolist() == []
    assert shift_evidence([before, np.roll(before, 1, axis=1)]).evidence[1] > 20


def test_a_small_change_in_one_direction_is_noticed() -> None:
    rng = np.random.default_rng(3)
    before = np.tile([0.45, 0.45, 0.1], (100, 1))
    after = np.tile([0.25, 0.65, 0.1], (100, 1))
    assert shift_evidence([*runs(rng, before, 4), *runs(rng, after, 2)]).evidence[-1] > 20


def test_runs_may_have_other_numbers_of_verdicts() -> None:
    rng = np.random.default_rng(4)
    chances = chances_of(rng)
    evidence = shift_evidence([runs(rng, chances, 1, n)[0] for n in (3, 1, 5)]).evidence
    assert (evidence < 20).all()


def test_it_is_reproducible_and_later_runs_do_not_change_earlier_results() -> None:
    rng = np.random.default_rng(5)
    counts = runs(rng, chances_of(rng), 5)
    whole = shift_evidence(counts).evidence
    assert whole.tolist() == shift_evidence(counts).evidence.tolist()
    assert whole[:3].tolist() == shift_evidence(counts[:3]).evidence.tolist()
