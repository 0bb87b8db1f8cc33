"""Logs: reading them, features without gold, and comparisons over time."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from mirage import FeatureTable, MirageDataset
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.monitoring import drift, logs
from mirage.monitoring.drifts import LogDays, Shift, log_days, shifts_between
from mirage.monitoring.traffic import measure_log, new_words
from mirage.statistics import mean_differences
from mirage.statistics.clusters import mean_intervals

PASSAGES = ["The Nile is 6,650 km long.", "The Congo is 4,700 km long."]


def line(**fields: Any) -> dict[str, Any]:
    return {"question": "How long is the Nile?", "answer": "6,650 km [1].", **fields}


def written(path: Path, *rows: Any) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


def read(tmp_path: Path, *rows: Any, **fields: str) -> logs.Log:
    return logs.read(written(tmp_path / "log.jsonl", *rows), language="en", fields=fields)


# Reading ------------------------------------------------------------------------------------------


def test_a_line_may_use_any_usual_field_name(tmp_path: Path) -> None:
    rows = (
        {"query": "How long is the Nile?", "contexts": PASSAGES, "response": "6,650 km [1]."},
        {"user_input": "Of the Congo?", "retrieved_contexts": [], "response": "I do not know."},
        {"question": "And?", "answer": "", "model": "bot", "passages": [{"_id": 7, "text": "x"}]},
    )
    log = read(tmp_path, *rows)
    first, second, third = log.dataset
    assert [passage.text for passage in first.passages] == PASSAGES
    assert first.passage_ids == ("1", "2")
    assert second.passages == ()
    assert log.run["2"].shown == ()
    assert third.passage_ids == ("7",)
    assert [response.text for response in log.run] == ["6,650 km [1].", "I do not know.", ""]
    assert log.run.model == "bot"


def test_fields_lead_into_objects_and_lists(tmp_path: Path) -> None:
    row = {
        "input": {"text": "How long?"},
        "choices": [{"message": {"content": "Long."}}],
        "a.b": 5,
    }
    fields = {"question": "input.text", "answer": "choices.0.message.content", "session": "a.b"}
    log = read(tmp_path, row, {**row}, **fields)
    assert log.dataset["1"].text == "How long?"
    assert log.run["1"].text == "Long."
    assert log.dataset["1"].cluster == log.dataset["2"].cluster is not None


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"answer": "x"}, "line 2: the line has no field 'question' or"),
        ({"question": "x"}, "line 2: the line has neither an answer"),
        (line(answer=5), "line 2, field 'answer': expected a string, got int"),
        (line(contexts=3), "line 2, field 'contexts': expected a list"),
        (
            line(contexts=["a", {"id": 1}]),
            "line 2, field 'contexts', passage 2: the passage has no text",
        ),
        (line(time="yesterday"), "line 2, field 'time': 'yesterday' is not a time"),
        (line(id="q"), "line 2, field 'id': 'q' is also the id of line 1"),
        ([1], "line 2: expected a JSON object"),
    ],
)
def test_errors_name_line_and_field(tmp_path: Path, row: Any, words: str) -> None:
    with pytest.raises(DatasetError) as caught:
        read(tmp_path, line(id="q"), row)
    assert f"log.jsonl, {words}" in str(caught.value)


def test_misspelt_names_are_errors(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="has the field 'when', which was given for 'time'"):
        read(tmp_path, line(), time="when")
    with pytest.raises(UnknownNameError, match="unknown log field"):
        read(tmp_path, line(), anwser="x")


def test_a_line_with_an_error_is_a_failure(tmp_path: Path) -> None:
    rows = (line(error="timeout"), line(answer=None), line(error=""), line(error={"code": 5}))
    log = read(tmp_path, *rows)
    assert [response.error for response in log.run] == [
        "timeout",
        "the log has no answer",
        None,
        '{"code": 5}',
    ]
    table = measure_log(log.dataset, log.run, progress=False).table
    assert table["failed"].tolist() == [1, 1, 0, 1]
    assert np.isnan(table["answer_length"]).tolist() == [True, True, False, True]
    assert table.reasons["1", "abstains"] == "the model failed: timeout"


def test_an_empty_question_is_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = read(tmp_path, line(), line(question=" "), line())
    assert log.dataset.query_ids == ("1", "3")
    assert "1 line was skipped because the question is empty; the first is line 2" in caplog.text


def test_equal_questions_and_one_session_are_one_cluster(tmp_path: Path) -> None:
    rows = (
        line(),
        line(question="how long is  the Nile?", user_id=1),
        line(question="Why?", user_id=1),
        line(question="Where?"),
    )
    a, b, c, d = (query.cluster for query in read(tmp_path, *rows).dataset)
    assert a == b == c is not None
    assert d is None
    with_field = [line(cluster="x"), line(), line(cluster="x")]
    assert [query.cluster for query in read(tmp_path, *with_field).dataset] == ["x", None, "x"]


def test_two_texts_under_one_id_are_two_passages(tmp_path: Path) -> None:
    same = {"id": "nile", "text": PASSAGES[0]}
    log = read(tmp_path, line(passages=[same, {"id": "nile", "text": PASSAGES[1]}, same]))
    assert log.dataset["1"].passage_ids == ("nile", "nile~2")
    assert log.run["1"].shown == ("nile", "nile~2", "nile")


def test_a_log_is_split_by_time(tmp_path: Path) -> None:
    times = ["2026-11-22T23:30:00-02:00", 1763942400, 1763942400000, "2026-11-15"]
    log = read(tmp_path, *(line(time=time) for time in times))
    # 23:30 west of London on a Sunday is Monday there; 1763942400 is 2025-11-24, a Monday.
    assert {name: part.dataset.query_ids for name, part in log.by("week").items()} == {
        "2025-W48": ("2", "3"),
        "2026-W46": ("4",),
        "2026-W48": ("1",),
    }
    before, after = log.last("week")
    assert before.dataset.query_ids == ("2", "3", "4")
    assert after.run["1"].text
    with pytest.raises(DatasetError, match="has no time"):
        read(tmp_path, line()).by("day")
    with pytest.raises(DatasetError, match="all questions are from the same month"):
        read(tmp_path, line(time="2026-11-15")).last("month")


def test_a_log_is_split_by_model(tmp_path: Path) -> None:
    log = read(tmp_path, line(model="a"), line(model="b"), line(model="a"))
    parts = log.by_model()
    assert {name: len(part.run) for name, part in parts.items()} == {"a": 2, "b": 1}
    assert parts["b"].run.model == "b"


def test_gzip_is_read_and_a_log_is_distinguished_from_responses(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(line()).encode()))
    assert len(logs.read(path, language="en").dataset) == 1
    assert logs.is_log(path)
    assert not logs.is_log(written(tmp_path / "run.jsonl", {"query_id": "1", "output": "x"}))


def test_parquet_is_read_too(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [line(contexts=PASSAGES, time=datetime(2026, 11, 22, tzinfo=UTC))]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "log.parquet")
    log = logs.read(tmp_path / "log.parquet", language="en")
    assert [passage.text for passage in log.dataset["1"].passages] == PASSAGES
    assert list(log.by("day")) == ["2026-11-22"]


# Measuring ----------------------------------------------------------------------------------------


def test_features_without_gold_are_computed_and_others_have_reasons(tmp_path: Path) -> None:
    log = read(tmp_path, line(contexts=PASSAGES), line(contexts=[], answer="I do not know."))
    side = measure_log(log.dataset, log.run, progress=False)
    assert side.unmet["citation_recall@10"] == ("relevant passages",)
    assert {"support_lexical", "unknown_facts"} <= set(side.table.features)
    assert side.table["passages_shown"].tolist() == [2, 0]
    assert side.table["abstains"].tolist() == [0, 1]
    carried = side.table["question_carried"]
    assert carried[0] > 0.9
    assert carried[1] == 0
    assert side.table["other_language"].tolist() == pytest.approx([0, 0], abs=0.05)


def test_features_of_passages_need_passages(tmp_path: Path) -> None:
    side = measure_log(*read(tmp_path, line())[:2], progress=False)
    assert side.unmet["support_lexical"] == ("passages",)
    assert np.isnan(side.table["passages_shown"]).all()


def test_new_words_are_those_that_earlier_questions_do_not_have(tmp_path: Path) -> None:
    def dataset_of(*questions: str) -> MirageDataset:
        return read(tmp_path, *(line(question=question) for question in questions)).dataset

    # Every other cluster is set apart: here the first and the third.
    before = dataset_of("bridges rivers", "rivers lakes", "tunnels", "bridges tunnels")
    after = dataset_of("bridges rivers", "bridges lakes", "ferries")
    clusters = {"3": "tunnels"}
    earlier, later = new_words(before, after, clusters, clusters)
    assert earlier.tolist() == pytest.approx([np.nan, 0.5, np.nan, 0.0], nan_ok=True)
    # What hangs together with something that was set apart has no value.
    assert later.tolist() == pytest.approx([0.0, 0.5, np.nan], nan_ok=True)


# Drift --------------------------------------------------------------------------------------------


def week(tmp_path: Path, *, worse: float = 0.0, seed: int = 0, size: int = 40) -> logs.Log:
    """Write questions on bundled passages, answered by the reference or an English abstention."""
    rng = np.random.default_rng(seed)
    bundled = MirageDataset.bundled("sw")
    rows = []
    for number, user in enumerate(rng.integers(0, 30, size)):
        query = bundled[int(user)]
        lost = rng.random() < worse
        rows.append(
            {
                "question": query.text,
                "passages": [passage.model_dump() for passage in query.passages],
                "answer": "I cannot say, I am sorry to tell you." if lost else query.reference,
                "cluster": str(number),
            }
        )
    return logs.read(written(tmp_path / f"week-{seed}.jsonl", *rows), language="sw")


@pytest.mark.slow
def test_a_drift_is_distinguished_from_noise(tmp_path: Path) -> None:
    before = week(tmp_path, seed=1)
    result = drift(before, week(tmp_path, seed=2, worse=0.5), progress=False)
    assert {"target_language", "support_lexical"} <= {shift.feature for shift in result.fell}
    assert result.verdict == "worse"
    same = drift(before, week(tmp_path, seed=3), margin=0.9, progress=False)
    assert same.fell == ()
    assert same.verdict == "no worse"
    assert drift(before, before, margin=0.01, progress=False).verdict == "inconclusive"
    assert "worse" in str(result)
    assert "not measured: citation_recall@10" in str(result)


def test_few_clusters_change_nothing(tmp_path: Path) -> None:
    few = week(tmp_path, seed=2, worse=1.0, size=9)
    result = drift(week(tmp_path, seed=1), few, margin=0.1, progress=False)
    assert result.fell == ()
    assert result.verdict == "inconclusive"
    assert np.isnan(result["target_language"].interval).all()
    assert "at least 10 clusters" in str(result)
    assert drift(week(tmp_path, seed=1), few, progress=False).verdict == "inconclusive"
    with pytest.raises(UnknownNameError, match="measure 'target_lnguage' in this comparison"):
        result["target_lnguage"]


def table_of(values: np.ndarray, *names: str) -> FeatureTable:
    return FeatureTable("bot", "sw", tuple(map(str, range(len(values)))), names, values)


def shifts(before: np.ndarray, after: np.ndarray, *names: str) -> list[Shift]:
    tables = [table_of(values, *names) for values in (before, after)]
    return list(shifts_between(*tables, alpha=0.05, level=0.95, permutations=999, seed=0))


def test_an_unbounded_measure_does_not_exclude_a_loss() -> None:
    values = np.arange(30.0)[:, None]
    (shift,) = shifts(values, values, "reranker_score")
    assert shift.lost_at_most == np.inf


def test_successive_answers_that_resemble_each_other_are_no_drift() -> None:
    false_alarms = {"with times": 0, "without": 0}
    rng = np.random.default_rng(0)
    days = np.repeat(np.arange(7), 20)
    times = LogDays(np.arange(140), days)
    for _ in range(60):
        noise = rng.normal(size=(280, 1))
        for i in range(1, 280):
            noise[i] += 0.9 * noise[i - 1]
        tables = [table_of(values, "m0") for values in (noise[:140], noise[140:])]
        for name, both in (("with times", (times, times)), ("without", None)):
            (shift,) = shifts_between(
                *tables, times=both, alpha=0.05, level=0.95, permutations=199, seed=0
            )
            false_alarms[name] += shift.changed
    assert false_alarms["with times"] <= 8
    assert false_alarms["without"] >= 20


def test_the_wider_interval_of_the_two_tests_counts() -> None:
    rng = np.random.default_rng(0)
    days = np.repeat(np.arange(7), 20)
    of_days = rng.normal(size=(2, 7, 1))[:, days]
    tables = [
        table_of(ndtr(values + rng.normal(size=(140, 1))), "support_lexical") for values in of_days
    ]
    settings = {"alpha": 0.05, "level": 0.95, "permutations": 199, "seed": 0}
    times = LogDays(np.arange(140), days)
    (plain,) = shifts_between(*tables, **settings)
    (shift,) = shifts_between(*tables, times=(times, times), **settings)
    assert shift.interval[0] < plain.interval[0]
    assert shift.interval[1] > plain.interval[1]
    assert shift.difference == plain.difference
    short = LogDays(np.arange(140), days // 3)  # three days
    (none,) = shifts_between(*tables, times=(times, short), **settings)
    assert np.isnan(none.interval).all()
    assert not none.changed


def test_days_of_a_log_are_in_the_order_of_time(tmp_path: Path) -> None:
    moments = ("2026-11-22T09:00:00Z", "2026-11-20T09:00:00Z", "2026-11-22T08:00:00Z")
    log = read(tmp_path, *(line(question=f"{n}?", time=t) for n, t in enumerate(moments)))
    order, days = log_days(log)
    assert order.tolist() == [1, 2, 0]
    assert days.tolist() == [0, 1, 1]
    # Blocks of lines, if one line has no time.
    lines = [line(question=f"{n}?") for n in range(20)]
    assert log_days(read(tmp_path, *lines)).days.tolist() == [n // 2 for n in range(20)]


def test_logs_that_are_compared_are_clustered_by_one_rule(tmp_path: Path) -> None:
    shared = read(tmp_path, *(line(user=str(user)) for user in range(20)))
    apart = read(tmp_path, *(line(question=f"Of {n}?", user=str(n)) for n in range(20)))
    assert (shared.clustering, len({q.cluster for q in shared.dataset})) == (
        "questions and sessions",
        1,
    )
    assert logs.regroup([apart]) == (apart,)
    first, second = logs.regroup([shared, apart])
    assert first.clustering == second.clustering == "sessions"
    assert (first.joined, second.joined) == (1, 20)
    assert len({q.cluster for q in first.dataset}) == 20
    # Sessions stay whole, and lines without one are joined by their question.
    some = read(tmp_path, line(user="a"), line(question="Other?", user="a"), line(), line())
    (some,) = logs.regroup([some])
    clusters = [query.cluster for query in some.dataset]
    assert clusters[0] == clusters[1] != clusters[2] == clusters[3]
    # What a field of the log says is left alone.
    with_clusters = read(tmp_path, line(cluster="x", user="a"), line(user="b"))
    assert logs.regroup([with_clusters]) == (with_clusters,)


def test_worse_depends_on_the_direction_of_a_measure() -> None:
    low, high = (np.repeat([0.0, 1.0], counts) for counts in ([30, 10], [10, 30]))
    low, high = np.column_stack([low] * 3), np.column_stack([high] * 3)
    names = ("target_language", "english_language", "passage_coverage")
    better, worse, changed = shifts(low, high, *names)
    assert all(shift.changed for shift in (better, worse, changed))
    assert [better.worse, worse.worse, changed.worse] == [False, True, None]
    # It rose by 0.5: that much is lost of what should be low, and less than nothing of the other.
    assert -0.35 < better.lost_at_most < -0.2
    assert 0.6 < worse.lost_at_most < 0.75
    assert np.isnan(changed.lost_at_most)
    (unknown,) = shifts(low[:9, :1], high[:9, :1], "target_language")
    assert unknown.lost_at_most == np.inf


def test_one_of_many_measures_is_no_change_because_its_interval_excludes_0() -> None:
    rng = np.random.default_rng(0)
    before, after = rng.normal(size=(2, 50, 20))
    after[:, 0] += 0.48 + before[:, 0].mean() - after[:, 0].mean()
    names = (f"m{number}" for number in range(20))
    first, *_ = shifts(before, after, *names)
    assert first.interval[0] > 0
    assert first.p > 0.05
    assert not first.changed
    (alone,) = shifts(before[:, :1], after[:, :1], "m0")
    assert alone.changed


def test_an_interval_allows_for_rare_values_that_were_not_observed() -> None:
    # Thirty probabilities next to 0 do not exclude that one in thirty is next to 1.
    ends, codes = (np.zeros(1), np.ones(1)), np.arange(30)
    ((low, high),) = mean_intervals(np.linspace(0.0, 0.004, 30)[:, None], codes, *ends)
    assert low < 0.001
    assert high > 1 / 30
    # Where nothing ends the range, equal values say nothing of others.
    infinite = np.array([-np.inf]), np.array([np.inf])
    assert np.isnan(mean_intervals(np.full((30, 1), 5.0), codes, *infinite)).all()


def test_the_interval_of_two_shares_is_newcombes() -> None:
    # Newcombe 1998, table II (a): 56 of 70 and 48 of 80, method 10: 0.0524 to 0.3339. The intervals
    # of the two shares are Wilson's there, and here with Student's t, which makes them wider.
    values = [np.repeat([1.0, 0.0], counts)[:, None] for counts in ((48, 32), (56, 14))]
    ends = np.zeros(1), np.ones(1)
    codes = [np.arange(len(column)) for column in values]
    (row,) = mean_differences(values[0], codes[0], values[1], codes[1], *ends, permutations=1)
    assert row.difference == pytest.approx(0.2)
    assert row.interval == pytest.approx((0.0524, 0.3339), abs=0.004)
    assert row.interval[0] < 0.0524
    assert row.interval[1] > 0.3339


def test_exchanged_sets_are_all_ways_to_choose() -> None:
    # Of the 252 ways to choose five of ten, two are as far apart as five zeros and five ones.
    values = np.zeros((5, 1)), np.ones((5, 1))
    codes = np.arange(5)
    ends = np.zeros(1), np.ones(1)
    (row,) = mean_differences(values[0], codes, values[1], codes, *ends, permutations=20_000)
    assert row.p == pytest.approx(2 / 252)
    # As much evidence, but in one column of two that have nothing to do with each other.
    rng = np.random.default_rng(0)
    noise = [np.column_stack([column, rng.random(5)]) for column in values]
    two = np.zeros(2), np.ones(2)
    first, _ = mean_differences(noise[0], codes, noise[1], codes, *two, permutations=20_000)
    assert first.p == pytest.approx(4 / 252)


def test_a_column_without_values_changes_nothing() -> None:
    values = np.array([[0.0, np.nan], [1.0, np.nan]] * 10)
    codes, ends = np.arange(20), (np.zeros(2), np.ones(2))
    first, none = mean_differences(values, codes, values, codes, *ends, permutations=99)
    assert first.difference == 0
    assert first.p == 1
    assert none.p == 1
    assert np.isnan([none.before, *none.interval]).all()
