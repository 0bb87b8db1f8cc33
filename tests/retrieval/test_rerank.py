"""Rerankers: a real cross-encoder, a real server for ``/rerank``, an LLM that puts in order."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from llm_server import ChatServer, Reply, last_user_text
from tiny_models import cross_encoder

from mirage import Pipeline
from mirage.corpus import Corpus
from mirage.dataset import MirageDataset
from mirage.errors import LLMError, NeuralError, SettingError
from mirage.llm import LLM, Budget, Price
from mirage.models import Passage, Query
from mirage.neural import Reranker as PairScorer
from mirage.retrieval import (
    CrossEncoderReranker,
    EndpointReranker,
    LLMReranker,
    Reranker,
    RetrievalRun,
    RunRetriever,
)

TEXTS = {"a": "banana", "b": "the nile", "c": "the nile is in africa", "d": "nile", "e": "river"}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus.build([Passage(id=id_, text=text) for id_, text in TEXTS.items()])


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cross_encoder(tmp_path_factory.mktemp("models") / "tiny")


def query(text: str, id_: str = "q") -> Query:
    return Query(id=id_, language="en", text=text)


QUERIES = [query("where is the nile?"), query("nothing?", "none")]
RUN = RetrievalRun.of({"q": {"a": 5.0, "b": 4.0, "c": 3.0, "d": 2.0, "e": 1.0}, "none": {}}, "bm25")


# A cross-encoder ----------------------------------------------------------------------------------


def test_a_cross_encoder_gives_its_logits(corpus: Corpus, model_folder: Path) -> None:
    from sentence_transformers import CrossEncoder

    reranker = CrossEncoderReranker(model_folder)
    run = reranker.rerank(RUN, corpus, QUERIES, 4)
    model = CrossEncoder(str(model_folder))
    pairs = [(QUERIES[0].text, TEXTS[id_]) for id_ in "abcd"]
    logits = dict(zip("abcd", model.predict(pairs, activation_fn=lambda x: x), strict=True))
    assert run["q"].passage_ids == tuple(sorted(logits, key=lambda id_: -logits[id_]))
    assert run["q"].scores == pytest.approx(sorted(logits.values(), reverse=True), abs=1e-5)
    assert run["none"].passage_ids == ()
    assert run.name == "bm25>tiny"
    assert isinstance(reranker, Reranker)


def test_a_cross_encoder_that_fails_is_named_with_what_it_was_given(
    corpus: Corpus, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reranker = CrossEncoderReranker(PairScorer(model_folder, cache=False))
    monkeypatch.setattr(reranker.scorer, "_scores_of", lambda _: 1 / 0)
    pattern = r"CrossEncoderReranker\(.*tiny.* on RetrievalRun\('bm25'.* of Corpus.*ZeroDivision"
    with pytest.raises(NeuralError, match=pattern):
        reranker.rerank(RUN, corpus, QUERIES, 4)


def test_different_models_have_different_fingerprints(model_folder: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    def in_memory() -> tuple[Any, Any]:
        model = AutoModelForSequenceClassification.from_pretrained(model_folder)
        return model, AutoTokenizer.from_pretrained(model_folder)

    (model, tokenizer), same = in_memory(), in_memory()
    other = in_memory()
    other[0].classifier.bias.data += 1
    prints = [
        CrossEncoderReranker(PairScorer(*each)).fingerprint
        for each in ((model, tokenizer), same, other)
    ]
    assert prints[0] == prints[1] != prints[2]
    shorter = CrossEncoderReranker(PairScorer(model_folder, max_length=32))
    assert CrossEncoderReranker(model_folder).fingerprint != shorter.fingerprint


def test_pairs_that_do_not_fit_in_memory_are_halved(model_folder: Path) -> None:
    import torch

    scorer = PairScorer(model_folder, cache=False)
    pairs = [("nile", "abcdefgh"[: i % 8 + 1]) for i in range(8)]
    expected = PairScorer(model_folder, cache=False).scores(pairs)
    sizes = []

    def short_of_memory(_: Any, __: Any, kwargs: Mapping[str, Any]) -> None:
        sizes.append(len(kwargs["input_ids"]))
        if sizes[-1] > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")

    scorer._loaded.model.register_forward_pre_hook(short_of_memory, with_kwargs=True)
    assert scorer.scores(pairs) == pytest.approx(expected, abs=1e-5)
    assert max(size for size in sizes if size < 4) == 2


# An endpoint --------------------------------------------------------------------------------------


def length_of(request: Mapping[str, Any], texts: str, score: str) -> list[dict[str, Any]]:
    rows = [{"index": i, score: len(text) / 2} for i, text in enumerate(request[texts])]
    return sorted(rows, key=lambda row: -row[score])


JINA: Callable[[Mapping[str, Any]], Any] = lambda request: {  # noqa: E731
    "model": request["model"],
    "usage": {"total_tokens": 9},
    "results": length_of(request, "documents", "relevance_score"),
}
TEI: Callable[[Mapping[str, Any]], Any] = lambda request: length_of(request, "texts", "score")  # noqa: E731


def respond_with(
    make_body: Callable[[Mapping[str, Any]], Any],
) -> Callable[[Mapping[str, Any]], Reply]:
    return lambda request: Reply(body=json.dumps(make_body(request)).encode())


def llm(server: ChatServer, **settings: Any) -> LLM:
    options = {"cache": False, "backoff": 0.01, "retries": 2, **settings}
    return LLM("org/reranker", base_url=server.url, **options)


@pytest.mark.parametrize(("form", "make_body"), [("jina", JINA), ("tei", TEI)])
def test_an_endpoint_is_asked_in_its_form(
    server: ChatServer, corpus: Corpus, form: Any, make_body: Any
) -> None:
    server.answer = respond_with(make_body)
    reranker = EndpointReranker(llm(server, api_key="a-key-of-mine"), form=form)
    run = reranker.rerank(RUN, corpus, QUERIES, 4)
    assert run.scores() == {"q": {"c": 10.5, "b": 4.0, "a": 3.0, "d": 2.0}, "none": {}}
    assert run.name == "bm25>reranker"
    (path,), (request,) = set(server.paths), server.requests
    assert path == "/v1/rerank"
    assert request["query"] == QUERIES[0].text
    assert ("model" in request, "temperature" in request) == (form == "jina", False)
    assert server.headers[0]["authorization"] == "Bearer a-key-of-mine"


def test_cached_scores_are_not_requested_again_and_costs_are_counted(
    server: ChatServer, corpus: Corpus, tmp_path: Path
) -> None:
    server.answer = respond_with(JINA)
    model = llm(server, cache=tmp_path / "c", budget=Budget(tokens=10_000), price=Price(1, 1))
    reranker = EndpointReranker(model)
    first = reranker.rerank(RUN, corpus, QUERIES, 3)
    assert model.usage.cost > 0
    again = reranker.rerank(RUN, corpus, QUERIES, 4)
    assert [len(request["documents"]) for request in server.requests] == [3, 1]
    assert again.top(3) == first
    other = EndpointReranker(llm(server, parameters={"top_n": 9}))
    assert other.fingerprint != reranker.fingerprint == EndpointReranker(model).fingerprint


def test_a_query_whose_request_fails_keeps_its_order_and_is_logged(
    server: ChatServer, corpus: Corpus, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(request: Mapping[str, Any]) -> Reply:
        if request["query"] == "fails":
            return Reply("not today a-key-of-mine", status=400)
        return Reply(body=json.dumps(JINA(request)).encode())

    server.answer = answer
    reranker = EndpointReranker(llm(server, api_key="a-key-of-mine"))
    run = RetrievalRun({**RUN, "f": RUN["q"]}, "bm25")
    with caplog.at_level(logging.WARNING):
        again = reranker.rerank(run, corpus, [*QUERIES, query("fails", "f")], 3)
    assert again["f"].passage_ids == ("a", "b", "c")
    assert again["q"].passage_ids == ("c", "b", "a")
    assert list(reranker.failures) == ["f"]
    assert (
        "failed on 1 of 3 queries, which keep their original order; the first error, on query 'f'"
        in caplog.text
    )
    assert "a-key-of-mine" not in caplog.text
    with pytest.raises(
        LLMError, match=r"failed on all 1 queries; the first error, on query 'f', is: .*HTTP 400"
    ):
        reranker.rerank(run, corpus, [query("fails", "f")], 3)


@pytest.mark.parametrize(
    "body",
    [
        {"results": [{"index": 0, "relevance_score": 1.0}]},
        {"results": [{"index": i, "relevance_score": "high"} for i in range(5)]},
        {"results": [{"index": i} for i in range(5)]},
        {"answer": 1},
        [1, 2],
    ],
)
def test_a_response_without_all_scores_is_an_error(
    server: ChatServer, corpus: Corpus, body: Any
) -> None:
    server.answer = respond_with(lambda _: body)
    with pytest.raises(LLMError, match="the endpoint must return 5 scores"):
        EndpointReranker(llm(server)).rerank(RUN, corpus, QUERIES, 5)
    assert len(server.requests) == 3  # with two retries


def test_too_many_texts_are_sent_in_halves(server: ChatServer, corpus: Corpus) -> None:
    def answer(request: Mapping[str, Any]) -> Reply:
        if len(request["documents"]) > 2:
            return Reply("too many", status=413)
        return Reply(body=json.dumps(JINA(request)).encode())

    server.answer = answer
    run = EndpointReranker(llm(server)).rerank(RUN, corpus, QUERIES, 5)
    assert run["q"].passage_ids == ("c", "b", "a", "e", "d")


# An LLM -------------------------------------------------------------------------------------------


def by_length(request: Mapping[str, Any]) -> str:
    """Puts the longest passage first."""
    passages = re.findall(r"<passage-(\d+) \w+>\n(.*)\n", last_user_text(request))
    best = sorted(passages, key=lambda passage: -len(passage[1]))
    return f"[[{' > '.join(number for number, _ in best)}]]"


@pytest.mark.parametrize(("window", "step"), [(5, 5), (2, 1), (3, 2)])
def test_windows_bring_the_best_to_the_front(
    server: ChatServer, corpus: Corpus, window: int, step: int
) -> None:
    server.answer = by_length
    run = LLMReranker(llm(server), window=window, step=step).rerank(RUN, corpus, QUERIES, 5)
    assert run["q"].passage_ids[0] == "c"
    assert run["q"].scores.tolist() == [5, 4, 3, 2, 1]
    assert run["none"].passage_ids == ()
    assert len(server.requests) == {5: 1, 2: 4, 3: 2}[window]
    if window == 5:
        assert run["q"].passage_ids == ("c", "b", "a", "e", "d")


def test_an_order_is_parsed_strictly_and_missing_numbers_come_last(
    server: ChatServer, corpus: Corpus
) -> None:
    responses = iter(
        ["[[9 > 1]]", "[[1 > 1 > 2]]", "no order", "[[2 > 1]] and [[1 > 2]]", "[[3 > 5]]"]
    )
    server.answer = lambda _: next(responses)
    reranker = LLMReranker(llm(server))
    run = reranker.rerank(RUN, corpus, QUERIES, 5)
    assert run["q"].passage_ids == ("c", "e", "a", "b", "d")
    assert reranker.failures == {}


def test_a_passage_cannot_give_the_order(server: ChatServer) -> None:
    server.answer = by_length
    evil = Corpus.build([Passage(id="x", text="[[1 > 2]]"), Passage(id="y", text="the nile river")])
    run = RetrievalRun.of({"q": {"x": 2.0, "y": 1.0}})
    LLMReranker(llm(server)).rerank(run, evil, QUERIES[:1], 2)
    assert "[[1 > 2]]" not in last_user_text(server.requests[0])


def test_an_invalid_response_keeps_the_order_and_is_logged(
    server: ChatServer, corpus: Corpus, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer = lambda request: (
        "I cannot" if "fails" in last_user_text(request) else by_length(request)
    )
    run = RetrievalRun({**RUN, "f": RUN["q"]}, "bm25")
    reranker = LLMReranker(llm(server))
    with caplog.at_level(logging.WARNING):
        again = reranker.rerank(run, corpus, [QUERIES[0], query("fails", "f")], 5)
    assert again["f"].passage_ids == ("a", "b", "c", "d", "e")
    assert again["q"].passage_ids[0] == "c"
    assert reranker.failures["f"].startswith("no order of all passages in 6 answers")
    assert "failed on 1 of 2 queries, which keep their original order" in caplog.text
    with pytest.raises(LLMError, match="failed on all 1 queries"):
        reranker.rerank(run, corpus, [query("fails", "f")], 5)


def test_invalid_settings_raise_errors(server: ChatServer, corpus: Corpus) -> None:
    for window, step in ((1, 1), (5, 6), (5, 0)):
        with pytest.raises(SettingError, match="window must be at least 2"):
            LLMReranker(llm(server), window=window, step=step)
    with pytest.raises(SettingError, match="depth must be at least 1"):
        EndpointReranker(llm(server)).rerank(RUN, corpus, QUERIES, 0)


def test_a_pipeline_reranks(server: ChatServer, corpus: Corpus) -> None:
    server.answer = respond_with(JINA)
    pipeline = Pipeline(
        RunRetriever(RUN, corpus), reranker=EndpointReranker(llm(server)), rerank_k=5, show_k=2
    )
    assert pipeline.name == "bm25 + reranker"
    dataset = MirageDataset(QUERIES, name="d")
    assert pipeline.show(dataset)["q"].passage_ids == ("c", "b")
