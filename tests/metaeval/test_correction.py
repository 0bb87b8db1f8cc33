"""Shares corrected with a few labels, and transfer cards."""

from __future__ import annotations

import math

import numpy as np
import pytest
from labelled import NO, YES, by_number, labelled, query, recorded

from mirage.dataset import MirageDataset
from mirage.errors import JudgmentError
from mirage.metaeval import (
    AnswerSentence,
    LabelledSentences,
    corrected_share,
    score,
    sentences_of,
    transfer_card,
)
from mirage.models import Response, Run
from mirage.statistics import powered_mean
from mirage.statistics.classification import roc_auc, roc_auc_interval
from mirage.statistics.prediction_powered import cross_predicted

# 200 sentences, two per query; people label 60 % positive, and the score is informative.
RNG = np.random.default_rng(0)
TRUE = RNG.random(200) < 0.6
SCORE = TRUE + RNG.normal(0, 0.4, 200)
OTHER = TRUE + RNG.normal(0, 0.5, 200)


def split(count: int, true: np.ndarray = TRUE) -> tuple[LabelledSentences, list[AnswerSentence]]:
    """Return ``count`` labelled sentences, and the other sentences."""
    rows = [("en", f"q{i // 2}", YES if yes else NO) for i, yes in enumerate(true)]
    rest = [AnswerSentence(query(f"q{i // 2}"), f"s{i}") for i in range(count, 200)]
    return labelled(rows[:count]), rest


def helpful(numbers: np.ndarray = SCORE, name: str = "helpful", **settings: float) -> object:
    return score(by_number(numbers.tolist()), name=name, **settings)  # type: ignore[arg-type]


def test_sentences_without_a_verdict_are_counted() -> None:
    known, rest = split(100)
    gaps = np.where(np.arange(200) % 10 == 3, np.nan, SCORE)
    shares = corrected_share(known, helpful(gaps), rest)
    assert shares.rows[0].judge_share == pytest.approx(np.nanmean(gaps))
    assert "says' is a share of the 180 sentences with a verdict; 20 have none" in str(shares)


def test_a_corrected_share_equals_the_powered_mean_of_arrays() -> None:
    sample, rest = split(80)
    row = corrected_share(sample, helpful(threshold=0.5), rest)["helpful"]
    labels = np.where(np.arange(200) < 80, TRUE, np.nan)
    expected = powered_mean(labels, SCORE, cluster=np.arange(200) // 2)
    assert row.corrected.interval == pytest.approx(expected.interval)
    assert (row.corrected.labels, row.corrected.clusters) == (80, 40)
    assert row.judge_share == (SCORE >= 0.5).mean()
    low, high = row.corrected.interval
    assert low < TRUE.mean() < high
    assert row.corrected.worth > 100
    assert np.ptp(row.corrected.interval) < np.ptp(row.corrected.alone_interval)


def test_a_judge_that_names_labels_helps_too() -> None:
    sample, rest = split(80)
    says = recorded("says", [YES if value > 0.5 else NO for value in SCORE])
    row = corrected_share(sample, says, rest)["says"]
    assert row.judge_share == (SCORE > 0.5).mean()
    assert row.corrected.worth > 85


def test_labels_that_people_did_not_use_are_noted() -> None:
    sample, rest = split(80)
    says = recorded("says", [YES if value > 0.5 else "Unsupported" for value in SCORE])
    text = " ".join(str(corrected_share(sample, says, rest)).split())
    count = np.count_nonzero(SCORE <= 0.5)
    assert f"says returned 'Unsupported' ({count}), but people's labels are 'Not Supp" in text


def test_several_scores_together_are_more_precise() -> None:
    sample, rest = split(140)
    both = corrected_share(sample, [helpful(), helpful(OTHER, "other")], rest)
    worth = {row.judge: row.corrected.worth for row in both}
    assert list(worth) == ["helpful", "other", "together"]
    assert worth["together"] > max(worth["helpful"], worth["other"])
    text = str(both)
    assert "labels alone" in text
    assert max(map(len, text.splitlines())) <= 80
    assert list(both.to_pandas()["judge"]) == list(worth)


def test_a_cross_prediction_does_not_use_its_own_label() -> None:
    # If features are noise, a model of the other labels cannot predict a label.
    rng = np.random.default_rng(1)
    with_own = []
    for _ in range(60):
        labels = (rng.random(40) < 0.5).astype(float)
        predicted = cross_predicted(rng.normal(size=(40, 5)), labels, np.arange(40))
        with_own.append(np.corrcoef(predicted, labels)[0, 1])
    assert np.mean(with_own) < 0.05


def test_a_card_advises_on_gates() -> None:
    sample, _ = split(200)
    noise = np.random.default_rng(2).normal(size=200)
    card = transfer_card(sample, [helpful(), helpful(noise, "noise"), "support_lexical"])
    good = card["helpful"]
    assert good.roc_auc == pytest.approx(roc_auc(SCORE, TRUE))
    assert good.gate
    assert good.interval[0] > 0.6
    assert (good.sentences, good.queries, good.memerag_areas) == (200, 100, ())
    assert not card["noise"].gate
    assert card["support_lexical"].memerag_areas == (("de", 0.7715), ("en", 0.6682), ("es", 0.6759))
    text = str(card)
    assert "noise: do not gate on it: no better than chance" in text
    assert "helpful: separates the two labels" in text
    assert max(map(len, text.splitlines())) <= 80
    few = transfer_card(split(16)[0], helpful())["helpful"]
    assert few.advice == "do not gate on it: too few labels to tell"
    assert math.isnan(few.interval[0])


def test_a_feature_that_agrees_less_here_is_named() -> None:
    weak = TRUE + np.random.default_rng(4).normal(0, 2.2, 200)
    row = transfer_card(split(200)[0], helpful(weak))["helpful"]
    row = row._replace(memerag_areas=(("de", 0.95),), gate=True)
    assert row.advice == "separates the two labels, but less well than on MEMERAG"


@pytest.mark.parametrize(
    ("queries", "repeats"), [(20, 120), pytest.param(60, 400, marks=pytest.mark.slow)]
)
def test_the_interval_of_an_area_holds_it(queries: int, repeats: int) -> None:
    # Two scores at a distance of 1, in clusters of three: the area is Phi(1 / sqrt(2)).
    truth = 0.5 * math.erfc(-0.5)
    rng, covered = np.random.default_rng(queries), []
    for _ in range(repeats):
        shared = np.repeat(rng.normal(0, math.sqrt(0.5), queries), 3)
        positive = rng.random(3 * queries) < 0.5
        scores = positive + shared + rng.normal(0, math.sqrt(0.5), 3 * queries)
        low, high = roc_auc_interval(scores, positive, np.repeat(np.arange(queries), 3))
        covered.append(low <= truth <= high)
    assert 0.925 < np.mean(covered) < 0.985


def test_the_error_of_an_area_by_hand() -> None:
    # Without clusters this is DeLong's: pairs of components, here by counting.
    scores = np.array([0.1, 0.4, 0.35, 0.8, 0.7, 0.2, 0.9, 0.5, 0.3, 0.6])
    positive = np.array([0, 0, 1, 1, 1, 0, 1, 0, 0, 1], dtype=bool)
    beats = (scores[positive][:, None] > scores[~positive]).astype(float)
    area = beats.mean()
    parts = np.concatenate([(beats.mean(1) - area) / 5, (beats.mean(0) - area) / 5])
    error = math.sqrt((parts**2).sum() * 10 / 9)
    reach = 2.262 * error / (area * (1 - area))
    ends = [1 / (1 + math.exp(-(math.log(area / (1 - area)) + s * reach))) for s in (-1, 1)]
    assert roc_auc_interval(scores, positive, np.arange(10)) == pytest.approx(ends, abs=1e-4)


def test_sentences_of_a_run() -> None:
    dataset = MirageDataset.bundled("en").sample(2, seed=0)
    first, second = dataset.query_ids
    run = Run(
        model="m",
        language="en",
        responses=(
            Response(query_id=first, text="##Reason: -\n##Answer: One is so [1]. Two is not."),
            Response(query_id=second, text=None, error="no answer"),
        ),
    )
    sentences = sentences_of(dataset, run)
    assert [sentence.text for sentence in sentences] == ["One is so.", "Two is not."]
    assert [sentence.citations for sentence in sentences] == [
        (dataset[first].passages[0].id,),
        (),
    ]


def test_invalid_judges_and_labels_raise_errors() -> None:
    sample, rest = split(50)
    with pytest.raises(JudgmentError, match="no judge was passed"):
        corrected_share(sample, [], rest)
    with pytest.raises(JudgmentError, match="returns labels"):
        transfer_card(sample, recorded("says", [YES] * 200))
    with pytest.raises(JudgmentError, match="a score needs exactly two"):
        transfer_card(labelled([("en", "q1", YES), ("en", "q2", YES)]), helpful())
    with pytest.raises(JudgmentError, match="there is no corrected share for judge 'x'"):
        corrected_share(sample, helpful(), rest)["x"]
