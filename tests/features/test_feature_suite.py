"""Suites: names, aliases, user-defined features, missing values, errors, processes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import each_case
from subsets import slow_except

from mirage.dataset import MirageDataset
from mirage.errors import FeatureError, SettingError, UnknownNameError
from mirage.features import (
    Answered,
    Facts,
    Feature,
    FeatureSuite,
    NotComputed,
    facts,
    feature,
)
from mirage.features.base import FunctionFeature
from mirage.features.registry import DEFINITIONS, canonical_name
from mirage.languages import LANGUAGES
from mirage.models import Passage, Query, Response, Run
from mirage.sources import memerag

OFFLINE = (
    "target_language",
    "english_language",
    "citation_recall@10",
    "citation_map@10",
    "answer_bleu",
    "answer_rougeL",
    "support_lexical",
    "relevance_lexical",
    "answer_match",
    "wrong_answer",
    "fact_agreement",
    "fact_precision",
    "abstention",
    "invention",
    "incorrect_attempt",
    "unknown_facts",
    "passage_coverage",
)


def length(query: Query, response: Response) -> float:
    """A feature that a user might write."""
    assert response.query_id == query.id
    return len(response.text or "")


def reference_run(dataset: MirageDataset, model: str = "reference") -> Run:
    responses = tuple(Response(query_id=q.id, text=q.reference) for q in dataset)
    return Run(model=model, language=dataset.language, responses=responses)


@pytest.fixture(scope="module")
def english() -> MirageDataset:
    return MirageDataset.bundled("en")


# Names --------------------------------------------------------------------------------------------


def test_features_print_as_their_names() -> None:
    for name in (*OFFLINE, "support_lexical_all", "citation_map@3"):
        assert repr(feature(name)) == str(feature(name)) == feature(name).name == name
        assert isinstance(feature(name), Feature)
        assert feature(name) == feature(name)
    assert set(OFFLINE) <= set(FeatureSuite.available())
    assert all(feature(name).name == name for name in FeatureSuite.available())


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("citation_MAP@10", "citation_map@10"),
        ("citation_Recall@6", "citation_recall@6"),
        ("language_detection", "target_language"),
        ("en_detection", "english_language"),
    ],
)
def test_aliases_make_features(alias: str, name: str) -> None:
    assert feature(alias).name == canonical_name(alias) == name


@each_case(
    ("alias", "name"),
    [
        ("answer_overlap_score", "answer_overlap"),
        ("fluency_score", "fluency"),
        ("Meta-Llama-3-8B-Instruct-fluency", "fluency"),
        ("Meta-Llama-3-8B-Instruct-answer-eval", "answer_overlap"),
        ("xlni_context_entailment", "support_entailment"),
        ("xlni_context_neutral", "support_neutral"),
        ("bge-reranker-v2-m3-score", "reranker_score"),
        ("answer_rougeL", "answer_rougeL"),
        ("something@3", "something@3"),
    ],
)
def test_aliases_of_published_columns(alias: str, name: str) -> None:
    assert canonical_name(alias) == name


@each_case(
    ("name", "nearest"),
    [
        ("answer_blue", "answer_bleu"),
        ("citation_recall", "citation_recall@10"),
        ("citation_recall@0", "citation_recall@10"),
        ("citation_map@ten", "citation_map@10"),
        ("answer_bleu@10", "answer_bleu"),
        ("", "known:"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UnknownNameError, match=nearest):
        feature(name)
    with pytest.raises(UnknownNameError, match=nearest):
        FeatureSuite(["answer_rougeL", name])


# Facts --------------------------------------------------------------------------------------------


def test_facts_of_the_librarys_features() -> None:
    # The guide to features lists the direction of every feature, and test_docs compares them.
    assert facts("answer_match").direction == "higher"
    assert facts("wrong_answer").direction == facts("incorrect_attempt").direction == "lower"
    assert facts("answer_length").direction == facts("passage_coverage").direction == "none"
    assert facts("citation_MAP@3") == facts(feature("citation_map@10")) == facts("citation_map")
    assert facts("citation_map").needs == ("passages", "relevant passages")
    assert (facts("fluency").low, facts("fluency").high) == (1, 5)
    assert facts("reranker_score").high == math.inf
    assert facts("reranker_score").extra == "neural"
    assert facts("answer_overlap").models == ("LLM",)
    assert not any(entry.facts.models for name, entry in DEFINITIONS.items() if name in OFFLINE)
    assert DEFINITIONS["citation_recall"].example == "citation_recall@10"
    assert DEFINITIONS["support_lexical"].summary == (
        "Return the weighted mean of sentence_support over the answer's sentences."
    )


def test_english_is_worse_except_for_english_queries() -> None:
    for language in LANGUAGES:
        english = facts("english_language")
        assert english.direction_in(language) == ("higher" if language == "en" else "lower")
        assert english.higher_is_better(language) is (language == "en")


def test_user_features_declare_facts_or_are_unknown() -> None:
    def words(_: Query, response: Response) -> float:
        return len((response.text or "").split())

    assert facts(FunctionFeature(words)) == Facts() == facts("words")
    assert Facts().higher_is_better("sw") is None
    words.facts = Facts("lower", low=0)  # type: ignore[attr-defined]
    twice = FunctionFeature(words, "twice", Facts("none"))
    suite = FeatureSuite([words, twice, "answer_bleu"])
    assert [entry.direction for entry in suite.facts.values()] == ["lower", "none", "higher"]
    # What it says of itself counts more than what the library's feature of the name is.
    assert facts(FunctionFeature(words, "answer_bleu")).direction == "lower"

    words.facts = {"direction": "lower"}  # type: ignore[attr-defined]
    with pytest.raises(FeatureError, match=r"'words' must be a mirage\.features\.Facts"):
        facts(FunctionFeature(words))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"direction": "up"}, "facts must be one of higher, lower, none, unknown, got 'up'"),
        ({"direction_by_language": {"en": "up"}}, "got 'up'"),
        ({"needs": ("GPU",)}, "one of passages, .* got 'GPU'"),
        ({"low": 1, "high": 0}, "low must be below high, got low=1, high=0"),
    ],
)
def test_impossible_facts_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Facts(**settings)
    with pytest.raises(UnknownNameError, match="language"):
        Facts(direction_by_language={"xx": "lower"})


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("support_entailment", r"support_entailment(NLI()) instead; it needs: pip install"),
        ("xlni_context_neutral", r"support_neutral(NLI()) instead; it needs: pip install"),
        ("reranker_score", "reranker_score(Reranker()) instead; it needs: pip install"),
        ("fluency", "fluency(LLM(...)) instead"),
        ("nugget_recall_weighted", "nugget_recall(LLM(...)) instead"),
    ],
)
def test_a_feature_with_a_model_needs_more_than_a_name(name: str, instead: str) -> None:
    with pytest.raises(FeatureError, match=re.escape(f"write mirage.features.{instead}")) as caught:
        FeatureSuite([name])
    assert ("'mirage-rag[neural] @ git" in str(caught.value)) == ("pip" in instead)


def test_values_lie_in_the_declared_range(english: MirageDataset) -> None:
    suite = FeatureSuite.default("en")
    values = suite.score(english, reference_run(english)).values
    for column, entry in zip(values.T, suite.facts.values(), strict=True):
        assert np.nanmin(column) >= entry.low
        assert np.nanmax(column) <= entry.high + 1e-12


# Composition --------------------------------------------------------------------------------------


def test_offline_suite() -> None:
    suite = FeatureSuite.default("sw")
    assert suite.names == OFFLINE
    assert tuple(item.name for item in suite) == OFFLINE
    assert suite.language == "sw"
    assert "'answer_bleu'" in repr(suite)


def test_user_features_join_a_suite() -> None:
    user_feature = FunctionFeature(lambda *_: 1.0, name="one")
    suite = FeatureSuite(["citation_recall@5", length, user_feature])
    assert suite.names == ("citation_recall@5", "length", "one")
    assert (FeatureSuite.default("sw") + length).names == (*OFFLINE, "length")
    assert (FeatureSuite.default("sw") + "citation_map@3").language == "sw"
    assert (suite + FeatureSuite(["answer_bleu"]) + [FunctionFeature(length, "again")]).names == (
        *suite.names,
        "answer_bleu",
        "again",
    )


def test_features_with_unmet_needs_are_not_applicable() -> None:
    passages = (Passage(id="a", text="The Nile is long."), Passage(id="b", text="Oslo is small."))
    bare = Query(id="q1", language="en", text="Which river?")
    with_passages = bare.model_copy(update={"id": "q2", "passages": passages})
    judged = with_passages.model_copy(update={"id": "q3", "relevant": ("a",)})
    suite = FeatureSuite.default("en") + length

    def names(*queries: Query) -> tuple[str, ...]:
        applicable = suite.applicable(MirageDataset(queries))
        assert applicable.language == "en"
        return applicable.names

    language = ("target_language", "english_language")
    assert names(bare) == (*language, "length")
    of_passages = ("support_lexical", "relevance_lexical", "unknown_facts", "passage_coverage")
    assert names(bare, with_passages) == (*language, *of_passages, "length")  # one query is enough
    citations = ("citation_recall@10", "citation_map@10")
    assert {*names(judged)} == {*language, *citations, *of_passages, "fact_precision", "length"}
    referenced = judged.model_copy(update={"reference": "##Answer: The Nile [a]."})
    more = {"answer_bleu", "answer_rougeL", "fact_agreement"}
    assert {*names(referenced)} == {*names(judged), *more}


@pytest.mark.parametrize(
    ("answerable", "expected"),
    [(None, set()), (True, {"abstention"}), (False, {"abstention", "invention"})],
)
def test_inventions_need_unanswerable_queries(answerable: bool | None, expected: set[str]) -> None:
    query = Query(id="q1", language="en", text="Which river?", answerable=answerable)
    names = FeatureSuite.default("en").applicable(MirageDataset([query])).names
    assert {*names} & {"abstention", "invention"} == expected


def test_every_feature_is_applicable_to_the_bundled_queries(english: MirageDataset) -> None:
    assert FeatureSuite.default("en").applicable(english).names == OFFLINE


def test_a_suite_without_applicable_features_is_refused() -> None:
    dataset = MirageDataset([Query(id="q1", language="en", text="Which river?")], name="mine")
    with pytest.raises(FeatureError, match=r"answer_bleu, fact_recall can be computed on mine: "):
        FeatureSuite(["answer_bleu", "fact_recall"]).applicable(dataset)


def test_invalid_suites_are_refused() -> None:
    with pytest.raises(FeatureError, match="at least one"):
        FeatureSuite([])
    with pytest.raises(FeatureError, match="'length' is in the suite twice"):
        FeatureSuite([length, length])
    with pytest.raises(FeatureError, match="twice"):
        FeatureSuite(["citation_map@10", "citation_MAP@10"])
    with pytest.raises(FeatureError, match="3 is not a feature"):
        FeatureSuite([3])  # type: ignore[list-item]
    with pytest.raises(FeatureError, match="is not a feature"):
        FeatureSuite([FunctionFeature])  # type: ignore[list-item]
    with pytest.raises(FeatureError, match="has no name"):
        FeatureSuite([lambda *_: 1.0])
    with pytest.raises(UnknownNameError, match="'sw'"):
        FeatureSuite.default("Swahili")


# Scoring ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", slow_except(["ar", "th"], ["ar", "en", "th", "zh"]))
def test_references_score_well(code: str) -> None:
    dataset = MirageDataset.bundled(code)
    table = FeatureSuite.default(code).score(dataset, reference_run(dataset))
    assert table.query_ids == dataset.query_ids
    assert table.features == OFFLINE
    assert (table.model, table.language) == ("reference", code)
    means = dict(zip(table.features, table.mean(), strict=True))
    assert means["target_language"] > 0.9
    assert means["citation_recall@10"] == means["citation_map@10"] == 1
    assert means["answer_bleu"] == pytest.approx(1)
    assert means["answer_rougeL"] == 1
    assert means["support_lexical"] > 0.6
    # What answers a question shares few of its words: the other passages were written to.
    assert means["relevance_lexical"] > 0.45
    for name in ("fact_agreement", "fact_precision", "abstention"):
        assert means[name] == 1, name
    assert means["wrong_answer"] == means["invention"] == means["unknown_facts"] == 0
    assert means["answer_match"] == 1
    assert means["incorrect_attempt"] == 0
    assert 0 < means["passage_coverage"] < 0.1
    assert np.nanmin(table.values) >= 0
    assert np.nanmax(table.values) <= 1 + 1e-12
    needs_an_answer = [name for name in OFFLINE if name.startswith(("citation", "fact_"))]
    needs_an_answer += ["support_lexical", "relevance_lexical", "answer_match", "wrong_answer"]
    unanswerable = {query.id for query in dataset if query.answerable is False}
    assert table.reasons.keys() == {
        *((query_id, name) for query_id in unanswerable for name in needs_an_answer),
        *((query_id, "invention") for query_id in set(dataset.query_ids) - unanswerable),
    }
    assert set(table.reasons.values()) == {
        "the query has no relevant passage",
        "the query has no relevant passage with a text",
        "no passage answers the query, so a response should cite nothing",
        "no passage answers the query, so there is no right answer",
        "a passage answers the query, so answering it is no invention",
    }


def test_missing_and_failed_responses_are_nan_with_a_reason(english: MirageDataset) -> None:
    first, second, third, *_ = english.query_ids
    responses = (
        Response(query_id=second, text=None, error="429 Too Many Requests"),
        Response(query_id=third, text=""),
    )
    run = Run(model="m", language="en", responses=responses)
    suite = FeatureSuite(["target_language", "support_lexical", length])
    table = suite.score(english, run)
    assert np.isnan(table.values[:2]).all()
    assert np.isnan(table.values[3:]).all()
    assert table.values[2].tolist() == [0, 0, 0]  # an empty response is a response
    assert table.reasons[first, "length"] == "no response to this query"
    assert table.reasons[second, "target_language"] == "the model failed: 429 Too Many Requests"
    assert len(table.reasons) == (len(english) - 1) * len(suite)


def test_a_run_without_any_text(english: MirageDataset) -> None:
    table = FeatureSuite.default("en").score(english, Run(model="m", language="en", responses=()))
    assert np.isnan(table.values).all()
    assert len(table.reasons) == table.values.size


def test_a_feature_may_return_not_computed(english: MirageDataset) -> None:
    def sometimes(query: Query, _: Response) -> float | NotComputed:
        return NotComputed("no judge") if query.id == english[0].id else math.nan

    table = FeatureSuite([sometimes]).score(english, reference_run(english))
    assert np.isnan(table["sometimes"]).all()
    assert table.reasons[english[0].id, "sometimes"] == "no judge"
    assert table.reasons[english[1].id, "sometimes"] == "the feature returned NaN"


def test_rows_follow_the_dataset_not_the_run(english: MirageDataset) -> None:
    run = reference_run(english)
    turned = run.model_copy(update={"responses": run.responses[::-1]})
    suite = FeatureSuite.default("en") + length
    assert np.array_equal(
        suite.score(english, run).values, suite.score(english, turned).values, equal_nan=True
    )


class Batch:
    """A user's feature object that computes whole batches."""

    name = "batch"

    def __init__(self, values: Any) -> None:
        self.values = values

    def compute(self, batch: Sequence[Answered]) -> Any:
        return self.values(batch)


def test_feature_objects(english: MirageDataset) -> None:
    counting = Batch(lambda batch: np.array([len(item.parsed.citations) for item in batch]))
    table = FeatureSuite([counting]).score(english, reference_run(english))
    assert table["batch"].dtype == np.float64
    assert table["batch"].max() >= 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (lambda batch: [1.0] * (len(batch) + 1), "returned 41 values for 40 responses"),
        (lambda _: [], "returned 0 values for 40 responses"),
        (lambda batch: ["0.5"] * len(batch), "returned '0.5' for query 'q01'"),
        (lambda batch: [None] * len(batch), "returned None for query 'q01'"),
        (lambda batch: [1j] * len(batch), "returned 1j for query 'q01'"),
        (lambda batch: [math.inf] * len(batch), "returned inf for query 'q01'"),
        (lambda _: 1.0, "TypeError"),
    ],
)
def test_invalid_values_of_a_feature_are_refused(
    english: MirageDataset, values: Any, message: str
) -> None:
    with pytest.raises(FeatureError, match=message) as caught:
        FeatureSuite([Batch(values)]).score(english, reference_run(english, "my-rag"))
    assert "'batch'" in str(caught.value)
    assert "'my-rag'" in str(caught.value)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_exception_names_feature_query_and_model(english: MirageDataset, n_jobs: int) -> None:
    wanted = english[3].id

    def fragile(query: Query, _: Response) -> float:
        if query.id == wanted:
            raise RuntimeError("out of paper")
        return 1.0

    with pytest.raises(
        FeatureError,
        match=f"feature 'fragile' failed on query '{wanted}' of model 'm': "
        "RuntimeError: out of paper",
    ):
        FeatureSuite([fragile]).score(english, reference_run(english, "m"), n_jobs=n_jobs)


def test_a_batch_that_fails_only_as_a_whole(english: MirageDataset) -> None:
    def too_many(batch: Sequence[Answered]) -> list[float]:
        if len(batch) > 1:
            raise MemoryError("too many")
        return [1.0]

    with pytest.raises(FeatureError, match=r"queries 'q01' to 'q\d+' together.*too many"):
        FeatureSuite([Batch(too_many)]).score(english, reference_run(english))


def test_suite_dataset_and_run_must_share_a_language(english: MirageDataset) -> None:
    with pytest.raises(FeatureError, match=r"run of model 'reference' is in 'en', but .* in 'sw'"):
        FeatureSuite.default().score(MirageDataset.bundled("sw"), reference_run(english))
    with pytest.raises(FeatureError, match="suite is for 'sw'"):
        FeatureSuite.default("sw").score(english, reference_run(english))


def test_a_run_of_another_dataset(english: MirageDataset) -> None:
    stray = Run(
        model="m", language="en", responses=(Response(query_id="elsewhere", text="There."),)
    )
    with pytest.raises(FeatureError, match="answers query 'elsewhere'"):
        FeatureSuite.default("en").score(english, stray)


@pytest.mark.slow
def test_processes_give_the_same_bits() -> None:
    bundled = MirageDataset.bundled("hi")[6:20]
    copies = [
        query.model_copy(update={"id": f"{query.id}-{i}"}) for i in range(10) for query in bundled
    ]
    dataset = MirageDataset(copies)
    run = reference_run(dataset)
    # Without the identifier of languages, which every process would load for two seconds.
    names = [name for name in FeatureSuite.default("hi").names if "language" not in name]
    suite = FeatureSuite(names, "hi") + "support_lexical_all" + length
    alone = suite.score(dataset, run)
    together = suite.score(dataset, run, n_jobs=2, progress=True)
    assert len(alone) == 140  # three batches
    assert np.array_equal(alone.values, together.values, equal_nan=True)
    assert alone.reasons == together.reasons


def test_progress_is_silent_off_a_terminal(
    english: MirageDataset, capfd: pytest.CaptureFixture[str]
) -> None:
    FeatureSuite([length]).score(english, reference_run(english), progress=True)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize("code", ["en", "de", "es"])
def test_memerag_can_be_scored_by_a_suite(data_dir: Path, code: str) -> None:
    source = memerag.load(data_dir / "memerag" / "memerag" / f"{code}.jsonl", code)
    dataset = source.dataset[:60]
    responses = tuple(source.run[query_id] for query_id in dataset.query_ids)
    run = source.run.model_copy(update={"responses": responses})
    table = (FeatureSuite.default(code) + "support_lexical_all").score(dataset, run)
    means = dict(zip(table.features, table.mean(), strict=True))
    assert means["target_language"] > 0.9
    assert 0.7 < means["support_lexical_all"] < 0.9
    assert means["support_lexical"] == means["relevance_lexical"] == 0  # these answers cite nothing
    for name in ("citation_recall@10", "citation_map@10", "answer_bleu", "answer_rougeL"):
        assert math.isnan(means[name])
    reasons = {reason for (_, name), reason in table.reasons.items() if name == "answer_bleu"}
    assert reasons == {"the query has no reference"}
