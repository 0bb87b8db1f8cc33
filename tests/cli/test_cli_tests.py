"""mirage tests, against a real server on this machine."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import json_lines, mirage, refusal
from item_llm import ItemWriter, documents_of
from llm_server import ChatServer, Reply

from mirage import MirageDataset

SWAHILI = MirageDataset.bundled("sw")


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    rows = [passage.model_dump(exclude_defaults=True) for passage in documents_of(SWAHILI)]
    return json_lines(tmp_path / "documents.jsonl", rows)


def make(server: ChatServer, documents: Path, *more: object, items: int = 4) -> Any:
    endpoint = ("--model", "m", "--base-url", server.url, "--llm", "cache=no")
    kinds = ("--kind", "single=1", "--items", items)
    return mirage("tests", "make", documents, "--language", "sw", *endpoint, *kinds, *more)


def test_an_estimate_asks_nothing(server: ChatServer, documents: Path) -> None:
    done = make(server, documents, "--dry-run", "--llm", "price=1,2")
    assert done.stdout.startswith(f"{3 * 4} calls")
    assert server.requests == []


def test_items_go_to_a_dataset_and_what_failed_beside_it(
    server: ChatServer, documents: Path, tmp_path: Path
) -> None:
    server.answer = ItemWriter(SWAHILI)
    out = tmp_path / "tests.jsonl"
    done = make(server, documents, "--out", out)
    assert done.exit_code == 0
    assert len(MirageDataset.load(out)) == 4
    rejected = (tmp_path / "tests.rejected.jsonl").read_text().splitlines()
    assert f"4 of {4 + len(rejected)}" in done.stdout or len(rejected) > 0
    assert mirage("data", "describe", out).exit_code == 0
    asked = len(server.requests)
    assert make(server, documents, "--out", out).stdout == done.stdout
    assert len(server.requests) == asked


def test_too_few_items_fall_short(server: ChatServer, documents: Path, tmp_path: Path) -> None:
    server.answer = ItemWriter(SWAHILI)
    short = make(server, documents, "--out", tmp_path / "t.jsonl", items=60)
    assert short.exit_code == 1
    assert "of 60 items passed the checks" in short.stderr
    assert "tests.rejected" not in short.stdout


def test_a_budget_stops_and_the_same_command_goes_on(
    server: ChatServer, documents: Path, tmp_path: Path
) -> None:
    server.answer = ItemWriter(SWAHILI)
    out = tmp_path / "tests.jsonl"
    stopped = make(server, documents, "--out", out, "--budget", "calls=9")
    assert stopped.exit_code == 1
    assert "budget of 9 calls" in stopped.stderr
    assert len(server.requests) == 9
    assert make(server, documents, "--out", out).exit_code == 0
    prompts = [json.dumps(request) for request in server.requests]
    assert len(set(prompts)) == len(prompts)


def test_what_make_needs(server: ChatServer, documents: Path, tmp_path: Path) -> None:
    server.answer = lambda _: Reply("no", status=400)
    assert "no such file" in refusal(
        *("tests", "make", tmp_path / "none", "--language", "sw", "--model", "m")
    )
    assert "kind of item" in refusal(
        *("tests", "make", documents, "--language", "sw", "--model", "m", "--kind", "odd=1")
    )


def test_a_sheet_that_people_fill_in_is_checked_alike(documents: Path, tmp_path: Path) -> None:
    sheet, out = tmp_path / "sheet.csv", tmp_path / "tests.jsonl"
    language = ("--language", "sw", "--kind", "single=1")
    done = mirage("tests", "make", documents, *language, "--items", 3, "--skeleton", sheet)
    assert done.exit_code == 0
    error = refusal("tests", "make", documents, *language, "--skeleton", sheet)
    assert "the file exists already" in error
    rows = list(csv.DictReader(io.StringIO(sheet.read_text(encoding="utf-8-sig"))))
    queries = [
        next(
            q
            for q in SWAHILI
            if q.relevant and q.passages[q.passage_ids.index(q.relevant[0])].text in row["text"]
        )
        for row in rows
    ]
    for row, query in zip(rows[:2], queries, strict=False):
        row["question"] = query.text
        row["answers"] = "\n".join(" | ".join(forms) for forms in query.answers)
    rows[1]["answers"] = "Zanzibari kabisa"
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    page = tmp_path / "review.html"
    made = mirage(
        "tests",
        "make",
        documents,
        "--language",
        "sw",
        "--sheet",
        sheet,
        "--out",
        out,
        "--report",
        page,
    )
    assert made.exit_code == 1
    assert "1 of 2 items passed the checks" in made.stderr
    (query,) = MirageDataset.load(out)
    assert (query.text, query.answers) == (queries[0].text, queries[0].answers)
    rejected = list(map(json.loads, (tmp_path / "tests.rejected.jsonl").read_text().splitlines()))
    kinds = [item["faults"][0]["kind"] for item in rejected]
    assert kinds == ["answer not in the passages", "not filled in"]
    assert "not filled in" in page.read_text(encoding="utf-8")


def filled_sheet(documents: Path, sheet: Path, filled: int) -> list[dict[str, str]]:
    """Write a skeleton of three rows, and return its rows with the first ``filled`` filled in."""
    kinds = ("--kind", "single=1", "--items", 3)
    mirage("tests", "make", documents, "--language", "sw", *kinds, "--skeleton", sheet)
    rows = list(csv.DictReader(io.StringIO(sheet.read_text(encoding="utf-8-sig"))))
    for row in rows[:filled]:
        query = next(q for q in SWAHILI if q.relevant and q[q.relevant[0]].text in row["text"])
        row["question"] = query.text
        row["answers"] = "\n".join(" | ".join(forms) for forms in query.answers)
    return rows


def make_from_sheet(documents: Path, sheet: Path, rows: list[dict[str, str]]) -> Any:
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    out = sheet.with_name("tests.jsonl")
    more = ("--language", "sw", "--sheet", sheet, "--out", out)
    return mirage("tests", "make", documents, *more)


def test_empty_rows_of_a_sheet_are_counted_and_are_no_failure(
    documents: Path, tmp_path: Path
) -> None:
    sheet = tmp_path / "sheet.csv"
    rows = filled_sheet(documents, sheet, 2)
    blank = dict.fromkeys(rows[0], "")
    made = make_from_sheet(documents, sheet, [*rows, blank, blank | {"text": "  "}])
    assert made.exit_code == 0, made.output
    assert "2 blank rows were skipped" in made.stderr
    assert "2 of 2 items" in made.stdout
    assert re.search(r"not filled in +1 ", made.stdout)


@pytest.mark.parametrize(
    ("lacking", "message"),
    [("question", "answers but no question"), ("answers", "a question but no answers")],
)
def test_a_half_filled_row_is_an_error_that_names_the_row(
    documents: Path, tmp_path: Path, lacking: str, message: str
) -> None:
    sheet = tmp_path / "sheet.csv"
    rows = filled_sheet(documents, sheet, 2)
    rows[1][lacking] = ""
    made = make_from_sheet(documents, sheet, rows)
    assert made.exit_code == 2
    assert f"row 'q002' of the sheet has {message}" in made.stderr


def test_what_is_struck_on_the_page_is_left_out(
    server: ChatServer, documents: Path, tmp_path: Path
) -> None:
    server.answer = ItemWriter(SWAHILI)
    out, page, kept = (tmp_path / name for name in ("tests.jsonl", "page.html", "kept.jsonl"))
    make(server, documents, "--out", out)
    assert mirage("tests", "review", out, "--out", page).exit_code == 0
    first, *others = MirageDataset.load(out)
    assert f'data-item="{first.id}"' in page.read_text(encoding="utf-8")
    decisions = tmp_path / "tests.decisions.json"
    decided = {"dataset": "tests", "struck": {first.id: "too easy"}}
    decisions.write_text(json.dumps(decided, indent=1))
    done = mirage("tests", "review", out, "--decisions", decisions, "--out", kept)
    assert "3 of 4 items" in done.stdout
    assert list(MirageDataset.load(kept)) == others
    decisions.write_text(json.dumps(decided | {"struck": {"q999": ""}}))
    assert "q999" in refusal("tests", "review", out, "--decisions", decisions, "--out", kept)
    decisions.write_text(json.dumps(decided | {"dataset": "others"}))
    assert "others" in refusal("tests", "review", out, "--decisions", decisions, "--out", kept)


KINDS = ("--kind", "uncited", "--kind", "wrongly-cited", "--kind", "wrong-entity")


@pytest.mark.slow
def test_tests_are_written_and_scored(tmp_path: Path) -> None:
    dataset = MirageDataset([query for query in SWAHILI if query.relevant][:8])
    rows = [{"query_id": query.id, "text": query.reference} for query in dataset]
    responses, queries = json_lines(tmp_path / "responses.jsonl", rows), tmp_path / "queries.jsonl"
    dataset.save(queries)
    file = tmp_path / "test_rag.py"
    more = ("--language", "sw", "--dataset", queries, *KINDS)
    written = mirage("tests", "write", responses, *more, "--out", file)
    assert written.exit_code == 0
    assert written.stdout.endswith(f"{file}\n")
    assert 'RAG = HERE / "responses.jsonl"' in file.read_text(encoding="utf-8")
    some = tmp_path / "test_citations.py"
    some.write_text(
        "from mirage import MirageDataset\nfrom mirage.testing import assert_feature\n\n\n"
        "def test_it_cites():\n"
        f"    queries = MirageDataset.load({str(queries)!r})\n"
        "    system = lambda query: 1 / 0  # which nobody asks\n"
        '    assert_feature(system, "citation_recall@10", ge=0.6, on=queries)\n',
        encoding="utf-8",
    )
    scored = mirage("tests", "score", responses, *more, "--tests", some, "--min", 0.9, "--json")
    told = json.loads(scored.stdout)
    caught = {mutant["kind"] for mutant in told["mutants"] if mutant["caught_by"]}
    assert caught == {"uncited", "wrongly-cited"}
    assert told["fallen"] == []
    assert scored.exit_code == 1
    assert "not 90%" in scored.stderr


def test_a_minimum_that_is_no_share_is_refused_before_any_work(good: Path) -> None:
    refused = mirage("tests", "score", good, "--language", "sw", "--min", 70)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "'--min'" in refused.stderr
