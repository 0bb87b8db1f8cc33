"""API keys in grid files are sent to foreign addresses only if the user trusts the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from grid_files import grid_file
from llm_server import ChatServer, Reply

from mirage.errors import SettingError
from mirage.grids import Grid

GENERATOR_WITH_KEY = (
    '  chat: {{kind: openai, model: chat, base_url: "{url}", api_key: "${{ENV:{variable}}}"}}'
)
ONE_CELL = {"retriever": "  retriever: [none]", "show_k": "  show_k: [2]"}


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_USER", "sk-canary")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-of-openai")


def grid_with_key(folder: Path, url: str, variable: str) -> Path:
    """Write a grid file that sends the key in a variable to an address."""
    return grid_file(folder, chat=GENERATOR_WITH_KEY.format(url=url, variable=variable), **ONE_CELL)


@pytest.mark.parametrize("variable", ["SECRET_OF_THE_USER", "OPENAI_API_KEY"])
def test_a_key_is_not_sent_to_an_address_in_a_grid(
    tmp_path: Path, server: ChatServer, variable: str
) -> None:
    path = grid_with_key(tmp_path, server.url, variable)
    with pytest.raises(SettingError) as caught:
        Grid.read(path).run(limit=1, progress=False)
    for part in (str(path), server.root, variable, "--trust"):
        assert part in str(caught.value)
    assert not server.requests
    assert not (tmp_path / "small.store").exists()


def test_a_variable_of_a_grid_is_not_sent_to_the_default_address(
    tmp_path: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    generator = '  chat: {kind: openai, model: chat, api_key: "${ENV:SECRET_OF_THE_USER}"}'
    with pytest.raises(SettingError, match="SECRET_OF_THE_USER"):
        Grid.read(grid_file(tmp_path, chat=generator, **ONE_CELL)).run(limit=1, progress=False)
    assert not server.requests


def test_the_default_key_is_not_sent_to_an_address_in_a_grid(
    tmp_path: Path, server: ChatServer
) -> None:
    Grid.read(grid_file(tmp_path, server.url, **ONE_CELL)).run(limit=1, progress=False)
    assert server.requests
    assert all("authorization" not in each for each in server.headers)
    assert "canary" not in repr(server.headers)


def test_the_openai_key_is_sent_to_the_address_in_the_environment(
    tmp_path: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    path = grid_with_key(tmp_path, server.url, "OPENAI_API_KEY")
    Grid.read(path).run(limit=1, progress=False)
    assert server.headers[0]["authorization"] == "Bearer sk-canary-of-openai"


def test_a_trusted_grid_sends_its_key(tmp_path: Path, server: ChatServer) -> None:
    path = grid_with_key(tmp_path, server.url, "SECRET_OF_THE_USER")
    Grid.read(path, trust=True).run(limit=1, progress=False)
    assert server.headers[0]["authorization"] == "Bearer sk-canary"


def test_a_key_is_not_sent_to_an_embedding_endpoint_in_a_grid(
    tmp_path: Path, server: ChatServer
) -> None:
    server.answer = lambda request: Reply(
        body=json.dumps(
            {"data": [{"index": i, "embedding": [1.0, i]} for i in range(len(request["input"]))]}
        ).encode()
    )
    key = "${ENV:SECRET_OF_THE_USER}"
    entry = f'{{kind: dense, model: e, base_url: "{server.url}", api_key: "{key}"}}'
    changes = {
        "bm25": f"  bm25: {entry}",
        "retriever": "  retriever: [bm25]",
        "generator": "  generator: [none]",
        "metrics": 'metrics: ["R@5"]',
    }
    path = grid_file(tmp_path, **changes)
    with pytest.raises(SettingError, match="SECRET_OF_THE_USER"):
        Grid.read(path).run(limit=1, progress=False)
    assert not server.requests
    table = Grid.read(path, trust=True).run(limit=1, progress=False)
    assert [cell.failure for cell in table] == [""]
    assert server.headers[0]["authorization"] == "Bearer sk-canary"


def test_a_plan_lists_the_hosts_that_would_receive_keys(tmp_path: Path, server: ChatServer) -> None:
    path = grid_with_key(tmp_path, server.url, "SECRET_OF_THE_USER")
    plan = Grid.read(path).plan()
    assert plan.keys == (("SECRET_OF_THE_USER", server.root, False),)
    line = f"the key in SECRET_OF_THE_USER goes to {server.root}, if the file is trusted (--trust)"
    assert line in " ".join(str(plan).split())
    assert Grid.read(path, trust=True).plan().keys[0].trusted
    assert not server.requests
