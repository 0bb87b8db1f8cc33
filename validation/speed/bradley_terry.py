"""The Bradley-Terry fit compared with choix and evalica, and with the paper's published logits.

    python validation/speed/bradley_terry.py [--data FOLDER]

Times are CPU times. FOLDER (or MIRAGE_DATA, or ../shared/data) holds published/mirage_bench.json;
without it the last part is left out. Needs the extra ``test`` (choix, evalica, pandas).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import choix
import evalica
import numpy as np
import pandas as pd
from scipy.stats import kendalltau

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from _shared import DATA

from mirage.arena import BradleyTerry, Judgments, Tournaments
from mirage.arena import estimation as est

MODELS, QUERIES, TOURNAMENTS = 19, 100, 200
SEEDS = 1000


def arena(ties: float, seed: int = 0) -> Judgments:
    """Return all pairs of 19 models on 100 queries; this share are ties."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=MODELS)
    i, j = np.triu_indices(MODELS, 1)
    query = np.repeat(np.arange(QUERIES), len(i))
    a, b = np.tile(i, QUERIES), np.tile(j, QUERIES)
    score = (rng.random(len(a)) < est.win_probabilities(logits)[a, b]).astype(np.float64)
    score[rng.random(len(a)) < ties] = 0.5
    names = np.array([f"m{k:02d}" for k in range(MODELS)])
    return Judgments.from_arrays(query=query, model_a=names[a], model_b=names[b], score=score)


def seconds(call: Callable[[], Any], repeats: int = 1) -> float:
    """Return the median CPU time of a call."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return float(np.median(times))


def drawn_rows(judgments: Judgments, tournaments: Tournaments) -> list[np.ndarray]:
    """Return the rows of judgments in each tournament, once for each draw of their query."""
    rows = np.arange(len(judgments))
    return [np.repeat(rows, counts[judgments.query]) for counts in tournaments.counts]


def choix_data(judgments: Judgments, rows: np.ndarray) -> list[tuple[int, int]]:
    """Return (winner, loser) pairs, the input of choix, which has no ties."""
    a, b, score = (x[rows].tolist() for x in (judgments.a, judgments.b, judgments.score))
    return [(x, y) if s == 1 else (y, x) for x, y, s in zip(a, b, score, strict=True) if s != 0.5]


def evalica_data(judgments: Judgments, rows: np.ndarray) -> tuple[list[Any], ...]:
    """Return index lists and winners, the input of evalica."""
    winner = {1.0: evalica.Winner.X, 0.0: evalica.Winner.Y, 0.5: evalica.Winner.Draw}
    a, b, score = (x[rows].tolist() for x in (judgments.a, judgments.b, judgments.score))
    return a, b, [winner[s] for s in score]


def same_logits(judgments: Judgments) -> None:
    """Compare our logits with those of choix, from the same judgments."""
    fit = BradleyTerry(ties="drop", ridge=0).fit(judgments)
    data = choix_data(judgments, np.arange(len(judgments)))
    for name, peer in (
        ("choix.ilsr_pairwise", choix.ilsr_pairwise(MODELS, data)),
        ("choix.opt_pairwise", choix.opt_pairwise(MODELS, data, alpha=0, tol=1e-10)),
    ):
        error = np.abs(fit.logits - (peer - peer.mean())).max()
        line(f"logits, ties dropped, no ridge: largest difference from {name}", error, "<= 1e-4")


def against_choix(judgments: Judgments, count: int) -> None:
    """Compare the time with choix; its input lists are made beforehand."""
    model = BradleyTerry(ties="drop")
    tournaments = model.bootstrap(judgments, tournaments=count, queries=QUERIES)
    ours = seconds(
        lambda: model.bootstrap(judgments, tournaments=count, queries=QUERIES), repeats=21
    )
    inputs = [choix_data(judgments, rows) for rows in drawn_rows(judgments, tournaments)]
    logits = []
    peer = seconds(lambda: logits.extend(choix.ilsr_pairwise(MODELS, data) for data in inputs))
    compare("choix.ilsr_pairwise", count, ours, peer, "150")
    difference = np.abs(tournaments.logits - np.array(logits)).max()
    line("  largest difference of a logit from choix, with our default ridge", difference)


def against_evalica(judgments: Judgments, count: int) -> None:
    """Compare the time with evalica; its input lists are made beforehand."""
    model = BradleyTerry(ties="half")
    tournaments = model.bootstrap(judgments, tournaments=count, queries=QUERIES)
    ours = seconds(
        lambda: model.bootstrap(judgments, tournaments=count, queries=QUERIES), repeats=21
    )
    inputs = [evalica_data(judgments, rows) for rows in drawn_rows(judgments, tournaments)]
    index = pd.Index(range(MODELS))
    results: list[Any] = []

    def run() -> None:
        results.clear()
        results.extend(evalica.bradley_terry(*data, index=index) for data in inputs)

    peer = seconds(run, repeats=3)
    compare("evalica.bradley_terry", count, ours, peer, "15")
    logits = np.log([result.scores.reindex(range(MODELS)) for result in results])
    logits -= logits.mean(axis=1, keepdims=True)
    difference = np.abs(tournaments.logits - logits).max()
    line("  largest difference of a logit from evalica, with our default ridge", difference)


def large(judgments: int) -> None:
    """Time a fit of this number of judgments in a new process."""
    script = Path(__file__).with_name("_bradley_terry_columns.py")
    command = [sys.executable, str(script), "--judgments", str(judgments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    what = f"1,000 models, {judgments / 1e6:g} million judgments"
    line(f"{what}: labels to columns, s", result["columns_s"])
    line(f"{what}: fit with sandwich intervals, s", result["fit_s"], "< 30")
    line(f"{what}: peak memory of the process, GiB", result["peak_gib"], "< 2")
    line(f"{what}: share of true logits in their 95 % intervals", result["coverage"])


def published(folder: Path, seeds: int) -> None:
    """Print Kendall's tau of logits fitted to drawn judgments with the logits they were drawn from.

    Every pair is compared equally often, so the fitted order is the order of total wins for any
    estimator. A tau below 1 is the noise of drawing 100 queries.
    """
    path = folder / "published" / "mirage_bench.json"
    if not path.is_file():
        print(f"\nno {path}: the published logits are left out")
        return
    tables = json.loads(path.read_text())["arena"]
    print(f"\nKendall tau of fitted against published logits: 100 queries, {seeds} draws")
    print("language   mean     5 %    95 %   lowest   share >= 0.95   draw 0")
    every = np.ones(seeds, dtype=bool)
    for language, table in tables.items():
        if language == "yo":  # the paper prints Thai's column there
            continue
        taus = tau_of_draws(np.array([row["logit"] for row in table.values()]), seeds)
        every &= taus >= 0.95
        low, high = np.quantile(taus, [0.05, 0.95])
        print(
            f"{language:8} {taus.mean():6.3f} {low:7.3f} {high:7.3f} {taus.min():8.3f} "
            f"{np.mean(taus >= 0.95):15.3f} {taus[0]:8.3f}"
        )
        add_figure(taus.mean(), "tau to published logits", language, "mean")
        add_figure(taus.min(), "tau to published logits", language, "lowest")
    print(f"share of draws with 0.95 or more in all languages at once: {every.mean():.3f}")


def tau_of_draws(logits: np.ndarray, seeds: int) -> np.ndarray:
    """Return Kendall's tau of the fitted logits of each draw, with seeds from 0."""
    models = len(logits)
    i, j = np.triu_indices(models, 1)
    chance = est.win_probabilities(logits)[i, j]
    wins = np.zeros((seeds, models, models))
    for seed in range(seeds):
        won = (np.random.default_rng(seed).random((QUERIES, len(i))) < chance).sum(axis=0)
        wins[seed, i, j], wins[seed, j, i] = won, QUERIES - won
    fitted = est.fit_bradley_terry(wins, ridge=0.1)
    return np.array([kendalltau(row, logits).statistic for row in fitted])


def line(what: str, figure: float, target: str = "") -> None:
    """Print one figure and its aim."""
    print(f"{what:78} {figure:10.3g}   {target}")
    add_figure(figure, what.strip())


def compare(peer_name: str, count: int, ours: float, peer: float, times: str) -> None:
    """Print our seconds, those of the other package, and their ratio."""
    what = f"{count} tournaments x {MODELS} models x {QUERIES} queries"
    line(f"{what}: ours beside {peer_name}, ms", ours * 1e3)
    line(f"{what}: {count} calls of {peer_name}, ms", peer * 1e3)
    line(f"  times faster than {peer_name}", peer / ours, f">= {times}")


def main() -> None:
    """Print everything."""
    parser = script_parser(__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    same_logits(arena(ties=0.15))
    count = 3 if options.quick else TOURNAMENTS
    against_choix(arena(ties=0), count)
    against_evalica(arena(ties=0.15), count)
    large(100_000 if options.quick else 10_000_000)
    published(options.data, 20 if options.quick else SEEDS)
    save(parser, options)


if __name__ == "__main__":
    main()
