"""The numpy table that a suite fills."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.errors import FeatureError, UnknownNameError
from mirage.features import FeatureTable

NAN = float("nan")


@pytest.fixture
def table() -> FeatureTable:
    values = np.array([[1.0, NAN], [2.0, 4.0], [6.0, 8.0]])
    return FeatureTable("m", "en", ("q1", "q2", "q3"), ("x", "y"), values, {("q1", "y"): "why not"})


def test_a_column_is_found_by_its_feature(table: FeatureTable) -> None:
    assert table["x"].tolist() == [1, 2, 6]
    assert len(table) == 3
    with pytest.raises(UnknownNameError, match="did you mean 'x'"):
        table["xx"]


def test_mean_leaves_out_what_is_missing(table: FeatureTable) -> None:
    assert table.mean().tolist() == [3, 6]
    assert table.mean(np.array([1, 0, 1])).tolist() == [3.5, 8]
    assert table.mean(np.array([[2, 1, 0], [1, 0, 0]])) == pytest.approx(
        np.array([[4 / 3, 4], [1, NAN]]), nan_ok=True
    )


def test_mean_equals_numpy(table: FeatureTable) -> None:
    rng = np.random.default_rng(0)
    values = np.where(rng.random((50, 4)) < 0.3, NAN, rng.normal(size=(50, 4)))
    table = FeatureTable("m", "en", tuple(f"q{i}" for i in range(50)), tuple("abcd"), values)
    assert table.mean() == pytest.approx(np.nanmean(values, axis=0))
    drawn = rng.integers(0, 50, size=30)
    counts = np.bincount(drawn, minlength=50)
    assert table.mean(counts) == pytest.approx(np.nanmean(values[drawn], axis=0))


def test_select_returns_the_rows_in_the_given_order(table: FeatureTable) -> None:
    part = table.select(["q3", "q1"])
    assert part.query_ids == ("q3", "q1")
    assert part["x"].tolist() == [6, 1]
    assert part.reasons == {("q1", "y"): "why not"}
    assert table.select(["q2"]).reasons == {}
    with pytest.raises(UnknownNameError, match="'q9'"):
        table.select(["q9"])


def test_a_table_survives_the_way_through_pandas(table: FeatureTable) -> None:
    frame = table.to_pandas()
    assert frame.loc["q2", "y"] == 4
    again = FeatureTable.from_pandas(frame, model="m", language="en")
    assert np.array_equal(again.values, table.values, equal_nan=True)
    assert (again.query_ids, again.features) == (table.query_ids, table.features)


def test_values_must_have_the_shape_of_queries_and_features() -> None:
    with pytest.raises(FeatureError, match=r"shape \(2, 1\), expected \(2 queries, 2 features\)"):
        FeatureTable("m", "en", ("q1", "q2"), ("x", "y"), np.zeros((2, 1)))


def test_names_are_unique() -> None:
    with pytest.raises(FeatureError, match="query 'q1' occurs twice"):
        FeatureTable("m", "en", ("q1", "q1"), ("x",), np.zeros((2, 1)))
    with pytest.raises(FeatureError, match="feature 'x' occurs twice"):
        FeatureTable("m", "en", ("q1",), ("x", "x"), np.zeros((1, 2)))


def test_the_repr_is_one_line(table: FeatureTable) -> None:
    assert repr(table) == (
        "FeatureTable('m', language='en', queries=3, features=['x', 'y'], not_computed=1)"
    )
