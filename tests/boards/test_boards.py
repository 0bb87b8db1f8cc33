"""Boards: reading the folder, scores, the site, and exports."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest
from boards.board_folders import CODE, QUERIES, edit, new_board, problems, quote, submit
from cases import each_case
from report.reading import Reader

from mirage import Leaderboard, MirageError
from mirage.boards._exports import path_part
from mirage.boards.folders import BoardFolder, read_manifest
from mirage.boards.rules import RULES
from mirage.boards.scores import rank_submissions
from mirage.boards.site import write_board


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[BoardFolder, Path]:
    folder = tmp_path_factory.mktemp("built")
    path = new_board(folder)
    hidden = submit(path, lambda query: None if query.id == "q02" else quote(2)(query), "hidden")
    edit(hidden / "submission.json", show_responses=False)
    board = BoardFolder(path)
    assert problems(path) == []
    write_board(board, rank_submissions(board, progress=False), folder / "site")
    return board, folder / "site"


def test_scores_are_those_of_the_leaderboard(built: tuple[BoardFolder, Path]) -> None:
    board, site = built
    runs = {entry.id: entry.run(CODE) for entry in board.entries}
    ranking = Leaderboard.bundled(CODE).rank_many(runs, progress=False)
    view = json.loads((site / f"data/{CODE}.json").read_text())
    ids = [board.entries[index].id for index in view["row"]]
    assert view["logit"] == [round(ranking[id_].logit, 3) for id_ in ids]
    assert view["low"] == [round(ranking[id_].interval[0], 3) for id_ in ids]
    assert view["logit"] == sorted(view["logit"], reverse=True)
    assert all(
        1 <= best <= worst <= 3 for best, worst in zip(view["best"], view["worst"], strict=True)
    )
    failed = {ids[place]: count for place, count in enumerate(view["failed"]) if count}
    assert failed == {"2026-11-03-anna-hidden": 1}


def test_responses_are_published_only_with_permission(built: tuple[BoardFolder, Path]) -> None:
    board, site = built
    folders = sorted(path.name for path in (site / "data/responses").iterdir())
    assert folders == ["2026-11-03-anna-first", "2026-11-04-ben-second"]
    rows = json.loads((site / f"data/responses/{folders[0]}/{CODE}.json").read_text())
    assert [row["query"] for row in rows] == list(QUERIES.query_ids)
    assert rows[3]["text"] == board.entries[0].run(CODE).responses[3].text
    text = "".join(path.read_text() for path in site.rglob("*") if path.is_file())
    assert "Mfumo wa 2 unasema" not in text


def test_a_withdrawn_permission_deletes_published_responses(tmp_path: Path) -> None:
    path = new_board(tmp_path)
    board = BoardFolder(path)
    rankings = rank_submissions(board, progress=False)
    write_board(board, rankings, tmp_path / "site")
    edit(path / "submissions/2026-11-03-anna-first/submission.json", show_responses=False)
    write_board(BoardFolder(path), rankings, tmp_path / "site")
    folders = [path.name for path in (tmp_path / "site/data/responses").iterdir()]
    assert folders == ["2026-11-04-ben-second"]


def test_the_same_board_gives_the_same_bytes(
    built: tuple[BoardFolder, Path], tmp_path: Path
) -> None:
    board, site = built
    write_board(board, rank_submissions(board, progress=False), tmp_path / "site")
    files = sorted(path.relative_to(site) for path in site.rglob("*") if path.is_file())
    again = sorted(
        path.relative_to(tmp_path / "site")
        for path in (tmp_path / "site").rglob("*.*")
        if path.is_file()
    )
    assert files == again
    assert all(
        (site / name).read_bytes() == (tmp_path / "site" / name).read_bytes() for name in files
    )


def test_the_site_is_an_earlier_state(built: tuple[BoardFolder, Path]) -> None:
    board, site = built
    assert read_manifest(site) == read_manifest(board.path) == board.manifest()


def test_a_folder_with_other_files_is_not_overwritten(
    built: tuple[BoardFolder, Path], tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/mine.txt").write_text("mine")
    with pytest.raises(MirageError, match="contains other files"):
        write_board(built[0], {}, tmp_path)
    assert (tmp_path / "data/mine.txt").read_text() == "mine"


def test_rules_and_versions_are_on_the_page(built: tuple[BoardFolder, Path]) -> None:
    board, site = built
    text = Reader((site / "index.html").read_text()).text
    assert all(rule in text for rule in RULES)
    version = board.file.versions[CODE]
    assert f"queries {version.data[:12]}, {version.judge}" in text


def test_the_export_has_what_the_schema_requires(built: tuple[BoardFolder, Path]) -> None:
    """The fields that version 0.3.0 of the schema of Every Eval Ever requires."""
    board, site = built
    files = sorted((site / "every_eval_ever").rglob("*.json"))
    assert len(files) == len(board.entries)
    ids = set()
    for file in files:
        log = json.loads(file.read_text())
        assert log.keys() == {
            "schema_version",
            "evaluation_id",
            "evaluation_timestamp",
            "retrieved_timestamp",
            "source_metadata",
            "eval_library",
            "model_info",
            "evaluation_results",
        }
        assert log["schema_version"] == "0.3.0"
        assert log["source_metadata"]["source_type"] in {"documentation", "evaluation_run"}
        assert log["retrieved_timestamp"].isdecimal()
        details = log["model_info"]["additional_details"]
        assert {details["deployment_type"], details["model_availability"]} == {"unknown"}
        # data/COLLECTION/DEVELOPER/MODEL/UUID.json, as its data store requires.
        *folders, name = file.relative_to(site / "every_eval_ever").parts
        assert [folders[0], "/".join(folders[2:])] == ["data", log["model_info"]["id"]]
        assert UUID(name.removesuffix(".json")).version == 4
        (result,) = log["evaluation_results"]
        ids.add(result["evaluation_result_id"].partition("/")[0])
        assert result.keys() >= {"evaluation_name", "source_data", "metric_config", "score_details"}
        assert result["metric_config"]["lower_is_better"] is False
        assert result["source_data"].keys() == {
            *("dataset_name", "source_type", "additional_details"),
        }
        interval = result["score_details"]["uncertainty"]["confidence_interval"]
        assert interval["lower"] < result["score_details"]["score"] < interval["upper"]
        assert math.isfinite(result["score_details"]["score"])
        assert all(isinstance(v, str) for v in result["score_details"]["details"].values())
    assert ids == {entry.id for entry in board.entries}


def test_the_validator_of_every_eval_ever_accepts_the_export(
    built: tuple[BoardFolder, Path],
) -> None:
    pytest.importorskip("every_eval_ever", reason="every-eval-ever is not installed")
    folder = built[1] / "every_eval_ever"
    files = [str(file.relative_to(folder)) for file in folder.rglob("*.json")]
    done = subprocess.run(
        [sys.executable, "-m", "every_eval_ever", "validate", *files],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@each_case(
    ("text", "part"),
    [
        ("my rag (v2)", "my_rag_v2"),
        ("a:b", "a_b"),
        ("..", "unnamed"),
        ("data", "_data"),
        ("con.txt", "_con.txt"),
        ("unknown", "_unknown"),
        ("检索", "unnamed"),
    ],
)
def test_parts_of_paths_in_the_export_are_safe(text: str, part: str) -> None:
    assert path_part(text) == part


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1: not JSON"),
        ('{\n "title": "a",\n "versions": {\n}}', "line 3, field 'versions'"),
        ('{"title": "a"}', "field 'versions': Field required"),
        ('{"title": "a", "versions": {"sw": {"data": "0", "judge": "j"}}}', "versions.sw.data"),
        ("[]", "expected a JSON object, got list"),
    ],
)
def test_a_wrong_board_file_is_one_error_with_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "board.json").write_text(text)
    with pytest.raises(MirageError, match=message.replace("(", r"\(")):
        BoardFolder(tmp_path)


def test_links_and_other_files_are_no_submissions(tmp_path: Path) -> None:
    board = new_board(tmp_path)
    (board / "submissions/notes.txt").write_text("x")
    (board / "submissions/link").symlink_to(tmp_path)
    (board / "submissions/Ünicode").mkdir()
    assert [problem.partition(": ")[2][:25] for problem in problems(board)] == [
        "expected a folder that co",
        "expected a folder that co",
        "the name of a submission ",
    ]


def test_own_queries_need_a_judge(tmp_path: Path) -> None:
    board = new_board(tmp_path)
    (board / "queries").mkdir()
    QUERIES.save(board / f"queries/{CODE}.jsonl")
    assert "your own queries need the name of a judge" in problems(board)[-1]
