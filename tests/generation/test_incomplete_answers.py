"""Answers that are empty, or that the limit on their length cut off, are reported with counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from llm_server import ChatServer, Reply

from mirage import LLM, Leaderboard, MirageDataset, Run, respond
from mirage.generation import OpenAIGenerator
from mirage.pipeline import Pipeline

ENGLISH = MirageDataset.bundled("en")


def generator(server: ChatServer) -> OpenAIGenerator:
    return OpenAIGenerator(LLM("gpt", base_url=server.url, cache=False))


def cut_and_empty(server: ChatServer) -> None:
    """Let the server cut off its first two answers, and return its third without a text."""
    replies = iter([*2 * [Reply("Because", finish_reason="length")], Reply("")])
    server.answer = lambda _: next(replies, "##Answer: Yes.")


NOTE = "2 of 4 answers end at the limit on their length; 1 of 4 answers are empty"


def test_runs_report_them_when_they_end(
    server: ChatServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cut_and_empty(server)
    out = tmp_path / "g.jsonl"
    run = respond(generator(server), ENGLISH[:4], out=out, progress=False)
    assert f"model 'gpt': {NOTE}; they are scored as they are" in caplog.text
    assert sum(response.cut_off for response in run) == 2
    # The file keeps the information, so a resumed run reports the same.
    caplog.clear()
    respond(generator(server), ENGLISH[:4], out=out, progress=False)
    assert NOTE in caplog.text
    assert list(Run.load(out, language="en")) == list(run)


def test_a_pipeline_reports_them(server: ChatServer, caplog: pytest.LogCaptureFixture) -> None:
    cut_and_empty(server)
    Pipeline(None, generator=generator(server)).run(ENGLISH[:4], progress=False)
    assert NOTE in caplog.text


def test_complete_answers_need_no_note(
    server: ChatServer, caplog: pytest.LogCaptureFixture
) -> None:
    respond(generator(server), ENGLISH[:4], progress=False)
    assert caplog.text == ""


def test_a_ranking_of_recorded_answers_reports_them() -> None:
    board = Leaderboard.bundled("en")

    def notes(**changes: Any) -> str:
        answers = [
            each.model_copy(update=changes if i < 2 else {})
            for i, each in enumerate(respond(lambda _: "Yes.", board.dataset, progress=False))
        ]
        run = Run(model="mine", language="en", responses=tuple(answers))
        return " ".join(board.rank(run).to_text().split())

    warning = f"Warning: mine: 2 of {len(board.dataset)} answers"
    assert f"{warning} end at the limit on their length" in notes(cut_off=True)
    assert f"{warning} are empty" in notes(text="")
    assert "Warning: mine" not in notes()
