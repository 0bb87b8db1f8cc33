"""A model that answers each query several times: its run, file, features, gate and cache."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from mirage import FeatureSuite, Leaderboard, MirageDataset, Query, Response, Run, respond
from mirage.errors import DatasetError, SettingError
from mirage.features import FeatureTable
from mirage.statistics.variance import variance_components
from mirage.testing import FellShortError, assert_no_regression, save_baseline
from mirage.testing.baseline import read_baseline

SWAHILI = MirageDataset.bundled("sw")
SUITE = FeatureSuite(["citation_recall@10", "abstention"])
EMPTY = "##Answer: Sijui."


def answering(lost: Callable[[int, Query], bool]) -> Run:
    """Return the references three times, except those that are lost in a repeat."""
    runs = [
        Run(
            model="m",
            language="sw",
            responses=tuple(
                Response(query_id=query.id, text=EMPTY if lost(time, query) else query.reference)
                for query in SWAHILI
            ),
        )
        for time in range(3)
    ]
    return Run.of_repeats(runs)


def nothing(_: int, __: Query) -> bool:
    return False


def test_repeats_are_never_taken_for_queries(tmp_path: Path) -> None:
    run = answering(lambda time, query: time == 2 and query.id == "q01")
    assert (len(run), len(list(run)), len(run.responses)) == (40, 40, 120)
    assert [once["q01"].text == EMPTY for once in run.repeats] == [False, False, True]
    assert run["q01"].text == SWAHILI["q01"].reference
    run.save(tmp_path / "m.jsonl")
    assert Run.load(tmp_path / "m.jsonl", language="sw") == run
    table = SUITE.score(SWAHILI, run, progress=False)
    assert table["citation_recall@10"][0] == pytest.approx(2 / 3)
    once = SUITE.score(SWAHILI, run.repeats[0], progress=False)
    ends = np.diff(table.intervals(), axis=1) / np.diff(once.intervals(), axis=1)
    assert (ends > 0.9).all()  # three answers a query are no three queries
    assert respond(run, SWAHILI).responses == run.responses
    assert respond(tmp_path / "m.jsonl", SWAHILI, "m", repeats=2).repeats == run.repeats[:2]


def test_a_query_is_answered_once_in_each_repeat(tmp_path: Path) -> None:
    twice = [Response(query_id="q", text="a", repeat=1), Response(query_id="q", text="b", repeat=1)]
    with pytest.raises(ValidationError, match="answers query 'q' twice in repeat 1"):
        Run(model="m", language="sw", responses=tuple(twice))
    (tmp_path / "r.jsonl").write_text('{"query_id": "q", "text": "a"}\n' * 2)
    with pytest.raises(
        DatasetError, match='except for repeats, which need a number \\("repeat": 1\\)'
    ):
        Run.load(tmp_path / "r.jsonl", language="sw")
    with pytest.raises(SettingError, match="record more repeats, or set a smaller repeats"):
        respond({"q01": "a"}, SWAHILI, repeats=2)
    with pytest.raises(SettingError, match="repeats must be at least 1, got 0"):
        respond(lambda _: "a", SWAHILI, repeats=0)


def test_a_run_that_was_killed_asks_no_query_again(tmp_path: Path) -> None:
    query_ids: list[str] = []

    def system(query: Query) -> str:
        query_ids.append(query.id)
        if len(query_ids) == 50:
            raise KeyboardInterrupt
        return f"answer {len(query_ids)}"

    out = tmp_path / "m.jsonl"
    with pytest.raises(KeyboardInterrupt):
        respond(system, SWAHILI, repeats=2, out=out)
    run = respond(system, SWAHILI, repeats=2, out=out)
    assert len(query_ids) == 81
    assert run.repeats[0]["q01"].text != run.repeats[1]["q01"].text
    assert {path.name for path in tmp_path.iterdir()} == {"m.jsonl", "m.jsonl.settings"}
    assert respond(system, SWAHILI, repeats=3, out=out).repeats[:2] == run.repeats
    assert len(query_ids) == 121


def test_the_gate_reads_repeats_and_what_one_of_them_lost(tmp_path: Path) -> None:
    before = answering(nothing)
    path = tmp_path / "b.json"
    saved = save_baseline(before, path, on=SWAHILI, suite=SUITE)
    assert json.loads(path.read_text())["repeats"] == 3
    np.testing.assert_array_equal(read_baseline(path).table.repeats, saved.table.repeats)
    assert assert_no_regression(before, path).verdict == "no worse"
    third = answering(lambda time, query: time == 1 and query.id < "q31")
    with pytest.raises(FellShortError) as caught:
        assert_no_regression(third, path)
    message = " ".join(str(caught.value).split())
    assert "40 queries, each asked 3 times;" in message
    assert "answer: Sijui." in message  # the repeat that lost it is shown, and not the first
    # A baseline that was asked once can be compared with a run that was asked three times.
    once = save_baseline(before.repeats[0], path, on=SWAHILI, suite=SUITE)
    assert assert_no_regression(before, once).verdict == "no worse"


def test_a_query_that_failed_in_one_repeat_is_lost(tmp_path: Path) -> None:
    before = answering(nothing)
    saved = save_baseline(before, tmp_path / "b.json", on=SWAHILI, suite=SUITE)
    failing = [
        Response(query_id="q03", text=None, error="down", repeat=response.repeat)
        if (response.query_id, response.repeat) == ("q03", 1)
        else response
        for response in before.responses
    ]
    run = before.model_copy(update={"responses": tuple(failing)})
    with pytest.raises(FellShortError, match="for 1 of 40 queries"):
        assert_no_regression(run, saved)
    assert assert_no_regression(run, saved, allow_failed=1).verdict == "no worse"


def test_a_ranking_rests_on_the_means_over_repeats() -> None:
    board = Leaderboard.bundled("sw")
    mixed = answering(lambda time, _: time == 2)
    entry = board.rank(mixed, model="mixed")["mixed"]
    means = [board.rank(once, model="m")["m"].features for once in mixed.repeats]
    for name, value in entry.features.items():
        assert value == pytest.approx(np.mean([mean[name] for mean in means]), nan_ok=True)


def test_variance_components_by_hand() -> None:
    # Two queries, two repeats: variances 2 and 0, means 1 and 5; (1 - 5)^2 / 2 less 1 / 2.
    within, between = variance_components(np.array([[[0.0], [5.0]], [[2.0], [5.0]]]))
    assert (within[0], between[0]) == (1.0, 7.5)
    once = variance_components(np.array([[[1.0], [3.0]]]))
    assert np.isnan(once.within[0])


def test_variance_components_are_unbiased() -> None:
    rng = np.random.default_rng(0)
    queries = rng.normal(0, 2.0, (1, 4000, 1))
    within, between = variance_components(queries + rng.normal(0, 3.0, (3, 4000, 1)))
    assert (within[0], between[0]) == (pytest.approx(9, rel=0.05), pytest.approx(4, rel=0.1))


def test_which_answers_change() -> None:
    repeats = np.array([[[1.0, 0.5], [0.0, np.nan]], [[1.0, 0.5], [1.0, np.nan]]])
    values = np.array([[1.0, 0.5], [0.5, np.nan]])
    table = FeatureTable("m", "sw", ("q1", "q2"), ("a", "b"), values, repeats=repeats)
    first, second = table.stability()
    assert (first.changing, first.queries, first.within) == (("q2",), 2, 0.25)
    assert (second.changing, second.queries, second.within) == ((), 1, 0.0)
    assert table.select(["q2"]).stability()[0].changing == ("q2",)
    assert first.interval == pytest.approx((0.0126, 0.9874), abs=1e-4)
    assert second.interval == pytest.approx((0, 0.975))
    single = FeatureTable("m", "sw", ("q1", "q2"), ("a", "b"), values)
    assert np.isnan(single.stability()[0].interval).all()


def test_runs_can_be_compared_after_they_were_scored() -> None:
    dataset = MirageDataset.bundled("en")
    run = Run(model="m", language="en", responses=(Response(query_id="q01", text="Nile"),))
    other = Run(model="m", language="en", responses=run.responses)
    for each in (run, other):
        FeatureSuite(["answer_length"]).score(dataset, each, progress=False)
    assert run == other == deepcopy(run)
    assert run.repeats == (run,)
