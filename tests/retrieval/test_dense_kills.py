"""A build by an endpoint that is killed: no vector that has come is asked for again."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from llm_server import ChatServer, Reply

from mirage.corpus import Corpus
from mirage.llm import LLM
from mirage.llm.cache import Cache
from mirage.models import Passage
from mirage.neural import EndpointEmbedder
from mirage.retrieval import DenseRetriever


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


ENCODE = """
import sys
from pathlib import Path
from mirage import Corpus
from mirage.llm import LLM
from mirage.neural import EndpointEmbedder
from mirage.retrieval import DenseRetriever
place, url = Path(sys.argv[1]), sys.argv[2]
embedder = EndpointEmbedder(LLM("e", base_url=url, cache=False, concurrency=2))
DenseRetriever.build(
    Corpus.open(place / "corpus"), place / "index", embedder=embedder, progress=False
)
"""


def lengths(request: Mapping[str, Any]) -> Reply:
    rows = [{"index": i, "embedding": [1.0, len(t)]} for i, t in enumerate(request["input"])]
    return Reply(body=json.dumps({"data": rows}).encode(), delay=0.01)


@pytest.mark.slow
def test_vectors_of_an_endpoint_are_kept_batch_by_batch(tmp_path: Path, server: ChatServer) -> None:
    passages = [Passage(id=f"p{i}", text=f"passage number {i}") for i in range(1400)]
    Corpus.build(passages, tmp_path / "corpus", language="en")
    hang = threading.Event()

    def answer(request: Mapping[str, Any]) -> Reply:
        if len(server.requests) > 20:
            return Reply(when=hang.is_set)  # under way when the process is killed
        return lengths(request)

    server.answer = answer
    with subprocess.Popen([sys.executable, "-c", ENCODE, str(tmp_path), server.url]) as process:
        while len(server.requests) < 22:
            assert process.poll() is None
            time.sleep(0.005)
        process.kill()
    server.answer = lengths
    corpus = Corpus.open(tmp_path / "corpus")
    embedder = EndpointEmbedder(LLM("e", base_url=server.url, cache=False))
    DenseRetriever.build(corpus, tmp_path / "index", embedder=embedder, progress=False)
    texts = Counter(text for request in server.requests for text in request["input"])
    assert len(texts) == 1400
    assert texts.total() - 1400 == 2 * 32  # what was under way
    DenseRetriever.build(corpus, tmp_path / "whole", embedder=embedder, progress=False)
    assert files(tmp_path / "index") == files(tmp_path / "whole")


def test_kept_vectors_are_deleted_with_their_shard(
    tmp_path: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirage.retrieval._shards.SHARD", 40)
    monkeypatch.setattr("mirage.retrieval.dense.SHARD", 40)
    sizes = []

    def answer(request: Mapping[str, Any]) -> Reply:
        (path,) = tmp_path.glob(".index.*.part/answers.sqlite")
        sizes.append(len(Cache(path)))
        return lengths(request)

    server.answer = answer
    passages = [Passage(id=f"p{i}", text=f"passage number {i}") for i in range(120)]
    embedder = EndpointEmbedder(LLM("e", base_url=server.url, cache=False, concurrency=1))
    DenseRetriever.build(
        Corpus.build(passages, language="en"), tmp_path / "index", embedder=embedder, progress=False
    )
    assert sizes == [0, 32, 0, 32, 0, 32]
    assert not list((tmp_path / "index").glob("answers*"))
    assert embedder.llm.cache is None
