"""Judges that abstain: the risk on new labels, and the sentences that a cascade passes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from labelled import NO, YES, by_number, labelled, recorded
from llm_server import ChatServer

from mirage.errors import DatasetError, JudgmentError, SettingError
from mirage.llm import LLM
from mirage.metaeval import (
    AbstainingJudge,
    AnswerSentence,
    LabelledSentences,
    LLMSentenceJudge,
    cascade,
    evaluate,
    read_sentences,
    score,
    write_sentences,
)
from mirage.metaeval.judges import Score
from mirage.models import Passage, Query

RIGHT = np.tile([True, False], 50)


def test_a_score_that_is_right_throughout_decides_everything() -> None:
    judge = AbstainingJudge.calibrate(np.where(RIGHT, 0.9, 0.1), RIGHT)
    assert judge.coverage == 1
    assert judge.error == 0
    assert judge.coverage_interval[0] > 0.9
    assert judge.decide([0.95, 0.05, np.nan]).tolist() == pytest.approx([1, 0, np.nan], nan_ok=True)


def test_it_decides_as_far_as_its_errors_allow() -> None:
    scores = np.where(RIGHT, 0.9, 0.1)
    scores[60:] = np.where(np.arange(40) % 4 < 2, 0.6, 0.4)  # chance, and less sure
    judge = AbstainingJudge.calibrate(scores, RIGHT, risk=0.1)
    assert judge.coverage == 0.6
    assert judge.decide([0.6, 0.4, 0.9]).tolist() == pytest.approx([np.nan, np.nan, 1], nan_ok=True)
    assert "decides 60 %" in str(judge)


def test_a_random_score_abstains_on_every_item() -> None:
    rng = np.random.default_rng(0)
    judge = AbstainingJudge.calibrate(rng.random(100), rng.random(100) < 0.5)
    assert judge.coverage == 0
    assert np.isnan(judge.decide([0.0, 1.0])).all()
    assert str(judge).startswith("abstains throughout: 100 labels in 100 clusters")


def test_a_balanced_risk_does_not_let_the_frequent_label_hide_the_rare_one() -> None:
    positive = np.arange(400) % 10 > 0
    always = np.linspace(0.6, 0.9, 400)
    assert AbstainingJudge.calibrate(always, positive).coverage == 1
    assert AbstainingJudge.calibrate(always, positive, balanced=True).coverage == 0


def test_sentences_of_one_answer_count_less_than_as_many_answers() -> None:
    scores, answers = np.where(RIGHT, 0.9, 0.1), np.repeat(np.arange(5), 20)
    assert AbstainingJudge.calibrate(scores, RIGHT).coverage == 1
    with pytest.raises(JudgmentError, match=r"100 labels in 5 clusters .* at least \d{3} labels"):
        AbstainingJudge.calibrate(scores, RIGHT, clusters=answers.tolist())
    scores[90:] = 1 - scores[90:]  # ten errors are too many if an answer may have twenty more
    assert AbstainingJudge.calibrate(scores, RIGHT).coverage == 1
    many = np.repeat(np.arange(25), 4)
    assert AbstainingJudge.calibrate(scores, RIGHT, clusters=many.tolist()).coverage < 1


def test_thirteen_labels_are_too_few_and_fourteen_are_not() -> None:
    # 0.8 ** 13 = 0.055, 0.8 ** 14 = 0.044
    with pytest.raises(JudgmentError, match="at least 14 labels"):
        AbstainingJudge.calibrate([0.9] * 13, [True] * 13)
    assert AbstainingJudge.calibrate([0.9] * 14, [True] * 14).coverage == 1


def test_a_judge_that_errs_more_often_than_the_risk_seldom_decides() -> None:
    """With a constant error of 25 % and a risk of 20 %, every decision would break the promise."""
    rng = np.random.default_rng(0)
    labels = np.ones(100, dtype=bool)
    decided = 0
    for _ in range(200):
        wrong = rng.random(100) < 0.25
        scores = 0.5 + np.where(wrong, -1, 1) * rng.random(100) / 2
        decided += AbstainingJudge.calibrate(scores, labels).coverage > 0
    assert decided <= 10


def test_settings_and_columns_are_checked() -> None:
    with pytest.raises(SettingError, match="risk=0"):
        AbstainingJudge.calibrate([0.5], [True], risk=0)
    with pytest.raises(SettingError, match="threshold=nan"):
        AbstainingJudge.calibrate([0.5], [True], threshold=np.nan)
    with pytest.raises(JudgmentError, match="one score, one label"):
        AbstainingJudge.calibrate([0.5, 0.6], [True])
    with pytest.raises(JudgmentError, match="must be True or False"):
        AbstainingJudge.calibrate([0.5], [2])
    with pytest.raises(JudgmentError, match="needs both labels"):
        AbstainingJudge.calibrate([0.9] * 50, [True] * 50, balanced=True)


def test_the_risk_is_exceeded_as_rarely_as_the_confidence_promises() -> None:
    """Scores without information, of a judge with error rate 0.2, on clustered answers."""
    rng = np.random.default_rng(0)
    decided = 0
    for _ in range(150):
        codes = np.repeat(np.arange(40), 3)
        same = rng.random(40)[codes] < 0.5
        draws = np.where(same, rng.random(40)[codes], rng.random(120))
        labels = rng.random(120) < 0.6
        scores = 0.5 + np.where((draws < 0.2) ^ labels, 1, -1) * rng.random(120) / 2
        judge = AbstainingJudge.calibrate(scores, labels, clusters=codes.tolist())
        decided += judge.coverage > 0
    assert decided <= 14  # 5 % of 150 are 7.5; more than 14 come of that in 1 of 100 cases


def numbered(numbers: list[float]) -> Score:
    return score(by_number(numbers), threshold=0.5, name="number")


def test_a_cascade_asks_about_what_the_score_leaves_undecided(server: ChatServer) -> None:
    truth = [YES, NO] * 40
    sentences = labelled([("en", f"q{i}", label) for i, label in enumerate(truth)])
    numbers = [0.9 if label == YES else 0.1 for label in truth]
    numbers[64:] = [0.51 if i % 4 < 2 else 0.49 for i in range(16)]
    server.answer = lambda _: f"<answer>{YES}</answer>"
    costly = LLMSentenceJudge(LLM("judge", base_url=server.url, backoff=0.0))
    judge = cascade(numbered(numbers), costly, sentences, risk=0.1)
    assert judge.abstaining.coverage == 0.8
    assert [s.text for s in judge.undecided(sentences.sentences)] == [
        f"s{i}" for i in range(64, 80)
    ]
    assert judge.estimate(sentences.sentences).calls == 16
    assert not server.requests
    assert judge.label(sentences.sentences) == [*truth[:64], *[YES] * 16]
    assert len(server.requests) == 16
    assert evaluate(sentences, judge)["number, else judge zero-shot"]["en"].invalid == 0


def test_a_cascade_without_an_llm_has_no_cost_estimate() -> None:
    truth = [YES, NO] * 40
    sentences = labelled([("en", f"q{i}", label) for i, label in enumerate(truth)])
    judge = cascade(
        numbered([0.9 if label == YES else 0.1 for label in truth]),
        recorded("people", truth),
        sentences,
    )
    assert judge.undecided(sentences.sentences) == ()
    with pytest.raises(JudgmentError, match="the cost of 'people' is unknown"):
        judge.estimate(sentences.sentences)
    with pytest.raises(JudgmentError, match="labels without a score"):
        cascade(recorded("people", truth), recorded("others", truth), sentences)


def test_a_list_of_scores_is_calibrated_on_held_out_folds() -> None:
    truth = [YES, NO] * 60
    sentences = labelled([("en", f"q{i}", label) for i, label in enumerate(truth)])
    # A threshold of 0.5 would fail, because high numbers mean the negative label.
    upside_down = score(by_number([3.0 if label == NO else 1.0 for label in truth]), name="number")
    judge = cascade([upside_down], None, sentences)
    assert judge.name == "number, else people"
    assert (judge.abstaining.labels, judge.abstaining.coverage) == (120, 1)
    assert judge.label(sentences.sentences) == truth
    with pytest.raises(SettingError, match="list of scores to combine is empty"):
        cascade([], None, sentences)
    # A model that overfits noise does not generalize, so no share can be decided.
    rng = np.random.default_rng(0)
    noise = [
        score(by_number(rng.standard_normal(120).tolist()), name=f"noise {n}") for n in range(100)
    ]
    assert cascade(noise, None, sentences).abstaining.coverage == 0


def test_undecided_sentences_can_be_written_and_read_again(tmp_path: Path) -> None:
    passages = (Passage(id="p", text="Ziwa.", title="Maji"), Passage(id="2", text="Mto."))
    question = Query(id="q", language="sw", text="Nini?", passages=passages, cluster="c")
    sentences = (
        AnswerSentence(question, "Ziwa ni pana.", ("p",)),
        AnswerSentence(question, "Mto."),
    )
    write_sentences(sentences, tmp_path / "left.jsonl")
    assert read_sentences(tmp_path / "left.jsonl") == sentences
    with pytest.raises(DatasetError, match="has no label"):
        LabelledSentences.from_jsonl(tmp_path / "left.jsonl")
