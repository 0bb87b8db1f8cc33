"""mirage features: responses scored by features."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import dataset_of, named_numbers, runs_of
from mirage.cli._output import out_either
from mirage.cli._shell import app, example, fall_short, flag, option, shortfalls
from mirage.errors import UnknownNameError

if TYPE_CHECKING:
    from mirage.features import FeatureTable

__all__ = ["features"]


@app.command(
    epilog=example(
        "mirage features sw my-rag.jsonl",
        "mirage features sw my-rag.jsonl --min citation_recall@10=0.6",
    )
)
def features(
    language: options.Language,
    responses: options.Responses,
    name: options.Names = None,
    feature: options.Features = None,
    minimum: Annotated[
        list[str] | None,
        option(
            "NAME=NUMBER",
            "Fall short (status 1) where the mean of a feature is lower; may be repeated.",
            "--min",
        ),
    ] = None,
    allow_failed: options.AllowFailed = 0,
    per_query: Annotated[
        bool, flag("Show each query, and not the means only.", "--per-query")
    ] = False,
    dataset: options.Dataset = None,
    cluster: options.Cluster = None,
    jobs: options.Jobs = 1,
    as_json: options.Json = False,
) -> None:
    """Score responses by features, such as citation_recall@10.

    Means come with 95 % intervals.

    A value that cannot be computed is left out of the mean, and counted.
    """
    from mirage.features import FeatureSuite, canonical_name

    queries = dataset_of(language, dataset)
    suite = FeatureSuite(feature) if feature else FeatureSuite.offline().applicable(queries)
    minimums = {
        canonical_name(text): least for text, least in named_numbers("--min", minimum).items()
    }
    for label in minimums:
        if label not in suite.names:
            raise UnknownNameError("feature of this suite", label, suite.names)
    runs = runs_of(queries.language, responses, name)
    tables = [suite.score(queries, run, cluster=cluster, n_jobs=jobs) for run in runs]
    text = "\n\n".join(_text(table, per_query) for table in tables)
    out_either(text, [_plain(table) for table in tables], as_json)
    if minimums:
        from mirage.testing import assert_feature

        fall_short(
            shortfalls(
                partial(assert_feature, run, label, ge=least, on=queries, allow_failed=allow_failed)
                for run in runs
                for label, least in minimums.items()
            )
        )


def _text(table: FeatureTable, per_query: bool) -> str:
    from mirage._base.tables import Table, to_text

    title = f"{table.model}: {len(table)} queries in {table.language!r}"
    gaps = (table.values != table.values).sum(axis=0).tolist()
    ends = [_ends(*pair) for pair in table.intervals().tolist()]
    columns = zip(table.features, table.mean().tolist(), ends, gaps, strict=True)
    rows = tuple(
        (name, _number(mean), span, str(missing or "")) for name, mean, span, missing in columns
    )
    reasons = sorted({f"{name}: {why}" for (_, name), why in table.reasons.items()})
    more = f"; and {len(reasons) - 3} more reasons" if len(reasons) > 3 else ""
    notes = ("not computed: " + "; ".join(reasons[:3]) + more,) if reasons else ()
    header = ("feature", "mean", "95 % interval", "not computed")
    text = to_text(Table(title, header, rows, notes=notes, name=0).filled())
    return text if not per_query else f"{text}\n\n{_by_query(table)}"


def _by_query(table: FeatureTable) -> str:
    """The queries in tables of three features, which 80 columns have room for."""
    from mirage._base.tables import Table, to_text

    parts = []
    for start in range(0, len(table.features), 3):
        some = slice(start, start + 3)
        values = zip(table.query_ids, table.values[:, some].tolist(), strict=True)
        rows = tuple((query_id, *map(_number, row)) for query_id, row in values)
        parts.append(to_text(Table("", ("query", *table.features[some]), rows, name=0)))
    return "\n\n".join(parts)


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.3f}"


def _ends(low: float, high: float) -> str:
    return "" if low != low else f"[{low:.3f}, {high:.3f}]"


def _plain(table: FeatureTable) -> dict[str, Any]:
    return {
        "model": table.model,
        "language": table.language,
        "mean": dict(zip(table.features, table.mean().tolist(), strict=True)),
        "interval": dict(zip(table.features, table.intervals().tolist(), strict=True)),
        "queries": {
            query_id: dict(zip(table.features, row, strict=True))
            for query_id, row in zip(table.query_ids, table.values.tolist(), strict=True)
        },
        "not_computed": [
            {"query_id": query_id, "feature": name, "reason": why}
            for (query_id, name), why in table.reasons.items()
        ],
    }
