"""The assertion that the mean of a feature is within bounds."""

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
from mirage.features import Facts, FeatureSuite, FeatureTable, facts
from mirage.features.registry import canonical_name
from mirage.features.suite import FeatureLike
from mirage.generation.responses import ModelLike
from mirage.leaderboard import Leaderboard
from mirage.models import Run
from mirage.statistics.bootstrap import Interval
from mirage.statistics.bounds import mean_bounds
from mirage.statistics.clusters import FEWEST_FOR_MEANS, cluster_codes
from mirage.testing._current_test import record
from mirage.testing._feature_cache import cached_feature
from mirage.testing._inconclusive import OnInconclusive, inconclusive_action, settle_inconclusive
from mirage.testing._inputs import Place, dataset_of, run_of
from mirage.testing._shortfalls import (
    FellShortError,
    Finding,
    check_failed,
    format_value,
    raise_at_caller,
    shortfall_error,
    worst_lines,
)

BoundVerdict = Literal["holds", "broken", "inconclusive"]

ALPHA = 0.05
"""The default error rate of a verdict."""

_SYMBOLS = {"ge": ">=", "le": "<="}
_MOST_QUERIES = 1000  # the largest number of queries that a message recommends
_ROUGHLY = 499  # weightings; fewer than for a verdict, as the message says "about 40 queries"


@dataclass(frozen=True, slots=True)
class FeatureCheck:
    """The mean of a feature, its confidence interval, and the verdict on the bounds.

    Attributes:
        feature: Name of the feature.
        mean: Mean over the queries for which the feature has a value.
        interval: Confidence interval of the mean; the verdict compares it with the bounds.
        level: Confidence level of the interval.
        verdict: ``"holds"``, ``"broken"`` or ``"inconclusive"``.
        bounds: The lower bound under the key ``ge``, the upper bound under ``le``, or both.
        queries: Number of queries for which the feature has a value.
        clusters: Number of clusters of these queries.
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
    """Compare an interval with bounds.

    Args:
        bounds: The lower bound under the key ``ge``, the upper bound under ``le``, or both.
        interval: Confidence interval of the mean; an end is NaN if it is not known.

    Returns:
        ``"holds"`` if the whole interval is within all bounds, ``"broken"`` if it is wholly beyond
        one of them, otherwise ``"inconclusive"``.
    """
    # Rounded to 9 decimals, so that floating-point errors do not change the verdict.
    low, high = (round(end, 9) for end in interval)
    if any(high < bound if kind == "ge" else low > bound for kind, bound in bounds.items()):
        return "broken"
    within = (low >= bound if kind == "ge" else high <= bound for kind, bound in bounds.items())
    return "holds" if all(within) else "inconclusive"


def confidence_of(bounds: Mapping[str, float], alpha: float) -> float:
    """Return the one-sided confidence level of each end of the mean's interval.

    Args:
        bounds: The required bounds, under the keys ``ge`` and ``le``.
        alpha: Error rate. If there are both bounds, each side gets half of it.
    """
    return 1 - alpha / max(len(bounds), 1)


@raise_at_caller
def assert_feature(
    system: ModelLike,
    feature: FeatureLike,
    *,
    ge: float | None = None,
    le: float | None = None,
    alpha: float = ALPHA,
    inconclusive: OnInconclusive | None = None,
    on: Place = None,
    cluster: Cluster = None,
    model: str | None = None,
    allow_failed: int = 0,
) -> FeatureCheck:
    """Assert that the mean of a feature is within bounds.

    The confidence interval of the mean is compared with the bounds. The assertion holds if the
    whole interval is within the bounds and fails if the whole interval is beyond one of them.
    Otherwise it is inconclusive: pytest shows the test as skipped, with the number of queries that
    are needed. The argument ``inconclusive`` changes this outcome. For example, five right answers
    out of five are compatible with a system that is right in 55 % of cases, so ``ge=0.8`` needs 14
    right answers out of 14.

    The mean is over the queries for which the feature has a value. For instance, citation recall
    has no value for a query without a relevant passage, and no feature has a value for a query that
    the model failed on. The message and the JUnit record state how many queries have a value. If
    the model failed on more than ``allow_failed`` queries, the assertion fails, whatever the mean.

    :func:`mirage.statistics.mean_bounds` computes the interval. If the feature declares its range
    (:class:`mirage.features.Facts`), an interval can be computed from any number of queries.
    Otherwise at least ten clusters with different values are needed.

    Args:
        system: The system, as for :func:`mirage.respond`: a function, a generator, a run, a mapping
            from query id to text, or a path.
        feature: Name of a feature, such as ``"citation_recall@10"``; a function ``(query,
            response) -> float``; or a :class:`~mirage.features.Feature`.
        ge: The mean must be at least this value.
        le: The mean must be at most this value.
        alpha: Largest probability of each error: that the assertion fails although the true mean is
            within the bounds, and that it holds although the true mean is not. Above 0 and below
            0.5. If the feature declares no range and its values are skewed, the true rates are
            higher.
        inconclusive: ``"skip"``, ``"fail"`` or ``"pass"``: the outcome of the test if the assertion
            is inconclusive. The default is pytest's ini option ``mirage_inconclusive``, or
            ``"skip"`` if it is not set. Outside pytest nothing is skipped; check the ``verdict`` of
            the return value.
        on: The queries: a language code (for the bundled queries), a dataset, or a leaderboard,
            whose features can be selected by name. The default is the bundled queries in the
            language of ``system`` if it is a run. Otherwise the test's marker ``mirage_language``,
            or the ini option with this name, sets their language.
        cluster: Cluster of each query, such as the document that several queries are about: a key
            of their metadata, a function of the query, or a mapping from query id. The default is
            :attr:`Query.cluster <mirage.Query>`. A cluster counts as one query.
        model: Name of the model in the message.
        allow_failed: Number of queries that the model may fail on.

    Returns:
        The mean, its interval and the verdict, unless the assertion fails.

    Raises:
        FellShortError: A bound is broken; the message shows the five worst queries. It is an
            ``AssertionError``.
        SettingError: There is no bound, a bound is not a finite number or is outside the range of
            the feature, or ``alpha`` is out of range.
        FeatureError: No response has a value of the feature.
        MirageError: The model, the queries or the feature are invalid in another way.

    Example:
        >>> from mirage import MirageDataset, Query
        >>> queries = MirageDataset(
        ...     Query(id=f"q{i}", language="en", text="Who?", answers=[["Ada"]]) for i in range(20)
        ... )
        >>> assert_feature(lambda query: "It was Ada.", "answer_match", ge=0.8, on=queries).verdict
        'holds'
    """
    action = inconclusive_action(inconclusive)
    limits = {"ge": ge, "le": le}
    _check_settings(limits, alpha)  # fail early: asking the system may be slow or cost money
    dataset = dataset_of(on, system)
    suite = _suite_of(feature, on)
    check_range(suite.names[0], limits, suite.facts)
    run = run_of(system, dataset, model)
    table = suite.score(dataset, run, cluster=cluster, progress=False)
    (label,) = suite.names
    checked = check_table(
        table, label, limits, dataset, run, alpha=alpha, allow_failed=allow_failed
    )
    record("mirage.feature", checked.as_record())
    if checked.result.verdict == "broken":
        raise checked.failure()
    if checked.result.verdict == "inconclusive":
        settle_inconclusive(action, checked.inconclusive_reason)
    return checked.result


class CheckedRun(NamedTuple):
    """A run, and the result of comparing the mean of one of its features with bounds.

    Attributes:
        result: The mean, its interval and the verdict.
        table: The features of the run.
        dataset: The queries.
        run: The responses.
    """

    result: FeatureCheck
    table: FeatureTable
    dataset: MirageDataset
    run: Run

    def as_record(self) -> dict[str, Any]:
        """Return the result as a dictionary for the JUnit file."""
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
        lowest = round(result.interval[1], 9) < result.bounds.get("ge", -math.inf)
        order = np.argsort(values if lowest else -values, kind="stable")[: result.queries]
        findings = [
            Finding(table.query_ids[i], f"{result.feature} {format_value(values[i])}")
            for i in order
        ]
        count = f"{result.queries} of {len(table)}"
        row = (
            result.feature,
            format_value(result.mean),
            _format_interval(result.interval),
            result.requirement,
            count,
        )
        return shortfall_error(
            f"{result.feature} of {self.run.model} is {format_value(result.mean)} on "
            f"{self.dataset.name}, not {result.requirement}",
            (
                "feature",
                "mean",
                f"{100 * result.level:g} % interval",
                "required",
                "queries with a value",
            ),
            [(row, True)],
            [
                *_missing_value_lines(table, result.feature),
                *worst_lines(findings, f"Queries by {result.feature}", self.dataset, self.run),
            ],
        )

    def inconclusive_reason(self) -> str:
        """Return why the check is inconclusive, and how many queries would be enough."""
        result = self.result
        start = (
            f"cannot tell whether {result.feature} of {self.run.model} is {result.requirement}: "
            f"its mean is {format_value(result.mean)} on {_count(result)} of {self.dataset.name}"
        )
        if math.isnan(sum(result.interval)):
            return (
                f"{start}; a feature without a range has an interval only if at least "
                f"{FEWEST_FOR_MEANS} clusters have different values; declare the range of "
                f"{result.feature} (mirage.features.Facts)"
            )
        return (
            f"{start}, with a {100 * result.level:g} % interval of "
            f"{_format_interval(result.interval)}; {_describe_queries_needed(self)}"
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
    """Compare the mean of a feature with bounds; raise no error if a bound is broken.

    ``label`` is the name of the feature in ``table``. ``limits`` maps ``ge`` to the lower bound and
    ``le`` to the upper bound; ``None`` if there is no such bound.

    Raises:
        FellShortError: The model failed on more than ``allow_failed`` queries.
        FeatureError: No response has a value of the feature.
        SettingError: There is no bound, a bound is not a finite number or is outside the range of
            the feature, or ``alpha`` is out of range.
    """
    bounds = _check_settings(limits, alpha)
    check_range(label, bounds, table.facts)
    check_failed(run, dataset, allow_failed)
    computed = int(np.isfinite(table[label]).sum())
    if not computed:
        reason = next(why for (_, name), why in table.reasons.items() if name == label)
        raise FeatureError(f"{label} has no value for any response of {run.model!r}: {reason}")
    return CheckedRun(_check_bounds(table, label, bounds, alpha), table, dataset, run)


def _check_settings(limits: Mapping[str, float | None], alpha: float) -> dict[str, float]:
    """Return the bounds that are not ``None``; raise an error if they or ``alpha`` are invalid."""
    bounds = _valid_bounds(limits)
    if not 0 < alpha < 0.5:
        raise SettingError(f"alpha must be above 0 and below 0.5, got {alpha!r}")
    return bounds


def check_range(
    feature: str, limits: Mapping[str, float | None], declared: Mapping[str, Facts]
) -> None:
    """Raise an error if a bound is outside the range of a feature and so has no effect.

    Args:
        feature: Name of the feature.
        limits: Bounds under the keys ``ge`` and ``le``; ``None`` if there is no such bound.
        declared: Facts of the features that a user defined.
    """
    feature_facts = facts(feature, declared)
    low, high = feature_facts.low, feature_facts.high
    for name, bound in limits.items():
        if bound is not None and not low <= bound <= high:
            is_percent = (low, high) == (0, 1) and 2 <= bound <= 100
            hint = f"; did you mean {bound / 100:g}?" if is_percent else ""
            raise SettingError(
                f"{feature} {_SYMBOLS[name]} {bound:g}: the range of {feature} is {low:g} to "
                f"{high:g}{hint}"
            )


def _check_bounds(
    table: FeatureTable, label: str, bounds: Mapping[str, float], alpha: float
) -> FeatureCheck:
    values, codes = table[label], cluster_codes(table.query_ids, table.clusters)
    is_value = ~np.isnan(values)
    confidence = confidence_of(bounds, alpha)
    interval = _interval_of(values, codes, table, label, confidence)
    return FeatureCheck(
        label,
        round(float(values[is_value].mean()), 9),
        interval,
        round(2 * confidence - 1, 9),
        compare_with_bounds(bounds, interval),
        bounds,
        int(is_value.sum()),
        len(np.unique(codes[is_value])),
    )


def _interval_of(
    values: Floats,
    codes: Ints,
    table: FeatureTable,
    label: str,
    confidence: float,
    weightings: int = 9999,
) -> Interval:
    feature_facts = facts(label, table.facts)
    ends = np.array([feature_facts.low]), np.array([feature_facts.high])
    bounds = mean_bounds(values[:, None], codes, *ends, level=confidence, weightings=weightings)
    low, high = bounds[0].tolist()
    return low, high


def _describe_queries_needed(checked: CheckedRun) -> str:
    """Describe how many queries a verdict needs if further queries have similar values."""
    result, table = checked.result, checked.table
    if any(bound == result.mean for bound in result.bounds.values()):
        return "the mean is at the bound, so more queries would not give a verdict"
    is_value = ~np.isnan(table[result.feature])
    values = table[result.feature][is_value]
    # Clusters without a value would leave gaps between the codes.
    _, codes = np.unique(
        cluster_codes(table.query_ids, table.clusters)[is_value], return_inverse=True
    )
    confidence = (1 + result.level) / 2

    def is_conclusive(times: int) -> bool:
        repeated = np.concatenate([codes + i * (codes.max() + 1) for i in range(times)])
        column = np.tile(values, times)
        interval = _interval_of(
            column, repeated, table, result.feature, confidence, weightings=_ROUGHLY
        )
        return compare_with_bounds(result.bounds, interval) != "inconclusive"

    # Double the number of copies of the queries until they are enough, then bisect.
    times = 2
    while not is_conclusive(times):
        times *= 2
        if times * len(values) > _MOST_QUERIES:
            return f"a verdict needs more than {_MOST_QUERIES:,} queries with the same mean"
    few = times // 2
    while times - few > 1:
        middle = (few + times) // 2
        few, times = (few, middle) if is_conclusive(middle) else (middle, times)
    clusters = f" in {times * result.clusters} clusters" if result.clusters < len(values) else ""
    return f"a verdict needs about {times * len(values)} queries{clusters} with the same mean"


def _finite(interval: Interval) -> list[float | None]:
    return [end if math.isfinite(end) else None for end in interval]


def _format_interval(interval: Interval) -> str:
    low, high = ("?" if math.isnan(end) else format_value(end) for end in interval)
    return f"[{low}, {high}]"


def _count(result: FeatureCheck) -> str:
    queries = f"{result.queries} quer{'y' if result.queries == 1 else 'ies'}"
    if result.clusters == result.queries:
        return queries
    return f"{queries} in {result.clusters} clusters that count as one each"


def _valid_bounds(limits: Mapping[str, float | None]) -> dict[str, float]:
    bounds = {kind: bound for kind, bound in limits.items() if bound is not None}
    if not bounds:
        raise SettingError(
            "assert_feature needs a lower bound ge= or an upper bound le=, such as ge=0.6"
        )
    for kind, bound in bounds.items():
        if not isinstance(bound, Real) or not math.isfinite(bound):
            raise SettingError(f"the bound {kind}={bound!r} is not a finite number")
    return {kind: float(bound) for kind, bound in bounds.items()}


def _suite_of(feature: FeatureLike, on: Place) -> FeatureSuite:
    """Return a suite with only this feature.

    If ``on`` is a leaderboard that has a feature of this name, the suite contains that one.
    """
    if not isinstance(feature, str):
        return FeatureSuite([feature])
    board = {item.name: item for item in on.suite} if isinstance(on, Leaderboard) else {}
    name = canonical_name(feature)
    return FeatureSuite([board[name] if name in board else cached_feature(feature)])


def _missing_value_lines(table: FeatureTable, feature: str) -> list[str]:
    """Return a line that counts the queries without a value of the feature, if there are any."""
    reasons = {id_: why for (id_, label), why in table.reasons.items() if label == feature}
    if not reasons:
        return []
    id_, why = next(iter(reasons.items()))
    return [f"Queries without a value, not in the mean: {len(reasons)}, such as {id_}: {why}"]
