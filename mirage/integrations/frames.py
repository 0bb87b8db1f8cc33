"""pandas and polars: datasets, runs and feature tables to and from data frames.

    from mirage import FeatureSuite, MirageDataset, respond
    from mirage.integrations.frames import dataset_from_frame, run_from_frame, to_polars

    dataset = MirageDataset.bundled("sw")
    run = respond(lambda query: query.passages[0].text, dataset, model="first")
    assert dataset_from_frame(dataset.to_pandas()) == dataset
    assert run_from_frame(to_polars(run)) == run
    print(to_polars(FeatureSuite.default("sw").score(dataset, run)))

The columns are those of :mod:`mirage.integrations`; unknown columns are ignored with a warning. To
convert to pandas, use ``to_pandas()`` of a dataset, run, feature table or judgments. This module
needs pandas or polars (extra ``frames``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mirage._base.packages import package
from mirage.dataset import MirageDataset
from mirage.features import FeatureTable
from mirage.integrations._rows import dataset_from as dataset_from_frame
from mirage.integrations._rows import rows_of
from mirage.integrations._rows import run_from as run_from_frame
from mirage.integrations._rows import table_from as table_from_frame
from mirage.models import Passage, Run

if TYPE_CHECKING:
    import polars as pl

__all__ = ["dataset_from_frame", "run_from_frame", "table_from_frame", "to_polars"]


def to_polars(records: MirageDataset | Run | FeatureTable) -> pl.DataFrame:
    """Return a polars DataFrame with one row per query or response; passages become structs.

    Args:
        records: A dataset, a run or a feature table.

    Raises:
        FeatureError: If a feature has the name of a reserved column.
        MissingPackageError: If polars is not installed.
    """
    polars = package("polars")
    rows, types = rows_of(records), _types(polars, records)
    frame: pl.DataFrame = polars.DataFrame(rows, schema_overrides=types)
    return frame


def _types(polars: Any, records: MirageDataset | Run | FeatureTable) -> dict[str, Any]:
    """Return the types of the columns that may have no value, because polars cannot infer them."""
    text = polars.String
    passages = polars.List(polars.Struct(dict.fromkeys(Passage.model_fields, text)))
    if isinstance(records, MirageDataset):
        lists = {"passages": passages, "relevant": polars.List(text)}
        lists |= dict.fromkeys(("answers", "wrong_answers"), polars.List(polars.List(text)))
        return lists | {"reference": text, "answerable": polars.Boolean, "cluster": text}
    if isinstance(records, Run):
        return {"text": text, "error": text, "shown": polars.List(text), "passages": passages}
    return dict.fromkeys(records.features, polars.Float64)
