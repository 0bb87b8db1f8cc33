"""Metrics of short answers: BERGEN's own values, and cases that its metrics get wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from subsets import MOSTLY_SLOW_LANGUAGES

from mirage import MirageDataset
from mirage.features import NotComputed, answered, feature
from mirage.languages import LANGUAGES
from mirage.models import Query, Response

NAMES = {
    "M": "bergen_match",
    "EM": "bergen_exact",
    "F1": "bergen_f1",
    "Precision": "bergen_precision",
    "Recall": "bergen_recall",
    "Recall_char3gram": "bergen_char3_recall",
    "Rouge-1": "bergen_rouge1",
    "Rouge-2": "bergen_rouge2",
    "Rouge-L": "bergen_rougeL",
}


def value(name: str, text: str, *labels: str, language: str = "en") -> float | NotComputed:
    query = Query(id="q1", language=language, text="?", answers=[list(labels)])
    return feature(name).compute([answered(query, Response(query_id="q1", text=text))])[0]


@pytest.mark.slow
def test_bergen_features_give_bergens_own_figures(data_dir: Path) -> None:
    lines = (data_dir / "bergen" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    for row in map(json.loads, lines[::10]):
        for measure, figure in row["metrics"].items():
            computed = value(
                NAMES[measure], row["response"], *row["labels"], language=row["language"]
            )
            assert computed == pytest.approx(figure, rel=0, abs=1e-9 if measure[0] == "R" else 0)


def test_a_label_without_tokens_matches_no_response() -> None:
    for label in ("The", "A", "?"):
        assert value("bergen_match", "Nobody knows.", label) == 1
        gap = value("qa_match", "Nobody knows.", label)
        assert isinstance(gap, NotComputed)
        assert "letter or a digit" in gap.reason
    assert value("qa_match", "Nobody knows.", "?", "nobody") == 1


def test_a_part_of_a_word_does_not_match() -> None:
    assert value("bergen_match", "I know.", "no") == 1
    assert value("qa_match", "I know.", "no") == 0
    assert value("qa_match", "No, it is not.", "no") == 1
    assert value("qa_match", "It has 1990 seats.", "19") == 0
    assert value("qa_match", "En 1990.", "19", language="fi") == 0


def test_words_have_to_be_adjacent_and_in_order() -> None:
    assert value("qa_match", "The Nile is white.", "White Nile") == 0
    assert value("qa_match", "It is the White Nile [1].", "the White Nile") == 1


@pytest.mark.parametrize(
    ("label", "text", "language"),
    [
        ("巴黎", "首都是巴黎。", "zh"),
        ("東京", "首都は東京です。", "ja"),
        ("อา", "แม่น้ำอายาวมาก", "th"),
    ],
)
def test_a_label_of_two_characters_is_found(label: str, text: str, language: str) -> None:
    assert value("bergen_char3_recall", text, label, language=language) == 0
    assert value("qa_char3_recall", text, label, language=language) == 1
    assert value("bergen_f1", text, label, language=language) == 0
    for name in ("qa_f1", "qa_rouge1", "qa_rougeL"):
        assert value(name, text, label, language=language) > 0
    assert value("bergen_exact", f"{label}。", label, language=language) == 0
    assert value("qa_exact", f"{label}。", label, language=language) == 1


@pytest.mark.parametrize(
    ("label", "text", "language"),
    [
        ("Caf\u00e9", "cafe\u0301", "fr"),  # composed and decomposed
        ("1990", "１９９０", "en"),  # full width
        ("१९९०", "1990", "hi"),
        ("\u0645\u0643\u0629", "\u0645\u064e\u0643\u0629", "ar"),  # with a vowel sign
    ],
)
def test_spelling_variants_match(label: str, text: str, language: str) -> None:
    assert value("bergen_match", text, label, language=language) == 0
    assert value("qa_match", text, label, language=language) == 1


def test_articles_are_dropped_in_english_alone() -> None:
    assert value("bergen_exact", "a casa", "casa", language="es") == 1
    assert value("qa_exact", "a casa", "casa", language="es") == 0
    assert value("qa_exact", "the house", "house") == 1


def test_precision_recall_and_f1_are_of_one_label() -> None:
    labels = ("the long white river of the north", "white")
    bergen = [value(f"bergen_{name}", "white river", *labels) for name in ("precision", "recall")]
    assert bergen == [1, 1]
    # Of "long white river of north" two of five tokens; of "white" one of one, in two: F1 of both.
    assert value("qa_f1", "white river", *labels) == pytest.approx(2 / 3)
    assert value("qa_precision", "white river", *labels) == 0.5
    assert value("qa_recall", "white river", *labels) == 1


def test_the_papers_example_of_a_transliteration() -> None:
    assert value("qa_char3_recall", "sofia kovalevskaia", "sofya kovalevskaya") == 9 / 13


def test_every_answer_of_a_query_counts() -> None:
    query = Query(
        id="q1", language="en", text="?", answers=[["White Nile"], ["Blue Nile", "Abbay"]]
    )
    item = answered(query, Response(query_id="q1", text="The White Nile."))
    assert feature("qa_match").compute([item]) == [0.5]
    assert feature("bergen_match").compute([item]) == [1]


@pytest.mark.parametrize("language", MOSTLY_SLOW_LANGUAGES)
def test_a_right_short_answer_in_a_sentence_matches(language: str) -> None:
    match = feature("qa_match")
    queries = [query for query in MirageDataset.bundled(language) if query.answers]
    items = [answered(q, Response(query_id=q.id, text=q.reference)) for q in queries]
    values = match.compute(items)
    assert sum(map(float, values)) / len(values) >= 0.9


def test_without_short_answers_there_is_no_value_and_a_reason() -> None:
    bare = Query(id="q1", language="en", text="?")
    for name in (*NAMES.values(), *(n.replace("bergen", "qa") for n in NAMES.values())):
        gap = feature(name).compute([answered(bare, Response(query_id="q1", text="The Nile."))])[0]
        assert isinstance(gap, NotComputed)
        assert "no short answers" in gap.reason


@given(st.text(max_size=30), st.text(max_size=12), st.sampled_from(sorted(LANGUAGES)))
def test_values_lie_between_0_and_1(text: str, label: str, language: str) -> None:
    if not label.strip():
        return
    for name in NAMES.values():
        for family in ("qa", "bergen"):
            number = value(name.replace("bergen", family), text, label, language=language)
            assert isinstance(number, NotComputed) or 0 <= number <= 1
