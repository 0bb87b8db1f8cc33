"""Documents that a system retrieves in production but that no query of a test set contains."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from mirage._base.passages import plain_text
from mirage._base.quoting import one_line
from mirage._base.tables import Printed, Rows, Table
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.models import Passage, Query
from mirage.monitoring.logs import Log

_MOST = 20  # rows of the printed table
_LENGTH = 60  # displayed characters of a question, or of a document without an id


class UntestedDocument(NamedTuple):
    """A document that was retrieved in a log, but is not a passage of any test query.

    Attributes:
        document: Id of the document, or the start of the passage if the log has no ids.
        questions: Number of questions of the log for which it was retrieved.
        example: One of these questions.
    """

    document: str
    questions: int
    example: str


@dataclass(frozen=True, eq=False)
class UntestedDocuments(Printed, Rows[UntestedDocument]):
    """The retrieved documents that no test query contains, the most frequent first.

    It prints as a table.

    Attributes:
        rows: One row per document.
        log: Name of the log.
        tests: Name of the test set.
        documents: Number of different documents that were retrieved in the log.
        questions: Number of questions of the log that have passages.
        untested: Number of these questions for which only untested documents were retrieved.
    """

    log: str
    tests: str
    documents: int
    questions: int
    untested: int

    def _tables(self) -> tuple[Table]:
        cells = tuple(
            (one_line(row.document), str(row.questions), one_line(row.example)[:_LENGTH])
            for row in self.rows[:_MOST]
        )
        notes = [
            f"{self.untested} of {self.questions} questions retrieve only such documents",
        ]
        if len(self) > _MOST:
            notes.append(f"{len(self) - _MOST} further documents are not shown; --json has all")
        title = (
            f"{self.log}: {len(self)} of {self.documents} retrieved documents are in no query of "
            f"{self.tests}"
        )
        header = ("document", "questions", "for example")
        return (Table(title, header, cells, notes=tuple(notes), name=0),)


def untested_documents(log: Log, tests: MirageDataset) -> UntestedDocuments:
    """Return the documents that were retrieved in a log, but are not in a test set.

    A document is in the test set if a passage of a test query has its id, or the same text apart
    from white space and Unicode normalization. A passage of the log without an id counts as a
    document.

    Args:
        log: The log.
        tests: The test set.

    Raises:
        DatasetError: The log, or the test set, has no passages.

    Example:
        >>> import json, tempfile
        >>> from pathlib import Path
        >>> from mirage import MirageDataset
        >>> from mirage.monitoring import logs
        >>> line = {"question": "Who?", "answer": "Ada.", "contexts": ["Ada wrote programs."]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "bot.jsonl")
        ...     _ = path.write_text(json.dumps(line))
        ...     log = logs.read(path, language="en")
        >>> [row.document for row in untested_documents(log, MirageDataset.bundled("en"))]
        ['Ada wrote programs.']
    """
    passages = [passage for query in tests for passage in query.passages]
    if not passages:
        raise DatasetError(
            f"{tests.name}: the test set has no passages, so those of the log cannot be compared "
            "with it"
        )
    ids = {passage.document_id for passage in passages}
    texts = {plain_text(passage.text) for passage in passages}
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    tested: set[str] = set()
    questions = only_untested = 0
    for query in log.dataset:
        shown = query.passages_shown_to(log.run[query.id])
        if not shown:
            continue
        questions += 1
        names = {_name(query, passage): passage for passage in shown}
        here = {
            name
            for name, passage in names.items()
            if name in ids or plain_text(passage.text) in texts
        }
        tested |= here
        only_untested += not here
        for name in names:
            counts[name] += 1
            examples.setdefault(name, query.text)
    if not questions:
        raise DatasetError(
            f"{log.dataset.name}: the log has no passages, so it cannot be compared with the test "
            "set"
        )
    # A document is tested if any of its passages is.
    rows = tuple(
        UntestedDocument(name, count, examples[name])
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        if name not in tested
    )
    return UntestedDocuments(
        rows, log.dataset.name, tests.name, len(counts), questions, only_untested
    )


def _name(query: Query, passage: Passage) -> str:
    """Return a name for a passage: the id of its document or, if its id is a position, its text."""
    if passage.id == str(query.passage_ids.index(passage.id) + 1):
        return plain_text(passage.text)[:_LENGTH]
    return passage.document_id
