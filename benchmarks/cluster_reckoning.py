"""10,000 queries x 100 pipelines x 18 languages on 64 nodes: where time, memory and money go.

A reckoning on paper, and no run: what one driver does is measured here in a minute (features, exact
search, journal, the place that decides about budget and cache), the rate of Ray's driver is what
`python benchmarks/ray_overhead.py --ms 1` prints, and what models do is assumed (options). Printed
are hours by step, what is held and kept, what it costs, and for each part that cannot be divided
how often it is asked and how often it can be. Search is the driver's own work.

    python benchmarks/cluster_reckoning.py [--nodes 64] [--gpus 8] ...
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mirage import LLM, Budget, FeatureSuite, MirageDataset, Response, respond
from mirage._base.journal import Journal
from mirage.executors.base import sending
from mirage.models import Passage, Query
from mirage.retrieval import DenseRetriever

TRIPS = 8  # of a call to the driver: cache, place, budget, 2 x usage, end of both, answer kept
FEATURES = 13


def clocked(work: Callable[[], object]) -> float:
    """Seconds that some work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# What is measured ---------------------------------------------------------------------------------


def feature_ms() -> float:
    """Milliseconds of a core for the offline features of a response, mean of four scripts."""
    spent = responses = 0.0
    for code in ("en", "ar", "th", "zh"):
        dataset = MirageDataset.bundled(code)
        suite = FeatureSuite.default(code).applicable(dataset)
        first, second = (
            respond({q.id: f"{q.passages[n].text} [1]" for q in dataset}, dataset, progress=False)
            for n in (0, -1)
        )
        suite.score(dataset, first, progress=False)  # languages are loaded once
        start = time.process_time()
        suite.score(dataset, second, progress=False)
        spent += time.process_time() - start
        responses += len(dataset)
    return 1000 * spent / responses


def exact_ms(size: int = 20 * 1024, dimensions: int = 384, questions: int = 100) -> float:
    """Milliseconds of a core to search a million passages of a dimension for one question."""
    rng = np.random.default_rng(0)
    passages = [Passage(id=str(i), text=f"text {i}") for i in range(size)]
    index = DenseRetriever.build(
        passages, embedder=lambda texts: rng.normal(size=(len(texts), dimensions)), progress=False
    )
    asked = [Query(id=str(i), language="en", text=f"question {i}") for i in range(questions)]
    start = time.process_time()
    index.retrieve(asked, 50)
    return 1000 * (time.process_time() - start) / questions / dimensions * 1e6 / size


def journal_rate(text: str) -> float:
    """Responses a second that one driver writes."""
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "j", Response) as journal:
        rows = [Response(query_id=str(i), text=text) for i in range(5000)]
        return len(rows) / clocked(lambda: [journal.add(row) for row in rows])


def hammer(copy: object, count: int) -> None:
    """Ask the process that decides, again and again."""
    for _ in range(count):
        copy.ask("take", 0, 0.0)  # type: ignore[attr-defined]
        copy.ask("count", {"calls": 1})  # type: ignore[attr-defined]


def trips_rate(processes: int = 2, count: int = 5000) -> float:
    """Answers a second of the process that decides about budget and cache, to so many workers."""
    llm = LLM("m", base_url="http://localhost:1", cache=False, budget=Budget(calls=10**9))
    with sending("127.0.0.1"):
        copy = llm.__reduce__()[1][1]
    spawned = multiprocessing.get_context("spawn")
    with spawned.Pool(processes) as pool:
        pool.starmap(hammer, [(copy, 10)] * processes)  # imports
        work = [(copy, count)] * processes
        return 2 * processes * count / clocked(lambda: pool.starmap(hammer, work))


# The reckoning ------------------------------------------------------------------------------------


def options() -> argparse.Namespace:
    """What is assumed, each to be set."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default, what in (
        ("nodes", 64, "machines"),
        ("gpus", 8, "GPUs a machine"),
        ("cores", 64, "cores a machine"),
        ("queries", 10_000, "a language"),
        ("languages", 18, ""),
        ("retrievals", 10, "different ways to retrieve among the pipelines"),
        ("generators", 10, "so that pipelines are the product"),
        ("passages", 6_000_000, "a language (MIRACL has 106 million in 18)"),
        ("depth", 50, "passages reranked a query, in half of the ways"),
        ("prompt", 1500, "tokens of a prompt"),
        ("answer", 150, "tokens of an answer"),
        ("judgments", 495_000, "a language: 100 queries, all 4,950 pairs"),
        ("out_rate", 2500.0, "tokens a second that a GPU writes (assumed: 8B, batched, vLLM)"),
        ("in_rate", 20_000.0, "tokens a second that a GPU reads (assumed)"),
        ("embed_rate", 1500.0, "passages a second and GPU (assumed)"),
        ("pair_rate", 400.0, "pairs a second and GPU of a cross-encoder (assumed)"),
        ("dimensions", 1024, "of a vector"),
        ("bm25_ms", 20.0, "core-ms a question and million passages (asked of retrieval.py)"),
        ("gpu_hour", 2.5, "price of a GPU for an hour"),
        ("items_rate", 700.0, "items a second of Ray's driver (ray_overhead.py --ms 1)"),
    ):
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=type(default), default=default, help=what
        )
    return parser.parse_args()


def main() -> None:
    """Print the table."""
    o = options()
    text = "##Reason: " + "word " * (3 * o.answer // 4)
    per_response, writes, trips = feature_ms(), journal_rate(text), trips_rate()
    exact = exact_ms() * o.dimensions
    print(
        f"measured: {per_response:.2f} core-ms of features a response, {exact:,.0f} core-ms of "
        f"exact search a question and million vectors, {writes:,.0f} responses a second written, "
        f"{trips:,.0f} questions a second answered about budget and cache"
    )

    gpus, cores = o.nodes * o.gpus, o.nodes * o.cores
    asked = o.queries * o.languages
    responses = asked * o.retrievals * o.generators
    judged = o.judgments * o.languages
    passages = o.passages * o.languages
    call = o.prompt / o.in_rate + o.answer / o.out_rate  # GPU-seconds
    verdict = (2 * o.answer + o.prompt) / o.in_rate + o.answer / o.out_rate
    found = asked * o.retrievals / 2 * o.passages / 1e6
    steps = {
        "encode the corpora (once)": (passages / o.embed_rate, gpus, "GPU"),
        "search, half by BM25": (found * o.bm25_ms / 1000, 1, "driver"),
        "search, half exact by vectors": (found * exact / 1000, 1, "driver"),
        "rerank": (asked * o.retrievals / 2 * o.depth / o.pair_rate, gpus, "GPU"),
        "generate": (responses * call, gpus, "GPU"),
        "features": (responses * per_response / 1000, cores, "core"),
        "judge": (judged * verdict, gpus, "GPU"),
    }
    print(
        f"\n{responses:,} responses, {judged:,} verdicts, {passages:,} passages; "
        f"{gpus} GPUs, {cores:,} cores"
    )
    print(f"{'step':30}{'unit-hours':>12}{'hours here':>12}{'cost':>10}")
    for name, (seconds, units, unit) in steps.items():
        cost = f"{seconds / 3600 * o.gpu_hour:,.0f}" if unit == "GPU" else ""
        print(f"{name:30}{seconds / 3600:>12,.1f}{seconds / 3600 / units:>12.2f}{cost:>10}")
    total = sum(seconds / units for seconds, units, _ in steps.values()) / 3600
    alone = sum(seconds for seconds, _, unit in steps.values() if unit == "driver") / 3600
    money = sum(s for s, _, unit in steps.values() if unit == "GPU") / 3600 * o.gpu_hour
    print(f"{'all, if nothing gave way':30}{'':12}{total:>12.2f}{money:>10,.0f}")

    gib = 2**30
    row = len(Response(query_id="q", text=text).model_dump_json())
    print("\nheld and kept:")
    for what, size in {
        "driver: a run of one pipeline and language": o.queries * 3 * row,
        "driver: features of a language": o.queries * o.retrievals * o.generators * FEATURES * 8,
        "store: responses": responses * row,
        "cache of answers (one SQLite file)": (responses + judged) * (row + 100),
        "vectors of a language, float16": o.passages * 2 * o.dimensions,
        "vectors of all": passages * 2 * o.dimensions,
    }.items():
        print(f"    {what:44}{size / gib:>9,.2f} GiB")

    rate = gpus / call  # responses a second at full speed
    once = {
        "questions about budget and cache": (TRIPS * rate, trips),
        "responses written": (rate, writes),
        "items handed out, 16 calls each": (rate / 16, o.items_rate),
        "items handed out, a call each": (rate, o.items_rate),
    }
    print("\nwhat one driver does, while models answer at full speed:")
    print(f"    {'what':36}{'needed/s':>11}{'can/s':>11}{'share':>8}{'GPUs it feeds':>15}")
    ordered = sorted(once.items(), key=lambda item: item[1][1] / item[1][0])
    for what, (needed, can) in ordered:
        feeds = min(gpus, int(gpus * can / needed))
        print(f"    {what:36}{needed:>11,.0f}{can:>11,.0f}{needed / can:>8.1f}{feeds:>15,}")
    hours, each = responses * call / gpus / 3600, alone / o.languages
    print(f"\nfirst, search gives way: {alone:,.0f} of {total:,.0f} hours; {each:.1f} where each")
    print("language has a process of its own")
    for what, (needed, can) in ordered:
        if needed > can:
            slow = hours * needed / can
            print(f"then, {what}: generating takes {slow:.1f} h, not {hours:.1f}")


if __name__ == "__main__":
    main()
