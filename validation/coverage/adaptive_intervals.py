"""Coverage of the intervals of logits if pairs are chosen by earlier verdicts.

Arenas are simulated as in ``judged_ranking.py``. :class:`mirage.arena.AdaptivePairs` chooses a
share of all pairs on all queries to be judged. Each row prints the mean slope of estimated logits
on the true ones, and the coverage of 95 % intervals: for one fit to all verdicts (which exaggerates
the logits), for the mean of the fits to both halves, as in :meth:`BradleyTerry.fit`, and for the
same number of random pairs.

In the last arena, a fifth of the verdicts are ties, even between models of very different strength.
No Bradley-Terry model fits such verdicts: a fit to pairs of similar models gives other logits than
a fit to all pairs, so adaptive pairs cannot find the latter. Rankings from adaptive judgments have
a note about this.

    python validation/coverage/adaptive_intervals.py [--arenas 60]     # five minutes
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
import judged_ranking
from _results import add_figure, save, script_parser, seeded

from mirage import BradleyTerry, Judgment, Judgments, Leaderboard
from mirage.arena import AdaptivePairs
from mirage.arena.pairs import Pair
from mirage.errors import JudgmentError

VERDICTS = {1.0: "a", 0.5: "tie", 0.0: "b"}


def drawn(
    logits: np.ndarray, queries: int, spread: float, seed: int
) -> dict[tuple[str, ...], float]:
    """Return the score of the first model of every pair on each query."""
    random = seeded([seed, queries, len(logits)])
    table = judged_ranking.draw(logits, queries, spread, random)
    rows = zip(table.query, table.a, table.b, table.score, strict=True)
    return {(table.query_ids[q], table.models[a], table.models[b]): float(s) for q, a, b, s in rows}


def judged(scores: dict[tuple[str, ...], float], pairs: list[Pair]) -> list[Judgment]:
    """Return the verdicts on these pairs."""
    verdicts = []
    for query_id, a, b in pairs:
        score = scores.get((query_id, a, b))
        score = 1 - scores[query_id, b, a] if score is None else score
        on = {"query_id": query_id, "model_a": a, "model_b": b}
        verdicts.append(Judgment(**on, verdict=VERDICTS[score]))
    return verdicts


def adaptive(scores: dict[tuple[str, ...], float], count: int, seed: int) -> Judgments:
    """Return verdicts on pairs that are chosen adaptively."""
    models = sorted({name for _, *both in scores for name in both})
    pairs = AdaptivePairs(models, sorted({key[0] for key in scores}), seed=seed)
    while count > 0 and (batch := pairs.next(min(len(models), count))):
        pairs.update(judged(scores, batch))
        count -= len(batch)
    return pairs.judgments


def at_random(scores: dict[tuple[str, ...], float], count: int, seed: int) -> Judgments:
    """Return verdicts on random pairs."""
    keys = list(scores)
    chosen = seeded([seed, 1]).permutation(len(keys))[:count]
    return Judgments.from_records(judged(scores, [Pair(*keys[i]) for i in chosen]))


def holds(judgments: Judgments, true: np.ndarray) -> tuple[float, list[bool]]:
    """Return the slope on the true logits, and which intervals contain them."""
    fit = BradleyTerry().fit(judgments)
    true = true[[int(name[1:]) for name in fit.models]]
    ends = fit.interval()
    shown = ~np.isnan(ends[:, 0])
    held = (ends[:, 0] <= true) & (true <= ends[:, 1])
    return float(fit.logits @ true / (true @ true)), held[shown].tolist()


def main() -> None:
    """Print a row for each size of arena."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--arenas", type=int, default=60)
    options = parser.parse_args()
    arenas = 3 if options.quick else options.arenas
    published = np.array([entry.logit for entry in Leaderboard.published("en")])
    designs = {
        "published, en": (published - published.mean(), 0.0),
        "10 near each other": (np.linspace(0.3, -0.3, 10), 0.0),
        "10": (np.linspace(2, -2, 10), 0.0),
        "10, queries differ": (np.linspace(2, -2, 10), 1.5),
        "10 far apart, tied": (np.linspace(4, -4, 10), 0.0),
    }
    print(f"{'models':20} queries share   one fit: slope held   halves: slope held   random: held")
    total: list[bool] = []
    for (name, (logits, spread)), (queries, share) in product(
        designs.items(), ((5, 0.5), (20, 0.3), (100, 0.1), (100, 0.3))
    ):
        true = judged_ranking.truth(logits, spread)
        found: dict[str, list[tuple[float, list[bool]]]] = {"all": [], "halves": [], "random": []}
        for seed in range(arenas if len(logits) * queries < 1900 else arenas // 3):
            scores = drawn(logits, queries, spread, seed)
            count = int(share * len(scores))
            try:
                ours = adaptive(scores, count, seed)
                row = [replace(ours, halves=None), ours, at_random(scores, count, seed)]
                results = [holds(judgments, true) for judgments in row]
            except JudgmentError:  # too few to hold the models, or a half of them, together
                continue
            for kind, result in zip(found, results, strict=True):
                found[kind].append(result)
        held = {kind: [hit for _, hits in rows for hit in hits] for kind, rows in found.items()}
        slopes = {kind: np.mean([slope for slope, _ in rows]) for kind, rows in found.items()}
        total += held["halves"]
        print(
            f"{name:20} {queries:7} {share:5.1f}   {slopes['all']:14.2f} {np.mean(held['all']):.3f}"
            f"   {slopes['halves']:13.2f} {np.mean(held['halves']):.3f}"
            f"   {np.mean(held['random']):12.3f}",
            flush=True,
        )
        for kind in held:
            names = name, f"{queries} queries, {share:.0%} judged", kind
            add_figure(np.mean(held[kind]), *names, "coverage")
            add_figure(slopes[kind], *names, "slope")
    print(f"intervals of halves that hold the truth, of all: {np.mean(total):.3f}")
    add_figure(np.mean(total), "coverage of all halves")
    save(parser, options)


if __name__ == "__main__":
    main()
