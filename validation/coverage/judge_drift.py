"""Whether a judge or a system changed: false alarms, power, and correct conclusions.

A judge gives verdicts (a, b, tie) on anchor pairs, three times each in every run. It has a
preference on each pair, from which a share of its verdicts deviates (noise). `shift_evidence`
decides as `compare_judge_runs` does, after each run.

* 20 runs of an unchanged judge, tested after each run: the share of series with any alarm.
* Two runs; the judge changes between them: how often the change is noticed after the second run.
* Ten runs, then a change. The judge also compares a system with a reference on 100 queries, and
  the scores go through `rise_evidence`, as in `compare_commits`. ``judge reverses``: it has another
  preference on a share of all pairs, in either direction. ``judge turns``: it turns against the
  system, and against one side of the anchor pairs. ``system loses``: the system loses a share of
  its queries. The conclusion is that of `explain_drops`: the judge has changed if its evidence
  reaches 20; the system got worse if its evidence reaches 20 and that of the judge is below 5. The
  script counts how often the first conclusion comes within five runs of the change and is right.
* Judges with day noise, which prefer the first response more on some days than on others: the
  verdicts of two days then do differ, and the alarm says so.

    python validation/coverage/judge_drift.py            # five minutes on one core
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage.monitoring.judges import CLEARED
from mirage.statistics.alarms import rise_evidence
from mirage.statistics.shifts import PERMUTATIONS, shift_evidence

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
ALPHA, RUNS, BEFORE, WITHIN, QUERIES = 0.05, 20, 10, 5, 100
NULL_PERMUTATIONS = 200
"""For an unchanged judge, whose p-values are uniform with any number of permutations."""
FEW_PERMUTATIONS = 2000
"""For long series of a judge that changes; more permutations only add power."""

DESIGNS = ((40, 3), (5, 3), (20, 3), (100, 3), (40, 1))
NOISE = 0.1
CHANGES = (
    ("judge reverses", 0.1),
    ("judge reverses", 0.2),
    ("judge turns", 0.1),
    ("judge turns", 0.2),
    ("system loses", 0.1),
    ("system loses", 0.2),
)


def draw_preferences(rng: np.random.Generator, items: int) -> Ints:
    """Return the preferred verdict on each item: 0 (a), 1 (b) or 2 (tie)."""
    return rng.choice(3, items, p=(0.42, 0.42, 0.16))


def chances(preferences: Ints, noise: float) -> Floats:
    """Return the chance of each verdict on each item, ``(items, 3)``."""
    result = np.full((len(preferences), 3), noise / 2)
    result[np.arange(len(preferences)), preferences] = 1 - noise
    return result


def judge(rng: np.random.Generator, p: Floats, repeats: int) -> Ints:
    """Return how often each verdict is given on each item, ``(items, 3)``."""
    return rng.multinomial(repeats, p)


def change(rng: np.random.Generator, preferences: Ints, kind: str, share: float) -> Ints:
    """Return the preferences of a judge that reverses a share of them, or turns to verdict b."""
    count = round(share * len(preferences))
    some = rng.choice(len(preferences), count, replace=False)
    after = preferences.copy()
    after[some] = 1 if kind == "judge turns" else (after[some] + rng.integers(1, 3, count)) % 3
    return after


def false_alarms(series: int, runs: int) -> None:
    """Print the shares of series of an unchanged judge that have any alarm."""
    print(f"share of {series} series of {runs} runs of an unchanged judge with any alarm")
    print("pairs, repeats, noise, day noise")
    cells = [(*design, 0.1, 0.0) for design in DESIGNS]
    cells += [(40, 3, 0.0, 0.0), (40, 3, 0.3, 0.0), (40, 3, 0.1, 0.05)]
    for pairs, repeats, noise, day in cells:
        rng = seeded([pairs, repeats, round(10 * noise), round(100 * day)])
        alarms = 0
        for number in range(series):
            p = chances(draw_preferences(rng, pairs), noise)
            counts = [judge(rng, with_day(rng, p, day), repeats) for _ in range(runs)]
            permutations = FEW_PERMUTATIONS if day else NULL_PERMUTATIONS
            shifts = shift_evidence(counts, permutations=permutations, seed=number)
            alarms += bool((shifts.evidence >= 1 / ALPHA).any())
        print(pairs, repeats, noise, day, f"{alarms / series:.3f}", flush=True)
        kind = f"day noise {day}" if day else "unchanged"
        add_figure(alarms / series, "false alarms", f"{pairs} {repeats}", f"noise {noise}", kind)


def with_day(rng: np.random.Generator, p: Floats, day: float) -> Floats:
    """Return the chances on a day on which a share of all verdicts is a, or b, by chance."""
    shift = rng.normal(0, day) if day else 0.0
    side = np.eye(3)[0 if shift > 0 else 1]
    return (1 - abs(shift)) * p + abs(shift) * side


def at_once(series: int) -> None:
    """Print how often the second of two runs is noticed to be by a moved judge."""
    print(f"share of {series} judges that moved between the first two runs and are noticed")
    print("pairs, repeats, share of verdicts reversed")
    for pairs, repeats in DESIGNS[:3]:
        for share in (0.2, 0.3):
            rng = seeded([7, pairs, repeats, round(10 * share)])
            noticed = 0
            for number in range(series):
                first = draw_preferences(rng, pairs)
                second = change(rng, first, "judge reverses", share)
                counts = [judge(rng, chances(each, NOISE), repeats) for each in (first, second)]
                noticed += shift_evidence(counts, seed=number).evidence[1] >= 1 / ALPHA
            print(pairs, repeats, share, f"{noticed / series:.3f}", flush=True)
            names = f"{pairs} {repeats}", f"noise {NOISE}", f"{share} reversed"
            add_figure(noticed / series, "at once", *names)


def first_conclusion(
    rng: np.random.Generator,
    design: tuple[int, int],
    noise: float,
    kind: str,
    share: float,
    seed: int,
) -> str:
    """Return the first conclusion: judge, system, or none; with "early" before the change."""
    pairs, repeats = design
    anchors, system = draw_preferences(rng, pairs), draw_preferences(rng, QUERIES)
    anchors_after, system_after = anchors, system
    if kind == "system loses":
        # Queries that the system does not lose already.
        wins = rng.permutation(np.flatnonzero(system != 1))[: round(share * QUERIES)]
        system_after = system.copy()
        system_after[wins] = 1
    else:
        anchors_after = change(rng, anchors, kind, share)
        system_after = change(rng, system, kind, share)
    counts, scores = [], []
    for run in range(BEFORE + WITHIN):
        now = (anchors, system) if run < BEFORE else (anchors_after, system_after)
        counts.append(judge(rng, chances(now[0], noise), repeats))
        verdicts = judge(rng, chances(now[1], noise), 1)
        scores.append(float(verdicts @ np.array([1.0, 0.0, 0.5]) @ np.full(QUERIES, 1 / QUERIES)))
    moved = shift_evidence(counts, permutations=FEW_PERMUTATIONS, seed=seed).evidence
    losses = -np.array(scores)[:, None]
    worse = rise_evidence(losses, smallest=np.array([1 / QUERIES])).evidence[:, 0]
    for run, (judge_evidence, score_evidence) in enumerate(zip(moved, worse, strict=True)):
        when = "early " if run < BEFORE else ""
        if moved[: run + 1].max() >= 1 / ALPHA:
            return f"{when}judge"
        if score_evidence >= 1 / ALPHA and judge_evidence < 1 / CLEARED:
            return f"{when}system"
    return "none"


def told_apart(series: int) -> None:
    """Print how often the first conclusion names what moved."""
    print(f"share of {series} changes after {BEFORE} runs whose first conclusion is right")
    print("pairs, repeats, noise, change, share: right, wrong, none")
    for design, noise in (((40, 3), 0.1),):
        for kind, share in CHANGES:
            rng = seeded([9, *design, round(10 * noise), round(10 * share), len(kind)])
            conclusions = [
                first_conclusion(rng, design, noise, kind, share, number)
                for number in range(series)
            ]
            right = conclusions.count(kind.split()[0])
            silent = conclusions.count("none")
            shares = [right / series, 1 - (right + silent) / series, silent / series]
            print(*design, noise, kind, share, *(f"{each:.3f}" for each in shares), flush=True)
            names = " ".join(map(str, design)), f"noise {noise}", f"{kind} {share}"
            add_figure(shares[0], "told apart", *names, "right")
            add_figure(shares[1], "told apart", *names, "wrong")


def main() -> None:
    """Print the shares."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--series", type=int, default=200)
    options = parser.parse_args()
    if options.quick:
        options.series = 1
    print(f"{PERMUTATIONS} permutations at once, {FEW_PERMUTATIONS} in series")
    told_apart(options.series)
    false_alarms(options.series, 4 if options.quick else RUNS)
    at_once(options.series)
    save(parser, options)


if __name__ == "__main__":
    main()
