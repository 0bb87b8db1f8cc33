"""The model inside a surrogate: one regressor for all languages, and what each language adds.

A language has 10 to 40 models to learn from, and that is few. Features are centred within their
language and scaled alike in all; a *shared* regressor then learns from the models of every
language together, and a ridge regression per language learns what is left of that language's
logits. How much either part gets is chosen on models that were held out (in all languages at
once, for a model is likely good or bad in several).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from mirage.errors import FeatureError
from mirage.surrogate.estimators import ESTIMATORS, Regressor, make_regressor
from mirage.surrogate.training import TrainingData

__all__ = ["PooledModel", "Recipe", "Residuals", "fit_model", "select_recipe"]

Array = NDArray[np.float64]
Data = Mapping[str, TrainingData]
Residuals = dict[str, Array]

ALPHAS = (None, 100.0, 30.0, 10.0, 3.0)
"""Strengths of the ridge of the language part; the first leaves it out."""

ROWS_PER_MODEL = 10
"""Tournaments that the shared regressor sees of each model: more cost time and change little."""

FOLDS = 6


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to make a model.

    Attributes:
        shared: the estimator of the shared part, ``None`` to leave every language alone.
        alpha: ridge strength of the language part, ``None`` to leave that part out. In units of
            models: an ``alpha`` of 10 weighs as much as 10 models.
    """

    shared: str | None
    alpha: float | None

    def __str__(self) -> str:
        parts = [self.shared] if self.shared else []
        parts += [f"ridge({self.alpha:g}) per language"] if self.alpha else []
        return " + ".join(parts)


@dataclass(frozen=True)
class PooledModel:
    """A fitted model: features ``(..., features)`` of a language's models to logits ``(...)``."""

    shared: Regressor | None
    scale: Array
    centres: Mapping[str, Array]
    offsets: Mapping[str, float]
    slopes: Mapping[str, Array]

    def predict(self, language: str, X: Array) -> Array:
        """Logits of models of a language that was learnt from."""
        rows = ((X - self.centres[language]) / self.scale).reshape(-1, X.shape[-1])
        logits = rows @ self.slopes[language] + self.offsets[language]
        if self.shared is not None:
            logits = logits + self.shared.predict(rows)
        return np.asarray(logits.reshape(X.shape[:-1]), dtype=np.float64)


def select_recipe(
    data: Data, estimators: Sequence[str], *, seed: int
) -> tuple[Recipe, Residuals, Residuals]:
    """The recipe that predicts held-out models best, and its residuals on them by language.

    The criterion is the mean R2 over languages. Residuals are ``actual - predicted`` logits in
    the order of the language's models: first those of the shared part alone, then those of all.

    Raises:
        FeatureError: too few models to hold any out.
    """
    shared: list[str | None] = [*estimators]
    alphas: tuple[float | None, ...] = (None,)
    if len(data) > 1:
        shared, alphas = [None, *shared], ALPHAS
    folds = _folds(data, seed)
    best: tuple[float, Recipe, Residuals, Residuals] | None = None
    for name in shared:
        of_shared = _held_out_residuals(data, name, folds, seed)
        for alpha in alphas:
            if name is None and alpha is None:
                continue
            residuals = {
                code: _residuals_after_ridge(data[code], left, alpha, folds)
                for code, left in of_shared.items()
            }
            score = np.mean([_r2(data[code], left) for code, left in residuals.items()])
            if best is None or score > best[0]:
                best = (float(score), Recipe(name, alpha), of_shared, residuals)
    assert best is not None  # there is always an estimator to try
    return best[1:]


def fit_model(data: Data, recipe: Recipe, of_shared: Residuals, *, seed: int) -> PooledModel:
    """The model of a recipe, given the held-out residuals of its shared part.

    The language part learns from residuals on models that the shared part had not seen: on those
    it has seen, a forest leaves next to nothing.
    """
    model = _fit_shared(data, recipe.shared, seed)
    if recipe.alpha is None:
        return model
    slopes = {
        code: _ridge((one.X.mean(axis=0) - model.centres[code]) / model.scale, left, recipe.alpha)
        for (code, one), left in zip(data.items(), of_shared.values(), strict=True)
    }
    return PooledModel(model.shared, model.scale, model.centres, model.offsets, slopes)


def _fit_shared(data: Data, name: str | None, seed: int) -> PooledModel:
    features = next(iter(data.values())).features
    means = {code: one.X.mean(axis=0) for code, one in data.items()}
    centres = {code: mean.mean(axis=0) for code, mean in means.items()}
    offsets = {code: float(one.y.mean()) for code, one in data.items()}
    variance = np.mean([mean.var(axis=0) for mean in means.values()], axis=0)
    scale = np.where(variance > 1e-12, np.sqrt(variance), 1.0)
    shared = None
    if name is not None:
        rows = [one.thinned(ROWS_PER_MODEL) for one in data.values()]
        X = [((one.X - centres[one.language]) / scale).reshape(-1, len(features)) for one in rows]
        y = [(one.y - offsets[one.language]).ravel() for one in rows]
        shared = make_regressor(name, features, seed=seed)
        shared.fit(np.concatenate(X), np.concatenate(y))
    slopes = dict.fromkeys(data, np.zeros(len(features)))
    return PooledModel(shared, scale, centres, offsets, slopes)


def _held_out_residuals(
    data: Data, name: str | None, folds: Sequence[set[str]], seed: int
) -> Residuals:
    """What the shared part leaves of the logits of models that it has not seen."""
    residuals = {code: np.full(len(one.models), np.nan) for code, one in data.items()}
    for held in folds:
        kept = {
            code: one.of(model for model in one.models if model not in held)
            for code, one in data.items()
        }
        if any(len(one.models) < 2 for one in kept.values()):
            raise FeatureError("a surrogate needs three models or more a language to learn from")
        fitted = _fit_shared(kept, name, seed)
        for code, one in data.items():
            rows = [i for i, model in enumerate(one.models) if model in held]
            predicted = fitted.predict(code, one.X.mean(axis=0)[rows])
            residuals[code][rows] = one.y.mean(axis=0)[rows] - predicted
    return residuals


def _folds(data: Data, seed: int) -> list[set[str]]:
    """The models of all languages in up to six groups of nearly one size."""
    models = sorted({model for one in data.values() for model in one.models})
    shuffled = np.random.default_rng(seed).permutation(len(models))
    groups = np.array_split(shuffled, min(FOLDS, len(models)))
    return [{models[i] for i in group} for group in groups]


def _residuals_after_ridge(
    one: TrainingData, of_shared: Array, alpha: float | None, folds: Sequence[set[str]]
) -> Array:
    """What shared and language part together leave of the logits of models neither has seen."""
    if alpha is None:
        return of_shared
    left = np.empty_like(of_shared)
    mean = one.X.mean(axis=0)
    for held in folds:
        out = np.array([model in held for model in one.models])
        centre, scale = mean[~out].mean(axis=0), mean[~out].std(axis=0)
        Z = (mean - centre) / np.where(scale > 1e-6, scale, 1.0)
        left[out] = of_shared[out] - Z[out] @ _ridge(Z[~out], of_shared[~out], alpha)
    return left


def _ridge(Z: Array, y: Array, alpha: float) -> Array:
    return np.asarray(np.linalg.solve(Z.T @ Z + alpha * np.eye(Z.shape[1]), Z.T @ y))


def _r2(one: TrainingData, residuals: Array) -> float:
    logits = one.y.mean(axis=0)
    return float(1.0 - np.sum(residuals**2) / max(np.sum((logits - logits.mean()) ** 2), 1e-12))
