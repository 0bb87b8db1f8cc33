"""Datasets, runs and feature tables to and from pandas and polars, and files of frames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from subsets import MOSTLY_SLOW_LANGUAGES

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, FeatureError
from mirage.features import FeatureSuite, FeatureTable
from mirage.integrations.frames import (
    dataset_from_frame,
    run_from_frame,
    table_from_frame,
    to_polars,
)
from mirage.models import Passage, Query, Response, Run

BARE = MirageDataset([Query(id="1", language="yo", text="Kí ni?")], name="bare")
RUN = Run(
    model="m",
    language="sw",
    responses=(
        Response(query_id="q01", text="Ndiyo [1].", shown=("1001#2", "1001#0")),
        Response(query_id="q02", text=None, error="HTTP 500"),
        Response(query_id="q03", text="", shown=()),
    ),
)


def polars_frame(records: Any) -> Any:
    pytest.importorskip("polars", reason="polars is not installed: pip install '.[frames]'")
    return to_polars(records)


@pytest.fixture(
    params=[lambda records: records.to_pandas(), polars_frame], ids=["pandas", "polars"]
)
def to_frame(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    return request.param


@pytest.mark.parametrize("language", MOSTLY_SLOW_LANGUAGES)
def test_a_dataset_comes_back_equal(to_frame: Callable[[Any], Any], language: str) -> None:
    dataset = MirageDataset.bundled(language)
    frame = to_frame(dataset)
    assert list(frame.columns) == list(Query.model_fields)
    assert len(frame) == len(dataset)
    assert dataset_from_frame(frame) == dataset


def test_a_frame_given_as_queries_names_its_reader(to_frame: Callable[[Any], Any]) -> None:
    with pytest.raises(DatasetError, match="dataset_from_frame reads a DataFrame"):
        MirageDataset(to_frame(BARE))


def test_missing_values_stay_missing(to_frame: Callable[[Any], Any]) -> None:
    assert dataset_from_frame(to_frame(BARE)) == BARE


def test_a_run_comes_back_equal(to_frame: Callable[[Any], Any]) -> None:
    assert run_from_frame(to_frame(RUN)) == RUN
    no_failure = RUN.model_copy(update={"responses": RUN.responses[:1]})
    assert run_from_frame(to_frame(no_failure)) == no_failure


def test_a_dataset_and_a_run_survive_parquet(
    to_frame: Callable[[Any], Any], tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    for records, back in ((MirageDataset.bundled("ar"), dataset_from_frame), (RUN, run_from_frame)):
        frame, path = to_frame(records), tmp_path / "records.parquet"
        write = frame.to_parquet if isinstance(frame, pd.DataFrame) else frame.write_parquet
        write(path)
        assert back(pd.read_parquet(path)) == records


def test_a_feature_table_comes_back_equal() -> None:
    pytest.importorskip("polars", reason="polars is not installed: pip install '.[frames]'")
    dataset = MirageDataset.bundled("sw")
    table = FeatureSuite.default("sw").score(dataset, RUN)
    assert np.isnan(table.values).any()
    frame = to_polars(table)
    assert frame["answer_bleu"].null_count() == int(np.isnan(table["answer_bleu"]).sum())
    back = table_from_frame(frame)
    np.testing.assert_array_equal(back.values, table.values)
    for field in ("model", "language", "query_ids", "features", "reasons"):
        assert getattr(back, field) == getattr(table, field)


def test_ids_that_are_numbers_are_read() -> None:
    frame = pd.DataFrame({"id": [34, 35], "text": ["Who?", "When?"]})
    dataset = dataset_from_frame(frame, name="mine", language="en")
    assert (dataset.name, dataset.query_ids, dataset.language) == ("mine", ("34", "35"), "en")
    run = run_from_frame(pd.DataFrame({"query_id": [34], "text": ["I."]}), model="m", language="en")
    assert run["34"].text == "I."


def test_bad_frames_are_refused_with_their_place() -> None:
    good = RUN.to_pandas()
    with pytest.raises(
        DatasetError, match=r"same 'model', got 'm', 'n'; select the rows of one model"
    ):
        run_from_frame(pd.concat([good, good.assign(model="n")]))
    with pytest.raises(DatasetError, match=r"same 'language', got None; select"):
        run_from_frame(good.drop(columns="language"))
    with pytest.raises(DatasetError, match=r"run, row 1: .* needs either a text or an error"):
        run_from_frame(good.drop(columns="error"))
    with pytest.raises(DatasetError, match=r"row 0, field 'qury_id': Extra inputs"):
        run_from_frame(good.assign(qury_id=1))
    with pytest.raises(DatasetError, match="run: the table has no rows"):
        run_from_frame(good[:0])
    with pytest.raises(DatasetError, match=r"frame, row 0, field 'metadata': not JSON"):
        dataset_from_frame(BARE.to_pandas().assign(metadata="{"))
    with pytest.raises(DatasetError, match=r"whose values are strings, got '\[1\]'"):
        dataset_from_frame(BARE.to_pandas().assign(metadata="[1]"))
    with pytest.raises(DatasetError, match="expected a pandas or polars DataFrame, got list"):
        dataset_from_frame([])  # type: ignore[arg-type]


def test_unknown_columns_are_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert run_from_frame(RUN.to_pandas().assign(latency=0.3, model_cost=1)) == RUN
    assert "run: these columns are ignored: 'latency', 'model_cost'" in caplog.text
    assert dataset_from_frame(BARE.to_pandas().assign(source="wiki")) == BARE


def test_a_table_comes_back_from_its_own_frame(tmp_path: Path) -> None:
    table = FeatureSuite.default("sw").score(MirageDataset.bundled("sw"), RUN)
    frame = table.to_pandas()
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    frame.to_parquet(tmp_path / "table.parquet")
    for read in (frame, pd.read_parquet(tmp_path / "table.parquet")):
        for back in (table_from_frame(read), FeatureTable.from_pandas(read)):
            np.testing.assert_array_equal(back.values, table.values)
            assert back.reasons == table.reasons
            assert (back.model, back.language, back.query_ids) == ("m", "sw", table.query_ids)
    renamed = FeatureTable.from_pandas(frame.fillna(0.0), model="n", language="sw")
    assert (renamed.model, renamed.reasons) == ("n", {})
    frame.attrs.clear()
    with pytest.raises(FeatureError, match="pass model= and language="):
        table_from_frame(frame)
    with_column = frame.reset_index().assign(model="m", language="sw")
    assert table_from_frame(with_column).features == table.features


def test_an_index_with_a_name_is_a_column() -> None:
    assert run_from_frame(RUN.to_pandas().set_index("query_id")) == RUN


def test_a_passage_of_the_response_comes_back(to_frame: Callable[[Any], Any]) -> None:
    passage = Passage(id="x", text="Nile.", document="d")
    response = Response(query_id="q01", text="[1]", shown=("x",), passages=(passage,))
    run = RUN.model_copy(update={"responses": (response, *RUN.responses[1:])})
    assert run_from_frame(to_frame(run)) == run


def test_bad_tables_are_refused() -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    row = {"model": "m", "language": "sw", "query_id": "q01", "rating": "good"}
    with pytest.raises(DatasetError, match="row 0, field 'rating': 'good' is not a number"):
        table_from_frame(polars.DataFrame([row]))
    with pytest.raises(DatasetError, match="row 0: the row has no field 'query_id'"):
        table_from_frame(polars.DataFrame([row]).drop("query_id"))
    named_so = FeatureTable("m", "sw", ("q01",), ("model",), np.zeros((1, 1)))
    with pytest.raises(FeatureError, match="feature 'model' of 'm' has the name of a reserved"):
        to_polars(named_so)


def test_passages_keep_their_titles(to_frame: Callable[[Any], Any]) -> None:
    passage = Passage(id="a", text="نص", title="عنوان")
    query = Query(id="1", language="ar", text="من؟", passages=(passage,), metadata={"k": "ق"})
    query = query.model_copy(update={"answers": (("ق", "q"), ("1",)), "wrong_answers": (("2",),)})
    dataset = MirageDataset([query])
    assert dataset_from_frame(to_frame(dataset)) == dataset
