"""Evaluation sets from retrieval datasets (MIRAGE-Bench, arXiv 2410.13716, section 3.1)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, SettingError
from mirage.languages import LANGUAGES
from mirage.sources import trec

DropReason = Literal[
    "no topic", "no judgment", "no relevant passage", "no non-relevant passage", "not sampled"
]
"""The reason why a query of the topics or qrels is not in the benchmark."""


@dataclass(frozen=True)
class Recipe:
    """The numbers of queries to draw for a benchmark.

    Attributes:
        sample: The largest number of queries to draw from those with both relevant and non-relevant
            passages; ``None`` takes all of them.
        relevant_only: The largest number of queries to draw from those whose judged passages are
            all relevant.

    Raises:
        SettingError: If a number is below 0.
    """

    sample: int | None = None
    relevant_only: int = 0

    def __post_init__(self) -> None:
        if min(self.sample or 0, self.relevant_only) < 0:
            raise SettingError(f"all numbers of a recipe must be at least 0, got {self}")


# The paper has 150 queries for Telugu (Table 1), 72 of them with relevant passages only. That
# leaves 78 of the 84 queries with both kinds of passages. The qrels do not show which six the paper
# left out, so 78 of the 84 are drawn at random.
MIRACL_RECIPE: Mapping[str, Recipe] = MappingProxyType(
    {code: Recipe() for code in LANGUAGES}
    | {"ar": Recipe(sample=1501), "te": Recipe(sample=78, relevant_only=72)}
)
"""The numbers of queries that MIRAGE-Bench took from MIRACL's development topics, by language."""


class Benchmark(NamedTuple):
    """An evaluation set that was selected from a retrieval dataset.

    Attributes:
        dataset: The selected queries.
        dropped: The reason why each of the other queries was dropped, by query id.
    """

    dataset: MirageDataset
    dropped: dict[str, DropReason]


def build_benchmark(
    topics: str | Path,
    qrels: str | Path,
    passages: str | Path | None = None,
    *,
    language: str,
    recipe: Recipe | None = None,
    seed: int = 0,
) -> Benchmark:
    """Build an evaluation set from a retrieval dataset's TREC files (MIRAGE-Bench, section 3.1).

    A query is kept if at least one of its passages is judged relevant and at least one is judged
    not relevant. Both are needed to test whether a model finds the answer among irrelevant
    passages. A recipe may add queries whose judged passages are all relevant. The files have the
    formats of :meth:`MirageDataset.from_trec`.

    Args:
        topics: File with lines ``id<TAB>text``.
        qrels: File with lines ``id Q0 passage-id relevance``; above 0 is relevant.
        passages: JSON Lines file with every judged passage. If it is given, a query shows all
            passages that were judged for it. By default, queries show no passages.
        language: ISO 639-1 code of the queries.
        recipe: The number of queries to draw, such as ``MIRACL_RECIPE["ar"]``; by default all
            queries with both kinds of passages.
        seed: Random seed for drawing queries.

    Raises:
        DatasetError: If a file is invalid (the message names the file and the line), or if no query
            is left (the message gives the reasons).
        UnknownNameError: If the language is unknown.
    """
    dataset = MirageDataset.from_trec(topics, qrels, passages, language=language)
    grades = trec.read_qrels(Path(qrels))
    dropped = _drop_reasons(dataset.query_ids, grades, recipe or Recipe(), seed)
    queries = [query for query in dataset if query.id not in dropped]
    if not queries:
        raise DatasetError(
            f"{topics}: no query is left for a benchmark ({reason_counts(dropped.values())}); "
            f"check that {qrels} has the qrels for these topics"
        )
    return Benchmark(MirageDataset(queries, name=dataset.name), dropped)


def _drop_reasons(
    topic_ids: Iterable[str], grades: Mapping[str, Mapping[str, int]], recipe: Recipe, seed: int
) -> dict[str, DropReason]:
    reasons = {query_id: _reason_to_drop(grades.get(query_id, {})) for query_id in topic_ids}
    complete = [query_id for query_id, reason in reasons.items() if reason is None]
    relevant_only = [
        query_id for query_id, reason in reasons.items() if reason == "no non-relevant passage"
    ]
    sample = len(complete) if recipe.sample is None else recipe.sample
    members = {*_draw(complete, sample, seed), *_draw(relevant_only, recipe.relevant_only, seed)}
    dropped: dict[str, DropReason] = {
        query_id: reason or "not sampled"
        for query_id, reason in reasons.items()
        if query_id not in members
    }
    return dropped | {query_id: "no topic" for query_id in grades if query_id not in reasons}


def _reason_to_drop(grades: Mapping[str, int]) -> DropReason | None:
    """Return the reason to drop a query with these grades of passages, or ``None`` to keep it."""
    if not grades:
        return "no judgment"
    if max(grades.values()) <= 0:
        return "no relevant passage"
    if min(grades.values()) > 0:
        return "no non-relevant passage"
    return None


def _draw(query_ids: Sequence[str], n: int, seed: int) -> list[str]:
    return random.Random(seed).sample(query_ids, min(n, len(query_ids)))


def reason_counts(reasons: Iterable[str]) -> str:
    """Return counts such as ``no judgment: 3, not sampled: 2``, the most frequent first."""
    return ", ".join(f"{reason}: {n}" for reason, n in Counter(reasons).most_common())
