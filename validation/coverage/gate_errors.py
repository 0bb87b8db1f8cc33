"""Error rates of the gate's verdicts, by shape of the change, clusters, and noise between days.

A verdict "worse" is wrong if the mean loss over all possible queries is 0. A verdict "no worse" is
wrong if the mean loss is the margin, 0.1. Both should happen in at most 5 % of the runs.

* shapes: losses of single queries, drawn from twelve distributions, at 12, 20, 40 and 100 queries,
  in one feature and in four independent ones;
* clusters: six designs of clusters that mostly differ in size; the queries of a cluster share a
  loss, and each adds its own;
* days: answers are right with a probability whose logit shifts at random from run to run, in two
  features; the baseline has three runs, or one run (``baseline of one run``, which cannot include
  this noise). The figures of one run have no threshold.

Comparisons are simulated with the functions of ``mirage plan``, whose verdicts are those of the
gate (``tests/testing/test_planning.py``). The last line counts the cells above 0.06 plus 1.5
standard errors.

    python validation/coverage/gate_errors.py                  # some minutes
    python validation/coverage/gate_errors.py --part days --repeats 300
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage.statistics.power import simulated_verdicts
from mirage.statistics.run_noise import RunNoise, run_noise

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]

QUERIES, MARGIN, PERMUTATIONS = (12, 20, 40, 100), 0.1, 999
THRESHOLD, SLACK = 0.06, 1.5


def values(choices: Mapping[float, float]) -> Draw:
    """Return a draw of these values with these probabilities."""
    amounts, chances = zip(*choices.items(), strict=True)
    return lambda rng, n: rng.choice(amounts, size=n, p=chances)


def exponential(rng: np.random.Generator, n: int) -> Floats:
    """Return losses of at most 0.15 whose gains have an exponential tail, up to 1."""
    return 0.15 - np.minimum(rng.exponential(0.15, n), 1.15)


SHAPES: Mapping[str, Draw] = {
    "rare gains: 95 % lose .02, 5 % win .38": values({0.02: 0.95, -0.38: 0.05}),
    "rare gains: 90 % lose .02, 10 % win .18": values({0.02: 0.9, -0.18: 0.1}),
    "rare gains: 95 % lose .05, 5 % win .95": values({0.05: 0.95, -0.95: 0.05}),
    "rare gains: 98 % lose .02, 2 % win .98": values({0.02: 0.98, -0.98: 0.02}),
    "rare losses: 95 % win .02, 5 % lose .38": values({-0.02: 0.95, 0.38: 0.05}),
    "75 % lose .1, 25 % win .3": values({0.1: 0.75, -0.3: 0.25}),
    "skewed: losses small, gains exponential": exponential,
    "skewed: gains small, losses exponential": lambda rng, n: -exponential(rng, n),
    "ties: 80 % tie, others lose or win .5": values({0.0: 0.8, 0.5: 0.1, -0.5: 0.1}),
    "right or wrong: 10 % lost, 10 % won": values({0.0: 0.8, 1.0: 0.1, -1.0: 0.1}),
    "ordinal: 30 % lose .25, 10 % win .25, 10 % .5": values(
        {0.25: 0.3, -0.25: 0.1, -0.5: 0.1, 0.0: 0.5}
    ),
    "normal, 0.1": lambda rng, n: rng.normal(0, 0.1, n).clip(-1, 1),
}
"""Losses of queries, each with a mean of 0."""

DESIGNS: Mapping[str, tuple[int, ...]] = {
    "10 of 4": (4,) * 10,
    "20 of 2": (2,) * 20,
    "20, 10, 5, 3, 2, five of 1": (20, 10, 5, 3, 2, 1, 1, 1, 1, 1),
    "one of 20, 20 of 1": (20,) + (1,) * 20,
    "two of 15, five of 2": (15, 15, 2, 2, 2, 2, 2),
    "20 of 20 / rank": tuple(max(1, 20 // rank) for rank in range(1, 21)),
}
"""Sizes of clusters."""

SHARED: Mapping[str, Draw] = {
    "normal": lambda rng, n: rng.normal(0, 0.2, n).clip(-0.8, 0.8),
    "three values": values({0.0: 0.6, 0.8: 0.2, -0.8: 0.2}),
    "skewed": lambda rng, n: 0.2 - np.minimum(rng.exponential(0.2, n), 1.0),
}
"""Losses that the queries of a cluster share."""


class Setting(NamedTuple):
    """A cell of the tables: its draw of comparisons, and the names of its figures."""

    part: str
    names: tuple[str, str]
    arguments: tuple[object, ...]
    limited: bool = True


class Sample(NamedTuple):
    """Losses ``(comparisons, queries, features)``, cluster of each query, noise between runs."""

    losses: Floats
    codes: NDArray[np.intp]
    noise: RunNoise | None = None


def with_loss(losses: Floats, lost: bool) -> Floats:
    """Return the losses, or losses of the same shape with a mean of the margin."""
    return (1 - MARGIN) * losses + MARGIN if lost else losses


def shapes(
    rng: np.random.Generator, repeats: int, lost: bool, shape: str, queries: int, features: int
) -> Sample:
    """Return losses with one of the shapes."""
    losses = SHAPES[shape](rng, repeats * queries * features)
    return Sample(with_loss(losses.reshape(repeats, queries, features), lost), np.arange(queries))


def clusters(rng: np.random.Generator, repeats: int, lost: bool, design: str, shape: str) -> Sample:
    """Return losses of queries in clusters."""
    sizes = DESIGNS[design]
    codes = np.repeat(np.arange(len(sizes)), sizes)
    shared = SHARED[shape](rng, repeats * len(sizes)).reshape(repeats, -1)[:, codes]
    losses = shared + rng.choice([-0.2, 0.0, 0.2], shared.shape)
    return Sample(with_loss(losses, lost)[:, :, None], codes)


def days(
    rng: np.random.Generator,
    repeats: int,
    lost: bool,
    noise: float,
    queries: int,
    times: int,
    runs: int,
) -> Sample:
    """Return losses of a run that was made on another day than the runs of the baseline."""
    logits = rng.normal(1.5, 1.5, (repeats, 1, 1, queries, 2))
    shifts = rng.normal(0, noise, (repeats, runs + 1, 1, 1, 2))
    chances = np.repeat(expit(logits + shifts), times, axis=2)
    if lost:
        share = MARGIN / expit(logits[..., 0]).mean(axis=(1, 2, 3), keepdims=True)[:, 0]
        gone = rng.random((repeats, 1, queries)) < share
        chances[:, -1, :, :, 0] *= ~gone
    answers = (rng.random(chances.shape) < chances).astype(float)
    earlier, codes = answers[:, :-1], np.arange(queries)
    losses = earlier.mean(axis=(1, 2)) - answers[:, -1].mean(axis=1)
    if runs == 1:
        return Sample(losses, codes)
    each = [run_noise(values.reshape(-1, queries, 2), codes, runs) for values in earlier]
    between, within = (np.stack(parts) for parts in list(zip(*each, strict=True))[1:])
    return Sample(losses, codes, RunNoise(runs, between, within))


PARTS: Mapping[str, Callable[..., Sample]] = {"shapes": shapes, "clusters": clusters, "days": days}


def settings(quick: bool) -> Iterator[Setting]:
    """Yield all cells."""
    sizes = QUERIES[:1] if quick else QUERIES
    for shape, features, queries in product(SHAPES, (1, 4), sizes):
        names = shape, f"{queries} queries, features: {features}"
        yield Setting("shapes", names, (shape, queries, features))
    for design, shape in product(DESIGNS, SHARED):
        yield Setting("clusters", (f"clusters: {design}", shape), (design, shape))
    for runs, noise, queries, times in product((3, 1), (0.0, 0.1, 0.3), sizes[-2:], (1, 3)):
        kind = "baseline of one run" if runs == 1 else f"baseline of {runs} runs"
        names = f"noise between runs {noise}", f"{queries} queries x {times}, {kind}"
        yield Setting("days", names, (noise, queries, times, runs), limited=runs > 1)


def error_rate(setting: Setting, lost: bool, repeats: int) -> float:
    """Return how often the verdict is wrong."""
    rng = seeded([lost, *map(ord, "".join((setting.part, *setting.names)))])
    sample = PARTS[setting.part](rng, repeats, lost, *setting.arguments)
    sizes = np.bincount(sample.codes)
    members = np.equal.outer(np.arange(len(sizes)), sample.codes).astype(float)
    verdicts = simulated_verdicts(
        members @ sample.losses,
        np.broadcast_to(sizes.astype(float), (repeats, len(sizes))),
        margin=MARGIN,
        permutations=PERMUTATIONS,
        # The first feature reads facts, so answers count as turned from right to wrong.
        facts=[0] if setting.part != "clusters" else [],
        noise=sample.noise,
    )
    return float((verdicts.no_worse & ~verdicts.worse if lost else verdicts.worse).mean())


def main() -> None:
    """Print a line per cell."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--part", choices=[*PARTS])
    options = parser.parse_args()
    repeats = 20 if options.quick else options.repeats
    high = THRESHOLD + SLACK * np.sqrt(THRESHOLD * (1 - THRESHOLD) / repeats)
    above, most = 0, 0.0
    print(f"{repeats} comparisons per cell: false worse, false no worse (threshold {high:.3f})")
    for setting in settings(options.quick):
        if options.part not in (None, setting.part):
            continue
        rates = [error_rate(setting, lost, repeats) for lost in (False, True)]
        if setting.limited:
            above += max(rates) > high
            most = max(most, *rates)
        mark = " *" if setting.limited and max(rates) > high else ""
        cells = " ".join(f"{rate:.3f}" for rate in rates)
        print(f"{setting.names[0]:46} {setting.names[1]:38} {cells}{mark}", flush=True)
        for title, rate in zip(("false worse", "false no worse"), rates, strict=True):
            add_figure(rate, setting.part, *setting.names, title)
    print(f"{above} cells above the threshold; at most {most:.3f}")
    add_figure(above, "cells above the threshold")
    add_figure(most, "largest error rate")
    save(parser, options)


if __name__ == "__main__":
    main()
