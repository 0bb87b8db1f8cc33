"""mirage board: a board from its first file to its site."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from boards.board_folders import CODE, new_board, quote, run_of
from command_line import mirage, refusal

from mirage.boards.folders import BoardFolder
from mirage.boards.starting import JOBS


@pytest.mark.slow
def test_a_board_from_start_to_site(tmp_path: Path) -> None:
    board, site = tmp_path / "board", tmp_path / "site"
    done = mirage("board", "new", board, "--language", CODE, "--title", "Our systems")
    assert done.stdout == f"{board}/board.json: a board in sw\n"
    for number, name in enumerate(("one", "two")):
        run_of(quote(number)).save(tmp_path / f"{name}.jsonl")
        submitted = mirage(
            *("board", "submit", board, f"{CODE}={tmp_path}/{name}.jsonl"),
            *("--model", name, "--submitter", "anna", "--link", "https://example.org/rag"),
        )
        folder = Path(submitted.stdout.partition(": ")[0])
        record = json.loads((folder / "submission.json").read_text())
        assert record["link"] == "https://example.org/rag"
    checked = mirage("board", "check", board)
    assert checked.stdout == f"{board}: 2 submissions, no problem\n"
    built = mirage("board", "build", board, "--out", site)
    assert built.stdout == f"{site}/index.html: 2 submissions (sw 2)\n"
    # A second build compares with the first one.
    shutil.rmtree(folder)
    again = mirage("board", "build", board, "--out", site)
    assert (again.exit_code, again.stdout) == (1, "")
    assert "is gone; restore it" in " ".join(again.stderr.split())


def test_each_problem_is_printed_and_ends_with_status_1(tmp_path: Path) -> None:
    board, before = new_board(tmp_path), tmp_path / "before"
    shutil.copytree(board, before)
    first, second = sorted((board / "submissions").iterdir())
    shutil.rmtree(first)
    (second / "submission.json").write_text('{\n  "model": "second",\n  "rank": 1\n}')
    result = mirage("board", "check", board, "--previous", before)
    assert (result.exit_code, result.stdout) == (1, "")
    lines = result.stderr.strip().splitlines()
    assert [line.partition(":")[0] for line in lines] == ["fell short", "fell short"]
    assert "submission.json, line" in lines[0]
    assert "is gone" in lines[1]


def test_a_submission_that_check_refuses_is_not_written(tmp_path: Path) -> None:
    board = new_board(tmp_path)
    (board / "submissions" / "2026-11-05-foreign").mkdir()  # a problem that was there before
    run_of(quote(0)).save(tmp_path / "copy.jsonl")
    submission = "board", "submit", board, f"{CODE}={tmp_path}/copy.jsonl", "--model", "copy"
    refused = mirage(*submission, "--submitter", "carl")
    assert (refused.exit_code, refused.stdout) == (1, "")
    (line,) = refused.stderr.strip().splitlines()
    assert "40 of 40 distinctive responses equal those of 2026-11-03-anna-first" in line
    assert len(list((board / "submissions").iterdir())) == 3
    run_of(quote(3)).save(tmp_path / "copy.jsonl")
    assert mirage(*submission, "--submitter", "carl").exit_code == 0


def test_jobs_install_this_version_and_compare_with_the_last_state(tmp_path: Path) -> None:
    from importlib.metadata import version

    board = new_board(tmp_path)
    for path in JOBS.values():
        job = (board / path).read_text()
        assert f"mirage-rag=={version('mirage-rag')}" in job
        assert "mirage board check . --previous ../base" in job
        assert "mirage board build . --out ../site --previous ../base" in job


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "nowhere"), "no such file"),
        (("submit", "BOARD", "x.jsonl", "--model", "m", "--submitter", "a"), "CODE=FILE"),
        (
            ("submit", "BOARD", "de=RUN", "--model", "m", "--submitter", "a"),
            "unknown language 'de' on the board",
        ),
        (("submit", "BOARD", "sw=RUN", "--model", "<b>", "--submitter", "a"), "ASCII letters"),
        (("new", "BOARD", "--language", "sw", "--title", "t"), "the board exists already"),
        (("new", "OTHER", "--language", "xx", "--title", "t"), "unknown language"),
        (("check", "BOARD", "--previous", "nowhere"), "no such file"),
    ],
)
def test_bad_input_is_one_error(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    board = new_board(tmp_path)
    names = {
        "BOARD": str(board),
        "OTHER": str(tmp_path / "o"),
        "sw=RUN": f"sw={tmp_path}/run.jsonl",
    }
    names["de=RUN"] = f"de={tmp_path}/run.jsonl"
    assert message in refusal("board", *(names.get(text, text) for text in arguments))


def test_the_manifest_of_a_site_is_checked_like_other_input(tmp_path: Path) -> None:
    board = new_board(tmp_path)
    (tmp_path / "old.json").write_text("[]")
    assert "expected a JSON object" in refusal(
        "board", "check", board, "--previous", tmp_path / "old.json"
    )
    assert BoardFolder(board).entries
