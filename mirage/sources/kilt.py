"""KILT: questions with answers and the Wikipedia pages that contain them.

The files are the JSON Lines of facebookresearch/KILT (Petroni et al. 2021, arXiv 2009.02252), such
as ``nq-dev-kilt.jsonl``. The knowledge source, ``kilt_knowledgesource.json``, is read by
:func:`mirage.corpus.read_documents`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mirage._base.files import table_rows, validated
from mirage.errors import DatasetError
from mirage.models import Query

__all__ = ["qrels", "queries"]


def queries(path: str | Path, language: str = "en") -> Iterator[Query]:
    """Yield the queries of a KILT file, gzipped or not.

    All valid answers are forms of one answer. ``relevant`` are the ids of all pages that an answer
    names as its provenance. They are ids of documents: to measure the retrieval of their passages
    ``page#0``, ``page#1``, ..., use ``documents=True``.

    Args:
        path: The file.
        language: ISO 639-1 code of the queries.

    Raises:
        DatasetError: If a row is not valid; the message names the file and the line.

    Example:
        >>> import tempfile
        >>> row = '{"id": "1", "input": "Who?", "output": [{"answer": "Ada"}, {"answer": "A. L."}]}'
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "nq.jsonl")
        ...     _ = path.write_text(row)
        ...     [query.answers for query in queries(path)]
        [(('Ada', 'A. L.'),)]
    """
    for where, row in table_rows(Path(path)):
        outputs = _outputs(row, where)
        forms = list(dict.fromkeys(o["answer"] for o in outputs if o.get("answer")))
        fields = {
            "id": row.get("id"),
            "language": language,
            "text": row.get("input"),
            "answers": [forms] if forms else [],
            "relevant": _pages(outputs, where),
        }
        yield validated(Query, fields, where)


def qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Return relevance, always 1, by query id and page id; queries without pages are left out.

    Args:
        path: A KILT file.

    Raises:
        DatasetError: If a row is not valid; the message names the file and the line.
    """
    return {query.id: dict.fromkeys(query.relevant, 1) for query in queries(path) if query.relevant}


def _outputs(row: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    outputs = row.get("output", [])  # test sets have none
    if isinstance(outputs, list) and all(isinstance(output, dict) for output in outputs):
        return outputs
    raise DatasetError(f"{where}: field 'output': expected a list of objects, as in KILT files")


def _pages(outputs: list[dict[str, Any]], where: str) -> list[str]:
    pages: dict[str, None] = {}
    for output in outputs:
        for page in output.get("provenance") or ():
            if not isinstance(page, dict) or "wikipedia_id" not in page:
                raise DatasetError(f"{where}: field 'provenance': 'wikipedia_id' is missing")
            # A dict is used as a set that keeps the order.
            pages[str(page["wikipedia_id"])] = None
    return list(pages)
