"""Tests of reading and validating grid files."""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import get_args

import pytest
from grid_files import grid_file

from mirage.errors import DatasetError
from mirage.grids import Grid
from mirage.grids._entries import HybridEntry, OwnEntry, RetrieverEntry, RunEntry, _IndexEntry
from mirage.grids.config import read_config

RETRIEVERS = get_args(get_args(RetrieverEntry)[0])
INDEX_ENTRIES = [entry for entry in RETRIEVERS if issubclass(entry, _IndexEntry)]


def test_every_combination_is_a_cell_and_closed_book_is_only_one(tmp_path: Path) -> None:
    cells = Grid.read(grid_file(tmp_path)).cells
    assert len(cells) == 1 + 4 * 2
    assert [cell["retriever"] for cell in cells] == (
        ["none"] + [name for name in ("oracle", "bm25", "flat", "both") for _ in range(2)]
    )
    assert {cells[0][axis] for axis in ("corpus", "show_k", "retrieve_k")} == {"none"}


def test_excluded_combinations_are_not_cells(tmp_path: Path) -> None:
    path = grid_file(tmp_path, show_k="  show_k: [2, 5]\n  exclude: [{retriever: both, show_k: 5}]")
    cells = Grid.read(path).cells
    assert [cell["show_k"] for cell in cells if cell["retriever"] == "both"] == ["2"]
    assert len(cells) == 8


@pytest.mark.parametrize(
    ("key", "line", "number", "message"),
    [
        ("bm25", "  bm25: {kind: bm25, k2: 1}", 7, "retrievers.bm25.k2: unknown key 'k2'"),
        ("bm25", "  bm25: {kind: bm52}", 7, "'bm52' found using 'kind'"),
        ("bm25", "  bm25: {kind: bm25, k1: many}", 7, "valid number"),
        (
            "retriever",
            "  retriver: [bm25]",
            17,
            "unknown key 'retriver'; did you mean 'retriever'?",
        ),
        ("retriever", "  retriever: [bm52]", 17, "unknown retriever 'bm52'; did you mean 'bm25'?"),
        (
            "both",
            "  both: {kind: rrf, of: [bm25, dense]}",
            9,
            "unknown non-hybrid retriever 'dense'",
        ),
        ("dataset", "  dataset: [ws]", 15, "unknown dataset 'ws'; did you mean 'sw'?"),
        ("show_k", "  show_k: [0]", 20, "greater than or equal to 1"),
        ("name", "name: small\nname: other", 2, "key 'name' occurs twice"),
        ("name", "name: [small", 2, "not valid YAML"),
        ("name", "title: small", 1, "title: unknown key"),
        ("short", "  short: {kind: short-answer, langauge: en}", 13, "did you mean 'language'?"),
        ("bm25", "  bm25: !!python/object/apply:os.getcwd []", 7, "not valid YAML"),
        ("chat", "  chat: {kind: openai, model: m, api_key: sk-1}", 11, "write ${ENV:NAME}"),
        ("bm25", "  none: {kind: bm25}", 6, "the name 'none' is reserved or empty"),
        ("sw", "  sw: {form: answers}", 3, "a path or hub must be set"),
        ("sw", "  sw: {form: answers, path: a, hub: b/c}", 3, "a path or hub must be set"),
        ("sw", "  sw: {form: xor-tydi, hub: b/c}", 3, "a path must be set"),
        ("sw", "  sw: {form: answers, hub: ../c}", 3, "should match pattern"),
        ("sw", "  sw: {form: answers, hub: b/c, split: '*'}", 3, "should match pattern"),
        ("sw", "  sw: {form: kilt, hub: b/c, fields: {id: a}}", 3, "be set with form 'answers'"),
        ("sw", "  sw: {form: mirage-bench}", 3, "'language' must be set"),
    ],
)
def test_an_error_names_the_line_and_the_problem(
    tmp_path: Path, key: str, line: str, number: int, message: str
) -> None:
    path = grid_file(tmp_path, **{key: line})
    with pytest.raises(DatasetError) as caught:
        read_config(path)
    text = str(caught.value)
    assert message in text
    assert text.startswith(f"{path}, line {number}: ")


def test_a_file_that_is_not_a_grid_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "grid.yaml"
    for text, message in (
        ("", "expected a YAML mapping with the keys"),
        ("- 1", "expected a YAML mapping with the keys"),
    ):
        path.write_text(text)
        with pytest.raises(DatasetError, match=message):
            read_config(path)
    path.write_bytes(b"name: \xff")
    with pytest.raises(DatasetError, match="UTF-8"):
        read_config(path)
    with pytest.raises(DatasetError, match="cannot be read"):
        read_config(tmp_path / "other.yaml")


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "below").mkdir()
    path = grid_file(tmp_path / "below", sw="  sw: {form: jsonl, path: ../queries.jsonl}")
    monkeypatch.chdir(tmp_path)
    config = read_config("below/grid.yaml")
    assert config.datasets["sw"].path == path.resolve().parent / "../queries.jsonl"


def test_a_dataset_on_the_hub_is_read_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = pytest.importorskip("huggingface_hub.constants", reason="needs the extra 'hub'")
    parquet = pytest.importorskip("pyarrow.parquet")
    # The layout of the cache of the hub's client.
    repository = tmp_path / "cache" / "datasets--akariasai--PopQA"
    commit = "0" * 40
    reference = repository / "refs" / "refs" / "convert" / "parquet"
    reference.parent.mkdir(parents=True)
    reference.write_text(commit)
    rows = [{"id": 7, "question": "Who?", "possible": '["Ada", "A. L."]'}]
    file = repository / "snapshots" / commit / "default" / "test" / "0000.parquet"
    file.parent.mkdir(parents=True)
    parquet.write_table(pytest.importorskip("pyarrow").Table.from_pylist(rows), file)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    entry = "{form: answers, hub: akariasai/PopQA, language: en, fields: {answers: possible}}"
    (dataset,) = Grid.read(grid_file(tmp_path, sw=f"  sw: {entry}")).datasets.values()
    assert dataset["7"].answers == (("Ada", "A. L."),)
    other = entry.replace("PopQA", "PopQA, split: train")
    with pytest.raises(DatasetError, match="--include 'default/train/"):
        _ = Grid.read(grid_file(tmp_path, sw=f"  sw: {other}")).datasets


@pytest.mark.parametrize("entry", INDEX_ENTRIES)
def test_a_grid_can_build_the_retriever_of_every_entry(entry: type[_IndexEntry]) -> None:
    """The class has a ``build`` whose parameters are settings, or come from the grid."""
    module, _, name = entry.MAKES.rpartition(".")
    retriever = getattr(import_module(module), name)
    parameters = signature(retriever.build).parameters
    required = {key for key, value in parameters.items() if value.default is value.empty}
    assert list(parameters)[:2] == ["corpus", "folder"]
    assert required <= {"corpus", "folder", "language", "embedder", "executor", *entry.model_fields}
    assert callable(retriever.retrieve)


def test_every_other_retriever_is_made_in_a_way_of_its_own() -> None:
    # mirage.grids._running makes these without an index; any other kind is an _IndexEntry.
    assert set(RETRIEVERS) - set(INDEX_ENTRIES) == {HybridEntry, RunEntry, OwnEntry}


def test_an_entry_needs_no_embedder() -> None:
    assert _IndexEntry().embedder(None) is None
