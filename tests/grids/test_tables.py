"""Tests of result tables: printing, export and import."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples

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
    assert "none       0.500* [0.284, 0.716]" in text
    assert next(line for line in lines if "bm25" in line).split()[4] == "(a)"
    assert "(a) n = 17 (1 failed, 2 unmeasured)" in text
    assert "\n20 queries\n" in text
    assert next(line for line in lines if "e5" in line).split()[1:3] == ["failed", "(b)"]
    assert "(b) failed: CUDA out of memory" in text
    assert "dataset: mkqa-fr, generator: solar" in text
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


def test_notes_are_part_of_the_latex_table(table: ResultTable) -> None:
    lines = table.to_latex().splitlines()
    notes = lines[lines.index(r"\end{tabular}") + 1 : lines.index(r"\end{table}")]
    assert notes[0] == r"\par\smallskip\parbox{\linewidth}{\footnotesize\raggedright"
    assert r"in brackets: 95 \% intervals\par" in notes
    assert any(line.startswith("*: the best cell of its dataset") for line in notes)
    assert notes[-2:] == [r"Made up.\par", "}"]
    assert not any(line.startswith("%") for line in lines)


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


@settings(max_examples=examples(60), deadline=None)
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
    with pytest.raises(DatasetError, match=r"grid.json, cell 1: .* got 19 values for 20"):
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
    text = str(ResultTable("small", cells, ("qa_match",)))
    assert "17 queries (1 failed, 2 unmeasured)" in text
    assert "(a)" not in text


def test_a_missing_interval_has_a_reason() -> None:
    few = Cell.measured({"generator": "a"}, IDS[:4], {"m": np.arange(4.0)})
    equal = Cell.measured({"generator": "b"}, IDS, {"m": np.ones(20)})
    text = " ".join(str(ResultTable("t", (few, equal), ("m",))).split())
    assert (
        "no interval: too few queries (4; at least 10 are needed), or all values are equal, and "
        "their range is not known"
    ) in text
    published = Cell({"generator": "a"}, {"m": Score(0.5)})
    assert "no interval" not in str(ResultTable("t", (published,), ("m",)))


def test_small_means_have_their_interval() -> None:
    cell = Cell.measured({"a": "b"}, IDS, {"m": np.full(20, 3.1e-7)}, bounds={"m": (0.0, 1.0)})
    assert re.search(r"3\.1e-07 \[\S+e-13, 0\.18\]", str(ResultTable("t", (cell,), ("m",))))


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
    with pytest.raises(UnknownNameError, match="unknown pair of row and column"):
        _ = pivot[("none",), ("10", "qa_match")]


def rows_of(text: str) -> list[list[str]]:
    """Return the words of the rows of a table of three cells."""
    return [line.split() for line in text.splitlines()[2:5]]


def test_the_best_cell_and_its_equals_are_marked() -> None:
    cells = (
        measured_cell(20, retriever="oracle"),
        measured_cell(19, retriever="a"),
        measured_cell(18, retriever="b"),
        measured_cell(3, retriever="c"),
    )
    text = str(ResultTable("small", cells, ("qa_match",)))
    marked = [line.split()[0] for line in text.splitlines()[2:6] if "*" in line]
    assert marked == ["a", "b"]
    assert "not significantly different" in text
    # Each dataset has its own best cell, and a single cell has no rival.
    other = measured_cell(3, retriever="d")
    alone = Cell.measured(
        {**other.settings, "dataset": "other"}, IDS, other.values, bounds={"qa_match": (0, 1)}
    )
    lines = str(ResultTable("small", (*cells, alone), ("qa_match",))).splitlines()
    assert [line.split()[1] for line in lines[2:7] if "*" in line] == ["a", "b"]
    published = tuple(Cell(cell.settings, cell.scores) for cell in cells)
    assert "*" not in str(ResultTable("small", published, ("qa_match",)))


def test_lower_is_better_for_some_metrics_and_unknown_for_others() -> None:
    values = {name: np.arange(20) / n for name, n in (("a", 20.0), ("b", 80.0))}
    for metric, expected in (("incorrect_attempt", ["b"]), ("my_metric", []), ("R@5", ["a"])):
        cells = tuple(
            Cell.measured({"retriever": name}, IDS, {metric: column})
            for name, column in values.items()
        )
        text = str(ResultTable("small", cells, (metric,)))
        assert [line.split()[0] for line in text.splitlines()[2:4] if "*" in line] == expected


def test_rows_are_sorted_by_a_metric_within_their_dataset() -> None:
    cells = [
        measured_cell(hits, retriever=name, dataset=dataset)
        for dataset in ("x", "y")
        for name, hits in (("a", 3), ("b", 12))
    ]
    cells.append(Cell({"dataset": "x", "generator": "solar", "retriever": "c"}, failure="no"))
    table = ResultTable("small", tuple(cells), ("qa_match",), order="qa_match")
    rows = [line.split()[:2] for line in str(table).splitlines()[2:7]]
    assert rows == [["x", "b"], ["x", "a"], ["x", "c"], ["y", "b"], ["y", "a"]]
    assert table[0].settings["retriever"] == "a"  # the cells themselves keep their order
    read = ResultTable.from_json(table.to_json())
    assert str(read) == str(table)
    with pytest.raises(UnknownNameError, match="did you mean 'qa_match'"):
        str(ResultTable("small", tuple(cells), ("qa_match",), order="qa_mach"))


def test_columns_stay_in_one_block_at_the_width_asked_for() -> None:
    metrics = tuple(f"metric_{i}" for i in range(5))
    cells = tuple(
        Cell({"retriever": name}, {m: Score(0.5, (0.4, 0.63), 9) for m in metrics})
        for name in ("first", "second")
    )
    table = ResultTable("wide", cells, metrics)
    for width, text, absent in (
        (140, "0.500 [0.400, 0.630]", "±"),
        (90, "0.500 ±0.130", "["),
        (65, "0.500", "±0"),
    ):
        printed = table.to_text(width)
        lines = printed.splitlines()
        assert max(map(len, lines)) <= width
        assert sum(line.startswith("   first") for line in lines) == 1
        assert printed.count(text) == 10
        assert absent not in "\n".join(lines[:4])
    assert "use a wider terminal" in table.to_text(65)
    assert str(table) == table.to_text(80)
    narrow = table.to_text(40)
    assert sum(line.startswith("   first") for line in narrow.splitlines()) > 1


def test_resources_have_amounts_and_no_marks() -> None:
    cells = tuple(
        Cell({"generator": name}, {"cost": Score(cost, n=20), "seconds": Score(12.34, n=20)})
        for name, cost in (("a", 0.000123), ("b", 0.5))
    )
    text = str(ResultTable("small", cells, ("cost", "seconds")))
    assert [line.split()[:3] for line in text.splitlines()[2:4]] == [
        ["a", "0.00012", "12.3"],
        ["b", "0.500", "12.3"],
    ]
    assert "cost: cost of generation per query" in text
    assert "*" not in text


def test_no_cell_is_best_if_the_metric_failed_in_another_cell() -> None:
    ids = tuple(f"q{i}" for i in range(20))
    cells = [
        Cell.measured({"dataset": name, "generator": generator}, ids, {"llm_eval": np.full(20, x)})
        for name in ("nq", "asqa")
        for generator, x in (("a", 0.0), ("b", 0.5))
    ]
    other = Cell.measured({"dataset": "nq", "generator": "c"}, ids, {"qa_match": np.ones(20)})
    best = {}
    for failure in ("", "score: the judge failed", "score: not run yet"):
        table = ResultTable("small", (*cells, replace(other, failure=failure)), ("llm_eval",))
        best[failure] = table._rows[1]["llm_eval"]
    assert list(best.values()) == [{1, 3}, {3}, {1, 3}]
