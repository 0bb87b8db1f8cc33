"""Comparison of the scores of two systems, which may have been computed by any tool."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

from mirage._base.arrays import Floats
from mirage.errors import DatasetError, SettingError
from mirage.features import FeatureTable
from mirage.features.table import TOLERANCE
from mirage.scores.metrics import MetricFacts
from mirage.scores.reading import FieldNames, read_scores
from mirage.scores.records import ScoreFile, is_score, shortened
from mirage.statistics.bootstrap import Interval
from mirage.statistics.bounds import weighted_means
from mirage.statistics.paired import paired_means
from mirage.statistics.permutation import holm
from mirage.testing._score_pairs import (
    COLUMN,
    Failures,
    MetricPairs,
    all_scores,
    check_common_items,
    check_metric_names,
    choose_metrics,
    clusters_of,
    facts_of,
    pair_scores,
    repeated,
    scores_of,
    unseen_change,
)
from mirage.testing.comparison import Comparison, compare
from mirage.testing.score_changes import MetricChange, ScoreComparison

Scales = Mapping[str, tuple[float, float]]

_NO_DIRECTION = (
    "neither higher nor lower scores are better; state the direction with --higher-is-better {0!r} "
    "or --lower-is-better {0!r}"
)
_INTERVAL_ALPHA = 0.05  # the intervals have the level 0.95, whatever the alpha of the verdicts


def compare_scores(
    before: Any,
    after: Any,
    *,
    metrics: Sequence[str] | None = None,
    fields: FieldNames | None = None,
    format: str | None = None,
    before_system: str | None = None,
    after_system: str | None = None,
    lower_is_better: Collection[str] = (),
    higher_is_better: Collection[str] = (),
    scales: Scales = MappingProxyType({}),
    failures: Failures = "worst",
    alpha: float = 0.05,
    margin: float = 0.1,
) -> ScoreComparison:
    """Compare the scores of two systems on the same items, metric by metric.

    The scores may come from any tool. The test is that of :func:`assert_no_regression`, without its
    rules for features of this library. It includes a paired permutation test, which swaps the two
    scores of random items, and swaps all items of a cluster together. Repeats of an item are
    averaged. P-values are corrected for the number of metrics by Holm's method. A metric is
    ``no worse`` if the upper bound of its mean loss is within the margin, at the level
    ``1 - alpha`` for each metric. ``validation/coverage/compared_scores.py`` prints the rates of
    wrong verdicts.

    If gains are rare but large, a sample may lack them. A ``worse`` metric must therefore have lost
    more than such gains could make up. The scale limits their size. A metric without a scale, such
    as a latency, is never ``no worse``, and its rare gains are assumed to be at most five times the
    range of the scores of both systems. ``validation/coverage/unscaled_scores.py`` prints the rates
    of wrong verdicts for such metrics.

    A failed score counts as the worst score of its scale, so that a system cannot raise its mean by
    failing more often. For the verdict ``no worse``, this holds for ``after`` only: a failed score
    of ``before`` is left out, because it could make up for a loss on other items. An item that only
    ``before`` has counts as a complete loss for the verdict ``no worse``, and does not count for
    ``worse``.

    Args:
        before: Earlier scores. A file may be a results file from ragas, DeepEval, promptfoo,
            inspect_ai, lm-evaluation-harness, pydantic-evals, TruLens, Langfuse or Phoenix,
            OpenTelemetry spans, or any table (CSV, JSON, JSON Lines or Parquet). An object may be a
            DataFrame, a list of rows, each of them a mapping, or a result in memory such as ragas'
            ``EvaluationResult``.
        after: Later scores, in any of these forms.
        metrics: Names of the metrics to compare; by default all that both systems have. If a
            metric of one system is missing on the other side, the verdict is then not ``no worse``.
        fields: Names of fields, such as ``{"cluster": "metadata.document"}``. The keys are
            ``item``, ``system``, ``cluster`` and ``repeat``, and in a table also ``score`` (one
            name or several), ``metric``, ``error`` and ``answer``.
        format: Name of the format, such as ``ragas``; by default it is detected from the content.
        before_system: Name of the earlier system, if ``before`` has several.
        after_system: Name of the later system, if ``after`` has several.
        lower_is_better: Metrics for which smaller is better. The direction of common metrics and
            of the features of this library is known; this setting overrides it.
        higher_is_better: Metrics for which larger is better. This is also assumed for metrics that
            are not known.
        scales: Lowest and highest possible score by metric. The default is the range of the
            feature of this library with this name, or 0 to 1 if all scores are in this range. ``no
            worse`` needs a scale.
        failures: ``worst``: failures count as the worst score. ``skip``: items that fail in either
            system, or that either system lacks, are left out.
        alpha: Significance level of each verdict.
        margin: The loss that ``no worse`` rules out, as a share of the scale.

    Returns:
        The comparison; its ``verdict`` is ``worse``, ``no worse`` or ``inconclusive``.

    Raises:
        DatasetError: A file cannot be read, or the systems have no item or metric in common.
        UnknownNameError: There is no such metric, system, field or format.
        SettingError: A setting is out of range, or the direction of a metric is not known.

    Example:
        >>> before = [{"item": f"q{i}", "score": 1} for i in range(30)]
        >>> after = [{"item": f"q{i}", "score": i % 2} for i in range(30)]
        >>> compare_scores(before, after).verdict
        'worse'
    """
    for name, value in {"alpha": alpha, "margin": margin}.items():
        if not 0 < value < (0.5 if name == "alpha" else 1):
            raise SettingError(
                f"{name} must be above 0 and below {0.5 if name == 'alpha' else 1}, got {value!r}"
            )
    if failures not in get_args(Failures):
        raise SettingError(f"failures must be worst or skip, got {failures!r}")
    files = (
        read_scores(before, fields=fields, format=format, name="before").of_system(before_system),
        read_scores(after, fields=fields, format=format, name="after").of_system(after_system),
    )
    names, not_compared, lacking = _common_metrics(*files, metrics)
    check_metric_names(names, lower_is_better, higher_is_better, scales)
    check_common_items(*files)
    clusters = clusters_of(*files)
    changes = []
    for name in names:
        sides = [scores_of(file, name) for file in files]
        facts = facts_of(
            name, files, sides, lower=lower_is_better, higher=higher_is_better, scales=scales
        )
        if not facts.has_direction:
            if metrics is not None:
                raise SettingError(f"metric {name!r}: {_NO_DIRECTION.format(name)}")
            not_compared[name] = _NO_DIRECTION.format(name)
            continue
        pairs = pair_scores(sides[0], sides[1], facts, clusters, failures)
        if not len(pairs.before) or not len(pairs.scored_before):
            not_compared[name] = "no item has a score from both systems"
            lacking.append(name)
            continue
        changes.append((name, facts, pairs, all_scores(*sides)))
    if not changes:
        reasons = "; ".join(f"{name}: {why}" for name, why in not_compared.items())
        raise DatasetError(f"no metric can be compared: {reasons}")
    earlier, later = (dict.fromkeys(entry.item for entry in file.entries) for file in files)
    labels = _labels(*files)
    return ScoreComparison(
        *labels,
        _measure_changes(changes, alpha, margin),
        tuple(item for item in earlier if item not in later),
        tuple(item for item in later if item not in earlier),
        not_compared,
        alpha,
        margin,
        failures,
        tuple(_remarks(files, labels)),
        tuple(lacking),
    )


def _common_metrics(
    before: ScoreFile, after: ScoreFile, chosen: Sequence[str] | None
) -> tuple[list[str], dict[str, str], list[str]]:
    """Return the metrics to compare, and the others.

    Args:
        before: The earlier scores.
        after: The later scores.
        chosen: Metrics that the user chose; ``None`` for all.

    Returns:
        The metrics to compare, the reasons why others are not compared, and those of the others
        that one of the files has scores of.
    """
    names = [name for name in before.metrics if name in after.metrics]
    reasons = {**before.skipped, **after.skipped}
    lacking = []
    for file, other in ((before, after), (after, before)):
        for name in file.metrics:
            if name not in other.metrics:
                reasons[name] = f"{Path(other.source).name} has no score of it{_found(other, name)}"
                lacking.append(name)
    if not names:
        raise DatasetError(
            f"the files have no metric in common: {before.source} has "
            f"{', '.join(before.metrics)}; {after.source} has {', '.join(after.metrics)}"
        )
    chosen_names = choose_metrics(names, reasons, chosen, "compared")
    return chosen_names, *((reasons, lacking) if chosen is None else ({}, []))


def _found(file: ScoreFile, name: str) -> str:
    """Return a text that shows the first value of a field that is no number; empty if none is."""
    for entry in file.entries:
        value = entry.raw.get(name)
        if value is not None and not is_score(value):
            return f"; {entry.where}: {name!r} is {shortened(value)}, which is no number"
    return ""


def _labels(before: ScoreFile, after: ScoreFile) -> tuple[str, str]:
    """Return the names of both systems or, if a name is missing or they are equal, their files."""
    systems = [file.systems[0] for file in (before, after)]
    if all(systems) and systems[0] != systems[1]:
        return systems[0], systems[1]
    stems = [Path(file.source).name for file in (before, after)]
    if stems[0] == stems[1]:
        return before.source, after.source
    return stems[0], stems[1]


def _remarks(files: Sequence[ScoreFile], labels: Sequence[str]) -> list[str]:
    remarks = []
    for file, label in zip(files, labels, strict=True):
        several, same = repeated(file)
        if same:
            remarks.append(
                f"{label}: {same} items occur twice in the same repeat; their scores are averaged"
            )
        elif several and not any(entry.repeat for entry in file.entries):
            remarks.append(
                f"{label}: {several} items occur more than once; their scores are averaged as "
                "repeats"
            )
    return remarks


def _measure_changes(
    rows: Sequence[tuple[str, MetricFacts, MetricPairs, Floats]], alpha: float, margin: float
) -> tuple[MetricChange, ...]:
    comparisons = [_compare_both_ways(facts, pairs, alpha, margin) for _, facts, pairs, _ in rows]
    unseen = [0.0 if facts.has_scale else unseen_change(scores) for _, facts, _, scores in rows]
    sides = list(zip(comparisons, unseen, strict=True))
    worse = holm([_p_value(each.forward, change) for each, change in sides])
    better = holm([_p_value(each.backward, change) for each, change in sides])
    return tuple(
        _change(name, facts, pairs, scores, *side, float(p), float(gain))
        for (name, facts, pairs, scores), side, p, gain in zip(
            rows, sides, worse, better, strict=True
        )
    )


class _Comparisons(NamedTuple):
    """Comparisons of two systems in one metric.

    Attributes:
        forward: The comparison on the items that both systems have.
        backward: The same comparison with the systems exchanged. It tests whether the later system
            is better.
        whole: The comparison for the verdict ``no worse``. Items that the later system lacks are
            complete losses, and earlier scores that failed are left out.
    """

    forward: Comparison
    backward: Comparison
    whole: Comparison


def _compare_both_ways(
    facts: MetricFacts, pairs: MetricPairs, alpha: float, margin: float
) -> _Comparisons:
    lower = (COLUMN,) if facts.lower_is_better else ()

    def compared(before: FeatureTable, after: FeatureTable) -> Comparison:
        return compare(before, after, lower, clusters=pairs.clusters, alpha=alpha, margin=margin)

    before, after = pairs.before, pairs.after
    forward, backward = compared(before, after), compared(after, before)
    earlier, later = pairs.scored_before, pairs.scored_after
    is_same = earlier.query_ids == before.query_ids and (earlier.values == before.values).all()
    whole = forward if is_same else compared(earlier, later)
    return _Comparisons(forward, backward, whole)


def _p_value(comparison: Comparison, unseen: float) -> float:
    """Return the p-value of a loss; 1 if there is no loss, or too few clusters for a verdict.

    ``unseen`` is the largest gain that a metric without a scale can have on items that the sample
    lacks. It is 0 for a metric with a scale, because its comparison allows for such gains already.
    """
    [change] = comparison.changes
    if not change.fell or comparison.clusters < comparison.fewest:
        return 1.0
    if not unseen:
        return change.p
    gains = weighted_means(-comparison.worsening, comparison.codes, most=unseen)
    return max(change.p, float((gains >= 0).mean()))


def _change(
    name: str,
    facts: MetricFacts,
    pairs: MetricPairs,
    scores: Floats,
    comparisons: _Comparisons,
    unseen: float,
    p: float,
    p_better: float,
) -> MetricChange:
    comparison, whole = comparisons.forward, comparisons.whole
    [change] = comparison.changes
    gaps = comparison.after.values - comparison.before.values
    [difference] = paired_means(gaps, comparison.codes, most=facts.high - facts.low)
    p_up, p_down = (p, p_better) if facts.lower_is_better else (p_better, p)
    worsening = comparison.worsening[:, 0]  # means over repeats have rounding errors
    is_certain = not whole.inconclusive and whole.evidence.is_enough
    is_worse = p <= comparison.alpha
    # Failures before lower the earlier mean, so a gain does not count if it may hide a loss.
    is_better = p_better <= comparison.alpha and (is_certain or not pairs.failed[0])
    return MetricChange(
        metric=name,
        facts=facts,
        before=change.before,
        after=change.after,
        difference=difference.difference,
        interval=_agree_with_tests(difference.interval, p_up, p_down),
        p=p,
        p_better=p_better,
        lost_at_most=whole.changes[0].lost_at_most,
        unseen=unseen,
        items=change.queries,
        clusters=comparison.clusters,
        worse=int((worsening > TOLERANCE).sum()),
        better=int((worsening < -TOLERANCE).sum()),
        failed=pairs.failed,
        worst=facts.worst(scores),
        unscored=pairs.unscored,
        left_out=pairs.left_out,
        verdict="worse" if is_worse else "no worse" if is_certain else "inconclusive",
        is_better=is_better,
        comparison=comparison,
        whole=whole,
    )


def _agree_with_tests(ends: Interval, p_up: float, p_down: float) -> Interval:
    """Return an interval that excludes 0 only if the test in this direction is significant.

    The tests of a comparison are not those of the interval. They allow for skewness, rare
    differences and the number of metrics.

    Args:
        ends: The 95 % interval of a difference.
        p_up: P-value of the hypothesis that the score did not rise.
        p_down: P-value of the hypothesis that the score did not fall.
    """
    low, high = ends
    return (
        low if p_up <= _INTERVAL_ALPHA else min(low, 0.0),
        high if p_down <= _INTERVAL_ALPHA else max(high, 0.0),
    )
