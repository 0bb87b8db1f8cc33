"""Any table of scores: CSV, TSV, JSON, JSON Lines, Parquet, or a DataFrame, with named fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mirage._base.rows import is_missing, value_at
from mirage.errors import DatasetError
from mirage.scores._content import Content
from mirage.scores.records import Entry, ScoreFile, answer_of, finish, is_score, name_of, score_of

NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "item": (
            *("item", "item_id", "id", "query_id", "question_id", "example_id", "sample_id"),
            *("question", "query", "input"),
        ),
        "score": ("score", "value"),
        "metric": ("metric", "metric_name"),
        "system": ("system", "model"),
        "cluster": ("cluster",),
        "repeat": ("repeat", "epoch", "seed", "run"),
        "error": ("error",),
        "answer": ("answer", "response", "output"),
    }
)
"""The usual names of each field of a table. The first name in the list that a row has is used."""

Fields = Mapping[str, Sequence[str]]


def read(content: Content, fields: Fields) -> ScoreFile:
    """Read the scores of a table.

    A row has one score, and may name the metric of this score. If ``fields`` lists several fields
    for ``score``, a row has one score per field, and each field is a metric.

    Args:
        content: The table.
        fields: Names of fields in the table, by their role, such as ``item`` or ``score``. The
            roles are the keys of :data:`NAMES`, which lists the usual names. These are used for the
            roles that ``fields`` leaves out.

    Raises:
        DatasetError: If the table has no field for the item or the score, or a row is not valid.
    """
    if content.archive is not None or not content.rows:
        raise DatasetError(f"{content.source}: the content is not a table with at least one row")
    first = content.first_row()
    used = {name: [*fields.get(name, ())] or _usual(name, first) for name in NAMES}
    for name in ("item", "score"):
        if not used[name]:
            example = next((field for field in _with_numbers(content) if name == "score"), "NAME")
            raise DatasetError(
                f"{content.source}: no field has a usual name for the {name}; name the field with "
                f"--field {name}={example}. The fields are {_list_fields(content)}"
            )
    return finish(content.source, "table", _entries(content, used))


def _usual(name: str, row: Mapping[str, Any]) -> list[str]:
    return [usual for usual in NAMES[name] if usual in row][:1]


def _list_fields(content: Content) -> str:
    """Return a text with the names of the fields, starting with the fields that have numbers."""
    numbers = _with_numbers(content)
    rest = [name for name in content.first_row() if name not in numbers]
    with_numbers = f"{', '.join(numbers)} (with numbers)" if numbers else ""
    return ", ".join(filter(None, [with_numbers, ", ".join(rest[:20])]))


def _with_numbers(content: Content) -> list[str]:
    """Return the names of the fields that have a number in each row."""
    names = [*content.first_row()]
    return [name for name in names if all(is_score(row.get(name)) for _, row in content.rows)]


def _entries(content: Content, used: Mapping[str, list[str]]) -> Iterator[Entry]:
    for where, row in content.rows:
        item = _value(row, used["item"], where)
        if is_missing(item) or item == "":
            raise DatasetError(
                f"{where}: field {used['item'][0]!r}, which identifies the item, is empty"
            )
        metric = _value(row, used["metric"], where)
        names = used["score"]
        if used["metric"]:
            if is_missing(metric) or metric == "" or len(names) > 1:
                raise DatasetError(
                    f"{where}: field {used['metric'][0]!r} must contain the name of a metric, and "
                    f"there must be one score field; got the score fields {', '.join(names)}"
                )
            scores = {name_of(metric): score_of(_value(row, names, where), where, names[0])}
        else:
            scores = {name: score_of(value_at(row, name, where), where, name) for name in names}
        error = _value(row, used["error"], where)
        failed = "" if is_missing(error) or error in ("", False, 0, "False", "false") else error
        cluster = _value(row, used["cluster"], where)
        yield Entry(
            where,
            row,
            name_of(item),
            dict.fromkeys(scores, float("nan")) if failed else scores,
            system=_text(_value(row, used["system"], where)),
            cluster=None if is_missing(cluster) or cluster == "" else name_of(cluster),
            repeat=_text(_value(row, used["repeat"], where)),
            failure=str(failed),
            answer=answer_of(_value(row, used["answer"], where)),
        )


def _value(row: Mapping[str, Any], names: Sequence[str], where: str) -> Any:
    return value_at(row, names[0], where) if names else None


def _text(value: Any) -> str:
    return "" if is_missing(value) else name_of(value)
