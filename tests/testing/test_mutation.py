"""Mutants, the assertions that catch them, and test files written from responses."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from mirage import MirageDataset, MirageError, Query, Run, respond
from mirage.errors import SettingError, UnknownNameError
from mirage.features import facts
from mirage.features.base import answered
from mirage.models import Passage
from mirage.surrogate.drafts import MANNERS
from mirage.surrogate.faults import FAULTS
from mirage.surrogate.pretraining import simulated_runs
from mirage.testing import assert_feature, assert_ranks, mutation_score, write_tests
from mirage.testing._runs import Runs
from mirage.testing.mutation import Bound, Fate, MutationScore, mutants, suggested_bounds
from mirage.testing.suites import score_tests

SWAHILI = MirageDataset.bundled("sw")
BUNDLED = respond({q.id: q.reference or "" for q in SWAHILI}, SWAHILI, "reference", progress=False)
KINDS = ("uncited", "wrong-language", "over-cited")
PASSING = {"inconclusive": "pass"}


def user_data(number: int = 6) -> tuple[MirageDataset, Run]:
    """Return queries that are not bundled, and responses to them."""
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
    texts = {q.id: f"It is {q.id[-1]}40 metres long [p{q.id[-1]}]." for q in dataset}
    return dataset, respond(texts, dataset, "bot", progress=False)


def test_bundled_responses_can_have_every_kind_of_fault() -> None:
    result = mutants(SWAHILI, BUNDLED, shares=(1.0,))
    assert [mutant.kind for mutant in result.tried] == list(FAULTS)
    assert not result.untried
    for mutant in result.tried:
        changed = {r.query_id for r in mutant.run.responses if r != BUNDLED[r.query_id]}
        assert changed == set(mutant.hit), mutant.kind


def test_queries_of_a_smaller_share_are_among_those_of_a_larger_one() -> None:
    all_, some = mutants(SWAHILI, BUNDLED, kinds=["uncited"], shares=(1.0, 0.25)).tried
    assert len(some.hit) == round(len(all_.hit) / 4)
    assert set(some.hit) < set(all_.hit)
    assert all(some.run[id_] == all_.run[id_] for id_ in some.hit)
    assert mutants(SWAHILI, BUNDLED, kinds=["uncited"]).tried[1] == some


def test_untried_kinds_name_the_data_that_is_missing() -> None:
    dataset, run = user_data()
    result = mutants(dataset, run)
    assert set(result.untried) == {"lying", "answered-anyway", "wrong-entity", "truncated"} | (
        {"format-broken"}  # these have neither headings nor a reason
    )
    assert "wrong answers" in result.untried["wrong-entity"]
    (language,) = mutants(dataset, run, kinds=["wrong-language"], shares=[1]).tried
    assert "metres" not in (language.run["own-1"].text or "")
    assert "[p1]" in (language.run["own-1"].text or "")


@pytest.mark.parametrize(
    ("language", "question", "text"),
    [
        ("en", "Who tends lamp {}?", "Lamp {} is tended by Ada. It shines far."),
        ("ja", "灯台{}は誰が守りますか。", "灯台{}は花子が守ります。光は遠くまで届きます。"),
        ("ar", "من يحرس المنارة {}؟", "يحرس سالم المنارة {}. ضوؤها بعيد."),
    ],
)
def test_faults_cite_the_passages_that_the_system_has_read(
    language: str, question: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    texts = [text.format(i) for i in range(12)]
    dataset = MirageDataset(
        Query(
            id=f"q{i}",
            language=language,
            text=question.format(i),
            passages=(
                Passage(id=f"page-{i}#0", text=texts[i]),
                Passage(id=f"page-{i}#1", text=texts[i - 1]),
            ),
            relevant=(f"page-{i}#0",),
        )
        for i in range(12)
    )

    def bot(query: Query) -> tuple[str, list[dict[str, str]]]:
        i = int(query.id[1:])
        documents = [{"id": f"page-{j}", "text": texts[j]} for j in (i, (i + 1) % 12)]
        return f"{texts[i]} [page-{i}]", documents

    run = respond(bot, dataset, f"lamps-{language}", progress=False)
    for mutant in mutants(dataset, run, kinds=["dumping", "over-cited"], shares=(1.0,)).tried:
        answer = answered(dataset["q3"], mutant.run["q3"]).parsed
        cited = {id_ for sentence in answer.sentences for id_ in sentence.citations}
        assert cited == {"page-3", "page-4"}, mutant.kind
    suggested_bounds(dataset, run, seeds=1)
    assert not caplog.messages


def test_missed_faults_have_a_suggestion_that_catches_them() -> None:
    def cites(run: Run) -> None:
        assert_feature(run, "citation_recall@10", ge=0.9)

    def never(_: Run) -> None:
        raise AssertionError

    score = mutation_score({"cites": cites, "never": never}, SWAHILI, BUNDLED, kinds=KINDS, seeds=2)
    caught = {(fate.kind, fate.share, fate.seed): fate.caught_by for fate in score.fates}
    for seed in (0, 1):
        assert caught["uncited", 1.0, seed] == caught["uncited", 0.25, seed] == ("cites",)
        assert caught["wrong-language", 1.0, seed] == caught["over-cited", 1.0, seed] == ()
    assert score.fallen == ("never",)
    assert score.score == score.at(0.25) == pytest.approx(1 / 3)
    assert math.isnan(score.at(0.5))
    suggestions = {fate.kind: fate.suggestion for fate in score.missed if fate.share == 1}
    assert suggestions["wrong-language"].startswith('assert_feature(run, "target_language", ge=')
    assert suggestions["over-cited"].startswith('assert_feature(run, "citation_map@10", ge=')
    assert "1 of 3 kinds of fault (with 2 seeds) caught at 100%" in str(score)
    # The suggested assertion holds for the responses and fails on the mutant.
    mutant = mutants(SWAHILI, BUNDLED, kinds=["over-cited"], shares=[1]).tried[0].run
    names = {"assert_feature": assert_feature}
    exec(suggestions["over-cited"], {**names, "run": BUNDLED})
    with pytest.raises(AssertionError):
        exec(suggestions["over-cited"], {**names, "run": mutant})


def test_assertions_on_mutants_record_nothing_in_the_running_test(
    request: pytest.FixtureRequest,
) -> None:
    def inconclusive(run: Run) -> None:
        assert assert_feature(run, "citation_recall@10", ge=0.95).verdict == "inconclusive"

    score = mutation_score(
        {"inconclusive": inconclusive}, SWAHILI, BUNDLED, kinds=["garbled"], seeds=1
    )
    assert score.fallen == ()
    assert not getattr(request.node, "mirage_open", ())
    assert not request.node.user_properties


@pytest.mark.slow
def test_suggested_bounds_score_as_the_assertions_do() -> None:
    bounds, score = suggested_bounds(SWAHILI, BUNDLED, kinds=KINDS, seeds=2)
    checks = {
        b.feature: lambda run, b=b: assert_feature(run, b.feature, **b.limits) for b in bounds
    }
    again = mutation_score(checks, SWAHILI, BUNDLED, kinds=KINDS, seeds=2)
    assert not again.fallen
    assert {(*f[:3], f.seed): set(f.caught_by) for f in score.fates} == {
        (*f[:3], f.seed): set(f.caught_by) for f in again.fates
    }
    assert score.score == 1


def test_a_mutation_score_reports_the_spread_over_seeds() -> None:
    fates = [
        Fate(kind, 1.0, 9, ("cites",) if number < caught else (), seed=seed)
        for seed, caught in enumerate((2, 3, 1))
        for number, kind in enumerate(("uncited", "garbled", "padded", "refusal"))
    ]
    score = MutationScore(tuple(fates), {})
    assert score.by_seed(1.0) == (0.5, 0.75, 0.25)
    assert score.score == 0.5
    assert score.counted(1.0) == "2 of 4 kinds of fault (1 to 3 with 3 seeds)"
    verdicts = [score.verdict(minimum) for minimum in (0.25, 0.5, 0.76)]
    assert verdicts == ["holds", "inconclusive", "broken"]
    assert MutationScore((), {}).verdict(0.5) == "inconclusive"
    assert "1 of 3" in str(score)


def improved(texts: str) -> Run:
    """Return a simulated run on the Swahili queries that answers or abstains correctly."""
    return simulated_runs("sw", {texts})[texts]


def without_relevant(number: int) -> MirageDataset:
    """Return the queries with this number of passages, the relevant ones first."""
    queries = []
    for query in SWAHILI:
        order = sorted(query.passages, key=lambda passage: passage.id not in query.relevant)
        passages = tuple(order[:number])
        ids = {passage.id for passage in passages}
        relevant = tuple(id_ for id_ in query.relevant if id_ in ids)
        queries.append(query.model_copy(update={"passages": passages, "relevant": relevant}))
    return MirageDataset(queries, name=f"k{number}")


def as_markdown(texts: dict[str, str]) -> dict[str, str]:
    return {
        id_: "\n".join(f"- **{line}**" for line in text.split("\n") if line)
        for id_, text in texts.items()
    }


@pytest.mark.slow
def test_an_improved_run_breaks_no_written_bound() -> None:
    good = {response.query_id: response.text or "" for response in improved("reference")}
    wrong = {r.query_id: r.text or "" for r in improved("lying")}
    # The tests are written from a bot that is wrong in three answers of ten.
    mixed = {id_: wrong[id_] if i % 10 < 3 else good[id_] for i, id_ in enumerate(good)}
    before = respond(mixed, SWAHILI, "bot", progress=False)
    bounds, _ = suggested_bounds(SWAHILI, before, seeds=1)
    assert {bound.feature for bound in bounds} >= {"answer_match", "abstention", "wrong_answer"}
    directions = {bound.feature: facts(bound.feature).direction_in("sw") for bound in bounds}
    for bound in bounds:
        assert (bound.ge is None) == (directions[bound.feature] == "lower"), bound
        assert (bound.le is None) == (directions[bound.feature] == "higher"), bound
    assert not {"passage_coverage", "answer_length", "well_formed"} & set(directions)
    short = {response.query_id: response.text or "" for response in improved("terse")}
    for texts in (good, short, as_markdown(good), as_markdown(short)):
        for passages in (1, 5):
            on = without_relevant(passages)
            run = respond(texts, on, "bot", progress=False)
            for bound in bounds:
                result = assert_feature(run, bound.feature, on=on, **bound.limits, **PASSING)
                assert result.verdict != "broken", bound


def test_no_suggestion_limits_the_better_side() -> None:
    dataset = MirageDataset(list(SWAHILI)[::2])
    wrong = improved("lying").model_copy(
        update={"responses": tuple(improved("lying").responses[::2])}
    )
    kinds = ("uncited", "lying", "refusal", "wrong-language")
    bounds, score = suggested_bounds(dataset, wrong, kinds=kinds, seeds=1)
    for fate in score.missed:
        assert 'answer_match", le=' not in fate.suggestion
        assert 'abstention", le=' not in fate.suggestion
    assert all(bound.le is None for bound in bounds if bound.feature == "answer_match")


@pytest.mark.slow
def test_suggested_bounds_hold_for_true_answers_in_other_words() -> None:
    dataset = MirageDataset(list(SWAHILI)[::2])
    runs = {
        name: run.model_copy(update={"responses": run.responses[::2]})
        for name, run in simulated_runs("sw", {*MANNERS, "lying"}).items()
    }
    kinds = ("uncited", "lying", "refusal")
    bounds, score = suggested_bounds(dataset, runs["reference"], kinds=kinds, seeds=1)
    assert score.score == 1

    def broken(run: Run) -> set[str]:
        return {bound.feature for bound in bounds if is_broken(run, bound, dataset)}

    for name in MANNERS:
        assert broken(runs[name]) == set(), name
    assert broken(runs["lying"]) >= {"answer_match", "wrong_answer"}


def is_broken(run: Run, bound: Bound, dataset: MirageDataset) -> bool:
    try:
        assert_feature(run, bound.feature, on=dataset, **bound.limits, **PASSING)
    except AssertionError:
        return True
    return False


def test_a_bound_is_compared_with_an_interval() -> None:
    bound = Bound("answer_match", "", ge=0.5)
    assert [bound.verdict(ends) for ends in ((0.5, 1), (0.4, 1), (0.1, 0.4))] == [
        "holds",
        "inconclusive",
        "broken",
    ]
    assert bound.verdict((math.nan, math.nan)) == "broken"
    assert Bound("wrong_answer", "", le=0.5).verdict((0.51, 0.9)) == "broken"


@pytest.mark.slow
def test_a_written_file_passes_and_pytest_gives_the_same_score(tmp_path: Path) -> None:
    dataset, run = user_data(6)
    responses, queries = tmp_path / "responses.jsonl", tmp_path / "queries.jsonl"
    run.save(responses)
    dataset.save(queries)
    file = tmp_path / "test_written.py"
    settings = {"kinds": KINDS[:2], "seeds": 2}
    written = write_tests(file, dataset, run, responses, queries, **settings)
    assert f"- {written.counted(1.0)} on all queries" in file.read_text(encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file.name]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout
    assert "skipped" not in process.stdout
    scored = score_tests(file, dataset, run, **settings)
    assert not scored.fallen
    assert scored.score == written.score == 1
    assert all(len(line) <= 100 for line in file.read_text(encoding="utf-8").splitlines())


def test_bad_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="uncited"):
        mutants(SWAHILI, BUNDLED, kinds=["uncitd"])
    with pytest.raises(SettingError, match="shares"):
        mutants(SWAHILI, BUNDLED, shares=[0])
    with pytest.raises(MirageError, match="no such test file"):
        score_tests(tmp_path / "test_none.py", SWAHILI, BUNDLED, kinds=KINDS[:1], seeds=1)
    broken = tmp_path / "test_broken_file.py"
    broken.write_text("import nothing_of_this_name")
    with pytest.raises(MirageError, match="nothing_of_this_name"):
        score_tests(broken, SWAHILI, BUNDLED, kinds=KINDS[:1], seeds=1)


def test_responses_of_the_environment_variable_replace_the_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def system(_: Query) -> str:
        raise AssertionError("the system was asked")

    BUNDLED.save(tmp_path / "others.jsonl")
    monkeypatch.setenv("MIRAGE_RESPONSES", str(tmp_path / "others.jsonl"))
    assert_feature(system, "citation_recall@10", ge=0.8, on="sw")
    assert_ranks(system, at_least="anchor/uncited", on="sw")
    run = Runs(None, None)(system, "my-rag", on="sw", resume=True)
    assert {item.text for item in run.responses} == {item.text for item in BUNDLED.responses}
