"""Daily checks of a log: false alarms on days with few questions, and measures without a value."""

from __future__ import annotations

import numpy as np
import pytest

from mirage._base.arrays import Floats
from mirage.monitoring.watches import trend_evidence
from mirage.statistics.alarms import rise_evidence

MEASURES = 9
"""The number of measures of a log, for the correction by Bonferroni."""


def last_evidence(values: Floats, sizes: list[int]) -> Floats:
    days = np.repeat(np.arange(len(sizes)), sizes)
    weekdays = np.arange(len(sizes)) % 7
    widths = np.ones(values.shape[1])
    return np.asarray(trend_evidence(values, days, weekdays, widths, latest=True).evidence[-1])


def failures(rate: float, sizes: list[int], logs: int) -> Floats:
    return (np.random.default_rng(0).random((sum(sizes), logs)) < rate).astype(float)


@pytest.mark.parametrize("rate", [0.02, 0.05])
def test_one_failed_question_in_the_morning_is_no_alarm(rate: float) -> None:
    sizes = [30] * 28 + [1]
    values = failures(rate, sizes, 50)
    values[-1] = 1
    assert last_evidence(values, sizes).max() < 5 * MEASURES


@pytest.mark.parametrize(
    "later",
    [[3] * 6, [2, 40, 40, 40, 2], [1, 40, 1, 40, 1]],
    ids=["few", "weekends", "holidays"],
)
def test_days_with_few_questions_cause_no_false_alarms(later: list[int]) -> None:
    sizes = [40] * 28 + later
    values = failures(0.05, sizes, 200)
    alarms = np.zeros(200, dtype=bool)
    for days in range(29, len(sizes) + 1):
        evidence = last_evidence(values[: sum(sizes[:days])], sizes[:days])
        alarms |= evidence >= MEASURES / 0.05
    assert alarms.mean() <= 0.05


def test_a_fall_is_found_although_some_days_have_few_questions() -> None:
    sizes = [40, 40, 40, 40, 40, 2, 2] * 6
    values = failures(0.05, sizes, 50)
    values[sum(sizes[:28]) :] = failures(0.25, sizes[28:], 50)
    assert (last_evidence(values, sizes) >= MEASURES / 0.05).mean() > 0.9


def test_weights_are_inverse_variances() -> None:
    noise = np.random.default_rng(0).normal(size=(60, 500))
    weights = np.where(np.arange(60) % 3, 1.0, 0.01)[:, None] * np.ones(500)
    evidence = rise_evidence(noise / np.sqrt(weights), smallest=np.zeros(500), weights=weights)
    assert (evidence.evidence.max(axis=0) >= 20).mean() <= 0.05


def test_a_value_of_weight_0_is_left_out() -> None:
    values = np.random.default_rng(0).normal(size=(30, 2))
    weights = np.ones((30, 2))
    weights[10, 1] = 0
    moved = values.copy()
    moved[10, 1] = 100
    first, second = (
        rise_evidence(each, smallest=np.zeros(2), weights=weights).evidence[-1]
        for each in (values, moved)
    )
    np.testing.assert_allclose(first, second)
