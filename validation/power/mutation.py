"""Tests written from responses: faults that they detect, and right answers that they reject.

For each language, tests are written from a system without faults and scored. The table has the
kinds of fault that they catch if all queries have them and if a quarter has, as a mean over five
random seeds with minimum and maximum. It also has the wall and CPU time of writing the file. Then
the tests are run on answers that are equally true but worded differently: the other manners of the
simulated arena, and three manners that were not used to choose any setting (a list, the answer
before the explanation, the explanation with quotations). A test that fails on these is a false
positive. The slack of bounds was chosen on the six manners in Swahili and Thai.

    python validation/power/mutation.py [--manners reference,casual] [LANGUAGE ...]    # 30 minutes
    python validation/power/mutation.py te ar fi ja    # languages that no slack was chosen on
"""

import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser

from mirage import MirageDataset, Response, Run
from mirage.languages import LANGUAGES, Language
from mirage.statistics.bootstrap import Interval
from mirage.surrogate.drafts import MANNERS, Draft, Scene, faultless
from mirage.surrogate.pretraining import simulated_runs
from mirage.testing import write_tests
from mirage.testing.mutation import Bound, _Effects, suggested_bounds

# True answers in manners that nothing was set by --------------------------------------------------


def listing(by_manner: dict[str, Draft], language: Language) -> str:
    """Return the text with each sentence on a line of its own."""
    bare = replace(by_manner["long"], reason="", headings=False)
    return "\n".join(f"- {bare.saying([one]).written(language)}" for one in bare.sentences)


def direct(by_manner: dict[str, Draft], language: Language) -> str:
    """Return the answer in few words, followed by the longer one."""
    terse, long = by_manner["terse"], by_manner["long"]
    return terse.saying(terse.sentences + long.sentences).written(language)


def thorough(by_manner: dict[str, Draft], language: Language) -> str:
    """Return the longer answer, followed by sentences of the passages."""
    long, quoting = by_manner["long"], by_manner["quoting"]
    return long.saying(long.sentences + quoting.sentences).written(language)


def others(code: str) -> dict[str, Run]:
    """Return the runs of the manners that no setting was chosen on."""
    corpora = {other: MirageDataset.bundled(other) for other in LANGUAGES}
    texts: dict[str, list[Response]] = {"listing": [], "direct": [], "thorough": []}
    for query in corpora[code]:
        drafts = {name: faultless(Scene(query, corpora, name)) for name in MANNERS}
        if not query.answerable:  # an abstention is said once
            drafts["quoting"] = drafts["long"].saying([])
        for write in (listing, direct, thorough):
            text = write(drafts, Language.of(code))
            texts[write.__name__].append(Response(query_id=query.id, text=text))
    return {
        name: Run(model=name, language=code, responses=tuple(responses))
        for name, responses in texts.items()
    }


def without_others(run: Run, dataset: MirageDataset) -> Run:
    """Return the responses of a run to the queries of a dataset."""
    responses = tuple(run[id_] for id_ in dataset.query_ids)
    return run.model_copy(update={"responses": responses})


# What is counted ----------------------------------------------------------------------------------


def seconds(dataset: MirageDataset, run: Run) -> tuple[float, float]:
    """Return the wall and CPU time of writing a file."""
    with tempfile.TemporaryDirectory() as folder:
        responses = Path(folder) / "responses.jsonl"
        run.save(responses)
        start = time.perf_counter(), time.process_time()
        write_tests(Path(folder) / "test_rag.py", dataset, run, responses)
        return time.perf_counter() - start[0], time.process_time() - start[1]


class Failures:
    """Counts of tests that fail on true answers, by feature."""

    def __init__(self) -> None:
        self.read: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.inconclusive: Counter[str] = Counter()
        self.files, self.broken = 0, 0

    def count(self, bounds: tuple[Bound, ...], intervals: dict[str, Interval]) -> None:
        """Run the tests on another manner, and count failures."""
        verdicts = {bound.feature: bound.verdict(intervals[bound.feature]) for bound in bounds}
        failed = [name for name, verdict in verdicts.items() if verdict == "broken"]
        self.read.update(list(verdicts))
        self.failed.update(failed)
        self.inconclusive.update([n for n, v in verdicts.items() if v == "inconclusive"])
        self.files += 1
        self.broken += bool(failed)

    def __str__(self) -> str:
        read, failed = self.read.total(), self.failed.total()
        by = ", ".join(f"{name} {n} of {self.read[name]}" for name, n in self.failed.items())
        return (
            f"{failed} of {read} tests ({failed / max(1, read):.1%}) and "
            f"{self.broken / max(1, self.files):.0%} of {self.files} files fail falsely: "
            f"{by or 'none'}; {self.inconclusive.total() / max(1, read):.0%} are inconclusive"
        )


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("languages", nargs="*", default=list(LANGUAGES))
    parser.add_argument("--manners", default="reference", help="whose responses, with commas")
    options = parser.parse_args()
    codes = options.languages[:1] if options.quick else options.languages
    scores: dict[str, list[tuple[float, float]]] = {}
    failures = {"manners of the arena": Failures(), "manners held out": Failures()}
    slowest = (0.0, 0.0)
    for code in codes:
        dataset = MirageDataset.bundled(code)
        simulated, held_out = simulated_runs(code, set(MANNERS)), others(code)
        if options.quick:
            simulated = {manner: simulated[manner] for manner in (options.manners, "terse")}
            held_out = {"direct": held_out["direct"]}
            dataset = MirageDataset(list(dataset)[::2])
        runs = simulated | held_out
        if options.quick:
            runs = {name: without_others(run, dataset) for name, run in runs.items()}
        wanted = {manner: runs[manner] for manner in options.manners.split(",")}
        if not options.quick:
            slowest = max(slowest, seconds(dataset, next(iter(wanted.values()))))
        intervals = {name: _Effects(dataset, run).before.intervals for name, run in runs.items()}
        for manner, run in wanted.items():
            bounds, score = suggested_bounds(dataset, run)
            scores.setdefault(manner, []).append((score.at(1.0), score.at(0.25)))
            missed = dict.fromkeys(fate.kind for fate in score.missed if fate.share == 1)
            print(f"{code} {manner}: {score.counted(1.0)}; at a quarter {score.counted(0.25)}; "
                  f"missed: {', '.join(missed) or '-'}", flush=True)  # fmt: skip
            add_figure(score.at(1.0), "kinds of fault caught", code, manner, "all queries")
            add_figure(score.at(0.25), "kinds of fault caught", code, manner, "a quarter")
            for other in runs.keys() - {manner}:
                kind = "manners of the arena" if other in simulated else "manners held out"
                failures[kind].count(bounds, intervals[other])
    if slowest[0]:
        print(f"\nwriting a file took at most {slowest[0]:.1f} s, CPU {slowest[1]:.1f} s")
    for manner, rows in scores.items():
        whole, quarter = np.array(rows).T
        print(f"{manner}: kinds caught, mean {whole.mean():.1%}, least {whole.min():.1%}; "
              f"at a quarter {quarter.mean():.1%}")  # fmt: skip
        add_figure(whole.mean(), "kinds of fault caught", "mean", manner, "all queries")
        add_figure(whole.min(), "kinds of fault caught", "least", manner, "all queries")
        add_figure(quarter.mean(), "kinds of fault caught", "mean", manner, "a quarter")
    for kind, counted in failures.items():
        print(f"on the {kind}: {counted}")
        read = max(1, counted.read.total())
        add_figure(counted.failed.total() / read, "true answers", kind, "tests that fail")
        add_figure(counted.broken / max(1, counted.files), "true answers", kind, "files that fail")
        add_figure(counted.inconclusive.total() / read, "true answers", kind, "inconclusive tests")
    save(parser, options)
