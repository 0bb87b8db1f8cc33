"""Retrieval runs: order, files, fusion, documents."""

from __future__ import annotations

import gzip
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from full_disk import disk_of
from hypothesis import example, given
from hypothesis import strategies as st

from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.retrieval import RetrievalRun
from mirage.retrieval.run import Hits
from mirage.sources.trec import read_qrels

RUN = RetrievalRun.of({"q1": {"a#0": 1.5, "b#1": 3.0, "a#1": 1.5}, "q2": {}}, "bm25")


def test_passages_are_in_the_order_of_scores_and_ties_as_given() -> None:
    assert RUN["q1"].passage_ids == ("b#1", "a#0", "a#1")
    assert RUN.top(1)["q1"].passage_ids == ("b#1",)
    assert RUN["q2"].passage_ids == ()
    assert repr(RUN) == "RetrievalRun('bm25', 2 queries, up to 3 passages each)"
    with pytest.raises(UnknownNameError, match="q3"):
        RUN["q3"]
    with pytest.raises(SettingError, match="k must be at least 1"):
        RUN.top(0)


@pytest.mark.parametrize("name", ["run.trec", "run.trec.gz"])
def test_a_run_goes_through_a_file(tmp_path: Path, name: str) -> None:
    RUN.write(tmp_path / name)
    again = RetrievalRun.read(tmp_path / name, query_ids=["q1", "q2"])
    assert again == RUN
    assert again.name == "bm25"
    assert "q2" not in RetrievalRun.read(tmp_path / name)


def test_files_of_other_tools_are_read(tmp_path: Path) -> None:
    path = tmp_path / "run.tsv"
    path.write_text("q1\tQ0\tdoc a\t1\t2.0\tx\nq1\tQ0\tdoc b\t0\t2.0\tx\nq1\tQ0\tdoc c\t2\t9\tx\n")
    assert RetrievalRun.read(path)["q1"].passage_ids == ("doc c", "doc b", "doc a")
    path.write_text("q1 Q0 b 3 2.0 x\n\nq1 Q0 a 3 2.0 x\n")  # equal ranks too: by id
    assert RetrievalRun.read(path)["q1"].passage_ids == ("a", "b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1 Q0 a 1 2.0\n", "line 1: expected 'query-id Q0 passage-id rank score tag'"),
        ("q1 Q0 a 1 2.0 x\nq1 Q0 b one 2.0 x\n", "line 2: expected"),
        ("q1 Q0 a 1 nan x\n", "line 1: score 'nan' is not a finite number"),
        ("q1 Q0 a 1 2 x\nq1 Q0 a 2 1 x\n", "passage 'a' is ranked twice for query 'q1'"),
    ],
)
def test_a_malformed_file_raises_an_error_with_the_line(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "run.trec"
    path.write_text(text)
    with pytest.raises(DatasetError, match=message):
        RetrievalRun.read(path)


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="cannot be read"):
        RetrievalRun.read(tmp_path / "none")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"q1 Q0 a 1 2.0 x\n" * 99)[:-9])
    with pytest.raises(DatasetError, match=r"cut\.gz: cannot be unpacked"):
        RetrievalRun.read(tmp_path / "cut.gz")
    for broken in ("my\tdoc", "my\ndoc", " doc", "", "\udcff"):
        with pytest.raises(DatasetError, match="cannot be a field of a TREC file"):
            RetrievalRun.of({"q": {broken: 1.0}}).write(tmp_path / "run")
    with pytest.raises(DatasetError, match="'my rag' cannot be a field of a TREC file"):
        RUN.write(tmp_path / "run", tag="my rag")


def test_ids_may_contain_spaces(tmp_path: Path) -> None:
    run = RetrievalRun.of({"q": {"annual leave.md#0": 2.0, "pay.md#1": 1.0}}, "my rag")
    run.write(tmp_path / "run")
    assert (tmp_path / "run").read_text().splitlines()[1] == "q\tQ0\tpay.md#1\t2\t1.0\tmy-rag"
    assert RetrievalRun.read(tmp_path / "run") == run
    (tmp_path / "qrels").write_text("q\t0\tannual leave.md#0\t1\n")
    assert read_qrels(tmp_path / "qrels") == {"q": {"annual leave.md#0": 1}}


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path, link = tmp_path / "run.trec", tmp_path / "link.trec"
    RUN.write(path)
    link.symlink_to(path)
    before = path.read_text()
    longer = RetrievalRun.of({"q": {f"p{i}": float(i) for i in range(999)}})
    with disk_of(1000), pytest.raises(DatasetError, match=r"run\.trec: cannot be written"):
        longer.write(path)
    assert path.read_text() == before
    longer.write(link)
    assert link.is_symlink()
    assert RetrievalRun.read(path) == longer
    assert sorted(tmp_path.iterdir()) == [link, path]


def test_invalid_runs_raise_errors() -> None:
    with pytest.raises(DatasetError, match="not in the order"):
        RetrievalRun({"q": Hits(("a", "b"), np.array([1.0, 2.0]))})
    with pytest.raises(DatasetError, match="'a' is ranked twice"):
        RetrievalRun({"q": Hits(("a", "a"), np.array([2.0, 1.0]))})
    for scores in (np.array([np.nan]), np.array([1.0, 0.5])):
        with pytest.raises(DatasetError, match="one score, which is a finite number"):
            RetrievalRun({"q": Hits(("a",), scores)})


def test_a_document_has_the_score_of_its_best_passage() -> None:
    assert RUN.documents()["q1"].passage_ids == ("b", "a")
    assert RUN.documents()["q1"].scores.tolist() == [3.0, 1.5]


def test_reciprocal_rank_fusion() -> None:
    """The sums of Cormack et al. 2009, on paper."""
    other = RetrievalRun.of({"q1": {"a#0": 9.0}, "q3": {"c": 1.0}}, "dense")
    fused = RUN.fuse(other)
    assert fused.scores()["q1"] == {"a#0": 1 / 62 + 1 / 61, "b#1": 1 / 61, "a#1": 1 / 63}
    assert list(fused) == ["q1", "q2", "q3"]
    assert fused.name == "bm25+dense"
    tied = RetrievalRun.of({"q": {"b": 1.0}}).fuse(RetrievalRun.of({"q": {"a": 1.0}}))
    assert tied["q"].passage_ids == ("a", "b")
    with pytest.raises(SettingError, match="must be at least 0"):
        RUN.fuse(other, k=-1)


def test_ir_measures_takes_the_scores() -> None:
    qrels = {"q1": {"c": 1}, "q2": {"x": 1}}
    run = RetrievalRun.of({"q1": {"b": 3.0, "c": 1.5, "a": 1.0}, "q2": {}})
    measures = [ir_measures.R @ 2, ir_measures.RR @ 10]
    values = ir_measures.calc_aggregate(measures, qrels, run.scores())
    assert values == {ir_measures.R @ 2: 0.5, ir_measures.RR @ 10: 0.25}


@given(
    st.dictionaries(
        st.text("ab1", min_size=1, max_size=3),
        st.dictionaries(
            st.text("xyz#", min_size=1, max_size=4),
            st.floats(allow_nan=False, allow_infinity=False),
            min_size=1,
            max_size=6,
        ),
        max_size=4,
    )
)
@example({"q": {"x": 1e308, "y": -1e308}})
def test_any_run_goes_through_a_file(
    tmp_path_factory: pytest.TempPathFactory, scores: dict[str, dict[str, float]]
) -> None:
    path = tmp_path_factory.mktemp("runs") / "run"
    run = RetrievalRun.of(scores)
    run.write(path)
    assert RetrievalRun.read(path) == run
