"""Judging that is killed and resumed, and judged twice at once, as processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from judging import first_in_alphabet, judge_by, make_dataset, make_run, responses

import mirage
from mirage.arena import PairwiseJudge
from mirage.llm import LLM
from mirage.llm.cache import Cache
from mirage.models import Vote

CONCURRENCY = 16

JUDGING = f"""
import json, sys
from mirage.arena import PairwiseJudge
from mirage import MirageDataset, Run
from mirage.llm import LLM

url, folder, models, cache, out, method, settings = sys.argv[1:]
dataset = MirageDataset.load(f"{{folder}}/dataset.jsonl")
runs = [Run.load(f"{{folder}}/{{model}}.jsonl", language=dataset.language) for model in models]
llm = LLM("judge", base_url=url, cache=cache or False, concurrency={CONCURRENCY})
judge = getattr(PairwiseJudge(llm), method)
judge(dataset, runs, queries=len(dataset), out=out, progress=False, **json.loads(settings))
"""


def lay_out(folder, queries, models):
    """Write files with a dataset and runs, and return both."""
    dataset = make_dataset(queries)
    dataset.save(folder / "dataset.jsonl")
    runs = [make_run(model, dataset) for model in models]
    for run in runs:
        run.save(folder / f"{run.model}.jsonl")
    return dataset, runs


def start(server, folder, models, cache, out, method="compare", **settings):
    files = map(str, (folder, models, cache, out))
    return subprocess.Popen(
        [sys.executable, "-c", JUDGING, server.url, *files, method, json.dumps(settings)],
        cwd=Path(mirage.__file__).parents[1],
    )


def kill_after(server, process, requests):
    """Kill a process once the server has received this many requests in total."""
    while len(server.requests) < requests:
        assert process.poll() is None
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def complete_requests(server, at=0):
    """Return the requests from a position on, without those that a killed process cut short."""
    return [request for request in server.requests[at:] if request]


def prompt(request):
    return request["messages"][0]["content"]


def cached_prompts(server, cache):
    """Return the prompts whose answers are in the cache."""
    llm = LLM("judge", base_url=server.url, cache=cache)
    messages_by_prompt = {
        prompt(request): request["messages"] for request in complete_requests(server)
    }
    prompts = {text for text, messages in messages_by_prompt.items() if llm.cached(messages)}
    llm.cache.close()
    return prompts


def keys(votes):
    return [(v.query_id, v.model_a, v.model_b) for v in votes]


def vote_key(request):
    """Return the key of the vote that a request is for."""
    (a, query), (b, _) = (text.split(" on ") for text in responses(request))
    return query, a, b


def read_votes(path):
    lines = path.read_bytes().split(b"\n")
    return [Vote.model_validate_json(line) for line in lines[:-1]]  # the last may be cut short


@pytest.mark.slow
def test_killed_three_times_in_2000_judgments(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)
    models = "vwxyz"
    dataset, runs = lay_out(tmp_path, 200, models)
    cache, out = tmp_path / "cache.sqlite", tmp_path / "votes.jsonl"
    known_prompts, stored_votes, request_counts = [], [], []
    for requests in (400, 1000, 1600):
        process = start(server, tmp_path, models, cache, out)
        kill_after(server, process, requests)
        known_prompts.append(cached_prompts(server, cache))
        stored_votes.append(set(keys(read_votes(out))))
        request_counts.append(len(server.requests))
    assert start(server, tmp_path, models, cache, out).wait() == 0

    votes = read_votes(out)
    assert len(votes) == len(set(keys(votes))) == 2000
    assert {vote.verdict for vote in votes} == {"a", "b"}
    for prompts, votes_before_kill, count in zip(
        known_prompts, stored_votes, request_counts, strict=True
    ):
        assert len(prompts) > count - 3 * CONCURRENCY - 3  # all but what was under way
        assert len(votes_before_kill) <= len(prompts)
        assert not prompts & {prompt(request) for request in complete_requests(server, count)}
    assert len({prompt(request) for request in complete_requests(server)}) == 2000
    assert len(complete_requests(server)) <= 2000 + 3 * CONCURRENCY

    # As if nothing had happened; and every answer is in the cache.
    judge = PairwiseJudge(LLM("judge", base_url=server.url, cache=cache))
    request_count = len(server.requests)
    judge.compare(dataset, runs, queries=200, out=tmp_path / "again.jsonl", progress=False)
    assert len(server.requests) == request_count
    assert (tmp_path / "again.jsonl").read_bytes() == out.read_bytes()


@pytest.mark.slow
def test_killed_without_a_cache(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)
    lay_out(tmp_path, 20, "xyz")
    out = tmp_path / "votes.jsonl"
    kill_after(server, start(server, tmp_path, "xyz", "", out), 40)
    stored_votes, request_count = keys(read_votes(out)), len(server.requests)
    assert len(stored_votes) > 40 - 2 * CONCURRENCY
    assert start(server, tmp_path, "xyz", "", out).wait() == 0
    votes = read_votes(out)
    assert len(votes) == len(set(keys(votes))) == 60
    assert not set(stored_votes) & {
        vote_key(request) for request in complete_requests(server, request_count)
    }


@pytest.mark.slow
def test_an_adaptive_comparison_killed_twice_goes_on_to_the_same_pairs(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)
    models = "vwxyz"
    dataset, runs = lay_out(tmp_path, 30, models)
    out, method = tmp_path / "votes.jsonl", "compare_adaptively"
    stored_votes, request_counts = [], []
    for requests in (43, 87):  # in the middle of a batch of five
        process = start(server, tmp_path, models, "", out, method, judgments=120)
        kill_after(server, process, requests)
        stored_votes.append(set(keys(read_votes(out))))
        request_counts.append(len(server.requests))
    assert start(server, tmp_path, models, "", out, method, judgments=120).wait() == 0
    assert len(read_votes(out)) == 120
    for votes, count in zip(stored_votes, request_counts, strict=True):
        assert len(votes) >= count - 2 * len(models)
        assert not votes & {vote_key(request) for request in complete_requests(server, count)}

    # As if nothing had happened.
    whole = tmp_path / "whole.jsonl"
    judge = PairwiseJudge(LLM("judge", base_url=server.url, cache=False))
    judge.compare_adaptively(dataset, runs, judgments=120, queries=30, out=whole, progress=False)
    assert whole.read_bytes() == out.read_bytes()


@pytest.mark.slow
def test_two_processes_with_one_cache(server, tmp_path):
    server.answer = judge_by(first_in_alphabet)
    lay_out(tmp_path, 50, "xyz")
    cache, outs = tmp_path / "cache.sqlite", [tmp_path / "one", tmp_path / "two"]
    processes = [start(server, tmp_path, "xyz", cache, out) for out in outs]
    assert [process.wait() for process in processes] == [0, 0]
    assert len(set(keys(read_votes(outs[0])))) == 150
    assert outs[0].read_bytes() == outs[1].read_bytes()
    shared = Cache(cache)
    assert len(shared) == 150
    shared.close()
    assert not list(tmp_path.glob("cache.sqlite.corrupt-*"))
