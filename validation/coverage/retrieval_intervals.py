"""Coverage of the intervals of retrieval measures, and false positives of their test.

The population consists of real values: those of BM25, with two settings, on the judged topics of
NoMIRACL and MIRACL in four languages (in ``MIRAGE_DATA``). Queries are drawn from it. The table has
5, 20 and 100 queries: the coverage of 95 % intervals of the mean and of the difference of the two
runs, and how often two equal runs are called different (p at most 0.05). In equal runs, each
query's two values are assigned at random, or one run fails on 2 % of the queries and the other one
has slightly lower values on all of them. A dash means that the library gives no interval.

    MIRAGE_DATA=data python validation/coverage/retrieval_intervals.py [REPEATS]
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, known_mean, save, script_parser, seeded
from _shared import DATA, require_data

from mirage.retrieval import BM25, evaluate
from mirage.retrieval.evaluation import RetrievalEvaluation
from mirage.sources import nomiracl, trec
from mirage.statistics.worlds import holds

CODES, MEASURES, QUERIES = ("ar", "id", "sw", "zh"), ("nDCG@10", "R@10", "RR@10"), (5, 20, 100)


RARE = 0.02  # share of queries on which one of two runs with equal means fails


def measured(code: str, k1: float, b: float) -> np.ndarray:
    """Return the values of topics with a relevant passage, ``(topics, measures)``."""
    dataset = nomiracl.load(DATA / "nomiracl", code).dataset
    passages = {passage.id: passage for query in dataset for passage in query.passages}
    grades = trec.read_qrels(DATA / "miracl" / "qrels" / f"{code}-dev.tsv")
    texts = trec.read_topics(DATA / "miracl" / "topics" / f"{code}-dev.tsv")
    judged = {
        id_: known
        for id_, grade in grades.items()
        if any((known := {p: g for p, g in grade.items() if p in passages}).values())
    }
    asked = [dataset[0].model_copy(update={"id": id_, "text": texts[id_]}) for id_ in judged]
    index = BM25.build(passages.values(), language=code, k1=k1, b=b, progress=False)
    return evaluate(index.retrieve(asked, 50), judged, MEASURES).values


def drawn(values: np.ndarray) -> RetrievalEvaluation:
    """Return an evaluation with one query per value."""
    ids = tuple(map(str, range(len(values))))
    return RetrievalEvaluation("run", MEASURES, ids, values)


def share(held: np.ndarray) -> str:
    """Return the coverage of the existing intervals, and the number of draws with one."""
    there = held[~np.isnan(held)]
    return f"{there.mean():.3f} ({len(there)})" if len(there) else "-"


def main(repeats: int = 1000) -> None:
    """Print a line for each number of queries and measure."""
    first = np.vstack([measured(code, 0.9, 0.4) for code in CODES])
    second = np.vstack([measured(code, 1.5, 0.75) for code in CODES])
    print(f"{len(first)} topics; {repeats} draws each")
    print("queries  measure   mean   held (of)  difference   held (of)  called different, rare")
    for queries in QUERIES:
        rng, failing = seeded(queries), seeded(queries + 1000)
        means, gaps, alarms, rare = [], [], [], []
        for _ in range(repeats):
            rows = rng.integers(0, len(first), queries)
            a, b = drawn(first[rows]), drawn(second[rows])
            swap = rng.random((queries, 1)) < 0.5
            alike = replace(a, values=np.where(swap, a.values, b.values)).compare(
                replace(b, values=np.where(swap, b.values, a.values)), permutations=1000
            )
            truth = (first - second).mean(axis=0)
            means.append(
                [holds(row.interval, m) for row, m in zip(a, first.mean(axis=0), strict=True)]
            )
            compared = a.compare(b, permutations=1000)
            gaps.append([holds(row.interval, m) for row, m in zip(compared, truth, strict=True)])
            alarms.append([row.p <= 0.05 for row in alike])
            fails = failing.random((queries, 1)) < RARE
            equal = replace(a, values=np.where(fails, 0.0, a.values)).compare(
                replace(a, values=(1 - RARE) * a.values), permutations=1000
            )
            rare.append([row.p <= 0.05 for row in equal])
        for j, name in enumerate(MEASURES):
            shown = [share(np.array(each)[:, j]) for each in (means, gaps)]
            mean, gap = first.mean(axis=0)[j], (first - second).mean(axis=0)[j]
            alarm = np.mean(np.array(alarms)[:, j])
            names = name, f"{queries} queries"
            add_figure(known_mean(np.array(means)[:, j].tolist()), *names, "coverage: mean")
            held = np.array(gaps)[:, j]
            add_figure(known_mean(held.tolist()), *names, "coverage: difference")
            add_figure(np.mean(~np.isnan(held)), *names, "differences with an interval")
            add_figure(alarm, *names, "false positive rate")
            alarm_rare = np.mean(np.array(rare)[:, j])
            add_figure(alarm_rare, *names, "false positive rate: rare failures")
            print(
                f"{queries:7}  {name:8} {mean:5.3f} {shown[0]:>12}      {gap:+.3f} {shown[1]:>12}"
                f"             {alarm:.3f}  {alarm_rare:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("repeats", default=1000, nargs="?", type=int)
    options = parser.parse_args()
    require_data("nomiracl", "miracl")
    main(5 if options.quick else options.repeats)
    save(parser, options)
