"""How the time of readers, parsers, features, fits and pages grows if data are 8 times larger.

    python validation/recovery/growth.py [--only NAME]

Prints the processor seconds at both sizes and their ratio: 8 is linear, 64 is quadratic. Fits grow
with the square or the third power of the number of models, so their number has a limit
(``mirage.arena.bradley_terry.MOST_MODELS``), and the table shows the largest fit allowed.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser

from mirage import FeatureSuite, Judgments, MirageDataset, Ranking, Run
from mirage.arena.bradley_terry import MOST_MODELS
from mirage.arena.judgment_files import read_votes
from mirage.features.nuggets import read_labels, read_nuggets
from mirage.features.rated import read_fluency
from mirage.llm.questions import final_verdict
from mirage.models import Passage, Query, Response
from mirage.retrieval import RetrievalRun, evaluate
from mirage.testsets.item_questions import _object

WORDS = "The bridge opened in 1998 and is 1,410 metres long, as its keeper said on 4 May. "
PIECES = ("{", "[", "(", "1", "1 ", "1 May ", "1999 ", "Aa ", "**", "http://", "##Answer:", WORDS)


def queries(number: int) -> list[Query]:
    """Return queries with two passages each."""
    passages = tuple(Passage(id=f"p{i}", text=WORDS) for i in range(2))
    return [
        Query(id=f"q{i}", language="en", text=WORDS, passages=passages, relevant=("p1",))
        for i in range(number)
    ]


def run_of(texts: list[str]) -> Run:
    """Return a run with one response per text."""
    responses = tuple(Response(query_id=f"q{i}", text=text) for i, text in enumerate(texts))
    return Run(model="m", language="en", responses=responses)


def judgments(models: int) -> Judgments:
    """Return ten verdicts per model."""
    rng = np.random.default_rng(models)
    a = np.arange(10 * models) % models
    b = (a + rng.integers(1, models, len(a))) % models
    won = (rng.random(len(a)) < 0.5).astype(float)
    return Judgments.from_arrays(
        query=rng.integers(0, 100, len(a)), model_a=a, model_b=b, score=won
    )


def chain(models: int) -> Judgments:
    """Return verdicts in which every model beat only the next one: as many groups as models."""
    a = np.arange(4 * (models - 1)) % (models - 1)
    return Judgments.from_arrays(
        query=np.arange(len(a)) % 50, model_a=a, model_b=a + 1, score=np.ones(len(a))
    )


def score_text(piece: str) -> Callable[[int], Callable[[], object]]:
    """Score a response that repeats one piece of text."""
    suite = FeatureSuite.default("en")

    def prepare(size: int) -> Callable[[], object]:
        dataset, text = MirageDataset(queries(1), name="one"), (piece * size)[:size]
        return lambda: suite.score(dataset, run_of([f"##Answer: {text}"]))

    return prepare


def read_answers(piece: str) -> Callable[[int], Callable[[], object]]:
    """Read an LLM's answer that repeats one piece, with every reader of such answers."""

    def prepare(size: int) -> Callable[[], object]:
        text = (piece * size)[:size]
        return lambda: (
            _object(text),
            read_nuggets(text),
            read_labels(text, 3),
            read_fluency(text),
            final_verdict(text, ("A", "B")),
        )

    return prepare


def files(folder: Path) -> dict[str, tuple[int, Callable[[int], Callable[[], object]]]]:
    """Return readers of files by name, each with its smaller size."""

    def dataset(size: int) -> Callable[[], object]:
        path = folder / f"queries-{size}.jsonl"
        MirageDataset(queries(size), name="many").save(path)
        return lambda: MirageDataset.load(path)

    def responses(size: int) -> Callable[[], object]:
        path = folder / f"run-{size}.jsonl"
        run_of([WORDS] * size).save(path)
        return lambda: Run.load(path, model="m", language="en")

    def trec(size: int) -> Callable[[], object]:
        path = folder / f"run-{size}.trec"
        hits = {f"q{i}": {f"p{j}": -float(j) for j in range(10)} for i in range(size)}
        RetrievalRun.of(hits).write(path)
        return lambda: RetrievalRun.read(path)

    def missing(size: int) -> Callable[[], object]:
        run = RetrievalRun.of({f"q{i}": {"p1": 1.0} for i in range(size)})
        relevance = {f"q{i}": {"p1": 1} for i in range(2 * size)}
        return lambda: evaluate(run, relevance, ["R@5"])

    def votes(size: int) -> Callable[[], object]:
        path = folder / f"votes-{size}.jsonl"
        row = {"model_a": "a", "model_b": "b", "verdict": "a", "judge": "j"}
        lines = (json.dumps({"query_id": f"q{i}", **row}) for i in range(size))
        path.write_text("\n".join(lines), encoding="utf-8")
        return lambda: read_votes(path)

    return {
        "read queries": (8000, dataset),
        "read responses": (8000, responses),
        "read a TREC run": (2000, trec),
        "measure a run, half of the queries missing": (2000, missing),
        "read votes": (4000, votes),
    }


def pages(folder: Path) -> dict[str, tuple[int, Callable[[int], Callable[[], object]]]]:
    """Return fits and pages by name, each with its smaller size."""

    def fit(size: int) -> Callable[[], object]:
        columns = judgments(size)
        return lambda: Ranking.from_judgments(columns)

    def fit_chain(size: int) -> Callable[[], object]:
        columns = chain(size)
        return lambda: Ranking.from_judgments(columns)

    def show(size: int) -> Callable[[], object]:
        columns = judgments(size)
        return lambda: str(Ranking.from_judgments(columns))

    def page(size: int) -> Callable[[], object]:
        columns = judgments(size)
        return lambda: Ranking.from_judgments(columns).write(folder / f"{size}.html")

    most = MOST_MODELS // 8
    return {
        "fit a ranking": (most, fit),
        "fit a chain of models": (most, fit_chain),
        "print a ranking": (most, show),
        "write a page": (40, page),
    }


def seconds(work: Callable[[], Any]) -> float:
    """Return the processor time of a call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Print a line per path."""
    parser = script_parser(__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="paths whose name holds this")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = {
            **{f"score {piece[:12]!r}": (6000, score_text(piece)) for piece in PIECES},
            **{f"read {piece[:12]!r}": (20000, read_answers(piece)) for piece in PIECES},
            **files(folder),
            **pages(folder),
        }
        print(f"{'path':44} {'n':>6} {'s at n':>8} {'s at 8n':>8} {'ratio':>6}")
        for label, (size, prepare) in paths.items():
            if options.only in label:
                size = size // 20 if options.quick else size
                prepare(min(size, 50))()  # imports and caches
                small, large = (seconds(prepare(factor * size)) for factor in (1, 8))
                times = f"{small:8.3f} {large:8.3f} {large / small:6.1f}"
                print(f"{label:44} {size:6} {times}", flush=True)
                add_figure(small, label, "s at n")
                add_figure(large, label, "s at 8 n")
                add_figure(large / small if small else np.nan, label, "ratio")
    save(parser, options)


if __name__ == "__main__":
    main()
