"""Evaluation of retrieval runs: values, absent and unmeasured queries, intervals and tests."""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from ir_measures import AP, RR, P, R, Success, nDCG

from mirage.errors import DatasetError, MissingPackageError, SettingError, UnknownNameError
from mirage.models import Passage, Query
from mirage.retrieval import RetrievalRun, evaluate, qrels

GRADES = {"q1": {"a#0": 1, "c#0": 2}, "q2": {"x#1": 1}, "q3": {"y#0": 0}, "q4": {"z#0": 1}}
RUN = RetrievalRun.of({"q1": {"b#0": 3.0, "a#0": 2.0, "c#1": 1.0}, "q2": {}, "q3": {"y#0": 1.0}})


def test_values_are_those_of_ir_measures() -> None:
    rng = np.random.default_rng(0)
    grades = {
        str(q): {str(p): int(grade) for p, grade in enumerate(rng.integers(0, 3, 30))}
        for q in range(20)
    }
    scores = {
        q: dict(zip(judged, rng.permutation(30).astype(float).tolist(), strict=True))
        for q, judged in grades.items()
    }
    measures = [nDCG @ 10, R @ 5, P @ 1, RR @ 10, AP, Success @ 3]
    evaluation = evaluate(RetrievalRun.of(scores), grades, list(map(str, measures)))
    expected = ir_measures.calc_aggregate(measures, grades, scores)
    for row, measure in zip(evaluation, measures, strict=True):
        assert row.mean == pytest.approx(expected[measure], abs=1e-12)
        assert (row.n, row.unmeasured) == (20, 0)
        assert row.interval[0] < row.mean < row.interval[1]


@pytest.mark.skipif(shutil.which("perl") is None, reason="gdeval needs perl")
def test_measures_of_gdeval_accept_ids_of_any_kind() -> None:
    grades = {"1": {"a": 1, "b": 4}, "2": {"c": 2}, "3": {"d": 1}}
    scores = {"1": {"x": 3.0, "b": 2.0, "a": 1.0}, "2": {"y": 2.0, "c": 1.0}}
    measures = ["ERR@10", "nDCG(dcg='exp-log2')@10", "nDCG@10", "RR@10"]
    expected = evaluate(RetrievalRun.of(scores), grades, measures)
    # On paper; gdeval assumes grades of at most 4, and rounds to five decimals.
    first, second = 15 / 16 / 2 + 1 / 16 * 1 / 16 / 3, 3 / 16 / 2
    assert expected["ERR@10"].mean == pytest.approx((first + second) / 3, abs=1e-5)
    named = {f"Frage {id_}": {f"{p} 1": s for p, s in row.items()} for id_, row in scores.items()}
    named_grades = {
        f"Frage {id_}": {f"{p} 1": g for p, g in row.items()} for id_, row in grades.items()
    }
    evaluation = evaluate(RetrievalRun.of(named), named_grades, measures)
    assert evaluation.query_ids == tuple(f"Frage {id_}" for id_ in expected.query_ids)
    np.testing.assert_array_equal(evaluation.values, expected.values)


def test_absent_queries_count_0_and_unjudged_queries_are_not_measured() -> None:
    evaluation = evaluate(RUN, GRADES, ["R@10", "RR@10"])
    assert evaluation.query_ids == ("q1", "q2", "q3", "q4")
    np.testing.assert_array_equal(evaluation.values, [[0.5, 0.5], [0, 0], [np.nan] * 2, [0, 0]])
    assert evaluation.absent == ("q4",)
    assert evaluation["R@10"][1:] == (
        pytest.approx(0.5 / 3),
        pytest.approx((np.nan,) * 2, nan_ok=True),
        3,
        1,
    )
    text = str(evaluation)
    assert "95 % interval" not in text
    assert "no interval: too few queries (3; at least 10 are needed)" in text
    assert "1 query is not in the run (counted as 0)" in text
    assert "1 without a relevant passage in the qrels" in text
    assert evaluate(RUN, GRADES, ["R@10"], query_ids=["q1", "q2"])["R@10"].mean == 0.25


def test_equal_scores_count_in_the_order_of_the_run() -> None:
    """Given to ir_measures as they are, ``b`` would come first: trec_eval orders ids backwards."""
    tied = {"q": {"a": 1.0, "b": 1.0}}
    measure = ir_measures.P @ 1
    assert ir_measures.calc_aggregate([measure], {"q": {"a": 1}}, tied)[measure] == 0
    assert evaluate(RetrievalRun.of(tied), {"q": {"a": 1}}, ["P@1"])["P@1"].mean == 1


def test_documents_count_by_their_best_passage() -> None:
    evaluation = evaluate(RUN, GRADES, ["R@10", "nDCG@10"], documents=True)
    assert evaluation["R@10"].mean == pytest.approx(1 / 3)  # c#1 finds the document c of q1
    # Ranked b, a, c with grades 0, 1, 2: on paper.
    gain = (1 / math.log2(3) + 2 / 2) / (2 + 1 / math.log2(3))
    assert evaluation.values[0, 1] == pytest.approx(gain, abs=1e-12)
    on_documents = {"q1": {"a": 1, "c": 2}}
    assert evaluate(RUN.top(3), on_documents, ["R@10"], documents=True)["R@10"].mean == 1


def test_queries_and_files_are_qrels_too(tmp_path: Path) -> None:
    queries = [
        Query(id="q1", language="en", text="?", relevant=("a#0",), cluster="one"),
        Query(id="q2", language="en", text="?", passages=(Passage(id="x#1", text="."),)),
    ]
    assert qrels(queries) == {"q1": {"a#0": 1}}
    evaluation = evaluate(RUN, queries, ["RR@10"])
    assert evaluation.clusters == {"q1": "one"}
    RUN.write(tmp_path / "run")
    (tmp_path / "qrels").write_text("q1 0 a#0 1\n")
    from_files = evaluate(tmp_path / "run", tmp_path / "qrels", ["RR@10"])
    assert from_files["RR@10"].mean == evaluation["RR@10"].mean == 0.5


def test_ids_of_another_corpus_are_noticed(caplog: pytest.LogCaptureFixture) -> None:
    evaluate(RUN, GRADES)
    assert caplog.text == ""
    evaluation = evaluate(RUN, {"q1": {"a.md#0": 1}})
    assert "with other ids?" in caplog.text
    assert evaluation.strange
    assert "with other ids?" in " ".join(str(evaluation).split())
    assert "('b#0' was retrieved, 'a.md#0' is in the qrels)" in caplog.text


def test_qrels_that_name_documents_are_noticed_if_some_ids_match(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = RetrievalRun.of({"q1": {"a.md#0": 2.0, "a.md#1": 1.0}, "q2": {"long.md#5": 1.0}})
    grades = {"q1": {"a.md": 1}, "q2": {"long.md#5": 1}}
    evaluation = evaluate(run, grades, ["R@10"])
    assert not evaluation.strange
    expected = "1 of 2 relevant ids in the qrels name documents, such as 'a.md', of which the run"
    for text in (caplog.text, " ".join(str(evaluation).split())):
        assert expected in text
        assert "--level document" in text
    caplog.clear()
    assert evaluate(run, grades, ["R@10"], documents=True)["R@10"].mean == 1
    assert caplog.text == ""
    whole = RetrievalRun.of({"q1": {"a.md": 1.0}, "q2": {"long.md": 1.0}})
    evaluate(whole, grades, ["R@10"])
    assert "name passages, such as 'long.md#5', of which the run has documents" in caplog.text


def test_few_queries_have_no_interval_and_clusters_make_it_wide() -> None:
    run = RetrievalRun.of({str(i): {"a": 2.0, "b": 1.0} for i in range(40)})
    grades = {str(i): {"ab"[i // 4 % 2]: 1} for i in range(40)}
    few = evaluate(run, {q: grades[q] for q in list(grades)[:9]}, ["RR@10"], query_ids=grades)
    assert np.isnan(few["RR@10"].interval).all()
    queries = [
        Query(id=q, language="en", text="?", relevant=tuple(grade)) for q, grade in grades.items()
    ]
    low, high = evaluate(run, queries, ["RR@10"])["RR@10"].interval
    clustered = evaluate(run, queries, ["RR@10"], cluster=lambda q: str(int(q.id) // 4))
    assert np.ptp(clustered["RR@10"].interval) > 1.5 * (high - low) > 0


def test_two_runs_are_compared_on_the_same_queries() -> None:
    grades = {str(i): {"a": 1} for i in range(12)}
    good = evaluate(
        RetrievalRun.of({q: {"a": 1.0} for q in grades}, "good"), grades, ["RR@10", "P@1"]
    )
    bad = evaluate(
        RetrievalRun.of({q: {"b": 2.0, "a": 1.0} for q in grades}, "bad"), grades, ["RR@10", "P@1"]
    )
    first, second = good.compare(bad)
    assert (first.difference, second.difference, first.n) == (0.5, 1.0, 12)
    assert first.p == second.p == 2 / 2**12  # all 4096 ways to swap, two of them as far
    assert first.corrected == 2 * first.p
    assert all(row.p == 1 and row.difference == 0 for row in good.compare(good))
    with pytest.raises(SettingError, match="different measures"):
        good.compare(evaluate(RUN, GRADES, ["P@1"]))


def test_invalid_measures_and_qrels_raise_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean '(n|N)DCG@10'"):
        evaluate(RUN, GRADES, ["ndcg@10"])
    for wrong in ("nDCG@", "R", "P@0"):
        with pytest.raises(SettingError, match="a cutoff if the measure needs one"):
            evaluate(RUN, GRADES, [wrong])
    with pytest.raises(
        MissingPackageError,
        match=r"'RBP\(p=0\.8\)' is a measure of ir_measures.*: pip install ir-m",
    ):
        evaluate(RUN, GRADES, ["RBP(p=0.8)"])
    with pytest.raises(SettingError, match="each only once"):
        evaluate(RUN, GRADES, ["P@1", "P@1"])
    with pytest.raises(DatasetError, match="no relevant passage"):
        evaluate(RUN, {"q1": {"a": 0}})
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(MissingPackageError, match=r"mirage-rag\[retrieval\]"):
        evaluate(RUN, GRADES)


def test_the_interval_of_counts_is_not_limited_to_1() -> None:
    run = {f"q{i}": {"a": 2.0, "b": 1.0} if i % 2 else {"a": 1.0} for i in range(20)}
    evaluation = evaluate(RetrievalRun.of(run, "r"), {id_: {"a": 1} for id_ in run}, ["NumRet"])
    (row,) = evaluation.rows()
    low, high = row.interval
    assert row.mean == 1.5
    # Student's t with 19 degrees of freedom is 2.093; half of the values are 1 and half are 2.
    assert (low, high) == pytest.approx(
        (1.5 - 2.093 * 0.5 / 19**0.5, 1.5 + 2.093 * 0.5 / 19**0.5), abs=1e-4
    )
