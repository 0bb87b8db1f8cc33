"""Placement of a model by a few verdicts: by hand, and coverage of intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.arena import estimation
from mirage.arena.placement import Anchors, joint_covariance, level_of_looks, place, sample
from mirage.statistics.prediction_powered import FEWEST


def fixed(*logits: float, queries: int) -> Anchors:
    size = len(logits)
    return Anchors(np.array(logits), np.zeros((queries, size)), np.zeros((size, size)))


# Which pairs --------------------------------------------------------------------------------------


@given(st.data())
def test_a_longer_sample_begins_with_the_shorter(data: st.DataObject) -> None:
    shape = data.draw(st.tuples(st.integers(1, 8), st.integers(1, 5)))
    possible = np.array(data.draw(st.lists(st.booleans(), min_size=40, max_size=40)))
    possible = possible[: math.prod(shape)].reshape(shape)
    few, more = sorted(data.draw(st.tuples(st.integers(1, 40), st.integers(1, 40))))
    shorter, longer = (sample(possible, n, seed=3) for n in (few, more))
    assert longer.query[: len(shorter.query)].tolist() == shorter.query.tolist()
    assert longer.anchor[: len(shorter.anchor)].tolist() == shorter.anchor.tolist()
    cells = {*zip(longer.query.tolist(), longer.anchor.tolist(), strict=True)}
    assert len(cells) == len(longer.query) == min(more, possible.sum())
    assert all(possible[cell] for cell in cells)
    # All queries once before one twice, as far as each has pairs.
    pairs_per_query = np.bincount(longer.query, minlength=shape[0])
    has_more_pairs = pairs_per_query < possible.sum(axis=1)
    assert (
        not has_more_pairs.any()
        or pairs_per_query.max() - pairs_per_query[has_more_pairs].min() <= 1
    )
    assert longer.probability.sum() == pytest.approx(len(cells))


def test_sampling_probabilities_match_the_sampling_frequencies() -> None:
    possible = np.array([[1, 1, 1], [1, 0, 1], [0, 1, 0], [1, 1, 1]], dtype=bool)
    for pairs in (2, 5, 8):
        drawn = np.zeros(possible.shape)
        for seed in range(2000):
            pair_sample = sample(possible, pairs, seed=seed)
            drawn[pair_sample.query, pair_sample.anchor] += 1
        assert drawn / 2000 == pytest.approx(pair_sample.probability, abs=0.04)


# Where it stands ----------------------------------------------------------------------------------


def test_by_hand_against_one_anchor() -> None:
    scores = np.array([[1.0], [1], [1], [0]] * 5)
    placement = place(
        scores, np.full(scores.shape, 0.5), np.ones(scores.shape), fixed(0.7, queries=20)
    )
    assert placement.logit == pytest.approx(0.7 + math.log(3))
    # By Student's t of 20 verdicts, on what is got; 20/19 for the jackknife.
    reach = 2.093 * math.sqrt(20 * 0.75 * 0.25) * 20 / 19
    ends = [0.7 + math.log(x / (20 - x)) for x in (15 - reach, 15 + reach)]
    assert placement.interval == pytest.approx(ends, abs=1e-3)
    assert (placement.judgments, placement.queries, placement.tuning, placement.worth) == (
        20,
        20,
        0,
        20,
    )


def arena(
    rng: np.random.Generator, queries: int, useful: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores of a model at 0.5 against anchors, with probabilities and predictions."""
    hard = rng.normal(0, 1, (queries, 1))
    chance = 1 / (1 + np.exp(-(0.5 + hard - np.array([-1.0, 0, 1]))))
    scores = (rng.random(chance.shape) < chance).astype(float)
    guess = np.where(rng.random(chance.shape) < 0.75, scores, 1 - scores)
    return scores, chance, guess if useful else rng.random(chance.shape)


def truth() -> float:
    """Return the logit whose expected score equals that over all queries."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    logits = np.array([-1.0, 0, 1])
    mean = (weights / weights.sum() / (1 + np.exp(-(0.5 + nodes - logits[:, None])))).sum()
    grid = np.linspace(0, 1, 100_001)
    expected = (1 / (1 + np.exp(logits - grid[:, None]))).sum(axis=1)
    return float(grid[np.argmin(np.abs(expected - mean))])


@pytest.mark.parametrize("useful", [True, False])
@pytest.mark.parametrize(
    ("queries", "pairs"),
    [(20, 20), *(pytest.param(*p, marks=pytest.mark.slow) for p in [(100, 40), (60, 120)])],
)
def test_intervals_cover_for_good_and_bad_predictions(
    queries: int, pairs: int, useful: bool
) -> None:
    rng, true = np.random.default_rng([queries, pairs]), truth()
    covered, worth = [], []
    for seed in range(300):
        scores, _, guess = arena(rng, queries, useful)
        pair_sample = sample(np.ones(scores.shape, dtype=bool), pairs, seed=seed)
        verdicts = np.full(scores.shape, np.nan)
        verdicts[pair_sample.query, pair_sample.anchor] = scores[
            pair_sample.query, pair_sample.anchor
        ]
        placement = place(
            verdicts, guess, pair_sample.probability, fixed(-1, 0, 1, queries=queries)
        )
        if not np.isnan(placement.interval[0]):
            covered.append(placement.interval[0] <= true <= placement.interval[1])
            worth.append(placement.worth / placement.judgments)
    assert len(covered) > 280
    assert 0.92 < np.mean(covered) < 0.985
    if useful and pairs < queries:
        assert np.median(worth) > 1.1
    else:
        assert np.median(worth) > 0.97


def test_predictions_have_no_effect_with_all_verdicts() -> None:
    scores, chance, guess = arena(np.random.default_rng(1), 30, True)
    anchors = fixed(-1, 0, 1, queries=30)
    first, second = (place(scores, p, np.ones(scores.shape), anchors) for p in (guess, 1 - chance))
    assert (first.logit, first.interval) == (second.logit, second.interval)
    wins = float(scores.sum())
    assert sum(30 / (1 + math.exp(a - first.logit)) for a in (-1, 0, 1)) == pytest.approx(wins)


def test_a_pair_that_nobody_can_judge_does_not_count() -> None:
    scores, _, guess = arena(np.random.default_rng(2), 40, True)
    verdicts = scores.copy()
    verdicts[:20, 2] = np.nan
    has_verdict = ~np.isnan(verdicts)
    placement = place(
        verdicts,
        np.where(has_verdict, guess, np.nan),
        has_verdict.astype(float),
        fixed(-1, 0, 1, queries=40),
    )
    assert placement.judgments == 100
    expected = (has_verdict / (1 + np.exp(np.array([-1.0, 0, 1]) - placement.logit))).sum()
    assert expected == pytest.approx(np.nansum(verdicts))


def test_a_model_that_won_everything_has_no_interval() -> None:
    won = np.ones((30, 2))
    anchors = fixed(0, 0, queries=30)
    placement = place(won, won / 2, np.ones(won.shape), anchors)
    assert np.isnan(placement.interval).all()
    # The ridge of a tenth of a tie, and what little is known beyond: 60 p (1 - p) and its own.
    p = (60 + 0.05) / 60.1
    assert placement.logit == pytest.approx(math.log(p / (1 - p)))
    assert placement.open_variance == pytest.approx(1 / (60.1 * p * (1 - p)))
    assert placement.worth != placement.worth


def test_few_queries_have_no_interval() -> None:
    scores = np.tile([[1.0, 0.0]], (FEWEST - 1, 1))
    placement = place(scores, scores, np.ones(scores.shape), fixed(0, 1, queries=FEWEST - 1))
    assert np.isnan(placement.interval).all()
    assert placement.degrees == FEWEST - 2


# Anchors that are uncertain -----------------------------------------------------------------------


def test_influences_add_up_to_the_sandwich() -> None:
    rng = np.random.default_rng(0)
    a, b = np.triu_indices(4, 1)
    query = np.repeat(np.arange(25), len(a))
    a, b = np.tile(a, 25), np.tile(b, 25)
    score = rng.integers(0, 3, len(a)) / 2
    wins = estimation.win_matrix(a, b, score, 4)
    logits = estimation.fit_bradley_terry(wins)
    moves = estimation.influences(wins, logits, query, a, b, score)
    expected = estimation.sandwich(wins, logits, query, a, b, score)
    assert moves.T @ moves * 25 / 24 == pytest.approx(expected)
    # Without a query the logits move by about as much as it is said to move them.
    remaining = query != 7
    refitted = estimation.fit_bradley_terry(
        estimation.win_matrix(a[remaining], b[remaining], score[remaining], 4), start=logits
    )
    assert logits - refitted == pytest.approx(moves[7], abs=0.02)


def test_uncertain_anchors_make_the_model_uncertain() -> None:
    scores, _, guess = arena(np.random.default_rng(3), 50, False)
    sure = fixed(-1, 0, 1, queries=50)
    unsure = sure._replace(covariance=np.full((3, 3), 0.25))  # all may be 0.5 off, together
    with_sure_anchors, with_unsure_anchors = (
        place(scores, guess, np.ones(scores.shape), a) for a in (sure, unsure)
    )
    width, wider = (
        np.ptp(placement.interval) for placement in (with_sure_anchors, with_unsure_anchors)
    )
    assert wider > width + 0.5
    covariance = joint_covariance(unsure, [with_unsure_anchors])
    assert covariance[:3, :3] == pytest.approx(np.full((3, 3), 0.25))
    assert covariance[3, :3] == pytest.approx(0.25)
    # What moves all alike says nothing of the model against an anchor.
    between = covariance[3, 3] + covariance[0, 0] - 2 * covariance[0, 3]
    assert between == pytest.approx((with_unsure_anchors.errors**2).sum())


# Looking several times ----------------------------------------------------------------------------


@pytest.mark.parametrize(("looks", "constant"), [(1, 1.960), (2, 2.178), (5, 2.413), (10, 2.555)])
def test_pocock_has_these_constants(looks: int, constant: float) -> None:
    # Jennison & Turnbull 2000, Group Sequential Methods, Table 2.1, alpha 0.05.
    level = level_of_looks(0.95, [100 * (n + 1) for n in range(looks)])
    assert math.erf(constant / math.sqrt(2)) == pytest.approx(level, abs=5e-4)
