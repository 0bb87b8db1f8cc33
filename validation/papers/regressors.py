"""Every regressor on held-out models: Table 3 of MIRAGE-Bench, on NoMIRACL.

Ten LLMs answered in eight languages. Two are held out at a time, in all 45 ways, and four, in 50.
Each estimator makes a surrogate for each language alone, as in the paper, which uses the forest.
``auto`` is also trained on all languages together. R2 is over all held-out predictions of a
language, and tau is the mean over splits. All numbers are means over languages.

    python validation/papers/regressors.py          # needs MIRAGE_DATA
    python validation/papers/regressors.py --languages  # every language

On two cores this takes half an hour; ``--jobs -1`` uses all cores.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from _shared import DATA, require_data

from mirage import FeatureSuite, Judgments
from mirage.papers import Arena, Result, compare_regressors
from mirage.papers.results import ValidationRow
from mirage.sources import nomiracl
from mirage.surrogate.estimators import NAMES

LANGUAGES = ("ar", "de", "en", "es", "fa", "id", "sw", "zh")
PAPER = ("forest", False)
# Estimators, and whether one surrogate learns from all languages.
SETTINGS = (
    ("auto", True),
    PAPER,
    *((name, False) for name in NAMES if name != "forest"),
)


def arena(code: str) -> Arena:
    """Return the arena of one language of NoMIRACL."""
    dataset, runs, judgments = nomiracl.load(DATA / "nomiracl", code)
    suite = FeatureSuite(nomiracl.FEATURES, code)
    tables = [suite.score(dataset, run) for run in runs.values()]
    return Arena.of(tables, Judgments.from_records(judgments))


def main() -> None:
    """Print a row for each estimator, and how far the best one is ahead of the paper's."""
    parser = script_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--languages", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    require_data("nomiracl")
    if options.quick:
        options.repeats = 2
    arenas = {code: arena(code) for code in LANGUAGES[: 1 if options.quick else None]}
    for holdout in (2,) if options.quick else (2, 4):
        print(f"{holdout} of 10 models held out, at most {options.repeats} splits")
        print("                    learns                          tau           interval")
        print("estimator           from          R2 train      R2    train     tau      holds")
        means = {}
        for name, pooled in SETTINGS[1:3] if options.quick else SETTINGS:
            found = compare_regressors(
                arenas,
                [name],
                pooled=[name] if pooled else (),
                holdout=holdout,
                repeats=options.repeats,
                n_jobs=options.jobs,
            )
            show(found, options.languages)
            (means[name, pooled],) = found.mean()
            names = f"{holdout} held out", f"{name}, {learns_from(means[name, pooled])}"
            for what in ("r2_train", "r2", "tau_train", "tau", "coverage"):
                add_figure(getattr(means[name, pooled], what), *names, what)
        best = max(means, key=lambda setting: means[setting].r2)
        ahead, paper = means[best], means[PAPER]
        print(
            f"best by R2: {ahead.name} from {learns_from(ahead)}; ahead of the paper's forest by "
            f"{ahead.r2 - paper.r2:.3f} in R2, {ahead.tau - paper.tau:.3f} in tau\n",
            flush=True,
        )
    save(parser, options)


def show(found: Result[ValidationRow], languages: bool) -> None:
    """Print a row for the mean over languages, and on request one for each language."""
    for row in (*(found if languages else ()), *found.mean()):
        name = row.name if row.language == "mean" else f"  {row.language}"
        print(
            f"{name:20}{learns_from(row):12}{row.r2_train:10.3f}{row.r2:8.3f}"
            f"{row.tau_train:9.3f}{row.tau:8.3f}{row.coverage:11.3f}",
            flush=True,
        )


def learns_from(row: ValidationRow) -> str:
    """Return a description of the training data of a row."""
    return "all" if row.pooled else "each alone"


if __name__ == "__main__":
    main()
