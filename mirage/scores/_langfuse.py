"""Langfuse: experiment items of its API as JSON, and ``ExperimentResult`` of its SDK."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mirage.errors import DatasetError
from mirage.scores._content import Content
from mirage.scores.records import (
    Entry,
    ScoreFile,
    answer_of,
    check_list,
    check_object,
    check_text,
    finish,
    is_score,
    name_of,
    score_of,
)

_TEXTS = "has texts instead of numbers"


def recognises(content: Content) -> bool:
    """Return whether the content is a Langfuse experiment."""
    return bool(_items(content)[0])


def read(content: Content) -> ScoreFile:
    """Read the scores; the id of a dataset item identifies the item.

    If an item of an ``ExperimentResult`` has no id, its input identifies it. Scores whose values
    are texts, such as categories, are skipped.

    Raises:
        DatasetError: If an item or a score is not valid.
    """
    rows, key = _items(content)
    skipped: dict[str, str] = {}
    name = str((content.document or {}).get("run_name") or "")
    return finish(content.source, "langfuse", list(_entries(rows, key, name, skipped)), skipped)


def _items(content: Content) -> tuple[list[tuple[str, Mapping[str, Any]]], str]:
    """Return the items with their locations, and the name of the field that contains their scores.

    The list of items is empty if the content has another format.
    """
    document = content.document or {}
    values: Any = document.get("item_results", document.get("data"))
    key = "evaluations" if "item_results" in document else "scores"
    if not isinstance(values, Sequence) or isinstance(values, str):
        first = content.first_row()
        return (list(content.rows) if "experimentItemId" in first else []), "scores"
    if key == "scores" and not any("experimentItemId" in each for each in values):
        return [], key
    return [
        (f"{content.source}, item {number}", check_object(value, content.source, "an item"))
        for number, value in enumerate(values, 1)
    ], key


def _entries(
    rows: list[tuple[str, Mapping[str, Any]]], key: str, run: str, skipped: dict[str, str]
) -> Iterator[Entry]:
    for where, row in rows:
        scores: dict[str, float] = {}
        for value in check_list(row.get(key) or [], where, key):
            score = check_object(value, where, "a score")
            name = check_text(score, "name", where)
            is_number = score.get("dataType", "TEXT") in ("NUMERIC", "BOOLEAN")
            if (
                not is_number
                and isinstance(score.get("value"), str)
                and not is_score(score["value"])
            ):
                skipped[name] = _TEXTS
            elif name in scores:
                raise DatasetError(f"{where}: the entry has two scores with the name {name!r}")
            else:
                scores[name] = score_of(score.get("value"), where, name)
        if key == "evaluations":
            source = check_object(row.get("item"), where, "item")
            item = source.get("id") or source.get("input")
            if not item:
                raise DatasetError(f"{where}: the item has neither an id nor an input")
        else:
            item = check_text(row, "experimentItemId", where)
        failed = row.get("level") == "ERROR"
        yield Entry(
            where,
            row,
            name_of(item),
            {} if failed else scores,
            system=str(row.get("experimentName") or run),
            failure="the item has the level ERROR" if failed else "",
            answer=answer_of(row.get("output")),
        )
