"""The mutation score of the tests that are written from responses, and how long writing takes.

    python benchmarks/mutation.py [--manners casual,terse] [LANGUAGE ...]

For each language, and each manner of writing of a faultless system (those of the simulated arena;
`reference` by default): the kinds of fault that the written tests catch where all queries have
them and where a quarter has, the seconds that it took, by the clock and of the CPU, and the kinds
missed. With `--alarms` the tests written from `reference` are read against other faultless manners:
the bounds that fall though nothing is wrong but the wording.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mirage import FeatureSuite, MirageDataset, Run
from mirage.dataset import write_run
from mirage.languages import LANGUAGES
from mirage.surrogate.pretraining import simulated_runs
from mirage.testing import Bound, MutationScore, suggested_bounds, write_tests


def written(dataset: MirageDataset, run: Run) -> tuple[MutationScore, NDArray[np.float64]]:
    """The score of a file that is written from a run, and seconds: by the clock, of the CPU."""
    with tempfile.TemporaryDirectory() as folder:
        responses = Path(folder) / "responses.jsonl"
        write_run(run, responses)
        start = np.array([time.perf_counter(), time.process_time()])
        score = write_tests(Path(folder) / "test_rag.py", dataset, run, responses)
        return score, np.array([time.perf_counter(), time.process_time()]) - start


def falling(bounds: tuple[Bound, ...], dataset: MirageDataset, run: Run) -> list[str]:
    """The bounds that a run does not keep."""
    table = FeatureSuite([bound.feature for bound in bounds]).score(dataset, run, progress=False)
    return [b.feature for b in bounds if not b.holds(float(np.nanmean(table[b.feature])))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("languages", nargs="*", default=list(LANGUAGES))
    parser.add_argument("--manners", default="reference", help="whose responses, with commas")
    parser.add_argument("--alarms", action="store_true", help="read reference's tests on the rest")
    asked = parser.parse_args()
    manners = asked.manners.split(",")
    scores: dict[str, list[tuple[float, ...]]] = {manner: [] for manner in manners}
    for code in asked.languages:
        dataset = MirageDataset.bundled(code)
        runs = simulated_runs(code, {*manners, "reference", "long", "casual", "terse"})
        for manner in manners:
            score, seconds = written(dataset, runs[manner])
            scores[manner].append((score.at(1.0), score.at(0.25), *seconds))
            missed = ", ".join(fate.kind for fate in score.missed if fate.share == 1)
            print(f"{code} {manner:10} {score.at(1.0):5.0%} {score.at(0.25):5.0%} "
                  f"{seconds[0]:6.1f} s, CPU {seconds[1]:.1f} s"
                  f"  missed: {missed or '-'}", flush=True)  # fmt: skip
        if asked.alarms:
            bounds, _ = suggested_bounds(dataset, runs["reference"])
            for manner in ("long", "casual", "terse"):
                fallen = ", ".join(falling(bounds, dataset, runs[manner])) or "none"
                print(f"   reference's bounds that fall on faultless {manner}: {fallen}")
    for manner, rows in scores.items():
        whole, quarter, seconds, cpu = np.array(rows).T
        print(f"{manner}: mean {whole.mean():.1%}, least {whole.min():.1%}; a quarter "
              f"{quarter.mean():.1%}; {seconds.max():.1f} s, CPU {cpu.max():.1f} s")  # fmt: skip
