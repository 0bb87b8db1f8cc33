"""Prediction-powered means: against the reference package, by hand, and their coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.errors import SettingError
from mirage.statistics.prediction_powered import (
    FEWEST,
    cross_predicted,
    power_tuned,
    powered_mean,
)

# 60 labels of 460 items, and what ppi_python 0.2.3 says of them.
POINT, ENDS = 0.47818971, (0.37044278, 0.58593663)
ITEMS = np.arange(460)
PREDICTED = (ITEMS * 37 % 101) / 100
TRUE = (PREDICTED + (ITEMS * 53 % 89) / 88 > 1).astype(float)
LABELLED = (ITEMS % 7 == 0) & (ITEMS < 420)


def labels(labelled: np.ndarray = LABELLED, true: np.ndarray = TRUE) -> np.ndarray:
    return np.where(labelled, true, np.nan)


def test_the_reference_package_says_the_same() -> None:
    ours = powered_mean(labels(), PREDICTED)
    assert ours.estimate == pytest.approx(POINT, abs=0.003)
    # Its interval is by the normal distribution; ours by t, for 60 labels.
    width = ours.interval[1] - ours.interval[0]
    assert width == pytest.approx((ENDS[1] - ENDS[0]) * 2.001 / 1.96 * 60 / 59, rel=0.02)
    assert ours.alone == pytest.approx(TRUE[LABELLED].mean())
    assert ours.predicted == PREDICTED.mean()
    assert (ours.labels, ours.clusters) == (60, 60)
    assert 60 < ours.worth < 120


def test_perfect_predictions_are_worth_a_label_each() -> None:
    ours = powered_mean(labels(), 3 * TRUE + 7)  # on another scale
    assert 0.3 < ours.tuning <= 1 / 3
    assert ours.worth == pytest.approx(460, rel=0.02)
    assert ours.estimate == pytest.approx(TRUE.mean(), abs=0.01)


def test_with_every_label_predictions_have_no_part() -> None:
    ours = powered_mean(TRUE, PREDICTED)
    assert ours.estimate == ours.alone == pytest.approx(TRUE.mean())
    assert ours.interval == ours.alone_interval
    assert ours.tuning == 0


def test_constant_predictions_do_not_change_the_estimate() -> None:
    same = powered_mean(labels(), np.full(len(ITEMS), 0.4))
    without = powered_mean(labels(), np.full(len(ITEMS), np.nan))
    assert same.estimate == same.alone == without.estimate == without.alone
    assert same.worth == without.worth == 60
    upside_down = powered_mean(labels(), 1 - PREDICTED)
    assert (upside_down.tuning, upside_down.estimate) == (0, upside_down.alone)


def test_some_predictions_may_be_missing() -> None:
    some = np.where(ITEMS % 5 == 0, np.nan, PREDICTED)
    ours = powered_mean(labels(), some)
    assert 60 < ours.worth < powered_mean(labels(), PREDICTED).worth


def test_probabilities_undo_a_choice_of_items() -> None:
    # Items that are likely positive are labelled three times as often.
    chance = np.where(PREDICTED > 0.5, 0.6, 0.2)
    naive, ours = [], []
    for seed in range(40):
        labelled = np.random.default_rng(seed).random(len(ITEMS)) < chance
        naive.append(powered_mean(labels(labelled), np.full(len(ITEMS), np.nan)).estimate)
        ours.append(powered_mean(labels(labelled), PREDICTED, probability=chance).estimate)
    assert np.mean(naive) > TRUE.mean() + 0.1
    assert np.mean(ours) == pytest.approx(TRUE.mean(), abs=0.015)


def test_labels_of_one_cluster_count_as_one() -> None:
    # Every label four times, in a cluster: the same estimate, and no more certain.
    once = powered_mean(labels(), PREDICTED)
    four = powered_mean(
        np.tile(labels(), 4), np.tile(PREDICTED, 4), cluster=np.tile(ITEMS, 4).astype(str)
    )
    assert four.estimate == pytest.approx(once.estimate)
    assert four.interval == pytest.approx(once.interval)
    assert (four.labels, four.clusters) == (240, 60)


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("useful", [False, True])
def test_intervals_hold_the_truth(useful: bool, clustered: bool) -> None:
    rng = np.random.default_rng(5)
    covered = []
    for _ in range(400):
        shared = rng.normal(size=(150, 2)).repeat(2, axis=0)
        both = shared * clustered + rng.normal(size=(300, 2))
        predicted = both[:, 0]
        true = (useful * predicted + both[:, 1] > 0).astype(float)
        group = np.arange(300) // 2
        labelled = np.isin(group, rng.permutation(150)[:20])
        ours = powered_mean(labels(labelled, true), predicted, cluster=group)
        covered.append(ours.interval[0] <= 0.5 <= ours.interval[1])
    assert 0.925 < np.mean(covered) < 0.98


def test_few_or_equal_labels_have_no_interval() -> None:
    few = powered_mean(labels(LABELLED & (ITEMS < 7 * (FEWEST - 1))), PREDICTED)
    assert np.isnan(few.interval).all()
    assert few.why == "no interval: 9 labelled clusters are too few, at least 10 are needed"
    rare = powered_mean(labels(true=(ITEMS % 140 == 0).astype(float)), PREDICTED)
    assert "sum to 3" in rare.why
    same = powered_mean(labels(true=np.ones(460)), PREDICTED)
    assert same.why == "no interval: all labels are the same"
    assert same.estimate == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((labels(), PREDICTED[:5]), "one value per item"),
        ((labels(ITEMS == 0), PREDICTED), "at least 2 labels are needed to estimate a mean, got 1"),
    ],
)
def test_bad_arrays_are_refused(arguments: tuple[np.ndarray, np.ndarray], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        powered_mean(*arguments)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_a_level_outside_of_0_and_1_is_refused(level: float) -> None:
    with pytest.raises(SettingError, match="level must be between 0 and 1"):
        powered_mean(labels(), PREDICTED, level=level)


def test_cross_predictions_are_those_of_a_logistic_regression() -> None:
    rng = np.random.default_rng(7)
    features = rng.normal(size=(200, 2))
    chance = 1 / (1 + np.exp(-(features @ [1.5, -1.0] - 1)))
    truth = (rng.random(200) < chance).astype(float)
    predicted = cross_predicted(features, truth, np.arange(200))
    assert predicted.mean() == pytest.approx(truth.mean(), abs=0.02)
    assert np.abs(predicted - chance).mean() < 0.1
    unlabelled = np.where(np.arange(200) < 150, truth, np.nan)
    mixed = cross_predicted(features, unlabelled, np.arange(200))
    assert np.abs(mixed[150:] - chance[150:]).mean() < 0.1


def test_a_probability_of_zero_is_refused() -> None:
    with pytest.raises(SettingError, match="above 0 and at most 1"):
        powered_mean(labels(), PREDICTED, probability=np.zeros(460))


def test_tuning_minimizes_the_variance_and_is_shrunk() -> None:
    rng = np.random.default_rng(8)
    controls = rng.normal(size=12)
    contributions = 0.4 * rng.normal(size=12) - 0.7 * controls

    def shrunk(keep: np.ndarray) -> float:
        a, b = contributions[keep], controls[keep]
        squared_correlation = (a @ b) ** 2 / (a @ a) / (b @ b)
        f = (len(a) - 3) * squared_correlation / (1 - squared_correlation)
        return float(-(a @ b) / (b @ b) * (1 - 1 / f))

    tuned = power_tuned(contributions, controls)
    assert tuned.tuning == pytest.approx(shrunk(np.full(12, True)))
    without_each = [shrunk(np.arange(12) != i) for i in range(12)]
    assert 0.4 < min(without_each) < max(without_each) < 1
    assert tuned.moves == pytest.approx(without_each * controls)


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=2, max_size=40))
def test_tuning_is_a_share(rows: list[tuple[float, float]]) -> None:
    tuned = power_tuned(*np.array(rows).T)
    assert 0 <= tuned.tuning <= 1
    assert np.isfinite(tuned.moves).all()
    assert (np.abs(tuned.moves) <= np.abs(np.array(rows).T[1])).all()
