"""Files of ten tools are read: items, scores, failures, repeats and systems."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from cases import each_case
from formats import CASES, FAILED, FILES, ITEMS, Case, counts, expected

from mirage.errors import DatasetError, MissingPackageError, SettingError, UnknownNameError
from mirage.scores import _archives
from mirage.scores.reading import FORMATS, read_scores


def needs_zstd(name: str) -> None:
    if name.endswith(".eval"):
        pytest.importorskip("zstandard")


def test_every_format_has_a_file() -> None:
    assert {case.format for case in CASES} == set(FORMATS)


@each_case("case", CASES)
def test_a_file_is_recognised_and_read(case: Case) -> None:
    for system, name, chosen in zip(
        ("before", "after"), (case.before, case.after), case.systems, strict=True
    ):
        needs_zstd(name)
        file = read_scores(FILES / name).of_system(chosen)
        assert file.format == case.format
        assert counts(file, case.metric) == expected(system, case)
        assert len({entry.item for entry in file.entries}) == ITEMS
        assert len(file.entries) == ITEMS * case.repeats


@each_case("case", CASES)
def test_items_of_both_sides_are_the_same(case: Case) -> None:
    needs_zstd(case.before)
    sides = [
        {entry.item for entry in read_scores(FILES / name).of_system(chosen).entries}
        for name, chosen in zip((case.before, case.after), case.systems, strict=True)
    ]
    assert sides[0] == sides[1]


def test_a_failure_is_that_of_the_item_that_failed() -> None:
    file = read_scores(FILES / "deepeval-after.json")
    failed = {e.item for e in file.entries if math.isnan(e.scores["Overlap"])}
    assert failed == {f"case {number}" for number in FAILED["after"]}
    file = read_scores(FILES / "pydantic_evals-after.json")
    failed = {e.item for e in file.entries if e.failure}
    assert failed == {f"case {number}" for number in FAILED["after"]}
    assert {e.failure for e in file.entries if e.failure} == {"ValueError: the server is down"}


def test_metrics_without_a_score_per_item_are_named() -> None:
    assert "over all items" in read_scores(FILES / "lm_eval-after.jsonl").skipped["bleu"]
    assert read_scores(FILES / "langfuse-after.json").skipped == {
        "tone": "has texts instead of numbers"
    }


@each_case("name", ["", "Unnamed: 0", "Unnamed: 0.1", "index", "level_0", "__index_level_0__"])
def test_the_index_that_pandas_writes_is_no_metric(name: str) -> None:
    rows = [{name: i, "user_input": f"q{i}", "faithfulness": i % 2} for i in range(4)]
    assert read_scores(rows).metrics == ("faithfulness",)


def test_fields_name_clusters_within_objects() -> None:
    file = read_scores(FILES / "inspect_ai-after.json", fields={"cluster": "metadata.document"})
    assert {entry.cluster for entry in file.entries} == {f"tens {n}" for n in range(6)}
    with pytest.raises(DatasetError, match=r"sample 1: field 'metadata\.nothing' is missing"):
        read_scores(FILES / "inspect_ai-after.json", fields={"cluster": "metadata.nothing"})


def test_an_attribute_of_a_span_names_the_item() -> None:
    with pytest.raises(DatasetError, match=r"has no attribute my\.id; name the attribute"):
        read_scores(FILES / "otel-after.json", fields={"item": "my.id"})


# Tables -------------------------------------------------------------------------------------------

ROWS = [
    {"qid": "a", "quality": 4, "len": 7, "run": 1, "doc": "x", "sys": "s"},
    {"qid": "a", "quality": 5, "len": 9, "run": 2, "doc": "x", "sys": "s"},
    {"qid": "b", "quality": None, "len": 8, "run": 1, "doc": "y", "sys": "t"},
]
FIELDS = {"item": "qid", "score": "quality", "cluster": "doc", "system": "sys"}


def write(folder: Path, kind: str) -> Any:
    path = folder / f"scores.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif kind == "json":
        path.write_text(json.dumps(ROWS))
    elif kind in ("csv", "tsv"):
        mark = "," if kind == "csv" else "\t"
        rows = [ROWS[0].keys(), *(row.values() for row in ROWS)]
        text = "\n".join(mark.join("" if v is None else str(v) for v in row) for row in rows)
        path.write_text(text + "\n")
    elif kind == "parquet":
        pytest.importorskip("pyarrow")
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    elif kind == "frame":
        pandas = pytest.importorskip("pandas")
        return pandas.DataFrame(ROWS)
    elif kind == "columns":
        pandas = pytest.importorskip("pandas")
        pandas.DataFrame(ROWS).to_json(path)
    else:
        return ROWS
    return path


@pytest.mark.parametrize(
    "kind", ["jsonl", "json", "csv", "tsv", "parquet", "frame", "columns", "rows"]
)
def test_any_table_is_read_with_named_fields(kind: str, tmp_path: Path) -> None:
    file = read_scores(write(tmp_path, kind), fields=FIELDS)
    assert [(e.item, e.cluster, e.system, e.repeat) for e in file.entries] == [
        ("a", "x", "s", "1"),
        ("a", "x", "s", "2"),
        ("b", "y", "t", "1"),
    ]
    scores = [e.scores["quality"] for e in file.entries]
    assert scores[:2] == [4.0, 5.0]
    assert math.isnan(scores[2])


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_a_compressed_table_is_read_as_the_file_in_it(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path, kind)
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    items = [entry.item for entry in read_scores(packed, fields=FIELDS).entries]
    assert items == ["a", "a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("item,score,score\na,1,0\n", r"line 1: the column 'score' occurs twice"),
        ("item;score\na;1\n", r"line 1: the columns are separated by ';'; separate them with ','"),
        (
            "item\tscore\na\t1\n",
            r"line 1: the columns are separated by '\\t'; separate them with ','",
        ),
    ],
)
def test_a_header_that_cannot_be_read_is_one_error(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(text)
    with pytest.raises(DatasetError, match=message):
        read_scores(path)


def test_an_arrow_table_is_read() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    file = read_scores(pyarrow.Table.from_pylist(ROWS), fields=FIELDS)
    assert [entry.item for entry in file.entries] == ["a", "a", "b"]


def test_several_score_fields_are_several_metrics() -> None:
    file = read_scores(ROWS, fields={"item": "qid", "score": ["quality", "len"]})
    assert file.metrics == ("quality", "len")


def test_rows_that_name_a_metric_are_one_score_each() -> None:
    rows = [{"id": "a", "metric": name, "value": value} for name, value in (("x", 1), ("y", "no"))]
    file = read_scores(rows)
    assert [dict(entry.scores) for entry in file.entries] == [{"x": 1.0}, {"y": 0.0}]


def test_a_row_with_an_error_failed() -> None:
    rows = [{"id": "a", "score": 0.9, "error": "timeout"}, {"id": "b", "score": 0.9, "error": ""}]
    first, second = read_scores(rows).entries
    assert math.isnan(first.scores["score"])
    assert (first.failure, second.scores["score"]) == ("timeout", 0.9)


def test_missing_fields_are_said_with_those_there_are() -> None:
    with pytest.raises(
        DatasetError,
        match=r"name the field with --field item=",
    ):
        read_scores([{"score": 1}])
    with pytest.raises(
        DatasetError,
        match=r"usual name for the score.*--field score=quality\. .*quality, len, run .with numb",
    ):
        read_scores(ROWS, fields={"item": "qid"})


def test_unknown_fields_and_formats_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="field 'items'; did you mean 'item'"):
        read_scores(ROWS, fields={"items": "qid"})
    with pytest.raises(UnknownNameError, match="format 'raga'; did you mean 'ragas'"):
        read_scores(ROWS, format="raga")
    with pytest.raises(DatasetError, match="is not in the format 'ragas'"):
        read_scores(ROWS, format="ragas")
    with pytest.raises(SettingError, match="field for 'score' can only be set for a table"):
        read_scores(FILES / "ragas-after.csv", fields={"score": "exact_match"}, format="ragas")


def test_a_file_of_another_tool_can_be_read_as_a_table() -> None:
    fields = {"item": "user_input", "score": "exact_match"}
    assert read_scores(FILES / "ragas-after.csv", fields=fields).format == "table"


def test_one_of_several_systems_has_to_be_chosen() -> None:
    file = read_scores(FILES / "promptfoo.json")
    with pytest.raises(DatasetError, match=r"scores of 2 systems \(before, after\); choose one"):
        file.of_system(None)
    with pytest.raises(UnknownNameError, match="did you mean 'after'"):
        file.of_system("aftr")


def test_a_log_that_needs_a_package_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(_archives, "import_module", missing)
    with pytest.raises(MissingPackageError, match=r"pip install zstandard.*inspect log convert"):
        read_scores(FILES / "inspect_ai-after.eval")
