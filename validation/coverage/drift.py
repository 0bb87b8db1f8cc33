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

    python validation/coverage/drift.py              # an hour on one core
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage.features import FeatureTable
from mirage.monitoring.drifts import LogDays, shifts_between
from mirage.monitoring.watches import trend_evidence
from mirage.statistics.worlds import draw_traffic

Floats = NDArray[np.float64]
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


def main() -> None:
    """Print the tables."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--part", choices=("drift", "each", "watch", "all"), default="all")
    options = parser.parse_args()
    if options.quick:
        options.repeats, SETTINGS["permutations"] = 2, 99
    if options.part in ("drift", "all"):
        drifts(options.repeats)
    if options.part in ("each", "all"):
        each_week(options.repeats)
    if options.part in ("watch", "all"):
        watches(options.repeats, 2 if options.quick else 16)
    save(parser, options)


if __name__ == "__main__":
    main()
