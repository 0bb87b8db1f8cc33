"""How many judgments reproduce the full ranking, with adaptive and random choice of pairs.

1. Arenas drawn from the logits that the MIRAGE-Bench paper publishes: 19 models, 17 languages, a
   verdict for every pair on each of 100 queries.
2. NoMIRACL: ten LLMs, 8 languages, 120 queries. A right answer beats a wrong one; three in five
   verdicts are ties.

The exhaustive ranking comes from the Bradley-Terry fit to all verdicts of an arena. After every
batch (as many pairs as there are models), the fit to the verdicts so far is compared with it by
Kendall's tau-b. The tables count the judgments until tau first reaches 0.95, until it stays there,
and until its mean over seeds reaches 0.95: for each language, as the mean over languages, and in
the last row for all arenas together. Further tables compare the expected tau with the true one, and
other rules and batch sizes.

    python validation/power/adaptive.py [--data FOLDER] [--seeds 8]     # some minutes on one core

FOLDER (or MIRAGE_DATA, or ../shared/data) holds nomiracl/; without it, part 2 is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr
from sklearn.isotonic import IsotonicRegression

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded
from _shared import DATA

from mirage import Judgment, Judgments, Leaderboard
from mirage.arena import AdaptivePairs
from mirage.arena import estimation as est
from mirage.arena.pairs import Pair
from mirage.languages import LANGUAGES
from mirage.models import Verdict
from mirage.sources import nomiracl

TARGET = 0.95
QUERIES = 100
RIDGE = 0.1  # of BradleyTerry()
NOMIRACL = ("ar", "de", "en", "es", "fa", "id", "sw", "zh")
VERDICTS: dict[float, Verdict] = {1.0: "a", 0.0: "b", 0.5: "tie"}


# Arenas -------------------------------------------------------------------------------------------


class Arena:
    """All verdicts: ``score[i, j, q]`` is the score of model i against model j on query q."""

    def __init__(self, score: np.ndarray) -> None:
        self.score = score
        self.models = [f"m{place}" for place in range(score.shape[0])]
        self.query_ids = [f"q{place}" for place in range(score.shape[2])]
        self.exhaustive = est.fit_bradley_terry(score.sum(axis=2), RIDGE)

    def judge(self, pairs: Iterable[Pair]) -> list[Judgment]:
        """Return the verdicts on these pairs."""
        return [
            Judgment(
                query_id=query_id,
                model_a=a,
                model_b=b,
                verdict=VERDICTS[self.score[int(a[1:]), int(b[1:]), int(query_id[1:])]],
            )
            for query_id, a, b in pairs
        ]

    def tau(self, logits: np.ndarray) -> np.ndarray:
        """Return Kendall's tau-b of each row of logits with the exhaustive ones."""
        upper = np.triu_indices(len(self.models), 1)
        order, wanted = (
            np.sign(np.round(x[..., upper[0]] - x[..., upper[1]], 8))
            for x in (logits, self.exhaustive)
        )
        pairs = np.count_nonzero(order, axis=-1) * np.count_nonzero(wanted)
        return (order * wanted).sum(axis=-1) / np.sqrt(np.maximum(pairs, 1))


def published(seeds: int) -> dict[str, list[Arena]]:
    """Return arenas drawn from the published logits, several for each language."""
    arenas = {}
    for language in LANGUAGES:
        logits = np.array([entry.logit for entry in Leaderboard.published(language)])
        if np.isfinite(logits).all():  # the paper has none for Yoruba
            arenas[language] = [drawn(logits, seed) for seed in range(seeds)]
    return arenas


def drawn(logits: np.ndarray, seed: int) -> Arena:
    """Return a verdict for every pair on every query, by the Bradley-Terry model alone."""
    size = len(logits)
    chance = est.win_probabilities(logits)[..., None]
    won = seeded([seed, 0]).random((size, size, QUERIES)) < chance
    above = np.triu(np.ones((size, size), dtype=bool), 1)[..., None]
    return Arena(np.where(above, won, 0.0) + np.where(above, ~won, 0.0).swapaxes(0, 1))


def recorded(folder: Path, seeds: int) -> dict[str, list[Arena]]:
    """Return NoMIRACL's arena, the same one for every seed."""
    arenas = {}
    for language in NOMIRACL:
        table = Judgments.from_records(nomiracl.load(folder, language).judgments)
        score = np.zeros((len(table.models), len(table.models), len(table.query_ids)))
        score[table.a, table.b, table.query] = table.score
        score[table.b, table.a, table.query] = 1 - table.score
        arenas[language] = [Arena(score)] * seeds
    return arenas


# Rules --------------------------------------------------------------------------------------------


class AboutLogits(AdaptivePairs):
    """A rule that chooses the pairs with most expected information about the logits (D-optimal).

    Li et al. 2018, Hybrid-MST, NeurIPS 31; Mikhailiuk et al. 2020, arXiv 2004.05691.
    """

    def _gains(self, half: int, covariance: np.ndarray, _missing: np.ndarray) -> np.ndarray:
        own = covariance.diagonal()
        return self._information[1 - half] * (own[:, None] + own - 2 * covariance)


class WrongOrders(AdaptivePairs):
    """A rule that chooses the most uncertain pair: P(order wrong) times its drop in variance."""

    def _gains(self, half: int, covariance: np.ndarray, missing: np.ndarray) -> np.ndarray:
        own, left = covariance.diagonal(), missing.diagonal()
        variance = np.maximum(left[:, None] + left - 2 * missing, 1e-9)
        wrong = ndtr(-np.abs(self._logit_differences[1 - half]) / np.sqrt(variance))
        return wrong * self._information[1 - half] * (own[:, None] + own - 2 * covariance)


class ChatbotArena(AdaptivePairs):
    """A rule that draws pairs by how much a judgment would narrow the interval of their win rate.

    Chiang et al. 2024, Chatbot Arena, arXiv 2403.04132, section 5.
    """

    def _gains(self, half: int, _covariance: np.ndarray, _missing: np.ndarray) -> np.ndarray:
        games = (
            1 + self._wins[half] + self._wins[half].T + self._pending[half] + self._pending[half].T
        )
        narrower = np.sqrt(self._information[1 - half]) * (games**-0.5 - (games + 1) ** -0.5)
        # The largest of weights over exponential draws falls on each in proportion to its weight.
        return narrower / self._rng.exponential(size=narrower.shape)


class JustSortIt(AdaptivePairs):
    """A rule that runs one quicksort after another, with all comparisons with a pivot at once.

    Maystre & Grossglauser 2017, Just Sort It!, ICML, arXiv 1502.05556.
    """

    segments: Sequence[list[int]] = ()

    def next(self, n: int | None = None) -> list[Pair]:
        """Return comparisons of a pivot with all others in each segment; ``n`` is ignored."""
        del n
        if all(len(segment) < 2 for segment in self.segments):
            self.segments = [self._rng.permutation(len(self.models)).tolist()]
        return [
            self._hand_out(
                self._free_half(*sorted((segment[0], other))), *sorted((segment[0], other))
            )
            for segment in self.segments
            for other in segment[1:]
            if self._unasked[:, *sorted((segment[0], other))].any()
        ]

    def _free_half(self, a: int, b: int) -> int:
        """Return the half with more queries left for this pair."""
        return int(np.argmax(self._unasked[:, a, b]))

    def update(self, judgments: Iterable[Judgment | None]) -> None:
        """Split each segment at its pivot."""
        given = [judgment for judgment in judgments if judgment is not None]
        super().update(given)
        better: dict[frozenset[int], int | None] = {}
        for judgment in given:
            a, b = self._model[judgment.model_a], self._model[judgment.model_b]
            better[frozenset((a, b))] = {"a": a, "b": b, "tie": None}[judgment.verdict]
        self.segments = [
            part for segment in self.segments for part in self._split(segment, better) if part
        ]

    def _split(
        self, segment: list[int], better: dict[frozenset[int], int | None]
    ) -> tuple[list[int], list[int]]:
        pivot, *others = segment
        parts: tuple[list[int], list[int]] = [], []
        for other in others:
            winner = better.get(frozenset((pivot, other)))
            if winner is None:  # a tie, or nothing left to ask
                winner = int(self._rng.choice((pivot, other)))
            parts[winner == other].append(other)
        return parts


RULES: tuple[type[AdaptivePairs], ...] = (AboutLogits, WrongOrders, ChatbotArena, JustSortIt)


# Courses ------------------------------------------------------------------------------------------


class Course(NamedTuple):
    """The course of an arena: numbers of judgments, with tau and the lower bound of tau."""

    asked: np.ndarray
    tau: np.ndarray
    bound: np.ndarray


Chooser = Callable[[Arena, int], Course]


def adaptive(
    arena: Arena,
    seed: int,
    rule: type[AdaptivePairs] = AdaptivePairs,
    batch: int | None = None,
    most: float = np.inf,
) -> Course:
    """Judge batches that a rule chooses, until all pairs or ``most`` pairs are judged."""
    pairs = rule(arena.models, arena.query_ids, seed=seed)
    half = {query_id: int(name == "second") for query_id, name in pairs.halves.items()}
    wins = np.zeros((2, len(arena.models), len(arena.models)))
    asked, after, bounds = [], [], []
    while (not asked or asked[-1] < most) and (batch_ := pairs.next(batch)):
        judgments = arena.judge(batch_)
        pairs.update(judgments)
        for query_id, a, b in batch_:
            i, j, q = int(a[1:]), int(b[1:]), int(query_id[1:])
            wins[half[query_id], i, j] += arena.score[i, j, q]
            wins[half[query_id], j, i] += arena.score[j, i, q]
        asked.append(len(batch_) + (asked[-1] if asked else 0))
        after.append(wins.copy())
        bounds.append(pairs.tau_bound)
    # The mean of the fits to both halves, as BradleyTerry.fit has it; of everything, one fit.
    fits = est.fit_bradley_terry(np.array(after), RIDGE).mean(axis=1)
    if not pairs._unasked.any():
        fits[-1] = est.fit_bradley_terry(after[-1].sum(axis=0), RIDGE)
    return Course(np.array(asked), arena.tau(fits), np.array(bounds))


def random_pairs(arena: Arena, seed: int) -> Course:
    """Judge all pairs on all queries in random order."""
    size, _, queries = arena.score.shape
    first, second = np.triu_indices(size, 1)
    cells = seeded([seed, 1]).permutation(len(first) * queries)
    i, j, q = first[cells // queries], second[cells // queries], cells % queries
    asked = np.arange(size, len(cells) + 1, size)
    wins = np.zeros((len(asked), size, size))
    for batch, end in enumerate(asked):
        rows = slice(end - size, end)
        np.add.at(wins[batch], (i[rows], j[rows]), arena.score[i[rows], j[rows], q[rows]])
        np.add.at(wins[batch], (j[rows], i[rows]), arena.score[j[rows], i[rows], q[rows]])
    tau = arena.tau(est.fit_bradley_terry(wins.cumsum(axis=0), RIDGE))
    return Course(asked, tau, np.full(len(asked), np.nan))


def needed(courses: Sequence[Course]) -> tuple[float, float, float]:
    """Return the judgments until tau reaches the target, stays there, and its mean reaches it."""
    first, stays = [], []
    for course in courses:
        reached = course.tau >= TARGET - 1e-9
        below = np.flatnonzero(~reached)
        first.append(course.asked[np.argmax(reached)])
        stays.append(course.asked[min(below[-1] + 1, len(reached) - 1)] if len(below) else 0)
    return float(np.mean(first)), float(np.mean(stays)), until_mean(courses)


def until_mean(courses: Sequence[Course]) -> float:
    """Return the judgments until the mean tau reaches the target, with noise smoothed out."""
    asked = courses[0].asked
    mean = np.mean([np.interp(asked, course.asked, course.tau) for course in courses], axis=0)
    rising = IsotonicRegression().fit_transform(asked, mean)
    return float(asked[np.argmax(rising >= TARGET)])


# Tables -------------------------------------------------------------------------------------------


def compare(title: str, arenas: dict[str, list[Arena]]) -> list[Course]:
    """Compare random and adaptive pairs by language; return the adaptive courses."""
    print(f"{'':10}{'tau first 0.95':>24}{'tau stays 0.95':>24}{'mean tau 0.95':>24}")
    print(f"{'':10}" + f"{'random':>9}{'adapt.':>8}{'ratio':>7}" * 3)
    rows: list[tuple[tuple[float, ...], tuple[float, ...]]] = []
    random: list[Course] = []
    ours: list[Course] = []
    for language, many in arenas.items():
        random += [random_pairs(arena, seed) for seed, arena in enumerate(many)]
        ours += [adaptive(arena, seed) for seed, arena in enumerate(many)]
        rows.append((needed(random[-len(many) :]), needed(ours[-len(many) :])))
        print(row(language, *rows[-1]), flush=True)
        add_needed(title, language, *rows[-1])
    print(row("mean", *np.mean(rows, axis=0)))
    add_needed(title, "mean", *np.mean(rows, axis=0).tolist())
    print(row("together", needed(random), needed(ours)))
    add_needed(title, "together", needed(random), needed(ours))
    return ours


def add_needed(title: str, name: str, random: Sequence[float], ours: Sequence[float]) -> None:
    """Record the numbers of judgments of both."""
    for kind, counts in (("random", random), ("adaptive", ours)):
        for column, count in zip(("first", "stays", "mean"), counts, strict=True):
            add_figure(count, title, "judgments for tau 0.95", name, column, kind)


def row(name: str, random: Sequence[float], ours: Sequence[float]) -> str:
    """Return the numbers of judgments of both, and their ratio."""
    parts = zip(random, ours, strict=True)
    return f"{name:10}" + "".join(f"{r:9.0f}{o:8.0f}{o / r:7.2f}" for r, o in parts)


def curves(title: str, arenas: dict[str, list[Arena]], grid: Sequence[int], seeds: int) -> None:
    """Print the mean tau of other rules and batch sizes by number of judgments."""
    some = [(seed, arena) for many in arenas.values() for seed, arena in enumerate(many[:seeds])]
    models = len(some[0][1].models)
    choosers: dict[str, Chooser] = {"random": random_pairs, "adaptive": adaptive}
    choosers |= {
        f"adaptive, batches of {many}": partial(adaptive, batch=many)
        for many in (2 * models, 10 * models)
    }
    choosers |= {rule.__name__: partial(adaptive, rule=rule) for rule in RULES}
    print(f"{'mean tau after judgments':28}" + "".join(f"{n:8}" for n in grid))
    for name, choose in choosers.items():
        if choose is not random_pairs:
            choose = partial(choose, most=max(grid))
        courses = [choose(arena, seed) for seed, arena in some]
        mean = np.mean([np.interp(grid, course.asked, course.tau) for course in courses], axis=0)
        print(f"{name:28}" + "".join(f"{tau:8.3f}" for tau in mean), flush=True)
        for count, tau in zip(grid, mean, strict=True):
            add_figure(tau, title, "mean tau", name, f"{count} judgments")


def calibration(title: str, courses: Sequence[Course], grid: Sequence[int]) -> None:
    """Print the bound and the true tau, and the result of stopping by the bound."""
    print(f"{'judgments':28}" + "".join(f"{n:8}" for n in grid))
    for name in ("bound", "tau"):
        mean = np.mean(
            [np.interp(grid, course.asked, getattr(course, name)) for course in courses], axis=0
        )
        print(f"{name + ', mean':28}" + "".join(f"{tau:8.3f}" for tau in mean))
        for count, tau in zip(grid, mean, strict=True):
            add_figure(tau, title, "bound and true tau", name, f"{count} judgments")
    stops = [(course, int(np.argmax(course.bound >= TARGET))) for course in courses]
    asked = np.mean([course.asked[stop] for course, stop in stops])
    taus = np.array([course.tau[stop] for course, stop in stops])
    print(
        f"stopped at a bound of {TARGET}: after {asked:.0f} judgments in the mean; tau "
        f"{taus.mean():.3f}, {TARGET} or higher in {np.mean(taus >= TARGET):.0%} of arenas"
    )
    add_figure(asked, title, f"stopped at a bound of {TARGET}", "judgments")
    add_figure(np.mean(taus >= TARGET), title, f"stopped at a bound of {TARGET}", "share that hold")


def main() -> None:
    """Print everything."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    if options.quick:
        options.seeds = 1
    worlds = [("arenas drawn from published logits", published(options.seeds), 1)]
    if (options.data / "nomiracl").is_dir():
        real = recorded(options.data / "nomiracl", 2 * options.seeds)
        worlds.append(("NoMIRACL", real, options.seeds))
    for title, arenas, seeds in worlds:
        if options.quick:  # six models on twenty queries of the first language
            code, many = next(iter(arenas.items()))
            arenas = {code: [Arena(arena.score[:6, :6, :20]) for arena in many]}
        score = next(iter(arenas.values()))[0].score
        pairs = len(score) * (len(score) - 1) // 2
        total = pairs * score.shape[2]
        print(
            f"\n{title}: {len(score)} models, {score.shape[2]} queries, {total:,} judgments in all"
        )
        courses = compare(title, arenas)
        grid = [3 * pairs, 6 * pairs, 12 * pairs, 24 * pairs]
        calibration(title, courses, grid)
        curves(title, arenas, grid, seeds)
    save(parser, options)


if __name__ == "__main__":
    main()
