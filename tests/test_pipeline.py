"""Test that generators, features, judges and leaderboards take pipelines like any other system."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from llm_server import ChatServer

from mirage import (
    LLM,
    Corpus,
    FeatureSuite,
    Leaderboard,
    MirageDataset,
    OpenAIGenerator,
    Passage,
    Pipeline,
    Query,
    Response,
    Run,
    respond,
)
from mirage.arena._prompt import judge_question
from mirage.errors import DatasetError, GenerationError, SettingError
from mirage.generation import RagPrompt
from mirage.retrieval import BM25, HybridRetriever, OracleRetriever, RetrievalRun, RunRetriever

DATASET = MirageDataset.bundled("en")[:8]
PASSAGES = {
    passage.id: passage for query in MirageDataset.bundled("en") for passage in query.passages
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus.build(PASSAGES.values(), tmp_path_factory.mktemp("c") / "en", language="en")


@pytest.fixture
def oracle(corpus: Corpus) -> OracleRetriever:
    return OracleRetriever(corpus)


def first_sentence(query: Query) -> str:
    return f"##Reason: [1]\n##Answer: {query.passages[0].text.split('. ')[0]} [1]."


class Reversed:
    """A reranker that reverses the order."""

    name = fingerprint = "reversed"

    def rerank(
        self, run: RetrievalRun, corpus: Corpus, queries: Iterable[Query], depth: int
    ) -> RetrievalRun:
        assert all(id_ in corpus for hits in run.values() for id_ in hits.passage_ids)
        ids = {query.id: run[query.id].passage_ids[:depth][::-1] for query in queries}
        return RetrievalRun.of(
            {query: {id_: -float(n) for n, id_ in enumerate(of)} for query, of in ids.items()}
        )


class FirstSentence:
    """A context processor that keeps one sentence."""

    name = "first sentence"

    def process(self, query: Query, passages: Sequence[Passage]) -> Sequence[Passage]:
        assert query.relevant == ()  # no gold for who is examined
        return [p.model_copy(update={"text": p.text.split(". ")[0]}) for p in passages]


def test_retrieved_passages_are_shown_and_ground_truth_is_kept(oracle: OracleRetriever) -> None:
    with_passages = Pipeline(oracle, show_k=2).show(DATASET)
    for query, before in zip(with_passages, DATASET, strict=True):
        assert query.passage_ids == before.relevant[:2]
        assert query.without_gold().passages == query.passages
        assert (query.relevant, query.reference) == (before.relevant, before.reference)


def test_responses_contain_the_passages_that_they_were_made_from(
    oracle: OracleRetriever, tmp_path: Path
) -> None:
    rag = Pipeline(oracle, generator=first_sentence, show_k=1)
    run = rag.run(DATASET, out=tmp_path / "run.jsonl", progress=False)
    assert run.model == "oracle + first_sentence"
    for response in Run.load(tmp_path / "run.jsonl", language="en"):
        assert response == run[response.query_id]
        assert response.shown == DATASET[response.query_id].relevant[:1]
        assert response.passages == (PASSAGES[response.shown[0]],)


def test_features_use_the_shown_passages(oracle: OracleRetriever) -> None:
    bare = MirageDataset(
        [query.model_copy(update={"passages": ()}) for query in DATASET], name="bare"
    )
    run = Pipeline(oracle, generator=first_sentence, show_k=1).run(bare, progress=False)
    table = FeatureSuite(["support_lexical", "citation_recall@10", "unknown_facts"], "en").score(
        bare, run, progress=False
    )
    support, recall, unknown = table.mean()
    assert support > 0.9
    assert recall > 0.5
    assert unknown == 0
    # Without the texts nobody could tell.
    plain = tuple(each.model_copy(update={"passages": ()}) for each in run)
    blind = FeatureSuite(["support_lexical"], "en").score(
        bare, run.model_copy(update={"responses": plain}), progress=False
    )
    assert blind.reasons


def test_a_killed_run_continues_and_repeats_answers_from_other_passages(
    oracle: OracleRetriever, tmp_path: Path
) -> None:
    out, answered_ids = tmp_path / "run.jsonl", []

    def answer(query: Query) -> str:
        answered_ids.append(query.id)
        return first_sentence(query)

    rag = Pipeline(oracle, generator=answer, show_k=1)
    rag.run(DATASET, out=out, progress=False)
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join(lines[:3]))
    answered_ids.clear()
    rag.run(DATASET, out=out, progress=False)
    assert answered_ids == list(DATASET.query_ids[3:])
    answered_ids.clear()
    pruned = Pipeline(oracle, processor=FirstSentence(), generator=answer, show_k=1)
    pruned.run(DATASET, out=out, progress=False)
    assert answered_ids == list(DATASET.query_ids)


def test_the_reranker_and_the_processor_are_applied(oracle: OracleRetriever) -> None:
    rag = Pipeline(oracle, reranker=Reversed(), processor=FirstSentence(), show_k=1)
    assert rag.name == "oracle + reversed + first sentence"
    query = next(query for query in DATASET if len(query.relevant) > 1)
    (passage,) = rag.show(DATASET)[query.id].passages
    assert passage.id == query.relevant[-1]
    assert passage.text == PASSAGES[passage.id].text.split(". ")[0]


def test_closed_book_shows_nothing() -> None:
    rag = Pipeline(None, generator=lambda query: f"##Answer: {len(query.passages)}.")
    run = rag.run(DATASET, progress=False)
    assert {response.text for response in run} == {"##Answer: 0."}
    assert {response.shown for response in run} == {()}


def test_a_board_takes_a_pipeline(corpus: Corpus) -> None:
    retrieval_run = RetrievalRun.of(
        {query.id: dict.fromkeys(query.passage_ids, 1.0) for query in MirageDataset.bundled("en")}
    )
    rag = Pipeline(RunRetriever(retrieval_run, corpus), generator=first_sentence)
    ranking = Leaderboard.bundled("en").rank(rag, "rag", progress=False)
    plain = Leaderboard.bundled("en").rank(first_sentence, "rag", progress=False)
    assert ranking["rag"].logit == pytest.approx(plain["rag"].logit, abs=1e-12)


def test_the_oracle_says_that_a_system_gets_no_gold(oracle: OracleRetriever) -> None:
    with pytest.raises(DatasetError, match="hide the qrels from systems"):
        Leaderboard.bundled("en").rank(Pipeline(oracle, generator=first_sentence), progress=False)


def test_a_judge_sees_what_was_shown_to_either() -> None:
    query = DATASET[0]
    other = next(p for p in PASSAGES.values() if p.id not in query.passage_ids)
    runs = [
        Run(
            model=name,
            language="en",
            responses=(Response(query_id=query.id, text="x [1]", shown=(p.id,), passages=(p,)),),
        )
        for name, p in (("a", query.passages[0]), ("b", other))
    ]
    question = judge_question(query, *(run[query.id] for run in runs))
    texts = "\n".join(text for _, text in question.material)
    assert query.passages[0].text in texts
    assert other.text in texts
    assert query.passages[1].text not in texts


def test_a_run_on_another_corpus_is_refused(corpus: Corpus) -> None:
    with pytest.raises(DatasetError, match="passage 'nowhere' of query 'q1' is not in"):
        RunRetriever(RetrievalRun.of({"q1": {"nowhere": 1.0}}), corpus)


def test_a_hybrid_fuses(corpus: Corpus) -> None:
    a, b, c = corpus.at(0).id, corpus.at(1).id, corpus.at(2).id
    runs = [
        RunRetriever(RetrievalRun.of({"q01": scores}, name), corpus)
        for name, scores in (("x", {a: 2.0, b: 1.0}), ("y", {b: 2.0, c: 1.0}))
    ]
    hybrid = HybridRetriever(*runs)
    assert hybrid.retrieve(DATASET[:1], 2)["q01"].passage_ids == (b, a)
    assert hybrid.name == "x+y"
    with pytest.raises(DatasetError, match="the same corpus; these 2 retrievers search 2 corpora"):
        HybridRetriever(runs[0], OracleRetriever(Corpus.build([Passage(id="z", text="z")])))


@pytest.mark.parametrize("depths", [{"show_k": 0}, {"show_k": 60}, {"show_k": 9, "retrieve_k": 8}])
def test_invalid_depths_raise(oracle: OracleRetriever, depths: dict[str, int]) -> None:
    with pytest.raises(SettingError, match="expected 1 <= show_k <= rerank_k <= retrieve_k"):
        Pipeline(oracle, **depths)  # type: ignore[arg-type]


def test_running_without_a_generator_raises(oracle: OracleRetriever) -> None:
    with pytest.raises(SettingError, match="pass generator="):
        Pipeline(oracle).run(DATASET)


def test_a_failed_answer_is_a_failed_response(oracle: OracleRetriever) -> None:
    def broken(query: Query) -> str:
        if query.id == DATASET[0].id:
            raise RuntimeError("out of order")
        return first_sentence(query)

    run = Pipeline(oracle, generator=broken, show_k=1).run(DATASET, progress=False)
    assert [response.error for response in run.failed] == ["RuntimeError: out of order"]
    with pytest.raises(GenerationError, match="failed on all"):
        respond(Pipeline(None, generator=lambda _: 1 / 0), DATASET, progress=False)


def test_a_prompt_in_a_pipeline_shows_passages_in_rank_order(
    corpus: Corpus, server: ChatServer
) -> None:
    def run(show_k: int, prompt: RagPrompt | None = None) -> Run:
        llm = LLM("m", base_url=server.url, cache=False)
        generator = OpenAIGenerator(llm, prompt=prompt)
        return Pipeline(BM25.build(corpus), generator=generator, show_k=show_k).run(
            DATASET, progress=False
        )

    retrieval_run = Pipeline(BM25.build(corpus), show_k=5).retrieve(DATASET)
    ranked = [retrieval_run[query.id].passage_ids[:5] for query in DATASET]
    assert [response.shown for response in run(5)] == ranked
    assert [response.shown for response in run(5, RagPrompt(seed=3))] == ranked
    assert [response.shown for response in run(5, RagPrompt(order="shuffled"))] != ranked
    # A generator that reads the first passage alone gives one answer, however many are shown.
    first = [[r.shown[0] for r in run(k) if r.shown] for k in (2, 5)]
    assert first[0] == first[1]


def test_the_oracle_takes_turns_among_the_documents_that_qrels_name() -> None:
    passages = [Passage(id=f"{page}#{n}", text=f"{page} {n}") for page in "abc" for n in range(3)]
    document_passages = [Passage(id=str(n), text="x", document="doc") for n in range(2)]
    queries = MirageDataset(
        [Query(id="q", language="en", text="?", relevant=("c", "a")),
         Query(id="none", language="en", text="?")]
    )  # fmt: skip
    run = OracleRetriever(Corpus.build(passages)).retrieve(queries, 4)
    assert run["q"].passage_ids == ("c#0", "a#0", "c#1", "a#1")
    assert run["none"].passage_ids == ()
    query = Query(id="q", language="en", text="?", relevant=("doc",))
    run = OracleRetriever(Corpus.build(document_passages)).retrieve([query], 4)
    assert run["q"].passage_ids == ("0", "1")
    with pytest.raises(DatasetError, match="none of the 1 passages or documents"):
        OracleRetriever(Corpus.build(passages)).retrieve([query], 4)
