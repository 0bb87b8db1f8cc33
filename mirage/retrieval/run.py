"""What a retriever found: passages in order, by query."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mirage._base.files import packing, replace_file
from mirage._base.inputs import byte_lines, decode
from mirage._base.passages import document_of
from mirage._base.rows import first_duplicate
from mirage.errors import DatasetError, SettingError, UnknownNameError

__all__ = ["NO_HITS", "Hits", "RetrievalRun"]

# No lone surrogates, which file names that are not UTF-8 leave in ids and no file can say.
_FIELD = re.compile(r"(?!\s)[^\t\n\r\ud800-\udfff]+(?<!\s)")

RRF_K = 60
"""The constant of reciprocal rank fusion, as in its paper."""


class Hits(NamedTuple):
    """The passages found for one query, best first, and their scores."""

    passage_ids: tuple[str, ...]
    scores: NDArray[np.float64]

    def top(self, k: int) -> Hits:
        """The first ``k`` of them."""
        return Hits(self.passage_ids[:k], self.scores[:k])


NO_HITS = Hits((), np.zeros(0))


class RetrievalRun(Mapping[str, Hits]):
    """Ranked passages by query id, as in TREC: what one retriever found for each query.

    The higher score comes first; of equal ones, the one that was given first. A query for which
    nothing was found is there with no passage, so that a measure counts it.

    Args:
        hits: the passages of each query, in order of rank.
        name: what found them; the tag of a run file.

    Raises:
        DatasetError: a passage stands twice for a query, a score is not finite, or scores rise.
    """

    def __init__(self, hits: Mapping[str, Hits], name: str = "run") -> None:
        self._hits = dict(hits)
        self.name = name
        for query_id, (ids, scores) in self._hits.items():
            _check(query_id, ids, scores)

    @classmethod
    def of(cls, scores: Mapping[str, Mapping[str, float]], name: str = "run") -> Self:
        """From scores by query id and passage id, in any order.

        Equal scores keep the order of the mapping.

        Raises:
            DatasetError: a score is not finite.
        """
        return cls({query_id: _ordered(found.items()) for query_id, found in scores.items()}, name)

    @classmethod
    def read(cls, path: str | Path, query_ids: Iterable[str] = ()) -> Self:
        """Read a run file (``.gz`` too): lines ``query-id Q0 passage-id rank score tag``.

        Fields are parted by tabs, and then ids may have blanks in them, or else by blanks. Ranks
        may begin at 0 or 1; they order passages of equal scores.

        Args:
            path: the file.
            query_ids: queries that were asked; those that the file lacks are there with no passage.

        Raises:
            DatasetError: names the file and the line that is not as it should be.
        """
        rows, name = _rows(Path(path))
        found = {query_id: _from_rows(path, query_id, each) for query_id, each in rows.items()}
        return cls({**dict.fromkeys(query_ids, NO_HITS), **found}, name)

    def write(self, path: str | Path, *, tag: str = "") -> None:
        """Write a run file (``.gz`` too), ranks from 1; ``tag`` names what ranked.

        A query without a passage has no line: tell :meth:`read` of it. Where an id has a blank in
        it, as a file's name may, fields are parted by tabs, which :meth:`read` takes and few other
        tools do. A file that is there is replaced once the new one is whole.

        Raises:
            DatasetError: an id is empty or has a tab or a line end in it, the tag has a blank in
                it, or the file cannot be written.
        """
        lines = self.lines(tag=tag)
        place = Path(path)
        pack = packing if place.suffix == ".gz" else nullcontext
        with replace_file(place) as file, pack(file) as content:
            content.writelines(f"{line}\n".encode() for line in lines)

    def lines(self, *, tag: str = "") -> Iterator[str]:
        """The lines of a run file, as :meth:`write` writes them; ``tag`` names what ranked.

        Raises:
            DatasetError: an id is empty or has a tab or a line end in it, or the tag a blank.
        """
        tag = tag or "-".join(self.name.split())
        ids = {*self._hits, *(id_ for found, _ in self._hits.values() for id_ in found)}
        broken = [] if tag.split() == [tag] else [tag]
        broken += [id_ for id_ in ids if not _FIELD.fullmatch(id_)]
        if broken:
            raise DatasetError(
                f"{broken[0]!r} cannot stand in a TREC file, whose fields are parted by blanks or "
                "tabs; use ids without tabs and line ends, and a tag without blanks"
            )
        between = " " if all(id_.split() == [id_] for id_ in ids) else "\t"
        return (
            between.join((query_id, "Q0", id_, str(rank), repr(score), tag))
            for query_id, (found, scores) in self._hits.items()
            for rank, (id_, score) in enumerate(zip(found, scores.tolist(), strict=True), 1)
        )

    def __len__(self) -> int:
        return len(self._hits)

    def __iter__(self) -> Iterator[str]:
        return iter(self._hits)

    def __contains__(self, query_id: object) -> bool:
        return query_id in self._hits  # a mapping's own would make an error for each missing id

    def __getitem__(self, query_id: str) -> Hits:
        try:
            return self._hits[query_id]
        except KeyError:
            raise UnknownNameError(f"query of {self.name}", query_id, self._hits) from None

    def __repr__(self) -> str:
        most = max((len(ids) for ids, _ in self._hits.values()), default=0)
        return f"RetrievalRun({self.name!r}, {len(self)} queries, up to {most} passages each)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RetrievalRun):
            return NotImplemented
        return self._hits.keys() == other._hits.keys() and all(
            ids == other._hits[query_id].passage_ids
            and np.array_equal(scores, other._hits[query_id].scores)
            for query_id, (ids, scores) in self._hits.items()
        )

    __hash__ = None  # type: ignore[assignment]  # as of any mapping

    def scores(self) -> dict[str, dict[str, float]]:
        """Scores by query id and passage id, in order: what ir_measures and its like take."""
        return {
            query_id: dict(zip(ids, scores.tolist(), strict=True))
            for query_id, (ids, scores) in self._hits.items()
        }

    def top(self, k: int) -> RetrievalRun:
        """The first ``k`` passages of each query.

        Raises:
            SettingError: ``k`` is below 1.
        """
        if k < 1:
            raise SettingError(f"a run has 1 passage a query or more, not {k}")
        return RetrievalRun({id_: hits.top(k) for id_, hits in self._hits.items()}, self.name)

    def documents(self, document: Callable[[str], str] | None = None) -> RetrievalRun:
        """Documents in place of passages, each with the score of its best (max-P).

        Dai and Callan 2019, arXiv 1905.09217.

        Args:
            document: the document of a passage id; by default what stands before ``#``.
        """
        of = document or document_of
        best: dict[str, dict[str, float]] = {}
        for query_id, (ids, scores) in self._hits.items():
            found = best.setdefault(query_id, {})
            for id_, score in zip(ids, scores.tolist(), strict=True):
                found.setdefault(of(id_), score)  # the first is the best
        return RetrievalRun.of(best, self.name)

    def fuse(self, *others: RetrievalRun, k: int = RRF_K, name: str = "") -> RetrievalRun:
        """One run of several, by reciprocal rank fusion (Cormack et al. 2009, SIGIR).

        A passage scores the sum of ``1 / (k + rank)`` over the runs that have it, ranks from 1.
        Equal sums are ordered by passage id. The queries are those of all runs.

        Raises:
            SettingError: ``k`` is below 0.
        """
        if k < 0:
            raise SettingError(f"the constant of rank fusion is 0 or more, not {k}")
        runs = (self, *others)
        sums: dict[str, dict[str, float]] = {}
        for run in runs:
            for query_id, (ids, _) in run.items():
                found = sums.setdefault(query_id, {})
                for rank, id_ in enumerate(ids, 1):
                    found[id_] = found.get(id_, 0.0) + 1 / (k + rank)
        by_id = {query_id: dict(sorted(found.items())) for query_id, found in sums.items()}
        return RetrievalRun.of(by_id, name or "+".join(run.name for run in runs))


def _check(query_id: str, ids: Sequence[str], scores: NDArray[np.float64]) -> None:
    twice = first_duplicate(ids)
    if twice is not None:
        raise DatasetError(f"passage {twice!r} is ranked twice for query {query_id!r}")
    if len(ids) != len(scores) or not np.isfinite(scores).all():
        raise DatasetError(f"query {query_id!r}: each passage has one score, a finite number")
    if (scores[1:] > scores[:-1]).any():  # a difference may be beyond all numbers
        raise DatasetError(f"query {query_id!r}: the passages are not in the order of their scores")


def _ordered(found: Iterable[tuple[str, float]]) -> Hits:
    best = sorted(found, key=lambda hit: -hit[1])  # stable
    return Hits(tuple(id_ for id_, _ in best), np.array([score for _, score in best], dtype=float))


# Files --------------------------------------------------------------------------------------------

_Row = tuple[float, int, str, int]


def _rows(path: Path) -> tuple[dict[str, list[_Row]], str]:
    """Minus score, rank, passage id and number of each line, by query id; and the tag."""
    rows: dict[str, list[_Row]] = {}
    tag = "run"
    for number, content in byte_lines(path, whole=True):
        line = decode(content, f"{path}, line {number}", first=False)
        fields = line.rstrip("\n").split("\t") if "\t" in line else line.split()
        if len(fields) == 6:
            query_id, _, passage_id, rank, score, tag = fields
            try:
                row = (-float(score), int(rank), passage_id, number)
            except ValueError:
                raise _no_line(path, number, line) from None
            if not math.isfinite(row[0]):
                raise DatasetError(f"{path}, line {number}: score {score!r} is not a finite number")
            of_query = rows.get(query_id)
            if of_query is None:
                rows[query_id] = [row]
            else:
                of_query.append(row)
        elif line.strip():
            raise _no_line(path, number, line)
    return rows, tag.strip() or "run"


def _no_line(path: Path, number: int, line: str) -> DatasetError:
    return DatasetError(
        f"{path}, line {number}: expected 'id Q0 passage-id rank score tag', found {line[:80]!r}"
    )


def _from_rows(path: str | Path, query_id: str, rows: list[_Row]) -> Hits:
    rows.sort()
    ids = tuple(id_ for _, _, id_, _ in rows)
    twice = first_duplicate(ids)
    if twice is not None:
        line = max(number for _, _, id_, number in rows if id_ == twice)
        raise DatasetError(
            f"{path}, line {line}: passage {twice!r} is ranked twice for query {query_id!r}"
        )
    return Hits(ids, -np.array([score for score, _, _, _ in rows]))
