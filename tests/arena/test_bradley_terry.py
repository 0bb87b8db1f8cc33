import json
from dataclasses import replace

import choix
import evalica
import numpy as np
import pandas as pd
import pytest
from cases import each_case
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import kendalltau
from scipy.stats import t as student
from subsets import slow_rows_except

from mirage.arena import BradleyTerry, Judgments, Tournaments
from mirage.arena import bradley_terry as module
from mirage.arena import estimation as est
from mirage.errors import JudgmentError, SettingError, UnknownNameError
from mirage.statistics.ranks import ranks

ALL_TIES = ("half", "drop", "davidson")


def draw(logits, queries, seed, ties=0.0, copies=1):
    """Return judgments of all pairs on each query by these logits, each copied ``copies`` times."""
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(len(logits), 1)
    chance = 1 / (1 + np.exp(logits[j] - logits[i]))
    score = (rng.random((queries, len(i))) < chance).astype(float)
    score[rng.random(score.shape) < ties] = 0.5
    swap = rng.random(score.shape) < 0.5
    a, b = np.where(swap, j, i), np.where(swap, i, j)
    score = np.where(swap, 1 - score, score)
    query = np.repeat(np.arange(queries), len(i))
    return make(*(np.tile(x.ravel(), copies) for x in (query, a, b, score)))


def make(query, a, b, score):
    label = np.array([f"m{k:03d}" for k in range(1000)])
    return Judgments.from_arrays(query=query, model_a=label[a], model_b=label[b], score=score)


def by_hand(*rows):
    """Return judgments from texts such as ``"x>y"`` and ``"x=y"``, one query each."""
    parsed = [(w[0], w[2], 0.5 if w[1] == "=" else 1.0) for w in rows]
    a, b, score = zip(*parsed, strict=True)
    return Judgments.from_arrays(query=range(len(rows)), model_a=a, model_b=b, score=score)


def rows_at(judgments, rows):
    columns = {c: getattr(judgments, c)[rows] for c in ("query", "a", "b", "score")}
    return replace(judgments, **columns)


def rows_of(j):
    return zip(j.query.tolist(), j.a.tolist(), j.b.tolist(), j.score.tolist(), strict=True)


LOGITS = np.array([1.5, 0.8, 0.2, 0.0, -0.4, -0.9, -1.2])
TIED = draw(LOGITS, 40, seed=1, ties=0.25)


# against other libraries


def test_equals_choix_with_ties_dropped():
    fit = BradleyTerry(ties="drop", ridge=0).fit(TIED)
    data = [(a, b) if s == 1 else (b, a) for _, a, b, s in rows_of(TIED) if s != 0.5]
    for peer in (
        choix.ilsr_pairwise(7, data),
        choix.opt_pairwise(7, data, alpha=0, tol=1e-10),
    ):
        assert np.abs(fit.logits - (peer - peer.mean())).max() < 1e-6


def test_ridge_equals_choix():
    # choix subtracts alpha times the sum of squares, and a sum of 0 minimises that by itself
    fit = BradleyTerry(ties="drop", ridge=4.0).fit(TIED)
    data = [(a, b) if s == 1 else (b, a) for _, a, b, s in rows_of(TIED) if s != 0.5]
    peer = choix.opt_pairwise(7, data, alpha=4.0 / 8, tol=1e-10)
    assert np.abs(fit.logits - peer).max() < 1e-6


def test_equals_evalica_with_ties_as_halves():
    fit = BradleyTerry(ties="half", ridge=0).fit(TIED)
    winner = {1.0: evalica.Winner.X, 0.0: evalica.Winner.Y, 0.5: evalica.Winner.Draw}
    _, a, b, score = zip(*rows_of(TIED), strict=True)
    peer = evalica.bradley_terry(
        a, b, [winner[s] for s in score], index=pd.Index(range(7)), tolerance=1e-12, limit=10_000
    ).scores
    logits = np.log(peer.reindex(range(7)).to_numpy())
    assert np.abs(fit.logits - (logits - logits.mean())).max() < 1e-6


def davidson_likelihood(params, rows):
    """Return Davidson's (1970) log-likelihood, term by term as in his equations."""
    strength, nu, total = np.exp(params[:-1]), np.exp(params[-1]), 0.0
    for _, a, b, score in rows:
        middle = nu * np.sqrt(strength[a] * strength[b])
        share = {1.0: strength[a], 0.0: strength[b], 0.5: middle}[score]
        total += np.log(share / (strength[a] + strength[b] + middle))
    return total


def test_davidson_maximises_its_likelihood():
    judgments = draw(LOGITS[:4], 25, seed=2, ties=0.3)
    rows = list(rows_of(judgments))
    best = minimize(lambda p: -davidson_likelihood(p, rows), np.zeros(5), tol=1e-10, method="BFGS")
    fit = BradleyTerry(ties="davidson", ridge=0).fit(judgments)
    assert fit.logits == pytest.approx(best.x[:-1] - best.x[:-1].mean(), abs=1e-4)
    assert fit.log_nu == pytest.approx(best.x[-1], abs=1e-4)
    ours = davidson_likelihood(np.append(fit.logits, fit.log_nu), rows)
    assert ours >= -best.fun - 1e-9


# the sandwich


def davidson_sandwich(judgments, fit, ridge):
    """Return the sandwich by its definition, with likelihoods differentiated numerically."""
    params = np.append(fit.logits, fit.log_nu)
    models = len(fit.logits)

    def slopes(function, at, step=1e-4):
        moves = np.eye(len(at)) * step
        return np.array([(function(at + e) - function(at - e)) / (2 * step) for e in moves])

    def gradient(at, rows):
        return slopes(lambda x: davidson_likelihood(x, rows), at)

    rows = list(rows_of(judgments))
    bread = -slopes(lambda x: gradient(x, rows), params)
    gradients = [gradient(params, [r for r in rows if r[0] == q]) for q in {r[0] for r in rows}]
    meat = sum(np.outer(g, g) for g in gradients) * len(gradients) / (len(gradients) - 1)
    prior = np.zeros_like(bread)
    prior[:models, :models] = ridge / 4 * (np.eye(models) - 1 / models)
    prior[models, models] = ridge * 2 / 9
    level = np.append(np.ones(models), 0)  # moving all logits alike changes no likelihood
    inverse = np.linalg.inv(bread + prior + np.outer(level, level))
    return (inverse @ (meat + prior) @ inverse)[:models, :models]


@each_case("ties", ALL_TIES)
@each_case("ridge", [0, 5.0])
def test_sandwich_equals_its_definition(ties, ridge):
    judgments = draw(LOGITS[:4], 12, seed=3, ties=0.2)
    fit = BradleyTerry(ties=ties, ridge=ridge).fit(judgments)
    assert np.abs(fit.covariance.sum(axis=0)).max() < 1e-10
    if ties == "davidson":
        expected = davidson_sandwich(judgments, fit, ridge)
        assert np.abs(fit.covariance - expected).max() < 1e-6
        return
    if ties == "drop":
        judgments = rows_at(judgments, judgments.score != 0.5)
    assert np.abs(fit.covariance - plain_sandwich(judgments, fit, ridge)).max() < 1e-10


def plain_sandwich(judgments, fit, ridge):
    """Return the sandwich of plain Bradley-Terry, with explicit loops over judgments."""
    models = len(fit.logits)
    prior = ridge / 4 * (np.eye(models) - 1 / models)
    bread, gradients = prior.copy(), np.zeros((len(judgments.query_ids), models))
    for query, a, b, score in rows_of(judgments):
        p = 1 / (1 + np.exp(fit.logits[b] - fit.logits[a]))
        difference = np.zeros(models)
        difference[a], difference[b] = 1, -1
        gradients[query] += (score - p) * difference
        bread += p * (1 - p) * np.outer(difference, difference)
    clusters = len(gradients)
    meat = clusters / (clusters - 1) * sum(np.outer(g, g) for g in gradients) + prior
    inverse = np.linalg.pinv(bread)
    return inverse @ meat @ inverse


@pytest.mark.parametrize("ties", ALL_TIES)
def test_sandwich_is_near_the_bootstrap(ties):
    judgments = draw(LOGITS, 80, seed=4, ties=0.2)
    model = BradleyTerry(ties=ties)
    deviation = np.sqrt(np.diag(model.fit(judgments).covariance))
    bootstrap = model.bootstrap(judgments, tournaments=1000, queries=None).logits.std(axis=0)
    assert deviation == pytest.approx(bootstrap, rel=0.15)


def test_intervals_cover_when_verdicts_within_a_query_repeat():
    # Each verdict three times: an interval that took them for independent would be sqrt(3) too
    # narrow, and would cover in 74 % of cases.
    inside = []
    for seed in range(150):
        interval = BradleyTerry().fit(draw(LOGITS, 50, seed, copies=3)).interval(level=0.95)
        inside.append((interval[:, 0] <= LOGITS) & (interval[:, 1] >= LOGITS))
    assert 0.93 < np.mean(inside) < 0.97


@pytest.mark.parametrize(
    ("queries", "drawn"),
    [
        (20, None),
        *(pytest.param(*n, marks=pytest.mark.slow) for n in [(5, 100), (20, 100), (100, 25)]),
    ],
)
def test_intervals_of_tournaments_hold_however_many_queries_are_drawn(queries, drawn):
    inside, wrong = [], []
    for seed in range(120):
        boot = BradleyTerry().bootstrap(
            draw(LOGITS, queries, seed), queries=drawn, tournaments=100, seed=seed, progress=False
        )
        ends = boot.interval()
        has_interval = ~np.isnan(ends[:, 0])
        inside.extend(((ends[:, 0] <= LOGITS) & (ends[:, 1] >= LOGITS))[has_interval])
        wrong.append(boot.p_better("m003", "m002") > 0.95)
    assert 0.93 < np.mean(inside) < 0.98
    assert np.mean(wrong) < 0.05


def test_queries_without_judgments_are_not_drawn():
    some = rows_at(TIED, TIED.query < 5)
    boot = BradleyTerry().bootstrap(some, tournaments=50)
    assert boot.query_ids == TIED.query_ids[:5]
    assert (boot.counts.sum(axis=1) == 5).all()
    tied = by_hand("x>y", "y>x", "x>y", "x=y", "y=x")
    assert len(BradleyTerry("drop").bootstrap(tied, tournaments=5).query_ids) == 3


def test_one_query_gives_no_spread():
    fit = BradleyTerry().fit(draw(LOGITS, 1, seed=0, ties=0.5))
    assert np.isfinite(fit.logits).all()
    assert np.isnan(fit.interval()).all()
    assert np.isnan(fit.p_better("m000", "m001"))


@pytest.mark.parametrize("ties", ALL_TIES)
def test_the_block_size_changes_nothing(monkeypatch, ties):
    judgments = draw(LOGITS, 30, seed=5, ties=0.2)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(judgments))
    shuffled = rows_at(judgments, order)
    model = BradleyTerry(ties=ties)
    fit, boot = model.fit(judgments), model.bootstrap(judgments, tournaments=20)
    monkeypatch.setattr(est, "_ROWS", 50)
    monkeypatch.setattr(est, "_BLOCK", 10)
    monkeypatch.setattr(module, "_CELLS", 100)
    monkeypatch.setattr(module, "_DENSE", 0)
    again, boot_again = model.fit(shuffled), model.bootstrap(shuffled, tournaments=20)
    assert again.logits == pytest.approx(fit.logits, abs=1e-10)
    assert again.covariance == pytest.approx(fit.covariance, abs=1e-10)
    assert boot_again.logits == pytest.approx(boot.logits, abs=1e-9)
    assert np.array_equal(boot_again.counts, boot.counts)
    assert np.array_equal(boot_again.separated, boot.separated)


def test_sparse_queries_have_the_same_sandwich():
    # 60 models and two judgments a query: G is sparse; the loop knows nothing of that
    rng = np.random.default_rng(6)
    a = rng.integers(60, size=1200)
    b = (a + rng.integers(1, 60, size=1200)) % 60
    judgments = make(np.repeat(np.arange(600), 2), a, b, rng.choice([0, 0.5, 1], size=1200))
    fit = BradleyTerry(ridge=1.0).fit(judgments)
    assert np.abs(fit.covariance - plain_sandwich(judgments, fit, 1.0)).max() < 1e-10


# what has to hold for any judgments


@st.composite
def arenas(draw_):
    models, queries = draw_(st.integers(2, 4)), draw_(st.integers(2, 4))
    pairs = models * (models - 1) // 2
    cells = st.lists(
        st.sampled_from([0, 0.5, 1]), min_size=pairs * queries, max_size=pairs * queries
    )
    i, j = np.triu_indices(models, 1)
    score = np.array(draw_(cells), dtype=float)
    return np.repeat(np.arange(queries), pairs), np.tile(i, queries), np.tile(j, queries), score


properties = settings(max_examples=25, deadline=None)
ways = st.sampled_from(["half", "davidson"])  # "drop" may leave pieces; it has its own tests


@properties
@given(arenas(), ways, st.randoms(use_true_random=False))
def test_rows_and_sides_do_not_matter(arena, ties, random):
    query, a, b, score = arena
    fit = BradleyTerry(ties).fit(make(query, a, b, score))
    order = np.array(random.sample(range(len(score)), len(score)))
    swap = np.array([random.random() < 0.5 for _ in score])
    other = make(
        query[order],
        np.where(swap, b, a)[order],
        np.where(swap, a, b)[order],
        np.where(swap, 1 - score, score)[order],
    )
    again = BradleyTerry(ties).fit(other)
    assert again.models == fit.models
    assert again.logits == pytest.approx(fit.logits, abs=1e-9)
    assert again.covariance == pytest.approx(fit.covariance, abs=1e-8, rel=1e-6)


@properties
@given(arenas(), ways)
def test_names_do_not_matter(arena, ties):
    query, a, b, score = arena
    models = int(max(a.max(), b.max())) + 1
    fit = BradleyTerry(ties).fit(make(query, a, b, score))
    turned = BradleyTerry(ties).fit(make(query, models - 1 - a, models - 1 - b, score))
    assert turned.logits[::-1] == pytest.approx(fit.logits, abs=1e-9)
    assert turned.covariance[::-1, ::-1] == pytest.approx(fit.covariance, abs=1e-8, rel=1e-6)


@properties
@given(arenas(), ways)
def test_opposite_verdicts_give_opposite_logits(arena, ties):
    query, a, b, score = arena
    fit = BradleyTerry(ties).fit(make(query, a, b, score))
    mirrored = BradleyTerry(ties).fit(make(query, a, b, 1 - score))
    assert mirrored.logits == pytest.approx(-fit.logits, abs=1e-9)


@properties
@given(arenas(), ways)
def test_sums_and_probabilities(arena, ties):
    fit = BradleyTerry(ties).fit(make(*arena))
    assert abs(fit.logits.sum()) < 1e-9
    assert fit.win_matrix + fit.win_matrix.T == pytest.approx(np.ones_like(fit.win_matrix))
    assert np.linalg.eigvalsh(fit.covariance).min() > -1e-9
    a, b = fit.models[:2]
    assert fit.win_probability(a, b) + fit.win_probability(b, a) == pytest.approx(1)
    assert fit.win_probability(a, b) == pytest.approx(fit.win_matrix[0, 1])
    assert fit.p_better(a, b) + fit.p_better(b, a) == pytest.approx(1)
    lower, upper = fit.interval().T
    bound = ~np.isin(fit.models, fit.unbound)
    assert (lower[bound] <= fit.logits[bound]).all()
    assert (fit.logits[bound] <= upper[bound]).all()
    assert np.isnan(lower[~bound]).all()


@properties
@given(arenas(), ways, st.integers(0, 2**32))
def test_tournaments_are_reproducible_and_equal_single_fits(arena, ties, seed):
    judgments = make(*arena)
    model = BradleyTerry(ties)
    boot = model.bootstrap(judgments, tournaments=3, queries=6, seed=seed)
    again = model.bootstrap(judgments, tournaments=3, queries=6, seed=seed)
    assert np.array_equal(boot.counts, again.counts)
    assert np.array_equal(boot.logits, again.logits)
    drawn = min(6, len(boot.query_ids))  # never more than were judged
    assert (boot.counts.sum(axis=1) == drawn).all()
    assert np.abs(boot.logits.sum(axis=1)).max() < 1e-9
    for counts, logits, alone in zip(boot.counts, boot.logits, boot.separated, strict=True):
        rows = np.repeat(np.arange(len(judgments)), counts[judgments.query])
        single = model.fit(rows_at(judgments, rows))
        assert logits == pytest.approx(single.logits, abs=1e-8)
        assert single.separated == tuple(np.array(judgments.models)[alone])


# separation, pieces, and other corners


def test_a_model_that_won_everything():
    judgments = by_hand("x>y", "x>z", *(2 * ["y>z", "z>y"]), "x>y")
    fit = BradleyTerry().fit(judgments)
    assert fit.separated == ("x",)
    assert np.isfinite(fit.logits).all()
    assert fit.ranks[0] == 1
    # Its logit is the ridge's: no interval, and no certainty though all its residuals are near 0.
    assert np.isnan(fit.interval()[:, 0]).tolist() == [True, False, False]
    assert fit.uncertainty[0, 0] > 1
    assert 0.5 < fit.p_better("x", "y") < 0.975
    with pytest.raises(JudgmentError, match=r"'x' won every comparison with {'y', 'z'}"):
        BradleyTerry(ridge=0).fit(judgments)
    with pytest.raises(JudgmentError, match=r"{'y', 'z'} won every comparison with 'x'"):
        BradleyTerry(ridge=0).fit(by_hand("y>x", "z>x", "y>z", "z>y"))


def partial_arena(random, queries, judged, models=6, spread=1.0, ties=0.2):
    """Return judgments of equal models; the last was judged on only some of the queries."""
    strength = spread * random.normal(size=(queries, models))
    query, a, b = np.nonzero(np.triu(np.ones((queries, models, models), dtype=bool), 1))
    rows = (b < models - 1) | (query < judged)
    query, a, b = query[rows], a[rows], b[rows]
    won = random.random(len(query)) < 1 / (1 + np.exp(strength[query, b] - strength[query, a]))
    score = np.where(random.random(len(query)) < ties, 0.5, won.astype(float))
    return Judgments.from_arrays(query=query, model_a=a, model_b=b, score=score)


@pytest.mark.parametrize("judged", [1, 2, 3])
def test_a_model_judged_on_very_few_queries_has_no_interval(judged):
    judgments = partial_arena(np.random.default_rng(judged), 40, judged)
    for fit in (BradleyTerry().fit(judgments), BradleyTerry().bootstrap(judgments)):
        ends = fit.interval()
        assert np.isnan(ends[:, 0]).tolist() == [False] * 5 + [True]
        assert fit.rank_interval()[5].tolist() == [1, 6]
        assert np.isnan(fit.p_better("5", "0"))
        assert 0 < fit.p_better("1", "0") < 1
    fit = BradleyTerry().fit(judgments)
    assert np.isnan(fit.winner_interval()).all() == (fit.ranks[5] == 1)
    assert np.isfinite(fit.draws(10)).all()
    # Logits are relative to a mean that contains the uncertain logit.
    assert np.trace(fit.uncertainty) > np.trace(fit.covariance)


@pytest.mark.parametrize(
    ("queries", "judged"),
    slow_rows_except([(40, 4), (100, 8)], [(40, 4), (40, 5), (40, 8), (100, 8)]),
)
def test_intervals_of_a_model_judged_on_few_queries_cover(queries, judged):
    hits, alarms, sims = 0, 0, 200
    random = np.random.default_rng([queries, judged])
    for _ in range(sims):
        fit = BradleyTerry().fit(partial_arena(random, queries, judged))
        low, high = fit.interval()[5]
        hits += low <= 0 <= high
        alarms += not 0.025 <= fit.p_better("5", "0") <= 0.975
    assert hits >= 0.92 * sims  # two standard errors below 95 %
    assert alarms <= 0.08 * sims


def test_models_judged_on_all_queries_have_the_plain_sandwich():
    fit = BradleyTerry().fit(partial_arena(np.random.default_rng(0), 20, 20))
    assert (fit.degrees_by_model == 19).all()
    assert np.array_equal(fit.uncertainty, fit.covariance)
    # Leaving out a single judgment changes little.
    full = partial_arena(np.random.default_rng(0), 100, 100)
    whole = BradleyTerry().fit(full)
    less = BradleyTerry().fit(rows_at(full, np.arange(len(full)) > 0))
    assert less.degrees_by_model == pytest.approx(whole.degrees_by_model, rel=0.02)
    ratio = np.ptp(less.interval(), axis=1) / np.ptp(whole.interval(), axis=1)
    assert ratio == pytest.approx(np.ones(6), rel=0.02)


def test_groups_linked_by_one_query_have_no_intervals():
    random = np.random.default_rng(1)
    rows = [(n, *pair) for n in range(20) for pair in (("a", "b"), ("c", "d"))]
    rows += [(0, "a", "c"), (0, "a", "c"), (0, "c", "a")]
    query, first, second = zip(*rows, strict=True)
    score = [*random.integers(0, 2, len(rows) - 3).astype(float), 1.0, 1.0, 1.0]
    judgments = Judgments.from_arrays(query=query, model_a=first, model_b=second, score=score)
    assert np.isnan(BradleyTerry().fit(judgments).interval()).all()


def test_many_judgments_are_corrected_model_by_model(monkeypatch):
    judgments = partial_arena(np.random.default_rng(3), 40, 8)
    whole = BradleyTerry().fit(judgments)
    monkeypatch.setattr("mirage.arena._leverage._DENSE", 1)
    rough = BradleyTerry().fit(judgments)
    ratio = np.ptp(rough.interval(), axis=1) / np.ptp(whole.interval(), axis=1)
    assert ratio == pytest.approx(np.ones(6), rel=0.1)


def test_draws_spread_as_the_uncertainty_says():
    rng = np.random.default_rng(0)
    query, a, b = np.repeat(np.arange(40), 3), np.tile([0, 0, 1], 40), np.tile([1, 2, 2], 40)
    fit = BradleyTerry().fit(make(query, a, b, rng.choice([0.0, 0.5, 1.0], 120)))
    draws = fit.draws(40_000, seed=1)
    assert draws.mean(axis=0) == pytest.approx(fit.logits, abs=0.02)
    # Student's t with n degrees of freedom has the variance n / (n - 2).
    assert np.cov(draws.T) == pytest.approx(fit.uncertainty * 39 / 37, abs=0.02)
    assert np.isnan(BradleyTerry().fit(by_hand("x>y")).draws(3)).all()


def test_two_models_by_hand():
    # x won 3 of 3. With logits d/2 and -d/2 the penalised likelihood has the derivative
    # 3 / (1 + e^d) - (ridge / 8) d in d, which is 0 at the maximum.
    fit = BradleyTerry(ridge=0.1).fit(by_hand("x>y", "x>y", "x>y"))
    d = fit.logits[0] - fit.logits[1]
    assert 3 / (1 + np.exp(d)) == pytest.approx(0.1 / 8 * d, rel=1e-9)
    won, lost = by_hand("x>y", "x>y", "x>y", "y>x"), by_hand("x>y", "y>x")
    plain = BradleyTerry(ridge=0).fit(won)
    assert plain.logits == pytest.approx([np.log(3) / 2, -np.log(3) / 2])
    assert plain.win_probability("x", "y") == pytest.approx(0.75)
    assert BradleyTerry(ridge=0).fit(lost).logits == pytest.approx([0, 0], abs=1e-12)


def test_the_default_ridge_hardly_moves_ordinary_models():
    plain, default = BradleyTerry(ridge=0).fit(TIED), BradleyTerry().fit(TIED)
    assert default.logits == pytest.approx(plain.logits, rel=2e-3)  # 240 judgments a model
    wins = np.zeros((19, 19))
    i, j = np.triu_indices(18, 1)
    wins[i + 1, j + 1] = wins[j + 1, i + 1] = 50
    wins[0, 1:] = 100
    logits = est.fit_bradley_terry(wins, ridge=0.1)
    assert 8.5 < logits[0] < 9.5


def test_a_group_that_always_beats_another():
    judgments = by_hand("w>x", "x>w", "y>z", "z>y", "w>y", "x>z")
    with pytest.raises(JudgmentError, match=r"{'w', 'x'} won every comparison with {'y', 'z'}"):
        BradleyTerry(ridge=0).fit(judgments)
    fit = BradleyTerry().fit(judgments)
    assert fit.separated == ()
    assert fit.ranks.tolist() == [1, 1, 3, 3]


@pytest.mark.parametrize("ridge", [0, 0.1])
def test_groups_that_were_never_compared_are_an_error(ridge):
    judgments = by_hand("v>w", "w>v", "x>y", "y>x", "y>z", "z>x")
    model = BradleyTerry(ridge=ridge)
    for call in (model.fit, model.bootstrap):
        with pytest.raises(JudgmentError, match=r"2 groups .*{'x', 'y', 'z'}; {'v', 'w'}"):
            call(judgments)


def test_dropped_ties_can_leave_disconnected_models_or_nothing():
    model = BradleyTerry(ties="drop")
    with pytest.raises(JudgmentError, match="ties were dropped"):
        model.fit(by_hand("x>y", "y>x", "y=z"))
    with pytest.raises(JudgmentError, match="all 2 judgments are ties"):
        model.fit(by_hand("x=y", "y=z"))


def test_davidson_with_all_ties_or_none():
    all_ties, no_ties = by_hand("x=y", "y=z"), by_hand("x>y", "y>x", "y>z", "z>y", "z>x", "x>z")
    for judgments, message in ((all_ties, "all judgments are"), (no_ties, "no judgment is a tie")):
        with pytest.raises(JudgmentError, match=message):
            BradleyTerry("davidson", ridge=0).fit(judgments)
        fit = BradleyTerry("davidson").fit(judgments)
        assert fit.logits == pytest.approx([0, 0, 0], abs=1e-9)
        assert abs(fit.log_nu) > 3


def test_disconnected_tournaments():
    judgments = by_hand("x>y", "y>x", "y>z", "z>y", "x>z", "z>x")
    boot = BradleyTerry().bootstrap(judgments, tournaments=50, queries=1)
    assert np.isfinite(boot.logits).all()
    assert boot.separated.all()  # one judgment: a winner, a loser, and one who never met anybody
    assert np.sort(boot.logits, axis=1)[:, 1] == pytest.approx(np.zeros(50), abs=1e-9)
    with pytest.raises(JudgmentError, match=r"tournament 0: .*2 groups"):
        BradleyTerry(ridge=0).bootstrap(judgments, tournaments=50, queries=1)


@each_case("ties", ["half", "davidson"])
@each_case("ridge", [1e-6, 0.1, 10])
def test_newton_converges_from_afar(ties, ridge):
    judgments = draw(LOGITS * 4, 30, seed=8, ties=0.02)
    wins = est.win_matrix(judgments.a, judgments.b, judgments.score, 7)
    start = np.linspace(-30, 30, 7)
    if ties == "half":
        near, far = (est.fit_bradley_terry(wins, ridge, s) for s in (None, start))
    else:
        tied = np.array((judgments.score == 0.5).sum())
        near, _ = est.fit_davidson(wins, tied, ridge)
        far, _ = est.fit_davidson(wins, tied, ridge, np.append(start, 9))
    assert far == pytest.approx(near, abs=1e-7)


def test_no_convergence_is_an_error():
    with pytest.raises(JudgmentError, match="do not converge"):
        est.fit_bradley_terry(np.array([[0.0, 3.0], [0.0, 0.0]]))


def test_bad_arguments():
    with pytest.raises(UnknownNameError, match="did you mean 'davidson'"):
        BradleyTerry(ties="davidsen")
    for ridge in (-1, np.nan, np.inf):
        with pytest.raises(SettingError, match="ridge"):
            BradleyTerry(ridge=ridge)
    for wrong in ({"tournaments": 0}, {"queries": 0}):
        with pytest.raises(SettingError, match="tournaments and queries must be at least 1"):
            BradleyTerry().bootstrap(TIED, **wrong)
    fit, boot = BradleyTerry().fit(TIED), BradleyTerry().bootstrap(TIED, tournaments=2)
    for result in (fit, boot):
        with pytest.raises(UnknownNameError, match="model 'm00'"):
            result.p_better("m00", "m001")
        with pytest.raises(ValueError, match="level"):
            result.interval(level=95)


# what tournaments and fits report


def test_tournaments_report():
    boot = BradleyTerry().bootstrap(TIED, tournaments=60, queries=20, seed=3)
    assert boot.counts.shape == (60, 40)
    assert len(boot) == 60
    assert boot.query_ids == TIED.query_ids
    assert boot.mean == pytest.approx(boot.logits.mean(axis=0))
    # 20 of 40 queries are drawn: logits vary by sqrt(39 / 20) more than those of 40 queries do.
    reach = student.ppf(0.95, df=39) * np.sqrt(20 / 39) * boot.logits.std(axis=0, ddof=1)
    expected = np.stack([boot.mean - reach, boot.mean + reach], axis=1)
    assert boot.interval(level=0.9) == pytest.approx(expected)
    difference = boot.logits[:, 0] - boot.logits[:, 1]
    error = np.sqrt(20 / 39) * difference.std(ddof=1)
    p = student.cdf(difference.mean() / error, df=39)
    assert boot.p_better("m000", "m001") == pytest.approx(p)
    before = boot.logits[:, None, :] > boot.logits[:, :, None] + 1e-9
    assert np.array_equal(boot.ranks, 1 + before.sum(axis=2))
    # Ranges that hold jointly are wider than the comparisons of one pair at the same level.
    sure, (best, worst) = boot.confidences > 0.95, boot.rank_interval(level=0.9).T
    assert (best <= 1 + sure.sum(axis=0)).all()
    assert (worst >= 7 - sure.sum(axis=1)).all()
    assert best.sum() < (1 + sure.sum(axis=0)).sum()
    assert ((best <= ranks(boot.mean)) & (ranks(boot.mean) <= worst)).all()
    by_loop = [[1 / (1 + np.exp(-(x - y))) for y in boot.logits.T] for x in boot.logits.T]
    assert boot.win_matrix == pytest.approx(np.mean(by_loop, axis=2))
    frame = boot.to_pandas()
    assert frame.logit.is_monotonic_decreasing
    assert frame["rank"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert frame.loc["m003", "lower"] == boot.interval()[3, 0]


def test_equal_logits_share_ranks():
    logits = np.array([[1.0, -1.0], [1e-13, -1e-13], [-1.0, 1.0], [2.0, -2.0]])
    boot = Tournaments(("x", "y"), ("q",), np.ones((4, 1), np.int32), logits, logits > 9)
    assert boot.ranks.tolist() == [[1, 2], [1, 1], [2, 1], [1, 2]]
    assert np.isnan(boot.p_better("x", "y"))  # there is one query
    assert np.isnan(boot.interval()).all()


def test_fit_report():
    fit = BradleyTerry().fit(TIED)
    deviation = np.sqrt(fit.covariance[2, 2])
    reach = student.ppf(0.95, df=39) * deviation
    assert fit.interval(level=0.9)[2] == pytest.approx(
        [fit.logits[2] - reach, fit.logits[2] + reach]
    )
    contrast = np.array([0, 1, -1, 0, 0, 0, 0])
    t_value = contrast @ fit.logits / np.sqrt(contrast @ fit.covariance @ contrast)
    assert fit.p_better("m001", "m002") == pytest.approx(student.cdf(t_value, df=39))
    assert fit.p_better("m001", "m001") == 0.5
    frame = fit.to_pandas()
    assert frame.logit.is_monotonic_decreasing
    assert frame.loc["m001", "upper"] == fit.interval()[1, 1]
    assert not frame.separated.any()


def test_progress_prints_nothing_without_a_terminal(capsys):
    BradleyTerry().bootstrap(TIED, tournaments=3, progress=True)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


# the paper's figures


def test_published_logits_are_recovered(data_dir):
    """100 queries drawn from each language's published logits, in 50 draws (seeds 0 to 49).

    With every pair compared equally often any estimator orders the models by total wins, so a
    single draw's tau is the luck of its queries: 75 to 100 % of draws reach 0.95, depending on
    how close the language's models are. The mean over draws does in each.
    """
    tables = json.loads((data_dir / "published" / "mirage_bench.json").read_text())["arena"]
    assert len(tables) == 18
    del tables["yo"]  # the paper prints Thai's column there
    for language, table in tables.items():
        logits = np.array([row["logit"] for row in table.values()])
        i, j = np.triu_indices(len(logits), 1)
        chance = 1 / (1 + np.exp(logits[j] - logits[i]))
        wins = np.zeros((50, len(logits), len(logits)))
        for seed in range(50):
            score = np.random.default_rng(seed).random((100, len(i))) < chance
            wins[seed, i, j], wins[seed, j, i] = score.sum(axis=0), (~score).sum(axis=0)
        fitted = est.fit_bradley_terry(wins, ridge=0.1)
        taus = [kendalltau(row, logits).statistic for row in fitted]
        assert np.mean(taus) >= 0.95, language
        assert min(taus) >= 0.85, language

        cells = (np.repeat(np.arange(100), len(i)), np.tile(i, 100), np.tile(j, 100))
        last = BradleyTerry().fit(make(*cells, score.ravel().astype(float)))
        assert last.logits == pytest.approx(fitted[-1], abs=1e-9)


ONE_KNOWN = (
    "m0 m1 a,m0 m3 a,m1 m2 b,m1 m3 b,m2 m3 b|m0 m1 a,m0 m2 b,m1 m2 b,m2 m3 b|"
    "m0 m2 b,m1 m2 a,m2 m3 b|m0 m1 b,m0 m2 b,m0 m3 b,m1 m2 a"
)


def test_there_is_no_interval_if_only_one_model_was_judged_on_enough_queries() -> None:
    rows = [row.split() for query in ONE_KNOWN.split("|") for row in query.split(",")]
    queries = [
        number for number, query in enumerate(ONE_KNOWN.split("|")) for _ in query.split(",")
    ]
    a, b, verdicts = zip(*rows, strict=True)
    score = [float(verdict == "a") for verdict in verdicts]
    fit = BradleyTerry().fit(
        Judgments.from_arrays(query=queries, model_a=a, model_b=b, score=score)
    )
    assert not fit.degrees_by_model.any()
    assert np.abs(fit.uncertainty).max() < 100
