"""The false positive rate and the coverage of paired comparisons.

Differences of two systems on 5, 20 and 100 queries are drawn from populations of many shapes:
labels that rarely or often differ, skewed scores, systems that are a little better but fail on a
few queries, and queries in clusters of four. :func:`mirage.statistics.paired_means` compares them.
The table has the coverage of 95 % intervals, the share of draws that have one, how often p is at
most 0.05 (the false positive rate if the true mean is 0), and the number of draws in which p and
the interval disagree about 0. The last two numbers are the coverage and the share of significant
draws if the range of the metric is not known, so that only the permutation test is used.

    python validation/coverage/paired.py [REPEATS]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage.statistics import paired_means

QUERIES = (5, 20, 100)
PERMUTATIONS = 2000
Draw = Callable[[np.random.Generator, int], np.ndarray]


def labels(better: float, worse: float) -> Draw:
    """Return a draw of differences between right and wrong answers."""
    chances = (better, worse, 1 - better - worse)
    return lambda rng, size: rng.choice([1.0, -1.0, 0.0], size, p=chances)


def scores(gain: float) -> Draw:
    """Return a draw of differences between two scores from 0 to 1 of one query."""

    def draw(rng: np.random.Generator, size: int) -> np.ndarray:
        mean = rng.random(size)
        first, second = (rng.beta(4 * mean + 0.2, 4 * (1 - mean) + 0.2) for _ in range(2))
        return first - second + gain * (rng.random(size) < 0.3)

    return draw


def rare_failures(share: float) -> Draw:
    """Return a draw of differences of a system that is a little better but fails on a few queries.

    The earlier scores have a mean of 0.75. The later score is 0 on this share of the queries, and
    on the others so much higher that both means are equal.
    """

    def draw(rng: np.random.Generator, size: int) -> np.ndarray:
        scores = rng.beta(12, 4, size)
        gain = 0.75 * share / (1 - share) * (0.5 + rng.random(size))
        return np.where(rng.random(size) < share, -scores, gain)

    return draw


def normal(mean: float, deviation: float) -> Draw:
    """Return a draw of normal differences."""
    return lambda rng, size: rng.normal(mean, deviation, size).clip(-1, 1)


def in_fours(draw: Draw) -> Draw:
    """Return a draw of clusters of four queries that mostly agree."""

    def drawn(rng: np.random.Generator, size: int) -> np.ndarray:
        together = np.repeat(draw(rng, -(-size // 4)), 4)[:size]
        return np.where(rng.random(size) < 0.7, together, draw(rng, size))

    return drawn


POPULATIONS: dict[str, tuple[Draw, float, int]] = {
    "alike: labels, 50 % differ": (labels(0.25, 0.25), 0.0, 1),
    "alike: labels, 10 % differ": (labels(0.05, 0.05), 0.0, 1),
    "alike: scores": (scores(0.0), 0.0, 1),
    "alike: 2 % fail, others better": (rare_failures(0.02), 0.0, 1),
    "alike: 5 % fail, others better": (rare_failures(0.05), 0.0, 1),
    "alike: in fours, 5 % fail, others better": (in_fours(rare_failures(0.05)), 0.0, 4),
    "alike: heavy tails": (lambda rng, size: 0.2 * rng.standard_t(3, size), 0.0, 1),
    "alike: labels, in fours": (in_fours(labels(0.25, 0.25)), 0.0, 4),
    "labels +.04": (labels(0.08, 0.04), 0.04, 1),
    "labels +.10": (labels(0.1, 0.0), 0.1, 1),
    "labels +.30": (labels(0.4, 0.1), 0.3, 1),
    "labels +.90": (labels(0.9, 0.0), 0.9, 1),
    "scores +.15": (scores(0.5), 0.15, 1),
    "normal, deviation 0.2, +.05": (normal(0.05, 0.2), 0.05, 1),
    "normal, deviation 0.2, +.10": (normal(0.1, 0.2), 0.1, 1),
    "normal, deviation 0.2, +.20": (normal(0.2, 0.2), 0.2, 1),
    "normal, deviation 0.3, +.10": (normal(0.1, 0.3), 0.1, 1),
    "normal, deviation 0.3, +.20": (normal(0.2, 0.3), 0.2, 1),
    "skewed (log-normal)": (lambda rng, size: rng.lognormal(0, 1, size), float(np.exp(0.5)), 1),
    "labels +.30, in fours": (in_fours(labels(0.4, 0.1)), 0.3, 4),
}


WITHOUT_RANGE = ("alike: heavy tails", "skewed (log-normal)")


def measure(name: str, queries: int, repeats: int) -> Iterator[str]:
    """Yield coverage, share of significant draws, and disagreements."""
    draw, mean, cluster = POPULATIONS[name]
    rng = seeded(queries)
    gaps = np.stack([draw(rng, queries) for _ in range(repeats)], axis=1)
    codes, names = np.arange(queries) // cluster, (name, f"{queries} queries")
    most = np.inf if name in WITHOUT_RANGE else 1.0
    rows = paired_means(gaps, codes, most=most, permutations=PERMUTATIONS)
    ends = np.array([row.interval for row in rows])
    p = np.array([row.p for row in rows])
    there = ~np.isnan(ends[:, 0])
    low, high = ends[there].T
    held = (low <= mean) & (mean <= high)
    yield f"{held.mean():.3f} ({there.mean():.2f})" if there.any() else "-"
    yield f"{(p <= 0.05).mean():.3f}"
    disagree = ((low <= 0) & (high >= 0)) != (p[there] > 0.05)
    yield f"{int(disagree.sum())}"
    add_figure(held.mean() if there.any() else np.nan, *names, "coverage")
    add_figure(there.mean(), *names, "draws with an interval")
    add_figure((p <= 0.05).mean(), *names, "significant")
    add_figure(disagree.sum(), *names, "disagreements")
    if name in WITHOUT_RANGE:
        return
    rows = paired_means(gaps, codes, permutations=PERMUTATIONS)
    low, high = np.array([row.interval for row in rows])[there].T
    held = (low <= mean) & (mean <= high)
    p = np.array([row.p for row in rows])
    yield f"{held.mean():.3f}" if there.any() else "-"
    yield f"{(p <= 0.05).mean():.3f}"
    add_figure(held.mean() if there.any() else np.nan, *names, "coverage without a range")
    add_figure((p <= 0.05).mean(), *names, "significant without a range")


def main(repeats: int = 1000) -> None:
    """Print a line per population."""
    print(
        f"{repeats} draws each; coverage (share with an interval), p <= 0.05, disagreements, and "
        "coverage and p <= 0.05 without a range"
    )
    print(f"{'population':40}" + "".join(f"{f'{queries} queries':>42}" for queries in QUERIES))
    for name in POPULATIONS:
        columns = ("  ".join(measure(name, n, repeats)) for n in QUERIES)
        print(f"{name:40}" + "".join(f"{column:>42}" for column in columns), flush=True)


if __name__ == "__main__":
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("repeats", default=1000, nargs="?", type=int)
    options = parser.parse_args()
    main(30 if options.quick else options.repeats)
    save(parser, options)
