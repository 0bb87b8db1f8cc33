"""Surrogates: regressions that predict the Bradley-Terry logit of a model without a judge.

The model is a retrieval-augmented generation system. The surrogate uses features of its responses.
"""

from __future__ import annotations

from mirage.surrogate.ranker import Prediction, SurrogateRanker

__all__ = [
    "Prediction",
    "SurrogateRanker",
]
