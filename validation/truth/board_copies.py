"""How often the checks of a board flag responses as copied, for copying and for honest systems.

    python validation/truth/board_copies.py [DATA]

Honest responses are those of two LLMs in MTRAG (English, each compared with the references and with
the other one), and of three systems that quote the bundled passages in 18 languages. Systems that
copied are the simulated ones of the bundled boards which repeat the reference, one for each
language. ``DATA`` is the folder of ``mtrag/en.jsonl``, by default ``MIRAGE_DATA``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser

from mirage import MirageDataset, Passage, Query, Response, Run
from mirage.boards.copies import Copies
from mirage.boards.folders import Answer, Entry
from mirage.boards.records import Submission
from mirage.languages import LANGUAGES
from mirage.surrogate.pretraining import simulated_runs
from mirage.text import split_sentences, tokenize


def nearest(query: Query) -> str:
    """Return the sentence of the passages that shares most words with the question."""
    words = set(tokenize(query.text, query.language))
    sentences = [s for p in query.passages for s in split_sentences(p.text, query.language)]
    return max(sentences, key=lambda text: len(words & {*tokenize(text, query.language)}))


HONEST: dict[str, Callable[[Query], str]] = {
    "quotes the first passage": lambda query: query.passages[0].text,
    "quotes all passages": lambda query: " ".join(p.text for p in query.passages),
    "quotes the nearest sentence": nearest,
}


def entry(run: Run) -> Entry:
    """Return a run as a submission."""
    record = Submission(
        model="model", submitter="anna", date=date(2026, 1, 1), data={run.language: "0" * 64}
    )
    answers = tuple(Answer("", response) for response in run)
    return Entry(run.model, Path(), record, {run.language: answers})


def bundled(codes: list[str]) -> None:
    """Print in how many languages each system is called a copy of the references."""
    refused = dict.fromkeys([*HONEST, "repeats the reference"], 0)
    for code in codes:
        dataset = MirageDataset.bundled(code)
        copies = Copies(dataset)
        runs = {
            name: Run(
                model=name,
                language=code,
                responses=tuple(Response(query_id=q.id, text=system(q)) for q in dataset),
            )
            for name, system in HONEST.items()
        }
        runs["repeats the reference"] = simulated_runs(code, ("reference",))["reference"]
        for name, run in runs.items():
            refused[name] += bool(copies.of_references(run))
    for name, count in refused.items():
        print(f"{name}: refused in {count} of {len(codes)} languages")
        add_figure(count, name, "languages in which it is refused")


def mtrag(path: Path) -> None:
    """Print how many responses of LLMs repeat the reference, or each other."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    queries = {
        row["query_id"]: Query(
            id=row["query_id"],
            language="en",
            text=row["query"],
            passages=tuple(
                {p["id"]: Passage(id=p["id"], text=p["text"]) for p in row["passages"]}.values()
            ),
            reference=row["reference"],
        )
        for row in rows
    }
    copies = Copies(MirageDataset(queries.values(), name="mtrag"))
    for system in dict.fromkeys(row["system"] for row in rows):
        responses = tuple(
            Response(query_id=row["query_id"], text=row["response"])
            for row in rows
            if row["system"] == system
        )
        run = Run(model=system, language="en", responses=responses)
        same = max((count for _, count, _ in copies.of_earlier(entry(run), share=0)), default=0)
        refused = len(copies.of_references(run))
        print(f"{system}: {refused} of {len(responses)} called copies of the reference, {same} of "
              "another system")  # fmt: skip
        add_figure(refused, system, "copies of the reference")
        add_figure(same, system, "copies of another system")


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("data", nargs="?", type=Path)
    options = parser.parse_args()
    bundled(["en"] if options.quick else [*LANGUAGES])
    file = Path(options.data or os.environ.get("MIRAGE_DATA", ".")) / "mtrag" / "en.jsonl"
    if file.is_file():
        mtrag(file)
    else:
        print(f"MTRAG is left out: there is no {file}")
    save(parser, options)
