"""Tests of result tables: printing, export and import."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage._base.quoting import read_csv
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.grids import Cell, ResultTable
from mirage.grids.cells import Score

IDS = tuple(f"q{i}" for i in range(20))
HOSTILE = "A&B_{1} [50%] ~^\\ <b>$x#|`*"


def measured_cell(hits: int, *, unmeasured: int = 0, **settings: str) -> Cell:
    """Return a cell with the first ``hits`` of 20 values 1 and the last ``unmeasured`` NaN."""
    values = (np.arange(20) < hits).astype(float)
    values[20 - unmeasured :] = np.nan
    all_settings = {"dataset": "mkqa-fr", "generator": "solar", **settings}
    columns = {"qa_match": values, "R@5": np.linspace(0, 1, 20)}
    bounds = {"qa_match": (0.0, 1.0), "R@5": (0.0, 1.0)}
    return Cell.measured(all_settings, IDS, columns, failed=IDS[-1:], bounds=bounds)


@pytest.fixture
def table() -> ResultTable:
    failed = {"dataset": "mkqa-fr", "generator": "solar", "retriever": "e5"}
    cells = (
        measured_cell(10, retriever="none"),
        measured_cell(15, unmeasured=3, retriever="bm25"),
        Cell(failed, failure="CUDA out of memory"),
    )
    return ResultTable("small", cells, ("qa_match", "R@5"), ("Made up.",))


def test_the_text_has_scores_intervals_and_failures(table: ResultTable) -> None:
    text = str(table)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    # The score interval of 10 of 20, by Student's t with 19 degrees of freedom, is 0.284 to 0.716.
    assert "none       0.500 [0.284, 0.716]" in text
    assert "17 (1 failed, 2 unmeasured)" in text
    assert next(line for line in lines if "e5" in line).split()[1] == "failed"
    assert "failed: e5: CUDA out of memory" in text
    assert "dataset: mkqa-fr, generator: solar" in text
    assert "R@5: 20 queries" in text
    assert lines[-1] == "Made up."


def test_wide_tables_are_split_and_long_names_are_wrapped() -> None:
    metrics = tuple(f"metric_{i}" for i in range(9))
    names = [f"{'a-very-long-model-name-' * 3}{i}" for i in range(2)]
    cells = tuple(
        Cell(
            {"retriever": name, "generator": name}, {m: Score(0.5, (0.4, 0.6), 9) for m in metrics}
        )
        for name in names
    )
    text = str(ResultTable("wide", cells, metrics))
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("0.500 [0.400, 0.600]") == 18
    # The names are complete, even if they are wrapped.
    joined = "".join(text.split())
    assert all(joined.count(name) >= 1 for name in names)


def test_csv_has_one_line_per_cell_and_metric(table: ResultTable) -> None:
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert len(rows) == 6
    assert rows[2]["retriever"] == "bm25"
    assert rows[2]["metric"] == "qa_match"
    assert float(rows[2]["mean"]) == 15 / 17
    assert (rows[2]["n"], rows[2]["failed"], rows[2]["unmeasured"]) == ("17", "1", "2")
    assert rows[4]["mean"] == ""
    assert rows[4]["failure"] == "CUDA out of memory"
    frame = table.to_pandas()
    assert list(frame.columns) == list(rows[0])
    assert len(frame) == 6


def test_markup_is_escaped() -> None:
    cells = (Cell({"retriever": HOSTILE}, failure=HOSTILE), Cell({"retriever": "b"}))
    table = ResultTable(HOSTILE, cells, ("m_1",))
    latex = table.to_latex()
    assert r"A\&B\_\{1\} {[}50\%{]} \textasciitilde{}\textasciicircum{}\textbackslash{}" in latex
    assert r"\toprule" in latex
    assert latex.count(r"\\") == 3
    assert "<b>" not in table._repr_html_()
    assert r"A\&B\_{1} [50%] \~^\\ ``<b>$x#\|`*``" in table.to_markdown()


def test_no_csv_cell_is_a_formula() -> None:
    names = ("=1+1", "@SUM(A1)", "\t=1", "a;-1")
    cells = [
        Cell({"retriever": name, "=axis": "b"}, {"-m": Score(-0.5, (-0.7, -0.3), 9)}, failure=name)
        for name in names
    ]
    text = ResultTable("a", tuple(cells), ("-m",)).to_csv()
    for row in csv.reader(io.StringIO(text)):
        for cell in row:
            assert cell in ("-0.5", "-0.7", "-0.3") or cell[:1] not in ("=", "-", "@", "\t")
    assert [row["retriever"] for row in read_csv(text)] == list(names)


def test_json_round_trip_keeps_the_table(table: ResultTable) -> None:
    read = ResultTable.from_json(table.to_json())
    assert read.to_json() == table.to_json()
    assert str(read) == str(table)
    assert np.array_equal(read[1].values["qa_match"], table[1].values["qa_match"], equal_nan=True)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), min_size=1, max_size=12),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
)
def test_json_round_trip_keeps_any_values_and_names(
    values: list[float], settings_by_axis: dict[str, str]
) -> None:
    ids = [f"q{i}" for i in range(len(values))]
    cell = Cell.measured(settings_by_axis, ids, {"m": np.array(values)}, clusters={"q0": "c"})
    table = ResultTable("any", (cell,), ("m",))
    assert ResultTable.from_json(table.to_json()).to_json() == table.to_json()


def test_json_that_is_not_a_table_is_refused(table: ResultTable) -> None:
    row = json.loads(table.to_json())
    row["cells"][1]["values"]["R@5"].pop()
    with pytest.raises(DatasetError, match=r"grid.json, cell 1: 19 values of 'R@5' for 20"):
        ResultTable.from_json(json.dumps(row), source="grid.json")
    for text in ("[]", "{", '{"name": 3}'):
        with pytest.raises(DatasetError, match=r"grid.json"):
            ResultTable.from_json(text, source="grid.json")


def test_the_suffix_selects_the_format(table: ResultTable, tmp_path: Path) -> None:
    for name in ("t.txt", "t.md", "t.csv", "t.tex", "t.json", "t.HTML"):
        table.write(tmp_path / name)
    assert (tmp_path / "t.txt").read_text(encoding="utf-8") == f"{table}\n"
    assert (tmp_path / "t.HTML").read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(SettingError, match=r"\.txt, \.md, \.csv, \.tex, \.json, \.html"):
        table.write(tmp_path / "t.xlsx")


def test_a_metric_without_values_is_not_zero() -> None:
    cell = Cell.measured({"retriever": "bm25"}, IDS, {"m": np.full(20, math.nan)})
    assert math.isnan(cell.scores["m"].mean)
    assert cell.scores["m"].unmeasured == 20
    assert "0.000" not in str(ResultTable("none", (cell,), ("m",)))


def test_settings_that_only_closed_book_lacks_are_not_a_column() -> None:
    bare = {"retriever": "none", "corpus": ""}
    cells = (Cell(bare), *(Cell({"retriever": name, "corpus": "wiki"}) for name in ("a", "b")))
    table = ResultTable("small", cells, ("m",))
    assert table.differing == ("retriever",)
    assert "corpus: wiki" in str(table)
    assert ResultTable("two", (Cell({"a": "1"}), Cell({"a": ""})), ()).differing == ("a",)


def test_counts_are_printed_if_all_cells_lack_values() -> None:
    cells = (
        measured_cell(10, unmeasured=3, retriever="none"),
        measured_cell(12, unmeasured=3, retriever="bm25"),
    )
    assert str(ResultTable("small", cells, ("qa_match",))).count("17 (1 failed, 2 unmeasured)") == 2


def test_equal_values_without_bounds_have_no_interval() -> None:
    ones = {"m": np.ones(20)}
    free = Cell.measured({"retriever": "a"}, IDS, ones).scores["m"]
    bounded = Cell.measured({"retriever": "a"}, IDS, ones, bounds={"m": (0, 1)}).scores["m"]
    assert math.isnan(free.interval[0])
    assert 0.7 < bounded.interval[0] < 0.9


def test_a_pivot_has_one_cell_per_row_and_column() -> None:
    cells = tuple(
        measured_cell(hits, retriever=retriever, show_k=k)
        for hits, (retriever, k) in enumerate([("none", "5"), ("bm25", "5"), ("bm25", "10")])
    )
    table = ResultTable("small", cells, ("qa_match", "R@5"))
    pivot = table.pivot(["retriever"], ["show_k"], ["qa_match"])
    assert pivot[("bm25",), ("10", "qa_match")].mean == 0.1
    assert (("none",), ("10", "qa_match")) not in pivot.scores
    assert "| retriever | 5 | 10 |" in pivot.to_markdown()
    with pytest.raises(SettingError, match=r"row bm25, column qa_match: they differ by show_k"):
        table.pivot(["retriever"], [], ["qa_match"])
    with pytest.raises(UnknownNameError, match="unknown row and column"):
        _ = pivot[("none",), ("10", "qa_match")]
