"""No text moves a verdict, a grade or a label, whoever echoes it, quotes it or has a template."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pytest
from injected_tokens import CONTROLS, MORE, TEMPLATES, cleaned, turns_in
from injections import INJECTIONS, marked

from mirage.arena._prompt import judge_question
from mirage.building.judge_benchmark_steps import _time_question
from mirage.features import answered
from mirage.features.nuggets import Nugget, _assigning_question, _listing_question
from mirage.features.rated import _fluency_question, _overlap_question
from mirage.generation import RagPrompt
from mirage.llm import Question
from mirage.llm.controls import break_controls
from mirage.metaeval import AnswerSentence
from mirage.metaeval.prompts import label_question
from mirage.models import Passage, Query, Response

PLACES = ("question", "passage", "title", "id", "reference", "response")


def query(place: str, text: str) -> tuple[Query, Response]:
    """A query and a response to it, with a text in one place."""
    at = dict.fromkeys(PLACES, "It.") | {"id": "p1"} | {place: text}
    passage = Passage(id=at["id"], title=at["title"], text=at["passage"])
    asked = Query(
        id="q",
        language="en",
        text=at["question"],
        passages=(passage,),
        relevant=(at["id"],),
        reference=f"##Answer: {at['reference']}",
    )
    return asked, Response(query_id="q", text=f"##Answer: {at['response']}")


def verdicts(place: str, text: str) -> Iterator[Question[Any]]:
    asked, response = query(place, text)
    other = Response(query_id="q", text="Another.")
    yield judge_question(asked, response, other)
    yield judge_question(asked, other, response)


def grades(place: str, text: str) -> Iterator[Question[Any]]:
    item = answered(*query(place, text))
    yield _overlap_question(item)  # type: ignore[misc]
    yield _fluency_question(item)


def labels(place: str, text: str) -> Iterator[Question[Any]]:
    asked, response = query(place, text)
    sentence = AnswerSentence(asked, (response.text or "").removeprefix("##Answer: "))
    for strategy in ("zero-shot", "guidelines+cot"):
        yield label_question(sentence, "faithfulness", strategy)
    item = answered(asked, response)
    yield _assigning_question(item, (Nugget("one"), Nugget("two")))
    yield _listing_question(item)  # type: ignore[misc]


def stability(place: str, text: str) -> Iterator[Question[Any]]:
    yield _time_question(query(place, text)[0])


KINDS: dict[str, tuple[Callable[[str, str], Iterator[Question[Any]]], tuple[str, ...]]] = {
    "verdicts": (verdicts, ("A", "B", "C")),
    "grades": (grades, ("5", "1")),
    "labels": (labels, ("Supported", "Not Supported", "support")),
    "stability": (stability, ("STABLE",)),
}


def answers(prompt: str) -> Iterator[str]:
    """What servers make of a prompt that have no mind of their own."""
    texts = [text for _, text in marked(prompt)[0]]
    assert texts
    for text in texts:
        yield text  # an echo
        yield f"I looked at both.\n\nFor it says:\n\n{text}"  # quotes, and ends with it
        yield cleaned(text)
        yield f"It says:\n{cleaned(text)}"
        yield text.rpartition("\n")[2]  # quotes the end alone
    yield "\n\n".join(texts)


@pytest.mark.parametrize("kind", KINDS)
def test_whoever_echoes_or_quotes_says_nothing(kind: str) -> None:
    """A reading would be one that a text has put there, for these servers hold no opinion."""
    asked, values = KINDS[kind]
    moved = [
        (name, place, value)
        for name, make in MORE.items()
        for value in values
        for place in PLACES
        for question in asked(place, make(value))
        for answer in answers(question.prompt)
        if question.form.read(answer) is not None
    ]
    assert moved == []


@pytest.mark.parametrize("kind", [*KINDS, "generation"])
def test_no_template_is_spoken_from_within(kind: str) -> None:
    def prompts(place: str, text: str) -> Iterator[str]:
        if kind == "generation":
            yield str(RagPrompt()(query(place, text)[0]).messages[0]["content"])
        else:
            yield from (question.prompt for question in KINDS[kind][0](place, text))

    texts = {name: make("A") for name, make in MORE.items()}
    broken = [
        (name, place, tokens)
        for name, text in texts.items()
        for place in PLACES
        for prompt in prompts(place, text)
        if (tokens := turns_in(prompt))
    ]
    assert broken == []


def test_the_servers_do_fall_for_what_is_not_broken() -> None:
    for name, make in MORE.items():
        text = make("A")
        bare = f"[[{text}]]" if name.startswith("the answer alone") else text
        tempting = "[[A" in "".join(cleaned(bare).split()) or turns_in(text)
        assert tempting or name.startswith(("rating", "answer in", "the answer alone")), name
    assert len(MORE) >= 60
    assert len(TEMPLATES) >= 8
    assert not set(MORE) & set(INJECTIONS)
    assert not any("CORRECT" in make("A") for make in MORE.values())


@pytest.mark.parametrize("token", CONTROLS)
def test_a_token_is_broken_by_one_blank(token: str) -> None:
    assert break_controls(f"a{token}b") == f"a{token[0]} {token[1:]}b".replace("<<", "< <") or (
        token.startswith("<<")
    )
    assert turns_in(break_controls(f"{token}{token}")) == []
    assert turns_in(break_controls(f"<{token}[{token}]>")) == []


@pytest.mark.parametrize(
    "text",
    [
        *(
            "<b>bold</b>",
            "<br/>",
            "a < b > c",
            "x<y",
            "[1]",
            "[36897421#2]",
            "[Context 2]",
        ),
        *(
            "[[7]]",
            "<https://a.org>",
            "List[str]",
            "[A, B]",
            "[sic]",
            "<div class='x'>",
            "<-|->",
            "<|]]",
            "[NASA]",
        ),
    ],
)
def test_other_brackets_stay_as_they_are(text: str) -> None:
    assert break_controls(text) == text


def test_texts_of_the_first_set_speak_no_template_either() -> None:
    shown = chain(*(verdicts("response", text) for text in INJECTIONS.values()))
    assert [tokens for q in shown if (tokens := turns_in(q.prompt))] == []
