"""The lines of a log: the fields that are read, and how their values are parsed."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from mirage._base.logs import logger
from mirage._base.rows import PASSAGE_NAMES, is_missing, list_in_text, present
from mirage.errors import DatasetError, SettingError, UnknownNameError, nearest_name
from mirage.models import Response
from mirage.monitoring.exports import FORMATS, parse_json
from mirage.sources.contexts import Asked, query_of, response_to

FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "question": ("question", "query", "user_input", "input"),
        "passages": ("passages", "contexts", "retrieved_contexts", "context", "retrieval_context"),
        "text": (*PASSAGE_NAMES["text"], "page_content", "pageContent", "chunk"),
        "passage_id": (*PASSAGE_NAMES["id"], "id_", "chunk_id"),
        "answer": ("answer", "response", "output", "actual_output"),
        "error": ("error",),
        "id": ("id", "query_id"),
        "time": ("time", "timestamp", "created_at"),
        "model": ("model",),
        "cluster": ("cluster",),
        "session": ("user", "user_id", "session", "session_id", "conversation_id", "thread_id"),
    }
)
"""The fields that are read, with their usual names; the first name that a line has is used.

``text`` and ``passage_id`` are fields of a passage.
"""


_NO_ANSWER = "the log has no answer"
_NO_ERRORS = ("", "null", "none", "{}", "[]")
"""Texts that loggers write into the field for errors if there was no error."""

_LOG = logger("mirage.sources")
_MOST_NAMES = 20  # most names of fields that a message lists
_SECONDS = re.compile(r"[0-9]{9,}(\.[0-9]+)?")
"""Texts that are seconds or milliseconds since 1970; 20261122, for example, is a date."""

_MILLISECONDS = 1e11
"""Times from this number on are in milliseconds: in seconds they would be in the year 5138."""


class Line(NamedTuple):
    """One line of a log, after parsing.

    Attributes:
        entry: The question with its passages.
        response: The answer, or the reason why there is none.
        time: Time of the question in UTC; ``None`` if the line has none.
        cluster: Cluster that the line names; ``None`` if it names none.
        session: User or session that the line names; ``None`` if it names none.
    """

    entry: Asked
    response: Response
    time: datetime | None
    cluster: str | None
    session: str | None


def check_id(
    where: str,
    row: Mapping[str, Any],
    names: Mapping[str, Sequence[str]],
    line: Line,
    first_places: dict[str, str],
) -> None:
    """Raise an error if an earlier line has the same id.

    ``line`` is the parsed ``row``, and ``where`` is its location. ``names`` are the possible names
    of each field. ``first_places`` maps each id to the location of the first line that has it; the
    function adds this line.
    """
    first = first_places.setdefault(line.entry.query.id, where)
    if first != where:
        raise DatasetError(
            f"{where}, field {_used_name(row, names['id'])!r}: {line.entry.query.id!r} is also "
            f"the id of {first.rpartition(', ')[2]}; each line needs its own id, or none; if the "
            "ids are in another field, name it, as in id=request_id"
        )


class NamedFields:
    """The fields that a user named, and which of them no line of a log has.

    Args:
        fields: The names that the user gave, by field.
        names: The possible names of all fields, from :func:`field_names`.
    """

    def __init__(self, fields: Mapping[str, str], names: Mapping[str, Sequence[str]]) -> None:
        self._fields = fields
        self._names = names
        self._unseen = set(fields)
        # For each unseen field, the names that exist in the first line where it is missing.
        self._existing: dict[str, list[str]] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Look for the fields in the next line. A field whose value is null exists."""
        for field in tuple(self._unseen):
            name = self._fields[field]
            for part in self._parts(field, row):
                value, rest = _descend(part, name)
                if not rest:
                    self._unseen.discard(field)
                    break
                # An object that is null does not show which fields other lines have in it.
                if not is_missing(value):
                    self._existing.setdefault(field, _existing_names(part, [name]))

    def _parts(self, field: str, row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield the objects that may have a field: the line, or its passages."""
        if field not in ("text", "passage_id"):
            yield row
            return
        items = _passage_items(_value(row, self._names["passages"]))
        for item in items if isinstance(items, list) else ():
            if isinstance(item, str | Mapping):
                yield _passage_fields(item, self._names) or {}

    def check(self, path: Path) -> None:
        """Raise an error if no line of the log at ``path`` has one of the fields.

        A missing ``error`` is only logged if no field has a similar name, because a log may have no
        failures.

        Raises:
            SettingError: The field is missing; the message lists the fields that exist.
        """
        for field, name in self._fields.items():
            if field not in self._unseen or field not in self._existing:
                continue
            existing = self._existing[field]
            part = "passage" if field in ("text", "passage_id") else "line"
            nearest = nearest_name(name, existing, minimum=0.7)
            message = (
                f"{path}: no {part} has the field {name!r}, which was given for {field!r}; "
                + (f"did you mean {nearest!r}? " if nearest else "check the name of the field. ")
                + f"The first {part} has the fields {_quoted(existing)}"
            )
            # Many systems write an error only if there was one.
            if field != "error" or nearest:
                raise SettingError(message)
            _LOG.warning("%s; so no question counts as failed because of it", message)


# Fields -------------------------------------------------------------------------------------------


def field_names(fields: Mapping[str, str], form: str | None = None) -> dict[str, tuple[str, ...]]:
    """Return, for each field, the names under which a line may contain it.

    ``form`` is the tool that exported the log; its names replace the usual ones. ``fields`` maps
    fields to names that the user gave; these replace both.
    """
    for name in fields:
        if name not in FIELDS:
            raise UnknownNameError("log field", name, FIELDS)
    if form is not None and form not in FORMATS:
        raise UnknownNameError("log format", form, FORMATS)
    usual = FIELDS if form is None else {**FIELDS, **FORMATS[form].fields}
    return {**usual, **{name: (log_name,) for name, log_name in fields.items()}}


def look_up(row: Mapping[str, Any], name: str) -> Any:
    """Return the value at a dotted name such as ``choices.0.text``; ``None`` if missing.

    The objects and lists on the way may also be JSON texts, as exports of databases have them.
    """
    value, rest = _descend(row, name)
    return None if rest or is_missing(value) else value


def _descend(row: Mapping[str, Any], name: str) -> tuple[Any, str]:
    """Follow a dotted name into a row, as far as the parts of the name exist.

    Returns:
        The innermost value, and the part of the name that it lacks; empty if the name exists.
    """
    if name in row:  # a name with dots may be a plain key, as attributes of OpenTelemetry are
        return row[name], ""
    value: Any = row
    parts = name.split(".")
    for number, part in enumerate(parts):
        content = parse_json(value)
        if isinstance(content, Mapping) and part in content:
            value = content[part]
        elif isinstance(content, list) and part.isdecimal() and int(part) < len(content):
            value = content[int(part)]
        else:
            return content, ".".join(parts[number:])
    return value, ""


def _used_name(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the first of ``names`` under which a row has a value.

    If the row has a value under none of them, return the first name.
    """
    return next((name for name in names if look_up(row, name) is not None), names[0])


def _value(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    return look_up(row, _used_name(row, names))


def _text(where: str, row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    value = _value(row, names)
    if value is None or isinstance(value, str):
        return value
    name, kind = _used_name(row, names), type(value).__name__
    hint = f"; name a field inside it, as in {name}.text" if isinstance(value, dict | list) else ""
    raise DatasetError(f"{where}, field {name!r}: expected a string, got {kind}{hint}")


def _label(where: str, row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Return a field's value as a label: a text, or an integer converted to text."""
    value = _value(row, names)
    # Not isinstance(), which would accept True and False as integers.
    if type(value) is int:
        return str(value)
    return _text(where, row, names) or None


def parse_line(
    where: str, row: Mapping[str, Any], names: Mapping[str, Sequence[str]], code: str
) -> Line | None:
    """Parse a row of a log; return ``None`` if its question is empty.

    ``where`` is the location of the row, for error messages. ``names`` are the possible names of
    each field, from :func:`field_names`. ``code`` is the language code of the questions.
    """
    question = _text(where, row, names["question"])
    if question is None:
        existing = _quoted(_existing_names(row, names["question"]))
        raise DatasetError(
            f"{where}: the line has no field {_alternatives(names['question'])}, only {existing}; "
            "name the field with the question, as in question=input.text"
        )
    if not question.strip():
        return None
    texts, ids = _passages(where, row, names)
    model = _label(where, row, names["model"])
    entry = query_of(
        where,
        id=_label(where, row, names["id"]) or where.rpartition(" ")[2],
        language=code,
        text=question,
        retrieved=texts,
        reference=None,
        relevant=None,
        retrieved_ids=ids,
    )
    query = entry.query.model_copy(update={"metadata": {"model": model} if model else {}})
    text, error = _answer(where, row, names)
    response = response_to(
        query.id,
        text,
        error=error,
        shown=None if texts is None or entry.shown == query.passage_ids != () else entry.shown,
    )
    return Line(
        entry._replace(query=query),
        response,
        _time(where, row, names["time"]),
        _label(where, row, names["cluster"]),
        _label(where, row, names["session"]),
    )


def _answer(
    where: str, row: Mapping[str, Any], names: Mapping[str, Sequence[str]]
) -> tuple[str | None, str]:
    """Return the answer of a line, and the error to record if the answer is ``None``."""
    error = _value(row, names["error"])
    if isinstance(error, str):
        error = "" if error.strip().lower() in _NO_ERRORS else error
    # Many loggers write an empty error into every line.
    if error not in (None, False, "", 0, {}, []):
        return None, error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)
    text = _text(where, row, names["answer"])
    if text is None and not any(_has_field(row, name) for name in names["answer"]):
        raise DatasetError(
            f"{where}: the line has neither an answer ({_alternatives(names['answer'])}) nor an "
            f"error, only {_quoted(row)}; name the field with the answer, as in "
            "answer=output.text"
        )
    return text, _NO_ANSWER


def _has_field(row: Mapping[str, Any], name: str) -> bool:
    """Return whether a row has a field, even if its value is null."""
    return name in row or name.partition(".")[0] in row


def _quoted(names: Collection[str]) -> str:
    text = ", ".join(map(repr, islice(names, _MOST_NAMES))) or "no fields"
    return text + (", ..." if len(names) > _MOST_NAMES else "")


def _existing_names(row: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return the fields of a row, or, if ``names`` has one dotted name, those beside this field."""
    if len(names) > 1:
        return list(row)
    value, rest = _descend(row, names[0])
    prefix = names[0].removesuffix(rest)
    if isinstance(value, Mapping):
        return [f"{prefix}{key}" for key in value]
    if isinstance(value, list):
        return [f"{prefix}{number}" for number in range(len(value))]
    return [prefix.removesuffix(".")]


def _alternatives(names: Sequence[str]) -> str:
    return " or ".join(map(repr, names))


def _passages(
    where: str, row: Mapping[str, Any], names: Mapping[str, Sequence[str]]
) -> tuple[list[str] | None, list[str] | None]:
    """Return the texts and the ids of the passages that were shown.

    The texts are ``None`` if the line has no passages. The ids are ``None`` if no passage has one.
    A text that is a list in the notation of JSON or Python is read as this list.
    """
    value = _value(row, names["passages"])
    if value is None:
        return None, None
    where = f"{where}, field {_used_name(row, names['passages'])!r}"
    items = _passage_items(value)
    if not isinstance(items, list):
        raise DatasetError(f"{where}: expected a list of passages, got {type(value).__name__}")
    rows = [_passage(f"{where}, passage {n}", item, names) for n, item in enumerate(items, 1)]
    if not any(id_ for id_, _ in rows):
        return [text for _, text in rows], None
    texts_by_id: dict[str, str] = {}
    ids = []
    for n, (id_, text) in enumerate(rows, 1):
        id_ = id_ or str(n)
        # Two texts with the same id, such as that of their document, are two passages.
        unique = next(i for i in _id_variants(id_) if texts_by_id.setdefault(i, text) == text)
        ids.append(unique)
    return [text for _, text in rows], ids


def _passage_items(value: Any) -> Any:
    """Return the list of passages in a value, which may be a list in a text or a single passage.

    Return other values unchanged.
    """
    items = list_in_text(value, str | dict)
    return [items] if isinstance(items, str) else items


def _id_variants(id_: str) -> Iterable[str]:
    """Yield an id, then the id with a number: ``a``, ``a~2``, ``a~3``, ..."""
    yield id_
    number = 2
    while True:
        yield f"{id_}~{number}"
        number += 1


_WRAPPERS = ("document", "node", "kwargs")
"""Names under which OpenInference, LlamaIndex and LangChain put the content of a passage."""

_SOURCES = ("metadata.source", "metadata.file_path")
"""Names of the source of a document that has no id, in LangChain and LlamaIndex."""


def _passage(where: str, item: Any, names: Mapping[str, Sequence[str]]) -> tuple[str | None, str]:
    """Return the id of a passage (``None`` without an id), and its title and text as one text."""
    if not isinstance(item, str | Mapping):
        raise DatasetError(f"{where}: expected a string or an object, got {type(item).__name__}")
    row = _passage_fields(item, names)
    if row is None:
        return None, str(item)
    text, id_ = (_value(row, names[field]) for field in ("text", "passage_id"))
    title = _value(row, PASSAGE_NAMES["title"])
    if not isinstance(text, str):
        raise DatasetError(
            f"{where}: the passage has no text in the field {_alternatives(names['text'])}, only "
            f"{_quoted(row)}; if the text is in another field, name it, as in text=node.content"
        )
    if id_ is None:
        id_ = _value(row, _SOURCES)
    titled = f"{title}\n{text}" if isinstance(title, str) and title else text
    return None if id_ is None else str(id_), titled


def _passage_fields(
    item: str | Mapping[str, Any], names: Mapping[str, Sequence[str]]
) -> dict[str, Any] | None:
    """Return the object that contains the fields of a passage; ``None`` if the passage is a text.

    A text that is a JSON object counts as an object if the object has a text.
    """
    if isinstance(item, str):
        content = parse_json(item)
        row = _passage_fields(content, names) if isinstance(content, Mapping) else None
        return None if row is None or _value(row, names["text"]) is None else row
    row = present(item)
    inner = next((row[name] for name in _WRAPPERS if isinstance(row.get(name), Mapping)), None)
    if inner is not None and _value(row, names["text"]) is None:
        return _passage_fields(inner, names)
    return row


def _time(where: str, row: Mapping[str, Any], names: Sequence[str]) -> datetime | None:
    value = _value(row, names)
    if value is None or value == "":
        return None
    try:
        if isinstance(value, str) and _SECONDS.fullmatch(value.strip()):
            value = float(value)
        if isinstance(value, datetime):
            time = value
        elif isinstance(value, str):
            time = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        else:
            seconds = float(value) / (1000 if float(value) >= _MILLISECONDS else 1)
            time = datetime.fromtimestamp(seconds, UTC)
        # Times without a zone are taken as UTC.
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        raise DatasetError(
            f"{where}, field {_used_name(row, names)!r}: {value!r} is not a time; use ISO 8601, "
            "such as 2026-11-22T20:00:00Z, or seconds since 1970"
        ) from None
