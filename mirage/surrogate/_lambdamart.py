"""LambdaMART: trees that learn the order of models, and a slope that turns scores into logits."""

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
    # The same numbers from the same seed, however many cores there are.
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
}


@dataclass(frozen=True)
class LambdaMART:
    """A fitted ranker: a model's logit is ``slope * (score - centre)``."""

    booster: Any
    slope: float
    centre: float

    def predict(self, X: Floats) -> Floats:
        """Logits of rows ``X`` (rows, features)."""
        return np.asarray(self.slope * (self.booster.predict(X) - self.centre))


def fit_lambdamart(
    X: Sequence[Floats], y: Sequence[Floats], monotone: Sequence[int], *, seed: int
) -> LambdaMART:
    """Learn the order of the models of each tournament, then what a score is worth in logits.

    LambdaMART is boosting on the pairs of a list, each weighted by what swapping it would change
    (Burges 2010, From RankNet to LambdaRank to LambdaMART: An Overview, MSR-TR-2010-82, section
    7; the implementation is LightGBM's). Here a list is a tournament, and what changes is its NDCG
    over all places, the gain of a model being how many models it beats. Scores have no unit: the
    slope from scores to logits is that of least squares over all lists, and never negative.
    Settings are as for :func:`~mirage.surrogate.estimators.fit_regressor`.

    Raises:
        MissingPackageError: the extra ``ltr`` is not installed.
        MirageError: LightGBM is installed, but a library of the system that it needs is not.
    """
    lightgbm = _lightgbm()
    most = max(part.shape[1] for part in y)
    parameters = {
        **PARAMETERS,
        "label_gain": list(range(most)),
        "lambdarank_truncation_level": most,
        "monotone_constraints": list(monotone),
        "seed": seed,
    }
    rows = np.concatenate([part.reshape(-1, part.shape[-1]) for part in X])
    logits = np.concatenate([part.ravel() for part in y])
    # A model's label is how many it beats in its tournament.
    labels = np.concatenate([part.argsort(axis=1).argsort(axis=1).ravel() for part in y])
    lists = np.concatenate([np.full(len(part), part.shape[1]) for part in y])
    booster = lightgbm.train(parameters, lightgbm.Dataset(rows, labels, group=lists), TREES)
    scores = booster.predict(rows)
    centre = float(scores.mean())
    return LambdaMART(booster, _slope(scores - centre, logits), centre)


def _lightgbm() -> Any:
    try:
        with needing("lightgbm", "ltr"):
            import lightgbm
    except OSError as error:
        raise MirageError(
            f"LightGBM cannot be loaded: {error}; it needs the OpenMP library of the system, "
            "on Debian and Ubuntu: apt-get install libgomp1"
        ) from error
    return lightgbm


def _slope(scores: Floats, logits: Floats) -> float:
    """Least squares through the origin; never negative, and 0 where all scores are equal."""
    square = float(scores @ scores)
    return max(float(scores @ logits) / square, 0.0) if square > 0 else 0.0
