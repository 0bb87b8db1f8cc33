"""The examples run, and README shows what they print."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(script: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / script), *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_quickstart_prints_what_readme_shows() -> None:
    printed = run("quickstart.py")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme.split("```text\n")[1].split("```")[0].splitlines()
    lines = set(printed.splitlines())
    assert [line for line in shown if line.strip() != "..." and line not in lines] == []


def test_the_nomiracl_arena_goes_all_the_way(data_dir: Path) -> None:
    printed = run("nomiracl_arena.py", "id", MIRAGE_DATA=str(data_dir))
    assert "*" in printed
    for model in ("Mixtral-8x7B-Instruct-v0.1", "llama-2-7b-chat", "gpt-3.5-turbo-azure"):
        assert printed.count(model) == 2


@pytest.mark.parametrize("name", ["nomiracl", "simulated_arena", "features", "bradley_terry"])
def test_benchmarks_can_be_imported(name: str) -> None:
    source = (ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
    assert '__name__ == "__main__"' in source  # importing one runs nothing
    path = str(ROOT / "benchmarks" / f"{name}.py")
    code = f"import runpy; runpy.run_path({path!r})"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
