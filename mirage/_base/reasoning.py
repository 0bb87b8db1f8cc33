"""Separate the reasoning that a model writes before its answer from the answer."""

from __future__ import annotations

import re

_START = re.compile(r"\s*<(think|thinking)>", re.IGNORECASE)
_TAG = re.compile(r"<(/?)(?:think|thinking)>", re.IGNORECASE)


def split_reasoning(text: str) -> tuple[str, str]:
    """Split a model's output into its reasoning and its answer.

    The reasoning is a ``<think>`` block at the start. If the prompt already contains the opening
    tag, the output has only the closing tag. If the block is not closed, because a token limit cut
    the output off, the whole output is reasoning. The reasoning is empty if there is no such block.

    Example:
        >>> split_reasoning("<think>Congo? No.</think>\\n\\nThe Nile.")
        ('Congo? No.', 'The Nile.')
        >>> split_reasoning("The Nile.")
        ('', 'The Nile.')
    """
    start = _START.match(text)
    if start is None:
        tag = _TAG.search(text)
        # An opening tag within the text belongs to the answer, for example to a quotation.
        if tag is None or not tag[1]:
            return "", text
        return text[: tag.start()].strip(), text[tag.end() :].strip()
    end = re.compile(rf"</{start[1]}>", re.IGNORECASE).search(text, start.end())
    if end is None:
        return text[start.end() :].strip(), ""
    return text[start.end() : end.start()].strip(), text[end.end() :].strip()
