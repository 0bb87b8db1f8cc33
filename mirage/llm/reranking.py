"""Relevance scores of many texts from a reranking endpoint."""

from __future__ import annotations

from collections.abc import Sequence

from mirage._base.concurrency import for_each, run_sync
from mirage._base.progress import progress_bar
from mirage.llm.client import LLM, RerankForm
from mirage.llm.embeddings import TOGETHER, outcomes_of
from mirage.llm.questions import Outcome, harmless


def relevance_all(
    llm: LLM, asked: Sequence[tuple[str, Sequence[str]]], *, form: RerankForm = "jina"
) -> list[list[Outcome[float]]]:
    """Return the relevance score of each query's texts, or the reason why there is none.

    Up to 32 texts of a query are sent in a request, and ``llm.concurrency`` requests at a time.
    Texts that are in the cache are not sent. If a request is refused as too large, its texts are
    sent in halves, as in :func:`mirage.llm.embeddings.embed_all`.

    Args:
        llm: The model, such as ``LLM("BAAI/bge-reranker-v2-m3", base_url="http://localhost:8000")``.
        asked: Pairs of a query and its texts; may be empty.
        form: The format of requests: ``"jina"`` for Jina, Cohere, Voyage and vLLM, ``"tei"`` for
            text-embeddings-inference.

    Returns:
        One list per query with one outcome per text: the score as its ``value``, or the reason in
        ``failed``.
    """
    clean = [(harmless(query), [harmless(text) for text in texts]) for query, texts in asked]
    parts = [
        (query, distinct[i : i + TOGETHER])
        for query, texts in clean
        # A text may occur twice for a query, but is sent only once.
        for distinct in [list(dict.fromkeys(texts))]
        for i in range(0, len(distinct), TOGETHER)
    ]
    outcomes: dict[tuple[str, str], Outcome[float]] = {}

    async def ask_each() -> None:
        with progress_bar(len(parts), "requests", True) as bar:

            async def ask(part: tuple[str, Sequence[str]]) -> None:
                query, texts = part
                scores = await outcomes_of(
                    texts, lambda few: connection.relevance(query, few, form)
                )
                outcomes.update(zip(((query, text) for text in texts), scores, strict=True))
                bar.update()

            async with llm.connect() as connection:
                await for_each(parts, ask, llm.concurrency)

    if parts:
        run_sync(ask_each())
    return [[outcomes[query, text] for text in texts] for query, texts in clean]
