"""The columns about time, tokens and cost of a grid: measured for each answer, and kept with it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from grid_files import grid_file
from llm_server import ChatServer, Reply

from mirage import MirageDataset, Response, Run
from mirage._base.stores import write_manifest
from mirage.grids import Grid, ResultTable
from mirage.grids.store import KIND
from mirage.llm.cache import Cache, default_cache_path

METRICS = "metrics: [seconds, tokens, cost]"
ONE_CELL = {"retriever": "  retriever: [bm25]", "show_k": "  show_k: [2]", "metrics": METRICS}


def entry(server: ChatServer, settings: str = "price: [1, 10]", name: str = "chat") -> str:
    return f'  {name}: {{kind: openai, model: {name}, base_url: "{server.url}", {settings}}}'


def run(folder: Path, server: ChatServer, limit: int = 6, **changes: str) -> ResultTable:
    """Run a grid with one cell on the first queries; ``changes`` replace lines of its file."""
    changes = {"chat": entry(server)} | ONE_CELL | changes
    folder.mkdir(exist_ok=True)
    return Grid.read(grid_file(folder, server.url, **changes)).run(limit=limit, progress=False)


def test_failed_requests_do_not_make_a_query_cheaper(server: ChatServer, tmp_path: Path) -> None:
    numbers = count()

    def flaky(request: Mapping[str, Any]) -> Reply:
        if request["model"] == "flaky" and next(numbers) % 2 == 0:
            return Reply("busy", status=500, headers={"retry-after-ms": "0"})
        return Reply("one two three")

    server.answer = flaky
    both = f"{entry(server)}\n{entry(server, name='flaky')}"
    table = run(tmp_path, server, chat=both, generator="  generator: [chat, flaky]")
    assert len(server.requests) > 12
    steady, unsteady = (table.cell(generator=name).scores for name in ("chat", "flaky"))
    assert unsteady["tokens"] == steady["tokens"]
    assert unsteady["cost"] == steady["cost"]
    assert steady["tokens"].counts == "6"
    assert unsteady["seconds"].n == 6


def test_tokens_that_the_server_does_not_count_are_not_shown(
    server: ChatServer, tmp_path: Path
) -> None:
    numbers = count()
    server.answer = lambda _: Reply("one two", usage=False)
    table = run(tmp_path / "none", server)
    assert {"seconds"} == table[0].scores.keys()
    note = "no tokens, cost for all 6 answers of chat: its server does not report token counts"
    assert note in table.notes
    assert note in " ".join(str(table).split())
    cached = run(tmp_path / "cached", server)
    assert len(server.requests) == 6
    assert {"seconds"} == cached[0].scores.keys()
    server.answer = lambda _: Reply("one two", usage=next(numbers) % 3 > 0)
    some = run(tmp_path / "some", server, chat=entry(server, "cache: false"))
    assert some[0].scores["tokens"].counts == "4 (2 unmeasured)"
    assert any(note.startswith("no tokens for 2 of 6 answers of chat: its") for note in some.notes)
    assert "no cost for all 6 answers of chat: set 'price' in its entry" in some.notes


@pytest.mark.parametrize("retrievers", ["[bm25, flat]", "[flat, bm25]"])
def test_the_time_of_an_answer_does_not_depend_on_the_order_of_cells(
    server: ChatServer, tmp_path: Path, retrievers: str
) -> None:
    server.answer = lambda _: Reply("ok", delay=0.2)
    table = run(tmp_path, server, limit=12, retriever=f"  retriever: {retrievers}")
    assert len(server.requests) < 24  # the cells have prompts in common
    for cell in table:
        assert cell.scores["seconds"].counts == "12"
        assert 0.2 <= cell.scores["seconds"].mean < 2
    first, second = (cell.scores["tokens"] for cell in table)
    assert first.n == second.n == 12


def test_answers_from_the_cache_keep_their_time_and_tokens(
    server: ChatServer, tmp_path: Path
) -> None:
    first = run(tmp_path / "first", server)
    second = run(tmp_path / "second", server)
    assert len(server.requests) == 6
    assert second[0].scores == first[0].scores
    assert second[0].scores["seconds"].n == 6


def test_answers_that_an_earlier_version_cached_have_no_time(
    server: ChatServer, tmp_path: Path
) -> None:
    first = run(tmp_path / "first", server)
    cache = Cache(default_cache_path())
    rows = cache._open().execute("SELECT key, model, answer FROM answers").fetchall()
    cache.forget(key for key, _, _ in rows)
    for key, model, text in rows:
        answer = json.loads(text)
        del answer["seconds"], answer["counted"]
        cache.put(key, model, answer)
    second = run(tmp_path / "second", server)
    assert len(server.requests) == 6
    assert second[0].scores["tokens"] == first[0].scores["tokens"]
    assert second[0].scores["cost"] == first[0].scores["cost"]
    assert "seconds" not in second[0].scores
    reason = "an earlier version did not record times"
    assert f"no seconds for all 6 answers of chat: {reason}" in second.notes


def test_cost_follows_the_price_in_the_file(server: ChatServer, tmp_path: Path) -> None:
    free = run(tmp_path, server, chat=entry(server, "timeout: 60"))
    assert "cost" not in free[0].scores
    assert "no cost for all 6 answers of chat: set 'price' in its entry" in free.notes
    costs = [
        run(tmp_path, server, chat=entry(server, f"price: {price}"))[0].scores["cost"].mean
        for price in ("[1, 10]", "[10, 100]", "[0, 0]")
    ]
    assert costs[1] == pytest.approx(10 * costs[0])
    assert costs[2] == 0
    tokens = free[0].scores["tokens"].mean
    assert costs[0] == pytest.approx((tokens - 1 + 10) / 1e6)  # the answer has one token
    assert len(server.requests) == 6


def test_failed_queries_are_counted_and_measured_later(server: ChatServer, tmp_path: Path) -> None:
    numbers = count()
    server.answer = lambda _: Reply("no", status=400 if next(numbers) in (1, 3) else 200)
    first = run(tmp_path, server)
    assert first[0].scores["tokens"].counts == "4 (2 failed)"
    server.answer = lambda _: "ok"
    second = run(tmp_path, server)
    assert second[0].scores["tokens"].counts == "6"
    assert len(server.requests) == 8
    third = run(tmp_path, server, limit=9)
    assert third[0].scores["seconds"].counts == "9"
    assert run(tmp_path, server, limit=3)[0].scores["seconds"].counts == "3"


def test_services_and_functions_are_timed_by_call(server: ChatServer, tmp_path: Path) -> None:
    server.answer = lambda _: Reply(body=b'{"answer": "ok"}', delay=0.1)

    async def wait(_: object) -> str:
        await asyncio.sleep(0.1)
        return "ok"

    def sleep(_: object) -> str:
        threading.Event().wait(0.05)
        return "ok"

    class Whole:
        name = "whole"

        def run(self, dataset: MirageDataset, *, out: Path, progress: bool = True) -> Run:  # noqa: ARG002
            responses = tuple(Response(query_id=query.id, text="ok") for query in dataset)
            run = Run(model="whole", language=dataset.language, responses=responses)
            run.save(out)
            return run

    kinds = f'  chat: {{kind: http, url: "{server.root}/answer"}}\n' + "".join(
        f"  {name}: {{kind: own, version: 1}}\n" for name in ("wait", "sleep", "whole")
    )
    changes = ONE_CELL | {"chat": kinds, "generator": "  generator: [chat, wait, sleep, whole]"}
    changes |= {"prompt": "  prompt: [none]"}
    path = grid_file(tmp_path, server.url, **changes)
    parts = {"wait": wait, "sleep": sleep, "whole": Whole()}
    table = Grid.read(path, parts=parts).run(limit=8, progress=False)
    assert [cell.failure for cell in table] == [""] * 4
    for name, least in (("chat", 0.1), ("wait", 0.1), ("sleep", 0.05)):
        scores = table.cell(generator=name).scores
        assert scores.keys() == {"seconds"}
        assert least <= scores["seconds"].mean < 1
        assert scores["seconds"].counts == "8"
    assert not table.cell(generator="whole").scores
    reason = "a generator with its own method 'run' is not measured"
    assert f"no seconds for all 8 answers of whole: {reason}" in table.notes


def make_old(folder: Path) -> None:
    """Rewrite the generation step as an earlier version wrote it, with totals over calls."""
    (step,) = (folder / "small.store" / "generate").glob("[!.]*")
    (step / "calls.jsonl").unlink()
    manifest = json.loads((step / "manifest.json").read_text())
    fields = {name: x for name, x in manifest.items() if name not in ("kind", "files", "digest")}
    fields["work"] |= {"queries": 6, "calls": 9, "seconds": 0.1, "tokens": 900, "cost": 0.5}
    write_manifest(step, KIND, fields)


def test_calls_of_earlier_versions_are_read_from_the_cache(
    server: ChatServer, tmp_path: Path
) -> None:
    new = run(tmp_path, server)
    make_old(tmp_path)
    old = run(tmp_path, server)
    assert old[0].scores == new[0].scores
    assert len(server.requests) == 6
    # New answers are recorded, and the old responses are kept.
    more = run(tmp_path, server, limit=8)
    assert more[0].scores["tokens"].counts == "8"
    assert len(server.requests) == 8


def test_results_of_earlier_versions_load_without_a_cache(
    server: ChatServer, tmp_path: Path
) -> None:
    run(tmp_path, server, chat=entry(server, "cache: false"))
    make_old(tmp_path)
    old = run(tmp_path, server, chat=entry(server, "cache: false"))
    assert not old[0].scores
    assert not old[0].failure
    reason = "an earlier version did not record single answers"
    assert f"no seconds, tokens for all 6 answers of chat: {reason}" in old.notes
    assert len(server.requests) == 6


def test_a_server_that_fails_is_reported_without_other_metrics(
    server: ChatServer, tmp_path: Path
) -> None:
    server.answer = lambda _: Reply("no", status=400)
    table = run(tmp_path, server)
    assert "HTTP 400" in table[0].failure
    assert "HTTP 400" in " ".join(str(table).split())
