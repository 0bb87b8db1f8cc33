"""How often a history of commits raises an alarm: where nothing changed, and where facts are lost.

Each of 40 questions has its chance to be answered rightly, mostly nearly 1; a system is asked three
times at each commit, and two features go together. Nothing here is drawn by the code that compares.

* 31 commits without a change, of which 30 are compared with the first: the share of series with any
  alarm, at 5, 20, 40 and 100 questions, with one, three and five answers each, and with clusters of
  five that share what chance does to them;
* a commit at which a tenth of the questions lose all their facts, after 15 without a change (or 1,
  or 29): how often it is told; beside it what the gate says of it and the first, and two bounds: a
  test of the mean that knows its variance, and the likelihood ratio that knows each question's
  chance before, and that a tenth of them lose all;
* a commit that changes as many questions for better as for worse: how often it is told as worse;
* the same with texts: systems of the simulated arena, each answer truthful or a lie by the chance
  of its question, in one of four manners, one of which is the system's own, and with or without its
  citations, scored by the gate's features. Besides, a commit that answers in another manner.

    python benchmarks/history.py            # some hours on two slow cores
    python benchmarks/history.py --quick    # ten minutes: 50 series of 40 questions, two languages
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import norm

from mirage import FeatureSuite, MirageDataset
from mirage.features import FeatureTable
from mirage.languages import LANGUAGES
from mirage.monitoring import Commit, compare_commits
from mirage.surrogate.pretraining import simulated_runs
from mirage.surrogate.simulation import system_name
from mirage.testing import Baseline
from mirage.testing.comparison import compare
from mirage.testing.gate import gated, mean_of_pairs

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
    return Commit(name, "", Baseline(table, "asked", ""))


def alarm(seed: int, queries: int, times: int, size: int) -> tuple[bool]:
    """Whether a series without a change has any alarm."""
    rng = np.random.default_rng([seed, queries, times, size])
    chances = chances_of(rng, queries)
    rows = [commit(str(i), answers(rng, chances, times, size), size) for i in range(COMMITS + 1)]
    return (any(one.worse for one in compare_commits(rows, alpha=ALPHA, length=COMMITS).commits),)


def told(seed: int, queries: int, times: int, place: int) -> tuple[bool, ...]:
    """Whether a commit that loses a tenth of its facts is told here, by the gate and by bounds."""
    rng = np.random.default_rng([seed, queries, times, 9])
    before = chances_of(rng, queries)
    after = before.copy()
    after[rng.choice(queries, round(LOSS * queries), replace=False), 0] = 0.0
    chances = [*[before] * place, after]
    rows = [commit(str(i), answers(rng, each, times, 1), 1) for i, each in enumerate(chances)]
    gate = compare(rows[0].baseline.table, rows[-1].baseline.table).verdict == "worse"
    last = rows[-1].baseline.table.values[:, 0]
    return (
        worse(rows),
        gate,
        mean_bound(before[:, 0], last, times),
        ratio_bound(rng, before[:, 0], last, times),
    )


def two_way(seed: int, queries: int, times: int, share: float) -> tuple[bool]:
    """Whether a commit at which that share of the questions change places is told as worse."""
    rng = np.random.default_rng([seed, queries, times, 11])
    before = chances_of(rng, queries)
    after = before.copy()
    some = rng.choice(queries, round(share * queries), replace=False)
    after[some] = before[np.roll(some, 1)]
    chances = [*[before] * 15, after]
    return (worse([commit(str(i), answers(rng, c, times, 1), 1) for i, c in enumerate(chances)]),)


def worse(rows: Sequence[Commit]) -> bool:
    """Whether the last commit is told."""
    return bool(compare_commits(rows, alpha=ALPHA, length=COMMITS).commits[-1].worse)


def mean_bound(chances: Floats, shares: Floats, times: int) -> bool:
    """Whether a test of the mean tells it that knows each question's chance."""
    deviation = np.sqrt((chances * (1 - chances)).sum() / times)
    return bool(norm.sf((chances - shares).sum() / deviation) <= ALPHA / COMMITS)


def ratio_bound(rng: np.random.Generator, chances: Floats, shares: Floats, times: int) -> bool:
    """Whether the likelihood ratio tells it: the most powerful test of all (Neyman & Pearson)."""
    all_wrong = np.maximum((1 - chances) ** times, 1e-12)

    def ratio(wrong: NDArray[np.bool_]) -> Floats:
        return np.log(1 - LOSS + LOSS * wrong / all_wrong).sum(axis=-1)

    drawn = ratio(rng.random((20_000, len(chances))) < all_wrong)
    return bool((drawn >= ratio(shares == 0) - 1e-9).mean() <= ALPHA / COMMITS)


# Texts --------------------------------------------------------------------------------------------

MANNERS = ("reference", "plain", "casual", "terse")


def texts(code: str) -> tuple[FeatureTable, Floats]:
    """Features of the answers to choose from, ``(3, manners, queries, features)``.

    The first are truthful, the second lies where a passage answers, the third without citations.
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
    """The features of a run, ``(times, queries, features)``; seven of ten answers in one manner."""
    size = (times, len(chances))
    manners = np.where(rng.random(size) < 0.7, manner, rng.integers(len(MANNERS), size=size))
    kinds = np.where(rng.random(size) < chances, np.where(rng.random(size) < 0.05, 2, 0), 1)
    return known[kinds, manners, np.arange(len(chances))]


def of_texts(code: str, seed: int, like: FeatureTable, known: Floats) -> tuple[bool, ...]:
    """Whether there is an alarm: without a change, where a tenth lies, in another manner."""
    rng = np.random.default_rng([seed, *code.encode()])
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
    rows = [row(i, before, manner) for i in range(COMMITS + 1)]
    answerable = np.array([query.answerable is not False for query in MirageDataset.bundled(code)])
    lost = before.copy()
    lost[rng.choice(np.flatnonzero(answerable), round(LOSS * len(like)), replace=False)] = 0.0
    another = row(-1, before, (manner + 1) % len(MANNERS))
    series = compare_commits(rows, alpha=ALPHA, length=COMMITS)
    return (
        any(one.worse for one in series.commits),
        worse([*rows[:15], row(-1, lost, manner)]),
        worse([*rows[:15], another]),
    )


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--queries", type=int, help="of all numbers of queries this one alone")
    parser.add_argument("--quick", action="store_true", help="50 series of 40 queries")
    given = parser.parse_args()
    if given.quick:
        given.series, given.queries = 50, 40
    run = Parallel(n_jobs=given.jobs)
    seeds = range(given.series)

    def shares(function: Callable[..., tuple[bool, ...]], *settings: float) -> None:
        if given.queries not in (None, settings[0]):
            return
        rows = run(delayed(function)(seed, *settings) for seed in seeds)
        words = " ".join(f"{share:.3f}" for share in np.mean(rows, axis=0))
        print(" ".join(f"{each:5}" for each in settings), "", words, flush=True)

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
        shares(alarm, queries, times, size)
    print(
        "share of commits that lose a tenth of their facts that are told: here, by the gate, by a"
    )
    print(
        "test of the mean with known variance, by the likelihood ratio; queries, repeats, commits"
    )
    for queries, times, place in (
        (40, 3, 15),
        (40, 3, 1),
        (40, 3, 29),
        (40, 1, 15),
        (20, 3, 15),
        (100, 3, 15),
    ):
        shares(told, queries, times, place)
    print("share of commits told as worse that change a share both ways: queries, repeats, share")
    for share in (0.1, 0.3):
        shares(two_way, 40, 3, share)
    codes = sorted(LANGUAGES)[: 2 if given.quick else None]
    count = max(2, given.series // len(codes))
    print(f"texts, 40 queries, 3 repeats, {count} series a language: alarms without a change, told")
    print("where a tenth lies, told where all is in another manner")
    rows = []
    for code in codes:
        like, known = texts(code)
        rows += run(delayed(of_texts)(code, seed, like, known) for seed in range(count))
        words = " ".join(f"{share:.3f}" for share in np.mean(rows[-count:], axis=0))
        print(f"{code}  {words}", flush=True)
    print("all", " ".join(f"{share:.3f}" for share in np.mean(rows, axis=0)))


if __name__ == "__main__":
    main()
