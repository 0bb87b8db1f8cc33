"""From a retrieval dataset to an evaluation set (MIRAGE-Bench, arXiv 2410.13716, section 3.1)."""

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

__all__ = ["MIRACL_RECIPE", "Benchmark", "DropReason", "Recipe", "build_benchmark"]

DropReason = Literal[
    "no topic", "no judgment", "no relevant passage", "no non-relevant passage", "not sampled"
]
"""Why a query of the topics or qrels is not in the benchmark."""


@dataclass(frozen=True)
class Recipe:
    """How many of the judged queries become a benchmark.

    Attributes:
        sample: draw at most this many of the queries with both relevant and non-relevant passages;
            ``None`` takes all of them.
        relevant_only: draw at most this many of the queries whose judged passages are all relevant.

    Raises:
        SettingError: a number is below 0.
    """

    sample: int | None = None
    relevant_only: int = 0

    def __post_init__(self) -> None:
        if min(self.sample or 0, self.relevant_only) < 0:
            raise SettingError(f"a recipe holds numbers of queries, 0 or more, not {self}")


# For Telugu the paper gives 150 queries (Table 1), of which 72 have relevant passages only, so 78
# are left for the 84 that have both. Nothing in the qrels sets six of these apart: all is drawn.
MIRACL_RECIPE: Mapping[str, Recipe] = MappingProxyType(
    {code: Recipe() for code in LANGUAGES}
    | {"ar": Recipe(sample=1501), "te": Recipe(sample=78, relevant_only=72)}
)
"""What MIRAGE-Bench took of MIRACL's development topics, by language."""


class Benchmark(NamedTuple):
    """An evaluation set, and why each other query of the topics or the qrels is not in it."""

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
    """An evaluation set from a retrieval dataset's TREC files (MIRAGE-Bench, section 3.1).

    A query is kept if at least one passage is judged relevant for it and at least one is judged
    not relevant, which is what it takes to see whether a model finds the answer amid noise. The
    files are those of :meth:`MirageDataset.from_trec`: with a file of passages a query shows all
    passages judged for it, without one it shows none.

    Args:
        topics: lines ``id<TAB>text``.
        qrels: lines ``id Q0 passage-id relevance``; above 0 is relevant.
        passages: JSON Lines of passages, with every passage judged for a topic.
        recipe: how many queries to draw, such as ``MIRACL_RECIPE["ar"]``; by default every one
            that has both kinds of passages.

    Raises:
        DatasetError: names the file and the line; or no query is left, with the reasons.
        UnknownNameError: no such language.
    """
    dataset = MirageDataset.from_trec(topics, qrels, passages, language=language)
    grades = trec.read_qrels(Path(qrels))
    dropped = _dropped(dataset.query_ids, grades, recipe or Recipe(), seed)
    queries = [query for query in dataset if query.id not in dropped]
    if not queries:
        raise DatasetError(
            f"{topics}: no query is left for a benchmark ({reason_counts(dropped.values())}); is "
            f"{qrels} the file of its qrels?"
        )
    return Benchmark(MirageDataset(queries, name=dataset.name), dropped)


def _dropped(
    topic_ids: Iterable[str], grades: Mapping[str, Mapping[str, int]], recipe: Recipe, seed: int
) -> dict[str, DropReason]:
    lacks = {query_id: _lack(grades.get(query_id, {})) for query_id in topic_ids}
    both = [query_id for query_id, lack in lacks.items() if lack is None]
    bare = [query_id for query_id, lack in lacks.items() if lack == "no non-relevant passage"]
    sample = len(both) if recipe.sample is None else recipe.sample
    members = {*_draw(both, sample, seed), *_draw(bare, recipe.relevant_only, seed)}
    dropped: dict[str, DropReason] = {
        query_id: lack or "not sampled"
        for query_id, lack in lacks.items()
        if query_id not in members
    }
    return dropped | {query_id: "no topic" for query_id in grades if query_id not in lacks}


def _lack(grades: Mapping[str, int]) -> DropReason | None:
    """What a query with these judgments lacks to be evaluated on."""
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
    """Such as ``no judgment: 3, not sampled: 2``, the most frequent first."""
    return ", ".join(f"{reason}: {n}" for reason, n in Counter(reasons).most_common())
