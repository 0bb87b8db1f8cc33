"""The history of a model over commits, and the tests for significant drops."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.features import FeatureTable
from mirage.monitoring import Commit, History, compare_commits
from mirage.testing.baseline import Baseline

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
    """Return a commit that was measured on the day whose number is in ``sha``."""
    number = int("".join(filter(str.isdecimal, sha)) or 0)
    day = date(2026, 1, 1) + timedelta(days=number)
    return Commit(sha, f"{day}T00:00:00+00:00", baseline(values), accepted=accepted)


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


def test_a_commit_that_was_measured_twice_is_accepted_and_numbered(tmp_path: Path) -> None:
    history = History(tmp_path / "h.sqlite")
    for sha in ("abc1", "abd2", "abd2"):
        history.append(baseline(RIGHT), sha)
    with pytest.raises(UnknownNameError) as error:
        history.accept("x")
    assert str(error.value).count("abd2") == 1
    history.accept("abd")
    [commits] = history.series()
    assert [entry.accepted for entry in commits] == [False, True, True]
    table, *features = compare_commits(commits).tables()
    assert [row[1] for row in table.rows] == ["abc1", "abd2", "abd2 (2)"]
    assert [row[0] for row in features[0].rows] == ["abc1", "abd2", "abd2 (2)"]


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
    with pytest.raises(DatasetError, match="entry 1: the stored data are damaged"):
        history.series()


# Drops --------------------------------------------------------------------------------------------


def noisy(*shares: float, seed: int = 0) -> list[Commit]:
    """Return a commit for each share of right answers, with twelve queries and three answers."""
    rng = np.random.default_rng(seed)
    return [
        commit(f"c{i}", (rng.random((3, 12)) < share).astype(float))
        for i, share in enumerate(shares)
    ]


def test_a_drop_that_lasts_is_detected_and_dated() -> None:
    series = compare_commits(noisy(*[0.9] * 12, *[0.2] * 4))
    worse = [bool(entry.worse) for entry in series.commits]
    assert not any(worse[:12])
    assert worse[-1]
    last = series.commits[-1]
    assert last.steps[0].since == "c12"
    assert last.steps[0].p <= 0.05
    assert last.reference == "c0"
    assert "answer_match since c12" in str(series)


def test_a_gain_is_no_alarm_and_a_lower_value_can_be_better() -> None:
    gain = noisy(*[0.3] * 12, *[0.95] * 6)
    assert not any(entry.worse for entry in compare_commits(gain).commits)
    flipped = [
        replace(entry, baseline=replace(entry.baseline, lower_is_better=("answer_match",)))
        for entry in gain
    ]
    assert compare_commits(flipped).commits[-1].worse == ("answer_match",)


def test_the_first_four_commits_are_not_compared() -> None:
    series = compare_commits(noisy(*[0.9] * 6))
    assert [entry.reference for entry in series.commits] == ["", "", "", "", "c0", "c0"]
    assert [np.isnan(entry.steps[0].p) for entry in series.commits] == [True] * 4 + [False] * 2
    assert series.commits[3].summary == "not compared"


def test_one_changed_answer_of_a_system_that_never_varied_is_no_alarm() -> None:
    once = RIGHT.copy()
    once[0, 0] = 0.0
    rows = [commit(f"c{i}", RIGHT) for i in range(20)]
    assert not compare_commits([*rows, commit("d", once)]).commits[-1].worse
    assert compare_commits([*rows, commit("d", LOST)]).commits[-1].worse == ("answer_match",)


def test_commits_that_change_queries_but_not_the_mean_are_no_alarm() -> None:
    rng = np.random.default_rng(0)
    rows = [commit(f"c{i}", rng.permuted(LOST, axis=1)) for i in range(60)]
    assert not any(entry.worse for entry in compare_commits(rows).commits)


def test_noise_that_all_answers_of_a_run_share_is_no_alarm() -> None:
    shares = np.random.default_rng(1).uniform(0.55, 0.95, 60)
    assert not any(entry.worse for entry in compare_commits(noisy(*shares)).commits)


def test_noise_of_a_day_with_several_commits_is_no_alarm() -> None:
    random = np.random.default_rng(0)
    alarms = 0
    for seed in range(20):
        shares = np.repeat(random.uniform(0.55, 0.95, 8), 5)
        commits = [
            replace(entry, time=f"2026-01-{1 + i // 5:02d}T0{i % 5}:00:00+00:00")
            for i, entry in enumerate(noisy(*shares, seed=seed))
        ]
        series = compare_commits(commits)
        assert all(not entry.reference for entry in series.commits[:20])
        assert all(entry.reference for entry in series.commits[20:])
        alarms += any(entry.worse for entry in series.commits)
    assert alarms <= 2


def test_an_accepted_commit_becomes_the_reference_of_later_ones() -> None:
    rows = noisy(*[0.9] * 12, *[0.2] * 8)
    rows[15] = replace(rows[15], accepted=True)
    series = compare_commits(rows)
    assert [entry.reference for entry in series.commits[14:]] == ["c0", "c0", "", "", "", "c15"]
    assert series.commits[15].worse
    assert not any(entry.worse for entry in series.commits[16:])


def test_missing_values_count_as_no_loss() -> None:
    missing = RIGHT.copy()
    missing[:, :4] = np.nan
    rows = [commit(f"c{i}", RIGHT) for i in range(6)]
    rows += [commit(f"d{i}", missing) for i in range(6)]
    assert not any(entry.worse for entry in compare_commits(rows).commits)


def test_the_probability_of_an_alarm_must_be_a_probability() -> None:
    with pytest.raises(SettingError):
        compare_commits([commit("a", RIGHT)], alpha=1.0)
    with pytest.raises(SettingError):
        compare_commits([])
    with pytest.raises(UnknownNameError):
        compare_commits([commit("a", RIGHT)], features=["none"])
