"""Datasets, runs and feature tables to and from Hugging Face datasets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, FeatureError
from mirage.features import FeatureSuite, FeatureTable
from mirage.models import Passage, Query, Response, Run

pytest.importorskip("datasets", reason="datasets is not installed: pip install '.[hub]'")
import datasets as hf

from mirage.integrations.datasets import dataset_from, run_from, table_from, to_datasets

RUN = Run(
    model="m",
    language="sw",
    responses=(
        Response(query_id="q01", text="Ndiyo [1].", shown=("1001#2", "1001#0")),
        Response(query_id="q02", text=None, error="HTTP 500"),
        Response(query_id="q03", text="", shown=()),
    ),
)


@pytest.mark.parametrize("language", ["ar", "sw", "th"])
def test_a_dataset_comes_back_equal(language: str) -> None:
    dataset = MirageDataset.bundled(language)
    data = to_datasets(dataset)
    assert data.column_names == list(Query.model_fields)
    assert data[0]["passages"][0]["text"] == dataset[0].passages[0].text
    back = dataset_from(data, name="again")
    assert back == dataset
    assert back.name == "again"


def test_types_do_not_depend_on_the_values() -> None:
    bare = MirageDataset([Query(id="1", language="yo", text="Kí ni?")])
    assert to_datasets(bare).features == to_datasets(MirageDataset.bundled("yo")).features
    assert dataset_from(to_datasets(bare)) == bare
    both = hf.concatenate_datasets([to_datasets(bare), to_datasets(MirageDataset.bundled("yo"))])
    assert len(dataset_from(both)) == 41


def test_a_run_comes_back_equal() -> None:
    assert run_from(to_datasets(RUN)) == RUN


def test_passages_keep_all_their_fields() -> None:
    passage = Passage(id="x", text="Nile.", title="t", document="d")
    query = Query(id="1", language="sw", text="?", passages=(passage,))
    assert dataset_from(to_datasets(MirageDataset([query]))) == MirageDataset([query])
    response = Response(query_id="1", text="[1]", shown=("x",), passages=(passage,))
    run = Run(model="m", language="sw", responses=(response,))
    assert run_from(to_datasets(run)) == run


def test_a_dataset_of_several_splits_is_refused() -> None:
    data = hf.DatasetDict(dev=to_datasets(MirageDataset.bundled("sw")))
    with pytest.raises(DatasetError, match=r"the splits 'dev'; pass one of them"):
        dataset_from(data)


def test_records_survive_the_disk(tmp_path: Path) -> None:
    dataset = MirageDataset.bundled("hi")
    to_datasets(dataset).save_to_disk(tmp_path / "queries")
    assert dataset_from(hf.load_from_disk(tmp_path / "queries")) == dataset
    to_datasets(RUN).to_parquet(tmp_path / "run.parquet")
    assert run_from(hf.Dataset.from_parquet(str(tmp_path / "run.parquet"))) == RUN


def test_a_feature_table_comes_back_equal() -> None:
    table = FeatureSuite.default("sw").score(MirageDataset.bundled("sw"), RUN)
    data = to_datasets(table)
    assert data[1]["answer_bleu"] is None  # not computed: not 0, and not NaN
    back = table_from(data)
    np.testing.assert_array_equal(back.values, table.values)
    for field in ("model", "language", "query_ids", "features", "reasons"):
        assert getattr(back, field) == getattr(table, field)


def test_minimal_rows_are_read() -> None:
    data = hf.Dataset.from_list([{"query_id": 1, "text": "Yes."}, {"query_id": 2, "text": "No."}])
    run = run_from(data, model="m", language="en")
    assert [(r.query_id, r.text) for r in run] == [("1", "Yes."), ("2", "No.")]


def test_bad_rows_are_refused() -> None:
    with pytest.raises(DatasetError, match=r"run, row 0, field 'eror': Extra inputs"):
        run_from(to_datasets(RUN).add_column("eror", [1, 2, 3]))
    with pytest.raises(DatasetError, match="select the rows of one model"):
        run_from(to_datasets(RUN).remove_columns("model"))
    clash = FeatureTable("m", "sw", ("q01",), ("not_computed",), np.zeros((1, 1)))
    with pytest.raises(FeatureError, match="rename it"):
        to_datasets(clash)


def test_a_table_given_as_queries_names_its_reader() -> None:
    with pytest.raises(DatasetError, match="dataset_from reads a table"):
        MirageDataset(to_datasets(MirageDataset.bundled("fa").sample(2)))  # type: ignore[arg-type]
