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
from mirage._base.rows import check_new_query
from mirage.errors import DatasetError
from mirage.models import Query

__all__ = ["qrels", "queries"]


def queries(path: str | Path, language: str = "en", *, paragraphs: bool = False) -> Iterator[Query]:
    """Yield the queries of a KILT file, gzipped or not.

    All answers in a row count as accepted spellings (forms) of one answer. ``relevant`` are the ids
    of all Wikipedia pages that the row names as the provenance of an answer. Retrieval usually
    returns passages of these pages, with ids such as ``page#0`` and ``page#1``. To evaluate such
    retrieval, pass ``documents=True`` to the evaluation, which then compares ids of pages.

    Args:
        path: Path of the file.
        language: ISO 639-1 code of the queries.
        paragraphs: Whether ``relevant`` are ids of paragraphs, such as ``page#3``, instead of
            pages. :func:`mirage.corpus.read_documents` gives the same ids to the paragraphs of the
            knowledge source. Provenance that names no paragraph is left out.

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
    places: dict[str, str] = {}
    for where, row in table_rows(Path(path)):
        outputs = _outputs(row, where)
        forms = list(dict.fromkeys(o["answer"] for o in outputs if o.get("answer")))
        fields = {
            "id": row.get("id"),
            "language": language,
            "text": row.get("input"),
            "answers": [forms] if forms else [],
            "relevant": _relevant(outputs, where, paragraphs),
        }
        query = validated(Query, fields, where, {"text": "input"})
        check_new_query(query.id, places, where)
        yield query


def qrels(path: str | Path, *, paragraphs: bool = False) -> dict[str, dict[str, int]]:
    """Return relevance judgments: for each query id, a dict from the relevant page ids to 1.

    Queries for which the file names no page are left out.

    Args:
        path: Path of a KILT file. Its rows may lack the question, as in KILT's TriviaQA.
        paragraphs: Whether to return ids of paragraphs, such as ``page#3``, instead of pages.

    Raises:
        DatasetError: If a row is not valid; the message names the file and the line.
    """
    rows = ((where, row, _outputs(row, where)) for where, row in table_rows(Path(path)))
    relevant_ids = {
        _query_id(row, where): _relevant(outputs, where, paragraphs) for where, row, outputs in rows
    }
    return {id_: dict.fromkeys(ids, 1) for id_, ids in relevant_ids.items() if ids}


def _query_id(row: Mapping[str, Any], where: str) -> str:
    id_ = row.get("id")
    if not isinstance(id_, str | int) or id_ == "":
        raise DatasetError(
            f"{where}: field 'id' is missing; the row has the fields {', '.join(row)}"
        )
    return str(id_)


def _outputs(row: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    outputs = row.get("output", [])  # test sets have none
    if isinstance(outputs, list) and all(isinstance(output, dict) for output in outputs):
        return outputs
    raise DatasetError(f"{where}: field 'output': expected a list of objects, as in KILT files")


def _relevant(outputs: list[dict[str, Any]], where: str, paragraphs: bool) -> list[str]:
    """Return the ids of the pages or paragraphs that are the provenance of answers."""
    ids: dict[str, None] = {}  # a dict is used as a set that keeps the order
    for output in outputs:
        for source in output.get("provenance") or ():
            if not isinstance(source, dict) or "wikipedia_id" not in source:
                raise DatasetError(f"{where}: field 'provenance': 'wikipedia_id' is missing")
            page = str(source["wikipedia_id"])
            ids |= dict.fromkeys(_paragraph_ids(page, source) if paragraphs else [page])
    return list(ids)


def _paragraph_ids(page: str, source: Mapping[str, Any]) -> list[str]:
    first, last = source.get("start_paragraph_id"), source.get("end_paragraph_id")
    if not isinstance(first, int) or first < 0:  # the hub has -1 for a missing number
        return []
    stop = last + 1 if isinstance(last, int) and last >= first else first + 1
    return [f"{page}#{number}" for number in range(first, stop)]
