"""DeepEval: test cases as records and features as metrics, without key or network."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from answers import answers

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, UnknownNameError
from mirage.features import FeatureSuite
from mirage.models import Query, Response, Run

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its packages, while they are imported
    pytest.importorskip("deepeval", reason="deepeval is not installed")
    from deepeval import assert_test, evaluate
    from deepeval.dataset import EvaluationDataset
    from deepeval.errors import MissingTestCaseParamsError
    from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
    from deepeval.telemetry.client import telemetry_opt_out
    from deepeval.test_case import ConversationalTestCase, LLMTestCase, RetrievedContextData, Turn

from mirage.integrations.deepeval import FeatureMetric, read, to_cases

FEATURES = ("citation_recall@10", "answer_rougeL", "support_lexical")
# What DeepEval can hold of a query: no titles of passages, and not whether it has an answer.
DATASET = MirageDataset(
    query.model_copy(
        update={
            "passages": tuple(p.model_copy(update={"title": ""}) for p in query.passages),
            "answerable": None,
        }
    )
    for query in MirageDataset.bundled("en")
)
FAILED = DATASET[4].id


def by_position(query: Query) -> str:
    """Return an answer that cites positions, because test cases have no ids."""
    text = answers(DATASET)[query.id]
    for number, passage in enumerate(query.passage_ids, 1):
        text = text.replace(f"[{passage}]", f"[{number}]")
    return text


def case_of(query: Query) -> LLMTestCase:
    return LLMTestCase(
        input=query.text,
        actual_output=None if query.id == FAILED else by_position(query),
        expected_output=query.reference,
        retrieval_context=[passage.text for passage in query.passages],
        context=[query[passage].text for passage in query.relevant],
    )


CASES = [case_of(query) for query in DATASET]


def expected() -> Any:
    responses = [
        Response(query_id=q.id, text=None, error="none")
        if q.id == FAILED
        else Response(query_id=q.id, text=by_position(q))
        for q in DATASET
    ]
    run = Run(model="m", language="en", responses=tuple(responses))
    return FeatureSuite(FEATURES).score(DATASET, run).values


def metrics() -> list[FeatureMetric]:
    """Return metrics; the first one has a threshold, because DeepEval needs at least one."""
    first, *rest = FEATURES
    return [FeatureMetric(first, "en", threshold=0.5), *(FeatureMetric(f, "en") for f in rest)]


def run(cases: list[LLMTestCase], metrics: list[FeatureMetric], **options: Any) -> list[Any]:
    result = evaluate(
        cases,
        metrics=metrics,
        display_config=DisplayConfig(print_results=False, show_indicator=False),
        cache_config=CacheConfig(write_cache=False),
        **options,
    )
    return sorted(result.test_results, key=lambda test: test.index)


def test_telemetry_is_off() -> None:
    assert telemetry_opt_out()


def test_records_that_are_read_score_as_the_original() -> None:
    goldens = EvaluationDataset()
    for case in CASES:
        goldens.add_test_case(case)
    for cases in (CASES, goldens):
        dataset, answered = read(cases, language="en", model="my-rag", name="mine")
        assert (dataset.name, answered.model, len(answered)) == ("mine", "my-rag", len(DATASET))
        assert [r.error for r in answered.failed] == ["the test case has no actual_output"]
        values = FeatureSuite(FEATURES).score(dataset, answered).values
        np.testing.assert_array_equal(values, expected())


@pytest.mark.parametrize("run_async", [True, False])
def test_evaluate_gives_the_scores_of_the_suite(run_async: bool) -> None:
    results = run(
        CASES,
        metrics(),
        async_config=AsyncConfig(run_async=run_async),
        error_config=ErrorConfig(ignore_errors=True),
    )
    for result, row in zip(results, expected(), strict=True):
        data_by_name = {data.name: data for data in result.metrics_data}
        assert tuple(data_by_name) == FEATURES
        scores = [data_by_name[name].score for name in FEATURES]
        assert scores == [None if np.isnan(value) else value for value in row.tolist()]
        for data in data_by_name.values():
            assert (data.score is None) == (data.error is not None)
        verdicts = [data_by_name[name].success for name in FEATURES]
        assert verdicts == [bool(row[0] >= 0.5), None, None]  # no threshold, no verdict


def test_a_metric_that_cannot_be_computed_is_left_out_on_request() -> None:
    results = run(
        CASES,
        metrics(),
        error_config=ErrorConfig(skip_on_missing_params=True),
    )
    for result, row in zip(results, expected(), strict=True):
        names = {data.name for data in result.metrics_data or ()}
        assert names == {n for n, value in zip(FEATURES, row, strict=True) if not np.isnan(value)}


def test_a_run_goes_to_cases_and_back() -> None:
    responses = tuple(Response(query_id=q.id, text=answers(DATASET)[q.id]) for q in DATASET)
    run = Run(model="m", language="en", responses=responses)
    back, again = read(to_cases(DATASET, run), language="en", model="m")
    assert again == run
    for query, original in zip(back, DATASET, strict=True):
        assert (query.id, query.passages) == (original.id, original.passages)
        assert query.relevant == original.relevant
    _, by_text = read(CASES, language="en", dataset=MirageDataset.bundled("en"))
    values = FeatureSuite(FEATURES).score(DATASET, by_text).values
    np.testing.assert_array_equal(values, expected())


def test_a_metric_has_a_reason() -> None:
    case = LLMTestCase(
        input="Which river?",
        actual_output="The Nile [2].",
        retrieval_context=["The Congo.", "The Nile."],
        context=["The Nile. ", "The Niger."],
    )
    metric = FeatureMetric("citation_recall@10", "en", threshold=0.6)
    metric.measure(case)
    assert metric.reason == "citation_recall@10 is 0.5, and must be at least 0.6"
    with pytest.raises(MissingTestCaseParamsError):
        metric.measure(LLMTestCase(input="Which river?", actual_output="The Nile [1]."))
    assert metric.reason == "citation_recall@10 not computed: the query has no relevant passage"


def test_the_threshold_decides() -> None:
    good = next(case for case in CASES if "[1]" in (case.actual_output or ""))
    metric = FeatureMetric("support_lexical", "en", threshold=0.0)
    assert_test(good, [metric], run_async=False)
    with pytest.raises(AssertionError, match="support_lexical"):
        assert_test(good, [FeatureMetric("support_lexical", "en", threshold=1.1)], run_async=False)
    assert metric.measure(good) == metric.score
    assert (metric.success, metric.is_successful(), metric.error) == (True, True, None)


def test_the_threshold_is_an_upper_bound_if_lower_is_better() -> None:
    text = " ".join(p.text for p in MirageDataset.bundled("sw")[0].passages)
    case = LLMTestCase(input="Mto upi?", actual_output=text)
    english = FeatureMetric("english_language", "sw", threshold=0.5)
    assert english.measure(case) < 0.5
    assert english.success is True
    english.measure(LLMTestCase(input="Mto upi?", actual_output="The longest river is the Nile."))
    assert english.success is False
    swahili = FeatureMetric("target_language", "sw", threshold=0.5)
    swahili.measure(case)
    assert swahili.success is True


def test_a_feature_that_cannot_be_computed_has_a_reason_and_no_score() -> None:
    metric = FeatureMetric("citation_recall@10", "en", threshold=0.5)
    metric.measure(CASES[0])
    bare = LLMTestCase(input="Which river?", actual_output="The Nile [1].")
    with pytest.raises(
        MissingTestCaseParamsError,
        match=r"citation_recall@10 not computed: the query has no relevant passage",
    ):
        metric.measure(bare)
    assert (metric.score, metric.success) == (None, None)


def test_contexts_with_sources_are_read() -> None:
    case = LLMTestCase(
        input="Which river?",
        actual_output="The Nile [2].",
        retrieval_context=["The Congo.", RetrievedContextData(context="The Nile.", source="w")],
        context=["The Nile.", "The Niger."],
    )
    assert FeatureMetric("citation_recall@10", "en").measure(case) == 0.5


def test_bad_cases_are_refused() -> None:
    talk = ConversationalTestCase(turns=[Turn(role="user", content="Who?")])
    with pytest.raises(DatasetError, match="deepeval, test case 1: expected an LLMTestCase"):
        read([talk], language="en")
    with pytest.raises(DatasetError, match="deepeval, test case 1, field 'text'"):
        read([LLMTestCase(input="", actual_output="x")], language="en")
    with pytest.raises(UnknownNameError, match="did you mean 'support_lexical'"):
        FeatureMetric("suport_lexical", "en")
