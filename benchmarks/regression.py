"""How often assert_no_regression finds citations that got 10 % worse, and how often it is wrong.

The simulated arena answers: a system with no fault, which says the same each time, and one with
five kinds of fault on a seventh of the queries each, which says something else each time. A dataset
of n queries is the bundled corpus n / 14 times over, each copy answered by itself. Then

- "responses": every response loses all its citations with probability 0.1;
- "citations": every single citation is dropped or moved to a wrong passage with probability 0.1.

The system with faults is compared with its spoiled self twice over: spoiled, its responses are
those of the baseline but for the citations; spoiled and answering anew, all of them differ. Both
runs have the eight offline features, in four languages, and the test is the one of the library, at
alpha 0.05.

    python benchmarks/regression.py [REPEATS]     # 200 by default; about a quarter of an hour
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from mirage import FeatureSuite, FeatureTable, MirageDataset, Query, Response, Run
from mirage.languages import LANGUAGES
from mirage.surrogate.simulation import System, simulate
from mirage.testing.comparison import compare

Floats = NDArray[np.float64]
Spoil = Callable[[str, Query, np.random.Generator], str]

CODES = ("en", "ja", "sw", "ar")
COPIES = (1, 2, 4, 6, 8, 16, 32)  # of the 14 bundled queries
GENERATIONS = 80
SHARE, ALPHA = 0.1, 0.05
SUITE = FeatureSuite.offline()
# The false alarms are few: it takes more repeats to count them.
MORE = 5

STEADY = System("steady", {})
FAULTS = ("truncated", "over-cited", "wrongly-cited", "padded", "hallucinated")
VARYING = System("varying", dict.fromkeys(FAULTS, 1 / 7))

CITATION = re.compile(r"\s?\[[^\]]+\]")


def by_response(text: str, _: Query, rng: np.random.Generator) -> str:
    """The response without its citations, one time in ten."""
    return CITATION.sub("", text) if rng.random() < SHARE else text


def by_citation(text: str, query: Query, rng: np.random.Generator) -> str:
    """The response with one in ten of its citations dropped or wrong."""
    wrong = [passage.id for passage in query.passages if passage.id not in query.relevant]

    def spoiled(match: re.Match[str]) -> str:
        if rng.random() >= SHARE:
            return match[0]
        return "" if rng.random() < 0.5 else f" [{rng.choice(wrong)}]"

    return CITATION.sub(spoiled, text)


SPOILS: dict[str, Spoil] = {"responses": by_response, "citations": by_citation}


def generations(code: str, system: System) -> dict[str, Floats]:
    """Features of many generations, ``(generations, 14, features)``: as they are, and spoiled."""
    corpora = {other: MirageDataset.bundled(other) for other in LANGUAGES}
    dataset, suite = corpora[code], FeatureSuite.offline(code)
    found: dict[str, list[Floats]] = {"clean": [], **{name: [] for name in SPOILS}}
    for seed in range(GENERATIONS):
        (run,), _ = simulate(corpora, code, [system], seed=seed)
        found["clean"].append(suite.score(dataset, run).values)
        for name, spoil in SPOILS.items():
            rng = np.random.default_rng([seed, *code.encode(), *name.encode()])
            found[name].append(suite.score(dataset, spoiled_run(run, dataset, spoil, rng)).values)
    return {name: np.stack(tables) for name, tables in found.items()}


def spoiled_run(run: Run, dataset: MirageDataset, spoil: Spoil, rng: np.random.Generator) -> Run:
    """The run after its citations got worse."""
    responses = tuple(
        Response(query_id=one.query_id, text=spoil(one.text or "", dataset[one.query_id], rng))
        for one in run
    )
    return Run(model=run.model, language=run.language, responses=responses)


def table(code: str, values: Floats) -> FeatureTable:
    """Features as of a dataset with so many queries."""
    ids = tuple(f"q{i}" for i in range(len(values)))
    return FeatureTable("simulated", code, ids, SUITE.names, values)


def called_worse(
    code: str, before: Floats, after: Floats, copies: int, anew: bool, seed: Sequence[int]
) -> bool:
    """Whether one simulated run is called worse than its simulated baseline."""
    rng = np.random.default_rng(seed)
    count, queries, _ = before.shape
    which = np.tile(np.arange(queries), copies)
    first = rng.integers(count, size=len(which))
    second = (first + rng.integers(1, count, size=len(which))) % count if anew else first
    found = compare(
        table(code, before[first, which]),
        table(code, after[second, which]),
        [name for name, facts in SUITE.facts.items() if facts.direction_in(code) == "lower"],
    )
    return bool(found.regressed(ALPHA))


def shares(
    parallel: Parallel, pools: dict[str, dict[str, Floats]], after: str, anew: bool, repeats: int
) -> list[float]:
    """The share of repeats that are called worse, for each number of queries."""
    row = []
    for copies in COPIES:
        jobs = (
            delayed(called_worse)(
                code, pools[code]["clean"], pools[code][after], copies, anew, (7, copies, repeat)
            )
            for repeat in range(repeats)
            for code in [CODES[repeat % len(CODES)]]
        )
        row.append(float(np.mean(parallel(jobs))))
    return row


def show(label: str, row: Sequence[float]) -> None:
    """One line of the table, in percent."""
    print(f"  {label:52}", *(f"{100 * share:5.1f}" for share in row), flush=True)


def main(repeats: int = 200) -> None:
    """Print both tables."""
    with Parallel(n_jobs=-1) as parallel:
        steady, varying = (
            dict(zip(CODES, parallel(delayed(generations)(c, system) for c in CODES), strict=True))
            for system in (STEADY, VARYING)
        )
        print(
            f"mean citation_recall@10: steady {recall(steady)}\n{'varying':>32} {recall(varying)}"
        )
        print(f"\n{'found, in % of repeats; queries:':54}", *(f"{14 * n:5}" for n in COPIES))
        for label, pools, anew in (
            ("steady system", steady, False),
            ("varying system, same texts", varying, False),
            ("varying system, anew", varying, True),
        ):
            for name in SPOILS:
                row = shares(parallel, pools, name, anew, repeats)
                show(f"{label}, 10 % of {name} spoiled", row)
        print("\nfalse alarms, in % of repeats")
        for label, anew, times in (
            ("the same run", False, 1),
            ("varying system, anew", True, 1),
            (f"varying system, anew, {MORE} times the repeats", True, MORE),
        ):
            show(label, shares(parallel, varying, "clean", anew, times * repeats))


def recall(pools: dict[str, dict[str, Floats]]) -> str:
    """The means of one feature, over languages: as they are, and spoiled."""
    column = SUITE.names.index("citation_recall@10")
    return ", ".join(
        f"{name} {np.mean([np.nanmean(pool[name][..., column]) for pool in pools.values()]):.3f}"
        for name in ("clean", *SPOILS)
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
