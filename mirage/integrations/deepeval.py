"""DeepEval: conversion of test cases, and features as metrics that need no API key or model.

    from deepeval import evaluate
    from deepeval.evaluate import ErrorConfig
    from deepeval.test_case import LLMTestCase
    from mirage import FeatureSuite
    from mirage.integrations.deepeval import FeatureMetric, read, to_cases

    case = LLMTestCase(
        input="Which is the longest river in Africa?",
        actual_output="It is the Nile [2].",
        retrieval_context=["The Congo crosses the equator twice.", "The Nile is the longest."],
        context=["The Nile is the longest."],
    )
    dataset, run = read([case], language="en", model="my-rag")
    table = FeatureSuite(["citation_recall@10", "support_lexical"]).score(dataset, run)
    print(dict(zip(table.features, table.mean().tolist())))

    metric = FeatureMetric("citation_recall@10", language="en", threshold=0.6)
    metric.measure(case)  # also: assert_test(case, [metric])
    print(metric.score, metric.success, metric.reason)
    assert read(to_cases(dataset, run), language="en", model="my-rag")[1] == run

    # A query that no passage answers has no citation_recall@10; the error would end the evaluation.
    evaluate([case], metrics=[metric], error_config=ErrorConfig(skip_on_missing_params=True))

A citation ``[2]`` refers to the second text of ``retrieval_context``. A retrieved text is relevant
if it is in ``context`` too; white space is ignored. ``read(..., dataset=leaderboard.dataset)``
returns a run that the leaderboard ranks. DeepEval itself sends usage statistics unless
``DEEPEVAL_TELEMETRY_OPT_OUT=1`` is set in the environment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from mirage.dataset import MirageDataset
from mirage.errors import HARNESSES, DatasetError, MissingPackageError, needing
from mirage.features import FeatureSuite
from mirage.features.suite import FeatureLike
from mirage.integrations._contexts import records_of, score
from mirage.models import Query, Response, Run
from mirage.sources.contexts import Asked, query_of, response_to

with needing("deepeval"):
    import deepeval
    from deepeval.dataset import EvaluationDataset
    from deepeval.errors import MissingTestCaseParamsError
    from deepeval.metrics import BaseMetric
    from deepeval.test_case import LLMTestCase

if "metadata" not in LLMTestCase.__annotations__:  # additional_metadata before version 4
    raise MissingPackageError(
        f"deepeval {deepeval.__version__} is too old; install another version with: pip install "
        f"{HARNESSES['deepeval']}"
    )

__all__ = ["FeatureMetric", "read", "to_cases"]

_NO_OUTPUT = "the test case has no actual_output"
_IDS = "mirage_passage_ids"
_QUERY_ID = "mirage_query_id"
_RELEVANT = "mirage_relevant_ids"


def read(
    cases: EvaluationDataset | Iterable[LLMTestCase],
    *,
    language: str,
    model: str = "model",
    name: str = "deepeval",
    dataset: MirageDataset | None = None,
) -> tuple[MirageDataset, Run]:
    """Return a dataset with the queries of test cases, and a run with their responses.

    Query ids are numbers from 1; cases from :func:`to_cases` keep their ids. A case without an
    ``actual_output`` becomes a failed response of the run.

    Args:
        cases: The test cases.
        language: ISO 639-1 code of the test cases' language.
        model: Name of the run.
        name: Name of the dataset.
        dataset: The dataset whose queries were asked, such as the dataset of a leaderboard. The run
            then uses the ids of this dataset: queries and passages are matched by their texts.

    Raises:
        DatasetError: If a case is a conversation, has no input, matches no query of ``dataset``, or
            is not valid; the message names the case.
        UnknownNameError: If there is no such language.
    """
    listed = cases.test_cases if isinstance(cases, EvaluationDataset) else cases
    answers = (
        (_query(case, language, str(number), f"{name}, test case {number}"), case.actual_output)
        for number, case in enumerate(listed, 1)
    )
    return records_of(answers, model=model, name=name, error=_NO_OUTPUT, dataset=dataset)


def to_cases(dataset: MirageDataset, run: Run) -> list[LLMTestCase]:
    """Return a test case for each response; :func:`read` accepts the result.

    The ids of queries and passages are stored in ``metadata``. Titles of passages, short answers,
    and whether a query is answerable are not stored.

    Args:
        dataset: The dataset.
        run: Responses to queries of the dataset.

    Raises:
        UnknownNameError: If the run answers a query that the dataset does not have.
    """
    return [_case(dataset[response.query_id], response) for response in run]


def _case(query: Query, response: Response) -> LLMTestCase:
    passages = query.passages_shown_to(response)
    texts = {passage.id: passage.text for passage in query.passages}
    return LLMTestCase(
        input=query.text,
        actual_output=response.text,
        expected_output=query.reference,
        retrieval_context=[passage.text for passage in passages],
        context=[texts[id_] for id_ in query.relevant if id_ in texts],
        name=query.id,
        metadata={
            _QUERY_ID: query.id,
            _IDS: [passage.id for passage in passages],
            _RELEVANT: list(query.relevant),
        },
    )


class FeatureMetric(BaseMetric):
    """A DeepEval metric that computes a feature.

    A test case passes if its score is at least ``threshold``, or at most ``threshold`` if the
    feature declares that lower is better (:class:`mirage.features.Facts`).

    If a feature cannot be computed, ``measure`` raises DeepEval's ``MissingTestCaseParamsError``
    with the reason. DeepEval's own metrics raise the same error if a test case lacks a value.
    ``ErrorConfig(skip_on_missing_params=True)`` skips such a metric, and
    ``ErrorConfig(ignore_errors=True)`` records an error without a score.

    Args:
        feature: The name of a feature, a feature, or a function ``(query, response) -> float``.
        language: ISO 639-1 code of the test cases' language.
        threshold: The worst score with which a test case passes. ``None`` gives scores without a
            verdict; ``evaluate`` needs at least one metric with a threshold.

    Raises:
        UnknownNameError: If there is no such feature or language.
    """

    score: float | None = None
    success: bool | None = None
    reason: str | None = None
    _required_params = ()

    def __init__(
        self, feature: FeatureLike, language: str, *, threshold: float | None = None
    ) -> None:
        # To copy a metric, DeepEval passes the attributes that have the names of the arguments.
        self.feature: FeatureLike = feature
        self.language: str = language
        self.threshold: float | None = threshold
        self.suite: FeatureSuite = FeatureSuite([feature], language)

    @property
    def __name__(self) -> str:
        return self.suite.names[0]

    def measure(self, test_case: LLMTestCase, *_: Any, **__: Any) -> float:
        """Return the score of a test case.

        Also set the attributes :attr:`score`, :attr:`success` (whether the test case passes;
        ``None`` without a threshold) and :attr:`reason` (an explanation as text).
        """
        query, shown_ids = _query(test_case, self.language, "1", "the test case")
        text = test_case.actual_output
        response = response_to(query.id, text, error=_NO_OUTPUT, shown=shown_ids or None)
        self.score, self.error, self.success, self.reason = None, None, None, None
        values, reasons = score(self.suite, query, response)
        if reasons:
            self.reason = f"{self.__name__} not computed: {reasons[self.__name__]}"
            raise MissingTestCaseParamsError(self.reason)
        self.score = values[self.__name__]
        self.is_successful()
        self.reason = self._reason()
        return values[self.__name__]

    def is_successful(self) -> bool | None:
        """Return whether the test case passes, and store the result in :attr:`success`.

        The result is ``None`` if there is no threshold.
        """
        if self.threshold is None or self.score is None:
            self.success = None if self.threshold is None else False
        elif self._lower_is_better():
            self.success = self.score <= self.threshold
        else:
            self.success = self.score >= self.threshold
        return self.success

    def _lower_is_better(self) -> bool:
        return self.suite.facts[self.__name__].higher_is_better(self.language) is False

    def _reason(self) -> str:
        summary = f"{self.__name__} is {self.score:.4g}"
        if self.threshold is None:
            return summary
        bound = "at most" if self._lower_is_better() else "at least"
        return (
            f"{summary}, and {'must be' if not self.success else 'so'} {bound} {self.threshold:g}"
        )

    async def a_measure(self, test_case: LLMTestCase, *_: Any, **__: Any) -> float:
        """Return the score of a test case; see :meth:`measure`."""
        return await asyncio.to_thread(self.measure, test_case)


def _query(case: LLMTestCase, language: str, id: str, where: str) -> Asked:
    if not isinstance(case, LLMTestCase):
        raise DatasetError(f"{where}: expected an LLMTestCase, which has one response to score")
    retrieved, metadata = case.retrieval_context or (), case.metadata or {}
    return query_of(
        where,
        id=str(metadata.get(_QUERY_ID, id)),
        language=language,
        text=case.input,
        retrieved=[item if isinstance(item, str) else item.context for item in retrieved],
        reference=case.expected_output,
        relevant=case.context,
        retrieved_ids=metadata.get(_IDS),
        relevant_ids=metadata.get(_RELEVANT),
    )
