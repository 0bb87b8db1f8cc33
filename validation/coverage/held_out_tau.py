"""Coverage of the interval of Kendall's tau on held-out models.

Three of three or eight features determine a model's logit, together with noise. ``share`` is the
part of the logits' variance that the features explain. Features and noise are normal, heavy tailed
(Student's t with 4 degrees of freedom) or of unequal variance, or one model in five is much weaker.
A ridge regression is trained in 50 splits without two or four of 8, 10, 19 or 40 models. The truth
is the mean tau of pairs of new models, over 4,000 training sets of the same size. Each row has the
coverage of 95 % intervals and their mean width.

    python validation/coverage/held_out_tau.py                # 500 arenas a row: 15 minutes
    python validation/coverage/held_out_tau.py --arenas 100
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage.statistics.held_out import held_out_tau_interval

Random = np.random.Generator
KINDS = ("normal", "heavy tails", "unequal", "two groups")
SIZES = ((8, 2), (10, 2), (19, 2), (19, 4), (40, 2))
SHARES, FEATURES, SPLITS, PENALTY, NEW = (0.0, 0.5, 0.9), (3, 8), 50, 2.0, 10


def arena(
    kind: str, models: int, features: int, share: float, random: Random
) -> tuple[np.ndarray, np.ndarray]:
    """Return the features and the logits of some models."""
    heavy = kind == "heavy tails"
    values = random.normal(size=(models, features))
    noise = random.normal(size=models)
    if heavy:
        values = random.standard_t(4, size=values.shape)
        noise = random.standard_t(4, size=models) / np.sqrt(2)
    signal = values[:, :3].sum(axis=1) / np.sqrt(3)
    if kind == "two groups":
        weaker = random.random(models) < 0.2
        signal = signal - 3 * weaker
    if kind == "unequal":
        noise = noise * np.exp(0.8 * random.normal(size=models))
    return values, np.sqrt(share) * signal + np.sqrt(1 - share) * noise


def predict(values: np.ndarray, logits: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return predictions of a ridge regression on standardized features."""
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    scaled = (values - mean) / deviation
    gram = scaled.T @ scaled + PENALTY * np.eye(values.shape[1])
    slopes = np.linalg.solve(gram, scaled.T @ (logits - logits.mean()))
    return np.asarray((new - mean) / deviation @ slopes)


def splits(models: int, held_out: int, random: Random) -> np.ndarray:
    """Return the models that are held out of each split; each model is held out equally often."""
    rows: list[np.ndarray] = []
    while len(rows) < SPLITS:
        order = random.permutation(models)
        rows += [order[i : i + held_out] for i in range(0, models - held_out + 1, held_out)]
    return np.array(rows[:SPLITS])


def main() -> None:
    """Print a row for each kind, size, number of features and share."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--arenas", type=int, default=500)
    options = parser.parse_args()
    arenas, trainings = (10, 50) if options.quick else (options.arenas, 4000)
    cells = list(product(KINDS, SIZES, FEATURES, SHARES))[:: 17 if options.quick else 1]
    shares = []
    for position, (kind, (models, held_out), features, share) in enumerate(cells):
        random, taus = seeded([position, 1]), []
        for _ in range(trainings):
            values, logits = arena(kind, models - held_out + NEW, features, share, random)
            guesses = predict(values[NEW:], logits[NEW:], values[:NEW])
            order = np.sign(guesses[::2] - guesses[1::2]) * np.sign(
                logits[:NEW:2] - logits[1:NEW:2]
            )
            taus.append(order.mean())
        true, random, held, widths = float(np.mean(taus)), seeded([position, 2]), [], []
        for _ in range(arenas):
            values, logits = arena(kind, models, features, share, random)
            rows = splits(models, held_out, random)
            guesses = []
            for row in rows:
                rest = np.setdiff1d(np.arange(models), row)
                guesses.append(predict(values[rest], logits[rest], values[row]))
            low, high = held_out_tau_interval(rows, np.array(guesses), logits[rows])
            held.append(low <= true <= high)
            widths.append(high - low)
        shares.append(np.mean(held))
        name = f"{kind}, {models} models, {held_out} held out, {features} features, share {share}"
        print(f"{name:68} tau {true:5.2f}  {shares[-1]:.3f}  {np.mean(widths):.2f}", flush=True)
        for label, value in (("tau", true), ("coverage", shares[-1]), ("width", np.mean(widths))):
            add_figure(value, name, label)
    print(f"coverage: {min(shares):.3f} to {max(shares):.3f}")
    add_figure(min(shares), "over all cells", "least coverage")
    save(parser, options)


if __name__ == "__main__":
    main()
