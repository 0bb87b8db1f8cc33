"""Exact dense search from disk: time, memory, and recall against numpy.

    python validation/speed/dense.py [VECTORS] [QUESTIONS]
    python validation/speed/dense.py VECTORS --hnsw     # size and memory of a graph

Random vectors of 384 numbers replace an embedder. The index is built and searched in separate
processes, so that the memory is that of the search alone. The reference is the order of all dot
products in float64, by numpy.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser

from mirage import Corpus, Passage, Query
from mirage.retrieval import DenseRetriever

DIMENSIONS, K = 384, 50


class Drawn:
    """An embedder that returns a fixed random vector for each number."""

    fingerprint = "drawn"

    def __call__(self, texts: Sequence[str], /) -> NDArray[np.float64]:
        """Return the vector of each number."""
        return np.array([np.random.default_rng(int(t)).normal(size=DIMENSIONS) for t in texts])


def peak() -> float:
    """Return the peak memory of this process, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def queries(n: int) -> list[Query]:
    """Return questions with vectors that no passage has."""
    return [Query(id=str(i), language="en", text=str(10**9 + i)) for i in range(n)]


def build(folder: Path, n: int) -> dict[str, float]:
    """Build a corpus of numbers and its index."""
    start = time.perf_counter()
    passages = (Passage(id=f"d{i}", text=str(i)) for i in range(n))
    corpus = Corpus.build(passages, folder / "corpus")
    made = time.perf_counter()
    DenseRetriever.build(corpus, folder / "index", embedder=Drawn(), progress=False)
    seconds = time.perf_counter() - made
    print(f"{n} passages in {made - start:.1f} s, their index in {seconds:.1f} s", flush=True)
    return {"corpus, s": made - start, "index, s": seconds}


def search(folder: Path, asked: int) -> tuple[dict[str, float], dict[str, tuple[str, ...]]]:
    """Open the index, search once, and return the time and the memory."""
    before = peak()
    start = before_opening = time.perf_counter()
    retriever = DenseRetriever.open(folder / "index", Corpus.open(folder / "corpus"), Drawn())
    opened = time.perf_counter()
    run = retriever.retrieve(queries(asked), K)
    seconds = time.perf_counter() - opened
    said = f"opened in {(opened - start) * 1000:.0f} ms, {asked} questions in {seconds:.2f} s "
    said += f"({time.process_time():.2f} s of CPU since the start), "
    said += f"peak memory {peak():.2f} GiB ({before:.2f} before)"
    start = time.perf_counter()
    retriever.retrieve(queries(1), K)
    alone = time.perf_counter() - start
    print(f"{said}; one question in {alone:.2f} s", flush=True)
    figures = {
        "opened, ms": (opened - before_opening) * 1000,
        f"{asked} questions, s": seconds,
        "one question, s": alone,
        "peak memory, GiB": peak(),
    }
    return figures, {id_: hits.passage_ids for id_, hits in run.items()}


def brute(folder: Path, asked: int) -> dict[str, tuple[str, ...]]:
    """Return the order of all dot products in float64, of the same vectors in float16."""
    questions = Drawn()([query.text for query in queries(asked)])
    shards = sorted((folder / "index").glob("*.npy"))
    scores = np.concatenate(
        [questions @ np.load(path).astype(np.float64).T for path in shards], axis=1
    )
    best = [sorted(np.argpartition(-row, K)[:K], key=lambda i: -row[i]) for row in scores]
    return {str(i): tuple(f"d{row}" for row in rows) for i, rows in enumerate(best)}


def graph(folder: Path, n: int) -> dict[str, float]:
    """Print and return the size of a graph, and the memory that building it needs."""
    corpus = Corpus.build((Passage(id=f"d{i}", text=str(i)) for i in range(n)), folder / "corpus")
    DenseRetriever.build(corpus, folder / "index", embedder=Drawn(), progress=False)
    before = peak()
    DenseRetriever.build(corpus, folder / "index", embedder=Drawn(), index="hnsw", progress=False)
    added = (peak() - before) * 2**30 / n
    size = (folder / "index" / "graph.usearch").stat().st_size / n
    print(f"graph of {n}: {size:.0f} bytes a vector on disk, {added:.0f} in memory while built")
    return {"graph, bytes per vector": size, "graph, bytes per vector in memory": added}


def main(n: int = 1_000_000, asked: int = 100) -> None:
    """Print a line for each figure."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        context = get_context("spawn")
        with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
            figures = pool.submit(build, folder, n).result()
            searched, found = pool.submit(search, folder, asked).result()
            for name, figure in (figures | searched).items():
                add_figure(figure, name)
            truth = pool.submit(brute, folder, asked).result()
        shared = [len(set(found[id_]) & set(truth[id_])) / K for id_ in truth]
        same = np.mean([found[id_] == truth[id_] for id_ in truth])
        print(f"recall@{K} against numpy {np.mean(shared):.4f}, in the same order {same:.0%}")
        add_figure(np.mean(shared), f"recall@{K} against numpy")
        add_figure(same, "in the same order as by numpy")


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("vectors", default=1_000_000, nargs="?", type=int)
    parser.add_argument("questions", default=100, nargs="?", type=int)
    parser.add_argument("--hnsw", action="store_true")
    options = parser.parse_args()
    if options.hnsw:
        with tempfile.TemporaryDirectory() as name:
            for figure, value in graph(
                Path(name), 2_000 if options.quick else options.vectors
            ).items():
                add_figure(value, figure)
        save(parser, options)
        sys.exit()
    main(5_000 if options.quick else options.vectors, options.questions)
    save(parser, options)
