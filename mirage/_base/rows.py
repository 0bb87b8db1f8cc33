"""Read rows of data frames and files, and detect missing values."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from numbers import Real
from string import Formatter
from types import UnionType
from typing import Any

from mirage.errors import DatasetError

PASSAGE_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "_id", "docid", "wikipedia_id"),
    "text": ("text", "contents", "content", "body"),
    "title": ("title", "wikipedia_title"),
    "document": ("document", "document_id"),
}
"""Possible names of each field of a passage, as in files of BEIR, MIRACL, Pyserini and KILT."""


def value_at(row: Mapping[str, Any], name: str, where: str) -> Any:
    """Return the value of a field of a row.

    Args:
        row: The row.
        name: The name of the field. A dotted name such as ``input.text`` is a path into nested
            objects and lists of objects. A name with braces, such as ``{title}: {question}``, is a
            template that is filled with the texts of fields.
        where: The location of the row, for error messages.

    Raises:
        DatasetError: If the row lacks the field.
    """
    if "{" in name and name not in row:
        return _joined(row, name, where)
    value: Any = row
    for part in [name] if name in row else name.split("."):
        if isinstance(value, list) and all(isinstance(each, dict) for each in value):
            value = [each.get(part) for each in value]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            raise DatasetError(
                f"{where}: field {name!r} is missing; the row has the fields {', '.join(row)}"
            )
    return value


def _joined(row: Mapping[str, Any], template: str, where: str) -> str:
    """Return ``template`` filled with fields of ``row``; nothing in the template is evaluated."""
    parts = []
    try:
        for literal, name, form, conversion in Formatter().parse(template):
            parts.append(literal)
            if name is not None:
                value = value_at(row, name, where) if name else None
                if form or conversion or not isinstance(value, str | int | float):
                    raise DatasetError(
                        f"{where}: in the template {template!r}, each slot must name a field "
                        "whose value is a text or a number"
                    )
                parts.append(str(value))
    except ValueError as error:
        raise DatasetError(f"{where}: {template!r} is not a valid template ({error})") from None
    return "".join(parts)


def first_duplicate(values: Iterable[str]) -> str | None:
    """Return the first value that repeats an earlier one, or ``None`` if all values differ.

    Example:
        >>> first_duplicate(["a", "b", "c", "b", "a"])
        'b'
    """
    earlier: set[str] = set()
    for value in values:
        if value in earlier:
            return value
        earlier.add(value)
    return None


def check_new_query(query_id: str, places: dict[str, str], where: str, field: str = "id") -> None:
    """Raise an error if an earlier row of a file has the same query id.

    Args:
        query_id: The id of the query.
        places: The locations of the earlier queries, by id; this one is added.
        where: The location of the query, for the message.
        field: The name of the field that contains the id.
    """
    first = places.setdefault(query_id, where)
    if first != where:
        raise DatasetError(
            f"{where}, field {field!r}: query {query_id!r} occurs a second time, first in {first}; "
            "query ids must be unique"
        )


def list_in_text(value: Any, kinds: type | UnionType) -> Any:
    """Return the list that a text contains in JSON or Python notation, or else the value itself.

    Tables and logs often contain lists as texts. The elements of the list must be of the given
    types, such as ``str | list``.

    Example:
        >>> list_in_text('["a", "b"]', str), list_in_text("[sic]", str)
        (['a', 'b'], '[sic]')
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        for parse in (json.loads, ast.literal_eval):
            try:
                listed = parse(value.strip())
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
            if isinstance(listed, list) and all(isinstance(each, kinds) for each in listed):
                return listed
    return value


def rows_in(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a DataFrame, of a Hugging Face ``datasets.Dataset`` or of an Arrow table.

    Args:
        frame: The pandas or polars DataFrame, dataset or table. A pandas index that has a name
            becomes a column.
    """
    if isinstance(frame, Mapping):  # datasets.DatasetDict
        raise DatasetError(
            f"expected a single split, got the splits {', '.join(map(repr, frame))}; pass one of "
            f"them, such as data[{next(iter(frame), 'train')!r}]"
        )
    if hasattr(frame, "to_dicts"):  # polars
        return list(frame.to_dicts())
    if hasattr(frame, "columns") and hasattr(frame, "to_dict"):  # pandas
        has_named_index = any(name is not None for name in frame.index.names)
        frame_with_index = (
            frame.reset_index() if has_named_index else frame
        )  # an index with a name is a column
        return list(frame_with_index.to_dict(orient="records"))
    if hasattr(frame, "to_pylist") and hasattr(frame, "column_names"):  # pyarrow
        return list(frame.to_pylist())
    if hasattr(frame, "column_names"):  # datasets
        return list(frame.to_list())
    raise DatasetError(f"expected a pandas or polars DataFrame, got {type(frame).__name__}")


def placed(
    rows: Iterable[Mapping[Any, Any]], source: str, **defaults: Any
) -> list[tuple[str, dict[str, Any]]]:
    """Return the location and the fields of each row.

    Args:
        rows: The rows.
        source: Name of the table, for the locations in error messages. With ``data``, the first row
            is at ``data, row 0``.
        **defaults: Default values by field, for rows without a value. A field with neither a value
            nor a default is left out.
    """
    present_defaults = present(defaults)
    return [(f"{source}, row {n}", present_defaults | present(row)) for n, row in enumerate(rows)]


def present(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the fields of a row that have a value, as plain Python values."""
    # pandas reads lists in Parquet files as numpy arrays.
    values = {name: getattr(value, "tolist", lambda v=value: v)() for name, value in row.items()}
    return {str(name): value for name, value in values.items() if not is_missing(value)}


def is_missing(value: object) -> bool:
    """Return whether a value is None, NaN or pandas.NA."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, Real) and value != value)
    )
