"""How often a history of commits raises an alarm: where nothing changed, and where facts are lost.

Each of 40 questions has its chance to be answered rightly, mostly nearly 1; a system is asked three
times at each commit, and two features go together. Nothing here is drawn by the code that compares.

* 31 commits without a change, of which 30 are compared with the first: the share of series with any
  alarm, at 5, 20, 40 and 100 questions, with one, three and five answers each, and with clusters of
  five that share what chance does to them;
* a commit at which a tenth of the questions lose all their facts, after 15 without a change (or 1,
  or 29): how often it is told; beside it what the gate says of it and the first.

    python benchmarks/history.py                              # an hour on two slow cores
    python benchmarks/history.py --queries 40 --series 200    # ten minutes
"""

from __future__ import annotations

import argparse

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from mirage.features import FeatureTable
from mirage.testing import Baseline, Commit, moved
from mirage.testing.comparison import compare

Floats = NDArray[np.float64]
NAMES = ("answer_match", "citation_map@10")
COMMITS, ALPHA, LOSS = 30, 0.05, 0.1


def answers(rng: np.random.Generator, chances: Floats, times: int, size: int) -> Floats:
    """Right and wrong answers, ``(times, queries, features)``, alike by chance in a cluster."""
    queries = len(chances)
    shared = rng.random((times, -(-queries // size), 1)).repeat(size, axis=1)[:, :queries]
    own = rng.random((times, *chances.shape))
    # A question goes with its cluster in three of ten cases.
    drawn = np.where(rng.random((times, queries, 1)) < 0.3 * (size > 1), shared, own)
    return (drawn < chances).astype(float)


def chances_of(rng: np.random.Generator, queries: int) -> Floats:
    """Chances of right answers: mostly sure, some not; two features that go together."""
    first = rng.beta(4, 0.35, (queries, 1))
    return np.hstack([first, np.clip(first + rng.normal(0, 0.1, (queries, 1)), 0, 1)])


def commit(name: str, values: Floats, size: int) -> Commit:
    """What was measured."""
    ids = tuple(f"q{i}" for i in range(values.shape[1]))
    clusters = {id_: str(i // size) for i, id_ in enumerate(ids)} if size > 1 else {}
    repeats = values if len(values) > 1 else None
    table = FeatureTable(
        "m", "en", ids, NAMES, values.mean(axis=0), repeats=repeats, clusters=clusters
    )
    return Commit(name, "", "", Baseline(table, "asked", ""))


def alarm(seed: int, queries: int, times: int, size: int) -> bool:
    """Whether a series without a change has any alarm."""
    rng = np.random.default_rng([seed, queries, times, size])
    chances = chances_of(rng, queries)
    rows = [commit(str(i), answers(rng, chances, times, size), size) for i in range(COMMITS + 1)]
    return any(one.worse for one in moved(rows, alpha=ALPHA, length=COMMITS).commits)


def told(seed: int, queries: int, times: int, place: int) -> tuple[bool, bool]:
    """Whether a commit that loses a tenth of its facts is told, here and by the gate."""
    rng = np.random.default_rng([seed, queries, times, 9])
    before = chances_of(rng, queries)
    after = before.copy()
    after[rng.choice(queries, round(LOSS * queries), replace=False), 0] = 0.0
    chances = [*[before] * place, after]
    rows = [commit(str(i), answers(rng, each, times, 1), 1) for i, each in enumerate(chances)]
    here = bool(moved(rows, alpha=ALPHA, length=COMMITS).commits[-1].worse)
    gate = compare(rows[0].baseline.table, rows[-1].baseline.table).verdict == "worse"
    return here, gate


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--queries", type=int, help="of all numbers of queries this one alone")
    given = parser.parse_args()
    run = Parallel(n_jobs=given.jobs)
    seeds = range(given.series)
    print(f"share of {given.series} series of {COMMITS} commits without a change that alarm,")
    print(f"at the level {ALPHA}: queries, repeats, queries a cluster")
    for queries, times, size in (
        (40, 3, 1),
        (5, 3, 1),
        (20, 3, 1),
        (100, 3, 1),
        (40, 1, 1),
        (40, 5, 1),
        (40, 3, 5),
    ):
        if given.queries not in (None, queries):
            continue
        share = np.mean(run(delayed(alarm)(seed, queries, times, size) for seed in seeds))
        print(f"{queries:5d} {times:3d} {size:3d}  {share:.3f}", flush=True)
    print("share of commits that lose a tenth of their facts that are told: here, by the gate;")
    print("queries, repeats, commits before it")
    for queries, times, place in (
        (40, 3, 15),
        (40, 3, 1),
        (40, 3, 29),
        (40, 1, 15),
        (20, 3, 15),
        (100, 3, 15),
    ):
        if given.queries not in (None, queries):
            continue
        seen = run(delayed(told)(seed, queries, times, place) for seed in seeds)
        here, gate = np.mean(seen, axis=0)
        print(f"{queries:5d} {times:3d} {place:3d}  {here:.3f} {gate:.3f}", flush=True)


if __name__ == "__main__":
    main()
