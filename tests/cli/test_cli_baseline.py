"""mirage baseline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import IN_SWAHILI, LANGUAGE, mirage, refusal, responses

from mirage.models import Query
from mirage.testing.baseline import read_baseline


def test_a_baseline_is_saved_for_the_plugin(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    done = mirage("baseline", *IN_SWAHILI, f"mine={good}", "--out", path)
    assert done.stdout.startswith(f"{path}: ")
    assert "answer_match" in read_baseline(path).table.features
    assert read_baseline(path).table.model == "mine"
    chosen = ("--feature", "answer_bleu")
    done = mirage("baseline", *IN_SWAHILI, good, "--out", path, *chosen)
    assert done.stdout == f"{path}: 40 queries, 1 features\n"
    assert "does not exist; create it first" in refusal(
        "baseline", *IN_SWAHILI, good, "--out", tmp_path / "no" / "x.json"
    )


@pytest.mark.slow
def test_runs_of_three_days_include_the_noise_between_runs(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    other = responses(tmp_path / "other.jsonl", lambda query: f"{query.reference} Really.")
    note = "Noise between runs is"
    for runs, included in (([good], "not included"), ([good, other, good], "estimated from the 3")):
        mirage("baseline", *IN_SWAHILI, *runs, "--out", path)
        assert read_baseline(path).runs == len(runs)
        assert f"{note} {included}" in mirage("check", other, "--baseline", path).stdout


def test_a_run_is_checked_against_it(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    mirage("baseline", *IN_SWAHILI, good, "--out", path)
    held = mirage("check", *IN_SWAHILI, good, "--baseline", path)
    assert held.exit_code == 0
    assert held.stdout.startswith("good is no worse than the baseline by more than 0.1 in ")
    assert "answer_match" in held.stdout
    assert "answer_bleu" not in held.stdout
    asked = ("--feature", "answer_bleu", "--json")
    told = json.loads(mirage("check", *IN_SWAHILI, good, "--baseline", path, *asked).stdout)
    assert told["verdict"] == "no worse"
    assert [row["feature"] for row in told["features"]] == ["answer_bleu"]


def test_the_language_is_that_of_the_baseline(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    mirage("baseline", *IN_SWAHILI, good, "--out", path)
    assert mirage("check", good, "--baseline", path).exit_code == 0


def test_a_lie_falls_short(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    mirage("baseline", *IN_SWAHILI, good, "--out", path)
    worse = responses(tmp_path / "lies.jsonl", lie)
    done = mirage("check", *IN_SWAHILI, worse, "--baseline", path)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "fell short: lies is worse than the baseline in" in done.stderr
    assert "answer_match" in done.stderr
    told = mirage("check", *IN_SWAHILI, worse, "--baseline", path, "--json")
    assert told.exit_code == 1
    plain = json.loads(told.stdout)
    assert plain["verdict"] == "worse"
    (change,) = [row for row in plain["features"] if row["feature"] == "answer_match"]
    assert change["now"] < change["before"]
    assert "not JSON" in refusal("check", *IN_SWAHILI, good, "--baseline", good)


def test_where_nobody_can_tell_the_status_says_so(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    mirage("baseline", *IN_SWAHILI, good, "--out", path)
    reworded = responses(tmp_path / "reworded.jsonl", lambda query: f"{query.reference} Really.")
    check = (
        "check",
        "--language",
        LANGUAGE,
        reworded,
        "--baseline",
        path,
        "--margin",
        "0.05",
    )
    result = mirage(*check)
    assert result.exit_code == 3
    expected = "cannot tell whether reworded is worse than the baseline: on 40 que"
    assert result.stdout.startswith(expected)
    result = mirage(*check, "--json")
    assert (result.exit_code, json.loads(result.stdout)["verdict"]) == (3, "inconclusive")
    assert "margin must be above 0 and below 1, such as 0.1; got 1.5" in refusal(*check[:-1], "1.5")


def lie(query: Query) -> str:
    if not query.answerable:
        return query.reference or ""
    return f"##Answer: {query.wrong_answers[0][0]} [{query.relevant[0]}]"
