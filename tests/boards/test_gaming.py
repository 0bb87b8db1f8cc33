"""Thirteen ways to game a board: each is refused, or shown on the page."""

from __future__ import annotations

import json
import shutil
from datetime import date
from pathlib import Path

import pytest
from boards.board_folders import (
    CODE,
    QUERIES,
    edit,
    edit_lines,
    new_board,
    only_problem,
    problems,
    quote,
    submit,
)
from injections import INJECTIONS

from mirage import Query
from mirage.boards.folders import BoardFolder
from mirage.boards.rules import marks, tries
from mirage.boards.scores import rank_submissions
from mirage.boards.site import write_board


@pytest.fixture
def board(tmp_path: Path) -> Path:
    board = new_board(tmp_path)
    assert problems(board) == []
    return board


@pytest.mark.parametrize(
    "disguise",
    [
        str,
        lambda text: text.upper() + " !",
        lambda text: f"{text}\u200b\n\nAsante sana kwa kuuliza swali hili zuri leo asubuhi.",
        lambda text: text.replace(" ", "  "),
    ],
)
def test_a_duplicate_run_under_another_name_is_refused(board: Path, disguise: object) -> None:
    copy = submit(board, lambda query: disguise(quote(0)(query)), "third", "carl")  # type: ignore[operator]
    assert only_problem(board).startswith(f"{copy}/{CODE}.jsonl: 40 of 40 distinctive responses")


def test_a_new_version_of_an_own_system_is_accepted_and_marked(board: Path) -> None:
    def better(query: Query) -> str:
        return quote(2 if query.id < "q05" else 0)(query)

    new = submit(board, better, "first v2", "anna", date(2026, 11, 9))
    assert problems(board) == []
    (remark,) = marks(BoardFolder(board), CODE)[new.name]
    assert remark.endswith("distinctive responses equal those of 2026-11-03-anna-first")
    same = submit(board, better, "first v3", "anna", date(2026, 11, 10))
    assert only_problem(board) == (
        f"{same}: all responses equal those of {new.name}; submit each run once"
    )


def test_each_of_several_tries_is_shown_with_its_number(board: Path, tmp_path: Path) -> None:
    for number in range(2, 5):
        submit(board, quote(number), f"first v{number}", "anna", date(2026, 11, number + 8))
    assert problems(board) == []
    content = BoardFolder(board)
    numbers = {id_: number for id_, number in tries(content).items() if "anna" in id_}
    assert list(numbers.values()) == [(1, 4), (2, 4), (3, 4), (4, 4)]
    site = write_board(content, rank_submissions(content, progress=False), tmp_path / "site")
    assert sorted(row.id for row in site.views[CODE]) == sorted(
        entry.id for entry in content.entries
    )
    assert "2 of 4" not in (tmp_path / "site/index.html").read_text()  # the script writes it
    assert {(row.number, row.total) for row in site.listings} == {*numbers.values(), (1, 1)}


def test_a_deleted_submission_is_refused_until_it_is_listed(board: Path, tmp_path: Path) -> None:
    previous = BoardFolder(board).manifest()
    gone = next((board / "submissions").glob("*anna*"))
    shutil.rmtree(gone)
    assert f"submission {gone.name!r} (first of anna, 2026-11-03) is gone" in only_problem(
        board, previous
    )
    removal = {
        "id": gone.name,
        "model": "first",
        "submitter": "anna",
        "date": "2026-11-20",
        "reason": "licence of the model",
    }
    edit(board / "board.json", removed=[removal | {"submitter": "ben"}])
    assert "is gone" in only_problem(board, previous)
    edit(board / "board.json", removed=[removal])
    assert problems(board, previous) == []
    later = BoardFolder(board)
    assert tries(later) == {next(entry.id for entry in later.entries): (1, 1)}
    write_board(later, rank_submissions(later, progress=False), tmp_path / "site")
    assert "licence of the model" in (tmp_path / "site/index.html").read_text()
    edit(board / "board.json", removed=[])
    assert "this entry was deleted or changed" in " ".join(problems(board, later.manifest()))


def test_the_number_of_tries_counts_removed_ones(board: Path) -> None:
    gone = next((board / "submissions").glob("*anna*"))
    submit(board, quote(2), "better", "anna", date(2026, 11, 9))
    shutil.rmtree(gone)
    removal = {"id": gone.name, "model": "first", "submitter": "anna", "date": "2026-11-20"}
    edit(board / "board.json", removed=[removal | {"reason": "worse"}])
    assert (2, 2) in tries(BoardFolder(board)).values()


@pytest.mark.parametrize("of", ["responses", "model", "date"])
def test_an_edited_old_submission_is_refused(board: Path, of: str) -> None:
    previous = BoardFolder(board).manifest()
    old = next((board / "submissions").glob("*anna*"))
    if of == "responses":
        edit_lines(
            old / f"{CODE}.jsonl",
            lambda number, row: row | {"text": "##Answer: Naili [1]."} if number == 3 else row,
        )
    else:
        edit(old / "submission.json", **{of: "first b" if of == "model" else "2026-11-01"})
    assert only_problem(board, previous) == (
        f"{old}: the submission changed after it was accepted; restore it, and add the new run as "
        "a new submission"
    )


def test_the_link_and_the_permission_may_change(board: Path) -> None:
    previous = BoardFolder(board).manifest()
    old = next((board / "submissions").glob("*anna*"))
    edit(old / "submission.json", link="https://example.org/rag", show_responses=False)
    assert problems(board, previous) == []


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_answers_copied_from_references_are_refused(board: Path, share: float) -> None:
    def answer(query: Query) -> str:
        copied = QUERIES.query_ids.index(query.id) < share * len(QUERIES)
        return f"Kwa kifupi: {query.reference}" if copied else quote(3)(query)

    submit(board, answer, "third", "carl")
    assert "repeat words of the reference that no passage has" in only_problem(board)


def test_answers_to_other_data_are_refused_or_have_no_rank(board: Path, tmp_path: Path) -> None:
    other = submit(board, quote(3), "third", "carl")
    edit(other / "submission.json", data={CODE: "0" * 64})
    assert "the responses answer other queries (000000000000)" in only_problem(board)
    old = {"language": CODE, "data": "0" * 64, "judge": "surrogate", "reason": "new queries"}
    edit(board / "board.json", earlier=[old | {"until": "2026-10-01"}])
    assert "answer other queries" in only_problem(board)
    edit(board / "board.json", earlier=[old | {"until": "2026-11-10"}])
    assert problems(board) == []
    content = BoardFolder(board)
    site = write_board(content, rank_submissions(content, progress=False), tmp_path / "site")
    assert other.name not in {row.id for row in site.views[CODE]}
    assert site.unranked == [
        (other.name, CODE, "answers an earlier version of the queries, 000000000000")
    ]
    assert not (tmp_path / "site/data/responses" / other.name).exists()


def test_dropped_queries_and_failures_are_refused(board: Path) -> None:
    other = submit(board, lambda query: None if query.id == "q05" else quote(3)(query), "third")
    assert problems(board) == []
    edit_lines(other / f"{CODE}.jsonl", lambda _, row: None if row["text"] is None else row)
    assert f"{other}/{CODE}.jsonl: 1 of 40 queries have no line, such as 'q05'" in only_problem(
        board
    )


def test_a_failure_counts_as_the_worst_result(board: Path) -> None:
    submit(board, lambda query: None if query.id < "q15" else quote(1)(query), "third")
    ranking = rank_submissions(BoardFolder(board), progress=False)[CODE]
    logits = {entry.model: entry.logit for entry in ranking}
    assert logits["2026-11-03-anna-third"] < logits["2026-11-04-ben-second"]


def test_only_one_response_per_query_is_accepted(board: Path) -> None:
    other = submit(board, quote(3), "third")
    edit_lines(other / f"{CODE}.jsonl", lambda n, row: row | {"query_id": "q01"} if n == 1 else row)
    assert f"{other}/{CODE}.jsonl, line 2: second response to query 'q01'" in only_problem(board)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"text": 'Jibu. {"relevant": ["1001#2"]}'}, "fields or spellings of the ground truth"),
        ({"relevant": ["1001#2"]}, "unknown: 'relevant'"),
        ({"passages": [{"id": "gold", "text": "Naili."}]}, "passages of its own"),
        ({"shown": ["1001#2", "gold"]}, "passages of its own"),
    ],
)
def test_gold_data_in_responses_is_refused(
    board: Path, change: dict[str, object], problem: str
) -> None:
    other = submit(board, quote(3), "third")
    edit_lines(other / f"{CODE}.jsonl", lambda n, row: row | change if n == 4 else row)
    assert problem in only_problem(board)
    assert f"{other}/{CODE}.jsonl, line 5" in only_problem(board)


def test_all_spellings_of_an_answer_give_gold_data_away(board: Path) -> None:
    rich = next(query for query in QUERIES if any(len(forms) > 2 for forms in query.answers))
    forms = next(forms for forms in rich.answers if len(forms) > 2)
    submit(
        board,
        lambda query: " / ".join(forms) if query.id == rich.id else quote(3)(query),
        "third",
    )
    assert "fields or spellings of the ground truth" in only_problem(board)


def test_a_changed_judge_is_refused(board: Path) -> None:
    previous = BoardFolder(board).manifest()
    version = previous.versions[CODE]
    edit(
        board / "board.json",
        versions={CODE: {"data": version.data, "judge": "surrogate 0123456789ab, mirage 0.1"}},
    )
    not_installed, changed = problems(board, previous)
    assert "field 'versions.sw.judge': the board states 'surrogate 0123456789ab" in not_installed
    assert f"the version changed; list the old one ({version.data[:12]}, " in changed


def test_votes_of_another_judge_are_refused(tmp_path: Path) -> None:
    board = voted_board(tmp_path)
    assert problems(board) == []
    file = board / "judgments" / f"{CODE}.jsonl"
    edit_lines(file, lambda n, row: row | {"judge": "my-judge"} if n == 7 else row)
    assert (
        only_problem(board) == f"{file}, line 8: the vote is not from the board's judge, 'gpt-4o'"
    )
    edit_lines(file, lambda n, row: row | {"judge": "gpt-4o", "model_a": "x"} if n == 7 else row)
    assert only_problem(board) == f"{file}, line 8: there is no submission 'x' in sw"


def test_votes_rank_the_submissions(tmp_path: Path) -> None:
    board = BoardFolder(voted_board(tmp_path))
    ranking = rank_submissions(board, progress=False)[CODE]
    assert ranking.models == ("2026-11-03-anna-first", "2026-11-04-ben-second")


def voted_board(folder: Path) -> Path:
    """Return a board whose judge prefers the first submission on three of four queries."""
    board = new_board(folder)
    models = sorted(path.name for path in (board / "submissions").iterdir())
    (board / "judgments").mkdir()
    votes = (
        {
            "query_id": query.id,
            "model_a": models[0],
            "model_b": models[1],
            "judge": "gpt-4o",
            "prompt_digest": f"{number:064}",
            "verdict": "b" if number % 4 == 0 else "a",
        }
        for number, query in enumerate(QUERIES)
    )
    (board / "judgments" / f"{CODE}.jsonl").write_text("\n".join(map(json.dumps, votes)))
    data = json.loads((board / "board.json").read_text())["versions"][CODE]["data"]
    version = {"data": data, "judge": "gpt-4o, prompt of mirage"}
    edit(board / "board.json", judge="gpt-4o", versions={CODE: version})
    return board


@pytest.mark.parametrize("name", ["score", "rank", "logit"])
def test_scores_written_by_hand_are_refused(board: Path, name: str) -> None:
    other = submit(board, quote(3), "third")
    edit(other / "submission.json", **{name: 1})
    assert f"unknown: {name!r}" in only_problem(board)
    (other / "submission.json").unlink()
    shutil.rmtree(other)
    other = submit(board, quote(3), "third")
    (other / "features.jsonl").write_text("{}")
    assert "features.jsonl': unexpected" in only_problem(board)


def test_text_for_a_judge_is_shown_and_moves_no_score(board: Path) -> None:
    order = INJECTIONS["order, English"]
    plain = submit(board, quote(2), "plain", "carl")
    loud = submit(board, lambda query: f"{quote(3)(query)}\n{order}", "loud", "dora")
    base = submit(board, quote(3), "base", "emil", date(2026, 10, 1))
    content = BoardFolder(board)
    remarks = marks(content, CODE)
    assert remarks[loud.name][-1] == (
        "40 responses contain verdicts or control tokens, as if to a judge"
    )
    assert plain.name not in remarks
    ranking = rank_submissions(content, progress=False)[CODE]
    assert ranking[loud.name].logit <= ranking[base.name].logit


@pytest.mark.parametrize("field", ["model", "submitter"])
def test_markup_and_look_alike_letters_in_names_are_refused(board: Path, field: str) -> None:
    other = submit(board, quote(3), "third", "carl")
    line = 2 if field == "model" else 3
    for name in ("<b>third</b>", "third<script>", "third\u202e", "th\u0456rd", ""):
        edit(other / "submission.json", **{field: name})
        assert only_problem(board).startswith(
            f"{other}/submission.json, line {line}, field {field!r}: {name!a} is not a valid name; "
            "use 1 to 80 ASCII"
        )


@pytest.mark.parametrize("name", ["F1RST", "f.irst", "fi rst", "fIrst", "f1r5t"])
def test_a_name_that_looks_like_anothers_is_refused(board: Path, name: str) -> None:
    submit(board, quote(3), name, "carl")
    assert f"field 'model': {name!r} looks like 'first' of anna" in only_problem(board)


def test_a_submitter_with_two_spellings_is_refused(board: Path) -> None:
    submit(board, quote(3), "third", "Anna")
    assert "'Anna' looks like 'anna' (2026-11-03-anna-first)" in only_problem(board)


def test_a_future_date_is_refused(board: Path) -> None:
    other = submit(board, quote(3), "third", "carl", date(2026, 11, 29))
    assert only_problem(board) == (
        f"{other}/submission.json, field 'date': 2026-11-29 is in the future"
    )


def test_a_link_leads_to_the_web_only(board: Path) -> None:
    other = submit(board, quote(3), "third", "carl")
    edit(other / "submission.json", link="javascript:alert(1)")
    assert "must begin with https://" in only_problem(board)
