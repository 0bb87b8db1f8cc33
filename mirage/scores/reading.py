"""Read scores in any format: recognise it by content, or use the one that is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from mirage._base.rows import is_missing, value_at
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.scores import (
    deepeval,
    inspect_ai,
    langfuse,
    lm_eval,
    phoenix,
    promptfoo,
    pydantic_evals,
    ragas,
    spans,
    tables,
    trulens,
)
from mirage.scores.content import Content, load
from mirage.scores.records import Entry, ScoreFile, finish, name_of

FieldNames = Mapping[str, str | Sequence[str]]


class Format(NamedTuple):
    """A format of files with scores.

    Attributes:
        title: Name of the tool and its file, for help texts.
        recognises: Function that returns whether a content has this format.
        read: Function that reads the content.
    """

    title: str
    recognises: Callable[[Content], bool]
    read: Callable[[Content], ScoreFile]


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "inspect_ai": Format(
            "inspect_ai, .eval and .json logs", inspect_ai.recognises, inspect_ai.read
        ),
        "lm_eval": Format("lm-evaluation-harness, --log_samples", lm_eval.recognises, lm_eval.read),
        "ragas": Format("ragas, frames as CSV or JSON", ragas.recognises, ragas.read),
        "deepeval": Format("DeepEval, test runs as JSON", deepeval.recognises, deepeval.read),
        "promptfoo": Format("promptfoo, eval --output", promptfoo.recognises, promptfoo.read),
        "pydantic_evals": Format(
            "pydantic-evals, reports as JSON", pydantic_evals.recognises, pydantic_evals.read
        ),
        "phoenix": Format("Phoenix, experiments as JSON", phoenix.recognises, phoenix.read),
        "langfuse": Format("Langfuse, experiment items", langfuse.recognises, langfuse.read),
        "trulens": Format("TruLens, records with feedback", trulens.recognises, trulens.read),
        "otel": Format("OpenTelemetry, spans in OTLP JSON", spans.recognises, spans.read),
    }
)
"""The formats in the order in which they are tried; anything else is read as a table."""

TABLE = "table"
OVERRIDES = ("item", "system", "cluster", "repeat")
"""The fields that can be renamed in every format; the others only in a table."""


def read_scores(
    data: Any, *, fields: FieldNames | None = None, format: str | None = None, name: str = "scores"
) -> ScoreFile:
    """Read the scores of items from a file or an object.

    Args:
        data: File, frame, rows or result, as for :func:`mirage.scores.content.load`.
        fields: Names of fields, by their names in :data:`mirage.scores.tables.NAMES`; a dot leads
            into an object, as in ``metadata.document``. ``score`` may be a list of names.
        format: Name of the format in :data:`FORMATS`, or ``table``; recognised by default.
        name: Name of an object in messages.

    Raises:
        DatasetError: The data cannot be read; the message says where.
        UnknownNameError: There is no such format or field.

    Example:
        >>> rows = [{"item": "q1", "score": 1}, {"item": "q2", "score": 0}]
        >>> read_scores(rows).metrics
        ('score',)
    """
    names = {
        key: [value] if isinstance(value, str) else [*value]
        for key, value in (fields or {}).items()
    }
    for key in names:
        if key not in tables.NAMES:
            raise UnknownNameError("field", key, tables.NAMES)
    if format is not None and format not in (*FORMATS, TABLE):
        raise UnknownNameError("format", format, (*FORMATS, TABLE))
    content = load(data, name)
    chosen = format or _recognise(content, names)
    if chosen == TABLE:
        return tables.read(content, names)
    for key in names:
        if key not in OVERRIDES:
            raise SettingError(
                f"the field {key} can only be named in a table; {content.source} is read as "
                f"{chosen}; add the format table to read it as a table"
            )
    if chosen == "otel":
        return _renamed(spans.read(content, *names.pop("item", [])), names)
    _check_format(content, chosen)
    return _renamed(FORMATS[chosen].read(content), names)


def _recognise(content: Content, names: Mapping[str, Sequence[str]]) -> str:
    if names.keys() - {*OVERRIDES}:
        return TABLE
    for name, form in FORMATS.items():
        if form.recognises(content):
            return name
    return TABLE


def _check_format(content: Content, name: str) -> None:
    if not FORMATS[name].recognises(content):
        raise DatasetError(f"{content.source}: is not a file of {FORMATS[name].title}")


def _renamed(file: ScoreFile, names: Mapping[str, Sequence[str]]) -> ScoreFile:
    """Return the file with items, systems, clusters and repeats from the given fields."""
    if not names:
        return file
    entries = []
    for entry in file.entries:
        values: dict[str, Any] = {}
        for key, (name, *_) in names.items():
            value = value_at(entry.raw, name, entry.where)
            if is_missing(value) or value == "":
                raise DatasetError(f"{entry.where}: field {name!r} is empty; it names the {key}")
            values[key] = name_of(value)
        entries.append(entry._replace(**values))
    return finish(file.source, file.format, entries, file.skipped, file.lower)


__all__ = ["FORMATS", "OVERRIDES", "TABLE", "Entry", "Format", "ScoreFile", "read_scores"]
