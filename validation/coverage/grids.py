"""Coverage of the intervals of a grid's table, and the false positive rate of its tests.

The population is 4,000 simulated queries of a grid of three retrievers, two rerankers and three
generators. Queries differ in difficulty. Components shift the probability of a right answer, on
some queries more than on others. A judge repeats a metric with some errors. Queries are drawn from
this population; in one variant, each query is drawn twice and asked again. In another variant, the
metric is a score, which components change slightly, and one reranker fails on 2 % of the queries.
Half of the equal cells then fail on 2 % of the queries, and are slightly better on the others. The
table has 5, 20 and 100 queries, and the coverage of 95 % intervals of cells' means, of differences
of cells, of shares of the variance, of settings' means, and of tau between metric and judge. It
also has the rate at which any two of 18 equal cells are called different (Holm, p at most 0.05). A
dash means that the library gives no interval.

    python validation/coverage/grids.py [REPEATS]
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, known_mean, save, script_parser, seeded

from mirage.grids import Cell, ResultTable
from mirage.grids.effects import component_effects
from mirage.papers.bergen import metric_agreement
from mirage.statistics.worlds import holds

AXES = {"retriever": 3, "reranker": 2, "generator": 3}
PLACES = list(product(*(range(size) for size in AXES.values())))
NAMES = [dict(zip(AXES, map(str, place), strict=True)) for place in PLACES]
EFFECTS = {
    "all matter": ((0.0, 0.4, 0.9), (0.0, 0.3), (-0.5, 0.0, 0.6)),
    "one matters": ((0.0, 0.6, 1.4), (0.0, 0.0), (0.0, 0.0, 0.0)),
    "little matters": ((0.0, 0.1, 0.2), (0.0, 0.1), (-0.1, 0.0, 0.1)),
    "asked twice": ((0.0, 0.4, 0.9), (0.0, 0.3), (-0.5, 0.0, 0.6)),
    "rare failures": ((0.0, 0.02, 0.04), (0.0, 0.0), (0.0, 0.01, 0.02)),
}
RARE = 0.02  # share of queries on which a reranker fails
QUERIES = (5, 20, 100)
IDS = [f"q{i}" for i in range(max(QUERIES))]


def population(effects: tuple[tuple[float, ...], ...], rng: np.random.Generator) -> np.ndarray:
    """Return the probability of a right answer for each query and cell, ``(queries, cells)``."""
    logits = 1.5 * rng.normal(size=(4000, 1)) + 0.6 * rng.normal(size=(4000, len(PLACES)))
    for axis, shifts in enumerate(effects):
        levels = [place[axis] for place in PLACES]
        own = np.array(shifts) + 0.6 * rng.normal(size=(4000, len(shifts)))
        logits = logits + own[:, levels]
    return np.asarray(1 / (1 + np.exp(-logits)))


def scores_with_failures(
    effects: tuple[tuple[float, ...], ...], rng: np.random.Generator
) -> np.ndarray:
    """Return the score of each query and cell, ``(queries, cells)``; one reranker fails rarely."""
    shifts = [sum(axis[i] for axis, i in zip(effects, place, strict=True)) for place in PLACES]
    scores = rng.beta(12, 4, (4000, 1)) + np.array(shifts) + 0.02 * rng.normal(size=(4000, 18))
    fails = (rng.random((4000, 1)) < RARE) & np.array([place[1] == 1 for place in PLACES])
    return np.where(fails, 0.0, scores.clip(0, 1))


def equal_with_failures(queries: int, rng: np.random.Generator) -> np.ndarray:
    """Return scores of cells with equal means; every second one fails on a few queries."""
    scores = np.repeat(rng.beta(12, 4, (queries, 1)), len(PLACES), axis=1)
    gain = 0.75 * RARE / (1 - RARE) * (0.5 + rng.random(scores.shape))
    changed = np.where(rng.random(scores.shape) < RARE, 0.0, scores + gain)
    return np.where(np.arange(len(PLACES)) % 2, changed, scores)


def table(right: np.ndarray, judged: np.ndarray, clusters: dict[str, str]) -> ResultTable:
    """Return the table of some answers, ``(queries, cells)``."""
    ids = IDS[: len(right)]
    bounds = {"m": (0.0, 1.0), "judge": (0.0, 1.0)}
    cells = []
    for j, settings in enumerate(NAMES):
        columns = {"m": right[:, j] * 1.0, "judge": judged[:, j] * 1.0}
        cells.append(Cell.measured(settings, ids, columns, bounds=bounds, clusters=clusters))
    return ResultTable("simulated", tuple(cells), ("m", "judge"))


def drawn(name: str, chances: np.ndarray, queries: int, rng: np.random.Generator) -> ResultTable:
    """Return the table of a sample of queries; if asked twice, pairs have nearly equal answers."""
    twice = name == "asked twice"
    count = -(-queries // 2) if twice else queries
    rows = chances[rng.integers(0, len(chances), count)]
    if name == "rare failures":
        return table(rows, np.where(rng.random(rows.shape) < 0.15, 1 - rows, rows), {})
    right = rng.random(rows.shape) < rows
    if twice:
        right = np.repeat(right, 2, axis=0)[:queries]
        right ^= rng.random(right.shape) < 0.02
    judged = right ^ (rng.random(right.shape) < 0.15)
    names = {id_: f"c{i // 2}" for i, id_ in enumerate(IDS[:queries])} if twice else {}
    return table(right, judged, names)


def share(held: list[float]) -> str:
    """Return the coverage of the existing intervals, and the share of draws with an interval."""
    known = np.array(held)
    there = known[~np.isnan(known)]
    return f"{there.mean():.3f} ({len(there) / len(known):.2f})" if len(there) else "-"


def truth_of(chances: np.ndarray) -> tuple[np.ndarray, dict[str, float], list[float], float]:
    """Return the means of cells, shares of axes, means of settings and tau in the population."""
    cells = tuple(
        Cell.measured(settings, [f"p{i}" for i in range(len(chances))], {"m": chances[:, j]})
        for j, settings in enumerate(NAMES)
    )
    effects = component_effects(ResultTable("population", cells, ("m",)), "m", draws=1)
    # Kendall's tau-b of two columns of 0 and 1 is the correlation phi.
    right = chances.mean(axis=0)
    judged = 0.15 + 0.7 * right
    phi = 0.7 * right * (1 - right) / np.sqrt(right * (1 - right) * judged * (1 - judged))
    shares = {row.axis: row.share for row in effects}
    return right, shares, [row.mean for row in effects.settings], float(phi.mean())


def alarm(name: str, chances: np.ndarray, queries: int, rng: np.random.Generator) -> bool:
    """Return whether any two of 18 equal cells are called different."""
    if name == "rare failures":
        scores = equal_with_failures(queries, rng)
        rows = table(scores, scores, {}).compare("m")
    else:
        alike = np.repeat(chances[:, :1], len(PLACES), axis=1)
        rows = drawn(name, alike, queries, rng).compare("m")
    return any(row.corrected <= 0.05 for row in rows)


def main(repeats: int = 300) -> None:
    """Print a line for each population and number of queries."""
    print(f"{repeats} draws each; in brackets is how often there is an interval")
    print("population      queries  cell mean     difference    share         setting       tau")
    for name, effects in EFFECTS.items():
        rng = seeded(len(name))
        rare, twice = name == "rare failures", name == "asked twice"
        chances = scores_with_failures(effects, rng) if rare else population(effects, rng)
        means, shares, settings, tau = truth_of(chances)
        if twice:  # one in fifty answers is another the second time
            means, settings = 0.02 + 0.96 * means, [0.02 + 0.96 * mean for mean in settings]
        for queries in QUERIES:
            held: dict[str, list[float]] = {}
            alarms = []
            for seed in range(repeats):
                made = drawn(name, chances, queries, rng)
                held.setdefault("mean", []).extend(
                    holds(cell.scores["m"].interval, mean)
                    for cell, mean in zip(made, means, strict=True)
                )
                gaps = made.compare("m", baseline={"retriever": "0"}, permutations=400)
                held.setdefault("difference", []).extend(
                    holds(
                        row.interval,
                        means[list(made).index(row.cell)] - means[list(made).index(row.baseline)],
                    )
                    for row in gaps
                )
                found = component_effects(made, "m", draws=400, seed=seed)
                held.setdefault("share", []).extend(
                    holds(row.interval, shares[row.axis]) for row in found
                )
                held.setdefault("setting", []).extend(
                    holds(row.interval, mean)
                    for row, mean in zip(found.settings, settings, strict=True)
                )
                (row,) = metric_agreement(made, "judge", ["m"])
                held.setdefault("tau", []).append(
                    float("nan") if twice or rare else holds((row.lower, row.upper), tau)
                )
                alarms.append(alarm(name, chances, queries, rng))
            columns = "  ".join(f"{share(some):12}" for some in held.values())
            print(f"{name:15} {queries:7}  {columns}  alarms {np.mean(alarms):.3f}", flush=True)
            for kind, hits in held.items():
                add_figure(known_mean(hits), name, f"{queries} queries", f"coverage: {kind}")
            add_figure(np.mean(alarms), name, f"{queries} queries", "false positive rate")


if __name__ == "__main__":
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("repeats", default=300, nargs="?", type=int)
    options = parser.parse_args()
    main(2 if options.quick else options.repeats)
    save(parser, options)
