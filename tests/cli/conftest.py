"""Files of responses for the tests of commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import first_passage, responses


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Write the best possible responses."""
    return responses(tmp_path / "good.jsonl")


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """Write responses that repeat the first passage."""
    return responses(tmp_path / "bad.jsonl", first_passage)
