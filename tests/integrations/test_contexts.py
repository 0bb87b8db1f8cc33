"""Records from the texts of others, where no harness is needed."""

from __future__ import annotations

import pytest

from mirage.errors import DatasetError
from mirage.integrations._contexts import query_of, records_of
from mirage.models import Query


def query(**fields: object) -> Query:
    texts = {"retrieved": ["Congo.", "Nile.", "Congo."], "reference": None, "relevant": ["Nile."]}
    return query_of("row 1", **{"id": "q", "language": "en", "text": "?", **texts, **fields})  # type: ignore[arg-type]


def test_texts_without_ids_are_numbered() -> None:
    assert query().passage_ids == ("1", "2", "3")
    assert query().relevant == ("2",)


def test_of_equal_texts_the_first_is_relevant() -> None:
    assert query(relevant=["Congo."]).relevant == ("1",)


def test_what_was_not_retrieved_counts_as_missed() -> None:
    assert query(relevant=["Nile.", "Niger."]).relevant == (
        "2",
        "unretrieved-2",
    )


def test_ids_say_what_is_relevant() -> None:
    ids = ["a", "b", "c"]
    assert query(retrieved_ids=ids, relevant_ids=["c"]).relevant == ("c",)
    with pytest.raises(DatasetError, match="row 1: 3 retrieved texts have 2 ids"):
        query(retrieved_ids=ids[:2])


def test_what_has_no_text_has_failed() -> None:
    dataset, run = records_of([(query(), None)], model="m", name="mine", error="no text")
    assert (dataset.name, run.model, run.language) == ("mine", "m", "en")
    assert [(response.text, response.error) for response in run] == [(None, "no text")]
    _, run = records_of([(query(), "")], model="m", name="mine", error="no text")
    assert [(response.text, response.error) for response in run] == [("", None)]


def test_nothing_is_no_dataset() -> None:
    with pytest.raises(DatasetError):
        records_of([], model="m", name="mine", error="no text")
