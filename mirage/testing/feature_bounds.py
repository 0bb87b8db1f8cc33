"""Assert that a feature is within bounds."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from numbers import Real

import numpy as np

from mirage.errors import FeatureError, SettingError
from mirage.features import FeatureSuite, FeatureTable
from mirage.features.registry import canonical_name
from mirage.features.suite import FeatureLike
from mirage.generation import ModelLike
from mirage.leaderboard import Leaderboard
from mirage.testing._current_test import record
from mirage.testing._inputs import Place, dataset_of, run_of
from mirage.testing._shortfalls import (
    Finding,
    check_failed,
    fell_short,
    from_here,
    number,
    worst,
)

__all__ = ["assert_feature"]


_BOUNDS: Mapping[str, tuple[str, Callable[[float, float], bool]]] = {
    "ge": (">=", operator.ge),
    "gt": (">", operator.gt),
    "le": ("<=", operator.le),
    "lt": ("<", operator.lt),
}


@from_here
def assert_feature(
    system: ModelLike,
    feature: FeatureLike,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    on: Place = None,
    model: str | None = None,
    allow_failed: int = 0,
) -> None:
    """Assert that the mean of a feature is within bounds.

    The mean is over the queries that have the feature: a query without a relevant passage has no
    citation recall, for instance. How many have it is said when the assertion fails, and recorded.
    A query that the model failed on has no feature either; more than ``allow_failed`` of these
    fail the assertion, whatever the mean.

    Args:
        system: what :func:`mirage.respond` takes: a function, a generator, a run, a mapping from
            query id to text, or a path.
        feature: its name, such as ``"citation_recall@10"``; a function ``(query, response) ->
            float``; or a :class:`~mirage.features.Feature`.
        ge: the mean is this or more.
        gt: it is more than this.
        le: it is this or less.
        lt: it is less than this.
        on: the queries: a language code for the bundled ones, a dataset, or a leaderboard, which
            also knows its own features by name. By default the bundled ones of a run's language,
            or of the language that the test's marker ``mirage_language`` or the ini option names.
        model: its name in the message.
        allow_failed: queries that the model may fail on.

    Raises:
        FellShortError: it is not; shows the five worst queries. An ``AssertionError``.
        SettingError: no bound, or one that is no number.
        FeatureError: no response has the feature.
        MirageError: whatever else is wrong with the model, the queries or the feature.
    """
    bounds = _bounds({"ge": ge, "gt": gt, "le": le, "lt": lt})
    dataset = dataset_of(on, system)
    suite = _suite_of(feature, on)
    run = run_of(system, dataset, model)
    table = suite.score(dataset, run, progress=False)
    check_failed(run, dataset, allow_failed)
    (label,) = suite.names
    values = table[label]
    computed = int(np.isfinite(values).sum())
    if not computed:
        reason = next(iter(table.reasons.values()))
        raise FeatureError(f"{label} has no value for any response of {run.model!r}: {reason}")
    # 9 decimals: the mean of ten times 0.6 is to be 0.6.
    mean = round(float(np.nanmean(values)), 9)
    broken = [kind for kind, bound in bounds.items() if not _BOUNDS[kind][1](mean, bound)]
    asked = " and ".join(f"{_BOUNDS[kind][0]} {bound:g}" for kind, bound in bounds.items())
    facts = {"model": run.model, "feature": label, "mean": mean, **bounds}
    counts = {"queries": len(table), "computed": computed, "failed": len(run.failed)}
    record("mirage.feature", {**facts, **counts, "held": not broken})
    if broken:
        lowest = broken[0] in ("ge", "gt")
        order = np.argsort(values if lowest else -values, kind="stable")[:computed]
        findings = [Finding(table.query_ids[i], f"{label} {number(values[i])}") for i in order]
        raise fell_short(
            f"{label} of {run.model} is {number(mean)} on {dataset.name}, not {asked}",
            ("feature", "mean", "asked", "queries with it"),
            [((label, number(mean), asked, f"{computed} of {len(table)}"), True)],
            [*_without(table, label), *worst(findings, f"Queries by {label}", dataset, run)],
        )


def _bounds(limits: Mapping[str, float | None]) -> dict[str, float]:
    bounds = {kind: bound for kind, bound in limits.items() if bound is not None}
    if not bounds:
        raise SettingError("assert_feature takes a bound: ge=, gt=, le= or lt=, such as ge=0.6")
    for kind, bound in bounds.items():
        if not isinstance(bound, Real) or not math.isfinite(bound):
            raise SettingError(f"the bound {kind}={bound!r} is no number")
    return {kind: float(bound) for kind, bound in bounds.items()}


def _suite_of(feature: FeatureLike, on: Place) -> FeatureSuite:
    """The feature alone; a leaderboard's own where it has one of the name."""
    if isinstance(on, Leaderboard) and isinstance(feature, str):
        own = {item.name: item for item in on.suite}
        return FeatureSuite([own.get(canonical_name(feature), feature)])
    return FeatureSuite([feature])


def _without(table: FeatureTable, feature: str) -> list[str]:
    """A line on the queries that have no such feature."""
    reasons = {id_: why for (id_, label), why in table.reasons.items() if label == feature}
    if not reasons:
        return []
    id_, why = next(iter(reasons.items()))
    return [f"Without it, and not in the mean: {len(reasons)}, such as {id_}: {why}"]
