"""The time and the tokens of the calls that answer queries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pydantic import BaseModel


class Call(BaseModel):
    """The resources that the answer to one query took; a value is ``None`` if it is unknown.

    Attributes:
        query_id: Id of the query.
        seconds: Time until the answer arrived, with all retries. If an LLM's answer was read from
            the cache, it is the time of the original call.
        prompt_tokens: Tokens of the prompt, as counted by the server or the tokenizer. For a local
            model, it is the mean of a run.
        completion_tokens: Tokens of the answer.
    """

    query_id: str
    seconds: float | None = None
    prompt_tokens: float | None = None
    completion_tokens: float | None = None


_Amounts = tuple[float | None, int | None, int | None]
"""Seconds, tokens of the prompt, and tokens of the answer."""

_RECORD: ContextVar[Callable[[Call], None] | None] = ContextVar("record", default=None)
_REQUESTS: ContextVar[list[_Amounts] | None] = ContextVar("requests", default=None)


@contextmanager
def recording_calls(record: Callable[[Call], None]) -> Iterator[None]:
    """Pass the resources of each answer in a ``with`` block to the function ``record``."""
    token = _RECORD.set(record)
    try:
        yield
    finally:
        _RECORD.reset(token)


@contextmanager
def measuring_call(query_id: str) -> Iterator[None]:
    """Measure the call that answers a query in a ``with`` block; nothing is recorded if it fails.

    If the call sends requests to LLMs, their recorded time replaces the time of the block, because
    an answer from the cache takes no time.
    """
    record = _RECORD.get()
    if record is None:
        yield
        return
    requests: list[_Amounts] = []
    token = _REQUESTS.set(requests)
    start = time.monotonic()
    try:
        yield
    finally:
        _REQUESTS.reset(token)
    amounts = requests or [(time.monotonic() - start, None, None)]
    seconds, prompt, completion = (
        None if None in column else sum(column) for column in zip(*amounts, strict=True)
    )
    record(
        Call(
            query_id=query_id,
            seconds=None if seconds is None else round(seconds, 6),
            prompt_tokens=prompt,
            completion_tokens=completion,
        )
    )


def note_request(seconds: float | None, tokens: tuple[int, int] | None) -> None:
    """Add an LLM's answer to the call that is being measured, if there is one.

    Args:
        seconds: Time until the answer arrived; ``None`` if it is unknown.
        tokens: Tokens of the prompt and of the answer, as the server counted them; ``None`` if it
            did not.
    """
    requests = _REQUESTS.get()
    if requests is not None:
        requests.append((seconds, *(tokens or (None, None))))
