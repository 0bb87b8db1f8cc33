"""Coverage and width of 95 % intervals for the logits of held-out models.

The script compares the surrogate's own interval (Student's t, scaled to the errors on held-out
models) with the jackknife+ (Barber et al. 2021, Predictive inference with the jackknife+, Annals of
Statistics 49(1), section 2). The jackknife+ assumes no distribution, but needs at least 19 errors
for a finite interval. ``own`` uses the errors of the language alone. ``all`` uses those of all
languages, in units of each language's standard deviation, although the errors of one model in
several languages are correlated. Widths are medians of the finite intervals, in standard deviations
of the logits.

    python validation/coverage/held_out_intervals.py  # simulated arenas; NoMIRACL with MIRAGE_DATA
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil, floor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _nomiracl import LANGUAGES, arena
from _results import add_figure, save, script_parser, seeded
from _shared import DATA

from mirage import FeatureTable, SurrogateRanker
from mirage.arena import Tournaments
from mirage.surrogate.ranker import deal_splits, shared_models
from mirage.surrogate.training import TrainingData, training_data

LEVEL = 0.95
ESTIMATOR = "ridge"
NEW = 4  # models held out of each simulated arena
Data = Mapping[str, TrainingData]
Noise = Callable[[np.random.Generator, int], np.ndarray]

# Errors of logits that no feature explains, each with variance 1.
NOISES: dict[str, Noise] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy tails": lambda rng, n: rng.standard_t(3, size=n) / np.sqrt(3),
    "skewed": lambda rng, n: rng.exponential(size=n) - 1,
}


def simulated(models: int, noise: Noise, seed: int) -> Data:
    """Return a language whose logits depend on two of three features and on noise."""
    rng = seeded(seed)
    tournaments = queries = 40
    quality = rng.normal(size=(models, 3))
    values = quality[:, None] + rng.normal(0, 0.3, (models, queries, 3))
    counts = rng.multinomial(queries, np.full(queries, 1 / queries), tournaments).astype(np.int32)
    means = np.einsum("tq,mqf->tmf", counts, values) / queries
    logits = means @ np.array([1.0, 0.5, 0.0]) + noise(rng, models)
    logits -= logits.mean(axis=1, keepdims=True)
    names = tuple(f"m{number:02d}" for number in range(models))
    ids = tuple(f"q{number}" for number in range(queries))
    features = ("citation_recall@10", "answer_bleu", "other")
    tables = [
        FeatureTable(name, "sw", ids, features, rows)
        for name, rows in zip(names, values, strict=True)
    ]
    separated = np.zeros(logits.shape, dtype=bool)
    return training_data(tables, Tournaments(names, ids, counts, logits, separated))


def recorded() -> Data:
    """Return NoMIRACL's ten LLMs in eight languages."""
    arenas = {code: arena(code) for code in LANGUAGES}
    tables = [table for one in arenas.values() for table in one.tables]
    return training_data(tables, {code: one.tournaments for code, one in arenas.items()})


def intervals(data: Data, held: Sequence[str]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield ``(actual, low, high)`` by name for every held-out model in each language."""
    kept = {code: one.without(held) for code, one in data.items()}
    ranker = SurrogateRanker(ESTIMATOR).fit_data(kept)
    known = shared_models(kept)
    units = {code: float(one.mean_y.std()) for code, one in data.items()}
    parts = [without_one(kept, model) for model in known]
    errors = {code: left_out_errors(parts, one, known) for code, one in kept.items()}
    pooled = np.concatenate([errors[code] / units[code] for code in errors])
    for code, one in data.items():
        for model in held:
            row = one.models.index(model)
            table, actual = one.table(row), one.mean_y[row]
            unit = units[code]
            yield "t", np.array([actual, *ranker.predict(table).interval(level=LEVEL)]) / unit
            others = np.array([part.predict(table).logit for part in parts])
            yield "own", np.array([actual, *jackknife_plus(others, errors[code])]) / unit
            if len(data) > 1:
                everyone = np.tile(others, len(data)) / unit
                yield "all", np.array([actual / unit, *jackknife_plus(everyone, pooled)])


def without_one(data: Data, model: str) -> SurrogateRanker:
    """Return a surrogate that was trained without this model in any language."""
    kept = {code: one.without((model,)) for code, one in data.items()}
    return SurrogateRanker(ESTIMATOR).fit_data(kept)


def left_out_errors(
    rankers: Sequence[SurrogateRanker], one: TrainingData, models: Sequence[str]
) -> np.ndarray:
    """Return the error of each ranker on the model that it was trained without."""
    rows = [one.models.index(model) for model in models]
    tables = [one.table(row) for row in rows]
    logits = [ranker.predict(table).logit for ranker, table in zip(rankers, tables, strict=True)]
    return np.abs(one.mean_y[rows] - logits)


def jackknife_plus(predictions: np.ndarray, errors: np.ndarray) -> tuple[float, float]:
    """Return the interval from predictions without each model, and the errors on these models."""
    n = len(errors)
    below, above = floor((1 - LEVEL) * (n + 1) + 1e-9), ceil(LEVEL * (n + 1) - 1e-9)
    if above > n:
        return -np.inf, np.inf
    return np.sort(predictions - errors)[below - 1], np.sort(predictions + errors)[above - 1]


def show(name: str, found: Mapping[str, list[np.ndarray]]) -> None:
    """Print the coverage, the median width, and the share of infinite intervals."""
    for kind, rows in found.items():
        actual, low, high = np.array(rows).T
        inside = np.mean((low <= actual) & (actual <= high))
        finite = np.isfinite(high)
        width = np.median((high - low)[finite]) if finite.any() else np.nan
        print(f"{name:28}{kind:6}{inside:9.3f}{width:9.2f}{1 - finite.mean():11.2f}", flush=True)
        add_figure(inside, name, kind, "coverage")
        add_figure(width, name, kind, "median width")
        add_figure(1 - finite.mean(), name, kind, "no ends")


def main() -> None:
    """Print the tables."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--arenas", type=int, default=200)
    options = parser.parse_args()
    print(f"{'arena':28}{'errors':6}{'holds':>9}{'width':>9}{'no ends':>11}")
    for models in (12,) if options.quick else (12, 19, 40):
        for noise, draw in NOISES.items():
            found: dict[str, list[np.ndarray]] = {}
            for seed in range(1 if options.quick else options.arenas):
                data = simulated(models + NEW, draw, seed)
                collect(found, data, [tuple(shared_models(data)[:NEW])])
            show(f"{models} models, {noise}", found)
    if (DATA / "nomiracl").is_dir() and not options.quick:
        data = recorded()
        for holdout in (2, 4):
            found = {}
            collect(found, data, deal_splits(shared_models(data), holdout, 50, 0))
            show(f"NoMIRACL, {holdout} held out", found)
    save(parser, options)


def collect(
    found: dict[str, list[np.ndarray]], data: Data, splits: Iterable[tuple[str, ...]]
) -> None:
    """Add the intervals of these splits, by kind."""
    for held in splits:
        for kind, row in intervals(data, held):
            found.setdefault(kind, []).append(row)


if __name__ == "__main__":
    main()
