"""The checks of :func:`mirage.testing.audit_scores`.

Each check looks for one defect, either in the scores of one system or in those of two systems.

A :class:`~mirage.testing._audit_sides.Side` has the scores of one system for one metric.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.statistics.clusters import FEWEST_FOR_MEANS, mean_intervals
from mirage.statistics.variance import variance_components
from mirage.testing._audit_sides import Finding, Side, group_fields, texts_of

CEILING = 0.9
"""A metric has a ceiling or a floor if at least this share of items has the best or worst score."""

TIES = 0.9
"""Two systems are a finding if they have equal scores on at least this share of the items."""

DISAGREEING = 0.3
"""Repeats disagree if they cause at least this share of the variance of a score."""

LENGTH = 0.4
"""Scores are a finding if their absolute rank correlation with answer length is at least this."""

WIDER = 1.2
"""Clusters are a finding if they increase the standard error by more than this factor."""

_FAR = 3.9  # standard errors, for a two-sided p-value of 0.0001
_FEWEST = 10  # items for shares and correlations
_SIGNIFICANT = 0.001
_MARGIN, _ALPHA = 0.1, 0.05  # the defaults of a comparison
_PERMUTATIONS = 2999


def fewest_items(margin: float, alpha: float) -> int:
    """Return the smallest number of unchanged items that rules out a loss of ``margin``.

    ``margin`` is a share of the metric's scale, and ``alpha`` is the significance level.

    Example:
        >>> fewest_items(0.1, 0.05)
        29
    """
    return math.ceil(math.log(alpha) / math.log1p(-margin))


def failures(side: Side) -> Iterator[Finding]:
    """Yield a finding if any scores failed.

    Most tools leave failed scores out when they compute a mean, so a mean can hide the failures.
    """
    rows = side.scores.values()
    scores = np.array([score for row in rows for score in row], dtype=float)
    failed = int(np.isnan(scores).sum())
    if not failed:
        return
    if side.means:
        effect = f"a mean without them is {side.mean:.3f}"
        if side.facts.has_direction:
            worst = side.facts.worst(scores)
            counted = [np.mean(np.where(np.isnan(row), worst, row)) for row in rows if row]
            effect += f"; counted as the worst score ({worst:g}) it is {np.mean(counted):.3f}"
    else:
        effect = (
            "the metric has no mean; check whether the judge could be called (its key, for example)"
        )
    problem = f"{failed} of {len(scores)} scores failed"
    yield Finding("failures", side.label, side.metric, problem, effect)


def duplicates(side: Side) -> Iterator[Finding]:
    """Yield a finding if items occur twice: under the same name, or with the same question."""
    entries = side.file.entries
    names = Counter((entry.item, entry.repeat) for entry in entries)
    counts = set(names.values())
    # If all items occur equally often, the entries are repeats.
    again = [item for (item, _), number in names.items() if number > 1] if len(counts) > 1 else []
    texts = texts_of(side.file)
    owners: dict[str, list[str]] = {}
    for item, text in texts.items():
        owners.setdefault(text, []).append(item)
    same = [items for items in owners.values() if len(items) > 1]
    if len(owners) == 1 or any(entry.cluster is not None for entry in entries):
        same = []  # an instruction that all items share; or paraphrases that the file groups
    if not again and not same:
        return
    values = np.array([score for row in side.scores.values() for score in row], dtype=float)
    single = {item: items[0] for items in same for item in items}
    once: dict[str, list[float]] = {}
    for item, value in side.means.items():
        once.setdefault(single.get(item, item), []).append(value)
    unique = float(np.mean([np.mean(row) for row in once.values()])) if once else math.nan
    parts = []
    if again:
        parts.append(f"{len(again)} items occur more than once, such as {again[0][:60]!r}")
    if same:
        parts.append(
            f"{sum(map(len, same)) - len(same)} items have the question of another item, such as "
            f"{same[0][1][:60]!r}"
        )
    yield Finding(
        "duplicates",
        side.label,
        side.metric,
        "; ".join(parts),
        f"the mean of all scores is {np.nanmean(values):.3f}, with each item counted once "
        f"{unique:.3f}; {len(once)} items instead of {len(entries)}",
    )


def clusters(side: Side) -> Iterator[Finding]:
    """Yield a finding if items with the same value of a field have similar scores.

    Intervals that ignore such a field are too narrow.
    """
    fields = group_fields(side.file)
    best: tuple[float, str, Ints] | None = None
    for name, groups in fields.items():
        codes = side.codes(groups)
        count = len(np.unique(codes))
        if count == len(codes) or count < 3 or len(codes) < _FEWEST:
            continue
        ratio = _spread(side.values, codes)
        if ratio > WIDER and _cluster_p_value(side.values, codes) * len(fields) <= _SIGNIFICANT:
            best = max(best or (0.0, "", codes), (ratio, name, codes), key=lambda each: each[0])
    if best is not None:
        ratio, name, codes = best
        count = len(np.unique(codes))
        yield Finding(
            "clusters",
            side.label,
            side.metric,
            f"items with the same {name} have similar scores ({len(codes)} items, {count} groups)",
            f"standard errors with clusters are {ratio:.1f} times as large; "
            f"{_intervals(side, codes)}; compare with --field cluster={name}",
        )


def _spread(values: Floats, codes: Ints) -> float:
    """Return the clustered standard error of the mean, divided by the unclustered one.

    ``codes`` are the indices of the clusters of ``values``.
    """
    residuals = values - values.mean()
    sums, count = np.bincount(codes, residuals), len(np.unique(codes))
    within = float(np.square(residuals).sum())
    if within == 0:
        return 1.0
    return math.sqrt(float(np.square(sums).sum()) / within * count / max(count - 1, 1))


def _cluster_p_value(values: Floats, codes: Ints) -> float:
    """Return a permutation p-value of the hypothesis that scores do not depend on clusters."""
    rng = np.random.default_rng(0)
    observed = _spread(values, codes)
    drawn = [_spread(rng.permutation(values), codes) for _ in range(_PERMUTATIONS)]
    return (1 + sum(each >= observed - 1e-12 for each in drawn)) / (1 + _PERMUTATIONS)


def _intervals(side: Side, codes: Ints) -> str:
    ends = np.array([side.facts.low]), np.array([side.facts.high])
    texts = []
    for groups in (np.arange(len(codes)), codes):
        low, high = mean_intervals(side.values[:, None], groups, *ends)[0].tolist()
        texts.append("missing" if math.isnan(low) else f"[{low:.3f}, {high:.3f}]")
    return f"the 95 % interval of the mean is {texts[1]} instead of {texts[0]}"


def ceiling(side: Side) -> Iterator[Finding]:
    """Yield a finding if most items have the best score, or most have the worst."""
    values, facts = side.values, side.facts
    if len(values) < _FEWEST or not facts.has_scale or not facts.has_direction:
        return
    if np.ptp(values) == 0:
        return
    worst = facts.worst(values)
    for name, end, change in (("best", facts.best, "gain"), ("worst", worst, "loss")):
        share = float((values == end).mean())
        if share >= CEILING:
            room = abs(end - side.mean) / (facts.high - facts.low)
            yield Finding(
                "ceiling" if name == "best" else "floor",
                side.label,
                side.metric,
                f"{int(share * len(values) + 0.5)} of {len(values)} items have the {name} score "
                f"({end:g})",
                f"no {change} above {room:.3f} of the scale can be shown",
            )


def one_label(side: Side) -> Iterator[Finding]:
    """Yield a finding if all items have the same score."""
    values = np.array([s for row in side.scores.values() for s in row if not math.isnan(s)])
    if len(values) >= 5 and np.ptp(values) == 0:
        yield Finding(
            "one label",
            side.label,
            side.metric,
            f"all {len(values)} scores are {values[0]:g}",
            "the metric does not distinguish the answers, so its mean does not describe the system",
        )


def too_few(side: Side) -> Iterator[Finding]:
    """Yield a finding if there are too few items to rule out a loss of a tenth of the scale.

    :func:`fewest_items` returns the number that is needed even if no item changes.
    """
    count, needed = len(side.means), fewest_items(_MARGIN, _ALPHA)
    if count >= needed:
        return
    effect = (
        f"with fewer than {needed} items, a loss of {_MARGIN:g} cannot be ruled out even if no "
        "item changes"
    )
    if count < FEWEST_FOR_MEANS:
        effect += f"; with fewer than {FEWEST_FOR_MEANS} items, no mean has an interval"
    yield Finding("too few items", side.label, side.metric, f"{count} items with a score", effect)


def repeats(side: Side) -> Iterator[Finding]:
    """Yield a finding if repeats disagree so much that single scores are mostly noise."""
    rows = [row for row in side.scores.values() if sum(map(math.isfinite, row)) > 1]
    if len(rows) < _FEWEST:
        return
    most = max(map(len, rows))
    table = np.array([[*row, *[math.nan] * (most - len(row))] for row in rows], dtype=float).T
    within, between = (float(part[0]) for part in variance_components(table[:, :, None]))
    if within + between <= 0 or within / (within + between) < DISAGREEING:
        return
    differing = int((np.nanmax(table, axis=0) > np.nanmin(table, axis=0)).sum())
    times = float(np.isfinite(table).sum()) / len(rows)
    single, averaged = (math.sqrt((between + within / number) / len(rows)) for number in (1, times))
    yield Finding(
        "repeats",
        side.label,
        side.metric,
        f"{differing} of {len(rows)} items have repeats that differ; "
        f"{100 * within / (within + between):.0f} % of the variance of a score is between repeats "
        "of one item",
        f"the standard error of the mean is {single:.3f} with one repeat, and {averaged:.3f} with "
        f"{times:.3g} repeats",
    )


def length(side: Side) -> Iterator[Finding]:
    """Yield a finding if the scores are correlated with the length of the answers."""
    lengths: dict[str, list[int]] = {}
    for entry in side.file.entries:
        if entry.answer is not None and entry.item in side.means:
            lengths.setdefault(entry.item, []).append(len(entry.answer))
    if len(lengths) < 2 * _FEWEST:
        return
    x = np.array([np.mean(row) for row in lengths.values()])
    y = np.array([side.means[item] for item in lengths])
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return
    from scipy.stats import spearmanr

    rho = float(spearmanr(x, y).statistic)
    # Fisher's transformation: the standard error is 1.03 / sqrt(n - 3) for ranks (Fieller 1957).
    z = abs(math.atanh(np.clip(rho, -0.999999, 0.999999))) * math.sqrt((len(x) - 3) / 1.06)
    if abs(rho) < LENGTH or z < _FAR:
        return
    middle = np.median(x)
    most = middle if (x > middle).any() else x[x < middle].max()
    short, long = y[x <= most], y[x > most]
    yield Finding(
        "length",
        side.label,
        side.metric,
        "scores correlate with the number of characters of the answers (rank correlation "
        f"{rho:+.2f} over {len(x)} items)",
        f"the mean is {short.mean():.3f} for the {len(short)} answers of {most:g} characters or "
        f"fewer and {long.mean():.3f} for the {len(long)} others; longer or shorter answers can "
        "change it without being better or worse",
    )


SIDE_CHECKS: tuple[Callable[[Side], Iterator[Finding]], ...] = (
    failures,
    duplicates,
    clusters,
    ceiling,
    one_label,
    too_few,
    repeats,
    length,
)
"""The checks of the scores of one system."""


def one_sided_items(before: Side, after: Side) -> Iterator[Finding]:
    """Yield a finding if only one of two systems has a score for some items."""
    only = [
        [i for i in a.scores if i not in b.scores] for a, b in ((before, after), (after, before))
    ]
    if not any(only) or not before.scores.keys() & after.scores.keys():
        return
    gap = _gap(before, after, before.means.keys() & after.means.keys())
    listed = ", ".join(item[:40] for item in (only[0] + only[1])[:3])
    yield Finding(
        "one-sided items",
        f"{before.label}, {after.label}",
        before.metric,
        f"{len(only[0])} items only in {before.label}, {len(only[1])} only in {after.label}, such "
        f"as {listed}",
        f"the means differ by {after.mean - before.mean:+.3f} on all items, and by {gap:+.3f} on "
        "the items that both have",
    )


def _gap(before: Side, after: Side, items: set[str]) -> float:
    gaps = [after.means[item] - before.means[item] for item in items]
    return float(np.mean(gaps)) if gaps else math.nan


def ties(before: Side, after: Side) -> Iterator[Finding]:
    """Yield a finding if two systems have equal scores on nearly all items."""
    items = before.means.keys() & after.means.keys()
    equal = sum(abs(before.means[item] - after.means[item]) < 1e-9 for item in items)
    if len(items) < _FEWEST or equal < TIES * len(items):
        return
    differing = len(items) - equal
    effect = (
        f"the difference of {_gap(before, after, items):+.3f} depends on {differing} items; "
        + (
            "at least 4 items must differ, all in one direction, for a significant loss"
            if differing < 4
            else "the other items have no effect on it"
        )
        if differing
        else "there is no difference to test; are these two runs of different systems?"
    )
    yield Finding(
        "ties",
        f"{before.label}, {after.label}",
        before.metric,
        f"{equal} of {len(items)} items have equal scores in both systems",
        effect,
    )


def scales(before: Side, after: Side) -> Iterator[Finding]:
    """Yield a finding if the scores of two systems are on different scales."""
    highest = [float(np.nanmax(side.values)) for side in (before, after)]
    low, high = sorted(highest)
    if low <= 1 and high > 10:
        yield Finding(
            "scales",
            f"{before.label}, {after.label}",
            before.metric,
            f"the highest score is {highest[0]:g} in {before.label}, but {highest[1]:g} in "
            f"{after.label}",
            f"the means differ by {after.mean - before.mean:+.3f}, because the scales differ",
        )


PAIR_CHECKS: tuple[Callable[[Side, Side], Iterator[Finding]], ...] = (one_sided_items, ties, scales)
"""The checks that compare the scores of two systems."""
