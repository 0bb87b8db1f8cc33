"""Several servers of one model, one of which may go down."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llm_server import ChatServer, Reply

from mirage._base.concurrency import for_each, run_sync
from mirage.errors import LLMError
from mirage.llm import LLM, Budget, _servers

ANOTHER = """
import sys, time
from llm_server import ChatServer
def answer(request):
    time.sleep(0.01)
    return "from the other"
with ChatServer(answer) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def process() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run a server in its own process, which can be killed."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    with subprocess.Popen(
        [sys.executable, "-c", ANOTHER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
        process.kill()


def ask_many(llm: LLM, count: int, each: Any = None) -> list[str]:
    answers: list[str] = []

    async def ask_all() -> None:
        async with llm.connect() as connection:

            async def ask(number: int) -> None:
                completion = await connection.ask([{"role": "user", "content": str(number)}])
                answers.append(completion.text)
                if each is not None:
                    each(len(answers))

            await for_each(range(count), ask, llm.concurrency)

    run_sync(ask_all())
    return answers


def test_requests_go_to_the_least_busy_server(server: ChatServer) -> None:
    server.answer = lambda _: Reply("slow", delay=0.3)
    with ChatServer(lambda _: Reply("fast", delay=0.02)) as fast:
        urls = [server.url, fast.url, server.url]
        llm = LLM("m", base_url=urls, cache=False, concurrency=4)
        assert llm.endpoints == (server.url, fast.url)
        answers = ask_many(llm, 40)
        assert sorted(set(answers)) == ["fast", "slow"]
        # Two are always under way at the slow one, the others go where there is room.
        assert answers.count("fast") > 2 * answers.count("slow")
        assert server.at_once + fast.at_once <= 4


def test_one_server_dies_and_its_requests_go_to_the_other(
    server: ChatServer,
    process: tuple[str, subprocess.Popen[str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    url, dying = process
    server.answer = lambda _: Reply("from the first", delay=0.01)
    llm = LLM("m", base_url=[url, server.url], cache=False, concurrency=4, retries=0)

    def kill(answered: int) -> None:
        if answered == 30:
            dying.send_signal(signal.SIGKILL)

    with caplog.at_level(logging.WARNING, "mirage.llm"):
        answers = ask_many(llm, 100, kill)
    assert len(answers) == 100
    assert 8 <= answers.count("from the other") <= 35
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"the server {url} is not available")
    # Without the first, not even one would be answered.
    with pytest.raises(LLMError, match=r"m at .* connection to the endpoint failed or was lost"):
        ask_many(LLM("m", base_url=url, cache=False, retries=0), 1)


def test_a_server_comes_back(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_servers, "_PAUSE_S", 0.2)
    with ChatServer(lambda _: "second") as second:
        server.answer = lambda _: Reply(status=503)
        llm = LLM("m", base_url=[server.url, second.url], cache=False, concurrency=2)
        times = []

        async def ask_all() -> None:
            async with llm.connect() as connection:
                for number in range(60):
                    if number == 20:
                        server.answer = lambda _: "first"
                    await connection.ask([{"role": "user", "content": str(number)}])
                    times.append(len(server.requests))
                    await asyncio.sleep(0.02)

        run_sync(ask_all())
    assert times[19] <= 5  # asked once, and once more each time that it might be back
    assert times[-1] >= 15  # and as often as the other once it is
    assert len(second.requests) + len(server.requests) == llm.usage.calls


def test_an_error_is_raised_if_all_servers_are_down(server: ChatServer) -> None:
    server.answer = lambda _: Reply(status=503)
    with ChatServer(lambda _: Reply(status=502)) as second:
        budget = Budget(calls=5)
        urls = [server.url, second.url]
        llm = LLM("m", base_url=urls, cache=False, retries=1, backoff=0.01, budget=budget)
        with pytest.raises(LLMError, match=r"m at http.* and 1 more: HTTP 50\d: ok; 2 attempts"):
            ask_many(llm, 1)
        assert (len(server.requests), len(second.requests)) == (2, 2)
        assert budget.spent_calls == 4  # each request counts


def test_answers_are_cached_under_the_first_address(server: ChatServer, tmp_path: Path) -> None:
    with ChatServer(lambda _: "second") as second:
        alone = LLM("m", base_url=server.url, cache=tmp_path / "cache")
        both = LLM("m", base_url=[server.url, second.url], cache=tmp_path / "cache")
        assert ask_many(alone, 1) == ask_many(both, 1) == ["ok"]
        assert both.usage.cached == 1
