"""How often the gate's three verdicts are wrong, and how well ``mirage plan`` predicts.

Each query has its own probability of a right answer. A system answers each query one or more times.
Any change of the system makes a tenth of the queries better or worse. In a regression, queries lose
one of two features completely, so that its mean drops by a tenth. With clusters of five, effects
have a correlation of 0.2 within clusters. The script does not use the code that plans.

* the verdicts: how often an unchanged system is called worse, how often a system that lost the
  margin is called no worse, and how often the result is inconclusive. There are 5, 20, 40 and 100
  queries, with clusters and with repeats, for binary features and for losses in small parts, or in
  a few queries while others gain;
* the plan: the power that is predicted from a baseline of 60 queries (the mean over baselines and
  the standard deviation), and the power in 1,000 regressions by the gate's tests, for several
  numbers of queries and repeats, with and without clusters;
* features: the power that is predicted without a baseline, and that of simulated regressions, if
  the gate compares one to nine features with a correlation of 0.2.

    python validation/power/power.py                   # a quarter of an hour
    python validation/power/power.py --repeats 100     # three minutes
    python validation/power/power.py --part plan
    python validation/power/power.py --part features   # two minutes
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import ndtri

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage import MirageDataset, Query
from mirage.features import FeatureTable
from mirage.statistics import upper_bounds
from mirage.statistics.bounds import weighted_means
from mirage.statistics.clusters import cluster_sums
from mirage.statistics.permutation import single_step_p_values
from mirage.statistics.power import simulated_verdicts
from mirage.testing import plan
from mirage.testing.baseline import Baseline, fingerprint
from mirage.testing.comparison import FEWEST, FEWEST_CLUSTERS

Floats = NDArray[np.float64]
NAMES = ("citation_map@10", "fact_agreement")
FEATURES = (1, 2, 4, 9)
LOSS, MOVED, UNSTABLE, CORRELATION, ALPHA = 0.1, 0.1, 0.1, 0.2, 0.05
QUERIES, TIMES, SIZES, DRAWS = (5, 8, 12, 20, 40, 100), (1, 3), (1, 5), 999
BASELINES, BASELINE = 10, 60


def together(rng: np.random.Generator, codes: Floats, share: float) -> NDArray[np.bool_]:
    """Return which share of the queries is affected, correlated within clusters."""
    as_one = rng.random(len(codes)) < np.sqrt(CORRELATION)
    of_cluster = rng.random(codes.max() + 1) < share
    return np.where(as_one, of_cluster[codes], rng.random(len(codes)) < share)


def answers(rng: np.random.Generator, chances: Floats, times: int) -> Floats:
    """Return right and wrong answers, ``(repeats, queries, features)``."""
    return (rng.random((times, *chances.shape)) < chances).astype(float)


def table(values: Floats) -> FeatureTable:
    """Return a table with this number of repeats."""
    ids = tuple(f"q{i}" for i in range(values.shape[1]))
    repeats = values if len(values) > 1 else None
    return FeatureTable("m", "en", ids, NAMES, values.mean(axis=0), repeats=repeats)


def chances_of(rng: np.random.Generator, queries: int) -> Floats:
    """Return probabilities of right answers, mostly near 1, for two correlated features."""
    first = rng.beta(4, 0.35, (queries, 1))
    return np.hstack([first, np.clip(first + rng.normal(0, 0.1, (queries, 1)), 0, 1)])


def right_or_wrong(
    rng: np.random.Generator, codes: Floats, times: int, lost: bool
) -> tuple[Floats, Floats]:
    """Return a baseline and a later run with some changed queries, perhaps with a loss."""
    chances = chances_of(rng, len(codes))
    later = chances.copy()
    worse, better = together(rng, codes, MOVED / 2), together(rng, codes, MOVED / 2)
    # As many queries as were made right are made wrong, and by as much.
    before = chances.copy()
    later[worse], before[better] = 0.0, 0.0
    if lost:
        gone = together(rng, codes, LOSS / chances[:, 0].mean() / (1 - MOVED / 2))
        later[gone, 0] = 0.0
    return answers(rng, before, times), answers(rng, later, times)


def shares(draw: Callable[[np.random.Generator, int], Floats]) -> Callable[..., tuple[Floats, ...]]:
    """Return runs whose queries lose random amounts, with mean 0, or 0.1 after a loss."""

    def runs(
        rng: np.random.Generator, codes: Floats, times: int, lost: bool
    ) -> tuple[Floats, Floats]:
        drawn = draw(rng, int(codes.max()) + 1)[codes]
        losses = np.stack([drawn] * 2, axis=1) + (LOSS if lost else 0.0)
        noise = rng.normal(0, 0.05, (2, times, len(codes), 2))
        return 0.5 + noise[0], 0.5 + noise[1] - losses

    return runs


KINDS: Mapping[str, Callable[..., tuple[Floats, Floats]]] = {
    "right or wrong": right_or_wrong,
    "normal": shares(lambda rng, n: rng.normal(0, 0.15, n)),
    "75 % lose, 25 % win": shares(lambda rng, n: rng.choice([0.1, -0.3], n, p=[0.75, 0.25])),
    "a few lose much": shares(lambda rng, n: rng.choice([-0.05, 0.35], n, p=[0.875, 0.125])),
}


def verdict(before: Floats, after: Floats, codes: NDArray[np.intp]) -> str:
    """Return the gate's verdict on two runs; each feature has a range from 0 to 1."""
    losses = before.mean(axis=0) - after.mean(axis=0)
    fewest = FEWEST if codes.max() + 1 == len(codes) else FEWEST_CLUSTERS
    if codes.max() + 1 >= fewest:
        p_values = single_step_p_values(cluster_sums(codes, losses), permutations=DRAWS)
        gains = (weighted_means(-losses, codes, weightings=DRAWS) >= 0).mean(axis=0)
        worse = np.maximum(p_values, gains / 2) <= ALPHA
        if worse.any():
            return "worse"
    bounds = upper_bounds(losses, codes, level=1 - ALPHA, weightings=DRAWS)
    return "no worse" if (bounds <= LOSS).all() else "inconclusive"


def verdicts(
    kind: str, queries: int, times: int, size: int, lost: bool, repeats: int
) -> dict[str, float]:
    """Return how often each verdict is given."""
    rng = seeded([queries, times, size, lost])
    counts = dict.fromkeys(("worse", "no worse", "inconclusive"), 0.0)
    codes = np.arange(queries) // size
    for _ in range(repeats):
        counts[verdict(*KINDS[kind](rng, codes, times, lost), codes)] += 1 / repeats
    return counts


def predicted(queries: int, times: int, size: int) -> list[float]:
    """Return the power that baselines of different queries, each asked three times, predict."""
    ids = [f"q{i}" for i in range(BASELINE)]
    dataset = MirageDataset([Query(id=id_, language="en", text="?") for id_ in ids], name="asked")
    powers = []
    for seed in range(BASELINES):
        rng = seeded([seed, 7])
        codes = np.arange(BASELINE) // size
        baseline = table(answers(rng, chances_of(rng, BASELINE), 3))
        clusters = {f"q{i}": str(code) for i, code in enumerate(codes.tolist())} if size > 1 else {}
        saved = Baseline(baseline, dataset.name, fingerprint(dataset))
        found = plan(
            LOSS,
            baseline=saved,
            on=dataset,
            cluster=clusters,
            repeats=[times],
            calls=queries * times,
            moved=MOVED,
            correlation=CORRELATION,
            seed=seed,
        )
        powers.append(found.designs[0].chances.detected)
    return powers


def show_verdicts(repeats: int, quick: bool) -> None:
    """Print how often each verdict is given."""
    print(f"verdicts in %, of {repeats} comparisons; margin {LOSS}; two features")
    print("                                            nothing lost            margin lost")
    print("kind                 queries times clusters  WORSE no worse open    worse NO WORSE open")
    settings = [
        (kind, queries, times, size)
        for kind, queries, times, size in product(KINDS, QUERIES, TIMES, SIZES)
        if (queries > size or size == 1) and (times == 1 or kind == "right or wrong")
        if queries <= 20 or not quick
    ]
    jobs = (
        delayed(verdicts)(*setting, lost, repeats) for setting in settings for lost in (False, True)
    )
    told = list(Parallel(n_jobs=1 if quick else 2)(jobs))
    worst = [0.0, 0.0]
    for place, (kind, queries, times, size) in enumerate(settings):
        kept, lost = told[2 * place : 2 * place + 2]
        worst = [max(worst[0], kept["worse"]), max(worst[1], lost["no worse"])]
        cells = [f"{100 * share:8.1f}" for counts in (kept, lost) for share in counts.values()]
        print(f"{kind:20} {queries:7} {times:5} {size:8} {''.join(cells)}")
        for title, counts in (("nothing lost", kept), ("margin lost", lost)):
            for name, share in counts.items():
                row = f"{queries} queries x {times}, clusters of {size}"
                add_figure(share, "verdicts", kind, row, title, name)
    print(f"at most: false worse {100 * worst[0]:.1f} %, false no worse {100 * worst[1]:.1f} %")
    add_figure(worst[0], "verdicts", "most often worse without a loss")
    add_figure(worst[1], "verdicts", "most often no worse at the margin")


def show_plan(repeats: int, quick: bool) -> None:
    """Print the predicted power and the power in simulations."""
    print(f"power to find a loss of {LOSS}: predicted from a baseline of {BASELINE} questions")
    print("asked three times, realised in", repeats, "regressions")
    print("queries times clusters  predicted (sd)  realised  difference")
    settings = list(product((40, 100, 200), (1, 2, 3), SIZES))[: 1 if quick else None]
    run = Parallel(n_jobs=1 if quick else 2)
    jobs = (delayed(predicted)(*setting) for setting in settings)
    powers = run(jobs)
    jobs = (delayed(verdicts)("right or wrong", *setting, True, repeats) for setting in settings)
    realised = run(jobs)
    worst = 0.0
    for setting, powers_of, told in zip(settings, powers, realised, strict=True):
        mean, spread, found = np.mean(powers_of), np.std(powers_of), told["worse"]
        worst = max(worst, abs(mean - found))
        queries, times, size = setting
        print(
            f"{queries:7} {times:5} {size:8}  {100 * mean:9.1f} ({100 * spread:3.1f}) "
            f"{100 * found:9.1f} {100 * (mean - found):+11.1f}"
        )
        names = "plan", f"{queries} queries x {times}, clusters of {size}"
        add_figure(mean, *names, "predicted power")
        add_figure(found, *names, "realised power")
    print(f"differ by at most {100 * worst:.1f} points")
    add_figure(worst, "plan", "largest difference")


def feature_losses(rng: np.random.Generator, repeats: int, queries: int, features: int) -> Floats:
    """Return the losses of runs with a mean loss in the first feature."""

    def changes(share: float) -> Floats:
        common = rng.normal(size=(repeats, queries, 1))
        single = rng.normal(size=(repeats, queries, features))
        normal = np.sqrt(CORRELATION) * common + np.sqrt(1 - CORRELATION) * single
        return (normal > -ndtri(share / 2)) * 1.0 - (normal < ndtri(share / 2))

    moved, unstable = changes(MOVED), changes(UNSTABLE)
    lost = np.where(moved != 0, moved, unstable)
    lost[rng.random((repeats, queries)) < LOSS, 0] = 1.0
    return lost


def show_features(repeats: int, quick: bool) -> None:
    """Print predicted power and power in simulations by the number of features."""
    print(f"power to find a loss of {LOSS} without a baseline: predicted, realised, difference")
    worst = 0.0
    for features, queries in product(FEATURES[: 2 if quick else None], (60, 150)):
        settings = {"unstable": UNSTABLE, "moved": MOVED, "correlation": CORRELATION}
        design = plan(LOSS, features=features, repeats=[1], calls=queries, **settings).designs[0]
        losses = feature_losses(seeded([queries, features]), repeats, queries, features)
        verdicts = simulated_verdicts(
            losses, np.ones((repeats, queries)), permutations=DRAWS, facts=[0]
        )
        predicted_power, power = design.chances.detected, float(verdicts.worse.mean())
        worst = max(worst, abs(predicted_power - power))
        print(
            f"{features} features, {queries:3} queries {100 * predicted_power:6.1f} "
            f"{100 * power:6.1f} {100 * (predicted_power - power):+6.1f}",
            flush=True,
        )
        names = "features", f"{features} features, {queries} queries"
        add_figure(predicted_power, *names, "predicted power")
        add_figure(power, *names, "realised power")
    print(f"differ by at most {100 * worst:.1f} points")
    add_figure(worst, "features", "largest difference")


def main() -> None:
    """Print the tables."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--part", choices=["verdicts", "plan", "features"])
    options = parser.parse_args()
    repeats = 5 if options.quick else options.repeats
    if options.part in (None, "plan"):
        show_plan(repeats, options.quick)
    if options.part in (None, "features"):
        show_features(repeats, options.quick)
    if options.part in (None, "verdicts"):
        show_verdicts(repeats, options.quick)
    save(parser, options)


if __name__ == "__main__":
    main()
