import asyncio
import json
import logging
import random
import re

import pytest
from direct_llm import DirectLLM, DirectServer
from judging import first_in_alphabet, judge_by, make_dataset, make_run, make_runs, responses
from llm_server import Reply, last_user_text

from mirage.arena import BradleyTerry, Judged, Judgments, PairwiseJudge, read_judged
from mirage.arena import read_votes as votes_that_count
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, JudgmentError, LLMError, SettingError
from mirage.llm import LLM, Budget, Price
from mirage.models import Judgment, Response, Run, Vote

DATASET = make_dataset(4)
RUNS = make_runs(DATASET)


@pytest.fixture
def server():
    return DirectServer()


def llm(server, model="judge", **settings):
    settings = {"cache": False, "backoff": 0.01, "api_key": "sk-canary", **settings}
    return DirectLLM(model, server, **settings)


def compare(server, runs=RUNS, dataset=DATASET, judge=None, **settings):
    """Return votes of the judge, by default a plain one."""
    judge = judge or PairwiseJudge(llm(server))
    return judge.compare(dataset, runs, progress=False, **settings)


def read_votes(path):
    return [Vote.model_validate_json(line) for line in path.read_text().splitlines()]


def winners(judged):
    """Return the winner of each pair on each query; None for a tie."""
    return {
        (j.query_id, frozenset((j.model_a, j.model_b))): {"a": j.model_a, "b": j.model_b}.get(
            j.verdict
        )
        for j in judged
    }


# Votes and judgments ------------------------------------------------------------------------------


def test_every_pair_is_judged_on_every_query(server):
    server.answer = judge_by(first_in_alphabet)
    judged = compare(server)
    assert len(judged) == len(judged.votes) == len(server.requests) == 4 * 3
    assert winners(judged) == {
        (query.id, frozenset(pair)): min(pair) for query in DATASET for pair in ("xy", "xz", "yz")
    }
    assert all(judgment.judge == "judge" for judgment in judged)
    assert {judgment.verdict for judgment in judged} == {"a", "b"}  # either may be shown first
    assert judged.describe() == {
        "judgments": 12,
        "ties": 0,
        "votes": 12,
        "invalid": 0,
        "failed": 0,
        "skipped": 0,
    }
    assert repr(judged) == "Judged(judgments=12, ties=0, votes=12, invalid=0, failed=0, skipped=0)"


def test_a_judge_sees_no_name_of_a_model(server):
    server.answer = lambda _: "[[A]]"
    texts = dict.fromkeys(DATASET.query_ids, "A response.")
    compare(server, [make_run("gpt-model-1", DATASET, **texts), make_run("y", DATASET)])
    assert "A response." in json.dumps(server.requests)
    assert "gpt-model" not in json.dumps(server.requests)


def test_bradley_terry_takes_what_was_judged(server):
    server.answer = judge_by(first_in_alphabet)
    judged = compare(server)
    fit = BradleyTerry().fit(judged)
    assert fit.ranks.tolist() == [1, 2, 3]
    boot = BradleyTerry().bootstrap(judged, tournaments=5, seed=0)
    again = BradleyTerry().bootstrap(Judgments.from_records(judged), tournaments=5, seed=0)
    assert boot.logits.tolist() == again.logits.tolist()


def test_which_response_comes_first_depends_on_seed_query_and_pair_alone(server):
    server.answer = lambda _: "They differ.\n[[C]]"
    dataset = make_dataset(40)
    runs = make_runs(dataset, "wxyz")
    first = {(v.query_id, v.model_a, v.model_b) for v in compare(server, runs, dataset).votes}
    shuffled = MirageDataset(random.Random(1).sample(list(dataset), 20))
    fewer = compare(server, make_runs(shuffled, "zx"), shuffled).votes
    assert len(fewer) == 20
    assert {(v.query_id, v.model_a, v.model_b) for v in fewer} <= first
    assert 80 <= sum(a < b for _, a, b in first) <= 160  # of 240
    other = compare(server, runs, dataset, seed=1).votes
    assert first != {(v.query_id, v.model_a, v.model_b) for v in other}


def test_a_judge_that_always_says_a_is_tied_by_both_orders(server):
    server.answer = lambda _: "They differ.\n[[A]]"
    judged = compare(server, judge=PairwiseJudge(llm(server), both_orders=True))
    assert len(judged.votes) == len(server.requests) == 24
    assert {vote.verdict for vote in judged.votes} == {"a"}
    assert [judgment.verdict for judgment in judged] == ["tie"] * 12


def test_both_orders_keep_a_consistent_verdict(server):
    server.answer = judge_by(first_in_alphabet)
    both = compare(server, judge=PairwiseJudge(llm(server), both_orders=True))
    assert winners(both) == winners(compare(server))


def test_a_tie_in_one_order_only_is_a_tie(server):
    server.answer = judge_by(lambda a, b: "A" if a < b else "C")
    judged = compare(server, judge=PairwiseJudge(llm(server), both_orders=True))
    assert {judgment.verdict for judgment in judged} == {"tie"}


def test_queries_are_drawn_by_seed_without_replacement(server):
    server.answer = lambda _: "They differ.\n[[C]]"
    dataset = make_dataset(30)
    runs = make_runs(dataset, "xy")
    drawn = {seed: {j.query_id for j in compare(server, runs, dataset, queries=10, seed=seed)}
             for seed in (0, 1)}  # fmt: skip
    assert len(drawn[0]) == len(drawn[1]) == 10
    assert drawn[0] != drawn[1]
    assert drawn[0] == set(dataset.sample(10, seed=0).query_ids)
    assert len(compare(server, runs, dataset, queries=100)) == 30


def test_a_share_of_pairs_keeps_queries_for_every_pair(server):
    server.answer = lambda _: "They differ.\n[[C]]"
    dataset = make_dataset(10)
    runs = make_runs(dataset, "vwxyz")

    def judged_pairs(judged):
        return {(v.query_id, v.model_a, v.model_b) for v in judged.votes}

    part = compare(server, runs, dataset, pairs=0.3)
    pairs = [frozenset((v.model_a, v.model_b)) for v in part.votes]
    assert {pairs.count(pair) for pair in pairs} == {3}
    assert len(set(pairs)) == 10
    # Each pair has queries of its own: of 120 ways to draw three, hardly two pairs have the same.
    by_pair = [{v.query_id for v in part.votes if {v.model_a, v.model_b} == pair} for pair in pairs]
    assert len(set(map(frozenset, by_pair))) > 5
    assert judged_pairs(part) < judged_pairs(compare(server, runs, dataset))
    nearest = compare(server, runs, dataset, pairs=0.27)  # 2.7 of ten queries are three
    assert judged_pairs(nearest) == judged_pairs(part)
    # A run more or less changes nothing for the others.
    assert judged_pairs(compare(server, runs[:3], dataset, pairs=0.3)) < judged_pairs(part)
    few = compare(server, runs, dataset, pairs=0.001)
    assert len(few) == 10
    BradleyTerry().fit(few)


# Verdicts that do not come ------------------------------------------------------------------------


def test_an_answer_without_a_verdict_is_requested_again_and_is_not_a_tie(server, caplog):
    server.answer = lambda request: (
        'I would say "[[C]]"?' if "y on q1" in last_user_text(request) else "[[A]]"
    )
    runs = make_runs(DATASET, "xy")
    judged = compare(server, runs)
    (vote,) = judged.invalid
    assert len(judged) == 3
    assert vote.query_id == "q1"
    assert 'I would say "[[C]]"?' in vote.error
    prompts = [last_user_text(r) for r in server.requests if "y on q1" in last_user_text(r)]
    assert len(prompts) == 6
    for prompt in prompts[1:]:
        assert prompt.startswith(prompts[0])
        assert "[[C]]" in prompt.removeprefix(prompts[0])
        assert "I would say" not in prompt
    assert [record.getMessage() for record in caplog.records] == [
        f"1 of 4 votes are invalid; the first error is: {vote.error}"
    ]


def test_a_verdict_in_a_later_answer_counts(server):
    server.answer = lambda _: "[[B]]" if len(server.requests) == 4 else "Hard to tell."
    judged = compare(server, make_runs(DATASET[:1], "xy"), DATASET[:1])
    assert [vote.verdict for vote in judged.votes] == ["b"]
    assert len(server.requests) == 4


def test_a_long_answer_is_shown_short(server):
    server.answer = lambda request: (
        "word " * 5000 + "the end" if "on q0" in last_user_text(request) else "[[A]]"
    )
    (vote,) = compare(server, make_runs(DATASET, "xy")).invalid
    assert "the end" in vote.error
    assert len(vote.error) < 400


def test_a_verdict_in_a_truncated_answer_does_not_count(server):
    server.answer = lambda request: Reply(
        "It also writes\n[[A]]",
        finish_reason="length" if "on q0" in last_user_text(request) else "stop",
    )
    judged = compare(server, make_runs(DATASET, "xy"))
    assert [vote.query_id for vote in judged.invalid] == ["q0"]
    assert "max_tokens" in judged.invalid[0].error


def test_an_invalid_vote_in_one_order_leaves_no_judgment(server):
    server.answer = lambda request: "[[A]]" if responses(request)[0] < "y" else "?"
    runs = make_runs(DATASET, "xy")
    with pytest.raises(JudgmentError, match="none of the 8 votes has a verdict"):
        compare(server, runs, judge=PairwiseJudge(llm(server), both_orders=True))


def test_no_verdict_at_all_is_an_error(server, tmp_path):
    server.answer = lambda _: "Hard to tell."
    with pytest.raises(JudgmentError, match=r"judge.*q0.*Hard to tell"):
        compare(server, out=tmp_path / "votes.jsonl")
    assert {vote.verdict for vote in read_votes(tmp_path / "votes.jsonl")} == {"failed"}
    assert len(server.requests) < 32 + 8


def test_a_failed_call_is_a_failed_vote_and_the_rest_is_complete(server, caplog):
    server.answer = lambda request: (
        Reply("too long", status=400) if "y on q2" in last_user_text(request) else "[[A]]"
    )
    judged = compare(server)
    assert len(judged) == 10
    assert [vote.query_id for vote in judged.failed] == ["q2", "q2"]
    assert "HTTP 400: too long" in judged.failed[0].error
    (record,) = caplog.records
    assert record.name == "mirage.arena"
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("2 of 12 votes failed; the first error is: judge at http")


def test_unusual_characters_are_accepted(server, tmp_path):
    body = json.dumps({"error": {"message": "\ud800 odd"}}).encode()
    server.answer = lambda request: (
        Reply(status=400, body=body) if "on q1" in last_user_text(request) else "\u2028\x85[[A]]"
    )
    runs = [make_run("x", DATASET, q0="\ud800\x00 odd"), make_run("y\u2028", DATASET)]
    judged = compare(server, runs, out=tmp_path / "votes.jsonl")
    assert len(judged.failed) == 1
    assert len(judged) == 3
    assert compare(server, runs, out=tmp_path / "votes.jsonl").votes == judged.votes


def test_the_api_key_is_never_shown_or_stored(server, tmp_path, caplog):
    server.answer = lambda request: (
        Reply(f"bad key {server.headers[-1]['authorization']}", status=401)
        if "on q1" in last_user_text(request)
        else "[[A]]"
    )
    judge = PairwiseJudge(llm(server, cache=tmp_path / "cache"))
    judged = compare(server, judge=judge, out=tmp_path / "votes.jsonl")
    assert judged.failed
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    output = f"{judge!r}{judged!r}{judged.votes}{caplog.text}".encode()
    assert b"sk-canary" in json.dumps(server.headers).encode()
    assert b"canary" not in written + output


def test_an_endpoint_without_its_key_is_an_error():
    with pytest.raises(LLMError, match="OPENAI_API_KEY"):
        PairwiseJudge(LLM("gpt", cache=False)).compare(DATASET, RUNS, progress=False)


# Pairs that cannot be judged ----------------------------------------------------------------------


def test_missing_responses_are_skipped_with_a_reason(server, caplog):
    server.answer = judge_by(first_in_alphabet)
    gaps = (
        Response(query_id="q0", text="z on q0"),
        Response(query_id="q1", text=None, error="timed out"),
        Response(query_id="q2", text=""),
    )
    runs = [*RUNS[:2], Run(model="z", language="sw", responses=gaps)]
    judged = compare(server, runs)
    assert len(judged) == 12 - 4
    assert [(s.query_id, s.model_a, s.model_b, s.reason) for s in judged.skipped] == [
        ("q1", "x", "z", "model 'z' failed: timed out"),
        ("q1", "y", "z", "model 'z' failed: timed out"),
        ("q3", "x", "z", "model 'z' has no response"),
        ("q3", "y", "z", "model 'z' has no response"),
    ]
    assert judged.describe()["skipped"] == 4
    (record,) = caplog.records
    assert record.getMessage() == (
        "4 pairs were skipped; the first is: "
        "'x' against 'z' on query 'q1': model 'z' failed: timed out"
    )
    assert winners(judged)["q2", frozenset("xz")] == "z"  # an empty response is a response


def test_nothing_to_judge_is_an_error_before_any_call(server, tmp_path):
    silent = Run(model="z", language="sw", responses=())
    with pytest.raises(
        JudgmentError, match=r"none of the pairs can be judged.*'z' has no response"
    ):
        compare(server, [RUNS[0], silent], out=tmp_path / "votes.jsonl")
    assert server.requests == []
    assert not (tmp_path / "votes.jsonl").exists()


@pytest.mark.parametrize(
    ("runs", "settings", "message"),
    [
        ([], {}, "at least two runs are needed for a comparison, got 0"),
        (RUNS[:1], {}, "at least two runs are needed for a comparison, got 1"),
        ([RUNS[0], RUNS[0]], {}, "two runs have the model name 'x'"),
        ([RUNS[0], RUNS[1].model_copy(update={"language": "en"})], {}, "is in 'en'.*is in 'sw'"),
        (make_runs(make_dataset(5)), {}, "answers query 'q4', but dataset has no"),
        (RUNS, {"queries": 0}, "queries must be at least 1"),
        (RUNS, {"pairs": 0}, "a share above 0"),
        (RUNS, {"pairs": 1.5}, "queries=100, pairs=1.5"),
        (RUNS, {"pairs": float("nan")}, "nan"),
    ],
)
def test_runs_that_cannot_be_compared(server, runs, settings, message):
    judge = PairwiseJudge(llm(server))
    error = SettingError if settings else JudgmentError
    with pytest.raises(error, match=message):
        compare(server, runs, **settings)
    with pytest.raises(error, match=message):
        judge.estimate(DATASET, runs, **settings)
    assert server.requests == []


def test_invalid_judges_are_an_error(server):
    with pytest.raises(JudgmentError, match="there is no judge"):
        PairwiseJudge([])
    assert PairwiseJudge("gpt-4o").judges[0].model == "gpt-4o"
    with pytest.raises(JudgmentError, match="two judges are named 'judge'"):
        PairwiseJudge([llm(server), llm(server, temperature=1.0)])


# Juries -------------------------------------------------------------------------------------------


def play_jury(server, **opinions):
    """Return a jury whose judges each follow a rule or return a text."""

    def answer(request):
        opinion = opinions[request["model"]]
        return opinion if isinstance(opinion, str) else judge_by(opinion)(request)

    server.answer = answer
    return [llm(server, model) for model in opinions]


def last_in_alphabet(a, b):
    return first_in_alphabet(b, a)


def test_the_majority_of_a_jury(server):
    jury = play_jury(server, one=first_in_alphabet, two=last_in_alphabet, three=first_in_alphabet)
    judged = compare(server, judge=PairwiseJudge(jury))
    assert len(judged.votes) == 36
    assert len(judged) == 12
    assert {min(pair) for _, pair in winners(judged)} == {"x", "y"}
    assert all(winner == min(pair) for (_, pair), winner in winners(judged).items())
    assert {j.judge for j in judged} == {"majority of one, two, three"}


def test_no_majority_is_a_tie(server):
    jury = play_jury(server, one=first_in_alphabet, two=last_in_alphabet, three="[[C]]")
    assert {j.verdict for j in compare(server, judge=PairwiseJudge(jury))} == {"tie"}


def test_half_of_a_jury_is_no_majority(server):
    jury = play_jury(server, one=first_in_alphabet, two=last_in_alphabet)
    assert {j.verdict for j in compare(server, judge=PairwiseJudge(jury))} == {"tie"}


def test_votes_without_a_verdict_do_not_count(server):
    jury = play_jury(server, one=first_in_alphabet, two="?", three="?")
    judged = compare(server, judge=PairwiseJudge(jury))
    assert all(winner == min(pair) for (_, pair), winner in winners(judged).items())
    assert len(judged.invalid) + len(judged.failed) == 24


def test_a_jury_of_one_is_that_judge(server):
    (judge,) = play_jury(server, one=first_in_alphabet)
    judged = compare(server, judge=PairwiseJudge([judge]))
    assert judged.judgments == compare(server, judge=PairwiseJudge(judge)).judgments
    assert {judgment.judge for judgment in judged} == {"one"}


def test_a_failing_judge_does_not_stop_the_jury(server):
    server.answer = lambda request: (
        Reply("no such model", status=404) if request["model"] == "two" else "[[A]]"
    )
    jury = [llm(server, "one"), llm(server, "two")]
    judged = compare(server, judge=PairwiseJudge(jury))
    assert len(judged) == len(judged.failed) == 12


# The file of votes --------------------------------------------------------------------------------


def test_the_file_holds_the_votes_in_a_fixed_order(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)
    out = tmp_path / "deep" / "votes.jsonl"
    judged = compare(server, out=out)
    assert tuple(read_votes(out)) == judged.votes
    places = [(v.query_id, *sorted((v.model_a, v.model_b))) for v in judged.votes]
    assert places == sorted(places)
    assert re.fullmatch("[0-9a-f]{16}", judged.votes[0].prompt_digest)


def test_two_runs_write_identical_files(server, tmp_path):
    def answer(request):
        text = judge_by(first_in_alphabet)(request)
        return Reply(text, delay=random.random() / 50)  # answers overtake each other

    server.answer = answer
    files = [tmp_path / name for name in ("one", "two")]
    judge = PairwiseJudge([llm(server, "m"), llm(server, "n")], both_orders=True)
    judged = [compare(server, judge=judge, out=file, seed=3) for file in files]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert judged[0].judgments == judged[1].judgments
    reversed_runs = compare(server, RUNS[::-1], judge=judge, seed=3)
    assert reversed_runs.judgments == judged[0].judgments


def test_stored_votes_are_not_requested_again(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)
    first = compare(server, out=tmp_path / "votes")
    before = (tmp_path / "votes").read_bytes()
    again = compare(server, out=tmp_path / "votes")
    assert len(server.requests) == 12
    assert again.votes == first.votes
    assert again.judgments == first.judgments
    assert (tmp_path / "votes").read_bytes() == before


def test_votes_without_a_verdict_are_asked_for_again(server, tmp_path):
    def answer(request):
        if "on q0" in last_user_text(request):
            return Reply("overloaded", status=400)
        return "?" if "on q1" in last_user_text(request) else "[[A]]"

    server.answer = answer
    first = compare(server, out=tmp_path / "votes")
    assert (len(first), len(first.failed), len(first.invalid)) == (6, 3, 3)
    request_count = len(server.requests)
    server.answer = lambda _: "[[A]]"
    second = compare(server, out=tmp_path / "votes")
    new_requests = server.requests[request_count:]
    assert len(new_requests) == 6
    assert all(re.search("on q[01]", last_user_text(request)) for request in new_requests)
    assert (len(second), len(second.failed), len(second.invalid)) == (12, 0, 0)
    assert tuple(read_votes(tmp_path / "votes")) == second.votes


def test_a_changed_response_is_judged_anew_and_replaces_the_old_vote(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)
    first = compare(server, out=tmp_path / "votes")
    changed = [*RUNS[:2], make_run("z", DATASET, q2="a new response")]
    second = compare(server, changed, out=tmp_path / "votes")
    assert len(server.requests) == 12 + 2
    assert winners(second)["q2", frozenset("xz")] == "z"
    assert set(votes_that_count(tmp_path / "votes")) == set(second.votes)
    replaced = {
        vote.model_copy(update={"outdated": True})
        for vote in first.votes
        if vote not in second.votes
    }
    assert set(read_votes(tmp_path / "votes")) == {*second.votes, *replaced}
    assert len(second.votes) == 12
    assert len(set(first.votes) & set(second.votes)) == 10


def test_votes_with_other_parameters_are_requested_again(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)
    compare(server, out=tmp_path / "votes")
    warm = PairwiseJudge(llm(server, temperature=0.7))
    compare(server, judge=warm, out=tmp_path / "votes")
    assert len(server.requests) == 24
    assert len(votes_that_count(tmp_path / "votes")) == 12
    assert len(read_votes(tmp_path / "votes")) == 24


def test_votes_with_other_parameters_stay_and_are_reused(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)
    dataset = make_dataset(4)
    runs, out = make_runs(dataset), tmp_path / "votes.jsonl"
    cold, warm = (PairwiseJudge(llm(server, temperature=temperature)) for temperature in (0.0, 0.7))
    first = cold.compare(dataset, runs, out=out, progress=False)
    server.answer = judge_by(lambda *_: "C")
    second = warm.compare(dataset, runs, queries=2, out=out, progress=False)
    assert len(server.requests) == 12 + 6
    # Only those with the last parameters count.
    assert set(votes_that_count(out)) == set(second.votes)
    assert len(read_judged(out)) == 6
    # None of them is asked for again.
    assert cold.compare(dataset, runs, out=out, progress=False) == first
    assert warm.compare(dataset, runs, queries=2, out=out, progress=False) == second
    assert len(server.requests) == 18


def vote_key(vote):
    return vote.query_id, vote.model_a, vote.model_b, vote.judge


def test_votes_on_earlier_responses_do_not_count(server, tmp_path, caplog):
    """The judge is asked about fewer queries after a response to every query has changed."""
    server.answer = judge_by(first_in_alphabet)
    dataset, out = make_dataset(12), tmp_path / "votes.jsonl"
    x, y = make_runs(dataset, "xy")
    compare(server, [x, y], dataset, out=out)
    changed = make_run("x", dataset, **{query.id: f"zz {query.id}" for query in dataset})
    caplog.clear()
    second = compare(server, [changed, y], dataset, queries=3, out=out)
    assert "12 earlier votes are marked as outdated, because the responses" in caplog.text
    assert set(read_judged(out).judgments) == set(second.judgments)
    assert "12 of 15 votes are left out, because the responses, the prompt" in caplog.text
    # The votes count again if the change is reverted, and are not paid for again.
    third = compare(server, [x, y], dataset, out=out)
    assert len(server.requests) == 12 + 3
    assert set(read_judged(out).judgments) == set(third.judgments)


def test_votes_under_two_prompts_are_not_two_orders(server, tmp_path):
    server.answer = lambda _: "[[A]]"
    dataset, out = make_dataset(5), tmp_path / "votes.jsonl"
    runs = make_runs(dataset, "xy")
    compare(server, runs, dataset, PairwiseJudge(llm(server), both_orders=True), out=out)
    prompt = "{question} {answer_a} {answer_b} {form}"
    second = compare(server, runs, dataset, PairwiseJudge(llm(server), prompt=prompt), out=out)
    assert set(read_judged(out).judgments) == set(second.judgments)
    assert {judgment.verdict for judgment in second} == {"a"}


def test_a_vote_whose_response_has_failed_since_does_not_count(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)
    out = tmp_path / "votes.jsonl"
    compare(server, RUNS[:2], out=out)
    responses = [
        Response(query_id="q0", text=None, error="timeout") if r.query_id == "q0" else r
        for r in RUNS[0]
    ]
    failing = RUNS[0].model_copy(update={"responses": tuple(responses)})
    second = compare(server, [failing, RUNS[1]], out=out)
    assert set(read_judged(out).judgments) == set(second.judgments)
    assert len(second) == 3


def test_files_without_marks_give_a_warning(server, tmp_path, caplog):
    """Earlier versions did not mark outdated votes, and an interrupted run does not either."""
    server.answer = judge_by(first_in_alphabet)
    dataset, out = make_dataset(6), tmp_path / "votes.jsonl"
    x, y = make_runs(dataset, "xy")
    first = compare(server, [x, y], dataset)
    changed = make_run("x", dataset, **{query.id: f"zz {query.id}" for query in dataset})
    second = compare(server, [changed, y], dataset, queries=2)
    out.write_text("".join(f"{vote.model_dump_json()}\n" for vote in first.votes + second.votes))
    caplog.clear()
    assert len(read_judged(out)) == 6
    assert "2 of 8 votes are left out, because the responses" in caplog.text
    assert "4 other votes on these models may be outdated too" in caplog.text
    requests = len(server.requests)
    compare(server, [changed, y], dataset, queries=2, out=out)
    assert len(server.requests) == requests
    assert set(read_judged(out).judgments) == set(second.judgments)


def test_votes_on_models_that_are_not_judged_now_are_not_checked(server, tmp_path, caplog):
    server.answer = judge_by(first_in_alphabet)
    out = tmp_path / "votes.jsonl"
    compare(server, out=out)
    changed = make_run("x", DATASET, q0="zz")
    compare(server, [changed, RUNS[1]], out=out)
    assert "1 earlier votes are marked as outdated" in caplog.text
    assert "8 votes on one of these models and another model were not checked" in caplog.text


def test_a_higher_limit_on_the_length_of_answers_asks_only_about_the_rest(server, tmp_path):
    server.answer = lambda request: Reply(
        "[[A]]",
        finish_reason="length"
        if "on q1" in last_user_text(request) and request["max_tokens"] == 100
        else "stop",
    )
    out = tmp_path / "votes.jsonl"
    first = compare(server, judge=PairwiseJudge(llm(server, max_tokens=100)), out=out)
    assert len(first.invalid) == 3
    requests = len(server.requests)
    second = compare(server, judge=PairwiseJudge(llm(server, max_tokens=200)), out=out)
    assert len(server.requests) == requests + 3
    assert second.invalid == ()
    assert len(read_judged(out)) == 12


def test_votes_of_earlier_versions_are_reused(server, tmp_path):
    """Their digests depend on the limit on the length of answers."""
    server.answer = judge_by(first_in_alphabet)
    judge, out = PairwiseJudge(llm(server)), tmp_path / "votes.jsonl"
    compare(server, judge=judge, out=out)
    (client,), digests = judge.judges, {}
    for request in server.requests:
        new, old = (
            client.digest(request["messages"], limits=on).hex()[:16] for on in (False, True)
        )
        digests[new] = old
    votes = [
        vote.model_copy(update={"prompt_digest": digests[vote.prompt_digest]})
        for vote in read_votes(out)
    ]
    out.write_text("".join(f"{vote.model_dump_json()}\n" for vote in votes))
    compare(server, judge=judge, out=out)
    assert len(server.requests) == 12
    assert judge.estimate(DATASET, RUNS, out=out).calls == 0


def test_an_estimate_counts_only_votes_that_the_file_lacks(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)
    judge, out = PairwiseJudge(llm(server)), tmp_path / "votes.jsonl"
    assert judge.estimate(DATASET, RUNS, out=out).calls == 12
    assert not out.exists()
    compare(server, RUNS[:2], out=out)
    assert judge.estimate(DATASET, RUNS, out=out).calls == 8


def test_votes_on_other_things_stay_in_the_file(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)
    out = tmp_path / "votes"
    compare(server, RUNS[:2], out=out)
    compare(server, RUNS[1:], out=out)
    compare(server, RUNS[:2], judge=PairwiseJudge(llm(server, "other")), queries=2, out=out)
    assert len(server.requests) == len(read_votes(out)) == 4 + 4 + 2
    judged = compare(server, RUNS, out=out)  # asks for the third pair alone
    assert len(server.requests) == len(read_votes(out)) == 14
    assert len(judged.votes) == 12


def test_a_truncated_line_is_requested_again(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)
    out = tmp_path / "votes"
    compare(server, out=out)
    whole = out.read_bytes()
    out.write_bytes(whole[:-20])
    compare(server, out=out)
    assert out.read_bytes() == whole
    assert len(server.requests) == 13


def test_a_file_of_another_kind_is_an_error(server, tmp_path):
    (tmp_path / "run.jsonl").write_text('{"query_id": "q0", "text": "hello"}\n')
    with pytest.raises(DatasetError, match=r"run.jsonl, line 1"):
        compare(server, out=tmp_path / "run.jsonl")
    assert server.requests == []


def test_a_cache_spares_the_calls_and_not_the_votes(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)
    judge = PairwiseJudge(llm(server, cache=tmp_path / "cache"))
    first = compare(server, judge=judge, out=tmp_path / "one")
    second = compare(server, judge=judge, out=tmp_path / "two")
    assert len(server.requests) == 12
    assert first.votes == second.votes
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


# Budgets and estimates ----------------------------------------------------------------------------


def test_a_budget_of_calls_is_kept_and_so_is_every_answer(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)
    judge = PairwiseJudge(llm(server, budget=Budget(calls=7)))
    judged = compare(server, judge=judge, out=tmp_path / "votes")
    assert len(server.requests) == len(judged) == 7
    assert len(judged.failed) == 5
    assert "budget of 7 calls is spent" in judged.failed[0].error
    judged = compare(server, out=tmp_path / "votes")
    assert len(server.requests) == len(judged) == 12
    assert judged.failed == ()


def test_a_budget_of_0_calls_is_an_error(server):
    with pytest.raises(JudgmentError, match="budget of 0 calls is spent"):
        compare(server, judge=PairwiseJudge(llm(server, budget=Budget(calls=0))))
    assert server.requests == []


def test_an_estimate_counts_the_calls(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)
    price = Price(input=2.0, output=10.0)
    llm_judge = llm(server, cache=tmp_path / "cache", price=price, max_tokens=50)
    judge = PairwiseJudge(llm_judge, both_orders=True)
    estimate = judge.estimate(DATASET, RUNS, queries=3)
    assert server.requests == []
    assert (estimate.calls, estimate.cached) == (18, 0)
    assert estimate.completion_tokens == 18 * 50
    compare(server, judge=judge, queries=3)
    assert len(server.requests) == 18
    sent = sum(len(last_user_text(request).encode()) for request in server.requests)
    assert sent / 4 <= estimate.prompt_tokens <= sent / 4 + 18
    assert estimate.cost == pytest.approx(estimate.prompt_tokens * 2e-6 + 900 * 1e-5)
    assert llm_judge.usage.cost <= estimate.cost

    rest = judge.estimate(DATASET, RUNS)
    assert rest.cached + rest.calls == 24
    assert rest.cached == 3 * 6
    compare(server, judge=judge)
    assert len(server.requests) == 18 + rest.calls
    final_estimate = judge.estimate(DATASET, RUNS)
    assert (
        final_estimate.calls,
        final_estimate.cached,
        final_estimate.prompt_tokens,
        final_estimate.cost,
    ) == (0, 24, 0, 0.0)


def test_an_estimate_as_text(server):
    judge = PairwiseJudge(llm(server, price=Price(input=2.5, output=10.0)))
    estimate = judge.estimate(DATASET, RUNS)
    tokens = f"{estimate.prompt_tokens:,}"
    assert str(estimate) == (
        f"12 calls (and 0 answers from the cache): about {tokens} tokens of prompts and at most "
        "12,288 of answers, 0.14 at most; more if an answer cannot be read and is requested "
        "again"
    )


def test_an_estimate_without_a_price_has_no_cost(server):
    unpriced = PairwiseJudge(llm(server)).estimate(DATASET, RUNS)
    assert unpriced.cost is None
    assert "an unknown cost" in str(unpriced)
    endless = llm(server, "endless", max_tokens=None, price=Price(1, 1))
    estimate = PairwiseJudge([endless, llm(server, price=Price(1, 1))]).estimate(DATASET, RUNS)
    assert (estimate.calls, estimate.completion_tokens, estimate.cost) == (24, None, None)
    assert "any number of answers" in str(estimate)


# Elsewhere ----------------------------------------------------------------------------------------


def test_inside_a_running_event_loop(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)

    async def notebook():
        return compare(server, out=tmp_path / "votes")

    assert len(asyncio.run(notebook())) == 12


def test_nothing_is_printed(server, capsys):
    server.answer = judge_by(first_in_alphabet)
    PairwiseJudge(llm(server)).compare(DATASET, RUNS)  # progress is for terminals
    assert capsys.readouterr() == ("", "")


def test_judges_of_different_endpoints_run_concurrently(server):
    server.answer = lambda _: Reply("[[A]]", delay=0.02)
    second = DirectServer(lambda _: Reply("[[B]]", delay=0.01))
    jury = [llm(server, "one", concurrency=2), llm(second, "two", concurrency=3)]
    compare(server, judge=PairwiseJudge(jury))
    assert (server.at_once, second.at_once) == (2, 3)
    assert (len(server.requests), len(second.requests)) == (12, 12)


def test_judged_can_be_made_by_hand():
    judgment = Judgment(query_id="q", model_a="x", model_b="y", verdict="a")
    judged = Judged(votes=(), judgments=(judgment,))
    assert list(judged) == [judgment]
    assert BradleyTerry().fit(judged).ranks.tolist() == [1, 2]
