"""Regressors that a surrogate can use, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from mirage._base.arrays import Floats
from mirage.errors import UnknownNameError, needing


class Regressor(Protocol):
    """Interface of a fitted regressor."""

    def predict(self, X: Floats) -> Floats:
        """Return the predicted target of each row of ``X``.

        ``X`` has the shape ``(rows, features)``, and the result the shape ``(rows,)``.
        """


def fit_regressor(
    name: str, monotone: Sequence[int], X: Sequence[Floats], y: Sequence[Floats], *, seed: int
) -> Regressor:
    """Fit one regressor for all languages, which predicts logits from standardised features.

    Each training row is a model in a tournament. A tournament is a bootstrap sample of the queries.

    Args:
        name: Name of the regressor, one of :data:`NAMES`.
        monotone: 1 for a feature that must not lower the logit as it rises, -1 for one that must
            not raise it, 0 for any other.
        X: Features of each language, of shape ``(tournaments, models, features)``.
        y: Logits of each language, of shape ``(tournaments, models)``.
        seed: Random seed.

    Returns:
        The fitted regressor.

    Raises:
        UnknownNameError: If there is no regressor with this name.
    """
    if name not in ESTIMATORS:
        raise UnknownNameError("estimator", name, NAMES)
    rows = np.concatenate([part.reshape(-1, len(monotone)) for part in X])
    fitted: Regressor = ESTIMATORS[name](monotone, seed).fit(
        rows, np.concatenate([*map(np.ravel, y)])
    )
    return fitted


def one_thread() -> AbstractContextManager[Any]:
    """Limit numerical libraries to one thread, in a ``with`` statement.

    With few rows, threads mostly wait for each other. On a busy machine, one thread makes boosting
    fifty times as fast.
    """
    context: AbstractContextManager[Any] = _controller().limit(limits=1)
    return context


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    with needing("scikit-learn"):
        import_module("sklearn.ensemble")  # a controller limits only libraries that are loaded
    return ThreadpoolController()


def _sklearn(name: str, **settings: Any) -> Any:
    module, _, regressor = name.partition(".")
    with needing("scikit-learn"):
        estimators = import_module(f"sklearn.{module}")
    return getattr(estimators, regressor)(**settings)


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
    # The paper's other two, which overfit. XGBoost's defaults: 100 trees of depth 6, learning rate
    # 0.3, L2 penalty 1; here scikit-learn's histogram trees, which are not bit-equal to XGBoost's.
    "least_squares": lambda _, __: _sklearn("linear_model.LinearRegression"),
    "boosting": lambda _, seed: _sklearn(
        "ensemble.HistGradientBoostingRegressor",
        max_iter=100,
        learning_rate=0.3,
        max_depth=6,
        max_leaf_nodes=None,
        min_samples_leaf=1,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=seed,
    ),
}
"""Estimators of scikit-learn: factories ``(monotone, seed) -> regressor`` by name."""

SELECTED_FROM = ("ridge", "svr", "mlp", "monotone_boosting", "monotone_forest")
"""Estimators that ``"auto"`` tries, from the least to the most flexible.

The forest is left out: beyond the monotone one it can only learn that a good feature has costs, and
it takes as long as most others together.
"""

LINEAR = "linear"
"""Ridge regression with constrained signs, fitted to each language by itself."""

VERDICTS = "verdicts"
"""No regressor: a score of single responses, stacked with means; it needs judgments."""

VERDICT_TREES = "verdict_trees"
"""Boosted trees with constrained signs that learn which responses win; they need judgments."""

NAMES = (LINEAR, *ESTIMATORS)
"""All estimators."""
