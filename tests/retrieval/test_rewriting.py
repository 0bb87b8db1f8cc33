"""Query rewriting: recorded queries, rewriting with an LLM, and invalid responses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llm_server import ChatServer, Reply, last_user_text

from mirage.errors import DatasetError, LLMError
from mirage.llm import LLM
from mirage.models import Passage, Query
from mirage.retrieval import (
    BM25,
    LLMQueryRewriter,
    RecordedQueries,
    Retriever,
    RewritingRetriever,
)
from mirage.retrieval.rewriting import read_query

QUERIES = [
    Query(id="1", language="sw", text="mto mrefu"),
    Query(id="2", language="sw", text="mlima mrefu"),
    Query(id="3", language="en", text="a lake"),
]
BOOK = [Passage(id=word, text=f"the {word}") for word in ("river", "mountain", "lake", "mto")]


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


@pytest.fixture(scope="module")
def bm25() -> BM25:
    return BM25.build(BOOK, language="en", progress=False)


def llm_of(server: ChatServer, **settings: Any) -> LLM:
    return LLM("m", base_url=server.url, backoff=0.01, retries=1, **{"cache": False} | settings)


def translated(request: Any) -> str:
    return "the river" if "mto" in last_user_text(request) else '"The mountain"'


def test_retrieval_uses_the_rewritten_queries(server: ChatServer, bm25: BM25) -> None:
    assert bm25.retrieve(QUERIES, 1)["1"].passage_ids == ("mto",)
    server.answer = translated
    retriever = RewritingRetriever(bm25, LLMQueryRewriter(llm_of(server), "en"))
    run = retriever.retrieve(QUERIES, 1)
    assert [run[query.id].passage_ids for query in QUERIES] == [
        ("river",),
        ("mountain",),
        ("lake",),
    ]
    assert len(server.requests) == 2  # the third is in English
    assert "into English" in last_user_text(server.requests[0])
    assert isinstance(retriever, Retriever)
    assert run.name == "m-in-en>BM25"
    list(run.lines())  # its name can stand in a run file


def test_a_query_with_an_invalid_rewrite_stays_unchanged_and_is_counted(
    server: ChatServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer = lambda request: (
        "Sure!\nHere it is." if "mto" in last_user_text(request) else "the mountain"
    )
    rewriter = LLMQueryRewriter(llm_of(server), "en")
    first, second, _ = rewriter.rewrite(QUERIES)
    assert (first, second.text, second.language) == (QUERIES[0], "the mountain", "en")
    assert list(rewriter.kept) == ["1"]
    assert (
        "1 of 2 queries were not rewritten and stay unchanged; the first reason, for query '1'"
        in caplog.text
    )


def test_no_answer_at_all_is_an_error(server: ChatServer) -> None:
    server.answer = lambda _: Reply(status=400, text="no")
    with pytest.raises(LLMError, match="none of the 2 queries was rewritten"):
        LLMQueryRewriter(llm_of(server), "en").rewrite(QUERIES)


def test_answers_are_cached(server: ChatServer, tmp_path: Path) -> None:
    server.answer = lambda _: "a river"
    for _ in range(2):
        rewriter = LLMQueryRewriter(llm_of(server, cache=tmp_path / "llm.sqlite"))
        assert rewriter.rewrite(QUERIES)[0].text == "a river"
    assert len(server.requests) == 3
    assert rewriter.rewrite(QUERIES)[0].language == "sw"


def test_recorded_queries(bm25: BM25, tmp_path: Path) -> None:
    path = tmp_path / "en.jsonl"
    path.write_text('{"id": "1", "text": "river"}\n{"query_id": 2, "query": "mountain"}\n')
    recorded = RecordedQueries(path, language="en")
    run = RewritingRetriever(bm25, recorded).retrieve(QUERIES[:2], 1)
    assert run["2"].passage_ids == ("mountain",)
    assert recorded.fingerprint != RecordedQueries({"1": "x"}).fingerprint
    with pytest.raises(DatasetError, match="no text for query '3'"):
        recorded.rewrite(QUERIES)
    path.write_text('{"id": "1", "text": ""}\n')
    with pytest.raises(DatasetError, match=r"en\.jsonl, line 1: expected an object with 'id'"):
        RecordedQueries(path)


def test_an_answer_is_one_line_without_quotes() -> None:
    assert read_query(" «Which river?» \n") == "Which river?"
    for text in ("", "  \n", '""', "a\nb", "x" * 501):
        assert read_query(text) is None
