"""Coverage of the intervals of balanced accuracy, and of differences of two judges.

One to five models answer each query with one to three sentences each. A sentence has one of two
labels; they are balanced, or 85 % of sentences have the second one. Judge ``weak`` finds the first
label in 70 % and the second in 93 % of sentences, ``even`` in 85 and 90 %, ``strong`` in 95 and
98 %, all before models differ. If models are unequal, their sentences have the first label and are
hard to judge to differing degrees: on the normal scale, the first and the last model are one
standard deviation above and below the mean. Labels and errors of a query's sentences come from
normal deviates with a correlation of 0, 0.3 or 0.7; half of the variance of errors is shared by
the judges. The truth is computed from 60,000 queries.

Each row has the coverage of 95 % intervals of the three accuracies, of ``weak - even`` and of
``even - strong``, and the mean width of the second and of the last interval. The last rows are
means over four languages with 14 queries each, with different queries or parallel ones.

    python validation/coverage/balanced_accuracy.py                     # 600 samples: 15 minutes
    python validation/coverage/balanced_accuracy.py --samples 100    # three minutes
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import ndtri

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage.statistics import classification as cl

Random = np.random.Generator
RECALLS = np.array([[0.7, 0.85, 0.95], [0.93, 0.9, 0.98]])
CONTRASTS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, -1, 0], [0, 1, -1]])
NAMES = ("weak", "even", "strong", "weak - even", "even - strong")
MODELS = {"1": (1, 0.0), "2": (2, 0.0), "2 unequal": (2, 1.0), "3 unequal": (3, 1.0)}
MODELS |= {"5": (5, 0.0), "5 unequal": (5, 1.0)}
LABELS = {"balanced": 0.5, "unbalanced": 0.85}
QUERIES, LARGE, LANGUAGES = (14, 20, 40, 100), 60_000, 4


def draw(
    queries: int, models: str, second: float, correlation: float, random: Random, first: int = 0
) -> cl.Tallies:
    """Return the counts of one sample; ``first`` is the index of its first query."""
    count, unequal = MODELS[models]
    lengths = random.integers(1, 4, (queries, count)).ravel()
    query = np.repeat(np.repeat(np.arange(queries), count), lengths)
    model = np.repeat(np.tile(np.arange(count), queries), lengths)
    shift = (np.linspace(-1, 1, count) * unequal if count > 1 else np.zeros(1))[model]

    def deviates(columns: int) -> np.ndarray:
        shared = random.normal(size=(queries, columns))[query]
        separate = random.normal(size=(len(query), columns))
        return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * separate

    label = (deviates(1)[:, 0] < ndtri(second) + shift).astype(int)
    errors = np.sqrt(0.5) * (deviates(1) + deviates(3))
    right = errors < ndtri(RECALLS)[label] + shift[:, None]
    return cl.tally(query + first, label, right)


def languages(parallel: bool, random: Random) -> list[cl.Tallies]:
    """Return the counts of several languages with 14 queries each."""
    parts = []
    queries = random.integers(2**32)
    for number in range(LANGUAGES):
        # The same seed gives parallel queries the same deviates, and so the strongest correlation.
        seed = queries if parallel else random.integers(2**32)
        first = 0 if parallel else 14 * number
        parts.append(draw(14, "2 unequal", 0.7, 0.3, np.random.default_rng(seed), first))
    return parts


def cover(samples: Sequence[Sequence[cl.Tallies]], true: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the coverage and the mean width of the intervals of all contrasts."""
    ends = np.array([cl.intervals(sample, CONTRASTS) for sample in samples])
    held = (ends[..., 0] <= CONTRASTS @ true) & (CONTRASTS @ true <= ends[..., 1])
    return held.mean(axis=0), np.ptp(ends, axis=-1).mean(axis=0)


def print_row(label: str, held: np.ndarray, width: np.ndarray, *path: str) -> None:
    """Print and record one row."""
    for name, value, size in zip(NAMES, held, width, strict=True):
        add_figure(value, *path, name)
        add_figure(size, *path, f"{name}, width")
    cells = [f"{value:.3f}" for value in held] + [f"{width[1]:.2f}", f"{width[-1]:.2f}"]
    print(label.ljust(48) + "  ".join(cells), flush=True)


def with_both_labels(samples: int, *settings: object, random: Random) -> list[list[cl.Tallies]]:
    """Return samples in which both labels occur."""
    result: list[list[cl.Tallies]] = []
    while len(result) < samples:
        tallies = draw(*settings, random)  # type: ignore[arg-type]
        if tallies.total.shape[1] == 2:
            result.append([tallies])
    return result


def main() -> None:
    """Print a row for each cell, and the least and the mean coverage by number of queries."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--samples", type=int, default=600)
    options = parser.parse_args()
    samples = 20 if options.quick else options.samples
    designs = list(product(LABELS, (0.0, 0.3, 0.7), MODELS))[:: 9 if options.quick else 1]
    by_queries: dict[int, list[np.ndarray]] = {queries: [] for queries in QUERIES}
    for position, (labels, correlation, models) in enumerate(designs):
        settings = models, LABELS[labels], correlation
        true = cl.recalls(draw(LARGE, *settings, seeded([position]))).mean(axis=0)
        for queries in QUERIES:
            random = seeded([position, queries])
            held, width = cover(with_both_labels(samples, queries, *settings, random=random), true)
            by_queries[queries].append(held)
            name = f"{labels}, correlation {correlation}, models {models}"
            print_row(f"{name}, {queries}", held, width, name, f"{queries} queries")
    true = cl.recalls(draw(LARGE, "2 unequal", 0.7, 0.3, seeded([99]))).mean(axis=0)
    for parallel in (False, True):
        random = seeded([100, parallel])
        held, width = cover([languages(parallel, random) for _ in range(samples)], true)
        name = f"{LANGUAGES} languages, {'parallel' if parallel else 'different'} queries"
        print_row(name, held, width, name, "14 queries")
    error = np.sqrt(0.95 * 0.05 / samples)
    print(f"95 % of {samples} samples has a standard error of {error:.4f}")
    for queries, rows in by_queries.items():
        print(f"{queries} queries: least {np.min(rows):.3f}, mean {np.mean(rows):.3f}")
        add_figure(np.min(rows), "over all cells", f"{queries} queries", "least")
        add_figure(np.mean(rows), "over all cells", f"{queries} queries", "mean")
    save(parser, options)


if __name__ == "__main__":
    main()
