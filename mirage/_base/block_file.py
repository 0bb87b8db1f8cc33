"""A file of rows that is written block by block, so that complete blocks survive a crash."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import IO, Any, Self

from pydantic import BaseModel

from mirage._base.files import packing, refuse_link, replace_file, writing
from mirage._base.journal import Journal
from mirage._base.logs import logger
from mirage.errors import DatasetError, needing

_LOG = logger("mirage")
_ROW_GROUP = 10_000  # number of rows in a row group of Parquet


class _Block(BaseModel):
    """A record of the journal of a :class:`BlockFile`.

    The first record identifies the inputs; every other record marks the end of a complete block.

    Attributes:
        size: Size of the file of rows at the end of the block, in bytes.
        digest: SHA-256 of the block.
        inputs: Digest of the inputs; empty except in the first record.
    """

    size: int
    digest: str = ""
    inputs: str = ""


def check_writable(path: Path) -> None:
    """Raise an error if ``path`` is a Parquet file, but pyarrow is not installed.

    Call this function before long work begins.
    """
    if _is_parquet(path):
        _pyarrow()


class BlockFile:
    """A file of rows that is written block by block, and exists only when all blocks are written.

    Until then, the rows are in ``PATH.part``, and ``PATH.journal`` lists the complete blocks. If
    the work is interrupted, a new object with the same arguments continues after the last complete
    block. The result is byte for byte the same as without an interruption.

    Args:
        path: The file: Parquet if its suffix is ``.parquet``, otherwise JSON Lines. JSON Lines are
            compressed with gzip if the suffix is ``.gz``.
        inputs: Digest of all inputs that the rows depend on.

    Attributes:
        blocks: Number of complete blocks.

    Raises:
        DatasetError: If the file cannot be written, or ``PATH.part`` is damaged or has rows of
            other inputs.
    """

    def __init__(self, path: Path, inputs: str) -> None:
        self.path = path
        self.part: Path = path.with_name(f"{path.name}.part")
        self._journal_path = path.with_name(f"{path.name}.journal")
        if not self.part.exists():  # the rows of an older journal were moved to the file
            self._journal_path.unlink(missing_ok=True)
        self._journal: Journal[_Block] = Journal(self._journal_path, _Block)
        try:
            self._file = self._open(inputs)
        except BaseException:
            self._journal.__exit__()
            raise

    def _open(self, inputs: str) -> IO[bytes]:
        refuse_link(self.part)
        start, *blocks = self._journal.earlier or [_Block(size=0, inputs=inputs)]
        if start.inputs != inputs:
            raise DatasetError(
                f"{self.part}: the file was written for different responses, queries or features; "
                f"delete it and {self._journal_path} to start again, or choose another output file"
            )
        if not self._journal.earlier:
            self._journal.add(start)
        with writing(self.part):
            file = self.part.open("a+b")
        try:
            self._check(file, blocks)
        except BaseException:
            file.close()
            raise
        return file

    def _check(self, file: IO[bytes], blocks: Sequence[_Block]) -> None:
        """Check all complete blocks, and truncate the file after the last of them."""
        self.blocks: int = 0
        self._size = 0
        file.seek(0)
        for block in blocks:
            data = file.read(block.size - self._size)
            if hashlib.sha256(data).hexdigest() != block.digest:
                raise DatasetError(
                    f"{self.part}: the file is damaged (batch {self.blocks + 1} of its rows); "
                    f"delete it and {self._journal_path} to start again"
                )
            self.blocks, self._size = self.blocks + 1, block.size
        file.truncate(self._size)
        if self.blocks:
            _LOG.info(
                "%s: continuing an earlier run after %d batches of rows", self.path, self.blocks
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Closing tries again to write data that a full disk refused; complete blocks are safe.
        with suppress(OSError):
            self._file.close()
        self._journal.__exit__()

    def add(self, data: bytes) -> None:
        """Append a block of complete JSON Lines."""
        with writing(self.part):
            self._file.write(data)
            self._file.flush()
        self._size += len(data)
        self._journal.add(_Block(size=self._size, digest=hashlib.sha256(data).hexdigest()))
        self.blocks += 1

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of all complete blocks."""
        with self.part.open("rb") as file:
            yield from map(json.loads, file)

    def finish(self, columns: Mapping[str, str]) -> None:
        """Write the finished file, and delete ``PATH.part`` and ``PATH.journal``.

        Args:
            columns: Type of each column of a Parquet file, by name: ``string``, ``int64``,
                ``float64`` or ``texts`` (a map from text to text). Other formats ignore it.
        """
        with writing(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
            if _is_parquet(self.path):
                self._write_parquet(columns)
            elif self.path.suffix == ".gz":
                with (
                    self.part.open("rb") as source,
                    replace_file(self.path) as file,
                    packing(file) as packed,
                ):
                    shutil.copyfileobj(source, packed)
            else:
                os.replace(self.part, os.path.realpath(self.path))
        self._file.close()
        for path in (self.part, self._journal_path):
            with suppress(FileNotFoundError):
                path.unlink()

    def _write_parquet(self, columns: Mapping[str, str]) -> None:
        pyarrow, parquet = _pyarrow()
        types = {"texts": pyarrow.map_(pyarrow.string(), pyarrow.string())}
        schema = pyarrow.schema(
            (name, types.get(kind) or pyarrow.type_for_alias(kind))
            for name, kind in columns.items()
        )
        with replace_file(self.path) as file, parquet.ParquetWriter(file, schema) as writer:
            all_rows = self.rows()
            while rows := list(islice(all_rows, _ROW_GROUP)):
                arrays = [
                    pyarrow.array(_column(rows, name, kind), schema.field(name).type)
                    for name, kind in columns.items()
                ]
                writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))


def _column(rows: Sequence[Mapping[str, Any]], name: str, kind: str) -> list[Any]:
    if kind == "texts":
        return [list(row.get(name, {}).items()) for row in rows]
    return [row.get(name) for row in rows]


def _is_parquet(path: Path) -> bool:
    return path.name.lower().endswith(".parquet")


def _pyarrow() -> tuple[Any, Any]:
    with needing("pyarrow"):
        return import_module("pyarrow"), import_module("pyarrow.parquet")
