"""Files of queries and responses that are read one row at a time, any number of times."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple, Self

from mirage._base.files import json_object, record_rows, validated
from mirage._base.inputs import byte_lines, check_input, decode
from mirage.dataset import MirageDataset, check_addition, cluster_name
from mirage.errors import DatasetError, FeatureError, UnknownNameError
from mirage.models import Query, Response, response_of, second_response

_GZIP = b"\x1f\x8b"


class Item(NamedTuple):
    """A query with the response of each run.

    Attributes:
        query: The query.
        responses: The index of each run, and its response to the query, which is ``None`` if the
            run has none.
    """

    query: Query
    responses: tuple[tuple[int, Response | None], ...]


class ResponseFile:
    """The responses in a file, which are read from the disk when they are needed.

    Only the position of each response is kept in memory.

    Args:
        path: Path of the file: JSON Lines, gzipped or not, or Parquet.

    Attributes:
        positions: The position of each response in the file, in bytes, by repeat number and then by
            query id. If the file is compressed or Parquet, the positions are those in an
            uncompressed temporary copy.

    Raises:
        DatasetError: If the file has no response, or a line is invalid.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.positions: dict[int, dict[str, int]] = {}
        is_plain = _is_plain(path)
        self._file: IO[bytes]
        if is_plain:
            self._file = path.open("rb")
        else:
            self._file = TemporaryFile()  # noqa: SIM115 (it stays open)
        try:
            self._index(_positioned_rows(path) if is_plain else _copied_rows(path, self._file))
        except BaseException:
            self.close()
            raise

    def _index(self, rows: Iterable[tuple[str, int, dict[str, Any]]]) -> None:
        for where, position, row in rows:
            response = response_of(row, where)
            positions = self.positions.setdefault(response.repeat, {})
            if positions.setdefault(response.query_id, position) != position:
                raise second_response(response, where)
        if not self.positions:
            raise DatasetError(f"{self.path}: the file has no responses")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __len__(self) -> int:
        return sum(map(len, self.positions.values()))

    def response(self, repeat: int, query_id: str) -> Response | None:
        """Return the response of a repeat to a query; ``None`` if there is none.

        The repeat number of the returned response is 0, as in a run with one response per query.
        """
        position = self.positions[repeat].get(query_id)
        if position is None:
            return None
        self._file.seek(position)
        response = response_of(
            json.loads(self._file.readline().decode("utf-8-sig")), self.path.name
        )
        return response.model_copy(update={"repeat": 0}) if repeat else response


def check_regular(path: Path) -> None:
    """Raise an error if a file does not exist, or cannot be read twice because it is a pipe."""
    check_input(path)
    if not stat.S_ISREG(path.stat().st_mode):
        raise DatasetError(f"{path}: a pipe cannot be read several times; save it to a file")


def file_digest(path: Path) -> str:
    """Return the SHA-256 digest of a file's content in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_plain(path: Path) -> bool:
    """Return whether a file is uncompressed JSON Lines, so that any line can be read directly."""
    check_regular(path)
    if path.name.lower().endswith(".parquet"):
        return False
    with path.open("rb") as file:
        return file.read(2) != _GZIP


def _positioned_rows(path: Path) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield the location, the position in bytes and the content of each row of a JSON Lines file.

    The location, such as the number of the line, is for error messages.
    """
    position = 0
    for number, line in byte_lines(path, whole=False):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, position, json_object(where, decode(line, where, first=number == 1))[1]
        position += len(line)


def _copied_rows(path: Path, file: IO[bytes]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Copy the rows of a file to the open ``file``; yield each with its location and position.

    The results are like those of :func:`_positioned_rows`, with positions in the copy.
    """
    for where, row in record_rows(path, whole=False):
        position = file.tell()
        file.write(json.dumps(row).encode() + b"\n")
        yield where, position, row


class RunFiles:
    """Context manager for reading queries and the responses of several runs from files.

    The files stay open until the end of the ``with`` block.

    Args:
        dataset: The queries, or the path of their file: JSON Lines, gzipped or not, or Parquet.
        runs: Paths of the files of responses, by model name.
        language: Language that the queries must be in; by default any.
        cluster: Metadata key under which each query has the name of its cluster; by default
            :attr:`Query.cluster <mirage.Query>`.

    Attributes:
        runs: The model and the repeat number of each run. Each repeat counts as a run.
        clusters: The name of each query's cluster, by query id; complete once all items have been
            read.

    Raises:
        DatasetError: If a file is invalid.
    """

    def __init__(
        self,
        dataset: Path | MirageDataset,
        runs: Mapping[str, Path],
        *,
        language: str | None = None,
        cluster: str | None = None,
    ) -> None:
        if isinstance(dataset, Path):
            check_regular(dataset)
        self.dataset = dataset
        self.language = language
        self.clusters: dict[str, str] = {}
        self._cluster = cluster
        self._files: dict[str, ResponseFile] = {}
        try:
            for model, path in runs.items():
                self._files[model] = ResponseFile(path)
        except BaseException:
            self.__exit__()
            raise
        self.runs: tuple[tuple[str, int], ...] = tuple(
            (model, repeat)
            for model, file in self._files.items()
            for repeat in sorted(file.positions)
        )
        self._is_checked = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    @property
    def answers(self) -> int:
        """The number of responses, including repeats."""
        return sum(map(len, self._files.values()))

    def digest(self) -> str:
        """Return a text that changes if the queries or the responses change."""
        dataset = self.dataset
        queries = (
            file_digest(dataset)
            if isinstance(dataset, Path)
            else "".join(query.model_dump_json() for query in dataset)
        )
        responses = {model: file_digest(file.path) for model, file in self._files.items()}
        return f"{queries}\n{responses}"

    def _queries(self) -> Iterator[tuple[str, Query]]:
        if not isinstance(self.dataset, Path):
            yield from ((self._name, query) for query in self.dataset)
            return
        for where, row in record_rows(self.dataset, whole=False):
            yield where, validated(Query, row, where)

    @property
    def _name(self) -> str:
        return str(self.dataset) if isinstance(self.dataset, Path) else self.dataset.name

    def items(self) -> Iterator[Item]:
        """Yield the queries in order, each with its responses; the first call checks the queries.

        Raises:
            DatasetError: If a row is invalid, or there is no query.
            FeatureError: If a run answers a query that the dataset does not have.
            UnknownNameError: If no query has the key ``cluster`` in its metadata.
        """
        ids: set[str] = set()
        keys: dict[str, None] = {}
        language = self.language
        for where, query in self._queries():
            if not self._is_checked:
                if not ids and language not in (None, query.language):
                    raise DatasetError(
                        f"the queries of {self._name} are in {query.language!r}, not in "
                        f"{language!r}"
                    )
                language = query.language
                check_addition(query, ids, language, where)
                ids.add(query.id)
                keys |= dict.fromkeys(query.metadata)
                name = cluster_name(query, self._cluster)
                if name is not None:
                    self.clusters[query.id] = name
            yield Item(
                query,
                tuple(
                    (number, self._files[model].response(repeat, query.id))
                    for number, (model, repeat) in enumerate(self.runs)
                ),
            )
        if self._is_checked:
            return
        if not ids:
            raise DatasetError(f"{self._name}: the file has no queries")
        if self._cluster is not None and self._cluster not in keys:
            raise UnknownNameError("metadata key", self._cluster, keys, "in the queries")
        self._check_ids(ids)
        self.language, self._is_checked = language, True

    def _check_ids(self, ids: set[str]) -> None:
        for model, file in self._files.items():
            for positions in file.positions.values():
                stranger = next((id_ for id_ in positions if id_ not in ids), None)
                if stranger is not None:
                    raise FeatureError(
                        f"the run of model {model!r} answers query {stranger!r}, which "
                        f"{self._name} does not have; score the run with the dataset whose "
                        "queries it answers"
                    )
