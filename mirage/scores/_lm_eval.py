"""lm-evaluation-harness: the files that its option ``--log_samples`` writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mirage.errors import DatasetError
from mirage.scores._content import Content
from mirage.scores.records import (
    Entry,
    ScoreFile,
    answer_of,
    check_list,
    check_text,
    finish,
    score_of,
)

_POOLED = "has no score per item, because the harness computes it over all items"


def recognises(content: Content) -> bool:
    """Return whether the content is a list of samples that lm-evaluation-harness logged."""
    return {"doc_id", "filtered_resps"} <= content.first_row().keys()


def read(content: Content) -> ScoreFile:
    """Read the scores; the id of a document and the start of its digest identify the item.

    Metrics such as BLEU, which the harness computes over all items, have no score per item and are
    skipped.

    Raises:
        DatasetError: If a sample is not valid.
    """
    skipped: dict[str, str] = {}
    entries = list(_entries(content, skipped))
    mixed = next((entry for entry in entries if skipped.keys() & entry.scores.keys()), None)
    if mixed is not None:
        name = min(skipped.keys() & mixed.scores.keys())
        raise DatasetError(
            f"{mixed.where}: metric {name!r} is a number in this sample, but not in other samples"
        )
    return finish(content.source, "lm_eval", entries, skipped)


def _entries(content: Content, skipped: dict[str, str]) -> Iterator[Entry]:
    for where, row in content.rows:
        if not {"doc_id", "filtered_resps"} <= row.keys():
            raise DatasetError(
                f"{where}: the field 'doc_id' or 'filtered_resps' is missing, but the first "
                "sample has it"
            )
        names = check_list(row.get("metrics"), where, "metrics")
        kind = row.get("filter", "none")
        suffix = "" if kind == "none" else f" ({kind})"
        scores: dict[str, float] = {}
        for name in names:
            value = row.get(str(name))
            if isinstance(value, list | Mapping):
                skipped[f"{name}{suffix}"] = _POOLED
            else:
                scores[f"{name}{suffix}"] = score_of(value, where, str(name))
        digest = str(row.get("doc_hash") or "")[:8]
        yield Entry(
            where,
            row,
            f"{check_text(row, 'doc_id', where)} {digest}".strip(),
            scores,
            answer=answer_of(_first(row["filtered_resps"])),
        )


def _first(responses: Any) -> Any:
    """Return the first response of a sample."""
    while isinstance(responses, list) and responses:
        responses = responses[0]
    return responses
