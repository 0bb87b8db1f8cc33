"""LambdaMART: trees that learn the order of models, and a slope from their scores to logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mirage._base.arrays import Floats
from mirage.errors import MirageError, needing

__all__ = ["LambdaMART", "fit_lambdamart"]


TREES = 100

PARAMETERS = {
    "objective": "lambdarank",
    "learning_rate": 0.05,
    "num_leaves": 4,
    "min_data_in_leaf": 10,
    "lambda_l2": 1.0,
    "verbosity": -1,
    # One thread, so that the result does not depend on the number of cores.
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
}


@dataclass(frozen=True)
class LambdaMART:
    """A fitted ranker that predicts a model's logit as ``slope * (score - centre)``.

    Attributes:
        booster: LightGBM booster that computes scores.
        slope: Logits per unit of score.
        centre: Mean score of the training rows.
    """

    booster: Any
    slope: float
    centre: float

    def predict(self, X: Floats) -> Floats:
        """Return logits of rows ``X`` (rows, features)."""
        return np.asarray(self.slope * (self.booster.predict(X) - self.centre))


def fit_lambdamart(
    X: Sequence[Floats], y: Sequence[Floats], monotone: Sequence[int], *, seed: int
) -> LambdaMART:
    """Fit the order of the models in each tournament, then a slope from scores to logits.

    LambdaMART is boosting on the pairs of a list; each pair is weighted by the change of the metric
    if the two were swapped (Burges 2010, From RankNet to LambdaRank to LambdaMART: An Overview,
    MSR-TR-2010-82, section 7; the implementation is LightGBM's). Here a list is a tournament, and
    the metric is its NDCG over all positions; the gain of a model is the number of models that it
    beats. Scores have no unit. The slope from scores to logits is the least-squares slope over all
    lists, and at least 0.

    Args:
        X: Features of each language, ``(tournaments, models, features)``.
        y: Logits of each language, ``(tournaments, models)``.
        monotone: 1 for a feature that must not lower the logit as it rises, -1 for one that must
            not raise it, 0 for any other.
        seed: Random seed.

    Raises:
        MissingPackageError: If the extra ``ltr`` is not installed.
        MirageError: If LightGBM is installed without a system library that it needs.
    """
    lightgbm = _import_lightgbm()
    largest = max(part.shape[1] for part in y)
    parameters = {
        **PARAMETERS,
        "label_gain": list(range(largest)),
        "lambdarank_truncation_level": largest,
        "monotone_constraints": list(monotone),
        "seed": seed,
    }
    rows = np.concatenate([part.reshape(-1, part.shape[-1]) for part in X])
    logits = np.concatenate([part.ravel() for part in y])
    # The label of a model is the number of models that it beats in its tournament.
    labels = np.concatenate([part.argsort(axis=1).argsort(axis=1).ravel() for part in y])
    lists = np.concatenate([np.full(len(part), part.shape[1]) for part in y])
    booster = lightgbm.train(parameters, lightgbm.Dataset(rows, labels, group=lists), TREES)
    scores = booster.predict(rows)
    centre = float(scores.mean())
    return LambdaMART(booster, _slope(scores - centre, logits), centre)


def _import_lightgbm() -> Any:
    try:
        with needing("lightgbm", "ltr"):
            import lightgbm
    except OSError as error:
        raise MirageError(
            f"LightGBM cannot be loaded: {error}; install the OpenMP library of the system, "
            "on Debian and Ubuntu: apt-get install libgomp1"
        ) from error
    return lightgbm


def _slope(scores: Floats, logits: Floats) -> float:
    """Return the least-squares slope through the origin, at least 0; 0 if all scores are equal."""
    square = float(scores @ scores)
    return max(float(scores @ logits) / square, 0.0) if square > 0 else 0.0
