"""OpenTelemetry: spans in OTLP JSON with events ``gen_ai.evaluation.result``.

The events are those of the semantic conventions for generative AI, whose status is "development".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
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
    score_of,
)

EVENT = "gen_ai.evaluation.result"
ITEMS = ("gen_ai.input.messages", "input.value", "gen_ai.prompt")
"""Attributes with the system's input. The first one in a span names the item by default."""

_VALUES = ("stringValue", "intValue", "doubleValue", "boolValue")


def recognises(content: Content) -> bool:
    """Return whether the content has spans in OTLP JSON."""
    return "resourceSpans" in content.first_row()


def read(content: Content, item: str = "") -> ScoreFile:
    """Read the scores of spans that have evaluation events.

    Args:
        content: The file.
        item: Attribute of a span that identifies its item. By default, the input of the system
            identifies it.

    Raises:
        DatasetError: If a span is not valid, or lacks the attribute.
    """
    return finish(content.source, "otel", _entries(content, item))


def _entries(content: Content, item: str) -> Iterator[Entry]:
    for where, span in _spans(content):
        attributes = _attributes(span, where)
        scores: dict[str, float] = {}
        for value in check_list(span.get("events") or [], where, "events"):
            event = check_object(value, where, "an event")
            if event.get("name") != EVENT:
                continue
            facts = _attributes(event, where)
            name = check_text(facts, "gen_ai.evaluation.name", where)
            value = facts.get("gen_ai.evaluation.score.value")
            if value is None:
                value = facts.get("gen_ai.evaluation.score.label")
            scores[name] = math.nan if "error.type" in facts else score_of(value, where, name)
        if not scores:
            continue
        names = [item] if item else ITEMS
        name = next((str(attributes[key]) for key in names if attributes.get(key)), "")
        if not name:
            raise DatasetError(
                f"{where}: the span has no attribute {' or '.join(names)}; name the attribute that "
                "identifies an item with --field item=NAME"
            )
        model = attributes.get("gen_ai.request.model")
        answer = answer_of(attributes.get("output.value"))
        yield Entry(where, attributes, name, scores, system=str(model or ""), answer=answer)


def _spans(content: Content) -> Iterator[tuple[str, Mapping[str, Any]]]:
    number = 0
    for where, row in content.rows:
        for resource in check_list(row.get("resourceSpans"), where, "resourceSpans"):
            scopes = check_object(resource, where, "resourceSpans").get("scopeSpans")
            for scope in check_list(scopes, where, "scopeSpans"):
                spans = check_object(scope, where, "scopeSpans").get("spans")
                for span in check_list(spans, where, "spans"):
                    number += 1
                    yield f"{where}, span {number}", check_object(span, where, "a span")


def _attributes(owner: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the attributes of a span or event that are texts, numbers or truth values."""
    values: dict[str, Any] = {}
    for part in check_list(owner.get("attributes") or [], where, "attributes"):
        entry = check_object(part, where, "an attribute")
        value = check_object(entry.get("value"), where, "the value of an attribute")
        for kind in _VALUES:
            if kind in value:
                values[check_text(entry, "key", where)] = value[kind]
    return values
