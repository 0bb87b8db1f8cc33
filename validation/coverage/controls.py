"""Accuracy of rankings with and without controls for length, position and format, and coverage.

A simulated judge prefers quality, and also length, the first position and Markdown, as strongly as
``bias`` says. Worse systems write longer answers with more Markdown. The answers are texts that
``mirage.arena.controls`` measures. Each row is a mean over arenas of 8 systems in which every pair
is judged on each query in one order: tau without and with controls, and the coverage of 95 %
intervals of logits and of effects.

    python validation/coverage/controls.py [--arenas 40]     # some minutes
"""

from __future__ import annotations

import sys
from itertools import combinations, product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage import BradleyTerry, Judgment, Passage, Query, Response, Run
from mirage.arena.controls import formatting, length, position
from mirage.statistics.ranks import kendall_tau

MODELS = 8
QUALITY = np.linspace(0.9, -0.9, MODELS)
NAMES = [f"m{i}" for i in range(MODELS)]
EFFECTS = np.array([4.0, 3.0, 0.6])  # of length, Markdown and position, where bias is 1


def arena(queries: int, bias: float, random: np.random.Generator) -> tuple[list, list, list]:
    """Return queries, runs and verdicts."""
    asked = [
        Query(id=f"q{q}", language="en", text="?", passages=(Passage(id="p", text="."),))
        for q in range(queries)
    ]
    words = np.maximum(random.poisson(np.exp(3.4 - 0.4 * QUALITY), (queries, MODELS)), 1)
    marks = random.poisson(np.exp(1.0 - 0.4 * QUALITY), (queries, MODELS))
    runs = [
        Run(
            model=name,
            language="en",
            responses=tuple(
                Response(query_id=f"q{q}", text=text(words[q, i], marks[q, i]))
                for q in range(queries)
            ),
        )
        for i, name in enumerate(NAMES)
    ]
    controls = [length(asked, runs), formatting(asked, runs), position()]
    verdicts = []
    for q, (i, j) in product(range(queries), combinations(range(MODELS), 2)):
        a, b = (i, j) if random.random() < 0.5 else (j, i)
        on = {"query_id": f"q{q}", "model_a": NAMES[a], "model_b": NAMES[b]}
        blank = Judgment(**on, verdict="tie")
        odds = QUALITY[a] - QUALITY[b]
        odds += bias * EFFECTS @ [control.of(blank) for control in controls]
        verdicts.append(
            Judgment(**on, verdict="a" if random.random() < 1 / (1 + np.exp(-odds)) else "b")
        )
    return controls, verdicts, runs


def text(words: int, marks: int) -> str:
    """Return an answer with this number of words, and this number of bold words."""
    bold = [f"**w{k}**" for k in range(min(marks, words))]
    return "##Answer: " + " ".join(bold + ["word"] * (words - len(bold)))


def main() -> None:
    """Print a row for each bias and number of queries."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--arenas", type=int, default=40)
    options = parser.parse_args()
    arenas = 2 if options.quick else options.arenas
    print("bias queries  tau without   with   logits held  effects held")
    for bias, queries in product((1.0, 0.0), (5, 20, 100)):
        random = seeded([queries, int(bias)])
        rows = []
        for _ in range(arenas if queries < 100 else max(arenas // 2, 1 if options.quick else 10)):
            controls, verdicts, _ = arena(queries, bias, random)
            fit = BradleyTerry(controls=controls).fit(verdicts)
            ends = fit.interval()
            shown = ~np.isnan(ends[:, 0])
            held = ((ends[:, 0] <= QUALITY) & (ends[:, 1] >= QUALITY))[shown].mean()
            of_effects = [
                effect.interval[0] <= bias * true <= effect.interval[1]
                for effect, true in zip(fit.effects, EFFECTS, strict=True)
            ]
            taus = [kendall_tau(f.logits, QUALITY) for f in (fit.uncontrolled, fit)]
            rows.append([*map(float, taus), held, np.mean(of_effects)])
        without, with_, held, effects = np.mean(rows, axis=0)
        print(
            f"{bias:4.1f} {queries:7}  {without:11.3f}  {with_:.3f}   {held:11.3f}"
            f"  {effects:12.3f}",
            flush=True,
        )
        names = f"bias {bias}", f"{queries} queries"
        add_figure(without, *names, "tau without")
        add_figure(with_, *names, "tau with")
        add_figure(held, *names, "coverage of logits")
        add_figure(effects, *names, "coverage of effects")
    save(parser, options)


if __name__ == "__main__":
    main()
