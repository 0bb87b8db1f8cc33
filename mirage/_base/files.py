"""Reading and writing text, JSON Lines and records, with errors that name file, line and field."""

from __future__ import annotations

import difflib
import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from mirage.errors import DatasetError, needing

__all__ = [
    "check_path",
    "lines",
    "parse_rows",
    "read_rows",
    "replacing",
    "table_rows",
    "validated",
    "write_records",
    "writing",
]

R = TypeVar("R", bound=BaseModel)

_GZIP = b"\x1f\x8b"


def lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines of a UTF-8 file that are not blank, each after its place (``file, line n``).

    What gzip packed is unpacked.

    Raises:
        DatasetError: there is no such file, or it is not UTF-8.
    """
    check_path(path)
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == _GZIP else data).decode("utf-8-sig")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DatasetError(f"{path}: cannot be unpacked ({error})") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DatasetError(f"{path}, line {line}: not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror})") from None
    return _lines(text, str(path))


def _lines(text: str, source: str) -> Iterator[tuple[str, str]]:
    # Only line ends part lines: str.splitlines would also split at U+2028 inside a JSON string.
    for number, line in enumerate(re.split("\r\n?|\n", text), 1):
        if line.strip():
            yield f"{source}, line {number}", line


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON Lines file, each after its place.

    Raises:
        DatasetError: names the file and the line that is not a JSON object.
    """
    return (json_object(where, line) for where, line in lines(path))


def table_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of JSON Lines, gzipped or not, or of Parquet, each after its place.

    The file may be larger than memory.

    Raises:
        DatasetError: it cannot be read, or a line is no JSON object; names the file and the line.
        MissingPackageError: Parquet needs the extra ``retrieval``.
    """
    if path.name.lower().endswith(".parquet"):
        return _parquet(path)
    return _json_lines(path)


def _json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a file that may be larger than memory."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    where = f"{path}, line {number}"
                    yield json_object(where, _decoded(line, where))
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path}: cannot be read ({error})") from None


def _decoded(line: bytes, where: str) -> str:
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DatasetError(f"{where}: not UTF-8; save the file as UTF-8") from None


def _parquet(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with needing("pyarrow", "retrieval"):
        pyarrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}, row {number}", row
    except (OSError, pyarrow.ArrowException) as error:
        raise DatasetError(f"{path}: not a Parquet file that can be read ({error})") from None


def parse_rows(text: str, source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """As :func:`read_rows`, from JSON Lines that are already in memory."""
    return (json_object(where, line) for where, line in _lines(text, source))


def json_object(where: str, line: str) -> tuple[str, dict[str, Any]]:
    """The object that a line of JSON Lines is, after its place.

    Raises:
        DatasetError: it is not one; names the place.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of 5,000 digits
        array = "; JSON Lines is one object a line, and no array" if line.startswith("[") else ""
        raise DatasetError(f"{where}: not JSON ({error}){array}") from None
    if not isinstance(row, dict):
        raise DatasetError(
            f"{where}: expected a JSON object, found {type(row).__name__}; JSON Lines is one "
            "object a line"
        )
    return where, row


@contextmanager
def writing(path: Path | None) -> Iterator[None]:
    """Turn errors of the system into errors that name the file."""
    if path is not None:
        check_path(path)
    try:
        yield
    except OSError as error:
        raise DatasetError(f"{path}: cannot be written ({error.strerror})") from None
    except UnicodeEncodeError as error:
        raise DatasetError(
            f"{path}: cannot be written: text that is no Unicode ({error})"
        ) from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Where to write what stands at ``path`` once it is whole; a link stays a link.

    Raises:
        DatasetError: it cannot be written.
    """
    with writing(path):
        place = path.resolve()
        if place.exists() and not place.is_file():  # a pipe, or a terminal
            yield place
            return
        part = place.with_name(f".part.{place.name}")
        try:
            yield part
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)


def check_path(path: Path) -> None:
    """Refuse what is no path on any system: one with NUL in it, or with lone surrogates.

    Raises:
        DatasetError: it is such a one.
    """
    try:
        sound = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        sound = False
    if not sound:
        raise DatasetError(f"{str(path)!a} is no path: it holds NUL or is no Unicode")


def write_records(records: Iterable[BaseModel], path: Path) -> None:
    """Write records as JSON Lines, leaving out what is at its default.

    Raises:
        DatasetError: the file cannot be written.
    """
    with writing(path), path.open("w", encoding="utf-8", newline="\n") as file:
        for record in records:
            file.write(record.model_dump_json(exclude_defaults=True) + "\n")


def validated(record: type[R], row: Mapping[str, Any], where: str) -> R:
    """One record from a plain mapping.

    Raises:
        DatasetError: names the place and the field that is wrong.
    """
    try:
        return record.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        place = f"{where}, field {field!r}" if field else where
        message = first["msg"].removeprefix("Value error, ")  # pydantic's mark on our own messages
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        misnamed = any(e["type"] in ("missing", "extra_forbidden") for e in error.errors())
        names = _about_names(record, row) if misnamed and len(first["loc"]) == 1 else ""
        raise DatasetError(f"{place}: {message}{more}{names}") from None


def _about_names(record: type[BaseModel], row: Mapping[str, Any], most: int = 5) -> str:
    """Which fields a record has, which of a row's are none of them, and which was meant."""
    known = list(record.model_fields)
    strange = [name for name in row if name not in known]
    text = f"; the fields are {', '.join(known)}"
    if strange:
        names = ", ".join(map(repr, strange[:most])) + (", ..." if len(strange) > most else "")
        text += f", and {names} {'is' if len(strange) == 1 else 'are'} none of them"
    free = [name for name in known if name not in row]
    near = difflib.get_close_matches(strange[0], free, n=1, cutoff=0.7) if strange else []
    return text + (f"; did you mean {near[0]!r} by {strange[0]!r}?" if near else "")
