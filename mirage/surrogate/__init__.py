"""Surrogates predict a model's logit from its features; they are trained on a simulated arena."""

from __future__ import annotations

from mirage.surrogate.ranker import Prediction, SurrogateRanker

__all__ = [
    "Prediction",
    "SurrogateRanker",
]
