"""Format the features of runs for commands, as text and as JSON data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mirage.features import FeatureTable
    from mirage.features.streams import ScoredRun
    from mirage.features.table import Stability


def feature_text(table: FeatureTable) -> str:
    """Return a table of the features of a run, as text.

    The table has the mean of each feature with its interval, and the number of values that could
    not be computed. Notes below the table give the reasons.
    """
    from mirage._base.tables import Table, no_interval_notes, parts, to_text

    title = f"{table.model}: {len(table)} queries in {table.language!r}"
    gaps = (table.values != table.values).sum(axis=0).tolist()
    spans = [ends(*pair) for pair in table.intervals().tolist()]
    columns = zip(table.features, table.mean().tolist(), spans, gaps, strict=True)
    rows = tuple(
        (name, number(mean), span, str(missing or ""), _stability(steady))
        for (name, mean, span, missing), steady in zip(columns, table.stability(), strict=True)
    )
    # All features without a single value are listed, but only three reasons for other gaps.
    missing = table.unmeasured
    notes = no_interval_notes(_no_intervals(table), [n for n in table.features if n not in missing])
    notes += [f"not measured, {name}: {why}" for name, why in missing.items()]
    reasons = sorted(
        {f"{name}: {why}" for (_, name), why in table.reasons.items() if name not in missing}
    )
    more = f"; and {len(reasons) - 3} more reasons" if len(reasons) > 3 else ""
    notes += ["not computed: " + "; ".join(reasons[:3]) + more] if reasons else []
    if table.repeats is not None:
        title += f", asked {len(table.repeats)} times"
        notes.append(
            "change: queries whose answers differ in the feature, and the 95 % interval of their "
            "share"
        )
    header = ("feature", "mean", "95 % interval", "not computed", "change")
    whole = Table(title, header, rows, notes=tuple(notes), name=0).filled()
    return "\n\n".join(map(to_text, parts(whole)))  # names are copied, so they are not cut


def _no_intervals(table: FeatureTable) -> dict[str, str]:
    """Return the reason why a mean has no interval, by name of the feature."""
    from mirage.statistics.clusters import cluster_codes, no_interval_reasons

    codes = cluster_codes(table.query_ids, table.clusters)
    return no_interval_reasons(table.features, table.values, codes, table.intervals())


def _stability(steady: Stability) -> str:
    """Return, as text, the number of queries on which a feature changes between repeats.

    The text is empty if there are no repeats.
    """
    low, high = (100 * end for end in steady.interval)
    if low != low:
        return ""
    return f"{len(steady.changing)} of {steady.queries} ({low:.0f} to {high:.0f} %)"


def number(value: float) -> str:
    """Format a value for a table, with three decimals; a dash if it is NaN."""
    return "-" if value != value else f"{value:.3f}"


def ends(low: float, high: float) -> str:
    """Format an interval for a table; empty if its ends are NaN."""
    return "" if low != low else f"[{low:.3f}, {high:.3f}]"


def scored_text(scored: ScoredRun) -> str:
    """Return a table of a scored run's feature means, and the number of responses that failed."""
    failed = len(scored.failed)
    note = f"\n{failed} of {scored.responses} responses failed" if failed else ""
    return feature_text(scored.table) + note


def scored_plain(scored: ScoredRun) -> dict[str, Any]:
    """Return, as JSON data, a scored run's feature means and the responses that failed."""
    return table_plain(scored.table, scored.missing) | {"failed": list(scored.failed)}


def table_plain(table: FeatureTable, missing: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Return the means of a table's features as JSON data, without the values of single queries.

    ``missing`` has the number of missing values by feature and reason.
    """
    reasons = [
        {"feature": name, "reason": why, "queries": count}
        for name, counts in missing.items()
        for why, count in counts.items()
    ]
    return _means(table) | {"not_computed": reasons}


def _means(table: FeatureTable) -> dict[str, Any]:
    return {
        "model": table.model,
        "language": table.language,
        "mean": dict(zip(table.features, table.mean().tolist(), strict=True)),
        "interval": dict(zip(table.features, table.intervals().tolist(), strict=True)),
        "no_interval": _no_intervals(table),
        "repeats": 1 if table.repeats is None else len(table.repeats),
        "stability": [
            steady._asdict() for steady in table.stability() if table.repeats is not None
        ],
    }


def feature_plain(table: FeatureTable) -> dict[str, Any]:
    """Return the features of a run as JSON data."""
    means = _means(table)
    queries = {
        query_id: dict(zip(table.features, row, strict=True))
        for query_id, row in zip(table.query_ids, table.values.tolist(), strict=True)
    }
    return means | {
        "queries": queries,
        "not_computed": [
            {"query_id": query_id, "feature": name, "reason": why}
            for (query_id, name), why in table.reasons.items()
        ],
    }
