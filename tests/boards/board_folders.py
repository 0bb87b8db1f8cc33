"""Boards that tests build in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from mirage import MirageDataset, Query, Response, Run
from mirage.boards.folders import BoardFolder
from mirage.boards.rules import check_board
from mirage.boards.starting import add_submission, start_board
from mirage.text import split_sentences

CODE = "sw"
TODAY = date(2026, 11, 28)
QUERIES = MirageDataset.bundled(CODE)


def quote(number: int) -> Callable[[Query], str]:
    """Return a system that quotes the first sentence of one of the passages, in its own words."""

    def answer(query: Query) -> str:
        passage = query.passages[number % len(query.passages)]
        sentence = split_sentences(passage.text, CODE)[0]
        return f"##Answer: Mfumo wa {number} unasema kwa swali hili: {sentence} [{passage.id}]"

    return answer


def run_of(system: Callable[[Query], str | None], code: str = CODE) -> Run:
    """Return the responses of a system; ``None`` is a failure."""
    responses = []
    for query in MirageDataset.bundled(code):
        text = system(query)
        responses.append(
            Response(query_id=query.id, text=text, error="timeout" if text is None else None)
        )
    return Run(model="any", language=code, responses=tuple(responses))


def submit(
    board: Path,
    system: Callable[[Query], str | None],
    model: str,
    submitter: str = "anna",
    day: date = date(2026, 11, 3),
) -> Path:
    """Add the submission of a system to a board, and return its folder."""
    file = board.parent / "run.jsonl"
    run_of(system).save(file)
    return add_submission(board, {CODE: file}, model=model, submitter=submitter, day=day)


def new_board(folder: Path) -> Path:
    """Return a new board with two submissions."""
    board = folder / "board"
    start_board(board, [CODE], title="A board")
    submit(board, quote(0), "first", "anna", date(2026, 11, 3))
    submit(board, quote(1), "second", "ben", date(2026, 11, 4))
    return board


def problems(board: Path, previous: Any = None) -> list[str]:
    """Return the problems of a board on the day of the tests."""
    return check_board(BoardFolder(board), previous, today=TODAY)


def only_problem(board: Path, previous: Any = None) -> str:
    """Return the only problem of a board."""
    (problem,) = problems(board, previous)
    return problem


def edit(path: Path, **fields: Any) -> None:
    """Change fields of a JSON file."""
    record = json.loads(path.read_text(encoding="utf-8")) | fields
    path.write_text(json.dumps(record, indent=2), encoding="utf-8")


def edit_lines(path: Path, change: Callable[[int, dict[str, Any]], dict[str, Any] | None]) -> None:
    """Change or drop the lines of a JSON Lines file."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    changed = (change(number, row) for number, row in enumerate(rows))
    lines = (json.dumps(row, ensure_ascii=False) for row in changed if row is not None)
    path.write_text("\n".join(lines), encoding="utf-8")
