"""Asking for an answer in a form that can be read, and again where it cannot."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from mirage.llm.client import Completion, Connection, Message

__all__ = ["ASKS", "ask_until", "final_verdict", "unread", "without_verdicts"]

T = TypeVar("T")

ASKS = 6
"""How often a question is put, at most: once, and five times again."""

_SHOWN = 200  # characters of an answer that cannot be read to show
_VERDICT = re.compile(r"\[\[([^\[\]]*)\]\]")
_LAST_LINE = re.compile(
    rf"""
    (?: (?!\s*>) .*[.!?…。।] )?  # a sentence of whoever gives the verdict, and not of a quote
    [\s\#*_]*+
    (?: (?: (?:so|thus|therefore|hence|overall) ,? \s+ )? (?: (?:my|the|our) \s+ )?
        (?: (?:final|overall) \s+ )?
        (?: answer|choice|conclusion|decision|grade|judge?ment|preference|rating|result|score
          | verdict|winner )
        [\s*_]*+ (?: is \b | [:：–—-] )?+ [\s:*_]*+
    )?
    {_VERDICT.pattern} [\s*_.。]*+
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


async def ask_until(
    connection: Connection,
    messages: Sequence[Message],
    read: Callable[[Completion], T | None],
    *,
    reminder: str,
) -> tuple[T | None, Completion]:
    """Ask until ``read`` finds a value in the answer; the value, and the last answer.

    The first question is the messages as they are. The others end in ``reminder``, which says how
    to answer: what was answered before is not shown again. The value is ``None`` where ``read``
    gave ``None`` each time.

    Raises:
        LLMError: a question was not answered; no more are asked.
    """
    *before, last = messages
    reminded = [*before, {**last, "content": f"{last['content']}\n\n{reminder}"}]
    for sample in range(ASKS):
        completion = await connection.ask(reminded if sample else messages, sample=sample)
        value = read(completion)
        if value is not None:
            break
    return value, completion


def unread(completion: Completion, what: str) -> str:
    """Why :func:`ask_until` gave no value: ``what`` it should have found, and what was written."""
    text = " ".join(completion.text.split())
    shown = text if len(text) <= _SHOWN else f"...{text[3 - _SHOWN :]}"
    cut = "; max_tokens cut it off: give more" if completion.finish_reason == "length" else ""
    return f"no {what} in {ASKS} answers, the last of them {shown!r}{cut}"


def final_verdict(text: str, verdicts: Collection[str]) -> str | None:
    """The verdict in double brackets, such as ``[[A]]``, that ends a text.

    A text names verdicts of others too, so it has to stand on the last line: alone, behind whole
    sentences, or behind a label such as ``Final verdict:``; bold or not, with or without a full
    stop. In a quote, behind other words or with text after it, it may be what somebody else said,
    and is none; nor is there one where the line names two, or one that is not among ``verdicts``.
    """
    line = text.rstrip().rpartition("\n")[2]
    named = {verdict.strip() for verdict in _VERDICT.findall(line)}
    if len(named) != 1 or not _LAST_LINE.fullmatch(line):
        return None
    verdict = named.pop()
    return verdict if verdict in verdicts else None


def without_verdicts(text: str) -> str:
    """A text to show, in which nothing reads as a verdict: whoever quotes it gives none.

    Nor are there lone surrogates in it, which files may hold and which cannot be sent.
    """
    return re.sub(r"\[(?=\[)", "[ ", text).encode("utf-8", "replace").decode()
