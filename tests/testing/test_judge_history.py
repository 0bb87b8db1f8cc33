"""Runs of a judge in a history, and whether a drop comes from the judge or the system."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from mirage import MirageDataset, Query, Response, Run
from mirage.arena.anchor_pairs import AnchorPair, AnchorPairs, AnchorVerdicts, self_agreement
from mirage.errors import DatasetError, JudgmentError, SettingError, UnknownNameError
from mirage.features import FeatureTable
from mirage.monitoring import Commit, History
from mirage.monitoring.history import JudgeRun
from mirage.monitoring.judges import compare_judge_runs, explain_drops
from mirage.monitoring.series import CommitChanges, Series, Step
from mirage.testing.baseline import Baseline

PAIRS = tuple(f"q{n}" for n in range(40))
BEFORE = np.tile([[3, 0, 0, 0], [0, 3, 0, 0], [2, 1, 0, 0], [0, 0, 3, 0]], (10, 1))
AFTER = np.roll(BEFORE, 1, axis=1)


def run(sha: str, counts: np.ndarray = BEFORE, settings: str = "s", **more: bool) -> JudgeRun:
    return JudgeRun(sha, "2026-01-01", AnchorVerdicts("j", settings, "p", PAIRS, counts), **more)


def series_of(feature: str, *, worse: bool = True) -> Series:
    """A series whose last commit has a drop of a feature."""
    table = FeatureTable("m", "en", ("q",), (feature,), np.zeros((1, 1)))
    step = Step(feature, 0.0, np.nan, np.nan, 0.01, worse, "drop" * worse)
    commit = Commit("drop", "", Baseline(table, "d", "f"))
    return Series((CommitChanges(commit, (step,), "first"),), 0.05)


def test_a_series_goes_into_a_file_and_back(tmp_path: Path) -> None:
    store = History(tmp_path / "h.sqlite")
    for sha, counts in (("one", BEFORE), ("two", AFTER)):
        store.append_judge(run(sha, counts).verdicts, sha)
    ((first, second),) = store.judge_runs()
    assert (first.sha, first.verdicts.query_ids) == ("one", PAIRS)
    assert (second.verdicts.counts == AFTER).all()
    assert store.series() == ()
    store.accept("one")
    assert store.judge_runs()[0][0].accepted
    with pytest.raises(UnknownNameError):
        store.accept("three")


def test_a_damaged_entry_and_an_older_file_are_handled(tmp_path: Path) -> None:
    store = History(tmp_path / "h.sqlite")
    store.append_judge(run("one").verdicts, "one")
    with sqlite3.connect(store.path) as database:
        database.execute("UPDATE judges SET content = ?", [b"x"])
    database.close()
    with pytest.raises(DatasetError, match=r"judge entry 1: the stored data are damaged"):
        store.judge_runs()
    with sqlite3.connect(store.path) as database:
        database.execute("DROP TABLE judges")
    database.close()
    assert store.judge_runs() == ()


def test_an_unchanged_judge_has_not_moved_and_a_moved_one_has() -> None:
    quiet = compare_judge_runs([run("one"), run("two"), run("three")])
    assert [step.moved for step in quiet.steps] == [False] * 3
    assert quiet.shift == ""
    moved = compare_judge_runs([run("one"), run("two"), run("three", AFTER), run("four", AFTER)])
    assert moved.shift == "judge j has changed since three"
    assert moved.steps[-1].same == pytest.approx(np.mean([0, 0, 2 / 9, 0]))
    assert "changed since three" in str(moved)


def test_an_accepted_run_and_other_requests_start_anew() -> None:
    runs = [run("one"), run("two", AFTER, accepted=True), run("three", AFTER)]
    steps = compare_judge_runs(runs).steps
    assert [step.moved for step in steps] == [False, True, False]
    changed = compare_judge_runs(
        [run("one"), run("two", AFTER, "other"), run("three", AFTER, "other")]
    )
    assert [step.moved for step in changed.steps] == [False] * 3
    assert changed.shift == "judge j has a new prompt, parameters or endpoint since two"
    for runs, alpha in (([], 0.05), ([run("one")], 1.5)):
        with pytest.raises(SettingError):
            compare_judge_runs(runs, alpha=alpha)


def test_a_drop_is_explained_by_what_is_known_of_its_judge() -> None:
    quiet = compare_judge_runs([run("one"), run("two"), run("three")])
    moved = compare_judge_runs([run("one"), run("two", AFTER)])
    unclear = compare_judge_runs([run("one")])
    judged = series_of("judged_score@j")
    assert "the system changed" in explain_drops(judged, [quiet])[0]
    assert "no evidence against the system" in explain_drops(judged, [moved])[0]
    assert (
        "system or judge, because the judge has one run only" in explain_drops(judged, [unclear])[0]
    )
    assert "no anchor pairs of this judge" in explain_drops(judged, [])[0]
    assert "no anchor pairs of this judge" in explain_drops(series_of("judged_score@k"), [moved])[0]
    assert "no evidence against" in explain_drops(series_of("llm_eval"), [moved])[0]
    assert explain_drops(series_of("answer_match"), [moved]) == ()
    assert explain_drops(series_of("judged_score@j", worse=False), [moved]) == ()


def test_self_agreement_counts_pairs_of_verdicts() -> None:
    agreement, (low, high) = self_agreement(BEFORE, PAIRS)
    assert agreement == pytest.approx((1 + 1 + 1 / 3 + 1) / 4)
    assert low < agreement < high
    assert np.isnan(self_agreement(BEFORE[:4], PAIRS[:4])[1]).all()


# Anchor pairs -------------------------------------------------------------------------------------


def test_anchor_pairs_are_on_as_many_queries_as_possible_and_are_frozen(tmp_path: Path) -> None:
    dataset = MirageDataset(Query(id=f"q{n}", language="en", text=f"Q {n}?") for n in range(30))
    runs = [
        Run(
            model=name,
            language="en",
            responses=tuple(Response(query_id=f"q{n}", text=f"{name} {n}") for n in range(30)),
        )
        for name in "abc"
    ]
    pairs = AnchorPairs.draw(dataset, runs)
    ids = [pair.query.id for pair in pairs.pairs]
    assert len(ids) == 40
    assert len(set(ids)) == 30
    path = tmp_path / "anchors.jsonl"
    pairs.save(path)
    assert AnchorPairs.load(path) == pairs
    assert AnchorPairs.load(path).digest == pairs.digest
    other = pairs.pairs[0].model_copy(update={"a": Response(query_id="q0", text="changed")})
    assert AnchorPairs((other, *pairs.pairs[1:])).digest != pairs.digest
    path.write_text("")
    with pytest.raises(DatasetError, match="no anchor pairs"):
        AnchorPairs.load(path)
    failed = [
        Run(model=m, language="en", responses=(Response(query_id="q0", text=None, error="x"),))
        for m in "ab"
    ]
    with pytest.raises(JudgmentError, match="none can be an anchor"):
        AnchorPairs.draw(dataset, failed)


def test_an_anchor_pair_needs_its_query() -> None:
    with pytest.raises(ValueError, match="query"):
        AnchorPair.model_validate({"a": {}, "b": {}})
