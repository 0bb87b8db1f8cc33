"""Coverage of the intervals of ranks over several parallel languages.

Arenas are drawn: eight models, the same questions in every language, and verdicts on each pair. On
a question each model is better or worse than usual by a normal deviate with a standard deviation
of 1.5, of which languages share the part that the correlation says. True logits are in even steps:
far apart (from 2 to -2) or near (from 0.3 to -0.3), the same in all languages, or varied, from 1
to -1 and in each language off by a deviate of 0.5. A row prints the share of 95 % intervals that
hold the true mean rank, and their width; the same of plain percentiles of the draws, which are not
shown; of the intervals of the place by mean rank; and how often a model is surely better
(``p_better`` above 0.975) than one that is as good or better.

    python validation/coverage/mean_ranks.py               # half an hour
    python validation/coverage/mean_ranks.py --arenas 20   # two minutes
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage import Judgments, MultilingualRanking, Ranking
from mirage.languages import LANGUAGES
from mirage.statistics.ranks import ranks

LEAST, MODELS, SPREAD = 0.93, 8, 1.5
NAMES = np.array([f"m{i}" for i in range(MODELS)])
ENDS = {"far": 2.0, "near": 0.3, "varied": 1.0}


def truth(design: str, languages: int, random: np.random.Generator) -> np.ndarray:
    """Return the logits, ``(languages, models)``."""
    end = ENDS[design]
    off = 0.5 if design == "varied" else 0.0
    return np.linspace(end, -end, MODELS) + random.normal(0, off, (languages, MODELS))


def draw(
    logits: np.ndarray, queries: int, shared: float, random: np.random.Generator
) -> MultilingualRanking:
    """Every pair judged on every question, in every language."""
    a, b = np.triu_indices(MODELS, 1)
    common = random.normal(0, SPREAD * np.sqrt(shared), (queries, MODELS))
    rankings = {}
    for code, of_language in zip(LANGUAGES, logits, strict=False):
        own = of_language + common
        own = own + random.normal(0, SPREAD * np.sqrt(1 - shared), own.shape)
        score = random.random((queries, len(a))) < 1 / (1 + np.exp(own[:, b] - own[:, a]))
        judgments = Judgments.from_arrays(
            query=np.repeat(np.arange(queries), len(a)),
            model_a=np.tile(NAMES[a], queries),
            model_b=np.tile(NAMES[b], queries),
            score=score.ravel().astype(float),
        )
        rankings[code] = Ranking.from_judgments(judgments)
    return MultilingualRanking(rankings)


def percentiles(ranking: MultilingualRanking) -> np.ndarray:
    """Return the middle 95 % of the mean rank in the draws, ``(2, models)``."""
    drawn = [ranks(np.stack([one.drawn()[m] for m in NAMES], axis=1)) for one in ranking.values()]
    return np.quantile(np.mean(drawn, axis=0), [0.025, 0.975], axis=0)


def held(ranking: MultilingualRanking, logits: np.ndarray) -> np.ndarray:
    """Shares over the models: the columns of the table."""
    mean = ranks(logits).mean(axis=0)
    place = ranks(-mean)
    low, high = np.array([ranking.intervals[m] for m in NAMES]).T
    below, above = percentiles(ranking)
    best, worst = np.array([ranking.rank_intervals[m] for m in NAMES]).T
    sure = np.array([[ranking.p_better(a, b) > 0.975 for b in NAMES] for a in NAMES])
    worse = mean[:, None] >= mean
    np.fill_diagonal(worse, False)
    inside = (low <= mean) & (mean <= high), (below <= mean) & (mean <= above)
    return np.array(
        [
            inside[0].mean(),
            (high - low).mean(),
            inside[1].mean(),
            ((best <= place) & (place <= worst)).mean(),
            (worst - best + 1).mean(),
            sure[worse].mean(),
        ]
    )


def main() -> None:
    """Print a row for each size of arena."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--arenas", type=int, default=300)
    options = parser.parse_args()
    arenas = 1 if options.quick else options.arenas
    print("logits  shared  languages  queries   mean  width  percentiles  place  width  false")
    lowest, most = 1.0, 0.0
    for design, shared, languages, queries in product(ENDS, (0.14, 0.54), (1, 4, 18), (5, 14, 40)):
        if languages == 1 and shared > 0.14:  # nothing is shared with one language
            continue
        if options.quick and languages == 18:
            continue
        random = seeded([languages, queries, len(design), int(100 * shared)])
        rows = []
        for _ in range(arenas):
            logits = truth(design, languages, random)
            rows.append(held(draw(logits, queries, shared, random), logits))
        mean, width, plain, place, places, false = np.mean(rows, axis=0)
        lowest, most = min(lowest, mean, place), max(most, false)
        print(
            f"{design:6}  {shared:6.2f}  {languages:9}  {queries:7}  {mean:.3f}  {width:5.2f}"
            f"  {plain:11.3f}  {place:.3f}  {places:5.2f}  {false:.3f}",
            flush=True,
        )
        names = f"{design}, shared {shared}, {languages} languages", f"{queries} queries"
        add_figure(mean, *names, "coverage: mean rank")
        add_figure(width, *names, "width: mean rank")
        add_figure(plain, *names, "coverage: percentiles")
        add_figure(place, *names, "coverage: rank")
        add_figure(places, *names, "width: rank")
        add_figure(false, *names, "surely better and wrong")
    print(f"lowest coverage of what is shown: {lowest:.3f} (at least {LEAST})")
    print(f"most often sure and wrong: {most:.3f} (at most 0.025)")
    add_figure(lowest, "lowest coverage")
    add_figure(most, "most often surely better and wrong")
    save(parser, options)


if __name__ == "__main__":
    main()
