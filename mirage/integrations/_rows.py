"""Records as plain rows; :mod:`mirage.integrations` documents the columns."""

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

__all__ = ["TABLE_COLUMNS", "Row", "dataset_from", "rows_of", "run_from", "table_from"]

Row = Mapping[str, Any]

_LOG = logger("mirage.integrations")

TABLE_COLUMNS = ("model", "language", "query_id", "not_computed")
"""The columns of a feature table that are no features."""


# To rows ------------------------------------------------------------------------------------------


def rows_of(records: MirageDataset | Run | FeatureTable) -> list[dict[str, Any]]:
    """A row a query or response, with every column."""
    if isinstance(records, MirageDataset):
        plain = [query.model_dump(mode="json") for query in records]
        return [row | {"metadata": _as_json(row["metadata"])} for row in plain]
    if isinstance(records, Run):
        same = {"model": records.model, "language": records.language}
        return [same | response.model_dump(mode="json") for response in records]
    return _table_rows(records)


def _table_rows(table: FeatureTable) -> list[dict[str, Any]]:
    clash = next((name for name in table.features if name in TABLE_COLUMNS), None)
    if clash is not None:
        raise FeatureError(
            f"feature {clash!r} of {table.model!r} has the name of another column; rename it"
        )
    reasons: dict[str, dict[str, str]] = {query_id: {} for query_id in table.query_ids}
    for (query_id, name), why in table.reasons.items():
        reasons[query_id][name] = why
    same = {"model": table.model, "language": table.language}
    return [
        same
        | {"query_id": query_id}
        | dict(zip(table.features, map(_or_none, values), strict=True))
        | {"not_computed": _as_json(reasons[query_id])}
        for query_id, values in zip(table.query_ids, table.values, strict=True)
    ]


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _as_json(texts: Mapping[str, str]) -> str:
    return json.dumps(texts, ensure_ascii=False)


# From rows ----------------------------------------------------------------------------------------


def dataset_from(data: Any, *, name: str = "", language: str | None = None) -> MirageDataset:
    """The dataset of rows as the functions of this module give them.

    Args:
        data: a frame, or one split. Only ``id`` and ``text`` have to be there; of an index only
            one with a name is read. Columns of other names are left out, with a warning.
        name: of the dataset; by default ``"frame"``, or ``"dataset"`` for a split.
        language: of rows that have none.

    Raises:
        DatasetError: what is wrong in which row (from 0) and field, or a misspelt column.
    """
    name = name or ("dataset" if hasattr(data, "column_names") else "frame")
    queries = []
    for where, row in _fields_of(Query, _placed(rows_in(data), name, language=language), name):
        if "metadata" in row:
            row["metadata"] = _texts(row["metadata"], f"{where}, field 'metadata'")
        queries.append(validated(Query, row, where))
    return MirageDataset(queries, name=name)


def run_from(data: Any, *, model: str | None = None, language: str | None = None) -> Run:
    """The run of rows as the functions of this module give them.

    Args:
        data: a frame, or one split. Only ``query_id`` and one of ``text`` and ``error`` have to be
            there; of an index only one with a name is read. Columns of other names are left out,
            with a warning.
        model: what rows without a model are called.
        language: of rows that have none.

    Raises:
        DatasetError: two models, what is wrong in which row (from 0) and field, or a misspelt
            column.
    """
    places = _placed(rows_in(data), "run", model=model, language=language)
    fields = {name: _only(places, name) for name in ("model", "language")}
    for _, row in places:
        row.setdefault("text", None)
        del row["model"], row["language"]
    places = _fields_of(Response, places, "run")
    responses = [validated(Response, row, where) for where, row in places]
    return validated(Run, {**fields, "responses": responses}, "run")


def table_from(data: Any, *, model: str | None = None, language: str | None = None) -> FeatureTable:
    """The feature table of rows as the functions of this module give them.

    Every column that is none of the others is a feature.

    Args:
        data: a frame, or one split; also what :meth:`mirage.FeatureTable.to_pandas` gives.
        model: what rows without a model are called.
        language: of rows that have none.

    Raises:
        DatasetError: two models, or what is wrong in which row (from 0) and field.
        FeatureError: a query stands twice.
    """
    if hasattr(data, "attrs") and "query_id" not in data.columns:
        return FeatureTable.from_pandas(data, model=model, language=language)
    rows = rows_in(data)
    places = _placed(rows, "feature table", model=model, language=language)
    names = tuple(name for name in rows[0] if name not in TABLE_COLUMNS)
    if nameless := [where for where, row in places if "query_id" not in row]:
        raise DatasetError(f"{nameless[0]}: no field 'query_id'")
    ids = tuple(str(row["query_id"]) for _, row in places)
    reasons = {
        (query_id, name): why
        for query_id, (where, row) in zip(ids, places, strict=True)
        for name, why in _texts(
            row.get("not_computed", "{}"), f"{where}, field 'not_computed'"
        ).items()
    }
    values = [[_number(row, name, where) for name in names] for where, row in places]
    return FeatureTable(
        model=_only(places, "model"),
        language=_only(places, "language"),
        query_ids=ids,
        features=names,
        values=np.array(values, dtype=np.float64).reshape(len(places), len(names)),
        reasons=reasons,
    )


def _fields_of(
    record: type[BaseModel], rows: Sequence[tuple[str, dict[str, Any]]], source: str
) -> list[tuple[str, dict[str, Any]]]:
    """The rows without columns that are none of the record's, of which a warning is logged.

    One with nearly the name of a field stays, for what is misspelt is to be refused.
    """
    known = list(record.model_fields)
    names = dict.fromkeys(name for _, row in rows for name in row if name not in known)
    others = [name for name in names if not difflib.get_close_matches(name, known, cutoff=0.75)]
    if others:
        _LOG.warning("%s: columns that are left out: %s", source, ", ".join(map(repr, others)))
    return [
        (where, {name: value for name, value in row.items() if name not in others})
        for where, row in rows
    ]


def _placed(
    rows: Sequence[Row], source: str, **defaults: str | None
) -> list[tuple[str, dict[str, Any]]]:
    if not rows:
        raise DatasetError(f"{source}: no row")
    return placed(rows, source, **defaults)


def _only(rows: Sequence[tuple[str, dict[str, Any]]], field: str) -> str:
    """What all rows have in this field."""
    values = list(dict.fromkeys(row.get(field) for _, row in rows))
    if len(values) > 1 or None in values:
        raise DatasetError(
            f"{rows[0][0]} and others have for {field!r}: {', '.join(map(repr, values))}; take the "
            f"rows of one {field}, or say which where there is none"
        )
    return str(values[0])


def _texts(value: object, where: str) -> dict[str, str]:
    try:
        texts = json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise DatasetError(f"{where}: not JSON ({error})") from None
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise DatasetError(f"{where}: expected a JSON object of texts, found {value!r}")
    return texts


def _number(row: Row, name: str, where: str) -> float:
    value = row.get(name, np.nan)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise DatasetError(f"{where}, field {name!r}: {value!r} is not a number") from None
