"""The files of scores in every format, and what is in them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from mirage.scores.records import ScoreFile

FILES = Path(__file__).parent / "files"
ITEMS = 24
WRONG = {"before": set(range(0, ITEMS, 6)), "after": set(range(0, ITEMS, 4))}
FAILED = {"before": set(), "after": {5, 11}}


class Case(NamedTuple):
    """A format: names of its files, a metric, repeats, and whether the metric can fail."""

    format: str
    before: str
    after: str
    metric: str
    repeats: int = 1
    fails: bool = True
    systems: tuple[str | None, str | None] = (None, None)


CASES = (
    Case("ragas", "ragas-before.csv", "ragas-after.csv", "exact_match"),
    Case("ragas", "ragas-before.csv", "ragas-after.json", "exact_match"),
    Case("deepeval", "deepeval-before.json", "deepeval-after.json", "Exact Match", fails=False),
    Case(
        *("promptfoo", "promptfoo.json", "promptfoo.json", "exact"),
        systems=("before", "after"),
    ),
    Case("inspect_ai", "inspect_ai-before.eval", "inspect_ai-after.eval", "match", 2),
    Case("inspect_ai", "inspect_ai-before.eval", "inspect_ai-after.json", "match", 2),
    Case("lm_eval", "lm_eval-before.jsonl", "lm_eval-after.jsonl", "exact_match", fails=False),
    Case(
        *("pydantic_evals", "pydantic_evals-before.json", "pydantic_evals-after.json"),
        *("EqualsExpected", 2),
    ),
    Case("phoenix", "phoenix-before.json", "phoenix-after.json", "exact"),
    Case("langfuse", "langfuse-before.json", "langfuse-after.json", "exact"),
    Case(
        *("trulens", "trulens.csv", "trulens.csv", "exact"),
        fails=False,
        systems=("numbers before", "numbers after"),
    ),
    Case("otel", "otel-before.json", "otel-after.json", "exact"),
)


def counts(file: ScoreFile, metric: str) -> tuple[int, int, int]:
    """Return how many scores of a metric are 1, 0, and failed."""
    values = [
        entry.scores.get(metric, math.nan)
        for entry in file.entries
        if metric in entry.scores or entry.failure
    ]
    return values.count(1.0), values.count(0.0), sum(map(math.isnan, values))


def expected(system: str, case: Case) -> tuple[int, int, int]:
    """Return what :func:`counts` returns for a system."""
    failed = len(FAILED[system]) if case.fails else 0
    wrong = len(WRONG[system])
    return tuple(n * case.repeats for n in (ITEMS - wrong - failed, wrong, failed))
