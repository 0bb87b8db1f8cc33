"""Pairs of scores of two systems on the same items, for one metric."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np

from mirage._base.arrays import Floats
from mirage.errors import DatasetError, UnknownNameError
from mirage.features import Facts, FeatureTable
from mirage.features.log_measures import NEW_WORDS, TRAFFIC
from mirage.features.registry import ALIASES, DEFINITIONS, canonical_name
from mirage.scores.metrics import MetricFacts, metric_facts, metric_words
from mirage.scores.records import ScoreFile

Failures = Literal["worst", "skip"]
"""How failures count: as the worst score of the scale, or not at all."""

COLUMN = "the metric"
"""Name of the only column in the tables of scores.

No feature has this name, so the rules of the gate for single features do not apply.
"""

UNSEEN = 5
"""Largest rare change of a metric without a scale, as a multiple of the range of its scores.

A sample can lack rare changes that decide about the mean, such as timeouts that a new version
avoids. No data can limit their size, so this limit is an assumption.
"""

Scores = Mapping[str, Sequence[float]]


class MetricPairs(NamedTuple):
    """The earlier and the later scores of one metric, paired by item.

    Attributes:
        before: Table of the earlier scores, with one column.
        after: Table of the later scores, with the same items.
        scored_before: Table of the earlier scores without those that failed, for the verdict ``no
            worse``. It lacks items that have no earlier score, and contains items that only the
            earlier system has.
        scored_after: Table of the later scores with the same items.
        clusters: Cluster of each item that has one, by item.
        failed: Number of failed scores, before and after.
        incomplete: Number of items with at least one failed score, before and after.
        unscored: Number of items that have neither an earlier nor a later score, because the metric
            does not apply to them.
        left_out: Number of items that have a later score but no earlier score, and are therefore
            not in ``scored_before``.
    """

    before: FeatureTable
    after: FeatureTable
    scored_before: FeatureTable
    scored_after: FeatureTable
    clusters: Mapping[str, str]
    failed: tuple[int, int]
    incomplete: tuple[int, int]
    unscored: int
    left_out: int


def choose_metrics(
    names: Sequence[str], left_out: Mapping[str, str], chosen: Sequence[str] | None, purpose: str
) -> list[str]:
    """Return the metrics that a user chose, or all metrics if the user chose none.

    Args:
        names: Names of the metrics with scores.
        left_out: Metrics that cannot be used, each with the reason.
        chosen: Names that the user gave; ``None`` for all.
        purpose: Word for the end of "metric 'x' cannot be ..." in the error message, such as
            ``compared``.

    Raises:
        DatasetError: A chosen metric was left out; the message has the reason.
        UnknownNameError: There is no such metric.
    """
    for name in chosen or ():
        if name in left_out and name not in names:
            raise DatasetError(f"metric {name!r} cannot be {purpose}: {left_out[name]}")
    check_metric_names(names, chosen or ())
    return list(names if chosen is None else dict.fromkeys(chosen))


def check_metric_names(names: Sequence[str], *given: Collection[str]) -> None:
    """Raise an error if a user's setting contains an unknown metric.

    ``names`` are the known metrics, and each of ``given`` is a setting that names metrics.
    """
    for name in chain.from_iterable(given):
        if name not in names:
            raise UnknownNameError("metric", name, names)


def scores_of(file: ScoreFile, metric: str) -> Scores:
    """Return the scores of a metric by item, one per repeat; NaN for a failed score.

    Items to which the metric does not apply have an empty list.
    """
    scores: dict[str, list[float]] = {}
    for entry in file.entries:
        row = scores.setdefault(entry.item, [])
        if metric in entry.scores:
            row.append(entry.scores[metric])
        elif entry.failure:
            row.append(math.nan)
    return scores


@cache
def _built_in() -> Mapping[str, MetricFacts]:
    """Return the direction and range of all features and measures of logs, by words of the name."""
    features = {name: DEFINITIONS[name].facts for name in DEFINITIONS}
    aliases = {name: features[canonical_name(name).partition("@")[0]] for name in ALIASES}
    return {
        metric_words(name): MetricFacts(
            facts.direction == "lower",
            assumed=False,
            low=facts.low,
            high=facts.high,
            has_direction=facts.direction in ("higher", "lower"),
        )
        for name, facts in {**features, **aliases, **TRAFFIC, **NEW_WORDS}.items()
    }


def built_in_facts(name: str) -> MetricFacts | None:
    """Return the direction and range of a built-in feature or a measure of logs.

    Args:
        name: Name of a metric. It may have a cutoff, as in ``citation_recall@10``, and the prefix
            of a scorer, as in ``feature_scorer/unknown_facts``.

    Returns:
        The facts, or ``None`` if no feature or measure has this name.
    """
    stem = metric_words(re.sub(r"@\d+", "", name.rpartition("/")[2]))
    return _built_in().get(stem)


def facts_of(
    name: str,
    files: Iterable[ScoreFile],
    sides: Iterable[Scores],
    *,
    lower: Collection[str],
    higher: Collection[str],
    scales: Mapping[str, tuple[float, float]],
) -> MetricFacts:
    """Return the direction and the scale of a metric.

    They come from the settings, the files, the built-in features and the scores, in this order.

    Args:
        name: Name of the metric.
        files: Files with the metric, which may state its direction.
        sides: Scores of the metric in each file.
        lower: Metrics for which smaller is better.
        higher: Metrics for which larger is better.
        scales: Lowest and highest possible score by metric.
    """
    return metric_facts(
        name,
        all_scores(*sides),
        lower=lower,
        higher=higher,
        scale=scales.get(name),
        by_file=[file.lower[name] for file in files if name in file.lower],
        built_in=built_in_facts(name),
    )


def all_scores(*sides: Scores) -> Floats:
    """Return the scores of several systems in one flat array."""
    return np.array(
        [score for side in sides for row in side.values() for score in row], dtype=float
    )


def unseen_change(scores: Floats) -> float:
    """Return the largest assumed change of a metric without a scale; see :data:`UNSEEN`."""
    return UNSEEN * float(np.nanmax(scores) - np.nanmin(scores))


def check_common_items(before: ScoreFile, after: ScoreFile) -> None:
    """Raise an error if two files have no item in common."""
    earlier = {entry.item for entry in before.entries}
    later = {entry.item for entry in after.entries}
    if not earlier & later:
        examples = (sorted(items)[0] for items in (earlier, later))
        first, second = (f"{each[:60]!r}" for each in examples)
        raise DatasetError(
            f"{before.source} and {after.source} have no item in common; their items are, for "
            f"example, {first} and {second}; name the field that identifies items with --field "
            "item=NAME"
        )


def clusters_of(*files: ScoreFile) -> dict[str, str]:
    """Return the cluster of each item that has one.

    Raises:
        DatasetError: An item has two clusters.
    """
    clusters: dict[str, str] = {}
    for file in files:
        for entry in file.entries:
            if entry.cluster is not None:
                first = clusters.setdefault(entry.item, entry.cluster)
                if first != entry.cluster:
                    raise DatasetError(
                        f"{entry.where}: item {entry.item!r} has the cluster {entry.cluster!r} "
                        f"here, but the cluster {first!r} in another entry"
                    )
    return clusters


def pair_scores(
    before: Scores,
    after: Scores,
    facts: MetricFacts,
    clusters: Mapping[str, str],
    failures: Failures,
) -> MetricPairs:
    """Pair the scores of two systems on the items of the earlier system.

    If ``failures`` is ``"worst"``, failed scores count as the worst score. If both systems have an
    item, but only one has a score for it, the missing score also counts as the worst. For the
    verdict ``no worse``, this holds for the later system only: an earlier score that failed must
    not make up for a loss, so it is left out. An item that the later system lacks has no later
    score; the comparison counts it as a complete loss for this verdict. If ``failures`` is
    ``"skip"``, all these items are left out.

    Args:
        before: Scores of the earlier system by item, one per repeat; NaN for a failed score.
        after: Scores of the later system, in the same form.
        facts: Direction and scale of the metric.
        clusters: Cluster of each item that has one, by item.
        failures: How failures count: ``"worst"`` or ``"skip"``.
    """
    common = [item for item in before if item in after]
    items = [item for item in common if before[item] or after[item]]
    unscored = len(common) - len(items)
    sides = [{item: [*side[item]] or [math.nan] for item in items} for side in (before, after)]
    failed = tuple(sum(map(math.isnan, all_scores(side))) for side in sides)
    incomplete = tuple(sum(any(map(math.isnan, row)) for row in side.values()) for side in sides)
    if failures == "worst":
        worst = facts.worst(all_scores(before, after))
        scored: Scores = {item: _without_failures(row) for item, row in before.items()}
        scored = {item: row for item, row in scored.items() if row}
        sides = [{item: _replaced(row, worst) for item, row in side.items()} for side in sides]
        later: Scores = {item: sides[1].get(item, [math.nan]) for item in scored}
    else:
        complete = [
            item
            for item in items
            if all(any(not math.isnan(score) for score in side[item]) for side in sides)
        ]
        sides = [{item: side[item] for item in complete} for side in sides]
        scored, later = sides
    direction: Literal["higher", "lower"] = "lower" if facts.lower_is_better else "higher"
    column = Facts(direction, facts.low, facts.high)
    tables = [_table(side, column) for side in (*sides, scored, later)]
    return MetricPairs(
        tables[0],
        tables[1],
        tables[2],
        tables[3],
        {item: clusters[item] for item in (*sides[0], *scored) if item in clusters},
        (failed[0], failed[1]),
        (incomplete[0], incomplete[1]),
        unscored,
        sum(item not in scored for item in sides[0]),
    )


def _without_failures(scores: Sequence[float]) -> list[float]:
    return [score for score in scores if not math.isnan(score)]


def _replaced(scores: Sequence[float], worst: float) -> list[float]:
    """Return scores in which the worst score replaces failures."""
    return [worst if math.isnan(score) else score for score in scores]


def _table(scores: Scores, facts: Facts) -> FeatureTable:
    """Return scores as a table with one column; repeats of an item are averaged."""
    most = max(map(len, scores.values()), default=1)
    repeats = np.full((most, len(scores), 1), np.nan)
    for number, row in enumerate(scores.values()):
        repeats[: len(row), number, 0] = row
    counts = (~np.isnan(repeats)).sum(axis=0)
    sums = np.nansum(repeats, axis=0)
    values = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    return FeatureTable(
        "scores",
        "en",
        tuple(scores),
        (COLUMN,),
        values,
        facts={COLUMN: facts},
        repeats=repeats if most > 1 else None,
    )


def repeated(file: ScoreFile) -> tuple[int, int]:
    """Count the items of a file that have more than one entry.

    Returns:
        The number of items with several entries, and the number of items for which several entries
        have the same repeat number or name.
    """
    entries = Counter(entry.item for entry in file.entries)
    names = Counter((entry.item, entry.repeat) for entry in file.entries)
    same = {item for (item, name), number in names.items() if number > 1 and name}
    return sum(number > 1 for number in entries.values()), len(same)
