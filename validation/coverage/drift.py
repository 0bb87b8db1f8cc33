"""False positives, coverage and power of `drift` on production logs with correlated answers.

A log has 200 questions a week. In the earlier log it has one or four weeks, in the later log one.
Each measure is normal with a standard deviation of 1, plus the effects named below. Days have 28 or
29 questions, or between 5 and 60 (``unequal``).

* ``correlation``: that of successive answers, a first-order autoregression.
* ``day``: standard deviation of an effect that a whole day shares.
* ``week``: a sine over the days of the week with that amplitude.

``drift``: the share of comparisons that call a measure changed although nothing changed, the share
of 95 % intervals that contain 0, and the share of drops by half a standard deviation that are
found. With 16 independent measures, only the first drops, and any change without it is a false
positive.

``each``: the share of logs of four weeks in which any week is called different from the other three
although nothing changed, with the significance level divided by four, and the share of drops by
half a standard deviation in the third week that are found there.

``watch``: a log of 16 weeks, checked after each day: the share of logs with any false alarm, and
the share of drops by half a standard deviation after 8 weeks that are found within two weeks. The
correlation of answers is estimated once, from the whole log.

``days``: logs of 90 days with different numbers of questions, checked every day. Each check reads
only the questions until then: to the end of the day or, in the morning, its first questions. The
log has nine measures, and a measure is worse if its p-value times nine is at most 5 %. The
simulated measure has failures (0 or 1) with a rate of 5 % or 1 %, or a support by the passages
(normal with mean 0.8 and standard deviation 0.2, cut at 0 and 1; on ``support, days vary`` the mean
of a day has a standard deviation of 0.05).

* ``false alarms``: the share of logs with an alarm in 28 days and in 90 days although nothing
  changed, also if the log has this measure alone.
* ``drop``: from day 29 on, 20 % or 5 % of questions fail, or the support is lower by 0.1. The
  figures are the shares of logs without an earlier alarm whose first alarm comes within 7, 14 and
  62 days, and the median number of days.
* ``equal days``: the earlier rule, with which each day counted the same.

    python validation/coverage/drift.py              # two hours on one core
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
from mirage.features import FeatureTable
from mirage.monitoring.drifts import LogDays, shifts_between
from mirage.monitoring.watches import fewest_periods, trend_evidence
from mirage.statistics.alarms import rise_evidence
from mirage.statistics.serial import day_inflation
from mirage.statistics.worlds import draw_traffic

SIZES = {"equal": (29, 29, 29, 29, 28, 28, 28), "unequal": (60, 45, 35, 25, 20, 10, 5)}
WORLDS = (
    (0.0, 0.0, 0.0),
    (0.5, 0.0, 0.0),
    (0.9, 0.0, 0.0),
    (0.0, 0.3, 0.0),
    (0.5, 0.3, 0.0),
    (0.9, 0.3, 0.0),
    (0.0, 0.0, 0.5),
    (0.5, 0.3, 0.5),
)
DROP, ALPHA = 0.5, 0.05
SETTINGS = {"alpha": ALPHA, "level": 0.95, "permutations": 999, "seed": 0}


def traffic(
    rng: np.random.Generator, sizes: tuple[int, ...], world: tuple[float, float, float], count: int
) -> Floats:
    """Return the measures of successive questions, ``(questions, measures)``."""
    serial, day, week = world
    return draw_traffic(rng, sizes, serial=serial, day_noise=day, week=week, columns=count)


def compare(
    before: Floats, after: Floats, days: NDArray[np.intp], alpha: float = ALPHA
) -> tuple[Floats, Floats]:
    """Return whether each measure changed, and whether its interval holds 0."""
    names = tuple(f"m{j}" for j in range(before.shape[1]))
    tables = [
        FeatureTable("m", "en", tuple(map(str, range(len(values)))), names, values)
        for values in (before, after)
    ]
    first, second = days[: len(before)], days[len(before) :]
    times = (LogDays(np.arange(len(first)), first), LogDays(np.arange(len(second)), second))
    shifts = shifts_between(*tables, times=times, **{**SETTINGS, "alpha": alpha})
    held = [shift.interval[0] <= 0 <= shift.interval[1] for shift in shifts]
    return np.array([shift.changed for shift in shifts]), np.array(held)


def drifts(repeats: int) -> None:
    """Print false positives, coverage and power of one comparison."""
    print("days, weeks before, measures, correlation, day, week: false positives, coverage, found")
    cells = [(shape, weeks, 1, w) for shape in SIZES for weeks in (1, 4) for w in WORLDS]
    cells += [("equal", weeks, 16, w) for weeks in (1, 4) for w in WORLDS[:4]]
    for shape, weeks, count, world in cells:
        rng = seeded([weeks, count, len(shape), *(round(10 * part) for part in world)])
        sizes = SIZES[shape] * (weeks + 1)
        days, split = np.repeat(np.arange(len(sizes)), sizes), sum(sizes[: 7 * weeks])
        hits = np.zeros(3)
        for _ in range(repeats):
            values = traffic(rng, sizes, world, count)
            before, after = values[:split], values[split:]
            changed, held = compare(before, after, days)
            hits += changed.any(), held.mean(), 0
            after[:, 0] -= DROP
            hits[2] += compare(before, after, days)[0][0]
        shares = hits / repeats
        words = " ".join(f"{share:.3f}" for share in shares)
        print(shape, weeks, count, *world, "", words, flush=True)
        names = f"{shape} days", f"{weeks} weeks before", f"{count} measures"
        effects = "correlation {:g}, day {:g}, week {:g}".format(*world)
        for column, share in zip(("false positives", "coverage", "found"), shares, strict=True):
            add_figure(share, "drift", *names, effects, column)


def each_week(repeats: int, weeks: int = 4) -> None:
    """Print false positives and power if each week is compared with the others."""
    print("days, correlation, day, week: any week different, drop found in its week")
    for shape in SIZES:
        for world in WORLDS:
            rng = seeded([4, len(shape), *(round(10 * part) for part in world)])
            sizes = SIZES[shape] * weeks
            days = np.repeat(np.arange(len(sizes)), sizes)
            hits = np.zeros(2)
            for _ in range(repeats):
                values = traffic(rng, sizes, world, 1)
                hits[0] += any(differs(values, days, week, weeks) for week in range(weeks))
                values[days // 7 == 2] -= DROP
                hits[1] += differs(values, days, 2, weeks)
            shares = hits / repeats
            print(shape, *world, "", " ".join(f"{share:.3f}" for share in shares), flush=True)
            effects = "correlation {:g}, day {:g}, week {:g}".format(*world)
            for column, share in zip(("false positives", "found"), shares, strict=True):
                add_figure(share, "each", f"{shape} days", effects, column)


def differs(values: Floats, days: NDArray[np.intp], week: int, weeks: int) -> bool:
    """Return whether a week is called different from the others."""
    own = days // 7 == week
    order = np.concatenate([days[~own], days[own]])
    return bool(compare(values[~own], values[own], order, ALPHA / weeks)[0].any())


def watches(repeats: int, weeks: int) -> None:
    """Print false alarms and power of a log that is looked at every day."""
    print("days, correlation, day, week: any false alarm, drop found within two weeks")
    for shape in SIZES:
        for world in WORLDS:
            rng = seeded([weeks, len(shape), *(round(10 * part) for part in world)])
            sizes = SIZES[shape] * weeks
            days = np.repeat(np.arange(len(sizes)), sizes)
            half, weekdays = len(sizes) // 2, np.arange(len(sizes)) % 7
            width = np.full(repeats, np.inf)
            values = traffic(rng, sizes, world, repeats)
            alarm = trend_evidence(values, days, weekdays, width).evidence >= 1 / ALPHA
            dropped = values + DROP * (days >= half)[:, None]
            found = trend_evidence(dropped, days, weekdays, width).evidence >= 1 / ALPHA
            shares = alarm.any(axis=0).mean(), found[half : half + 14].any(axis=0).mean()
            print(shape, *world, "", " ".join(f"{share:.3f}" for share in shares), flush=True)
            effects = "correlation {:g}, day {:g}, week {:g}".format(*world)
            for column, share in zip(("any false alarm", "found"), shares, strict=True):
                add_figure(share, "watch", f"{shape} days", effects, column)


# Days with different numbers of questions ---------------------------------------------------------

DAYS, DROP_DAY, MEASURES = 90, 28, 9


class Visits(NamedTuple):
    """The number of questions of each day, and how many the log has when it is checked."""

    sizes: list[int]
    present: Callable[[np.random.Generator, int], int] = lambda _, size: size


def weekly(size: int, weekend: int) -> list[int]:
    """Return the numbers of questions of days if weekends have another number."""
    return [size if day % 7 < 5 else weekend for day in range(DAYS)]


VISITS = {
    "40 a day": Visits([40] * DAYS),
    "40 a day, checked after 1 or 2 questions": Visits(
        [40] * DAYS, lambda rng, _: int(rng.integers(1, 3))
    ),
    "40 a day, checked after 5 questions": Visits([40] * DAYS, lambda _, size: min(size, 5)),
    "40 a day, 2 at weekends": Visits(weekly(40, 2)),
    "40 a day, 1 on every 20th": Visits([1 if day % 20 == 15 else 40 for day in range(DAYS)]),
    "100 a day, 3 from day 15 on": Visits([100] * 14 + [3] * (DAYS - 14)),
    "100 a day, 3 from day 29 on": Visits([100] * 28 + [3] * (DAYS - 28)),
    "1 to 200 a day": Visits(
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


def daily_evidence(
    rule: Callable[[Floats, Ints, Ints, Floats], Floats],
    visits: Visits,
    values: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Return the evidence at the check of each day, ``(days, logs)``."""
    days, ends = np.repeat(np.arange(DAYS), visits.sizes), np.cumsum(visits.sizes)
    widths, evidence = np.ones(values.shape[1]), np.ones((DAYS, values.shape[1]))
    for day in range(fewest_periods("day") - 1, DAYS):
        end = ends[day] - visits.sizes[day] + visits.present(rng, visits.sizes[day])
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
        add_figure(value, "days", *names, name)


def false_alarms(evidence: Floats) -> dict[str, float]:
    """Return the shares of logs with a false alarm."""
    rows = {}
    for words, measures in (("nine measures", MEASURES), ("one measure", 1)):
        first = first_alarms(evidence, measures)
        rows[f"{words}, 28 days"] = float((first < DROP_DAY).mean())
        rows[f"{words}, 90 days"] = float((first < DAYS).mean())
    return rows


def drops_found(evidence: Floats) -> dict[str, float]:
    """Return how soon a drop is found in logs without an earlier alarm."""
    first = first_alarms(evidence, MEASURES)
    needed = first[first >= DROP_DAY] - DROP_DAY + 1
    if not len(needed):
        return dict.fromkeys([*map("within {} days".format, (7, 14, 62)), "median days"], np.nan)
    rows = {f"within {days} days": float((needed <= days).mean()) for days in (7, 14, 62)}
    median = float(np.median(needed))
    return {**rows, "median days": median if median <= DAYS - DROP_DAY else np.nan}


def different_days(repeats: int, kinds: int) -> None:
    """Print false alarms and power on days with different numbers of questions."""
    for part, figures in (("false alarms", false_alarms), ("drop", drops_found)):
        for i, (label, visits) in enumerate([*VISITS.items()][:kinds]):
            for j, name in enumerate(MEASURED):
                for rule, compute in RULES.items():
                    rng = seeded([i, j, part == "drop"])
                    positions = np.repeat(np.arange(DAYS), visits.sizes)
                    values = draw_losses(rng, name, positions, repeats, part == "drop")
                    row = figures(daily_evidence(compute, visits, values, rng))
                    report(f"{part}; {label}; {name}; {rule}", row, part, rule, label, name)


def main() -> None:
    """Print the tables."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--part", choices=("drift", "each", "watch", "days", "all"), default="all")
    options = parser.parse_args()
    if options.quick:
        options.repeats, SETTINGS["permutations"] = 2, 99
    if options.part in ("drift", "all"):
        drifts(options.repeats)
    if options.part in ("each", "all"):
        each_week(options.repeats)
    if options.part in ("watch", "all"):
        watches(options.repeats, 2 if options.quick else 16)
    if options.part in ("days", "all"):
        different_days(options.repeats, 2 if options.quick else len(VISITS))
    save(parser, options)


if __name__ == "__main__":
    main()
