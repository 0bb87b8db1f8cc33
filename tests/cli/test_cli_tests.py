"""mirage tests, against a real server on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import json_lines, mirage, refusal
from item_llm import ItemWriter, documents_of
from llm_server import ChatServer, Reply

from mirage import MirageDataset

SWAHILI = MirageDataset.bundled("sw")


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    rows = [passage.model_dump(exclude_defaults=True) for passage in documents_of(SWAHILI)]
    return json_lines(tmp_path / "documents.jsonl", rows)


def make(server: ChatServer, documents: Path, *more: object, items: int = 4) -> Any:
    endpoint = ("--model", "m", "--base-url", server.url, "--no-cache")
    kinds = ("--kind", "single=1", "--items", items)
    return mirage("tests", "make", documents, "--language", "sw", *endpoint, *kinds, *more)


def test_an_estimate_asks_nothing(server: ChatServer, documents: Path) -> None:
    told = json.loads(make(server, documents, "--estimate", "--json", "--price", "1,2").stdout)
    assert told["calls"] == 3 * 4
    assert told["cost"] > 0
    assert server.requests == []


def test_items_go_to_a_dataset_and_what_failed_beside_it(
    server: ChatServer, documents: Path, tmp_path: Path
) -> None:
    server.answer = ItemWriter(SWAHILI)
    out = tmp_path / "tests.jsonl"
    done = make(server, documents, "--out", out, "--json")
    counts = json.loads(done.stdout)
    assert (done.exit_code, counts["items"]) == (0, 4)
    assert len(MirageDataset.from_jsonl(out)) == 4
    rejected = (tmp_path / "tests.rejected.jsonl").read_text().splitlines()
    assert len(rejected) == counts["drafts"] - 4
    assert mirage("data", "describe", out).exit_code == 0
    asked = len(server.requests)
    assert json.loads(make(server, documents, "--out", out, "--json").stdout) == counts
    assert len(server.requests) == asked


def test_too_few_items_fall_short(server: ChatServer, documents: Path, tmp_path: Path) -> None:
    server.answer = ItemWriter(SWAHILI)
    short = make(server, documents, "--out", tmp_path / "t.jsonl", items=60)
    assert short.exit_code == 1
    assert "of 60 items passed the checks" in short.stderr
    assert "tests.rejected" not in short.stdout


def test_a_budget_stops_and_the_same_command_goes_on(
    server: ChatServer, documents: Path, tmp_path: Path
) -> None:
    server.answer = ItemWriter(SWAHILI)
    out = tmp_path / "tests.jsonl"
    stopped = make(server, documents, "--out", out, "--budget", "calls=9")
    assert stopped.exit_code == 1
    assert "budget of 9 calls" in stopped.stderr
    assert len(server.requests) == 9
    assert make(server, documents, "--out", out).exit_code == 0
    prompts = [json.dumps(request) for request in server.requests]
    assert len(set(prompts)) == len(prompts)


def test_what_make_needs(server: ChatServer, documents: Path, tmp_path: Path) -> None:
    server.answer = lambda _: Reply("no", status=400)
    assert "no such file" in refusal(
        *("tests", "make", tmp_path / "none", "--language", "sw", "--model", "m")
    )
    assert "kind of item" in refusal(
        *("tests", "make", documents, "--language", "sw", "--model", "m", "--kind", "odd=1")
    )
