"""Inputs eight times as long take about eight times as long: no path that grows faster is left.

No test looks at a clock. Each one uses a size at which the faster-growing code would need minutes,
or checks that the costly step is not taken; ``validation/recovery/growth.py`` prints the times.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage import LLM, FeatureSuite, Judgment, Judgments, MirageDataset, Ranking, Run
from mirage._base.rows import first_duplicate
from mirage.arena import estimation, fragility
from mirage.arena.bradley_terry import MOST_MODELS
from mirage.arena.controls import formatting
from mirage.errors import DatasetError, JudgmentError, SettingError, UnknownNameError
from mirage.languages import LANGUAGES
from mirage.models import Response
from mirage.retrieval import RetrievalRun
from mirage.testsets import build_test_set
from mirage.testsets.item_questions import _object
from mirage.testsets.test_sets import MOST_ITEMS
from mirage.text import read_claims
from mirage.text._cues import phrase_pattern


def judgments(models: int, each: int = 10) -> Judgments:
    """Random verdicts, ``each`` per model."""
    rng = np.random.default_rng(models)
    strength = rng.normal(size=models)
    a = np.arange(models * each) % models
    b = (a + rng.integers(1, models, len(a))) % models
    won = rng.random(len(a)) < 1 / (1 + np.exp(strength[b] - strength[a]))
    names = np.array([f"m{number:04}" for number in range(models)])
    return Judgments.from_arrays(
        query=rng.integers(0, 50, len(a)),
        model_a=names[a],
        model_b=names[b],
        score=won.astype(float),
    )


@pytest.mark.slow
def test_a_ranking_of_300_models_is_printed_without_the_fragility_of_them_all() -> None:
    ranking = Ranking.from_judgments(judgments(300))
    assert str(ranking).count("\n") > 300
    first = {entry.model for entry in ranking if entry.rank == 1}
    assert set(ranking.fragility) <= first


def test_the_fragility_of_one_model_is_what_it_is_among_all() -> None:
    columns = judgments(9, each=30)
    every = {row.model: row for row in fragility(columns)}
    for name in columns.models:
        (alone,) = fragility(columns, models=[name])
        assert alone.rank == every[name].rank
        for kind in ("queries", "verdicts"):
            ours, theirs = getattr(alone, kind), getattr(every[name], kind)
            assert (ours is None) == (theirs is None)
            # Removals tried for one model may help another, so all together find no larger ones.
            assert ours is None or len(ours.dropped) >= len(theirs.dropped)


def test_the_fragility_of_a_model_that_was_not_judged_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown model 'm9999'"):
        fragility(judgments(5), models=["m9999"])


def test_more_models_than_can_be_fitted_are_refused_before_any_memory_is_taken() -> None:
    many = 100_000
    columns = Judgments.from_arrays(
        query=np.zeros(many), model_a=np.arange(many), model_b=np.arange(many) + 1, score=[1] * many
    )
    with pytest.raises(JudgmentError, match=f"100001 models, but at most {MOST_MODELS}"):
        Ranking.from_judgments(columns)


def test_models_that_each_won_everything_below_them_are_grouped_at_once() -> None:
    # A walk from every model, step by step, would take the fourth power of their number.
    models = 1000
    wins = np.diag(np.ones(models - 1), 1)
    assert [group.tolist() for group in estimation.bound_groups(wins)] == [
        [model] for model in range(models)
    ]
    winners, losers = estimation.always_won(wins) or ((), ())
    assert (len(winners), len(losers)) == (1, models - 1)


@given(st.integers(1, 7).flatmap(lambda n: st.lists(st.booleans(), min_size=n * n, max_size=n * n)))
def test_groups_are_the_models_that_reach_each_other(edges: Sequence[bool]) -> None:
    size = round(len(edges) ** 0.5)
    wins = np.array(edges, dtype=float).reshape(size, size)
    reach = np.linalg.matrix_power(np.eye(size) + wins, size) > 0
    mutual = reach & reach.T
    groups = estimation.bound_groups(wins)
    assert sorted(np.concatenate(groups).tolist()) == list(range(size))
    assert all(set(np.flatnonzero(mutual[group[0]])) == set(group) for group in groups)
    assert [len(group) for group in groups] == sorted(map(len, groups), reverse=True)


def test_looking_for_missing_queries_makes_no_error_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mirage.errors.nearest_name", lambda *_: pytest.fail("an error was made"))
    run = RetrievalRun.of({f"q{number}": {"p": 1.0} for number in range(1000)})
    assert "q1" in run
    assert sum(f"other{number}" in run for number in range(1000)) == 0


def test_a_run_knows_its_queries_by_id() -> None:
    responses = tuple(Response(query_id=f"q{number}", text="yes") for number in range(3))
    run = Run(model="m", language="en", responses=responses)
    assert "q1" in run
    assert responses[1] in run
    assert "q9" not in run
    assert Response(query_id="q1", text="no") not in run


def test_a_passage_ranked_twice_at_the_end_of_a_long_list_is_found_in_one_pass() -> None:
    ids = [f"p{number}" for number in range(300_000)]
    assert first_duplicate(ids) is None
    assert first_duplicate([*ids, ids[-1]]) == ids[-1]
    lines = {id_: float(-number) for number, id_ in enumerate(ids)}
    run = RetrievalRun.of({"q": lines})
    with pytest.raises(DatasetError, match="'p299999' is ranked twice"):
        RetrievalRun({"q": run["q"]._replace(passage_ids=(*ids[:-1], ids[-1], ids[-1])[1:])})


@pytest.mark.parametrize("piece", ["1", "{", "(", "1 May "])
def test_an_answer_of_one_piece_over_and_over_is_scored(piece: str) -> None:
    query = MirageDataset.bundled("en")[0]
    text = f"##Answer: {piece * (60_000 // len(piece))}"
    run = Run(model="m", language="en", responses=(Response(query_id=query.id, text=text),))
    names = ["unknown_facts", "answer_match", "wrong_answer", "support_lexical"]
    table = FeatureSuite(names, "en").score(MirageDataset([query], name="one"), run)
    assert len(table) == 1


def test_a_word_is_searched_for_an_ending_once_and_not_from_each_of_its_letters() -> None:
    pattern = phrase_pattern(["*n't find"], LANGUAGES["en"])
    assert pattern.search("x" * 1_000_000) is None
    assert pattern.search(f"{'x' * 1_000_000}n't find")


@pytest.mark.parametrize("text", ["{" * 1_000_000, '{"a":' * 200_000, "}" * 1_000_000])
def test_an_answer_of_open_braces_holds_no_item(text: str) -> None:
    assert _object(text) is None
    assert _object('```json\n{"answer": "7"}\n```') == {"answer": "7"}


def test_more_items_than_can_be_compared_are_refused() -> None:
    with pytest.raises(SettingError, match=f"items must be at most {MOST_ITEMS}, got 2001"):
        build_test_set([], language="en", items=2001, llm=LLM("m"))


def test_an_answer_that_repeats_two_candidates_is_read_at_once() -> None:
    # Every mention used to be compared with every other one, word by word.
    claims = read_claims("Nile, Congo, " * 300, [("Nile",), ("Congo",)], "en")
    assert len(claims.mentions) > 300


@pytest.mark.parametrize("text", ["It is Paris.\n" + "|a|\n|-|\n" * 4000, "Paris " + "_" * 100_000])
def test_repeated_layout_is_read_at_once(text: str) -> None:
    run = Run(model="m", language="en", responses=(Response(query_id="q01", text=text),))
    table = FeatureSuite.default("en").score(MirageDataset.bundled("en"), run, progress=False)
    assert table.select(["q01"])["answer_match"] == [0.0]


def test_formatting_is_counted_at_once_in_a_text_of_line_breaks() -> None:
    dataset = MirageDataset.bundled("en")
    runs = [
        Run(model=name, language="en", responses=(Response(query_id="q01", text=text),))
        for name, text in (("a", "It is\n" + "\n" * 200_000 + "- Paris"), ("b", "Paris"))
    ]
    judgment = Judgment(query_id="q01", model_a="a", model_b="b", verdict="a")
    assert formatting(dataset, runs).of(judgment) > 0
