"""pandas and polars: datasets, runs and feature tables to and from data frames.

    from mirage import FeatureSuite, MirageDataset, respond
    from mirage.integrations.frames import dataset_from_frame, run_from_frame, to_pandas, to_polars

    dataset = MirageDataset.bundled("sw")
    run = respond(lambda query: query.passages[0].text, dataset, model="first")
    assert dataset_from_frame(to_pandas(dataset)) == dataset
    assert run_from_frame(to_polars(run)) == run
    print(to_polars(FeatureSuite.offline("sw").score(dataset, run)))

The columns are those of :mod:`mirage.integrations`; others are left out, with a warning. A feature
table in pandas is :meth:`mirage.FeatureTable.to_pandas`, judgments are
:meth:`mirage.Judgments.to_pandas`. Needs pandas or polars (extra ``frames``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mirage.dataset import MirageDataset
from mirage.errors import missing_package
from mirage.features import FeatureTable
from mirage.integrations._rows import dataset_from as dataset_from_frame
from mirage.integrations._rows import rows_of
from mirage.integrations._rows import run_from as run_from_frame
from mirage.integrations._rows import table_from as table_from_frame
from mirage.models import Passage, Run

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["dataset_from_frame", "run_from_frame", "table_from_frame", "to_pandas", "to_polars"]


def to_pandas(records: MirageDataset | Run) -> pd.DataFrame:
    """A row a query or response; lists and passages are Python lists and dicts.

    Raises:
        MissingPackageError: pandas is not installed.
    """
    frame: pd.DataFrame = _package("pandas").DataFrame(rows_of(records))
    return frame


def to_polars(records: MirageDataset | Run | FeatureTable) -> pl.DataFrame:
    """A row a query, a response, or a response's features; passages are structs.

    Raises:
        FeatureError: a feature has the name of another column.
        MissingPackageError: polars is not installed.
    """
    polars = _package("polars")
    rows, types = rows_of(records), _types(polars, records)
    frame: pl.DataFrame = polars.DataFrame(rows, schema_overrides=types)
    return frame


def _types(polars: Any, records: MirageDataset | Run | FeatureTable) -> dict[str, Any]:
    """The types of columns that may be empty, where polars could not tell."""
    text = polars.String
    passages = polars.List(polars.Struct(dict.fromkeys(Passage.model_fields, text)))
    if isinstance(records, MirageDataset):
        lists = {"passages": passages, "relevant": polars.List(text)}
        lists |= dict.fromkeys(("answers", "wrong_answers"), polars.List(polars.List(text)))
        return lists | {"reference": text, "answerable": polars.Boolean, "cluster": text}
    if isinstance(records, Run):
        return {"text": text, "error": text, "shown": polars.List(text), "passages": passages}
    return dict.fromkeys(records.features, polars.Float64)


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise missing_package(name, "frames") from error
