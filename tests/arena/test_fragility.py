"""Fragility of ranks: by hand, compared with all removals, and as shown in rankings."""

import json
import re
from dataclasses import replace
from importlib import import_module
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage import BradleyTerry, Judgments, Ranking
from mirage.arena import fragility
from mirage.errors import JudgmentError
from mirage.report._page import render
from mirage.statistics.ranks import ranks

NAMES = np.array(list("abcdefghijklmnopqrs"))


@pytest.fixture(autouse=True, scope="module")
def _as_many_removals_as_usual(many_removals):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module("mirage.arena.fragility"), "_TRIES", many_removals)
        yield


def draw_judgments(models, queries, seed, share=1.0, ties=0.2):
    """Return judgments of pairs, each judged with probability ``share``; a is the best model."""
    rng = np.random.default_rng(seed)
    logits = np.linspace(1, -1, models)
    a, b = np.triu_indices(models, 1)
    score = (rng.random((queries, len(a))) < 1 / (1 + np.exp(logits[b] - logits[a]))) * 1.0
    score[rng.random(score.shape) < ties] = 0.5
    query, pair = np.nonzero(rng.random(score.shape) < share)
    return Judgments.from_arrays(
        query=query, model_a=NAMES[a[pair]], model_b=NAMES[b[pair]], score=score[query, pair]
    )


def without(judgments, dropped):
    remaining = ~np.isin(np.arange(len(judgments)), dropped)
    columns = {name: getattr(judgments, name)[remaining] for name in ("query", "a", "b", "score")}
    return replace(judgments, **columns)


def rows_of(judgments, query_ids):
    numbers = [judgments.query_ids.index(query_id) for query_id in query_ids]
    return np.flatnonzero(np.isin(judgments.query, numbers))


def smallest_removals(judgments, model, groups, most):
    """Return the size of the smallest removal that changes each rank; 0 if none does."""
    before = ranks(model.fit(judgments).logits)
    smallest_sizes = np.zeros(len(before), dtype=int)
    for size in range(1, most + 1):
        for combination in combinations(groups, size):
            try:
                fit = model.fit(without(judgments, np.concatenate(combination)))
            except JudgmentError:  # nothing holds the models together any more
                continue
            changed = ranks(fit.logits) != before
            smallest_sizes = np.where((smallest_sizes == 0) & changed, size, smallest_sizes)
    return smallest_sizes


def sizes(removals, most):
    counts = [0 if removal is None else len(removal.dropped) for removal in removals]
    return [count if count <= most else 0 for count in counts]


def test_two_models_by_hand():
    # x won 6 of 8: without 4 of these both are as good, and y shares the first place. For x to
    # lose it, 5 would have to go: more than half.
    score = [1] * 6 + [0] * 2
    judgments = Judgments.from_arrays(
        query=range(8), model_a=["x"] * 8, model_b=["y"] * 8, score=score
    )
    x, y = fragility(judgments)
    assert (x.model, x.rank, x.queries, x.verdicts) == ("x", 1, None, None)
    assert (y.rank, y.queries.rank, y.queries.of, y.verdicts.rank) == (2, 1, 8, 1)
    assert len(y.queries.dropped) == len(y.verdicts.dropped) == 4
    assert set(y.verdicts.dropped) < set(range(6))
    assert (
        str(x)
        == "x is first; no removal of up to half of the queries or verdicts was found to change "
        "that."
    )
    assert re.fullmatch(
        r"y is at rank 2; without 4 of 8 queries \(\d, \d, \d, \d\) it is first; "
        r"without 4 of 8 verdicts it is first\.",
        str(y),
    )


@pytest.mark.parametrize(
    "model",
    [
        BradleyTerry(),
        BradleyTerry(ties="drop"),
        BradleyTerry(ties="davidson"),
        BradleyTerry(ridge=0),
    ],
    ids=["half", "drop", "davidson", "no ridge"],
)
@pytest.mark.parametrize(
    ("models", "queries", "share"),
    [(3, 5, 1.0), pytest.param(4, 7, 0.6, marks=pytest.mark.slow)],
)
def test_no_removal_is_smaller_in_an_exhaustive_search(model, models, queries, share):
    judgments = draw_judgments(models, queries, seed=3, share=share)
    results = fragility(judgments, bradley_terry=model)
    judgments_to_fit = model._judgments_to_fit(judgments)
    by_query = [np.flatnonzero(judgments_to_fit.query == q) for q in range(queries)]
    expected = smallest_removals(judgments_to_fit, model, by_query, queries // 2)
    assert sizes([result.queries for result in results], queries // 2) == expected.tolist()
    expected = smallest_removals(
        judgments_to_fit, model, np.arange(len(judgments_to_fit))[:, None], 2
    )
    assert sizes([result.verdicts for result in results], 2) == expected.tolist()


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 8), st.integers(2, 30), st.sampled_from([0.5, 1.0]))
def test_each_removal_changes_the_rank(seed, models, queries, share):
    judgments = draw_judgments(models, queries, seed, share)
    try:
        fit = BradleyTerry().fit(judgments)
    except JudgmentError:
        return
    for i, result in enumerate(fragility(judgments)):
        assert result.rank == fit.ranks[i]
        for removal, rows in (
            (result.queries, result.queries and rows_of(judgments, result.queries.dropped)),
            (result.verdicts, result.verdicts and result.verdicts.dropped),
        ):
            if removal is not None:
                remaining_fit = BradleyTerry().fit(without(judgments, rows))
                assert remaining_fit.ranks[i] == removal.rank != result.rank
                assert remaining_fit.ranks[remaining_fit.models.index(removal.first)] == 1
                assert len(removal.dropped) <= removal.of // 2


def test_a_ranking_notes_the_fragility_of_first_place():
    judgments = draw_judgments(4, 30, seed=5)
    ranking = Ranking.from_judgments(judgments)
    first = ranking.models[0]
    removal = ranking.fragility[first].verdicts
    words = f"without {len(removal.dropped)} of {removal.of} verdicts {removal.first} is."
    assert ranking.notes == ()
    assert words in " ".join(str(ranking).split())
    plain = json.loads(ranking.to_json())
    assert any(words in note for note in plain["notes"])
    assert plain["entries"][0]["fragility"]["verdicts"] == {
        "dropped": list(removal.dropped),
        "of": removal.of,
        "rank": removal.rank,
    }
    page = render(ranking)
    assert words in page
    assert f"{len(removal.dropped)} of {removal.of} verdicts</td>" in page
    # Tournaments give other logits than the fit that is gone by here.
    assert not Ranking.from_judgments(judgments, tournaments=20, progress=False).fragility


def test_equal_models_have_no_note_on_first_place():
    ties = Judgments.from_arrays(
        query=range(6), model_a=list("aabaab"), model_b=list("bccbcc"), score=[0.5] * 6
    )
    ranking = Ranking.from_judgments(ties)
    assert ranking.fragility_notes == ()
    assert ranking.fragility["a"].queries is None
