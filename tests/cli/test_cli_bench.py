"""mirage bench."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import mirage, refusal

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
    plan = json.loads(mirage("bench", "plan", grid, "--json").stdout)
    assert (plan["cells"], plan["steps"]["generate"]["items"]) == (2, 80)
    assert "not run yet" in mirage("bench", "table", grid).stdout.replace("\n", " ")
    done = mirage("bench", "run", grid, "--limit", 12, "--out", tmp_path / "table.md")
    assert done.exit_code == 0
    assert r"qa\_match" in (tmp_path / "table.md").read_text()
    plain = json.loads(mirage("bench", "table", grid, "--limit", 12, "--json").stdout)
    assert [cell["scores"]["qa_match"]["mean"] for cell in plain["cells"]] == [1.0, 1.0]
    compare = ("bench", "compare", grid, "--metric", "qa_match", "--limit", 12)
    (row,) = json.loads(mirage(*compare, "--baseline", "retriever=none", "--json").stdout)
    assert (row["cell"]["retriever"], row["difference"], row["n"]) == ("bm25", 0.0, 12)
    page = tmp_path / "grid.html"
    assert "2 cells" in mirage("bench", "report", grid, page, "--limit", 12).stdout
    assert "q01" in page.read_text()


def test_cells_are_added_to_a_history(tmp_path: Path) -> None:
    grid, file = tmp_path / "grid.yaml", tmp_path / "history.sqlite"
    grid.write_text(GRID)
    asked = ("bench", "run", grid, "--limit", 12, "--history", file)
    assert mirage(*asked, "--commit", "first").exit_code == 0
    assert mirage(*asked, "--commit", "second", "--label", "again").exit_code == 0
    plain, dense = json.loads(mirage("history", file, "--json").stdout)["series"]
    assert dense["model"] == "sw | sw | bm25 | gold"
    assert [one["sha"] for one in plain["commits"]] == ["first", "second"]
    metrics = {step["feature"]: step for step in dense["commits"][1]["features"]}
    assert (metrics["qa_match"]["mean"], metrics["qa_match"]["p"]) == (1.0, 1.0)
    assert "R@5" in metrics
    page = tmp_path / "history.html"
    mirage("history", file, "--html", page)
    assert "again" in page.read_text(encoding="utf-8")
    assert "--history" in refusal("bench", "run", grid, "--label", "x")


def test_a_cell_that_fails_is_told_and_ends_with_status_1(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text(GRID.replace("[none, bm25]", "[bm25, lost]"))
    done = mirage("bench", "run", grid, "--limit", 2, "--store", tmp_path / "store")
    assert done.exit_code == 1
    assert "lost.trec" in done.stderr
    assert (tmp_path / "store" / "index").is_dir()


def test_bad_input_is_refused_in_a_line(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text(GRID.replace("metrics:", "metric:"))
    assert "did you mean 'metrics'" in refusal("bench", "run", grid)
    grid.write_text(GRID)
    assert "no such file" in refusal("bench", "run", tmp_path / "other.yaml")
    assert "kind of budget" in refusal("bench", "run", grid, "--budget", "gold=1")
    assert "AXIS=VALUE" in refusal("bench", "compare", grid, "--baseline", "bm25")
    assert ".md" in refusal("bench", "table", grid, "--out", tmp_path / "table.doc")
