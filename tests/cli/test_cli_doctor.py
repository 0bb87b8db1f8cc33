"""doctor."""

from __future__ import annotations

import json
import os
import socket
from importlib import metadata

import pytest
from command_line import mirage, refusal
from llm_server import ChatServer, Reply

from mirage.errors import install_command

KEY = "sk-of-a-test-1234567890"


def test_it_says_what_is_installed_and_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    version = metadata.version

    def lacking(name: str) -> str:
        if name in ("pyarrow", "datasets"):
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", lacking)
    done = mirage("doctor", "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["packages"]["numpy"] == version("numpy")
    assert found["extras"]["retrieval"]["install"] == install_command("retrieval")
    assert not {"test", "dev"} & set(found["extras"])
    assert found["data"]["bundled_corpora"] == found["data"]["bundled_surrogates"] == 36
    assert f"install: {install_command('hub')}" in mirage("doctor").stdout


def test_a_package_that_is_always_needed_and_missing_falls_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    version = metadata.version

    def lacking(name: str) -> str:
        if name == "sentencex":
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", lacking)
    done = mirage("doctor")
    assert done.exit_code == 1
    assert "the package sentencex is missing" in done.stderr


def test_a_surrogate_that_was_changed_falls_short(monkeypatch: pytest.MonkeyPatch) -> None:
    from mirage.surrogate import artifacts

    faults = {"sw": "its SHA-256 is another", "en": ""}
    monkeypatch.setattr(artifacts, "verify", lambda _: faults)
    done = mirage("doctor")
    assert done.exit_code == 1
    assert "fell short: sw: its SHA-256 is another" in done.stderr
    assert "en:" not in done.stderr


def test_endpoints_that_answer(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    server.answer = lambda _: Reply(body=json.dumps({"data": [{"id": "m"}]}).encode())
    done = mirage("doctor")
    assert done.exit_code == 0
    assert f"{server.url}: answers, with 1 models" in done.stdout
    assert "OPENAI_API_KEY: set" in done.stdout
    assert KEY not in done.stdout
    assert "authorization" not in server.headers[0]
    server.answer = lambda _: Reply("no", status=401)
    wants = json.loads(mirage("doctor", "--json").stdout)["endpoints"][server.url]
    assert wants["ok"]
    assert "requires a key" in wants["reason"]


def test_endpoints_that_do_not(server: ChatServer) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        done = mirage("doctor", "--endpoint", url)
    assert done.exit_code == 1
    assert f"fell short: {url}: no answer" in done.stderr
    for status, code in ((503, 1), (500, 1), (499, 0)):
        server.answer = lambda _, status=status: Reply("down", status=status)
        assert mirage("doctor", "--endpoint", server.url).exit_code == code
    server.answer = lambda _: Reply(body=b"<html>")
    shown = mirage("doctor", "--endpoint", server.url)
    assert "does not list its models" in shown.stdout


def test_nobody_is_asked_who_was_not_named(server: ChatServer) -> None:
    mirage("doctor")
    assert server.requests == []


def test_an_address_with_a_password_is_refused() -> None:
    message = refusal("doctor", "--endpoint", "http://me:secret-word@localhost/v1")
    assert "secret-word" not in message


def test_it_says_where_the_cache_is(server: ChatServer) -> None:
    assert "(empty)" in mirage("doctor").stdout
    mirage("generate", "--language", "sw", "--model", "m", "--base-url", server.url)
    found = json.loads(mirage("doctor", "--json").stdout)["data"]
    assert found["cache"] == os.environ["MIRAGE_CACHE"]
    assert found["llm_cache_bytes"] > 0
