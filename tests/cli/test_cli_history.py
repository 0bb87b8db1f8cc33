"""mirage history, and the commands that add to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import IN_SWAHILI, mirage, refusal


@pytest.mark.slow
def test_check_and_rank_add_to_a_history(
    good: Path, bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved, file = tmp_path / "baseline.json", tmp_path / "history.sqlite"
    mirage("baseline", *IN_SWAHILI, good, "--out", saved)
    asked = ("--baseline", saved, "--history", file)
    monkeypatch.setenv("MIRAGE_COMMIT", "first")
    assert mirage("check", f"rag={good}", *asked).exit_code == 0
    monkeypatch.delenv("MIRAGE_COMMIT")
    monkeypatch.setenv("GITHUB_SHA", "second")
    assert mirage("check", f"rag={bad}", *asked).exit_code == 1
    text = good.read_text(encoding="utf-8")
    monkeypatch.setenv("MIRAGE_COMMIT", "third")
    ranked = ("rank", *IN_SWAHILI, "rag=-", "--history", file)
    assert mirage(*ranked, stdin=text).exit_code == 0

    (series,) = json.loads(mirage("history", file, "--json").stdout)["series"]
    assert [row["sha"] for row in series["commits"]] == ["first", "second", "third"]
    means = [
        {step["feature"]: step["mean"] for step in row["features"]}["answer_match"]
        for row in series["commits"]
    ]
    assert means[1] < means[0] == means[2]
    # The first four commits set the level, and are not compared.
    assert [row["worse"] for row in series["commits"]] == [[], [], []]
    assert series["commits"][2]["rank"] >= 1
    shown = mirage("history", file, "--accept", "second", "--feature", "answer_match").stdout
    assert "second" in shown
    assert "citation_recall" not in shown
    assert "nobody" in refusal("history", file, "--model", "nobody")


def test_check_writes_a_comment_and_junit_whatever_the_verdict(
    good: Path, bad: Path, tmp_path: Path
) -> None:
    saved, text, xml = (tmp_path / name for name in ("baseline.json", "comment.md", "junit.xml"))
    mirage("baseline", *IN_SWAHILI, good, "--out", saved)
    asked = ("--baseline", saved, "--comment", text, "--junit", xml)
    assert mirage("check", *IN_SWAHILI, bad, *asked).exit_code == 1
    assert "### Mirage: worse" in text.read_text(encoding="utf-8")
    assert "<failure" in xml.read_text(encoding="utf-8")
    assert mirage("check", *IN_SWAHILI, good, *asked).exit_code == 0
    assert "### Mirage: no worse" in text.read_text(encoding="utf-8")


def test_a_file_name_with_an_equals_sign_is_ranked_into_a_history(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRAGE_COMMIT", "first")
    responses, file = tmp_path / "a=b.jsonl", tmp_path / "history.sqlite"
    responses.write_bytes(good.read_bytes())
    ranked = mirage("rank", *IN_SWAHILI, responses, "--history", file)
    assert ranked.exit_code == 0, ranked.stderr
    (series,) = json.loads(mirage("history", file, "--json").stdout)["series"]
    assert series["model"] == "a=b"


def test_a_history_needs_a_commit(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MIRAGE_COMMIT", "GITHUB_SHA", "CI_COMMIT_SHA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    history = ("--history", tmp_path / "h.sqlite")
    assert "MIRAGE_COMMIT" in refusal("rank", *IN_SWAHILI, good, *history)


def test_an_accepted_commit_is_confirmed(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved, file = tmp_path / "baseline.json", tmp_path / "history.sqlite"
    mirage("baseline", *IN_SWAHILI, good, "--out", saved)
    monkeypatch.setenv("MIRAGE_COMMIT", "f00d")
    mirage("check", good, "--baseline", saved, "--history", file)
    assert "accepted f00d" in mirage("history", file, "--accept", "f00d").stderr
    assert "four earlier days" in " ".join(mirage("history", "--help").stdout.split())
