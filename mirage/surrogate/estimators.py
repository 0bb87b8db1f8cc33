"""The regressors a surrogate may be made of, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from mirage._base.arrays import Floats
from mirage.errors import UnknownNameError

__all__ = [
    "ESTIMATORS",
    "LINEAR",
    "NAMES",
    "SELECTED_FROM",
    "VERDICTS",
    "VERDICT_TREES",
    "Regressor",
    "fit_regressor",
    "one_thread",
]


class Regressor(Protocol):
    """What a fitted regressor does."""

    def predict(self, X: Floats) -> Floats:
        """Targets (rows,) for rows ``X`` (rows, features)."""


def fit_regressor(
    name: str, monotone: Sequence[int], X: Sequence[Floats], y: Sequence[Floats], *, seed: int
) -> Regressor:
    """A regressor for standardised features, fitted to the tournaments of one or more languages.

    Args:
        name: one of :data:`NAMES`.
        monotone: 1 for a feature that must not lower the logit as it rises, -1 for one that must
            not raise it, 0 for any other.
        X: features of each language, ``(tournaments, models, features)``.
        y: logits of each language, ``(tournaments, models)``.
        seed: of everything random.

    Raises:
        UnknownNameError: no estimator has this name.
        MissingPackageError: the estimator needs an extra that is not installed.
    """
    if name == LAMBDAMART:
        from mirage.surrogate._lambdamart import fit_lambdamart

        return fit_lambdamart(X, y, monotone, seed=seed)
    if name not in ESTIMATORS:
        raise UnknownNameError("estimator", name, NAMES)
    rows = np.concatenate([part.reshape(-1, len(monotone)) for part in X])
    fitted: Regressor = ESTIMATORS[name](monotone, seed).fit(
        rows, np.concatenate([*map(np.ravel, y)])
    )
    return fitted


def one_thread() -> AbstractContextManager[Any]:
    """Keep numerical libraries to one thread: on so few rows, more of them wait for each other.

    On a busy machine that makes boosting fifty times as fast.
    """
    context: AbstractContextManager[Any] = _controller().limit(limits=1)
    return context


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    import_module("sklearn.ensemble")  # a controller sees only the libraries that are loaded

    return ThreadpoolController()


def _sklearn(name: str, **settings: Any) -> Any:
    module, _, regressor = name.partition(".")
    return getattr(import_module(f"sklearn.{module}"), regressor)(**settings)


ESTIMATORS: Mapping[str, Callable[[Sequence[int], int], Any]] = {
    "ridge": lambda _, __: _sklearn("linear_model.Ridge", alpha=100.0),
    "svr": lambda _, __: _sklearn("svm.SVR", C=10.0, gamma=0.05, epsilon=0.05),
    "mlp": lambda _, seed: _sklearn(
        "neural_network.MLPRegressor",
        hidden_layer_sizes=(16,),
        activation="tanh",
        alpha=3.0,
        solver="lbfgs",
        max_iter=2000,
        random_state=seed,
    ),
    "monotone_boosting": lambda monotone, seed: _sklearn(
        "ensemble.HistGradientBoostingRegressor",
        max_iter=150,
        learning_rate=0.08,
        max_leaf_nodes=6,
        min_samples_leaf=10,
        l2_regularization=1.0,
        monotonic_cst=monotone,
        early_stopping=False,
        random_state=seed,
    ),
    "monotone_forest": lambda monotone, seed: _sklearn(
        "ensemble.RandomForestRegressor",
        n_estimators=100,
        monotonic_cst=monotone,
        random_state=seed,
    ),
    "forest": lambda _, seed: _sklearn(
        "ensemble.RandomForestRegressor", n_estimators=100, random_state=seed
    ),
}
"""Those of scikit-learn: factories ``(monotone, seed) -> regressor`` by name."""

SELECTED_FROM = ("ridge", "svr", "mlp", "monotone_boosting", "monotone_forest")
"""What ``"auto"`` tries, from the stiffest to the most flexible.

Not the forest: what it can learn beyond the monotone one is that a good feature costs, and it takes
as long as most of the others together. Not LambdaMART: what is selected must not depend on which
extras are installed.
"""

LINEAR = "linear"
"""A ridge regression with right signs for each language by itself, and nothing shared."""

LAMBDAMART = "lambdamart"

VERDICTS = "verdicts"
"""No regressor: a score of single responses, stacked with means; it needs judgments."""

VERDICT_TREES = "verdict_trees"
"""Boosted trees that learn which responses win, without wrong signs; they need judgments."""

NAMES = (LINEAR, *ESTIMATORS, LAMBDAMART)
"""All estimators; LambdaMART needs the extra ``ltr``."""
