"""Held-out models on NoMIRACL: verdicts, means, and the paper's random forest.

Ten LLMs answered in eight languages. Two models, or four, are held out in all languages, in all
possible ways. ``verdicts`` is trained on single verdicts and ``means`` on mean features, both on
all languages together. Both select their recipe anew in every split. ``forest`` is the paper's
random forest for each language alone. Tournaments, splits and features are the same. No feature
looks for the words that NoMIRACL's labels require. The rows "with refusal" have two more features,
which measure whether an answer abstains correctly, in any words. They agree with most labels, and
show how accurate features can be that measure what the judge sees.

R2 is over all held-out predictions together, relative to the mean of the training models. R2 in the
paper is relative to the mean of all models. Kendall's tau is the mean over splits. "Ahead by" is
the difference between the verdicts and the forest. With ``--splits``, models are shuffled and
divided that many times, so that each is held out about equally often.

    python validation/papers/nomiracl.py               # needs MIRAGE_DATA; an hour on two cores
    python validation/papers/nomiracl.py es zh --only verdicts forest
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from math import comb
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _nomiracl import FEATURES, LANGUAGES, MODELS, REFUSAL, Arena, arena
from _results import add_figure, save, script_parser
from _shared import require_data

from mirage import SurrogateRanker
from mirage.surrogate.ranker import Validation

METHODS = ("verdicts", "means", "forest")
MEASURES = ("r2", "r2_in_paper", "tau", "coverage")


def validate(
    method: str,
    arenas: Mapping[str, Arena],
    features: Sequence[str],
    holdout: int,
    splits: int,
    jobs: int,
) -> Mapping[str, Mapping[str, float]]:
    """Return every measure by language, for this number of held-out models."""
    settings = features, holdout, splits, jobs
    if method == "forest" and len(arenas) > 1:
        alone = [validate(method, {code: one}, *settings) for code, one in arenas.items()]
        return {what: {c: v for one in alone for c, v in one[what].items()} for what in MEASURES}
    ranker = SurrogateRanker("auto" if method == "means" else method).fit(
        [table.columns(features) for one in arenas.values() for table in one.tables],
        {code: one.tournaments for code, one in arenas.items()},
        judgments={code: one.judgments for code, one in arenas.items()}
        if method == "verdicts"
        else None,
    )
    found: Validation = ranker.cross_validate(holdout, splits, n_jobs=jobs)
    return {what: getattr(found, what) for what in MEASURES}


def main() -> None:
    """Print each measure by language, with one row per method."""
    parser = script_parser(__doc__)
    parser.add_argument("languages", nargs="*", default=LANGUAGES)
    parser.add_argument("--only", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--held-out", type=int, nargs="+", default=(2, 4))
    parser.add_argument("--splits", type=int, help="by default all there are")
    parser.add_argument("--jobs", type=int, default=-1)
    options = parser.parse_args()
    if options.quick:
        options.languages, options.held_out = options.languages[:1], (2,)
        options.only, options.splits, options.jobs = ("forest",), 1, 1
    require_data("nomiracl")
    arenas = {code: arena(code) for code in options.languages}
    for holdout in options.held_out:
        for title, features in (("", FEATURES), (", with refusal", (*FEATURES, *REFUSAL))):
            ways = comb(MODELS, holdout)
            splits = min(options.splits or ways, ways)
            print(f"{holdout} of {MODELS} models held out in {splits} of {ways} ways{title}")
            print(f"{'':24}" + "".join(f"{code:>7}" for code in (*arenas, "mean")))
            found: dict[str, Mapping[str, Mapping[str, float]]] = {}
            for method in options.only:
                started = time.perf_counter()
                found[method] = validate(method, arenas, features, holdout, splits, options.jobs)
                for what, values in found[method].items():
                    show(method, what, [values[code] for code in arenas])
                    names = f"{holdout} held out{title}", method, what
                    for code in arenas:
                        add_figure(values[code], *names, code)
                    add_figure(mean(values[code] for code in arenas), *names, "mean")
                print(f"  {time.perf_counter() - started:.0f} s", flush=True)
            if "verdicts" in found and "forest" in found:
                for what in ("r2", "tau"):
                    ours, theirs = found["verdicts"][what], found["forest"][what]
                    show("ahead by", what, [ours[code] - theirs[code] for code in arenas])
    save(parser, options)


def show(name: str, what: str, values: Sequence[float]) -> None:
    """Print a row: a value for each language, and their mean."""
    row = "".join(f"{value:7.2f}" for value in (*values, mean(values)))
    print(f"  {name:10}{what:12}{row}", flush=True)


if __name__ == "__main__":
    main()
