"""The program and files of responses for the tests of commands."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from command_line import first_passage, responses
from typer.main import get_command


@pytest.fixture(scope="session", autouse=True)
def _program() -> Iterator[None]:
    """Build the commands once, which takes longer than most tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(get_command))
        yield


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Write the best possible responses."""
    return responses(tmp_path / "good.jsonl")


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """Write responses that repeat the first passage."""
    return responses(tmp_path / "bad.jsonl", first_passage)
