"""Retrieval: from a question to the passages of a corpus that may answer it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.retrieval.bm25 import BM25, Hit

__all__ = ["BM25", "Hit"]

__getattr__, __dir__ = lazy(__name__, __file__)
