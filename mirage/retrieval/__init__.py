"""Retrieval: find the passages of a corpus that may answer a question, and measure the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.retrieval.base import ContextProcessor, Reranker, Retriever
    from mirage.retrieval.bm25 import BM25, Hit
    from mirage.retrieval.context import SentencePruner
    from mirage.retrieval.dense import DenseRetriever
    from mirage.retrieval.evaluation import (
        RetrievalDifference,
        RetrievalEvaluation,
        RetrievalMean,
        evaluate,
        qrels,
    )
    from mirage.retrieval.rerank import CrossEncoderReranker, EndpointReranker, LLMReranker
    from mirage.retrieval.rewriting import (
        LLMQueryRewriter,
        QueryRewriter,
        RecordedQueries,
        RewritingRetriever,
    )
    from mirage.retrieval.run import Hits, RetrievalRun
    from mirage.retrieval.simple import HybridRetriever, OracleRetriever, RunRetriever
    from mirage.retrieval.sparse import SparseRetriever

__all__ = [
    "BM25",
    "ContextProcessor",
    "CrossEncoderReranker",
    "DenseRetriever",
    "EndpointReranker",
    "Hit",
    "Hits",
    "HybridRetriever",
    "LLMQueryRewriter",
    "LLMReranker",
    "OracleRetriever",
    "QueryRewriter",
    "RecordedQueries",
    "Reranker",
    "RetrievalDifference",
    "RetrievalEvaluation",
    "RetrievalMean",
    "RetrievalRun",
    "Retriever",
    "RewritingRetriever",
    "RunRetriever",
    "SentencePruner",
    "SparseRetriever",
    "evaluate",
    "qrels",
]

__getattr__, __dir__ = lazy(__name__, __file__)
