"""Assert that a feature is within bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.dataset import Cluster, MirageDataset
from mirage.errors import FeatureError, SettingError
from mirage.features import FeatureSuite, FeatureTable, facts
from mirage.features.registry import canonical_name
from mirage.features.suite import FeatureLike
from mirage.generation import ModelLike
from mirage.leaderboard import Leaderboard
from mirage.models import Run
from mirage.statistics.bootstrap import Interval
from mirage.statistics.bounds import mean_bounds
from mirage.statistics.clusters import FEWEST_FOR_MEANS, cluster_codes
from mirage.testing._current_test import record
from mirage.testing._inputs import Place, dataset_of, run_of
from mirage.testing._remembered import cached_feature
from mirage.testing._shortfalls import (
    FellShortError,
    Finding,
    check_failed,
    format_value,
    raise_at_caller,
    shortfall_error,
    worst_lines,
)
from mirage.testing._unclear import Unclear, settle_unclear, unclear_action

__all__ = [
    "ALPHA",
    "BoundVerdict",
    "FeatureCheck",
    "assert_feature",
    "check_table",
    "compare_with_bounds",
    "confidence_of",
]

BoundVerdict = Literal["holds", "broken", "cannot tell"]

ALPHA = 0.05
"""How often a verdict is wrong, by default."""

_SYMBOLS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
_MOST_QUERIES = 1000  # that the message on an inconclusive result asks for
_ROUGHLY = 499  # weightings, which are enough for "about 40 queries"


@dataclass(frozen=True, slots=True)
class FeatureCheck:
    """A feature's mean, its interval, and what that says of the bounds.

    Attributes:
        feature: The feature's name.
        mean: The mean over the queries that have the feature.
        interval: The interval of the mean that the bounds are compared with.
        level: The share of such intervals that hold the mean.
        verdict: ``"holds"``, ``"broken"`` or ``"cannot tell"``.
        bounds: The bounds, by ``ge``, ``gt``, ``le`` or ``lt``.
        queries: The number of queries that have the feature.
        clusters: The number of clusters that these are in.
    """

    feature: str
    mean: float
    interval: Interval
    level: float
    verdict: BoundVerdict
    bounds: Mapping[str, float]
    queries: int
    clusters: int

    @property
    def requirement(self) -> str:
        """The bounds as text, such as ``>= 0.8``."""
        return " and ".join(f"{_SYMBOLS[kind]} {bound:g}" for kind, bound in self.bounds.items())


def compare_with_bounds(bounds: Mapping[str, float], interval: Interval) -> BoundVerdict:
    """Compare an interval with the bounds.

    Args:
        bounds: By ``ge``, ``gt``, ``le`` or ``lt``.
        interval: The interval of the mean; an end that is NaN is unknown.

    Returns:
        ``"holds"`` if the whole interval is within all bounds, ``"broken"`` if it is wholly beyond
        one of them, else ``"cannot tell"``.
    """
    # 9 decimals, so that rounding errors do not decide.
    low, high = (round(end, 9) for end in interval)
    broken = {
        "ge": lambda bound: high < bound,
        "gt": lambda bound: high <= bound,
        "le": lambda bound: low > bound,
        "lt": lambda bound: low >= bound,
    }
    within = {
        "ge": lambda bound: low >= bound,
        "gt": lambda bound: low > bound,
        "le": lambda bound: high <= bound,
        "lt": lambda bound: high < bound,
    }
    if any(broken[kind](bound) for kind, bound in bounds.items()):
        return "broken"
    return "holds" if all(within[kind](bound) for kind, bound in bounds.items()) else "cannot tell"


def confidence_of(bounds: Mapping[str, float], alpha: float) -> float:
    """Return the one-sided confidence at which a mean is compared with the bounds.

    With a bound on both sides each has half of ``alpha``.
    """
    sides = len({kind in ("ge", "gt") for kind in bounds})
    return 1 - alpha / max(sides, 1)


@raise_at_caller
def assert_feature(
    system: ModelLike,
    feature: FeatureLike,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    alpha: float = ALPHA,
    cannot_tell: Unclear | None = None,
    on: Place = None,
    cluster: Cluster = None,
    model: str | None = None,
    allow_failed: int = 0,
) -> FeatureCheck:
    """Assert that the mean of a feature is within bounds.

    The interval of the mean decides, not the mean alone. The assertion holds if the whole interval
    is within the bounds and fails if the whole interval is beyond one of them. Otherwise the
    queries are too few to tell: pytest then shows the test as skipped, with the number of queries
    that would tell, unless ``cannot_tell`` says otherwise. Five right answers of five are
    compatible with a system that is right in 55 %, so ``ge=0.8`` needs 14 right answers of 14.

    The mean is over the queries that have the feature: a query without a relevant passage has no
    citation recall, for instance. The message and the JUnit record say how many have it.
    A query that the model failed on has no feature either; more than ``allow_failed`` of these
    fail the assertion, whatever the mean.

    The interval is that of :func:`mirage.statistics.mean_bounds`. For a feature that declares its
    range (:class:`mirage.features.Facts`) it needs no minimum number of queries. Without a range it
    needs ten clusters with different values.

    Args:
        system: what :func:`mirage.respond` takes: a function, a generator, a run, a mapping from
            query id to text, or a path.
        feature: its name, such as ``"citation_recall@10"``; a function ``(query, response) ->
            float``; or a :class:`~mirage.features.Feature`.
        ge: The mean is at least this.
        gt: The mean is above this.
        le: The mean is at most this.
        lt: The mean is below this.
        alpha: The probability that the assertion fails though the mean is within the bounds, and
            that it holds though the mean is not; above 0 and below 0.5. If the feature declares no
            range and its values are skewed, the assertion is wrong more often.
        cannot_tell: ``"skip"``, ``"fail"`` or ``"pass"`` if the interval is on both sides of a
            bound; by default what pytest's ini option ``mirage_cannot_tell`` says, or else
            ``"skip"``. Outside of pytest nothing is skipped: check the ``verdict`` that is
            returned.
        on: the queries: a language code for the bundled ones, a dataset, or a leaderboard, which
            also knows its own features by name. By default the bundled ones of a run's language,
            or of the language that the test's marker ``mirage_language`` or the ini option names.
        cluster: What makes queries a cluster, such as a document that several are about, if
            :attr:`Query.cluster <mirage.Query>` does not say so: a key of their metadata, a
            function of the query, or a mapping from query id. A cluster counts as one query.
        model: its name in the message.
        allow_failed: queries that the model may fail on.

    Returns:
        The mean, its interval and the verdict, unless the assertion fails.

    Raises:
        FellShortError: A bound is broken; shows the five worst queries. An ``AssertionError``.
        SettingError: no bound, or one that is no number; or there is no such ``alpha``.
        FeatureError: no response has the feature.
        MirageError: whatever else is wrong with the model, the queries or the feature.
    """
    action = unclear_action(cannot_tell)
    limits = {"ge": ge, "gt": gt, "le": le, "lt": lt}
    _check_settings(limits, alpha)  # before a system is asked
    dataset = dataset_of(on, system)
    suite = _suite_of(feature, on)
    run = run_of(system, dataset, model)
    table = suite.score(dataset, run, cluster=cluster, progress=False)
    (label,) = suite.names
    checked = check_table(
        table, label, limits, dataset, run, alpha=alpha, allow_failed=allow_failed
    )
    record("mirage.feature", checked.as_record())
    if checked.result.verdict == "broken":
        raise checked.failure()
    if checked.result.verdict == "cannot tell":
        settle_unclear(action, checked.unclear_reason)
    return checked.result


class CheckedRun(NamedTuple):
    """A run whose feature was compared with bounds.

    Attributes:
        result: What came of it.
        table: The feature of each query.
        dataset: The queries.
        run: The responses.
    """

    result: FeatureCheck
    table: FeatureTable
    dataset: MirageDataset
    run: Run

    def as_record(self) -> dict[str, Any]:
        """Return the facts for the JUnit file."""
        result = self.result
        return {
            "model": self.run.model,
            "feature": result.feature,
            "mean": result.mean,
            "interval": _finite(result.interval),
            **result.bounds,
            "queries": len(self.table),
            "computed": result.queries,
            "clusters": result.clusters,
            "failed": len(self.run.failed),
            "verdict": result.verdict,
            "held": result.verdict == "holds",
        }

    def failure(self) -> FellShortError:
        """Return the error for a broken bound, with the worst queries."""
        result, table = self.result, self.table
        values = table[result.feature]
        lowest = any(
            compare_with_bounds({kind: bound}, result.interval) == "broken"
            for kind, bound in result.bounds.items()
            if kind in ("ge", "gt")
        )
        order = np.argsort(values if lowest else -values, kind="stable")[: result.queries]
        findings = [
            Finding(table.query_ids[i], f"{result.feature} {format_value(values[i])}")
            for i in order
        ]
        with_it = f"{result.queries} of {len(table)}"
        row = (
            result.feature,
            format_value(result.mean),
            _interval(result.interval),
            result.requirement,
            with_it,
        )
        return shortfall_error(
            f"{result.feature} of {self.run.model} is {format_value(result.mean)} on "
            f"{self.dataset.name}, not {result.requirement}",
            (
                "feature",
                "mean",
                f"{100 * result.level:g} % interval",
                "required",
                "queries with it",
            ),
            [(row, True)],
            [
                *_without(table, result.feature),
                *worst_lines(findings, f"Queries by {result.feature}", self.dataset, self.run),
            ],
        )

    def unclear_reason(self) -> str:
        """Return why nobody can tell, and how many queries would."""
        result = self.result
        start = (
            f"cannot tell whether {result.feature} of {self.run.model} is {result.requirement}: "
            f"its mean is {format_value(result.mean)} on {_count(result)} of {self.dataset.name}"
        )
        if math.isnan(sum(result.interval)):
            return (
                f"{start}, and without a range it has an interval only with "
                f"{FEWEST_FOR_MEANS} clusters or more that differ; declare the range of "
                f"{result.feature} (mirage.features.Facts)"
            )
        return (
            f"{start}, with a {100 * result.level:g} % interval of {_interval(result.interval)}; "
            f"{_queries_to_tell(self)}"
        )


def check_table(
    table: FeatureTable,
    label: str,
    limits: Mapping[str, float | None],
    dataset: MirageDataset,
    run: Run,
    *,
    alpha: float = ALPHA,
    allow_failed: int = 0,
) -> CheckedRun:
    """Compare a feature of a run with bounds, and return the verdict, whichever it is.

    Args:
        table: The features of the run on the dataset; may hold others too.
        label: The name of the feature in the table.
        limits: The bounds by ``ge``, ``gt``, ``le`` and ``lt``; ``None`` for no bound.
        dataset: The queries.
        run: The responses.
        alpha: As for :func:`assert_feature`.
        allow_failed: Queries that the model may fail on.

    Raises:
        FellShortError: The model failed on more than ``allow_failed`` queries.
    """
    bounds = _check_settings(limits, alpha)
    check_failed(run, dataset, allow_failed)
    computed = int(np.isfinite(table[label]).sum())
    if not computed:
        reason = next(why for (_, name), why in table.reasons.items() if name == label)
        raise FeatureError(f"{label} has no value for any response of {run.model!r}: {reason}")
    return CheckedRun(_check(table, label, bounds, alpha), table, dataset, run)


def _check_settings(limits: Mapping[str, float | None], alpha: float) -> dict[str, float]:
    """Return the bounds that are given, once they and ``alpha`` are known to make sense."""
    bounds = _bounds(limits)
    if not 0 < alpha < 0.5:
        raise SettingError(f"alpha must be above 0 and below 0.5, got {alpha!r}")
    return bounds


def _check(
    table: FeatureTable, label: str, bounds: Mapping[str, float], alpha: float
) -> FeatureCheck:
    values, codes = table[label], cluster_codes(table.query_ids, table.clusters)
    known = ~np.isnan(values)
    confidence = confidence_of(bounds, alpha)
    interval = _interval_of(values, codes, table, label, confidence)
    return FeatureCheck(
        label,
        round(float(values[known].mean()), 9),
        interval,
        round(2 * confidence - 1, 9),
        compare_with_bounds(bounds, interval),
        bounds,
        int(known.sum()),
        len(np.unique(codes[known])),
    )


def _interval_of(
    values: Floats,
    codes: Ints,
    table: FeatureTable,
    label: str,
    confidence: float,
    weightings: int = 9999,
) -> Interval:
    known = facts(label, table.facts)
    ends = np.array([known.low]), np.array([known.high])
    bounds = mean_bounds(values[:, None], codes, *ends, level=confidence, weightings=weightings)
    low, high = bounds[0].tolist()
    return low, high


def _queries_to_tell(checked: CheckedRun) -> str:
    """Return about how many queries with the same values would tell."""
    result, table = checked.result, checked.table
    if any(bound == result.mean for bound in result.bounds.values()):
        return "the mean is at the bound, which no number of queries settles"
    known = ~np.isnan(table[result.feature])
    values = table[result.feature][known]
    codes = cluster_codes(table.query_ids, table.clusters)[known]
    confidence = (1 + result.level) / 2

    def tells(times: int) -> bool:
        repeated = np.concatenate([codes + i * (codes.max() + 1) for i in range(times)])
        column = np.tile(values, times)
        interval = _interval_of(
            column, repeated, table, result.feature, confidence, weightings=_ROUGHLY
        )
        return compare_with_bounds(result.bounds, interval) != "cannot tell"

    times = 2
    while not tells(times):
        times *= 2
        if times * len(values) > _MOST_QUERIES:
            return f"to tell takes more than {_MOST_QUERIES:,} queries with the same mean"
    few = times // 2
    while times - few > 1:
        middle = (few + times) // 2
        few, times = (few, middle) if tells(middle) else (middle, times)
    return f"to tell takes about {times * len(values)} queries with the same mean"


def _finite(interval: Interval) -> list[float | None]:
    return [end if math.isfinite(end) else None for end in interval]


def _interval(interval: Interval) -> str:
    low, high = ("?" if math.isnan(end) else format_value(end) for end in interval)
    return f"[{low}, {high}]"


def _count(result: FeatureCheck) -> str:
    queries = f"{result.queries} quer{'y' if result.queries == 1 else 'ies'}"
    if result.clusters == result.queries:
        return queries
    return f"{queries} in {result.clusters} clusters that count as one each"


def _bounds(limits: Mapping[str, float | None]) -> dict[str, float]:
    bounds = {kind: bound for kind, bound in limits.items() if bound is not None}
    if not bounds:
        raise SettingError("assert_feature takes a bound: ge=, gt=, le= or lt=, such as ge=0.6")
    for kind, bound in bounds.items():
        if not isinstance(bound, Real) or not math.isfinite(bound):
            raise SettingError(f"the bound {kind}={bound!r} is no number")
    return {kind: float(bound) for kind, bound in bounds.items()}


def _suite_of(feature: FeatureLike, on: Place) -> FeatureSuite:
    """Return the feature alone; that of a leaderboard if it has one of this name."""
    if not isinstance(feature, str):
        return FeatureSuite([feature])
    own = {item.name: item for item in on.suite} if isinstance(on, Leaderboard) else {}
    name = canonical_name(feature)
    return FeatureSuite([own[name] if name in own else cached_feature(feature)])


def _without(table: FeatureTable, feature: str) -> list[str]:
    """A line on the queries that have no such feature."""
    reasons = {id_: why for (id_, label), why in table.reasons.items() if label == feature}
    if not reasons:
        return []
    id_, why = next(iter(reasons.items()))
    return [f"Without it, and not in the mean: {len(reasons)}, such as {id_}: {why}"]
