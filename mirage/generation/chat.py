"""Conversations as the tokens that a local model reads and writes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import Any

from mirage.generation.prompts import CONTEXT_TOKENS, RagPrompt
from mirage.generation.short_answers import ShortAnswerPrompt
from mirage.llm import Message
from mirage.llm.controls import apart

__all__ = ["completion_ids", "end_ids", "own_prompt", "plain_messages", "prompt_ids"]

# Not every tokenizer says of all of its control tokens that they are special.
_CONTROL = re.compile(r"<\S+>|\[\S+\]")


def plain_messages(messages: Sequence[Message], tokenizer: Any) -> list[dict[str, str]]:
    """The messages, with what the tokenizer would read as control tokens broken up.

    A passage that holds ``<|im_end|>`` would otherwise end the user's turn and begin another.
    """
    tokens = filter(_CONTROL.fullmatch, tokenizer.get_added_vocab())
    controls = sorted({*tokenizer.all_special_tokens, *tokens})
    plain = [dict(message) for message in messages]
    for message, control in product(plain, controls):
        message["content"] = message["content"].replace(control, apart(control))
    return plain


def prompt_ids(messages: Sequence[Message], tokenizer: Any) -> list[int]:
    """The token ids of a prompt, up to where the model's answer begins.

    By the tokenizer's chat template; a tokenizer without one gets the bare text.
    """
    # A template writes the special tokens itself.
    bare = tokenizer.chat_template is None
    ids: list[int] = tokenizer(_prompt(messages, tokenizer), add_special_tokens=bare)["input_ids"]
    return ids


def completion_ids(
    messages: Sequence[Message], answer: str, tokenizer: Any, ends: Sequence[int]
) -> list[int]:
    """The token ids of an answer to a prompt, as its chat template writes it, and of its end.

    They are to stand behind those of :func:`prompt_ids`: the model then reads what it will read
    when it is asked, and learns to end its answer.

    Args:
        messages: the prompt.
        answer: what the model should say.
        tokenizer: the model's.
        ends: the tokens that end an answer, as :func:`end_ids` gives them.
    """
    turn = {"role": "assistant", "content": answer}
    text = plain_messages([turn], tokenizer)[0]["content"]
    if tokenizer.chat_template is not None:
        plain = plain_messages([*messages, turn], tokenizer)
        whole = tokenizer.apply_chat_template(plain, tokenize=False)
        prompt = _prompt(messages, tokenizer)
        # Some templates write a finished turn otherwise than the turn that they ask for.
        if whole.startswith(prompt):
            text = whole[len(prompt) :].rstrip()
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids if ids and ids[-1] in ends else [*ids, *ends[:1]]


def end_ids(tokenizer: Any, generation_config: Any) -> list[int]:
    """The tokens that end a model's answer, first that of its tokenizer."""
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
    """A prompt that a model's tokenizer counts, in no more than the model can read.

    Args:
        tokenizer: the model's.
        longest: the tokens that the model can read, at most; ``None`` where nobody knows.
        answer_tokens: how many are for the answer; by default as many as the prompt's own.
        short: whether a short answer is asked for, in place of a reason and an answer.
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
    text: str = tokenizer.apply_chat_template(plain, tokenize=False, add_generation_prompt=True)
    return text
