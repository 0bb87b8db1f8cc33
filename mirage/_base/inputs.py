"""Opening, reading and finding input files, within limits of memory and inside a folder."""

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

__all__ = [
    "Kind",
    "byte_lines",
    "check_input",
    "check_path",
    "chunks",
    "decode",
    "files_below",
    "inflate",
    "limit_of",
    "matching_files",
    "open_input",
    "read_bytes",
    "read_text",
    "too_large",
]

_LOG = logger("mirage")
_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20
_WILDCARD = re.compile(r"[*?\[]")


# Limits -------------------------------------------------------------------------------------------

LIMIT = "MIRAGE_READ_LIMIT"
"""The environment variable that raises or lowers all limits together."""

Kind = Literal["file", "line", "settings"]
"""What a limit is for: a file held in memory, a line of a stream, or a file of settings."""

_DEFAULT = 1 << 30
_SHARES: dict[Kind, int] = {"file": 1, "line": 16, "settings": 64}
_SIZE = re.compile(r"(\d+)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def limit_of(kind: Kind) -> int:
    """Return how many bytes are read of one input, after unpacking.

    A file that is held in memory may have 1 GiB, a line of a file that is read line by line 64 MiB,
    and a file of settings 16 MiB. ``MIRAGE_READ_LIMIT`` replaces the first number, such as ``8G``,
    and the others grow with it.

    Raises:
        SettingError: the variable is not a size.
    """
    text = os.environ.get(LIMIT, "")
    if not text:
        return _DEFAULT // _SHARES[kind]
    size = _SIZE.fullmatch(text.strip())
    if size is None or int(size[1]) == 0:
        raise SettingError(f"{LIMIT}={text}: expected a number of bytes, such as 8G")
    return max(1, (int(size[1]) << _UNITS[size[2].upper()]) // _SHARES[kind])


def too_large(source: object, kind: Kind = "file") -> DatasetError:
    """Return the error for an input that exceeds its limit."""
    what = "a line that is longer" if kind == "line" else "more"
    limit = limit_of(kind)
    unit = next((unit for unit in "TGMK" if limit >> _UNITS[unit]), "")
    size = f"{limit / (1 << _UNITS[unit]):.4g} {unit}{'iB' if unit else 'bytes'}"
    return DatasetError(
        f"{source}: has {what} than {size}; if it is meant to be so large, raise the limit by the "
        f"environment variable {LIMIT}, such as {LIMIT}=8G"
    )


# Opening ------------------------------------------------------------------------------------------


def check_path(path: Path) -> None:
    """Refuse text that is not a path on any system: with NUL in it, or with lone surrogates.

    Raises:
        DatasetError: the path is such a text.
    """
    try:
        sound = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        sound = False
    if not sound:
        raise DatasetError(f"{str(path)!a} is no path: it holds NUL or is no Unicode")


def check_input(path: Path) -> None:
    """Refuse what cannot be read to its end: folders, devices, and files that are not there.

    Raises:
        DatasetError: the path names such a thing; says which.
    """
    check_path(path)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror})") from None
    if stat.S_ISDIR(mode):
        raise DatasetError(f"{path}: cannot be read ({os.strerror(errno.EISDIR)})")
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise DatasetError(f"{path}: is a device; give a file, a pipe, or - for standard input")


@contextmanager
def open_input(path: Path) -> Iterator[IO[bytes]]:
    """Open a file or pipe for reading; what gzip packed is unpacked, whatever its name.

    Raises:
        DatasetError: it cannot be opened, read or unpacked, or is a device.
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
    """Yield what a file holds, piece by piece.

    Raises:
        DatasetError: it holds more than the limit of its kind; ``source`` names it.
    """
    left = limit_of(kind)
    while chunk := file.read(_CHUNK):
        left -= len(chunk)
        if left < 0:
            raise too_large(source, kind)
        yield chunk


def read_bytes(path: Path, kind: Kind = "file") -> bytes:
    """Return what a file holds, unpacked.

    Raises:
        DatasetError: as :func:`open_input`, or it holds more than the limit of its kind.
    """
    with open_input(path) as file:
        return b"".join(chunks(file, path, kind))


def read_text(path: Path, kind: Kind = "file") -> str:
    """Return the text of a UTF-8 file, unpacked and without a byte order mark.

    Raises:
        DatasetError: as :func:`read_bytes`, or it is not UTF-8; names the line.
    """
    data = read_bytes(path, kind)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = error.object[: error.start].count(b"\n") + 1
        raise DatasetError(f"{path}, line {number}: not UTF-8; save the file as UTF-8") from None


def inflate(data: bytes, source: object) -> bytes:
    """Return what zlib packed.

    Raises:
        DatasetError: it cannot be unpacked, or holds more than the limit of files.
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
    """Yield the lines of a file with their numbers, from 1.

    Args:
        path: The file.
        whole: Whether what comes of the lines is held in memory, so that the limit of files
            applies besides that of lines.

    Raises:
        DatasetError: as :func:`open_input`, or a limit is exceeded; names the line.
    """
    longest = limit_of("line")
    left = limit_of("file")
    with open_input(path) as file:
        for number in count(1):
            line = file.readline(longest + 1)
            if not line:
                return
            if len(line) > longest:
                raise too_large(f"{path}, line {number}", "line")
            left -= len(line)
            if whole and left < 0:
                raise too_large(path)
            yield number, line


def decode(line: bytes, where: str, *, first: bool = True) -> str:
    """Return a line as text; a byte order mark is dropped from the first line of a file.

    Raises:
        DatasetError: it is not UTF-8; names the place.
    """
    try:
        return line.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError:
        raise DatasetError(f"{where}: not UTF-8; save the file as UTF-8") from None


# Finding ------------------------------------------------------------------------------------------


def files_below(
    folder: Path, wanted: Callable[[Path], bool], *, depth: int | None = None
) -> list[Path]:
    """Return the files below a folder, sorted by path, without leaving the folder.

    A symbolic link to a file inside the folder counts as a file. A link to a file outside is
    skipped, and so is every link to a folder, which may lead outside or in circles. Each skipped
    link is named in a warning, if a file behind it could have been wanted.

    Args:
        folder: The folder, which may be reached by a link itself.
        wanted: Whether a path is wanted.
        depth: How many levels of folders to go down; all by default.
    """
    root = Path(os.path.realpath(folder))
    paths = []
    for place, folders, names in os.walk(folder):
        here = Path(place)
        if depth is not None and len(here.relative_to(folder).parts) >= depth:
            folders.clear()
        for name in folders:
            if (here / name).is_symlink():
                _LOG.warning(
                    "%s: is a symbolic link to a folder, which is not followed; name that folder "
                    "itself to read what is in it",
                    here / name,
                )
        for path in (here / name for name in names):
            if path.is_file() and wanted(path):
                if path.is_symlink() and not _is_inside(path, root):
                    _LOG.warning(
                        "%s: is a symbolic link out of %s, and is not read; copy the file, or name "
                        "it itself",
                        path,
                        folder,
                    )
                else:
                    paths.append(path)
    return sorted(paths)


def _is_inside(path: Path, root: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(root)


def matching_files(pattern: Path) -> tuple[list[Path], Path]:
    """Return the files that a pattern with ``*``, ``?``, ``[...]`` or ``**`` matches, and its root.

    The root is the folder before the first wildcard, which :func:`files_below` does not leave.
    Wildcards do not match names that begin with a dot.
    """
    parts = pattern.parts
    plain = next((i for i, part in enumerate(parts) if _WILDCARD.search(part)), len(parts) - 1)
    root, rest = Path(*parts[:plain]), parts[plain:]

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
