"""Fixtures that forbid network access: name look-ups and connections fail the test."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

# These packages send usage statistics unless this is set before they are imported.
os.environ["RAGAS_DO_NOT_TRACK"] = "true"
os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "1"
os.environ["HF_UPDATE_DOWNLOAD_COUNTS"] = "0"  # evaluate, by lm_eval
os.environ["HF_EVALUATE_OFFLINE"] = "1"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Refuse every look-up and connection, and fail the test that tries one."""
    tried: list[object] = []

    def refuse(*args: object, **_: object) -> None:
        tried.append(args)
        raise OSError("tests have no network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    yield tried
    assert tried == []


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Collect garbage, so that warnings about open resources appear in the test that left them."""
    gc.freeze()  # otherwise the objects of earlier tests would be searched too, for a second
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a new current folder and user data folder, because the tools write into both."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    return folder
