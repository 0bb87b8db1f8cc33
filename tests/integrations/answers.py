"""Answers of different quality to the queries of a dataset, and their feature table."""

from __future__ import annotations

from mirage.dataset import MirageDataset
from mirage.features import FeatureSuite, FeatureTable
from mirage.generation import RagPrompt
from mirage.models import Query, Response, Run


def answer(query: Query, number: int) -> str:
    """Return by number the reference, citations by position, an uncited English text or nothing."""
    reference = query.reference or ""
    return (reference, f"{query.passages[0].text} [1][3]", "I do not know.", "")[number % 4]


def answers(dataset: MirageDataset) -> dict[str, str]:
    """Return an answer to each query by its id."""
    return {query.id: answer(query, number) for number, query in enumerate(dataset)}


def table(dataset: MirageDataset, suite: FeatureSuite, failed: str = "") -> FeatureTable:
    """Return the suite's feature table for :func:`answers` to the prompts of :class:`RagPrompt`."""
    responses = [
        Response(query_id=query_id, text=None, error="out of memory")
        if query_id == failed
        else Response(query_id=query_id, text=text, shown=RagPrompt()(dataset[query_id]).shown)
        for query_id, text in answers(dataset).items()
    ]
    run = Run(model="m", language=dataset.language, responses=tuple(responses))
    return suite.score(dataset, run)
