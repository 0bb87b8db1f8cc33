"""Surrogates: regressions that predict a model's logit from features, without a judge."""

from __future__ import annotations

from mirage.surrogate.ranker import Prediction, SurrogateRanker

__all__ = [
    "Prediction",
    "SurrogateRanker",
]
