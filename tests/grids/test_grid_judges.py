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

from mirage import LLM, Budget, PairwiseJudge
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


def questions(folder: Path, server: ChatServer, answers: list[str]) -> Grid:
    """Return a grid in which two generators answer three questions, and a judge rates them."""
    grid(folder, server)
    rows = [
        {"id": f"q{i}", "question": f"Who {i}?", "answers": [["Ada", "Lovelace"]]} for i in range(3)
    ]
    (folder / "nq.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, texts in (("good", ["Ada."] * 3), ("bad", answers)):
        lines = (json.dumps({"query_id": f"q{i}", "text": x}) for i, x in enumerate(texts))
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    path = folder / "grid.yaml"
    path.write_text(path.read_text().replace("metrics: [", "metrics: [qa_match, "))
    return Grid.read(path)


@pytest.mark.parametrize("answer", ["yes", Reply(body=b'{"error": "no"}')])
def test_a_judge_that_always_fails_is_a_failure_with_its_reason(
    server: ChatServer, tmp_path: Path, answer: str | Reply
) -> None:
    server.answer = lambda _: answer
    table = questions(tmp_path, server, ["", "", ""]).run(progress=False)
    good, bad = table.cell(generator="good"), table.cell(generator="bad")
    assert "score of good on nq, closed book: llm_eval failed for 3 of 3 answers" in good.failure
    assert "llm_eval" not in good.scores
    assert good.scores["qa_match"].mean == 1.0
    assert not bad.failure  # empty answers need no judge
    text = str(table)
    assert "failed (a)" in text
    assert "(a) failed: score of good on nq" in text
    again = Grid.read(tmp_path / "grid.yaml").table()
    assert again.cell(generator="good").failure == good.failure


def test_a_judge_that_fails_on_most_answers_is_a_failure(
    server: ChatServer, tmp_path: Path
) -> None:
    server.answer = lambda _: "yes"
    table = questions(tmp_path, server, ["", "Bo.", "Bo."]).run(progress=False)
    bad = table.cell(generator="bad")
    assert bad.scores["llm_eval"].counts == "1 (2 unmeasured)"
    assert "llm_eval failed for 2 of 3 answers; first: judge gave" in bad.failure
    assert "failed: score of bad" in " ".join(str(table).split())


def test_a_spent_budget_is_a_failure(server: ChatServer, tmp_path: Path) -> None:
    server.answer = judge
    judged = questions(tmp_path, server, ["Bo."] * 3)
    table = judged.run(budget=Budget(calls=2), progress=False)
    assert len(server.requests) == 2
    failure = table.cell(generator="good").failure
    assert "1 of 3 answers were not judged, because the budget is spent" in failure
    assert table.cell(generator="good").scores["llm_eval"].n == 2
    complete = judged.run(progress=False)
    assert not any(cell.failure for cell in complete)
    assert len(server.requests) == 6
