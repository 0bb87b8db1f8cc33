"""Embeddings of many texts, from an endpoint that speaks OpenAI's protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from mirage._base.concurrency import for_each, run_sync
from mirage.errors import LLMError
from mirage.llm.client import LLM
from mirage.llm.questions import Outcome, harmless

__all__ = ["TOGETHER", "embed_all", "outcomes_of"]

T = TypeVar("T")

TOGETHER = 32
"""Texts in one request: what text-embeddings-inference, the strictest server, takes by default."""

_TOO_MUCH = (400, 413, 422)  # what servers say to a text that is too long, or to too many


def embed_all(llm: LLM, texts: Sequence[str]) -> list[Outcome[list[float]]]:
    """The embedding of each of these texts in their order, or why there is none.

    Each distinct text is asked for once, 32 in a request and ``llm.concurrency`` requests at a
    time; what the cache holds is not asked for. A request that is refused as too large is sent in
    halves, so that a text that is too long leaves the others. Lone surrogates, which cannot be
    sent, become question marks.

    Args:
        llm: the model, such as ``LLM("text-embedding-3-small")``.
        texts: may be none; then not even a key is needed. An empty one most servers refuse.

    Raises:
        LLMError: there is no key for OpenAI.
    """
    clean = [harmless(text) for text in texts]
    distinct = list(dict.fromkeys(clean))
    outcomes: dict[str, Outcome[list[float]]] = {}

    async def embed_each() -> None:
        async def embed(part: Sequence[str]) -> None:
            found = await outcomes_of(part, connection.embed)
            outcomes.update(zip(part, found, strict=True))

        async with llm.connect() as connection:
            parts = [distinct[i : i + TOGETHER] for i in range(0, len(distinct), TOGETHER)]
            await for_each(parts, embed, llm.concurrency)

    if distinct:
        run_sync(embed_each())
    return [outcomes[text] for text in clean]


async def outcomes_of(
    texts: Sequence[str], ask: Callable[[Sequence[str]], Awaitable[Sequence[T]]]
) -> list[Outcome[T]]:
    """What ``ask`` gives for these texts in one request, or in halves where that is too large."""
    try:
        return [Outcome(value) for value in await ask(texts)]
    except LLMError as error:
        if error.status in _TOO_MUCH and len(texts) > 1:
            half = len(texts) // 2
            first = await outcomes_of(texts[:half], ask)
            return first + await outcomes_of(texts[half:], ask)
        return [Outcome(failed=harmless(str(error)))] * len(texts)
