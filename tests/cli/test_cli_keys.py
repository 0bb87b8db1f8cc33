"""Commands send a key only to the address that it was given for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import mirage, refusal
from llm_server import ChatServer, Reply

GRID = """\
name: keyed
datasets:
  sw: {{form: bundled, language: sw}}
generators:
  chat: {{kind: openai, model: m, base_url: "{url}", api_key: "${{ENV:MY_KEY}}"}}
grid:
  dataset: [sw]
  generator: [chat]
metrics: [qa_match]
"""


def embeddings(request: Mapping[str, Any]) -> Reply:
    rows = [{"index": i, "embedding": [1.0, len(t)]} for i, t in enumerate(request["input"])]
    return Reply(body=json.dumps({"data": rows}).encode())


@pytest.fixture
def index(tmp_path: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Build an index that names the address of a server of somebody else."""
    server.answer = embeddings
    (tmp_path / "leave.md").write_text("# Leave\nThirty days of leave.")
    made = mirage("index", tmp_path / "leave.md", tmp_path / "an.index",
                  "--encoder", "e", "--base-url", server.url)  # fmt: skip
    assert made.exit_code == 0
    server.requests.clear()
    server.headers.clear()
    monkeypatch.setenv("MY_KEY", "sk-canary")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-of-openai")
    return tmp_path / "an.index"


@pytest.mark.parametrize("variable", ["MY_KEY", "OPENAI_API_KEY"])
@pytest.mark.parametrize("command", ["retrieve", "rerank"])
def test_no_key_goes_to_an_address_in_an_index(
    index: Path, server: ChatServer, tmp_path: Path, command: str, variable: str
) -> None:
    asked: tuple[object, ...] = ("retrieve", index, "en")
    if command == "rerank":
        assert mirage(*asked, "--by", "bm25", "--out", tmp_path / "run.trec").exit_code == 0
        asked = ("rerank", tmp_path / "run.trec", index, "en", "--kind", "dense")
    message = refusal(*asked, "--llm", f"key_from={variable}")
    for part in (str(index / "dense.json"), server.root, variable, "--trust"):
        assert part in message
    assert not server.requests
    assert mirage(*asked).exit_code == 0  # without a key it may be asked
    assert server.requests
    assert "canary" not in repr(server.headers)
    assert (
        mirage(*asked, "--llm", f"key_from={variable}", "--trust", "--llm", "cache=no").exit_code
        == 0
    )
    assert "Bearer sk-canary" in server.headers[-1]["authorization"]


def test_a_key_goes_to_the_address_that_is_typed_with_it(index: Path, server: ChatServer) -> None:
    made = mirage("index", index.parent / "leave.md", index.parent / "own.index", "--encoder", "e",
                  "--base-url", server.url, "--llm", "key_from=MY_KEY")  # fmt: skip
    assert made.exit_code == 0
    assert {each["authorization"] for each in server.headers} == {"Bearer sk-canary"}


def test_an_empty_address_is_not_the_default_address(
    tmp_path: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    server.answer = embeddings
    (tmp_path / "leave.md").write_text("# Leave\nThirty days of leave.")
    for asked in (
        ("index", tmp_path / "leave.md", tmp_path / "an.index", "--encoder", "e"),
        ("generate", "--language", "sw", "--model", "m"),
    ):
        message = refusal(*asked, "--base-url", "")
        assert "'' is not the address of an endpoint" in message
    assert not server.requests


def test_an_address_in_an_index_that_is_none_is_an_error(index: Path) -> None:
    (index / "dense.json").write_text(json.dumps({"model": "e", "base_url": ["x", 3]}))
    assert str(index / "dense.json") in refusal("retrieve", index, "en", "--llm", "key_from=MY_KEY")


def test_a_grid_needs_trust_to_send_its_key(
    tmp_path: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-canary")
    path = tmp_path / "grid.yaml"
    path.write_text(GRID.format(url=server.url))
    run = ("grid", "run", path, "--limit", 2)
    message = refusal(*run)
    for part in (str(path), server.root, "MY_KEY", "--trust"):
        assert part in message
    assert not server.requests
    plan = json.loads(mirage("grid", "plan", path, "--json").stdout)
    assert plan["keys"] == [{"variable": "MY_KEY", "host": server.root, "trusted": False}]
    assert "--trust" in mirage("grid", "plan", path).stdout
    assert mirage(*run, "--trust").exit_code == 0
    assert {each["authorization"] for each in server.headers} == {"Bearer sk-canary"}
