"""Evaluations as other tools write them, sound or with one planted defect."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ITEMS = 60


class Row(NamedTuple):
    """One answer of one system to one item, with a score of a judge and a binary one."""

    item: str
    question: str
    document: str
    answer: str
    quality: float | None
    correct: float | None
    repeat: int = 1


Sides = dict[str, list[Row]]
Defect = Callable[[Sides, np.random.Generator], None]


def sound(rng: np.random.Generator, items: int = ITEMS, repeats: int = 1) -> Sides:
    """Return an evaluation of two systems with nothing wrong."""
    sides: Sides = {"main": [], "pr": []}
    hard = rng.uniform(0.35, 0.9, items)
    documents = rng.permutation(np.arange(items) // 3)
    for rows in sides.values():
        for number in range(items):
            for repeat in range(1, repeats + 1):
                quality = round(float(rng.beta(8 * hard[number], 8 * (1 - hard[number]))), 3)
                rows.append(
                    Row(
                        f"item {number}",
                        f"What does rule {number} of the handbook say?",
                        f"chapter {documents[number]}",
                        "word " * int(rng.integers(5, 40)),
                        quality,
                        float(rng.random() < hard[number]),
                        repeat,
                    )
                )
    return sides


def change(rows: list[Row], numbers: Any, **values: Any) -> None:
    for number in numbers:
        rows[number] = rows[number]._replace(**values)


def failures(sides: Sides, rng: np.random.Generator) -> None:
    change(sides["pr"], rng.choice(ITEMS, 7, replace=False), quality=None)


def one_sided(sides: Sides, rng: np.random.Generator) -> None:
    gone = set(rng.choice(ITEMS, 8, replace=False).tolist())
    sides["pr"][:] = [row for number, row in enumerate(sides["pr"]) if number not in gone]


def duplicates(sides: Sides, rng: np.random.Generator) -> None:
    for rows in sides.values():
        rows += [rows[number] for number in rng.choice(ITEMS, 5, replace=False)]


def clusters(sides: Sides, rng: np.random.Generator) -> None:
    for rows in sides.values():
        levels = {row.document: float(rng.choice([0.15, 0.5, 0.9])) for row in rows}
        rows[:] = [
            row._replace(
                quality=round(float(np.clip(rng.normal(levels[row.document], 0.07), 0, 1)), 3)
            )
            for row in rows
        ]


def ceiling(sides: Sides, rng: np.random.Generator) -> None:
    for rows in sides.values():
        kept = set(rng.choice(ITEMS, 4, replace=False).tolist())
        change(rows, set(range(ITEMS)) - kept, quality=1.0)


def one_label(sides: Sides, rng: np.random.Generator) -> None:
    level = float(rng.choice([0.0, 0.5, 1.0]))
    change(sides["pr"], range(ITEMS), quality=level)


def ties(sides: Sides, rng: np.random.Generator) -> None:
    differing = set(rng.choice(ITEMS, 3, replace=False).tolist())
    for number in set(range(ITEMS)) - differing:
        change(sides["pr"], [number], quality=sides["main"][number].quality)


def too_few(sides: Sides, rng: np.random.Generator) -> None:
    for rows in sides.values():
        del rows[int(rng.integers(6, 20)) :]


def repeats(sides: Sides, rng: np.random.Generator) -> None:
    sides |= sound(rng, repeats=3)
    for rows in sides.values():
        rows[:] = [row._replace(quality=round(float(rng.random()), 3)) for row in rows]


def length(sides: Sides, rng: np.random.Generator) -> None:
    for rows in sides.values():
        rows[:] = [
            row._replace(
                quality=round(float(np.clip(len(row.answer) / 200 + rng.normal(0, 0.12), 0, 1)), 3)
            )
            for row in rows
        ]


DEFECTS: Mapping[str, tuple[str, Defect]] = {
    "failures": ("failures", failures),
    "one-sided": ("one-sided items", one_sided),
    "duplicates": ("duplicates", duplicates),
    "clusters": ("clusters", clusters),
    "ceiling": ("ceiling", ceiling),
    "one label": ("one label", one_label),
    "ties": ("ties", ties),
    "too few": ("too few items", too_few),
    "repeats": ("repeats", repeats),
    "length": ("length", length),
}
"""The defects: the kind of the finding, and the function that plants it."""


# Formats ------------------------------------------------------------------------------------------


def ragas(sides: Sides, folder: Path) -> list[Path]:
    paths = []
    for name, rows in sides.items():
        paths.append(folder / f"{name}.csv")
        with paths[-1].open("w", newline="") as file:
            writer = csv.writer(file)
            names = ("user_input", "retrieved_contexts", "response", "reference")
            writer.writerow((*names, "faithfulness", "exact_match"))
            for row in rows:
                contexts = f"['The text of {row.document}.']"
                scores = ["" if each is None else each for each in (row.quality, row.correct)]
                writer.writerow((row.question, contexts, row.answer, "a rule", *scores))
    return paths


def deepeval(sides: Sides, folder: Path) -> list[Path]:
    paths = []
    for name, rows in sides.items():
        cases = []
        for order, row in enumerate(rows):
            metrics = [
                {"name": metric, "threshold": 0.5, "success": bool(score and score >= 0.5)}
                | ({"error": "no verdict"} if score is None else {"score": score})
                for metric, score in (("Faithfulness", row.quality), ("Exact Match", row.correct))
            ]
            cases.append(
                {
                    "name": f"test_case_{order}",
                    "input": row.question,
                    "actualOutput": row.answer,
                    "retrievalContext": [f"The text of {row.document}."],
                    "metadata": {"document": row.document},
                    "metricsData": metrics,
                }
            )
        paths.append(folder / f"{name}.json")
        paths[-1].write_text(json.dumps({"testCases": cases, "conversationalTestCases": []}))
    return paths


def promptfoo(sides: Sides, folder: Path) -> list[Path]:
    results = []
    for name, rows in sides.items():
        for row in rows:
            named = {"faithfulness": row.quality, "correct": row.correct}
            failed = None in named.values()
            results.append(
                {
                    "vars": {"question": row.question, "document": row.document},
                    "provider": {"id": "file://rag.js", "label": name},
                    "prompt": {"raw": row.question, "label": "{{question}}"},
                    "response": {} if failed else {"output": row.answer},
                    "score": 0 if failed else (row.quality or 0) / 2 + (row.correct or 0) / 2,
                    "namedScores": {} if failed else named,
                    "failureReason": 2 if failed else 0,
                    "error": "timeout" if failed else None,
                }
            )
    path = folder / "results.json"
    path.write_text(json.dumps({"evalId": "e", "results": {"version": 3, "results": results}}))
    return [path]


def inspect_ai(sides: Sides, folder: Path) -> list[Path]:
    paths = []
    for name, rows in sides.items():
        samples = []
        for row in rows:
            failed = row.quality is None
            scores = {
                "judge": {"value": row.quality},
                "match": {"value": "C" if row.correct else "I"},
            }
            samples.append(
                {
                    "id": row.item,
                    "epoch": row.repeat,
                    "input": row.question,
                    "metadata": {"document": row.document},
                    "output": {"completion": row.answer},
                    "scores": {} if failed else scores,
                    "error": {"message": "timeout"} if failed else None,
                }
            )
        paths.append(folder / f"{name}.json")
        document = {"eval": {"task": "t", "model": f"mock/{name}"}, "samples": samples}
        paths[-1].write_text(json.dumps(document))
    return paths


def table(sides: Sides, folder: Path) -> list[Path]:
    path = folder / "scores.jsonl"
    rows = [
        {
            "id": row.item,
            "question": row.question,
            "metric": metric,
            "score": score,
            "system": name,
            "document": row.document,
            "answer": row.answer,
            "repeat": row.repeat,
        }
        for name, part in sides.items()
        for row in part
        for metric, score in (("quality", row.quality), ("correct", row.correct))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [path]


TOOLS: Mapping[str, Callable[[Sides, Path], list[Path]]] = {
    "ragas": ragas,
    "deepeval": deepeval,
    "promptfoo": promptfoo,
    "inspect_ai": inspect_ai,
    "table": table,
}
