"""Generators of every kind in a grid: their processes, and the columns about their work."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import tiny_llm
from grid_files import grid_file
from llm_server import ChatServer, Reply

from mirage import MirageDataset
from mirage.errors import DatasetError
from mirage.grids import Grid
from mirage.grids._entries import HTTPEntry, OpenAIEntry, TransformersEntry

STUBS = Path(__file__).parents[1] / "stub_packages"

FILE = """\
name: kinds
datasets: {{sw: {{form: bundled, language: sw}}}}
corpora: {{sw: {{dataset: sw, language: sw}}}}
retrievers:
  bm25: {{kind: bm25}}
  flat: {{kind: bm25, b: 0.1, k1: 1.5}}
generators:
  first: {{kind: vllm, model: first, quantization: awq, batch_size: 2, max_new_tokens: 8}}
  second: {{kind: vllm, model: second, max_model_len: 2048, batch_size: 4}}
  local: {{kind: transformers, model: tiny, device: cpu, max_new_tokens: 4}}
  chat: {{kind: openai, model: chat, base_url: "{url}", price: [1, 2], cache: false}}
  service: {{kind: http, url: "{root}/answer"}}
  gold: {{kind: oracle-answer}}
  stored: {{kind: replay, path: stored.jsonl}}
  mine: {{kind: own, version: 1}}
prompts:
  short: {{kind: short-answer, passage_tokens: 20, context_tokens: 600}}
  plain: {{kind: template, user: "{{passages}} {{question}}"}}
grid:
  dataset: [sw]
  corpus: [sw]
  retriever: [{retrievers}]
  generator: [{generators}]
  prompt: [{prompts}]
  show_k: [3]
metrics: [qa_match, seconds, tokens, cost, truncated]
"""

Log = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    path = tmp_path / "engines.jsonl"
    monkeypatch.setenv("STUB_VLLM", str(path))
    monkeypatch.syspath_prepend(STUBS)

    def read() -> list[dict[str, Any]]:
        return [json.loads(line) for line in path.read_text().splitlines()]

    return read


def grid(
    folder: Path, server: ChatServer, generators: str, *, retrievers: str = "bm25", prompts: str
) -> Grid:
    text = FILE.format(
        url=server.url,
        root=server.root,
        generators=generators,
        retrievers=retrievers,
        prompts=prompts,
    )
    (folder / "grid.yaml").write_text(text)
    return Grid.read(folder / "grid.yaml", parts={"mine": lambda _: "Naam"})


def test_each_model_of_vllm_starts_once_and_ends_with_the_grid(
    server: ChatServer, tmp_path: Path, log: Log
) -> None:
    names = {"retrievers": "bm25, flat", "prompts": "short, plain"}
    kinds = grid(tmp_path, server, "first, chat, second", **names)
    table = kinds.run(limit=3, progress=False)
    assert [cell.settings["generator"] for cell in table.cells[:6:2]] == ["first", "chat", "second"]
    assert not any(cell.failure for cell in table.cells)
    engines = [entry for entry in log() if "model" in entry]
    assert [(engine["model"], engine["settings"]) for engine in engines] == [
        ("first", {"quantization": "awq"}),
        ("second", {"max_model_len": 2048}),
    ]
    batches = [entry["batch"] for entry in log() if "batch" in entry]
    assert batches == [2, 1] * 4 + [3] * 4
    for engine in engines:
        with pytest.raises(ProcessLookupError):
            os.kill(engine["pid"], 0)
    again = grid(tmp_path, server, "first, chat, second", **names).run(limit=3, progress=False)
    assert again.to_json() == table.to_json()
    assert len([entry for entry in log() if "model" in entry]) == 2


def test_every_generator_has_the_columns_that_its_kind_can_have(
    server: ChatServer,
    tmp_path: Path,
    log: Log,  # noqa: ARG001
) -> None:
    pytest.importorskip("transformers", reason="needs the extra 'neural'")
    dataset = MirageDataset.bundled("sw")
    tiny_llm.folder_of(tmp_path / "tiny", [query.text for query in dataset])
    ids = "".join(f'{{"query_id": "{id_}", "text": "Ndiyo"}}\n' for id_ in dataset.query_ids)
    (tmp_path / "stored.jsonl").write_text(ids)

    def answer(request: Mapping[str, Any]) -> Reply:
        return Reply("ok") if "messages" in request else Reply(body=b'{"answer": "ok"}')

    server.answer = answer
    columns = {
        "first": {"seconds", "tokens", "truncated"},
        "local": {"seconds", "tokens", "truncated"},
        "chat": {"seconds", "tokens", "cost", "truncated"},
        "service": {"seconds"},
        "gold": set(),
        "stored": set(),
        "mine": {"seconds"},
    }
    table = grid(tmp_path, server, ", ".join(columns), prompts="short").run(limit=3, progress=False)
    for name, expected in columns.items():
        cell = table.cell(generator=name)
        assert not cell.failure
        measured = {metric for metric in table.metrics if metric in cell.scores}
        assert measured == expected | {"qa_match"}, name
        assert "seconds" not in expected or cell.scores["seconds"].mean >= 0
        if "truncated" in expected:
            assert 0 <= cell.scores["truncated"].mean <= 1
    assert table.cell(generator="first").scores["tokens"].mean > 3
    assert table.cell(generator="local").scores["tokens"].mean > 100


def test_a_package_that_is_missing_fails_only_its_cells(server: ChatServer, tmp_path: Path) -> None:
    if importlib.util.find_spec("vllm") is not None:
        pytest.skip("vllm is installed here")
    table = grid(tmp_path, server, "first, gold", prompts="short").run(limit=2, progress=False)
    assert "needs the package vllm" in table.cell(generator="first").failure
    assert not table.cell(generator="gold").failure


def test_remote_code_and_unknown_settings_are_refused(server: ChatServer, tmp_path: Path) -> None:
    grid(tmp_path, server, "first", prompts="short")
    path = tmp_path / "grid.yaml"
    path.write_text(path.read_text().replace("batch_size: 2", "trust_remote_code: true"))
    with pytest.raises(DatasetError, match=r"line 8: .*unknown key 'trust_remote_code'"):
        Grid.read(path, parts={"mine": str})


def test_results_of_earlier_versions_keep_their_keys() -> None:
    entry = TransformersEntry(kind="transformers", model="m")
    assert "load_in" not in entry.key()
    small = TransformersEntry(kind="transformers", model="m", load_in="4bit")
    assert small.key() == entry.key() | {"load_in": "4bit"}


@pytest.mark.parametrize("kind", ["openai", "http"])
def test_a_file_sets_the_number_of_retries(tmp_path: Path, server: ChatServer, kind: str) -> None:
    server.answer = lambda _: Reply("busy", status=429, headers={"retry-after-ms": "0"})
    entry = {
        "openai": f'{{kind: openai, model: m, base_url: "{server.url}", retries: 1}}',
        "http": f'{{kind: http, url: "{server.url}", retries: 1}}',
    }[kind]
    one_cell = {"retriever": "  retriever: [none]", "show_k": "  show_k: [2]"}
    path = grid_file(tmp_path, chat=f"  chat: {entry}", **one_cell)
    table = Grid.read(path).run(limit=1, progress=False)
    assert table[0].failure.endswith("; 2 attempts")
    assert len(server.requests) == 2


def test_the_number_of_retries_does_not_change_the_key_of_results() -> None:
    chat = {"kind": "openai", "model": "m"}
    assert OpenAIEntry(**chat, retries=1).key() == OpenAIEntry(**chat).key()
    service = {"kind": "http", "url": "http://127.0.0.1:9/answer"}
    assert HTTPEntry(**service, retries=1).key() == HTTPEntry(**service).key()
