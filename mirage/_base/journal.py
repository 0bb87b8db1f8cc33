"""A JSON Lines file of records that grows while work goes on, and survives its end."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Generic, Self, TypeVar

from pydantic import BaseModel

from mirage._base.files import open_append, read_rows, validated, write_records, writing
from mirage._base.inputs import limit_of, too_large
from mirage._base.logs import logger
from mirage.errors import DatasetError

__all__ = ["Journal"]

R = TypeVar("R", bound=BaseModel)

_LOG = logger("mirage")


class Journal(Generic[R]):
    """Appends records to a file as they come; what the file held before is in ``earlier``.

    Each record is handed to the operating system at once, so that a killed process loses none. A
    last record that was cut short is dropped, and so are NULs at the end, which some file systems
    leave there when the power fails; both are logged. One process at a time may write a file. A
    link to a file stays one. With ``path=None`` nothing is kept and nothing written.

    Raises:
        DatasetError: another process writes the file, it cannot be opened, or a line in it is no
            such record.
    """

    def __init__(self, path: str | Path | None, record: type[R]) -> None:
        self.path: Path | None = None if path is None else Path(path)
        self.earlier: list[R] = []
        self._file: IO[bytes] | None = None
        if self.path is not None:
            self._file = _locked(self.path)
            try:
                _mend_last_line(self._file, self.path)
                self.earlier = [
                    validated(record, row, where) for where, row in read_rows(self.path)
                ]
            except BaseException:
                self._file.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, record: R) -> None:
        """Append one record, whole or not at all.

        Raises:
            DatasetError: the file cannot be written (disk full); says what is kept.
        """
        if self.path is None or self._file is None:
            return
        line = record.model_dump_json(exclude_defaults=True).encode() + b"\n"
        size = os.fstat(self._file.fileno()).st_size
        try:
            _append(self._file, line)
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(size)
            raise DatasetError(
                f"{self.path}: cannot be written ({error.strerror}); what was written before is "
                "kept in it: make room, and do the same again, which goes on from there"
            ) from error

    def finish(self, records: Iterable[R]) -> None:
        """Replace the file in one step by these records in this order; no more can be added.

        Raises:
            DatasetError: the file cannot be written; it then stays as it was.
        """
        if self.path is None or self._file is None:
            return
        write_records(records, self.path)
        # The lock goes last: who had it earlier would add to a file that is replaced.
        self._file.close()


def _locked(path: Path) -> IO[bytes]:
    """Open the file for appending while nobody else can do the same."""
    import portalocker

    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            file = open_append(Path(os.path.realpath(path)))
            try:
                mode = os.fstat(file.fileno()).st_mode
                if not stat.S_ISREG(mode):
                    raise DatasetError(f"{path}: is a device or a pipe; name a file")
                portalocker.lock(file, portalocker.LOCK_EX | portalocker.LOCK_NB)
                if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file
            except portalocker.LockException:
                file.close()
                raise DatasetError(
                    f"{path}: another process is writing this file (or this one is, twice); wait "
                    "for it, or write another file"
                ) from None
            except BaseException:
                file.close()
                raise
            file.close()  # the one who had it has just replaced it


def _append(file: IO[bytes], line: bytes) -> None:
    while line:  # a nearly full disk takes a part
        line = line[file.write(line) :]


def _mend_last_line(file: IO[bytes], path: Path) -> None:
    """Make the file end with a line: drop a record that was cut short, and end any other."""
    if os.fstat(file.fileno()).st_size > limit_of("file"):
        raise too_large(path)
    file.seek(0)
    content = file.read()
    if content.endswith(b"\0"):
        content = content.rstrip(b"\0")
        _LOG.warning("%s: it ended in NULs, which are dropped", path)
        file.truncate(len(content))
    whole = content.rfind(b"\n") + 1
    last = content[whole:]
    if not last.startswith(b"{"):
        return  # nothing, or nothing of ours: reading it says so
    try:
        json.loads(last)
    except (ValueError, RecursionError):
        _LOG.warning("%s: the last line was cut short, and is dropped", path)
        file.truncate(whole)
    else:
        _append(file, b"\n")
