"""Rows of frames and files, and which of their values are missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from mirage.errors import DatasetError

__all__ = ["PASSAGE_NAMES", "first_duplicate", "is_missing", "placed", "present", "rows_in"]

PASSAGE_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "_id", "docid", "wikipedia_id"),
    "text": ("text", "contents", "content", "body"),
    "title": ("title", "wikipedia_title"),
    "document": ("document", "document_id"),
}
"""What others call the fields of a passage: BEIR, MIRACL, Pyserini, KILT."""


def first_duplicate(values: Iterable[str]) -> str | None:
    """Return the first value that was there before, ``None`` if all are different.

    >>> first_duplicate(["a", "b", "c", "b", "a"])
    'b'
    """
    seen: set[str] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def rows_in(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame of pandas or polars, or of one split of Hugging Face ``datasets``.

    Raises:
        DatasetError: it is no frame, or a frame of several splits.
    """
    if isinstance(frame, Mapping):  # datasets.DatasetDict
        raise DatasetError(
            f"these are the splits {', '.join(map(repr, frame))}; give one of them, as in "
            f"data[{next(iter(frame), 'train')!r}]"
        )
    if hasattr(frame, "to_dicts"):  # polars
        return list(frame.to_dicts())
    if hasattr(frame, "columns") and hasattr(frame, "to_dict"):  # pandas
        indexed = any(name is not None for name in frame.index.names)
        plain = frame.reset_index() if indexed else frame  # an index with a name is a column
        return list(plain.to_dict(orient="records"))
    if hasattr(frame, "column_names"):  # datasets
        return list(frame.to_list())
    raise DatasetError(f"expected a frame of pandas or polars, found {type(frame).__name__}")


def placed(
    rows: Iterable[Mapping[Any, Any]], source: str, **defaults: Any
) -> list[tuple[str, dict[str, Any]]]:
    """What is present in each row, or else the defaults, after its place (``source, row n``)."""
    always = present(defaults)
    return [(f"{source}, row {n}", always | present(row)) for n, row in enumerate(rows)]


def present(row: Mapping[Any, Any]) -> dict[str, Any]:
    """The fields of a row that have a value, as plain Python values."""
    # Arrays of numpy come from parquet files, where pandas reads their lists.
    plain = {name: getattr(value, "tolist", lambda v=value: v)() for name, value in row.items()}
    return {str(name): value for name, value in plain.items() if not is_missing(value)}


def is_missing(value: object) -> bool:
    """Whether the value of a row is None, NaN or pandas.NA."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, Real) and value != value)
    )
