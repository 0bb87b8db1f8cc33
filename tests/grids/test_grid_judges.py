"""BERGEN's judges in a grid: the three forms of LLMeval, and pairs with the right answer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from injections import marked
from llm_server import ChatServer, Reply, last_user_text

from mirage import LLM, PairwiseJudge
from mirage.grids import Grid

FILE = """\
name: judged
datasets: {{nq: {{form: answers, path: nq.jsonl, language: en}}}}
generators:
  good: {{kind: replay, path: good.jsonl}}
  bad: {{kind: replay, path: bad.jsonl}}
  judge: {{kind: openai, model: judge, base_url: "{url}", cache: false}}
grid: {{dataset: nq, generator: [good, bad]}}
metrics: [llm_eval]
llm_eval: {{judge: judge, {form}}}
"""


def judge(request: Mapping[str, Any]) -> Reply | str:
    """Like only answers with "Ada", and be half sure of it."""
    texts = dict(marked(last_user_text(request))[0])
    assert texts["reference"] == "Ada / Lovelace"
    if "response-a" in texts:
        return "[[A]]" if "Ada" in texts["response-a"] else "[[B]]"
    right = "Ada" in texts["answer"]
    if not request.get("logprobs"):
        label = "yes" if right else "partly" if "partly" in last_user_text(request) else "no"
        return f"Compared.\n[[{label}]]"
    top = [{"token": label, "logprob": math.log(0.5)} for label in ("yes", "no")]
    first = {"token": "yes", "logprob": math.log(0.5), "top_logprobs": top}
    message = {"role": "assistant", "content": "yes"}
    choice = {"message": message, "finish_reason": "stop", "logprobs": {"content": [first]}}
    return Reply(body=json.dumps({"choices": [choice]}).encode())


def grid(folder: Path, server: ChatServer, form: str = "scale: binary") -> Grid:
    row = {"id": "q", "question": "Who?", "answers": [["Ada", "Lovelace"]]}
    (folder / "nq.jsonl").write_text(json.dumps(row) + "\n")
    for name, text in (("good", "Ada."), ("bad", "Bo.")):
        (folder / f"{name}.jsonl").write_text(json.dumps({"query_id": "q", "text": text}) + "\n")
    (folder / "grid.yaml").write_text(FILE.format(url=server.url, form=form))
    return Grid.read(folder / "grid.yaml")


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ("scale: binary", 1.0, 0.0),
        ("scale: graded", 1.0, 0.5),
        ("method: logprobs", 0.5, 0.5),
        ("scale: graded, method: logprobs", 0.5, 0.5),
    ],
)
def test_every_form_of_llm_eval(
    server: ChatServer, tmp_path: Path, form: str, good: float, bad: float
) -> None:
    server.answer = judge
    table = grid(tmp_path, server, form).run(progress=False)
    for name, expected in (("good", good), ("bad", bad)):
        cell = table.cell(generator=name)
        assert not cell.failure
        assert cell.scores["llm_eval"].mean == pytest.approx(expected)


def test_pairs_are_judged_with_the_right_answer(server: ChatServer, tmp_path: Path) -> None:
    server.answer = judge
    judged = grid(tmp_path, server)
    judged.run(progress=False)
    arena = PairwiseJudge(LLM("m", base_url=server.url, cache=False), reference=True)
    ranking = judged.leaderboard(judge=arena, progress=False)
    assert ranking.models == ("closed book + good", "closed book + bad")
