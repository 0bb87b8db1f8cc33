"""Read and write text, JSON Lines and records; errors name the file, the line and the field."""

from __future__ import annotations

import csv
import difflib
import errno
import gzip
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from io import StringIO
from pathlib import Path, PureWindowsPath
from typing import IO, Any, TypeVar, cast
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from mirage._base.inputs import (
    byte_lines,
    check_input,
    check_path,
    decode,
    limit_of,
    read_text,
    too_large,
)
from mirage.errors import DatasetError, needing

R = TypeVar("R", bound=BaseModel)

_BATCH = 256  # Parquet rows per read
_BUFFER = 1 << 20  # bytes per read of a Parquet column


def lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of a UTF-8 file as pairs of location and line.

    A location is a text such as ``queries.jsonl, line 3``. Blank lines are left out. The file may
    be compressed with gzip. A missing or unreadable file raises an error at once, although lines
    are read only when needed.
    """
    check_input(path)
    return _file_lines(path)


def _file_lines(path: Path) -> Iterator[tuple[str, str]]:
    number = 0
    for row, line in byte_lines(path, whole=True):
        text = decode(line, f"{path}, line {row}", first=row == 1)
        # In files of old Macs a carriage return alone ends a line.
        for part in text.removesuffix("\n").removesuffix("\r").split("\r"):
            number += 1
            if part.strip():
                yield f"{path}, line {number}", part


def _lines(text: str, source: str) -> Iterator[tuple[str, str]]:
    # str.splitlines would also split at U+2028, which may occur inside a JSON string.
    for number, line in enumerate(re.split("\r\n?|\n", text), 1):
        if line.strip():
            yield f"{source}, line {number}", line


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a JSON Lines file as pairs of location and object.

    Args:
        path: Path of the file, which may be compressed with gzip.
    """
    return (json_object(where, line) for where, line in lines(path))


def record_rows(path: Path, *, whole: bool = True) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a file of records as pairs of location and row.

    A file with the suffix ``.parquet`` is read as Parquet, and its missing values are left out. Any
    other file is read as JSON Lines, which may be compressed with gzip.

    Args:
        path: Path of the file.
        whole: Whether the caller keeps all rows in memory. If so, a file of JSON Lines must not
            exceed the size limit of :func:`mirage._base.inputs.limit_of`.
    """
    if path.name.lower().endswith(".parquet"):
        return ((where, _without_nulls(row)) for where, row in parquet_rows(path))
    return read_rows(path) if whole else _json_lines(path)


def _without_nulls(value: Any) -> Any:
    """Return a value of a Parquet file without the missing fields of its records.

    A map, which pyarrow returns as a list of pairs, becomes a dictionary.
    """
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) for item in value):
            return dict(value)
        return list(map(_without_nulls, value))
    return value


def table_rows(
    path: Path, damaged: list[str] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a JSON Lines or Parquet file as pairs of location and row.

    A file with the suffix ``.parquet`` is read as Parquet, any other file as JSON Lines, which may
    be compressed with gzip. The file may be larger than memory.

    Args:
        path: Path of the file.
        damaged: List that collects the error messages of lines that are not JSON objects. By
            default, the first such error is raised.
    """
    if path.name.lower().endswith(".parquet"):
        return parquet_rows(path)
    return _json_lines(path, damaged)


def rows_of(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a JSON Lines, Parquet, CSV or TSV file as pairs of location and row.

    The file is read as CSV or TSV if it has the suffix ``.csv`` or ``.tsv``, optionally followed by
    ``.gz``. Its first line then contains the column names. Other files are read by
    :func:`table_rows`.
    """
    suffix = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if suffix not in ("csv", "tsv"):
        return table_rows(path)
    return _delimited_rows(path, "," if suffix == "csv" else "\t")


def _delimited_rows(path: Path, delimiter: str) -> Iterator[tuple[str, dict[str, Any]]]:
    reader = csv.DictReader(StringIO(read_text(path), newline=""), delimiter=delimiter)
    try:
        _check_header(path, list(reader.fieldnames or ()), delimiter)
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            if None in row or None in row.values():
                columns = len(reader.fieldnames or ())
                raise DatasetError(
                    f"{where}: the row must have as many columns as the header, {columns}; check "
                    "its separators and quotation marks"
                )
            yield where, row
    except csv.Error as error:
        raise DatasetError(f"{path}, line {reader.line_num}: invalid CSV ({error})") from None


def _check_header(path: Path, names: list[str], delimiter: str) -> None:
    for name in names:
        if name and names.count(name) > 1:
            raise DatasetError(f"{path}, line 1: the column {name!r} occurs twice; rename one")
    if len(names) == 1:
        for other in {",", ";", "\t"} - {delimiter}:
            if other in names[0]:
                raise DatasetError(
                    f"{path}, line 1: the columns are separated by {other!r}; separate them with "
                    f"{delimiter!r}"
                )


def _json_lines(
    path: Path, damaged: list[str] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the location and the object of each line of a JSON Lines file.

    The file may be larger than memory. Without ``damaged``, an invalid line raises an error;
    otherwise the line is skipped and its error message is appended to ``damaged``.
    """
    for number, line in byte_lines(path, whole=False):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                row = json_object(where, decode(line, where, first=number == 1))
            except DatasetError as error:
                if damaged is None:
                    raise
                damaged.append(str(error))
            else:
                yield row


def parquet_rows(path: Path, *, first: int = 1) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a Parquet file as pairs of location and row.

    One row group is read at a time. Locations number the rows from ``first``.
    """
    with needing("pyarrow"):
        pyarrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    check_input(path)
    try:
        # With a buffer, pages are read when they are needed; without it, whole columns are read.
        with parquet.ParquetFile(path, buffer_size=_BUFFER) as file:
            number = first
            for group in range(file.num_row_groups):
                # Few rows at a time, because a page of a few bytes may encode a long text that is
                # repeated in all rows. One group at a time, because batches that span several
                # groups keep all of them in memory.
                for batch in file.iter_batches(batch_size=_BATCH, row_groups=[group]):
                    if batch.nbytes > limit_of("file"):
                        last = number + batch.num_rows - 1
                        raise too_large(f"{path}, rows {number} to {last}")
                    for row in batch.to_pylist():
                        yield f"{path}, row {number}", row
                        number += 1
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise DatasetError(f"{path}: cannot be read as parquet ({error})") from None


def parse_rows(text: str, source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects in a JSON Lines text as pairs of location and object.

    ``source`` is the name of the text in the locations.
    """
    return (json_object(where, line) for where, line in _lines(text, source))


def json_object(where: str, line: str) -> tuple[str, dict[str, Any]]:
    """Parse one line of JSON Lines, and return its location ``where`` and its object."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of 5,000 digits
        array = "; JSON Lines has one object per line, not an array" if line.startswith("[") else ""
        raise DatasetError(f"{where}: not JSON ({error}){array}") from None
    if not isinstance(row, dict):
        raise DatasetError(
            f"{where}: expected a JSON object, found {type(row).__name__}; JSON Lines has one "
            "object per line"
        )
    return where, row


# Writing ------------------------------------------------------------------------------------------


@contextmanager
def writing(path: Path | None) -> Iterator[None]:
    """Convert errors that occur while a ``with`` block writes a file to errors that name the file.

    Errors of the operating system and texts that are not valid Unicode become a
    :class:`~mirage.errors.DatasetError`.

    Args:
        path: Path of the file that the block writes. A path that no file can have, such as one with
            a NUL, is rejected before the block runs. ``None`` skips this check.
    """
    if path is not None:
        check_path(path)
    try:
        yield
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _link_error(error.filename or path) from None
        raise DatasetError(f"{path}: cannot be written ({error.strerror})") from None
    except UnicodeEncodeError as error:
        raise DatasetError(
            f"{path}: cannot be written, because the text is not valid Unicode ({error})"
        ) from None


def _link_error(path: object) -> DatasetError:
    return DatasetError(
        f"{path}: this is a symbolic link, and Mirage does not write through links; delete the link"
    )


@contextmanager
def replace_file(path: Path, *, follow: bool = True) -> Iterator[IO[bytes]]:
    """Open a new file for writing; it replaces the file at ``path`` when it is complete.

    The new file is written in the same folder, under an unpredictable name, and gets the
    permissions of the old one. If anything fails, the old file remains unchanged and the new one is
    deleted. The new file is flushed to the disk before it replaces the old one. If ``path`` is a
    pipe or a terminal, the content is written to it directly.

    Args:
        path: Path of the file.
        follow: Whether to keep a symbolic link at ``path`` and replace its target. Set it for paths
            that the user chose. If false, the link itself is replaced.

    Yields:
        The new file, open for writing bytes.
    """
    with writing(path):
        target = Path(os.path.realpath(path)) if follow else path.absolute()
        if follow and target.exists() and not target.is_file():
            with target.open("wb") as device:
                yield device
            return
        with _open_folder(target.parent) as folder:
            name, file = _create_temporary(target, folder)
            try:
                with file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(
                    name, _name_in_folder(target, folder), src_dir_fd=folder, dst_dir_fd=folder
                )
            except BaseException:
                with suppress(OSError):
                    os.unlink(name, dir_fd=folder)
                raise


_HAS_DIR_FD = {os.open, os.rename, os.stat, os.unlink} <= os.supports_dir_fd
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


@contextmanager
def _open_folder(folder: Path) -> Iterator[int | None]:
    """Open a folder for a ``with`` block, and yield its descriptor; ``None`` on Windows.

    Files are created relative to the descriptor. Therefore, they are created in this folder even if
    another folder has taken its path in the meantime.
    """
    if not _HAS_DIR_FD:
        yield None
        return
    descriptor = os.open(folder, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _name_in_folder(target: Path, folder: int | None) -> str:
    return str(target) if folder is None else target.name


def _create_temporary(target: Path, folder: int | None) -> tuple[str, IO[bytes]]:
    """Create a temporary file beside another file, with the same permissions.

    Args:
        target: Path of the other file, which may not exist yet.
        folder: Descriptor of its folder; ``None`` on Windows.

    Returns:
        The name of the temporary file relative to the folder, and the open file.
    """
    name = _name_in_folder(target.with_name(f"{_TEMPORARY}{secrets.token_hex(8)}.part"), folder)
    try:
        existing = os.stat(_name_in_folder(target, folder), dir_fd=folder, follow_symlinks=False)
        mode = stat.S_IMODE(existing.st_mode) if stat.S_ISREG(existing.st_mode) else None
    except FileNotFoundError:
        mode = None
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINK
    descriptor = os.open(name, flags, 0o666 if mode is None else mode & 0o700, dir_fd=folder)
    if mode is not None and hasattr(os, "fchmod"):
        os.fchmod(descriptor, mode)
    return name, os.fdopen(descriptor, "w+b")


_TEMPORARY = ".mirage-"


def delete_temporaries(folder: Path) -> None:
    """Delete the temporary files that :func:`replace_file` left when its process was killed."""
    with writing(folder):
        for path in folder.glob(f"{_TEMPORARY}*.part"):
            path.unlink(missing_ok=True)


def open_append(path: Path) -> IO[bytes]:
    """Open a file for appending, without a buffer; create it if it is missing.

    A symbolic link is rejected, because the names of lock files and journals are predictable.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | _NO_LINK
    return os.fdopen(os.open(path, flags, 0o666), "a+b", buffering=0)


def refuse_link(path: Path) -> None:
    """Raise an error if a path is a symbolic link.

    Args:
        path: Path that the program chose. Its name is predictable, so another user may have put a
            link there.
    """
    if path.is_symlink():
        raise _link_error(path)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents if they are missing; reject a symbolic link."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    refuse_link(folder)


def write_bytes(path: Path, data: bytes, *, follow: bool = True) -> None:
    """Write bytes to a file with :func:`replace_file`.

    If ``follow`` is true and the path is a symbolic link, the target of the link is replaced.
    """
    with replace_file(path, follow=follow) as file:
        file.write(data)


def write_text(path: Path, text: str, *, follow: bool = True) -> None:
    """Write a text as UTF-8 to a file with :func:`replace_file`.

    If ``follow`` is true and the path is a symbolic link, the target of the link is replaced.
    """
    with writing(path):
        data = text.encode()
    write_bytes(path, data, follow=follow)


def write_records(records: Iterable[BaseModel], path: Path, *, follow: bool = True) -> None:
    """Write records as JSON Lines to a file with :func:`replace_file`.

    Fields that have their default value are left out. If ``follow`` is true and the path is a
    symbolic link, the target of the link is replaced.
    """
    with replace_file(path, follow=follow) as file:
        for record in records:
            file.write(record.model_dump_json(exclude_defaults=True).encode() + b"\n")


@contextmanager
def packing(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Open a gzip stream that writes to a file, and yield the stream to a ``with`` block.

    Equal content gives equal compressed bytes, because no name and no time are stored.
    """
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
        yield cast("IO[bytes]", packed)


# Names --------------------------------------------------------------------------------------------


def check_name(name: str, what: str) -> None:
    """Raise an error if a name is not safe as the name of a file in a folder.

    ``what`` is a noun that describes the name in the error message.
    """
    windows_path = PureWindowsPath(name)
    if (
        name in ("", ".", "..")
        or windows_path.name != name
        or windows_path.drive
        or not name.isprintable()
        or len(name.encode(errors="surrogatepass")) > _LONGEST_NAME
    ):
        raise DatasetError(
            f"{what} {name!r} is used as a file name, so it must not contain slashes, drive "
            f"letters or control characters, be '..', or have more than {_LONGEST_NAME} bytes"
        )


_LONGEST_NAME = 200


def file_name(name: str) -> str:
    """Return a valid file name for any text, such as the name of a model.

    Different texts give different file names.

    Example:
        >>> file_name("meta/llama-3")
        'meta%2Fllama-3'
        >>> file_name("..")
        '%2E.'
    """
    quoted = quote(name, safe=" ", errors="surrogatepass")
    if quoted.startswith("."):
        quoted = f"%2E{quoted[1:]}"
    if len(quoted) <= _LONGEST_NAME:
        return quoted
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    return f"{quoted[: _LONGEST_NAME // 2]}-{digest[:16]}"


# Records ------------------------------------------------------------------------------------------


def validated(
    record: type[R], row: Mapping[str, Any], where: str, names: Mapping[str, str] | None = None
) -> R:
    """Return a record built from a mapping.

    Args:
        record: Class of the record.
        row: Values of its fields.
        where: Location of the row, for error messages.
        names: Names that fields have in the file, for error messages. By default these are the
            names of the record's fields.

    Raises:
        DatasetError: If the mapping is not valid; the message names its location ``where`` and the
            field.
    """
    try:
        return record.model_validate(row, context={"where": where})
    except ValidationError as error:
        first = error.errors()[0]
        path = [str(part) for part in first["loc"]]
        field = (names or {}).get(path[0]) if path else ""
        field = ".".join(path) if field is None else field
        location = f"{where}, field {field!r}" if field else where
        message = first["msg"].removeprefix("Value error, ")  # pydantic's mark on our own messages
        others_text = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        has_wrong_names = any(e["type"] in ("missing", "extra_forbidden") for e in error.errors())
        hint = _field_hint(record, row) if has_wrong_names and len(first["loc"]) == 1 else ""
        raise DatasetError(f"{location}: {message}{others_text}{hint}") from None


def _field_hint(record: type[BaseModel], row: Mapping[str, Any], limit: int = 5) -> str:
    """Return the end of an error message about the fields of a row.

    The text lists the fields of the record and up to ``limit`` unknown fields of the row. If a
    missing field has a name similar to the first unknown one, the text suggests it.
    """
    fields = list(record.model_fields)
    unknown = [name for name in row if name not in fields]
    text = f"; the fields are {', '.join(fields)}"
    if unknown:
        names = ", ".join(map(repr, unknown[:limit])) + (", ..." if len(unknown) > limit else "")
        text += f"; unknown: {names}"
    missing = [name for name in fields if name not in row]
    similar = difflib.get_close_matches(unknown[0], missing, n=1, cutoff=0.7) if unknown else []
    return text + (f"; did you mean {similar[0]!r} instead of {unknown[0]!r}?" if similar else "")
