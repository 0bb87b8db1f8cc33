"""Coverage of joint rank intervals and of the interval of the winner, one language and several.

Arenas of nearly equal models are drawn as in ``judged_ranking.py``: logits in even steps from 0.1
to -0.1, a fifth of the verdicts ties, and on each query every model is better or worse than usual
by a normal deviate with a standard deviation of 1.5. The first table has, for rankings from
judgments, the share of rank intervals that contain the true rank, that share for the model with
the lowest, the share of arenas in which all rank intervals do, the mean width of a rank interval,
and the share of intervals of the first model's logit that contain its true logit: as printed below
the table, and as in its row, which does not allow for the selection.

The second table has the same for mean logits over 18 languages of eight models, from judgments on
parallel queries, whose deviates correlate by 0.14 or 0.54 between languages, or on different
queries. Its first column is the coverage of the interval of the mean logit. Its last column is the
width of that interval, divided by the width of the interval of the mean rank, each in units of the
standard deviation over the models of its true value. The interval of the mean rank is the mean of
the ends of the languages' uncorrected rank intervals. True logits of the second table are near
(from 0.3 to -0.3) or far (from 1.5 to -1.5), and deviate in each language by a normal deviate with
a standard deviation of 0.1.

Numbers in brackets are standard errors in units of the last digit.

A row of the second table has a third of the arenas.

    python validation/coverage/rank_sets.py                # half an hour
    python validation/coverage/rank_sets.py --arenas 20    # three minutes
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded
from judged_ranking import NAMES, TIES, draw, truth

from mirage import MultilingualRanking, Ranking
from mirage.arena.studies import draw_scores, judgments_of
from mirage.languages import LANGUAGES
from mirage.statistics.ranks import ranks
from mirage.statistics.worlds import holds

SPREAD, PARALLEL_MODELS, PARALLEL_QUERIES = 1.5, 8, 14
DESIGNS = {
    "near, 0.14": (0.3, 0.14),
    "near, 0.54": (0.3, 0.54),
    "near, different": (0.3, None),
    "far, 0.14": (1.5, 0.14),
    "far, different": (1.5, None),
}
Row = dict[str, np.ndarray]


def sets_hold(ranking: Ranking | MultilingualRanking, true: np.ndarray) -> Row:
    """Return which rank intervals contain the rank, and which winner intervals the logit."""
    names = NAMES[: len(true)]
    if isinstance(ranking, Ranking):
        sets = np.array([ranking[name].rank_interval for name in names])
        best, interval = ranking.best.model, ranking.best.interval
    else:
        sets = np.array([ranking.rank_intervals[name] for name in names])
        best = ranking.models[0]
        interval = ranking.intervals[best]
    inside = (sets[:, 0] <= ranks(true)) & (ranks(true) <= sets[:, 1])
    first = true[list(names).index(best)]
    return {
        "rank": inside.astype(float),
        "all ranks": np.array(float(inside.all())),
        "width": (sets[:, 1] - sets[:, 0] + 1).mean(),
        "winner": holds(ranking.winner_interval, first),
        "uncorrected": holds(interval, first),
    }


def several_languages(
    shared: float | None, logits: np.ndarray, by_language: np.ndarray, random: np.random.Generator
) -> Row:
    """Return which intervals of mean logits contain the true value.

    Args:
        shared: Correlation of deviates between languages; ``None`` for different queries.
        logits: Logits that generate the verdicts, ``(languages, models)``.
        by_language: Logits that all queries together would give, ``(languages, models)``.
        random: Random generator.
    """
    common = random.normal(size=(PARALLEL_QUERIES, PARALLEL_MODELS))
    rankings = {}
    for code, logits_of_language in zip(LANGUAGES, logits, strict=False):
        deviates = random.normal(size=common.shape)
        part = shared or 0.0
        strength = logits_of_language + SPREAD * (
            np.sqrt(part) * common + np.sqrt(1 - part) * deviates
        )
        prefix = f"{code}-" if shared is None else "q"
        rankings[code] = Ranking.from_judgments(
            judgments_of(
                draw_scores(strength, TIES, random),
                NAMES[:PARALLEL_MODELS],
                [f"{prefix}{n}" for n in range(PARALLEL_QUERIES)],
            )
        )
    ranking = MultilingualRanking(rankings)
    true, mean_ranks = by_language.mean(axis=0), ranks(by_language).mean(axis=0)
    names = NAMES[:PARALLEL_MODELS]
    ends = np.array([ranking.intervals[name] for name in names])
    rank_width = np.mean([uncorrected_width(part) for part in rankings.values()])
    width = np.ptp(ends, axis=1).mean() / true.std()
    return {
        "logit": ((ends[:, 0] <= true) & (true <= ends[:, 1])).astype(float),
        **sets_hold(ranking, true),
        "relative width": width / (rank_width / mean_ranks.std()),
    }


def uncorrected_width(ranking: Ranking) -> float:
    """Return the mean length of rank intervals that compare each pair without a correction."""
    models = ranking.models
    better = np.array([[ranking.p_better(a, b) for b in models] for a in models])
    return float(len(models) - 1 - (better > 0.975).sum(axis=0).mean() * 2)


def summary(rows: Sequence[Row], name: str) -> tuple[float, float]:
    """Return the mean of a figure over arenas, and its standard error."""
    values = np.array([np.mean(row[name]) for row in rows])
    values = values[~np.isnan(values)]
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def print_row(label: str, rows: Sequence[Row], names: Sequence[str], *path: str) -> Row:
    """Print and record the figures of one cell, and return the means."""
    cells, means = [], {}
    for name in names:
        if name == "lowest":
            mean, error = float(np.mean([row["rank"] for row in rows], axis=0).min()), np.nan
        else:
            mean, error = summary(rows, name)
            add_figure(error, *path, f"{name}, standard error")
        means[name] = np.array(mean)
        add_figure(mean, *path, name)
        cells.append(f"{mean:.3f}" + ("     " if np.isnan(error) else f" ({1000 * error:2.0f})"))
    print(label + "  ".join(cell.rjust(12) for cell in cells), flush=True)
    return means


def main() -> None:
    """Print a row for each cell of both tables."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--arenas", type=int, default=300)
    options = parser.parse_args()
    arenas = 3 if options.quick else options.arenas
    names = ["rank", "lowest", "all ranks", "width", "winner", "uncorrected"]
    print(f"{arenas} arenas in each row")
    print(" " * 15 + "  ".join(name.rjust(12) for name in names))
    cells = []
    for models, queries in product((3, 8, 19, 40), (14, 40, 100)):
        if options.quick and models > 8:
            continue
        random, logits = seeded([models, queries]), np.linspace(0.1, -0.1, models)
        true = truth(logits, SPREAD)
        rows = [
            sets_hold(Ranking.from_judgments(draw(logits, queries, SPREAD, random)), true)
            for _ in range(arenas)
        ]
        label = f"{models:6}{queries:9}"
        path = f"{models} models", f"{queries} queries"
        cells.append(print_row(label, rows, names, *path))
    names = ["logit", *names, "relative width"]
    # An arena of 18 languages takes as long as about 18 of one.
    fewer = max(arenas // 3, 2)
    languages = 3 if options.quick else len(LANGUAGES)
    print(f"{fewer} arenas in each row")
    print(" " * 15 + "  ".join(name.rjust(12) for name in names))
    for design, (end, shared) in DESIGNS.items():
        random = seeded([languages, int(10 * end), int(100 * (shared or 0))])
        # Languages, models and their true logits are fixed, and arenas differ in their queries.
        logits = np.linspace(end, -end, PARALLEL_MODELS)
        logits = logits + random.normal(0, 0.1, (languages, PARALLEL_MODELS))
        by_language = np.array([truth(row, SPREAD) for row in logits])
        rows = [several_languages(shared, logits, by_language, random) for _ in range(fewer)]
        path = f"mean over {languages} languages", design
        cells.append(print_row(design.ljust(15), rows, names, *path))
    for name in ("lowest", "all ranks", "winner", "uncorrected"):
        values = [float(cell[name]) for cell in cells]
        print(f"{name}: {min(values):.3f} to {max(values):.3f}")
        add_figure(min(values), "over all cells", f"{name}, least")
        add_figure(max(values), "over all cells", f"{name}, most")
    save(parser, options)


if __name__ == "__main__":
    main()
