"""Hugging Face ``datasets``: datasets, runs and feature tables to and from ``datasets.Dataset``.

    from mirage import FeatureSuite, MirageDataset, respond
    from mirage.integrations.datasets import dataset_from, run_from, table_from, to_datasets

    dataset = MirageDataset.bundled("sw")
    run = respond(lambda query: query.passages[0].text, dataset, model="first")
    table = FeatureSuite.default("sw").score(dataset, run)
    assert dataset_from(to_datasets(dataset)) == dataset
    assert run_from(to_datasets(run)) == run
    print(to_datasets(table), table_from(to_datasets(table)))

The columns are those of :mod:`mirage.integrations`. A column has its type even if all its values
are missing. This module needs the extra ``hub``.
"""

from __future__ import annotations

from typing import Any

from mirage.dataset import MirageDataset
from mirage.errors import needing
from mirage.features import FeatureTable
from mirage.integrations._rows import TABLE_COLUMNS, dataset_from, rows_of, run_from, table_from
from mirage.models import Run

with needing("datasets"):
    from datasets import Dataset, Features, List, Value

__all__ = ["dataset_from", "run_from", "table_from", "to_datasets"]

_TEXT = Value("string")
_PASSAGES = List(dict.fromkeys(("id", "text", "title", "document"), _TEXT))
_QUERY = {
    **dict.fromkeys(("id", "language", "text"), _TEXT),
    "passages": _PASSAGES,
    "relevant": List(_TEXT),
    "reference": _TEXT,
    "answerable": Value("bool"),
    **dict.fromkeys(("answers", "wrong_answers"), List(List(_TEXT))),
    "cluster": _TEXT,
    "metadata": _TEXT,
}
_RESPONSE = {
    **dict.fromkeys(("model", "language", "query_id", "text", "error", "reasoning"), _TEXT),
    "repeat": Value("int64"),
    "shown": List(_TEXT),
    "passages": _PASSAGES,
    "cut_off": Value("bool"),
}


def to_datasets(records: MirageDataset | Run | FeatureTable) -> Dataset:
    """Return a ``datasets.Dataset`` with one row per query or response.

    Args:
        records: A dataset, a run or a feature table.

    Raises:
        FeatureError: If a feature has the name of a reserved column.
    """
    return Dataset.from_list(rows_of(records), features=Features(_types(records)))


def _types(records: MirageDataset | Run | FeatureTable) -> dict[str, Any]:
    if isinstance(records, MirageDataset):
        return _QUERY
    if isinstance(records, Run):
        return _RESPONSE
    *first, last = TABLE_COLUMNS
    numbers = dict.fromkeys(records.features, Value("float64"))
    return dict.fromkeys(first, _TEXT) | numbers | {last: _TEXT}
