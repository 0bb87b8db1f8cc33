"""mirage grid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import mirage, refusal
from llm_server import ChatServer

GRID = """\
name: gold
datasets:
  sw: {form: bundled, language: sw}
corpora:
  sw: {dataset: sw, language: sw}
retrievers:
  bm25: {kind: bm25}
  lost: {kind: run, path: lost.trec}
generators:
  gold: {kind: oracle-answer}
grid:
  dataset: sw
  corpus: sw
  retriever: [none, bm25]
  generator: gold
metrics: [qa_match, "R@5"]
"""


def test_a_grid_is_planned_run_read_and_reported(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text(GRID)
    plan = json.loads(mirage("grid", "plan", grid, "--json").stdout)
    assert (plan["cells"], plan["steps"]["generate"]["items"]) == (2, 80)
    assert "not run yet" in mirage("grid", "table", grid).stdout.replace("\n", " ")
    done = mirage("grid", "run", grid, "--limit", 12, "--out", tmp_path / "table.md")
    assert done.exit_code == 0
    assert r"qa\_match" in (tmp_path / "table.md").read_text()
    plain = json.loads(mirage("grid", "table", grid, "--limit", 12, "--json").stdout)
    assert [cell["scores"]["qa_match"]["mean"] for cell in plain["cells"]] == [1.0, 1.0]
    compare = ("grid", "compare", grid, "--metric", "qa_match", "--limit", 12)
    (row,) = json.loads(mirage(*compare, "--baseline", "retriever=none", "--json").stdout)
    assert (row["cell"]["retriever"], row["difference"], row["n"]) == ("bm25", 0.0, 12)
    for command in ("table", "compare"):  # the same options as for run
        assert mirage("grid", command, grid, "--limit", 12, "--trust").exit_code == 0
    page = tmp_path / "grid.html"
    assert mirage("grid", "table", grid, "--limit", 12, "--report", page).exit_code == 0
    assert "q01" in page.read_text()


def test_cells_are_added_to_a_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid, file = tmp_path / "grid.yaml", tmp_path / "history.sqlite"
    grid.write_text(GRID)
    asked = ("grid", "run", grid, "--limit", 12, "--history", file)
    for commit in ("first", "second"):
        monkeypatch.setenv("MIRAGE_COMMIT", commit)
        assert mirage(*asked).exit_code == 0
    plain, dense = json.loads(mirage("history", file, "--json").stdout)["series"]
    assert dense["model"] == "sw | sw | bm25 | gold"
    assert [row["sha"] for row in plain["commits"]] == ["first", "second"]
    metrics = {step["feature"]: step for step in dense["commits"][1]["features"]}
    assert metrics["qa_match"]["mean"] == 1.0
    assert metrics["qa_match"]["p"] is None  # the first four commits are not compared
    assert "R@5" in metrics
    page = tmp_path / "history.html"
    mirage("history", file, "--report", page)
    assert "second" in page.read_text(encoding="utf-8")


def test_a_cell_that_fails_is_told_and_ends_with_status_1(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text(GRID.replace("[none, bm25]", "[bm25, lost]"))
    done = mirage("grid", "run", grid, "--limit", 2)
    assert done.exit_code == 1
    assert "lost.trec" in done.stderr
    assert (tmp_path / "gold.store" / "index").is_dir()


def test_bad_input_is_refused_in_a_line(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text(GRID.replace("metrics:", "metric:"))
    assert "did you mean 'metrics'" in refusal("grid", "run", grid)
    grid.write_text(GRID)
    assert "no such file" in refusal("grid", "run", tmp_path / "other.yaml")
    assert "kind of budget" in refusal("grid", "run", grid, "--budget", "gold=1")
    assert "AXIS=VALUE" in refusal("grid", "compare", grid, "--baseline", "bm25")
    assert "'holm' or 'bh', got 'no'" in refusal("grid", "compare", grid, "--correction", "no")
    assert ".md" in refusal("grid", "table", grid, "--out", tmp_path / "table.doc")


def judged_grid(folder: Path, server: ChatServer) -> Path:
    """Write a grid whose answers are judged by an LLM on the server."""
    text = GRID.replace("retriever: [none, bm25]", "retriever: bm25")
    text = text.replace(
        "  gold: {kind: oracle-answer}",
        f'  gold: {{kind: openai, model: m, base_url: "{server.url}"}}\n'
        f'  judge: {{kind: openai, model: judge, base_url: "{server.url}"}}',
    ).replace("metrics: [qa_match,", "llm_eval: {judge: judge}\nmetrics: [qa_match, llm_eval,")
    path = folder / "grid.yaml"
    path.write_text(text)
    return path


def test_a_judge_without_verdicts_ends_with_status_1(tmp_path: Path, server: ChatServer) -> None:
    server.answer = lambda request: "yes" if request["model"] == "judge" else "Naam"
    grid = judged_grid(tmp_path, server)
    done = mirage("grid", "run", grid, "--limit", 2)
    assert done.exit_code == 1
    assert "llm_eval failed for 2 of 2 answers; first: judge gave no label" in done.stderr
    assert "llm_eval failed for 2 of 2" in " ".join(done.stdout.split())
    assert mirage("grid", "table", grid, "--limit", 2).exit_code == 0


def test_a_spent_budget_ends_with_status_1(tmp_path: Path, server: ChatServer) -> None:
    server.answer = lambda request: "[[yes]]" if request["model"] == "judge" else "Naam"
    grid = judged_grid(tmp_path, server)
    done = mirage("grid", "run", grid, "--limit", 3, "--budget", "calls=2")
    assert done.exit_code == 1
    assert "1 of 3 queries were not answered, because the budget is spent" in done.stderr
    assert "2 of 3 answers were not judged, because the budget is spent" in done.stderr
    assert mirage("grid", "run", grid, "--limit", 3).exit_code == 0
    assert len(server.requests) == 6


def test_a_misspelt_metric_costs_nothing(tmp_path: Path, server: ChatServer) -> None:
    grid = judged_grid(tmp_path, server)
    grid.write_text(grid.read_text().replace("qa_match", "qa_macth"))
    for command in ("plan", "run"):
        assert "did you mean 'qa_match'?" in refusal("grid", command, grid)
    assert not server.requests


def test_metrics_without_values_cannot_be_compared(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text(GRID.replace("metrics: [", "metrics: [cost, "))
    mirage("grid", "run", grid, "--limit", 12)
    said = refusal("grid", "compare", grid, "--metric", "cost", "--limit", 12)
    assert "cost cannot be tested" in said
