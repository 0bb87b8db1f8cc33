"""A cluster of two nodes, of which one is removed while it works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from llm_server import ChatServer, Reply

sys.path.insert(0, str(Path(__file__).parents[1] / "arena"))
from judging import first_in_alphabet, judge_by, make_runs

from mirage import LLM, PairwiseJudge, Run, respond

HERE = Path(__file__).parent


@pytest.mark.slow
def test_the_work_of_a_removed_node_is_repeated_by_another(
    server: ChatServer, tmp_path: Path
) -> None:
    pytest.importorskip("ray", reason="needs the extra ray")
    sys.path.insert(0, str(HERE))
    from two_nodes import DATASET, answer

    by_rule = judge_by(first_in_alphabet)
    server.answer = lambda request: Reply(str(by_rule(request)), delay=0.1)
    path = os.pathsep.join([str(HERE), str(HERE.parent / "arena"), *sys.path])
    (tmp_path / "two").mkdir()
    completed = subprocess.run(
        [sys.executable, str(HERE / "two_nodes.py"), server.url, str(tmp_path / "two")],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr[-3000:]
    assert "is computed again" in completed.stderr  # something was lost indeed
    request_count = len(server.requests)

    run, votes = tmp_path / "run.jsonl", tmp_path / "votes.jsonl"
    respond(answer, DATASET, out=run, progress=False)
    judge = PairwiseJudge(LLM("m", base_url=server.url, cache=tmp_path / "two" / "cache"))
    judge.compare(DATASET, make_runs(DATASET), out=votes, progress=False)
    assert (tmp_path / "two" / "run.jsonl").read_bytes() == run.read_bytes()
    assert (tmp_path / "two" / "votes.jsonl").read_bytes() == votes.read_bytes()
    assert len(Run.load(run, language="sw", model="m")) == len(DATASET)
    # Every verdict that came is in the cache of the driver, also those that came to a lost worker.
    assert len(server.requests) == request_count
    assert request_count <= 3 * len(DATASET) + 8  # those that were under way on the node
