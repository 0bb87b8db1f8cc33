"""The tests that are written from responses: the faults they catch, and the truths they fall on.

For each language, the tests that are written from a faultless system are scored: the kinds of fault
caught where all queries have them and where a quarter has, and what writing the file took, by the
clock and of the CPU. Then they are read on what is as true in other words: the same answers in the
other manners of the simulated arena, and in three that nothing here was set by: as a list, the
answer first and then the explanation, and the explanation with quotations. An assertion that falls
there falls falsely; but where the headings were dropped, that on headings falls as it should.

Both are printed for the widths of today and for those before: support 0.15, length 0.2, nothing on
headings. Widths were set on the six manners in Swahili and Thai.

    python benchmarks/mutation.py [--manners reference,casual] [LANGUAGE ...]    # 10 minutes
    python benchmarks/mutation.py --quick    # te, ar, fi and ja
"""

import argparse
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mirage import MirageDataset, Response, Run
from mirage.dataset import write_run
from mirage.languages import LANGUAGES, Language
from mirage.surrogate.drafts import MANNERS, Draft, Scene, faultless
from mirage.surrogate.pretraining import simulated_runs
from mirage.testing import Bound, mutants, write_tests
from mirage.testing.mutation import WATCHED, _Effects

TUNED = ("sw", "th")
HELD_OUT = ("te", "ar", "fi", "ja")
BEFORE = tuple(
    one._replace(slack={"support_lexical": 0.15, "answer_length": 0.2}.get(one.feature, one.slack))
    for one in WATCHED
    if one.feature != "well_formed"
)
WIDTHS = {"before": BEFORE, "now": WATCHED}


# True answers in manners that nothing was set by --------------------------------------------------


def listing(by_manner: dict[str, Draft], language: Language) -> str:
    """Each sentence on a line of its own."""
    bare = replace(by_manner["long"], reason="", headings=False)
    return "\n".join(f"- {bare.saying([one]).written(language)}" for one in bare.sentences)


def direct(by_manner: dict[str, Draft], language: Language) -> str:
    """The answer in few words, then the longer one."""
    terse, long = by_manner["terse"], by_manner["long"]
    return terse.saying(terse.sentences + long.sentences).written(language)


def thorough(by_manner: dict[str, Draft], language: Language) -> str:
    """The longer answer, and after it sentences of the passages."""
    long, quoting = by_manner["long"], by_manner["quoting"]
    return long.saying(long.sentences + quoting.sentences).written(language)


def others(code: str) -> dict[str, Run]:
    """The runs of the manners that nothing was set by."""
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


# What is counted ----------------------------------------------------------------------------------


class Written(NamedTuple):
    """What is written from one run: the bounds, and the faults that they catch."""

    bounds: list[Bound]
    caught: dict[tuple[str, float], bool]

    def at(self, share: float) -> float:
        """The share of the kinds caught at a share of the queries."""
        return float(
            np.mean([caught for (_, some), caught in self.caught.items() if some == share])
        )

    @property
    def missed(self) -> list[str]:
        """The kinds that go unseen where all queries have them."""
        return [kind for (kind, some), caught in self.caught.items() if some == 1 and not caught]


def by_widths(dataset: MirageDataset, run: Run) -> tuple[dict[str, Written], dict[str, float]]:
    """What is written with the widths of before and of now, and the means of the run."""
    tried = mutants(dataset, run).tried
    effects = _Effects(dataset, run, tried)
    after = {(one.kind, one.share): effects.after(one) for one in tried}
    told = {}
    for name, watched in WIDTHS.items():
        bounds, caught, useful = effects.bounds(watched), {}, set()
        for mutant, means in after.items():
            fell = [bound.feature for bound in bounds if not bound.holds(means[bound.feature])]
            caught[mutant], useful = bool(fell), useful | {*fell}
        told[name] = Written([bound for bound in bounds if bound.feature in useful], caught)
    return told, effects.before


def seconds(dataset: MirageDataset, run: Run) -> tuple[float, float]:
    """What writing a file takes: by the clock, of the CPU."""
    with tempfile.TemporaryDirectory() as folder:
        responses = Path(folder) / "responses.jsonl"
        write_run(run, responses)
        start = time.perf_counter(), time.process_time()
        write_tests(Path(folder) / "test_rag.py", dataset, run, responses)
        return time.perf_counter() - start[0], time.process_time() - start[1]


class Falls:
    """Assertions that fall on what is true, by feature."""

    def __init__(self) -> None:
        self.read: Counter[str] = Counter()
        self.fell: Counter[str] = Counter()
        self.files, self.broken, self.broken_by_form = 0, 0, 0

    def count(self, bounds: list[Bound], means: dict[str, float]) -> None:
        """Read tests on another manner."""
        fell = [bound.feature for bound in bounds if not bound.holds(means[bound.feature])]
        self.read.update(bound.feature for bound in bounds)
        self.fell.update(fell)
        self.files += 1
        self.broken += bool({*fell} - {"well_formed"})
        self.broken_by_form += fell == ["well_formed"]

    def __str__(self) -> str:
        own = {name: n for name, n in self.fell.items() if name != "well_formed"}
        read = sum(n for name, n in self.read.items() if name != "well_formed")
        by = ", ".join(f"{name} {n} of {self.read[name]}" for name, n in own.items()) or "none"
        return (
            f"{sum(own.values())} of {read} assertions ({sum(own.values()) / max(1, read):.1%}) "
            f"and {self.broken / max(1, self.files):.0%} of {self.files} files fall falsely: {by}; "
            f"{self.broken_by_form / max(1, self.files):.0%} of the files by the headings alone"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("languages", nargs="*", default=list(LANGUAGES))
    parser.add_argument("--manners", default="reference", help="whose responses, with commas")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    codes = list(HELD_OUT) if asked.quick else asked.languages
    scores: dict[tuple[str, str], list[tuple[float, float]]] = {}
    falls = {(name, kind): Falls() for name in WIDTHS for kind in ("six", "held out")}
    slowest = (0.0, 0.0)
    for code in codes:
        dataset = MirageDataset.bundled(code)
        known, new = simulated_runs(code, set(MANNERS)), others(code)
        wanted = {manner: (known | new)[manner] for manner in asked.manners.split(",")}
        slowest = max(slowest, seconds(dataset, next(iter(wanted.values()))))
        means = {name: _Effects(dataset, run, ()).before for name, run in (known | new).items()}
        for manner, run in wanted.items():
            told, _ = by_widths(dataset, run)
            for width, written in told.items():
                scores.setdefault((manner, width), []).append((written.at(1.0), written.at(0.25)))
                print(f"{code} {manner:10} {width:7} {written.at(1.0):5.0%} {written.at(0.25):5.0%}"
                      f"  missed: {', '.join(written.missed) or '-'}", flush=True)  # fmt: skip
                for other in means.keys() - {manner}:
                    kind = "six" if other in known else "held out"
                    falls[width, kind].count(written.bounds, means[other])
    print(f"\nwriting a file took at most {slowest[0]:.1f} s, CPU {slowest[1]:.1f} s")
    for (manner, width), rows in scores.items():
        whole, quarter = np.array(rows).T
        print(f"{manner}, {width}: kinds caught, mean {whole.mean():.1%}, least {whole.min():.1%}; "
              f"at a quarter {quarter.mean():.1%}")  # fmt: skip
    for (width, kind), counted in falls.items():
        print(f"{width}, on the {'manners of the arena' if kind == 'six' else 'manners held out'}: "
              f"{counted}")  # fmt: skip
