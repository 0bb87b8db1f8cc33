"""The history: the features of a model at each commit, in one SQLite file."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mirage._base.inputs import check_path, inflate
from mirage._base.stores import locked
from mirage.errors import DatasetError, UnknownNameError
from mirage.testing.baseline import Baseline, from_text, to_text

__all__ = ["Commit", "History"]

_BUSY_S = 10.0  # how long a write waits for those of other processes
_APPLICATION = 0x4D495248  # "MIRH", in the header of the file: the table in it is ours

# SQLite has no checksums of its own: a page that was overwritten may look like features.
_TABLE = """
CREATE TABLE commits (
    id INTEGER PRIMARY KEY, time TEXT NOT NULL, sha TEXT NOT NULL, label TEXT NOT NULL,
    model TEXT NOT NULL, language TEXT NOT NULL, fingerprint TEXT NOT NULL,
    accepted INTEGER NOT NULL DEFAULT 0, content BLOB NOT NULL, crc32 INTEGER NOT NULL
)
"""
_COLUMNS = "id, time, sha, label, accepted, content, crc32"


@dataclass(frozen=True, eq=False)
class Commit:
    """What was measured at one commit.

    Attributes:
        sha: the commit.
        time: when it was measured, ISO 8601 in UTC.
        label: what somebody called it; may be empty.
        baseline: the model's features, query by query, of each repeat.
        rank: the model's place in a ranking, 1 is the best; ``None`` where none was made.
        accepted: whether later commits are compared with this one.
        features: which of them to compare, if nobody asks for others; empty for the gate's.
    """

    sha: str
    time: str
    label: str
    baseline: Baseline
    rank: int | None = None
    accepted: bool = False
    features: tuple[str, ...] = ()


class History:
    """A file with the features of models, commit by commit (SQLite, write-ahead log).

    Values are kept query by query, so that later commits are compared in pairs. Every commit is
    written whole or not at all; processes may share a file, and ``NAME.lock`` beside it keeps them
    apart while it is made.

    Args:
        path: the file; made when something is first put there.
    """

    def __init__(self, path: str | Path) -> None:
        self.path: Path = Path(path)

    def __repr__(self) -> str:
        return f"History({str(self.path)!r})"

    def append(
        self,
        baseline: Baseline,
        commit: str,
        *,
        label: str = "",
        rank: int | None = None,
        clusters: Mapping[str, str] | None = None,
        features: Sequence[str] = (),
    ) -> None:
        """Add what was measured at a commit.

        Args:
            baseline: the features, as :func:`mirage.testing.read_baseline` gives them.
            commit: its SHA, or whatever names it.
            label: a word for people.
            rank: the model's place in a ranking.
            clusters: by query id, what a query hangs together with; by default the table's own.
            features: which of them to compare, if nobody asks for others; by default the gate's.

        Raises:
            DatasetError: the file is no history, or cannot be written.
        """
        table = baseline.table
        content = {
            "baseline": to_text(baseline),
            "clusters": dict(table.clusters if clusters is None else clusters),
            "rank": rank,
            "features": list(features),
        }
        data = zlib.compress(json.dumps(content, ensure_ascii=False).encode())
        now = datetime.now(UTC).isoformat(timespec="seconds")
        row = (now, commit, label, table.model, table.language, baseline.fingerprint)
        with self._database(make=True) as database:
            database.execute(
                "INSERT INTO commits (time, sha, label, model, language, fingerprint, content, "
                "crc32) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, data, zlib.crc32(data)),
            )

    def accept(self, commit: str) -> None:
        """Compare later commits with this one, in every series that has it.

        Args:
            commit: its SHA, or the beginning of it.

        Raises:
            UnknownNameError: there is no such commit.
            DatasetError: several begin so, or the file is no history.
        """
        with self._database() as database:
            shas = [sha for (sha,) in database.execute("SELECT DISTINCT sha FROM commits")]
            exact = [sha for sha in shas if sha == commit]
            alike = exact or [sha for sha in shas if commit and sha.startswith(commit)]
            if not alike:
                raise UnknownNameError("commit", commit, shas)
            if len(alike) > 1:
                raise DatasetError(f"{self.path}: {len(alike)} commits begin with {commit!r}")
            database.execute("UPDATE commits SET accepted = 1 WHERE sha = ?", alike)

    def series(self) -> tuple[tuple[Commit, ...], ...]:
        """The commits of each model on the same queries, in the order in which they came.

        Raises:
            DatasetError: there is no such file, it is no history, or an entry was overwritten.
        """
        with self._database() as database:
            keys = database.execute(
                "SELECT model, language, fingerprint FROM commits GROUP BY 1, 2, 3 ORDER BY min(id)"
            ).fetchall()
            query = (
                f"SELECT {_COLUMNS} FROM commits WHERE model = ? AND language = ? AND "
                "fingerprint = ? ORDER BY id"
            )
            return tuple(tuple(map(self._commit, database.execute(query, key))) for key in keys)

    def _commit(self, row: tuple[Any, ...]) -> Commit:
        number, time, sha, label, accepted, data, checksum = row
        where = f"{self.path}, entry {number}"
        if type(data) is not bytes or zlib.crc32(data) != checksum:
            raise DatasetError(f"{where}: was overwritten; begin another file")
        content = json.loads(inflate(data, where))
        baseline = from_text(content["baseline"], where)
        table = replace(baseline.table, clusters=content["clusters"])
        baseline = replace(baseline, table=table)
        features = tuple(content.get("features", ()))  # older entries have none
        return Commit(sha, time, label, baseline, content["rank"], bool(accepted), features)

    @contextmanager
    def _database(self, make: bool = False) -> Iterator[sqlite3.Connection]:
        """The database for one transaction."""
        if make:
            with locked(self.path.with_name(f"{self.path.name}.lock"), wait=True):
                self._make()
        else:
            check_path(self.path)
        try:
            database = self._connection()
            try:
                with database:
                    yield database
            finally:
                database.close()
        except sqlite3.Error as error:
            raise DatasetError(f"{self.path}: cannot be used ({error}); is it a history?") from None

    def _make(self) -> None:
        try:
            database = sqlite3.connect(self.path, timeout=_BUSY_S)
            try:
                if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    database.execute("PRAGMA journal_mode = WAL")
                    database.executescript(
                        f"BEGIN; {_TABLE}; PRAGMA application_id = {_APPLICATION}; COMMIT"
                    )
            finally:
                database.close()
        except sqlite3.Error as error:
            raise DatasetError(f"{self.path}: cannot be written ({error})") from None

    def _connection(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=_BUSY_S)
        try:
            (application,) = database.execute("PRAGMA application_id").fetchone()
        except sqlite3.Error:
            database.close()
            raise
        if application != _APPLICATION:
            database.close()
            raise DatasetError(f"{self.path}: is no history, but a database of something else")
        return database
