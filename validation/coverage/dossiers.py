"""Whether the probability that one system is better can be trusted if queries are clustered.

Two systems answer 20, 40 or 60 questions, five on each dossier. A system fails on a question with a
probability that varies between its dossiers (a beta distribution; the correlation is its parameter)
or, in the rows "misread", mostly fails on whole dossiers that it misreads. Each failure costs 0.1
to 0.43. Three ways to compute the probability are compared: :func:`p_positive` with all questions
independent, with the clusters ("dossiers"), and with each dossier as a single question
("one each"). The script prints:

- equal: how often either of two equally good systems is better with P of at least 0.9, and of at
  least 0.975 or at most 0.025; the nominal rates are 0.2 and 0.05;
- right: how often a system that is better with P of at least 0.9 is the better one, if the log-odds
  of failures of the two differ by a normal variable with a standard deviation of 1;
- decided: how often P is at least 0.9 for one of them then.

A second table, with the real data of MTRAG only, shows the correlation of real grades within a
conversation, which is about one set of documents: for single systems, and for the paired
differences of two systems.

    python validation/coverage/dossiers.py  # a minute on one core
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from itertools import combinations, product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, known_mean, save, script_parser, seeded
from _shared import DATA

from mirage.ranking import comparison
from mirage.ranking.comparison import p_positive

FIVE = 5
SIZES = (20, 40, 60)
CORRELATIONS = ("0", "0.05", "0.1", "0.3", "misread")
COSTS = (0.43, 0.4, 0.3, 0.1)
GAP = 1.0
SURE, DIFFERENT = 0.9, 0.975
DRAWS = 1000
LABELS = ("faithfulness", "appropriateness", "completeness", "naturalness", "win-rate", "rb_agg")
MISREAD, WRONG_IN_MISREAD = 0.5, 0.8

Compute = Callable[[np.ndarray], float]


def failures(
    share: np.ndarray, dossiers: int, correlation: str, rng: np.random.Generator, size: int = FIVE
) -> np.ndarray:
    """Return which questions a system fails on, ``(pairs, questions)``, by its share of them.

    A dossier has ``size`` questions.
    """
    if correlation == "misread":
        misread = rng.random((len(share), dossiers)) < (share * MISREAD / WRONG_IN_MISREAD)[:, None]
        chance = np.where(misread, WRONG_IN_MISREAD, (share * (1 - MISREAD))[:, None])
    elif float(correlation):
        total = 1 / float(correlation) - 1
        shapes = (total * share)[:, None], (total * (1 - share))[:, None]
        chance = rng.beta(*shapes, size=(len(share), dossiers))
    else:
        chance = np.repeat(share[:, None], dossiers, axis=1)
    chance = np.repeat(chance, size, axis=1)
    return rng.random(chance.shape) < chance


def draw_pairs(
    pairs: int,
    questions: int,
    correlation: str,
    gap: float,
    rng: np.random.Generator,
    size: int = FIVE,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the advantage of the first system on each question, and whether it is better."""
    middle, difference = rng.normal(-2.2, 0.8, pairs), rng.normal(0, gap, pairs)
    gains = np.zeros((pairs, questions))
    for sign in (-1, 1):
        share = 1 / (1 + np.exp(-(middle + sign * difference / 2)))
        failed = failures(share, questions // size, correlation, rng, size)
        # The failures with the sign 1 are those of the first system.
        gains -= sign * failed * rng.choice(COSTS, size=gains.shape)
    return np.where(np.abs(gains) < 1e-9, 0.0, gains), difference < 0


def ways(questions: int) -> Mapping[str, Compute]:
    """Return the three ways to compute the probability."""
    dossiers = np.arange(questions) // FIVE

    def of_sums(gains: np.ndarray) -> float:
        sums = np.bincount(dossiers, gains)
        return p_positive(np.where(np.abs(sums) < 1e-9, 0.0, sums), np.arange(len(sums)))

    return {
        "independent": lambda gains: p_positive(gains, np.arange(questions)),
        "dossiers": lambda gains: p_positive(gains, dossiers),
        "one each": of_sums,
    }


def show_errors(pairs: int) -> None:
    """Print the first table."""
    comparison.DRAWS = DRAWS
    print(f"{'questions, correlation':26}{'equal, 0.9':>12}{'0.975':>8}{'right':>9}{'decided':>9}")
    for questions, correlation in product(SIZES, CORRELATIONS):
        rng = seeded([questions, *correlation.encode()])
        equal, _ = draw_pairs(pairs, questions, correlation, 0.0, rng)
        unequal, first_better = draw_pairs(pairs, questions, correlation, GAP, rng)
        for name, compute in ways(questions).items():
            p = np.array([compute(gains) for gains in equal])
            q = np.array([compute(gains) for gains in unequal])
            sure = (q >= SURE) | (q <= 1 - SURE)
            figures = {
                "equal, 0.9": np.mean((p >= SURE) | (p <= 1 - SURE)),
                "equal, 0.975": np.mean((p >= DIFFERENT) | (p <= 1 - DIFFERENT)),
                "right": np.mean((q > 0.5)[sure] == first_better[sure]) if sure.any() else math.nan,
                "decided": sure.mean(),
            }
            for label, value in figures.items():
                add_figure(value, f"{questions} questions", correlation, name, label)
            cells = [float(value) for value in figures.values()]
            title = f"{questions:<3} {correlation:8}{name}"
            print(f"{title:26}{cells[0]:12.1%}{cells[1]:8.1%}{cells[2]:9.1%}{cells[3]:9.1%}")


def intraclass_correlation(values: np.ndarray, codes: np.ndarray) -> float:
    """Return the correlation within groups of unequal size, by analysis of variance."""
    sizes = np.bincount(codes).astype(np.float64)
    total, groups = sizes.sum(), len(sizes)
    means = np.bincount(codes, values) / sizes
    between = (sizes * (means - values.mean()) ** 2).sum() / (groups - 1)
    within = ((values - means[codes]) ** 2).sum() / (total - groups)
    size = (total - (sizes**2).sum() / total) / (groups - 1)
    return float((between - within) / (between + (size - 1) * within))


def show_real_correlations(path: Path) -> None:
    """Print the second table."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    grades: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        grades.setdefault(row["system"], {})[row["query_id"]] = row["judgments"]
    turns = list(next(iter(grades.values())))
    codes = np.unique([turn.split("<::>")[0] for turn in turns], return_inverse=True)[1]
    single, paired = [], []
    print(f"\n{'grades of MTRAG':26}{'one system':>12}{'two systems':>13}")
    for label in LABELS:
        columns = [
            np.array([of_system[turn][label] for turn in turns], dtype=np.float64)
            for of_system in grades.values()
        ]
        alone = [intraclass_correlation(column, codes) for column in columns]
        apart = [intraclass_correlation(a - b, codes) for a, b in combinations(columns, 2)]
        single += alone
        paired += apart
        print(f"{label:26}{known_mean(alone):12.2f}{known_mean(apart):13.2f}")
    print(f"{'mean':26}{known_mean(single):12.2f}{known_mean(paired):13.2f}")
    print(f"{'largest':26}{max(single):12.2f}{max(paired):13.2f}")
    for name, values in (("one system", single), ("two systems", paired)):
        add_figure(known_mean(values), "correlation of real grades", name, "mean")
        add_figure(max(values), "correlation of real grades", name, "largest")


def main() -> None:
    """Print both tables."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--repeats", type=int, default=400, help="pairs of systems; default: 400")
    options = parser.parse_args()
    show_errors(20 if options.quick else options.repeats)
    path = DATA / "mtrag" / "en.jsonl"
    if path.exists():
        show_real_correlations(path)
    save(parser, options)


if __name__ == "__main__":
    main()
