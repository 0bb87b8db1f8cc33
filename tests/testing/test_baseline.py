"""Baseline files: their content, and the errors on wrong files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mirage import FeatureSuite, Leaderboard, MirageDataset, respond
from mirage.errors import DatasetError, SettingError
from mirage.features import Facts
from mirage.features.base import FunctionFeature
from mirage.models import Query, Response
from mirage.testing import save_baseline
from mirage.testing.baseline import read_baseline
from mirage.testing.gate import gated

CITED = FeatureSuite(["citation_recall@10", "citation_map@10"])


def references(dataset: MirageDataset) -> dict[str, str]:
    return {query.id: query.reference or "" for query in dataset}


@pytest.fixture(scope="module")
def swahili() -> MirageDataset:
    return MirageDataset.bundled("sw")


def save_references(path: Path, dataset: MirageDataset, **options: Any) -> Any:
    return save_baseline(references(dataset), path, on=dataset, **{"suite": CITED, **options})


def test_a_saved_baseline_is_read_back(tmp_path: Path, swahili: MirageDataset) -> None:
    saved = save_baseline(references(swahili), tmp_path / "b.json", on="sw", model="my-rag")
    loaded = read_baseline(tmp_path / "b.json")
    assert (loaded.table.model, loaded.table.language, loaded.dataset) == (
        "my-rag",
        "sw",
        "bundled-sw",
    )
    assert set(loaded.table.features) == {*gated(swahili), *FeatureSuite.default("sw").names}
    assert loaded.table.query_ids == swahili.query_ids
    assert np.array_equal(loaded.table.values, saved.table.values, equal_nan=True)
    lower = {"wrong_answer", "unknown_facts", "english_language"}
    assert lower <= set(loaded.lower_is_better)
    assert loaded.versions["mirage-rag"]
    assert math.isnan(loaded.table.select(["q13"]).values[0, 1])  # it has no relevant passage


def test_the_file_is_small_and_has_a_line_a_query(tmp_path: Path, swahili: MirageDataset) -> None:
    path = tmp_path / "b.json"
    save_baseline(references(swahili), path, on="sw")
    text = path.read_text(encoding="utf-8")
    assert sum(line.startswith('  "q') for line in text.splitlines()) == len(swahili)
    assert path.stat().st_size < 200 * len(swahili)
    assert not any(query.text in text for query in swahili)


def test_runs_of_several_days_are_saved_as_one_baseline(
    tmp_path: Path, swahili: MirageDataset
) -> None:
    texts = references(swahili)
    days = [texts, {**texts, "q01": "Sijui."}, texts]
    path = tmp_path / "b.json"
    saved = save_baseline(days, path, on=swahili, suite=CITED, model="my-rag")
    loaded = read_baseline(path)
    assert (saved.runs, loaded.runs) == (3, 3)
    assert loaded.table.repeats is not None
    assert loaded.table.repeats.shape == (3, len(swahili), 2)
    recall = dict(zip(loaded.table.query_ids, loaded.table.repeats[:, :, 0].T, strict=True))
    assert recall["q01"].tolist() == [recall["q01"][0], 0.0, recall["q01"][0]]
    assert recall["q01"][0] > 0
    content = json.loads(path.read_text(encoding="utf-8"))
    content["runs"] = 2
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DatasetError, match="3 repeats cannot be divided evenly among 2 runs"):
        read_baseline(path)
    with pytest.raises(SettingError, match="at least one run"):
        save_baseline([], path, on=swahili)
    once, twice = (
        respond(lambda _: "Ndiyo.", swahili, repeats=number, progress=False) for number in (1, 2)
    )
    with pytest.raises(SettingError, match=r"same number of repeats, got \[1, 2\]"):
        save_baseline([once, twice], path, on=swahili, suite=CITED)


def test_failures_are_kept_as_failures(tmp_path: Path, swahili: MirageDataset) -> None:
    def fails_once(query: Query) -> str:
        if query.id == "q03":
            raise TimeoutError("no answer arrived within 5 s")
        return references(swahili)[query.id]

    loaded = save_baseline(fails_once, tmp_path / "b.json", on=swahili, suite=CITED)
    assert loaded.failed == {"q03": "TimeoutError: no answer arrived within 5 s"}
    assert np.isnan(loaded.table.select(["q03"]).values).all()


def test_a_leaderboard_provides_queries_and_features(tmp_path: Path) -> None:
    board = Leaderboard.bundled("sw")
    suite = board.suite + FunctionFeature(length, facts=Facts("lower", low=0))
    wider = Leaderboard(board.dataset, suite, board.ranker)
    loaded = save_baseline(references(board.dataset), tmp_path / "b", on=wider)
    assert set(suite.names) <= set(loaded.table.features)
    lower = {"wrong_answer", "unknown_facts", "english_language", "length"}
    assert lower <= set(loaded.lower_is_better)


def length(_: Query, response: Response) -> float:
    return float(len(response.text or ""))


def test_the_error_names_a_path_that_cannot_be_written(
    tmp_path: Path, swahili: MirageDataset
) -> None:
    with pytest.raises(DatasetError, match=r"missing.b\.json: cannot be written"):
        save_references(tmp_path / "missing" / "b.json", swahili)


def test_the_order_and_metadata_of_queries_do_not_matter(
    tmp_path: Path, swahili: MirageDataset
) -> None:
    loaded = save_references(tmp_path / "b.json", swahili)
    loaded.check(MirageDataset(reversed(list(swahili))))
    loaded.check(MirageDataset(query.model_copy(update={"metadata": {}}) for query in swahili))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d[:38], r"2 queries are missing \(q39, q40\)"),
        (
            lambda d: rename_query(d, "q02", "q77"),
            r"1 query is missing \(q02\) and 1 query is new \(q77\)",
        ),
        (lambda _: MirageDataset.bundled("en"), "not the questions, passages or references"),
        (lambda d: d[:1], r"39 queries are missing \(q02, q03, q04, \.\.\.\)"),
    ],
)
def test_other_queries_are_one_clear_error(
    tmp_path: Path,
    swahili: MirageDataset,
    change: Callable[[MirageDataset], MirageDataset],
    message: str,
) -> None:
    loaded = save_references(tmp_path / "b.json", swahili)
    with pytest.raises(
        DatasetError, match=f"saved on bundled-sw.*{message}.*save the baseline again"
    ):
        loaded.check(change(swahili))


def rename_query(dataset: MirageDataset, old: str, new: str) -> MirageDataset:
    return MirageDataset(
        query.model_copy(update={"id": new}) if query.id == old else query for query in dataset
    )


def test_a_file_that_is_no_baseline_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    with pytest.raises(DatasetError, match=r"b\.json: cannot be read .*write it with save_basel"):
        read_baseline(path)
    for text, message in (
        ("{", "not JSON"),
        ("[]", "expected a baseline, which is a JSON object, got list"),
        ("{}", "field 'mirage_baseline': Field required"),
    ):
        path.write_text(text)
        with pytest.raises(DatasetError, match=message):
            read_baseline(path)
    path.write_bytes(b'{"\xff": 1}')
    with pytest.raises(DatasetError, match="line 1: not UTF-8"):
        read_baseline(path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("mirage_baseline", 2, "field 'mirage_baseline'"),
        ("language", "xx", "unknown language 'xx'"),
        ("values", {"q01": [1.0]}, "query 'q01': 1 values for 2 features"),
        ("values", {"q01": [1.0, "high"]}, "field 'values.q01.1'"),
        ("values", {"q01": [1.0, math.nan]}, "field 'values.q01.1'"),
        ("features", ["a", "a"], "feature 'a' occurs twice"),
        ("extra", 1, "field 'extra'"),
    ],
)
def test_the_error_names_a_wrong_field(
    tmp_path: Path, swahili: MirageDataset, field: str, value: Any, message: str
) -> None:
    path = tmp_path / "b.json"
    save_references(path, swahili)
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | {field: value}))
    with pytest.raises(DatasetError, match=message):
        read_baseline(path)
