"""Records from the texts of others, where no harness is needed."""

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


def asked(**fields: object) -> Asked:
    texts = {"retrieved": ["Congo.", "Nile.", "Congo."], "reference": None, "relevant": ["Nile."]}
    return query_of("row 1", **{"id": "q", "language": "en", "text": "?", **texts, **fields})  # type: ignore[arg-type]


def query(**fields: object) -> Query:
    return asked(**fields).query


def test_texts_without_ids_are_numbered() -> None:
    texts = ["Congo.", "Nile.", "Niger."]
    assert query(retrieved=texts).passage_ids == ("1", "2", "3")
    assert query(retrieved=texts).relevant == ("2",)


def test_equal_texts_are_one_passage_wherever_it_is_cited() -> None:
    assert query(relevant=["Congo."]).relevant == ("1",)
    assert query().passage_ids == ("1", "2")
    assert asked().shown == ("1", "2", "1")
    for text in ("So [1].", "So [3]."):
        dataset, run = records_of([(asked(relevant=["Congo."]), text)], **AS)
        table = FeatureSuite(["citation_recall@10"]).score(dataset, run)
        assert table["citation_recall@10"].tolist() == [1.0]


@pytest.mark.parametrize("relevant", ["Nile. ", " Nile.\n"])
def test_blanks_make_no_other_text(relevant: str) -> None:
    assert query(relevant=[relevant]).relevant == ("2",)
    assert query(relevant=["ﬁn \u00a0x"], retrieved=["fin x"]).relevant == ("1",)


def test_what_is_not_clear_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert query(retrieved_ids=["a", "b", "c"], relevant=["Congo."]).relevant == ("a",)
    assert "row 1: relevant text 1 was retrieved under the ids a, c" in caplog.text
    assert query(relevant=["Nil"]).relevant == ("unretrieved-1",)
    assert (
        "relevant text 1 is not equal to a retrieved text, but contains one or is a part of one"
        in caplog.text
    )
    assert query(retrieved_ids=["a", "b", "a"]).passage_ids == ("a", "b")


def test_a_run_can_be_on_a_dataset_that_is_there() -> None:
    board = MirageDataset.bundled("en")[:2]
    first = board[0]
    texts = [f"{first.passages[1].text} ", "Something else.", first.passages[0].text]
    mine = asked(text=f" {first.text}", retrieved=texts)
    dataset, run = records_of([(mine, "So [2].")], dataset=board, **AS)
    assert dataset is board
    shown = (first.passage_ids[1], "retrieved-2", first.passage_ids[0])
    assert (run[first.id].shown, run[first.id].passages[0].text) == (shown, "Something else.")
    with pytest.raises(
        DatasetError, match=r"mine 1: no queries of bundled-en have the text 'Who\?'"
    ):
        records_of([(asked(text="Who?"), "")], dataset=board, **AS)


def test_settings_of_harnesses_name_datasets_and_features(tmp_path: Path) -> None:
    board = MirageDataset.bundled("sw")
    assert dataset_of("bundled-sw") == dataset_of("sw") == board
    board.to_jsonl(tmp_path / "mine.jsonl")
    assert dataset_of(str(tmp_path / "mine.jsonl")) == board
    with pytest.raises(DatasetError, match=r"there is no dataset 'none\.jsonl'"):
        dataset_of("none.jsonl")
    assert suite_of("answer_bleu, citation_recall@10", None, "sw").names == (
        "answer_bleu",
        "citation_recall@10",
    )


def test_what_was_not_retrieved_counts_as_missed() -> None:
    assert query(relevant=["Nile.", "Niger."]).relevant == (
        "2",
        "unretrieved-2",
    )


def test_ids_say_what_is_relevant() -> None:
    ids = ["a", "b", "c"]
    assert query(retrieved_ids=ids, relevant_ids=["c"]).relevant == ("c",)
    with pytest.raises(DatasetError, match="row 1: there are 3 retrieved texts, but 2 ids"):
        query(retrieved_ids=ids[:2])


def test_what_has_no_text_has_failed() -> None:
    dataset, run = records_of([(asked(), None)], model="m", name="mine", error="no text")
    assert (dataset.name, run.model, run.language) == ("mine", "m", "en")
    assert [(response.text, response.error) for response in run] == [(None, "no text")]
    _, run = records_of([(asked(), "")], model="m", name="mine", error="no text")
    assert [(response.text, response.error) for response in run] == [("", None)]


def test_nothing_is_no_dataset() -> None:
    with pytest.raises(DatasetError):
        records_of([], model="m", name="mine", error="no text")
