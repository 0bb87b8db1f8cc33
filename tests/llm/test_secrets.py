"""Keys and secret headers reach their server and appear nowhere else."""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from llm_server import ChatServer, Reply

from mirage._base.concurrency import run_sync
from mirage.errors import LLMError
from mirage.llm import LLM
from mirage.llm.answers import Completion
from mirage.llm.secrets import Secrets

KEY, HEADER, TOKEN = "sk-canary", "header-canary", "token-canary"
CANARY = "canary"
HEADERS = {"x-secret": HEADER, "x-proxy-auth": f"Bearer {TOKEN}"}


def ask(llm: LLM) -> Completion:
    async def ask_once() -> Completion:
        async with llm.connect() as connection:
            return await connection.ask([{"role": "user", "content": "Habari?"}])

    return run_sync(ask_once())


def model(server: ChatServer, path: Path, **chosen: Any) -> LLM:
    chosen = {"base_url": server.url, "retries": 1, "backoff": 0.01, "cache": path} | chosen
    return LLM("m", api_key=KEY, headers=HEADERS, **chosen)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.sqlite"


def echo(server: ChatServer) -> str:
    """Return every header of the last request, as a server in debug mode may do."""
    return " ".join(f"{name}: {value}" for name, value in server.headers[-1].items())


def echoed_header(server: ChatServer) -> dict[str, str]:
    return {"x-debug": echo(server)}


ECHOES: dict[str, Callable[[ChatServer], Reply]] = {
    "nothing": lambda _: Reply(),
    "header": lambda server: Reply(headers=echoed_header(server)),
    "401": lambda server: Reply(f"Incorrect API key: {echo(server)}", status=401),
    "401 and header": lambda server: Reply(
        f"Incorrect API key: {echo(server)}", status=401, headers=echoed_header(server)
    ),
    "400 in a list": lambda server: Reply(
        status=400, body=json.dumps({"detail": [{"input": echo(server)}]}).encode()
    ),
    "403 in HTML": lambda server: Reply(status=403, body=f"<p>{echo(server)}</p>".encode()),
    "404 as text": lambda server: Reply(
        status=404, body=json.dumps({"error": echo(server)}).encode()
    ),
    "500": lambda server: Reply(echo(server), status=500),
    "500 cut short": lambda _: Reply("x" * 290 + KEY + HEADER + TOKEN, status=500),
    "429": lambda server: Reply(echo(server), status=429, headers=echoed_header(server)),
    "307": lambda _: Reply(
        status=307, body=b"", headers={"location": f"http://127.0.0.1:9/?key={KEY}&x={HEADER}"}
    ),
    "no JSON": lambda server: Reply(body=echo(server).encode()),
    "a list": lambda server: Reply(body=json.dumps([echo(server)]).encode()),
    "no entry in 'choices' cut short": lambda _: Reply(
        body=json.dumps({"error": "x" * 280 + KEY + HEADER}).encode()
    ),
    "no entry in 'choices'": lambda server: Reply(
        body=json.dumps({"error": echo(server)}).encode()
    ),
    "no text": lambda server: Reply(None, message={"debug": echo(server)}),
    "refusal": lambda server: Reply(None, message={"refusal": echo(server)}),
    "answer": lambda _: Reply(f"Your key is {KEY}."),
    "hang": lambda _: Reply(delay=30, headers={"x-debug": KEY}),
    "cut": lambda server: Reply(echo(server), cut=True, headers=echoed_header(server)),
}


def chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("kind", ECHOES)
@pytest.mark.parametrize("azure", [None, "2024-10-21"], ids=["openai", "azure"])
def test_errors_and_logs_hide_secrets_that_a_server_repeats(
    server: ChatServer,
    path: Path,
    kind: str,
    azure: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server.answer = lambda _: ECHOES[kind](server)
    llm = model(server, path, azure_api_version=azure, timeout=0.4 if kind == "hang" else 20)
    texts: list[str] = []
    with caplog.at_level(logging.DEBUG):
        # Libraries have levels of their own, and the root's does not reach below those.
        for name in list(logging.root.manager.loggerDict):
            if name.startswith(("openai", "httpx", "httpcore", "mirage", "asyncio")):
                caplog.set_level(logging.DEBUG, logger=name)
        try:
            texts.append(repr(ask(llm)))
        except LLMError as error:
            for each in chain(error):
                texts += [str(each), repr(each), repr(vars(each)), repr(each.args)]
            trace = traceback.TracebackException.from_exception(error, capture_locals=True)
            texts += trace.format()
            texts.append(repr(pickle.loads(pickle.dumps(error)).__dict__))
    texts += [
        f"{record.getMessage()} {record.exc_text} {vars(record)}" for record in caplog.records
    ]
    texts += [repr(llm), str(llm), repr(vars(llm)), repr(llm._secrets), repr(vars(llm._secrets))]
    assert [text for text in texts if CANARY in text or KEY[:6] in text] == []
    for file in path.parent.glob("cache.sqlite*"):
        assert CANARY.encode() not in file.read_bytes()
    # They did go where they belong.
    assert server.headers[0]["x-secret"] == HEADER
    assert server.headers[0]["api-key" if azure else "authorization"].endswith(KEY)
    assert any(record.name.startswith(("openai", "httpcore")) for record in caplog.records)


def test_only_secrets_are_removed_from_an_error(server: ChatServer, path: Path) -> None:
    server.answer = lambda _: Reply(f"Incorrect API key provided: {KEY}. Find yours.", status=401)
    with pytest.raises(LLMError, match=r"HTTP 401: Incorrect API key provided: \[secret\]\. Find"):
        ask(model(server, path))


def test_an_answer_with_the_key_in_it_is_an_error(server: ChatServer, path: Path) -> None:
    server.answer = lambda _: f"The key {KEY} is not valid here."
    llm = model(server, path)
    with pytest.raises(LLMError, match="the answer contains the API key and was discarded"):
        ask(llm)
    assert len(server.requests) == 1
    assert not llm.cached([{"role": "user", "content": "Habari?"}])


def test_short_words_hide_nothing(server: ChatServer) -> None:
    """Otherwise a header such as ``x-debug: 1`` would make errors unreadable."""
    server.answer = lambda _: Reply("at most 8192 tokens, 1 image; EMPTY", status=400)
    llm = LLM("m", base_url=server.url, cache=False, api_key="EMPTY", headers={"x-debug": "1"})
    with pytest.raises(LLMError, match="HTTP 400: at most 8192 tokens, 1 image; EMPTY"):
        ask(llm)


def test_a_key_from_a_file(server: ChatServer) -> None:
    """The key ends in the newline of the file."""
    assert ask(LLM("m", base_url=server.url, api_key=f" {KEY}\n", cache=False)).text == "ok"
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


LONG_KEY = "sk-proj-A1b2C3d4E5f6G7h8"


WRITTEN = [
    *("sk-proj-A1b2", "C3d4E5f6G7h8", "sk-proj-A1b2 C3d4E5f6G7h8", "s-k-p-r-o-j-A-1-b-2-C-3"),
    *('["sk-proj-A1b2", "C3d4E5f6", "G7h8"]', "sk%2Dproj%2DA1b2C3d4E5f6G7h8", LONG_KEY.upper()),
    *(LONG_KEY[::-1], LONG_KEY.encode().hex(), "\n".join(LONG_KEY), "sk-\u200bproj-\u200bA1b2C3"),
    urlsafe_b64encode(LONG_KEY.encode()).decode(),
    *(
        b64encode(f"{before}{LONG_KEY}{after}".encode()).decode()
        for before in ("", "Bearer ", "u:")
        for after in ("", "\n", "x:")
    ),
]


@pytest.mark.parametrize("written", WRITTEN)
def test_a_key_in_parts_or_in_another_encoding_is_hidden(server: ChatServer, written: str) -> None:
    server.answer = lambda _: Reply(f"No such key: {written}! Look it up.", status=401)
    with pytest.raises(LLMError, match=r"HTTP 401: No such key: .*! Look it up\.") as caught:
        ask(LLM("m", base_url=server.url, api_key=LONG_KEY, cache=False))
    message = str(caught.value).partition("key: ")[2].replace("[secret]", "").partition("!")[0]
    # What stood before may be left, and a few letters of the key at either end.
    assert len("".join(filter(str.isalnum, message))) <= 14, message


def test_text_that_is_not_part_of_a_key_is_not_hidden() -> None:
    secrets = Secrets(LONG_KEY, {"x": "research-group-nairobi"})
    message = "The model gpt-4o-mini does not exist, or the project has no access to it."
    assert secrets.redacted(message) == message
    assert secrets.redacted(f"a {LONG_KEY[:12]} b") == "a [secret] b"
    assert secrets.redacted("research group") == "[secret]"


def test_a_secret_in_another() -> None:
    secrets = Secrets("sk-canary", {"a": "sk-canary-long", "b": "canary-l"})
    assert secrets.redacted("x sk-canary-long y sk-canary z") == "x [secret] y [secret] z"


def test_filters_of_logs_end_with_the_connection(server: ChatServer, path: Path) -> None:
    ask(model(server, path))
    for name in list(logging.root.manager.loggerDict):
        assert logging.getLogger(name).filters == [
            log_filter
            for log_filter in logging.getLogger(name).filters
            if "redact" not in repr(log_filter)
        ]


# The environment ----------------------------------------------------------------------------------

ENVIRONMENT = {
    "OPENAI_API_KEY": KEY,
    "OPENAI_ADMIN_KEY": "admin-canary",
    "OPENAI_ORG_ID": "org-canary",
    "OPENAI_PROJECT_ID": "project-canary",
    "OPENAI_CUSTOM_HEADERS": f"X-Custom: {HEADER}\nAuthorization: Bearer {TOKEN}",
    "AZURE_OPENAI_API_KEY": "azure-canary",
    "AZURE_OPENAI_AD_TOKEN": "ad-canary",
}


def set_environment(monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("azure", [None, "2024-10-21"])
@pytest.mark.parametrize("key", [None, "my-own-key"])
def test_no_setting_of_the_environment_is_sent_to_another_endpoint(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, azure: str | None, key: str | None
) -> None:
    set_environment(monkeypatch, ENVIRONMENT)
    llm = LLM("m", base_url=server.url, api_key=key, azure_api_version=azure, cache=False)
    assert ask(llm).text == "ok"
    (headers,) = server.headers
    assert CANARY not in repr(headers)
    sent = headers.get("authorization", headers.get("api-key"))
    assert (sent is None) == (key is None)
    assert key is None or key in str(sent)


def test_the_environments_key_goes_to_the_environments_endpoint(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_environment(monkeypatch, {"OPENAI_API_KEY": KEY, "OPENAI_ORG_ID": "org-canary"})
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert ask(LLM("m", cache=False)).text == "ok"
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert server.headers[0]["openai-organization"] == "org-canary"
    assert ask(LLM("m", cache=False, api_key="my-own-key")).text == "ok"
    assert server.headers[1]["authorization"] == "Bearer my-own-key"


def test_an_authorization_header_replaces_the_key(server: ChatServer) -> None:
    headers = {"authorization": "Basic dXNlcg=="}
    assert ask(LLM("m", base_url=server.url, headers=headers, cache=False)).text == "ok"
    assert (
        ask(LLM("m", base_url=server.url, api_key=KEY, headers=headers, cache=False)).text == "ok"
    )
    assert [headers["authorization"] for headers in server.headers] == ["Basic dXNlcg=="] * 2
