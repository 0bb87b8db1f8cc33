"""The values that a system may return for a query: a text, a text with passages, or a response."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mirage._base.rows import PASSAGE_NAMES
from mirage.errors import GenerationError
from mirage.models import Passage, Query, Response

PassageLike = Passage | Mapping[str, Any] | str
"""A passage that a system used for an answer.

It is a :class:`~mirage.Passage`; a mapping with ``text``, ``id`` or both (and ``title``,
``document``); a text; or the id of one of the query's passages. Passages without an id get their
position, from 1, as their id.
"""

Reply = str | Response | tuple[str, Sequence[PassageLike]]
"""A text, a tuple of a text and the passages that it was made from, or a response."""

# A single word with digits or punctuation looks like an id, not like the text of a passage.
_ONE_WORD = re.compile(r"(?=.*[\d#:/._-])[!-~]{1,80}")
_FORMS = "a text, a (text, passages) tuple or a Response"


def response_of(query: Query, reply: object) -> Response:
    """Convert the value that a system returned for a query to a response.

    Raises:
        GenerationError: If the value has another type, a passage is not valid, or a response is to
            another query.

    Example:
        >>> query = Query(id="q1", language="en", text="Who?")
        >>> response_of(query, ("Ada [1].", ["Ada wrote it."])).shown
        ('1',)
    """
    if isinstance(reply, Response):
        response = _check_query(query, reply)
    elif isinstance(reply, tuple) and len(reply) == 2 and isinstance(reply[0], str):
        response = _with_passages(query, *reply)
    elif isinstance(reply, str):
        response = Response(query_id=query.id, text=reply)
    else:
        raise GenerationError(
            f"the response to query {query.id!r} is of type {type(reply).__name__}, expected "
            f"{_FORMS}; {_advice(reply)}"
        )
    texts = [passage.text for passage in response.passages]
    for text in (response.text or "", response.reasoning or "", *texts):
        # Raise an error for lone surrogates now, because writing the run would fail later.
        text.encode()
    return response


def _check_query(query: Query, response: Response) -> Response:
    if response.query_id == query.id:
        return response
    raise GenerationError(
        f"the response to query {query.id!r} has query_id={response.query_id!r}; create it with "
        "query_id=query.id"
    )


def _advice(reply: object) -> str:
    """Return advice for an error message about a reply of a wrong type: what to return instead."""
    if reply is None:
        return "return the answer (is a return statement missing?)"
    if hasattr(reply, "__anext__") or hasattr(reply, "__next__"):
        return "return the whole text at once instead of yielding its parts"
    if isinstance(reply, Mapping | list | tuple):
        return "return only the text in it, or a tuple of the text and its passages"
    return "return the answer as text"


# Passages -----------------------------------------------------------------------------------------


def _with_passages(query: Query, text: str, passages: object) -> Response:
    if isinstance(passages, str | Mapping) or not isinstance(passages, Iterable):
        raise _passage_error(query, f"expected a list of passages, got {type(passages).__name__}")
    query_passages = {passage.id: passage for passage in query.passages}
    ids: list[str] = []
    new_passages: dict[str, Passage] = {}
    for position, item in enumerate(passages, 1):
        id_, passage = _read(query, item, position, query_passages)
        # A citation of the id would be ambiguous.
        if passage is not None and new_passages.setdefault(id_, passage).text != passage.text:
            raise _passage_error(query, f"two passages have the id {id_!r}, but different texts")
        ids.append(id_)
    return Response(
        query_id=query.id, text=text, shown=tuple(ids), passages=tuple(new_passages.values())
    )


def _read(
    query: Query, item: object, position: int, query_passages: Mapping[str, Passage]
) -> tuple[str, Passage | None]:
    """Return the id of a passage that a system returned, and the passage if it has a text.

    ``item`` is the value that the system returned. Its ``position``, from 1, is the default id.
    """
    if isinstance(item, Passage):
        return item.id, item
    if isinstance(item, Mapping):
        return _from_mapping(query, item, position)
    if not isinstance(item, str):
        raise _passage_error(
            query,
            f"passage {position} is of type {type(item).__name__}; return a Passage, a dict with "
            "id and text, a text, or the id of one of the query's passages",
        )
    if item in query_passages:
        return item, None
    if not item.strip() or _ONE_WORD.fullmatch(item):
        raise _passage_error(
            query,
            f"passage {position}, {item!r}, is neither a text nor the id of one of the query's "
            'passages; return its text, or {"id": ..., "text": ...}',
        )
    return str(position), Passage(id=str(position), text=item)


def _from_mapping(
    query: Query, item: Mapping[str, Any], position: int
) -> tuple[str, Passage | None]:
    values = {
        field: next((item[name] for name in names if item.get(name) is not None), None)
        for field, names in PASSAGE_NAMES.items()
    }
    if values["id"] is None and values["text"] is None:
        raise _passage_error(
            query, f"passage {position} has neither a text nor an id, only {sorted(item)}"
        )
    fields = {name: value for name, value in values.items() if value is not None}
    if "text" not in fields:
        return str(fields["id"]), None
    try:
        passage = Passage.model_validate({"id": str(position), **fields})
    except ValueError as error:
        raise _passage_error(query, f"passage {position}: {error}") from None
    return passage.id, passage


def _passage_error(query: Query, why: str) -> GenerationError:
    return GenerationError(f"the passages of the response to query {query.id!r} are invalid: {why}")
