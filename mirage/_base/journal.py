"""A file that stores the records of long work as they arrive, so that they survive a crash."""

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

R = TypeVar("R", bound=BaseModel)

_LOG = logger("mirage")


class Journal(Generic[R]):
    """A JSON Lines file to which records are appended, so that interrupted work can be resumed.

    Each record is passed to the operating system immediately, so no record is lost if the process
    is killed. When the file is opened, an incomplete last record is removed. NULs at the end, which
    some file systems leave after a power failure, are removed too. In both cases, a warning is
    logged. Only one process at a time may write a file. If the path is a symbolic link, the link is
    kept and its target is written.

    Args:
        path: Path of the file; if it is ``None``, nothing is read or written.
        record: Class of the records.

    Attributes:
        earlier: The records that the file contained when it was opened.
    """

    def __init__(self, path: str | Path | None, record: type[R]) -> None:
        self.path: Path | None = None if path is None else Path(path)
        self.earlier: list[R] = []
        self._file: IO[bytes] | None = None
        if self.path is not None:
            self._file = _open_locked(self.path)
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
        """Append a record.

        Raises:
            DatasetError: If the record cannot be written completely. Nothing is then appended.
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
                f"{self.path}: cannot be written ({error.strerror}); the records written so far "
                "are kept: free disk space, and repeat the command or call to continue from there"
            ) from error

    def finish(self, records: Iterable[R]) -> None:
        """Replace the content of the file with these records in one step, and close the file.

        Args:
            records: All records of the finished work, in order.
        """
        if self.path is None or self._file is None:
            return
        write_records(records, self.path)
        # Release the lock last: a process that gets it earlier would append to the replaced file.
        self._file.close()


def _open_locked(path: Path) -> IO[bytes]:
    """Open the file for appending and lock it against other processes."""
    import portalocker

    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            file = open_append(Path(os.path.realpath(path)))
            try:
                mode = os.fstat(file.fileno()).st_mode
                if not stat.S_ISREG(mode):
                    raise DatasetError(f"{path}: this is a device or a pipe; choose a regular file")
                portalocker.lock(file, portalocker.LOCK_EX | portalocker.LOCK_NB)
                if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file
            except portalocker.LockException:
                file.close()
                raise DatasetError(
                    f"{path}: another process is writing this file, or this process opened it "
                    "twice; wait until it is closed, or choose another file"
                ) from None
            except BaseException:
                file.close()
                raise
            file.close()  # the process that held the lock has just replaced the file


def _append(file: IO[bytes], line: bytes) -> None:
    while line:  # if the disk is nearly full, only a part is written
        line = line[file.write(line) :]


def _mend_last_line(file: IO[bytes], path: Path) -> None:
    """Repair the end of a file, so that its last line is complete.

    An incomplete record is removed. A line break is added if a complete record lacks one.
    """
    if os.fstat(file.fileno()).st_size > limit_of("file"):
        raise too_large(path)
    file.seek(0)
    content = file.read()
    if content.endswith(b"\0"):
        content = content.rstrip(b"\0")
        _LOG.warning("%s: the file ended in NUL bytes, which were removed", path)
        file.truncate(len(content))
    complete_end = content.rfind(b"\n") + 1
    last = content[complete_end:]
    if not last.startswith(b"{"):
        return  # empty, or not a record, which raises an error when it is read
    try:
        json.loads(last)
    except (ValueError, RecursionError):
        _LOG.warning("%s: the last line was incomplete and was removed", path)
        file.truncate(complete_end)
    else:
        _append(file, b"\n")
