"""How far models that were asked several times answer the same, in a report."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mirage.ranking import Ranking
from mirage.report._elements import Child, tag
from mirage.report._sections import (
    language,
    model_head,
    model_row,
    number,
    scrolling,
    sortable,
    table,
)

__all__ = ["stability"]

_NAMED = 5  # queries that change


def stability(code: str, ranking: Ranking, places: Mapping[str, int]) -> Child:
    """For each model with repeats, the share of queries whose answers change, by feature."""
    tables = {} if ranking.evidence is None else ranking.evidence.tables
    steady = {model: each.stability() for model, each in tables.items() if each.repeats is not None}
    if not steady:
        return None
    names = list(dict.fromkeys(row.feature for rows in steady.values() for row in rows))
    lines = []
    for entry in (one for one in ranking if one.model in steady):
        repeats = tables[entry.model].repeats
        by_name = {row.feature: row for row in steady[entry.model]}
        cells = [number(float(len(repeats)), str(len(repeats)))] if repeats is not None else []
        for name in names:
            row = by_name.get(name)
            if row is None or not row.queries:
                cells.append(number(math.nan, ""))
                continue
            more = len(row.changing) - _NAMED
            listed = ", ".join(row.changing[:_NAMED]) + (f" and {more} more" if more > 0 else "")
            deviations = f"SD within {row.within**0.5:.3f}, between {row.between**0.5:.3f}"
            share = len(row.changing) / row.queries
            title = f"{deviations}; {listed}" if listed else deviations
            cells.append(number(share, f"{100 * share:.0f} %", title=title))
        rank = number(entry.rank, str(entry.rank))
        lines.append(
            model_row(rank, entry.model, f"#{code}/{places[entry.model]}", not entry.anchor, cells)
        )
    head = [*model_head("Rank"), sortable("asked"), *map(sortable, names)]
    words = (
        "Share of the queries whose answers differ in a feature from one time to another; under "
        "the pointer are the standard deviations within queries and between them, and queries "
        "that change. All figures on this page are means over the times, and count a query once."
    )
    shown = table(head, lines, class_="sortable")
    heading = tag("h3", "Asked again", id=f"{code}-stability")
    return tag("section", heading, *scrolling(shown, f"Asked again, {language(code).name}", words))
