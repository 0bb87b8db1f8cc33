"""mirage judge, against a real server on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import IN_SWAHILI, first_passage, mirage, refusal, responses
from llm_server import ChatServer, Reply, last_user_text


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return [responses(tmp_path / "good.jsonl"), responses(tmp_path / "bad.jsonl", first_passage)]


def judged(server: ChatServer, files: list[Path], *options: object) -> Any:
    judge = ("--judge", "j", "--base-url", server.url)
    return mirage("judge", *IN_SWAHILI, *files, *judge, *options)


def test_a_dry_run_says_what_it_takes_and_asks_nothing(
    server: ChatServer, files: list[Path]
) -> None:
    done = judged(server, files, "--dry-run")
    assert done.exit_code == 0
    assert done.stdout.startswith("40 calls (and 0 answers from the cache)")
    priced = judged(server, files, "--dry-run", "--json", "--llm", "price=1,2", "--both-orders")
    estimate = json.loads(priced.stdout)
    assert estimate["calls"] == 80
    assert estimate["cost"] == pytest.approx(
        (estimate["prompt_tokens"] + 2 * estimate["completion_tokens"]) / 1e6
    )
    assert server.requests == []


def test_votes_go_to_standard_output_and_from_there_to_fit(
    server: ChatServer, files: list[Path]
) -> None:
    server.answer = lambda _: "[[A]]"
    done = judged(server, files, "--both-orders")
    assert done.exit_code == 0
    assert "80 calls" in done.stderr.splitlines()[0]  # before the first call
    assert len(done.stdout.splitlines()) == 80
    fitted = json.loads(mirage("fit", "-", "--json", stdin=done.stdout).stdout)
    assert fitted["title"] == "40 judgments on 40 queries"
    assert [row["logit"] for row in fitted["entries"]] == [0, 0]  # either order, another winner


def test_votes_go_to_a_file_that_is_gone_on_from(
    server: ChatServer, files: list[Path], tmp_path: Path
) -> None:
    server.answer = lambda _: "[[A]]"
    path = tmp_path / "votes.jsonl"
    done = judged(server, files, "--out", path, "--json", "--llm", "cache=no")
    assert json.loads(done.stdout)["judgments"] == 40
    judged(server, files, "--out", path, "--llm", "cache=no")
    assert len(server.requests) == 40


def test_votes_without_a_verdict_fall_short(server: ChatServer, files: list[Path]) -> None:
    server.answer = lambda _: "[[A]]" if len(server.requests) % 2 else Reply("no", status=400)
    short = judged(server, files, "--llm", "concurrency=1")
    assert short.exit_code == 1
    assert "20 of 40 votes failed or name no verdict" in short.stderr


def test_a_dry_run_does_not_count_votes_in_the_file(
    server: ChatServer, files: list[Path], tmp_path: Path
) -> None:
    server.answer = lambda _: "[[A]]"
    options = ("--out", tmp_path / "votes.jsonl", "--llm", "cache=no", "--llm", "price=1,2")
    done = judged(server, files, *options, "--json")
    spent = json.loads(done.stdout)
    assert (spent["calls"], spent["cached"]) == (40, 0)
    assert spent["cost"] == pytest.approx(
        (spent["prompt_tokens"] + 2 * spent["completion_tokens"]) / 1e6
    )
    assert "0 calls" in judged(server, files, *options, "--dry-run").stdout
    assert "; 0 calls (and 0 answers from the cache)" in judged(server, files, *options).stdout


def test_a_judge_that_chooses_by_position_is_named(server: ChatServer, files: list[Path]) -> None:
    server.answer = lambda _: "[[B]]"
    done = judged(server, files)
    assert "j preferred the response shown second in 40 of 40 pairs" in done.stderr


def test_what_judge_needs(server: ChatServer, files: list[Path]) -> None:
    endpoint = ("--judge", "j", "--base-url", server.url)
    assert "at least two runs" in refusal("judge", *IN_SWAHILI, files[0], *endpoint)
    assert mirage("judge", *IN_SWAHILI, *files).exit_code == 2


@pytest.mark.slow
def test_a_report_has_the_ranking_the_responses_and_the_judge(
    server: ChatServer, files: list[Path], tmp_path: Path
) -> None:
    server.answer = lambda _: "[[A]]"
    votes, page = tmp_path / "votes.jsonl", tmp_path / "ranking.html"
    done = judged(server, files, "--both-orders", "--out", votes, "--report", page)
    assert "40 judgments, 40 ties" in done.stdout
    assert "Every judgment is a tie" in done.stdout.replace("\n", " ")
    written = page.read_text(encoding="utf-8")
    for words in ("Judgments by pair", "0 / 40 / 0", "Position", "##Answer"):
        assert words in written


def test_pairs_that_tell_most(server: ChatServer, files: list[Path], tmp_path: Path) -> None:
    server.answer = lambda _: "[[A]]"
    path = tmp_path / "votes.jsonl"
    done = judged(server, files, "--judgments", 5, "--out", path, "--json")
    assert json.loads(done.stdout)["judgments"] == 5
    assert "at most" in done.stderr


def test_a_prompt_from_a_file_is_sent_and_a_wrong_one_refused(
    server: ChatServer, files: list[Path], tmp_path: Path
) -> None:
    server.answer = lambda _: "[[A]]"
    path = tmp_path / "prompt.txt"
    path.write_text("\nBetter?\n{question}\n{answer_a}\n{answer_b}\n{form}\n", encoding="utf-8")
    assert judged(server, files, "--prompt", path).exit_code == 0
    assert last_user_text(server.requests[0]).startswith("Better?\n<question ")
    path.write_text("{question} {response_a} {form}", encoding="utf-8")
    endpoint = ("--judge", "j", "--base-url", server.url, "--prompt", path)
    message = refusal("judge", *IN_SWAHILI, *files, *endpoint)
    assert "unknown field {response_a} and lacks {answer_a}, {answer_b}" in message
    assert "need --judge" in refusal("decide", files[0], files[1], "--prompt", path)
    assert "need --judge" in refusal("rank", *IN_SWAHILI, files[0], "--prompt", path)
