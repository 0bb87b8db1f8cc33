"""MIRAGE-Bench on the hub: parquet files in its schemas, a hub on loopback, and no hub."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestRegressor

from mirage.arena import Judgments
from mirage.dataset import MirageDataset
from mirage.errors import (
    ArtifactError,
    DatasetError,
    FeatureError,
    GenerationError,
    MirageError,
    MissingPackageError,
    UnknownNameError,
)
from mirage.features import FeatureSuite
from mirage.generation import DatasetPrompt, OpenAIGenerator
from mirage.leaderboard import Leaderboard, official
from mirage.leaderboard._suite import TASTES
from mirage.leaderboard.leaderboard import OFFICIAL, _validation_text
from mirage.llm import LLM
from mirage.models import Query, Response, Run
from mirage.sources import hub
from mirage.sources.hub import JUDGMENTS, OUTPUTS, QUERIES, REFERENCE_MODEL
from mirage.surrogate import SurrogateRanker, estimators

pytest.importorskip("datasets", reason="the extra hub is not installed: pip install '.[hub]'")
from hub_copy import (
    ATTRIBUTES,
    CODE,
    NUMBER,
    SYSTEMS,
    UNJUDGED,
    Arena,
    Rows,
    make_arena,
    prompt_of,
    write,
)
from llm_server import ChatServer, last_user_text


@pytest.fixture(scope="session")
def arena() -> Arena:
    return make_arena()


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use few trees in the paper's forest, which is trained beside every board."""

    def forest(_: Sequence[int], seed: int) -> RandomForestRegressor:
        return RandomForestRegressor(n_estimators=5, random_state=seed)

    monkeypatch.setitem(estimators.ESTIMATORS, "forest", forest)


@pytest.fixture(scope="session")
def copy(arena: Arena, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with copies of the datasets; its name has the brackets of a glob pattern."""
    return arena.write(tmp_path_factory.mktemp("copy") / "mirage [1]*")


@pytest.fixture
def split(tmp_path: Path) -> Callable[[str, Rows], hub.Split]:
    """Return a function that writes rows of a dataset and returns them as a split."""

    def make_split(name: str, rows: Rows) -> hub.Split:
        write(tmp_path, name, rows)
        return hub.find(name, CODE, path=tmp_path)

    return make_split


Splitter = Callable[[str, Rows], hub.Split]


# Queries ------------------------------------------------------------------------------------------


def test_the_dataset_is_what_the_prompts_were_made_from(copy: Path, arena: Arena) -> None:
    dataset = MirageDataset.from_hub(CODE, path=copy)
    assert (dataset.name, dataset.language, len(dataset)) == (f"mirage-bench-{CODE}", CODE, NUMBER)
    bundled = MirageDataset.bundled(CODE)
    for query in dataset:
        original = bundled[query.id[:-2]]
        assert query.text == original.text
        assert [(p.id, p.text) for p in query.passages] == [
            (p.id, p.text) for p in original.passages
        ]
        assert query.relevant == original.relevant
        assert query.answerable == bool(original.relevant)
    references = {
        row["query_id"]: item["output"]
        for row in arena.outputs
        for item in row["outputs"]
        if item["model"] == REFERENCE_MODEL
    }
    assert {query.id: query.reference for query in dataset} == references


def passages_of(contexts: str, positive: list[str], negative: list[str]) -> dict[str, str]:
    prompt = f"Question: Who?\n\nContexts:\n{contexts}\n\nInstruction: Answer. ##Reason: ..."
    row = {"query_id": "1", "prompt": prompt, "positive_ids": positive, "negative_ids": negative}
    query = hub._query("file, row 0", row, "en", {})
    return {passage.id: passage.text for passage in query.passages}


@pytest.mark.parametrize(
    "form",
    [
        *(
            "[{id}] {text}",
            '"[{id}]" {text}',
            '[{id}]" {text}',
            "“[{id}]” {text}",
            "**[{id}]** {text}",
        ),
        *('"{id}" {text}', "({id}) {text}", "{id}: {text}", "'{id}': {text}", "【{id}】{text}"),
        *("{id}. {text}", "{id} {text}", "  [{id}]: {text}"),
    ],
)
@pytest.mark.parametrize("heading", ["Contexts:", "Context:", "  Contexts: "])
def test_an_id_may_be_quoted_or_stand_in_punctuation(form: str, heading: str) -> None:
    """The paper's Figure 10 has ``"[1965416#2]" The New York Times Magazine - Its first``."""
    passages = {"1#0": "Title - One, of [11#0].", "11#0": "Two [1#0]", "1#01": "Three"}
    contexts = "\n".join(form.format(id=id_, text=text) for id_, text in passages.items())
    prompt = f"Question: Who?\n\n{heading}\n{contexts}\n\nInstruction:\nProvide an answer."
    row = {
        "query_id": "1",
        "prompt": prompt,
        "positive_ids": ["1#0"],
        "negative_ids": [*passages][1:],
    }
    query = hub._query("file, row 0", row, "en", {})
    assert {passage.id: passage.text for passage in query.passages} == passages
    assert query.text == "Who?"


@pytest.mark.parametrize(
    ("contexts", "expected"),
    [
        ("[1#0] One.\n[2#0] Two.", {"1#0": "One.", "2#0": "Two."}),
        ("[2#0] Two.\n[1#0] One.", {"2#0": "Two.", "1#0": "One."}),  # in the prompt's order
        ("[1#0] One [123#4] more.\n[2#0] Two.", {"1#0": "One [123#4] more.", "2#0": "Two."}),
        ("[1#0] One\n[123#4] more.\n[2#0] Two.", {"1#0": "One\n[123#4] more.", "2#0": "Two."}),
        ("[1#0] See [2#0] there.\n[2#0] Two.", {"1#0": "See [2#0] there.", "2#0": "Two."}),
        ("[1#0] One.\n[2#0] As\n[1#0] says.", {"1#0": "One.", "2#0": "As\n[1#0] says."}),
        ("[1#0] One [1#0].\n\n[2#0] a\n\nb", {"1#0": "One [1#0].", "2#0": "a\n\nb"}),
        ("[1#0]\n[2#0] Two.", {"1#0": "", "2#0": "Two."}),
        ("[1#0]: One.\n  [2#0]: Two.", {"1#0": "One.", "2#0": "Two."}),
        ("[1#0] Instruction: do.\n[2#0] Two\nInstruction: x", None),
        ("[1#0] Contexts:\nContexts: y\n[2#0] Question: z", None),
    ],
)
def test_only_ids_of_the_query_open_passages(contexts: str, expected: dict[str, str]) -> None:
    passages = passages_of(contexts, ["1#0"], ["2#0"])
    if expected is None:  # words of the frame inside of passages are text
        first, _, second = contexts.partition("\n[2#0] ")
        expected = {"1#0": first.removeprefix("[1#0] "), "2#0": second}
    assert passages == expected
    assert list(passages) == list(expected)


IDS = st.lists(st.from_regex(r"[0-9]{1,4}#[0-9]", fullmatch=True), min_size=1, unique=True)
LINES = st.text(st.characters(blacklist_categories=["C", "Z"]) | st.sampled_from(" [#]:"))


@settings(deadline=None)
@given(st.data(), IDS)
def test_passages_come_back_whatever_they_say(data: st.DataObject, ids: list[str]) -> None:
    def line() -> str:
        text = data.draw(LINES)
        return text + data.draw(st.sampled_from(["", *(f"[{id_}]" for id_ in ids)]))

    def text() -> str:
        lines = [line() for _ in range(data.draw(st.integers(1, 3)))]
        # A line may name an id that opened above: only the first time opens.
        return "\n".join(lines[:1] + ["x" + rest for rest in lines[1:]]).strip().removeprefix(":")

    passages = [(id_, text().strip()) for id_ in ids]
    row = {
        "query_id": 7,
        "prompt": prompt_of("Why?", passages),
        "positive_ids": ids[::2],
        "negative_ids": ids[1::2],
    }
    query = hub._query("here", row, "en", {"7": "because"})
    assert [(p.id, p.text) for p in query.passages] == passages
    assert (query.id, query.text, query.reference) == ("7", "Why?", "because")


GOOD = {
    "query_id": "1",
    "prompt": prompt_of("Who?", [("1#0", "One."), ("2#0", "Two.")]),
    "positive_ids": ["1#0"],
    "negative_ids": ["2#0"],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"prompt": None},
            "row 1: the prompt lacks one of the sections 'Question:', 'Contexts:' and 'Instr",
        ),
        ({"prompt": "Question: Who?"}, "row 1: the prompt lacks one of the sections"),
        ({"negative_ids": ["2#0", "3#0"]}, r"row 1: no line .* begins with the passage id \[3#0\]"),
        (
            {"negative_ids": ["1#0", "2#0"]},
            "row 1: passage '1#0' is in positive_ids and negative_ids",
        ),
        ({"positive_ids": []}, r"row 1: the passages .* but they begin with '\[1#0\] One.'"),
        ({"query_id": None}, "row 1, field 'id'"),
        ({"prompt": prompt_of(" ", [("1#0", "a"), ("2#0", "b")])}, "row 1, field 'text'"),
        ({"query_id": "0", "prompt": prompt_of("Why?", [("1#0", "a"), ("2#0", "b")])}, "row 1: qu"),
    ],
)
def test_a_row_with_a_bad_prompt_is_left_out_with_a_reason(
    split: Splitter, change: dict[str, Any], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [GOOD | {"query_id": "0"}, GOOD | change]
    files, left_out = split(QUERIES, rows), hub.LeftOut()
    assert [query.id for query in hub.read_queries(files, CODE, {}, left_out)] == ["0"]
    assert re.search(rf"dev-00000-of-00001\.parquet, {message}", left_out[0])
    assert (left_out.rows, len(left_out)) == (2, 1)
    assert "1 of 2 rows were left out; the first reason is: " in caplog.text


def test_a_file_with_mostly_bad_rows_is_refused(split: Splitter) -> None:
    rows = [GOOD, *(GOOD | {"query_id": f"{i}", "prompt": "?"} for i in range(2))]
    with pytest.raises(
        DatasetError, match=r"2 of 3 rows cannot be read; the first error is: .* row 1: the"
    ):
        hub.read_queries(split(QUERIES, rows), CODE, {})


def test_harmless_noise_in_prompts_is_accepted(split: Splitter) -> None:
    only_relevant = GOOD | {"query_id": "2", "negative_ids": None, "positive_ids": ["1#0", "2#0"]}
    queries = hub.read_queries(split(QUERIES, [GOOD, only_relevant, GOOD]), CODE, {})
    assert [query.id for query in queries] == ["1", "2"]  # a row that stands there twice
    assert queries[1].relevant == ("1#0", "2#0")
    assert queries[0].reference is None
    numbered = hub.read_queries(split(QUERIES, [GOOD | {"query_id": 34}]), CODE, {})
    assert numbered[0].id == "34"


def test_the_benchmarks_prompt_is_kept_and_sent_on_request(split: Splitter) -> None:
    dataset = MirageDataset(hub.read_queries(split(QUERIES, [GOOD]), CODE, {}))
    assert dataset[0].metadata == {"prompt": GOOD["prompt"]}
    with ChatServer() as chat:
        generator = OpenAIGenerator(LLM("m", base_url=chat.url), prompt=DatasetPrompt())
        (response,) = generator.run(dataset, progress=False)
        assert last_user_text(chat.requests[0]) == GOOD["prompt"]
    assert response.shown == dataset[0].passage_ids
    with pytest.raises(GenerationError, match=r"has no prompt in its metadata\['prompt'\]"):
        DatasetPrompt()(dataset[0])


def test_a_missing_column_names_those_that_are_there(split: Splitter) -> None:
    rows = [{key: value for key, value in GOOD.items() if key != "positive_ids"}]
    with pytest.raises(
        DatasetError, match="'positive_ids' is missing; the columns are query_id, prompt"
    ):
        hub.read_queries(split(QUERIES, rows), CODE, {})


# Files --------------------------------------------------------------------------------------------


def test_a_dataset_in_several_files_is_one(tmp_path: Path, arena: Arena) -> None:
    arena.write(tmp_path)
    whole = hub.queries(CODE, path=tmp_path)
    (tmp_path / "mirage-bench" / CODE / "dev-00000-of-00001.parquet").unlink()
    write(tmp_path, QUERIES, arena.prompts, parts=3)
    assert hub.queries(CODE, path=tmp_path) == whole
    (tmp_path / "mirage-bench" / CODE / "dev-00002-of-00003.parquet").unlink()
    with pytest.raises(DatasetError, match="files such as dev-00000-of-00001"):
        hub.queries(CODE, path=tmp_path)


def test_a_smaller_split_beside_is_not_read(tmp_path: Path, arena: Arena) -> None:
    arena.write(tmp_path)
    whole = hub.queries(CODE, path=tmp_path)
    for name in hub.DATASETS:
        folder = tmp_path / name.partition("/")[2] / CODE
        (folder / "dev-00000-of-00001.parquet").rename(folder / "keep")
        write(tmp_path, name, getattr(arena, ATTRIBUTES[name])[:2])
        (folder / "dev-00000-of-00001.parquet").rename(folder / "dev.small-00000-of-00001.parquet")
        (folder / "keep").rename(folder / "dev-00000-of-00001.parquet")
    assert hub.queries(CODE, path=tmp_path) == whole


def test_files_as_datasets_itself_writes_them(tmp_path: Path, arena: Arena) -> None:
    """Other schemas of the same rows, by pandas and from a list, with extra columns and nulls."""
    import datasets
    import pandas as pd

    arena.write(tmp_path / "arrow")
    expected = official.load(CODE, path=tmp_path / "arrow")
    makers = {
        "pandas": lambda rows: datasets.Dataset.from_pandas(pd.DataFrame(rows)),
        "list": datasets.Dataset.from_list,
        "indexed": lambda rows: datasets.Dataset.from_pandas(
            pd.DataFrame(rows, index=range(7, 7 + len(rows)))  # __index_level_0__
        ),
    }
    for way, make in makers.items():
        for name in hub.DATASETS:
            rows = [row | {"more": {"a": "text"}} for row in getattr(arena, ATTRIBUTES[name])]
            folder = tmp_path / way / name.partition("/")[2] / CODE
            folder.mkdir(parents=True)
            make(rows).to_parquet(folder / "dev-00000-of-00001.parquet")
        loaded = official.load(CODE, path=tmp_path / way)
        assert list(loaded.dataset) == list(expected.dataset)
        assert (loaded.runs, loaded.judgments) == (expected.runs, expected.judgments)
        for model, table in expected.tables.items():
            np.testing.assert_array_equal(loaded.tables[model].values, table.values)


def test_a_file_of_many_row_groups_is_not_held_in_memory(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    file, rng = tmp_path / "large.parquet", random.Random(0)
    groups = [
        pyarrow.table(
            {
                "query_id": [f"{group}-{row}" for row in range(500)],
                "prompt": [rng.randbytes(1000).hex() for _ in range(500)],
            }
        )
        for group in range(20)
    ]
    with parquet.ParquetWriter(file, groups[0].schema) as writer:
        for group in groups:
            writer.write_table(group)
    expected = [row for group in groups for row in group.to_pylist()]
    size = sum(group.nbytes for group in groups)
    before = pyarrow.total_allocated_bytes()
    for number, (where, row) in enumerate(hub.Split((file,), "main").rows()):
        assert where == f"{file}, row {number}"
        assert row == expected[number]
        assert pyarrow.total_allocated_bytes() - before < size / 5
    assert number == len(expected) - 1


def test_the_error_for_missing_files_has_the_download_command(copy: Path) -> None:
    with pytest.raises(DatasetError, match=r"hf download nthakur/mirage-bench-output .*'yo/\*'"):
        MirageDataset.from_hub("yo", path=copy)
    with pytest.raises(UnknownNameError, match="unknown language 'xx'"):
        MirageDataset.from_hub("xx", path=copy)


def test_a_file_that_is_not_parquet(tmp_path: Path, arena: Arena) -> None:
    arena.write(tmp_path)
    file = tmp_path / "mirage-bench" / CODE / "dev-00000-of-00001.parquet"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(DatasetError, match=r"dev-00000-of-00001\.parquet: cannot be read as parq"):
        MirageDataset.from_hub(CODE, path=tmp_path)


@pytest.mark.parametrize("name", hub.DATASETS)
def test_parquet_files_that_are_damaged(name: str, tmp_path: Path, arena: Arena) -> None:
    arena.write(tmp_path)
    file = tmp_path / name.partition("/")[2] / CODE / "dev-00000-of-00001.parquet"
    content, rng = file.read_bytes(), random.Random(name)
    for _ in range(15):
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 3, 30])):
            damaged[rng.randrange(len(damaged))] ^= rng.randint(1, 255)
        file.write_bytes(damaged[: rng.choice([len(damaged), rng.randrange(len(damaged))])])
        with suppress(MirageError):
            official.load(CODE, path=tmp_path)


def test_a_revision_cannot_be_combined_with_a_path(copy: Path) -> None:
    with pytest.raises(DatasetError, match="pass either path= or revisions="):
        hub.find(QUERIES, CODE, path=copy, revisions={QUERIES: "0" * 40})
    with pytest.raises(UnknownNameError, match="did you mean 'nthakur/mirage-bench'"):
        hub.find(QUERIES, CODE, path=copy, revisions={"nthakur/mirage-bensh": "0" * 40})


def test_the_revision_of_files_is_their_hash(tmp_path: Path, arena: Arena) -> None:
    arena.write(tmp_path)
    before = hub.find(OUTPUTS, CODE, path=tmp_path).revision
    assert re.fullmatch("sha256:[0-9a-f]{64}", before)
    write(tmp_path, OUTPUTS, arena.outputs[:-1])
    assert hub.find(OUTPUTS, CODE, path=tmp_path).revision != before


@pytest.mark.parametrize(
    ("package", "extra", "on_disk"),
    [("pyarrow", "retrieval", True), ("huggingface_hub", "hub", False)],
)
def test_without_the_extra_the_error_names_it(
    copy: Path, monkeypatch: pytest.MonkeyPatch, package: str, extra: str, on_disk: bool
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    with pytest.raises(MissingPackageError, match=rf"pip install 'mirage-rag\[{extra}\] @ git"):
        MirageDataset.from_hub(CODE, path=copy if on_disk else None)


# Outputs ------------------------------------------------------------------------------------------


def output_row(query_id: str, outputs: dict[str, str | None], **features: Any) -> dict[str, Any]:
    items = [{"model": model, "output": text} for model, text in outputs.items()]
    return {"query_id": query_id, "outputs": items, **features}


DIRTY = [
    output_row(
        "1",
        {"x/y.1": "one", "z": "two"},
        **{"citation_MAP@10": {"x/y.1": 0.5, "z": None}, "xlni_context_entailment": {"x/y.1": 1.0}},
    ),
    output_row(
        "2",
        {"x/y.1": None},  # no output, and no z at all
        **{"citation_MAP@10": None, "xlni_context_entailment": {"z": float("nan")}},
    ),
    output_row(
        "3",
        {"z": ""},
        **{"citation_MAP@10": {"z": 0.25}, "xlni_context_entailment": {"z": float("inf")}},
    ),
]


def test_runs_have_the_outputs_of_the_data(split: Splitter) -> None:
    rows = [*DIRTY, DIRTY[1], output_row("4", {}) | {"outputs": None}]
    outputs = hub.read_outputs(split(OUTPUTS, rows), CODE)
    assert list(outputs.runs) == ["x/y.1", "z"]
    assert outputs.runs["x/y.1"] == Run(
        model="x/y.1",
        language=CODE,
        responses=(
            Response(query_id="1", text="one"),
            Response(query_id="2", text=None, error="the published data has no output"),
        ),
    )
    assert {r.query_id: r.text for r in outputs.runs["z"]} == {"1": "two", "3": ""}
    assert outputs.query_ids == ("1", "2", "3", "4")


def test_tables_have_this_librarys_names_and_reasons_for_gaps(split: Splitter) -> None:
    outputs = hub.read_outputs(split(OUTPUTS, DIRTY), CODE)
    tables = official.published_tables(outputs, CODE)
    assert tables["z"].features == ("citation_map@10", "support_entailment")
    np.testing.assert_array_equal(tables["x/y.1"]["citation_map@10"], [0.5, np.nan, np.nan])
    np.testing.assert_array_equal(tables["z"]["citation_map@10"], [np.nan, np.nan, 0.25])
    assert np.isnan(tables["z"]["support_entailment"]).all()
    assert tables["z"].reasons["1", "citation_map@10"] == "the published data has no value"
    assert len(tables["z"].reasons) == 5


def test_two_columns_cannot_be_one_feature(split: Splitter) -> None:
    row = output_row("1", {"x": "a"}, fluency={"x": 1.0}, fluency_score={"x": 2.0})
    outputs = hub.read_outputs(split(OUTPUTS, [row]), CODE)
    with pytest.raises(FeatureError, match="feature 'fluency' occurs twice"):
        official.published_tables(outputs, CODE)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            output_row("1", {"x/y.1": "other"}),
            "row 3: query '1' has different outputs in an earlier row",
        ),
        (
            output_row("1", {"new": "other"}),
            "row 3: query '1' has different outputs in an earlier row",
        ),
        ({"query_id": "9", "outputs": [{"model": None, "output": "a"}]}, "row 3, column 'outputs'"),
        ({"query_id": None, "outputs": [{"model": "z", "output": "a"}]}, "row 3, field 'query_id'"),
    ],
)
def test_a_row_with_bad_outputs_is_left_out_with_a_reason(
    split: Splitter, row: dict[str, Any], message: str
) -> None:
    left_out = hub.LeftOut()
    outputs = hub.read_outputs(split(OUTPUTS, [*DIRTY, row]), CODE, left_out)
    assert (outputs.query_ids, list(outputs.runs)) == (("1", "2", "3"), ["x/y.1", "z"])
    assert re.search(message, left_out[0])


def test_the_first_of_two_outputs_of_a_model_counts(split: Splitter) -> None:
    twice = {"query_id": "9", "outputs": [{"model": "z", "output": t} for t in "ab"]}
    outputs = hub.read_outputs(split(OUTPUTS, [*DIRTY, twice]), CODE)
    assert outputs.runs["z"]["9"].text == "a"


def test_other_columns_are_no_features(split: Splitter) -> None:
    """Texts by model, the prompt, and numbers that are no feature of the library are ignored."""
    more = {
        "prompt": "Question: ...",
        "rationale": {"x/y.1": "because", "z": None},
        "language": "sw",
        "xlni_context_contradiction": {"x/y.1": 0.25, "z": 0.5},
    }
    outputs = hub.read_outputs(split(OUTPUTS, [row | more for row in DIRTY]), CODE)
    assert "rationale" not in outputs.features
    tables = official.published_tables(outputs, CODE)
    assert tables["z"].features == ("citation_map@10", "support_entailment")


def test_what_the_data_lacks_is_nan_or_0_as_the_paper_counts(split: Splitter) -> None:
    """In ``DIRTY``, z answered queries 1 and 3, x/y.1 answered 1 and failed on 2."""
    outputs = hub.read_outputs(split(OUTPUTS, DIRTY), CODE)
    zeros = official.published_tables(outputs, CODE, absent_is_0=True)
    np.testing.assert_array_equal(zeros["z"]["citation_map@10"], [0.0, np.nan, 0.25])
    np.testing.assert_array_equal(zeros["x/y.1"]["citation_map@10"], [0.5, 0.0, np.nan])
    assert set(zeros["z"].reasons) == {("2", "citation_map@10"), ("2", "support_entailment")}


# Judgments ----------------------------------------------------------------------------------------


def verdict_row(verdict: str | None, **changes: Any) -> dict[str, Any]:
    row = {"query_id": "1", "judge": "gpt-4o", "model_A": "x", "model_B": "y", "output": "so"}
    return row | {"verdict": verdict} | changes


def test_judgments_keep_the_judge_and_both_orders(split: Splitter) -> None:
    rows = [
        verdict_row("A"),
        verdict_row("B", model_A="y", model_B="x"),
        verdict_row("Tie", query_id="2"),
        verdict_row("A"),  # a copy
        verdict_row("B", output="on second thoughts"),  # asked again
    ]
    judgments = hub.read_judgments(split(JUDGMENTS, rows))
    assert [(j.query_id, j.model_a, j.model_b, j.verdict) for j in judgments] == [
        ("1", "x", "y", "a"),
        ("1", "y", "x", "b"),
        ("2", "x", "y", "tie"),
        ("1", "x", "y", "b"),
    ]
    assert {j.judge for j in judgments} == {"gpt-4o"}


def test_a_row_without_a_verdict_is_left_out_and_logged(
    split: Splitter, caplog: pytest.LogCaptureFixture
) -> None:
    files = split(JUDGMENTS, [verdict_row("A"), verdict_row(None), verdict_row(None, query_id="3")])
    assert len(hub.read_judgments(files)) == 1
    assert "2 rows have no verdict" in caplog.text
    with pytest.raises(DatasetError, match="no judgment of judge 'gpt-4o' in this file"):
        hub.read_judgments(split(JUDGMENTS, [verdict_row(None)] * 2))


@pytest.mark.parametrize("verdict", ["D", "Both", "[[A]] or [[B]]", "", "A. The first"])
def test_the_error_for_an_unknown_verdict_names_its_row(split: Splitter, verdict: str) -> None:
    files = split(JUDGMENTS, [verdict_row("A"), verdict_row("B"), verdict_row(verdict)])
    message = rf"row 2: verdict '{re.escape(verdict)}' must be A, B or Tie"
    with pytest.raises(DatasetError, match=message):
        hub.read_judgments(files)


def test_one_unknown_verdict_in_a_hundred_is_left_out(
    split: Splitter, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [verdict_row("A", query_id=f"{i}") for i in range(198)]
    odd = [verdict_row("[[Neither]]", query_id="x"), verdict_row("??", query_id="y")]
    left_out = hub.LeftOut()
    assert len(hub.read_judgments(split(JUDGMENTS, rows + odd), left_out=left_out)) == 198
    assert len(left_out) == 2
    assert "2 rows are left out; the first reason is: " in caplog.text
    with pytest.raises(DatasetError, match="2 of 199 verdicts cannot be read"):
        hub.read_judgments(split(JUDGMENTS, rows[:-1] + odd))


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("[[A]]", "a"), ("[[ b ]]", "b"), ("a", "a"), ("C", "tie"), ("[[C]]", "tie"), ("tie", "tie")],
)
def test_a_verdict_may_be_in_brackets(split: Splitter, text: str, verdict: str) -> None:
    (judgment,) = hub.read_judgments(split(JUDGMENTS, [verdict_row(text)]))
    assert judgment.verdict == verdict


def test_judge_and_output_may_be_missing(split: Splitter) -> None:
    rows = [verdict_row("A"), verdict_row("B", model_A="y", model_B="x")]
    for row in rows:
        del row["judge"], row["output"]
    judgments = hub.read_judgments(split(JUDGMENTS, rows))
    assert [(judgment.judge, judgment.verdict) for judgment in judgments] == [("", "a"), ("", "b")]


def test_as_in_the_paper_the_last_verdict_counts_and_ties_do_not(split: Splitter) -> None:
    rows = [
        *(verdict_row("A"), verdict_row("B", output="again"), verdict_row("Tie", query_id="2")),
        *(verdict_row("A", query_id="3"), verdict_row("Tie", query_id="3", output="again")),
        verdict_row("A", model_A="y", model_B="x"),
    ]
    judgments = hub.read_judgments(split(JUDGMENTS, rows), as_in_paper=True)
    assert [(judgment.query_id, judgment.model_a, judgment.verdict) for judgment in judgments] == [
        ("1", "x", "b"),
        ("1", "y", "a"),
    ]
    assert len(hub.read_judgments(split(JUDGMENTS, rows))) == 6


def test_a_judgment_without_a_model_is_left_out(split: Splitter) -> None:
    rows = [verdict_row("A"), verdict_row("A", model_A=None), verdict_row("A", model_A="y")]
    left_out = hub.LeftOut()
    assert len(hub.read_judgments(split(JUDGMENTS, rows), left_out=left_out)) == 1
    assert [re.search(r"row \d", line)[0] for line in left_out] == ["row 1", "row 2"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("judges", "judge", "chosen"),
    [
        (["gpt-4o"], None, "gpt-4o"),
        (["GPT4o (2024)"], None, "GPT4o (2024)"),  # the only one
        (["gpt-4o-mini", "gpt-4o-azure", "llama"], None, "gpt-4o-azure"),
        (["gpt-4o-2024-05-13", "llama"], None, "gpt-4o-2024-05-13"),
        (["gpt-4o", "llama"], "llama", "llama"),
        (["gpt-4o", None], None, "gpt-4o"),
    ],
)
def test_the_judge_is_gpt_4o_unless_another_is_asked_for(
    split: Splitter, judges: list[str | None], judge: str | None, chosen: str
) -> None:
    files = split(JUDGMENTS, [verdict_row("A", judge=name) for name in judges])
    judgments = hub.read_judgments(files, judge)
    assert [judgment.judge for judgment in judgments] == [chosen]


@pytest.mark.parametrize("judges", [["gpt-4o", "gpt-4o-azure"], ["llama", "gpt-4o-mini"]])
def test_an_ambiguous_judge_is_an_error_that_lists_the_judges(
    split: Splitter, judges: list[str]
) -> None:
    files = split(JUDGMENTS, [verdict_row("A", judge=name) for name in judges])
    with pytest.raises(DatasetError, match=f"has the judges '{sorted(judges)[0]}', .*judge="):
        hub.read_judgments(files)
    with pytest.raises(UnknownNameError, match="did you mean"):
        hub.read_judgments(files, judges[0][:-1])


def test_the_benchmark_as_a_whole(copy: Path, arena: Arena) -> None:
    bench = official.load(CODE, path=copy)
    assert bench.dataset == MirageDataset.from_hub(CODE, path=copy)
    assert set(bench.runs) == {*SYSTEMS, UNJUDGED} == set(bench.tables)
    assert len(bench.judgments) == len(arena.judgments)
    assert Judgments.from_records(bench.judgments).models == tuple(sorted(SYSTEMS))
    assert list(bench.revisions) == list(hub.DATASETS)


# The leaderboard ----------------------------------------------------------------------------------


def board_of(path: Path, suite: FeatureSuite | None = None, **options: Any) -> Leaderboard:
    options = {"estimator": "ridge", "progress": False} | options
    return Leaderboard.from_hub(CODE, suite, path=path, **options)


def cached_files() -> list[Path]:
    """Return the folders of surrogates in the cache, except the paper's forests."""
    folders = sorted(Path(os.environ["MIRAGE_CACHE"], "hub").glob("*"))
    return [folder for folder in folders if not _is_forest(folder)]


def _is_forest(folder: Path) -> bool:
    provenance = folder / "provenance.json"
    return provenance.is_file() and json.loads(provenance.read_text())["estimator"] == "forest"


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(*_: Any, **__: Any) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(SurrogateRanker, "fit", fit)


def test_a_new_model_is_ranked_among_those_of_the_benchmark(copy: Path, arena: Arena) -> None:
    board = board_of(copy)
    assert set(board.anchors) == set(SYSTEMS)
    assert len(board.dataset) == NUMBER
    answers = {
        row["query_id"]: {item["model"]: item["output"] for item in row["outputs"]}
        for row in arena.outputs
    }
    good = {query_id: texts["gpt-4o-azure"] for query_id, texts in answers.items()}
    bad = {query_id: texts["google/gemma-1.1-2b-it"] for query_id, texts in answers.items()}
    ranking = board.rank_many({"good": good, "bad": bad}, progress=False)
    assert len(ranking) == len(SYSTEMS) + 2
    assert ranking["good"].logit > ranking["bad"].logit + 1
    assert ranking["google/gemma-1.1-2b-it"].rank > ranking["gpt-4o-azure"].rank
    assert ranking["gpt-4o-azure"].anchor
    assert f"mirage-bench-{CODE}" in str(ranking)


def test_the_provenance_says_what_it_was_made_from(copy: Path, arena: Arena) -> None:
    board = board_of(copy, seed=7)
    (folder,) = cached_files()
    assert folder.name.startswith(f"{CODE}-")
    assert {file.name for file in folder.iterdir()} == {
        "surrogate.npz",
        "provenance.json",
    }
    stored = json.loads((folder / "provenance.json").read_text("utf-8"))
    # The benchmark has no short answers.
    offline = [
        name
        for name in (*FeatureSuite.default().names, *TASTES)
        if name not in ("answer_match", "wrong_answer", "incorrect_attempt")
    ]
    assert stored == board.provenance | {
        "features": offline,
        "models": sorted(SYSTEMS),
    }
    assert stored["datasets"] == {
        name: hub.find(name, CODE, path=copy).revision for name in hub.DATASETS
    }
    assert (stored["language"], stored["judge"], stored["seed"]) == (CODE, "gpt-4o", 7)
    assert (stored["queries"], stored["judgments"]) == (NUMBER, len(arena.judgments))
    assert (stored["tournaments"], stored["queries_drawn"]) == (200, 100)
    assert set(stored["versions"]) == {"python", "numpy", "scipy", "scikit-learn", "datasets"}
    validation = stored["validation"]
    assert (validation["held_out"], validation["splits"]) == (2, 15)  # all pairs of six models
    # Six models are too few for an interval of Kendall's tau, so tau is not shown.
    assert set(validation) == {"held_out", "splits", "forest"}
    assert board.about == OFFICIAL
    forest = board_of(copy, seed=7, estimator="forest")
    assert forest.ranker.recipe.shared == "forest"
    assert validation["forest"] == forest.provenance["validation"]
    assert board.ranker.data[CODE].y.shape == (200, len(SYSTEMS))
    assert (board.ranker.data[CODE].counts.sum(axis=1) == min(100, NUMBER)).all()


def test_tau_is_shown_with_its_interval() -> None:
    validation = {"held_out": 2, "splits": 20, "tau": 0.5, "tau_interval": [0.125, 0.75]}
    assert _validation_text(validation | {"forest": validation | {"tau": 0.25}}) == (
        "LLMs that were held out are ordered with Kendall's tau 0.50 (95 % interval 0.12 to 0.75), "
        "by the paper's forest with Kendall's tau 0.25 (95 % interval 0.12 to 0.75)."
    )
    assert _validation_text({"held_out": 2, "splits": 15}) == ""


def test_a_second_call_trains_nothing_and_returns_the_same(
    copy: Path, request: pytest.FixtureRequest
) -> None:
    first = board_of(copy)
    request.getfixturevalue("no_training")
    second = board_of(copy)
    assert second.dataset == first.dataset
    answers = {query.id: query.reference or "" for query in first.dataset}
    rankings = [board.rank(answers, "mine", progress=False) for board in (first, second)]
    assert str(rankings[0]) == str(rankings[1])
    assert rankings[0]["mine"].logit == rankings[1]["mine"].logit
    assert second.provenance == json.loads(json.dumps(first.provenance))


SMALL = FeatureSuite(["target_language", "answer_rougeL"])


def test_every_input_has_a_surrogate_of_its_own(copy: Path, tmp_path: Path, arena: Arena) -> None:
    cited = FeatureSuite(["target_language", "citation_map@10"])
    changed = Arena(arena.prompts, arena.outputs, arena.judgments[:-1]).write(tmp_path / "changed")
    ways: list[tuple[Path, FeatureSuite, dict[str, Any]]] = [
        (copy, SMALL, {}),
        (copy, SMALL, {"seed": 1}),
        (copy, SMALL, {"estimator": "svr"}),
        (copy, SMALL, {"judge": "gpt-4o"}),
        (copy, cited, {}),
        (copy, cited, {"published": ["citation_MAP@10"]}),
        (changed, SMALL, {}),
    ]
    for number, (path, suite, options) in enumerate(ways, 1):
        board_of(path, suite, **options)
        assert len(cached_files()) == number
    for path, suite, options in ways:
        board_of(path, suite, **options)
    assert len(cached_files()) == len(ways)


def test_a_surrogate_that_was_changed_on_disk_is_trained_again(
    copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = board_of(copy, SMALL)
    (folder,) = cached_files()
    artifact = folder / "surrogate.npz"
    content = artifact.read_bytes()
    for damage in (lambda: artifact.write_bytes(b"no"), (folder / "provenance.json").unlink):
        damage()
        caplog.clear()
        second = board_of(copy, SMALL)
        assert "the cached surrogate cannot be read" in caplog.text
        assert artifact.read_bytes() == content
        assert second.provenance["validation"] == first.provenance["validation"]


def test_a_surrogate_that_cannot_be_stored_is_trained_anyway(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("MIRAGE_CACHE", str(tmp_path / "a file"))
    board = board_of(copy, SMALL)
    assert set(board.anchors) == set(SYSTEMS)
    assert "the surrogate cannot be stored" in caplog.text


def test_a_function_of_ones_own_is_computed_in_every_call(
    copy: Path, request: pytest.FixtureRequest
) -> None:
    times = [0]

    def words(_: Query, response: Response) -> float:
        times[0] += 1
        return float(len((response.text or "").split()))

    board_of(copy, SMALL + words)
    assert times[0] == NUMBER * len(SYSTEMS)
    request.getfixturevalue("no_training")
    board = board_of(copy, SMALL + words)  # says the same: nothing is learnt
    assert times[0] == 2 * NUMBER * len(SYSTEMS)
    assert board.suite.names == ("target_language", "answer_rougeL", "words")

    def changed(_: Query, response: Response) -> float:
        return float(len(response.text or ""))

    changed.__name__ = "words"
    with pytest.raises(AssertionError, match="trained again"):
        board_of(copy, SMALL + changed)


def test_published_values_stand_in_for_those_of_the_suite(copy: Path, arena: Arena) -> None:
    suite = FeatureSuite(["target_language", "citation_map@10"])
    board = board_of(copy, suite, published=["citation_MAP@10"])
    data = board.ranker.data[CODE]
    assert data.features == suite.names
    column = data.values[data.models.index("gpt-4o-azure"), :, 1]
    expected = {row["query_id"]: row["citation_MAP@10"]["gpt-4o-azure"] for row in arena.outputs}
    np.testing.assert_array_equal(column, [expected[query_id] for query_id in data.query_ids])
    computed = board_of(copy, suite).ranker.data[CODE]
    assert not np.allclose(computed.values[..., 1], data.values[..., 1])
    np.testing.assert_array_equal(computed.values[..., 0], data.values[..., 0])
    with pytest.raises(UnknownNameError, match="unknown feature 'fluency' in the suite"):
        board_of(copy, suite, published=["fluency_score"])
    with pytest.raises(UnknownNameError, match="unknown feature 'target_language'"):
        board_of(copy, suite, published=["target_language"])  # the copies do not have it


def test_missing_published_values_count_as_0(copy: Path) -> None:
    bench = official.load(CODE, path=copy)
    missing, zeros = (
        {
            model: replace(table, values=np.full_like(table.values, value))
            for model, table in bench.tables.items()
        }
        for value in (np.nan, 0.0)
    )
    bench = bench._replace(tables=missing, counted=zeros)
    name = "citation_map@10"
    tables = official._tables(bench, FeatureSuite([name]), [name], 1, progress=False)
    assert {value for table in tables for value in table[name].tolist()} == {0.0}


def test_another_version_of_the_library_trains_again(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = []

    def read_cached(folder: Path) -> None:
        folders.append(folder)
        raise ArtifactError("stop before training")

    monkeypatch.setattr(official, "_read_cached", read_cached)
    for number in ("0.2.0", "0.2.1", "0.2.0"):
        monkeypatch.setattr(official, "version", lambda _, number=number: number)
        with pytest.raises(ArtifactError, match="stop"):
            board_of(copy, SMALL)
    assert folders[0] == folders[2] != folders[1]


def test_models_and_queries_without_judgments_are_left_out(tmp_path: Path, arena: Arena) -> None:
    judged = {row["query_id"] for row in arena.prompts[:12]}
    some = [row for row in arena.judgments if row["query_id"] in judged]
    board = board_of(Arena(arena.prompts, arena.outputs, some).write(tmp_path), SMALL)
    assert set(board.dataset.query_ids) == judged == set(board.ranker.data[CODE].query_ids)
    assert UNJUDGED not in board.anchors


def test_models_that_miss_outputs_are_in_the_arena_with_gaps(tmp_path: Path, arena: Arena) -> None:
    outputs = []
    for number, row in enumerate(arena.outputs):
        items = [dict(item) for item in row["outputs"]]
        if number % 3 == 0:
            items = [item for item in items if item["model"] != "gpt-4o-azure"]
        if number % 5 == 0:
            next(i for i in items if i["model"] == "google/gemma-1.1-2b-it")["output"] = None
        outputs.append(row | {"outputs": items})
    board = board_of(Arena(arena.prompts, outputs, arena.judgments).write(tmp_path), SMALL)
    data = board.ranker.data[CODE]
    # A garbled answer has no language either, but other features.
    gaps = dict(zip(data.models, np.isnan(data.values).all(axis=-1).sum(axis=1), strict=True))
    assert gaps.pop("gpt-4o-azure") == 10
    assert gaps.pop("google/gemma-1.1-2b-it") == 6
    assert set(gaps.values()) == {0}


@pytest.mark.parametrize(
    ("judgment", "message"),
    [
        ({"model_A": "nobody"}, "unknown model 'nobody' in nthakur/mirage-bench-output"),
        ({"query_id": "none"}, f"unknown query 'none' in mirage-bench-{CODE}"),
    ],
)
def test_judged_models_and_queries_must_be_in_the_other_datasets(
    tmp_path: Path, arena: Arena, judgment: dict[str, str], message: str
) -> None:
    changed = [*arena.judgments, arena.judgments[0] | judgment]
    Arena(arena.prompts, arena.outputs, changed).write(tmp_path)
    with pytest.raises(UnknownNameError, match=message):
        board_of(tmp_path, SMALL)


def test_a_suite_of_another_language_is_refused(copy: Path) -> None:
    with pytest.raises(FeatureError, match="this suite is for 'en'"):
        board_of(copy, FeatureSuite.default("en"))


# The hub itself -----------------------------------------------------------------------------------

COMMITS = {name: hashlib.sha1(name.encode()).hexdigest() for name in hub.DATASETS}
NEXT = "f" * 40


class HubServer:
    """A hub on loopback, with the parts of the API that the client uses."""

    def __init__(self, folder: Path) -> None:
        self.requested_paths: list[str] = []
        self.heads = dict(COMMITS)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                outer._answer(self, folder)

            do_HEAD = do_GET  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> HubServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler, folder: Path) -> None:
        path = request.path.partition("?")[0]
        self.requested_paths.append(path)
        match = re.fullmatch(
            r"(?:/api)?/datasets/(nthakur/[\w-]+)(?:/(revision|tree|resolve)/(\w+)(?:/(.*))?)?",
            path,
        )
        if match is None or match[1] not in self.heads:
            return _send(request, 404, b"")
        name, kind, revision, file = match.groups()
        commit = revision if revision and len(revision) == 40 else self.heads[name]
        root = folder / name.partition("/")[2]
        files = {str(each.relative_to(root)): each for each in sorted(root.rglob("*.parquet"))}
        if kind == "resolve":
            return _send(request, 200, files[file].read_bytes(), commit)
        if kind == "tree":
            listed = [
                {
                    "type": "file",
                    "path": path,
                    "size": each.stat().st_size,
                    "oid": hashlib.sha1(each.read_bytes()).hexdigest(),
                }
                for path, each in files.items()
            ]
            return _send(request, 200, json.dumps(listed).encode(), commit)
        about = {"id": name, "sha": commit, "siblings": [{"rfilename": path} for path in files]}
        return _send(request, 200, json.dumps(about).encode(), commit)


def _send(request: BaseHTTPRequestHandler, status: int, body: bytes, commit: str = "") -> None:
    request.send_response(status)
    request.send_header("Content-Length", str(len(body)))
    request.send_header("ETag", f'"{hashlib.sha1(body).hexdigest()}"')
    request.send_header("X-Repo-Commit", commit)
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)


@pytest.fixture
def server(copy: Path) -> Iterator[HubServer]:
    with HubServer(copy) as server:
        yield server


def python(code: str, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new process, because the client reads its cache folder when imported."""
    unset = ("HF_HUB_OFFLINE", "HF_ENDPOINT", "HF_TOKEN")
    environment = {key: value for key, value in os.environ.items() if key not in unset}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment | {"HF_HOME": str(home)} | more,
        capture_output=True,
        text=True,
        timeout=120,
    )


DOWNLOAD = f"""
    from mirage.sources import hub
    for name in hub.DATASETS:
        split = hub.find(name, {CODE!r})
        print(split.revision, split.files[0])
    print(len(hub.queries({CODE!r})))
"""


def test_the_hub_is_asked_once_and_its_commit_is_stored(server: HubServer, tmp_path: Path) -> None:
    first = python(DOWNLOAD, tmp_path, HF_ENDPOINT=server.url)
    assert first.returncode == 0, first.stderr
    assert re.findall(r"^([0-9a-f]{40}) ", first.stdout, re.MULTILINE) == list(COMMITS.values())
    assert first.stdout.splitlines()[-1] == str(NUMBER)

    # Later the hub has a newer commit: what is here stays, and nobody asks. Nor without a network.
    server.heads = dict.fromkeys(hub.DATASETS, NEXT)
    server.requested_paths.clear()
    for way in ({"HF_ENDPOINT": server.url}, {"HF_HUB_OFFLINE": "1"}):
        again = python(DOWNLOAD, tmp_path, **way)
        assert (again.returncode, again.stdout) == (0, first.stdout), again.stderr
    assert [path for path in server.requested_paths if "datasets" in path] == []


def test_other_languages_use_the_same_commit_by_default(server: HubServer, tmp_path: Path) -> None:
    code = f"""
        from mirage.sources import hub
        print(hub.find(hub.QUERIES, {CODE!r}).revision)
        input()
        for revisions in ({{}}, {{hub.QUERIES: {NEXT!r}}}):
            print(hub.find(hub.QUERIES, {CODE!r}, revisions=revisions).revision)
        print(hub.find(hub.QUERIES, {CODE!r}).revision)
        try:
            hub.find(hub.QUERIES, "yo")
        except Exception as error:
            print(f"{{type(error).__name__}}: {{error}}")
    """
    environment = os.environ | {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path)}
    environment.pop("HF_HUB_OFFLINE", None)
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline().strip()
        server.heads = dict.fromkeys(hub.DATASETS, "e" * 40)
        rest = process.communicate("\n", timeout=120)[0].splitlines()
    commit = COMMITS[QUERIES]
    assert [first, *rest[:3]] == [commit, commit, NEXT, commit]
    assert (
        rest[3]
        == f"DatasetError: dataset {QUERIES} at revision {commit} has no files yo/dev-*.parquet"
    )


UNREACHABLE = """
    import time
    from huggingface_hub import constants
    from mirage import Leaderboard
    start = time.monotonic()
    try:
        Leaderboard.from_hub("de")
    except Exception as error:
        print(type(error).__name__, round(time.monotonic() - start, 1), error, sep="\\n")
"""


@pytest.mark.parametrize("way", ["offline", "refused", "silent"])
def test_an_unreachable_hub_is_an_error_with_the_commands_to_run(way: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        port = silent.getsockname()[1]
        if way == "refused":
            silent.close()
        more = {"HF_HUB_OFFLINE": "1"} if way == "offline" else {}
        completed = python(
            UNREACHABLE,
            tmp_path,
            HF_ENDPOINT=f"http://127.0.0.1:{port}",
            HF_HUB_ETAG_TIMEOUT="1",
            **more,
        )
    assert completed.returncode == 0, completed.stderr
    kind, seconds, *message = completed.stdout.splitlines()
    assert kind == "DatasetError"
    # Its own time limit, once; 3 s more where it asks who is calling, and room for a busy machine.
    assert float(seconds) < 15
    assert message[0].startswith(f"{QUERIES} (de) is not in the cache and cannot be downloaded")
    assert message[1:4] == [
        f"  hf download {name} --repo-type dataset --include 'de/*' "
        f"--local-dir FOLDER/{name.partition('/')[2]}"
        for name in hub.DATASETS
    ]
    assert message[4:] == ["then copy FOLDER here and pass path='FOLDER'"]
    assert "Traceback" not in completed.stderr
    assert not (tmp_path / "hub").exists() or not list((tmp_path / "hub").rglob("*.parquet"))


@pytest.mark.slow
def test_the_command_of_the_error_downloads_files_for_path(
    server: HubServer, tmp_path: Path
) -> None:
    completed = python(
        UNREACHABLE.replace('"de"', repr(CODE)), tmp_path / "home", HF_HUB_OFFLINE="1"
    )
    commands = [line.split() for line in completed.stdout.splitlines() if line.startswith("  hf ")]
    assert len(commands) == 3
    for program, *arguments in commands:
        words = [word.strip("'").replace("FOLDER", str(tmp_path / "copied")) for word in arguments]
        subprocess.run(
            [Path(sys.executable).with_name(program), *words],
            env=os.environ | {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path / "there")},
            check=True,
            capture_output=True,
        )
    assert len(MirageDataset.from_hub(CODE, path=tmp_path / "copied")) == NUMBER
