"""Held-out models on HalluQA: verdicts, means, and the paper's random forest.

24 LLMs answered 225 Chinese questions, and GPT-4 judged whether each answer is right. A right
answer beats a wrong one; all other pairs are ties. Five models are held out at a time. The rows are
those of ``nomiracl.py``. With so many models, ``verdicts`` may select trees.

    python validation/papers/halluqa.py  # needs MIRAGE_DATA; a quarter of an hour on two cores
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from _shared import DATA, require_data

from mirage import (
    BradleyTerry,
    FeatureSuite,
    FeatureTable,
    Judgments,
    MirageDataset,
    Response,
    Run,
    SurrogateRanker,
)
from mirage.models import Passage, Query

FILE = DATA / "halluqa" / "zh.jsonl"
HELD_OUT = 5
MEASURES = ("r2", "r2_in_paper", "tau", "coverage")


def arena(most: int | None) -> tuple[list[FeatureTable], Judgments]:
    """Return features of the 24 models, and a verdict on every pair and question."""
    queries: dict[str, Query] = {}
    texts: dict[str, dict[str, Response]] = defaultdict(dict)
    right: dict[str, dict[str, float]] = defaultdict(dict)
    for row in map(json.loads, FILE.read_text(encoding="utf-8").splitlines()):
        id_, model = row["query_id"], row["system"]
        if most is not None and len(queries) == most and id_ not in queries:
            continue
        queries[id_] = Query(
            id=id_,
            language="zh",
            text=row["query"],
            passages=tuple(Passage(**passage) for passage in row["passages"]),
            relevant=tuple(passage["id"] for passage in row["passages"]),
            reference=row["reference"],
            answerable=True,
        )
        texts[model][id_] = Response(query_id=id_, text=row["response"])
        right[model][id_] = row["judgments"]["correct"]
    dataset = MirageDataset(queries.values(), name="halluqa")
    more = ("reference_recall", "answer_char3", "answer_length")
    suite = FeatureSuite((*FeatureSuite.default().names, *more), "zh").applicable(dataset)
    tables = [
        suite.score(
            dataset,
            Run(model=model, language="zh", responses=tuple(responses.values())),
            progress=False,
        )
        for model, responses in texts.items()
    ]
    ids, names = list(queries), np.array(list(texts))
    correct = np.array([[right[model][id_] for id_ in ids] for model in names])
    a, b = np.triu_indices(len(names), 1)
    judgments = Judgments.from_arrays(
        query=np.tile(ids, len(a)),
        model_a=np.repeat(names[a], len(ids)),
        model_b=np.repeat(names[b], len(ids)),
        score=((1 + correct[a] - correct[b]) / 2).ravel(),
    )
    return tables, judgments


def main() -> None:
    """Print each measure, with one row per method."""
    parser = script_parser(__doc__)
    parser.add_argument("--splits", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=-1)
    options = parser.parse_args()
    require_data("halluqa")
    tables, judgments = arena(10 if options.quick else None)
    drawn = BradleyTerry().bootstrap(
        judgments, tournaments=200, queries=100, seed=0, progress=False
    )
    methods, splits = ("verdicts", "means", "forest"), options.splits
    if options.quick:
        methods, splits, options.jobs = ("forest",), 2, 1
    print(f"{HELD_OUT} of {len(tables)} models held out, {splits} splits")
    print(f"{'':12}" + "".join(f"{what:>12}" for what in MEASURES))
    for method in methods:
        started = time.perf_counter()
        ranker = SurrogateRanker("auto" if method == "means" else method)
        ranker.fit(tables, drawn, judgments=judgments if method == "verdicts" else None)
        found = ranker.cross_validate(HELD_OUT, splits, n_jobs=options.jobs)
        row = "".join(f"{getattr(found, what)['zh']:12.3f}" for what in MEASURES)
        print(f"  {method:10}{row}   {time.perf_counter() - started:.0f} s", flush=True)
        for what in MEASURES:
            add_figure(getattr(found, what)["zh"], method, what)
    save(parser, options)


if __name__ == "__main__":
    main()
