"""mirage history, and the commands that add to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import LANGUAGE, mirage, refusal


def test_check_and_rank_add_to_a_history(
    good: Path, bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved, file = tmp_path / "baseline.json", tmp_path / "history.sqlite"
    mirage("baseline", "save", LANGUAGE, good, "--out", saved)
    asked = ("--baseline", saved, "--history", file, "--name", "rag")
    assert mirage("check", LANGUAGE, good, *asked, "--commit", "first").exit_code == 0
    monkeypatch.setenv("GITHUB_SHA", "second")
    assert mirage("check", LANGUAGE, bad, *asked, "--label", "quotes").exit_code == 1
    text = good.read_text(encoding="utf-8")
    ranked = ("rank", LANGUAGE, "-", "--name", "rag", "--history", file, "--commit", "third")
    assert mirage(*ranked, stdin=text).exit_code == 0

    (series,) = json.loads(mirage("history", file, "--json").stdout)["series"]
    assert [one["sha"] for one in series["commits"]] == ["first", "second", "third"]
    assert series["commits"][1]["label"] == "quotes"
    assert "answer_match" in series["commits"][1]["worse"]
    assert series["commits"][2]["worse"] == []
    assert series["commits"][2]["rank"] >= 1
    shown = mirage("history", file, "--accept", "second", "--feature", "answer_match").stdout
    assert "second" in shown
    assert "citation_recall" not in shown
    assert "nobody" in refusal("history", file, "--model", "nobody")


def test_check_writes_a_comment_and_junit_whatever_the_verdict(
    good: Path, bad: Path, tmp_path: Path
) -> None:
    saved, text, xml = (tmp_path / name for name in ("baseline.json", "comment.md", "junit.xml"))
    mirage("baseline", "save", LANGUAGE, good, "--out", saved)
    asked = ("--baseline", saved, "--comment", text, "--junit", xml)
    assert mirage("check", LANGUAGE, bad, *asked).exit_code == 1
    assert "### Mirage: worse" in text.read_text(encoding="utf-8")
    assert "<failure" in xml.read_text(encoding="utf-8")
    assert mirage("check", LANGUAGE, good, *asked).exit_code == 0
    assert "### Mirage: no worse" in text.read_text(encoding="utf-8")


def test_settings_of_no_history_are_refused(good: Path) -> None:
    assert "--history" in refusal("rank", LANGUAGE, good, "--label", "x")
