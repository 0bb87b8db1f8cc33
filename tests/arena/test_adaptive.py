"""Adaptive pairs, on arenas drawn from Bradley-Terry logits and on recorded outputs."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kendalltau, norm
from scipy.stats import t as student

from mirage.arena import AdaptivePairs, BradleyTerry, Judgments, adaptive
from mirage.arena.pairs import Pair
from mirage.errors import JudgmentError, SettingError, UnknownNameError
from mirage.models import Judgment
from mirage.sources import nomiracl

MODELS = tuple(f"m{number:02d}" for number in range(12))
QUERIES = tuple(f"q{number:02d}" for number in range(60))
LOGITS = dict(zip(MODELS, np.random.default_rng(5).normal(scale=1.2, size=12), strict=True))


class Judge:
    """A judge with a verdict for every pair on every query that records the requested pairs."""

    def __init__(self, verdicts):
        self.verdicts = verdicts
        self.asked = []

    def __call__(self, pairs):
        self.asked.append(list(pairs))
        return [self.verdict(*pair) for pair in pairs]

    def verdict(self, query_id, a, b):
        verdict = self.verdicts.get((query_id, a, b))
        if verdict is None:
            turned = {"a": "b", "b": "a", "tie": "tie", None: None}
            verdict = turned[self.verdicts.get((query_id, b, a))]
        if verdict is None:
            return None
        return Judgment(query_id=query_id, model_a=a, model_b=b, verdict=verdict, judge="drawn")

    @property
    def cells(self):
        return [(q, *sorted((a, b))) for batch in self.asked for q, a, b in batch]


def draw_judge(seed=0, models=MODELS, queries=QUERIES, logits=LOGITS, ties=0.0, silent=0.0):
    """Return a judge whose preferences follow the logits, with shares of ties and no verdicts."""
    rng = np.random.default_rng([7, seed])
    verdicts = {}
    for query_id in queries:
        for a, b in combinations(models, 2):
            won = rng.random() < 1 / (1 + np.exp(logits[b] - logits[a]))
            verdict = "tie" if rng.random() < ties else "a" if won else "b"
            verdicts[query_id, a, b] = None if rng.random() < silent else verdict
    return Judge(verdicts)


def compare_adaptively(
    judge, models, queries, budget, *, target=None, batch=None, known_judgments=(), seed=0
):
    """Return the judgments of an adaptive comparison by a function of pairs."""
    pairs = AdaptivePairs(models, queries, earlier_judgments=known_judgments, seed=seed)
    while budget > 0 and (target is None or pairs.tau_bound < target):
        batch_pairs = pairs.next(min(batch or len(models), budget))
        if not batch_pairs:
            break
        pairs.update(judge(batch_pairs))
        budget -= len(batch_pairs)
    return pairs.judgments


def exhaustive_logits(judge):
    """Return the logits of the exhaustive ranking."""
    records = [judge.verdict(*cell) for cell in judge.verdicts]
    fit = BradleyTerry().fit(Judgments.from_records(filter(None, records)))
    return dict(zip(fit.models, fit.logits, strict=True))


def tau(judgments, exhaustive):
    fit = BradleyTerry().fit(judgments)
    return kendalltau(fit.logits, [exhaustive[model] for model in fit.models]).statistic


def random_judgments(judge, count, seed=0):
    cells = list(judge.verdicts)
    chosen = np.random.default_rng([11, seed]).permutation(len(cells))[:count]
    return Judgments.from_records(judge.verdict(*cells[index]) for index in chosen)


def adaptive_judgments(judge, count, seed=0):
    return compare_adaptively(judge, MODELS, QUERIES, count, seed=seed)


def test_the_same_seed_asks_the_same_pairs():
    judges = [draw_judge() for _ in range(3)]
    for judge, seed in zip(judges, (3, 3, 4), strict=True):
        adaptive_judgments(judge, 200, seed)
    assert judges[0].asked == judges[1].asked
    assert judges[0].asked != judges[2].asked


@pytest.mark.parametrize(("budget", "batch", "sizes"), [(30, None, [12, 12, 6]), (9, 4, [4, 4, 1])])
def test_the_budget_is_the_number_of_pairs_asked(budget, batch, sizes):
    judge = draw_judge()
    judgments = compare_adaptively(judge, MODELS, QUERIES, budget, batch=batch)
    assert [len(batch_pairs) for batch_pairs in judge.asked] == sizes
    assert len(judgments) == budget


def test_no_pair_is_asked_on_a_query_twice_and_all_are_asked_in_the_end():
    models, queries = MODELS[:5], QUERIES[:7]
    judge = draw_judge(models=models, queries=queries)
    judgments = compare_adaptively(judge, models, queries, budget=1000, batch=9)
    assert len(judge.cells) == len(set(judge.cells)) == len(judgments) == 10 * 7
    assert tau(judgments, exhaustive_logits(judge)) == pytest.approx(1)
    pairs = AdaptivePairs(models, queries, earlier_judgments=judgments.to_records())
    assert pairs.next() == []
    assert pairs.tau_bound == 1


def test_the_first_pairs_connect_all_models():
    judge = draw_judge()
    judgments = adaptive_judgments(judge, 4 * len(MODELS))  # twice as many in each half
    assert judgments.models == MODELS
    BradleyTerry().fit(judgments)  # raises where the models fall into pieces


def test_pairs_with_the_judge_count_as_answered():
    pairs = AdaptivePairs(MODELS, QUERIES)
    waiting = [pairs.next(11), pairs.next(11), pairs.next(11)]
    pending_pairs = [(pairs.halves[q], frozenset((a, b))) for batch in waiting for q, a, b in batch]
    assert len(set(pending_pairs)) == 33  # though nothing was learnt in between, no pair comes back
    assert [half for half, _ in pending_pairs].count("first") in (16, 17)


def test_the_gain_of_a_judgment_is_the_derivative_of_its_definition():
    judge = draw_judge()
    pairs = AdaptivePairs(MODELS[:5], QUERIES[:8])
    pairs.update(judge(pairs.next(25)))
    # What is chosen on the first half goes by the verdicts on the second.
    wins, information, differences = (
        pairs._wins[0],
        pairs._information[1],
        pairs._logit_differences[1],
    )
    covariance = adaptive._covariance(wins, information)
    missing = covariance - adaptive._covariance(
        wins, information, pairs._pending[0] + pairs._unasked[0]
    )
    contrasts = np.eye(5)[:, None] - np.eye(5)
    variance = np.einsum("ijk,kl,ijl->ij", contrasts, missing, contrasts) + np.eye(5)
    weights = norm.pdf(differences / np.sqrt(variance)) / variance

    def total(matrix):
        spread = np.linalg.inv(matrix)
        return (weights * np.einsum("ijk,kl,ijl->ij", contrasts, spread, contrasts)).sum()

    base_information, step = np.linalg.inv(covariance), 1e-5
    gains, slopes = pairs._gains(0, covariance, missing), []
    for a, b in combinations(range(5), 2):
        judgment = step * information[a, b] * np.outer(contrasts[a, b], contrasts[a, b])
        slopes.append(
            (total(base_information - judgment) - total(base_information + judgment))
            / (2 * step)
            / gains[a, b]
        )
    assert slopes == pytest.approx(slopes[:1] * 10, rel=1e-5)  # but for a factor


def test_a_model_is_compared_on_new_queries_first():
    pairs = AdaptivePairs(MODELS, QUERIES)
    models_on_queries = [(model, query_id) for query_id, *both in pairs.next(300) for model in both]
    counts = np.unique(models_on_queries, axis=0, return_counts=True)[1]
    assert counts.max() <= 2  # 600 places for 720 models and queries
    assert np.mean(counts == 1) > 0.9


def test_either_model_is_shown_first():
    pairs = AdaptivePairs(MODELS, QUERIES)
    in_order = [a < b for _, a, b in pairs.next(400)]
    assert 0.4 < np.mean(in_order) < 0.6


def wrong_orders(judge, count, seeds):
    """Return the mean share of pairs in the wrong order, for adaptive and for random pairs."""
    exhaustive = exhaustive_logits(judge)
    models, queries = sorted(exhaustive), sorted({query_id for query_id, _, _ in judge.verdicts})
    taus = [
        (
            tau(compare_adaptively(judge, models, queries, count, seed=seed), exhaustive),
            tau(random_judgments(judge, count, seed), exhaustive),
        )
        for seed in range(seeds)
    ]
    return (1 - np.mean(taus, axis=0)) / 2


def test_fewer_than_half_as_many_wrong_orders_as_random_pairs():
    logits = dict(zip(MODELS, np.linspace(-4, 4, len(MODELS)), strict=True))
    judges = [draw_judge(seed, logits=logits) for seed in range(8)]
    ours, random = np.mean([wrong_orders(judge, 240, seeds=1) for judge in judges], axis=0)
    assert ours < random / 2


@pytest.mark.slow
def test_fewer_wrong_orders_than_random_pairs_on_recorded_outputs(data_dir):
    shares = []
    for language in ("ar", "de", "es", "fa", "sw"):
        records = nomiracl.load(data_dir / "nomiracl", language).judgments
        judge = Judge({(j.query_id, j.model_a, j.model_b): j.verdict for j in records})
        shares.append(wrong_orders(judge, 900, seeds=1))
    ours, random = np.mean(shares, axis=0)
    assert ours < 0.75 * random


@pytest.mark.parametrize(
    ("ties", "target", "repeats"),
    [
        (0.5, 0.7, 5),
        *(
            pytest.param(ties, target, 100, marks=pytest.mark.slow)
            for ties in (0.0, 0.5)
            for target in (0.6, 0.8)
        ),
    ],
)
def test_tau_is_below_the_bound_at_which_judging_stops_in_at_most_5_percent(ties, target, repeats):
    reached = []
    for seed in range(repeats):
        judge = draw_judge(seed, ties=ties)
        assert AdaptivePairs(MODELS, QUERIES, seed=seed).tau_bound == 0
        judgments = compare_adaptively(judge, MODELS, QUERIES, 3000, target=target, seed=seed)
        reached.append(tau(judgments, exhaustive_logits(judge)) >= target)
    assert np.mean(reached) >= 0.95 - 1.5 * np.sqrt(0.95 * 0.05 / repeats)


def test_it_stops_when_the_bound_reaches_the_target():
    judge = draw_judge()
    judgments = compare_adaptively(judge, MODELS, QUERIES, 3000, target=0.8)
    assert len(judgments) < 1500
    pairs = AdaptivePairs(MODELS, QUERIES, earlier_judgments=judgments.to_records())
    assert pairs.tau_bound >= 0.8
    before = AdaptivePairs(
        MODELS, QUERIES, earlier_judgments=judgments.to_records()[: -len(MODELS)]
    )
    assert before.tau_bound < 0.8


def test_a_judge_that_often_reaches_no_verdict():
    judge = draw_judge(silent=0.3)
    judgments = adaptive_judgments(judge, 600)
    assert len(judge.cells) == len(set(judge.cells)) == 600
    assert 350 < len(judgments) < 490
    assert tau(judgments, exhaustive_logits(judge)) > 0.8


def test_a_pair_without_a_verdict_does_not_block_the_next():
    pairs = AdaptivePairs(MODELS[:2], QUERIES[:3])
    judge = draw_judge()
    (pair,) = pairs.next(1)
    pairs.update([None])
    assert pairs.tau_bound == 0
    more_pairs = pairs.next(5)
    assert len(more_pairs) == 2
    assert pair not in more_pairs
    pairs.update(judge(more_pairs))
    assert pairs.tau_bound == 1  # nothing else can be known
    pairs.update([judge.verdict(*pair)])  # though it may come late
    assert len(pairs.judgments) == 3


def test_a_new_model_joins_an_old_arena():
    judge = draw_judge()
    new = MODELS[4]
    earlier_judgments = [judge.verdict(*cell) for cell in judge.verdicts if new not in cell[1:]]
    pairs = AdaptivePairs(MODELS, QUERIES, earlier_judgments=earlier_judgments)
    assert all(new in pair[1:] for pair in pairs.next())
    judgments = compare_adaptively(judge, MODELS, QUERIES, 240, known_judgments=earlier_judgments)
    assert len(judgments) == len(earlier_judgments) + 240
    assert all(new in pair[1:] for batch_pairs in judge.asked for pair in batch_pairs)
    assert tau(judgments, exhaustive_logits(judge)) > 0.95
    placed = adaptive_judgments(draw_judge(), 240)
    assert tau(judgments, exhaustive_logits(judge)) > tau(placed, exhaustive_logits(judge))


def test_a_judgment_may_list_the_models_in_the_other_order():
    first, second = (AdaptivePairs(MODELS[:3], QUERIES, seed=2) for _ in range(2))
    judge = draw_judge()
    batch_pairs = first.next()
    assert batch_pairs == second.next()
    first.update(judge(batch_pairs))
    second.update(judge([Pair(query_id, b, a) for query_id, a, b in batch_pairs]))
    turned = second.judgments
    assert first.next() == second.next()
    assert first.judgments.score.tolist() != turned.score.tolist()


def test_all_ties():
    judge = draw_judge(ties=1.0)
    judgments = adaptive_judgments(judge, 300)
    assert set(judgments.score.tolist()) == {0.5}


@pytest.mark.parametrize(
    ("models", "queries", "message"),
    [
        (["x"], ["q"], "models=1, queries=1"),
        (["x", "y"], [], "models=2, queries=0"),
        (["x", "y", "x"], ["q"], "model 'x' is listed twice"),
        (["x", "y"], ["q", "q"], "query 'q' is listed twice"),
    ],
)
def test_bad_models_or_queries_are_an_error(models, queries, message):
    with pytest.raises(JudgmentError, match=message):
        AdaptivePairs(models, queries)


def test_an_empty_batch_is_an_error():
    with pytest.raises(SettingError, match="n must be at least 1, got 0"):
        AdaptivePairs(MODELS, QUERIES).next(0)


def test_a_pair_that_is_known_twice_is_an_error():
    judgment = draw_judge().verdict(QUERIES[0], MODELS[0], MODELS[1])
    with pytest.raises(JudgmentError, match=r"'m00' with 'm01' on query 'q00' has two earlier"):
        AdaptivePairs(MODELS, QUERIES, earlier_judgments=[judgment, judgment])


def test_unrequested_judgments_change_nothing():
    pairs, untouched = (AdaptivePairs(MODELS, QUERIES) for _ in range(2))
    judge = draw_judge()
    requested = pairs.next(3)
    assert requested == untouched.next(3)
    free = next(cell for cell in judge.verdicts if tuple(cell) not in {tuple(p) for p in requested})
    for wrong, message in ((free, "was not requested"), (requested[0], "already has a judgment")):
        with pytest.raises(JudgmentError, match=message):
            pairs.update([*judge(requested), judge.verdict(*wrong)])
    stranger = Judgment(query_id=QUERIES[0], model_a=MODELS[0], model_b="m99", verdict="a")
    with pytest.raises(UnknownNameError, match="unknown model 'm99' in this arena"):
        pairs.update([*judge(requested), stranger])
    elsewhere = Judgment(query_id="q99", model_a=MODELS[0], model_b=MODELS[1], verdict="a")
    with pytest.raises(UnknownNameError, match="unknown query 'q99' in this arena"):
        pairs.update([elsewhere])
    with pytest.raises(JudgmentError, match="there are no judgments"):
        _ = pairs.judgments
    pairs.update(judge(requested))
    untouched.update(judge(requested))
    assert pairs.next() == untouched.next()


def test_logits_are_the_means_of_fits_to_both_halves():
    judgments = adaptive_judgments(draw_judge(ties=0.2), 300)
    fit = BradleyTerry().fit(judgments)
    assert (fit.fits, fit.queries) == (2, len(QUERIES))
    alone = []
    for half in (0, 1):
        rows = judgments.halves[judgments.query] == half
        columns = {name: getattr(judgments, name)[rows] for name in ("query", "a", "b", "score")}
        alone.append(BradleyTerry().fit(replace(judgments, halves=None, **columns)))
    assert fit.logits == pytest.approx((alone[0].logits + alone[1].logits) / 2)
    assert fit.covariance == pytest.approx((alone[0].covariance + alone[1].covariance) / 4)
    ends = fit.interval()
    error = np.sqrt(fit.uncertainty[0, 0])
    assert ends[0, 1] - ends[0, 0] == pytest.approx(
        2 * student.ppf(0.975, fit.degrees_by_model[0]) * error
    )
    assert (fit.degrees_by_model < fit.degrees).all()  # pairs differ from query to query
    tournaments = BradleyTerry().bootstrap(judgments, tournaments=400, seed=1)
    assert tournaments.logits.shape == (400, len(MODELS))
    bound = [model not in fit.unbound for model in fit.models]
    assert tournaments.mean[bound] == pytest.approx(fit.logits[bound], abs=0.35)


def test_records_keep_the_halves():
    judgments = adaptive_judgments(draw_judge(), 200)
    records = judgments.to_records()
    assert {record.half for record in records} == {"first", "second"}
    assert Judgments.from_records(records).halves.tolist() == judgments.halves.tolist()
    other = {"first": "second", "second": "first"}[records[0].half]
    twice = [records[0], records[0].model_copy(update={"half": other, "model_a": "x"})]
    with pytest.raises(JudgmentError, match="belongs to both the first and the second half"):
        Judgments.from_records(twice)


def test_there_are_no_halves_when_all_pairs_were_judged():
    models, queries = MODELS[:4], QUERIES[:6]
    judge = draw_judge(models=models, queries=queries)
    judgments = compare_adaptively(judge, models, queries, 10**6)
    assert judgments.halves is None
    assert len(judgments) == 36


def test_the_error_on_a_disconnected_half_names_the_half():
    with pytest.raises(JudgmentError, match="half of the adaptive comparison, the models fall"):
        BradleyTerry().fit(adaptive_judgments(draw_judge(), 14))


@pytest.mark.slow
def test_logits_are_not_stretched():
    logits = np.linspace(0.4, -0.4, len(MODELS))
    logits -= logits.mean()
    slopes = {"halves": [], "all": []}
    for seed in range(12):
        judge = draw_judge(seed, logits=dict(zip(MODELS, logits, strict=True)))
        judgments = adaptive_judgments(judge, 600, seed)
        for name, used_judgments in (
            ("halves", judgments),
            ("all", replace(judgments, halves=None)),
        ):
            slopes[name].append(
                BradleyTerry().fit(used_judgments).logits @ logits / (logits @ logits)
            )
    assert np.mean(slopes["halves"]) == pytest.approx(1, abs=0.12)
    assert np.mean(slopes["halves"]) < np.mean(slopes["all"]) - 0.05
