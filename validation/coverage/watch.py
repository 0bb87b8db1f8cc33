"""False alarms and power of `mirage logs watch` on days with different numbers of questions.

A log of 90 days is checked every day, and each check reads only the questions until then. The
checks are made at the end of the day, or in the morning, when the day has only its first questions.
Each log has nine measures, and a measure is worse if its p-value times nine is at most 5 %. The
simulated measure has failures (0 or 1) with a rate of 5 % or 1 %, or a support by the passages
(normal with mean 0.8 and standard deviation 0.2, cut at 0 and 1; on ``support, days vary`` the mean
of a day has a standard deviation of 0.05).

``false alarms``: the share of logs with an alarm in 28 days and in 90 days although nothing
changed. ``one measure``: the same if the log has this measure alone. ``drop``: from day 29 on, 20 %
or 5 % of questions fail, or the support is lower by 0.1. The table has the share of logs without
an alarm before the drop whose first alarm comes within 7, 14 and 62 days, and the median number of
days. ``equal days`` repeats both tables for the earlier rule, with which each day counts the same.

    python validation/coverage/watch.py              # an hour on one core
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage._base.arrays import Floats, Ints
from mirage.monitoring.watches import fewest_periods, trend_evidence
from mirage.statistics.alarms import rise_evidence
from mirage.statistics.serial import day_inflation

DAYS, DROP_DAY, ALPHA, MEASURES = 90, 28, 0.05, 9


class Traffic(NamedTuple):
    """The number of questions of each day, and how many the log has when it is checked."""

    sizes: list[int]
    present: Callable[[np.random.Generator, int], int] = lambda _, size: size


def weekly(size: int, weekend: int) -> list[int]:
    """Return the numbers of questions of days if weekends have another number."""
    return [size if day % 7 < 5 else weekend for day in range(DAYS)]


TRAFFIC = {
    "40 a day": Traffic([40] * DAYS),
    "40 a day, checked after 1 or 2 questions": Traffic(
        [40] * DAYS, lambda rng, _: int(rng.integers(1, 3))
    ),
    "40 a day, checked after 5 questions": Traffic([40] * DAYS, lambda _, size: min(size, 5)),
    "40 a day, 2 at weekends": Traffic(weekly(40, 2)),
    "40 a day, 1 on every 20th": Traffic([1 if day % 20 == 15 else 40 for day in range(DAYS)]),
    "100 a day, 3 from day 15 on": Traffic([100] * 14 + [3] * (DAYS - 14)),
    "100 a day, 3 from day 29 on": Traffic([100] * 28 + [3] * (DAYS - 28)),
    "1 to 200 a day": Traffic(
        np.clip(np.random.default_rng(5).lognormal(3, 1, DAYS), 1, 200).astype(int).tolist()
    ),
}
MEASURED = ("5 % failures", "1 % failures", "support", "support, days vary")


def draw_losses(rng: np.random.Generator, name: str, days: Ints, logs: int, drop: bool) -> Floats:
    """Return the losses of successive questions, ``(questions, logs)``."""
    later = drop & (days >= DROP_DAY)
    shape = len(days), logs
    if "failures" in name:
        before, after = (0.05, 0.2) if name.startswith("5") else (0.01, 0.05)
        rates = np.where(later, after, before)
        return (rng.random(shape) < rates[:, None]).astype(np.float64)
    means = np.where(later, 0.7, 0.8)[:, None] + np.zeros(logs)
    if "vary" in name:
        means = means + rng.normal(0, 0.05, (DAYS, logs))[days]
    return -np.clip(rng.normal(means, 0.2), 0, 1)


def equal_days(values: Floats, days: Ints, groups: Ints, widths: Floats) -> Floats:
    """Return the evidence after the last day if each day counts the same."""
    counts = np.bincount(days)
    means = np.add.reduceat(values, np.searchsorted(days, np.arange(len(counts)))) / counts[:, None]
    smallest = widths / np.median(counts)
    inflation = day_inflation(values, days)
    result = rise_evidence(
        means, smallest=smallest, groups=groups, inflation=inflation, latest=True
    )
    return np.asarray(result.evidence[-1])


def weighted_days(values: Floats, days: Ints, groups: Ints, widths: Floats) -> Floats:
    """Return the evidence after the last day as `mirage logs watch` computes it."""
    return np.asarray(trend_evidence(values, days, groups, widths, latest=True).evidence[-1])


RULES = {"weighted days": weighted_days, "equal days": equal_days}


def largest_evidence(
    rule: Callable[[Floats, Ints, Ints, Floats], Floats],
    traffic: Traffic,
    values: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Return the evidence at the check of each day, ``(days, logs)``."""
    days, ends = np.repeat(np.arange(DAYS), traffic.sizes), np.cumsum(traffic.sizes)
    widths, evidence = np.ones(values.shape[1]), np.ones((DAYS, values.shape[1]))
    for day in range(fewest_periods("day") - 1, DAYS):
        end = ends[day] - traffic.sizes[day] + traffic.present(rng, traffic.sizes[day])
        evidence[day] = rule(values[:end], days[:end], np.arange(day + 1) % 7, widths)
    return evidence


def first_alarms(evidence: Floats, measures: int) -> NDArray[np.intp]:
    """Return the day of the first alarm of each log; the number of days if there is none."""
    alarms = evidence >= measures / ALPHA
    return np.where(alarms.any(axis=0), alarms.argmax(axis=0), DAYS)


def report(label: str, figures: dict[str, float], *names: str) -> None:
    """Print and record the figures of a row."""
    text = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
    print(f"{label}: {text}", flush=True)
    for name, value in figures.items():
        add_figure(value, *names, name)


def main() -> None:
    """Print the tables."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--part", choices=("false alarms", "drop", "all"), default="all")
    options = parser.parse_args()
    logs = 2 if options.quick else options.repeats
    for part in ("false alarms", "drop") if options.part == "all" else (options.part,):
        for i, (days, traffic) in enumerate(TRAFFIC.items()):
            for j, name in enumerate(MEASURED):
                for rule, compute in RULES.items():
                    rng = seeded([i, j, part == "drop"])
                    positions = np.repeat(np.arange(DAYS), traffic.sizes)
                    values = draw_losses(rng, name, positions, logs, part == "drop")
                    evidence = largest_evidence(compute, traffic, values, rng)
                    row = false_alarms(evidence) if part == "false alarms" else found(evidence)
                    report(f"{part}; {days}; {name}; {rule}", row, part, rule, days, name)
    save(parser, options)


def false_alarms(evidence: Floats) -> dict[str, float]:
    """Return the shares of logs with a false alarm."""
    rows = {}
    for words, measures in (("nine measures", MEASURES), ("one measure", 1)):
        first = first_alarms(evidence, measures)
        rows[f"{words}, 28 days"] = float((first < DROP_DAY).mean())
        rows[f"{words}, 90 days"] = float((first < DAYS).mean())
    return rows


def found(evidence: Floats) -> dict[str, float]:
    """Return how soon a drop is found in logs without an earlier alarm."""
    first = first_alarms(evidence, MEASURES)
    needed = first[first >= DROP_DAY] - DROP_DAY + 1
    if not len(needed):
        return dict.fromkeys([*map("within {} days".format, (7, 14, 62)), "median days"], np.nan)
    rows = {f"within {days} days": float((needed <= days).mean()) for days in (7, 14, 62)}
    median = float(np.median(needed))
    return {**rows, "median days": median if median <= DAYS - DROP_DAY else np.nan}


if __name__ == "__main__":
    main()
