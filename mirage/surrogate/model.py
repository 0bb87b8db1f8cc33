"""The model inside a surrogate: one regressor for all languages, and what each language adds.

A language has 10 to 40 models to learn from, and that is few. Features are centred within their
language and scaled alike in all; a *shared* regressor then learns from the models of every
language together, and a ridge regression per language learns what is left of that language's
logits. Where there is no shared part, that ridge is monotone: no more of a feature such as citation
recall may cost rank. How much either part gets is chosen on models that were held out (in all
languages at once, for a model is likely good or bad in several).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mirage._base.arrays import Floats
from mirage.errors import FeatureError
from mirage.surrogate.estimators import Regressor, fit_regressor, one_thread
from mirage.surrogate.training import TrainingData

__all__ = ["Candidate", "PooledModel", "Recipe", "evaluate", "fit_model", "select"]

Data = Mapping[str, TrainingData]
Residuals = dict[str, Floats]

ALPHAS = (10.0, 3.0)
"""Strengths of the ridge of the language part."""

FARTHEST = 3.0
"""How many standard deviations from the mean a feature may lie; what lies farther is put there.

A feature that hardly differs between the models learnt from may be far off in a new one.
"""

ROWS = 1000
"""How many rows the shared regressor learns from, a row being a model in a tournament."""

ROWS_PER_MODEL = 10
"""Most of these rows that are one model's in one language: they are nearly the same."""

FOLDS, FOLDS_OF_GROUPS = 6, 12
"""Parts in which models are held out; more of them where models have groups, so that few whole
groups are out at a time."""


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
        kind = "ridge" if self.shared else "monotone ridge"
        parts += [f"{kind}({self.alpha:g}) per language"] if self.alpha else []
        return " + ".join(parts)


@dataclass(frozen=True)
class PooledModel:
    """A fitted model: features ``(..., features)`` of a language's models to logits ``(...)``."""

    shared: Regressor | None
    scale: Floats
    centres: Mapping[str, Floats]
    offsets: Mapping[str, float]
    slopes: Mapping[str, Floats]

    def predict(self, language: str, X: Floats) -> Floats:
        """Logits of models of a language that was learnt from."""
        rows = _standardised(X, self.centres[language], self.scale).reshape(-1, X.shape[-1])
        logits = rows @ self.slopes[language] + self.offsets[language]
        if self.shared is not None:
            with one_thread():
                logits = logits + self.shared.predict(rows)
        return np.asarray(logits.reshape(X.shape[:-1]), dtype=np.float64)


@dataclass(frozen=True)
class Candidate:
    """A recipe, with its residuals ``actual - predicted`` on models that it had not seen.

    Residuals are by language, in the order of the language's models: ``of_shared`` of the shared
    part alone, ``of_all`` of both parts.
    """

    recipe: Recipe
    of_shared: Residuals
    of_all: Residuals


def select(data: Data, estimators: Sequence[str | None], *, seed: int) -> Candidate:
    """The stiffest recipe that does not predict held-out models significantly worse than the best.

    ``estimators`` are names of the shared part, ``None`` for none. Recipes are tried from the
    stiffest to the most flexible. A model's loss is the mean over its languages of its squared
    residual over the variance of the language's logits. Taken is the first recipe whose mean loss
    is not above the smallest one at the 5 % level of a one-sided paired t-test over models: of few
    models, the smallest loss is often luck. (A relative of the one-standard-error rule of Breiman
    et al. 1984, Classification and Regression Trees.)

    Raises:
        FeatureError: too few models to hold any out.
    """
    from scipy.special import stdtrit

    candidates = list(_candidates(data, estimators, seed))
    losses = np.array([_losses(data, candidate.of_all) for candidate in candidates])
    models = losses.shape[1]
    excess = losses - losses[losses.mean(axis=1).argmin()]
    error = excess.std(axis=1, ddof=1) / np.sqrt(models)
    return candidates[int(np.argmax(excess.mean(axis=1) <= stdtrit(models - 1, 0.95) * error))]


def _candidates(data: Data, estimators: Sequence[str | None], seed: int) -> Iterator[Candidate]:
    folds = _folds(data, seed)
    for name in estimators:
        of_shared = _held_out_residuals(data, name, folds, seed)
        alphas: list[float | None] = [*ALPHAS]
        if name is not None:  # else nothing would be learnt without the language part
            alphas = [None, *alphas] if len(data) > 1 else [None]
        for alpha in alphas:
            yield _with_language_part(data, Recipe(name, alpha), of_shared, folds)


def _with_language_part(
    data: Data, recipe: Recipe, of_shared: Residuals, folds: Sequence[set[str]]
) -> Candidate:
    settings = recipe, folds, _scale(data)
    after = {code: _after_ridge(part, of_shared[code], *settings) for code, part in data.items()}
    return Candidate(recipe, of_shared, after)


def _losses(data: Data, residuals: Residuals) -> Floats:
    """Each model's loss, in the order of :func:`_model_names`."""
    by_model: dict[str, list[float]] = {name: [] for name in _model_names(data)}
    for code, part in data.items():
        losses = residuals[code] ** 2 / max(float(part.mean_y.var()), 1e-12)
        for model, loss in zip(part.models, losses, strict=True):
            by_model[model].append(float(loss))
    return np.array([np.mean(losses) for losses in by_model.values()])


def evaluate(data: Data, recipe: Recipe, *, seed: int) -> Candidate:
    """One recipe, with its residuals on held-out models."""
    folds = _folds(data, seed)
    of_shared = _held_out_residuals(data, recipe.shared, folds, seed)
    return _with_language_part(data, recipe, of_shared, folds)


def fit_model(data: Data, candidate: Candidate, *, seed: int) -> PooledModel:
    """The model of a recipe, fitted to all the data.

    The language part learns from the residuals of the shared part on models that this had not
    seen: on those it has seen, a forest leaves next to nothing.
    """
    model = _fit_shared(data, candidate.recipe.shared, seed)
    if candidate.recipe.alpha is None:
        return model
    slopes = {}
    for code, part in data.items():
        Z = _standardised(part.mean_X, model.centres[code], model.scale)
        slopes[code] = _slopes(Z, candidate.of_shared[code], candidate.recipe, part.monotone)
    return replace(model, slopes=slopes)


def _fit_shared(data: Data, name: str | None, seed: int) -> PooledModel:
    monotone = _signs(data)
    centres = {code: part.mean_X.mean(axis=0) for code, part in data.items()}
    offsets = {code: float(part.mean_y.mean()) for code, part in data.items()}
    scale = _scale(data)
    shared = None
    if name is not None:
        n = _tournaments_seen(data)
        X = [_standardised(part.X[:n], centres[code], scale) for code, part in data.items()]
        y = [part.y[:n] - offsets[code] for code, part in data.items()]
        with one_thread():
            shared = fit_regressor(name, monotone, X, y, seed=seed)
    slopes = dict.fromkeys(data, np.zeros(len(monotone)))
    return PooledModel(shared, scale, centres, offsets, slopes)


def _signs(data: Data) -> list[int]:
    """The direction of each feature, where all languages agree on it."""
    by_language = np.array([part.monotone for part in data.values()])
    agree = (by_language == by_language[0]).all(axis=0)
    return [int(sign) for sign in np.where(agree, by_language[0], 0)]


def _tournaments_seen(data: Data) -> int:
    """How many tournaments of each language the shared regressor sees."""
    models = sum(len(part.models) for part in data.values())
    return min(max(ROWS // models, 1), ROWS_PER_MODEL)


def _held_out_residuals(
    data: Data, name: str | None, folds: Sequence[set[str]], seed: int
) -> Residuals:
    """What the shared part leaves of the logits of models that it has not seen."""
    residuals = {code: np.full(len(part.models), np.nan) for code, part in data.items()}
    for fold in folds:
        rest = {code: part.without(fold) for code, part in data.items()}
        if any(len(part.models) < 2 for part in rest.values()):
            raise FeatureError("a surrogate needs three models or more a language to learn from")
        shared = _fit_shared(rest, name, seed)
        for code, part in data.items():
            rows = [i for i, model in enumerate(part.models) if model in fold]
            residuals[code][rows] = part.mean_y[rows] - shared.predict(code, part.mean_X[rows])
    return residuals


def _folds(data: Data, seed: int) -> list[set[str]]:
    """The models of all languages in parts of nearly one size, groups left whole."""
    members: dict[str, set[str]] = {}
    for part in data.values():
        for row, model in enumerate(part.models):
            members.setdefault(part.group(row), set()).add(model)
    groups = sorted(members)
    shuffled = np.random.default_rng(seed).permutation(len(groups))
    grouped = any(part.groups for part in data.values())
    parts = np.array_split(shuffled, min(FOLDS_OF_GROUPS if grouped else FOLDS, len(groups)))
    return [set().union(*(members[groups[i]] for i in part)) for part in parts]


def _model_names(data: Data) -> list[str]:
    return sorted({model for part in data.values() for model in part.models})


def _after_ridge(
    part: TrainingData, of_shared: Floats, recipe: Recipe, folds: Sequence[set[str]], scale: Floats
) -> Floats:
    """What shared and language part together leave of the logits of models neither has seen."""
    if recipe.alpha is None:
        return of_shared
    residuals = np.empty_like(of_shared)
    for fold in folds:
        out = np.array([model in fold for model in part.models])
        Z = _standardised(part.mean_X, part.mean_X[~out].mean(axis=0), scale)
        slopes = _slopes(Z[~out], of_shared[~out], recipe, part.monotone)
        residuals[out] = of_shared[out] - Z[out] @ slopes
    return residuals


def _scale(data: Data) -> Floats:
    """Standard deviation of each feature between a language's models; 1 where there is none."""
    variance = np.mean([part.mean_X.var(axis=0) for part in data.values()], axis=0)
    return np.where(variance > 1e-12, np.sqrt(variance), 1.0)


def _standardised(X: Floats, centre: Floats, scale: Floats) -> Floats:
    return np.clip((X - centre) / scale, -FARTHEST, FARTHEST)


def _slopes(Z: Floats, y: Floats, recipe: Recipe, monotone: Sequence[int]) -> Floats:
    """Coefficients of the language part: ridge, without wrong signs if it stands alone."""
    from scipy.optimize import lsq_linear

    assert recipe.alpha is not None
    signs = np.array(monotone) * (recipe.shared is None)
    least = np.where(signs > 0, 0.0, -np.inf)
    most = np.where(signs < 0, 0.0, np.inf)
    # Ridge as least squares: a row for each coefficient pulls it to 0.
    rows = np.vstack([Z, np.sqrt(recipe.alpha) * np.eye(len(monotone))])
    solution = lsq_linear(rows, np.concatenate([y, np.zeros(len(monotone))]), (least, most))
    return np.asarray(solution.x)
