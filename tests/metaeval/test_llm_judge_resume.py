"""Four strategies on 1,400 sentences, killed and resumed, as processes of their own."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from injections import marked
from labelled import NO, YES
from llm_server import ChatServer, last_user_text

import mirage
from mirage.llm import LLM
from mirage.metaeval import STRATEGIES, LabelledSentences, LLMSentenceJudge, evaluate
from mirage.metaeval.prompts import label_form, label_question

CONCURRENCY = 16
REMINDER = label_form("faithfulness", "cot").reminder

JUDGING = f"""
import sys
from mirage.llm import LLM
from mirage.metaeval import STRATEGIES, LabelledSentences, LLMSentenceJudge, evaluate

url, sentences, cache, out = sys.argv[1:]
llm = LLM("judge", base_url=url, cache=cache, concurrency={CONCURRENCY})
judges = [LLMSentenceJudge(llm, strategy, progress=False) for strategy in STRATEGIES]
result = evaluate(LabelledSentences.from_jsonl(sentences), judges)
with open(out, "w") as file:
    file.write(str(result))
"""


def make_rows(sentences: int) -> list[dict[str, Any]]:
    """Sentences in three languages, two on each query."""
    return [
        {
            "query_id": f"q{i // 2}",
            "query": f"Question {i // 2}?",
            "language": ("en", "de", "es")[i // 2 % 3],
            "passages": [f"Passage {n} on {i // 2}." for n in range(5)],
            "sentence": f"Sentence {i}.",
            "label": NO if i % 4 == 1 else YES,
        }
        for i in range(sentences)
    ]


def real(folder: Path) -> list[dict[str, Any]]:
    """The 1,400 sentences of MEMERAG in three languages that are not challenging."""
    sentences, _ = LabelledSentences.memerag(folder, ["en", "de", "es"]).decided()
    return [
        {
            "query_id": sentence.query.id,
            "query": sentence.query.text,
            "language": sentence.query.language,
            "passages": [passage.text for passage in sentence.query.passages],
            "sentence": sentence.text,
            "label": label,
        }
        for sentence, (label,) in zip(sentences, sentences.labels, strict=True)
    ]


def fixed_judge(request: Mapping[str, Any]) -> str:
    """Labels that differ by sentence and strategy; one in fifty only at the second asking."""
    prompt = last_user_text(request)
    texts, outside = marked(prompt.removesuffix(f"\n\n{REMINDER}"))
    number = hashlib.sha256(json.dumps([texts, outside]).encode()).digest()[0]
    if number < 5 and not prompt.endswith(REMINDER):
        return "I cannot tell yet."
    return f"<rationale>Let me see.</rationale>\n<answer>{YES if number % 3 else NO}</answer>"


def start(server: ChatServer, folder: Path) -> subprocess.Popen[bytes]:
    paths = [str(folder / name) for name in ("sentences.jsonl", "cache.sqlite", "result.txt")]
    return subprocess.Popen(
        [sys.executable, "-c", JUDGING, server.url, *paths], cwd=Path(mirage.__file__).parents[1]
    )


def kill_after(server: ChatServer, process: subprocess.Popen[bytes], requests: int) -> None:
    """Kill a process once the server has had so many requests in all."""
    while len(server.requests) < requests:
        assert process.poll() is None
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def arrived(server: ChatServer, at: int = 0) -> list[str]:
    """Return the prompts from request ``at`` on, without requests that were cut off by a kill."""
    return [last_user_text(request) for request in server.requests[at:] if request]


def answered(server: ChatServer, cache: Path) -> set[str]:
    """The prompts whose answers are in the cache."""
    llm = LLM("judge", base_url=server.url, cache=cache)
    assert llm.cache is not None
    prompts = {
        prompt
        for prompt in set(arrived(server))
        for sample in (0, 1)
        if llm.cached([{"role": "user", "content": prompt}], sample)
    }
    llm.cache.close()
    return prompts


def check_killed_and_resumed(
    server: ChatServer, folder: Path, rows: list[dict[str, Any]], killed_after: tuple[int, ...]
) -> None:
    """Kill the judging whenever the server has had so many requests; then let it end."""
    path, cache = folder / "sentences.jsonl", folder / "cache.sqlite"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    labelled = LabelledSentences.from_jsonl(path)
    server.answer = fixed_judge

    cached, before = [], []
    for requests in killed_after:
        kill_after(server, start(server, folder), requests)
        cached.append(answered(server, cache))
        before.append(len(server.requests))
    assert not (folder / "result.txt").exists()
    assert start(server, folder).wait() == 0

    # What had been answered was never asked again; only what was under way at a kill may be.
    kills = len(killed_after)
    for cached_prompts, at in zip(cached, before, strict=True):
        assert len(cached_prompts) > at - kills * (CONCURRENCY + 1)
        assert not cached_prompts & set(arrived(server, at))
    expected = {
        label_question(s, "faithfulness", way).prompt for way in STRATEGIES for s in labelled
    }
    expected |= {
        f"{prompt}\n\n{REMINDER}"
        for prompt in expected
        if "cannot tell" in fixed_judge({"messages": [{"content": prompt}]})
    }
    assert set(arrived(server)) == expected
    assert len(arrived(server)) <= len(expected) + kills * CONCURRENCY

    # As if nothing had happened; and every answer is in the cache.
    total = len(server.requests)
    llm = LLM("judge", base_url=server.url, cache=cache)
    judges = [LLMSentenceJudge(llm, strategy) for strategy in STRATEGIES]
    result = evaluate(labelled, judges)
    assert len(server.requests) == total
    assert (folder / "result.txt").read_text() == str(result)
    assert [judge[language].invalid for judge in result for language in ("en", "mean")] == [0] * 8
    for judge, way in zip(result, STRATEGIES, strict=True):
        for sentence, label in zip(labelled, judge.labels, strict=True):
            prompt = label_question(sentence, "faithfulness", way).prompt
            reminded = f"{prompt}\n\n{REMINDER}"
            response = fixed_judge({"messages": [{"content": reminded}]})
            assert response.endswith(f"<answer>{label}</answer>")


@pytest.mark.slow
def test_sixty_sentences_killed_once(server: ChatServer, tmp_path: Path) -> None:
    check_killed_and_resumed(server, tmp_path, make_rows(60), (100,))


@pytest.mark.slow
def test_1400_sentences_killed_three_times(
    server: ChatServer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    try:
        rows = real(request.getfixturevalue("data_dir") / "memerag" / "memerag")
    except pytest.skip.Exception:
        rows = make_rows(1400)
    assert len(rows) == 1400
    check_killed_and_resumed(server, tmp_path, rows, (700, 2500, 4200))
