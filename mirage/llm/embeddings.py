"""Embeddings of many texts from an OpenAI-compatible endpoint."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from mirage._base.concurrency import for_each, run_sync
from mirage.errors import LLMError
from mirage.llm.client import LLM
from mirage.llm.questions import Outcome, harmless

T = TypeVar("T")

TOGETHER = 32
"""Number of texts in one request.

It is the default limit of text-embeddings-inference, the server with the lowest limit.
"""

_TOO_MUCH = (400, 413, 422)  # statuses for a text that is too long or for too many texts


def embed_all(llm: LLM, texts: Sequence[str]) -> list[Outcome[list[float]]]:
    """Return one outcome per text, in order: its embedding, or the reason why there is none.

    Each distinct text is sent once: 32 texts in a request, and ``llm.concurrency`` requests at a
    time. Texts that are in the cache are not sent. If a request is refused as too large, its texts
    are sent in halves, so that one long text does not make the others fail. Lone surrogates, which
    cannot be sent, become question marks.

    Args:
        llm: The embedding model, such as ``LLM("text-embedding-3-small")``.
        texts: The texts. If there are none, no key is needed. Most servers refuse empty texts.

    Returns:
        One outcome per text, with the embedding as its ``value`` or the reason in ``failed``.
    """
    clean = [harmless(text) for text in texts]
    distinct = list(dict.fromkeys(clean))
    outcomes: dict[str, Outcome[list[float]]] = {}

    async def embed_each() -> None:
        async def embed(part: Sequence[str]) -> None:
            part_outcomes = await outcomes_of(part, connection.embed)
            outcomes.update(zip(part, part_outcomes, strict=True))

        async with llm.connect() as connection:
            parts = [distinct[i : i + TOGETHER] for i in range(0, len(distinct), TOGETHER)]
            await for_each(parts, embed, llm.concurrency)

    if distinct:
        run_sync(embed_each())
    return [outcomes[text] for text in clean]


async def outcomes_of(
    texts: Sequence[str], ask: Callable[[Sequence[str]], Awaitable[Sequence[T]]]
) -> list[Outcome[T]]:
    """Send texts in one request and return one outcome per text.

    If the request is refused as too large, its texts are sent in halves.

    Args:
        texts: The texts.
        ask: Async function that sends texts and returns one value per text.
    """
    try:
        return [Outcome(value) for value in await ask(texts)]
    except LLMError as error:
        if error.status in _TOO_MUCH and len(texts) > 1:
            half = len(texts) // 2
            first = await outcomes_of(texts[:half], ask)
            return first + await outcomes_of(texts[half:], ask)
        return [Outcome(failed=harmless(str(error)))] * len(texts)
