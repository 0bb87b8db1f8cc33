"""A grid of 48 cells: shared steps, and the time of a second run.

The grid has three corpora and datasets of the bundled passages (with each query five times, 200 in
all), four retrievers, two rerankings by words, and two depths. Responses are replayed from a file,
so that no time is spent on a model. The script prints how often each step ran, the seconds and the
memory of the first and the second run, and of two processes that read a table at the same time.

    python validation/speed/grid_runs.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser

from mirage.dataset import MirageDataset
from mirage.models import Response
from mirage.retrieval import BM25

LANGUAGES = ("en", "sw", "ja")
TIMES = 5

RUN = """
import resource, sys, time
start = time.monotonic()
from mirage.grids import Grid
table = Grid.read(sys.argv[1]).run(progress=False)
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
sys.stderr.write(f"{time.monotonic() - start:.2f} {memory:.0f}\\n")
print(table.to_json())
"""
READ = RUN.replace(".run(progress=False)", ".table()")

GRID = """\
name: cells48
datasets:
{datasets}
corpora:
{corpora}
retrievers:
  bm25: {{kind: bm25}}
  flat: {{kind: bm25, b: 0.1, k1: 1.5}}
  both: {{kind: rrf, of: [bm25, flat]}}
  run: {{kind: run, path: "{{dataset}}.trec"}}
generators:
  answers: {generator}
grid:
  dataset: [{names}]
  corpus: [{names}]
  retriever: [bm25, flat, both, run]
  generator: answers
  retrieve_k: [20, 50]
  show_k: [2, 5]
  exclude: [{exclude}]
metrics: [qa_match, qa_f1, citation_recall@10, "nDCG@10", "R@5"]
"""


def lay_out(folder: Path, times: int, generator: str) -> Path:
    """Write the files of the grid and return its path."""
    for code in LANGUAGES:
        small = MirageDataset.bundled(code)
        queries = [
            query.model_copy(update={"id": f"{query.id}-{n}"})
            for n in range(times)
            for query in small
        ]
        dataset = MirageDataset(queries)
        dataset.save(folder / f"{code}.jsonl")
        passages = {p.id: p for query in small for p in query.passages}
        BM25.build(list(passages.values()), language=code).retrieve(dataset, 50).write(
            folder / f"{code}.trec"
        )
        responses = (
            Response(query_id=query.id, text=query.reference or "-").model_dump_json()
            for query in dataset
        )
        (folder / f"{code}.answers.jsonl").write_text("\n".join(responses) + "\n")
    pairs = [(a, b) for a in LANGUAGES for b in LANGUAGES if a != b]
    text = GRID.format(
        datasets="\n".join(f"  {c}: {{form: jsonl, path: {c}.jsonl}}" for c in LANGUAGES),
        corpora="\n".join(f"  {c}: {{dataset: {c}, language: {c}}}" for c in LANGUAGES),
        generator=generator,
        names=", ".join(LANGUAGES),
        exclude=", ".join(f"{{dataset: {a}, corpus: {b}}}" for a, b in pairs),
    )
    path = folder / "grid.yaml"
    path.write_text(text)
    return path


def start(program: str, path: Path, cache: Path) -> subprocess.Popen[str]:
    """Start a process that runs or reads a grid, with its own cache of answers."""
    return subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MIRAGE_CACHE": str(cache)},
    )


def finished(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Return the table that a process printed, and its seconds and MiB."""
    table, told = process.communicate()
    if process.returncode:
        raise SystemExit(told)
    return table, told.strip().splitlines()[-1]


def speed(times: int) -> None:
    """Print the results of two runs with replayed responses, and of two readers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = lay_out(folder, times, '{kind: replay, path: "{dataset}.answers.jsonl"}')
        first, took = finished(start(RUN, path, folder))
        store = folder / "cells48.store"
        steps = Counter(each.parent.parent.name for each in store.glob("*/*/manifest.json"))
        cells = json.loads(first)["cells"]
        print(f"{len(cells)} cells of {len(cells[0]['query_ids'])} queries")
        print("steps done:", ", ".join(f"{step} {n}" for step, n in steps.items()))
        written = {each: each.stat().st_mtime_ns for each in store.glob("*/*/*")}
        second, again = finished(start(RUN, path, folder))
        touched = sum(each.stat().st_mtime_ns != when for each, when in written.items())
        touched += len(list(store.glob("*/*/*"))) - len(written)
        add_figure(len(cells), "cells")
        add_figure(float(took.split()[0]), "first run, s")
        add_figure(float(took.split()[1]), "first run, MiB")
        add_figure(float(again.split()[0]), "second run, s")
        add_figure(touched, "files written by the second run")
        print(f"first run: {took.split()[0]} s, {took.split()[1]} MiB, imports and all")
        print(f"second run: {again.split()[0]} s, {again.split()[1]} MiB (asked: 3 s); "
              f"{touched} files written, tables equal: {first == second}")  # fmt: skip
        both = [start(READ, path, folder) for _ in range(2)]
        tables = {finished(each)[0] for each in both}
        print(f"read by two processes at once: equal to the first: {tables == {first}}")
        add_figure(tables == {first} == {second}, "tables equal")


if __name__ == "__main__":
    parser = script_parser(__doc__)
    options = parser.parse_args()
    speed(1 if options.quick else TIMES)
    save(parser, options)
