"""Requests of the client: their content, concurrency, and use in different programs."""

from __future__ import annotations

import asyncio
import copy
import inspect
import os
import pickle
import signal
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from cases import each_case
from llm_server import ChatServer, Reply, last_user_text

from mirage._base.concurrency import for_each, run_sync
from mirage.errors import LLMError, SettingError
from mirage.llm import LLM
from mirage.llm.answers import Completion
from mirage.llm.cache import Cache
from mirage.llm.client import Message, estimate_tokens
from mirage.llm.endpoints import tls

HABARI: list[Message] = [
    {"role": "system", "content": "Jibu kwa Kiswahili. 你好 😀"},
    {"role": "user", "content": "Habari?"},
]


def ask(llm: LLM, messages: list[Message] = HABARI, **chosen: Any) -> Completion:
    async def ask_once() -> Completion:
        async with llm.connect() as connection:
            return await connection.ask(messages, **chosen)

    return run_sync(ask_once())


def model(server: ChatServer, **chosen: Any) -> LLM:
    return LLM("m", **{"base_url": server.url, "cache": False, "backoff": 0.01} | chosen)


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_certificates_are_checked_and_read_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, library: str
) -> None:
    client = pytest.importorskip(library).AsyncClient
    trusted = tls(client)
    assert (trusted.verify_mode, trusted.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert tls(client) is trusted
    certificate = tls(httpx.AsyncClient).get_ca_certs(binary_form=True)[0]
    (tmp_path / "one.pem").write_text(ssl.DER_cert_to_PEM_cert(certificate))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "one.pem"))
    assert tls(client).get_ca_certs(binary_form=True) == [certificate]


# One call -----------------------------------------------------------------------------------------


def test_a_call(server: ChatServer) -> None:
    server.answer = lambda _: Reply("Nzuri sana 🙂", finish_reason="stop")
    llm = model(server, max_tokens=99, parameters={"seed": 1, "top_p": 0.9})
    completion = ask(llm)
    assert completion == Completion("Nzuri sana 🙂", "stop", 6, 3)
    (request,) = server.requests
    assert request == {
        "model": "m",
        "messages": HABARI,
        "temperature": 0.0,
        "max_tokens": 99,
        "seed": 1,
        "top_p": 0.9,
    }
    assert server.paths == ["/v1/chat/completions"]
    assert server.queries == [""]
    assert server.headers[0]["content-type"] == "application/json"
    assert (llm.usage.calls, llm.usage.prompt_tokens, llm.usage.completion_tokens) == (1, 6, 3)


def test_without_usage_tokens_are_estimated(server: ChatServer) -> None:
    server.answer = lambda _: Reply("Nzuri sana", usage=False)
    completion = ask(model(server), [{"role": "user", "content": "Habari?"}])
    assert (completion.prompt_tokens, completion.completion_tokens) == (2, 3)
    assert [estimate_tokens(text) for text in ("", "abc", "abcd", "abcde", "你好")] == [
        0,
        1,
        1,
        2,
        2,
    ]


def test_settings_that_are_not_sent(server: ChatServer) -> None:
    ask(model(server, temperature=None, max_tokens=None))
    assert set(server.requests[0]) == {"model", "messages"}


def test_a_limit_in_parameters_replaces_max_tokens(server: ChatServer) -> None:
    ask(model(server, parameters={"max_completion_tokens": 5}))
    assert server.requests[0].keys() & {"max_tokens", "max_completion_tokens"} == {
        "max_completion_tokens"
    }


@pytest.mark.parametrize(
    ("url", "limit"),
    [
        (None, "max_completion_tokens"),
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://api.openai.com/v1/", "max_completion_tokens"),
        ("https://API.OpenAI.com/v1", "max_completion_tokens"),
        ("https://eu.api.openai.com/v1", "max_completion_tokens"),
        ("https://api.openai.com.example.org/v1", "max_tokens"),
        ("https://example.org/api.openai.com", "max_tokens"),
        ("http://localhost:8000/v1", "max_tokens"),
    ],
)
def test_openai_has_another_name_for_the_limit(
    url: str | None, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert limit in LLM("m", base_url=url, api_key="k").parameters
    if url is not None:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        assert limit in LLM("m", api_key="k").parameters


def test_azure(server: ChatServer) -> None:
    url = f"{server.root}/"
    llm = model(server, base_url=url, api_key="sk-canary", azure_api_version="2024-10-21")
    assert ask(llm).text == "ok"
    assert server.paths == ["/openai/deployments/m/chat/completions"]
    assert server.queries == ["api-version=2024-10-21"]
    assert server.headers[0]["api-key"] == "sk-canary"
    assert "authorization" not in server.headers[0]
    assert server.requests[0]["messages"] == HABARI


def test_azure_with_a_deployment_of_a_strange_name(server: ChatServer) -> None:
    llm = LLM("a/b c", base_url=server.root, cache=False, azure_api_version="1")
    assert ask(llm).text == "ok"
    assert server.paths == ["/openai/deployments/a/b c/chat/completions"]  # unquoted by the server


def test_another_path_and_trailing_slashes(server: ChatServer) -> None:
    llm = model(server, base_url=f"{server.root}/api/v2//")
    assert llm.endpoint == f"{server.root}/api/v2"
    ask(llm)
    assert server.paths == ["/api/v2/chat/completions"]


def test_a_redirect_is_not_followed(server: ChatServer) -> None:
    with ChatServer() as other:
        target = f"{other.url}/chat/completions"
        server.answer = lambda _: Reply(status=308, headers={"location": target}, body=b"")
        with pytest.raises(
            LLMError,
            match=f"HTTP 308: the endpoint has moved to {target}; pass this address as base_url",
        ):
            ask(model(server, api_key="sk-canary"))
        assert other.requests == []


# Settings -----------------------------------------------------------------------------------------


@each_case(
    ("chosen", "says"),
    [
        ({"model": ""}, "must be the name of a model"),
        ({"model": 3}, "must be the name of a model"),
        ({"concurrency": 0}, "concurrency must be a whole number of at least 1, got 0"),
        ({"concurrency": 2.5}, "concurrency must be a whole number of at least 1, got 2.5"),
        ({"retries": -1}, "retries must be a whole number of at least 0, got -1"),
        ({"retries": None}, "retries must be a whole number of at least 0, got None"),
        ({"timeout": 0}, "timeout must be a number above 0, got 0"),
        ({"timeout": None}, "timeout must be a number above 0, got None"),
        ({"timeout": float("nan")}, "timeout must be a number above 0, got nan"),
        ({"total_timeout": 0}, "total_timeout must be a number above 0, got 0"),
        ({"backoff": -1.0}, "backoff must be a number of at least 0, got -1.0"),
        ({"max_tokens": 0}, "max_tokens must be a whole number of at least 1 or None, got 0"),
        ({"max_tokens": "100"}, "max_tokens must be a whole number of at least 1 or None, got '1"),
        ({"parameters": {"max_tokens": "9"}}, "max_tokens must be a whole number .* got '9'"),
        ({"temperature": "hot"}, "temperature must be a number of at least 0 or None, got 'hot'"),
        ({"headers": ["sk-canary"]}, "headers must be a mapping, got list"),
        ({"headers": {"x-a": None}}, "the header 'x-a' must be a text, got NoneType"),
        ({"base_url": ""}, "'' is not the address of an endpoint"),
        ({"base_url": []}, "base_url must be the address of an endpoint, or a list of addresses"),
        ({"base_url": ["http://a/v1", None]}, "base_url must be the address of an endpoint, or a"),
        ({"cache": None}, "the path of a file, got None; to cache no answers, pass cache=False"),
        ({"base_url": "localhost:8000"}, "'localhost:8000' is not the address of an endpoint"),
        ({"base_url": "ftp://localhost"}, "is not the address of an endpoint"),
        ({"base_url": "http://localhost:123456/v1"}, "is not the address of an endpoint"),
        ({"base_url": "http://[::1/v1"}, "is not the address of an endpoint"),
        ({"base_url": "https://u:sk-canary@localhost/v1"}, "must not contain a password"),
        (
            {"base_url": "https://localhost/v1?key=sk-canary"},
            "must not contain a password or a query",
        ),
        ({"base_url": None, "azure_api_version": "1"}, "Azure has no default endpoint"),
        ({"parameters": {"stream": True}}, "parameters must not contain stream"),
        ({"parameters": {"n": 3, "model": "x"}}, "parameters must not contain model, n"),
        ({"parameters": {"stop": {"a", "b"}}}, "cannot be converted to JSON"),
        ({"parameters": {"top_p": float("nan")}}, "cannot be converted to JSON"),
        ({"parameters": {"stop": "\ud800"}}, "cannot be converted to JSON"),
        ({"api_key": "sk-canary\u201d"}, "the key has characters that cannot be sent"),
        ({"api_key": "sk-canary\nx: y"}, "the key has characters that cannot be sent"),
        ({"headers": {"x-a": "sk-canary\0"}}, "the header 'x-a' has characters"),
    ],
)
def test_invalid_settings_are_refused(chosen: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError, match=says) as caught:
        LLM(**{"model": "m", "base_url": "http://localhost/v1"} | chosen)
    assert "sk-canary" not in str(caught.value)


NOT_A_SETTING: tuple[Any, ...] = (object(), b"1", [3], {3: 3}, {"a": 1}, True, -1, 1j)
VALID = {"cache": (bool,), "parameters": (dict,)}


@each_case(
    ("name", "wrong"),
    [
        (name, wrong)
        for name in inspect.signature(LLM).parameters
        for wrong in NOT_A_SETTING
        if not isinstance(wrong, VALID.get(name, ()))
    ],
)
def test_a_setting_of_a_wrong_type_is_refused(name: str, wrong: Any) -> None:
    settings = {"model": "m", "base_url": "http://localhost/v1"} | {name: wrong}
    with pytest.raises(SettingError):
        LLM(**settings)


def test_openai_without_a_key() -> None:
    with pytest.raises(LLMError, match="set OPENAI_API_KEY, or pass api_key="):
        ask(LLM("m", cache=False))
    with pytest.raises(
        LLMError, match=r"no API key for https://api\.openai\.com/v1: pass api_key="
    ):
        ask(LLM("m", cache=False, base_url="https://api.openai.com/v1"))


def test_an_llm_cannot_be_pickled() -> None:
    llm = LLM("m", base_url="http://localhost/v1", cache=False)
    assert repr(llm) == "LLM('m', endpoint='http://localhost/v1')"
    for send in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(SettingError, match="cannot be sent to another process"):
            send(llm)


@pytest.mark.parametrize("cache", [True, False])
def test_the_default_cache(server: ChatServer, cache: bool) -> None:
    llm = model(server, cache=cache)
    ask(llm)
    path = Path(os.environ["MIRAGE_CACHE"]) / "llm.sqlite"
    assert path.exists() == cache
    assert (llm.cache is not None) == llm.cached(HABARI) == cache


def test_a_cache_object_can_be_passed(server: ChatServer, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "mine.sqlite")
    ask(model(server, cache=cache))
    assert len(cache) == 1
    assert model(server, cache=str(tmp_path / "mine.sqlite")).cached(HABARI)


# Many calls ---------------------------------------------------------------------------------------


def question(i: int) -> list[Message]:
    return [{"role": "user", "content": f"swali {i}"}]


def ask_many(llm: LLM, count: int, at_once: int) -> list[str]:
    texts: dict[int, str] = {}

    async def main() -> None:
        async with llm.connect() as connection:

            async def ask_one(i: int) -> None:
                texts[i] = (await connection.ask(question(i))).text

            await for_each(range(count), ask_one, at_once)

    run_sync(main())
    return [texts[i] for i in range(count)]


@pytest.mark.parametrize("concurrency", [1, 7, 64, 200])
def test_calls_under_way_at_a_time(server: ChatServer, concurrency: int) -> None:
    """Concurrency reaches its limit but not more, and each call gets its own answer."""
    server.answer = lambda request: Reply(
        f"jibu la {last_user_text(request)}", when=lambda: server.at_once >= concurrency
    )
    texts = ask_many(model(server, concurrency=concurrency), concurrency + 10, concurrency + 10)
    assert texts == [f"jibu la swali {i}" for i in range(concurrency + 10)]
    assert server.at_once == concurrency


def test_a_call_that_waits_for_a_retry_is_under_way(server: ChatServer) -> None:
    """A server that asks for a pause gets no other calls meanwhile."""
    server.answer = lambda _: (
        Reply(status=429, headers={"retry-after": "0.3"}) if len(server.requests) == 1 else "ok"
    )
    ask_many(model(server, concurrency=1), 3, 3)
    assert server.times[1] - server.times[0] >= 0.3
    assert [last_user_text(request) for request in server.requests][:2] == ["swali 0"] * 2


def test_connections_are_used_again(server: ChatServer) -> None:
    assert ask_many(model(server, concurrency=1), 20, 1) == ["ok"] * 20
    assert len({headers.get("host") for headers in server.headers}) == 1
    assert len(server.clients) == 1


def test_inside_a_running_loop(server: ChatServer) -> None:
    """As in a notebook, a plain function is called while an event loop is running."""

    async def notebook() -> str:
        return ask(model(server)).text

    assert asyncio.run(notebook()) == "ok"


def test_one_model_in_two_loops(server: ChatServer, tmp_path: Path) -> None:
    llm = model(server, cache=tmp_path / "cache.sqlite")
    texts: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: texts.append(ask_many(llm, 40, 8))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == [["ok"] * 40] * 2
    assert llm.usage.calls + llm.usage.cached == 80
    assert llm.usage.calls == len(server.requests)


@pytest.mark.parametrize("way", ["plain", pytest.param("notebook", marks=pytest.mark.slow)])
def test_ctrl_c_ends_a_run_at_once(server: ChatServer, tmp_path: Path, way: str) -> None:
    """The answers until then are in the cache."""
    server.answer = lambda request: Reply(when=lambda: last_user_text(request) < "swali 2")
    script = """
import asyncio, sys
from mirage._base.concurrency import for_each, run_sync
from mirage.llm import LLM

llm = LLM("m", base_url=sys.argv[1], cache=sys.argv[2])

async def main():
    async with llm.connect() as connection:
        async def one(i):
            await connection.ask([{"role": "user", "content": f"swali {i}"}])
        await for_each(range(8), one, 8)

async def notebook():
    run_sync(main())

run_sync(main()) if sys.argv[3] == "plain" else asyncio.run(notebook())
"""
    path = tmp_path / f"{way}.sqlite"
    with subprocess.Popen(
        [sys.executable, "-c", script, server.url, str(path), way],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while len(server.requests) < 8 or len(Cache(path)) < 2:
            assert process.poll() is None
            time.sleep(0.02)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=30)
    assert time.monotonic() - start < 20
    assert process.returncode != 0
    assert printed.rstrip().endswith("KeyboardInterrupt")
    assert len(Cache(path)) == 2
