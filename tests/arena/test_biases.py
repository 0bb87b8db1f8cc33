import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from judging import make_dataset, make_runs
from profiles import examples
from sklearn.linear_model import LogisticRegression
from subsets import slow_except, slow_rows_except
from votes import other_order, rename_models, vote

from mirage.arena import PairwiseJudge, biases, judge_agreement
from mirage.arena.biases import position_bias, self_preference, verbosity_bias
from mirage.errors import JudgmentError, SettingError, UnknownNameError
from mirage.llm import LLM
from mirage.models import Passage, Query, Response, Run
from mirage.statistics.bootstrap import draw_queries

properties = settings(max_examples=examples(60), deadline=None)


def expit(x):
    return 1 / (1 + np.exp(-x))


@st.composite
def ballots(draw):
    """Draw votes of two judges on three models and a few queries, in one order or in both."""
    places = [
        (f"q{q}", a, b, judge)
        for q in range(3)
        for judge in ("one", "two")
        for a in "xyz"
        for b in "xyz"
        if a != b
    ]
    chosen = draw(st.lists(st.sampled_from(places), min_size=6, max_size=36, unique=True))
    verdict = st.sampled_from(["a", "b", "tie", "failed"])
    return [vote(*arguments, draw(verdict)) for arguments in chosen]


# position


def ask_both_orders(judge, queries=40, models="wxyz", seed=0):
    """Return votes of ``judge(rng) -> verdict``, which ignores the responses, on all pairs."""
    rng = np.random.default_rng(seed)
    return [
        vote(f"q{query}", a, b, "judge", judge(rng))
        for query in range(queries)
        for a in models
        for b in models
        if a != b
    ]


def test_a_judge_that_always_says_a():
    result = position_bias(ask_both_orders(lambda _: "a"))
    assert result.value == 1
    assert np.isnan(result.interval).all()  # 40 queries that say the same do not say how surely
    assert (result.first, result.second, result.consistent) == (1.0, 0.0, 0.0)
    assert (result.pairs, result.queries, result.one_order, result.left_out) == (240, 40, 0, 0)
    assert position_bias(ask_both_orders(lambda _: "b")).value == -1


def test_a_server_that_always_says_a(server):
    server.answer = lambda _: "[[A]]"
    llm = LLM("judge", base_url=server.url, api_key="none", cache=False, backoff=0.01)
    dataset = make_dataset(3)
    judge = PairwiseJudge(llm, both_orders=True)
    judged = judge.compare(dataset, make_runs(dataset), progress=False)
    result = position_bias(judged.votes)
    assert (result.value, result.pairs) == (1.0, 9)
    with pytest.raises(JudgmentError, match=r"such as `judged\.votes`, got a Judgment"):
        position_bias(judged)


def test_a_judge_that_looks_at_responses_only():
    votes = [vote(f"q{q}", "x", "y", "judge", "a") for q in range(9)]
    result = position_bias(votes + [other_order(v) for v in votes])
    assert (result.value, result.consistent) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("lean", "queries"), slow_rows_except([(0.6, 40)], [(0.0, 14), (0.6, 40), (-1.0, 14)])
)
def test_a_known_lean_is_found(lean, queries):
    # Between equal responses the first wins with chance p, in each order by itself: the first
    # wins both orders in p^2 of cases, and the second in (1 - p)^2.
    chance = expit(lean)
    inside = []
    for seed in range(100):
        votes = ask_both_orders(
            lambda rng: "a" if rng.random() < chance else "b", queries, seed=seed
        )
        result = position_bias(votes, draws=200)
        inside.append(result.interval[0] <= chance**2 - (1 - chance) ** 2 <= result.interval[1])
    assert 0.9 <= np.mean(inside) < 1
    assert result.first == pytest.approx(chance**2, abs=0.12)
    assert result.consistent == pytest.approx(2 * chance * (1 - chance), abs=0.12)


def test_the_bootstrap_draws_queries():
    # Every verdict of a query is the same: its 12 pairs are worth one, and not 12.
    by_query = {f"q{q}": "ab"[q % 2] for q in range(20)}
    votes = [
        v.model_copy(update={"verdict": by_query[v.query_id]})
        for v in ask_both_orders(lambda _: "a", queries=20)
    ]
    result = position_bias(votes, draws=500, seed=3)
    assert result.value == 0
    outcome = np.array([{"a": 1, "b": -1}[by_query[query]] for query in sorted(by_query)])
    drawn = draw_queries(20, 20, 500, seed=3) @ outcome / 20
    # Student's t is 2.093 with 19 degrees, where a normal deviate is 1.960.
    wider = 2.093024 / 1.959964 * np.sqrt(20 / 19)
    ends = wider * (np.quantile(drawn, [0.025, 0.975]) - drawn.mean())
    assert result.interval == pytest.approx(ends)
    fewer = [v for v in votes if v.query_id < "q4"]  # of 14 queries; then of 13
    assert not np.isnan(position_bias(fewer).interval).any()
    assert np.isnan(position_bias([v for v in fewer if v.query_id != "q0"]).interval).all()


def test_votes_in_one_order_are_not_used_for_position_bias():
    votes = ask_both_orders(lambda _: "a", queries=4, models="xy")
    one_order = vote("q9", "x", "y", "judge", "a")
    spoilt = vote("q9", "y", "x", "judge", "invalid")
    other_judge = vote("q9", "y", "x", "another", "a")
    result = position_bias([*votes, one_order, spoilt, other_judge])
    assert (result.pairs, result.queries, result.one_order, result.left_out) == (4, 4, 2, 1)
    assert str(result) == (
        "position bias: 1.000 (no interval: too few queries, or all have the same result); of "
        "4 pairs of responses to 4 queries the first won both orders in 100.0%, the second in "
        "0.0%, "
        "and 0.0% are consistent; 1 invalid or failed votes left out"
    )
    with pytest.raises(JudgmentError, match="judge each pair in both orders"):
        position_bias([one_order, other_judge])


def test_a_tie_in_one_order_favours_no_position():
    votes = [vote("q0", "x", "y", "judge", "a"), vote("q0", "y", "x", "judge", "tie")]
    result = position_bias(votes)
    assert (result.first, result.second, result.consistent, result.value) == (0, 0, 0, 0)
    assert "(no interval: too few queries, or all have the same result)" in str(result)


def test_unusable_votes_are_an_error():
    with pytest.raises(JudgmentError, match="all 1 votes are invalid or failed"):
        position_bias([vote("q0", "x", "y", "judge", "failed")])
    with pytest.raises(JudgmentError, match="all 0 votes"):
        position_bias([])
    twice = [vote("q0", "y", "x", "judge", "a"), vote("q0", "y", "x", "judge", "b")]
    with pytest.raises(
        JudgmentError, match=r"'judge' voted twice on query 'q0'.* 'y' shown before"
    ):
        position_bias(twice)
    votes = ask_both_orders(lambda _: "a", queries=2)
    with pytest.raises(SettingError, match="draws must be at least 1, got 0"):
        position_bias(votes, draws=0)
    with pytest.raises(ValueError, match=r"level .* got 95"):
        position_bias(votes, level=95)


@properties
@given(ballots(), st.randoms(use_true_random=False))
def test_position_bias_is_invariant_to_order_and_names(votes, random):
    try:
        result = position_bias(votes, draws=20)
    except JudgmentError:
        assume(False)
    assert repr(position_bias(random.sample(votes, len(votes)), draws=20)) == repr(result)
    # Who saw everything the other way round, and was of the same opinion, leans the other way.
    mirrored = position_bias([other_order(v) for v in votes], draws=20)
    assert mirrored.value == -result.value
    assert mirrored.consistent == result.consistent
    ends = [-end for end in reversed(result.interval)]
    assert mirrored.interval == pytest.approx(ends, nan_ok=True)
    renamed_votes = [rename_models(v, {"x": "z", "y": "x", "z": "y"}) for v in votes]
    assert repr(position_bias(renamed_votes, draws=20)) == repr(result)


# verbosity


def answers(lengths, model):
    """Return a run whose answers have these numbers of words, plus parts that do not count."""
    return Run(
        model=model,
        language="en",
        responses=tuple(
            Response(
                query_id=f"q{query}",
                text=f"##Reason: {'because ' * 9}\n##Answer: {'word ' * length}[p{query}#1].",
            )
            for query, length in enumerate(lengths)
        ),
    )


QUERIES = [Query(id=f"q{query}", language="en", text="?") for query in range(80)]


def arena(bias, seed, queries=40, models=4, ties=0.1, judges=("judge",)):
    """Return votes of a judge with a known verbosity bias and the runs, also as columns."""
    rng = np.random.default_rng(seed)
    names = [f"m{model}" for model in range(models)]
    usual = rng.uniform(15, 45, models)
    length = np.maximum(1, rng.lognormal(np.log(usual), 0.5, (queries, models)).astype(int))
    logits = np.linspace(1, -1, models)
    votes, rows = [], []
    for query in range(queries):
        for first in range(models):
            for second in range(first):
                for judge in judges:
                    a, b = rng.permutation([first, second])
                    longer = (length[query, a] - length[query, b]) / length[query, [a, b]].sum()
                    won = rng.random() < expit(logits[a] - logits[b] + bias * longer)
                    score = 0.5 if rng.random() < ties else float(won)
                    verdict = {1: "a", 0: "b", 0.5: "tie"}[score]
                    votes.append(vote(f"q{query}", names[a], names[b], judge, verdict))
                    rows.append((query, a, b, longer, score))
    runs = [answers(length[:, model], name) for model, name in enumerate(names)]
    return votes, runs, np.array(rows)


def sklearn_bias(rows, strength=biases._PENALTY, weights=None):
    """Return the bias by scikit-learn's logistic regression; a tie is half a row of each label."""
    _, a, b, longer, score = rows.T
    models = np.eye(int(max(a.max(), b.max())) + 1)
    design = np.column_stack([models[a.astype(int)] - models[b.astype(int)], longer])
    weights = np.ones(len(rows)) if weights is None else weights
    fit = LogisticRegression(C=1 / strength, fit_intercept=False, tol=1e-10, max_iter=10_000)
    fit.fit(
        np.concatenate([design, design]),
        np.repeat([1, 0], len(rows)),
        np.concatenate([weights * score, weights * (1 - score)]),
    )
    return fit.coef_[0, -1]


def test_verbosity_bias_is_the_jackknife_of_logistic_regression(monkeypatch):
    votes, runs, rows = arena(1.5, seed=0, queries=11, judges=("one", "two"))
    result = verbosity_bias(votes, QUERIES, runs)
    without = np.array([sklearn_bias(rows[rows[:, 0] != query]) for query in range(11)])
    assert result.value == pytest.approx(11 * sklearn_bias(rows) - 10 * without.mean(), abs=1e-3)
    assert result.value == pytest.approx(sklearn_bias(rows, strength=1e-8), rel=0.1)
    monkeypatch.setattr(biases, "_PENALTY", 1e-8)  # what the ridge adds to the spread is nothing
    without = [sklearn_bias(rows[rows[:, 0] != query], 1e-8) for query in range(11)]
    monkeypatch.setattr(biases, "_CELLS", 200)  # several blocks of queries that are left out
    low, high = verbosity_bias(votes, QUERIES, runs).interval
    # 2.228 is Student's t with 10 degrees of freedom.
    assert high - low == pytest.approx(2 * 2.228139 * np.sqrt(10 * np.var(without)), rel=1e-3)
    assert (result.votes, result.queries, result.left_out) == (132, 11, 0)


@pytest.mark.parametrize(
    ("bias", "queries", "repeats"),
    [
        (1.5, 40, 12),
        *(
            pytest.param(bias, queries, 60, marks=pytest.mark.slow)
            for bias, queries in [(0.0, 40), (2.0, 5)]
        ),
    ],
)
def test_a_known_bias_is_recovered(bias, queries, repeats):
    results = []
    for seed in range(repeats):
        votes, runs, _ = arena(bias, seed, queries, ties=0)  # ties by chance would weaken it
        results.append(verbosity_bias(votes, QUERIES, runs))
    low, high = np.transpose([result.interval for result in results])
    assert np.mean((low <= bias) & (bias <= high)) >= 0.9
    values = np.array([result.value for result in results])
    assert abs(values.mean() - bias) < 3 * values.std() / np.sqrt(repeats)


def test_a_good_model_with_long_answers_is_not_verbosity_bias():
    # m0 is the best and writes most, and the judge does not look at length.
    rng = np.random.default_rng(0)
    length = rng.lognormal(np.log([60, 30, 15]), 0.3, (80, 3)).astype(int) + 1
    chance = expit(np.subtract.outer([2, 0, -2], [2, 0, -2]))
    votes = [
        vote(f"q{q}", f"m{a}", f"m{b}", "judge", "a" if rng.random() < chance[a, b] else "b")
        for q in range(80)
        for a, b in [(0, 1), (2, 0), (1, 2)]
    ]
    result = verbosity_bias(votes, QUERIES, [answers(length[:, m], f"m{m}") for m in range(3)])
    assert result.interval[0] < 0 < result.interval[1]
    assert np.mean([(v.verdict == "a") == (v.model_a < v.model_b) for v in votes]) > 0.8


def test_where_the_longer_always_wins_the_bias_is_large_and_finite():
    lengths = {"x": range(10, 30), "y": [5, 50] * 10}
    votes = [
        vote(f"q{q}", "x", "y", "judge", "a" if x > y else "b")
        for q, (x, y) in enumerate(zip(*lengths.values(), strict=True))
    ]
    result = verbosity_bias(
        votes, QUERIES, [answers(length, model) for model, length in lengths.items()]
    )
    assert 5 < result.value < 100
    assert result.interval[1] > 10
    assert result.odds_twice_as_long == pytest.approx(np.exp(result.value / 3))


def test_the_interval_includes_the_uncertainty_that_the_ridge_hides():
    # Hardly more votes on differing lengths than the check asks for: anything may be.
    votes = [vote(f"q{q}", "x", "y", "judge", "ab"[q % 2]) for q in range(8)]
    result = verbosity_bias(
        votes, QUERIES, [answers([20, 20, 10, 10] * 2, "x"), answers([13] * 8, "y")]
    )
    assert result.interval[0] < -5
    assert result.interval[1] > 5


def test_with_ties_alone_the_interval_is_that_of_the_prior():
    # All votes are ties: without any query they say 0, but how surely do they say it? The log-odds
    # are l * bias, l being 1/7 or -1/7, and so 40 ties have the information 40 * l^2 / 4.
    votes = [vote(f"q{q}", "x", "y", "judge", "tie") for q in range(40)]
    runs = [answers([20, 15] * 20, "x"), answers([15, 20] * 20, "y")]
    result = verbosity_bias(votes, QUERIES, runs)
    prior, information = biases._PENALTY, 40 / 7**2 / 4
    spread = np.sqrt(prior) / (information + prior)  # by the ridge, as votes of its own
    assert result.value == pytest.approx(0, abs=1e-9)
    assert result.interval == pytest.approx((-2.0227 * spread, 2.0227 * spread), rel=1e-4)


def test_citations_do_not_count_as_length():
    # Only the query tells that [Nile] cites a passage and that [sic] does not.
    votes, runs, _ = arena(1.5, seed=4, queries=12)
    passages = (Passage(id="Nile", text="x"), Passage(id="the Blue Nile", text="y"))
    queries = [query.model_copy(update={"passages": passages}) for query in QUERIES]

    def ended(ending, passage_ids=None):
        return [
            run.model_copy(
                update={
                    "responses": tuple(
                        answer.model_copy(
                            update={"text": f"{answer.text}{ending}", "shown": passage_ids}
                        )
                        for answer in run.responses
                    )
                }
            )
            for run in runs
        ]

    bare = verbosity_bias(votes, QUERIES, runs)
    assert verbosity_bias(votes, queries, ended(" [Nile][the Blue Nile]")) == bare
    assert verbosity_bias(votes, QUERIES, ended(" [Nile]", passage_ids=("Nile",))) == bare
    assert verbosity_bias(votes, queries, ended(" [sic]")) != bare
    assert verbosity_bias(votes, queries, ended(" [Nile]", passage_ids=("Volga",))) != bare


def test_verbosity_bias_as_text():
    votes, runs, _ = arena(1.5, seed=3)
    spoilt = votes[0].model_copy(update={"verdict": "failed", "error": "no"})
    result = verbosity_bias([spoilt, *votes[1:]], QUERIES, runs, level=0.9)
    low, high = result.interval
    assert str(result) == (
        f"verbosity bias: log-odds {result.value:.3f} (90 % interval {low:.3f} to {high:.3f}); an "
        f"answer twice as long has {np.exp(result.value / 3):.2f} times the odds of winning; 239 "
        "votes on 40 queries; 1 invalid or failed votes left out"
    )


def test_uninformative_lengths_are_an_error():
    always = [answers([20] * 9, "x"), answers([10] * 9, "y")]
    votes = [vote(f"q{q}", "x", "y", "judge", "ab"[q % 2]) for q in range(9)]
    with pytest.raises(JudgmentError, match="the 9 votes cannot separate length from quality"):
        verbosity_bias(votes, QUERIES, always)
    with pytest.raises(JudgmentError, match="cannot separate length from quality"):
        verbosity_bias(votes, QUERIES, [answers([0] * 9, "x"), answers([0] * 9, "y")])
    varied = [answers(range(9), "x"), answers([4] * 9, "y")]
    assert verbosity_bias(votes, QUERIES, varied).votes == 9
    one_wins = [v.model_copy(update={"verdict": "a"}) for v in votes]
    with pytest.raises(JudgmentError, match="one model always wins, or"):
        verbosity_bias(one_wins, QUERIES, varied)


def test_wrong_runs_are_an_error():
    votes, runs, _ = arena(0, seed=0, queries=3)
    with pytest.raises(UnknownNameError, match="unknown model 'm1' in the runs"):
        verbosity_bias(votes, QUERIES, [run for run in runs if run.model != "m1"])
    with pytest.raises(UnknownNameError, match="unknown query id 'q2'"):
        verbosity_bias(votes, QUERIES[:2], runs)
    with pytest.raises(JudgmentError, match="two runs have the model 'm0'"):
        verbosity_bias(votes, QUERIES, [*runs, runs[0]])
    short = runs[0].model_copy(update={"responses": runs[0].responses[:2]})
    with pytest.raises(UnknownNameError, match="query 'q2' in the run of model 'm0'"):
        verbosity_bias(votes, QUERIES, [Run.model_validate(short.model_dump()), *runs[1:]])
    failed = [Response(query_id=f"q{q}", text=None, error="timed out") for q in range(3)]
    with pytest.raises(JudgmentError, match=r"model 'm0' failed on query 'q0'.*\(timed out\)"):
        verbosity_bias(
            votes, QUERIES, [Run(model="m0", language="en", responses=failed), *runs[1:]]
        )


@properties
@given(ballots(), st.randoms(use_true_random=False))
def test_verbosity_bias_is_invariant_to_order_and_names(votes, random):
    lengths = {"x": [3, 9, 27], "y": [10, 2, 10], "z": [4, 8, 2]}
    runs = [answers(length, model) for model, length in lengths.items()]
    try:
        result = verbosity_bias(votes, QUERIES, runs)
    except JudgmentError:
        assume(False)
    numbers = pytest.approx((result.value, *result.interval), abs=1e-6, nan_ok=True)
    shuffled = verbosity_bias(random.sample(votes, len(votes)), QUERIES, runs[::-1])
    assert repr(shuffled) == repr(result)
    seen_otherwise = verbosity_bias([other_order(v) for v in votes], QUERIES, runs)
    assert (seen_otherwise.value, *seen_otherwise.interval) == numbers
    names = {"x": "z", "y": "x", "z": "y"}
    other_runs = [run.model_copy(update={"model": names[run.model]}) for run in runs]
    other = verbosity_bias([rename_models(v, names) for v in votes], QUERIES, other_runs)
    assert (other.value, *other.interval) == numbers


# self-preference


def test_self_preference_by_hand():
    families = {"gpt-4o": "openai", "gpt-4o-mini": "openai", "o3": "openai"}
    families |= {"command": "cohere", "aya": "cohere"}
    votes = [
        # q0: two judges of other families are divided, so their mean is a tie.
        vote("q0", "gpt-4o-mini", "llama", "gpt-4o", "a"),
        vote("q0", "gpt-4o-mini", "llama", "command", "b"),
        vote("q0", "llama", "gpt-4o-mini", "mistral", "b"),
        # q1: in both orders, and they differ: a tie.
        vote("q1", "gpt-4o-mini", "llama", "gpt-4o", "a"),
        vote("q1", "llama", "gpt-4o-mini", "gpt-4o", "a"),
        vote("q1", "llama", "gpt-4o-mini", "command", "a"),
        # None of these counts: a family among itself; strangers; a judge of the same family;
        # nobody else; no verdict; a judge of the family that is compared with.
        vote("q2", "gpt-4o-mini", "o3", "gpt-4o", "a"),
        vote("q2", "gpt-4o-mini", "o3", "command", "b"),
        vote("q2", "llama", "qwen", "gpt-4o", "a"),
        vote("q2", "llama", "qwen", "command", "b"),
        vote("q3", "gpt-4o-mini", "llama", "gpt-4o", "a"),
        vote("q3", "gpt-4o-mini", "llama", "o3", "b"),
        vote("q4", "gpt-4o-mini", "llama", "gpt-4o", "a"),
        vote("q4", "gpt-4o-mini", "llama", "command", "failed"),
        vote("q5", "gpt-4o-mini", "aya", "gpt-4o", "a"),
        vote("q5", "gpt-4o-mini", "aya", "command", "b"),
    ]
    results = self_preference(votes, families)
    assert [r.judge for r in results] == ["command", "gpt-4o", "o3"]
    assert [r.family for r in results] == ["cohere", "openai", "openai"]
    unseen, first, second = results
    assert (unseen.pairs, first.pairs, second.pairs) == (0, 2, 0)
    assert (first.family_score, first.neutral_score, first.value) == (0.75, 0.25, 0.5)
    assert (first.pairs, first.queries, first.left_out) == (2, 2, 1)
    assert np.isnan(first.interval).all()
    assert np.isnan([second.value, second.family_score, *second.interval]).all()
    assert str(second).endswith("undefined, because no neutral judge judged the same responses")
    assert str(first) == (
        "self-preference of gpt-4o for openai: 0.500 (no interval: too few queries, or all "
        "have the same result); mean score 0.750, from neutral judges 0.250, on 2 pairs of "
        "responses to 2 "
        "queries; 1 invalid or failed votes left out"
    )


def judged(lean, seed, queries=50):
    """Return votes of three judges; "own" adds ``lean`` to the log-odds of the model "own"."""
    rng = np.random.default_rng(seed)
    models = ["own", "x", "y"]
    votes = []
    for query in range(queries):
        quality = rng.normal(size=3)  # all judges see it: within a query they are not independent
        for judge in ("own", "one", "two"):
            skill = quality + lean * np.array([judge == "own", 0, 0])
            for first, second in [(0, 1), (1, 2), (0, 2)]:
                a, b = rng.permutation([first, second])
                verdict = "a" if rng.random() < expit(skill[a] - skill[b]) else "b"
                votes.append(vote(f"q{query}", models[a], models[b], judge, verdict))
    return votes


@pytest.mark.parametrize("lean", slow_except([1.0], [0.0, 1.0]))
def test_a_known_preference_is_found(lean):
    # A model and a judge of one name are of one family. The true difference, over qualities:
    difference = np.random.default_rng(0).normal(size=100_000) * np.sqrt(2)
    truth = np.mean(expit(difference + lean) - expit(difference))
    inside = []
    for seed in range(60):
        (result,) = self_preference(judged(lean, seed), {}, draws=200)
        inside.append(result.interval[0] <= truth <= result.interval[1])
    assert 0.85 < np.mean(inside) < 1
    assert (result.pairs, result.queries) == (100, 50)


def test_preferences_without_neutral_judges_are_an_error():
    votes = judged(0, seed=0, queries=4)
    alone = [v for v in votes if v.judge == "own"]
    with pytest.raises(JudgmentError, match="all votes are from 'own'"):
        self_preference(alone, {})
    with pytest.raises(JudgmentError, match=r"'one' \('one'\), 'two' \('two'\); pass the families"):
        self_preference([v for v in votes if v.judge != "own"], {})
    with pytest.raises(JudgmentError, match="no neutral judge"):
        self_preference(votes, dict.fromkeys(["own", "one", "two"], "all"))
    apart = [v for v in votes if (v.judge == "own") == (v.query_id < "q2")]
    with pytest.raises(JudgmentError, match="no neutral judge"):
        self_preference(apart, {})


@properties
@given(ballots(), st.randoms(use_true_random=False))
def test_self_preference_is_invariant_to_order_and_names(votes, random):
    families = {"one": "f", "x": "f", "two": "g", "y": "g", "z": "h"}
    try:
        results = self_preference(votes, families, draws=20)
    except JudgmentError:
        assume(False)
    assert all(-1 <= r.value <= 1 for r in results if r.pairs)
    shuffled = self_preference(random.sample(votes, len(votes)), families, draws=20)
    assert repr(shuffled) == repr(results)
    seen_otherwise = self_preference([other_order(v) for v in votes], families, draws=20)
    assert repr(seen_otherwise) == repr(results)
    names = {"x": "z", "y": "x", "z": "y"}
    other_families = {names.get(name, name): family for name, family in families.items()}
    renamed_votes = [rename_models(v, names) for v in votes]
    for result, other in zip(
        results, self_preference(renamed_votes, other_families, draws=20), strict=True
    ):
        numbers = pytest.approx((result.value, *result.interval), abs=1e-12, nan_ok=True)
        assert (other.value, *other.interval) == numbers


# clusters


def copied(votes, copies):
    """Return copies of the votes on other queries, and the original query of each copy."""
    more = [
        vote.model_copy(update={"query_id": f"{vote.query_id}.{copy}"})
        for vote in votes
        for copy in range(copies)
    ]
    return more, {vote.query_id: vote.query_id.split(".")[0] for vote in more}


def noisy(rng):
    return rng.choice(["a", "a", "b", "tie"])


def test_clustered_copies_of_queries_do_not_narrow_intervals():
    votes = ask_both_orders(noisy, queries=20, models="xyz")
    families = {"judge": "u", "x": "u"}
    for measure in (
        position_bias,
        lambda votes, **more: judge_agreement([*votes, *thirds_of(votes)], **more),
        lambda votes, **more: self_preference([*votes, *thirds_of(votes)], families, **more)[0],
    ):
        more, cluster = copied(votes, 4)
        once, apart = measure(votes), measure(more)
        together = measure(more, cluster=cluster)
        assert together.value == pytest.approx(once.value)
        assert together.queries == 80
        assert np.ptp(together.interval) == pytest.approx(np.ptp(once.interval), rel=0.15)
        assert np.ptp(apart.interval) < 0.6 * np.ptp(once.interval)
        few = measure(more, cluster=dict.fromkeys(cluster, "one") | {"q0.0": "two"})
        assert np.isnan(few.interval).all()


def thirds_of(votes):
    """Return votes of another judge, tied if a later model in the alphabet comes first."""
    return [
        vote.model_copy(
            update={
                "judge": "third",
                "verdict": vote.verdict if vote.model_a < vote.model_b else "tie",
            }
        )
        for vote in votes
    ]


def test_clustered_copies_of_queries_do_not_narrow_verbosity_intervals():
    votes, runs, _ = arena(1.0, seed=3, queries=15)
    dataset = QUERIES[:15]
    more, cluster = copied(votes, 3)
    names = {f"{query.id}.{copy}": query for query in dataset for copy in range(3)}
    queries = [query.model_copy(update={"id": name}) for name, query in names.items()]
    answers = [
        run.model_copy(
            update={
                "responses": tuple(
                    run[query.id].model_copy(update={"query_id": name})
                    for name, query in names.items()
                )
            }
        )
        for run in runs
    ]
    once = verbosity_bias(votes, dataset, runs)
    together = verbosity_bias(more, queries, answers, cluster=cluster)
    assert together.queries == 45
    # Three times the votes: the ridge counts for less, and nothing else.
    assert together.value == pytest.approx(once.value, rel=0.05)
    assert np.ptp(together.interval) == pytest.approx(np.ptp(once.interval), rel=0.05)
    clustered_queries = [q.model_copy(update={"cluster": cluster[q.id]}) for q in queries]
    assert verbosity_bias(more, clustered_queries, answers) == together
    apart = verbosity_bias(more, queries, answers)
    assert np.ptp(apart.interval) < 0.7 * np.ptp(together.interval)
