"""Whether the probability that one system is better can be trusted over several languages.

The script computes :meth:`mirage.MultilingualRanking.p_better` for two kinds of pairs:

1. Two simulated systems that answer 5, 20 or 40 questions, each in 2, 6 or 18 languages, drawn as
   in ``dossiers.py``. A system fails on a question with a probability that varies between
   questions and is the same in all languages. Its correlation is 0, 0.1, 0.3 or 0.6. In the rows
   "independent", all answers are different questions. The columns are those of ``dossiers.py``.
2. Two manners (styles of writing) of the same texts without faults, as in
   ``compared_systems.py``, in 1, 2, 6 or 18 languages. The script prints how often they are called
   different, with P of at least 0.9 or 0.975 for one of them.

    python validation/coverage/several_languages.py  # ten minutes on two cores
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from itertools import combinations, product
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded
from compared_systems import ALL_MANNERS, Author, Comparer, differing_share
from dossiers import GAP, draw_pairs

from mirage.dataset import clusters_of
from mirage.languages import LANGUAGES
from mirage.ranking import comparison
from mirage.ranking.comparison import QueryGains, advantages
from mirage.statistics.clusters import cluster_names

LANGUAGE_COUNTS, QUESTIONS, CORRELATIONS = (2, 6, 18), (5, 20, 40), ("0", "0.1", "0.3", "0.6")
SURE, DIFFERENT = 0.9, 0.975
DRAWS = 1000
SUBSETS = 4
Gains = Mapping[tuple[str, str], QueryGains]


def one_of_two(p: np.ndarray, limit: float) -> float:
    """Return how often either of two systems has a probability of at least a limit."""
    return float(np.mean((p >= limit) | (p <= 1 - limit)))


def over_languages(gains: np.ndarray, languages: int, parallel: bool) -> float:
    """Return the probability for gains that have the answers to a question side by side."""
    by_language = gains.reshape(-1, languages).T
    parts = []
    for number, row in enumerate(by_language):
        prefix = "" if parallel else f"{number} "
        ids = tuple(f"{prefix}{question}" for question in range(len(row)))
        parts.append(QueryGains(ids, row, ids))
    return QueryGains.pooled(parts).p_positive


def show_simulated(pairs: int) -> None:
    """Print the first table."""
    title = "questions, languages, correlation"
    print(f"{title:36}{'equal, 0.9':>12}{'0.975':>8}{'right':>9}{'decided':>9}")
    for questions, languages, correlation in product(QUESTIONS, LANGUAGE_COUNTS, CORRELATIONS):
        rng = seeded([questions, languages, *correlation.encode()])
        answers = questions * languages
        equal, _ = draw_pairs(pairs, answers, correlation, 0.0, rng, languages)
        unequal, first_better = draw_pairs(pairs, answers, correlation, GAP, rng, languages)
        for name, parallel in (("independent", False), ("p_better", True)):
            p, q = (
                np.array([over_languages(row, languages, parallel) for row in rows])
                for rows in (equal, unequal)
            )
            sure = (q >= SURE) | (q <= 1 - SURE)
            figures = {
                "equal, 0.9": one_of_two(p, SURE),
                "equal, 0.975": one_of_two(p, DIFFERENT),
                "right": np.mean((q > 0.5)[sure] == first_better[sure]) if sure.any() else math.nan,
                "decided": sure.mean(),
            }
            path = f"{questions} questions", f"{languages} languages", correlation, name
            for label, value in figures.items():
                add_figure(value, *path, label)
            row = f"{questions:<3} {languages:<3} {correlation:4} {name}"
            cells = [float(value) for value in figures.values()]
            print(f"{row:36}{cells[0]:12.1%}{cells[1]:8.1%}{cells[2]:9.1%}{cells[3]:9.1%}")


def gains_of_manners(code: str, quick: bool) -> Gains:
    """Return the advantages of each manner over each other one in a language."""
    author = Author(code, "quick")
    comparer = Comparer(author)
    manners = ALL_MANNERS[:3] if quick else ALL_MANNERS
    runs = {manner: author.run(manner, author.drafts) for manner in manners}
    ids = author.queries.query_ids
    clusters = tuple(cluster_names(ids, clusters_of(author.queries)))
    result = {}
    for first, second in combinations(comparer.tables(list(runs.values())), 2):
        names = first.model, second.model
        differing = differing_share(runs[names[0]], runs[names[1]], ids)
        gains = advantages(comparer.ranker, first, second, differing)
        result[names] = QueryGains(ids, gains, clusters)
    return result


def show_manners(by_language: Mapping[str, Gains]) -> None:
    """Print the second table."""
    print(f"\n{'two manners of the same texts':36}{'P >= 0.9':>12}{'0.975':>8}")
    codes = list(by_language)
    rng = seeded(1)
    for languages in sorted({1, *(n for n in LANGUAGE_COUNTS if n < len(codes)), len(codes)}):
        p = []
        for pair in next(iter(by_language.values())):
            for _ in range(SUBSETS if languages < len(codes) else 1):
                chosen = rng.choice(codes, languages, replace=False).tolist()
                parts = [by_language[code][pair] for code in sorted(chosen)]
                p.append(QueryGains.pooled(parts).p_positive)
        name = f"{languages} language{'s' * (languages > 1)}"
        cells = [one_of_two(np.array(p), limit) for limit in (SURE, DIFFERENT)]
        for label, value in zip(("P >= 0.9", "P >= 0.975"), cells, strict=True):
            add_figure(value, "two manners", name, label)
        print(f"{name:36}{cells[0]:12.1%}{cells[1]:8.1%}")


def main() -> None:
    """Print both tables."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--repeats", type=int, default=400, help="pairs of systems; default: 400")
    options = parser.parse_args()
    comparison.DRAWS = DRAWS
    show_simulated(5 if options.quick else options.repeats)
    codes = ["en", "sw"] if options.quick else list(LANGUAGES)
    parts = Parallel(n_jobs=1 if options.quick else -1)(
        delayed(gains_of_manners)(code, options.quick) for code in codes
    )
    show_manners(dict(zip(codes, parts, strict=True)))
    save(parser, options)


if __name__ == "__main__":
    main()
