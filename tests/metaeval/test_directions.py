"""Scores that are better when lower: the direction is the one that the feature declares."""

from __future__ import annotations

import numpy as np
import pytest
from labelled import NO, YES, by_number, labelled, query

from mirage.errors import FeatureError, JudgmentError
from mirage.features import Facts
from mirage.metaeval import (
    AnswerSentence,
    LabelledSentences,
    cascade,
    corrected_share,
    evaluate,
    score,
    transfer_card,
)
from mirage.metaeval.gold import MEAN
from mirage.metaeval.judges import Score

TRUTH = [YES, NO] * 60
SENTENCES = labelled([("en", f"q{i // 2}", label) for i, label in enumerate(TRUTH)])
RNG = np.random.default_rng(0)
GOOD = np.clip([0.7 if label == YES else 0.3 for label in TRUTH] + RNG.normal(0, 0.2, 120), 0, 1)
UNIT, ANY = Facts("lower", 0, 1), Facts("lower")


def as_score(numbers: np.ndarray, facts: Facts, threshold: float | None = None) -> Score:
    number = by_number(numbers.tolist())
    return Score("x", lambda sentences: list(map(number, sentences)), threshold, facts)


HIGHER = as_score(GOOD, Facts("higher", 0, 1))
LOWER = [as_score(1 - GOOD, UNIT), as_score(-GOOD, ANY)]


@pytest.mark.parametrize("lower", LOWER)
def test_a_lower_is_better_score_is_measured_as_its_mirror_image(lower: Score) -> None:
    expected = evaluate(SENTENCES, HIGHER)["x"]
    mirrored = evaluate(SENTENCES, lower)["x"]
    assert expected[MEAN].roc_auc > 0.8
    assert mirrored[MEAN] == expected[MEAN]
    assert mirrored.labels == expected.labels
    assert mirrored.scores is not None
    assert mirrored.thresholds is not None
    # Scores and thresholds stay in the units of the score.
    assert mirrored.scores == pytest.approx(lower.function(SENTENCES.sentences))
    below = mirrored.scores <= mirrored.thresholds + 1e-12
    assert [YES if good else NO for good in below] == list(mirrored.labels)
    best = expected.best_threshold()
    turned = 1 - best.value if lower is LOWER[0] else -best.value
    assert mirrored.best_threshold() == (pytest.approx(turned), best.balanced_accuracy)


def test_a_given_threshold_of_a_lower_is_better_score_is_in_its_own_units() -> None:
    result = evaluate(SENTENCES, as_score(1 - GOOD, UNIT, threshold=0.4))["x"]
    assert result.labels == tuple(YES if bad <= 0.4 else NO for bad in 1 - GOOD)
    assert result.threshold == "threshold 0.4, given"


def test_a_lower_is_better_score_is_calibrated_as_the_probability_of_the_other_label() -> None:
    expected = evaluate(SENTENCES, HIGHER)["x"].calibration()
    mirrored = evaluate(SENTENCES, LOWER[0])["x"].calibration()
    assert mirrored.brier == pytest.approx(expected.brier)


@pytest.mark.parametrize("lower", LOWER)
def test_a_transfer_card_gates_on_a_lower_is_better_score(lower: Score) -> None:
    expected, mirrored = (transfer_card(SENTENCES, each)["x"] for each in (HIGHER, lower))
    assert mirrored.gate
    assert mirrored.interval == pytest.approx(expected.interval)
    assert mirrored.direction == "x: a lower value means 'Supported'"
    assert mirrored.advice == "separates the two labels"


def test_a_card_tells_a_score_that_points_the_other_way() -> None:
    row = transfer_card(SENTENCES, as_score(1 - GOOD, Facts()))["x"]
    assert not row.gate
    assert row.advice.endswith("its reversed values agree better, so check its direction")


def test_a_cascade_decides_by_a_lower_is_better_score() -> None:
    expected = cascade(HIGHER, None, SENTENCES, risk=0.2)
    mirrored = cascade(LOWER[0], None, SENTENCES, risk=0.2)
    assert 0 < expected.abstaining.coverage == mirrored.abstaining.coverage
    assert mirrored.label(SENTENCES.sentences) == expected.label(SENTENCES.sentences)
    scores = [decision.score for decision in mirrored.scored(SENTENCES.sentences)]
    assert scores == pytest.approx((1 - GOOD).tolist())
    assert "a lower value means 'Supported'" in str(mirrored)
    strict = cascade(as_score(1 - GOOD, UNIT, threshold=0.2), None, SENTENCES, risk=0.4)
    assert strict.abstaining.threshold == pytest.approx(0.8)


def test_a_share_is_corrected_by_a_lower_is_better_score() -> None:
    some = labelled([("en", f"q{i}", label) for i, label in enumerate(TRUTH[:60])])
    rest = [AnswerSentence(query(f"q{i}"), f"s{i}") for i in range(60, 120)]
    expected, mirrored = (corrected_share(some, each, rest)["x"] for each in (HIGHER, LOWER[0]))
    assert expected.corrected.worth > 65
    assert mirrored.corrected.worth == pytest.approx(expected.corrected.worth)
    assert mirrored.judge_share == pytest.approx(expected.judge_share)
    by_threshold = as_score(1 - GOOD, UNIT, threshold=0.4)
    assert corrected_share(some, by_threshold, rest)["x"].judge_share == np.mean(1 - GOOD <= 0.4)


def test_unknown_facts_predict_the_negative_label() -> None:
    texts = ["It has 3 ships.", "It has 3777 ships and 9555 harbours."] * 20
    question = query("q").model_copy(update={"text": "How many?"})
    passage = question.passages[0].model_copy(update={"text": "It has 3 ships."})
    queries = [
        question.model_copy(update={"id": f"q{i}", "passages": (passage,)})
        for i in range(len(texts))
    ]
    sentences = LabelledSentences(
        tuple(AnswerSentence(each, text) for each, text in zip(queries, texts, strict=True)),
        tuple((label,) for label in [NO, YES, *[YES, NO] * 19]),
        ((),) * 40,
    )
    row = transfer_card(sentences, "unknown_facts")["unknown_facts"]
    assert row.roc_auc == 0.95
    assert row.gate
    assert evaluate(sentences, "unknown_facts")["unknown_facts"][MEAN].roc_auc == 0.95


def test_results_note_the_assumed_direction_of_a_score() -> None:
    note = "x declares no direction: a higher value was assumed to mean 'Supported'"
    plain = as_score(GOOD, Facts())
    assert transfer_card(SENTENCES, plain)["x"].direction == note
    for text in (
        str(transfer_card(SENTENCES, plain)),
        str(evaluate(SENTENCES, plain)),
        str(corrected_share(SENTENCES, plain, ())),
        str(cascade(plain, None, SENTENCES)),
    ):
        assert note in " ".join(text.split())
    for text in (str(transfer_card(SENTENCES, HIGHER)), str(evaluate(SENTENCES, HIGHER))):
        assert "declares no direction" not in text


def test_a_function_declares_its_direction() -> None:
    number = by_number((1 - GOOD).tolist())

    def unsupported(sentence: AnswerSentence) -> float:
        value = number(sentence)
        assert value is not None
        return value

    assert transfer_card(SENTENCES, unsupported)["unsupported"].roc_auc < 0.5
    unsupported.facts = UNIT  # type: ignore[attr-defined]
    assert transfer_card(SENTENCES, unsupported)["unsupported"].roc_auc > 0.8
    assert transfer_card(SENTENCES, score(unsupported, name="y"))["y"].roc_auc > 0.8
    unsupported.facts = "lower"  # type: ignore[attr-defined]
    with pytest.raises(
        FeatureError, match=r"'unsupported' must be a mirage.features.Facts, got 'lower'"
    ):
        transfer_card(SENTENCES, unsupported)


def test_a_direction_may_depend_on_the_language() -> None:
    truth = [YES, NO] * 40
    rows = [("en" if i < 40 else "de", f"q{i}", label) for i, label in enumerate(truth)]
    numbers = [(label == YES) == (i < 40) for i, label in enumerate(truth)]
    facts = Facts("lower", 0, 1, direction_by_language={"en": "higher"})
    english = as_score(np.array(numbers, dtype=float) * 0.7, facts)
    result = evaluate(labelled(rows), english)["x"]
    assert result["en"].roc_auc == result["de"].roc_auc == 1
    assert result.direction == "x: its direction depends on the language"
    assert result.best_threshold("en").value == pytest.approx(0.35)
    assert result.best_threshold("de").value == pytest.approx(0.35)
    with pytest.raises(JudgmentError, match="select one language"):
        result.best_threshold()
    with pytest.raises(JudgmentError, match="use labels in one language"):
        cascade(as_score(GOOD[:80], facts, threshold=0.4), None, labelled(rows))
