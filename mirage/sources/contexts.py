"""Records made from questions, retrieved texts and answers of logs and other tools."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from mirage._base.files import validated
from mirage._base.logs import logger
from mirage._base.passages import plain_text
from mirage.errors import DatasetError
from mirage.models import Passage, Query, Response

_LOG = logger("mirage.sources")


class Asked(NamedTuple):
    """A query with the passages that were retrieved for it.

    Attributes:
        query: The query; its passages are distinct.
        shown: Ids of the retrieved passages, in the order of the prompt. An id may occur twice.
    """

    query: Query
    shown: tuple[str, ...]


def query_of(
    where: str,
    *,
    id: str,
    language: str,
    text: object,
    retrieved: Sequence[str] | None,
    reference: str | None,
    relevant: Sequence[str] | None,
    retrieved_ids: Sequence[str | int] | None = None,
    relevant_ids: Sequence[str | int] | None = None,
) -> Asked:
    """Return a query whose passages are the retrieved texts, in their order.

    Texts without ids get their position as an id, from 1, so that ``[1]`` cites the first text. If
    such a text was retrieved twice, both positions are one passage with the first position as its
    id. Texts count as equal if they differ only in white space or Unicode normalization (NFKC).

    If ``relevant_ids`` are given, they are the relevant passages, and ``relevant`` is ignored.
    Otherwise a retrieved text is relevant if it is among the relevant texts. Relevant texts that
    were not retrieved count as missed, under the ids ``unretrieved-1`` and so on. A warning is
    logged if a relevant text matches several retrieved texts, or only a part of one.
    """
    texts = tuple(retrieved or ())
    ids = [str(number) for number in retrieved_ids or range(1, len(texts) + 1)]
    if retrieved_ids and texts and len(ids) != len(texts):
        raise DatasetError(
            f"{where}: there are {len(texts)} retrieved texts, but {len(ids)} ids; each text needs "
            "one id"
        )
    passage_ids = tuple(ids) if retrieved_ids else _ids_of_distinct(texts, ids)
    # dict() keeps the last value of a key; reversed, so that of equal ids the first text counts.
    passages = dict(zip(reversed(passage_ids), reversed(texts), strict=False))
    row = {
        "id": id,
        "language": language,
        "text": text,
        "passages": [
            {"id": id_, "text": passages[id_]} for id_ in dict.fromkeys(passage_ids) if texts
        ],
        "relevant": list(map(str, relevant_ids or ()))
        or _relevant_ids(relevant or (), texts, passage_ids, where),
        "reference": reference,
    }
    return Asked(validated(Query, row, where), passage_ids)


def _ids_of_distinct(texts: Sequence[str], ids: Sequence[str]) -> tuple[str, ...]:
    """Return an id for each text; if a text is repeated, it gets the id of its first occurrence."""
    first: dict[str, str] = {}
    return tuple(first.setdefault(plain_text(t), id_) for t, id_ in zip(texts, ids, strict=True))


def _relevant_ids(
    relevant: Sequence[str], texts: Sequence[str], ids: Sequence[str], where: str
) -> list[str]:
    ids_by_text: dict[str, list[str]] = defaultdict(list)
    for text, id_ in zip(texts, ids, strict=False):
        if id_ not in ids_by_text[plain_text(text)]:
            ids_by_text[plain_text(text)].append(id_)
    passage_ids = []
    for number, text in enumerate(map(plain_text, relevant), 1):
        same = ids_by_text.get(text, [])
        if len(same) > 1:
            _LOG.warning(
                "%s: relevant text %d was retrieved under the ids %s; the first id is used",
                where, number, ", ".join(same),
            )  # fmt: skip
        elif not same and any(text in other or other in text for other in ids_by_text if other):
            _LOG.warning(
                "%s: relevant text %d is not equal to a retrieved text, but contains one or is a "
                "part of one; it counts as missed (set ids to name the relevant passages)",
                where, number,
            )  # fmt: skip
        passage_ids.append(same[0] if same else f"unretrieved-{number}")
    return list(dict.fromkeys(passage_ids))


def response_to(
    query_id: str,
    text: str | None,
    *,
    error: str,
    shown: Sequence[str] | None = None,
    passages: Sequence[Passage] = (),
) -> Response:
    """Return the response to a query; if there is no text, a failed response with ``error``.

    ``shown`` are the ids of the passages in the order of the prompt; ``None`` if these are the
    passages of the query in their order. ``passages`` are passages of the prompt that the query
    does not have.
    """
    return Response(
        query_id=query_id,
        text=text,
        error=error if text is None else None,
        shown=None if shown is None else tuple(shown),
        passages=tuple(passages),
    )
