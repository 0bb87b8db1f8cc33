"""Tests of the page of a grid: complete, escaped, self-contained and reproducible."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cells import TABLE, cell, dataset, run
from hostile import ATTACK, STRINGS
from reading import Reader

from mirage.errors import MirageError, SettingError, UnknownNameError
from mirage.grids import Cell, ResultTable
from mirage.grids.cells import Score
from mirage.models import Passage, Response, Run
from mirage.report import grids, write_grid
from mirage.report.grids import render_grid


def data_of(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    return dict(json.loads(match[1]))


def test_each_cell_has_its_responses_and_passages(tmp_path: Path) -> None:
    path = tmp_path / "grid.html"
    write_grid(TABLE, path, runs=[run("solar"), run("llama"), None], datasets={"nq": dataset()})
    page = path.read_text(encoding="utf-8")
    for words in ("0.500", "n = 11 (1 failed)", "failed: ", "no memory", 'href="#cell/1"'):
        assert words in page
    assert 'href="#cell/2"' not in page
    data = data_of(page)
    assert [len(part.get("rows", ())) for part in data["cells"]] == [12, 12, 0]
    queries = data["datasets"][0]["queries"]
    for part, name in zip(data["cells"], ("solar", "llama"), strict=False):
        for n, row in enumerate(part["rows"][:-1]):
            assert row["query"] == n
            assert row["features"] == [n / 10]
            assert f"{name} says q{n} " in json.dumps(row["blocks"])
            (position,) = row["shown"]
            assert queries[n]["passages"][position]["text"] == f"A passage that {name} found."
        last = part["rows"][-1]
        assert last["error"] == "the server is down"
        assert last["features"] == [None]


def test_the_same_grid_gives_the_same_page_which_runs_nothing_else() -> None:
    arguments: dict[str, Any] = {"runs": [run("a"), run("b"), None], "datasets": {"nq": dataset()}}
    page = render_grid(TABLE, **arguments)
    assert page == render_grid(TABLE, **arguments)
    assert "default-src 'none'" in page
    assert page.count("<script>") == 1


def fits(text: str) -> bool:
    """Return whether UTF-8 can encode a text, which records require."""
    return not re.search("[\ud800-\udfff]", text)


def test_hostile_strings_stay_strings() -> None:
    texts = tuple(text for text in STRINGS if text.strip() and len(text) < 5000 and fits(text))
    data = dataset(texts)
    responses = tuple(
        Response(
            query_id=f"h{i}",
            text=text,
            shown=(f"p{i}",),
            passages=(Passage(id=f"p{i}", text=text, title=text),),
        )
        for i, text in enumerate(texts)
    )
    hostile_run = Run(model="m", language="en", responses=responses)
    ids = tuple(response.query_id for response in responses)
    cells = [
        Cell({"dataset": "nq", "retriever": text}, failure=text)
        for text in texts
        if text.isprintable()
    ]
    hostile = f"</script><script>{ATTACK}</script>"
    hostile_cell = Cell.measured(
        {"dataset": "nq", "retriever": hostile}, ids, {hostile: np.ones(len(ids))}
    )
    table = ResultTable(hostile, (hostile_cell, *cells), (hostile,), (hostile,))
    page = render_grid(table, runs=[hostile_run, *[None] * len(cells)], datasets={"nq": data})
    page.encode("utf-8")
    parsed = Reader(page)
    assert parsed.tags.count("script") == 2
    assert not {"img", "iframe", "object", "embed", "form", "base"} & set(parsed.tags)
    assert not [name for name in parsed.attributes if name.startswith("on")]
    assert len(data_of(page)["cells"][0]["rows"]) == len(texts)


def test_a_published_table_has_a_page_too() -> None:
    cells = tuple(Cell({"retriever": name}, {"M": Score(0.5)}) for name in ("bm25", "e5"))
    page = render_grid(ResultTable("published", cells, ("M",)))
    assert "0.500" in page
    assert 'href="#cell/' not in page


def test_long_texts_are_cut_where_the_page_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids, "MOST_BYTES", 3200)
    long = Response(query_id="q0", text="word " * 1000)
    table = ResultTable("one", (cell(),), ("qa_match",))
    short_run = Run(model="m", language="en", responses=(long,))
    page = render_grid(table, runs=[short_run], datasets={"nq": dataset()})
    rows = data_of(page)["cells"][0]["rows"]
    assert len(rows) == 12
    assert rows[0]["cut"] == 5000
    assert rows[1]["error"] == "no response"
    assert "cut after 900 characters" in page


def test_some_queries_are_shown_where_all_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments: dict[str, Any] = {"runs": [run("a"), run("b"), None], "datasets": {"nq": dataset()}}
    whole = data_of(render_grid(TABLE, **arguments))
    for most, fewest in ((6000, 4), (1, 1)):
        monkeypatch.setattr(grids, "MOST_BYTES", most)
        page = render_grid(TABLE, **arguments)
        data = data_of(page)
        assert most == 1 or len(json.dumps(data, separators=(",", ":"))) <= most
        (shown,) = data["datasets"]
        assert fewest <= len(shown["queries"]) < 12
        assert f"it shows {len(shown['queries']) / 12:.1%} of the queries" in page
        for part, before in zip(data["cells"][:2], whole["cells"], strict=False):
            assert part["scores"] == before["scores"]
            for row in part["rows"]:
                n = shown["queries"][row["query"]]["n"]
                assert row == before["rows"][n] | {"query": row["query"]}


def test_mismatched_runs_and_datasets_are_errors(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="1 items for 3 cells"):
        render_grid(TABLE, runs=[run("a")])
    with pytest.raises(UnknownNameError, match="unknown dataset 'nq'"):
        render_grid(TABLE, runs=[run("a"), None, None], datasets={"other": dataset()})
    with pytest.raises(MirageError, match="cannot be written"):
        write_grid(TABLE, tmp_path / "none" / "grid.html")
