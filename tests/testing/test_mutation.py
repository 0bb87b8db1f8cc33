"""Faults done to responses, and which assertions catch them; files of tests that pass on them."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mirage import MirageDataset, MirageError, Query, Run, SettingError, UnknownNameError, respond
from mirage.dataset import write_run
from mirage.features import FeatureSuite
from mirage.surrogate.drafts import MANNERS
from mirage.surrogate.faults import FAULTS
from mirage.surrogate.pretraining import simulated_runs
from mirage.testing import (
    Bound,
    assert_feature,
    assert_ranks,
    mutants,
    mutation_score,
    score_tests,
    suggested_bounds,
    write_tests,
)
from mirage.testing._runs import Runs

SWAHILI = MirageDataset.bundled("sw")
BUNDLED = respond({q.id: q.reference or "" for q in SWAHILI}, SWAHILI, "reference", progress=False)
KINDS = ("uncited", "wrong-language", "over-cited")


def own(number: int = 6) -> tuple[MirageDataset, Run]:
    """Queries that nobody wrote an abstention or a lie for, and what somebody answers."""
    queries = [
        Query.model_validate(
            {
                "id": f"own-{i}",
                "language": "en",
                "text": f"How long is bridge {i}?",
                "passages": [
                    {"id": f"n{i}", "text": "Ferries cross at noon. They carry no cars."},
                    {"id": f"p{i}", "text": f"Bridge {i} is {i}40 metres long. It is of steel."},
                ],
                "relevant": [f"p{i}"],
            }
        )
        for i in range(1, number + 1)
    ]
    dataset = MirageDataset(queries)
    said = {q.id: f"It is {q.id[-1]}40 metres long [p{q.id[-1]}]." for q in dataset}
    return dataset, respond(said, dataset, "bot", progress=False)


def test_bundled_responses_can_have_every_kind_of_fault() -> None:
    made = mutants(SWAHILI, BUNDLED, shares=(1.0,))
    assert [one.kind for one in made.tried] == list(FAULTS)
    assert not made.untried
    for one in made.tried:
        changed = {r.query_id for r in one.run.responses if r != BUNDLED[r.query_id]}
        assert changed == set(one.hit), one.kind


def test_queries_of_a_smaller_share_are_among_those_of_a_larger_one() -> None:
    all_, some = mutants(SWAHILI, BUNDLED, kinds=["uncited"], shares=(1.0, 0.25)).tried
    assert len(some.hit) == round(len(all_.hit) / 4)
    assert set(some.hit) < set(all_.hit)
    assert all(some.run[id_] == all_.run[id_] for id_ in some.hit)
    assert mutants(SWAHILI, BUNDLED, kinds=["uncited"]).tried[1] == some


def test_what_a_dataset_lacks_is_named() -> None:
    dataset, run = own()
    made = mutants(dataset, run)
    assert set(made.untried) == {"lying", "answered-anyway", "wrong-entity", "truncated"} | (
        {"format-broken"}  # these have neither headings nor a reason
    )
    assert "wrong answers" in made.untried["wrong-entity"]
    (language,) = mutants(dataset, run, kinds=["wrong-language"], shares=[1]).tried
    assert "metres" not in (language.run["own-1"].text or "")
    assert "[p1]" in (language.run["own-1"].text or "")


def test_an_assertion_catches_what_it_is_about_and_what_is_missed_has_a_suggestion() -> None:
    def cites(run: Run) -> None:
        assert_feature(run, "citation_recall@10", ge=0.9)

    def never(_: Run) -> None:
        raise AssertionError

    score = mutation_score({"cites": cites, "never": never}, SWAHILI, BUNDLED, kinds=KINDS)
    caught = {(fate.kind, fate.share): fate.caught_by for fate in score.fates}
    assert caught["uncited", 1.0] == caught["uncited", 0.25] == ("cites",)
    assert caught["wrong-language", 1.0] == caught["over-cited", 1.0] == ()
    assert score.fallen == ("never",)
    assert score.score == score.at(0.25) == pytest.approx(1 / 3)
    assert math.isnan(score.at(0.5))
    said = {fate.kind: fate.suggestion for fate in score.missed if fate.share == 1}
    assert said["wrong-language"].startswith('assert_feature(run, "target_language", ge=')
    assert said["over-cited"].startswith('assert_feature(run, "citation_map@10", ge=')
    assert "1 of 3 kinds of fault caught at 100%" in str(score)
    # What is suggested holds of the responses, and not of the mutant.
    mutant = mutants(SWAHILI, BUNDLED, kinds=["over-cited"], shares=[1]).tried[0].run
    names = {"assert_feature": assert_feature}
    exec(said["over-cited"], {**names, "run": BUNDLED})
    with pytest.raises(AssertionError):
        exec(said["over-cited"], {**names, "run": mutant})


def test_suggested_bounds_score_as_the_assertions_do() -> None:
    bounds, score = suggested_bounds(SWAHILI, BUNDLED, kinds=KINDS)
    checks = {
        b.feature: lambda run, b=b: assert_feature(run, b.feature, ge=b.ge, le=b.le) for b in bounds
    }
    again = mutation_score(checks, SWAHILI, BUNDLED, kinds=KINDS)
    assert not again.fallen
    assert {f[:3]: set(f.caught_by) for f in score.fates} == {
        f[:3]: set(f.caught_by) for f in again.fates
    }
    assert score.score == 1


def test_written_bounds_hold_of_what_is_as_true_in_other_words() -> None:
    dataset = MirageDataset(list(SWAHILI)[::4])
    runs = {
        name: run.model_copy(update={"responses": run.responses[::4]})
        for name, run in simulated_runs("sw", {*MANNERS, "lying", "format-broken"}).items()
    }
    kinds = ("uncited", "lying", "hallucinated", "dumping", "cut-off", "format-broken")
    bounds, score = suggested_bounds(dataset, runs["reference"], kinds=kinds, shares=(1.0,))
    assert score.score == 1

    def falling(run: Run) -> set[str]:
        table = FeatureSuite([b.feature for b in bounds]).score(dataset, run, progress=False)
        return {b.feature for b in bounds if not b.holds(float(np.nanmean(table[b.feature])))}

    for name in ("long", "quoting"):
        assert falling(runs[name]) == set(), name
    for name in ("plain", "casual", "terse"):  # without headings
        assert falling(runs[name]) == {"well_formed"}, name
    assert falling(runs["lying"]) >= {"answer_match", "wrong_answer"}
    # Nothing is asked of headings where there were none.
    plain, _ = suggested_bounds(dataset, runs["plain"], kinds=["uncited"], shares=(1.0,))
    assert "well_formed" not in {bound.feature for bound in plain}


def test_a_bound_without_a_mean_does_not_hold() -> None:
    assert Bound("answer_match", "", ge=0.5).holds(0.5)
    assert not Bound("answer_match", "", ge=0.5).holds(math.nan)
    assert not Bound("wrong_answer", "", le=0.5).holds(0.51)


def test_a_written_file_passes_and_its_score_is_that_of_pytest(tmp_path: Path) -> None:
    dataset, run = own(4)
    responses, queries = tmp_path / "responses.jsonl", tmp_path / "queries.jsonl"
    write_run(run, responses)
    dataset.to_jsonl(queries)
    file = tmp_path / "test_written.py"
    said = write_tests(file, dataset, run, responses, queries, kinds=KINDS, shares=(1.0,))
    assert f"- {said.counted(1.0)} on all queries" in file.read_text(encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    counted = score_tests(file, dataset, run, kinds=KINDS, shares=(1.0,))
    assert not counted.fallen
    assert counted.score == said.score == 1
    assert all(len(line) <= 100 for line in file.read_text(encoding="utf-8").splitlines())


def test_bad_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="uncited"):
        mutants(SWAHILI, BUNDLED, kinds=["uncitd"])
    with pytest.raises(SettingError, match="shares"):
        mutants(SWAHILI, BUNDLED, shares=[0])
    with pytest.raises(MirageError, match="no such file"):
        score_tests(tmp_path / "test_none.py", SWAHILI, BUNDLED)
    broken = tmp_path / "test_broken_file.py"
    broken.write_text("import nothing_of_this_name")
    with pytest.raises(MirageError, match="nothing_of_this_name"):
        score_tests(broken, SWAHILI, BUNDLED)


def test_the_variable_names_responses_that_are_read_in_place_of_the_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def asked(_: Query) -> str:
        raise AssertionError("the system was asked")

    write_run(BUNDLED, tmp_path / "others.jsonl")
    monkeypatch.setenv("MIRAGE_RESPONSES", str(tmp_path / "others.jsonl"))
    assert_feature(asked, "citation_recall@10", ge=0.9, on="sw")
    assert_ranks(asked, at_least="anchor/uncited", on="sw")
    run = Runs(None, None)(asked, "asked", on="sw", resume=True)
    assert {one.text for one in run.responses} == {one.text for one in BUNDLED.responses}
