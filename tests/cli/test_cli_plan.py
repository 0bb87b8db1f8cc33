"""mirage plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import IN_SWAHILI, mirage, refusal

FEW = ("--loss", "0.3", "--assume", "moved=0", "--assume", "unstable=0")


def test_queries_calls_and_money() -> None:
    done = mirage(
        *("plan", *FEW, "--price", "2,10", "--json"),
        *("--assume", "prompt_tokens=1000", "--assume", "answer_tokens=100"),
    )
    told = json.loads(done.stdout)
    best = told["best"]
    assert done.exit_code == 0
    assert (best["repeats"], best["calls"]) == (1, best["queries"])
    assert best["cost"] == best["calls"] * 0.003
    assert best["chances"]["detected"] >= 0.77
    assert 15 <= best["queries"] <= 20  # four of these lose 0.3 with a probability of 0.8: 17
    shown = mirage("plan", *FEW, "--queries", 20)
    assert shown.stdout.startswith("Detecting a loss of 0.3 at alpha 0.05")
    assert "Assumptions: 0 of the answers change" in shown.stdout


def test_a_budget_may_not_be_enough() -> None:
    done = mirage("plan", *FEW, "--budget", "calls=8")
    assert done.exit_code == 1
    assert "fell short: no number of repeats detects a loss of 0.3 with power 0.8" in done.stderr
    assert "kind of budget 'cals'; did you mean 'calls'?" in refusal("plan", "--budget", "cals=3")
    message = refusal("plan", "--assume", "unstabel=0.3")
    assert "assumption 'unstabel'; did you mean 'unstable'?" in message
    assert "give --baseline too" in refusal("plan", "--cluster", "document")


@pytest.mark.slow
def test_a_baseline_says_which_queries_there_are(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    mirage("baseline", *IN_SWAHILI, good, "--out", path)
    done = mirage("plan", *FEW, "--baseline", path, "--cluster", "kind", "--queries", 30)
    assert "the baseline has no repeats" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("--assume", "cluster_size=2.5"),
        ("--assume", "prompt_tokens=0.5"),
        ("--budget", "calls=10.5"),
    ],
)
def test_a_count_is_a_whole_number(words: tuple[str, str]) -> None:
    option, text = words
    name, _, number = text.partition("=")
    message = refusal("plan", *words)
    assert option in message
    assert f"{name} must be a whole number, got {number}" in message
