"""Judges of pairs that see the right answer, as in BERGEN's pairwise LLMeval."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cases import each_case
from direct_llm import DirectLLM, DirectServer
from injections import INJECTIONS, marked
from llm_server import last_user_text

from mirage import MirageDataset, PairwiseJudge, Run
from mirage.arena._prompt import FIELDS, judge_question
from mirage.errors import SettingError
from mirage.llm.templates import template_of
from mirage.models import Query, Response

DATASET = MirageDataset(
    [
        Query(id="short", language="en", text="How many?", answers=(("11", "eleven"), ("two",))),
        Query(id="long", language="en", text="Why?", reference="##Reason: x.\n##Answer: So [1]."),
        Query(id="both", language="en", text="Who?", answers=("Ada",), reference="##Answer: Bo."),
        Query(id="none", language="en", text="When?"),
        Query(id="open", language="en", text="Where?", answerable=False, answers=("here",)),
    ]
)
RIGHT = {"short": "11 / eleven\ntwo", "long": "So.", "both": "Ada"}
PAIR = "{marks}\n{question}\nRight: {reference}\n{answer_a}\n{answer_b}\n{form}"


@pytest.fixture
def server() -> DirectServer:
    return DirectServer()


def run_of(model: str) -> Run:
    responses = tuple(Response(query_id=q.id, text=f"{model} on {q.id}") for q in DATASET)
    return Run(model=model, language="en", responses=responses)


RUNS = [run_of("x"), run_of("y")]


def reference_of(request: Mapping[str, Any]) -> str:
    return dict(marked(last_user_text(request))[0])["reference"]


@pytest.mark.parametrize("settings", [{"reference": True}, {"prompt": PAIR}])
def test_the_judge_sees_the_right_answer_of_every_query_that_has_one(
    server: DirectServer, settings: dict[str, Any], tmp_path: Path
) -> None:
    server.answer = lambda _: "Good.\n[[A]]"
    judge = PairwiseJudge(DirectLLM("judge", server, cache=False), **settings)
    assert judge.reference
    judged = judge.compare(DATASET, RUNS, out=tmp_path / "votes.jsonl", progress=False)
    assert {reference_of(request) for request in server.requests} == set(RIGHT.values())
    assert {judgment.query_id for judgment in judged.judgments} == RIGHT.keys()
    reasons = {skipped.query_id: skipped.reason for skipped in judged.skipped}
    assert reasons.keys() == {"none", "open"}
    assert "neither short answers nor a reference" in reasons["none"]
    assert "no right answer" in reasons["open"]
    assert judge.estimate(DATASET, RUNS).calls == 3


def test_the_prompt_that_ships_is_the_same_without_it(server: DirectServer) -> None:
    server.answer = lambda _: "Good.\n[[A]]"
    llm = DirectLLM("judge", server, cache=False)
    plain, shown = PairwiseJudge(llm), PairwiseJudge(llm, reference=True)
    plain.compare(DATASET, RUNS, progress=False)
    assert len(server.requests) == 5
    assert not any("reference" in last_user_text(request) for request in server.requests)
    server.requests.clear()
    shown.compare(DATASET, RUNS, progress=False)
    text = last_user_text(server.requests[0])
    assert "going by the text marked <reference " in text
    assert "going by the passages" not in text
    assert (plain.reference, plain.prompt_digest) == (False, "")
    assert len(shown.prompt_digest) == 16
    assert repr(shown).endswith("reference=True)")


@each_case("name", INJECTIONS)
def test_no_reference_leaves_its_marks(name: str) -> None:
    response = Response(query_id="q", text="Two")

    def prompt(answer: str, template: str | None) -> tuple[list[tuple[str, str]], str]:
        query = Query(id="q", language="en", text="Who?", answers=(answer,))
        own = template_of(template, FIELDS, "x")
        return marked(judge_question(query, response, response, own, reference=True).prompt)

    for template in (None, PAIR):
        texts, outside = prompt(INJECTIONS[name] or "-", template)
        assert [key for key, _ in texts] == ["question", "reference", "response-a", "response-b"]
        assert outside == prompt("Ada", template)[1]


def test_a_prompt_without_the_field_cannot_show_it() -> None:
    with pytest.raises(SettingError, match=r"has no field \{reference\}; add the field"):
        PairwiseJudge("m", prompt=PAIR.replace("{reference}", ""), reference=True)
    assert not PairwiseJudge("m", prompt=PAIR.replace("{reference}", "")).reference
