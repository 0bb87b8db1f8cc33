"""Readers of TREC topics, qrels and passage files, in the formats that MIRACL uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mirage._base.files import lines, read_rows, validated
from mirage.errors import DatasetError
from mirage.models import Passage, Query

__all__ = ["queries", "read_passages", "read_qrels", "read_topics"]


def queries(topics: Path, qrels: Path, passages: Path | None, language: str) -> Iterator[Query]:
    """Yield the queries of a topics file, with the passages that were judged for them.

    Args:
        topics: Path of a file with lines ``id<TAB>text``.
        qrels: Path of a file of relevance judgments in the format of TREC or BEIR
            (:func:`read_qrels`).
        passages: Path of a JSON Lines file of passages (:func:`read_passages`); ``None`` for
            queries without passages.
        language: ISO 639-1 code of the queries.

    Raises:
        DatasetError: If a line is not valid, or if a judged passage is not in the passage file.
    """
    relevance = read_qrels(qrels)
    texts = None if passages is None else read_passages(passages)
    for query_id, text in read_topics(topics).items():
        grades = relevance.get(query_id, {})
        for passage_id in grades:
            if texts is not None and passage_id not in texts:
                raise DatasetError(
                    f"{passages}: passage {passage_id!r} is missing, although {qrels} judges it "
                    f"for query {query_id!r}"
                )
        judged = tuple(texts[passage_id] for passage_id in grades) if texts is not None else ()
        yield Query(
            id=query_id,
            language=language,
            text=text,
            passages=judged,
            relevant=tuple(id_ for id_, grade in grades.items() if grade > 0),
        )


def read_topics(path: Path) -> dict[str, str]:
    """Return the text of each query, by query id.

    Args:
        path: Path of a file with lines ``id<TAB>text``.

    Raises:
        DatasetError: If a line is not valid, or if an id occurs twice.
    """
    topics: dict[str, str] = {}
    for where, line in lines(path):
        query_id, tab, text = line.partition("\t")
        if not tab or not query_id.strip() or not text.strip():
            raise DatasetError(f"{where}: expected 'id<TAB>text', got {line[:80]!r}")
        if query_id.strip() in topics:
            raise DatasetError(
                f"{where}: query {query_id.strip()!r} occurs a second time; ids must be unique"
            )
        topics[query_id.strip()] = text.strip()
    return topics


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Return, for each query id, a dict from the ids of the judged passages to their grades.

    Args:
        path: Path of a TREC file with lines ``id Q0 passage-id relevance``, or of a BEIR file with
            a header and lines ``query-id<TAB>corpus-id<TAB>score``.

    Raises:
        DatasetError: If a line is not valid, or if a passage has two grades for a query.
    """
    qrels: dict[str, dict[str, int]] = {}
    form, is_beir = "id Q0 passage-id relevance", False
    for number, (where, line) in enumerate(lines(path)):
        if number == 0 and line.rstrip().endswith("\tscore"):
            form, is_beir = "query-id<TAB>corpus-id<TAB>score", True
            continue
        # If fields are separated by tabs, ids may contain blanks.
        fields = line.split("\t") if is_beir or line.count("\t") == 3 else line.split()
        if is_beir:
            fields.insert(1, "Q0")
        try:
            query_id, _, passage_id, grade = map(str.strip, fields)
            relevance = int(grade)
        except ValueError:
            raise DatasetError(f"{where}: expected {form!r}, got {line[:80]!r}") from None
        grades = qrels.setdefault(query_id, {})
        if grades.setdefault(passage_id, relevance) != relevance:
            raise DatasetError(
                f"{where}: passage {passage_id!r} has two grades for query {query_id!r}, "
                f"{grades[passage_id]} and {relevance}; keep one of them"
            )
    return qrels


def read_passages(path: Path) -> dict[str, Passage]:
    """Read the passages of a file; return them by id.

    Args:
        path: Path of a JSON Lines file with the fields ``id`` (or ``docid``), ``text`` and
            ``title``.

    Raises:
        DatasetError: If a row is not valid, or if an id has two texts or titles.
    """
    passages: dict[str, Passage] = {}
    for where, row in read_rows(path):
        if "docid" in row and "id" not in row:
            row["id"] = row.pop("docid")
        passage = validated(Passage, row, where)
        if passages.setdefault(passage.id, passage) != passage:
            raise DatasetError(
                f"{where}: passage {passage.id!r} occurs a second time, with another text or title"
            )
    return passages
