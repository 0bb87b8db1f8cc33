"""Questions with the texts that were retrieved for them, as they come, and their answers: records.

What harnesses hand over, and logs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from mirage._base.files import validated
from mirage._base.logs import logger
from mirage._base.passages import plain_text
from mirage.errors import DatasetError
from mirage.models import Passage, Query, Response

__all__ = ["Asked", "query_of", "response_to"]

_LOG = logger("mirage.sources")


class Asked(NamedTuple):
    """A query, and the ids of what was retrieved by position; some may be there twice."""

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
    """A query that shows the retrieved texts, in their order.

    Texts without ids get their numbers, from 1, so that ``[1]`` is the first. A text that was
    retrieved twice is one passage, whichever of its positions is cited. Texts are equal that
    differ in blanks or Unicode's form alone (NFKC).

    Relevant are the retrieved texts that are among the relevant ones, unless ids say so. Relevant
    texts that were not retrieved count as missed: ``unretrieved-1`` and so on. A warning is logged
    where it is not clear which text is meant.
    """
    texts = tuple(retrieved or ())
    ids = [str(number) for number in retrieved_ids or range(1, len(texts) + 1)]
    if retrieved_ids and texts and len(ids) != len(texts):
        raise DatasetError(f"{where}: {len(texts)} retrieved texts have {len(ids)} ids")
    shown = tuple(ids) if retrieved_ids else _by_text(texts, ids)
    passages = dict(zip(reversed(shown), reversed(texts), strict=False))  # of one id, the first
    row = {
        "id": id,
        "language": language,
        "text": text,
        "passages": [{"id": id_, "text": passages[id_]} for id_ in dict.fromkeys(shown) if texts],
        "relevant": list(map(str, relevant_ids or ()))
        or _ids_of(relevant or (), texts, shown, where),
        "reference": reference,
    }
    return Asked(validated(Query, row, where), shown)


def _by_text(texts: Sequence[str], ids: Sequence[str]) -> tuple[str, ...]:
    """The id of each text; of equal texts, that of the first."""
    first: dict[str, str] = {}
    return tuple(first.setdefault(plain_text(t), id_) for t, id_ in zip(texts, ids, strict=True))


def _ids_of(
    relevant: Sequence[str], texts: Sequence[str], ids: Sequence[str], where: str
) -> list[str]:
    ids_by_text: dict[str, list[str]] = defaultdict(list)
    for text, id_ in zip(texts, ids, strict=False):
        if id_ not in ids_by_text[plain_text(text)]:
            ids_by_text[plain_text(text)].append(id_)
    found = []
    for number, text in enumerate(map(plain_text, relevant), 1):
        same = ids_by_text.get(text, [])
        if len(same) > 1:
            _LOG.warning(
                "%s: relevant text %d was retrieved under the ids %s; the first is taken for it",
                where, number, ", ".join(same),
            )  # fmt: skip
        elif not same and any(text in other or other in text for other in ids_by_text if other):
            _LOG.warning(
                "%s: relevant text %d is no retrieved text, but a part of one or one of it; it "
                "counts as missed (give ids to say which passages are relevant)",
                where, number,
            )  # fmt: skip
        found.append(same[0] if same else f"unretrieved-{number}")
    return list(dict.fromkeys(found))


def response_to(
    query_id: str,
    text: str | None,
    *,
    error: str,
    shown: Sequence[str] | None = None,
    passages: Sequence[Passage] = (),
) -> Response:
    """The response to a query; ``error`` says why there is none, where ``text`` is ``None``.

    ``shown`` are the passage ids in the prompt's order, where that is not the query's, and
    ``passages`` those of them that the query lacks.
    """
    return Response(
        query_id=query_id,
        text=text,
        error=error if text is None else None,
        shown=None if shown is None else tuple(shown),
        passages=tuple(passages),
    )
