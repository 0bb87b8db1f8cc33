"""The history of a system: the features of its models at each commit, in one SQLite file."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from mirage._base.inputs import check_path, inflate
from mirage._base.stores import locked
from mirage.arena.anchor_pairs import AnchorVerdicts
from mirage.errors import DatasetError, UnknownNameError
from mirage.testing.baseline import Baseline, from_text, to_text

_BUSY_S = 10.0  # seconds that a write waits for writes of other processes
_APPLICATION = 0x4D495248  # "MIRH" in the header of the file; it identifies a history

# SQLite does not verify its content, so each row has a checksum that detects damage.
_TABLE = """
CREATE TABLE commits (
    id INTEGER PRIMARY KEY, time TEXT NOT NULL, sha TEXT NOT NULL, label TEXT NOT NULL,
    model TEXT NOT NULL, language TEXT NOT NULL, fingerprint TEXT NOT NULL,
    accepted INTEGER NOT NULL DEFAULT 0, content BLOB NOT NULL, crc32 INTEGER NOT NULL
)
"""
_COLUMNS = "id, time, sha, accepted, content, crc32"
_JUDGE_TABLE = """
CREATE TABLE IF NOT EXISTS judges (
    id INTEGER PRIMARY KEY, time TEXT NOT NULL, sha TEXT NOT NULL, judge TEXT NOT NULL,
    pairs TEXT NOT NULL, accepted INTEGER NOT NULL DEFAULT 0, content BLOB NOT NULL,
    crc32 INTEGER NOT NULL
)
"""


@dataclass(frozen=True, eq=False)
class Commit:
    """The measurements of one model at one commit.

    Attributes:
        sha: SHA of the commit.
        time: Time of the measurement, ISO 8601 in UTC.
        baseline: Features of the model, for each query and repeat.
        rank: Rank of the model, where 1 is the best; ``None`` if there is no ranking.
        accepted: Whether later commits are compared with this one.
        features: Features to compare by default; empty for the default features of the regression
            test (:mod:`mirage.testing.gate`).
    """

    sha: str
    time: str
    baseline: Baseline
    rank: int | None = None
    accepted: bool = False
    features: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class JudgeRun:
    """One run of a judge on its anchor pairs: the same pairs of responses in every run.

    Attributes:
        sha: SHA of the commit.
        time: Time of the run, ISO 8601 in UTC.
        verdicts: The verdicts.
        accepted: Whether later runs are compared with this one.
    """

    sha: str
    time: str
    verdicts: AnchorVerdicts
    accepted: bool = False


class History:
    """A file with the features of models at each commit (SQLite with a write-ahead log).

    It stores the values of each query, so that commits can be compared query by query. Each commit
    is written in one transaction. Several processes can use the file at the same time; a lock file
    ``NAME.lock`` in the same folder protects its creation.

    Args:
        path: The file; it is created when the first commit is added.

    Example:
        >>> History("history.db")
        History('history.db')
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
        rank: int | None = None,
        clusters: Mapping[str, str] | None = None,
        features: Sequence[str] = (),
    ) -> None:
        """Add the measurements of a commit.

        Args:
            baseline: The features, as :func:`mirage.testing.baseline.read_baseline` returns them.
            commit: SHA of the commit, or another name for it.
            rank: Rank of the model, if there is a ranking.
            clusters: Cluster of each query, by query id; by default those in ``baseline.table``.
            features: Features to compare by default; if empty, the default features of the
                regression test (:mod:`mirage.testing.gate`).

        Raises:
            DatasetError: The file is not a history, or cannot be written.
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
        # The column `label` is not used any more.
        row = (now, commit, "", table.model, table.language, baseline.fingerprint)
        with self._database(make=True) as database:
            database.execute(
                "INSERT INTO commits (time, sha, label, model, language, fingerprint, content, "
                "crc32) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, data, zlib.crc32(data)),
            )

    def append_judge(self, verdicts: AnchorVerdicts, commit: str) -> None:
        """Add the verdicts of a judge on its anchor pairs.

        Anchor pairs are pairs of responses that the judge compares again in every run.

        Args:
            verdicts: The verdicts, as :meth:`mirage.arena.anchor_pairs.AnchorPairs.judge` returns
                them.
            commit: SHA of the commit, or another name for the run.

        Raises:
            DatasetError: The file is not a history, or cannot be written.
        """
        content = {
            "settings": verdicts.settings_digest,
            "queries": verdicts.query_ids,
            "counts": verdicts.counts.tolist(),
        }
        data = zlib.compress(json.dumps(content, ensure_ascii=False).encode())
        now = datetime.now(UTC).isoformat(timespec="seconds")
        row = (now, commit, verdicts.judge, verdicts.pairs_digest, data, zlib.crc32(data))
        with self._database(make=True) as database:
            database.execute(_JUDGE_TABLE)
            database.execute(
                "INSERT INTO judges (time, sha, judge, pairs, content, crc32) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                row,
            )

    def judge_runs(self) -> tuple[tuple[JudgeRun, ...], ...]:
        """Return one series of runs per judge and set of anchor pairs, oldest run first.

        Raises:
            DatasetError: The file does not exist or is not a history, or an entry is damaged.
        """
        query = (
            "SELECT id, time, sha, judge, pairs, accepted, content, crc32 FROM judges ORDER BY id"
        )
        with self._database() as database:
            if not _has_judges(database):
                return ()
            runs = [self._judge_run(row) for row in database.execute(query)]
        series: dict[tuple[str, str], list[JudgeRun]] = {}
        for run in runs:
            series.setdefault((run.verdicts.judge, run.verdicts.pairs_digest), []).append(run)
        return tuple(map(tuple, series.values()))

    def _judge_run(self, row: tuple[Any, ...]) -> JudgeRun:
        number, time, sha, judge, pairs, accepted, data, checksum = row
        where = f"{self.path}, judge entry {number}"
        content = json.loads(inflate(_checked(data, checksum, where), where))
        counts = np.array(content["counts"], dtype=np.intp)
        verdicts = AnchorVerdicts(
            judge, content["settings"], pairs, tuple(content["queries"]), counts
        )
        return JudgeRun(sha, time, verdicts, bool(accepted))

    def accept(self, commit: str) -> None:
        """Mark a commit as accepted, so that later commits are compared with it.

        This applies to all models. If the commit was measured several times, later commits are
        compared with its last measurement. If judges have runs with this name, later runs of these
        judges are compared with them.

        Args:
            commit: SHA of the commit, or its beginning.

        Raises:
            UnknownNameError: There is no such commit.
            DatasetError: Several commits begin with ``commit``, or the file is not a history.
        """
        with self._database() as database:
            tables = ["commits", *(["judges"] if _has_judges(database) else [])]
            names = " UNION ".join(f"SELECT DISTINCT sha FROM {table}" for table in tables)
            shas = [sha for (sha,) in database.execute(names)]
            exact = [sha for sha in shas if sha == commit]
            matches = exact or [sha for sha in shas if commit and sha.startswith(commit)]
            if not matches:
                raise UnknownNameError("commit", commit, shas)
            if len(matches) > 1:
                raise DatasetError(
                    f"{self.path}: the SHAs of {len(matches)} commits begin with {commit!r}; give "
                    "more characters"
                )
            for table in tables:
                database.execute(f"UPDATE {table} SET accepted = 1 WHERE sha = ?", matches)

    def series(self) -> tuple[tuple[Commit, ...], ...]:
        """Return the series of commits of each model on each set of queries.

        The commits of a series are in the order in which they were added, and all of them have a
        feature in common. A commit without such a feature, for example after a change of the judge,
        begins another series.

        Raises:
            DatasetError: The file does not exist or is not a history, or an entry is damaged.
        """
        with self._database() as database:
            keys = database.execute(
                "SELECT model, language, fingerprint FROM commits GROUP BY 1, 2, 3 ORDER BY min(id)"
            ).fetchall()
            query = (
                f"SELECT {_COLUMNS} FROM commits WHERE model = ? AND language = ? AND "
                "fingerprint = ? ORDER BY id"
            )
            return tuple(
                series
                for key in keys
                for series in _with_shared_features(map(self._commit, database.execute(query, key)))
            )

    def _commit(self, row: tuple[Any, ...]) -> Commit:
        number, time, sha, accepted, data, checksum = row
        where = f"{self.path}, entry {number}"
        content = json.loads(inflate(_checked(data, checksum, where), where))
        baseline = from_text(content["baseline"], where)
        table = replace(baseline.table, clusters=content["clusters"])
        baseline = replace(baseline, table=table)
        features = tuple(content.get("features", ()))  # older entries have none
        return Commit(sha, time, baseline, content["rank"], bool(accepted), features)

    @contextmanager
    def _database(self, make: bool = False) -> Iterator[sqlite3.Connection]:
        """Open the database for one transaction, and yield the connection.

        If ``make`` is true, create the database if it does not exist.
        """
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
            raise DatasetError(
                f"{self.path}: cannot be used ({error}); check that it is a history file"
            ) from None

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
            raise DatasetError(
                f"{self.path}: this SQLite database is not a mirage history; give a file written "
                "with --history"
            )
        return database


def _has_judges(database: sqlite3.Connection) -> bool:
    """Return whether the file has a table for the runs of judges, unlike older files."""
    query = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'judges'"
    return bool(database.execute(query).fetchone()[0])


def _with_shared_features(commits: Iterable[Commit]) -> list[tuple[Commit, ...]]:
    """Divide commits into series; all commits of a series have at least one feature in common."""
    series: list[tuple[list[Commit], set[str]]] = []
    for commit in commits:
        features = commit.baseline.table.features
        for members, shared in series:
            if not shared.isdisjoint(features):
                members.append(commit)
                shared.intersection_update(features)
                break
        else:
            series.append(([commit], set(features)))
    return [tuple(members) for members, _ in series]


def _checked(data: object, checksum: int, where: str) -> bytes:
    """Return the data of an entry; raise an error if the checksum of the data differs."""
    if type(data) is not bytes or zlib.crc32(data) != checksum:
        raise DatasetError(
            f"{where}: the stored data are damaged; restore a copy of the file, or start a new "
            "history file"
        )
    return data
