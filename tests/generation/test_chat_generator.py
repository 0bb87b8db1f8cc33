"""OpenAIGenerator, against a real server on loopback."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from llm_server import ChatServer, Reply, last_user_text

from mirage import LLM, Budget, Generator, MirageDataset, OpenAIGenerator
from mirage.errors import GenerationError, LLMError, SettingError, UnknownNameError
from mirage.generation import RagPrompt
from mirage.models import Passage, Query, Run

QUERIES = MirageDataset(
    [
        Query(
            id=f"q{i:02d}",
            language="sw",
            text=f"Swali q{i:02d}?",
            passages=tuple(Passage(id=f"{i}#{j}", text=f"Kifungu {j}.") for j in range(4)),
        )
        for i in range(1, 15)
    ],
    name="maswali",
)


def query_id_of(request: Mapping[str, Any]) -> str:
    """Return the id of the query in a request."""
    match = re.search(r"Swali (q\d+)\?", last_user_text(request))
    assert match is not None
    return match[1]


def echo(request: Mapping[str, Any]) -> str:
    return f"##Reason: .\n##Answer: jibu la {query_id_of(request)}"


def generator(server: ChatServer, **settings: Any) -> OpenAIGenerator:
    llm = LLM("m", **{"base_url": server.url, "cache": False, "backoff": 0.01} | settings)
    return OpenAIGenerator(llm)


def run(server: ChatServer, out: Path | None = None, **settings: Any) -> Run:
    return generator(server, **settings).run(QUERIES, out=out, progress=False)


def test_every_query_is_asked_once_and_answered_in_order(server: ChatServer) -> None:
    server.answer = echo
    run_ = run(server)
    assert (run_.model, run_.language) == ("m", "sw")
    assert [r.text for r in run_] == [f"##Reason: .\n##Answer: jibu la {q.id}" for q in QUERIES]
    assert Counter(map(query_id_of, server.requests)) == Counter(QUERIES.query_ids)
    for request in server.requests:
        response = run_[query_id_of(request)]
        ids = re.findall(r"^\[(\d+#\d)\]", last_user_text(request), re.MULTILINE)
        assert response.shown == tuple(ids)
    assert any(r.shown != QUERIES[r.query_id].passage_ids for r in run_)


def test_a_name_makes_an_llm(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    generator = OpenAIGenerator("gpt-4o-mini")
    assert isinstance(generator, Generator)
    run = generator.run(QUERIES[:2], progress=False)
    assert (run.model, [r.text for r in run]) == ("gpt-4o-mini", ["ok", "ok"])
    renamed = OpenAIGenerator("x", name="yangu", base_url=server.url, max_tokens=7, cache=False)
    assert renamed.run(QUERIES[:1], progress=False).model == "yangu"
    assert (server.requests[-1]["model"], server.requests[-1]["max_tokens"]) == ("x", 7)
    with pytest.raises(SettingError, match=r"pass max_tokens to LLM\(\.\.\.\)"):
        OpenAIGenerator(LLM("x"), max_tokens=7)


def test_no_key_is_an_error_at_once_not_failed_queries(tmp_path: Path) -> None:
    with pytest.raises(LLMError, match="set OPENAI_API_KEY"):
        OpenAIGenerator("gpt-4o-mini").run(QUERIES, out=tmp_path / "run.jsonl", progress=False)
    assert (tmp_path / "run.jsonl").read_text() == ""


def test_the_prompt_leaves_room_for_the_longest_answer(server: ChatServer) -> None:
    assert generator(server, max_tokens=3000).prompt == RagPrompt(answer_tokens=3000)
    assert generator(server, max_tokens=None).prompt == RagPrompt()
    with pytest.raises(SettingError, match="answers of 9000 tokens"):
        generator(server, max_tokens=9000)


def test_a_custom_prompt_is_sent_unchanged(server: ChatServer) -> None:
    llm = LLM("m", base_url=server.url, cache=False)
    OpenAIGenerator(llm, prompt=RagPrompt(seed=None)).run(QUERIES, progress=False)
    expected = {q.id: [dict(m) for m in RagPrompt(seed=None)(q).messages] for q in QUERIES}
    assert {query_id_of(request): request["messages"] for request in server.requests} == expected


def test_same_seed_makes_the_same_requests_and_files(server: ChatServer, tmp_path: Path) -> None:
    server.answer = echo
    sent = []
    for i, seed in enumerate((1, 1, 2)):
        llm = LLM("m", base_url=server.url, cache=False)
        maker = OpenAIGenerator(llm, prompt=RagPrompt(seed=seed))
        maker.run(QUERIES, out=tmp_path / f"{i}.jsonl", progress=False)
        sent.append(sorted(json.dumps(request) for request in server.requests))
        server.requests.clear()
    assert sent[0] == sent[1] != sent[2]
    first, second, third = ((tmp_path / f"{i}.jsonl").read_bytes() for i in range(3))
    assert first == second != third


def test_works_in_a_running_event_loop(server: ChatServer) -> None:
    async def notebook() -> Run:
        return run(server)

    assert [r.text for r in asyncio.run(notebook())] == ["ok"] * 14


@pytest.mark.parametrize(("concurrency", "delay"), [(1, 0.01), (5, 0.3)])
def test_requests_are_bounded(server: ChatServer, concurrency: int, delay: float) -> None:
    server.answer = lambda _: Reply("ok", delay=delay)
    run(server, concurrency=concurrency)
    assert server.at_once == concurrency


# Failures -----------------------------------------------------------------------------------------


def test_a_query_that_fails_does_not_affect_the_others(
    server: ChatServer, caplog: pytest.LogCaptureFixture
) -> None:
    faults = {
        "q02": Reply("down", status=500),
        "q05": Reply("no", status=400),
        "q06": Reply("x", finish_reason="content_filter"),
        "q09": Reply(cut=True),
    }
    server.answer = lambda request: faults.get(query_id_of(request), echo(request))
    responses = run(server, retries=2)
    assert {r.query_id for r in responses.failed} == set(faults)
    assert (responses["q02"].error or "").endswith("HTTP 500: down; 3 attempts")
    assert "HTTP 400: no" in (responses["q05"].error or "")
    assert "content filter" in (responses["q06"].error or "")
    assert sum(r.text is not None for r in responses) == 10
    assert Counter(map(query_id_of, server.requests))["q05"] == 1
    (record,) = [r for r in caplog.records if r.name == "mirage.generation"]
    assert record.levelno == logging.WARNING
    message = record.getMessage()
    assert message.startswith("model 'm' failed on 4 of the 14 queries of maswali; the first")
    assert "'q02': m at http" in message


def test_failures_are_counted_in_the_bar(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = lambda request: (
        Reply(status=400) if query_id_of(request) in ("q02", "q03") else echo(request)
    )
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    generator(server).run(QUERIES)
    progress = capsys.readouterr().err
    assert "responses of m" in progress
    assert "failed=2" in progress
    assert "14/14" in progress


def test_failing_everywhere_is_an_error_with_the_first_reason(
    server: ChatServer, tmp_path: Path
) -> None:
    server.answer = lambda _: Reply("no such model", status=404)
    with pytest.raises(GenerationError, match=r"'m' failed on all 14 .*'q01': .*no such model"):
        run(server, tmp_path / "run.jsonl")
    server.answer = echo  # what failed is asked again
    assert not run(server, tmp_path / "run.jsonl").failed


def test_files_and_logs_contain_no_key(server: ChatServer, tmp_path: Path) -> None:
    def leak(request: Mapping[str, Any]) -> Reply | str:
        if query_id_of(request) == "q03":
            return Reply("bad key sk-canary", status=401)
        return echo(request)

    server.answer = leak
    out = tmp_path / "run.jsonl"
    openai_generator = generator(server, api_key="sk-canary")
    responses = openai_generator.run(QUERIES, out=out, progress=False)
    assert "[secret]" in (responses["q03"].error or "")
    for text in (repr(openai_generator), repr(responses), out.read_text()):
        assert "canary" not in text


def test_a_spent_budget_keeps_the_answers_so_far(server: ChatServer, tmp_path: Path) -> None:
    server.answer = echo
    out = tmp_path / "run.jsonl"
    responses = run(server, out, budget=Budget(calls=5), concurrency=4)
    assert len(server.requests) == 5
    assert sum(r.text is not None for r in responses) == 5
    assert {r.error for r in responses.failed} == {
        "the call was not sent, because the budget of 5 calls is spent; increase the budget"
    }
    server.requests.clear()
    assert not run(server, out).failed
    assert sorted(map(query_id_of, server.requests)) == sorted(r.query_id for r in responses.failed)


# Files --------------------------------------------------------------------------------------------


def test_the_file_equals_the_run(server: ChatServer, tmp_path: Path) -> None:
    server.answer = lambda request: (
        Reply(status=400) if query_id_of(request) == "q04" else Reply(echo(request), delay=0.001)
    )
    out = tmp_path / "runs" / "m.jsonl"
    responses = run(server, out)
    assert Run.load(out, language="sw") == responses
    assert [r.query_id for r in Run.load(out, language="sw")] == list(QUERIES.query_ids)


def test_answered_queries_are_not_asked_again_failed_ones_are(
    server: ChatServer, tmp_path: Path
) -> None:
    server.answer = lambda request: (
        Reply(status=400) if query_id_of(request) < "q04" else echo(request)
    )
    out = tmp_path / "run.jsonl"
    before = run(server, out)
    assert len(before.failed) == 3
    server.requests.clear()
    server.answer = lambda request: Reply(status=400) if query_id_of(request) == "q02" else "sasa"
    after = run(server, out)
    assert sorted(map(query_id_of, server.requests)) == ["q01", "q02", "q03"]
    assert [r.text for r in after][:4] == ["sasa", None, "sasa", before["q04"].text]
    assert Run.load(out, language="sw", model="m") == after
    server.requests.clear()
    server.answer = echo
    whole = run(server, out)
    assert list(map(query_id_of, server.requests)) == ["q02"]
    server.requests.clear()
    assert run(server, out) == whole  # nothing is left to ask, not even a key is needed
    without_key = OpenAIGenerator("m", base_url=server.url)
    assert without_key.run(QUERIES, out=out, progress=False) == whole
    assert server.requests == []


def test_a_file_with_an_unknown_query_is_an_error_and_stays(
    server: ChatServer, tmp_path: Path
) -> None:
    out = tmp_path / "run.jsonl"
    lines = '{"query_id":"q01","text":null,"error":"x"}\n{"query_id":"q99","text":"a"}\n'
    out.write_text(lines)
    with pytest.raises(UnknownNameError, match=r"query 'q99' in maswali, answered in .*run\.jsonl"):
        run(server, out)
    assert out.read_text() == lines
    assert server.requests == []


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from test_chat_generator import LLM, QUERIES, OpenAIGenerator
llm = LLM("m", base_url=sys.argv[2], cache=False, concurrency=2)
OpenAIGenerator(llm).run(QUERIES, out=sys.argv[3], progress=False)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_a_killed_run_resumes(server: ChatServer, tmp_path: Path) -> None:
    number = itertools.count()
    server.answer = lambda request: Reply(echo(request), delay=0 if next(number) < 5 else 60)
    out = tmp_path / "run.jsonl"
    here = Path(__file__).parent
    command = [sys.executable, "-c", SCRIPT, str(here), server.url, str(out)]
    paths = os.pathsep.join([str(here.parent), str(here.parents[1])])
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths})
    while not out.exists() or out.read_bytes().count(b"\n") < 5:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    answered_ids = {r.query_id for r in Run.load(out, language="sw")}
    assert len(answered_ids) == 5
    server.answer, earlier = echo, len(server.requests)
    llm = LLM("m", base_url=server.url, cache=False)
    resumed = OpenAIGenerator(llm).run(QUERIES, out=out, progress=False)
    again = [query_id_of(request) for request in server.requests[earlier:]]
    assert sorted(again) == sorted(set(QUERIES.query_ids) - answered_ids)
    assert not resumed.failed
    assert Run.load(out, language="sw", model="m") == resumed
    assert [r.query_id for r in resumed] == list(QUERIES.query_ids)
