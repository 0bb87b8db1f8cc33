"""LLM judges that compare pairs adaptively."""

from itertools import count

import pytest
from direct_llm import DirectLLM, DirectServer
from judging import first_in_alphabet, judge_by, make_dataset, make_run, make_runs
from llm_server import Reply

from mirage.arena import AdaptivePairs, BradleyTerry, PairwiseJudge, read_judged
from mirage.errors import JudgmentError, NoJudgmentError, SettingError
from mirage.llm import Budget
from mirage.models import Response, Run, Vote

DATASET = make_dataset(20)
RUNS = make_runs(DATASET, "vwxyz")


@pytest.fixture
def server():
    return DirectServer()


def llm(server, model="judge", **settings):
    settings = {"cache": False, "retries": 0, "api_key": "sk-canary", **settings}
    return DirectLLM(model, server, **settings)


def compare(judge, runs=RUNS, **settings):
    return judge.compare_adaptively(DATASET, runs, progress=False, **settings)


def pairs_of(votes):
    return {(vote.query_id, frozenset((vote.model_a, vote.model_b))) for vote in votes}


def tau_bound(judged):
    adaptive = AdaptivePairs("vwxyz", DATASET.query_ids, earlier_judgments=judged.judgments)
    return adaptive.tau_bound


def test_each_pair_is_judged_once_up_to_the_budget(server):
    server.answer = judge_by(first_in_alphabet)
    judged = compare(PairwiseJudge(llm(server)), judgments=42)
    assert len(server.requests) == len(judged) == len(pairs_of(judged.votes)) == 42
    fit = BradleyTerry().fit(judged)
    assert sorted(fit.models, key=lambda model: -fit.logits[fit.models.index(model)]) == [*"vwxyz"]


def test_all_pairs_are_those_of_a_plain_comparison(server):
    server.answer = judge_by(first_in_alphabet)
    judge = PairwiseJudge(llm(server))
    judged = compare(judge, judgments=1000, queries=7, seed=3)
    plain = judge.compare(DATASET, RUNS, queries=7, seed=3, progress=False)
    assert pairs_of(judged.votes) == pairs_of(plain.votes)
    assert len(judged) == 7 * 10


def test_the_comparison_depends_on_the_seed_alone(server):
    server.answer = judge_by(first_in_alphabet)
    judge = PairwiseJudge(llm(server))
    first, again, other = (compare(judge, judgments=30, seed=seed) for seed in (0, 0, 1))
    assert first.votes == again.votes
    assert pairs_of(first.votes) != pairs_of(other.votes)


def test_more_judgments_cost_only_the_difference(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)
    judge, out = PairwiseJudge(llm(server)), tmp_path / "votes.jsonl"
    for judgments in (25, 60):
        compare(judge, judgments=judgments, queries=8, seed=2, out=out)
        assert len(server.requests) == judgments
    whole = judge.compare(DATASET, RUNS, queries=8, seed=2, out=out, progress=False)
    assert len(server.requests) == len(whole) == 8 * 10
    assert sorted(read_judged(out).judgments, key=str) == sorted(whole.judgments, key=str)


def test_a_judge_that_cannot_be_read_is_given_up_across_batches(server):
    server.answer = lambda _: "Je ne sais pas."
    with pytest.raises(NoJudgmentError, match="Je ne sais pas"):
        compare(PairwiseJudge(llm(server)), judgments=150, batch=2)
    assert len(server.requests) < 32 + 8


@pytest.mark.parametrize("jury", [1, 2])
@pytest.mark.parametrize("both_orders", [False, True])
def test_the_estimate_is_an_upper_bound(server, jury, both_orders):
    server.answer = judge_by(first_in_alphabet)
    judges = [llm(server, f"judge-{n}", max_tokens=50) for n in range(jury)]
    judge = PairwiseJudge(judges, both_orders=both_orders)
    estimate = judge.estimate(DATASET, RUNS, judgments=30)
    assert server.requests == []
    assert estimate.calls == 30 * jury * (1 + both_orders)
    assert estimate.completion_tokens == 50 * estimate.calls
    compare(judge, judgments=30)
    assert len(server.requests) == estimate.calls
    everything = judge.estimate(DATASET, RUNS)
    assert judge.estimate(DATASET, RUNS, judgments=10**6) == everything
    share = estimate.calls / everything.calls
    assert estimate.prompt_tokens == pytest.approx(share * everything.prompt_tokens, abs=jury)


def test_it_stops_at_the_target_tau(server):
    server.answer = judge_by(first_in_alphabet)
    judge = PairwiseJudge(llm(server))
    judged = compare(judge, judgments=200, target=0.9)
    assert len(server.requests) == len(judged) < 100
    assert tau_bound(judged) >= 0.9
    assert tau_bound(compare(judge, judgments=len(judged) - 5)) < 0.9  # a batch less


def test_existing_votes_are_not_requested_again(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)
    judge, out = PairwiseJudge(llm(server), both_orders=True), tmp_path / "votes.jsonl"
    compare(judge, judgments=20, out=out)
    assert len(server.requests) == 40
    judged = compare(judge, judgments=30, out=out)  # goes on where that ended
    assert len(server.requests) == 60
    assert judged.votes == compare(judge, judgments=30, out=out).votes
    assert len(server.requests) == 60
    assert judged.votes == compare(judge, judgments=30).votes


def test_failed_votes_are_requested_again_after_resuming(server, tmp_path):
    judge, out = PairwiseJudge(llm(server)), tmp_path / "votes.jsonl"
    answer, number = judge_by(first_in_alphabet), count()
    server.answer = lambda request: Reply(status=400) if next(number) % 3 else answer(request)
    first = compare(judge, judgments=30, out=out)
    assert len(first.failed) == 20
    server.answer = judge_by(first_in_alphabet)
    judged = compare(judge, judgments=60, out=out)
    assert not judged.failed
    assert len(judged) == 60
    assert pairs_of(first.votes) < pairs_of(judged.votes)
    assert len(server.requests) == 30 + 20 + 30
    votes = [Vote.model_validate_json(line) for line in out.read_text().splitlines()]
    assert pairs_of(votes) == pairs_of(judged.votes)


@pytest.mark.parametrize(("batch", "votes"), [(None, 5), (1, 5), (2, 6), (7, 7)])
def test_an_unreachable_endpoint_ends_the_comparison(server, batch, votes):
    server.answer = lambda _: Reply(status=400)
    # As many pairs as models, in however many batches.
    with pytest.raises(JudgmentError, match=f"none of the {votes} votes"):
        compare(PairwiseJudge(llm(server)), judgments=50, batch=batch)
    assert len(server.requests) == votes


def test_a_spent_budget_ends_the_comparison(server):
    server.answer = judge_by(first_in_alphabet)
    judged = compare(PairwiseJudge(llm(server, budget=Budget(calls=23))), judgments=200)
    assert len(server.requests) == len(judged) == 23
    assert len(judged.failed) <= 2 * 5


def test_pairs_without_a_response_are_skipped(server):
    server.answer = judge_by(first_in_alphabet)
    lacking = Run(model="v", language="sw", responses=RUNS[0].responses[:4])
    judged = compare(PairwiseJudge(llm(server)), [lacking, *RUNS[1:]], judgments=1000)
    assert len(judged) == 6 * 20 + 4 * 4
    assert len(judged.skipped) == 4 * 16
    assert len(pairs_of(judged.votes)) == len(server.requests) == len(judged)


@pytest.mark.parametrize(
    "settings",
    [
        {"judgments": 0},
        {"judgments": 10, "batch": 0},
        {"judgments": 10, "queries": 0},
        {"judgments": 10, "target": 95},
        {"judgments": 10, "target": float("nan")},
        {"judgments": 10, "target": 0},
    ],
)
def test_invalid_settings_are_an_error(server, settings):
    with pytest.raises(SettingError):
        compare(PairwiseJudge(llm(server)), **settings)
    assert server.requests == []


def test_nothing_to_judge(server):
    nothing = Run(
        model="v",
        language="sw",
        responses=[Response(query_id=query.id, text=None, error="down") for query in DATASET],
    )
    runs = [nothing, make_run("w", DATASET)]
    judge = PairwiseJudge(llm(server))
    with pytest.raises(
        JudgmentError,
        match="none of the pairs can be judged; the first skipped pair is 'v' against 'w'",
    ):
        compare(judge, runs, judgments=10)
    assert judge.estimate(DATASET, runs, judgments=10).calls == 0
