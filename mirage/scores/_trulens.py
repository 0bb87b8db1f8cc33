"""TruLens: the DataFrame of ``get_records_and_feedback``, in memory or as a file."""

from __future__ import annotations

from collections.abc import Iterator

from mirage.errors import DatasetError
from mirage.scores._content import Content
from mirage.scores.records import (
    Entry,
    ScoreFile,
    answer_of,
    check_text,
    finish,
    score_of,
)

_CALLS = "_calls"  # TruLens writes the calls of each feedback function beside its values


def recognises(content: Content) -> bool:
    """Return whether the content has the columns of TruLens records."""
    return {"record_id", "app_id", "input", "output"} <= content.first_row().keys()


def read(content: Content) -> ScoreFile:
    """Read the feedback as scores.

    The input identifies the item. The name and the version of the app identify the system.

    Raises:
        DatasetError: If a row is not valid, or no column has feedback.
    """
    columns = content.first_row()
    metrics = [name for name in columns if f"{name}{_CALLS}" in columns]
    if not metrics:
        raise DatasetError(
            f"{content.source}: the table has no feedback; each feedback NAME needs the two "
            f"columns NAME and NAME{_CALLS}"
        )
    return finish(content.source, "trulens", _entries(content, metrics))


def _entries(content: Content, metrics: list[str]) -> Iterator[Entry]:
    for where, row in content.rows:
        app = check_text(row, "app_name" if row.get("app_name") else "app_id", where)
        yield Entry(
            where,
            row,
            check_text(row, "input", where),
            {name: score_of(row.get(name), where, name) for name in metrics},
            system=" ".join(filter(None, (app, str(row.get("app_version") or "")))),
            answer=answer_of(row.get("output")),
        )
