"""The history of a model over commits, and the tests for significant losses."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.features import FeatureTable
from mirage.monitoring import Commit, History, compare_commits, series
from mirage.monitoring.series import worsening_p_values
from mirage.statistics.permutation import exchange_p_values
from mirage.testing import Baseline

IDS = tuple(f"q{i}" for i in range(12))


def table(values: np.ndarray, model: str = "rag") -> FeatureTable:
    """Return a table of one feature with the values ``(repeats, queries)``."""
    each = np.asarray(values, dtype=np.float64)[..., None]
    repeats = each if len(each) > 1 else None
    return FeatureTable(
        model, "en", IDS[: each.shape[1]], ("answer_match",), each.mean(axis=0), repeats=repeats
    )


def baseline(values: np.ndarray, model: str = "rag", fingerprint: str = "f") -> Baseline:
    return Baseline(table(values, model), "ours", fingerprint)


def commit(sha: str, values: np.ndarray, *, accepted: bool = False) -> Commit:
    return Commit(sha, "2026-01-01T00:00:00+00:00", baseline(values), accepted=accepted)


RIGHT = np.ones((3, 12))
LOST = RIGHT.copy()
LOST[:, :4] = 0.0  # every answer to four queries


# The store ----------------------------------------------------------------------------------------


def test_appended_commits_are_read_back(tmp_path: Path) -> None:
    values = np.array([[1.0, np.nan, 0.5], [0.0, 1.0, 0.25]])
    history = History(tmp_path / "h.sqlite")
    hostile_sha = "abc'); DROP TABLE commits"
    history.append(baseline(values), hostile_sha, rank=2)
    history.append(baseline(values, "other"), "abc")
    history.append(baseline(values), "def", clusters={"q0": "d", "q1": "d"})
    history.append(baseline(values, fingerprint="g"), "def")
    mine, other, requeried = History(tmp_path / "h.sqlite").series()
    assert [entry.sha for entry in mine] == [hostile_sha, "def"]
    assert mine[0].rank == 2
    np.testing.assert_array_equal(mine[0].baseline.table.repeats[..., 0], values)
    assert mine[1].baseline.table.clusters == {"q0": "d", "q1": "d"}
    assert [entry.baseline.table.model for entry in other] == ["other"]
    assert requeried[0].baseline.fingerprint == "g"


def test_a_commit_is_accepted_by_the_beginning_of_its_name(tmp_path: Path) -> None:
    history = History(tmp_path / "h.sqlite")
    for sha in ("abc1", "abd2"):
        history.append(baseline(RIGHT), sha)
    history.accept("abd")
    assert [entry.accepted for entry in history.series()[0]] == [False, True]
    with pytest.raises(DatasetError, match="2 commits begin with 'ab'"):
        history.accept("ab")
    with pytest.raises(UnknownNameError):
        history.accept("x")


def test_a_file_that_is_no_history_is_not_changed(tmp_path: Path) -> None:
    with pytest.raises(DatasetError):
        History(tmp_path / "none.sqlite").series()
    text = tmp_path / "text"
    text.write_text("no database " * 100)
    foreign = tmp_path / "foreign.sqlite"
    with closing(sqlite3.connect(foreign)) as database, database:
        database.execute("CREATE TABLE commits (id)")
    for path in (text, foreign):
        before = path.read_bytes()
        with pytest.raises(DatasetError, match=r"history|database"):
            History(path).append(baseline(RIGHT), "abc")
        assert path.read_bytes() == before


def test_the_error_names_an_overwritten_entry(tmp_path: Path) -> None:
    history = History(tmp_path / "h.sqlite")
    history.append(baseline(RIGHT), "abc")
    with closing(sqlite3.connect(history.path)) as database, database:
        database.execute("UPDATE commits SET content = x'00'")
    with pytest.raises(DatasetError, match="entry 1: was overwritten"):
        history.series()


# Noise --------------------------------------------------------------------------------------------


def test_p_is_the_share_of_splits_that_are_as_bad() -> None:
    # All three answers to one query are lost. One of the 20 splits of six answers is as bad.
    values = RIGHT.copy()
    values[:, 0] = 0.0
    (p,) = worsening_p_values(table(RIGHT), table(values))
    assert p == pytest.approx(1 / 20, abs=0.01)
    # Two queries with one answer each are lost: 1/4, as in a sign test.
    once = np.ones((1, 12))
    two = once.copy()
    two[0, :2] = 0.0
    (p,) = worsening_p_values(table(once), table(two))
    assert p == pytest.approx(1 / 4, abs=0.02)
    assert worsening_p_values(table(LOST), table(RIGHT)) == pytest.approx([1.0])  # a gain


def test_a_cluster_counts_as_one_query() -> None:
    later = replace(table(LOST), clusters=dict.fromkeys(IDS[:4], "document"))
    (p,) = worsening_p_values(table(RIGHT), later)
    assert p == pytest.approx(1 / 20, abs=0.01)


def test_queries_that_were_always_right_weigh_more_than_varying_ones() -> None:
    # Three of twelve queries were right in 15 answers and are now wrong; the others are random.
    flips = np.random.default_rng(0).random((18, 12)) < 0.5
    flips[:15, :3], flips[15:, :3] = True, False
    (p,) = worsening_p_values(table(flips[:15]), table(flips[15:]))
    # One such query has a probability of 1/816; with a plain mean over all queries p would be 0.02.
    assert p < 0.001


def test_the_false_positive_rate_is_at_most_the_level() -> None:
    # All splits of a unit are equally likely, so the loop covers all outcomes of two units.
    sums = np.random.default_rng(0).integers(-2, 3, (6, 2, 2)).astype(np.float64)
    p = [
        exchange_p_values(sums, np.stack([sums[i, 0], sums[j, 1]]), permutations=2000).min()
        for i, j in product(range(6), repeat=2)
    ]
    for level in np.unique(p):
        assert np.mean(np.array(p) <= level) <= level + 0.02


def test_without_a_permutation_there_is_no_p() -> None:
    with pytest.raises(SettingError):
        exchange_p_values(np.zeros((2, 3, 1)), np.zeros(1), permutations=0)


def test_an_accepted_commit_becomes_the_reference_of_later_ones() -> None:
    rows = [commit("a", RIGHT), commit("b", RIGHT), commit("c", LOST, accepted=True)]
    series = compare_commits([*rows, commit("d", LOST), commit("e", RIGHT)])
    assert [entry.worse for entry in series.commits] == [(), (), ("answer_match",), (), ()]
    assert [entry.reference for entry in series.commits] == ["", "a", "a", "c", "c"]
    step = series.commits[2].steps[0]
    assert step.mean == pytest.approx(8 / 12)
    assert step.low < step.mean < step.high
    assert "answer_match" in str(series)


def test_only_a_limited_number_of_commits_is_compared_with_a_reference() -> None:
    rows = [commit("a", RIGHT), *(commit(str(i), LOST) for i in range(3))]
    series = compare_commits(rows, length=2)
    assert [bool(entry.worse) for entry in series.commits] == [False, True, True, False]
    assert series.commits[3].reference == ""
    assert not any(entry.worse for entry in compare_commits(rows, alpha=1e-4, length=2).commits)
    with pytest.raises(SettingError):
        compare_commits(rows, length=0)
    with pytest.raises(UnknownNameError):
        compare_commits(rows, features=["none"])


def test_commits_without_an_alarm_count_as_repeats() -> None:
    # With one answer per query, three lost queries of twelve are not significant against one
    # commit: p is 2 ** -3. Against five commits with right answers, a query is lost exactly in the
    # sixth with a probability of 1/6.
    once, lost = np.ones((1, 12)), np.ones((1, 12))
    lost[0, :3] = 0.0
    alone = compare_commits([commit("a", once), commit("b", lost)])
    assert alone.commits[-1].steps[0].p == pytest.approx(1 / 8, abs=0.02)
    rows = [commit(sha, once) for sha in "abcde"]
    assert compare_commits([*rows, commit("f", lost)]).commits[-1].steps[0].p == pytest.approx(
        1 / 6**3, abs=0.002
    )
    # A commit that is worse does not count as a repeat of the earlier ones.
    worse = compare_commits([*rows, commit("f", LOST[:1]), commit("g", LOST[:1])])
    assert [bool(entry.worse) for entry in worse.commits[-2:]] == [True, True]


def test_missing_values_are_ignored() -> None:
    before, later = RIGHT.copy(), LOST.copy()
    later[:, :4] = np.nan
    before[0, 5] = np.nan
    assert worsening_p_values(table(before), table(later)) == pytest.approx([1.0])


def test_a_commit_is_compared_with_a_bounded_number_of_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = []

    def record_size(before: FeatureTable, *arguments: Any) -> Any:
        sizes.append(1 if before.repeats is None else len(before.repeats))
        return worsening_p_values(before, *arguments)

    monkeypatch.setattr(series, "worsening_p_values", record_size)
    monkeypatch.setattr(series, "_POOLED", 8)
    compare_commits([commit(f"c{number}", RIGHT) for number in range(6)])
    assert sizes == [3, 6, 8, 8, 8]  # three answers of the first commit and the latest of the rest
