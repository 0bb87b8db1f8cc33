"""A ranking as a table, a dictionary for JSON, and a DataFrame."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from mirage._base.tables import RANKED, Table, ranked_cells
from mirage.arena.fragility import Fragility
from mirage.ranking._rendering import (
    accuracy_dict,
    display_name,
    entry_dict,
    failure_notes,
    finding_dict,
    finding_notes,
    fragility_dict,
    frame_by_model,
    number_or_none,
    uncontrolled_cell,
)
from mirage.ranking.comparison import SystemComparison
from mirage.ranking.entries import Entry, Evidence
from mirage.statistics.bootstrap import Interval

if TYPE_CHECKING:
    import pandas as pd

    from mirage.features.findings import Finding
    from mirage.models import HumanAgreement

__all__ = ["ranking_dict", "ranking_frame", "ranking_table"]

COMPARED = 5
"""Largest number of comparisons of systems in the notes below a table."""


class Ranked(Protocol):
    """Protocol with the attributes of a :class:`mirage.Ranking` that are displayed."""

    language: str
    title: str
    about: str
    notes: tuple[str, ...]
    level: float
    evidence: Evidence | None
    entries: tuple[Entry, ...]
    agreement: tuple[HumanAgreement, ...]
    winner_interval: Interval

    @property
    def models(self) -> tuple[str, ...]: ...
    @property
    def findings(self) -> Mapping[str, tuple[Finding, ...]]: ...
    @property
    def fragility(self) -> Mapping[str, Fragility]: ...
    @property
    def comparisons(self) -> tuple[SystemComparison, ...]: ...
    @property
    def accuracy_notes(self) -> tuple[str, ...]: ...
    @property
    def standing_notes(self) -> tuple[str, ...]: ...
    @property
    def unanswered_notes(self) -> tuple[str, ...]: ...
    @property
    def winner_notes(self) -> tuple[str, ...]: ...
    @property
    def fragility_notes(self) -> tuple[str, ...]: ...


def ranking_table(ranking: Ranked) -> Table:
    """Return a ranking as a table with notes below it."""
    return Table(
        title=ranking.title,
        header=(
            *(word.replace("95", f"{100 * ranking.level:g}") for word in RANKED),
            "uncontrolled",
        ),
        rows=tuple(
            (
                *ranked_cells(
                    entry.rank,
                    display_name(entry),
                    entry.logit,
                    entry.interval,
                    entry.rank_interval,
                ),
                uncontrolled_cell(entry),
            )
            for entry in ranking.entries
        ),
        marked=tuple(_is_marked(ranking, entry) for entry in ranking.entries),
        notes=(
            *ranking.unanswered_notes,
            *failure_notes(ranking.entries, limit=5),
            *ranking.accuracy_notes,
            *finding_notes(ranking.findings),
            *ranking.standing_notes,
            *_comparison_notes(ranking.comparisons),
            *filter(None, [ranking.about]),
            *ranking.winner_notes,
            *ranking.notes,
            *ranking.fragility_notes,
        ),
    ).filled()


def _is_marked(ranking: Ranked, entry: Entry) -> bool:
    """Return whether a table marks a model because it is no anchor; false in judged rankings."""
    judged = ranking.evidence is not None and ranking.evidence.judgments is not None
    return not entry.anchor and not judged


def _comparison_notes(comparisons: tuple[SystemComparison, ...]) -> Iterator[str]:
    """Yield a line for each comparison of neighbouring systems, with at most five comparisons."""
    yield from (f"{comparison}." for comparison in comparisons[:COMPARED])
    if len(comparisons) > COMPARED:
        yield f"{len(comparisons) - COMPARED} more comparisons: see ranking.comparisons."


def ranking_dict(ranking: Ranked) -> dict[str, Any]:
    """Return the content of a ranking as a dictionary for JSON; NaN values are ``None``."""
    return {
        "language": ranking.language,
        "title": ranking.title,
        "about": ranking.about,
        "level": ranking.level,
        "entries": [
            entry_dict(entry)
            | {"findings": [*map(finding_dict, ranking.findings.get(entry.model, ()))]}
            | {"fragility": fragility_dict(ranking.fragility.get(entry.model))}
            | {"accuracy": accuracy_dict(entry.accuracy)}
            | {"closed_book": accuracy_dict(entry.closed_book)}
            for entry in ranking.entries
        ],
        "comparisons": [comparison.to_dict() for comparison in ranking.comparisons],
        "winner_interval": [*map(number_or_none, ranking.winner_interval)],
        "notes": [
            *ranking.unanswered_notes,
            *ranking.standing_notes,
            *ranking.winner_notes,
            *ranking.notes,
            *ranking.fragility_notes,
        ],
        "agreement": [figure.model_dump() for figure in ranking.agreement],
    }


def ranking_frame(ranking: Ranked) -> pd.DataFrame:
    """Return a DataFrame indexed by model; see :meth:`mirage.Ranking.to_pandas`."""
    entries = ranking.entries
    names = dict.fromkeys(name for entry in entries for name in entry.features)
    accuracies = [entry.accuracy for entry in entries]
    columns: dict[str, list[Any]] = {
        "rank": [entry.rank for entry in entries],
        "logit": [entry.logit for entry in entries],
        "lower": [entry.interval[0] for entry in entries],
        "upper": [entry.interval[1] for entry in entries],
        "rank_best": [entry.rank_interval and entry.rank_interval[0] for entry in entries],
        "rank_worst": [entry.rank_interval and entry.rank_interval[1] for entry in entries],
        "anchor": [entry.anchor for entry in entries],
        "answered": [entry.answered for entry in entries],
        "failed": [entry.failed for entry in entries],
        "unfamiliar": [entry.unfamiliar for entry in entries],
        "right": [accuracy and accuracy.count("right") for accuracy in accuracies],
        "wrong": [accuracy and accuracy.count("wrong") for accuracy in accuracies],
        "declined": [accuracy and accuracy.count("declined") for accuracy in accuracies],
        **{name: [entry.features.get(name, math.nan) for entry in entries] for name in names},
    }
    # Int64 is pandas' integer type with missing values.
    integer = ("rank_best", "rank_worst", "answered", "right", "wrong", "declined")
    return frame_by_model(columns, ranking.models).astype(dict.fromkeys(integer, "Int64"))
