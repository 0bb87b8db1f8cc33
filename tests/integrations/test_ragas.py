"""ragas: samples as records and features as metrics, without key or network."""

from __future__ import annotations

import asyncio
import logging
import math
import warnings

import numpy as np
import pytest
from answers import answers

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, UnknownNameError
from mirage.features import FeatureSuite
from mirage.models import Query, Response, Run

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its packages, while they are imported
    pytest.importorskip("ragas", reason="ragas is not installed")
    from ragas import EvaluationDataset, SingleTurnSample, evaluate
    from ragas.dataset_schema import MultiTurnSample
    from ragas.messages import HumanMessage

from mirage.integrations.ragas import FeatureMetric, read, to_samples

FEATURES = ("citation_recall@10", "citation_map@10", "answer_rougeL", "support_lexical")
# What ragas can hold of a query: no titles of passages, and not whether it has an answer.
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


def sample_of(query: Query, *, ids: bool) -> SingleTurnSample:
    """Return a query as a ragas sample, with contexts as texts only or with ids too."""
    relevant = [query[passage].text for passage in query.relevant]
    return SingleTurnSample(
        user_input=query.text,
        retrieved_contexts=[passage.text for passage in query.passages],
        reference_contexts=relevant,
        retrieved_context_ids=list(query.passage_ids) if ids else None,
        reference_context_ids=list(query.relevant) if ids else None,
        reference=query.reference,
        response=None if query.id == FAILED else by_position(query),
    )


def by_position(query: Query) -> str:
    """Return an answer that cites positions, which mean the same with and without ids."""
    text = answers(DATASET)[query.id]
    for number, passage in enumerate(query.passage_ids, 1):
        text = text.replace(f"[{passage}]", f"[{number}]")
    return text


def expected() -> np.ndarray:
    responses = [
        Response(query_id=q.id, text=None, error="none")
        if q.id == FAILED
        else Response(query_id=q.id, text=by_position(q))
        for q in DATASET
    ]
    run = Run(model="m", language="en", responses=tuple(responses))
    return FeatureSuite(FEATURES).score(DATASET, run).values


@pytest.mark.parametrize("ids", [True, False])
def test_records_that_are_read_score_as_the_original(ids: bool) -> None:
    data = EvaluationDataset([sample_of(query, ids=ids) for query in DATASET])
    dataset, run = read(data, language="en", model="my-rag", name="mine")
    assert (dataset.name, run.model, len(run)) == ("mine", "my-rag", len(DATASET))
    assert dataset[0].passage_ids == (DATASET[0].passage_ids if ids else ("1", "2", "3", "4", "5"))
    assert [r.error for r in run.failed] == ["the sample has no response"]
    np.testing.assert_array_equal(FeatureSuite(FEATURES).score(dataset, run).values, expected())


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.filterwarnings("ignore:evaluate:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:aevaluate:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # its id of the machine
def test_evaluate_gives_the_scores_of_the_suite(
    ids: bool, caplog: pytest.LogCaptureFixture
) -> None:
    data = EvaluationDataset([sample_of(query, ids=ids) for query in DATASET])
    metrics = [FeatureMetric(name, "en") for name in FEATURES]
    with caplog.at_level(logging.WARNING, "mirage.integrations.ragas"):
        result = evaluate(data, metrics=metrics, show_progress=False, raise_exceptions=True)
    values = np.array([[score[name] for name in FEATURES] for score in result.scores])
    np.testing.assert_array_equal(values, expected())
    assert len(caplog.records) == int(np.isnan(expected()).sum()) > 4
    assert "answer_rougeL of" in caplog.text
    assert "not computed: the model failed: the sample has no response" in caplog.text


def test_ascore_returns_the_reason_of_a_missing_score() -> None:
    fields = {"user_input": "Which river?", "response": "The Nile [2].", "retrieved_contexts": "ab"}
    fields["retrieved_contexts"] = ["The Congo.", "The Nile."]
    metric = FeatureMetric("citation_recall@10", "en")
    result = asyncio.run(metric.ascore(**fields))
    assert math.isnan(result.value)
    assert result.reason == "the query has no relevant passage"
    result = asyncio.run(metric.ascore(**fields, reference_contexts=["The Nile.", "The Niger."]))
    assert (result.value, result.reason) == (0.5, None)  # the Niger was not retrieved


def test_ids_that_are_numbers_are_read() -> None:
    sample = SingleTurnSample(
        user_input="Which?",
        retrieved_contexts=["a", "b"],
        retrieved_context_ids=[7, 8],
        reference_context_ids=[8, 9],
        response="b [2]",
    )
    assert FeatureMetric("citation_recall@10", "en").single_turn_score(sample) == 0.5


def test_a_run_goes_to_samples_and_back() -> None:
    responses = tuple(Response(query_id=q.id, text=answers(DATASET)[q.id]) for q in DATASET)
    run = Run(model="m", language="en", responses=responses)
    back, again = read(to_samples(DATASET, run), language="en", model="m", dataset=DATASET)
    assert (back, again) == (DATASET, run)
    _, again = read(to_samples(DATASET, run), language="en", model="m")
    assert [r.text for r in again] == [r.text for r in run]
    samples = EvaluationDataset([sample_of(query, ids=False) for query in DATASET])
    _, by_text = read(samples, language="en", dataset=MirageDataset.bundled("en"))
    np.testing.assert_array_equal(FeatureSuite(FEATURES).score(DATASET, by_text).values, expected())


def test_a_function_is_a_metric() -> None:
    def length(query: Query, response: Response) -> float:
        return len(response.text or "") / len(query.text)

    sample = SingleTurnSample(user_input="1234", response="12345678")
    assert FeatureMetric(length, "en").name == "length"
    assert FeatureMetric(length, "en").single_turn_score(sample) == 2


def test_bad_samples_are_refused() -> None:
    turns = EvaluationDataset([MultiTurnSample(user_input=[HumanMessage(content="Who?")])])
    with pytest.raises(DatasetError, match="ragas, sample 1: expected a single-turn sample"):
        read(turns, language="en")
    sample = SingleTurnSample(user_input="Who?")
    with pytest.raises(DatasetError, match="ragas, sample 2, field 'text'"):
        read(EvaluationDataset([sample, SingleTurnSample()]), language="en")
    odd = SingleTurnSample(
        user_input="Who?", retrieved_contexts=["a", "b"], retrieved_context_ids=["1"]
    )
    with pytest.raises(DatasetError, match="sample 1: there are 2 retrieved texts, but 1 ids"):
        read(EvaluationDataset([odd]), language="en")
    with pytest.raises(UnknownNameError, match="did you mean 'citation_recall@10'"):
        FeatureMetric("citation_recal@10", "en")
