"""How often the gate calls an unchanged system "worse" if many runs meet one baseline.

Each answer is right or wrong. A share of the queries is unstable: each run answers them rightly
with a probability between 0.3 and 0.9. All other answers never change. The baseline is one run of
the same system.

    python validation/coverage/repeated_gate.py  # about a minute
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage.features import FeatureTable
from mirage.testing.comparison import compare


def answers(right: np.ndarray) -> FeatureTable:
    """Return the feature table of a run with these right answers."""
    ids = tuple(f"q{number}" for number in range(len(right)))
    return FeatureTable("m", "en", ids, ("answer_match",), right[:, None].astype(float))


def alarms(queries: int, unstable: float, baselines: int, runs: int) -> np.ndarray:
    """Return whether each run is called worse than its baseline, as ``(baselines, runs)``."""
    rng = seeded([queries, round(100 * unstable)])
    worse = np.zeros((baselines, runs), dtype=bool)
    for row in worse:
        stable = rng.random(queries) >= unstable
        chance = np.where(stable, rng.random(queries) < 0.9, rng.uniform(0.3, 0.9, queries))
        baseline = answers(rng.random(queries) < chance)
        for run in range(runs):
            later = answers(rng.random(queries) < chance)
            row[run] = compare(baseline, later).verdict == "worse"
    return worse


def main() -> None:
    """Print the rates."""
    parser = script_parser(__doc__, seed=True)
    options = parser.parse_args()
    baselines, runs = (3, 3) if options.quick else (120, 20)
    for queries in (40, 100):
        for unstable in (0.1, 0.3):
            worse = alarms(queries, unstable, baselines, runs)
            again = worse[:, 1:][worse[:, :-1]]
            rates = {
                "of single comparisons": worse.mean(),
                f"any in {runs} runs": worse.any(axis=1).mean(),
                "after a wrong alarm": again.mean() if len(again) else np.nan,
            }
            names = f"{queries} queries", f"{unstable:.0%} unstable"
            print(*names, *(f"{name}: {rate:.3f}" for name, rate in rates.items()), sep="; ")
            for name, rate in rates.items():
                add_figure(float(rate), *names, name)
    save(parser, options)


if __name__ == "__main__":
    main()
