"""Balanced accuracy, thresholds and calibration of arrays, against scikit-learn and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples
from scipy.stats import norm
from scipy.stats import t as student
from sklearn.metrics import brier_score_loss, recall_score

from mirage.errors import JudgmentError, SettingError
from mirage.statistics import calibration
from mirage.statistics.classification import (
    best_threshold,
    cross_validated_thresholds,
    intervals,
    recalls,
    roc_auc,
    roc_auc_interval,
    sentence_weights,
    standard_errors,
    tally,
)

properties = settings(max_examples=examples(100), deadline=None)
GOLDEN = [[0.5656, 0.7851], [0.8651, 0.9951], [-0.4055, -0.1552]]


# Balanced accuracy


@properties
@given(st.data(), st.integers(2, 4))
def test_balanced_accuracy_is_that_of_scikit_learn(data: st.DataObject, labels: int) -> None:
    codes = st.integers(0, labels - 1)
    rows = data.draw(st.lists(st.tuples(codes, codes, st.integers(0, 5)), min_size=1, max_size=40))
    truth, predicted, query = np.array(rows).T
    right = (predicted == truth)[:, None]
    # Its balanced_accuracy_score, but that warns of labels that are in no truth.
    expected = recall_score(truth, predicted, labels=np.unique(truth), average="macro")
    balanced_accuracy = recalls(tally(query, truth, right)).mean()
    assert balanced_accuracy == pytest.approx(expected, abs=1e-12)
    weights = sentence_weights(np.zeros(len(truth), dtype=int), truth)
    assert weights @ right[:, 0] == pytest.approx(balanced_accuracy, abs=1e-12)


def test_weights_are_even_over_languages_and_labels() -> None:
    language = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
    label = np.array([0, 1, 1, 1, 0, 1, 2, 2, 2])
    expected = [1 / 4, 1 / 12, 1 / 12, 1 / 12, 1 / 6, 1 / 6, 1 / 18, 1 / 18, 1 / 18]
    np.testing.assert_allclose(sentence_weights(language, label), expected)


def test_standard_error_with_one_sentence_a_query() -> None:
    # That of two independent shares, 3 of 4 and 2 of 5, but for G / (G - 1) with G = 9.
    truth = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
    right = np.array([1, 1, 1, 0, 1, 1, 0, 0, 0], dtype=bool)[:, None]
    expected = np.sqrt((0.75 * 0.25 / 4 + 0.4 * 0.6 / 5) / 4 * 9 / 8)
    errors = standard_errors([tally(np.arange(9), truth, right)])
    np.testing.assert_allclose(errors, [expected])
    assert np.isnan(standard_errors([tally(np.zeros(9, dtype=int), truth, right)])).all()


def test_copies_of_sentences_in_one_query_do_not_shrink_the_standard_error() -> None:
    rng = np.random.default_rng(0)
    truth, right = rng.integers(0, 2, 400), rng.random((400, 2)) < 0.7
    query = np.arange(400)
    once = standard_errors([tally(query, truth, right)])
    # Four copies of each sentence in its query add no information; as separate queries they do.
    four = tally(np.tile(query, 4), np.tile(truth, 4), np.tile(right, (4, 1)))
    np.testing.assert_allclose(standard_errors([four]), once)
    apart = tally(np.arange(1600), np.tile(truth, 4), np.tile(right, (4, 1)))
    np.testing.assert_allclose(standard_errors([apart]), once / 2, rtol=0.01)


def test_languages_that_share_queries_have_no_smaller_standard_error() -> None:
    rng = np.random.default_rng(0)
    query, truth = np.repeat(np.arange(40), 3), rng.integers(0, 2, 120)
    right = rng.random((120, 2)) < 0.7
    language = tally(query, truth, right)
    once = standard_errors([language])
    np.testing.assert_allclose(standard_errors([language, language]), once)
    other_queries = tally(query + 40, truth, right)
    np.testing.assert_allclose(standard_errors([language, other_queries]), once / np.sqrt(2))


def wilson(share: float, square: float) -> tuple[float, float]:
    """Return the roots of ``(share - m)^2 = square m (1 - m)``."""
    lower, upper = sorted(np.roots([1 + square, -(2 * share + square), share**2]).real)
    return lower, upper


def test_interval_of_independent_sentences_by_hand() -> None:
    # 12 of 16 sentences of one label are right, and 20 of 20 of the other, each in its own query.
    truth = np.repeat([0, 1], [16, 20])
    right = np.arange(36)[:, None] >= 4
    counts = tally(np.arange(36), truth, right)
    # Only the first label has a variance between queries, so the 15 degrees of freedom are nearly
    # those of Satterthwaite's combination. Without errors there is the binomial variance.
    variances = np.array([0.75 * 0.25 / 15, (shrunk := 1.025 / 1.05) * (1 - shrunk) / 20])
    shrunk = (0.75 + 1 / 32) / (1 + 1 / 16)
    variances[0] = shrunk * (1 - shrunk) / 15
    degrees = variances.sum() ** 2 / (variances**2 / [15, 19]).sum()
    first = wilson(0.75, student.ppf(0.975, degrees) ** 2 / 15)
    second = wilson(1.0, norm.ppf(0.975) ** 2 / 20)
    value = (0.75 + 1) / 2
    expected = (
        value - np.hypot(0.75 - first[0], 1 - second[0]) / 2,
        value + np.hypot(first[1] - 0.75, second[1] - 1) / 2,
    )
    np.testing.assert_allclose(intervals([counts], [[1]]), [expected])


def test_golden_interval_of_clustered_sentences() -> None:
    rng = np.random.default_rng(1)
    query = np.repeat(np.arange(30), rng.integers(1, 6, 30))
    truth = (rng.random(len(query)) < 0.3).astype(int)
    right = rng.random((len(query), 2)) < (0.7, 0.9)
    right[:, 1] |= query % 2 == 0  # errors that go together
    counts = tally(query, truth, right)
    ends = intervals([counts], [[1, 0], [0, 1], [1, -1], [-1, 1]])
    np.testing.assert_allclose(ends[:3], GOLDEN, atol=5e-5)
    np.testing.assert_allclose(ends[3], -ends[2][::-1])


@properties
@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.5, 0.97, 1.0]), st.integers(14, 25))
def test_intervals_contain_the_value_and_stay_in_range(
    seed: int, share: float, queries: int
) -> None:
    rng = np.random.default_rng(seed)
    query = np.repeat(np.arange(queries), 2)
    truth = rng.integers(0, 2, len(query))
    right = rng.random((len(query), 2)) < share
    parts = [tally(query, truth, right), tally(query + 7, 1 - truth, right)]
    values = np.mean([recalls(part).mean(axis=0) for part in parts], axis=0)
    contrasts = np.array([[1, 0], [1, -1]])
    for level in (0.5, 0.95):
        ends = intervals(parts, contrasts, level=level)
        accuracies = contrasts @ values
        assert (ends[:, 0] <= accuracies + 1e-12).all()
        assert (ends[:, 1] >= accuracies - 1e-12).all()
        assert (ends >= [[0], [-1]]).all()
        assert (ends <= 1).all()
    wide, narrow = intervals(parts, contrasts), intervals(parts, contrasts, level=0.5)
    assert (np.ptp(wide, axis=1) >= np.ptp(narrow, axis=1) - 1e-12).all()
    few = tally(np.arange(13), truth[:13], right[:13])
    assert np.isnan(intervals([few], contrasts)).all()
    assert np.isnan(intervals([*parts, few], contrasts)).all()


def test_clustered_errors_and_unknown_clustering_widen_intervals() -> None:
    query, truth = np.repeat(np.arange(40), 4), np.tile([0, 0, 1, 1], 40)
    right = np.ones((160, 2), dtype=bool)
    right[:80:4, 0] = False  # one error in each of 20 queries
    right[:40:4, 1] = right[1:40:4, 1] = False  # two in each of 10
    widths = np.ptp(intervals([tally(query, truth, right)], np.eye(2)), axis=1)
    assert widths[0] < widths[1]
    flawless = np.ones((160, 1), dtype=bool)
    alone = intervals([tally(np.arange(160), truth, flawless)], [[1]])
    together = intervals([tally(query, truth, flawless)], [[1]])
    few_queries = intervals([tally(np.arange(40), truth[:40], flawless[:40])], [[1]])
    assert few_queries[0, 0] < together[0, 0] < alone[0, 0] < 1
    assert alone[0, 1] == 1


# Thresholds


@properties
@given(
    st.lists(
        st.tuples(st.sampled_from([0.1, 0.2, 0.5, 0.7, np.nan]), st.booleans()),
        min_size=2,
        max_size=25,
    )
)
def test_the_best_threshold_is_the_best_of_all(rows: list[tuple[float, bool]]) -> None:
    scores, positive = np.array([s for s, _ in rows]), np.array([p for _, p in rows])
    if np.isnan(scores).all() or len(set(positive)) < 2:
        return
    weights = sentence_weights(np.zeros(len(rows), dtype=int), positive.astype(int))

    def accuracy(threshold: float) -> float:
        right = ~np.isnan(scores) & ((scores >= threshold) == positive)
        return float(weights @ right)

    threshold_found = best_threshold(scores, positive, weights)
    best = max(accuracy(t) for t in (0.0, 0.15, 0.3, 0.6, 1.0))
    assert threshold_found.balanced_accuracy == pytest.approx(best, abs=1e-9)
    assert accuracy(threshold_found.value) == pytest.approx(best, abs=1e-9)


def test_the_best_threshold_lies_half_way() -> None:
    weights = np.full(4, 0.25)
    positive = np.array([False, False, True, True])
    threshold = best_threshold(np.array([0.1, 0.2, 0.6, 0.9]), positive, weights)
    assert threshold == (pytest.approx(0.4), 1.0)
    close = np.array([1.0, 1.0, np.nextafter(1, 2), 2.0])  # nothing lies between
    assert best_threshold(close, positive, weights) == (close[2], 1.0)
    with pytest.raises(JudgmentError, match="no sentence has a score"):
        best_threshold(np.full(4, np.nan), positive, weights)


def test_the_middle_one_of_several_best_thresholds_is_returned() -> None:
    # Right are 4 of 6 from 1.5, 3.5 and 5.5 on, and 3 elsewhere.
    positive = np.array([False, True, False, True, False, True])
    threshold = best_threshold(np.arange(1.0, 7.0), positive, np.full(6, 1 / 6))
    assert threshold == (3.5, pytest.approx(4 / 6))


def test_a_threshold_is_never_chosen_on_the_query_that_it_is_used_for() -> None:
    rng = np.random.default_rng(4)
    language = np.repeat([0, 1], 60)
    query = np.repeat(np.arange(40), 3)
    positive, scores = rng.random(120) < 0.5, rng.random(120)
    before = cross_validated_thresholds(scores, positive, language, query, seed=0)
    assert all(len(set(before[query == q])) == 1 for q in range(40))
    assert 1 < len(set(before)) <= 5
    for q in (0, 17, 39):
        flipped, moved = positive.copy(), scores.copy()
        flipped[query == q] = ~flipped[query == q]
        moved[query == q] = -5.0
        after = cross_validated_thresholds(moved, flipped, language, query, seed=0)
        assert (after[query == q] == before[query == q]).all()
    for code in (0, 1):  # the folds of a language are even
        language_thresholds = before[(language == code)]
        assert {np.count_nonzero(language_thresholds == t) for t in set(language_thresholds)} == {
            12
        }


def test_random_scores_have_chance_accuracy_with_cross_validation() -> None:
    rng = np.random.default_rng(6)
    one_language = np.zeros(200, dtype=int)
    cross, best = [], []
    for seed in range(60):
        positive, scores = rng.random(200) < 0.6, rng.random(200)
        weights = sentence_weights(one_language, positive.astype(int))
        threshold = cross_validated_thresholds(
            scores, positive, one_language, np.arange(200), seed=seed
        )
        cross.append(weights @ ((scores >= threshold) == positive))
        best.append(best_threshold(scores, positive, weights).balanced_accuracy)
    assert abs(np.mean(cross) - 0.5) < 0.015
    assert np.mean(best) > 0.53  # in-sample it seems to


def test_too_few_queries_to_cross_validate() -> None:
    with pytest.raises(JudgmentError, match="too few queries to choose a threshold"):
        cross_validated_thresholds(
            np.array([0.1, 0.9]), np.array([False, True]), np.zeros(2, int), np.arange(2), seed=0
        )


# Scores


def test_roc_auc_by_hand() -> None:
    positive = np.array([True, True, False, False, True])
    assert roc_auc(np.array([3.0, 2.0, 2.0, 1.0, np.nan]), positive) == (2 + 1.5) / 4
    assert np.isnan(roc_auc(np.array([3.0, np.nan, np.nan, np.nan, 1.0]), positive))


def test_calibration_by_hand() -> None:
    result = calibration([0.05, 0.1, 0.95, 1.0, 0.0, np.nan], [0, 1, 1, 1, 0, 1])
    first, last = result.bins
    assert first[:4] == (0.0, 0.1, 3, pytest.approx(0.05))
    assert first.positive == pytest.approx(1 / 3)
    assert last == (0.9, 1.0, 2, pytest.approx(0.975), 1.0)
    assert result.error == pytest.approx((3 * (1 / 3 - 0.05) + 2 * 0.025) / 5)
    assert result.brier == pytest.approx((0.05**2 + 0.9**2 + 0.05**2) / 5)


@properties
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=50))
def test_calibration_of_any_scores(rows: list[tuple[float, bool]]) -> None:
    scores, positive = [s for s, _ in rows], [p for _, p in rows]
    result = calibration(scores, positive)
    assert result.brier == pytest.approx(
        brier_score_loss(positive, scores, labels=[False, True], pos_label=True)
    )
    assert sum(bin.sentences for bin in result.bins) == len(rows)
    assert all(bin.lower - 1e-9 <= bin.mean_score <= bin.upper + 1e-9 for bin in result.bins)
    assert 0 <= result.error <= 1
    assert calibration(scores, positive, bins=1).error == pytest.approx(
        abs(np.mean(scores) - np.mean(positive))
    )


def test_probabilities_are_calibrated_and_others_are_not() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(20_000)
    positive = rng.random(20_000) < scores
    assert calibration(scores, positive).error < 0.015
    assert calibration(scores**3, positive).error > 0.1


def test_invalid_scores_and_bins_of_calibration_are_refused() -> None:
    with pytest.raises(JudgmentError, match=r"scores from 0\.5 to 1\.5"):
        calibration([0.5, 1.5], [0, 1])
    with pytest.raises(JudgmentError, match="no scores to calibrate"):
        calibration([np.nan], [True])
    with pytest.raises(SettingError, match="bins must be at least 1, got 0"):
        calibration([0.5], [True], bins=0)


def test_the_interval_of_the_area_covers_if_wrong_sentences_are_in_few_answers() -> None:
    rng = np.random.default_rng(0)
    answers, covered = np.repeat(np.arange(40), 5), []
    for _ in range(200):
        is_bad = rng.random(40) < 0.1
        positive = ~(is_bad[answers] & (rng.random(200) < 0.8))
        scores = rng.standard_normal(40)[answers] + rng.standard_normal(200)
        if positive.all():
            continue
        low, high = roc_auc_interval(scores, positive, answers)
        if not np.isnan(low):
            covered.append(low <= 0.5 <= high)
    assert len(covered) > 50
    assert np.mean(covered) > 0.92  # 0.82 with one degree of freedom for each answer
