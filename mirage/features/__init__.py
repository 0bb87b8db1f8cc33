"""Features of responses, and suites that compute several features of a run.

A feature is a metric with a name. It computes one number for each response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.features.base import (
        Answered,
        Definition,
        Direction,
        Facts,
        Feature,
        NotComputed,
        answered,
    )
    from mirage.features.fault_spans import Span, spans
    from mirage.features.findings import findings_of
    from mirage.features.judged import llm_eval
    from mirage.features.neural import reranker_score, support_entailment, support_neutral
    from mirage.features.nuggets import nugget_recall
    from mirage.features.rated import answer_overlap, fluency
    from mirage.features.registry import facts, feature
    from mirage.features.similarity import answer_similarity
    from mirage.features.suite import FeatureSuite
    from mirage.features.table import FeatureTable

__all__ = [
    "Answered",
    "Definition",
    "Direction",
    "Facts",
    "Feature",
    "FeatureSuite",
    "FeatureTable",
    "NotComputed",
    "Span",
    "answer_overlap",
    "answer_similarity",
    "answered",
    "facts",
    "feature",
    "findings_of",
    "fluency",
    "llm_eval",
    "nugget_recall",
    "reranker_score",
    "spans",
    "support_entailment",
    "support_neutral",
]

_NAMES = {
    "mirage.features.base": (
        "Answered",
        "Definition",
        "Direction",
        "Facts",
        "Feature",
        "NotComputed",
        "answered",
    ),
    "mirage.features.fault_spans": ("Span", "spans"),
    "mirage.features.findings": ("findings_of",),
    "mirage.features.judged": ("llm_eval",),
    "mirage.features.neural": ("reranker_score", "support_entailment", "support_neutral"),
    "mirage.features.nuggets": ("nugget_recall",),
    "mirage.features.rated": ("answer_overlap", "fluency"),
    "mirage.features.registry": ("facts", "feature"),
    "mirage.features.similarity": ("answer_similarity",),
    "mirage.features.suite": ("FeatureSuite",),
    "mirage.features.table": ("FeatureTable",),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
