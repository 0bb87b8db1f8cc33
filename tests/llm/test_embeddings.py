"""Embeddings from a real server on loopback: batches, cache, budget, faults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from llm_server import ChatServer, Reply

from mirage.errors import LLMError
from mirage.llm import LLM, Budget, Price
from mirage.llm.embeddings import embed_all


def vector(text: str) -> list[float]:
    return [float(len(text)), 1.0]


def embeddings(request: Mapping[str, Any]) -> Reply:
    # In another order than asked for: the index tells whose each is.
    data = [
        {"object": "embedding", "index": i, "embedding": vector(text)}
        for i, text in enumerate(request["input"])
    ][::-1]
    tokens = sum(len(text.split()) for text in request["input"])
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return Reply(body=json.dumps({"object": "list", "data": data, "usage": usage}).encode())


def model(server: ChatServer, **chosen: Any) -> LLM:
    return LLM("e", **{"base_url": server.url, "cache": False, "backoff": 0.01} | chosen)


def test_each_distinct_text_is_sent_once_without_chat_settings(server: ChatServer) -> None:
    server.answer = embeddings
    llm = model(server, parameters={"dimensions": 2}, price=Price(1, 2))
    outcomes = embed_all(llm, ["ab c", "d", "ab c"])
    assert [outcome.value for outcome in outcomes] == [[4.0, 1.0], [1.0, 1.0], [4.0, 1.0]]
    body = {"model": "e", "input": ["ab c", "d"], "encoding_format": "float", "dimensions": 2}
    assert server.requests == [body]
    assert server.paths == ["/v1/embeddings"]
    assert (llm.usage.calls, llm.usage.prompt_tokens, llm.usage.completion_tokens) == (1, 3, 0)
    assert llm.usage.cost == pytest.approx(3e-6)


def test_many_texts_are_several_requests(server: ChatServer) -> None:
    server.answer = embeddings
    texts = ["x" * i for i in range(1, 71)]
    assert [o.value for o in embed_all(model(server), texts)] == [vector(text) for text in texts]
    assert sorted(len(request["input"]) for request in server.requests) == [6, 32, 32]


def test_the_cache_holds_texts_not_requests(server: ChatServer, tmp_path: Path) -> None:
    server.answer = embeddings
    llm = model(server, cache=tmp_path / "llm.sqlite")
    embed_all(llm, ["a", "bb"])
    again = model(server, cache=tmp_path / "llm.sqlite")
    assert [o.value for o in embed_all(again, ["ccc", "bb", "a"])] == [[3, 1], [2, 1], [1, 1]]
    assert [request["input"] for request in server.requests] == [["a", "bb"], ["ccc"]]
    assert again.usage.cached == 2
    other = model(server, cache=tmp_path / "llm.sqlite", parameters={"dimensions": 2})
    embed_all(other, ["a"])
    assert len(server.requests) == 3


def test_a_text_that_is_too_long_does_not_affect_the_others(server: ChatServer) -> None:
    def strict(request: Mapping[str, Any]) -> Reply:
        if any(len(text) > 9 for text in request["input"]):
            return Reply("too long", status=400)
        return embeddings(request)

    server.answer = strict
    texts = ["a", "bb", "x" * 10, "ccc", "dddd"]
    outcomes = embed_all(model(server), texts)
    assert [o.value for o in outcomes] == [[1, 1], [2, 1], None, [3, 1], [4, 1]]
    assert "HTTP 400: too long" in outcomes[2].failed


def test_transient_faults_are_retried(server: ChatServer) -> None:
    replies = [Reply(status=503), Reply(body=b'{"data": []}')]
    server.answer = lambda request: replies.pop(0) if replies else embeddings(request)
    assert embed_all(model(server), ["a"])[0].value == [1, 1]
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "data",
    [
        '[{"index": 0, "embedding": []}, {"index": 1, "embedding": []}]',
        '[{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]',
        '[{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [NaN]}]',
        '[{"index": 0, "embedding": [1]}, {"index": 1, "embedding": ["x"]}]',
        '[{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]',
        '{"0": 1}',
    ],
)
def test_malformed_embeddings_are_errors(server: ChatServer, data: str) -> None:
    server.answer = lambda _: Reply(body=f'{{"data": {data}}}'.encode())
    first, second = embed_all(model(server, retries=0), ["a", "b"])
    assert first.value is None
    assert "embeddings" in first.failed
    assert first.failed == second.failed


def test_the_budget_holds(server: ChatServer) -> None:
    server.answer = embeddings
    llm = model(server, budget=Budget(tokens=20))
    outcomes = embed_all(llm, ["a" * 30])
    assert "budget" in outcomes[0].failed
    assert server.requests == []


def test_lone_surrogates_are_replaced(server: ChatServer) -> None:
    server.answer = embeddings
    assert embed_all(model(server), ["a\ud800"])[0].value == [2, 1]
    assert server.requests[0]["input"] == ["a?"]


def test_no_texts_need_no_key() -> None:
    llm = LLM("e", base_url="https://api.openai.com/v1", cache=False)
    assert embed_all(llm, []) == []
    with pytest.raises(LLMError, match="no API key"):
        embed_all(llm, ["a"])
