"""Records from samples of other tools, without the tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.features import FeatureSuite
from mirage.integrations._contexts import dataset_of, records_of, suite_of
from mirage.models import Query
from mirage.sources.contexts import Asked, query_of

AS: dict[str, Any] = {"model": "m", "name": "mine", "error": "no text"}


def sample(**fields: object) -> Asked:
    texts = {"retrieved": ["Congo.", "Nile.", "Congo."], "reference": None, "relevant": ["Nile."]}
    return query_of("row 1", **{"id": "q", "language": "en", "text": "?", **texts, **fields})  # type: ignore[arg-type]


def query(**fields: object) -> Query:
    return sample(**fields).query


def test_texts_without_ids_are_numbered() -> None:
    texts = ["Congo.", "Nile.", "Niger."]
    assert query(retrieved=texts).passage_ids == ("1", "2", "3")
    assert query(retrieved=texts).relevant == ("2",)


def test_equal_texts_are_one_passage_wherever_it_is_cited() -> None:
    assert query(relevant=["Congo."]).relevant == ("1",)
    assert query().passage_ids == ("1", "2")
    assert sample().shown == ("1", "2", "1")
    for text in ("So [1].", "So [3]."):
        dataset, run = records_of([(sample(relevant=["Congo."]), text)], **AS)
        table = FeatureSuite(["citation_recall@10"]).score(dataset, run)
        assert table["citation_recall@10"].tolist() == [1.0]


@pytest.mark.parametrize("relevant", ["Nile. ", " Nile.\n"])
def test_texts_that_differ_in_blanks_are_equal(relevant: str) -> None:
    assert query(relevant=[relevant]).relevant == ("2",)
    assert query(relevant=["ﬁn \u00a0x"], retrieved=["fin x"]).relevant == ("1",)


def test_ambiguous_relevant_texts_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert query(retrieved_ids=["a", "b", "c"], relevant=["Congo."]).relevant == ("a",)
    assert "row 1: relevant text 1 was retrieved under several ids (a, c)" in caplog.text
    assert query(relevant=["Nil"]).relevant == ("unretrieved-1",)
    assert (
        "relevant text 1 is not equal to a retrieved text, but contains one or is a part of one"
        in caplog.text
    )
    assert query(retrieved_ids=["a", "b", "a"]).passage_ids == ("a", "b")


def test_samples_are_matched_with_an_existing_dataset() -> None:
    board = MirageDataset.bundled("en")[:2]
    first = board[0]
    texts = [f"{first.passages[1].text} ", "Something else.", first.passages[0].text]
    mine = sample(text=f" {first.text}", retrieved=texts)
    dataset, run = records_of([(mine, "So [2].")], dataset=board, **AS)
    assert dataset is board
    ids = (first.passage_ids[1], "retrieved-2", first.passage_ids[0])
    assert (run[first.id].shown, run[first.id].passages[0].text) == (ids, "Something else.")
    with pytest.raises(
        DatasetError, match=r"mine 1: no queries of bundled-en have the text 'Who\?'"
    ):
        records_of([(sample(text="Who?"), "")], dataset=board, **AS)


def test_datasets_and_features_can_be_named(tmp_path: Path) -> None:
    board = MirageDataset.bundled("sw")
    assert dataset_of("bundled-sw") == dataset_of("sw") == board
    hard = MirageDataset.bundled("sw", level="hard")
    assert dataset_of("bundled-sw-hard") == dataset_of(hard.name) == hard
    board.save(tmp_path / "mine.jsonl")
    assert dataset_of(str(tmp_path / "mine.jsonl")) == board
    with pytest.raises(DatasetError, match=r"there is no dataset 'none\.jsonl'"):
        dataset_of("none.jsonl")
    assert suite_of("answer_bleu, citation_recall@10", None, "sw").names == (
        "answer_bleu",
        "citation_recall@10",
    )


def test_a_relevant_text_that_was_not_retrieved_counts_as_missed() -> None:
    assert query(relevant=["Nile.", "Niger."]).relevant == (
        "2",
        "unretrieved-2",
    )


def test_ids_of_relevant_passages_take_precedence() -> None:
    ids = ["a", "b", "c"]
    assert query(retrieved_ids=ids, relevant_ids=["c"]).relevant == ("c",)
    with pytest.raises(DatasetError, match="row 1: there are 3 retrieved texts, but 2 ids"):
        query(retrieved_ids=ids[:2])


def test_a_sample_without_a_response_is_a_failure() -> None:
    dataset, run = records_of([(sample(), None)], model="m", name="mine", error="no text")
    assert (dataset.name, run.model, run.language) == ("mine", "m", "en")
    assert [(response.text, response.error) for response in run] == [(None, "no text")]
    _, run = records_of([(sample(), "")], model="m", name="mine", error="no text")
    assert [(response.text, response.error) for response in run] == [("", None)]


def test_an_empty_dataset_is_refused() -> None:
    with pytest.raises(DatasetError):
        records_of([], model="m", name="mine", error="no text")
