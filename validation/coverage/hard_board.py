"""Intervals of the hard leaderboard, for faults and writing styles held out of training.

The systems of the simulated arena are split by kind of fault (12 folds) and by manner of writing.
The surrogate is trained without each fold in turn, in all languages together, and predicts the
systems of that fold. The script prints how often the 95 % interval contains the logit from the
verdicts, and how wide the interval is. ``compared_systems.py --level hard`` measures differences of
two systems, and ``python corpora/hard.py LANGUAGE`` the baselines.

A second table shows the CPU time that ranking one system takes in a new process, with imports.

    python validation/coverage/hard_board.py        # some minutes on two cores
    python validation/coverage/hard_board.py en sw  # some languages
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _judgments import simulated_judgments
from _results import add_figure, save, script_parser
from _shared import TESTS

from mirage import SurrogateRanker
from mirage.languages import LANGUAGES
from mirage.surrogate.artifacts import Artifact
from mirage.surrogate.estimators import one_thread
from mirage.surrogate.levels import HARD, HARD_MANNERS
from mirage.surrogate.model import Candidate
from mirage.surrogate.training import TrainingData, placed_judgments

FOLDS = 12

COLD = """
import json, sys
from mirage import Leaderboard
code, path = sys.argv[1:]
with open(path, encoding="utf-8") as file:
    rows = map(json.loads, file)
    texts = {row["query_id"]: row.get("true") or row["abstention"] for row in rows}
Leaderboard.bundled(code, level="hard").rank(texts, model="mine", progress=False)
"""


class Outcome(NamedTuple):
    """The prediction of a held-out system.

    Attributes:
        holds: Whether the interval holds the logit from the verdicts.
        width: Width of the interval.
        error: Predicted logit minus the logit from the verdicts.
    """

    holds: bool
    width: float
    error: float


def with_verdicts(code: str) -> tuple[Artifact, TrainingData]:
    """Return the bundled surrogate of a language, and its training data with the verdicts."""
    ranker = SurrogateRanker.pretrained(code, level="hard")
    part = ranker.data[code]
    judgments = placed_judgments(simulated_judgments(code, level="hard"), part)
    return ranker.artifact, replace(part, judgments=judgments)


def folds_by_kind() -> list[set[str]]:
    """Split the systems by kind of fault."""
    groups = sorted(set(HARD.groups.values()))
    order = np.random.default_rng(0).permutation(groups)
    return [
        {name for name, group in HARD.groups.items() if group in set(part)}
        for part in np.array_split(order, FOLDS)
    ]


def folds_by_manner() -> list[set[str]]:
    """Split the systems by manner of writing, without the reference, in which most have faults."""
    return [
        {system.name for system in HARD.systems if system.manner == manner}
        for manner in HARD_MANNERS
        if manner != "reference"
    ]


def without(
    fold: set[str], artifact: Artifact, data: Mapping[str, TrainingData]
) -> SurrogateRanker:
    """Return a surrogate that was trained without some systems.

    The errors on held-out systems, and the weights, are those of the bundled surrogate.
    """
    rows = {
        code: [i for i, model in enumerate(part.models) if model not in fold]
        for code, part in data.items()
    }
    of_all = {code: artifact.candidate.of_all[code][rows[code]] for code in data}
    candidate = Candidate(artifact.candidate.recipe, of_all, of_all, artifact.candidate.weights)
    rest = {code: part.without(fold) for code, part in data.items()}
    with one_thread():
        return SurrogateRanker.restored(
            replace(artifact, candidate=candidate, data=rest, trees=None)
        )


def held_out(
    folds: Sequence[set[str]], artifact: Artifact, data: Mapping[str, TrainingData]
) -> dict[str, list[Outcome]]:
    """Return the predictions of all systems of the folds by language."""
    outcomes: dict[str, list[Outcome]] = {code: [] for code in data}
    for fold in folds:
        ranker = without(fold, artifact, data)
        for code, part in data.items():
            for row in [i for i, model in enumerate(part.models) if model in fold]:
                prediction, actual = ranker.predict(part.table(row)), float(part.mean_y[row])
                low, high = prediction.interval()
                outcomes[code].append(
                    Outcome(low <= actual <= high, high - low, prediction.logit - actual)
                )
    return outcomes


def show_coverage(codes: Sequence[str], quick: bool) -> None:
    """Print the coverage by language."""
    parts = {code: with_verdicts(code) for code in codes}
    first, _ = parts[codes[0]]
    of_all = {code: artifact.candidate.of_all[code] for code, (artifact, _) in parts.items()}
    artifact = replace(first, candidate=replace(first.candidate, of_all=of_all))
    data = {code: part for code, (_, part) in parts.items()}
    for title, folds in (("kinds", folds_by_kind()), ("manners", folds_by_manner())):
        outcomes = held_out(folds[:2] if quick else folds, artifact, data)
        print(f"{title + ' held out':20}{'systems':>9}{'coverage':>10}{'width':>8}{'error':>8}")
        for name, rows in {**outcomes, "all": list(chain.from_iterable(outcomes.values()))}.items():
            figures = {
                "coverage": float(np.mean([row.holds for row in rows])),
                "median width": float(np.median([row.width for row in rows])),
                "root mean squared error": float(np.sqrt(np.mean([row.error**2 for row in rows]))),
            }
            covered, width, error = figures.values()
            print(f"{name:20}{len(rows):9}{covered:10.3f}{width:8.2f}{error:8.2f}")
            for label, value in figures.items():
                add_figure(value, f"{title} held out", name, label)


def show_time(codes: Sequence[str]) -> None:
    """Print the CPU seconds of ranking one system in a new process."""
    print("\nCPU seconds to rank one system, cold")
    for code in codes:
        path = TESTS / "data" / "truth_hard" / f"{code}.jsonl"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", COLD, code, str(path)], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"  {code:6}{seconds:6.1f}")
        add_figure(seconds, "CPU seconds", code)


def main() -> None:
    """Print the tables."""
    parser = script_parser(__doc__)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="all 18 by default")
    options = parser.parse_args()
    codes = ["en"] if options.quick else options.languages or list(LANGUAGES)
    show_coverage(codes, options.quick)
    show_time(codes[:3])
    save(parser, options)


if __name__ == "__main__":
    main()
