"""Corpora: read documents, cut them into passages, and store the passages on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.corpus.chunking import chunk
    from mirage.corpus.corpus import Corpus
    from mirage.corpus.documents import read_documents, read_passages

__all__ = [
    "Corpus",
    "chunk",
    "read_documents",
    "read_passages",
]

_NAMES = {
    "mirage.corpus.chunking": ("chunk",),
    "mirage.corpus.corpus": ("Corpus",),
    "mirage.corpus.documents": ("read_documents", "read_passages"),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
