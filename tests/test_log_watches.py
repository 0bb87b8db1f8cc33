"""Daily checks of a log: false alarms on days with few questions, and measures without a value."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mirage import FeatureSuite
from mirage._base.arrays import Floats
from mirage.errors import DatasetError
from mirage.monitoring import drift, logs, watch
from mirage.monitoring.watches import trend_evidence
from mirage.statistics.alarms import rise_evidence

MEASURES = 9
"""The number of measures of a log, for the correction by Bonferroni."""


def last_evidence(values: Floats, sizes: list[int]) -> Floats:
    days = np.repeat(np.arange(len(sizes)), sizes)
    weekdays = np.arange(len(sizes)) % 7
    widths = np.ones(values.shape[1])
    return np.asarray(trend_evidence(values, days, weekdays, widths, latest=True).evidence[-1])


def failures(rate: float, sizes: list[int], logs: int) -> Floats:
    return (np.random.default_rng(0).random((sum(sizes), logs)) < rate).astype(float)


@pytest.mark.parametrize("rate", [0.02, 0.05])
def test_one_failed_question_in_the_morning_is_no_alarm(rate: float) -> None:
    sizes = [30] * 28 + [1]
    values = failures(rate, sizes, 50)
    values[-1] = 1
    assert last_evidence(values, sizes).max() < 5 * MEASURES


@pytest.mark.parametrize(
    "later",
    [[3] * 6, [2, 40, 40, 40, 2], [1, 40, 1, 40, 1]],
    ids=["few", "weekends", "holidays"],
)
def test_days_with_few_questions_cause_no_false_alarms(later: list[int]) -> None:
    sizes = [40] * 28 + later
    values = failures(0.05, sizes, 200)
    alarms = np.zeros(200, dtype=bool)
    for days in range(29, len(sizes) + 1):
        evidence = last_evidence(values[: sum(sizes[:days])], sizes[:days])
        alarms |= evidence >= MEASURES / 0.05
    assert alarms.mean() <= 0.05


def test_a_fall_is_found_although_some_days_have_few_questions() -> None:
    sizes = [40, 40, 40, 40, 40, 2, 2] * 6
    values = failures(0.05, sizes, 50)
    values[sum(sizes[:28]) :] = failures(0.25, sizes[28:], 50)
    assert (last_evidence(values, sizes) >= MEASURES / 0.05).mean() > 0.9


def test_weights_are_inverse_variances() -> None:
    noise = np.random.default_rng(0).normal(size=(60, 500))
    weights = np.where(np.arange(60) % 3, 1.0, 0.01)[:, None] * np.ones(500)
    evidence = rise_evidence(noise / np.sqrt(weights), smallest=np.zeros(500), weights=weights)
    assert (evidence.evidence.max(axis=0) >= 20).mean() <= 0.05


def test_a_value_of_weight_0_is_left_out() -> None:
    values = np.random.default_rng(0).normal(size=(30, 2))
    weights = np.ones((30, 2))
    weights[10, 1] = 0
    moved = values.copy()
    moved[10, 1] = 100
    first, second = (
        rise_evidence(each, smallest=np.zeros(2), weights=weights).evidence[-1]
        for each in (values, moved)
    )
    np.testing.assert_allclose(first, second)


# Measures without a value -------------------------------------------------------------------------


def log_without_passages(path: Path, *, days: int, since: int, all_: bool = False) -> logs.Log:
    """Return a log of 12 questions a day; from a day on, some or all lines list no passages."""
    rows = [
        {
            "question": f"How long is the Nile {day} {number}?",
            "answer": None if number == 0 else "6,650 km.",
            "passages": None if day >= since and (all_ or number % 2) else ["It is 6,650 km long."],
            "time": f"2026-11-{day + 1:02}T12:{number:02}:00Z",
        }
        for day in range(days)
        for number in range(12)
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return logs.read(path, language="en")


SUITE = FeatureSuite(["answer_length"], "en")


@pytest.mark.parametrize("all_", [False, True])
def test_a_drift_with_fewer_values_is_inconclusive(tmp_path: Path, all_: bool) -> None:
    # 16 November 2026 is a Monday.
    log = log_without_passages(tmp_path / "log.jsonl", days=22, since=15, all_=all_)
    before, after = log.last("week")
    assert len(after.dataset) == 84
    result = drift(before, after, suite=SUITE, margin=0.9, progress=False)
    assert result.verdict == "inconclusive"
    names = [shift.feature for shift in result.less_measured]
    assert names == ["cites", "question_carried", "passages_shown"]
    text = " ".join(str(result).split())
    share = 100 if all_ else 55
    assert f"no value on 0 % of answered questions before and {share} % after" in text
    if not all_:
        assert "values of 180 of 180 questions before and of 42 of 84 after: question_ca" in text
        assert "values of 165 of 180 questions before and of 77 of 84 after: answer_length" in text
        # Half of the values are missing, and count as complete losses.
        assert result["question_carried"].lost_at_most >= 0.5


def test_a_watch_reports_that_fewer_questions_can_be_measured(tmp_path: Path) -> None:
    log = log_without_passages(tmp_path / "log.jsonl", days=28, since=18)
    result = watch(log, suite=SUITE, progress=False)
    assert result.fell == ()
    (share,) = result.less_measured
    assert share.feature == "question_carried"
    assert share.since == "2026-11-19"
    assert share.before == 0
    assert share.after == pytest.approx(6 / 11)
    text = " ".join(str(result).split())
    assert "values of 276 of 336 questions: question_carried" in text
    assert "since 2026-11-19, significantly fewer questions could be measured" in text
    same = watch(log_without_passages(tmp_path / "b.jsonl", days=28, since=0), suite=SUITE)
    assert same.less_measured == ()


# Lines without a time -----------------------------------------------------------------------------


def test_a_line_without_a_time_is_an_error_or_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log.jsonl"
    log_without_passages(path, days=9, since=0)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for number, row in enumerate(rows):
        row["id"] = f"q{number}"
    del rows[40]["time"]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    log = logs.read(path, language="en")
    for split in (log.by, log.last, log.each):
        with pytest.raises(DatasetError, match=r"log\.jsonl, line 41: the line has no time"):
            split("week")
    with pytest.raises(DatasetError, match="107 of 108 lines have one"):
        watch(log, suite=SUITE, progress=False)
    log = logs.read(path, language="en", skip_damaged=True)
    assert len(log.dataset) == 108
    assert sum(map(len, (part.dataset for part in log.last("week")))) == 107
    assert "log: 1 line was skipped because the time is missing; the first is line 41" in (
        caplog.text
    )
    assert len(log.each("day")) == 9
    assert watch(log, suite=SUITE, progress=False).queries == 107
    for row in rows:
        row.pop("time", None)
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(DatasetError, match="has no time, nor has any other; name the field"):
        logs.read(path, language="en", skip_damaged=True).by("week")
