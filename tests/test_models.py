"""Test records: validation, pickling and JSON."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from cases import each_case
from pydantic import BaseModel, ValidationError

from mirage.errors import UnknownNameError
from mirage.models import Judgment, Passage, Query, Response, Run

PASSAGES = (Passage(id="d#1", text="x", title="t"), Passage(id="d#2", text="y"))
QUERY = Query(
    id="a",
    language="sw",
    text="?",
    passages=PASSAGES,
    relevant=("d#2",),
    reference="##Answer: y [2]",
    answerable=True,
    metadata={"answer": "y"},
)
RUN = Run(
    model="m",
    language="sw",
    responses=(
        Response(query_id="a", text="y [2]", shown=("d#2", "d#1")),
        Response(query_id="b", text=None, error="timed out"),
        Response(query_id="c", text=""),
    ),
)
JUDGMENT = Judgment(query_id="a", model_a="m", model_b="n", verdict="tie", judge="people")
RECORDS = [PASSAGES[0], QUERY, RUN.responses[1], RUN, JUDGMENT]


def kind(record: BaseModel) -> str:
    return type(record).__name__


@pytest.mark.parametrize("record", RECORDS, ids=kind)
def test_records_are_frozen(record: BaseModel) -> None:
    for field in type(record).model_fields:
        with pytest.raises(ValidationError, match="Instance is frozen"):
            setattr(record, field, getattr(record, field))


@pytest.mark.parametrize("record", RECORDS, ids=kind)
def test_records_refuse_fields_they_do_not_have(record: BaseModel) -> None:
    with pytest.raises(ValidationError, match=r"lang\n  Extra inputs are not permitted"):
        type(record).model_validate({**record.model_dump(), "lang": "en"})


@pytest.mark.parametrize("record", RECORDS, ids=kind)
def test_records_survive_pickle_and_json(record: BaseModel) -> None:
    assert type(record).model_validate_json(record.model_dump_json()) == record
    assert pickle.loads(pickle.dumps(record)) == record


def test_looked_up_records_survive_pickle() -> None:
    query, run = QUERY.model_copy(), RUN.model_copy()
    assert query.passage_ids == ("d#1", "d#2")
    assert query == QUERY
    assert len(run) == 3
    copy = pickle.loads(pickle.dumps(run))
    assert copy == RUN
    assert copy["b"].error == "timed out"
    assert pickle.loads(pickle.dumps(query))["d#2"].text == "y"


def test_a_changed_copy_of_a_run_looks_up_its_own_responses() -> None:
    assert RUN["a"].text == "y [2]"
    changed = RUN.model_copy(update={"responses": (Response(query_id="a", text="new"),)})
    assert changed["a"].text == "new"
    assert changed.get("b") is None
    assert RUN["a"].text == "y [2]"


def test_the_passages_behind_a_response_are_its_own_or_else_the_querys() -> None:
    (first, second), query = PASSAGES, QUERY
    silent = Response(query_id="a", text="x")
    assert query.shown_to(silent) == ("d#1", "d#2")
    assert query.passages_shown_to(silent) == (first, second)
    turned = Response(query_id="a", text="x", shown=("d#2", "d#9", "d#1"))
    assert query.shown_to(turned) == ("d#2", "d#9", "d#1")
    assert query.passages_shown_to(turned) == (second, first)  # of d#9 there is no text
    none = Response(query_id="a", text="x", shown=())
    assert query.shown_to(none) == query.passages_shown_to(none) == ()


def test_flat_answers_warn_at_the_line_that_writes_them() -> None:
    with pytest.warns(
        UserWarning, match="answers: a flat list of texts.* several answers"
    ) as caught:
        query = Query(id="a", language="en", text="?", answers=["UK", "United Kingdom"])
    assert query.answers == (("UK",), ("United Kingdom",))
    assert caught[0].filename == __file__


@each_case(
    ("record", "fields", "message"),
    [
        (Passage, {"id": "", "text": "x"}, "id\n  String should have at least 1 character"),
        (Passage, {"id": 1.0, "text": "x"}, "id\n  Input should be a valid string"),
        (Passage, {"id": True, "text": "x"}, "id\n  Input should be a valid string"),
        (Passage, {"id": "1", "text": None}, "text\n  Input should be a valid string"),
        (Query, {"id": "a", "language": "en", "text": ""}, "text\n  String should have at least"),
        (Query, {"id": "a", "language": "en"}, "text\n  Field required"),
        (
            Query,
            {"id": "a", "language": "en", "text": "?", "passages": (*PASSAGES, PASSAGES[0])},
            "query 'a' shows passage 'd#1' twice; passage ids must be unique",
        ),
        (
            Query,
            {"id": "a", "language": "Yorùbá", "text": "?"},
            "unknown language 'Yorùbá'; did you mean 'yo'?",
        ),
        (
            Run,
            {"model": "m", "language": "en-US", "responses": ()},
            "unknown language 'en-US'; did you mean 'en'?",
        ),
        (Run, {"model": "", "language": "en", "responses": ()}, "model\n  String should have at"),
        (
            Run,
            {"model": "m", "language": "en", "responses": [{"query_id": 7, "text": "x"}] * 2},
            "run of model 'm' answers query '7' twice",
        ),
        (
            Response,
            {"query_id": "a", "text": "x", "error": "timed out"},
            "response to query 'a' needs either a text or an error",
        ),
        (
            Query,
            {"id": "a", "language": "en", "text": "?", "answers": "38 m"},
            "answers\n  Value error, expected a list of answers, each with its spellings, not a "
            'text; write [["38 m"]] for one answer',
        ),
        (Response, {"query_id": "a", "text": None}, "needs either a text or an error"),
        (Response, {"query_id": "a", "error": "timed out"}, "text\n  Field required"),
        (
            Judgment,
            {"query_id": "a", "model_a": "m", "model_b": "m", "verdict": "a"},
            "model 'm' is compared with itself",
        ),
        (
            Judgment,
            {"query_id": "a", "model_a": "m", "model_b": "n", "verdict": "A"},
            "verdict\n  Input should be 'a', 'b' or 'tie'",
        ),
    ],
)
def test_records_refuse(record: type[BaseModel], fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        record(**fields)
    assert message in str(caught.value)


def test_a_number_is_understood_as_an_id() -> None:
    row = {"id": 34, "language": "en", "text": "?", "passages": [{"id": 5, "text": "x"}]}
    query = Query.model_validate({**row, "relevant": [5]})
    assert (query.id, query.passage_ids, query.relevant) == ("34", ("5",), ("5",))
    response = Response.model_validate({"query_id": 34, "text": "x", "shown": [5]})
    assert (response.query_id, response.shown) == ("34", ("5",))
    judged = {"query_id": 34, "model_a": "m", "model_b": "n", "verdict": "b"}
    assert Judgment.model_validate(judged).query_id == "34"


def test_passages_of_a_query_by_id() -> None:
    assert QUERY["d#2"] == PASSAGES[1]
    with pytest.raises(UnknownNameError) as caught:
        QUERY["d2"]
    assert str(caught.value) == "unknown passage 'd2' of query 'a'; did you mean 'd#2'?"


def test_responses_of_a_run_by_query() -> None:
    assert RUN["c"].text == ""
    assert [response.query_id for response in RUN] == ["a", "b", "c"]
    assert RUN.failed == (RUN.responses[1],)
    assert RUN.get("a") is RUN.responses[0]
    assert RUN.get("z") is None
    with pytest.raises(UnknownNameError, match="unknown query 'z' in the run of model 'm'; known"):
        RUN["z"]


def test_a_run_may_be_empty() -> None:
    empty = Run(model="m", language="en", responses=())
    assert len(empty) == 0
    assert list(empty) == []


@pytest.mark.parametrize("count", [2, 2000])
def test_a_duplicate_passage_is_named_at_any_position(count: int) -> None:
    passages = [Passage(id=f"{i}", text="x") for i in [*range(count), count - 1]]
    with pytest.raises(ValidationError, match=f"shows passage '{count - 1}' twice"):
        Query(id="q", language="en", text="Why?", passages=passages)
