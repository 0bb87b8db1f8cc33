"""False alarms and power of a history of commits.

Each query has a probability of a right answer, mostly near 1. A system is asked three times at each
commit, and two features are correlated. In the first three tables only the means of a run are
simulated, and `rise_evidence` decides, as `compare_commits` does.

* 100 commits without a loss, with a test after each: the share of series with any alarm, with 5 to
  100 queries, one and three answers each, and clusters of five with a common probability. Day noise
  adds the same normally distributed shift to all probabilities of a run, on the logit scale.
  Changes permute the probabilities of a tenth of the queries at a commit, so that the mean over the
  queries is the same.
* Changes that keep the mean over a population of queries, but not over these queries: at each
  commit 95 of 100 queries lose .02 and the others gain .38. ``around a base``: each commit changes
  the same base. ``from commit to commit``: changes add up, for a tenth of the queries.
* A commit at which a tenth of the queries lose all their facts, after 5, 15, 30 or 60 commits
  without a loss: how often the first feature alarms within five commits.
* The same with texts, through `compare_commits`. Systems of the simulated arena answer truthfully
  or lie, with the probability of the query, in one of four manners, one of which is the system's
  usual one, and with or without citations. The gate's features score them. Another system changes
  only its manner.

    python validation/coverage/history.py            # half an hour on one core
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import expit, logit

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage import FeatureSuite, MirageDataset
from mirage.features import FeatureTable
from mirage.languages import LANGUAGES
from mirage.monitoring import Commit, compare_commits
from mirage.statistics.alarms import rise_evidence
from mirage.surrogate.pretraining import simulated_runs
from mirage.surrogate.simulation import system_name
from mirage.testing.baseline import Baseline
from mirage.testing.gate import gated, mean_of_pairs

Floats = NDArray[np.float64]
FEATURES, COMMITS, WITHIN, ALPHA, LOSS = 2, 100, 5, 0.05, 0.1
DAYS = (0.0, 0.1, 0.3)
CHANGES = ("none", "permuted")
DESIGNS = ((40, 3, 1), (5, 3, 1), (20, 3, 1), (100, 3, 1), (40, 1, 1), (40, 3, 5))


def draw_chances(rng: np.random.Generator, series: int, queries: int) -> Floats:
    """Return probabilities of right answers, ``(series, queries, features)``, mostly near 1."""
    first = rng.beta(4, 0.35, (series, queries, 1))
    second = np.clip(first + rng.normal(0, 0.1, first.shape), 0, 1)
    return np.concatenate([first, second], axis=2)


def draw_means(
    rng: np.random.Generator, chances: Floats, repeats: int, size: int, day: float
) -> Floats:
    """Return the mean of each feature in a run of each series, ``(series, features)``."""
    if day:
        noise = rng.normal(0, day, (len(chances), 1, 1))
        chances = expit(logit(np.clip(chances, 1e-9, 1 - 1e-9)) + noise)
    if size == 1:
        return rng.binomial(repeats, chances).mean(axis=1) / repeats
    queries = chances.shape[1]
    shared = rng.random((repeats, len(chances), -(-queries // size), 1))
    shared = shared.repeat(size, axis=2)[:, :, :queries]
    # A query goes with its cluster in three of ten cases.
    joins = rng.random((repeats, *chances.shape[:2], 1)) < 0.3
    drawn = np.where(joins, shared, rng.random((repeats, *chances.shape)))
    return (drawn < chances).mean(axis=(0, 2))


def choose(rng: np.random.Generator, series: int, queries: int, share: float) -> NDArray[np.intp]:
    """Return a random share of the queries of each series, ``(series, chosen, 1)``."""
    order = rng.random((series, queries)).argsort(axis=1)
    return order[:, : max(round(share * queries), 1), None]


def change(rng: np.random.Generator, chances: Floats, base: Floats, kind: str) -> Floats:
    """Return the probabilities at the next commit."""
    if kind == "none":
        return chances
    if kind == "permuted":
        some = choose(rng, *chances.shape[:2], LOSS)
        after = chances.copy()
        values = np.take_along_axis(chances, some, axis=1)
        np.put_along_axis(after, some, np.roll(values, 1, axis=1), axis=1)
        return after
    steps = np.where(rng.random((*chances.shape[:2], 1)) < 0.05, 0.38, -0.02)
    if kind == "around a base":
        return np.clip(base + steps, 0, 1)
    some = rng.random(steps.shape) < LOSS
    return np.clip(chances + some * steps, 0, 1)


def alarms(
    rng: np.random.Generator,
    series: int,
    design: tuple[int, int, int],
    day: float,
    kind: str,
    commits: int,
    lost_at: int | None = None,
) -> NDArray[np.bool_]:
    """Return whether each commit alarms, ``(commits, series, features)``."""
    queries, repeats, size = design
    chances = draw_chances(rng, series, queries)
    if kind not in CHANGES:  # leave room for changes in both directions
        chances = 0.1 + 0.5 * chances
    base, means = chances, []
    for i in range(commits):
        if i:
            chances = change(rng, chances, base, kind)
        if i == lost_at:
            lost = choose(rng, series, queries, LOSS)
            chances = chances.copy()
            np.put_along_axis(chances[..., :1], lost, 0.0, axis=1)
        means.append(draw_means(rng, chances, repeats, size, day))
    losses = -np.array(means).reshape(commits, -1)
    smallest = np.full(losses.shape[1], np.sqrt(size) / (repeats * queries))
    evidence = rise_evidence(losses, smallest=smallest).evidence
    return (evidence >= FEATURES / ALPHA).reshape(commits, series, FEATURES)


def false_alarms(series: int, commits: int) -> None:
    """Print the shares of series without a loss that have any alarm."""
    print(f"share of {series} series of {commits} commits without a loss with any alarm")
    print("queries, repeats, queries per cluster, day noise, changes")
    cells = [(design, day, kind) for design in DESIGNS for day in DAYS for kind in CHANGES]
    cells += [((40, 3, 1), 0.0, kind) for kind in ("around a base", "from commit to commit")]
    for design, day, kind in cells:
        rng = seeded([*design, round(10 * day), len(kind)])
        share = alarms(rng, series, design, day, kind, commits).any(axis=(0, 2)).mean()
        print(*design, day, kind, f"{share:.3f}", flush=True)
        add_figure(share, "false alarms", " ".join(map(str, design)), f"day {day}", kind)


def detections(series: int) -> None:
    """Print the shares of losses of a tenth of the facts that alarm within five commits."""
    print(f"share of {series} losses of a tenth of the facts found within {WITHIN} commits")
    print("queries, repeats, queries per cluster, commits before, day noise, changes")
    cells = [((40, 3, 1), at) for at in (5, 15, 30, 60)]
    cells += [(design, 30) for design in DESIGNS[1:]]
    for design, at in cells:
        for day in DAYS:
            for kind in CHANGES:
                rng = seeded([*design, at, round(10 * day), len(kind)])
                flags = alarms(rng, series, design, day, kind, at + WITHIN, at)
                share = flags[at:, :, 0].any(axis=0).mean()
                print(*design, at, day, kind, f"{share:.3f}", flush=True)
                names = " ".join(map(str, design)), f"after {at}", f"day {day}", kind
                add_figure(share, "found", *names)


# Texts --------------------------------------------------------------------------------------------

MANNERS = ("reference", "casual", "terse", "chatty")


def texts(code: str) -> tuple[FeatureTable, Floats]:
    """Return features of the possible answers, ``(3, manners, queries, features)``.

    The first are truthful. The second lie if a passage answers. The third have no citations.
    """
    dataset = MirageDataset.bundled(code)
    suite = FeatureSuite(gated(dataset))
    names = [
        [*MANNERS],
        *([system_name(kind, m) for m in MANNERS] for kind in ("lying", "uncited")),
    ]
    runs = simulated_runs(code, [name for row in names for name in row])
    tables = [[suite.score(dataset, runs[n], progress=False) for n in row] for row in names]
    return tables[0][0], np.array([[table.values for table in row] for row in tables])


def run_of_texts(
    rng: np.random.Generator, known: Floats, chances: Floats, manner: int, times: int = 3
) -> Floats:
    """Return the features of a run, ``(times, queries, features)``, mostly in one manner."""
    size = (times, len(chances))
    manners = np.where(rng.random(size) < 0.7, manner, rng.integers(len(MANNERS), size=size))
    kinds = np.where(rng.random(size) < chances, np.where(rng.random(size) < 0.05, 2, 0), 1)
    return known[kinds, manners, np.arange(len(chances))]


def of_texts(code: str, seed: int, like: FeatureTable, known: Floats) -> tuple[bool, ...]:
    """Return whether there is an alarm without a change, after lies, and in another manner."""
    rng = seeded([seed, *code.encode()])
    suite = FeatureSuite(like.features)
    lower = tuple(n for n, facts in suite.facts.items() if facts.direction_in(code) == "lower")

    def row(place: int, chances: Floats, manner: int) -> Commit:
        values = run_of_texts(rng, known, chances, manner)
        table = FeatureTable(
            "m", code, like.query_ids, like.features, mean_of_pairs(values), repeats=values
        )
        return Commit(str(place), "", Baseline(table, "asked", "", lower))

    before = rng.beta(4, 0.35, len(like))
    manner = int(rng.integers(len(MANNERS)))
    rows = [row(i, before, manner) for i in range(15)]
    answerable = np.array([query.answerable is not False for query in MirageDataset.bundled(code)])
    lost = before.copy()
    lost[rng.choice(np.flatnonzero(answerable), round(LOSS * len(like)), replace=False)] = 0.0
    answers = (before, manner), (lost, manner), (before, (manner + 1) % len(MANNERS))
    alarmed = []
    for chances, way in answers:
        last = [row(100 + i, chances, way) for i in range(WITHIN)]
        checked = compare_commits([*rows, *last], alpha=ALPHA).commits[15:]
        alarmed.append(any(entry.worse for entry in checked))
    return tuple(alarmed)


def main() -> None:
    """Print the shares."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--series", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if options.quick:
        options.series = 2
    false_alarms(options.series, 8 if options.quick else COMMITS)
    detections(options.series)
    codes = sorted(LANGUAGES)[: 1 if options.quick else None]
    count = 1 if options.quick else max(2, options.series // 40)
    print(f"texts, 40 queries, 3 repeats, {count} series a language, 15 commits, then 5: alarms")
    print("without a change, with lies in a tenth, in another manner")
    run, rows = Parallel(n_jobs=options.jobs), []
    for code in codes:
        like, known = texts(code)
        rows += run(delayed(of_texts)(code, seed, like, known) for seed in range(count))
        words = " ".join(f"{share:.3f}" for share in np.mean(rows[-count:], axis=0))
        print(f"{code}  {words}", flush=True)
    print("all", " ".join(f"{share:.3f}" for share in np.mean(rows, axis=0)))
    columns = "no change", "a tenth lies", "another manner"
    for column, share in zip(columns, np.mean(rows, axis=0), strict=True):
        add_figure(share, "texts", column)
    save(parser, options)


if __name__ == "__main__":
    main()
