"""Reading and writing text, JSON Lines and records, with errors that name file, line and field."""

from __future__ import annotations

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
from pathlib import Path, PureWindowsPath
from typing import IO, Any, TypeVar, cast
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from mirage._base.inputs import byte_lines, check_input, check_path, decode, limit_of, too_large
from mirage.errors import DatasetError, needing

__all__ = [
    "check_name",
    "delete_temporaries",
    "file_name",
    "json_object",
    "lines",
    "make_folder",
    "open_append",
    "packing",
    "parquet_rows",
    "parse_rows",
    "read_rows",
    "refuse_link",
    "replace_file",
    "table_rows",
    "validated",
    "write_bytes",
    "write_records",
    "write_text",
    "writing",
]

R = TypeVar("R", bound=BaseModel)

_BATCH = 256  # rows of Parquet that are read at a time
_BUFFER = 1 << 20  # bytes of a column of Parquet that are read at a time


def lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of a UTF-8 file that are not blank, each after its place (``file, line n``).

    The file may be packed by gzip. It is checked at once and read as the lines are taken.

    Raises:
        DatasetError: the file cannot be read, is not UTF-8, or exceeds the limit of files or lines.
    """
    check_input(path)
    return _file_lines(path)


def _file_lines(path: Path) -> Iterator[tuple[str, str]]:
    number = 0
    for row, line in byte_lines(path, whole=True):
        text = decode(line, f"{path}, line {row}", first=row == 1)
        # Files of old Macs end lines by a carriage return alone.
        for part in text.removesuffix("\n").removesuffix("\r").split("\r"):
            number += 1
            if part.strip():
                yield f"{path}, line {number}", part


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
        return parquet_rows(path)
    return _json_lines(path)


def _json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a file that may be larger than memory."""
    for number, line in byte_lines(path, whole=False):
        if line.strip():
            where = f"{path}, line {number}"
            yield json_object(where, decode(line, where, first=number == 1))


def parquet_rows(
    path: Path, extra: str = "retrieval", *, first: int = 1
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a Parquet file, each after its place; a row group is read at a time.

    Args:
        path: The file, which may be larger than memory.
        extra: The extra that the error names if pyarrow is not installed.
        first: The number of the first row.

    Raises:
        DatasetError: it cannot be read.
        MissingPackageError: pyarrow is not installed.
    """
    with needing("pyarrow", extra):
        pyarrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    check_input(path)
    try:
        # Pages are read as they are needed. Without a buffer, whole columns would be.
        with parquet.ParquetFile(path, buffer_size=_BUFFER) as file:
            number = first
            for group in range(file.num_row_groups):
                # Few rows at a time: a page of a few bytes may say that a long text comes in all
                # rows. Group by group, because batches of several groups keep what was read.
                for batch in file.iter_batches(batch_size=_BATCH, row_groups=[group]):
                    if batch.nbytes > limit_of("file"):
                        raise too_large(f"{path}, the {_BATCH} rows from row {number}")
                    for row in batch.to_pylist():
                        yield f"{path}, row {number}", row
                        number += 1
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise DatasetError(f"{path}: cannot be read as parquet ({error})") from None


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


# Writing ------------------------------------------------------------------------------------------


@contextmanager
def writing(path: Path | None) -> Iterator[None]:
    """Turn errors of the system into errors that name the file.

    Raises:
        DatasetError: the file cannot be written.
    """
    if path is not None:
        check_path(path)
    try:
        yield
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _is_link(error.filename or path) from None
        raise DatasetError(f"{path}: cannot be written ({error.strerror})") from None
    except UnicodeEncodeError as error:
        raise DatasetError(
            f"{path}: cannot be written: text that is no Unicode ({error})"
        ) from None


def _is_link(path: object) -> DatasetError:
    return DatasetError(f"{path}: is a symbolic link, which is not followed here; delete it")


@contextmanager
def replace_file(path: Path, *, follow: bool = True) -> Iterator[IO[bytes]]:
    """Write a file that replaces the one at ``path`` once it is whole and on the disk.

    The new file is written beside the old one, under a name that nobody can foresee, and takes over
    its permissions. If anything fails, the old file stays as it was and the new one is deleted. A
    pipe or a terminal is written directly.

    Args:
        path: The file.
        follow: Whether a symbolic link at ``path`` stays, and the file it leads to is replaced. Use
            it for names that the user chose. Otherwise the link itself is replaced.

    Raises:
        DatasetError: the file cannot be written.
    """
    with writing(path):
        target = Path(os.path.realpath(path)) if follow else path.absolute()
        if follow and target.exists() and not target.is_file():
            with target.open("wb") as device:
                yield device
            return
        with _opened_folder(target.parent) as folder:
            name, file = _temporary_beside(target, folder)
            try:
                with file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(name, _at(target, folder), src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(name, dir_fd=folder)
                raise


_HAS_DIR_FD = {os.open, os.rename, os.stat, os.unlink} <= os.supports_dir_fd
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


@contextmanager
def _opened_folder(folder: Path) -> Iterator[int | None]:
    """Hold a folder open, so that nobody can put another in its place; None on Windows."""
    if not _HAS_DIR_FD:
        yield None
        return
    descriptor = os.open(folder, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _at(target: Path, folder: int | None) -> str:
    return str(target) if folder is None else target.name


def _temporary_beside(target: Path, folder: int | None) -> tuple[str, IO[bytes]]:
    """Create a file in the folder of another, with its permissions."""
    name = _at(target.with_name(f"{_TEMPORARY}{secrets.token_hex(8)}.part"), folder)
    try:
        old = os.stat(_at(target, folder), dir_fd=folder, follow_symlinks=False)
        mode = stat.S_IMODE(old.st_mode) if stat.S_ISREG(old.st_mode) else None
    except FileNotFoundError:
        mode = None
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINK
    descriptor = os.open(name, flags, 0o666 if mode is None else mode & 0o700, dir_fd=folder)
    if mode is not None and hasattr(os, "fchmod"):
        os.fchmod(descriptor, mode)
    return name, os.fdopen(descriptor, "w+b")


_TEMPORARY = ".mirage-"


def delete_temporaries(folder: Path) -> None:
    """Delete what a killed process left of :func:`replace_file` in a folder that no other writes.

    Raises:
        DatasetError: a file cannot be deleted.
    """
    with writing(folder):
        for path in folder.glob(f"{_TEMPORARY}*.part"):
            path.unlink(missing_ok=True)


def open_append(path: Path) -> IO[bytes]:
    """Open a file for appending without buffer, made if missing; a link at its name is refused.

    Lock files and journals are opened like this: their names can be foreseen.

    Raises:
        OSError: the file cannot be opened, or the name is that of a symbolic link.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | _NO_LINK
    return os.fdopen(os.open(path, flags, 0o666), "a+b", buffering=0)


def refuse_link(path: Path) -> None:
    """Refuse a symbolic link at a name that was not chosen by the user, and can be foreseen.

    Raises:
        DatasetError: the name is that of a symbolic link.
    """
    if path.is_symlink():
        raise _is_link(path)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, if it is missing; a link at its name is refused.

    Raises:
        DatasetError: it cannot be made, or the name is that of a symbolic link.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    refuse_link(folder)


def write_bytes(path: Path, data: bytes, *, follow: bool = True) -> None:
    """Write a file by :func:`replace_file`.

    Raises:
        DatasetError: the file cannot be written.
    """
    with replace_file(path, follow=follow) as file:
        file.write(data)


def write_text(path: Path, text: str, *, follow: bool = True) -> None:
    """Write a text as UTF-8 by :func:`replace_file`.

    Raises:
        DatasetError: the file cannot be written, or the text has lone surrogates.
    """
    with writing(path):
        data = text.encode()
    write_bytes(path, data, follow=follow)


def write_records(records: Iterable[BaseModel], path: Path, *, follow: bool = True) -> None:
    """Write records as JSON Lines by :func:`replace_file`, without values that are the default.

    Raises:
        DatasetError: the file cannot be written.
    """
    with replace_file(path, follow=follow) as file:
        for record in records:
            file.write(record.model_dump_json(exclude_defaults=True).encode() + b"\n")


@contextmanager
def packing(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Write to a file what gzip makes of it; the same content gives the same bytes."""
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
        yield cast("IO[bytes]", packed)


# Names --------------------------------------------------------------------------------------------


def check_name(name: str, what: str) -> None:
    """Refuse a name from a file or a user that would lead out of the folder it is used in.

    Raises:
        DatasetError: it is empty, has a slash, a backslash, a drive or a control character in it,
            is ``.`` or ``..``, or is longer than 200 bytes; ``what`` says whose name it is.
    """
    plain = PureWindowsPath(name)
    if (
        name in ("", ".", "..")
        or plain.name != name
        or plain.drive
        or not name.isprintable()
        or len(name.encode(errors="surrogatepass")) > _LONGEST_NAME
    ):
        raise DatasetError(
            f"{what} {name!r} is used as the name of a file: it has no slashes, drives or control "
            f"characters, is not '..', and has at most {_LONGEST_NAME} bytes"
        )


_LONGEST_NAME = 200


def file_name(name: str) -> str:
    """Return a name for a file, for any text, such as a model's name, of its own for each text.

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
