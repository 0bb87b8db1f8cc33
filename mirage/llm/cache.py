"""A cache of LLM answers on disk, which any number of processes may share."""

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

T = TypeVar("T")

_LOG = logger("mirage.llm")
_BUSY_S = 10.0  # how long a write waits for writes of other processes
_APPLICATION = 0x4D495247  # "MIRG": marks the database file as ours in SQLite's header
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_LACKING = re.compile(r"no such (table|column)|has \d+ columns|constraint failed|not supported")

# SQLite has no checksums: without crc32, an overwritten page may look like an answer.
_TABLE = """
CREATE TABLE answers (
    key BLOB PRIMARY KEY, model TEXT NOT NULL, created REAL NOT NULL, answer BLOB NOT NULL,
    crc32 INTEGER NOT NULL
) WITHOUT ROWID
"""


def default_cache_path() -> Path:
    """Return the default path of the cache, a file with the name ``llm.sqlite``.

    The file is in the folder that the environment variable ``MIRAGE_CACHE`` names, or else in the
    user's cache folder.
    """
    from platformdirs import user_cache_path

    folder = os.environ.get("MIRAGE_CACHE")
    return (Path(folder) if folder else user_cache_path("mirage")) / "llm.sqlite"


class Cache:
    """A table that maps the digest of a request to its answer (SQLite, write-ahead log).

    The requests themselves and API keys are not stored. Every answer is committed at once, so no
    answer is lost if the process is killed. Threads and processes may share a file; a lock file
    ``NAME.lock`` beside it ensures that they do not open or rename the file at the same time.

    If the file is damaged, it is renamed to ``NAME.corrupt-MILLISECONDS``, a warning is logged, and
    a new file is started. If answers cannot be stored (the disk is full, the file is read-only or
    is the database of another program), one warning is logged, and answers are not cached.

    Args:
        path: The database file. The file and its folder are created at first use.

    Raises:
        SettingError: If the path is not a file path.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cache = Cache(f"{folder}/llm.sqlite")
        ...     cache.put(b"digest", "a-model", {"text": "Paris"})
        ...     answer, size = cache.get(b"digest"), len(cache)
        ...     cache.close()
        >>> answer, size
        ({'text': 'Paris'}, 1)
    """

    def __init__(self, path: str | Path) -> None:
        if not isinstance(path, str | Path) or str(path) in ("", ".", ":memory:"):
            raise SettingError(
                f"cache must be the path of a file, got {path!r}; to cache no answers, pass "
                "cache=False"
            )
        try:
            check_path(Path(path))
        except DatasetError as error:
            raise SettingError(str(error)) from None
        self.path: Path = Path(path).expanduser().absolute()
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None
        self._inode = 0
        self._has_warned = False
        with _REGISTRY:
            _CACHES.add(self)

    def __repr__(self) -> str:
        return f"Cache({str(self.path)!r})"

    def __del__(self) -> None:
        with suppress(AttributeError):  # __init__ has refused the path
            self.close()

    def get(self, key: bytes) -> dict[str, Any] | None:
        """Return the answer to the request with this digest, or ``None`` if it is not cached."""

        def read(database: sqlite3.Connection) -> dict[str, Any] | None:
            query = "SELECT answer, crc32 FROM answers WHERE key = ?"
            row = database.execute(query, (key,)).fetchone()
            if row is None:
                return None
            if type(row[0]) is not bytes or zlib.crc32(row[0]) != row[1]:
                raise _DamageError("a cached answer was overwritten")
            return cast(dict[str, Any], json.loads(row[0]))

        return self._with_database(read)

    def put(self, key: bytes, model: str, answer: dict[str, Any]) -> None:
        """Store a model's answer under the digest of its request, unless one is stored already."""
        content = json.dumps(answer, ensure_ascii=False).encode()

        def write(database: sqlite3.Connection) -> None:
            database.execute(
                "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?)",
                (key, model, time.time(), content, zlib.crc32(content)),
            )

        self._with_database(write)

    def forget(self, keys: Iterable[bytes]) -> None:
        """Delete the answers to the requests with these digests."""
        rows = [(key,) for key in keys]

        def delete(database: sqlite3.Connection) -> None:
            database.execute("BEGIN")  # one transaction for all rows is faster than one per row
            database.executemany("DELETE FROM answers WHERE key = ?", rows)
            database.execute("COMMIT")

        self._with_database(delete)

    def __len__(self) -> int:
        query = "SELECT count(*) FROM answers"
        return self._with_database(lambda database: int(database.execute(query).fetchone()[0])) or 0

    def close(self) -> None:
        """Close the file; the next call of another method opens it again."""
        with self._lock:
            if self._database is not None:
                self._database.close()
            self._database = None

    def _with_database(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Return the result of ``work`` on the database, or ``None`` if the file is unusable."""
        with self._lock:
            for _ in range(3):
                try:
                    return work(self._open())
                except (sqlite3.Error, OSError, ValueError) as error:
                    if not _is_damage(error):
                        self._warn(
                            "%s: the cache cannot be used (%s), so answers are not cached", error
                        )
                        return None
                    try:
                        self._rename_damaged(error)
                    except OSError as failure:
                        self._warn(
                            "%s: the damaged cache cannot be renamed (%s), so answers are not "
                            "cached",
                            failure,
                        )
                        return None
            return None

    def _open(self) -> sqlite3.Connection:
        """Return the database, opened again if necessary."""
        if self._database is not None and _inode(self.path) != self._inode:
            self.close()  # another process has renamed the file, or somebody has deleted it
        if self._database is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock_file():
                self.path.touch()
                self._inode = _inode(self.path)
                self._database = _connection(self.path)
        return self._database

    def _rename_damaged(self, error: Exception) -> None:
        """Rename a corrupt file, unless another process has done so; log ``error`` as the cause."""
        self.close()
        name = f"{self.path.name}.corrupt-{time.time_ns() // 1_000_000}"
        with self._lock_file():
            if _inode(self.path) != self._inode:
                return
            for suffix in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.replace(f"{self.path}{suffix}", self.path.with_name(name + suffix))
        _LOG.warning(
            "%s: the database of cached answers was damaged (%s); it was renamed to %s, and a new "
            "one was started",
            self.path,
            error,
            name,
        )

    @contextmanager
    def _lock_file(self) -> Iterator[None]:
        """Lock the file for a ``with`` block, so that no other process opens or renames it."""
        import portalocker

        with open_append(Path(f"{self.path}.lock")) as file:
            portalocker.lock(file, portalocker.LOCK_EX)
            yield  # closing the file releases the lock

    def _warn(self, message: str, error: Exception) -> None:
        if not self._has_warned:
            _LOG.warning(message, self.path, error)
        self._has_warned = True


class _DamageError(sqlite3.DatabaseError):
    """Raised if a checksum reveals damage to the file although SQLite reports no error."""


def _is_damage(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the higher bits are details
    # ValueError: an answer or SQLite's own message is not valid Unicode. If our table lacks a
    # column, the text that defines the table was overwritten.
    foreign = isinstance(error, ValueError) or _LACKING.search(str(error)) is not None
    return foreign or isinstance(error, _DamageError) or code in _CORRUPT


def _inode(path: Path) -> int:
    """Return the inode number of a file, or 0 if the file does not exist.

    The number identifies the file even if it is renamed.
    """
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0


def _connection(path: Path) -> sqlite3.Connection:
    """Open a database file, and create its table if the file is empty."""
    database = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != _APPLICATION and tables:
            raise sqlite3.OperationalError("the file is the database of another program")
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
# howtocorrupt.html, section 2.6), so each process opens its own. A lock that another thread holds
# during the fork would stay locked in the child for ever, so all locks are acquired before.
_REGISTRY = threading.Lock()
_CACHES: weakref.WeakSet[Cache] = weakref.WeakSet()
_locked_caches: list[Cache] = []


def _before_fork() -> None:
    _REGISTRY.acquire()
    for cache in _CACHES:
        cache._lock.acquire()
        cache.close()
        _locked_caches.append(cache)


def _after_fork() -> None:
    while _locked_caches:
        _locked_caches.pop()._lock.release()
    _REGISTRY.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_child=_after_fork, after_in_parent=_after_fork
    )
