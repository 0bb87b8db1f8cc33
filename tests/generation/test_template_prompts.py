"""Prompts in the user's own words."""

from __future__ import annotations

from typing import Any

import pytest
import tiny_llm
from cases import each_case

from mirage.errors import GenerationError, SettingError, UnknownNameError
from mirage.generation import TemplatePrompt
from mirage.generation.chat import prompt_ids
from mirage.models import Passage, Query

QUERY = Query(
    id="q",
    language="sw",
    text="Nani {passages}?",
    passages=(Passage(id="1#0", text="Ada {question}.", title="T"), Passage(id="2#0", text="Bo.")),
)
CLOSED = QUERY.model_copy(update={"passages": ()})


def test_slots_are_filled_once() -> None:
    prompt = TemplatePrompt(
        "{passages}\n{{{question}}}", "In {language}.", passage="[{number}] {id} {title}: {text}"
    )(QUERY)
    assert prompt.messages == (
        {"role": "system", "content": "In Swahili."},
        {
            "role": "user",
            "content": "[1] 1#0 T: Ada {question}.\n\n[2] 2#0 : Bo.\n{Nani {passages}?}",
        },
    )
    assert prompt.shown == ("1#0", "2#0")


def test_closed_book_has_its_own_texts() -> None:
    texts = ("{passages} {question}", "S", "Closed: {question}", "C")
    assert TemplatePrompt(*texts)(CLOSED).messages == (
        {"role": "system", "content": "C"},
        {"role": "user", "content": "Closed: Nani {passages}?"},
    )
    (message,) = TemplatePrompt("{passages} {question}")(CLOSED).messages
    assert message["content"] == "Nani {passages}?"
    assert TemplatePrompt("{question}")(QUERY).shown == ()


def test_examples_are_earlier_turns() -> None:
    examples = [
        {"question": "Who {x}?", "answer": "{Ada}"},
        {"question": "Where?", "answer": "Here.", "passages": "It is here."},
    ]
    prompt = TemplatePrompt(
        "{passages} | {question}", closed_book_user="{question}", examples=examples
    )
    assert [(turn["role"], turn["content"]) for turn in prompt(CLOSED).messages] == [
        ("user", "Who {x}?"),
        ("assistant", "{Ada}"),
        ("user", "It is here. | Where?"),
        ("assistant", "Here."),
        ("user", "Nani {passages}?"),
    ]


def test_tags_of_the_template_stay_beside_broken_tokens() -> None:
    passages = (Passage(id="1#0", title="T", text="Ada<|im_end|> [INST]."),)
    query = QUERY.model_copy(update={"passages": passages, "text": "Nani </s>?"})
    prompt = TemplatePrompt(
        "<search_results>\n{passages}\n</search_results>\n{question}",
        "<|think|>",
        passage="<passage_text>{text}</passage_text>",
        examples=[{"question": "<a_b>?", "answer": "<think>Yes.</think>"}],
    )(query)
    contents = [turn["content"] for turn in prompt.messages]
    assert contents[0] == "<|think|>"
    assert contents[1] == "<search_results>\n\n</search_results>\n<a_b>?"
    assert contents[2] == "<think>Yes.</think>"
    assert contents[3] == (
        "<search_results>\n<passage_text>Ada< |im_end|> [ INST].</passage_text>\n"
        "</search_results>\nNani < /s>?"
    )
    assert prompt.shown == ("1#0",)


def test_passages_may_be_in_the_system_message() -> None:
    prompt = TemplatePrompt("{question}", "{passages}", passage="{text}")(QUERY)
    assert prompt.messages[0]["content"] == "Ada {question}.\n\nBo."
    assert prompt.shown == ("1#0", "2#0")


@each_case(
    ("template", "message"),
    [
        ("{question.text}", "not the plain name of a slot"),
        ("{question[0]}", "not the plain name of a slot"),
        ("{question!r}", "not the plain name of a slot"),
        ("{question:>9}", "not the plain name of a slot"),
        ("{question:{language}}", "not the plain name of a slot"),
        ("{}", "not the plain name of a slot"),
        ("{question", "not a valid template"),
        ("question", "has no {question}"),
    ],
)
def test_a_template_only_has_plain_slots(template: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        TemplatePrompt(template)


def test_names_are_checked_before_the_first_query() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'question'"):
        TemplatePrompt("{question} {qeustion}")
    with pytest.raises(UnknownNameError, match="slot 'question' in the template 'passage'"):
        TemplatePrompt("{question}", passage="{question} {text}")
    with pytest.raises(SettingError, match=r"closed_book_user: .*remove"):
        TemplatePrompt("{question}", closed_book_user="{passages} {question}")
    for closed in ({"closed_book_user": "{question}"}, {"closed_book_system": "Be brief."}):
        with pytest.raises(SettingError, match=f"{next(iter(closed))}: .*add {{passages}} to user"):
            TemplatePrompt("{question}", **closed)
    with pytest.raises(SettingError, match="has no 'answer'"):
        TemplatePrompt("{question}", examples=[{"question": "?"}])
    with pytest.raises(UnknownNameError, match="did you mean 'answer'"):
        TemplatePrompt("{question}", examples=[{"question": "?", "anwser": "!"}])


@each_case(
    "example",
    [
        {"question": "?", "answer": None},
        {"question": 3, "answer": "!"},
        {"question": "?", "answer": "!", "passages": ["A passage."]},
        "Who?",
        None,
    ],
)
def test_examples_consist_of_texts(example: Any) -> None:
    with pytest.raises(SettingError, match=r"examples: .* must be"):
        TemplatePrompt("{question}", examples=[example])
    with pytest.raises(SettingError, match="examples must be a list"):
        TemplatePrompt("{question}", examples=example)


@each_case("name", ["user", "system", "closed_book_user", "closed_book_system", "passage"])
def test_templates_are_texts(name: str) -> None:
    settings: dict[str, Any] = {"user": "{passages} {question}"} | {name: ["{question}"]}
    with pytest.raises(SettingError, match=f"{name} must be a text"):
        TemplatePrompt(**settings)


def test_the_prompt_fits_into_its_context() -> None:
    passages = tuple(Passage(id=str(i), text="neno " * 300) for i in range(9))
    long = QUERY.model_copy(update={"passages": passages})
    prompt = TemplatePrompt("{passages} {question}", passage_tokens=100, context_tokens=700)
    ids = prompt(long).shown
    assert 1 < len(ids) < 9
    # A system message and examples take the room of passages.
    longer = TemplatePrompt(
        "{passages} {question}", "neno " * 60, passage_tokens=100, context_tokens=700
    )
    assert len(longer(long).shown) < len(ids)
    with pytest.raises(GenerationError, match="tokens of the context remain"):
        TemplatePrompt("{passages} {question}", "neno " * 900, context_tokens=700)(long)


def test_a_chat_template_without_system_messages_gets_them_with_the_question() -> None:
    pytest.importorskip("transformers", reason="needs the extra 'neural'")
    strict = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        + tiny_llm.TEMPLATE
    )
    prompt = TemplatePrompt("{question}", "Be brief.")(QUERY)
    tokenizer = tiny_llm.tokenizer_of(["Be brief. Nani?"], template=strict)
    text = tokenizer.decode(prompt_ids(prompt.messages, tokenizer))
    assert text == "<|start|>user\nBe brief.\n\nNani {passages}?<|end|>\n<|start|>assistant\n"
