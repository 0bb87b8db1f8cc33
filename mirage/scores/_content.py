"""Load files and objects with scores, before their format is known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mirage._base.files import parse_rows, rows_of
from mirage._base.inputs import check_input, open_input, read_text
from mirage._base.rows import rows_in
from mirage.errors import DatasetError

Rows = list[tuple[str, dict[str, Any]]]

_ZIP, _PARQUET = b"PK\x03\x04", b"PAR1"
_TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
_HARNESSES = ("deepeval", "inspect_ai", "langfuse", "pydantic_evals")


class Content(NamedTuple):
    """The content of a file or object.

    Attributes:
        source: Name of the file or object.
        rows: Rows of a table, or entries of a JSON array, each with its location.
        document: The JSON object; ``None`` if the content is not a JSON object.
        archive: Path of the file if it is a zip archive, else ``None``.
    """

    source: str
    rows: Rows
    document: Mapping[str, Any] | None = None
    archive: Path | None = None

    def first_row(self) -> Mapping[str, Any]:
        """Return the first row; an empty mapping if there are no rows."""
        return self.rows[0][1] if self.rows else {}


def load(data: Any, name: str = "scores") -> Content:
    """Return the content of a file, DataFrame, list of rows, or result of an evaluation tool.

    Args:
        data: Path of a file; a DataFrame or an Arrow table; rows as mappings; or an
            ``EvaluationResult`` of ragas, an ``EvalLog`` of inspect_ai, an ``EvaluationReport`` of
            pydantic-evals, an ``EvaluationResult`` of DeepEval or an ``ExperimentResult`` of
            Langfuse.
        name: Name to use for an object in messages. A file is named by its path.

    Raises:
        DatasetError: If the file cannot be read, or the object has an unsupported type.
    """
    if isinstance(data, str | Path):
        return _load_file(Path(data))
    if isinstance(data, Mapping):
        return _of_json(data, name)
    if isinstance(data, list | tuple):
        return Content(name, _entries(list(data), name))
    if hasattr(data, "scores") and hasattr(data, "dataset"):  # ragas
        samples = [sample.model_dump() for sample in data.dataset]
        pairs = zip(samples, data.scores, strict=True)
        return Content(name, _entries([{**sample, **scores} for sample, scores in pairs], name))
    if type(data).__module__.partition(".")[0] in _HARNESSES:
        from pydantic_core import to_jsonable_python

        document = to_jsonable_python(data, fallback=_fields, serialize_unknown=False)
        return _of_json(check_document(document, name), name)
    return Content(name, [(f"{name}, row {n}", row) for n, row in enumerate(rows_in(data))])


def _fields(value: Any) -> Any:
    """Return the public attributes of an object that pydantic cannot convert to JSON."""
    return {key: each for key, each in vars(value).items() if not key.startswith("_")}


def check_document(document: Any, name: str) -> Mapping[str, Any]:
    """Check that a value is a JSON object, and return it.

    Args:
        document: The value.
        name: Name of the value, for errors.

    Raises:
        DatasetError: If the value is not a JSON object.
    """
    if not isinstance(document, Mapping):
        raise DatasetError(f"{name}: expected a JSON object, got {type(document).__name__}")
    return document


def _load_file(path: Path) -> Content:
    check_input(path)
    with open_input(path) as file:
        start = file.read(4)
    source = str(path)
    if not start:
        raise DatasetError(f"{path}: the file is empty")
    if start == _ZIP:
        return Content(source, [], archive=path)
    if start == _PARQUET or path.name.lower().endswith(_TABLES):
        return Content(source, _table(path, parquet=start == _PARQUET))
    text = read_text(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        # The second value of a file of JSON Lines is extra data after the first.
        if str(error).startswith("Extra data"):
            return Content(source, list(parse_rows(text, source)))
        raise DatasetError(
            f"{path}: the file is not valid JSON ({error}); check that it is complete"
        ) from None
    return _of_json(value, source)


def _table(path: Path, *, parquet: bool) -> Rows:
    if parquet and not path.name.lower().endswith(".parquet"):
        raise DatasetError(f"{path}: this is a Parquet file; give it a name that ends in .parquet")
    rows = list(rows_of(path))
    if not rows:
        raise DatasetError(f"{path}: the file has no rows")
    return rows


def _of_json(value: Any, source: str) -> Content:
    if isinstance(value, list):
        return Content(source, _entries(value, source))
    if not isinstance(value, Mapping):
        raise DatasetError(f"{source}: expected a JSON object or array, got {type(value).__name__}")
    columns = list(value.values())
    if columns and all(isinstance(each, dict) for each in columns):
        names = columns[0].keys()  # pandas writes a frame as one object for each column
        if names and all(each.keys() == names for each in columns):
            rows = [{name: each[i] for name, each in value.items()} for i in names]
            return Content(source, _entries(rows, source), document=value)
    return Content(source, [(source, dict(value))], document=value)


def _entries(values: list[Any], source: str) -> Rows:
    rows = []
    for number, value in enumerate(values, 1):
        where = f"{source}, entry {number}"
        if not isinstance(value, Mapping):
            raise DatasetError(f"{where}: expected a JSON object, got {type(value).__name__}")
        rows.append((where, {str(key): each for key, each in value.items()}))
    if not rows:
        raise DatasetError(f"{source}: the file has no entries")
    return rows
