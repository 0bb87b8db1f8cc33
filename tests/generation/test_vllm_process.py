"""VLLMProcessGenerator with a stand-in for vLLM, in a real process."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mirage import MirageDataset, respond
from mirage.errors import GenerationError, MissingPackageError, SettingError
from mirage.generation import Prompt
from mirage.generation.processes import VLLMProcessGenerator, close_process
from mirage.models import Passage, Query, Run

STUBS = Path(__file__).parents[1] / "stub_packages"

Log = Callable[[], list[dict[str, Any]]]

QUERIES = MirageDataset(
    [
        Query(
            id=f"q{i}",
            language="en",
            text=f"word{i} and more",
            passages=(Passage(id=f"p{i}", text="A text."),),
        )
        for i in range(7)
    ]
)


def question_alone(query: Query) -> Prompt:
    return Prompt(({"role": "user", "content": query.text},), query.passage_ids)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """Put the stand-in on the path; return a function that reads what its engines have logged."""
    path = tmp_path / "engines.jsonl"
    monkeypatch.setenv("STUB_VLLM", str(path))
    monkeypatch.syspath_prepend(STUBS)

    def read() -> list[dict[str, Any]]:
        return [json.loads(line) for line in path.read_text().splitlines()]

    yield read
    close_process()


def generator(**settings: Any) -> VLLMProcessGenerator:
    return VLLMProcessGenerator("m", **{"prompt": question_alone, "batch_size": 3} | settings)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_batches_are_answered_in_another_process(log: Log) -> None:
    vllm = generator(quantization="awq", gpu_memory_utilization=0.5)
    run = vllm.run(QUERIES, progress=False)
    assert run.model == "m"
    assert [r.text for r in run] == [f"WORD{i}" for i in range(7)]
    assert {(r.reasoning, r.shown) for r in run} >= {("WORD0?", ("p0",))}
    engine, *batches = log()
    assert engine["settings"] == {"quantization": "awq", "gpu_memory_utilization": 0.5}
    assert [entry["batch"] for entry in batches] == [3, 3, 1]
    assert {entry["pid"] for entry in batches} == {engine["pid"]}
    assert engine["pid"] != os.getpid()
    assert (vllm.usage.calls, vllm.usage.prompt_tokens, vllm.usage.completion_tokens) == (7, 21, 21)
    close_process()
    assert not is_running(engine["pid"])


def test_runs_share_the_process_unless_the_engine_differs(log: Log) -> None:
    generator().run(QUERIES, progress=False)
    generator(prompt=None, seed=1).run(QUERIES, progress=False)  # the tokenizer's own prompt
    first, second = generator(), generator(dtype="float16")
    repeats = respond(first, QUERIES, repeats=2, progress=False)
    assert len({entry["pid"] for entry in log()}) == 1
    seeds = [seed for entry in log() for seed in entry.get("seeds", ())]
    assert (len(seeds), len(set(seeds))) == (28, 14)  # two runs of either seed
    assert len(repeats.repeats) == 2
    second.run(QUERIES, progress=False)
    pids = list(dict.fromkeys(entry["pid"] for entry in log()))
    assert [is_running(pid) for pid in pids] == [False, True]


@pytest.mark.usefixtures("log")
def test_a_query_that_fails_does_not_affect_the_others() -> None:
    def prompt(query: Query) -> Prompt:
        if query.id == "q1":
            raise ValueError("no prompt")
        text = "RAISE" if query.id == "q2" else query.text
        return Prompt(({"role": "user", "content": text},), ())

    run = generator(prompt=prompt).run(QUERIES, progress=False)
    assert {r.query_id: r.error for r in run.failed} == {
        "q1": "ValueError: no prompt",
        "q2": "ValueError: a bad prompt",
    }
    assert [r.text for r in run][3:] == [f"WORD{i}" for i in range(3, 7)]


def test_a_process_that_ends_fails_the_run_and_keeps_its_answers(log: Log, tmp_path: Path) -> None:
    crashing = {"q4"}

    def prompt(query: Query) -> Prompt:
        text = "CRASH" if query.id in crashing else query.text
        return Prompt(({"role": "user", "content": text},), ())

    out = tmp_path / "run.jsonl"
    with pytest.raises(GenerationError, match=r"vLLM with 'm' ended with exit status 7"):
        generator(prompt=prompt).run(QUERIES, out=out, progress=False)
    assert len(Run.load(out, language="en")) == 3
    crashing.clear()
    run = generator(prompt=prompt).run(QUERIES, out=out, progress=False)
    assert [r.text for r in run] == [f"WORD{i}" for i in range(7)]
    assert [entry["batch"] for entry in log() if "batch" in entry] == [3, 3, 3, 1]


@pytest.mark.usefixtures("log")
def test_a_model_that_cannot_be_loaded_is_named() -> None:
    missing = VLLMProcessGenerator("missing")
    with pytest.raises(GenerationError, match=r"'missing': the model cannot be loaded \(OSError"):
        missing.run(QUERIES, progress=False)
    assert generator().run(QUERIES, progress=False).model == "m"


@pytest.mark.usefixtures("log")
def test_invalid_settings_are_refused() -> None:
    with pytest.raises(SettingError, match="batch_size must be at least 1"):
        generator(batch_size=0)


def test_the_package_is_named_if_it_is_missing() -> None:
    if importlib.util.find_spec("vllm") is not None:
        pytest.skip("vllm is installed here")
    with pytest.raises(MissingPackageError, match=r"vllm; .*pip install 'mirage-rag\[vllm\] @ git"):
        VLLMProcessGenerator("m")
