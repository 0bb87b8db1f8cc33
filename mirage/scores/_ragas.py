"""ragas: ``EvaluationResult``, its DataFrame as CSV or JSON, and the rows of an experiment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mirage.errors import DatasetError
from mirage.scores._content import Content
from mirage.scores.records import (
    Entry,
    ScoreFile,
    answer_of,
    finish,
    has_decimal_comma,
    is_score,
    name_of,
    score_of,
)

SAMPLE = frozenset(
    (
        *("user_input", "response", "multi_responses", "reference", "rubrics", "rubric"),
        *("retrieved_contexts", "reference_contexts", "retrieved_context_ids"),
        *("reference_context_ids", "reference_topics", "reference_tool_calls"),
        *("persona_name", "query_style", "query_length", "synthesizer_name", "id"),
        # Names before version 0.2.
        *("question", "answer", "contexts", "ground_truth", "ground_truths"),
    )
)
"""Columns of a sample; all others are metrics if their values are numbers."""

_INDEX = re.compile(r"|Unnamed: \d+(\.\d+)?|index|level_\d+|__index_level_\d+__")
"""Names that pandas gives to columns with the index of a frame."""


def recognises(content: Content) -> bool:
    """Return whether the content has the columns of ragas samples."""
    row = content.first_row()
    return "user_input" in row or {"question", "contexts", "answer"} <= row.keys()


def read(content: Content) -> ScoreFile:
    """Read the scores; the user's input identifies the item.

    Raises:
        DatasetError: If a row lacks the input, or no column has numbers.
    """
    columns = dict.fromkeys(key for _, row in content.rows for key in row)
    candidates = [name for name in columns if name not in SAMPLE and not _INDEX.fullmatch(name)]
    metrics = [name for name in candidates if _is_metric(content, name)]
    if not metrics:
        raise DatasetError(
            f"{content.source}: no column contains scores; the columns are "
            f"{', '.join(content.first_row())}"
        )
    return finish(content.source, "ragas", _entries(content, metrics))


def _is_metric(content: Content, name: str) -> bool:
    """Return whether the column ``name`` contains a metric, with scores in most of its rows.

    Missing scores count as scores; all other values are errors. Numbers with a decimal comma count
    too, so that they give an error.
    """
    values = [row.get(name) for _, row in content.rows]
    return sum(is_score(value) or has_decimal_comma(value) for value in values) > len(values) / 2


def _entries(content: Content, metrics: list[str]) -> Iterator[Entry]:
    for where, row in content.rows:
        item: Any = row.get("user_input", row.get("question"))
        if item is None or item in ("", []):
            raise DatasetError(f"{where}: field 'user_input' is missing")
        scores = {name: score_of(row.get(name), where, name) for name in metrics}
        answer = answer_of(row.get("response", row.get("answer")))
        yield Entry(where, row, name_of(item), scores, answer=answer)
