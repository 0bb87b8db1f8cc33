"""The model inside a surrogate: one regressor for all languages, and what each language adds.

A language has 10 to 40 models to learn from, and that is few. Features are centred within their
language and scaled alike in all; a *shared* regressor then learns from the models of every
language together, and a ridge regression per language learns what is left of that language's
logits. Where there is no shared part, that ridge is monotone: no more of a feature such as citation
recall may cost rank. How much either part gets is chosen on models that were held out (in all
languages at once, for a model is likely good or bad in several).

Where the single verdicts are at hand, they are learnt from too (``_verdicts``).
Verdicts say which response is better, not how far models are apart, so the logits that they give
are stretched, and stacked with those of the means, by weights set on held-out models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats
from mirage.errors import FeatureError
from mirage.surrogate._tree_arrays import TreeArrays
from mirage.surrogate._verdicts import (
    Scores,
    Shares,
    expected_wins,
    fit_scores,
    fit_shares,
    logit_that_wins,
    stored_shares,
)
from mirage.surrogate.estimators import Regressor, fit_regressor, one_thread
from mirage.surrogate.training import TrainingData, mean_features

__all__ = ["Candidate", "FittedModel", "PooledModel", "Recipe", "evaluate", "fit_model", "select"]

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

ENOUGH = 15
"""How many models every language has to have for trees to learn from verdicts: they take time, and
of fewer it cannot be told whether they predict better than slopes."""

PRIOR = 1.0
"""How many models it weighs that the verdicts' logits are right as they are."""

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
        verdicts: whether single verdicts are learnt from; without ``shared`` and ``alpha`` nothing
            else is.
        trees: whether that is by boosted trees, and not by slopes.
    """

    shared: str | None
    alpha: float | None
    verdicts: bool = False
    trees: bool = False

    @property
    def means(self) -> bool:
        """Whether there is a model of mean features."""
        return self.shared is not None or self.alpha is not None

    def __str__(self) -> str:
        kind = "verdicts by trees" if self.trees else "verdicts"
        parts = [kind] if self.verdicts else []
        parts += [self.shared] if self.shared else []
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
class FittedModel:
    """A fitted recipe: features of a model's responses to its logit.

    Attributes:
        means: the model of mean features, if there is one.
        scores: of single responses, or shares that they win, where verdicts were learnt from.
        data: what was learnt from, by language.
        weights: of the logit that the verdicts give, and of that of the means, each less the mean
            of the training models.
    """

    means: PooledModel | None
    scores: Scores | Shares | None
    data: Data
    weights: tuple[float, float]

    def logits(
        self,
        language: str,
        values: Floats,
        counts: NDArray[np.int32] | None = None,
        *,
        queries: NDArray[np.intp] | None = None,
    ) -> Floats:
        """Logits of models of a language that was learnt from.

        Args:
            language: one that was learnt from.
            values: features of responses, ``(models, queries, features)``; with ``counts``, those
                of one model, ``(queries, features)``.
            counts: how often each draw holds each query, ``(draws, queries)``.
            queries: their places among those that were learnt from, if they all are among them.

        Returns:
            ``(models,)``, over all queries; with ``counts``, those of the draws, ``(draws,)``.
        """
        profile = np.nanmean(values, axis=-2) if counts is None else mean_features(values, counts)
        if self.scores is None:
            assert self.means is not None
            return self.means.predict(language, profile)
        part = self.data[language]
        if isinstance(self.scores, Shares):
            wins = self.scores.wins(language, values)
        else:
            theirs = self.scores.of(language, part.values)
            paired = queries is not None
            wins = expected_wins(
                self.scores.of(language, values),
                theirs[:, queries] if paired else theirs,
                paired=paired,
            )
        share = wins.mean(axis=-1) if counts is None else counts @ wins / counts.sum(axis=1)
        centre = float(part.mean_y.mean())
        logits = centre + self.weights[0] * (logit_that_wins(share, part.mean_y) - centre)
        if self.means is not None:
            logits += self.weights[1] * (self.means.predict(language, profile) - centre)
        return logits

    def response_logits(self, language: str, values: Floats) -> Floats:
        """What single responses are worth, ``(queries,)``: differences are logits of a verdict."""
        if self.scores is not None:
            return self.scores.of(language, values)
        assert self.means is not None
        return self.means.predict(language, values)


@dataclass(frozen=True)
class Candidate:
    """A recipe, with its residuals ``actual - predicted`` on models that it had not seen.

    Residuals are by language, in the order of the language's models: ``of_shared`` of the shared
    part of the means alone, ``of_all`` of everything. ``weights`` are those of the verdicts and of
    the means.
    """

    recipe: Recipe
    of_shared: Residuals
    of_all: Residuals
    weights: tuple[float, float] = (0.0, 1.0)


def select(
    data: Data,
    estimators: Sequence[str | None],
    *,
    verdicts: bool = False,
    seed: int,
) -> Candidate:
    """The stiffest recipe that does not predict held-out models significantly worse than the best.

    ``estimators`` are names of the shared part, ``None`` for none. Recipes are tried from the
    stiffest to the most flexible; with ``verdicts``, which need judgments, first those that learn
    from verdicts alone, then from verdicts and the best means. In place of these stand verdicts by
    trees, where every language has :data:`ENOUGH` models and slopes predict worse. A model's loss
    is the mean over its languages of its squared residual over the variance of the language's
    logits. Taken is the first recipe whose mean loss is not above the smallest one at the 5 % level
    of a one-sided paired t-test over models: of few models, the smallest loss is often luck.
    (A relative of the one-standard-error rule of Breiman et al. 1984, Classification and Regression
    Trees.)

    Raises:
        FeatureError: too few models to hold any out.
    """
    folds = _folds(data, seed)
    candidates = list(_candidates(data, estimators, folds, seed))
    if verdicts:
        of_verdicts = _of_verdicts(data, folds, seed)
        alone = _stacked(data, of_verdicts, None, folds)
        both = _stacked(data, of_verdicts, _stiffest(data, candidates), folds)
        of_these = [alone, both]
        if min(len(part.models) for part in data.values()) >= ENOUGH:
            of_trees = _of_verdicts(data, folds, seed, trees=True)
            trees = _stacked(data, of_trees, None, folds, trees=True)
            if _mean_loss(data, trees) < min(_mean_loss(data, one) for one in of_these):
                of_these = [trees]
        candidates = [*of_these, *candidates]
    return _stiffest(data, candidates)


def _stiffest(data: Data, candidates: Sequence[Candidate]) -> Candidate:
    from scipy.special import stdtrit

    losses = np.array([_losses(data, candidate.of_all) for candidate in candidates])
    models = losses.shape[1]
    excess = losses - losses[losses.mean(axis=1).argmin()]
    error = excess.std(axis=1, ddof=1) / np.sqrt(models)
    return candidates[int(np.argmax(excess.mean(axis=1) <= stdtrit(models - 1, 0.95) * error))]


def _candidates(
    data: Data, estimators: Sequence[str | None], folds: Sequence[set[str]], seed: int
) -> Iterator[Candidate]:
    for name in estimators:
        of_shared = _held_out_residuals(data, name, folds, seed)
        alphas: list[float | None] = [*ALPHAS]
        if name is not None:  # else nothing would be learnt without the language part
            alphas = [None, *alphas] if len(data) > 1 else [None]
        for alpha in alphas:
            recipe = Recipe(name, alpha)
            yield _with_language_part(data, recipe, of_shared, folds)


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


def _mean_loss(data: Data, candidate: Candidate) -> float:
    return float(_losses(data, candidate.of_all).mean())


def evaluate(data: Data, recipe: Recipe, *, seed: int) -> Candidate:
    """One recipe, with its residuals on held-out models."""
    folds = _folds(data, seed)
    means = None
    if recipe.means:
        of_shared = _held_out_residuals(data, recipe.shared, folds, seed)
        of_means = replace(recipe, verdicts=False)
        means = _with_language_part(data, of_means, of_shared, folds)
    if recipe.verdicts:
        of_verdicts = _of_verdicts(data, folds, seed, trees=recipe.trees)
        return _stacked(data, of_verdicts, means, folds, trees=recipe.trees)
    assert means is not None
    return means


def fit_model(
    data: Data, candidate: Candidate, *, seed: int, trees: TreeArrays | None = None
) -> FittedModel:
    """The model of a recipe, fitted to all the data.

    The language part learns from the residuals of the shared part on models that this had not
    seen: on those it has seen, a forest leaves next to nothing. With ``trees``, which were fitted
    to the same data before, none are fitted.
    """
    recipe = candidate.recipe
    means = _fit_means(data, candidate, seed) if recipe.means else None
    scores: Scores | Shares | None = None
    if trees is not None:
        scores = stored_shares(data, trees)
    elif recipe.verdicts:
        scores = _fit_verdicts(data, seed, trees=recipe.trees)
    return FittedModel(means, scores, data, candidate.weights)


def _fit_verdicts(data: Data, seed: int, *, trees: bool) -> Scores | Shares:
    return (fit_shares if trees else fit_scores)(data, _signs(data), seed=seed)


def _fit_means(data: Data, candidate: Candidate, seed: int) -> PooledModel:
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


def _of_verdicts(
    data: Data, folds: Sequence[set[str]], seed: int, *, trees: bool = False
) -> Residuals:
    """The logits that verdicts give to models that no verdict was learnt of.

    Each less the mean logit of the models that were learnt from.
    """
    logits = {code: np.full(len(part.models), np.nan) for code, part in data.items()}
    for fold in folds:
        rest = {code: part.without(fold) for code, part in data.items()}
        model = FittedModel(None, _fit_verdicts(rest, seed, trees=trees), rest, (1.0, 0.0))
        for code, part in data.items():
            rows = [i for i, name in enumerate(part.models) if name in fold]
            if rows:
                every = np.arange(len(part.query_ids))
                found = model.logits(code, part.values[rows], queries=every)
                logits[code][rows] = found - rest[code].mean_y.mean()
    return logits


def _stacked(
    data: Data,
    of_verdicts: Residuals,
    means: Candidate | None,
    folds: Sequence[set[str]],
    *,
    trees: bool = False,
) -> Candidate:
    """Verdicts alone, or with means, with weights that are set on held-out models.

    Stacking with weights that are not negative (Breiman 1996, Stacked Regressions, Machine Learning
    24). The residuals of a fold are those with the weights that the other folds set.
    """
    actual = _centred(data, folds)
    columns = {code: of_verdicts[code][:, None] for code in data}
    if means is not None:
        columns = {
            code: np.column_stack([of_verdicts[code], actual[code] - means.of_all[code]])
            for code in data
        }
    of_all = {code: np.empty(len(part.models)) for code, part in data.items()}
    for fold in folds:
        weights = _weights(data, columns, actual, fold)
        for code, part in data.items():
            rows = _members(part, fold)
            of_all[code][rows] = actual[code][rows] - columns[code][rows] @ weights
    found: list[float] = _weights(data, columns, actual, set()).tolist()
    if means is None:
        recipe = Recipe(None, None, verdicts=True, trees=trees)
        return Candidate(recipe, of_all, of_all, (found[0], 0.0))
    recipe = replace(means.recipe, verdicts=True, trees=trees)
    return Candidate(recipe, means.of_shared, of_all, (found[0], found[1]))


def _centred(data: Data, folds: Sequence[set[str]]) -> Residuals:
    """Each model's logit, less the mean of the models that are not held out with it."""
    actual = {code: np.empty(len(part.models)) for code, part in data.items()}
    for fold in folds:
        for code, part in data.items():
            rows = _members(part, fold)
            actual[code][rows] = part.mean_y[rows] - part.mean_y[~rows].mean()
    return actual


def _members(part: TrainingData, fold: set[str]) -> NDArray[np.bool_]:
    return np.array([name in fold for name in part.models])


def _weights(data: Data, columns: Residuals, actual: Residuals, without: set[str]) -> Floats:
    """Weights of predictions, none negative, drawn to verdicts as they are and no means.

    As if :data:`PRIOR` more models in each language said so, of which the few are not sure.
    """
    from scipy.optimize import nnls

    inside = {code: ~_members(part, without) for code, part in data.items()}
    unit = {code: max(float(part.mean_y.std()), 1e-6) for code, part in data.items()}
    X = np.concatenate([columns[code][inside[code]] / unit[code] for code in data])
    y = np.concatenate([actual[code][inside[code]] / unit[code] for code in data])
    pull = np.sqrt(PRIOR * len(data) * np.mean(X**2, axis=0))
    first = np.zeros(X.shape[1])
    first[0] = 1.0
    found, _ = nnls(np.vstack([X, np.diag(pull)]), np.concatenate([y, pull * first]))
    return np.asarray(found)


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
    bounds = np.where(signs > 0, 0.0, -np.inf), np.where(signs < 0, 0.0, np.inf)
    # Ridge as least squares: a row for each coefficient pulls it to 0.
    rows = np.vstack([Z, np.sqrt(recipe.alpha) * np.eye(len(monotone))])
    targets = np.concatenate([y, np.zeros(len(monotone))])
    return np.asarray(lsq_linear(rows, targets, bounds).x)
