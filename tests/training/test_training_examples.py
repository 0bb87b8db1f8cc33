"""Training examples: random answer forms, prompts of the library, and no query of a test set."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from lessons import PLACES, dataset

from mirage import MirageDataset
from mirage.corpus import Corpus
from mirage.errors import DatasetError, MissingPackageError, UnknownNameError
from mirage.generation import RagPrompt, ShortAnswerPrompt
from mirage.models import Query
from mirage.pipeline import Pipeline
from mirage.retrieval import BM25
from mirage.sources import memerag
from mirage.testsets import build_training_set
from mirage.testsets.training_sets import TrainingExample
from mirage.training import evaluation_overlap, finetune, training_examples
from mirage.training.examples import check_apart
from mirage.training.tuning import PACKAGES

QUERIES = dataset()


def answer_text(example: TrainingExample) -> str:
    return example.messages[-1].content


def replace_fields(query: Query, **fields: Any) -> Query:
    return query.model_copy(update=fields)


# Short answers and references ---------------------------------------------------------------------


def test_an_example_is_the_prompt_of_the_generator_and_a_short_answer() -> None:
    training_set = training_examples(QUERIES)
    assert (len(training_set.examples), training_set.omitted) == (len(QUERIES), {})
    for example, query in zip(training_set.examples, QUERIES, strict=True):
        *prompt, answer = example.messages
        assert [turn.model_dump() for turn in prompt] == list(ShortAnswerPrompt()(query).messages)
        assert answer.role == "assistant"
        assert answer.content in query.answers[0]
        assert example.question == query.text


def test_the_form_is_drawn_for_each_query_by_the_seed_alone() -> None:
    many = dataset(400)
    forms = [answer_text(example) for example in training_examples(many, seed=3).examples]
    drawn = Counter(form in PLACES for form in forms)
    assert 150 < drawn[True] < 250  # fair: 200 and a standard deviation of 10
    part = training_examples(many[100:120], seed=3).examples
    assert [answer_text(example) for example in part] == forms[100:120]
    assert [answer_text(example) for example in training_examples(many, seed=4).examples] != forms


def test_all_answers_are_in_the_completion() -> None:
    two = replace_fields(QUERIES[0], answers=(("Kisumu",), ("Turku",)))
    (example,) = training_examples(MirageDataset([two])).examples
    assert answer_text(example) == "Kisumu, Turku"


def test_a_reference_cites_by_id_as_the_shuffled_prompt_shows() -> None:
    training_set = training_examples(QUERIES, "reference")
    example = training_set.examples[0]
    assert answer_text(example) == f"##Reason: Says so [0#1].\n##Answer: In {PLACES[0]} [0#0]."
    assert example.messages[0].content == RagPrompt()(QUERIES[0]).messages[0]["content"]


def test_queries_without_an_example_are_reported() -> None:
    odd = MirageDataset(
        [
            QUERIES[0],
            replace_fields(QUERIES[1], passages=()),
            replace_fields(QUERIES[2], answers=()),
            replace_fields(QUERIES[3], text="long " * 9000),
        ]
    )
    training_set = training_examples(odd)
    assert [example.query_id for example in training_set.examples] == ["q0"]
    assert training_set.omitted == {"q1": "no passage", "q2": "no answer", "q3": "does not fit"}
    with pytest.raises(DatasetError, match=r"no answer: 3\)$"):
        training_examples(
            MirageDataset([replace_fields(q, reference=None) for q in QUERIES[:3]]), "reference"
        )
    with pytest.raises(DatasetError, match=r"no passage: 1.*add passages with Pipeline"):
        training_examples(odd[1:2])
    with pytest.raises(UnknownNameError, match="did you mean 'answers'"):
        training_examples(QUERIES, "answer")  # type: ignore[arg-type]


def test_a_pipeline_shows_the_retrieved_passages() -> None:
    corpus = Corpus.build(passage for query in QUERIES for passage in query.passages)
    dataset_with_passages = Pipeline(
        BM25.build(corpus, language="en", progress=False), show_k=3
    ).show(QUERIES)
    example = training_examples(dataset_with_passages).examples[5]
    assert all(
        passage.text in example.messages[0].content for passage in dataset_with_passages[5].passages
    )
    assert len(dataset_with_passages[5].passages) == 3


# Refusals -----------------------------------------------------------------------------------------


def test_memerag_is_not_trained_on(data_dir: Path, tmp_path: Path) -> None:
    loaded = memerag.load(data_dir / "memerag" / "memerag" / "de.jsonl", "de")
    message = r"memerag-de must not be used for training: 250 of 250 .* \(licence: CC BY-NC"
    with pytest.raises(DatasetError, match=message):
        training_examples(loaded.dataset)
    with pytest.raises(DatasetError, match=message):
        build_training_set(loaded.dataset, loaded.run)
    # The restriction to evaluation survives saving, loading and changes.
    loaded.dataset.save(tmp_path / "mine.jsonl")
    answered = [
        replace_fields(query, answers=(("Ja",),))
        for query in MirageDataset.load(tmp_path / "mine.jsonl")
    ]
    with pytest.raises(DatasetError, match="mine must not be used for training"):
        training_examples(MirageDataset(answered, name="mine"))


def test_queries_of_an_evaluation_set_are_listed() -> None:
    examples = training_examples(QUERIES).examples
    other_queries = dataset(4, start=100)
    assert evaluation_overlap(examples, [other_queries]) == {}
    check_apart(examples, [other_queries])
    same = [
        replace_fields(other_queries[0], id="q5"),
        replace_fields(other_queries[1], text="  where does PERSON ７ live "),
    ]
    evaluation = MirageDataset(same, name="exam")
    reasons = {"q5": "its id is in exam", "q7": "its text equals that of 'q101' in exam"}
    assert evaluation_overlap(examples, [other_queries, evaluation]) == reasons
    with pytest.raises(
        DatasetError, match=r"2 training queries .*'q5' \(its id is in exam\), 'q7'"
    ):
        check_apart(examples, [evaluation])
    with pytest.raises(DatasetError, match=r"24 training queries .* and 19 more; remove them"):
        check_apart(examples, [QUERIES])


def test_questions_are_the_same_in_any_form_of_their_characters() -> None:
    def query(id_: str, text: str) -> Query:
        return replace_fields(QUERIES[0], id=id_, language="yo", text=text)

    examples = training_examples(MirageDataset([query("a", "Nib\u00f3 ni \u1eb9 wa?")])).examples
    exam = MirageDataset([query("b", "nibo\u0301 ni e\u0323 wa")], name="exam")
    assert evaluation_overlap(examples, [exam]) == {"a": "its text equals that of 'b' in exam"}
    other = MirageDataset([query("b", "nibo ni e wa")], name="exam")
    assert evaluation_overlap(examples, [other]) == {}


def test_an_example_without_its_question_is_not_cleared() -> None:
    (example, *_) = training_examples(QUERIES).examples
    old = example.model_copy(update={"question": None})
    with pytest.raises(DatasetError, match="'q0' has no question"):
        check_apart([old], [dataset(4, start=100)])
    check_apart([old], [])


@pytest.mark.parametrize("name", ["torch", "trl", "peft"])
def test_a_missing_package_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in PACKAGES:
        monkeypatch.setitem(sys.modules, each, None if each == name else ModuleType(each))
    message = rf"needs the package {name}; .*pip install 'mirage-rag\[finetune\] @ git"
    with pytest.raises(MissingPackageError, match=message):
        finetune(training_examples(QUERIES).examples, tmp_path, tmp_path / "out")
