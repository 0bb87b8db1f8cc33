"""Read zip archives whose members may be compressed with zstd, as inspect_ai writes them."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from mirage._base.inputs import limit_of, too_large
from mirage.errors import DatasetError, MissingPackageError

_ZSTD = 93  # APPNOTE.TXT of PKWARE, section 4.4.5
_HEADER = 30  # bytes of a local file header before its name


def members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each file in an archive.

    Raises:
        DatasetError: If the archive is damaged, or is larger than the size limit for files.
        MissingPackageError: If a member is compressed with zstd, and zstandard is not installed.
    """
    remaining = limit_of("file")
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                remaining -= info.file_size
                if remaining < 0:
                    raise too_large(path)
                if info.compress_type == _ZSTD:
                    yield info.filename, _unpack(path, info)
                else:
                    yield info.filename, archive.read(info)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError) as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(
            f"{path}: damaged archive ({error}); check that the file is complete"
        ) from None


def _unpack(path: Path, info: zipfile.ZipInfo) -> bytes:
    try:
        zstandard: Any = import_module("zstandard")
    except ImportError:
        raise MissingPackageError(
            f"{path}: the file is compressed with zstd; install zstandard (pip install zstandard), "
            "or convert the log with: inspect log convert --to json"
        ) from None
    with path.open("rb") as file:
        file.seek(info.header_offset)
        header = file.read(_HEADER)
        sizes = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
        file.seek(sum(sizes), 1)
        packed = file.read(info.compress_size)
    try:
        content: bytes = zstandard.ZstdDecompressor().decompress(
            packed, max_output_size=info.file_size
        )
    except zstandard.ZstdError as error:
        raise DatasetError(
            f"{path}: {info.filename} is damaged ({error}); check that the file is complete"
        ) from None
    if zlib.crc32(content) != info.CRC:
        raise DatasetError(f"{path}: {info.filename} is damaged (its checksum is wrong)")
    return content
