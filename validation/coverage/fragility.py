"""The fewest queries or verdicts that decide a rank, compared with an exhaustive search; time.

1. Small arenas: the size of the removal of queries, and of verdicts (up to three), that
   ``mirage.arena.fragility`` names for each model, against the smallest of all removals. Each
   removal is verified by a new fit.
2. 19 models, every pair on each of 100 queries: the time, and the removal that changes the first
   rank. Next to it is the size according to first-order influence at the logits of the whole arena
   (AMIP, Huang et al. 2025, arXiv 2508.11847), which no fit has verified.

    python validation/coverage/fragility.py [--arenas 20]     # two minutes
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage import BradleyTerry, Judgments
from mirage.arena import estimation, fragility
from mirage.errors import JudgmentError
from mirage.statistics.ranks import ranks

NAMES = np.array([f"m{i:02d}" for i in range(100)])
COLUMNS = ("query", "a", "b", "score")


def draw(models: int, queries: int, share: float, seed: int, end: float = 1.0) -> Judgments:
    """Return a share of all pairs, a fifth of them ties; true logits are equally spaced."""
    random = seeded([models, queries, seed])
    logits = np.linspace(end, -end, models)
    a, b = np.triu_indices(models, 1)
    score = (random.random((queries, len(a))) < 1 / (1 + np.exp(logits[b] - logits[a]))) * 1.0
    score[random.random(score.shape) < 0.2] = 0.5
    query, pair = np.nonzero(random.random(score.shape) < share)
    return Judgments.from_arrays(
        query=query, model_a=NAMES[a[pair]], model_b=NAMES[b[pair]], score=score[query, pair]
    )


def smallest(judgments: Judgments, groups: Sequence[np.ndarray], most: int) -> np.ndarray:
    """Return the size of the smallest removal that changes a model's rank; 0 if it is larger."""
    model, size = BradleyTerry(), len(judgments.models)
    before = ranks(model.fit(judgments).logits)
    least = np.zeros(size, dtype=int)
    for count in range(1, most + 1):
        for some in combinations(groups, count):
            kept = ~np.isin(np.arange(len(judgments)), np.concatenate(some))
            columns = {name: getattr(judgments, name)[kept] for name in COLUMNS}
            try:
                left = model.fit(replace(judgments, **columns))
            except JudgmentError:  # nothing holds the models together any more
                continue
            least = np.where((least == 0) & (ranks(left.logits) != before), count, least)
        if least.all():
            break
    return least


def against_all(arenas: int, quick: bool) -> None:
    """Compare the sizes of the named removals with the smallest ones."""
    equal = dict.fromkeys(("queries", "verdicts"), 0)
    count = 0
    settings = ((3, 7, 1.0), (4, 6, 0.7), (4, 10, 1.0), (5, 8, 0.5))
    for models, queries, share in settings[: 1 if quick else None]:
        for seed in range(arenas):
            judgments = draw(models, queries, share, seed)
            try:
                named = fragility(judgments)
            except JudgmentError:
                continue
            rows = np.arange(len(judgments))
            by_query = [rows[judgments.query == q] for q in np.unique(judgments.query)]
            limits = {"queries": len(by_query) // 2, "verdicts": 3 if len(rows) <= 32 else 2}
            groups = {"queries": by_query, "verdicts": [*rows[:, None]]}
            for kind, limit in limits.items():
                least = smallest(judgments, groups[kind], limit)
                ours = [getattr(one, kind) for one in named]
                sizes = np.array([len(one.dropped) if one else 0 for one in ours])
                equal[kind] += int(np.sum(np.where(sizes > limit, 0, sizes) == least))
            count += models
    for kind, number in equal.items():
        print(f"as small as the smallest of all removals of {kind}: {number} of {count} ranks")
        add_figure(number, "against all removals", kind, "as small")
        add_figure(count, "against all removals", kind, "ranks")


def first_order(judgments: Judgments) -> int:
    """Return the number of queries that decide the first rank, by first-order influence."""
    fit = BradleyTerry().fit(judgments)
    a, b, score = judgments.a, judgments.b, judgments.score
    wins = estimation.win_matrix(a, b, score, len(fit.models))
    first, second = np.argsort(-fit.logits)[:2]
    contrast = np.eye(len(fit.models))[first] - np.eye(len(fit.models))[second]
    steps = np.linalg.solve(estimation.information(wins, fit.logits, 0.1), contrast)
    residual = score - estimation.win_probabilities(fit.logits)[a, b]
    influence = np.bincount(judgments.query, residual * (steps[a] - steps[b]))
    together = np.sort(influence)[::-1].cumsum()
    return int(np.argmax(together > contrast @ fit.logits)) + 1


def main() -> None:
    """Print everything."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--arenas", type=int, default=20)
    options = parser.parse_args()
    against_all(1 if options.quick else options.arenas, options.quick)
    for end, seed in product(
        (2.0,) if options.quick else (2.0, 1.0), (0,) if options.quick else (0, 1)
    ):
        judgments = draw(19, 10 if options.quick else 100, 1.0, seed, end)
        start = time.perf_counter()
        found = fragility(judgments)
        taken = time.perf_counter() - start
        (top,) = [one for one in found if one.rank == 1]
        print(f"19 models: {taken:.2f} s; by first-order influence {first_order(judgments)}; {top}")
        names = "19 models", f"logits to {end:g}, seed {seed}"
        add_figure(taken, *names, "seconds")
        add_figure(first_order(judgments), *names, "queries by first-order influence")
        for kind, removal in ("queries", top.queries), ("verdicts", top.verdicts):
            add_figure(len(removal.dropped) if removal else np.nan, *names, f"{kind} to remove")
    save(parser, options)


if __name__ == "__main__":
    main()
