"""Answers on disk, written as they come, shared by any number of processes."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from mirage._base.files import open_append
from mirage._base.inputs import check_path
from mirage._base.logs import logger
from mirage.errors import DatasetError, SettingError

__all__ = ["Cache", "default_cache_path"]

T = TypeVar("T")

_LOG = logger("mirage.llm")
_BUSY_S = 10.0  # how long a write waits for those of other processes
_APPLICATION = 0x4D495247  # "MIRG", in the header of the file: the table in it is ours
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_LACKING = re.compile(r"no such (table|column)|has \d+ columns|constraint failed|not supported")

# SQLite has no checksums of its own: a page that was overwritten may look like an answer.
_TABLE = """
CREATE TABLE answers (
    key BLOB PRIMARY KEY, model TEXT NOT NULL, created REAL NOT NULL, answer BLOB NOT NULL,
    crc32 INTEGER NOT NULL
) WITHOUT ROWID
"""


def default_cache_path() -> Path:
    """``llm.sqlite`` in the folder that ``MIRAGE_CACHE`` names, or in the user's cache folder."""
    from platformdirs import user_cache_path

    folder = os.environ.get("MIRAGE_CACHE")
    return (Path(folder) if folder else user_cache_path("mirage")) / "llm.sqlite"


class Cache:
    """A table from the digest of a request to its answer (SQLite, write-ahead log).

    Requests themselves, and keys, are not stored. Every answer is committed when it is put, so a
    killed process loses none. Threads and processes may share a file; ``NAME.lock`` beside it keeps
    them apart while it is opened. A file that is no sound database is renamed to
    ``NAME.corrupt-MILLISECONDS``, which is logged, and a new one begun. Where answers cannot be
    kept (disk full, read-only, a database of something else), that is logged once, and the work
    goes on.

    Raises:
        SettingError: the path is none.
    """

    def __init__(self, path: str | Path) -> None:
        if not isinstance(path, str | Path) or str(path) in ("", ".", ":memory:"):
            raise SettingError(f"{path!r} is no file to keep answers in; cache=False keeps none")
        try:
            check_path(Path(path))
        except DatasetError as error:
            raise SettingError(str(error)) from None
        self.path: Path = Path(path).expanduser().absolute()
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None
        self._inode = 0
        self._told = False
        with _REGISTRY:
            _CACHES.add(self)

    def __repr__(self) -> str:
        return f"Cache({str(self.path)!r})"

    def __del__(self) -> None:
        with suppress(AttributeError):  # the path was none
            self.close()

    def get(self, key: bytes) -> dict[str, Any] | None:
        """The answer to the request with this digest, ``None`` where there is none."""

        def read(database: sqlite3.Connection) -> dict[str, Any] | None:
            query = "SELECT answer, crc32 FROM answers WHERE key = ?"
            row = database.execute(query, (key,)).fetchone()
            if row is None:
                return None
            if type(row[0]) is not bytes or zlib.crc32(row[0]) != row[1]:
                raise _DamageError("an answer in it was overwritten")
            return cast(dict[str, Any], json.loads(row[0]))

        return self._try(read)

    def put(self, key: bytes, model: str, answer: dict[str, Any]) -> None:
        """Keep an answer, and which ``model`` gave it; one that is there already stays."""
        content = json.dumps(answer, ensure_ascii=False).encode()

        def write(database: sqlite3.Connection) -> None:
            database.execute(
                "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?)",
                (key, model, time.time(), content, zlib.crc32(content)),
            )

        self._try(write)

    def forget(self, keys: Iterable[bytes]) -> None:
        """Delete the answers to the requests with these digests."""
        rows = [(key,) for key in keys]

        def delete(database: sqlite3.Connection) -> None:
            database.execute("BEGIN")  # one transaction in place of one for each row
            database.executemany("DELETE FROM answers WHERE key = ?", rows)
            database.execute("COMMIT")

        self._try(delete)

    def __len__(self) -> int:
        query = "SELECT count(*) FROM answers"
        return self._try(lambda database: int(database.execute(query).fetchone()[0])) or 0

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._database is not None:
                self._database.close()
            self._database = None

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """The result of some work on the database, ``None`` where it cannot be used."""
        with self._lock:
            for _ in range(3):
                try:
                    return work(self._opened())
                except (sqlite3.Error, OSError, ValueError) as error:
                    if not _is_damage(error):
                        self._tell("%s: cannot be used (%s); answers are not kept", error)
                        return None
                    try:
                        self._set_aside(error)
                    except OSError as failure:
                        self._tell("%s: cannot be renamed (%s); answers are not kept", failure)
                        return None
            return None

    def _opened(self) -> sqlite3.Connection:
        """The database, opened (again) where that is needed."""
        if self._database is not None and _inode(self.path) != self._inode:
            self.close()  # another process has set the file aside, or somebody has deleted it
        if self._database is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._alone():
                self.path.touch()
                self._inode = _inode(self.path)
                self._database = _connection(self.path)
        return self._database

    def _set_aside(self, error: Exception) -> None:
        """Move a corrupt file away, unless another process has done so already."""
        self.close()
        name = f"{self.path.name}.corrupt-{time.time_ns() // 1_000_000}"
        with self._alone():
            if _inode(self.path) != self._inode:
                return
            for suffix in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.replace(f"{self.path}{suffix}", self.path.with_name(name + suffix))
        _LOG.warning(
            "%s: not a sound database (%s); it was renamed to %s, and a new one begun",
            self.path,
            error,
            name,
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While no other process opens the file or sets it aside."""
        import portalocker

        with open_append(Path(f"{self.path}.lock")) as file:
            portalocker.lock(file, portalocker.LOCK_EX)
            yield  # to close the file is to unlock it

    def _tell(self, message: str, error: Exception) -> None:
        if not self._told:
            _LOG.warning(message, self.path, error)
        self._told = True


class _DamageError(sqlite3.DatabaseError):
    """Damage that SQLite itself has not seen."""


def _is_damage(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest of the bits are details
    # ValueError: text that is not Unicode, in an answer or in SQLite's own message. And where our
    # table lacks a column, the text that defines it was overwritten.
    foreign = isinstance(error, ValueError) or _LACKING.search(str(error)) is not None
    return foreign or isinstance(error, _DamageError) or code in _CORRUPT


def _inode(path: Path) -> int:
    """What tells a file from another at the same path; 0 where there is none."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0


def _connection(path: Path) -> sqlite3.Connection:
    """The database in a file, made if the file is empty.

    Raises:
        sqlite3.Error: it is no database, or not one of ours, which is then left as it is.
    """
    database = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != _APPLICATION and tables:
            raise sqlite3.OperationalError("it is a database of something else")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        if not tables:
            database.executescript(
                f"BEGIN; {_TABLE}; PRAGMA application_id = {_APPLICATION}; COMMIT"
            )
    except BaseException:
        database.close()
        raise
    return database


# Forks --------------------------------------------------------------------------------------------

# A connection must not be used, nor even closed, in a fork of its process (sqlite.org,
# howtocorrupt.html, section 2.6): each process opens its own. And a lock that another thread holds
# in that moment would stay locked in the fork for ever.
_REGISTRY = threading.Lock()
_CACHES: weakref.WeakSet[Cache] = weakref.WeakSet()
_held: list[Cache] = []


def _before_fork() -> None:
    _REGISTRY.acquire()
    for cache in _CACHES:
        cache._lock.acquire()
        cache.close()
        _held.append(cache)


def _after_fork() -> None:
    while _held:
        _held.pop()._lock.release()
    _REGISTRY.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_child=_after_fork, after_in_parent=_after_fork
    )
