"""Rates of verdicts on metrics without a scale, such as latencies in seconds.

* no loss: before the change, answers time out with a small probability; after it, none does, but
  all others take longer, so that both means are equal. A sample often lacks the timeouts.
* faster: the same with timeouts after 30 seconds, but answers take only 0.3 seconds longer, so that
  the true mean is lower after the change.
* no loss, heavy tails: both systems have independent log-normal latencies with a standard deviation
  of the logarithm of 1.5.
* slower: all latencies are multiplied by a factor.

The table has the share of comparisons with the verdict "worse", which should be at most 5 % for all
but the last kind. "unchecked" is the share of the same comparisons that the paired permutation test
alone calls worse, without the allowance for gains that the sample lacks.

    python validation/coverage/unscaled_scores.py                  # some minutes
    python validation/coverage/unscaled_scores.py --repeats 50
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage.testing import compare_scores

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]
Kind = Callable[[np.random.Generator, int], Pair]

ITEMS = (20, 50, 100, 200)
CENTRE, SPREAD, NOISE = 0.5, 0.4, 0.05
MEAN = math.exp(CENTRE + SPREAD**2 / 2)  # of a latency without a timeout


def with_timeouts(chance: float, seconds: float, slower: float | None = None) -> Kind:
    """Return a kind of comparison with timeouts before the change only.

    ``slower`` is the time that other answers take longer after the change. By default, it is such
    that the means are equal.
    """
    added = chance * (seconds - MEAN) if slower is None else slower

    def draw(rng: np.random.Generator, items: int) -> Pair:
        usual = rng.lognormal(CENTRE, SPREAD, items)
        before = np.where(rng.random(items) < chance, seconds, usual)
        return before, usual * np.exp(NOISE * rng.normal(size=items)) + added

    return draw


def heavy_tails(rng: np.random.Generator, items: int) -> Pair:
    """Return independent latencies of two systems with the same heavy-tailed distribution."""
    before, after = rng.lognormal(0.0, 1.5, (2, items))
    return before, after


def slower(factor: float) -> Kind:
    """Return a kind of comparison in which all latencies are multiplied by a factor."""

    def draw(rng: np.random.Generator, items: int) -> Pair:
        before = rng.lognormal(CENTRE, SPREAD, items)
        return before, before * factor * np.exp(NOISE * rng.normal(size=items))

    return draw


KINDS: Mapping[str, Kind] = {
    "no loss, 2 % timeouts of 30 s": with_timeouts(0.02, 30),
    "no loss, 5 % timeouts of 30 s": with_timeouts(0.05, 30),
    "no loss, 2 % timeouts of 120 s": with_timeouts(0.02, 120),
    "faster, 2 % timeouts of 30 s": with_timeouts(0.02, 30, 0.3),
    "no loss, heavy tails": heavy_tails,
    "slower, factor 1.3": slower(1.3),
    "slower, factor 1.5": slower(1.5),
    "slower, factor 2": slower(2.0),
    "slower, factor 3": slower(3.0),
}


def rows(scores: Floats) -> list[dict[str, Any]]:
    """Return scores as rows of a table."""
    return [{"item": f"q{i}", "latency": score} for i, score in enumerate(scores.tolist())]


def rates(kind: Kind, name: str, items: int, repeats: int) -> tuple[float, float]:
    """Return the shares of comparisons that are called worse: the verdict, and unchecked."""
    rng = seeded([items, *map(ord, name)])
    worse, unchecked = 0, 0
    for _ in range(repeats):
        before, after = (rows(each) for each in kind(rng, items))
        result = compare_scores(before, after, fields={"score": "latency"})
        worse += result.verdict == "worse"
        unchecked += bool(result.changes[0].comparison.regressed(result.alpha))
    return worse / repeats, unchecked / repeats


def main() -> None:
    """Print a line per kind and number of items."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--repeats", type=int, default=200)
    options = parser.parse_args()
    repeats, sizes = (5, ITEMS[:1]) if options.quick else (options.repeats, ITEMS)
    print(f"{repeats} comparisons per row: worse, unchecked")
    for name, kind in KINDS.items():
        for items in sizes:
            worse, unchecked = rates(kind, name, items, repeats)
            add_figure(worse, name, f"{items} items", "worse")
            add_figure(unchecked, name, f"{items} items", "unchecked")
            print(f"{name:32} {items:4} {worse:.3f} {unchecked:.3f}", flush=True)
    save(parser, options)


if __name__ == "__main__":
    main()
