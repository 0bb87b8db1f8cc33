"""TREC topics, qrels and passage files, as MIRACL publishes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mirage._base.files import lines, read_rows, validated
from mirage.errors import DatasetError
from mirage.models import Passage, Query

__all__ = ["queries", "read_passages", "read_qrels", "read_topics"]


def queries(topics: Path, qrels: Path, passages: Path | None, language: str) -> Iterator[Query]:
    """The queries of a topics file, with the passages that the qrels judge for them."""
    relevance = read_qrels(qrels)
    texts = None if passages is None else read_passages(passages)
    for query_id, text in read_topics(topics).items():
        grades = relevance.get(query_id, {})
        for passage_id in grades:
            if texts is not None and passage_id not in texts:
                raise DatasetError(
                    f"{passages}: passage {passage_id!r}, judged for query {query_id!r} in "
                    f"{qrels}, is not in this file"
                )
        shown = tuple(texts[passage_id] for passage_id in grades) if texts is not None else ()
        yield Query(
            id=query_id,
            language=language,
            text=text,
            passages=shown,
            relevant=tuple(id_ for id_, grade in grades.items() if grade > 0),
        )


def read_topics(path: Path) -> dict[str, str]:
    """Query texts by id, from lines ``id<TAB>text``."""
    topics: dict[str, str] = {}
    for where, line in lines(path):
        query_id, tab, text = line.partition("\t")
        if not tab or not query_id.strip() or not text.strip():
            raise DatasetError(f"{where}: expected 'id<TAB>text', found {line[:80]!r}")
        if query_id.strip() in topics:
            raise DatasetError(f"{where}: query {query_id.strip()!r} stands here a second time")
        topics[query_id.strip()] = text.strip()
    return topics


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Relevance by query id and passage id, from lines ``id Q0 passage-id relevance``."""
    qrels: dict[str, dict[str, int]] = {}
    for where, line in lines(path):
        # By tabs where there are any: then ids may have blanks in them.
        fields = line.split("\t") if line.count("\t") == 3 else line.split()
        try:
            query_id, _, passage_id, grade = map(str.strip, fields)
            relevance = int(grade)
        except ValueError:
            raise DatasetError(
                f"{where}: expected 'id Q0 passage-id relevance', found {line[:80]!r}"
            ) from None
        grades = qrels.setdefault(query_id, {})
        if grades.setdefault(passage_id, relevance) != relevance:
            raise DatasetError(
                f"{where}: passage {passage_id!r} is judged twice for query {query_id!r}, "
                f"{grades[passage_id]} and {relevance}"
            )
    return qrels


def read_passages(path: Path) -> dict[str, Passage]:
    """Passages by id, from JSON Lines with ``id`` (or ``docid``), ``text`` and ``title``."""
    passages: dict[str, Passage] = {}
    for where, row in read_rows(path):
        if "docid" in row and "id" not in row:
            row["id"] = row.pop("docid")
        passage = validated(Passage, row, where)
        if passages.setdefault(passage.id, passage) != passage:
            raise DatasetError(
                f"{where}: passage {passage.id!r} stands here a second time, with another text or "
                "title"
            )
    return passages
