"""Convert questions, retrieved texts and answers from logs and other tools to records."""

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
        query: The query. Each of its passages occurs once.
        shown: Ids of the retrieved passages in the order of the prompt. An id may occur twice.
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

    If there are no ids, the id of a text is its position, counted from 1, so ``[1]`` cites the
    first text. If such a text was retrieved twice, the query has one passage with its first
    position as id. Texts count as equal if they differ only in white space or Unicode normalization
    (NFKC).

    Args:
        where: Location of the row, for error messages.
        id: Id of the query.
        language: ISO 639-1 code.
        text: Question.
        retrieved: Retrieved texts in the order of the prompt; ``None`` if there are none.
        reference: Reference answer; ``None`` if there is none.
        relevant: Relevant texts; ``None`` if there are none. A retrieved text is relevant if it
            equals one of them. Relevant texts that were not retrieved get the ids ``unretrieved-1``
            and so on. A warning is logged if a relevant text matches several retrieved texts, or
            only a part of one.
        retrieved_ids: Ids of the retrieved texts; by default their positions.
        relevant_ids: Ids of the relevant passages. If they are passed, ``relevant`` is ignored.

    Raises:
        DatasetError: If there are not as many ids as retrieved texts, or a value is not valid.
    """
    texts = tuple(retrieved or ())
    ids = [str(number) for number in retrieved_ids or range(1, len(texts) + 1)]
    if retrieved_ids and texts and len(ids) != len(texts):
        raise DatasetError(
            f"{where}: there are {len(texts)} retrieved texts, but {len(ids)} ids; each text needs "
            "one id"
        )
    passage_ids = tuple(ids) if retrieved_ids else _ids_of_distinct(texts, ids)
    # dict() keeps the last value of a key. If an id occurs twice, its first text must be used.
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
    """Return an id for each text; a repeated text gets the id of its first occurrence."""
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
                "%s: relevant text %d was retrieved under several ids (%s); the first id is used",
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
    """Return the response to a query, marked as failed if there is no text.

    Args:
        query_id: Id of the query.
        text: Text of the response; ``None`` if the system failed.
        error: Reason for the failure; used only if ``text`` is ``None``.
        shown: Ids of the passages in the order of the prompt. By default, the prompt showed the
            passages of the query in their order.
        passages: Passages of the prompt that the query lacks.
    """
    return Response(
        query_id=query_id,
        text=text,
        error=error if text is None else None,
        shown=None if shown is None else tuple(shown),
        passages=tuple(passages),
    )
