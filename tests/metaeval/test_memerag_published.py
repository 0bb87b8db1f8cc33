"""MEMERAG's own files: its published figures, and offline features as judges of it."""

from __future__ import annotations

import json
from pathlib import Path

import krippendorff
import numpy as np
import pandas as pd
import pytest
from labelled import irrcac

from mirage.errors import FeatureError
from mirage.features.lexical import SUPPORTED_AT
from mirage.metaeval import (
    AnswerSentence,
    LabelledSentences,
    MetaEvaluation,
    annotator_agreement,
    evaluate,
    score,
)
from mirage.metaeval.gold import MEAN

LANGUAGES = ("en", "de", "es")
SUPPORTED, NOT_SUPPORTED = "Supported", "Not Supported"
CHALLENGING = "Challenging to determine"


@pytest.fixture(scope="module")
def published(data_dir: Path) -> dict:
    return json.loads((data_dir / "published" / "memerag.json").read_text())


def load(data_dir: Path, variant: str, task: str = "faithfulness") -> LabelledSentences:
    return LabelledSentences.memerag(data_dir / "memerag" / variant, LANGUAGES, task=task)


# Tables 1 and 3


def test_sentences_and_label_shares(data_dir: Path, published: dict) -> None:
    counts = load(data_dir, "memerag").counts()
    for code in LANGUAGES:
        total = counts[code].total()
        assert total == published["sentences_table1"][code]
        shares = [
            f"{100 * counts[code][label] / total:.1f}"
            for label in (SUPPORTED, NOT_SUPPORTED, CHALLENGING)
        ]
        assert shares == [
            f"{share:.1f}" for share in published["faithfulness_percent_table3"][code]
        ]


def test_a_folder_is_read_whole_and_relevance_too(data_dir: Path) -> None:
    relevance = LabelledSentences.memerag(data_dir / "memerag" / "memerag", task="relevance")
    assert sorted(relevance.languages) == sorted(LANGUAGES)
    assert relevance.counts()["de"] == {
        "Directly answers the question": 287,
        "Adds context to the answer": 124,
        "Unrelated to the question": 57,
    }
    assert not any(relevance.fine)


def test_the_undecided(data_dir: Path) -> None:
    decided, left_out = load(data_dir, "memerag").decided()
    assert left_out == {CHALLENGING: 13 + 10 + 8}
    assert len(decided) == 400 + 468 + 563 - 31
    assert decided.counts(fine=True)["en"]["Nuance shift"] == 27


# The majority


@pytest.mark.parametrize("task", ["faithfulness", "relevance"])
def test_the_majority_is_the_published_one(data_dir: Path, task: str) -> None:
    ours = load(data_dir, "memerag_ext", task).majority()
    theirs = load(data_dir, "memerag_ext_w_majority_vote", task)
    pairs = list(zip(ours.labels, theirs.labels, strict=True))
    assert all(mine == published for mine, published in pairs if mine)
    # Five annotators cannot tie on two labels; on three they do, in five German sentences.
    assert sum(not mine for mine, _ in pairs) == (5 if task == "relevance" else 0)


def test_the_fine_grained_majority_is_the_published_one(data_dir: Path) -> None:
    ours = load(data_dir, "memerag_ext").majority()
    theirs = load(data_dir, "memerag_ext_w_majority_vote")
    pairs = list(zip(ours.fine, theirs.fine, strict=True))
    assert all(mine == published for mine, published in pairs if mine)
    assert sum(not mine for mine, _ in pairs) < 0.15 * len(pairs)  # two labels lead


# Agreement


@pytest.mark.parametrize("task", ["faithfulness", "relevance", "fine"])
def test_agreement_is_that_of_other_packages(data_dir: Path, task: str) -> None:
    labelled = load(data_dir, "memerag_ext", "relevance" if task == "relevance" else "faithfulness")
    agreement = annotator_agreement(labelled, fine=task == "fine", draws=200)
    columns = labelled.fine if task == "fine" else labelled.labels
    for code in LANGUAGES:
        rows = [
            labels
            for sentence, labels in zip(labelled.sentences, columns, strict=True)
            if sentence.query.language == code
        ]
        codes = np.unique(rows, return_inverse=True)[1].reshape(-1, 5)
        cac = irrcac()(pd.DataFrame(codes), digits=15)
        row = agreement[code]
        for ours, theirs, interval in (
            (row.gwet_ac1, cac.gwet()["est"]["coefficient_value"], row.gwet_ac1_interval),
            (row.fleiss_kappa, cac.fleiss()["est"]["coefficient_value"], row.fleiss_kappa_interval),
            (
                row.krippendorff_alpha,
                krippendorff.alpha(reliability_data=codes.T, level_of_measurement="nominal"),
                row.krippendorff_alpha_interval,
            ),
        ):
            assert ours == pytest.approx(theirs, abs=1e-9)
            assert interval[0] < ours < interval[1]
        assert cac.gwet()["est"]["pa"] == pytest.approx(row.agreement, abs=1e-9)


# Features as judges


@pytest.fixture(scope="module")
def judged(data_dir: Path) -> MetaEvaluation:
    """Lexical support, at a threshold by cross-validation, at 0.8, and a score without meaning."""
    labelled = load(data_dir, "memerag")
    support = evaluate(labelled, "support_lexical")["support_lexical"]
    sentences = support.truth.labelled
    values = {
        (sentence.query.id, sentence.text): value
        for sentence, value in zip(sentences, support.scores, strict=True)
    }

    def again(sentence: AnswerSentence) -> float:
        return float(values[sentence.query.id, sentence.text])

    def length_of_id(sentence: AnswerSentence) -> float:
        return float(len(sentence.query.id))

    return evaluate(labelled, [again, score(again, SUPPORTED_AT, name="at 0.8"), length_of_id])


@pytest.mark.slow
def test_lexical_support_beats_a_published_llm_judge(
    judged: MetaEvaluation, published: dict
) -> None:
    judge = published["balanced_accuracy_table5"]["zero_shot"]["gpt-4o-mini"] / 100
    for name, codes in (("again", (MEAN,)), ("at 0.8", (*LANGUAGES, MEAN))):
        for code in codes:
            assert judged[name][code].balanced_accuracy > judge
        assert judged[name][MEAN].roc_auc > 0.702
        assert judged[name][MEAN].invalid == 0
    assert judged["at 0.8"][MEAN].balanced_accuracy > 0.63
    assert judged["again"].threshold_source == "cross-validation"
    lower, upper = judged["length_of_id"][MEAN].interval
    assert lower < 0.5 < upper
    assert judged.compare()["again", "length_of_id"].corrected < 0.01
    wrong = {(row.fine, row.judge): row.share for row in judged.errors()}
    assert wrong["Adds new information", "at 0.8"] < wrong["Nuance shift", "at 0.8"]


@pytest.mark.slow
def test_support_is_a_poor_probability(judged: MetaEvaluation) -> None:
    calibration = judged["at 0.8"].calibration()
    assert sum(bin.sentences for bin in calibration.bins) == 1400
    shares = np.array([bin.positive for bin in calibration.bins if bin.sentences >= 20])
    assert (np.diff(shares) > 0).all()  # it orders sentences well, but
    assert calibration.error > 0.1


@pytest.mark.parametrize(
    ("feature", "reason"),
    [
        ("answer_bleu", "no reference"),
        ("answer_rougeL", "no reference"),
        ("citation_recall@10", "no relevant passage"),
        ("citation_map@10", "no relevant passage"),
    ],
)
def test_features_that_have_nothing_to_say(data_dir: Path, feature: str, reason: str) -> None:
    with pytest.raises(FeatureError, match=reason):
        evaluate(load(data_dir, "memerag"), feature)
