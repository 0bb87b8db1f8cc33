"""Coverage of the intervals of a judged ranking.

Arenas are simulated: models with equally spaced logits, a fifth of the verdicts ties. On each query
each model is better or worse than usual by a normal deviate, whose standard deviation is in the
second column, so verdicts on one query are correlated. The true logits are fitted to the
probabilities of a preference over all deviates, as all queries together would give. Each row prints
the coverage of the existing 95 % intervals of logits; the coverage of rank intervals, the lowest
coverage of any model, and the mean width; and the same if intervals come from 500 tournaments
(``tournaments=500``).

A second table is about a model that was judged on only some of the queries. Six equal models have
a fifth of ties. Its columns are: the share of simulations in which this model's logit has an
interval; the coverage of this interval, and of the model's rank interval; how often ``p_better`` of
this model against another is below 0.025 or above 0.975, which should be 5 %; and the coverage of
the intervals of the other models.

    python validation/coverage/judged_ranking.py             # three minutes
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, known_mean, save, script_parser, seeded

from mirage import BradleyTerry, Judgments, Ranking
from mirage.arena.studies import draw_scores, judgments_of, true_logits
from mirage.statistics.ranks import ranks

TIES = 0.2
LEAST = 0.93
LEAST_PARTLY_JUDGED = 1000
EQUAL = 6
PARTS = (
    *((40, judged) for judged in (1, 2, 3, 4, 5, 8)),
    *((100, 8), (5, 5), (20, 20), (100, 100)),
)
NAMES = np.array([f"m{i}" for i in range(100)])


def truth(logits: np.ndarray, spread: float) -> np.ndarray:
    """Return the logits that all queries together would give."""
    return true_logits(logits, spread, TIES)


def draw(logits: np.ndarray, queries: int, spread: float, random: np.random.Generator) -> Judgments:
    """Return a verdict on every pair and query."""
    strengths = logits + random.normal(0, spread, (queries, len(logits)))
    return judgments_of(draw_scores(strengths, TIES, random), NAMES[: len(logits)])


def held(ranking: Ranking, logits: np.ndarray) -> tuple[list[bool], list[bool], list[int]]:
    """Return which intervals contain the logit, which rank intervals the rank, and their widths."""
    places = ranks(logits)
    of_logit, of_rank, widths = [], [], []
    for i, (logit, place) in enumerate(zip(logits, places, strict=True)):
        entry = ranking[NAMES[i]]
        low, high = entry.interval
        of_logit += [] if np.isnan(low) else [bool(low <= logit <= high)]
        if entry.rank_interval is not None:
            best, worst = entry.rank_interval
            of_rank.append(bool(best <= place <= worst))
            widths.append(worst - best + 1)
    return of_logit, of_rank, widths


def partly_judged(
    queries: int, judged: int, spread: float, random: np.random.Generator
) -> dict[str, float]:
    """Return which intervals contain the truth if a model was judged on some of the queries.

    Args:
        queries: Number of queries.
        judged: Number of queries on which the last of six equal models was judged.
        spread: Standard deviation of a model's strength on a query.
        random: Random generator.
    """
    whole = draw(np.zeros(EQUAL), queries, spread, random)
    rows = (whole.b < EQUAL - 1) | (whole.query < judged)
    columns = {name: getattr(whole, name)[rows] for name in ("query", "a", "b", "score")}
    fit = BradleyTerry().fit(replace(whole, **columns))
    model, other = NAMES[EQUAL - 1], NAMES[0]
    low, high = fit.interval().T
    inside = np.where(np.isnan(low), np.nan, (low <= 0) & (high >= 0))
    p = fit.p_better(model, other)
    return {
        "partly judged with an interval": float(not np.isnan(low[-1])),
        "coverage: partly judged": float(inside[-1]),
        # Equal models all have the rank 1.
        "coverage: rank, partly judged": float(fit.rank_interval()[-1, 0] == 1),
        "false certainty of p_better": np.nan if np.isnan(p) else float(not 0.025 <= p <= 0.975),
        "coverage: the others": float(np.nanmean(inside[:-1])),
    }


def print_partly_judged(arenas: int) -> None:
    """Print and record a row for each number of queries on which a model was judged."""
    print("spread  queries  judged   shown  logit   rank  p_better  others")
    for spread, (queries, judged) in product((0.0, 1.5), PARTS):
        random = seeded([queries, judged, int(10 * spread)])
        rows = [partly_judged(queries, judged, spread, random) for _ in range(arenas)]
        names = f"{judged} of {queries} queries", f"spread {spread}"
        means = {name: known_mean([row[name] for row in rows]) for name in rows[0]}
        for name, mean in means.items():
            add_figure(mean, *names, name)
        print(
            f"{spread:6}  {queries:7}  {judged:6}   "
            + "  ".join(f"{mean:.3f}" for mean in means.values()),
            flush=True,
        )


def main() -> None:
    """Print a row for each size of arena."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--arenas", type=int, default=300)
    options = parser.parse_args()
    arenas = 3 if options.quick else options.arenas
    print("models  spread  logits to  queries   logit  shown   rank  worst  width    boot   rank")
    lowest = 1.0
    for models, spread, end, queries in product((4, 10), (0.0, 1.5), (0.3, 2.0), (5, 20, 100)):
        logits = np.linspace(end, -end, models)
        true = truth(logits, spread)
        random = seeded([models, queries, int(10 * spread), int(10 * end)])
        found, drawn = [], []
        for seed in range(arenas):
            judgments = draw(logits, queries, spread, random)
            found.append(held(Ranking.from_judgments(judgments), true))
            if seed < arenas // 3:
                ranking = Ranking.from_judgments(
                    judgments, tournaments=500, seed=seed, progress=False
                )
                drawn.append(held(ranking, true))
        of_logit = [hit for hits, _, _ in found for hit in hits]
        of_rank = np.array([hits for _, hits, _ in found])
        hits = [[hit for row in drawn for hit in row[k]] for k in (0, 1)]
        boot = [float(np.mean(hit)) if hit else np.nan for hit in hits]
        shares = [float(np.mean(of_logit)), float(of_rank.mean()), *boot]
        lowest = min(lowest, *(share for share in shares if not np.isnan(share)))
        print(
            f"{models:6}  {spread:6.1f}  {end:9.1f}  {queries:7}"
            f"   {np.mean(of_logit):.3f}  {len(of_logit) / of_rank.size:.3f}"
            f"  {of_rank.mean():.3f}  {of_rank.mean(axis=0).min():.3f}"
            f"  {np.mean([row[2] for row in found]):5.2f}   {boot[0]:.3f}  {boot[1]:.3f}",
            flush=True,
        )
        names = f"{models} models to {end}, spread {spread}", f"{queries} queries"
        add_figure(np.mean(of_logit), *names, "coverage: logit")
        add_figure(len(of_logit) / of_rank.size, *names, "logits with an interval")
        add_figure(of_rank.mean(), *names, "coverage: rank")
        add_figure(of_rank.mean(axis=0).min(), *names, "coverage: rank of the worst model")
        add_figure(np.mean([row[2] for row in found]), *names, "width: rank")
        add_figure(boot[0], *names, "coverage: logit, tournaments")
        add_figure(boot[1], *names, "coverage: rank, tournaments")
    print_partly_judged(20 if options.quick else max(options.arenas, LEAST_PARTLY_JUDGED))
    print(f"lowest coverage of what is shown: {lowest:.3f} (at least {LEAST})")
    add_figure(lowest, "lowest coverage")
    save(parser, options)


if __name__ == "__main__":
    main()
