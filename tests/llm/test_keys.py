"""Keys are only sent to the addresses that they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cases import each_case
from llm_server import ChatServer, Reply

from mirage._base.concurrency import run_sync
from mirage.cli._llms import ask_for_models
from mirage.dataset import MirageDataset
from mirage.errors import GenerationError, LLMError, SettingError
from mirage.generation import HTTPGenerator
from mirage.llm import LLM
from mirage.llm.keys import check_key, key_uses, origin_of

OPENAI = "https://api.openai.com/v1"


@each_case(
    ("url", "origin"),
    [
        (OPENAI, "https://api.openai.com"),
        ("https://API.OpenAI.com:443/v1", "https://api.openai.com"),
        ("https://api.openai.com./v1", "https://api.openai.com"),
        ("http://localhost:8000/v1", "http://localhost:8000"),
        ("http://[::1]:80/", "http://[::1]"),
        ("https://bücher.example/v1", "https://bücher.example"),
    ],
)
def test_the_origin_of_an_address(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@each_case(
    "url",
    [
        "https://api.openai.com@evil.example/v1",
        "https://api.openai.com:x@evil.example/v1",
        "https://evil.example\\.api.openai.com/v1",
        "https://api.openai.com\\@evil.example/v1",
        "https://evil.example%2f.api.openai.com/v1",
        "https://evil.example／.api.openai.com/v1",
        "https://evil.example .api.openai.com/v1",
        "ftp://api.openai.com/v1",
        "https:///v1",
        "https://",
    ],
)
def test_an_address_that_two_parsers_could_read_differently_is_refused(url: str) -> None:
    with pytest.raises(SettingError):
        origin_of(url)


@pytest.mark.parametrize(
    ("url", "belongs"),
    [
        (OPENAI, True),
        ("https://eu.api.openai.com/v1", True),
        (None, True),
        ("https://gateway.example:8443/other", True),  # OPENAI_BASE_URL's host
        ("http://api.openai.com/v1", False),
        ("https://api.openai.com:8443/v1", False),
        ("https://openai.com/v1", False),
        ("https://api.openai.com.evil.example/v1", False),
        ("https://evilapi.openai.com/v1", False),
        ("http://gateway.example:8443/v1", False),
        ("https://gateway.example/v1", False),
        ("https://sub.gateway.example:8443/v1", False),
        ([OPENAI, "https://evil.example/v1"], False),
    ],
)
def test_openais_key_belongs_to_openai_and_to_the_environments_address(
    url: str | list[str] | None, belongs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://gateway.example:8443/v1")
    for typed in (False, True):
        uses = key_uses("OPENAI_API_KEY", url, typed=typed)
        assert all(use.trusted for use in uses) == belongs


def test_another_variable_belongs_to_the_default_address_only_if_the_user_typed_it() -> None:
    check_key("MY_KEY", OPENAI, Path("dense.json"), typed=True)
    with pytest.raises(SettingError, match=r"AWS_SECRET.*https://api\.openai\.com"):
        check_key("AWS_SECRET", None, Path("grid.yaml"))


def test_the_refusal_names_file_host_variable_and_option() -> None:
    with pytest.raises(SettingError) as caught:
        check_key("MY_KEY", "https://evil.example:8443/v1", Path("an.index/dense.json"), typed=True)
    for part in ("an.index/dense.json", "https://evil.example:8443", "MY_KEY", "--trust"):
        assert part in str(caught.value)


def test_without_a_variable_no_key_goes_to_an_address_in_a_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    assert key_uses(None, "https://evil.example/v1") == ()
    (use,) = key_uses(None, None)
    assert use == ("OPENAI_API_KEY", "https://api.openai.com", True)


# Redirects ----------------------------------------------------------------------------------------


@pytest.fixture
def target() -> Iterator[ChatServer]:
    """Run the server that a redirect leads to."""
    with ChatServer() as server:
        yield server


@pytest.fixture(params=[301, 302, 307, 308])
def redirecting(
    server: ChatServer, target: ChatServer, request: pytest.FixtureRequest
) -> ChatServer:
    """Run a server that redirects every request to another port."""
    location = {"location": f"{target.url}/chat/completions"}
    server.answer = lambda _: Reply(status=request.param, headers=location, body=b"{}")
    return server


def test_a_redirect_carries_no_key_to_another_address(
    redirecting: ChatServer, target: ChatServer
) -> None:
    llm = LLM("m", base_url=redirecting.url, api_key="sk-canary", cache=False, retries=0)

    async def ask() -> None:
        async with llm.connect() as connection:
            await connection.ask([{"role": "user", "content": "?"}])

    with pytest.raises(LLMError, match="moved to"):
        run_sync(ask())
    headers = {"Authorization": "Bearer sk-canary", "x-api-key": "sk-canary"}
    service = HTTPGenerator(f"{redirecting.root}/ask", headers=headers, retries=0)
    with pytest.raises(GenerationError, match="moved to"):
        service.run(MirageDataset.bundled("sw")[:1], progress=False)
    ask_for_models(redirecting.url, "sk-canary")
    assert len(redirecting.requests) == 3
    assert all(each["authorization"] == "Bearer sk-canary" for each in redirecting.headers)
    assert not target.requests
