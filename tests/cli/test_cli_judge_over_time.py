"""mirage judge --anchors: the judge is asked again in every run, and mirage history tells why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import IN_SWAHILI, mirage, refusal
from llm_server import ChatServer, Reply


class Judge:
    """A judge that prefers the longer text, or, once it moved, the shorter one."""

    def __init__(self) -> None:
        self.moved = False

    def __call__(self, request: dict[str, Any]) -> str:
        prompt = request["messages"][-1]["content"]
        first, second = (self.part(prompt, side) for side in "ab")
        longer = "A" if len(first) >= len(second) else "B"
        other = "B" if longer == "A" else "A"
        return f"[[{other if self.moved else longer}]]"

    @staticmethod
    def part(prompt: str, side: str) -> str:
        start = prompt.index("<response-" + side)
        return prompt[start : prompt.index("</response-" + side, start)]


@pytest.fixture
def judge(server: ChatServer) -> Judge:
    server.answer = judge = Judge()
    return judge


def run(
    files: tuple[Path, Path],
    folder: Path,
    server: ChatServer,
    monkeypatch: Any,
    sha: str,
    *more: str,
) -> Any:
    monkeypatch.setenv("MIRAGE_COMMIT", sha)
    paths = ("--anchors", folder / "anchors.jsonl", "--history", folder / "h.sqlite")
    endpoint = ("--base-url", server.url, "--llm", "key_from=MIRAGE_COMMIT", "--judge", "j")
    votes = ("--out", folder / f"{sha}.jsonl")
    return mirage("judge", *files, *IN_SWAHILI, *endpoint, *paths, *votes, *more)


@pytest.mark.slow
def test_a_judge_that_moves_is_told_from_one_that_does_not(
    good: Path, bad: Path, tmp_path: Path, server: ChatServer, judge: Judge, monkeypatch: Any
) -> None:
    files = good, bad
    for sha in ("one", "two", "three"):
        done = run(files, tmp_path, server, monkeypatch, sha)
        assert done.exit_code == 0, done.stderr
    anchors = (tmp_path / "anchors.jsonl").read_bytes()
    assert len(anchors.splitlines()) == 40
    assert "no significant change" in done.stderr
    judge.moved = True
    done = run(files, tmp_path, server, monkeypatch, "four")
    assert done.exit_code == 3
    assert "judge j has changed since four: scores are not comparable" in done.stderr
    assert (tmp_path / "anchors.jsonl").read_bytes() == anchors
    shown = json.loads(mirage("history", tmp_path / "h.sqlite", "--json").stdout)
    (series,) = shown["judges"]
    assert [row["moved"] for row in series["runs"]] == [False, False, False, True]
    assert [row["self_agreement"] for row in series["runs"]] == [1.0] * 4
    assert shown["series"][0]["commits"][0]["features"][0]["feature"] == "judged_score@j"
    mirage("history", tmp_path / "h.sqlite", "--accept", "four")
    assert run(files, tmp_path, server, monkeypatch, "five").exit_code == 0


@pytest.mark.usefixtures("judge")
@pytest.mark.slow
def test_other_requests_are_a_change_and_not_a_movement(
    good: Path, bad: Path, tmp_path: Path, server: ChatServer, monkeypatch: Any
) -> None:
    run((good, bad), tmp_path, server, monkeypatch, "one")
    done = run((good, bad), tmp_path, server, monkeypatch, "two", "--llm", "temperature=1")
    assert done.exit_code == 3
    assert "judge j has a new prompt, parameters or endpoint since two" in done.stderr


@pytest.mark.usefixtures("judge")
def test_a_judge_of_another_name_begins_another_series(
    good: Path, bad: Path, tmp_path: Path, server: ChatServer, monkeypatch: Any
) -> None:
    for sha, more in (("one", ()), ("two", ("--judge", "k")), ("three", ())):
        assert run((good, bad), tmp_path, server, monkeypatch, sha, *more).exit_code == 0
    history = tmp_path / "h.sqlite"
    shown = json.loads(mirage("history", history, "--json").stdout)
    assert [[row["sha"] for row in series["commits"]] for series in shown["series"]] == [
        ["one", "three"],
        ["two"],
    ]
    assert [series["judge"] for series in shown["judges"]] == ["j", "k"]
    done = mirage("history", history, "--feature", "judged_score@j,k", "--json")
    assert [len(series["commits"]) for series in json.loads(done.stdout)["series"]] == [1]
    assert "judged_score@j" in refusal("history", history, "--feature", "judged_score@z")


@pytest.mark.usefixtures("judge")
def test_anchor_pairs_are_asked_again_and_a_failed_call_records_nothing(
    good: Path, bad: Path, tmp_path: Path, server: ChatServer, monkeypatch: Any
) -> None:
    run((good, bad), tmp_path, server, monkeypatch, "one")
    before = len(server.requests)
    run((good, bad), tmp_path, server, monkeypatch, "two")  # their answers are in the cache
    assert len(server.requests) - before == 120
    server.answer = lambda _: Reply("gone", status=400)
    done = run((good, bad), tmp_path, server, monkeypatch, "three")
    assert done.exit_code != 0
    assert "nothing was recorded" in done.stderr
    shown = json.loads(mirage("history", tmp_path / "h.sqlite", "--json").stdout)
    assert [row["sha"] for row in shown["judges"][0]["runs"]] == ["one", "two"]
    assert [row["sha"] for row in shown["series"][0]["commits"]] == ["one", "two"]


def test_anchors_need_a_history(good: Path, bad: Path, tmp_path: Path) -> None:
    options = (*IN_SWAHILI, "--judge", "j", "--anchors", tmp_path / "a.jsonl")
    assert "--anchors and --history must be given together" in refusal("judge", good, bad, *options)
    assert not (tmp_path / "a.jsonl").exists()
