"""Functions with an ``executor=`` return, to the byte, the same results as without one."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from llm_server import ChatServer, last_user_text

sys.path.insert(0, str(Path(__file__).parents[1] / "arena"))
sys.path.insert(0, str(Path(__file__).parents[1] / "surrogate"))
from judging import first_in_alphabet, judge_by, make_dataset, make_runs

from mirage import LLM, FeatureSuite, MirageDataset, OpenAIGenerator, PairwiseJudge, respond
from mirage.corpus import Corpus
from mirage.errors import GenerationError, LLMError
from mirage.executors import Executor
from mirage.executors.ray import RayExecutor
from mirage.features.neural import reranker_score, support_entailment, support_neutral
from mirage.models import Passage, Query, Run
from mirage.neural import NLI, Reranker, SentenceEmbedder
from mirage.retrieval import CrossEncoderReranker, DenseRetriever, RetrievalRun, SparseRetriever
from mirage.surrogate.ranker import SurrogateRanker

DATASET = MirageDataset.bundled("en")
WORDS = ("who", "what", "where", "when", "abba", "baobab", "cede", "fig")


def passages(count: int) -> list[Passage]:
    rng = np.random.default_rng(0)
    return [
        Passage(id=f"p{i}", text=" ".join(rng.choice(WORDS, rng.integers(1, 12))))
        for i in range(count)
    ]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


# Models -------------------------------------------------------------------------------------------


def test_shards_of_vectors(executor: Executor, tmp_path: Path) -> None:
    model = tiny_models.sentence_transformer(tmp_path)
    corpus = Corpus.build(passages(1500))
    for by in (model, SentenceEmbedder(SentenceEmbedder(model)._model)):
        DenseRetriever.build(corpus, tmp_path / "alone", embedder=by)
        DenseRetriever.build(corpus, tmp_path / "together", embedder=by, executor=executor)
        assert len(files(tmp_path / "alone")) == 3
        assert files(tmp_path / "together") == files(tmp_path / "alone")


def test_shards_of_terms(executor: Executor, tmp_path: Path) -> None:
    model = tiny_models.sparse_encoder(tmp_path)
    corpus = Corpus.build(passages(1100))
    SparseRetriever.build(corpus, tmp_path / "alone", embedder=model)
    SparseRetriever.build(corpus, tmp_path / "together", embedder=model, executor=executor)
    assert files(tmp_path / "together") == files(tmp_path / "alone")


def test_reranking(executor: Executor, tmp_path: Path) -> None:
    folder = tiny_models.cross_encoder(tmp_path)
    corpus = Corpus.build(passages(120))
    queries = [
        Query(id=f"q{i}", language="en", text=f"who {word}?") for i, word in enumerate(WORDS)
    ]
    candidates = RetrievalRun.of({q.id: {f"p{i}": 1.0 for i in range(120)} for q in queries}, "all")
    alone, together = (Reranker(folder, cache=tmp_path / name) for name in ("a", "b"))
    expected = CrossEncoderReranker(alone).rerank(candidates, corpus, queries, 100)
    reranked = CrossEncoderReranker(together).rerank(
        candidates, corpus, queries, 100, executor=executor
    )
    assert reranked.scores() == expected.scores()
    # The driver keeps what workers computed; they keep nothing.
    assert alone.cache is not None
    assert together.cache is not None
    assert len(together.cache) == len(alone.cache) > 500


def test_features(executor: Executor, tmp_path: Path) -> None:
    labels = {0: "entailment", 1: "neutral", 2: "contradiction"}
    nli = tiny_models.cross_encoder(tmp_path / "nli", num_labels=3, id2label=labels)
    ranker = tiny_models.cross_encoder(tmp_path / "reranker")

    def longer(query: Query, response: Any) -> float:
        return len(response.text) / len(query.text)

    def suite() -> FeatureSuite:
        model = NLI(nli, cache=False)
        return FeatureSuite(
            [
                "answer_rougeL",
                support_entailment(model),
                longer,
                support_neutral(model),
                reranker_score(Reranker(ranker, cache=False)),
                "citation_recall@10",
            ]
        )

    def cited(query: Query) -> str:
        ids = " ".join(f"[{passage.id}]" for passage in query.passages[:3])
        return f"{query.text} {ids} {query.passages[0].text[:80]} {ids}"

    run = respond(cited, DATASET, progress=False)
    alone, together = suite(), suite()
    for _ in range(2):
        expected = alone.score(DATASET, run, progress=False)
        table = together.score(DATASET, run, executor=executor, progress=False)
        assert table.values.tobytes() == expected.values.tobytes()
        assert table.features == expected.features
        assert table.reasons == expected.reasons
    assert not np.isnan(expected.values[:, 1:5]).all(axis=0).any()
    assert len(np.unique(expected.values[:, 4])) > 20


# Answers ------------------------------------------------------------------------------------------


def test_answers_of_a_function(executor: Executor, tmp_path: Path) -> None:
    def answer(query: Query) -> str:
        if query.id.endswith("3"):
            raise ValueError(f"no answer to {query.id}")
        return query.text.upper()

    expected = respond(answer, DATASET, out=tmp_path / "alone.jsonl", progress=False)
    together = tmp_path / "together.jsonl"
    run = respond(answer, DATASET, out=together, executor=executor, progress=False)
    assert run == expected
    assert len(expected.failed) > 0
    assert together.read_bytes() == (tmp_path / "alone.jsonl").read_bytes()


def test_a_function_that_always_fails_is_an_error(executor: Executor) -> None:
    def fails(query: Query) -> str:
        raise ValueError(query.id)

    with pytest.raises(GenerationError, match="failed on all"):
        respond(fails, DATASET, executor=executor, progress=False)


def test_answers_of_an_llm(executor: Executor, server: ChatServer, tmp_path: Path) -> None:
    server.answer = lambda request: last_user_text(request)[-40:]

    def answered(name: str, **where: Any) -> tuple[Run, LLM]:
        llm = LLM("m", base_url=server.url, cache=tmp_path / name, concurrency=3)
        out = tmp_path / f"{name}.jsonl"
        return respond(OpenAIGenerator(llm), DATASET, out=out, progress=False, **where), llm

    (expected, alone), (on_workers, together) = answered("a"), answered("b", executor=executor)
    assert on_workers == expected
    assert (tmp_path / "b.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()
    assert together.usage == alone.usage
    assert together.usage.calls == len(DATASET)
    # Of a whole cluster together; threads have a connection each.
    assert server.at_once <= (3 if isinstance(executor, RayExecutor) else 6)
    # What was answered to a worker is in the cache of the driver.
    (tmp_path / "b.jsonl").unlink()
    again, llm = answered("b", executor=executor)
    assert again == expected
    assert (llm.usage.calls, llm.usage.cached) == (0, len(DATASET))


# Verdicts -----------------------------------------------------------------------------------------


def test_verdicts(executor: Executor, server: ChatServer, tmp_path: Path) -> None:
    server.answer = judge_by(first_in_alphabet)
    dataset = make_dataset(4)
    runs = make_runs(dataset)

    def judged(name: str, **where: Any) -> bytes:
        jury = [
            LLM(judge, base_url=server.url, cache=tmp_path / name, concurrency=2)
            for judge in ("m", "n")
        ]
        out = tmp_path / f"{name}.jsonl"
        judge = PairwiseJudge(jury, both_orders=True)
        result = judge.compare(dataset, runs, out=out, progress=False, **where)
        assert len(result.votes) == 4 * 3 * 2 * 2
        return out.read_bytes()

    assert judged("b", executor=executor) == judged("a")


def test_a_missing_key_is_an_error(executor: Executor) -> None:
    dataset = make_dataset(2)
    judge = PairwiseJudge(LLM("gpt", base_url="https://api.openai.com/v1"))
    with pytest.raises(LLMError, match="no API key"):
        judge.compare(dataset, make_runs(dataset), executor=executor, progress=False)


# Algorithm 1 --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ranker() -> SurrogateRanker:
    from test_ranker import arena

    tables, tournaments = arena(models=6, tournaments=10, queries=12)
    return SurrogateRanker("ridge").fit(tables, tournaments)


def test_validation(executor: Executor, ranker: SurrogateRanker) -> None:
    expected = ranker.cross_validate(2, 5)
    validation = ranker.cross_validate(2, 5, executor=executor)
    assert validation.predicted["sw"].tobytes() == expected.predicted["sw"].tobytes()
    assert validation.tau == expected.tau


@pytest.mark.slow
def test_validation_through_joblib(ray_of_two: RayExecutor, ranker: SurrogateRanker) -> None:
    import joblib
    from ray.util.joblib import register_ray

    assert ray_of_two.workers == 2
    register_ray()
    expected = ranker.cross_validate(2, 5)
    with joblib.parallel_config(backend="ray"):
        validation = ranker.cross_validate(2, 5, n_jobs=2)
    assert validation.predicted["sw"].tobytes() == expected.predicted["sw"].tobytes()


# Workers that are lost ----------------------------------------------------------------------------


def dying(folder: Path, answer: Callable[[str], str]) -> Callable[[Query], str]:
    """Return a function that ends its process the first time that it gets the fifth query."""

    def work(query: Query) -> str:
        if query.id == DATASET.query_ids[5] and not (folder / "dead").exists():
            (folder / "dead").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return answer(query.text)

    return work


@pytest.mark.slow
def test_the_work_of_a_killed_worker_is_neither_lost_nor_doubled(
    ray_of_two: RayExecutor, tmp_path: Path
) -> None:
    out = tmp_path / "run.jsonl"
    work = dying(tmp_path, str.upper)
    run = respond(work, DATASET, out=out, executor=ray_of_two, progress=False)
    assert (tmp_path / "dead").exists()
    assert [r.text for r in run] == [query.text.upper() for query in DATASET]
    assert len(out.read_text().splitlines()) == len(DATASET)
