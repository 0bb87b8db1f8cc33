"""Retrieval runs: the ranked passages that a retriever returned for each query, as in TREC."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

# Lone surrogates are excluded: ids from file names that are not UTF-8 can contain them, but no
# UTF-8 file can.
_FIELD = re.compile(r"(?!\s)[^\t\n\r\ud800-\udfff]+(?<!\s)")

RRF_K = 60
"""The default constant of reciprocal rank fusion, from Cormack et al. 2009."""


class Hits(NamedTuple):
    """The retrieved passages of one query, best first, and their scores."""

    passage_ids: tuple[str, ...]
    scores: NDArray[np.float64]

    def top(self, k: int) -> Hits:
        """Return the first ``k`` passages and their scores."""
        return Hits(self.passage_ids[:k], self.scores[:k])


NO_HITS = Hits((), np.zeros(0))


class RetrievalRun(Mapping[str, Hits]):
    """Ranked passages by query id, as in TREC: the results of one retriever.

    Passages are ordered by descending score; passages with equal scores keep the order in which
    they were given. If the retriever found nothing for a query, the run contains the query without
    passages, and measures count it as 0.

    Args:
        hits: The passages and scores of each query, best first, by query id.
        name: The name of the retriever. In run files it is the tag of each line.

    Raises:
        DatasetError: A passage occurs twice for a query, a score is not finite, or scores are not
            in descending order.

    Example:
        >>> run = RetrievalRun.of({"q": {"a": 1.0, "b": 2.0}}, "demo")
        >>> run["q"].passage_ids
        ('b', 'a')
        >>> list(run.lines())
        ['q Q0 b 1 2.0 demo', 'q Q0 a 2 1.0 demo']
    """

    def __init__(self, hits: Mapping[str, Hits], name: str = "run") -> None:
        self._hits = dict(hits)
        self.name = name
        for query_id, (ids, scores) in self._hits.items():
            _check(query_id, ids, scores)

    @classmethod
    def of(cls, scores: Mapping[str, Mapping[str, float]], name: str = "run") -> Self:
        """Return a run with the passages sorted by their scores.

        Passages with equal scores keep the order that they have in the mapping.

        Args:
            scores: The scores by query id and passage id, in any order.
            name: The name of the retriever.

        Raises:
            DatasetError: A score is not finite.
        """
        return cls(
            {query_id: _hits_by_score(pairs.items()) for query_id, pairs in scores.items()}, name
        )

    @classmethod
    def read(cls, path: str | Path, query_ids: Iterable[str] = ()) -> Self:
        """Read a run file, whose lines have the form ``query-id Q0 passage-id rank score tag``.

        If a line contains a tab, its fields are separated by tabs, and ids may contain spaces.
        Otherwise fields are separated by spaces. Passages are ordered by score, and passages with
        equal scores by rank. Ranks may begin at 0 or 1.

        Args:
            path: The path of the file. It may be compressed (``.gz``).
            query_ids: The ids of all queries that the retriever was given. Queries without a line
                in the file get an empty result.

        Raises:
            DatasetError: The file cannot be read, or a line is malformed; the message names the
                file and the line.
        """
        rows, name = _rows(Path(path))
        hits = {query_id: _from_rows(path, query_id, each) for query_id, each in rows.items()}
        return cls({**dict.fromkeys(query_ids, NO_HITS), **hits}, name)

    def write(self, path: str | Path, *, tag: str = "") -> None:
        """Write a run file, with ranks counted from 1.

        A query without passages has no line in the file; to restore it, pass its id to
        :meth:`read`. If an id contains a space, fields are separated by tabs. :meth:`read`
        accepts tabs, but few other tools do. An existing file is replaced only when the new one
        is complete.

        Args:
            path: The path of the file. If it ends in ``.gz``, the file is compressed.
            tag: The tag of the lines; by default the name of the run.

        Raises:
            DatasetError: An id is empty, contains a tab or a line break, or begins or ends with a
                space; the tag contains a space; or the file cannot be written.
        """
        lines = self.lines(tag=tag)
        target = Path(path)
        pack = packing if target.suffix == ".gz" else nullcontext
        with replace_file(target) as file, pack(file) as content:
            content.writelines(f"{line}\n".encode() for line in lines)

    def lines(self, *, tag: str = "") -> Iterator[str]:
        """Return the lines of a run file, as :meth:`write` writes them.

        Args:
            tag: The tag of the lines; by default the name of the run.

        Raises:
            DatasetError: An id is empty, contains a tab or a line break, or begins or ends with a
                space; or the tag contains a space.
        """
        tag = tag or "-".join(self.name.split())
        ids = {*self._hits, *(id_ for hit_ids, _ in self._hits.values() for id_ in hit_ids)}
        invalid = [] if tag.split() == [tag] else [tag]
        invalid += [id_ for id_ in ids if not _FIELD.fullmatch(id_)]
        if invalid:
            raise DatasetError(
                f"{invalid[0]!r} cannot be a field of a TREC file; an id must not be empty, "
                "contain tabs or line breaks, or begin or end with a space, and the tag must not "
                "contain any space"
            )
        separator = " " if all(id_.split() == [id_] for id_ in ids) else "\t"
        return (
            separator.join((query_id, "Q0", id_, str(rank), repr(score), tag))
            for query_id, (hit_ids, scores) in self._hits.items()
            for rank, (id_, score) in enumerate(zip(hit_ids, scores.tolist(), strict=True), 1)
        )

    def __len__(self) -> int:
        return len(self._hits)

    def __iter__(self) -> Iterator[str]:
        return iter(self._hits)

    def __contains__(self, query_id: object) -> bool:
        return query_id in self._hits  # Mapping's default would build an error for each missing id

    def __getitem__(self, query_id: str) -> Hits:
        try:
            return self._hits[query_id]
        except KeyError:
            raise UnknownNameError(
                "query", query_id, self._hits, f"in the run {self.name!r}"
            ) from None

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

    __hash__ = None  # type: ignore[assignment]  # as for any mapping

    def scores(self) -> dict[str, dict[str, float]]:
        """Return the scores by query id and passage id, the best passages first.

        ir_measures accepts runs in this form.
        """
        return {
            query_id: dict(zip(ids, scores.tolist(), strict=True))
            for query_id, (ids, scores) in self._hits.items()
        }

    def top(self, k: int) -> RetrievalRun:
        """Return a run with the first ``k`` passages of each query.

        Raises:
            SettingError: ``k`` is below 1.
        """
        if k < 1:
            raise SettingError(f"k must be at least 1, got {k}")
        return RetrievalRun({id_: hits.top(k) for id_, hits in self._hits.items()}, self.name)

    def documents(self) -> RetrievalRun:
        """Return a run that ranks documents, each by the score of its best passage (max-P).

        The document id of a passage is the part of the passage id before ``#``. See Dai and Callan
        2019, arXiv 1905.09217.
        """
        best: dict[str, dict[str, float]] = {}
        for query_id, (ids, scores) in self._hits.items():
            document_scores = best.setdefault(query_id, {})
            for id_, score in zip(ids, scores.tolist(), strict=True):
                document_scores.setdefault(document_of(id_), score)  # the first is the best
        return RetrievalRun.of(best, self.name)

    def fuse(self, *others: RetrievalRun, k: int = RRF_K, name: str = "") -> RetrievalRun:
        """Combine runs into one by reciprocal rank fusion (Cormack et al. 2009, SIGIR).

        The score of a passage is the sum of ``1 / (k + rank)`` over the runs that retrieved it,
        with ranks counted from 1. Passages with equal scores are ordered by id. The new run
        contains every query that is in at least one of the runs.

        Args:
            others: The runs to combine with this one.
            k: The constant in the formula, at least 0.
            name: The name of the new run; by default the names of all runs, joined by ``+``.

        Raises:
            SettingError: ``k`` is below 0.
        """
        if k < 0:
            raise SettingError(f"k, the constant of rank fusion, must be at least 0, got {k}")
        runs = (self, *others)
        sums: dict[str, dict[str, float]] = {}
        for run in runs:
            for query_id, (ids, _) in run.items():
                fused = sums.setdefault(query_id, {})
                for rank, id_ in enumerate(ids, 1):
                    fused[id_] = fused.get(id_, 0.0) + 1 / (k + rank)
        # Sorted by id, so that ties do not depend on the order of the runs.
        by_id = {query_id: dict(sorted(fused.items())) for query_id, fused in sums.items()}
        return RetrievalRun.of(by_id, name or "+".join(run.name for run in runs))


def descending_scores(passage_ids: Sequence[str]) -> dict[str, float]:
    """Return the scores n, n - 1, ..., 1 for n passages, by passage id.

    Args:
        passage_ids: The ids of the passages, best first.
    """
    return {id_: float(len(passage_ids) - i) for i, id_ in enumerate(passage_ids)}


def _check(query_id: str, ids: Sequence[str], scores: NDArray[np.float64]) -> None:
    if len(set(ids)) < len(ids):  # faster than first_duplicate, which is for the message
        duplicate = first_duplicate(ids)
        raise DatasetError(f"passage {duplicate!r} is ranked twice for query {query_id!r}")
    descending = bool((scores[1:] <= scores[:-1]).all())  # a difference could overflow
    # Scores in descending order are finite if the first and the last are.
    ends = (scores[0], scores[-1]) if descending and len(scores) else scores
    if len(ids) != len(scores) or not all(map(math.isfinite, ends)):
        raise DatasetError(
            f"query {query_id!r}: each passage must have one score, which is a finite number"
        )
    if not descending:
        raise DatasetError(
            f"query {query_id!r}: the passages are not in the order of their scores; use "
            "RetrievalRun.of, which sorts them"
        )


def _hits_by_score(pairs: Iterable[tuple[str, float]]) -> Hits:
    best = sorted(pairs, key=lambda pair: -pair[1])  # a stable sort
    return Hits(tuple(id_ for id_, _ in best), np.array([score for _, score in best], dtype=float))


# Files --------------------------------------------------------------------------------------------

_Row = tuple[float, int, str, int]  # negative score, rank, passage id, line number


def _rows(path: Path) -> tuple[dict[str, list[_Row]], str]:
    """Return the lines of a run file by query id, and the tag of its last line."""
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
                raise _malformed_line(path, number, line) from None
            if not math.isfinite(row[0]):
                raise DatasetError(f"{path}, line {number}: score {score!r} is not a finite number")
            of_query = rows.get(query_id)
            if of_query is None:
                rows[query_id] = [row]
            else:
                of_query.append(row)
        elif line.strip():
            raise _malformed_line(path, number, line)
    return rows, tag.strip() or "run"


def _malformed_line(path: Path, number: int, line: str) -> DatasetError:
    return DatasetError(
        f"{path}, line {number}: expected 'query-id Q0 passage-id rank score tag', found "
        f"{line[:80]!r}"
    )


def _from_rows(path: str | Path, query_id: str, rows: list[_Row]) -> Hits:
    rows.sort()
    ids = tuple(id_ for _, _, id_, _ in rows)
    duplicate = first_duplicate(ids)
    if duplicate is not None:
        line = max(number for _, _, id_, number in rows if id_ == duplicate)
        raise DatasetError(
            f"{path}, line {line}: passage {duplicate!r} is ranked twice for query {query_id!r}"
        )
    return Hits(ids, -np.array([score for score, _, _, _ in rows]))
