"""pandas and polars: datasets, runs and feature tables to and from data frames.

    from mirage import FeatureSuite, MirageDataset, respond
    from mirage.integrations.frames import dataset_from_frame, run_from_frame, to_pandas, to_polars

    dataset = MirageDataset.bundled("sw")
    run = respond(lambda query: query.reference, dataset, name="reference")
    assert dataset_from_frame(to_pandas(dataset)) == dataset
    assert run_from_frame(to_polars(run)) == run
    print(to_polars(FeatureSuite.offline("sw").score(dataset, run)))

The columns are those of :mod:`mirage.integrations`. A feature table in pandas is
:meth:`mirage.FeatureTable.to_pandas`, judgments are :meth:`mirage.Judgments.to_pandas`. Needs
pandas or polars (extra ``frames``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mirage._base.rows import rows_in
from mirage.dataset import MirageDataset
from mirage.errors import missing_package
from mirage.features import FeatureTable
from mirage.integrations import _rows
from mirage.models import Run

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["dataset_from_frame", "run_from_frame", "table_from_frame", "to_pandas", "to_polars"]


def to_pandas(records: MirageDataset | Run) -> pd.DataFrame:
    """A row a query or response; lists and passages are Python lists and dicts.

    Raises:
        MissingPackageError: pandas is not installed.
    """
    frame: pd.DataFrame = _package("pandas").DataFrame(_rows.rows_of(records))
    return frame


def to_polars(records: MirageDataset | Run | FeatureTable) -> pl.DataFrame:
    """A row a query, a response, or a response's features; passages are structs.

    Raises:
        FeatureError: a feature has the name of another column.
        MissingPackageError: polars is not installed.
    """
    polars = _package("polars")
    rows, types = _rows.rows_of(records), _types(polars, records)
    frame: pl.DataFrame = polars.DataFrame(rows, schema_overrides=types)
    return frame


def dataset_from_frame(
    frame: pd.DataFrame | pl.DataFrame, *, name: str = "frame", language: str | None = None
) -> MirageDataset:
    """The dataset of a frame as :func:`to_pandas` or :func:`to_polars` gives it.

    Args:
        frame: only ``id`` and ``text`` have to be there; an index is not read.
        name: of the dataset.
        language: of rows that have none.

    Raises:
        DatasetError: what is wrong in which row (from 0) and field; also for a column too many.
    """
    return _rows.dataset_of(rows_in(frame), name=name, language=language)


def run_from_frame(
    frame: pd.DataFrame | pl.DataFrame, *, model: str | None = None, language: str | None = None
) -> Run:
    """The run of a frame as :func:`to_pandas` or :func:`to_polars` gives it.

    Args:
        frame: only ``query_id`` and one of ``text`` and ``error`` have to be there; an index is
            not read.
        model: what rows without a model are called.
        language: of rows that have none.

    Raises:
        DatasetError: two models, or what is wrong in which row (from 0) and field; also for a
            column too many.
    """
    return _rows.run_of(rows_in(frame), model=model, language=language)


def table_from_frame(frame: pl.DataFrame) -> FeatureTable:
    """The feature table of a frame as :func:`to_polars` gives it.

    Raises:
        DatasetError: two models, or what is wrong in which row (from 0) and field.
    """
    return _rows.table_of(rows_in(frame))


def _types(polars: Any, records: MirageDataset | Run | FeatureTable) -> dict[str, Any]:
    """The types of columns that may be empty, where polars could not tell."""
    text = polars.String
    if isinstance(records, MirageDataset):
        passage = polars.Struct({"id": text, "text": text, "title": text})
        lists = {"passages": polars.List(passage), "relevant": polars.List(text)}
        return lists | {"reference": text, "answerable": polars.Boolean}
    if isinstance(records, Run):
        return {"text": text, "error": text, "shown": polars.List(text)}
    return dict.fromkeys(records.features, polars.Float64)


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise missing_package(name, "frames") from error
