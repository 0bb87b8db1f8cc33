"""ragas: its datasets as ours and back; features as its metrics, which need no key and no model.

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

A citation ``[2]`` is the second retrieved context. Relevant are the retrieved contexts that are
among the reference contexts, by id where there are ids, else by text; blanks do not count.
``read(..., dataset=leaderboard.dataset)`` gives a run that the leaderboard ranks. ragas itself
sends usage statistics unless the environment has ``RAGAS_DO_NOT_TRACK=true``. Needs the extra
``ragas``.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

from mirage._base.logs import logger
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, missing_package
from mirage.features import FeatureSuite
from mirage.features.suite import FeatureLike
from mirage.integrations._contexts import records_of, score
from mirage.models import Query, Response, Run
from mirage.sources.contexts import Asked, query_of, response_to

try:
    from ragas import EvaluationDataset, RunConfig, SingleTurnSample
    from ragas.metrics.base import SingleTurnMetric
    from ragas.metrics.result import MetricResult
except ImportError as error:
    raise missing_package("ragas", "ragas") from error

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
    """The queries of single-turn samples and the responses to them; ids are numbers from 1.

    A sample without a response is a failure in the run.

    Args:
        data: the samples.
        language: they are in.
        model: the run's name.
        name: the dataset's.
        dataset: the queries that were asked, such as those of a leaderboard: the run is then on
            it. Samples and queries, and contexts and passages, go together by their texts.

    Raises:
        DatasetError: a sample is multi-turn, has no ``user_input``, asks no query of ``dataset``,
            or what else is wrong where.
        UnknownNameError: no such language.
    """
    answers = (
        (_query(sample, language, str(number), f"{name}, sample {number}"), sample.response)
        for number, sample in enumerate(data, 1)
    )
    return records_of(answers, model=model, name=name, error=_NO_RESPONSE, dataset=dataset)


def to_samples(dataset: MirageDataset, run: Run) -> EvaluationDataset:
    """A sample for each response, with the ids and texts of its passages; :func:`read` reads them.

    Titles of passages, short answers and whether a query has an answer have no place there.

    Raises:
        UnknownNameError: the run answers a query that the dataset does not have.
    """
    return EvaluationDataset([_sample(dataset[response.query_id], response) for response in run])


def _sample(query: Query, response: Response) -> SingleTurnSample:
    shown = query.passages_shown_to(response)
    texts = {passage.id: passage.text for passage in query.passages}
    return SingleTurnSample(
        user_input=query.text,
        retrieved_contexts=[passage.text for passage in shown],
        retrieved_context_ids=[passage.id for passage in shown],
        reference_contexts=[texts.get(id_, "") for id_ in query.relevant],
        reference_context_ids=list(query.relevant),
        reference=query.reference,
        response=response.text,
    )


class FeatureMetric(SingleTurnMetric):
    """A feature as a metric of ragas: for ``evaluate``, ``single_turn_score`` and ``ascore``.

    A feature that cannot be computed is NaN, which ragas leaves out of its means; the reason is
    logged as a warning, and is the ``reason`` of what ``ascore`` returns.

    Args:
        feature: a name, a feature, or a function ``(query, response) -> float``.
        language: of the samples.

    Raises:
        UnknownNameError: no such feature or language.
    """

    def __init__(self, feature: FeatureLike, language: str) -> None:
        self.suite: FeatureSuite = FeatureSuite([feature], language)
        super().__init__(name=self.suite.names[0])

    def init(self, run_config: RunConfig) -> None:
        """Nothing has to be prepared."""

    async def ascore(self, **fields: Any) -> MetricResult:
        """The score of a sample with these fields, and why there is none where it is NaN."""
        return await asyncio.to_thread(self._result, SingleTurnSample(**fields))

    async def _single_turn_ascore(
        self,
        sample: SingleTurnSample,
        callbacks: Any,  # noqa: ARG002
    ) -> float:
        result = await asyncio.to_thread(self._result, sample)
        if result.reason:
            _LOG.warning(
                "%s of %.80r not computed: %s", self.name, sample.user_input, result.reason
            )
        return float(result)

    def _result(self, sample: SingleTurnSample) -> MetricResult:
        query, shown = _query(sample, str(self.suite.language), "1", "the sample")
        response = response_to(query.id, sample.response, error=_NO_RESPONSE, shown=shown or None)
        values, reasons = score(self.suite, query, response)
        return MetricResult(values.get(self.name, math.nan), reasons.get(self.name))


def _query(sample: SingleTurnSample, language: str, id: str, where: str) -> Asked:
    if not isinstance(sample, SingleTurnSample):
        raise DatasetError(f"{where}: only single-turn samples have one response to score")
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
