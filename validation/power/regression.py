"""False alarms and power of the gate's test at 5, 20, 40 and 100 queries.

The script draws differences with a known mean: how much worse each query became. If the mean is 0,
an alarm is false. The library's test (``single_step_p_values``: sign flips, corrected for skewness,
mid-p) is compared with Student's t, sign flips of the plain sum, and Wilcoxon's signed ranks, all
one-sided at 0.05. The last table uses the best of several runs of one system as the baseline.

    python validation/power/regression.py [REPEATS]     # 1000 by default; about two minutes
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_1samp, wilcoxon

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage.statistics.permutation import permutation_p_values, single_step_p_values

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]

QUERIES = (5, 20, 40, 100)
ALPHA, DRAWS = 0.05, 999


def values(choices: Mapping[float, float]) -> Draw:
    """Return a draw of these differences with these probabilities."""
    amounts, chances = zip(*choices.items(), strict=True)
    return lambda rng, n: rng.choice(amounts, size=n, p=chances)


NO_FALL: Mapping[str, Draw] = {
    "noise, normal": lambda rng, n: rng.normal(0, 0.2, n),
    "2.5 % lost, 2.5 % won": values({1: 0.025, -1: 0.025, 0: 0.95}),
    "5 % lost, 5 % won": values({1: 0.05, -1: 0.05, 0: 0.9}),
    "20 % lost, 20 % won": values({1: 0.2, -1: 0.2, 0: 0.6}),
    "75 % lose 0.2, 25 % win 0.6": values({0.2: 0.75, -0.6: 0.25}),
    "43 % lose 0.14, 7 % win 0.86": values({0.14: 0.43, -0.86: 0.07, 0: 0.5}),
    "losses small, gains exponential": lambda rng, n: 0.2 * (1 - rng.exponential(size=n)),
    "gains small, losses exponential": lambda rng, n: 0.2 * (rng.exponential(size=n) - 1),
}
FALL: Mapping[str, Draw] = {
    "10 % lost": values({1: 0.1, 0: 0.9}),
    "20 % lost": values({1: 0.2, 0: 0.8}),
    "30 % lost": values({1: 0.3, 0: 0.7}),
    "10 % lost, and 5 % lost, 5 % won": values({1: 0.15, -1: 0.05, 0: 0.8}),
    "noise, normal, and a fall of 0.1": lambda rng, n: rng.normal(0.1, 0.2, n),
}


def library(differences: Floats) -> float:
    """Return the p-value of the gate's own test."""
    return float(single_step_p_values(differences[:, None], permutations=DRAWS)[0])


def signs_of_the_sum(differences: Floats) -> float:
    """Return half the two-sided p-value of sign flips of the sum."""
    (p,) = permutation_p_values(differences[:, None], permutations=DRAWS)
    return float(p / 2 if differences.sum() > 0 else 1 - p / 2)


def student(differences: Floats) -> float:
    """Return the p-value of the t-test, which is 0 for equal differences."""
    if np.ptp(differences) == 0:
        return 0.0 if differences[0] > 0 else 1.0
    return float(ttest_1samp(differences, 0, alternative="greater").pvalue)


def signed_ranks(differences: Floats) -> float:
    """Return the p-value of Wilcoxon's test."""
    if not differences.any():
        return 1.0
    return float(wilcoxon(differences, alternative="greater").pvalue)


TESTS = {"mirage": library, "t": student, "signs": signs_of_the_sum, "ranks": signed_ranks}


def shares(draw: Draw, queries: int, repeats: int) -> list[float]:
    """Return how often each test gives an alarm."""
    rng = seeded([queries, repeats])
    alarms = np.zeros(len(TESTS))
    for _ in range(repeats):
        differences = draw(rng, queries)
        alarms += [differences.sum() > 0 and test(differences) <= ALPHA for test in TESTS.values()]
    return (alarms / repeats).tolist()


def best_of(runs: int, queries: int, repeats: int) -> float:
    """Return how often a system is called worse than the best of several runs of itself.

    In three features, seven of ten answers are always right, and three are right at random.
    """
    rng = seeded([runs, queries])
    alarms = 0
    for _ in range(repeats):
        chance = np.where(rng.random((queries, 1)) < 0.7, 1.0, 0.5)
        tables = (rng.random((runs + 1, queries, 3)) < chance).astype(float)
        best = max(tables[:runs], key=np.mean)
        alarms += bool((single_step_p_values(best - tables[-1], permutations=DRAWS) <= ALPHA).any())
    return alarms / repeats


def main(repeats: int = 1000) -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")  # of ties and zeros among the ranks
    for title, draws in (("false alarms", NO_FALL), ("falls found", FALL)):
        print(f"{title}, in %; queries: {' | '.join(f'{n:23}' for n in QUERIES)}")
        print(" " * 36 + " | ".join(" ".join(f"{name:>6}" for name in TESTS) for _ in QUERIES))
        for name, draw in draws.items():
            rows = {n: shares(draw, n, repeats) for n in QUERIES}
            cells = (" ".join(f"{100 * share:6.1f}" for share in row) for row in rows.values())
            print(f"  {name:33}", " | ".join(cells), flush=True)
            for n, row in rows.items():
                for test, share in zip(TESTS, row, strict=True):
                    add_figure(share, title, name, f"{n} queries", test)
    print("\nfalse alarms in % where the baseline is the best of so many runs of the same system")
    for runs in (1, 2, 5, 10):
        rates = {n: best_of(runs, n, repeats) for n in QUERIES}
        print(f"  {runs:2} runs: {' '.join(f'{100 * x:6.1f}' for x in rates.values())}", flush=True)
        for n, share in rates.items():
            add_figure(
                share, "baseline is the best of several runs", f"{runs} runs", f"{n} queries"
            )


if __name__ == "__main__":
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("repeats", default=1000, nargs="?", type=int)
    options = parser.parse_args()
    main(5 if options.quick else options.repeats)
    save(parser, options)
