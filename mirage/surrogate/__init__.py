"""Surrogates: regressions that predict the Bradley-Terry logit of a model without a judge.

A model is a retrieval-augmented generation system. A surrogate predicts its logit (its strength in
comparisons with other models) from features of its responses.
"""

from __future__ import annotations

from mirage.surrogate.ranker import Prediction, SurrogateRanker

__all__ = [
    "Prediction",
    "SurrogateRanker",
]
