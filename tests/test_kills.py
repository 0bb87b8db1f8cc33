"""Work that is killed at random moments loses nothing and asks little again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[1] / "validation" / "recovery" / "kills.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="forks processes")
def test_kills_lose_nothing_and_repeat_at_most_what_was_under_way() -> None:
    # Grids, judges of pairs and judges of sentences have tests of their own that kill them.
    kinds = ("encode", "tests-make", "generate")
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--kills", "2", *kinds],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].split()[:2] == ["all", "6"]
