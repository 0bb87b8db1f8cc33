"""Build the report's table of how often answers change if a query is asked repeatedly."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mirage.ranking import Ranking
from mirage.report.elements import Child, tag
from mirage.report.sections import (
    language,
    model_head,
    model_row,
    number,
    scrolling,
    sortable,
    table,
)

_LISTED = 5  # largest number of queries with changing answers to list for each feature


def stability(code: str, ranking: Ranking, model_indices: Mapping[str, int]) -> Child:
    """Return a section with the share of queries whose answers change between repeats.

    The table has one row per model and one column per feature. Returns ``None`` if no model
    answered the queries repeatedly.

    Args:
        code: Language code.
        ranking: The ranking in this language.
        model_indices: Position of each model in the page's list of models; links contain it.
    """
    tables = {} if ranking.evidence is None else ranking.evidence.tables
    stabilities = {
        model: part.stability() for model, part in tables.items() if part.repeats is not None
    }
    if not stabilities:
        return None
    names = list(dict.fromkeys(row.feature for rows in stabilities.values() for row in rows))
    lines = []
    for entry in (entry for entry in ranking if entry.model in stabilities):
        repeats = tables[entry.model].repeats
        by_name = {row.feature: row for row in stabilities[entry.model]}
        cells = [number(float(len(repeats)), str(len(repeats)))] if repeats is not None else []
        for name in names:
            row = by_name.get(name)
            if row is None or not row.queries:
                cells.append(number(math.nan, ""))
                continue
            more = len(row.changing) - _LISTED
            listed = ", ".join(row.changing[:_LISTED]) + (f" and {more} more" if more > 0 else "")
            low, high = (100 * end for end in row.interval)
            share = len(row.changing) / row.queries
            text = f"{100 * share:.0f} % ({low:.0f} to {high:.0f})"
            cells.append(number(share, text, **({"title": listed} if listed else {})))
        rank = number(entry.rank, str(entry.rank))
        lines.append(
            model_row(
                rank, entry.model, f"#{code}/{model_indices[entry.model]}", not entry.anchor, cells
            )
        )
    head = [*model_head("Rank"), sortable("Repeats"), *map(sortable, names)]
    hint = (
        "Share of the queries whose answers differ in a feature between repeats, with its 95 % "
        "interval. Point at a number to see queries that change. Other numbers on this page are "
        "means over the repeats and count each query once."
    )
    rendered = table(head, lines, class_="sortable")
    heading = tag("h3", "Stability between repeats", id=f"{code}-stability")
    return tag(
        "section",
        heading,
        *scrolling(rendered, f"Stability between repeats, {language(code).name}", hint),
    )
