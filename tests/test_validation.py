"""Validation scripts run, write their figures, and the page shows the figures of the files."""

from __future__ import annotations

import json
import math
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import each_case

ROOT = Path(__file__).parents[1]
VALIDATION = ROOT / "validation"
COMMON = VALIDATION / "_common"
SCRIPTS = sorted(VALIDATION.glob("[!_]*/[!_]*.py"))
RESULTS = sorted((VALIDATION / "results").glob("*.json"))
SIMULATIONS = {"repeats", "replications", "arenas", "series"}
"""Options that set the number of simulations; the file always has its value."""

FIELDS = [
    *("script", "commit", "date", "versions", "seed", "quick", "arguments"),
    "figures",
]


def name_of(path: Path) -> str:
    return path.relative_to(VALIDATION).as_posix()


def run(script: Path, *options: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script), *options],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def numbers(figures: dict[str, Any]) -> Iterator[float | None]:
    """Yield all figures of a file."""
    for value in figures.values():
        if isinstance(value, dict):
            yield from numbers(value)
        else:
            yield value


def check_figures(figures: dict[str, Any]) -> None:
    values = list(numbers(figures))
    assert any(value is not None for value in values)
    for value in values:
        assert value is None or (isinstance(value, float) and math.isfinite(value))


# Quick runs ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_a_quick_run_writes_its_figures(script: Path, tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    done = run(script, "--quick", "--out", str(out), cwd=tmp_path)
    last = (done.stderr.splitlines() or [""])[-1]
    if done.returncode and re.search(r"No module named '(?!mirage|_)|pip install", last):
        pytest.skip(last)
    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("nothing to measure"):
        assert not out.exists()
        pytest.skip(done.stdout)
    report = json.loads(out.read_text(encoding="utf-8"))
    assert list(report) == FIELDS
    assert report["script"] == script.relative_to(ROOT).as_posix()
    assert report["quick"] is True
    check_figures(report["figures"])


@pytest.mark.slow
def test_a_quick_run_without_out_writes_no_results(tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in RESULTS}
    done = run(VALIDATION / "coverage" / "feature_bounds.py", "--quick", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    after = sorted((VALIDATION / "results").glob("*.json"))
    assert {path: path.read_bytes() for path in after} == before
    assert list(tmp_path.iterdir()) == []


def test_names_of_scripts_are_unique() -> None:
    stems = [script.stem for script in SCRIPTS]
    assert len(set(stems)) == len(stems)  # results/ has one folder for all


# The helper ---------------------------------------------------------------------------------------


@pytest.fixture
def helper(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of a fresh copy of the module."""
    monkeypatch.setattr(sys, "path", [str(COMMON), *sys.path])
    monkeypatch.delenv("MIRAGE_VALIDATION_SEED", raising=False)
    return runpy.run_path(str(COMMON / "_results.py"))


def test_a_figure_is_recorded_under_its_names(helper: dict[str, Any]) -> None:
    add_figure, figures = helper["add_figure"], helper["_FIGURES"]
    add_figure(np.float64(0.1234567891), "table", 5, "cell")
    add_figure(True, "flag")
    add_figure(math.nan, "table", 20, "cell")
    assert figures == {
        "table": {"5": {"cell": 0.123457}, "20": {"cell": None}},
        "flag": 1.0,
    }
    with pytest.raises(ValueError, match="table / 5 / cell is recorded already"):
        add_figure(1, "table", "5", "cell")


def test_the_seed_changes_draws_and_0_changes_none(
    helper: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded = helper["seeded"]
    assert seeded([1, 2]).random() == np.random.default_rng([1, 2]).random()
    assert seeded(7).random() == np.random.default_rng(7).random()
    monkeypatch.setenv("MIRAGE_VALIDATION_SEED", "3")
    assert seeded(7).random() == np.random.default_rng([7, 3]).random()
    assert seeded([1, 2]).random() == np.random.default_rng([1, 2, 3]).random()


def test_the_mean_leaves_out_nan(helper: dict[str, Any]) -> None:
    assert helper["known_mean"]([1.0, math.nan, 0.0]) == 0.5
    assert math.isnan(helper["known_mean"]([math.nan]))


# Results and their page ---------------------------------------------------------------------------


@each_case("path", RESULTS)
def test_a_results_file_is_of_a_full_run(path: Path) -> None:
    report = json.loads(path.read_text(encoding="utf-8"))
    assert list(report) == FIELDS
    assert ROOT / report["script"] in SCRIPTS
    assert (Path(report["script"]).stem, report["quick"]) == (path.stem, False)
    assert set(report["arguments"]) <= SIMULATIONS
    check_figures(report["figures"])


def test_the_page_has_the_figures_of_the_files() -> None:
    """If this fails, run ``python validation/report.py``."""
    page = runpy.run_path(str(VALIDATION / "report.py"))
    text = page["PAGE"].read_text(encoding="utf-8")
    assert page["page_with_table"](text) == text
    names = {script.relative_to(VALIDATION).with_suffix("").as_posix() for script in SCRIPTS}
    assert set(page["KEYS"]) <= names  # a script may have an entry before its first full run


def test_a_file_without_an_entry_of_main_figures_is_named() -> None:
    page = runpy.run_path(str(VALIDATION / "report.py"))
    script = VALIDATION / "speed" / "new_speed.py"
    with pytest.raises(
        ValueError, match=r"results/new_speed\.json has no entry in KEYS .*'speed/n"
    ):
        page["key_figures"]("speed/new_speed", script, {"figures": {"seconds": 1.0}})


def test_pages_of_rates_have_the_figures_of_the_files() -> None:
    """If this fails, run ``python validation/report.py``."""
    report = runpy.run_path(str(VALIDATION / "report.py"))
    pages = dict(report["pages"]())
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text
        assert "| 0." in text or "| 1." in text
    assert set(pages) == set((ROOT / "docs" / "validation" / "coverage").glob("*.md"))
    assert {page.script for page in report["PAGES"].values()} <= set(report["KEYS"])


def test_a_rate_has_its_standard_error_and_is_marked_if_it_is_worse_than_nominal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [str(COMMON), *sys.path])
    pages = runpy.run_path(str(COMMON / "_pages.py"))
    cell, column = pages["_cell"], pages["Column"]
    coverage, alarms = column("rate", "coverage"), column("rate", "alarms", 0.05)
    assert cell({"rate": 0.94}, coverage, 400) == "0.940 (12)"
    assert cell({"rate": 0.9}, coverage, 400) == "**0.900 (15)**"
    assert cell({"rate": 1.0}, coverage, 400) == "1.000 (2)"
    assert cell({"rate": 0.9}, alarms, 400) == "**0.900 (15)**"
    assert cell({"rate": 0.06}, alarms, 400) == "0.060 (12)"
    assert cell({"rate": 0.9}, column("rate", "found", None), 400) == "0.900 (15)"
    assert cell({"rate": 0.9}, column("rate", "", share=0.25), 400) == "0.900 (31)"
    assert cell({"rate": 0.9, "rate, standard error": 0.01}, coverage, 9) == "**0.900 (10)**"
    assert cell({"rate": 0.9, "there": 0.25}, column("rate", "", present="there"), 400) == (
        "0.900 (31)"
    )
    assert cell({"rate": None}, coverage, 400) == ""
    assert cell({"rate": 3.5}, column("rate", "width", None), 400) == "3.500"


def test_the_command_of_a_page_has_the_number_of_simulations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [str(COMMON), *sys.path])
    command = runpy.run_path(str(COMMON / "_pages.py"))["command"]
    drift = {"script": "validation/coverage/drift.py", "arguments": {"repeats": 100}}
    assert command(drift) == "python validation/coverage/drift.py --repeats 100"
    grids = {"script": "validation/coverage/grids.py", "arguments": {"repeats": 60}}
    assert command(grids) == "python validation/coverage/grids.py 60"


def test_lines_of_guides_have_the_figures_of_the_files() -> None:
    page = runpy.run_path(str(VALIDATION / "report.py"))
    lines = page["lines"]()
    assert lines
    for path, line in lines:
        assert line in path.read_text(encoding="utf-8")
