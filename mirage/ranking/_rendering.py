"""Entries of rankings as cells, notes, dictionaries and DataFrames."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mirage._base.tables import frame_of
from mirage.arena.fragility import Fragility
from mirage.ranking.accuracy import OUTCOMES, Accuracy
from mirage.ranking.entries import Entry
from mirage.statistics.bootstrap import Interval

if TYPE_CHECKING:
    import pandas as pd

    from mirage.features.findings import Finding, PooledFinding

__all__ = [
    "accuracy_dict",
    "accuracy_lines",
    "display_name",
    "entry_dict",
    "failure_notes",
    "finding_dict",
    "finding_notes",
    "fragility_dict",
    "frame_by_model",
    "number_or_none",
    "uncontrolled_cell",
    "winner_notes",
]

UNFAMILIAR = "(?)"
"""Mark before the name of a model that is unlike every training model of the surrogate."""


def failure_notes(entries: Iterable[Entry], limit: int) -> list[str]:
    """Return a line for each model that failed on queries, with at most ``limit`` reasons."""
    return [_failure_note(entry, limit) for entry in entries if entry.failures]


def _failure_note(entry: Entry, limit: int) -> str:
    """Return the line that describes one model's failures."""
    total = (entry.answered or 0) + entry.failed
    listed = list(entry.failures.items())[:limit]
    reasons = ", ".join(f"{query_id} ({_shorten(reason)})" for query_id, reason in listed)
    more = f", and {entry.failed - len(listed)} more" if entry.failed > len(listed) else ""
    return f"{entry.model}: {entry.failed} of {total} queries failed: {reasons}{more}"


def uncontrolled_cell(entry: Entry) -> str:
    """Return the logit of a fit without control variables as text; empty if it is not known."""
    return "" if entry.uncontrolled is None else f"{entry.uncontrolled:.2f}"


def display_name(entry: Entry) -> str:
    """Return a model's name for a table, with a mark if it is unlike every training model."""
    return f"{UNFAMILIAR} {entry.model}" if entry.unfamiliar else entry.model


def winner_notes(
    model: str, interval: Interval, winner_interval: Interval, level: float
) -> tuple[str, ...]:
    """Return a line with the best model's interval, corrected for the selection of this model.

    The result is empty if the corrected interval, as printed, equals the interval in the model's
    row.
    """
    texts = [f"[{low:.2f}, {high:.2f}]" for low, high in (interval, winner_interval)]
    if math.isnan(winner_interval[0]) or texts[0] == texts[1]:
        return ()
    return (
        f"The best of several models may be in first place by luck. The {100 * level:g} % interval "
        f"of {model} that allows for this is {texts[1]}.",
    )


def finding_notes(findings: Mapping[str, Sequence[Finding | PooledFinding]]) -> Iterator[str]:
    """Yield a line for each model that has findings, that is, faults in its responses."""
    from mirage.features.findings import summary

    for model, model_findings in findings.items():
        if text := summary(model_findings):
            yield f"{model} {text}."


def fragility_dict(fragile: Fragility | None) -> dict[str, Any] | None:
    if fragile is None:
        return None
    return {
        kind: removal and {"dropped": list(removal.dropped), "of": removal.of, "rank": removal.rank}
        for kind, removal in (("queries", fragile.queries), ("verdicts", fragile.verdicts))
    }


def accuracy_lines(entry: Entry) -> Iterator[str]:
    """Yield a line with a system's accuracy, and a line with its accuracy without passages.

    A line is left out if its accuracy is not known.
    """
    with_passages, without = entry.accuracy, entry.closed_book
    if with_passages is not None and with_passages.is_known:
        yield f"{entry.model}: {with_passages}."
    if with_passages is not None and without is not None:
        right = with_passages.right_among(without.outcomes)
        yield (
            f"{entry.model} without passages: {without.counts}; with passages, it is right on "
            f"{right} of the same {without.n}."
        )


def accuracy_dict(accuracy: Accuracy | None) -> dict[str, Any] | None:
    """Return the outcomes of a system's responses as a dictionary for JSON.

    It contains the number of responses with each outcome, in total and by kind of question.
    """
    if accuracy is None:
        return None
    return {
        "n": accuracy.n,
        **{name: accuracy.count(name) for name in OUTCOMES},
        "interval": [*map(number_or_none, accuracy.interval)],
        "outcomes": dict(accuracy.outcomes),
        "kinds": {
            kind: {"n": part.n}
            | {name: part.count(name) for name in OUTCOMES}
            | {"interval": [*map(number_or_none, part.interval)]}
            for kind, part in accuracy.kinds.items()
        },
    }


def finding_dict(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "words": finding.words,
        "count": finding.count,
        "of": finding.of,
        "interval": None if math.isnan(finding.interval[0]) else list(finding.interval),
        "query_ids": list(finding.query_ids),
        "quotes": dict(finding.quotes),
    }


def _shorten(reason: str, limit: int = 100) -> str:
    """Return a reason, shortened with an ellipsis if it has more than ``limit`` characters."""
    return reason if len(reason) <= limit else reason[: limit - 1].rstrip() + "…"


def entry_dict(entry: Entry) -> dict[str, Any]:
    return {
        "rank": entry.rank,
        "model": entry.model,
        "logit": number_or_none(entry.logit),
        "interval": [number_or_none(end) for end in entry.interval],
        "rank_interval": entry.rank_interval and list(entry.rank_interval),
        "features": {name: number_or_none(value) for name, value in entry.features.items()},
        "anchor": entry.anchor,
        "answered": entry.answered,
        "failed": entry.failed,
        "failures": dict(entry.failures),
        "unfamiliar": entry.unfamiliar,
        "uncontrolled": entry.uncontrolled,
    }


def number_or_none(value: float) -> float | None:
    """Return the number, or ``None`` for NaN, which JSON does not have."""
    return None if math.isnan(value) else float(value)


def frame_by_model(columns: Mapping[str, list[Any]], models: tuple[str, ...]) -> pd.DataFrame:
    return frame_of({"model": models, **columns}).set_index("model")
