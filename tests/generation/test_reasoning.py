"""Reasoning models: what they write before the answer is stored apart from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cases import each_case
from llm_server import ChatServer, Reply

from mirage import LLM, FeatureSuite, MirageDataset, OpenAIGenerator, Run, respond
from mirage._base.reasoning import split_reasoning
from mirage.errors import GenerationError
from mirage.llm.cache import Cache
from mirage.models import Query, Response

QUERIES = MirageDataset(
    [
        Query(id="q1", language="en", text="Which river is the longest?", answers=("Nile",)),
        Query(id="q2", language="en", text="Which one is the widest?", answers=("Amazon",)),
    ]
)
THOUGHTS = "Is it the Amazon? No: the Nile."


@each_case(
    ("text", "reasoning", "answer"),
    [
        ("The Nile.", "", "The Nile."),
        (" The Nile. ", "", " The Nile. "),
        (f"<think>\n{THOUGHTS}\n</think>\n\nCongo.", THOUGHTS, "Congo."),
        (f"\n<Thinking>{THOUGHTS}</thinking> Congo.", THOUGHTS, "Congo."),
        # Some chat templates open the block, so that the model only closes it.
        (f"{THOUGHTS}\n</think>\n\nCongo.", THOUGHTS, "Congo."),
        (f"<think>{THOUGHTS}", THOUGHTS, ""),
        ("<think></think>Congo.", "", "Congo."),
        ("A page writes <think>x</think>.", "", "A page writes <think>x</think>."),
    ],
)
def test_reasoning_is_split_from_the_answer(text: str, reasoning: str, answer: str) -> None:
    assert split_reasoning(text) == (reasoning, answer)
    response = Response(query_id="q1", text=text)
    assert (response.text, response.reasoning or "") == (answer, reasoning)


def answers_of(server: ChatServer, reply: Reply | str, **settings: Any) -> Run:
    server.answer = lambda _: reply
    llm = LLM("m", base_url=server.url, **{"cache": False} | settings)
    return OpenAIGenerator(llm).run(QUERIES, progress=False)


REPLIES = {
    "text": f"<think>{THOUGHTS}</think>\nCongo.",
    "reasoning_content": Reply("Congo.", message={"reasoning_content": THOUGHTS}),
    "reasoning": Reply("Congo.", message={"reasoning": THOUGHTS}),
    "parts": Reply(
        "",
        message={
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": THOUGHTS}]},
                {"type": "text", "text": "Congo."},
            ]
        },
    ),
}


@pytest.mark.parametrize("kind", REPLIES)
def test_every_form_of_servers_is_stored_and_no_metric_reads_it(
    server: ChatServer, kind: str, tmp_path: Path
) -> None:
    run = answers_of(server, REPLIES[kind])
    assert [(r.text, r.reasoning) for r in run] == [("Congo.", THOUGHTS)] * 2
    run.save(tmp_path / "m.jsonl")
    assert Run.load(tmp_path / "m.jsonl", language="en") == run
    # The reasoning has both right answers, and the answer has none.
    values = FeatureSuite(["qa_match", "qa_f1", "bergen_match", "answer_length"]).score(
        QUERIES, run
    )
    plain = Run(
        model="m",
        language="en",
        responses=tuple(Response(query_id=id_, text="Congo.") for id_ in QUERIES.query_ids),
    )
    same = FeatureSuite(["qa_match", "qa_f1", "bergen_match", "answer_length"]).score(
        QUERIES, plain
    )
    assert (values.values == same.values).all()
    assert values.values[:, 0].tolist() == [0, 0]


def test_an_answer_of_reasoning_alone_is_a_failure(server: ChatServer) -> None:
    with pytest.raises(GenerationError, match="used up max_tokens before it wrote any text"):
        answers_of(server, Reply(f"<think>{THOUGHTS}", finish_reason="length"))


def test_the_cache_has_the_reasoning_also_of_earlier_versions(
    server: ChatServer, tmp_path: Path
) -> None:
    cache = Cache(tmp_path / "llm.sqlite")
    run = answers_of(server, REPLIES["reasoning_content"], cache=cache)
    server.requests.clear()
    assert answers_of(server, "not asked", cache=cache) == run
    assert not server.requests
    llm = LLM("m", base_url=server.url, cache=cache)
    messages = [{"role": "user", "content": "Which?"}]
    earlier = {"text": REPLIES["text"], "finish_reason": "stop"}
    tokens = {"prompt_tokens": 1, "completion_tokens": 2}
    cache.put(llm.digest(messages), "m", earlier | tokens)
    completion = llm.complete(messages)
    assert (completion.text, completion.reasoning, completion.cached) == ("Congo.", THOUGHTS, True)


def test_functions_and_files_are_split_too(tmp_path: Path) -> None:
    run = respond(lambda _: f"<think>{THOUGHTS}</think>Congo.", QUERIES, "m", progress=False)
    assert [(r.text, r.reasoning) for r in run] == [("Congo.", THOUGHTS)] * 2
    path = tmp_path / "m.jsonl"
    path.write_text('{"query_id": "q1", "output": "<think>a</think>b"}\n')
    assert Run.load(path, language="en")["q1"].text == "b"
