import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples
from sklearn.metrics import cohen_kappa_score
from votes import other_order, rename_models, vote

from mirage.arena import judge_agreement
from mirage.errors import JudgmentError
from mirage.statistics.agreement import fleiss_of, terms
from mirage.statistics.bootstrap import draw_queries

properties = settings(max_examples=examples(100), deadline=None)


def draw_votes(seed, judges=3, queries=30, models="xyz", skill=1.0):
    """Return votes of judges that see the same quality with independent noise, in random orders."""
    rng = np.random.default_rng(seed)
    votes = []
    for query in range(queries):
        quality = rng.normal(size=len(models)) * skill
        for judge in range(judges):
            for i in range(len(models)):
                for j in range(i):
                    x, y = rng.permutation([i, j])
                    utility = quality[x] - quality[y] + rng.logistic()
                    verdict = "tie" if abs(utility) < 0.3 else "a" if utility > 0 else "b"
                    votes.append(vote(f"q{query}", models[x], models[y], f"judge{judge}", verdict))
    return votes


def opinions(votes, judge):
    """Return the judge's verdicts as (better, worse, query), or as ties, regardless of order."""
    verdicts_by_item = {}
    for v in votes:
        if v.judge == judge:
            v = v if v.model_a < v.model_b else other_order(v)
            verdicts_by_item[v.query_id, v.model_a, v.model_b] = v.verdict
    return verdicts_by_item


def both_ways(verdicts):
    flipped = {"a": "b", "b": "a", "tie": "tie"}
    return [*verdicts, *(flipped[v] for v in verdicts)]


def test_kappas_are_those_of_the_table_of_verdicts():
    votes = draw_votes(0)
    result = judge_agreement(votes)
    tables = {judge: opinions(votes, judge) for judge in result.judges}
    keys = sorted(tables["judge0"])
    assert result.items == len(keys) == 90
    for pair in result.pairs:
        x, y = (both_ways([tables[judge][key] for key in keys]) for judge in pair.judges)
        assert pair.value == pytest.approx(cohen_kappa_score(x, y), abs=1e-12)
        assert pair.agreement == pytest.approx(np.mean(np.array(x) == y))
        assert pair.interval[0] < pair.value < pair.interval[1]
    rows = zip(*(both_ways([tables[j][key] for key in keys]) for j in result.judges), strict=True)
    counts = [[row.count(v) for v in ("a", "b", "tie")] for row in rows]
    assert result.value == pytest.approx(fleiss_of(terms(counts).sum(axis=0)), abs=1e-12)
    assert result.agreement == pytest.approx(np.mean([pair.agreement for pair in result.pairs]))


def test_the_interval_is_that_of_drawing_queries():
    votes = draw_votes(1, judges=2, queries=20)
    tables = [opinions(votes, judge) for judge in ("judge0", "judge1")]
    keys = sorted(tables[0])
    queries = sorted({query for query, *_ in keys})
    drawn = []
    for counts in draw_queries(20, 20, 200, seed=5):
        times = [counts[queries.index(query)] for query, *_ in keys]
        x, y = (np.repeat([table[key] for key in keys], times) for table in tables)
        drawn.append(cohen_kappa_score(both_ways(x), both_ways(y)))
    result = judge_agreement(votes, draws=200, level=0.8, seed=5)
    # Student's t is 1.3277 with 19 degrees, where a normal deviate is 1.2816.
    wider = 1.327728 / 1.281552 * np.sqrt(20 / 19)
    ends = result.pairs[0].value + wider * (np.quantile(drawn, [0.1, 0.9]) - np.mean(drawn))
    assert result.pairs[0].interval == pytest.approx(ends, abs=1e-6)
    assert result.pairs[0].level == 0.8


def test_a_judge_asked_in_both_orders_has_one_verdict():
    # On q0 the judges' opinions are the same; on q1 the second contradicts itself: a tie.
    votes = [
        vote("q0", "x", "y", "one", "a"),
        vote("q0", "y", "x", "one", "b"),
        vote("q1", "x", "y", "one", "tie"),
        vote("q0", "y", "x", "two", "b"),
        vote("q1", "x", "y", "two", "a"),
        vote("q1", "y", "x", "two", "a"),
    ]
    result = judge_agreement(votes)
    assert (result.items, result.agreement, result.value) == (2, 1.0, 1.0)


def test_items_judged_by_some_judges_only_are_counted():
    votes = draw_votes(2, judges=3, queries=10)
    dropped = [v for v in votes if not (v.judge == "judge2" and v.query_id == "q3")]
    spoilt = vote("q3", "x", "y", "judge2", "failed")
    result = judge_agreement([*dropped, spoilt, vote("q99", "x", "y", "judge0", "a")])
    assert (result.items, result.partly_judged, result.left_out) == (27, 4, 1)
    assert [pair.items for pair in result.pairs] == [30, 27, 27]
    without = [v for v in votes if v.query_id != "q3"]
    assert result.value == judge_agreement(without).value
    assert "; 4 judged by some only; 1 invalid or failed votes left out" in str(result)


def test_judges_that_never_meet():
    votes = draw_votes(3, judges=3, queries=6)
    half = [v for v in votes if v.judge != "judge2" and v.query_id < "q3"]
    apart = [v for v in votes if v.judge == "judge2" and v.query_id >= "q3"]
    result = judge_agreement(half + apart)
    assert np.isnan(result.value)
    assert "undefined, because nothing was judged by all" in str(result)
    met = {pair.judges: pair.items for pair in result.pairs}
    assert met == {
        ("judge0", "judge1"): 9,
        ("judge0", "judge2"): 0,
        ("judge1", "judge2"): 0,
    }
    assert str(result.pairs[1]).endswith("judge2: undefined, because they judged nothing in common")
    with pytest.raises(JudgmentError, match="none among the votes of 'judge0', 'judge2'"):
        judge_agreement([v for v in half + apart if v.judge != "judge1"])
    with pytest.raises(JudgmentError, match="at least two judges"):
        judge_agreement([v for v in votes if v.judge == "judge0"])


def test_kappa_of_nothing_but_ties_is_undefined():
    votes = [vote(f"q{q}", "x", "y", judge, "tie") for q in range(5) for judge in ("one", "two")]
    result = judge_agreement(votes)
    assert np.isnan([result.value, *result.interval, result.pairs[0].value]).all()
    assert result.agreement == 1
    for text in (str(result), str(result.pairs[0])):
        assert "undefined, because every verdict is a tie; the same verdict on 100.0% of 5" in text


def test_one_query_gives_no_interval():
    result = judge_agreement(draw_votes(4, queries=1))
    assert np.isfinite(result.value)
    assert np.isnan(result.interval).all()
    assert "(no interval: too few queries" in str(result)


def test_judges_that_agree_only_by_chance():
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(100):
        votes = [
            vote(f"q{q}", "x", "y", judge, str(rng.choice(["a", "b", "tie"])))
            for q in range(60)
            for judge in ("one", "two", "three")
        ]
        result = judge_agreement(votes, draws=200)
        ends = [result.interval, *(pair.interval for pair in result.pairs)]
        inside += [low <= 0 <= high for low, high in ends]
    assert 0.9 < np.mean(inside) < 0.99


@st.composite
def ballots(draw):
    """Draw votes of two or three judges on a few queries, some missing, in one order or both."""
    places = [
        (f"q{q}", a, b, f"judge{j}")
        for q in range(3)
        for j in range(3)
        for a in "xyz"
        for b in "xyz"
        if a != b
    ]
    chosen = draw(st.lists(st.sampled_from(places), min_size=4, max_size=30, unique=True))
    verdict = st.sampled_from(["a", "b", "tie", "invalid"])
    return [vote(*arguments, draw(verdict)) for arguments in chosen]


def summary(result):
    """Return the numbers about all judges, and about each two of them by name."""
    whole = (result.value, *result.interval, result.agreement, result.items, result.partly_judged)
    pairs = {
        frozenset(pair.judges): (pair.value, *pair.interval, pair.agreement, pair.items)
        for pair in result.pairs
    }
    return whole, pairs


def assert_same(first, second):
    assert summary(first)[0] == pytest.approx(summary(second)[0], abs=1e-12, nan_ok=True)
    assert summary(first)[1].keys() == summary(second)[1].keys()
    for judges, numbers in summary(first)[1].items():
        assert numbers == pytest.approx(summary(second)[1][judges], abs=1e-12, nan_ok=True)


@properties
@given(ballots(), st.randoms(use_true_random=False))
def test_only_opinions_matter(votes, random):
    try:
        result = judge_agreement(votes, draws=20)
    except JudgmentError:
        return
    shuffled = random.sample(votes, len(votes))
    assert repr(judge_agreement(shuffled, draws=20)) == repr(result)
    assert_same(judge_agreement([other_order(v) for v in votes], draws=20), result)
    renamed_votes = [rename_models(v, {"x": "z", "y": "x", "z": "y"}) for v in votes]
    assert_same(judge_agreement(renamed_votes, draws=20), result)


@properties
@given(ballots())
def test_names_of_judges_do_not_matter(votes):
    try:
        result = judge_agreement(votes, draws=20)
    except JudgmentError:
        return
    swapped = {"judge0": "judge2", "judge1": "judge1", "judge2": "judge0"}
    again = judge_agreement(
        [v.model_copy(update={"judge": swapped[v.judge]}) for v in votes], draws=20
    )
    whole, pairs = summary(again)
    named_back = {frozenset(swapped[j] for j in judges): n for judges, n in pairs.items()}
    assert whole == pytest.approx(summary(result)[0], abs=1e-12, nan_ok=True)
    for judges, numbers in summary(result)[1].items():
        assert numbers == pytest.approx(named_back[judges], abs=1e-12, nan_ok=True)
