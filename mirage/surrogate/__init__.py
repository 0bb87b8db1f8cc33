"""Surrogates: a model's logit from its features, and the simulated arena they were trained on."""

from mirage.surrogate.ranker import Prediction, SurrogateRanker, Validation

__all__ = ["Prediction", "SurrogateRanker", "Validation"]
