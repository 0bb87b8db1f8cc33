"""ragas: conversion of ragas datasets, and features as metrics that need no API key or model.

    from ragas import EvaluationDataset, SingleTurnSample
    from mirage import FeatureSuite
    from mirage.integrations.ragas import FeatureMetric, read, to_samples

    sample = SingleTurnSample(
        user_input="Which is the longest river in Africa?",
        retrieved_contexts=["The Congo crosses the equator twice.", "The Nile is the longest."],
        reference_contexts=["The Nile is the longest."],
        response="It is the Nile [2].",
    )
    dataset, run = read(EvaluationDataset([sample]), language="en", model="my-rag")
    table = FeatureSuite(["citation_recall@10", "support_lexical"]).score(dataset, run)
    print(dict(zip(table.features, table.mean().tolist())))

    metric = FeatureMetric("citation_recall@10", language="en")
    print(metric.single_turn_score(sample))  # also: evaluate(..., metrics=[metric])
    assert read(to_samples(dataset, run), language="en", model="my-rag")[1] == run

A citation ``[2]`` refers to the second retrieved context. A retrieved context is relevant if it is
among the reference contexts, compared by id if there are ids, and otherwise by text; white space is
ignored. ``read(..., dataset=leaderboard.dataset)`` returns a run that the leaderboard ranks. ragas
itself sends usage statistics unless ``RAGAS_DO_NOT_TRACK=true`` is set in the environment.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

from mirage._base.logs import logger
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, needing
from mirage.features import FeatureSuite
from mirage.features.suite import FeatureLike
from mirage.integrations._contexts import records_of, score
from mirage.models import Query, Response, Run
from mirage.sources.contexts import Asked, query_of, response_to

with needing("ragas"):
    from ragas import EvaluationDataset, RunConfig, SingleTurnSample
    from ragas.metrics.base import SingleTurnMetric
    from ragas.metrics.result import MetricResult

__all__ = ["FeatureMetric", "read", "to_samples"]

_LOG = logger("mirage.integrations.ragas")
_NO_RESPONSE = "the sample has no response"


def read(
    data: EvaluationDataset,
    *,
    language: str,
    model: str = "model",
    name: str = "ragas",
    dataset: MirageDataset | None = None,
) -> tuple[MirageDataset, Run]:
    """Return a dataset with the queries of single-turn samples, and a run with their responses.

    Query ids are numbers from 1. A sample without a response becomes a failed response of
    the run.

    Args:
        data: The samples.
        language: ISO 639-1 code of the samples' language.
        model: Name of the run.
        name: Name of the dataset.
        dataset: The dataset whose queries were asked, such as the dataset of a leaderboard. The run
            then uses the ids of this dataset: queries and passages are matched by their texts.

    Raises:
        DatasetError: If a sample is multi-turn, has no ``user_input``, matches no query of
            ``dataset``, or is not valid; the message names the sample.
        UnknownNameError: If there is no such language.
    """
    answers = (
        (_query(sample, language, str(number), f"{name}, sample {number}"), sample.response)
        for number, sample in enumerate(data, 1)
    )
    return records_of(answers, model=model, name=name, error=_NO_RESPONSE, dataset=dataset)


def to_samples(dataset: MirageDataset, run: Run) -> EvaluationDataset:
    """Return a sample for each response; :func:`read` accepts the result.

    A sample has the ids and texts of its passages. Titles of passages, short answers, and whether a
    query is answerable are not stored.

    Args:
        dataset: The dataset.
        run: Responses to queries of the dataset.

    Raises:
        UnknownNameError: If the run answers a query that the dataset does not have.
    """
    return EvaluationDataset([_sample(dataset[response.query_id], response) for response in run])


def _sample(query: Query, response: Response) -> SingleTurnSample:
    passages = query.passages_shown_to(response)
    texts = {passage.id: passage.text for passage in query.passages}
    return SingleTurnSample(
        user_input=query.text,
        retrieved_contexts=[passage.text for passage in passages],
        retrieved_context_ids=[passage.id for passage in passages],
        reference_contexts=[texts.get(id_, "") for id_ in query.relevant],
        reference_context_ids=list(query.relevant),
        reference=query.reference,
        response=response.text,
    )


class FeatureMetric(SingleTurnMetric):
    """A ragas metric that computes a feature.

    It works with ``evaluate``, ``single_turn_score`` and ``ascore``.

    If a feature cannot be computed, its value is NaN, which ragas leaves out of its means. The
    reason is logged as a warning; ``ascore`` returns it in the result's ``reason`` instead.

    Args:
        feature: The name of a feature, a feature, or a function ``(query, response) -> float``.
        language: ISO 639-1 code of the samples' language.

    Raises:
        UnknownNameError: If there is no such feature or language.
    """

    def __init__(self, feature: FeatureLike, language: str) -> None:
        self.suite: FeatureSuite = FeatureSuite([feature], language)
        super().__init__(name=self.suite.names[0])

    def init(self, run_config: RunConfig) -> None:
        """Do nothing: the metric needs no preparation."""

    async def ascore(self, **fields: Any) -> MetricResult:
        """Return the score of a sample; if it is NaN, the result's ``reason`` explains why.

        ``fields`` are the arguments of ``SingleTurnSample``, such as ``response``.
        """
        return await asyncio.to_thread(self._result, SingleTurnSample(**fields))

    async def _single_turn_ascore(
        self,
        sample: SingleTurnSample,
        callbacks: Any,  # noqa: ARG002
    ) -> float:
        # In a thread, because features compute synchronously and would block the event loop.
        result = await asyncio.to_thread(self._result, sample)
        if result.reason:
            _LOG.warning(
                "%s of %.80r was not computed: %s", self.name, sample.user_input, result.reason
            )
        return float(result)

    def _result(self, sample: SingleTurnSample) -> MetricResult:
        query, shown_ids = _query(sample, str(self.suite.language), "1", "the sample")
        response = response_to(
            query.id, sample.response, error=_NO_RESPONSE, shown=shown_ids or None
        )
        values, reasons = score(self.suite, query, response)
        return MetricResult(values.get(self.name, math.nan), reasons.get(self.name))


def _query(sample: SingleTurnSample, language: str, id: str, where: str) -> Asked:
    if not isinstance(sample, SingleTurnSample):
        raise DatasetError(
            f"{where}: expected a single-turn sample, which has one response to score"
        )
    return query_of(
        where,
        id=id,
        language=language,
        text=sample.user_input,
        retrieved=sample.retrieved_contexts,
        reference=sample.reference,
        relevant=sample.reference_contexts,
        retrieved_ids=sample.retrieved_context_ids,
        relevant_ids=sample.reference_context_ids,
    )
