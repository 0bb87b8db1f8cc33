"""Logs that other tools exported, damaged lines, and comparisons of each period."""

from __future__ import annotations

import csv
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from cases import each_case

from mirage import MirageDataset
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.monitoring import logs
from mirage.monitoring.exports import FORMATS, text_of
from mirage.monitoring.log_streams import measure_log_file

EXPORTS = Path(__file__).parent / "data" / "exports"
QUESTIONS = [
    "How long is the Nile?",
    "How high is Kilimanjaro?",
    "Which river flows through Kinshasa?",
]
ANSWERS = ["6,650 km [1].", "5,895 m [1].", "The Congo [1]."]
FACTS = [
    "The Nile is 6,650 km long.",
    "Kilimanjaro is 5,895 m high.",
    "The Congo flows through Kinshasa.",
]
FILES = {
    "langchain-dumpd.jsonl": "langchain",
    "langchain-dump.jsonl": "langchain",
    "llamaindex.jsonl": "llamaindex",
    "opentelemetry-sdk.jsonl": "opentelemetry",
    "opentelemetry-otlp.jsonl": "opentelemetry",
    "phoenix.jsonl": "phoenix",
}


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


@each_case("file", FILES)
def test_an_export_is_read_as_questions_passages_and_answers(file: str) -> None:
    log = logs.read(EXPORTS / file, language="en", form=FILES[file])
    assert [query.text for query in log.dataset] == QUESTIONS
    assert [response.text for response in log.run] == ANSWERS
    shown = [query.passages_shown_to(log.run[query.id]) for query in log.dataset]
    fact = next(i for i, passage in enumerate(shown[0]) if "Nile" in passage.text)
    assert [passages[fact].text for passages in shown] == FACTS
    assert all("Africa has many rivers." in {p.text for p in passages} for passages in shown)
    if file != "phoenix.jsonl":  # the instrumentation of LangChain records no ids
        ids = [passages[fact].id for passages in shown]
        assert ids == ["nile#0", "kili#0", "congo#0"]
    if FORMATS[FILES[file]].steps:
        assert len(log.times) == 3


def test_documents_without_an_id_have_that_of_their_source() -> None:
    log = logs.read(EXPORTS / "phoenix.jsonl", language="en", form="phoenix")
    assert log.dataset[0].passage_ids == ("nile.md", "africa.md")


def test_models_and_sessions_of_spans_are_read() -> None:
    log = logs.read(EXPORTS / "opentelemetry-sdk.jsonl", language="en", form="opentelemetry")
    assert log.run.model == "small-1"
    assert log.clustering == "questions and sessions"


OBSERVATIONS = [
    {
        "id": "o1", "traceId": "t1", "parentObservationId": None, "type": "SPAN", "name": "ask",
        "startTime": "2026-11-02T10:00:00.000Z", "level": "DEFAULT", "sessionId": "s1",
        "input": {"question": QUESTIONS[0]}, "output": {"answer": ANSWERS[0]},
    },
    {
        "id": "o2", "traceId": "t1", "parentObservationId": "o1", "type": "RETRIEVER",
        "startTime": "2026-11-02T10:00:01.000Z", "input": QUESTIONS[0],
        "output": [{"page_content": FACTS[0], "metadata": {"source": "nile.md"}}, "Rivers."],
    },
    {
        "id": "o3", "traceId": "t1", "parentObservationId": "o1", "type": "GENERATION",
        "startTime": "2026-11-02T10:00:02.000Z", "providedModelName": "small-1",
        "input": [{"role": "user", "content": "..."}],
        "output": {"role": "assistant", "content": "x"},
    },
    {
        "id": "o4", "traceId": "t2", "parentObservationId": None, "type": "SPAN", "level": "ERROR",
        "statusMessage": "timeout", "startTime": "2026-11-02T11:00:00.000Z", "input": QUESTIONS[1],
        "output": None,
    },
]  # fmt: skip


def snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)


def as_blobs(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows as the blob storage has them: other names, and content as JSON in texts."""
    return [
        {
            snake(name): json.dumps(value) if isinstance(value, dict | list) else value
            for name, value in row.items()
        }
        for row in rows
    ]


@pytest.mark.parametrize("shape", ["lines", "array", "page", "blobs"])
def test_observations_of_langfuse_are_read(tmp_path: Path, shape: str) -> None:
    path = tmp_path / ("log.jsonl" if shape in ("lines", "blobs") else "log.json")
    if shape in ("lines", "blobs"):
        write(path, as_blobs(OBSERVATIONS) if shape == "blobs" else OBSERVATIONS)
    else:
        path.write_text(json.dumps(OBSERVATIONS if shape == "array" else {"data": OBSERVATIONS}))
    log = logs.read(path, language="en", form="langfuse")
    assert [query.text for query in log.dataset] == QUESTIONS[:2]
    first, second = log.run
    assert (first.text, second.text, second.error) == (ANSWERS[0], None, "timeout")
    assert [p.text for p in log.dataset[0].passages_shown_to(first)] == [FACTS[0], "Rivers."]
    assert log.run.model == "small-1"
    assert str(log.times["t1"]) == "2026-11-02 10:00:00+00:00"


def test_a_downloaded_trace_of_langfuse_is_read(tmp_path: Path) -> None:
    trace = {
        "id": "t1", "timestamp": "2026-11-02T10:00:00.000Z", "userId": "u", "input": QUESTIONS[0],
        "output": ANSWERS[0], "observations": OBSERVATIONS[1:3], "scores": [],
    }  # fmt: skip
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    log = logs.read(tmp_path / "trace.json", language="en", form="langfuse")
    assert (log.dataset[0].text, log.run["t1"].text) == (QUESTIONS[0], ANSWERS[0])
    assert log.dataset[0].passages[0].text == FACTS[0]


def test_frames_of_phoenix_have_a_column_per_attribute(tmp_path: Path) -> None:
    base = {"context.trace_id": "t", "status_code": "OK"}
    rows = [
        base | {
            "context.span_id": "a", "parent_id": None, "span_kind": "CHAIN",
            "start_time": "2026-11-02T10:00:00+00:00", "attributes.input.value": QUESTIONS[0],
            "attributes.output.value": ANSWERS[0], "attributes.retrieval.documents": None,
        },
        base | {
            "context.span_id": "b", "parent_id": "a", "span_kind": "RETRIEVER",
            "start_time": "2026-11-02T10:00:01+00:00", "attributes.input.value": QUESTIONS[0],
            "attributes.retrieval.documents": [
                {"document.content": FACTS[0], "document.id": "nile", "document.score": 0.5}
            ],
        },
        base | {
            "context.span_id": "c", "parent_id": "a", "span_kind": "RERANKER",
            "start_time": "2026-11-02T10:00:02+00:00",
            "attributes.reranker.output_documents": [
                {"document.content": "Best.", "document.id": 7}
            ],
        },
    ]  # fmt: skip
    log = logs.read(write(tmp_path / "f.jsonl", rows[:2]), language="en", form="phoenix")
    assert log.dataset[0].passage_ids == ("nile",)
    log = logs.read(write(tmp_path / "f.jsonl", rows), language="en", form="phoenix")
    assert log.dataset[0].passage_ids == ("7",)


def test_a_log_with_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'langchain'"):
        logs.read(tmp_path / "x", language="en", form="langchan")


@each_case(
    ("value", "wanted", "text"),
    [
        ("Who?", "question", "Who?"),
        ('{"input": "Who?"}', "question", "Who?"),
        ('{"city": "Rome"}', "answer", '{"city": "Rome"}'),
        ("{not json", "answer", "{not json"),
        ([{"role": "user", "content": "1"}, {"role": "user", "content": "2"}], "question", "2"),
        ([{"role": "assistant", "content": [{"type": "text", "text": "A"}]}], "answer", "A"),
        ({"choices": [{"message": {"role": "assistant", "content": "B"}}]}, "answer", "B"),
        ([[{"type": "human", "kwargs": {"content": "C"}}]], "question", "C"),
        ([], "answer", None),
        ({"score": 1}, "answer", None),
        (None, "answer", None),
    ],
)
def test_texts_in_inputs_and_outputs(value: Any, wanted: Any, text: str | None) -> None:
    assert text_of(value, wanted) == text


# Field names, damaged lines -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ('["Ada.", "B."]', ["Ada.", "B."]),
        ("['Ada.', 'B.']", ["Ada.", "B."]),
        ('[{"text": "Ada.", "id": "d1"}]', ["Ada."]),
        ("[]", []),
        ("[1] Ada.", ["[1] Ada."]),
        ("[sic]", ["[sic]"]),
        ("Ada.", ["Ada."]),
    ],
)
def test_passages_in_a_text_are_read_as_a_list(
    tmp_path: Path, cell: str, expected: list[str]
) -> None:
    row = {"question": "Who?", "passages": cell, "answer": "Ada [1]."}
    (query,) = logs.read(write(tmp_path / "log.jsonl", [row]), language="en").dataset
    assert [passage.text for passage in query.passages] == expected


def test_texts_of_passages_may_have_other_names(tmp_path: Path) -> None:
    rows = [
        {
            "question": "Who?",
            "answer": "Ada.",
            "contexts": [{"page_content": "Ada."}, {"chunk": "B."}],
        }
    ]
    log = logs.read(write(tmp_path / "a.jsonl", rows), language="en")
    assert [passage.text for passage in log.dataset[0].passages] == ["Ada.", "B."]
    rows[0]["contexts"] = [{"hit": {"body_text": "Ada.", "doc": "d1"}}]
    path = write(tmp_path / "b.jsonl", rows)
    with pytest.raises(
        DatasetError, match=r"line 1, field 'contexts', passage 1: the passage has no text"
    ):
        logs.read(path, language="en")
    fields = {"text": "hit.body_text", "passage_id": "hit.doc"}
    log = logs.read(path, language="en", fields=fields)
    assert [(passage.id, passage.text) for passage in log.dataset[0].passages] == [("d1", "Ada.")]


def test_damaged_lines_can_be_skipped_and_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = json.dumps({"question": "Who?", "answer": "Ada.", "id": "a"})
    path = tmp_path / "log.jsonl"
    path.write_bytes(
        "\n".join([good, '{"question": "Wh', "[]", '{"answer": "x"}', good]).encode() + b"\n\xff\n"
    )
    with pytest.raises(DatasetError, match="line 2: not JSON"):
        logs.read(path, language="en")
    with caplog.at_level(logging.WARNING, logger="mirage"):
        log = logs.read(path, language="en", skip_damaged=True)
    assert len(log.dataset) == 1
    assert f"{path}: 5 damaged lines were skipped, and 1 were read" in caplog.text
    assert "the first is: " in caplog.text


def test_a_log_with_only_damaged_lines_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("{\n{\n")
    with pytest.raises(DatasetError, match="no line has a question"):
        logs.read(path, language="en", skip_damaged=True)


@pytest.mark.parametrize("file", FILES)
def test_a_truncated_export_is_one_error_or_skipped(file: str, tmp_path: Path) -> None:
    path = tmp_path / file
    shutil.copy(EXPORTS / file, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 40])
    with pytest.raises(DatasetError, match=r"line \d+: not JSON"):
        logs.read(path, language="en", form=FILES[file])
    if file == "opentelemetry-otlp.jsonl":  # all spans are in one line
        return
    assert len(logs.read(path, language="en", form=FILES[file], skip_damaged=True).dataset) >= 2


def test_a_span_without_a_trace_is_an_error_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", [OBSERVATIONS[0], {"id": "x", "type": "SPAN"}])
    with pytest.raises(DatasetError, match=r"log.jsonl, line 2, field "):
        logs.read(path, language="en", form="langfuse")


def test_each_period_is_compared_with_all_others(tmp_path: Path) -> None:
    rows = [
        {
            "question": query.text,
            "answer": query.reference,
            "time": f"2026-11-{2 + 7 * week + number % 5:02}T09:00:00Z",
        }
        for week in range(3)
        for number, query in enumerate(MirageDataset.bundled("sw"))
    ]
    log = logs.read(write(tmp_path / "log.jsonl", rows), language="sw")
    pairs = log.each("week")
    assert list(pairs) == ["2026-W45", "2026-W46", "2026-W47"]
    for others, part in pairs.values():
        assert (len(others.dataset), len(part.dataset)) == (80, 40)
        assert not {*others.dataset.query_ids} & {*part.dataset.query_ids}


# JSON texts ---------------------------------------------------------------------------------------


def first_texts(log: logs.Log) -> list[str]:
    query = log.dataset[0]
    return [passage.text for passage in query.passages_shown_to(log.run[query.id])]


@each_case(
    ("passages", "texts"),
    [
        (json.dumps(FACTS), FACTS),
        (json.dumps([{"id": "n", "text": FACTS[0]}, {"id": "k", "text": FACTS[1]}]), FACTS[:2]),
        ([json.dumps({"id": "n", "text": FACTS[0]})], FACTS[:1]),
        (json.dumps({"id": "n", "text": FACTS[0]}), FACTS[:1]),
        ("[]", []),
        ("[1] The Nile.", ["[1] The Nile."]),
        ("[1, 2]", ["[1, 2]"]),
        (['{"city": "Rome"}'], ['{"city": "Rome"}']),
    ],
)
def test_passages_may_be_a_json_text(passages: Any, texts: list[str], tmp_path: Path) -> None:
    row = {"question": "Who?", "answer": "Ada.", "passages": passages}
    assert first_texts(logs.read(write(tmp_path / "log.jsonl", [row]), language="en")) == texts


def test_nested_fields_may_be_in_a_json_text(tmp_path: Path) -> None:
    payload = {"q": "Who?", "choices": json.dumps([{"text": "Ada."}]), "chunks": FACTS}
    fields = {"question": "p.q", "answer": "p.choices.0.text", "passages": "p.chunks"}
    path = write(tmp_path / "log.jsonl", [{"p": json.dumps(payload)}])
    log = logs.read(path, language="en", fields=fields)
    assert (log.dataset[0].text, log.run["1"].text) == ("Who?", "Ada.")
    assert first_texts(log) == FACTS


def test_json_texts_in_parquet_are_read(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"question": "Who?", "answer": "Ada.", "passages": json.dumps(FACTS)}]
    path = tmp_path / "log.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert first_texts(logs.read(path, language="en")) == FACTS
    (measured,) = measure_log_file(path, tmp_path / "out.jsonl", language="en", progress=False)
    table = measured.measures.table
    assert dict(zip(table.features, table.mean(), strict=True))["passages_shown"] == 3


@each_case("error", ["null", "None", "{}", "[]", " "])
def test_a_text_for_no_error_is_no_error(error: str, tmp_path: Path) -> None:
    row = {"question": "Who?", "answer": "Ada.", "error": error}
    log = logs.read(write(tmp_path / "log.jsonl", [row]), language="en")
    assert log.run["1"].text == "Ada."


# Fields that no line has --------------------------------------------------------------------------


OWN = {
    "p": {"q": "Who?", "a": "Ada.", "chunks": [{"doc": "d1", "text": "Ada."}]},
    "status": {"error": None},
    "user": {"hash": "u1"},
    "req": "r1",
}
OWN_FIELDS = {
    "question": "p.q",
    "answer": "p.a",
    "passages": "p.chunks",
    "passage_id": "doc",
    "error": "status.error",
    "session": "user.hash",
    "id": "req",
}


@each_case(
    ("name", "misspelt", "words"),
    [
        ("answer", "p.answr", "no line has the field 'p.answr', which was given for 'answer'"),
        ("answer", "p.answr", "fields 'p.q', 'p.a', 'p.chunks'"),
        ("passages", "p.chunk", "did you mean 'p.chunks'?"),
        ("error", "status.eror", "did you mean 'status.error'?"),
        ("id", "reqest", "which was given for 'id'"),
        ("id", "reqest", "'p', 'status', 'user', 'req'"),
        ("session", "user.hsh", "did you mean 'user.hash'?"),
        ("passage_id", "dok", "no passage has the field 'dok', which was given for 'passage_id'"),
        ("passage_id", "dok", "'doc', 'text'"),
        ("model", "modl", "no line has the field 'modl'"),
    ],
)
def test_a_field_that_no_line_has_is_an_error(
    name: str, misspelt: str, words: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "log.jsonl", [OWN, {**OWN, "req": "r2"}])
    with pytest.raises(SettingError) as caught:
        logs.read(path, language="en", fields={**OWN_FIELDS, name: misspelt})
    assert words in str(caught.value)
    assert "log.jsonl: " in str(caught.value)
    with pytest.raises(SettingError):
        logs.read(path, language="en", fields={**OWN_FIELDS, name: misspelt}, skip_damaged=True)


def test_a_log_without_failures_may_lack_the_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "log.jsonl", [OWN])
    log = logs.read(path, language="en", fields={**OWN_FIELDS, "error": "failure.reason"})
    assert not log.run.failed
    assert "no line has the field 'failure.reason', which was given for 'error'" in caplog.text


def test_a_misspelt_question_is_an_error_that_lists_nested_fields(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", [OWN])
    with pytest.raises(
        DatasetError, match=r"no field 'p\.query', only 'p\.q', 'p\.a', 'p\.chunks'"
    ):
        logs.read(path, language="en", fields={**OWN_FIELDS, "question": "p.query"})
    with pytest.raises(SettingError, match=r"'p\.query', which was given for 'question'"):
        logs.read(
            path, language="en", fields={**OWN_FIELDS, "question": "p.query"}, skip_damaged=True
        )


def test_a_field_may_be_missing_in_single_lines_and_null_in_all(tmp_path: Path) -> None:
    failed = {"p": {"q": "Who?"}, "status": None, "req": "r0"}
    log = logs.read(write(tmp_path / "a.jsonl", [failed, OWN]), language="en", fields=OWN_FIELDS)
    assert [response.text for response in log.run] == [None, "Ada."]
    # Nothing shows that a field is misspelt if the object around it is null, or if there is none.
    rows: list[Any] = [
        {"p": {"q": "Who?", "a": None, "chunks": []}, "status": None, "user": None, "req": "r0"}
    ]
    log = logs.read(write(tmp_path / "b.jsonl", rows), language="en", fields=OWN_FIELDS)
    assert log.run["r0"].text is None


# Runs of LangSmith --------------------------------------------------------------------------------


def langsmith_trace(number: int, **extra: Any) -> list[dict[str, Any]]:
    """Return the runs of one question: a retrieval chain, its child chain and a call of an LLM."""
    trace = f"trace-{number}"
    base = {"trace_id": trace, "session_id": "project", "start_time": "2026-10-05T04:10:29"}
    inputs = {"input": f"How long is river {number}?"}
    documents = [{"page_content": FACTS[0], "metadata": {"source": "nile.md"}}]
    root = {
        "id": trace, "parent_run_id": None, "run_type": "chain", "inputs": inputs,
        "outputs": {"context": documents, "answer": ANSWERS[0]}, **extra,
    }  # fmt: skip
    child = {
        "id": f"{trace}-a", "parent_run_id": trace, "run_type": "chain", "inputs": inputs,
        "outputs": {"output": "Draft."},
    }  # fmt: skip
    llm = {
        "id": f"{trace}-b", "parent_run_id": f"{trace}-a", "run_type": "llm",
        "inputs": {"messages": []}, "outputs": {"generations": []},
    }  # fmt: skip
    return [base | run for run in (llm, child, root)]


def test_child_runs_of_langsmith_are_no_questions(tmp_path: Path) -> None:
    rows = [run for number in range(3) for run in langsmith_trace(number)]
    log = logs.read(write(tmp_path / "a.jsonl", rows), language="en", form="langchain")
    assert log.dataset.query_ids == ("trace-0", "trace-1", "trace-2")
    assert {response.text for response in log.run} == {ANSWERS[0]}
    # Parquet and tables have objects as JSON texts, and other exports list all ancestors.
    flat = [
        {
            name: json.dumps(value) if isinstance(value, dict) else value
            for name, value in run.items()
            if name != "parent_run_id"
        }
        | {"parent_run_ids": [run["parent_run_id"]] if run["parent_run_id"] else []}
        for run in rows
    ]
    log = logs.read(write(tmp_path / "b.jsonl", flat), language="en", form="langchain")
    assert len(log.dataset) == 3
    assert log.dataset[0].passage_ids == ("nile.md",)
    # The id of a trace is that of its root run.
    rows = [{**run, "parent_run_id": None} for run in rows]
    log = logs.read(write(tmp_path / "c.jsonl", rows), language="en", form="langchain")
    assert len(log.dataset) == 3


def test_the_project_of_langsmith_is_no_session(tmp_path: Path) -> None:
    rows = [run for number in range(3) for run in langsmith_trace(number)]
    log = logs.read(write(tmp_path / "a.jsonl", rows), language="en", form="langchain")
    assert log.clustering == "questions"
    for name in ("session_id", "thread_id", "conversation_id"):
        rows = [
            run
            for number in range(3)
            for run in langsmith_trace(number, extra={"metadata": {name: f"t{number // 2}"}})
        ]
        log = logs.read(write(tmp_path / "b.jsonl", rows), language="en", form="langchain")
        a, b, c = (query.cluster for query in log.dataset)
        assert a == b is not None
        assert c is None
    # In outputs of chains that are no runs, a session is a session.
    rows = [{"input": f"{n}?", "answer": "Yes.", "session_id": "s"} for n in range(2)]
    log = logs.read(write(tmp_path / "c.jsonl", rows), language="en", form="langchain")
    assert log.clustering == "questions and sessions"


def test_child_runs_of_langsmith_without_their_roots_are_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", langsmith_trace(0)[:2])
    with pytest.raises(DatasetError, match="all 2 runs have a parent run"):
        logs.read(path, language="en", form="langchain")


def test_one_session_is_not_described_as_a_rule_for_several_users(tmp_path: Path) -> None:
    rows = [{"question": f"{n}?", "answer": "Yes.", "session": "s"} for n in range(30)]
    path = write(tmp_path / "log.jsonl", rows)
    (log,) = logs.regroup([logs.read(path, language="en")])
    assert log.clustering == "questions and sessions"
    (measured,) = measure_log_file(path, tmp_path / "out.jsonl", language="en", progress=False)
    assert measured.clustering == "questions and sessions"


# Several chats in a trace -------------------------------------------------------------------------


def message(text: str, role: str = "assistant", **fields: Any) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}], **fields}])


def otel_span(number: int, parent: Any = 0, **attributes: Any) -> dict[str, Any]:
    """Return a span that starts after ``number`` seconds; names of attributes may be short."""
    return {
        "context": {"trace_id": "t", "span_id": f"s{number}"},
        "parent_id": None if parent is None else f"s{parent}",
        "start_time": f"2026-11-02T10:00:{number:02}Z",
        "status": {"status_code": "UNSET"},
        "attributes": {
            name if "." in name else f"gen_ai.{name.replace('__', '.')}": value
            for name, value in attributes.items()
        },
    }


def otel_chat(
    number: int, prompt: str, answer: str, parent: int = 0, **more: Any
) -> dict[str, Any]:
    return otel_span(
        number,
        parent,
        operation__name="chat",
        input__messages=message(prompt, "user"),
        output__messages=message(answer, finish_reason=more.pop("finish", "stop")),
        **more,
    )


OTEL_ROOT = otel_span(0, None)
OTEL_SEARCH = otel_span(
    1,
    operation__name="retrieval",
    retrieval__query__text=QUESTIONS[0],
    retrieval__documents=json.dumps([{"id": "nile", "content": FACTS[0]}]),
)
PROMPT = f"Context:\n[1] {FACTS[0]}\n\nQuestion: {QUESTIONS[0]}"
OTEL_ANSWER = otel_chat(2, PROMPT, ANSWERS[0], request__model="big", response__model="big-2")
OTEL_GUARD = otel_chat(3, f"Safe? {ANSWERS[0]}", "safe", request__model="guard")
OTEL_JUDGE = otel_chat(6, f"Rate {ANSWERS[0]} for {PROMPT}", "5", parent=5, request__model="judge")
OTEL_GUARDED = [OTEL_ROOT, OTEL_SEARCH, OTEL_ANSWER, OTEL_GUARD]


def read_spans(tmp_path: Path, *spans: Any, form: str = "opentelemetry") -> logs.Log:
    return logs.read(write(tmp_path / "spans.jsonl", list(spans)), language="en", form=form)


def test_the_answer_is_that_of_the_chat_about_the_passages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = json.loads(json.dumps([OTEL_ROOT, OTEL_SEARCH, OTEL_ANSWER]).replace('"t"', '"u"'))
    log = read_spans(tmp_path, *OTEL_GUARDED, *other)
    assert [response.text for response in log.run] == [ANSWERS[0]] * 2
    assert log.run.model == "big-2"
    assert "1 of 2 traces have several chat spans with an answer (models: big-2, guard)" in (
        caplog.text
    )
    caplog.clear()
    read_spans(tmp_path, *other)
    assert "several chat spans" not in caplog.text


def test_the_output_of_the_root_span_is_the_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = otel_span(0, None, output__messages=message("Final."))
    inner = otel_span(4, operation__name="invoke_agent", output__messages=message("Inner."))
    log = read_spans(tmp_path, root, *OTEL_GUARDED[1:], inner)
    assert log.run["t"].text == "Final."
    assert log.run.model == "big-2"
    assert "several chat spans" not in caplog.text


def test_the_output_of_the_outer_agent_is_the_answer(tmp_path: Path) -> None:
    agent = {"operation__name": "invoke_agent"}
    outer = otel_span(1, **agent, output__messages=message("Outer."))
    inner = otel_span(4, 1, **agent, output__messages=message("Inner."))
    assert read_spans(tmp_path, OTEL_ROOT, outer, inner, OTEL_ANSWER).run["t"].text == "Outer."


@pytest.mark.parametrize("kind", ["GUARDRAIL", "EVALUATOR"])
def test_chats_of_guardrails_and_evaluators_are_no_answers(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    span = otel_span(5, **{"openinference.span.kind": kind})
    log = read_spans(tmp_path, OTEL_ROOT, OTEL_SEARCH, OTEL_ANSWER, span, OTEL_JUDGE)
    assert (log.run["t"].text, log.run.model) == (ANSWERS[0], "big-2")
    assert "several chat spans" not in caplog.text


def test_a_failed_chat_is_not_answered_by_its_guardrail(tmp_path: Path) -> None:
    failed = json.loads(json.dumps(OTEL_ANSWER))
    del failed["attributes"]["gen_ai.output.messages"]
    failed["status"] = {"status_code": "ERROR", "description": "timeout"}
    log = read_spans(tmp_path, OTEL_ROOT, OTEL_SEARCH, failed, OTEL_GUARD)
    assert (log.run["t"].text, log.run["t"].error) == (None, "timeout")


def test_a_call_of_a_tool_is_no_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    call = otel_chat(1, QUESTIONS[0], "Let me search.", finish="tool_call")
    log = read_spans(tmp_path, OTEL_ROOT, call, {**OTEL_ANSWER})
    assert log.run["t"].text == ANSWERS[0]
    assert "several chat spans" not in caplog.text


def test_without_prompts_the_last_chat_is_the_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spans = json.loads(json.dumps(OTEL_GUARDED))
    for span in spans:
        span["attributes"].pop("gen_ai.input.messages", None)
    assert read_spans(tmp_path, *spans).run["t"].text == "safe"
    assert "or the last of several such spans" in caplog.text


def test_a_check_of_an_answer_that_quotes_a_passage_is_no_answer(tmp_path: Path) -> None:
    quoting = otel_chat(2, PROMPT, f"{FACTS[0]} [1]")
    guard = otel_chat(3, f"Safe?\n{FACTS[0]} [1]", "safe")
    log = read_spans(tmp_path, OTEL_ROOT, OTEL_SEARCH, quoting, guard)
    assert log.run["t"].text == f"{FACTS[0]} [1]"


def test_models_of_guardrails_are_not_the_model_of_the_answer(tmp_path: Path) -> None:
    guard = {
        "id": "o9", "traceId": "t1", "parentObservationId": "o1", "type": "GUARDRAIL",
        "startTime": "2026-11-02T10:00:03.000Z", "input": "", "output": "safe",
    }  # fmt: skip
    inner = {**guard, "id": "o10", "parentObservationId": "o9", "type": "GENERATION"}
    rows = [*OBSERVATIONS[:3], guard, {**inner, "providedModelName": "guard"}]
    assert read_spans(tmp_path, *rows, form="langfuse").run.model == "small-1"


# CSV, names and times -----------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "separator"), [("log.csv", ","), ("log.tsv", "\t")])
def test_tables_are_read_as_logs(name: str, separator: str, tmp_path: Path) -> None:
    passages = json.dumps(FACTS[:2]).replace('"', '""')
    rows = [
        ("question", "passages", "answer", "error", "time", "user"),
        ("Who?", f'"{passages}"', "Ada.", "", "1780000000", "u"),
        ("Why?", "", "", "timeout", "2026-11-02", ""),
        ("How?", "", "", "", "", ""),
    ]
    path = tmp_path / name
    path.write_text("\n".join(map(separator.join, rows)), encoding="utf-8")
    assert logs.is_log(path)
    log = logs.read(path, language="en", fields={"error": "error"})
    assert first_texts(log) == FACTS[:2]
    assert [response.text for response in log.run] == ["Ada.", None, None]
    assert [response.error for response in log.run] == [None, "timeout", "the log has no answer"]
    assert [response.shown for response in log.run] == [None, None, None]
    assert len(log.times) == 2
    (measured,) = measure_log_file(path, tmp_path / "out.jsonl", language="en", progress=False)
    assert len(measured.measures.table) == 3


def test_exports_may_be_tables(tmp_path: Path) -> None:
    rows = as_blobs(OBSERVATIONS)
    path = tmp_path / "log.csv"
    names = sorted({name for row in rows for name in row})
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    log = logs.read(path, language="en", form="langfuse")
    assert [response.text for response in log.run] == [ANSWERS[0], None]
    assert first_texts(log) == [FACTS[0], "Rivers."]


def test_documents_of_langchain_js_are_read(tmp_path: Path) -> None:
    search = {**OBSERVATIONS[1], "output": [{"pageContent": FACTS[0]}]}
    log = read_spans(tmp_path, OBSERVATIONS[0], search, form="langfuse")
    assert first_texts(log) == FACTS[:1]


@each_case(
    ("time", "expected"),
    [
        ("1780000000", "2026-05-28 20:26:40+00:00"),
        ("1780000000.5", "2026-05-28 20:26:40.500000+00:00"),
        (" 1780000000000 ", "2026-05-28 20:26:40+00:00"),
        # As ISO 8601, this would be the year 1712.
        ("1712123123456", "2024-04-03 05:45:23.456000+00:00"),
        ("20261122", "2026-11-22 00:00:00+00:00"),
        ("", None),
    ],
)
def test_times_may_be_numbers_in_texts(time: str, expected: str | None, tmp_path: Path) -> None:
    row = {"question": "Who?", "answer": "Ada.", "time": time}
    log = logs.read(write(tmp_path / "log.jsonl", [row]), language="en")
    assert [str(moment) for moment in log.times.values()] == ([expected] if expected else [])
