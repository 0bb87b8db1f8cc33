"""Chat templates: convert conversations to the token ids that a local model reads and writes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from itertools import product
from typing import Any

from mirage.generation.prompts import CONTEXT_TOKENS, RagPrompt
from mirage.generation.short_answers import ShortAnswerPrompt
from mirage.llm.client import Message
from mirage.llm.controls import apart

# Some tokenizers do not list all of their control tokens as special tokens.
_CONTROL = re.compile(r"<\S+>|\[\S+\]")


def plain_messages(messages: Sequence[Message], tokenizer: Any) -> list[dict[str, str]]:
    """Return the messages with a space inserted in every control token of the tokenizer.

    Without the space, a passage with ``<|im_end|>`` would end the user's turn and could begin
    another.
    """
    tokens = filter(_CONTROL.fullmatch, tokenizer.get_added_vocab())
    controls = sorted({*tokenizer.all_special_tokens, *tokens})
    plain = [dict(message) for message in messages]
    for message, control in product(plain, controls):
        message["content"] = message["content"].replace(control, apart(control))
    return plain


def prompt_ids(messages: Sequence[Message], tokenizer: Any) -> list[int]:
    """Return the token ids of a prompt, up to the start of the model's answer.

    The tokenizer's chat template is applied. If it has none, the bare text is used.
    """
    # A chat template writes the special tokens itself, so they must not be added twice.
    bare = tokenizer.chat_template is None
    ids: list[int] = tokenizer(_prompt(messages, tokenizer), add_special_tokens=bare)["input_ids"]
    return ids


def completion_ids(
    messages: Sequence[Message], answer: str, tokenizer: Any, ends: Sequence[int]
) -> list[int]:
    """Return the token ids of an answer, including the tokens that end it in the chat template.

    The ids of :func:`prompt_ids` followed by these ids are a training example: the model reads the
    prompt exactly as in generation, and learns to end its answer.

    Args:
        messages: The messages of the prompt.
        answer: The answer.
        tokenizer: The model's tokenizer.
        ends: Ids of the tokens that end an answer. The first is appended if the template adds none
            of them.
    """
    turn = {"role": "assistant", "content": answer}
    text = plain_messages([turn], tokenizer)[0]["content"]
    if tokenizer.chat_template is not None:
        plain = plain_messages([*messages, turn], tokenizer)
        whole = _apply_template(plain, tokenizer)
        prompt = _prompt(messages, tokenizer)
        # Some templates write a finished turn differently from the start of an open turn.
        if whole.startswith(prompt):
            text = whole[len(prompt) :].rstrip()
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids if ids and ids[-1] in ends else [*ids, *ends[:1]]


def end_ids(tokenizer: Any, generation_config: Any) -> list[int]:
    """Return the ids of the tokens that end a model's answer.

    The end token of the tokenizer, if it has one, comes first.
    """
    ends = generation_config.eos_token_id
    listed = ends if isinstance(ends, list) else [ends]
    return [id_ for id_ in dict.fromkeys([tokenizer.eos_token_id, *listed]) if id_ is not None]


def own_prompt(
    tokenizer: Any,
    longest: int | None,
    answer_tokens: int | None = None,
    *,
    short: bool = False,
) -> RagPrompt | ShortAnswerPrompt:
    """Return the default prompt function for a local model.

    It counts tokens with the model's tokenizer, and its prompts fit into the model's context.

    Args:
        tokenizer: The model's tokenizer.
        longest: Maximum number of tokens that the model can read; ``None`` if unknown.
        answer_tokens: Number of tokens that are reserved for the answer; ``None`` uses the default
            of the prompt function.
        short: Whether to ask for a short answer instead of a reason and an answer.
    """
    maker = ShortAnswerPrompt if short else RagPrompt
    return maker(
        context_tokens=min(CONTEXT_TOKENS, longest or CONTEXT_TOKENS),
        answer_tokens=maker.answer_tokens if answer_tokens is None else answer_tokens,
        count=lambda text: len(tokenizer.encode(text, add_special_tokens=False)),
    )


def _prompt(messages: Sequence[Message], tokenizer: Any) -> str:
    plain = plain_messages(messages, tokenizer)
    if tokenizer.chat_template is None:
        return "\n\n".join(message["content"] for message in plain)
    return _apply_template(plain, tokenizer, add_generation_prompt=True)


def _apply_template(messages: Sequence[dict[str, str]], tokenizer: Any, **options: bool) -> str:
    """Return the text of a chat as the tokenizer's template writes it.

    If the template has no system role, the system message is put before the next message.
    """
    try:
        text: str = tokenizer.apply_chat_template(messages, tokenize=False, **options)
        return text
    except import_module("jinja2").TemplateError:
        if len(messages) < 2 or messages[0]["role"] != "system":
            raise
    system, first, *rest = messages
    merged = first | {"content": f"{system['content']}\n\n{first['content']}"}
    return _apply_template([merged, *rest], tokenizer, **options)
