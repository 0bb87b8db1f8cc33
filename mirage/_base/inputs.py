"""Open, read and find input files, with limits on their size.

A search for files never returns files outside of the given folder.
"""

from __future__ import annotations

import errno
import fnmatch
import gzip
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Literal, cast

from mirage._base.logs import logger
from mirage.errors import DatasetError, SettingError

_LOG = logger("mirage")
_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20
_WILDCARD = re.compile(r"[*?\[]")


# Limits -------------------------------------------------------------------------------------------

LIMIT = "MIRAGE_READ_LIMIT"
"""Environment variable that sets all size limits together."""

Kind = Literal["file", "line", "settings"]
"""Kind of size limit: for a whole file, for one line of a file, or for a settings file."""

_DEFAULT = 1 << 30
_SHARES: dict[Kind, int] = {"file": 1, "line": 16, "settings": 64}
_SIZE = re.compile(r"(\d+)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def limit_of(kind: Kind) -> int:
    """Return the maximum number of bytes to read from one input, after decompression.

    The default depends on ``kind``: 1 GiB for a ``file`` that is read into memory, 64 MiB for a
    ``line``, and 16 MiB for a file of ``settings``. The environment variable ``MIRAGE_READ_LIMIT``,
    such as ``8G``, replaces the limit for files, and the other limits change in proportion.
    """
    text = os.environ.get(LIMIT, "")
    if not text:
        return _DEFAULT // _SHARES[kind]
    size = _SIZE.fullmatch(text.strip())
    if size is None or int(size[1]) == 0:
        raise SettingError(f"{LIMIT}={text}: expected a number of bytes, such as 8G")
    return max(1, (int(size[1]) << _UNITS[size[2].upper()]) // _SHARES[kind])


def too_large(source: object, kind: Kind = "file") -> DatasetError:
    """Return the error for an input that exceeds its limit; the message names ``source``."""
    excess = "a line that is longer" if kind == "line" else "more"
    limit = limit_of(kind)
    unit = next((unit for unit in "TGMK" if limit >> _UNITS[unit]), "")
    size = f"{limit / (1 << _UNITS[unit]):.4g} {unit}{'iB' if unit else 'bytes'}"
    return DatasetError(
        f"{source}: the input has {excess} than {size}; if this is intended, raise the limit "
        f"with the environment variable {LIMIT}, such as {LIMIT}=8G"
    )


# Opening ------------------------------------------------------------------------------------------


def check_path(path: Path) -> None:
    """Raise an error if a path contains NUL or characters that cannot be encoded."""
    try:
        is_valid = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        is_valid = False
    if not is_valid:
        raise DatasetError(f"{str(path)!a} is not a valid path: it contains NUL or is not Unicode")


def check_input(path: Path) -> None:
    """Raise an error if a path is a folder or a device, or does not exist."""
    check_path(path)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror})") from None
    if stat.S_ISDIR(mode):
        raise DatasetError(f"{path}: cannot be read ({os.strerror(errno.EISDIR)})")
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise DatasetError(
            f"{path}: this is a device; give a file, a pipe, or - for standard input"
        )


@contextmanager
def open_input(path: Path) -> Iterator[IO[bytes]]:
    """Open a file or pipe for reading, and decompress it if its content is gzip.

    Args:
        path: Path of the file. Compression is detected by the content, not by the suffix.

    Yields:
        The open file, from which the decompressed bytes can be read.
    """
    check_input(path)
    try:
        with path.open("rb") as file:
            if file.peek(2)[:2] != _GZIP:
                yield file
                return
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield cast("IO[bytes]", unpacked)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DatasetError(f"{path}: cannot be unpacked ({error})") from None
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror or error})") from None


# Reading ------------------------------------------------------------------------------------------


def chunks(file: IO[bytes], source: object, kind: Kind = "file") -> Iterator[bytes]:
    """Yield the content of an open file in pieces, up to its size limit.

    Args:
        file: The file.
        source: Name of the file in error messages.
        kind: Kind of input, which sets the size limit: ``file``, ``line`` or ``settings``; see
            :func:`limit_of`.

    Raises:
        DatasetError: If the content is larger than the limit.
    """
    remaining = limit_of(kind)
    while chunk := file.read(_CHUNK):
        remaining -= len(chunk)
        if remaining < 0:
            raise too_large(source, kind)
        yield chunk


def read_bytes(path: Path, kind: Kind = "file") -> bytes:
    """Return the decompressed content of a file.

    ``kind`` selects the size limit: ``file``, or ``settings`` for a settings file
    (:func:`limit_of`).
    """
    with open_input(path) as file:
        return b"".join(chunks(file, path, kind))


def read_text(path: Path, kind: Kind = "file") -> str:
    """Return the text of a UTF-8 file, decompressed and without a byte order mark.

    ``kind`` selects the size limit: ``file``, or ``settings`` for a settings file
    (:func:`limit_of`).
    """
    data = read_bytes(path, kind)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = error.object[: error.start].count(b"\n") + 1
        raise DatasetError(f"{path}, line {number}: not UTF-8; save the file as UTF-8") from None


def inflate(data: bytes, source: object) -> bytes:
    """Return the decompressed content of data that zlib compressed.

    ``source`` is the name of the data in error messages.
    """
    limit = limit_of("file")
    try:
        content = zlib.decompressobj().decompress(data, limit + 1)
    except zlib.error as error:
        raise DatasetError(f"{source}: cannot be unpacked ({error})") from None
    if len(content) > limit:
        raise too_large(source)
    return content


def byte_lines(path: Path, *, whole: bool) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file, each paired with its number, counted from 1.

    Set ``whole`` if the caller keeps the whole file in memory. The size limit for files then
    applies in addition to the limit for lines (:func:`limit_of`).
    """
    longest = limit_of("line")
    remaining = limit_of("file")
    with open_input(path) as file:
        for number in count(1):
            line = file.readline(longest + 1)
            if not line:
                return
            if len(line) > longest:
                raise too_large(f"{path}, line {number}", "line")
            remaining -= len(line)
            if whole and remaining < 0:
                raise too_large(path)
            yield number, line


def decode(line: bytes, where: str, *, first: bool = True) -> str:
    """Return a line as text; ``where`` is its location, for the error if it is not UTF-8.

    Set ``first`` for the first line of a file: a byte order mark at its start is then left out.
    """
    try:
        return line.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError:
        raise DatasetError(f"{where}: not UTF-8; save the file as UTF-8") from None


# Finding ------------------------------------------------------------------------------------------


def files_below(
    folder: Path, wanted: Callable[[Path], bool], *, depth: int | None = None
) -> list[Path]:
    """Return the files below a folder for which ``wanted`` is true, sorted by path.

    Files outside of the folder are never returned. A symbolic link to a file inside the folder
    counts as a file. A link to a file outside is skipped. Every link to a folder is skipped too,
    because it may lead outside or in circles. A warning names each skipped link, except links to
    files for which ``wanted`` is false.

    ``depth`` is the largest number of subfolders between the folder and a file; 0 only searches the
    folder itself. By default, there is no limit.
    """
    root = Path(os.path.realpath(folder))
    paths = []
    for directory, folders, names in os.walk(folder):
        parent = Path(directory)
        if depth is not None and len(parent.relative_to(folder).parts) >= depth:
            folders.clear()
        for name in folders:
            if (parent / name).is_symlink():
                _LOG.warning(
                    "%s: this is a symbolic link to a folder, and such links are not followed; to "
                    "read the files in the folder, pass its own path",
                    parent / name,
                )
        for path in (parent / name for name in names):
            if path.is_file() and wanted(path):
                if path.is_symlink() and not _is_inside(path, root):
                    _LOG.warning(
                        "%s: this symbolic link leads out of %s, so its file is not read; copy "
                        "the file, or pass its own path",
                        path,
                        folder,
                    )
                else:
                    paths.append(path)
    return sorted(paths)


def _is_inside(path: Path, root: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(root)


def matching_files(pattern: Path) -> tuple[list[Path], Path]:
    """Return the files that match a pattern, and the pattern's root.

    The root is the folder before the first part of the pattern that has a wildcard. Files outside
    of the root are not returned; see :func:`files_below`. Wildcards (``*``, ``?``, ``[...]`` and
    ``**``) do not match names that begin with a dot.
    """
    parts = pattern.parts
    root_length = next(
        (i for i, part in enumerate(parts) if _WILDCARD.search(part)), len(parts) - 1
    )
    root, rest = Path(*parts[:root_length]), parts[root_length:]

    def wanted(path: Path) -> bool:
        return _matches(path.relative_to(root).parts, rest)

    return files_below(root, wanted, depth=None if "**" in rest else len(rest) - 1), root


def _matches(names: Sequence[str], patterns: Sequence[str]) -> bool:
    if not patterns:
        return not names
    if patterns[0] == "**":
        hidden = next((i for i, name in enumerate(names) if name.startswith(".")), len(names))
        return any(_matches(names[i:], patterns[1:]) for i in range(hidden + 1))
    return (
        bool(names)
        and (patterns[0].startswith(".") or not names[0].startswith("."))
        and fnmatch.fnmatch(names[0], patterns[0])
        and _matches(names[1:], patterns[1:])
    )
