"""Conversion of datasets, runs and feature tables to plain rows and back.

:mod:`mirage.integrations` lists the columns.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel

from mirage._base.files import validated
from mirage._base.logs import logger
from mirage._base.rows import placed, rows_in
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, FeatureError
from mirage.features import FeatureTable
from mirage.models import Query, Response, Run

Row = Mapping[str, Any]

_LOG = logger("mirage.integrations")

TABLE_COLUMNS = ("model", "language", "query_id", "not_computed")
"""The columns of a feature table that are not features."""


# To rows ------------------------------------------------------------------------------------------


def rows_of(records: MirageDataset | Run | FeatureTable) -> list[dict[str, Any]]:
    """Return one row per query or response.

    All rows have the same columns. An unknown value is ``None``.
    """
    return _table_rows(records) if isinstance(records, FeatureTable) else records._rows()


def _table_rows(table: FeatureTable) -> list[dict[str, Any]]:
    # The feature and the reserved column would overwrite each other.
    clash = next((name for name in table.features if name in TABLE_COLUMNS), None)
    if clash is not None:
        raise FeatureError(
            f"feature {clash!r} of {table.model!r} has the name of a reserved column; rename it"
        )
    reasons: dict[str, dict[str, str]] = {query_id: {} for query_id in table.query_ids}
    for (query_id, name), why in table.reasons.items():
        reasons[query_id][name] = why
    same = {"model": table.model, "language": table.language}
    return [
        same
        | {"query_id": query_id}
        | dict(zip(table.features, map(_none_if_nan, values), strict=True))
        | {"not_computed": json.dumps(reasons[query_id], ensure_ascii=False)}
        for query_id, values in zip(table.query_ids, table.values, strict=True)
    ]


def _none_if_nan(value: float) -> float | None:
    # Data frames store missing values as None; NaN would become a number in some formats.
    return None if np.isnan(value) else float(value)


# From rows ----------------------------------------------------------------------------------------


def dataset_from(data: Any, *, name: str = "", language: str | None = None) -> MirageDataset:
    """Return a dataset, read from the rows of a DataFrame or Hugging Face dataset.

    Args:
        data: A data frame, or one split of a Hugging Face dataset. The columns ``id`` and ``text``
            are required. An index is read only if it has a name. Unknown columns are ignored with
            a warning.
        name: Name of the dataset; by default ``"frame"``, or ``"dataset"`` for a split.
        language: ISO 639-1 code for rows without a language.

    Raises:
        DatasetError: If a column is misspelt, or a value is not valid. The message names the row,
            counted from 0, and the field.
    """
    name = name or ("dataset" if hasattr(data, "column_names") else "frame")
    queries = []
    for where, row in _drop_columns(
        Query, _locate_rows(rows_in(data), name, language=language), name
    ):
        if "metadata" in row:
            row["metadata"] = _texts(row["metadata"], f"{where}, field 'metadata'")
        queries.append(validated(Query, row, where))
    return MirageDataset(queries, name=name)


def run_from(data: Any, *, model: str | None = None, language: str | None = None) -> Run:
    """Return a run, read from the rows of a DataFrame or Hugging Face dataset.

    Args:
        data: A data frame, or one split of a Hugging Face dataset. The column ``query_id`` and one
            of ``text`` and ``error`` are required. An index is read only if it has a name. Unknown
            columns are ignored with a warning.
        model: Name of the model for rows without one.
        language: ISO 639-1 code for rows without a language.

    Raises:
        DatasetError: If there are two models, a column is misspelt, or a value is not valid. The
            message names the row, counted from 0, and the field.
    """
    rows = _locate_rows(rows_in(data), "run", model=model, language=language)
    fields = {name: _common_value(rows, name) for name in ("model", "language")}
    for _, row in rows:
        # A failure has an error and no text; Response requires the field.
        row.setdefault("text", None)
        del row["model"], row["language"]
    rows = _drop_columns(Response, rows, "run")
    responses = [validated(Response, row, where) for where, row in rows]
    return validated(Run, {**fields, "responses": responses}, "run")


def table_from(data: Any, *, model: str | None = None, language: str | None = None) -> FeatureTable:
    """Return a feature table, read from the rows of a DataFrame or Hugging Face dataset.

    Every column that is not reserved is a feature.

    Args:
        data: A data frame, one split of a Hugging Face dataset, or the result of
            :meth:`mirage.FeatureTable.to_pandas`.
        model: Name of the model for rows without one.
        language: ISO 639-1 code for rows without a language.

    Raises:
        DatasetError: If there are two models, or a value is not valid. The message names the row,
            counted from 0, and the field.
        FeatureError: If a query occurs twice.
    """
    # FeatureTable.to_pandas() has the queries as its index and model and language as attributes.
    if hasattr(data, "attrs") and "query_id" not in data.columns:
        return FeatureTable.from_pandas(data, model=model, language=language)
    rows = rows_in(data)
    located_rows = _locate_rows(rows, "feature table", model=model, language=language)
    names = tuple(name for name in rows[0] if name not in TABLE_COLUMNS)
    if nameless := [where for where, row in located_rows if "query_id" not in row]:
        raise DatasetError(f"{nameless[0]}: the row has no field 'query_id'")
    ids = tuple(str(row["query_id"]) for _, row in located_rows)
    reasons = {
        (query_id, name): why
        for query_id, (where, row) in zip(ids, located_rows, strict=True)
        for name, why in _texts(
            row.get("not_computed", "{}"), f"{where}, field 'not_computed'"
        ).items()
    }
    values = [[_number(row, name, where) for name in names] for where, row in located_rows]
    return FeatureTable(
        model=_common_value(located_rows, "model"),
        language=_common_value(located_rows, "language"),
        query_ids=ids,
        features=names,
        values=np.array(values, dtype=np.float64).reshape(len(located_rows), len(names)),
        reasons=reasons,
    )


def _drop_columns(
    record: type[BaseModel], rows: Sequence[tuple[str, dict[str, Any]]], source: str
) -> list[tuple[str, dict[str, Any]]]:
    """Return the rows without columns that are not fields of the record.

    A warning lists the dropped columns. A column whose name is similar to a field is kept, because
    validation then reports it as misspelt.
    """
    fields = list(record.model_fields)
    names = dict.fromkeys(name for _, row in rows for name in row if name not in fields)
    dropped = [name for name in names if not difflib.get_close_matches(name, fields, cutoff=0.75)]
    if dropped:
        _LOG.warning("%s: these columns are ignored: %s", source, ", ".join(map(repr, dropped)))
    return [
        (where, {name: value for name, value in row.items() if name not in dropped})
        for where, row in rows
    ]


def _locate_rows(
    rows: Sequence[Row], source: str, **defaults: str | None
) -> list[tuple[str, dict[str, Any]]]:
    if not rows:
        raise DatasetError(f"{source}: the table has no rows")
    return placed(rows, source, **defaults)


def _common_value(rows: Sequence[tuple[str, dict[str, Any]]], field: str) -> str:
    values = list(dict.fromkeys(row.get(field) for _, row in rows))
    if len(values) > 1 or None in values:
        raise DatasetError(
            f"{rows[0][0]} and later rows must have the same {field!r}, got "
            f"{', '.join(map(repr, values))}; select the rows of one {field}, or pass {field}= for "
            "rows that lack it"
        )
    return str(values[0])


def _texts(value: object, where: str) -> dict[str, str]:
    try:
        texts = json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise DatasetError(f"{where}: not JSON ({error})") from None
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise DatasetError(
            f"{where}: expected a JSON object whose values are strings, got {value!r}"
        )
    return texts


def _number(row: Row, name: str, where: str) -> float:
    value = row.get(name, np.nan)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise DatasetError(f"{where}, field {name!r}: {value!r} is not a number") from None
