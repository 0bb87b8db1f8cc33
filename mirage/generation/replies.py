"""What a system may return for a query: a text, a text with its passages, or a response."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mirage._base.rows import PASSAGE_NAMES
from mirage.errors import GenerationError
from mirage.models import Passage, Query, Response

__all__ = ["PassageLike", "Reply", "response_of"]

PassageLike = Passage | Mapping[str, Any] | str
"""A passage that a system answered from.

A :class:`~mirage.Passage`; a mapping with ``text``, ``id`` or both (and ``title``, ``document``); a
text; or the id of a passage of the query. Passages without an id get their position, from 1.
"""

Reply = str | Response | tuple[str, Sequence[PassageLike]]
"""A text, a text with the passages that it was made from, or a :class:`~mirage.Response`."""

_ONE_WORD = re.compile(r"(?=.*[\d#:/._-])[!-~]{1,80}")
_FORMS = "a text, a (text, passages) tuple or a Response"


def response_of(query: Query, reply: object) -> Response:
    """Return the response to a query from what a system returned.

    Raises:
        GenerationError: it is nothing that a system may return; names the query.
        UnicodeEncodeError: a text is not Unicode, such as the half of an emoji that a cut JSON
            string gives.
    """
    if isinstance(reply, Response):
        response = _checked(query, reply)
    elif isinstance(reply, tuple) and len(reply) == 2 and isinstance(reply[0], str):
        response = _with_passages(query, *reply)
    elif isinstance(reply, str):
        response = Response(query_id=query.id, text=reply)
    else:
        raise GenerationError(
            f"the response to query {query.id!r} is of type {type(reply).__name__}, not {_FORMS}; "
            f"{_instead(reply)}"
        )
    for text in (response.text or "", *(passage.text for passage in response.passages)):
        text.encode()
    return response


def _checked(query: Query, response: Response) -> Response:
    if response.query_id == query.id:
        return response
    raise GenerationError(
        f"the response to query {query.id!r} says that it is to query {response.query_id!r}; make "
        "it with query_id=query.id"
    )


def _instead(reply: object) -> str:
    """Say what to return in place of something that is no reply."""
    if reply is None:
        return "return the answer (is there a return?)"
    if hasattr(reply, "__anext__") or hasattr(reply, "__next__"):
        return "return the whole text at once, and do not yield its parts"
    if isinstance(reply, Mapping | list | tuple):
        return "return the text in it, alone or in a tuple with its passages"
    return "return the answer as text"


# Passages -----------------------------------------------------------------------------------------


def _with_passages(query: Query, text: str, passages: object) -> Response:
    if isinstance(passages, str | Mapping) or not isinstance(passages, Iterable):
        raise _fault(
            query, f"they are of type {type(passages).__name__}; return a list of passages"
        )
    known = {passage.id: passage for passage in query.passages}
    shown: list[str] = []
    brought: dict[str, Passage] = {}
    for position, item in enumerate(passages, 1):
        id_, passage = _read(query, item, position, known)
        if passage is not None and brought.setdefault(id_, passage).text != passage.text:
            raise _fault(query, f"two of them have the id {id_!r}, with different texts")
        shown.append(id_)
    return Response(
        query_id=query.id, text=text, shown=tuple(shown), passages=tuple(brought.values())
    )


def _read(
    query: Query, item: object, position: int, known: Mapping[str, Passage]
) -> tuple[str, Passage | None]:
    """Return the id of a passage, and the passage if it has a text."""
    if isinstance(item, Passage):
        return item.id, item
    if isinstance(item, Mapping):
        return _from_mapping(query, item, position)
    if not isinstance(item, str):
        raise _fault(
            query,
            f"number {position} is of type {type(item).__name__}; make it a Passage, a dict with "
            "id and text, a text, or the id of a passage of the query",
        )
    if item in known:
        return item, None
    if not item.strip() or _ONE_WORD.fullmatch(item):
        raise _fault(
            query,
            f"number {position}, {item!r}, is neither a text nor the id of a passage of the query; "
            'return its text, or {"id": ..., "text": ...}',
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
        raise _fault(query, f"number {position} has neither a text nor an id: {sorted(item)}")
    fields = {name: value for name, value in values.items() if value is not None}
    if "text" not in fields:
        return str(fields["id"]), None
    try:
        passage = Passage.model_validate({"id": str(position), **fields})
    except ValueError as error:
        raise _fault(query, f"number {position}: {error}") from None
    return passage.id, passage


def _fault(query: Query, why: str) -> GenerationError:
    return GenerationError(f"the passages of the response to query {query.id!r}: {why}")
