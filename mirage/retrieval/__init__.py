"""Retrieval: find the passages of a corpus that may answer a question, and measure the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.retrieval.base import ContextProcessor, Reranker, Retriever
    from mirage.retrieval.bm25 import BM25
    from mirage.retrieval.context import ExtractiveCompressor, SentencePruner, compression
    from mirage.retrieval.dense import DenseRetriever
    from mirage.retrieval.evaluation import evaluate, qrels
    from mirage.retrieval.rerank import CrossEncoderReranker, EndpointReranker, LLMReranker
    from mirage.retrieval.rewriting import LLMQueryRewriter, RecordedQueries, RewritingRetriever
    from mirage.retrieval.run import RetrievalRun
    from mirage.retrieval.simple import HybridRetriever, OracleRetriever, RunRetriever
    from mirage.retrieval.sparse import SparseRetriever

__all__ = [
    "BM25",
    "ContextProcessor",
    "CrossEncoderReranker",
    "DenseRetriever",
    "EndpointReranker",
    "ExtractiveCompressor",
    "HybridRetriever",
    "LLMQueryRewriter",
    "LLMReranker",
    "OracleRetriever",
    "RecordedQueries",
    "Reranker",
    "RetrievalRun",
    "Retriever",
    "RewritingRetriever",
    "RunRetriever",
    "SentencePruner",
    "SparseRetriever",
    "compression",
    "evaluate",
    "qrels",
]

_NAMES = {
    "mirage.retrieval.base": ("ContextProcessor", "Reranker", "Retriever"),
    "mirage.retrieval.bm25": ("BM25",),
    "mirage.retrieval.context": ("ExtractiveCompressor", "SentencePruner", "compression"),
    "mirage.retrieval.dense": ("DenseRetriever",),
    "mirage.retrieval.evaluation": ("evaluate", "qrels"),
    "mirage.retrieval.rerank": ("CrossEncoderReranker", "EndpointReranker", "LLMReranker"),
    "mirage.retrieval.rewriting": ("LLMQueryRewriter", "RecordedQueries", "RewritingRetriever"),
    "mirage.retrieval.run": ("RetrievalRun",),
    "mirage.retrieval.simple": ("HybridRetriever", "OracleRetriever", "RunRetriever"),
    "mirage.retrieval.sparse": ("SparseRetriever",),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
