"""TREC run files: ir_measures agrees with the citation features, and files are read back equal."""

from __future__ import annotations

from pathlib import Path

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st
from subsets import MOSTLY_SLOW_LANGUAGES

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, UnknownNameError
from mirage.features import FeatureSuite
from mirage.integrations import trec
from mirage.models import Query, Response, Run
from mirage.retrieval import RetrievalRun

MEASURES = {
    "citation_recall@10": ir_measures.R @ 10,
    "citation_recall@1": ir_measures.R @ 1,
    "citation_map@10": ir_measures.AP @ 10,
    "citation_map@2": ir_measures.AP @ 2,
}


def cited_run(dataset: MirageDataset) -> Run:
    """Return a run that cites wrong passages first, none, or one twice, and fails on one query."""

    def text(number: int, query: Query) -> str:
        ids = query.passage_ids
        order = (ids[::-1], ids[:2], (), (*ids[2:], *ids))[number % 4]
        return "##Answer: " + " ".join(f"So [{passage}]." for passage in order)

    responses = [Response(query_id=q.id, text=text(i, q)) for i, q in enumerate(dataset)]
    responses[1] = Response(query_id=dataset[1].id, text=None, error="HTTP 500")
    return Run(model="m", language=dataset.language, responses=tuple(responses))


@pytest.mark.parametrize("language", MOSTLY_SLOW_LANGUAGES)
def test_citation_features_equal_those_of_ir_measures(language: str, tmp_path: Path) -> None:
    dataset = MirageDataset.bundled(language)
    run = cited_run(dataset)
    table = FeatureSuite(MEASURES).score(dataset, run)
    expected = dict(zip(table.features, table.mean().tolist(), strict=True))
    assert 0 < expected["citation_map@2"] < expected["citation_recall@10"] < 1

    cited, relevance = trec.citations(dataset, run), trec.qrels(dataset, run)
    trec.write_run(cited, tmp_path / "run", tag="m")
    trec.write_qrels(relevance, tmp_path / "qrels")
    from_files = (
        list(ir_measures.read_trec_qrels(str(tmp_path / "qrels"))),
        list(ir_measures.read_trec_run(str(tmp_path / "run"))),
    )
    for judged, ranked in ((relevance, cited), from_files):
        aggregate = ir_measures.calc_aggregate(list(MEASURES.values()), judged, ranked)
        for name, measure in MEASURES.items():
            assert aggregate[measure] == pytest.approx(expected[name], abs=1e-12), name


def test_each_query_has_its_value() -> None:
    dataset = MirageDataset.bundled("sw")
    run = cited_run(dataset)
    column = FeatureSuite(["citation_map@10"]).score(dataset, run)
    expected = dict(zip(column.query_ids, column["citation_map@10"].tolist(), strict=True))
    metrics = ir_measures.iter_calc(
        [ir_measures.AP @ 10], trec.qrels(dataset, run), trec.citations(dataset, run)
    )
    values = {metric.query_id: metric.value for metric in metrics}
    assert values == pytest.approx({id_: expected[id_] for id_ in values})
    assert set(values) == {id_ for id_, value in expected.items() if value == value}


def test_a_failure_and_a_query_without_relevant_passages_do_not_count() -> None:
    dataset = MirageDataset.bundled("sw")
    run = cited_run(dataset)
    failed = run.failed[0].query_id
    assert failed not in trec.citations(dataset, run)
    assert failed not in trec.qrels(dataset, run)
    assert failed in trec.qrels(dataset)
    assert {q.id for q in dataset if not q.relevant}.isdisjoint(trec.qrels(dataset))
    assert trec.citations(dataset, run)[dataset[2].id] == {}  # cites nothing: counts as 0


def test_qrels_files_are_read_by_the_dataset(tmp_path: Path) -> None:
    dataset = MirageDataset.bundled("fi")
    trec.write_qrels(trec.qrels(dataset), tmp_path / "qrels")
    topics = "".join(f"{query.id}\t{query.text}\n" for query in dataset)
    (tmp_path / "topics").write_text(topics, encoding="utf-8")
    back = MirageDataset.from_trec(tmp_path / "topics", tmp_path / "qrels", language="fi")
    assert [set(query.relevant) for query in back] == [set(query.relevant) for query in dataset]


ID = st.text(st.characters(blacklist_categories=("Z", "C")), min_size=1, max_size=8)


@given(
    scores=st.dictionaries(
        ID,
        st.dictionaries(ID, st.floats(allow_nan=False, allow_infinity=False), min_size=1),
        max_size=4,
    )
)
def test_any_ranking_comes_back_equal(
    scores: trec.Scores, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("runs") / "run"
    trec.write_run(scores, path, tag="t")
    back = RetrievalRun.read(path).scores()
    assert back == scores
    for query_id, ranking in back.items():
        assert list(ranking) == sorted(scores[query_id], key=scores[query_id].get, reverse=True)


def test_ties_are_in_the_order_of_the_ranks(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("q Q0 b 2 1.5 t\nq Q0 a 1 1.5 t\nq Q0 c 3 9 t\n")
    assert list(RetrievalRun.read(tmp_path / "run")["q"].passage_ids) == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "q Q0 a 1 1.5 t\nq Q0 a 1 1.5\n",
            "run, line 2: expected 'query-id Q0 passage-id rank score",
        ),
        ("q Q0 a one 1.5 t\n", "line 1: expected"),
        ("q Q0 a 1 nan t\n", "line 1: score 'nan' is not a finite number"),
        ("q Q0 a 1 2 t\nq Q0 a 2 1 t\n", "line 2: passage 'a' is ranked twice for query 'q'"),
    ],
)
def test_bad_run_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "run").write_text(text)
    with pytest.raises(DatasetError, match=message):
        RetrievalRun.read(tmp_path / "run")


def test_ids_that_a_file_cannot_contain_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="'my rag' cannot be a field of a TREC file"):
        trec.write_run({"q": {"a": 1.0}}, tmp_path / "run", tag="my rag")
    with pytest.raises(DatasetError, match="'a b' cannot be written"):
        trec.write_qrels({"q": {"a b": 1}}, tmp_path / "qrels")
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "qrels").exists()
    run = Run(model="m", language="en", responses=(Response(query_id="q99", text="x"),))
    with pytest.raises(UnknownNameError, match=r"query 'q99' in .*, answered by model 'm'"):
        trec.citations(MirageDataset.bundled("en"), run)
