"""Faults of servers and networks over real HTTP: the number of attempts, and the errors."""

from __future__ import annotations

import asyncio
import email.utils
import json
import socket
import struct
import threading
import time
import tracemalloc
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llm_server import ChatServer, Reply, last_user_text
from tenacity import RetryCallState

from mirage._base.concurrency import for_each, run_sync
from mirage.errors import LLMError
from mirage.llm import LLM
from mirage.llm.answers import Completion
from mirage.llm.retries import Reach, Retries, TransientError, transient_status

RETRIES = 2


def ask(llm: LLM, text: str = "Habari?") -> Completion:
    async def ask_once() -> Completion:
        async with llm.connect() as connection:
            return await connection.ask([{"role": "user", "content": text}])

    return run_sync(ask_once())


def model(server: ChatServer, **settings: Any) -> LLM:
    chosen: dict[str, Any] = {"cache": False, "backoff": 0.01, "retries": RETRIES, "timeout": 10}
    return LLM("mwalimu", base_url=server.url, **chosen | settings)


@dataclass(frozen=True)
class Fault:
    """A faulty reply and the expected error; ``passes`` if the call should be retried."""

    reply: Reply
    passes: bool
    says: str
    status: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def failed(status: int, message: str, code: str | None = None, **headers: str) -> Reply:
    error = {"message": message, "type": "test", "code": code}
    body = json.dumps({"error": error}).encode()
    return Reply(
        status=status, body=body, headers={k.replace("_", "-"): headers[k] for k in headers}
    )


def choice(**fields: Any) -> Reply:
    return Reply(body=json.dumps({"choices": [fields]}).encode())


QUICKLY = {"timeout": 0.6}

FAULTS = {
    # Worth another try
    "429": Fault(failed(429, "too fast"), True, "HTTP 429: too fast", 429),
    "429 with Retry-After": Fault(failed(429, "slow", retry_after="0.01"), True, "HTTP 429", 429),
    "500": Fault(failed(500, "broken"), True, "HTTP 500: broken", 500),
    "502 in HTML": Fault(Reply(status=502, body=b"<h1>Bad\nGateway"), True, "<h1>Bad Gateway", 502),
    "503": Fault(failed(503, "overloaded"), True, "HTTP 503: overloaded", 503),
    "503 without a body": Fault(Reply(status=503, body=b""), True, "HTTP 503", 503),
    "500 with garbage": Fault(Reply(status=500, body=b"\xff\xfe\x00"), True, "HTTP 500", 500),
    "408": Fault(failed(408, "too slow"), True, "HTTP 408: too slow", 408),
    "409": Fault(failed(409, "conflict"), True, "HTTP 409: conflict", 409),
    "hang": Fault(Reply(delay=30), True, "no complete answer arrived within 0.6 s", None, QUICKLY),
    "slow drip": Fault(
        Reply(drip=0.02), True, "no complete answer arrived within 0.6 s", None, QUICKLY
    ),
    "closed in mid-body": Fault(
        Reply(cut=True), True, "connection to the endpoint failed or was lost"
    ),
    "invalid JSON": Fault(Reply(body=b'{"choices": [{'), True, "not JSON in UTF-8"),
    "empty body": Fault(Reply(body=b""), True, "not JSON in UTF-8"),
    "HTML with status 200": Fault(Reply(body=b"<html>Log in"), True, "not JSON in UTF-8"),
    "deep nesting": Fault(Reply(body=b"[" * 100_000), True, "not JSON in UTF-8"),
    "a number of 5,000 digits": Fault(Reply(body=b"9" * 5000), True, "not JSON in UTF-8"),
    "not UTF-8": Fault(Reply(body='{"é": 1}'.encode("latin-1")), True, "not JSON in UTF-8"),
    "wrong encoding named": Fault(
        Reply(headers={"content-encoding": "gzip"}),
        True,
        "cannot be decompressed as its header content-encoding states",
    ),
    "a list": Fault(Reply(body=b"[1, 2]"), True, r"a JSON object, got \[1, 2\]"),
    "null": Fault(Reply(body=b"null"), True, "a JSON object, got null"),
    "no choices": Fault(Reply(body=b'{"id": "1"}'), True, "has no entry in 'choices': "),
    "empty choices": Fault(Reply(body=b'{"choices": []}'), True, "has no entry in 'choices'"),
    "choices of text": Fault(Reply(body=b'{"choices": "ok"}'), True, "has no entry in 'choices'"),
    "a choice of null": Fault(
        Reply(body=b'{"choices": [null]}'), True, "has no entry in 'choices'"
    ),
    "no message": Fault(choice(finish_reason="stop"), True, "has no entry in 'choices'"),
    "a message of text": Fault(choice(message="ok"), True, "has no entry in 'choices'"),
    "null content": Fault(Reply(text=None), True, "has no text"),
    "content of parts": Fault(choice(message={"content": [{"type": "x"}]}), True, "has no text"),
    "error with status 200": Fault(
        Reply(body=b'{"error": {"message": "overloaded"}}'), True, "overloaded"
    ),
    "lone surrogates": Fault(
        Reply(body=rb'{"choices": [{"message": {"content": "a\ud800b"}}]}'),
        True,
        "not valid Unicode",
    ),
    "lone surrogates, 500": Fault(
        Reply(status=500, body=rb'{"error": {"message": "a\ud800b"}}'), True, r"a\\ud800b", 500
    ),
    # Final
    "400": Fault(failed(400, "no such parameter"), False, "HTTP 400: no such parameter", 400),
    "400 context too long": Fault(
        failed(400, "at most 8192 tokens", "context_length_exceeded"), False, "at most 8192", 400
    ),
    "400 content filter": Fault(
        failed(400, "The prompt was filtered", "content_filter"),
        False,
        "blocked by a content filter.*The prompt was filtered",
        400,
    ),
    "401": Fault(failed(401, "wrong key"), False, "HTTP 401: wrong key", 401),
    "403": Fault(failed(403, "not for you"), False, "HTTP 403: not for you", 403),
    "404 model": Fault(failed(404, "no model mwalimu"), False, "HTTP 404: no model mwalimu", 404),
    "404 as Ollama says it": Fault(
        Reply(status=404, body=b'{"error": "model not found"}'), False, "404: model not found", 404
    ),
    "422 as FastAPI says it": Fault(
        Reply(status=422, body=b'{"detail": [{"loc": ["body"]}]}'), False, '"loc": ', 422
    ),
    "307": Fault(
        Reply(status=307, body=b"", headers={"location": "http://127.0.0.1:9/v1"}),
        False,
        "HTTP 307.*moved to http://127.0.0.1:9/v1",
        307,
    ),
    "429 insufficient_quota": Fault(
        failed(429, "pay first", "insufficient_quota"), False, "HTTP 429: pay first", 429
    ),
    "content filter": Fault(
        Reply("Hab", finish_reason="content_filter"), False, "blocked by a content filter"
    ),
    "refusal": Fault(
        Reply(None, message={"refusal": "I would rather not."}), False, "refused: I would rather"
    ),
    "length without text": Fault(Reply("", finish_reason="length"), False, "used up max_tokens"),
    "length with null": Fault(Reply(None, finish_reason="length"), False, "used up max_tokens"),
}

faults = pytest.mark.parametrize("fault", [pytest.param(FAULTS[n], id=n) for n in FAULTS])
passing = pytest.mark.parametrize(
    "fault", [pytest.param(FAULTS[n], id=n) for n in FAULTS if FAULTS[n].passes]
)


@faults
def test_a_permanent_fault_is_an_error_with_its_cause_and_endpoint(
    server: ChatServer, fault: Fault
) -> None:
    server.answer = lambda _: fault.reply
    llm = model(server, **fault.settings)
    with pytest.raises(LLMError, match=fault.says) as caught:
        ask(llm)
    assert llm.usage.calls == (1 + RETRIES if fault.passes else 1)
    if fault.settings is not QUICKLY:  # then a slow machine may give up before it has sent all
        assert len(server.requests) == llm.usage.calls
    assert caught.value.status == fault.status
    message = str(caught.value)
    assert message.startswith(f"mwalimu at {server.url}: ")
    assert message.endswith("; 3 attempts") == fault.passes
    message.encode()  # may stand in a file


@passing
def test_a_transient_fault_is_retried(server: ChatServer, fault: Fault) -> None:
    server.answer = lambda _: fault.reply if len(server.requests) == 1 else "nzuri"
    assert ask(model(server, **fault.settings)).text == "nzuri"
    if fault.settings is not QUICKLY:
        assert len(server.requests) == 2
    assert server.requests[0] == server.requests[1]


def test_a_batch_with_every_fault_in_it_is_otherwise_complete(server: ChatServer) -> None:
    """Every fault affects one of the calls permanently; all others are answered."""
    names = list(FAULTS)

    def answer(request: Mapping[str, Any]) -> Reply | str:
        kind, _, which = last_user_text(request).partition(" ")
        return FAULTS[names[int(which)]].reply if kind == "fault" else f"answer {which}"

    server.answer = answer
    llm = model(server, timeout=1.0, concurrency=8)
    questions = [f"{kind} {i}" for i in range(len(names)) for kind in ("fault", "question")]
    answered: dict[str, str] = {}
    reasons: dict[str, str] = {}

    async def batch() -> None:
        async with llm.connect() as connection:

            async def ask_one(text: str) -> None:
                try:
                    completion = await connection.ask([{"role": "user", "content": text}])
                except LLMError as error:
                    reasons[text] = str(error)
                else:
                    answered[text] = completion.text

            await for_each(questions, ask_one, llm.concurrency)

    run_sync(batch())
    assert answered == {f"question {i}": f"answer {i}" for i in range(len(names))}
    assert set(reasons) == {f"fault {i}" for i in range(len(names))}
    request_count = sum(1 + RETRIES if fault.passes else 1 for fault in FAULTS.values())
    assert llm.usage.calls >= request_count + len(
        names
    )  # more where a slow machine runs out of time


# Answers that look like faults --------------------------------------------------------------------


def test_a_cut_answer_is_an_answer(server: ChatServer) -> None:
    server.answer = lambda _: Reply("Jibu refu", finish_reason="length")
    completion = ask(model(server))
    assert (completion.text, completion.finish_reason) == ("Jibu refu", "length")


def test_an_empty_answer_is_an_answer(server: ChatServer) -> None:
    server.answer = lambda _: Reply("")
    assert ask(model(server)).text == ""


@pytest.mark.parametrize(
    "usage",
    [
        None,
        7,
        {},
        {"prompt_tokens": "5", "completion_tokens": 1},
        {"prompt_tokens": -1},
        {"prompt_tokens": 10**400, "completion_tokens": 1},
    ],
)
def test_invalid_token_counts_are_replaced_by_estimates(server: ChatServer, usage: object) -> None:
    body = {"choices": [{"message": {"content": "jibu moja"}}], "usage": usage}
    server.answer = lambda _: Reply(body=json.dumps(body).encode())
    completion = ask(model(server), "swali refu")
    assert (completion.prompt_tokens, completion.completion_tokens) == (3, 3)
    assert completion.finish_reason == ""


def test_a_prompt_that_is_not_unicode_is_not_sent(server: ChatServer) -> None:
    with pytest.raises(LLMError, match="not valid Unicode"):
        ask(model(server), "a\ud800b")
    assert server.requests == []


# The network --------------------------------------------------------------------------------------


def test_a_closed_port() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, but not listening
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        llm = LLM("mwalimu", base_url=url, cache=False, backoff=0.01, retries=RETRIES)
        with pytest.raises(
            LLMError, match=r"connection to the endpoint failed.*ConnectError.*; 3 attempts"
        ):
            ask(llm)
    assert llm.usage.calls == 3


@contextmanager
def resetting_server() -> Iterator[tuple[str, list[bytes]]]:
    """Run a server that resets every connection (TCP RST) in the middle of the answer's body."""
    requests: list[bytes] = []

    def serve(listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                requests.append(connection.recv(65536))
                connection.sendall(b'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"choices"')
                time.sleep(0.02)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1", requests
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_reset_in_mid_body() -> None:
    with resetting_server() as (url, requests):
        llm = LLM("mwalimu", base_url=url, cache=False, backoff=0.01, retries=RETRIES)
        with pytest.raises(LLMError, match=r"failed or was lost.*; 3 attempts"):
            ask(llm)
    assert len(requests) == 3


# Waiting ------------------------------------------------------------------------------------------


def http_date(seconds: float) -> str:
    return email.utils.formatdate(time.time() + seconds, usegmt=True)


@pytest.mark.parametrize(
    ("headers", "least"),
    [
        (lambda: {"retry-after": "0.15"}, 0.15),
        (lambda: {"retry-after-ms": "150"}, 0.15),
        (lambda: {"retry-after-ms": "150", "retry-after": "30"}, 0.15),
        (lambda: {"retry-after-ms": "soon", "retry-after": "0.15"}, 0.15),
        (lambda: {"retry-after": http_date(2)}, 0.9),  # dates are in whole seconds
        (lambda: {"retry-after": http_date(-60)}, 0.0),
        (lambda: {"retry-after": "-5"}, 0.0),
        (lambda: {"retry-after": "nan"}, 0.0),
        (lambda: {"retry-after": "soon"}, 0.0),
    ],
    ids=["seconds", "ms", "ms first", "ms unreadable", "date", "past", "below 0", "nan", "words"],
)
def test_retry_after_is_respected(server: ChatServer, headers: Any, least: float) -> None:
    status = 503 if "retry-after-ms" in headers() else 429
    server.answer = lambda _: (
        Reply(status=status, headers=headers()) if len(server.requests) == 1 else "nzuri"
    )
    assert ask(model(server)).text == "nzuri"
    waited = server.times[1] - server.times[0]
    assert least <= waited < 20


@pytest.mark.parametrize(
    "date",
    [
        "Mon, 01 Jan 0001 00:00:00 +2359",
        "Sat, 01 Jan 100000 00:00:00 GMT",
        "Mon, 32 Foo 2026 99:99:99 GMT",
        "1e999999999x",
    ],
)
def test_an_invalid_retry_after_is_ignored(server: ChatServer, date: str) -> None:
    server.answer = lambda _: (
        Reply(status=429, headers={"retry-after": date}) if len(server.requests) == 1 else "nzuri"
    )
    assert ask(model(server)).text == "nzuri"


@given(st.text(max_size=40) | st.from_regex(r"[A-Z][a-z]{2}, \d+ [A-Z][a-z]{2} \d+ \d+:\d+:\d+ .*"))
def test_any_retry_after_is_a_number_of_seconds_or_none(value: str) -> None:
    fault = transient_status(429, "slow", {"retry-after": value})
    assert fault is not None
    assert fault.retry_after is None or fault.retry_after >= 0


@pytest.mark.parametrize(
    "wait",
    ["3600", "inf", http_date(3600), "99999999999999999999"],
    ids=["seconds", "for ever", "date", "digits"],
)
def test_a_wait_beyond_the_total_timeout_is_not_begun(server: ChatServer, wait: str) -> None:
    server.answer = lambda _: Reply(status=429, headers={"retry-after": wait})
    started = time.monotonic()
    with pytest.raises(
        LLMError, match=r"1 attempt, and the limit of 60 s allows no more \(the server asks to"
    ):
        ask(model(server, total_timeout=60))
    assert time.monotonic() - started < 60
    assert len(server.requests) == 1


def test_the_total_timeout_covers_all_attempts(server: ChatServer) -> None:
    server.answer = lambda _: Reply(delay=300)
    llm = model(server, retries=1000, timeout=0.2, total_timeout=0.7)
    started = time.monotonic()
    with pytest.raises(LLMError, match=r"attempts?, and the limit of 0\.7 s allows no more"):
        ask(llm)
    assert time.monotonic() - started < 60
    assert llm.usage.calls <= 5


@given(st.integers(1, 30), st.none() | st.floats(0, 100), st.floats(0, 10))
def test_waits_grow_and_are_random(attempt: int, retry_after: float | None, backoff: float) -> None:
    """Waits are up to a bound that doubles each time, or slightly above ``Retry-After``."""
    fault = TransientError("slow", retry_after=retry_after)
    state = RetryCallState(cast(Any, None), None, (), {})
    state.attempt_number = attempt
    state.set_exception((TransientError, fault, None))
    waits = [Retries(9, backoff, 1, 1)._wait(state) for _ in range(200)]
    least = 0.0 if retry_after is None else retry_after
    most = (
        min(60.0, backoff * 2.0 ** (attempt - 1)) if retry_after is None else retry_after + backoff
    )
    spread = most - least
    assert least <= min(waits) <= least + 0.2 * spread
    assert most - 0.2 * spread <= max(waits) <= most


def test_waiting_for_a_slot_does_not_count_towards_the_timeout(server: ChatServer) -> None:
    """``total_timeout`` covers one call, not the calls before it in the queue."""
    failing: set[str] = set()

    def answer(request: Mapping[str, Any]) -> Reply:
        first = last_user_text(request) not in failing
        failing.add(last_user_text(request))
        return Reply(status=503 if first else 200, delay=0.15)

    server.answer = answer
    llm = model(server, concurrency=1, total_timeout=1.25, backoff=0.0)

    async def all_at_once() -> list[Completion]:
        async with llm.connect() as connection:
            asks = (connection.ask([{"role": "user", "content": str(i)}]) for i in range(6))
            return await asyncio.gather(*asks)

    assert [completion.text for completion in run_sync(all_at_once())] == ["ok"] * 6


def test_failed_calls_are_not_cached(server: ChatServer, tmp_path: Path) -> None:
    server.answer = lambda _: Reply("Hab", finish_reason="content_filter")
    llm = model(server, cache=tmp_path / "cache.sqlite")
    with pytest.raises(LLMError):
        ask(llm)
    server.answer = lambda _: "nzuri"
    assert ask(llm).text == "nzuri"


def test_an_attempt_ends_with_the_total_timeout() -> None:
    limits: list[float] = []

    async def attempt(seconds: float) -> None:
        limits.append(seconds)

    asyncio.run(Retries(0, 0.0, attempt_s=5.0, total_s=0.5).call(attempt, Reach()))
    asyncio.run(Retries(0, 0.0, attempt_s=0.25, total_s=0.5).call(attempt, Reach()))
    assert 0 < limits[0] <= 0.5
    assert limits[1] == 0.25


# Answers of odd forms -----------------------------------------------------------------------------


def packed(size: int, before: bytes = b"", after: bytes = b"", **headers: str) -> Reply:
    """Return a compressed JSON answer with ``size`` blanks, a thousand times its length."""
    packer = zlib.compressobj(9, wbits=31)
    parts = [packer.compress(before)]
    parts += [packer.compress(b" " * 2**20) for _ in range(size >> 20)]
    body = b"".join([*parts, packer.compress(after), packer.flush()])
    return Reply(body=body, headers={"content-encoding": "gzip"} | headers)


def test_a_compressed_answer_that_is_too_long_is_not_read_further(server: ChatServer) -> None:
    bomb = packed(64 << 20)
    server.answer = lambda _: bomb
    tracemalloc.start()
    with pytest.raises(LLMError, match=r"longer than 1048576 bytes.* max_bytes") as caught:
        ask(model(server, max_bytes=1 << 20))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20
    assert len(server.requests) == 1  # it would be as long again
    assert caught.value.status is None


@pytest.mark.parametrize("status", [200, 400, 500])
def test_an_uncompressed_answer_that_is_too_long_is_not_read_further(
    server: ChatServer, status: int
) -> None:
    server.answer = lambda _: Reply(body=b" " * 300_000, status=status)
    with pytest.raises(LLMError, match="longer than 100000 bytes"):
        ask(model(server, max_bytes=100_000))
    assert len(server.requests) == 1


def test_a_compressed_answer_is_read_to_the_last_byte(server: ChatServer) -> None:
    whole = Reply("nzuri" * 1000).content({"messages": [], "model": "m"})
    for wbits, name in ((31, "gzip"), (31, "x-gzip"), (15, "deflate"), (31, "identity, GZIP")):
        packer = zlib.compressobj(wbits=wbits)
        body = packer.compress(whole) + packer.flush()
        server.answer = lambda _, b=body, n=name: Reply(body=b, headers={"content-encoding": n})
        assert ask(model(server, max_bytes=len(whole))).text == "nzuri" * 1000
        with pytest.raises(LLMError, match="longer than"):
            ask(model(server, max_bytes=len(whole) - 1))
    assert {headers["accept-encoding"] for headers in server.headers} == {"gzip"}


@pytest.mark.parametrize("packing", ["br", "gzip, gzip", "zstd", "\x1b[2Jx"])
def test_an_unrequested_compression_is_refused(server: ChatServer, packing: str) -> None:
    server.answer = lambda _: Reply(body=b"x", headers={"content-encoding": packing})
    with pytest.raises(LLMError, match="is compressed as"):
        ask(model(server))


def test_an_invalid_gzip_answer_is_retried(server: ChatServer) -> None:
    broken = Reply(body=b"{}", headers={"content-encoding": "gzip"})
    server.answer = lambda _: broken if len(server.requests) == 1 else "nzuri"
    assert ask(model(server)).text == "nzuri"


def test_a_list_of_parts_is_joined(server: ChatServer) -> None:
    parts = [{"type": "text", "text": "nzu"}, {"type": "text", "text": "ri"}]
    server.answer = lambda _: Reply(None, message={"content": parts})
    answer = ask(model(server))
    assert answer.text == "nzuri"
    assert len(server.requests) == 1
    server.answer = lambda _: Reply(None, message={"content": [{"type": "image_url"}]})
    with pytest.raises(LLMError, match="has no text"):
        ask(model(server))


@pytest.mark.parametrize("name", ["tool_calls", "function_call"])
def test_a_tool_call_is_not_retried(server: ChatServer, name: str) -> None:
    calls: Any = [{"id": "1", "function": {"name": "search"}}]
    server.answer = lambda _: Reply(None, message={name: calls}, finish_reason=name)
    with pytest.raises(
        LLMError, match=r"called a tool and wrote no text.*search.*do not pass tools"
    ):
        ask(model(server))
    assert len(server.requests) == 1
    server.answer = lambda _: Reply("nzuri", message={name: calls})  # and a text beside it
    assert ask(model(server)).text == "nzuri"


# Endpoints that are not there ---------------------------------------------------------------------


def attempts(retries: Retries, reach: Reach, *results: str | TransientError) -> int:
    """Return the number of attempts of a call; the last outcome repeats if there are more."""
    count = 0

    async def attempt(_: float) -> str:
        nonlocal count
        result = results[min(count, len(results) - 1)]
        count += 1
        if isinstance(result, TransientError):
            raise result
        return result

    try:
        assert asyncio.run(retries.call(attempt, reach)) == "ok"
    except TransientError as error:
        assert "not there" in str(error)  # noqa: PT017
    return count


NOT_THERE = TransientError("not there", unreached=True)
FIVE = Retries(5, 0.001, 10, 10)


def test_an_unreachable_endpoint_is_given_up_for_all_calls() -> None:
    reach = Reach()
    assert attempts(FIVE, reach, NOT_THERE) == 3
    assert attempts(FIVE, reach, NOT_THERE) == 0
    assert attempts(FIVE, Reach(), NOT_THERE, "ok") == 2
    assert attempts(Retries(1, 0.001, 10, 10), Reach(), NOT_THERE) == 2


@pytest.mark.parametrize("first", ["ok", TransientError("HTTP 503: not there", status=503)])
def test_an_endpoint_that_was_reached_once_gets_all_retries(
    first: str | TransientError,
) -> None:
    reach = Reach()
    attempts(FIVE, reach, first)
    assert attempts(FIVE, reach, NOT_THERE) == 6


def test_calls_to_an_unreachable_endpoint_fail_fast() -> None:
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{bound_socket.getsockname()[1]}/v1"
        llm = LLM("m", base_url=url, cache=False, backoff=0.01, concurrency=4)
        reasons = []

        async def ask_all() -> None:
            async with llm.connect() as connection:

                async def ask_one(n: int) -> None:
                    try:
                        await connection.ask([{"role": "user", "content": str(n)}])
                    except LLMError as error:
                        reasons.append(str(error))

                await for_each(range(50), ask_one, 4)

        run_sync(ask_all())
    assert len(reasons) == 50
    assert all("ConnectError" in reason for reason in reasons)
    assert llm.usage.calls <= 4 * 3


# Endpoints that answer every call with an error ---------------------------------------------------


def down(status: int) -> TransientError | LLMError:
    """Return the error of a call whose last attempt got this status."""
    fault = transient_status(status, f"HTTP {status}: down", {})
    return fault or LLMError(f"HTTP {status}: down", status)


async def attempts_of_calls(reach: Reach, outcomes: Iterable[Exception | None]) -> list[int]:
    """Make calls one after the other, and return their numbers of attempts.

    All attempts of a call have the same outcome; ``None`` is a success.
    """
    counts = []
    for outcome in outcomes:
        count = 0

        async def attempt(_: float, outcome: Exception | None = outcome) -> None:
            nonlocal count
            count += 1
            if outcome is not None:
                raise outcome

        with suppress(TransientError, LLMError):
            await TWO.call(attempt, reach)
        counts.append(count)
    return counts


TWO = Retries(2, 0.0, 10, 10)


def calls(*outcomes: Exception | None, reach: Reach | None = None) -> list[int]:
    return asyncio.run(attempts_of_calls(reach or Reach(), outcomes))


@pytest.mark.parametrize("status", [500, 502, 503, 401, 402, 404])
def test_an_endpoint_that_fails_every_call_is_given_up(
    caplog: pytest.LogCaptureFixture, status: int
) -> None:
    attempts_of_first = 3 if status >= 500 else 1
    counts = calls(*[down(status)] * 100)
    # The first calls are retried, the next ones are tried once, and the others are not sent.
    assert counts == [*[attempts_of_first] * 8, *[1] * 24, *[0] * 68]
    assert caplog.messages == [
        f"32 calls in a row failed with HTTP {status}, and none succeeded, so no more calls are "
        "sent on this connection"
    ]


def test_a_call_that_is_not_sent_says_why_and_has_the_status() -> None:
    reach = Reach()
    calls(*[down(503)] * 32, reach=reach)
    with pytest.raises(
        TransientError, match=r"not sent, because 32 calls in a row failed.*: HTTP 503: down; 1 att"
    ) as error:
        asyncio.run(TWO.call(lambda _: asyncio.sleep(0), reach))
    assert (error.value.status, error.value.unreached) == (503, False)


@pytest.mark.parametrize("status", [400, 403, 408, 409, 413, 422, 429])
def test_statuses_that_depend_on_the_request_or_the_moment_stop_nothing(status: int) -> None:
    assert calls(*[down(status)] * 100) == [3 if status in (408, 409, 429) else 1] * 100


def test_an_endpoint_that_answered_once_is_never_given_up() -> None:
    counts = calls(*[down(500)] * 20, None, *[down(500)] * 100)
    assert counts == [*[3] * 8, *[1] * 12, 1, *[3] * 100]


def test_other_failures_between_start_the_count_again() -> None:
    for other in (down(502), down(404), TransientError("too slow"), LLMError("filtered", 400)):
        counts = calls(*[*[down(500)] * 31, other] * 3)
        assert counts[:31] == counts[32:63] == [*[3] * 8, *[1] * 23]
        assert 0 not in counts


def test_an_answer_to_a_call_under_way_revives_an_endpoint() -> None:
    reach = Reach()

    async def main() -> list[int]:
        may_answer = asyncio.Event()

        async def slow(_: float) -> None:
            await may_answer.wait()

        under_way = asyncio.create_task(TWO.call(slow, reach))
        await asyncio.sleep(0)
        assert (await attempts_of_calls(reach, [down(500)] * 40))[-1] == 0
        may_answer.set()
        await under_way
        return await attempts_of_calls(reach, [down(500), None])

    assert asyncio.run(main()) == [3, 1]


def test_calls_to_a_server_that_is_down_end_soon(server: ChatServer) -> None:
    server.answer = lambda _: Reply("down", status=500)
    llm = model(server, retries=5, concurrency=8)
    reasons = []

    async def ask_all() -> None:
        async with llm.connect() as connection:

            async def ask_one(n: int) -> None:
                with pytest.raises(LLMError) as error:
                    await connection.ask([{"role": "user", "content": str(n)}])
                reasons.append(error.value)

            await for_each(range(200), ask_one, 8)

    run_sync(ask_all())
    assert len(reasons) == 200
    assert {error.status for error in reasons} == {500}
    assert len(server.requests) <= 15 * 6 + 32 + 8
