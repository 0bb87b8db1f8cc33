"""Certificates of endpoints, in real handshakes on loopback.

No network and no certificate authority is needed: openssl makes a certificate for the test, and
``SSL_CERT_FILE`` makes it trusted.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from llm_server import ChatServer, Reply

from mirage import LLM, HTTPGenerator, MirageDataset
from mirage._base.concurrency import run_sync
from mirage.cli._llms import ask_for_models
from mirage.errors import GenerationError, LLMError, SettingError


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that makes a file with a key and a certificate for a name."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl, which would make a certificate for the test")
    folder = tmp_path_factory.mktemp("certificates")

    def make(name: str) -> Path:
        path = folder / f"{name.replace(':', '-')}.pem"
        if not path.exists():
            subprocess.run(
                [
                    *(openssl, "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=test"),
                    *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
                    *("-addext", f"subjectAltName={name}"),
                    *("-addext", "keyUsage=critical,digitalSignature,keyCertSign"),
                    *("-keyout", str(path), "-out", str(path.with_suffix(".crt"))),
                ],
                check=True,
                capture_output=True,
            )
            with path.open("a", encoding="utf-8") as file:
                file.write(path.with_suffix(".crt").read_text(encoding="utf-8"))
        return path

    return make


@pytest.fixture
def here(certified: Callable[[str], Path]) -> Path:
    return certified("IP:127.0.0.1")


@pytest.fixture
def encrypted(here: Path) -> Iterator[ChatServer]:
    with ChatServer(answer, certificate=here) as server:
        yield server


def answer(request: Mapping[str, Any]) -> Reply | str:
    return "ok" if request else Reply(body=b'{"data": []}')  # who asks for models sends nothing


def ask_llm(server: ChatServer) -> str:
    llm = LLM("m", base_url=server.url, cache=False, retries=0)
    return run_sync(ask_once(llm))


async def ask_once(llm: LLM) -> str:
    async with llm.connect() as connection:
        return (await connection.ask([{"role": "user", "content": "Habari?"}])).text


def ask_service(server: ChatServer) -> str:
    service = HTTPGenerator(
        server.root,
        request=lambda query: {"model": "m", "messages": [{"content": query.text}]},
        response=lambda body: body["choices"][0]["message"]["content"],
        retries=0,
    )
    (response,) = service.run(MirageDataset.bundled("sw")[:1], progress=False)
    return response.text or ""


def ask_doctor(server: ChatServer) -> str:
    answer = ask_for_models(server.url)
    if not answer.ok:
        raise LLMError(answer.reason)
    return "ok"


ASK = pytest.mark.parametrize("ask", [ask_llm, ask_service, ask_doctor])


@ASK
def test_an_unknown_certificate_is_refused(
    encrypted: ChatServer, ask: Callable[[ChatServer], str]
) -> None:
    with pytest.raises((LLMError, GenerationError), match=r"(?i)certificate.verify.failed"):
        ask(encrypted)
    assert encrypted.requests == []


@ASK
def test_a_certificate_in_ssl_cert_file_is_accepted(
    encrypted: ChatServer,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[ChatServer], str],
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(here))
    assert ask(encrypted) == "ok"
    monkeypatch.delenv("SSL_CERT_FILE")  # and what was read once is not trusted for ever
    with pytest.raises((LLMError, GenerationError), match=r"(?i)certificate.verify.failed"):
        ask(encrypted)
    assert len(encrypted.requests) == 1


@ASK
def test_a_certificate_for_another_name_is_refused(
    certified: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[ChatServer], str],
) -> None:
    elsewhere = certified("DNS:example.org")
    monkeypatch.setenv("SSL_CERT_FILE", str(elsewhere))
    with ChatServer(certificate=elsewhere) as server:
        with pytest.raises((LLMError, GenerationError), match=r"not valid for .127\.0\.0\.1"):
            ask(server)
        assert server.requests == []


@ASK
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_an_invalid_ssl_cert_file_is_an_error(
    server: ChatServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[ChatServer], str],
    content: str | None,
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    with pytest.raises(SettingError, match=r"SSL_CERT_FILE=.*ca\.pem: no certificates can be read"):
        ask(server)
