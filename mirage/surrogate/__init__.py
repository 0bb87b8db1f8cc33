"""Surrogates predict a model's logit from its features; they are trained on a simulated arena."""

from mirage.surrogate.ranker import Prediction, SurrogateRanker, Validation

__all__ = ["Prediction", "SurrogateRanker", "Validation"]
