"""How often logs are called changed if the influences of a day last into the next days.

Each answer has a normally distributed value. All answers of a day share an amount with a standard
deviation of 0.3, which is correlated with that of the day before. The system does not change.

* ``watch``: any alarm in 16 weeks, with 28 answers a day;
* ``drift``: the last week against the weeks before it, with 28 answers a day.

    python validation/coverage/lasting_days.py  # about a minute
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage.features import FeatureTable
from mirage.monitoring.drifts import LogDays, shifts_between
from mirage.monitoring.watches import trend_evidence

A_DAY, EFFECT, ALPHA = 28, 0.3, 0.05


def answers(rng: np.random.Generator, days: int, correlation: float) -> np.ndarray:
    """Return the values of all answers, day by day."""
    effect = np.empty(days)
    effect[0] = rng.standard_normal()
    for day in range(1, days):
        fresh = np.sqrt(1 - correlation**2) * rng.standard_normal()
        effect[day] = correlation * effect[day - 1] + fresh
    return EFFECT * np.repeat(effect, A_DAY) + rng.standard_normal(days * A_DAY)


def watch_alarm(rng: np.random.Generator, correlation: float) -> bool:
    """Return whether ``watch`` raises an alarm within 16 weeks."""
    days = 16 * 7
    values = answers(rng, days, correlation)[:, None]
    weekday, width = np.arange(days) % 7, np.array([np.inf])
    evidence = trend_evidence(values, np.repeat(np.arange(days), A_DAY), weekday, width).evidence
    return bool((1 / evidence <= ALPHA).any())


def drift_alarm(rng: np.random.Generator, correlation: float, weeks: int) -> bool:
    """Return whether ``drift`` reports a change of the last week."""
    days = 7 * (weeks + 1)
    values, day = answers(rng, days, correlation), np.repeat(np.arange(days), A_DAY)
    cut = 7 * weeks * A_DAY
    tables, times = [], []
    for part in (slice(None, cut), slice(cut, None)):
        ids = tuple(map(str, range(len(values[part]))))
        tables.append(FeatureTable("m", "en", ids, ("value",), values[part][:, None]))
        times.append(LogDays(np.arange(len(ids)), day[part]))
    before, after = times
    shifts = shifts_between(*tables, times=(before, after), alpha=ALPHA, permutations=999, seed=0)
    return shifts[0].changed


def main() -> None:
    """Print the rates of false alarms."""
    parser = script_parser(__doc__, seed=True)
    options = parser.parse_args()
    repeats = 2 if options.quick else 120
    for correlation in (0.0, 0.5, 0.8):
        tests = {
            "watch, 16 weeks": watch_alarm,
            "drift, one week before": lambda rng, r: drift_alarm(rng, r, 1),
            "drift, four weeks before": lambda rng, r: drift_alarm(rng, r, 4),
        }
        for name, test in tests.items():
            rng = seeded([round(10 * correlation), len(name)])
            rate = float(np.mean([test(rng, correlation) for _ in range(repeats)]))
            print(f"correlation {correlation}: {name}: {rate:.3f}", flush=True)
            add_figure(rate, f"correlation {correlation}", name)
    save(parser, options)


if __name__ == "__main__":
    main()
