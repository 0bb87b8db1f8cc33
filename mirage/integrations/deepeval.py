"""DeepEval: reads its test cases; features as its metrics, which need no key and no model.

    from deepeval.test_case import LLMTestCase
    from mirage import FeatureSuite
    from mirage.integrations.deepeval import FeatureMetric, read

    case = LLMTestCase(
        input="Which is the longest river in Africa?",
        actual_output="It is the Nile [2].",
        retrieval_context=["The Congo crosses the equator twice.", "The Nile is the longest."],
        context=["The Nile is the longest."],
    )
    dataset, run = read([case], language="en", model="my-rag")
    print(FeatureSuite(["citation_recall@10", "support_lexical"]).score(dataset, run).to_pandas())

    metric = FeatureMetric("citation_recall@10", language="en", threshold=0.6)
    metric.measure(case)  # also: evaluate([case], metrics=[metric]), assert_test(case, [metric])
    print(metric.score, metric.success)

A citation ``[2]`` is the second text of ``retrieval_context``. Relevant are those of them that are
in ``context`` as well, letter for letter. DeepEval itself sends usage statistics unless the
environment has ``DEEPEVAL_TELEMETRY_OPT_OUT=1``. Needs the extra ``deepeval``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, missing_package
from mirage.features import FeatureSuite
from mirage.features.suite import FeatureLike
from mirage.integrations._contexts import query_of, records_of, response_to, score
from mirage.models import Query, Run

try:
    from deepeval.dataset import EvaluationDataset
    from deepeval.errors import MissingTestCaseParamsError
    from deepeval.metrics import BaseMetric
    from deepeval.test_case import LLMTestCase
except ImportError as error:
    raise missing_package("deepeval", "deepeval") from error

__all__ = ["FeatureMetric", "read"]

_NO_OUTPUT = "the test case has no actual_output"


def read(
    cases: EvaluationDataset | Iterable[LLMTestCase],
    *,
    language: str,
    model: str = "model",
    name: str = "deepeval",
) -> tuple[MirageDataset, Run]:
    """The queries of test cases and the responses to them; ids are numbers from 1.

    A case without an ``actual_output`` is a failure in the run.

    Raises:
        DatasetError: a case is a conversation or has no input, or what else is wrong where.
        UnknownNameError: no such language.
    """
    listed = cases.test_cases if isinstance(cases, EvaluationDataset) else cases
    answers = (
        (_query(case, language, str(number), f"{name}, test case {number}"), case.actual_output)
        for number, case in enumerate(listed, 1)
    )
    return records_of(answers, model=model, name=name, error=_NO_OUTPUT)


class FeatureMetric(BaseMetric):
    """A feature as a metric of DeepEval: success is a score as good as the threshold, or better.

    Higher is better, but for the features whose facts say that lower is
    (:class:`mirage.features.Facts`).

    Where a feature cannot be computed, ``measure`` raises DeepEval's
    ``MissingTestCaseParamsError`` with the reason, as its own metrics do where a test case lacks
    something: ``ErrorConfig(skip_on_missing_params=True)`` leaves such a metric out, and
    ``ErrorConfig(ignore_errors=True)`` keeps it as an error without a score.

    Args:
        feature: a name, a feature, or a function ``(query, response) -> float``.
        language: of the test cases.
        threshold: the score that a test case has to reach; ``None`` scores without a verdict
            (``evaluate`` wants one metric at least that has a threshold).

    Raises:
        UnknownNameError: no such feature or language.
    """

    score: float | None = None
    success: bool | None = None
    _required_params = ()

    def __init__(
        self, feature: FeatureLike, language: str, *, threshold: float | None = None
    ) -> None:
        # DeepEval copies a metric by calling it with the attributes that bear the arguments' names.
        self.feature, self.language, self.threshold = feature, language, threshold
        self.suite = FeatureSuite([feature], language)

    @property
    def __name__(self) -> str:
        return self.suite.names[0]

    def measure(self, test_case: LLMTestCase, *_: Any, **__: Any) -> float:
        """The score of a test case, kept as :attr:`score` together with :attr:`success`."""
        query = _query(test_case, self.language, "1", "the test case")
        response = response_to(query, test_case.actual_output, error=_NO_OUTPUT)
        self.score, self.error, self.success = None, None, None
        values, reasons = score(self.suite, query, response)
        if reasons:
            raise MissingTestCaseParamsError(
                f"{self.__name__} not computed: {reasons[self.__name__]}"
            )
        self.score = values[self.__name__]
        self.is_successful()
        return values[self.__name__]

    def is_successful(self) -> bool | None:
        """Whether the score is as good as the threshold, or better; kept as :attr:`success`."""
        if self.threshold is None or self.score is None:
            self.success = None if self.threshold is None else False
        elif self.suite.facts[self.__name__].higher_is_better(self.language) is False:
            self.success = self.score <= self.threshold
        else:
            self.success = self.score >= self.threshold
        return self.success

    async def a_measure(self, test_case: LLMTestCase, *_: Any, **__: Any) -> float:
        """As :meth:`measure`."""
        return await asyncio.to_thread(self.measure, test_case)


def _query(case: LLMTestCase, language: str, id: str, where: str) -> Query:
    if not isinstance(case, LLMTestCase):
        raise DatasetError(f"{where}: only an LLMTestCase has one response to score")
    retrieved = case.retrieval_context or ()
    return query_of(
        where,
        id=id,
        language=language,
        text=case.input,
        retrieved=[item if isinstance(item, str) else item.context for item in retrieved],
        reference=case.expected_output,
        relevant=case.context,
    )
