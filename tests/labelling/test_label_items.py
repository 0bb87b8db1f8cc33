"""The answers and pairs to label, and the random choice among them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from labelling_data import QUERIES, SECRET, answers, dataset, pairs, run

from mirage import Response, Run
from mirage.errors import DatasetError
from mirage.labelling.items import answer_items, draw, scores_of
from mirage.labelling.session import open_session


def test_each_item_is_drawn_with_the_same_probability_whatever_its_score() -> None:
    scores = np.array([*np.linspace(0, 1, 17), np.nan, np.nan, np.nan, 0.5, 0.5, 0.5])
    counts, draws = np.zeros(len(scores)), 3000
    for seed in range(draws):
        counts[draw(scores, 7, seed=seed)] += 1
    expected = 7 / len(scores)
    error = np.sqrt(expected * (1 - expected) / draws)
    assert np.abs(counts / draws - expected).max() < 4.5 * error


def test_a_draw_is_spread_over_the_scores_and_a_larger_one_extends_it() -> None:
    scores = np.random.default_rng(1).random(200)
    spread = [scores[draw(scores, 20, seed=seed)].mean() for seed in range(300)]
    simple = [
        np.random.default_rng(seed).choice(scores, 20, replace=False).mean() for seed in range(300)
    ]
    assert np.std(spread) < 0.6 * np.std(simple)
    assert draw(scores, 50, seed=3)[:20].tolist() == draw(scores, 20, seed=3).tolist()


def test_answers_have_their_passages_and_no_ground_truth() -> None:
    items = answers()
    assert len(items) == 2 * QUERIES
    query = items[0].query
    assert (query.answers, query.cluster) == ((), "c0")
    assert [passage.id for passage in query.passages] == ["1", "2"]
    assert items[0].sentence.citations == ("1",)
    assert items[0].text == "River 0: It is 6650 km long [1]."


def test_failures_are_counted_and_no_answer_at_all_is_an_error() -> None:
    failed = Response(query_id="q0", text=None, error="timeout")
    lost = Run(model="m", language="en", responses=(failed,))
    assert answer_items(dataset(), [lost, run("n")])[1] == 1
    with pytest.raises(DatasetError, match="none of the 1 responses has an answer"):
        answer_items(dataset(), [lost])


@pytest.mark.parametrize("items", [answers(), pairs()], ids=["answers", "pairs"])
def test_the_page_does_not_name_the_systems(items: list) -> None:
    with open_session(items, None, rater="ann") as session:
        assert SECRET not in json.dumps(session.data())
        assert len(session.items) == len(items)


def test_answers_are_spread_over_a_feature_and_pairs_over_pairs_of_systems() -> None:
    assert len(set(scores_of(answers(), "support_lexical"))) > 1
    assert set(scores_of(pairs(), "support_lexical")) == {0.0}
