"""Read scores in any format, which is detected from the content or named by the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from mirage._base.rows import is_missing, value_at
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.scores import (
    _deepeval,
    _inspect_ai,
    _langfuse,
    _lm_eval,
    _phoenix,
    _promptfoo,
    _pydantic_evals,
    _ragas,
    _spans,
    _tables,
    _trulens,
)
from mirage.scores._content import Content, load
from mirage.scores.records import Entry, ScoreFile, finish, name_of

FieldNames = Mapping[str, str | Sequence[str]]


class Format(NamedTuple):
    """A format of files with scores.

    Attributes:
        title: Name of the tool and its file, for help texts.
        recognises: Function that returns whether content has this format.
        read: Function that reads the scores from the content.
    """

    title: str
    recognises: Callable[[Content], bool]
    read: Callable[[Content], ScoreFile]


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "inspect_ai": Format(
            "inspect_ai, .eval and .json logs", _inspect_ai.recognises, _inspect_ai.read
        ),
        "lm_eval": Format(
            "lm-evaluation-harness, --log_samples", _lm_eval.recognises, _lm_eval.read
        ),
        "ragas": Format("ragas, frames as CSV or JSON", _ragas.recognises, _ragas.read),
        "deepeval": Format("DeepEval, test runs as JSON", _deepeval.recognises, _deepeval.read),
        "promptfoo": Format("promptfoo, eval --output", _promptfoo.recognises, _promptfoo.read),
        "pydantic_evals": Format(
            "pydantic-evals, reports as JSON", _pydantic_evals.recognises, _pydantic_evals.read
        ),
        "phoenix": Format("Phoenix, experiments as JSON", _phoenix.recognises, _phoenix.read),
        "langfuse": Format("Langfuse, experiment items", _langfuse.recognises, _langfuse.read),
        "trulens": Format("TruLens, records with feedback", _trulens.recognises, _trulens.read),
        "otel": Format("OpenTelemetry, spans in OTLP JSON", _spans.recognises, _spans.read),
    }
)
"""The formats in the order in which they are tried; anything else is read as a table."""

TABLE = "table"
OVERRIDES = ("item", "system", "cluster", "repeat")
"""The fields that can be renamed in every format. Other fields can be renamed only in a table."""


def read_scores(
    data: Any, *, fields: FieldNames | None = None, format: str | None = None, name: str = "scores"
) -> ScoreFile:
    """Read the scores of items from a file or an object.

    Args:
        data: Path of a file, a DataFrame, a list of rows, or the result object of an evaluation
            tool.
        fields: Names of fields in the data, by their role: ``item``, ``score``, ``metric``,
            ``system``, ``cluster``, ``repeat``, ``error`` or ``answer``. A dot separates the keys
            of nested objects, as in ``metadata.document``. For ``score``, a list of names may be
            passed.
        format: Name of the format in :data:`FORMATS`, or ``table``. By default the format is
            detected from the content.
        name: Name to use for an object in messages. A file is named by its path.

    Raises:
        DatasetError: If the data cannot be read; the message names the location.
        UnknownNameError: If there is no such format or field.
        SettingError: If a field can be renamed only in a table, but the data has another format.

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
        if key not in _tables.NAMES:
            raise UnknownNameError("field", key, _tables.NAMES)
    if format is not None and format not in (*FORMATS, TABLE):
        raise UnknownNameError("format", format, (*FORMATS, TABLE))
    content = load(data, name)
    chosen = format or _recognise(content, names)
    if chosen == TABLE:
        return _tables.read(content, names)
    for key in names:
        if key not in OVERRIDES:
            raise SettingError(
                f"the field for {key!r} can only be set for a table, but {content.source} has the "
                f"format {chosen}; to read the file as a table, set the format to 'table'"
            )
    if chosen == "otel":
        return _renamed(_spans.read(content, *names.pop("item", [])), names)
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
        raise DatasetError(
            f"{content.source}: the file is not in the format {name!r} ({FORMATS[name].title}); "
            "set another format, or leave it out to detect the format"
        )


def _renamed(file: ScoreFile, names: Mapping[str, Sequence[str]]) -> ScoreFile:
    """Replace the names of items, systems, clusters or repeats by values of other fields.

    The user chose these fields. ``names`` maps ``item``, ``system``, ``cluster`` or ``repeat`` to a
    list whose first element is the name of the field.
    """
    if not names:
        return file
    entries = []
    for entry in file.entries:
        values: dict[str, Any] = {}
        for key, (name, *_) in names.items():
            value = value_at(entry.raw, name, entry.where)
            if is_missing(value) or value == "":
                raise DatasetError(
                    f"{entry.where}: field {name!r}, which identifies the {key}, is empty"
                )
            values[key] = name_of(value)
        entries.append(entry._replace(**values))
    return finish(file.source, file.format, entries, file.skipped, file.lower)


__all__ = ["FORMATS", "OVERRIDES", "TABLE", "Entry", "Format", "ScoreFile", "read_scores"]
