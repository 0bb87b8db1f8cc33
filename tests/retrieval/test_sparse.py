"""Learned sparse retrieval, with a small SPLADE model that is made on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_models import sparse_encoder

from mirage.corpus import Corpus
from mirage.errors import DatasetError, NeuralError, SettingError
from mirage.models import Passage, Query
from mirage.neural import SparseEmbedder
from mirage.retrieval import Retriever, SparseRetriever, _shards

TEXTS = ["a river", "the nile", "of egypt", "banana", "the nile"]
QUERIES = [
    Query(id=str(i), language="en", text=text) for i, text in enumerate(("where is it?", "nile"))
]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sparse_encoder(tmp_path_factory.mktemp("splade"))


@pytest.fixture(scope="module")
def embedder(model_folder: Path) -> SparseEmbedder:
    return SparseEmbedder(model_folder, batch_size=2)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus.build([Passage(id=f"p{i}", text=text) for i, text in enumerate(TEXTS)])


def test_scores_are_those_of_sentence_transformers(
    model_folder: Path, corpus: Corpus, embedder: SparseEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentence_transformers import SparseEncoder

    monkeypatch.setattr(_shards, "SHARD", 2)
    index = SparseRetriever.build(corpus, embedder=embedder, progress=False)
    model = SparseEncoder(str(model_folder))
    questions = model.encode_query([query.text for query in QUERIES])
    products = model.similarity(questions, model.encode_document(TEXTS)).numpy()
    run = index.retrieve(QUERIES, 4)
    for query, row in zip(QUERIES, products, strict=True):
        ids, scores = run[query.id]
        order = sorted(range(5), key=lambda i: (-round(float(row[i]), 4), i))[:4]
        assert ids == tuple(f"p{i}" for i in order)
        assert scores == pytest.approx(row[order], rel=1e-4)
    assert isinstance(index, Retriever)
    assert list(index.retrieve([], 3)) == []
    with pytest.raises(SettingError, match="k must be at least 1"):
        index.retrieve(QUERIES, 0)


def test_a_build_goes_on_and_is_never_used_for_something_else(
    model_folder: Path,
    corpus: Corpus,
    embedder: SparseEmbedder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_shards, "SHARD", 2)
    whole = SparseRetriever.build(corpus, tmp_path / "whole", embedder=model_folder, progress=False)
    calls: list[int] = []
    passages = embedder.passages

    def stops(texts: list[str]) -> Any:
        calls.append(len(texts))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return passages(texts)

    monkeypatch.setattr(embedder, "passages", stops)
    folder = tmp_path / "index"
    with pytest.raises(KeyboardInterrupt):
        SparseRetriever.build(corpus, folder, embedder=embedder, progress=False)
    assert not folder.exists()
    index = SparseRetriever.build(corpus, folder, embedder=embedder, progress=False)
    assert calls == [2, 2, 2, 1]
    assert index.retrieve(QUERIES, 5) == whole.retrieve(QUERIES, 5)
    SparseRetriever.build(corpus, folder, embedder=embedder, progress=False)
    assert len(calls) == 4
    other = Corpus.build([Passage(id="x", text="another")])
    with pytest.raises(DatasetError, match="built from a different corpus"):
        SparseRetriever.open(folder, other, embedder)
    model = SparseEmbedder(model_folder)
    next(model._model.parameters()).data[7] += 0.5
    with pytest.raises(DatasetError, match="with a different model"):
        SparseRetriever.open(folder, corpus, model)
    path = folder / "000000000002.npz"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(
        DatasetError, match=r"000000000002\.npz has .* build the sparse index again"
    ):
        SparseRetriever.open(folder, corpus, embedder)


def test_damaged_shards_and_missing_models_raise_errors(
    corpus: Corpus, embedder: SparseEmbedder, tmp_path: Path
) -> None:
    index = SparseRetriever.build(corpus, tmp_path / "i", embedder=embedder, progress=False)
    path = tmp_path / "i" / "000000000000.npz"
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(DatasetError, match=r"000000000000\.npz: damaged"):
        index.retrieve(QUERIES, 1)
    assert path.exists()
    with pytest.raises(DatasetError, match=r"000000000000\.npz is damaged"):
        SparseRetriever.open(tmp_path / "i", corpus, embedder)
    with pytest.raises(NeuralError, match="cannot be loaded"):
        SparseEmbedder(tmp_path)
    with pytest.raises(SettingError, match="batch_size=0"):
        SparseEmbedder(tmp_path, batch_size=0)


def test_a_model_that_fails_is_named_with_what_it_was_given(
    corpus: Corpus, embedder: SparseEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = SparseRetriever.build(corpus, embedder=embedder, progress=False)
    monkeypatch.setattr(embedder, "_weights", lambda *_: 1 / 0)
    with pytest.raises(NeuralError, match=r"SparseEmbedder\(.* on 2 questions to Corpus.*ZeroDiv"):
        index.retrieve(QUERIES, 1)
    with pytest.raises(NeuralError, match=r"SparseEmbedder\(.* 'p0' to 'p4' of Corpus.*ZeroDiv"):
        SparseRetriever.build(corpus, embedder=embedder, progress=False)


def test_texts_keep_their_order_whatever_their_length(embedder: SparseEmbedder) -> None:
    texts = ["a", "abcdef", "abc", "abcdefgh", "ab"]
    together = embedder.passages(texts).toarray()
    alone = np.concatenate([embedder.passages([text]).toarray() for text in texts])
    assert together == pytest.approx(alone, abs=1e-5)
