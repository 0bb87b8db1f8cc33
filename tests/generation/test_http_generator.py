"""HTTPGenerator, against a real service on loopback."""

from __future__ import annotations

import gzip
import json
import logging
import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from llm_server import ChatServer, Reply

from mirage import Generator, HTTPGenerator, MirageDataset
from mirage.errors import GenerationError, SettingError
from mirage.models import Passage, Query, Run

QUERIES = MirageDataset(
    [
        Query(
            id=f"q{i}",
            language="yo",
            text=f"Ìbéèrè {i}?",
            passages=(Passage(id=f"{i}#0", text="Ọ̀rọ̀.", title="Àkọlé"),),
        )
        for i in range(1, 9)
    ],
    name="ibeere",
)


def json_reply(value: object, **settings: Any) -> Reply:
    return Reply(body=json.dumps(value).encode(), **settings)


def echo(request: Mapping[str, Any]) -> Reply:
    return json_reply({"answer": f"ìdáhùn {request['query']}"})


def generator(server: ChatServer, **settings: Any) -> HTTPGenerator:
    return HTTPGenerator(f"{server.root}/rag", **{"backoff": 0.01, "name": "rag"} | settings)


def run(server: ChatServer, **settings: Any) -> Run:
    return generator(server, **settings).run(QUERIES, progress=False)


def reason(run: Run, query_id: str = "q1") -> str:
    error = run[query_id].error
    assert error is not None
    return error


def test_queries_are_sent_and_answers_read_by_default(server: ChatServer) -> None:
    server.answer = echo
    http_generator = generator(server, headers={"X-Team": "sisi"})
    assert isinstance(http_generator, Generator)
    responses = http_generator.run(QUERIES, progress=False)
    assert [r.text for r in responses] == [f"ìdáhùn {query.text}" for query in QUERIES]
    assert [r.shown for r in responses] == [None] * 8
    sent = next(request for request in server.requests if request["query"] == "Ìbéèrè 3?")
    assert sent == {
        "query": "Ìbéèrè 3?",
        "language": "yo",
        "passages": [{"id": "3#0", "text": "Ọ̀rọ̀.", "title": "Àkọlé"}],
    }
    assert set(server.paths) == {"/rag"}
    assert all(headers["x-team"] == "sisi" for headers in server.headers)
    assert HTTPGenerator("http://localhost:8000/rag").name == "localhost:8000"


def test_custom_requests_and_responses(server: ChatServer) -> None:
    server.answer = lambda request: json_reply(
        {"choices": [{"message": {"content": request["messages"][0]["content"].upper()}}]}
    )
    responses = run(
        server,
        request=lambda query: {"messages": [{"content": f"q: {query.id}"}]},
        response="choices.0.message.content",
        method="PUT",
    )
    assert [r.text for r in responses] == [f"Q: Q{i}" for i in range(1, 9)]
    server.answer = lambda _: json_reply(["a", "b"])
    assert run(server, response=lambda responses: "+".join(responses))["q1"].text == "a+b"


def failing(server: ChatServer, reply: Reply, **settings: Any) -> tuple[Run, int]:
    """Return a run whose first query always gets this reply, and the number of its requests."""

    def answer(request: Mapping[str, Any]) -> Reply:
        return reply if request["query"] == "Ìbéèrè 1?" else echo(request)

    server.answer = answer
    responses = run(server, **settings)
    assert [r.query_id for r in responses.failed] == ["q1"]
    assert [r.text for r in responses][1:] == [f"ìdáhùn {query.text}" for query in QUERIES[1:]]
    return responses, sum(request["query"] == "Ìbéèrè 1?" for request in server.requests)


TRANSIENT = {
    "429": (Reply("slow down", status=429), "HTTP 429: .*slow down"),
    "429 with Retry-After": (Reply("slow", status=429, headers={"retry-after": "0"}), "HTTP 429"),
    "408": (Reply("late", status=408), "HTTP 408"),
    "500": (Reply("down", status=500), "HTTP 500: .*down"),
    "503": (Reply("busy", status=503), "HTTP 503"),
    "reset": (
        Reply(body=b'{"answer": "abc"}', cut=True),
        "connection to the service failed or was lost",
    ),
    "not JSON": (Reply(body=b"<html>"), "not JSON in UTF-8"),
    "not UTF-8": (Reply(body=b'{"answer": "\xff"}'), "not JSON in UTF-8"),
    "too deep": (Reply(body=b"[" * 100_000), "not JSON in UTF-8"),
}


@pytest.mark.parametrize(("reply", "why"), TRANSIENT.values(), ids=TRANSIENT)
def test_transient_faults_are_retried(server: ChatServer, reply: Reply, why: str) -> None:
    responses, counts = failing(server, reply, retries=2)
    assert counts == 3
    assert reason(responses).startswith(f"{server.root}/rag: ")
    assert reason(responses).endswith("; 3 attempts")
    assert re.search(why, reason(responses))


@pytest.mark.parametrize(
    "reply", [Reply(delay=60), Reply(body=b'{"answer": "abc"}' + b" " * 999, drip=0.1)]
)
def test_slow_requests_time_out(server: ChatServer, reply: Reply) -> None:
    responses, _ = failing(server, reply, retries=1, timeout=0.8)
    assert reason(responses).endswith(": no complete answer arrived within 0.8 s; 2 attempts")


FINAL = {
    "400": (Reply("bad", status=400), "HTTP 400: .*bad"),
    "401": (Reply("who?", status=401), "HTTP 401"),
    "404": (Reply("where?", status=404), "HTTP 404"),
    "307": (
        Reply("", status=307, headers={"location": "/other"}),
        "HTTP 307: .*to /other; pass",
    ),
    "no such key": (json_reply({"text": "a"}), r"KeyError: 'answer'\): \{\"text\": \"a\"\}"),
    "a list": (json_reply([{"answer": "a"}]), r"ValueError: .*\): \[\{\"answer\": \"a\"\}\]"),
    "a string": (json_reply("answer"), "TypeError: .*: answer"),
    "null": (json_reply({"answer": None}), 'of type NoneType, not str: {"answer": null}'),
    "a number": (json_reply({"answer": 4}), 'of type int, not str: {"answer": 4}'),
    "half an emoji": (Reply(body=b'{"answer": "\\ud83d"}'), "UnicodeEncodeError"),
}


@pytest.mark.parametrize(("reply", "why"), FINAL.values(), ids=FINAL)
def test_permanent_faults_are_not_retried(server: ChatServer, reply: Reply, why: str) -> None:
    responses, counts = failing(server, reply)
    assert counts == 1
    assert re.search(why, reason(responses))


def test_errors_quote_only_a_part_of_long_answers(server: ChatServer) -> None:
    responses, _ = failing(server, json_reply({"text": "a" * 5000}))
    assert len(reason(responses)) < 500
    assert "aaa..." in reason(responses)


def test_a_retried_fault_is_not_in_the_run(server: ChatServer) -> None:
    faults = iter([Reply(status=503), Reply(cut=True), Reply(body=b"?")])
    server.answer = lambda request: next(faults, None) or echo(request)
    responses = run(server, concurrency=1)
    assert not responses.failed
    assert len(server.requests) == 11


def test_a_retry_after_beyond_the_total_timeout_is_not_waited_for(server: ChatServer) -> None:
    reply = Reply("x", status=429, headers={"retry-after": "3600"})
    responses, counts = failing(server, reply, total_timeout=5)
    assert counts == 1
    assert "the server asks to wait 3600 s" in reason(responses)


def test_no_server_at_all() -> None:
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{bound_socket.getsockname()[1]}"
        http_generator = HTTPGenerator(url, retries=1, backoff=0.01)
        with pytest.raises(GenerationError, match=r"all 8 .*ConnectError.*; 2 attempts"):
            http_generator.run(QUERIES, progress=False)


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (lambda query: {"id": query.metadata["id"]}, "KeyError: 'id'"),
        (lambda query: {"ids": {query.id}}, "TypeError: .*not JSON serializable"),
    ],
)
def test_requests_that_cannot_be_made(
    server: ChatServer, request_: Callable[[Query], Any], why: str
) -> None:
    with pytest.raises(GenerationError, match=f"'q1': {why}"):
        run(server, request=request_)
    assert server.requests == []


# Secrets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        Reply("your key sk-canary is wrong", status=401),
        Reply("x" * 290 + "sk-canary" * 9, status=401),
        Reply("Bearer sk-canary", status=500),
        json_reply({"authorization": "Bearer sk-canary", "key": "sk-canary"}),
        json_reply({"answer": ["sk-canary"]}),
        Reply("x", status=401, headers={"x-echo": "sk-canary"}),
    ],
)
def test_header_values_are_in_no_error(
    server: ChatServer, reply: Reply, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.answer = lambda request: reply if request["query"] == "Ìbéèrè 1?" else echo(request)
    http_generator = generator(server, headers={"Authorization": "Bearer sk-canary"}, retries=1)
    out = tmp_path / "run.jsonl"
    responses = http_generator.run(QUERIES, out=out, progress=False)
    assert all(headers["authorization"] == "Bearer sk-canary" for headers in server.headers)
    assert len(responses.failed) == 1
    for text in (
        reason(responses),
        repr(http_generator),
        str(vars(http_generator)),
        out.read_text(),
        caplog.text,
    ):
        assert "sk-c" not in text


def test_an_illegal_header_is_not_repeated(server: ChatServer) -> None:
    with pytest.raises(ValueError, match="the header 'Authorization' has characters") as caught:
        generator(server, headers={"Authorization": "Bearer sk-canary\0"})
    error: BaseException | None = caught.value
    while error is not None:
        assert "canary" not in str(error)
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    "url", ["http://me:sk-canary@localhost/", "http://localhost/?key=sk-canary", "localhost:80/"]
)
def test_addresses_with_secrets_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="endpoint") as caught:
        HTTPGenerator(url)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        *({"concurrency": 0}, {"retries": -1}, {"timeout": 0}, {"total_timeout": 0}),
        *({"backoff": -1}, {"timeout": None}, {"retries": None}, {"headers": ["sk-canary"]}),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=f"{next(iter(settings))}.* must be a "):
        HTTPGenerator("http://localhost/", **settings)


def test_requests_are_bounded(server: ChatServer) -> None:
    server.answer = lambda request: json_reply({"answer": request["query"]}, delay=0.3)
    run(server, concurrency=3)
    assert server.at_once == 3


def test_an_answer_that_is_too_long_fails_its_query_alone(server: ChatServer) -> None:
    bomb = Reply(body=gzip.compress(b" " * (8 << 20)), headers={"content-encoding": "gzip"})
    server.answer = lambda request: bomb if request["query"] == "Ìbéèrè 1?" else echo(request)
    responses = run(server, max_bytes=100_000)
    assert "longer than 100000 bytes, so reading was stopped" in reason(responses)
    assert [response.query_id for response in responses.failed] == ["q1"]
    assert len(server.requests) == len(QUERIES)
    assert server.headers[0]["accept-encoding"] == "gzip"
    server.answer = lambda _: Reply(body=b"{}", headers={"content-encoding": "gzip"})
    with pytest.raises(
        GenerationError, match="cannot be decompressed as its header content-encoding states"
    ):
        run(server, retries=0)
    with pytest.raises(SettingError, match="max_bytes must be a whole number of at least 1, got 0"):
        generator(server, max_bytes=0)
