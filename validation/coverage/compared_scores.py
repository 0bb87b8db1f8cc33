"""Error rates of verdicts on other tools' scores, by kind of score, design and number of items.

A verdict "worse" is wrong if the mean loss over all possible items is 0. A verdict "no worse" is
wrong if the mean loss is the margin, 0.1. Both should happen in at most 5 % of the comparisons.

* scores: binary, ordinal (five levels), continuous;
* changes: none but noise near the ceiling; changes in both directions; rare large gains against
  many small losses; rare large losses against many small gains;
* designs: single items; clusters of four; clusters of unequal size; three repeats; gaps (10 % of
  the scores fail, 5 % of the items are on the earlier side only); all of these together.

Verdicts are computed for many comparisons at once, by the functions of ``mirage plan``. In each
cell, some comparisons are also given to :func:`mirage.testing.compare_scores`, as rows; verdicts
that differ are counted (they can if a p-value is at its limit, as random draws differ). The last
lines count the cells above 0.05 plus 1.5 standard errors.

    python validation/coverage/compared_scores.py                  # some minutes
    python validation/coverage/compared_scores.py --repeats 200
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage.statistics.power import simulated_verdicts
from mirage.testing import compare_scores

Floats = NDArray[np.float64]

ITEMS, MARGIN, THRESHOLD, SLACK = (20, 50, 200), 0.1, 0.05, 1.5
LEVELS, SPREAD = 4, 8.0  # steps of an ordinal score, concentration of a continuous one
FAILED, ONE_SIDED = 0.1, 0.05
PERMUTATIONS, CHECKED, SHARED = 999, 5, 25


class Shape(NamedTuple):
    """A distribution of changes with a mean of 0.

    Attributes:
        low: Lowest mean score of an item.
        high: Highest mean score of an item; all values between are equally likely.
        changes: Changes of the mean score from system to system.
        chances: Probability of each change.
    """

    low: float
    high: float
    changes: tuple[float, ...]
    chances: tuple[float, ...]


SHAPES: Mapping[str, Shape] = {
    "noise near the ceiling": Shape(0.8, 1.0, (0.0,), (1.0,)),
    "both directions": Shape(0.3, 0.7, (-0.3, 0.0, 0.3), (0.3, 0.4, 0.3)),
    "rare large gains": Shape(0.02, 0.62, (-0.02, 0.38), (0.95, 0.05)),
    "rare large losses": Shape(0.38, 0.98, (0.02, -0.38), (0.95, 0.05)),
}


class Design(NamedTuple):
    """Sizes of clusters, repeated as needed; number of repeats; whether gaps occur."""

    clusters: tuple[int, ...] = (1,)
    repeats: int = 1
    gaps: bool = False


DESIGNS: Mapping[str, Design] = {
    "single items": Design(),
    "clusters of 4": Design((4,)),
    "unequal clusters": Design((6, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1)),
    "3 repeats": Design(repeats=3),
    "gaps": Design(gaps=True),
    "clusters, repeats and gaps": Design((4,), 3, True),
}
KINDS = ("binary", "ordinal", "continuous")


def draw_scores(rng: np.random.Generator, kind: str, means: Floats) -> Floats:
    """Return scores from 0 to 1 with these means."""
    if kind == "binary":
        return (rng.random(means.shape) < means).astype(float)
    if kind == "ordinal":
        return rng.binomial(LEVELS, means) / LEVELS
    shares = means.clip(1e-3, 1 - 1e-3)
    return rng.beta(SPREAD * shares, SPREAD * (1 - shares))


class Sample(NamedTuple):
    """Scores ``(comparisons, repeats, items)`` of both systems, NaN for failures.

    Attributes:
        before: Scores of the earlier system.
        after: Scores of the later system.
        codes: Cluster of each item.
        one_sided: Whether each item is missing on the later side.
    """

    before: Floats
    after: Floats
    codes: NDArray[np.intp]
    one_sided: NDArray[np.bool_]


def draw_sample(names: tuple[str, str, str], items: int, lost: bool, repeats: int) -> Sample:
    """Return comparisons of two systems.

    If ``lost``, the later system has a random share of the items at the worst score, so that the
    mean loss is the margin.
    """
    rng = seeded([lost, items, *map(ord, "".join(names))])
    kind, design, shape = names[0], DESIGNS[names[1]], SHAPES[names[2]]
    codes = np.repeat(np.arange(items), np.resize(design.clusters, items))[:items]
    groups = int(codes.max()) + 1
    # Half of the variation belongs to clusters, which also decide on changes.
    own, shared = rng.random((repeats, items)), rng.random((repeats, groups))[:, codes]
    share = np.where(rng.random(own.shape) < 0.5, own, shared) if groups < items else own
    before = shape.low + (shape.high - shape.low) * share
    change = rng.choice(shape.changes, size=(repeats, groups), p=shape.chances)[:, codes]
    after = before + change
    if lost:
        kept = 1 - FAILED if design.gaps else 1.0
        chance = MARGIN / (kept * (shape.low + shape.high) / 2)
        after = after * (rng.random(after.shape) >= chance)
    sides = []
    for means in (before, after):
        scores = draw_scores(rng, kind, np.repeat(means[:, None], design.repeats, axis=1))
        if design.gaps:
            scores[rng.random(scores.shape) < FAILED] = np.nan
        sides.append(scores)
    one_sided = np.zeros(items, dtype=bool)
    if design.gaps:
        one_sided[:: round(1 / ONE_SIDED)] = True
    return Sample(sides[0], sides[1], codes, one_sided)


def batch_verdicts(sample: Sample) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return whether each comparison is called worse, and no worse."""
    later = np.nan_to_num(sample.after).mean(axis=1)
    losses = np.nan_to_num(sample.before).mean(axis=1) - later
    there = ~sample.one_sided
    worse = verdicts(losses[:, there], sample.codes[there], "worse")
    if not np.isnan(sample.before).any() and there.all():
        return worse, verdicts(losses, sample.codes, "no_worse") & ~worse
    # When a loss is ruled out, an item that is missing later counts as a complete loss, and
    # failures before are left out.
    scored = np.logical_or.reduce(~np.isnan(sample.before), axis=1)
    earlier = np.nansum(sample.before, axis=1) / (~np.isnan(sample.before)).sum(axis=1).clip(1)
    losses = np.where(sample.one_sided, 1.0, earlier - later)
    no_worse = [
        verdicts(losses[i : i + 1, scored[i]], sample.codes[scored[i]], "no_worse")[0]
        for i in range(len(losses))
    ]
    return worse, np.array(no_worse) & ~worse


def verdicts(losses: Floats, codes: NDArray[np.intp], name: str) -> NDArray[np.bool_]:
    """Return a verdict on each comparison; only :data:`SHARED` of them share random draws."""
    return np.concatenate(
        [
            getattr(
                simulated_verdicts(
                    *cluster_losses(losses[start : start + SHARED], codes),
                    margin=MARGIN,
                    permutations=PERMUTATIONS,
                    seed=start,
                ),
                name,
            )
            for start in range(0, len(losses), SHARED)
        ]
    )


def cluster_losses(losses: Floats, codes: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return sums of losses and numbers of items in each cluster of each comparison."""
    names = np.unique(codes)
    members = np.equal.outer(names, codes).astype(float)
    sums = losses @ members.T
    sizes = np.broadcast_to(members.sum(axis=1), sums.shape)
    return sums[:, :, None], sizes


def rows_of(sample: Sample, number: int, scores: Floats, *, later: bool) -> list[dict[str, Any]]:
    """Return the scores of one side of one comparison as rows."""
    return [
        {"item": f"q{i}", "cluster": int(code), "repeat": r, "score": _plain(scores[number, r, i])}
        for i, code in enumerate(sample.codes)
        if not (later and sample.one_sided[i])
        for r in range(scores.shape[1])
    ]


def _plain(score: float) -> float | None:
    return None if np.isnan(score) else float(score)


def full_verdict(sample: Sample, number: int) -> str:
    """Return the verdict of :func:`mirage.testing.compare_scores` on one comparison."""
    return compare_scores(
        rows_of(sample, number, sample.before, later=False),
        rows_of(sample, number, sample.after, later=True),
        scales={"score": (0.0, 1.0)},
        margin=MARGIN,
    ).verdict


def settings(items: tuple[int, ...]) -> Iterator[tuple[tuple[str, str, str], int]]:
    """Yield all cells."""
    for size, kind, design, shape in product(items, KINDS, DESIGNS, SHAPES):
        yield (kind, design, shape), size


def main() -> None:
    """Print a line per cell."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--repeats", type=int, default=400)
    options = parser.parse_args()
    repeats, checked = (20, 1) if options.quick else (options.repeats, CHECKED)
    high = THRESHOLD + SLACK * np.sqrt(THRESHOLD * (1 - THRESHOLD) / repeats)
    rates: dict[str, list[float]] = {"false worse": [], "false no worse": []}
    differing = total = 0
    print(f"{repeats} comparisons per cell: false worse, false no worse (threshold {high:.3f})")
    for names, size in settings(ITEMS[:1] if options.quick else ITEMS):
        cell = {}
        for title, lost in (("false worse", False), ("false no worse", True)):
            sample = draw_sample(names, size, lost, repeats)
            worse, no_worse = batch_verdicts(sample)
            cell[title] = float((no_worse if lost else worse).mean())
            for number in range(checked):
                expected = "worse" if worse[number] else "no worse" if no_worse[number] else ""
                differing += full_verdict(sample, number) != (expected or "inconclusive")
                total += 1
            rates[title].append(cell[title])
            add_figure(cell[title], f"{size} items", *names, title)
        mark = " *" if max(cell.values()) > high else ""
        texts = " ".join(f"{rate:.3f}" for rate in cell.values())
        print(f"{size:4} {names[0]:10} {names[1]:27} {names[2]:23} {texts}{mark}", flush=True)
    for title, values in rates.items():
        print(f"{title}: at most {max(values):.4f}, mean {np.mean(values):.4f}")
        add_figure(max(values), f"{title} at most")
        add_figure(float(np.mean(values)), f"{title}, mean")
    above = sum(rate > high for values in rates.values() for rate in values)
    print(f"{above} of {2 * len(rates['false worse'])} rates above {high:.4f}")
    print(f"{differing} of {total} verdicts of compare_scores differ")
    add_figure(above, "rates above the threshold")
    add_figure(differing / total, "verdicts that differ from compare_scores")
    save(parser, options)


if __name__ == "__main__":
    main()
