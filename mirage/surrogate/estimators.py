"""The regressors that a surrogate can use to predict logits from features, by name."""

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
    """Fit a regressor that predicts logits from standardised features, for all languages together.

    Each training row is one model in one tournament (a bootstrap sample of the queries).

    Args:
        name: Name of the regressor, one of :data:`NAMES`.
        monotone: 1 for a feature whose higher values must not lower the logit, -1 for one whose
            higher values must not raise it, 0 for any other.
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
    """Return a context manager that limits numerical libraries to one thread.

    With few rows, threads mostly wait for each other. On a busy machine, boosting is fifty times as
    fast in one thread.
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
    # The other two estimators of the paper, which overfit. "boosting" has the default settings of
    # XGBoost (100 trees of depth 6, learning rate 0.3, L2 penalty 1), but uses the histogram trees
    # of scikit-learn, whose results differ slightly.
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
"""Functions ``(monotone, seed) -> regressor`` that create scikit-learn regressors, by name."""

SELECTED_FROM = ("ridge", "svr", "mlp", "monotone_boosting", "monotone_forest")
"""Estimators that ``"auto"`` tries, from the least to the most flexible.

``forest`` is left out. All that it can learn beyond ``monotone_forest`` is that a good feature
lowers the logit, and it takes as long as most other estimators together.
"""

LINEAR = "linear"
"""Name of the monotone ridge regression, which is fitted to each language separately."""

VERDICTS = "verdicts"
"""Name of the estimator that learns a score of single responses from judgments.

Its predictions may be combined with those of a regression on mean features.
"""

VERDICT_TREES = "verdict_trees"
"""Name of the estimator that fits monotone boosted trees to judgments."""

NAMES = (LINEAR, *ESTIMATORS)
"""Names of all estimators that need no judgments."""
