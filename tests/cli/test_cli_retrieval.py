"""mirage index, retrieve, rerank and eval-run, and features of short answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import json_lines, mirage, refusal
from llm_server import ChatServer, Reply
from tiny_models import sentence_transformer, sparse_encoder

from mirage.corpus import Corpus
from mirage.dataset import MirageDataset
from mirage.models import Query
from mirage.neural.embedders import embedder_of
from mirage.retrieval import (
    BM25,
    DenseRetriever,
    HybridRetriever,
    RetrievalRun,
    SparseRetriever,
    evaluate,
)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Build an index of the bundled passages as rows, and of a folder with a text."""
    dataset = MirageDataset.bundled("en")
    passages = {passage.id: passage for query in dataset for passage in query.passages}
    rows = [passage.model_dump(exclude_none=True) for passage in passages.values()]
    json_lines(tmp_path / "passages.jsonl", rows)
    (tmp_path / "handbook").mkdir()
    words = " ".join(f"leave{n}" for n in range(30))
    (tmp_path / "handbook" / "leave.md").write_text(f"# Leave\n{words}")
    arguments = (tmp_path / "handbook", tmp_path / "passages.jsonl", tmp_path / "an.index")
    done = mirage("index", *arguments, "--language", "en", "--size", "20")
    assert done.stdout == f"{arguments[-1]}: {len(rows) + 2} passages\n"
    return arguments[-1]


def test_documents_are_indexed_retrieved_and_measured(index: Path, tmp_path: Path) -> None:
    run = tmp_path / "run.trec"
    assert "40 queries, 20 passages at most" in mirage(
        "retrieve", index, "en", "-k", 20, "--out", run
    ).stderr.replace("\n", " ")
    dataset = MirageDataset.bundled("en")
    expected = evaluate(RetrievalRun.read(run), dataset, ["R@10", "nDCG@10"])
    assert expected["R@10"].mean > 0.7
    done = mirage("eval-run", run, "en", "--measure", "R@10", "--measure", "nDCG@10", "--json")
    (plain,) = json.loads(done.stdout)["runs"]
    assert [row["mean"] for row in plain["measures"]] == [row.mean for row in expected]
    assert [row["interval"] for row in plain["measures"]] == [
        pytest.approx(row.interval) for row in expected
    ]
    assert plain["queries"].keys() == set(expected.query_ids)
    assert "10 without a relevant passage" in mirage("eval-run", run, "en").stdout


def test_other_queries_are_found_in_other_forms(index: Path, tmp_path: Path) -> None:
    topics = tmp_path / "topics.tsv"
    topics.write_text("1\twhat of leave3?\n2\tzzz\n")
    done = mirage("retrieve", index, topics)
    assert done.stdout.split()[:4] == ["1", "Q0", "leave.md#0", "1"]
    assert "2 queries, 50 passages at most, 1 without a result" in done.stderr
    rows = json_lines(tmp_path / "q.jsonl", [{"id": "x", "question": "leave25"}])
    assert mirage("retrieve", index, rows).stdout.split()[2] == "leave.md#1"


def test_documents_and_two_runs(index: Path, tmp_path: Path) -> None:
    topics, qrels = tmp_path / "topics.tsv", tmp_path / "qrels.txt"
    topics.write_text("".join(f"{n}\tleave{n}\n" for n in range(30)))
    qrels.write_text("".join(f"{n} 0 leave.md#0 1\n" for n in range(30)))
    found, none = tmp_path / "a.trec", tmp_path / "b.trec"
    mirage("retrieve", index, topics, "--out", found)
    assert "RR@10    0.600" in mirage("eval-run", found, qrels).stdout
    assert "RR@10    1.000" in mirage("eval-run", found, qrels, "--level", "document").stdout
    none.write_text("0 Q0 x 1 1.0 BM25\n")
    words = mirage("eval-run", found, qrels, "--measure", "RR@10", "--compare", none)
    assert "a.trec less b.trec: 30 queries" in words.stdout
    assert "29 queries are not in the run (counted as 0)" in words.stdout
    done = mirage("eval-run", found, qrels, "--compare", none, "--json")
    (first, *_) = json.loads(done.stdout)["differences"]
    assert first["difference"] == pytest.approx(0.6)
    assert first["p"] < 0.001
    assert first["no_interval"] == ""


def test_a_missing_interval_has_a_reason(tmp_path: Path) -> None:
    qrels, run, other = tmp_path / "qrels.txt", tmp_path / "a.trec", tmp_path / "b.trec"
    qrels.write_text("".join(f"{n} 0 p{n} 1\n" for n in range(3)))
    run.write_text("".join(f"{n} Q0 p{n} 1 1.0 a\n" for n in range(3)))
    other.write_text("".join(f"{n} Q0 p1 1 1.0 b\n" for n in range(3)))
    compared = ("eval-run", run, qrels, "--compare", other, "--measure", "RR@10")
    text = mirage(*compared).stdout
    assert text.count("no interval: too few queries (3; at least 10 are needed)") == 2
    assert "no interval: fewer than 10 clusters of queries, or too few differ" in text
    plain = json.loads(mirage(*compared, "--json").stdout)
    (measure,) = plain["runs"][0]["measures"]
    assert measure["interval"] == [None, None]
    assert measure["no_interval"] == "too few queries (3; at least 10 are needed)"
    assert plain["differences"][0]["no_interval"].startswith("fewer than 10 clusters")


def test_the_same_command_opens_what_is_there(index: Path, tmp_path: Path) -> None:
    stamp = (index / "bm25" / "rows.npy").stat().st_mtime_ns
    arguments = ("index", tmp_path / "handbook", tmp_path / "passages.jsonl", index)
    assert mirage(*arguments, "--language", "en", "--size", "20").exit_code == 0
    assert (index / "bm25" / "rows.npy").stat().st_mtime_ns == stamp
    mirage(*arguments, "--language", "en", "--size", "30")
    corpus = Corpus.open(index / "corpus")
    assert BM25.open(index / "bm25", corpus).search("leave25", 1)[0].passage.id == "leave.md#0"


def test_models_in_folders_index_too_and_are_found_again(tmp_path: Path) -> None:
    dense, sparse = sentence_transformer(tmp_path / "d"), sparse_encoder(tmp_path / "s")
    texts = {"p0": "a river", "p1": "the nile", "p2": "of egypt", "p3": "banana"}
    rows = [{"id": id_, "text": text} for id_, text in texts.items()]
    passages, folder = json_lines(tmp_path / "p.jsonl", rows), tmp_path / "an.index"
    prefixes = ("--set", "query_prefix=ask: ", "--set", "passage_prefix=say: ")
    models = ("--encoder", dense, *prefixes, "--sparse", sparse)
    done = mirage("index", passages, folder, "--language", "en", *models)
    corpus = Corpus.open(folder / "corpus")
    by = {
        "bm25": BM25.open(folder / "bm25", corpus),
        "dense": DenseRetriever.open(folder / "dense", corpus, dense),
        "sparse": SparseRetriever.open(folder / "sparse", corpus, sparse),
    }
    assert f"encoded by {dense}, encoded by {sparse}" in done.stdout
    assert (by["dense"].query_prefix, by["dense"].passage_prefix) == ("ask: ", "say: ")
    (topics := tmp_path / "t.tsv").write_text("1\twhere is the nile\n2\tbanana\n")
    queries = [Query(id="1", language="en", text="where is the nile")]
    queries.append(Query(id="2", language="en", text="banana"))
    out = tmp_path / "run.trec"
    for kind, retriever in by.items():
        done = mirage("retrieve", folder, topics, "--by", kind, "--out", out)
        assert f"{retriever.name}: 2 queries" in done.stderr
        assert RetrievalRun.read(out) == retriever.retrieve(queries, 50)
    mirage("rerank", out, folder, topics, "--kind", "dense", "--depth", 2, "--out", tmp_path / "r")
    expected = by["dense"].rerank(RetrievalRun.read(out), corpus, queries, 2)
    assert RetrievalRun.read(tmp_path / "r") == expected
    assert mirage("retrieve", folder, topics).stdout.endswith("dense\n")
    fused = mirage("retrieve", folder, topics, "--by", "bm25", "--by", "sparse", "-k", 2).stdout
    hybrid = HybridRetriever(by["bm25"], by["sparse"]).retrieve(queries, 2)
    assert fused.splitlines() == list(hybrid.lines())
    assert "did you mean 'dense'" in refusal("retrieve", folder, topics, "--by", "dens")


def test_settings_of_the_encoder_are_stored_with_the_index(tmp_path: Path) -> None:
    dense, questions = sentence_transformer(tmp_path / "d"), sentence_transformer(tmp_path / "q")
    rows = [{"id": "p0", "text": "a river"}, {"id": "p1", "text": "the nile"}]
    passages, folder = json_lines(tmp_path / "p.jsonl", rows), tmp_path / "an.index"
    settings = ("query_model=" + str(questions), "pooling=cls", "max_length=8")
    of_encoder = [part for setting in settings for part in ("--set", setting)]
    mirage("index", passages, folder, "--language", "en", "--encoder", dense, *of_encoder)
    embedder = embedder_of(dense, query_model=questions, pooling="cls", max_length=8)
    index = DenseRetriever.open(folder / "dense", Corpus.open(folder / "corpus"), embedder)
    (topics := tmp_path / "t.tsv").write_text("1\twhere is the nile\n")
    out = tmp_path / "run.trec"
    mirage("retrieve", folder, topics, "--out", out)
    expected = index.retrieve([Query(id="1", language="en", text="where is the nile")], 50)
    assert RetrievalRun.read(out) == expected
    note = folder / "dense.json"
    note.write_text(note.read_text().replace('"max_length": 8', '"max_length": "8"'))
    assert "dense.json: the setting max_length is damaged ('8')" in refusal(
        "retrieve", folder, topics
    )
    for arguments in (("pooling=cls",), ("pooling=cls", "--sparse", "x")):
        message = refusal("index", passages, tmp_path / "i", "--set", *arguments)
        assert "need" in message
    assert "max_length=x: expected a number" in refusal(
        "index", passages, tmp_path / "i", "--set", "max_length=x"
    )


def test_an_endpoint_indexes_and_is_asked_again(tmp_path: Path, server: ChatServer) -> None:
    def letters(text: str) -> list[int]:
        return [1, *(text.count(letter) for letter in "abcd")]

    def embeddings(request: Mapping[str, Any]) -> Reply:
        data = [{"index": i, "embedding": letters(t)} for i, t in enumerate(request["input"])]
        return Reply(body=json.dumps({"data": data}).encode())

    server.answer = embeddings
    rows = [{"id": f"p{i}", "text": text} for i, text in enumerate(["aaa", "bbb", "cccd"])]
    passages, folder = json_lines(tmp_path / "p.jsonl", rows), tmp_path / "an.index"
    (topics := tmp_path / "t.tsv").write_text("1\tbb\n")
    encoder = ("--encoder", "e", "--base-url", server.url)
    arguments = ("index", passages, folder, "--language", "en", *encoder)
    mirage(*arguments)
    asked = len(server.requests)
    mirage(*arguments)
    assert len(server.requests) == asked  # all vectors are there
    done = mirage("retrieve", folder, topics, "-k", 1, "--llm", "cache=no")
    assert done.stdout.split()[:4] == ["1", "Q0", "p1", "1"]
    assert server.paths[-1] == "/v1/embeddings"
    json_lines(passages, [*rows, {"id": "p3", "text": "d"}])
    mirage("index", passages, folder, "--language", "en")
    assert "built from a different corpus" in refusal("retrieve", folder, topics)
    assert mirage("retrieve", folder, topics, "--by", "bm25").exit_code == 0
    server.answer = lambda _: Reply("no such model", status=404)
    message = refusal(*arguments)
    assert "EndpointEmbedder" in message
    assert "passages 'p0' to 'p3' of Corpus" in message


def test_what_an_index_by_a_model_lacks_is_said(index: Path, tmp_path: Path) -> None:
    message = refusal("retrieve", index, "en", "--by", "dense")
    hint = f"add one with `mirage index DOCUMENTS {index} --encoder"
    assert f"{index} has no dense index; {hint}" in message
    (index / "sparse").mkdir()
    for text in ("", "[1]", "{}", '{"model": 3}'):
        (index / "sparse.json").write_text(text)
        assert "sparse.json does not name the model" in refusal("retrieve", index, "en")
    (tmp_path / "n.md").write_text("x")
    assert "need --encoder" in refusal(
        "index", tmp_path / "n.md", tmp_path / "i", "--base-url", "http://localhost:1/v1"
    )
    assert not (tmp_path / "i").exists()


def test_what_is_no_index_or_no_run_is_said(tmp_path: Path) -> None:
    handbook = tmp_path / "handbook"
    handbook.mkdir()
    (handbook / "leave.md").write_text("# Leave\nAll have some.")
    assert "exists, but is not an index" in refusal("index", handbook, handbook)
    assert "did you mean" in refusal("index", tmp_path / "handbok", tmp_path / "x.index")
    assert "did you mean 'word'" in refusal(
        "index", handbook, tmp_path / "y", "--set", "unit=words"
    )
    assert "not an index; `mirage index" in refusal("retrieve", handbook, "en")
    assert "give --language" in _topics(handbook, tmp_path)
    (tmp_path / "r").write_text("1 Q0 a 1 1.0 x\n")
    (tmp_path / "q").write_text("1 0 a 1\n")
    message = refusal("eval-run", tmp_path / "r", tmp_path / "q", "--measure", "ndcg@10")
    assert "did you mean 'nDCG@10'" in message or "'NDCG@10'" in message
    assert "did you mean" in refusal("eval-run", tmp_path / "r", tmp_path / "q", "--level", "docs")


def _topics(handbook: Path, tmp_path: Path) -> str:
    """Return the message about topics for an index without a language."""
    mirage("index", handbook, tmp_path / "any.index")
    (tmp_path / "t.tsv").write_text("1\tx\n")
    arguments = ("retrieve", tmp_path / "any.index", tmp_path / "t.tsv")
    assert "unknown language 'xx'" in refusal(*arguments, "--language", "xx")
    return refusal(*arguments)


def test_responses_are_scored_by_short_answers(tmp_path: Path) -> None:
    answers = json_lines(
        tmp_path / "answers.jsonl",
        [
            {"id": 1, "question": "How many?", "answers": ["28", "twenty-eight"]},
            {"id": 2, "question": "Who?", "answers": ["Ada"]},
            {"id": 3, "question": "Why?"},
        ],
    )
    run = json_lines(
        tmp_path / "rag.jsonl",
        [
            {"query_id": "1", "text": "It is 28 days."},
            {"query_id": "2", "text": None, "error": "HTTP 500"},
            {"query_id": "3", "text": "Because."},
        ],
    )
    given = ("--dataset", answers, "--form", "answers")
    done = mirage("features", run, *given, "--language", "en")
    assert "1 of 3 responses failed" in done.stdout
    assert "qa_match         1.000             2" in done.stdout
    named = ("--feature", "qa_match", "--feature", "bergen_exact", "--json")
    (plain,) = json.loads(mirage("features", run, *given, "--language", "en", *named).stdout)
    assert plain["mean"] == {"qa_match": 1.0, "bergen_exact": 0.0}
    assert plain["failed"] == ["2"]
    assert plain["queries"]["3"] == {"qa_match": None, "bergen_exact": None}
    assert "field 'language' is missing" in refusal("features", run, *given)


def test_a_run_is_reranked_by_an_endpoint(index: Path, tmp_path: Path, server: ChatServer) -> None:
    """The endpoint ranks the passage with ``leave29`` first, and fails on the second query."""
    topics, found = tmp_path / "topics.tsv", tmp_path / "bm25.trec"
    topics.write_text("1\tleave3 leave25 leave4\n2\tleave5 leave25\n3\tzzz\n")
    mirage("retrieve", index, topics, "--out", found)

    def answer(request: Mapping[str, Any]) -> Reply:
        if "leave5" in request["query"]:
            return Reply(status=400, text="no")
        results = [
            {"index": i, "relevance_score": float("leave29" in text)}
            for i, text in enumerate(request["documents"])
        ]
        return Reply(body=json.dumps({"results": results}).encode())

    server.answer = answer
    arguments = ("rerank", found, index, topics, "--kind", "jina", "--base-url", server.url)
    model = ("--model", "m", "--llm", "cache=no")
    done = mirage(*arguments, *model, "--out", tmp_path / "b.trec")
    assert "3 queries, 1 of which keep their order" in done.stderr
    before, after = RetrievalRun.read(found), RetrievalRun.read(tmp_path / "b.trec")
    assert before["1"].passage_ids == ("leave.md#0", "leave.md#1")
    assert after["1"].passage_ids == ("leave.md#1", "leave.md#0")
    assert after["2"].passage_ids == before["2"].passage_ids
    assert "keep their original order" in done.stderr
    assert "needs --model NAME" in refusal(*arguments)
    topics.write_text("9\tleave3\n")
    message = refusal(*arguments, "--model", "m")
    assert (
        f"{found}: the run ranks no passage for any query of {topics}; check that both" in message
    )
