"""Features of short answers and references compare facts, not wording."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from mirage.features import NotComputed, answered, feature
from mirage.models import Passage, Query, Response

QUERY = Query(
    id="q1",
    language="en",
    text="Which rivers meet at Khartoum?",
    answers=[["White Nile"], ["Blue Nile", "Abbay"]],
    wrong_answers=["Congo", ["Zambezi"]],
    reference="##Reason: [a].\n##Answer: The White Nile and the Blue Nile [a].",
    passages=(Passage(id="a", text="..."),),
)


def value(name: str, text: str, query: Query = QUERY) -> float | NotComputed:
    return feature(name).compute([answered(query, Response(query_id=query.id, text=text))])[0]


def test_each_answer_counts_in_any_of_its_forms() -> None:
    assert value("answer_match", "The White Nile and the Abbay [1].") == 1
    assert value("answer_match", "##Reason: Blue Nile.\n##Answer: The White Nile [1].") == 0.5
    assert value("answer_match", "I do not know.") == 0


def test_a_wrong_answer_counts_if_it_is_asserted_and_the_right_one_is_not() -> None:
    assert value("wrong_answer", "The Congo flows there [1].") == 1
    assert value("wrong_answer", "Many say the White Nile; in fact it is the Congo [1].") == 1
    assert value("wrong_answer", "Not the Congo, but the White Nile and the Blue Nile [1].") == 0
    assert value("wrong_answer", "The White Nile [1].") == 0
    assert value("wrong_answer", "I do not know.") == 0


def test_content_of_the_question_does_not_count_as_recalled() -> None:
    query = QUERY.model_copy(update={"text": "What is red?", "reference": "##Answer: Red is cab."})
    # Of " re", "red", "ed ", " is", "is ", " ca", "cab", "ab " the question holds the first five.
    assert value("reference_recall", "A cab.", query) == 1
    assert value("reference_recall", "A cat is red.", query) == pytest.approx(1 / 3)
    assert value("reference_recall", "Red is what is red.", query) == 0


def test_missing_values_have_a_reason() -> None:
    bare, unanswerable = QUERY.without_gold(), QUERY.model_copy(update={"answerable": False})
    for name, query, reason in (
        ("answer_match", bare, "no short answers"),
        ("wrong_answer", bare, "no wrong answers"),
        ("reference_recall", bare, "no reference"),
        ("answer_match", unanswerable, "no right answer"),
        ("wrong_answer", unanswerable, "no right answer"),
    ):
        gap = value(name, "The Nile.", query)
        assert isinstance(gap, NotComputed)
        assert reason in gap.reason


@pytest.mark.slow
def test_recall_separates_right_from_wrong_answers_of_real_models(data_dir: Path) -> None:
    """HalluQA: 24 models, GPT-4's verdicts; ROUGE-L has an area of 0.691."""
    path = data_dir / "halluqa" / "zh.jsonl"
    if not path.exists():
        pytest.skip("HalluQA is not at hand")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    items = []
    for row in rows:
        query = Query(
            id=row["query_id"], language="zh", text=row["query"], reference=row["reference"]
        )
        items.append(answered(query, Response(query_id=query.id, text=row["response"])))
    recall = np.array(feature("reference_recall").compute(items), dtype=float)
    assert roc_auc_score([row["judgments"]["correct"] for row in rows], recall) > 0.8
