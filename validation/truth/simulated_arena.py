"""How well surrogates rank systems and kinds of fault that were left out of their training.

1. Five whole systems at a time are held out. The table has Kendall's tau and R2 by language of the
   recipe that ships (a monotone ridge of means), and of slopes and trees trained on verdicts, each
   fixed, in as many splits as hold every system out once. In some splits, which differ by language,
   the recipe is selected from the other systems (``auto`` with verdicts), with the coverage of its
   95 % intervals.
2. All systems with a kind of fault are left out of training, one kind at a time. The recipe that
   ships then ranks the system with that fault on every query, and the one without faults.
3. The order of six known answers on the bundled leaderboards.

    python validation/truth/simulated_arena.py             # three quarters of an hour on two cores
    python validation/truth/simulated_arena.py en --only 1 --nested 1
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice, pairwise
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _judgments import simulated_judgments
from _results import add_figure, save, script_parser

from mirage import BradleyTerry, SurrogateRanker
from mirage.languages import LANGUAGES
from mirage.statistics.ranks import kendall_tau
from mirage.surrogate.faults import FAULTS
from mirage.surrogate.model import Candidate, Recipe, evaluate, fit_model
from mirage.surrogate.pretraining import TOURNAMENTS
from mirage.surrogate.simulation import GROUPS, SYSTEMS
from mirage.surrogate.training import TrainingData, training_data

ORDER = ("reference", "truncated", "uncited", "wrong-language", "refusal", "garbled")
HELD_OUT = 5
RECIPES = {
    "ships": Recipe(None, 10.0),
    "slopes": Recipe(None, None, verdicts=True),
    "trees": Recipe(None, None, verdicts=True, trees=True),
}


class HeldOut(NamedTuple):
    """Predictions for held-out systems by recipe, and the selected recipes."""

    tau: Mapping[str, float]
    r2: Mapping[str, float]
    selected: tuple[str, ...]
    covered: tuple[bool, ...]


def data(code: str) -> Mapping[str, TrainingData]:
    """Return the training data of the bundled surrogate of a language."""
    return SurrogateRanker.pretrained(code).data


def with_verdicts(code: str) -> Mapping[str, TrainingData]:
    """Return the same data with the verdicts."""
    part, judgments = data(code)[code], simulated_judgments(code)
    drawn = BradleyTerry().bootstrap(
        judgments, tournaments=TOURNAMENTS, queries=len(part.query_ids), progress=False
    )
    tables = [part.table(row) for row in range(len(part.models))]
    return training_data(tables, drawn, GROUPS, judgments)


def held_out(code: str, splits: int, nested: int) -> HeldOut:
    """Return predictions for systems that are held out five at a time."""
    known = with_verdicts(code)[code]
    tau: dict[str, list[float]] = {name: [] for name in RECIPES}
    missed, spread = dict.fromkeys(RECIPES, 0.0), 0.0
    for models in islice(deals(known.models, seed=0), splits):
        rest, rows = known.without(models), [known.models.index(name) for name in models]
        actual = known.mean_y[rows]
        spread += float(np.sum((actual - rest.mean_y.mean()) ** 2))
        for name, recipe in RECIPES.items():
            predicted = logits(recipe, rest, known.values[rows])
            tau[name].append(float(np.nan_to_num(kendall_tau(predicted, actual))))
            missed[name] += float(np.sum((predicted - actual) ** 2))
    selected, covered = [], []
    for models in islice(deals(known.models, seed=1 + list(LANGUAGES).index(code)), nested):
        ranker = SurrogateRanker().fit_data({code: known.without(models)})
        selected.append(str(ranker.recipe))
        for row in map(known.models.index, models):
            low, high = ranker.predict(known.table(row)).interval()
            covered.append(bool(low <= known.mean_y[row] <= high))
    return HeldOut(
        {name: mean(values) for name, values in tau.items()},
        {name: 1 - value / spread for name, value in missed.items()},
        tuple(selected),
        tuple(covered),
    )


def deals(models: tuple[str, ...], seed: int) -> Iterator[tuple[str, ...]]:
    """Yield all models in random order, five at a time."""
    order = np.random.default_rng(seed).permutation(sorted(models)).tolist()
    for start in range(0, len(order) - HELD_OUT + 1, HELD_OUT):
        yield tuple(order[start : start + HELD_OUT])


def logits(recipe: Recipe, rest: TrainingData, values: np.ndarray) -> np.ndarray:
    """Return predictions of a recipe for models with these features; only verdicts have weight."""
    known = {rest.language: rest}
    # Of one language, weights of verdicts change no order, and residuals only make intervals.
    alone = Candidate(recipe, {}, {}, (1.0, 0.0))
    chosen = alone if recipe.verdicts else evaluate(known, recipe, seed=0)
    queries = np.arange(len(rest.query_ids))
    return fit_model(known, chosen, seed=0).logits(rest.language, values, queries=queries)


def unseen_kind(code: str, kind: str) -> float:
    """Return how far an unseen kind of fault lowers the logit of a faultless system."""
    seen = [system.name for system in SYSTEMS if kind not in system.faults]
    everyone = data(code)[code]
    ranker = SurrogateRanker("linear").fit_data({code: everyone.of(seen)})
    clean, faulty = (
        ranker.predict(everyone.table(everyone.models.index(name))).logit
        for name in ("reference", kind)
    )
    return clean - faulty


def in_order(code: str) -> bool:
    """Return whether six known answers are in the right order."""
    ranker = SurrogateRanker.pretrained(code)
    everyone = ranker.data[code]
    tables = (everyone.table(everyone.models.index(name)) for name in ORDER)
    logits = [ranker.predict(table).logit for table in tables]
    return all(a > b for a, b in pairwise(logits))


def show_held_out(codes: list[str], splits: int, nested: int, parallel: Parallel) -> None:
    """Print a row for each language as soon as it is finished, and the selected recipes."""
    print(f"{HELD_OUT} of {len(SYSTEMS)} systems held out, {splits} splits, recipes held fixed")
    columns = [f"{what} {name}" for what in ("tau", "R2") for name in RECIPES]
    print(f"{'':8}" + "".join(f"{column:>12}" for column in columns))
    rows, selected, covered = [], Counter[str](), []
    found = parallel(delayed(held_out)(code, splits, nested) for code in codes)
    for code, one in zip(codes, found, strict=True):
        rows.append([*one.tau.values(), *one.r2.values()])
        selected.update(one.selected)
        covered += one.covered
        print(f"  {code:6}" + "".join(f"{value:12.3f}" for value in rows[-1]), flush=True)
        for column, value in zip(columns, rows[-1], strict=True):
            add_figure(value, "systems held out", code, column)
    for title, what in (("mean", mean), ("worst", min)):
        values = [what(column) for column in zip(*rows, strict=True)]
        print(f"  {title:6}" + "".join(f"{value:12.3f}" for value in values))
        for column, value in zip(columns, values, strict=True):
            add_figure(value, "systems held out", title, column)
    for recipe, times in selected.most_common():
        print(f"  selected from the rest alone: {recipe}, in {times} of {selected.total()} splits")
    if covered:
        print(f"  its 95 % interval holds {mean(covered):.3f} of {len(covered)} systems")
        add_figure(mean(covered), "systems held out", "coverage of the selected recipe")


def main() -> None:
    """Print the three tables."""
    parser = script_parser(__doc__)
    parser.add_argument("languages", nargs="*", default=list(LANGUAGES))
    parser.add_argument("--splits", type=int, default=len(SYSTEMS) // HELD_OUT)
    parser.add_argument("--nested", type=int, default=2)
    parser.add_argument("--only", type=int, nargs="+", choices=(1, 2, 3), default=(1, 2, 3))
    parser.add_argument("--jobs", type=int, default=-1)
    options = parser.parse_args()
    codes = options.languages
    if options.quick:
        codes, options.only, options.jobs = codes[:1], (2, 3), 1
    with Parallel(n_jobs=options.jobs, return_as="generator") as parallel:
        if 1 in options.only:
            show_held_out(codes, options.splits, options.nested, parallel)
        if 2 in options.only:
            print("kinds never trained on: logits below the system without faults")
            for kind in list(FAULTS)[: 1 if options.quick else None]:
                below = list(parallel(delayed(unseen_kind)(code, kind) for code in codes))
                missed = [code for code, gap in zip(codes, below, strict=True) if gap <= 0]
                where = f"not in {' '.join(missed)}" if missed else f"in all {len(codes)}"
                print(f"  {kind:16} least {min(below):6.2f}   mean {mean(below):6.2f}   {where}")
                add_figure(min(below), "kinds never trained on", kind, "least")
                add_figure(mean(below), "kinds never trained on", kind, "mean")
    if 3 in options.only:
        right = [code for code in codes if in_order(code)]
        print(f"{' > '.join(ORDER)}: in {len(right)} of {len(codes)} languages")
        add_figure(len(right) / len(codes), "six systems in order", "languages")
    save(parser, options)


if __name__ == "__main__":
    main()
