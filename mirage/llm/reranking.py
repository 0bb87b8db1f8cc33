"""Relevance of many texts to questions, from an endpoint for reranking."""

from __future__ import annotations

from collections.abc import Sequence

from mirage._base.concurrency import for_each, run_sync
from mirage._base.progress import progress_bar
from mirage.llm.client import LLM, RerankForm
from mirage.llm.embeddings import TOGETHER, outcomes_of
from mirage.llm.questions import Outcome, harmless

__all__ = ["relevance_all"]


def relevance_all(
    llm: LLM,
    asked: Sequence[tuple[str, Sequence[str]]],
    *,
    form: RerankForm = "jina",
    progress: bool = True,
) -> list[list[Outcome[float]]]:
    """How relevant texts are to their question, or why that is not known.

    Texts are sent as :func:`mirage.llm.embed_all` sends them: 32 in a request, ``llm.concurrency``
    requests at a time, in halves where that is refused as too large; what the cache holds is not
    asked for.

    Args:
        llm: the model, such as ``LLM("BAAI/bge-reranker-v2-m3", base_url="http://localhost:8000")``.
        asked: questions, each with its texts; may be none.
        form: ``"jina"`` as Jina, Cohere, Voyage and vLLM take and answer it, or ``"tei"`` for
            text-embeddings-inference.
        progress: show a progress bar on stderr, if that is a terminal.

    Raises:
        LLMError: there is no key for OpenAI.
    """
    clean = [(harmless(query), [harmless(text) for text in texts]) for query, texts in asked]
    parts = [
        (query, distinct[i : i + TOGETHER])
        for query, texts in clean
        for distinct in [list(dict.fromkeys(texts))]
        for i in range(0, len(distinct), TOGETHER)
    ]
    outcomes: dict[tuple[str, str], Outcome[float]] = {}

    async def ask_each() -> None:
        with progress_bar(len(parts), "requests", progress) as bar:

            async def ask(part: tuple[str, Sequence[str]]) -> None:
                query, texts = part
                found = await outcomes_of(texts, lambda few: connection.relevance(query, few, form))
                outcomes.update(zip(((query, text) for text in texts), found, strict=True))
                bar.update()

            async with llm.connect() as connection:
                await for_each(parts, ask, llm.concurrency)

    if parts:
        run_sync(ask_each())
    return [[outcomes[query, text] for text in texts] for query, texts in clean]
