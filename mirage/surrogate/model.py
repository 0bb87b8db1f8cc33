"""The regression in a surrogate: one regressor for all languages, and a correction for each.

A language has only 10 to 40 models to train on. Features are centred within their language and
scaled in the same way in all languages. A *shared* regressor is trained on the models of all
languages together. A ridge regression per language (the *language part*) is then trained on its
residuals. If there is no shared regressor, the ridge regression is monotone: a higher value of a
good feature, such as citation recall, cannot lower the logit. Held-out models decide which of the
two regressions are used, and how strong the ridge penalty is. A model is held out in all languages
at once, because its quality is correlated between languages.

If single verdicts are available, they can be used for training as well (``_verdicts``). Verdicts
determine which response is better, but not the distances between models. The logits that are
predicted from verdicts are therefore rescaled and combined with the logits that are predicted from
mean features (stacking). The weights of both are fitted on held-out models.
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

Data = Mapping[str, TrainingData]
Residuals = dict[str, Floats]

ALPHAS = (10.0, 3.0)
"""Ridge strengths of the language part that are tried."""

FARTHEST = 3.0
"""Distance from the mean, in standard deviations, at which features are clipped.

A feature that hardly differs between the training models may be extreme in a new model.
"""

ROWS = 1000
"""Target number of rows to train the shared regressor on; a row is a model in a tournament."""

ROWS_PER_MODEL = 10
"""Largest number of training rows per model and language; rows of one model are nearly equal."""

ENOUGH = 15
"""Smallest number of models per language with which trees are trained on verdicts.

Training trees takes time. With fewer models, it is uncertain whether they predict better than
linear scores.
"""

PRIOR = 1.0
"""Weight of the prior of the stacking weights, in numbers of models per language.

Under the prior, logits from verdicts have the weight 1, and logits from mean features the weight 0.
"""

FOLDS, FOLDS_OF_GROUPS = 6, 12
"""Number of folds of held-out models if models have no groups, and if they have groups.

Groups are held out as a whole. With more folds, fewer groups are held out at a time.
"""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Configuration of the regression inside a surrogate.

    Attributes:
        shared: Name of the estimator that is trained on all languages together; ``None`` to train
            each language separately.
        alpha: Strength of the ridge regression that corrects the prediction in each language, as a
            number of models: with an ``alpha`` of 10, the penalty has the weight of 10 models.
            ``None`` for no correction.
        verdicts: Whether single verdicts are used. If ``shared`` and ``alpha`` are ``None``, only
            verdicts are used.
        trees: Whether boosted trees are trained on the verdicts, instead of a linear score.
    """

    shared: str | None
    alpha: float | None
    verdicts: bool = False
    trees: bool = False

    @property
    def means(self) -> bool:
        """Whether this recipe includes a regression on the mean features of models."""
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
    """A fitted regression that predicts a model's logit from the means of its features.

    Attributes:
        shared: Regressor for all languages together; ``None`` if there is none.
        scale: Standard deviation of each feature.
        centres: Mean of each feature, by language.
        offsets: Mean logit, by language.
        slopes: Coefficients of the ridge regression, by language.
    """

    shared: Regressor | None
    scale: Floats
    centres: Mapping[str, Floats]
    offsets: Mapping[str, float]
    slopes: Mapping[str, Floats]

    def predict(self, language: str, X: Floats) -> Floats:
        """Predict the logits of models in a language.

        Args:
            language: One of the training languages.
            X: Mean features, of shape ``(..., features)``.

        Returns:
            Logits of shape ``(...)``.
        """
        rows = _standardise(X, self.centres[language], self.scale).reshape(-1, X.shape[-1])
        logits = rows @ self.slopes[language] + self.offsets[language]
        if self.shared is not None:
            with one_thread():
                logits = logits + self.shared.predict(rows)
        return np.asarray(logits.reshape(X.shape[:-1]), dtype=np.float64)


@dataclass(frozen=True)
class FittedModel:
    """A fitted recipe, which predicts a model's logit from the features of its responses.

    Attributes:
        means: Regression on mean features; ``None`` if there is none.
        scores: Model that scores single responses, fitted to verdicts; ``None`` if verdicts were
            not used.
        data: Training data by language.
        weights: Weights with which two predicted logits are added up. The first logit is predicted
            from verdicts, the second from mean features. The mean logit of the training models is
            subtracted from both before weighting, and added again afterwards.
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
        """Predict the logits of several models, or of one model in several samples of the queries.

        Args:
            language: Language of the models, one of the training languages.
            values: Features of responses, of shape ``(models, queries, features)``. If ``counts``
                is passed, the features of one model, of shape ``(queries, features)``.
            counts: Number of times that each draw (bootstrap sample) contains each query, of shape
                ``(draws, queries)``. By default, each query counts once.
            queries: Indices of the queries in the training data; ``None`` if any query is not in
                the training data.

        Returns:
            Logits of shape ``(models,)``; with ``counts``, of shape ``(draws,)``.
        """
        profile = np.nanmean(values, axis=-2) if counts is None else mean_features(values, counts)
        if self.scores is None:
            assert self.means is not None
            return self.means.predict(language, profile)
        part = self.data[language]
        if isinstance(self.scores, Shares):
            wins = self.scores.wins(language, values)
        else:
            training_scores = self.scores.of(language, part.values)
            paired = queries is not None
            wins = expected_wins(
                self.scores.of(language, values),
                training_scores[:, queries] if paired else training_scores,
                paired=paired,
            )
        share = wins.mean(axis=-1) if counts is None else counts @ wins / counts.sum(axis=1)
        centre = float(part.mean_y.mean())
        logits = centre + self.weights[0] * (logit_that_wins(share, part.mean_y) - centre)
        if self.means is not None:
            logits += self.weights[1] * (self.means.predict(language, profile) - centre)
        return logits

    def response_logits(self, language: str, values: Floats) -> Floats:
        """Return a logit for each response of a model.

        For two responses to the same query, the difference of their logits is the log-odds that the
        first response wins.

        Args:
            language: Language of the responses.
            values: Features of the responses, of shape ``(queries, features)``.

        Returns:
            Logits of shape ``(queries,)``.
        """
        if self.scores is not None:
            return self.scores.of(language, values)
        assert self.means is not None
        return self.means.predict(language, values)


@dataclass(frozen=True)
class Candidate:
    """A recipe and its residuals on held-out models: the actual minus the predicted logit.

    Attributes:
        recipe: Configuration of the regression.
        of_shared: Residuals of the regressor for all languages (shared) alone, by language, in the
            order of the language's models.
        of_all: Residuals of the whole regression, by language, in the order of the language's
            models.
        weights: Weight of the logits that are predicted from verdicts, and weight of the logits
            that are predicted from mean features.
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
    """Select the least flexible recipe that predicts held-out models about as well as the best.

    Recipes are tried from the least to the most flexible. With ``verdicts``, two recipes are tried
    before the others. The first uses verdicts alone. The second combines verdicts with the selected
    regression on mean features. If every language has at least :data:`ENOUGH` models, and trees
    predict better than both, a recipe with trees replaces them.

    The loss of a model is the squared residual divided by the variance of the language's logits,
    averaged over its languages. The selected recipe is the first whose mean loss is not
    significantly above the smallest mean loss, in a one-sided paired t-test over models at the 5 %
    level. The recipe with the smallest loss is not always selected, because with few models the
    smallest loss is often due to chance. (The rule is similar to the one-standard-error rule of
    Breiman et al. 1984, Classification and Regression Trees.)

    Args:
        data: Training data by language.
        estimators: Names of the shared estimators to try, from the least to the most flexible;
            ``None`` to train each language separately.
        verdicts: Whether to try recipes that use single verdicts.
        seed: Random seed.
    """
    folds = _folds(data, seed)
    candidates = list(_candidates(data, estimators, folds, seed))
    if verdicts:
        verdict_logits = _verdict_logits(data, folds, seed)
        alone = _stack(data, verdict_logits, None, folds)
        both = _stack(data, verdict_logits, _least_flexible(data, candidates), folds)
        verdict_candidates = [alone, both]
        if min(len(part.models) for part in data.values()) >= ENOUGH:
            tree_logits = _verdict_logits(data, folds, seed, trees=True)
            trees = _stack(data, tree_logits, None, folds, trees=True)
            if _mean_loss(data, trees) < min(
                _mean_loss(data, candidate) for candidate in verdict_candidates
            ):
                verdict_candidates = [trees]
        candidates = [*verdict_candidates, *candidates]
    return _least_flexible(data, candidates)


def _least_flexible(data: Data, candidates: Sequence[Candidate]) -> Candidate:
    from scipy.special import stdtrit

    losses = np.array([_losses(data, candidate.of_all) for candidate in candidates])
    models = losses.shape[1]
    # Compare each candidate with the best one, model by model.
    excess = losses - losses[losses.mean(axis=1).argmin()]
    error = excess.std(axis=1, ddof=1) / np.sqrt(models)
    return candidates[int(np.argmax(excess.mean(axis=1) <= stdtrit(models - 1, 0.95) * error))]


def _candidates(
    data: Data, estimators: Sequence[str | None], folds: Sequence[set[str]], seed: int
) -> Iterator[Candidate]:
    for name in estimators:
        of_shared = _held_out_residuals(data, name, folds, seed)
        alphas: list[float | None] = [*ALPHAS]
        if name is not None:  # without a shared part, the language part is required
            alphas = [None, *alphas] if len(data) > 1 else [None]
        for alpha in alphas:
            recipe = Recipe(name, alpha)
            yield _add_language_part(data, recipe, of_shared, folds)


def _add_language_part(
    data: Data, recipe: Recipe, of_shared: Residuals, folds: Sequence[set[str]]
) -> Candidate:
    settings = recipe, folds, _scale(data)
    residuals = {
        code: _ridge_residuals(part, of_shared[code], *settings) for code, part in data.items()
    }
    return Candidate(recipe, of_shared, residuals)


def _losses(data: Data, residuals: Residuals) -> Floats:
    """Return each model's loss, in the order of :func:`_model_names`.

    The loss is the squared residual divided by the variance of the language's logits, averaged over
    the model's languages.
    """
    by_model: dict[str, list[float]] = {name: [] for name in _model_names(data)}
    for code, part in data.items():
        losses = residuals[code] ** 2 / max(float(part.mean_y.var()), 1e-12)
        for model, loss in zip(part.models, losses, strict=True):
            by_model[model].append(float(loss))
    return np.array([np.mean(losses) for losses in by_model.values()])


def _mean_loss(data: Data, candidate: Candidate) -> float:
    return float(_losses(data, candidate.of_all).mean())


def evaluate(data: Data, recipe: Recipe, *, seed: int) -> Candidate:
    """Return a recipe with its residuals on held-out models.

    Args:
        data: Training data by language.
        recipe: Configuration of the regression.
        seed: Random seed.
    """
    folds = _folds(data, seed)
    means = None
    if recipe.means:
        of_shared = _held_out_residuals(data, recipe.shared, folds, seed)
        means_recipe = replace(recipe, verdicts=False)
        means = _add_language_part(data, means_recipe, of_shared, folds)
    if recipe.verdicts:
        verdict_logits = _verdict_logits(data, folds, seed, trees=recipe.trees)
        return _stack(data, verdict_logits, means, folds, trees=recipe.trees)
    assert means is not None
    return means


def fit_model(
    data: Data, candidate: Candidate, *, seed: int, trees: TreeArrays | None = None
) -> FittedModel:
    """Fit the recipe of a candidate to all training data.

    The ridge regression of each language is trained on the residuals of the shared regressor on
    held-out models. Residuals on training models would be too small; for a forest they are almost
    0.

    Args:
        data: Training data by language.
        candidate: Recipe and residuals.
        seed: Random seed.
        trees: Trees that were trained on verdicts before. By default, the scores of responses are
            fitted to the verdicts of ``data`` if the recipe uses verdicts.
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
        Z = _standardise(part.mean_X, model.centres[code], model.scale)
        slopes[code] = _slopes(Z, candidate.of_shared[code], candidate.recipe, part.monotone)
    return replace(model, slopes=slopes)


def _fit_shared(data: Data, name: str | None, seed: int) -> PooledModel:
    monotone = _signs(data)
    centres = {code: part.mean_X.mean(axis=0) for code, part in data.items()}
    offsets = {code: float(part.mean_y.mean()) for code, part in data.items()}
    scale = _scale(data)
    shared = None
    if name is not None:
        n = _training_tournaments(data)
        X = [_standardise(part.X[:n], centres[code], scale) for code, part in data.items()]
        y = [part.y[:n] - offsets[code] for code, part in data.items()]
        with one_thread():
            shared = fit_regressor(name, monotone, X, y, seed=seed)
    slopes = dict.fromkeys(data, np.zeros(len(monotone)))
    return PooledModel(shared, scale, centres, offsets, slopes)


def _signs(data: Data) -> list[int]:
    """Return the sign of each feature's effect on the logit.

    1 means that a higher value of the feature must not lower the logit, and -1 that it must not
    raise the logit. 0 means that the sign is unknown or differs between languages.
    """
    by_language = np.array([part.monotone for part in data.values()])
    agree = (by_language == by_language[0]).all(axis=0)
    return [int(sign) for sign in np.where(agree, by_language[0], 0)]


def _training_tournaments(data: Data) -> int:
    """Return the number of tournaments per language on which the shared regressor is trained.

    A tournament is a bootstrap sample of the queries, with the logits fitted to it.
    """
    models = sum(len(part.models) for part in data.values())
    return min(max(ROWS // models, 1), ROWS_PER_MODEL)


def _held_out_residuals(
    data: Data, name: str | None, folds: Sequence[set[str]], seed: int
) -> Residuals:
    """Return the residuals of a regressor, trained on all languages, on held-out models."""
    residuals = {code: np.full(len(part.models), np.nan) for code, part in data.items()}
    for fold in folds:
        rest = {code: part.without(fold) for code, part in data.items()}
        if any(len(part.models) < 2 for part in rest.values()):
            raise FeatureError("at least three models per language are needed to train a surrogate")
        shared = _fit_shared(rest, name, seed)
        for code, part in data.items():
            rows = [i for i, model in enumerate(part.models) if model in fold]
            residuals[code][rows] = part.mean_y[rows] - shared.predict(code, part.mean_X[rows])
    return residuals


def _verdict_logits(
    data: Data, folds: Sequence[set[str]], seed: int, *, trees: bool = False
) -> Residuals:
    """Predict the logits of held-out models from verdicts, and return them by language.

    The mean logit of the models that were used for training is subtracted from each logit. With
    ``trees``, boosted trees are trained on the verdicts instead of linear scores.
    """
    logits = {code: np.full(len(part.models), np.nan) for code, part in data.items()}
    for fold in folds:
        rest = {code: part.without(fold) for code, part in data.items()}
        model = FittedModel(None, _fit_verdicts(rest, seed, trees=trees), rest, (1.0, 0.0))
        for code, part in data.items():
            rows = [i for i, name in enumerate(part.models) if name in fold]
            if rows:
                all_queries = np.arange(len(part.query_ids))
                held_out_logits = model.logits(code, part.values[rows], queries=all_queries)
                logits[code][rows] = held_out_logits - rest[code].mean_y.mean()
    return logits


def _stack(
    data: Data,
    verdict_logits: Residuals,
    means: Candidate | None,
    folds: Sequence[set[str]],
    *,
    trees: bool = False,
) -> Candidate:
    """Combine logits predicted from verdicts with logits predicted from mean features (``means``).

    The weights are fitted to held-out models. This is stacking with weights of at least 0 (Breiman
    1996, Stacked Regressions, Machine Learning 24). The residuals of a fold are computed with
    weights that were fitted to the other folds. If ``means`` is ``None``, the logits predicted from
    verdicts are only rescaled. ``verdict_logits`` are the results of :func:`_verdict_logits` with
    the same ``trees``.
    """
    actual = _centred_logits(data, folds)
    columns = {code: verdict_logits[code][:, None] for code in data}
    if means is not None:
        columns = {
            code: np.column_stack([verdict_logits[code], actual[code] - means.of_all[code]])
            for code in data
        }
    of_all = {code: np.empty(len(part.models)) for code, part in data.items()}
    for fold in folds:
        weights = _stacking_weights(data, columns, actual, fold)
        for code, part in data.items():
            rows = _fold_mask(part, fold)
            of_all[code][rows] = actual[code][rows] - columns[code][rows] @ weights
    final_weights: list[float] = _stacking_weights(data, columns, actual, set()).tolist()
    if means is None:
        recipe = Recipe(None, None, verdicts=True, trees=trees)
        return Candidate(recipe, of_all, of_all, (final_weights[0], 0.0))
    recipe = replace(means.recipe, verdicts=True, trees=trees)
    return Candidate(recipe, means.of_shared, of_all, (final_weights[0], final_weights[1]))


def _centred_logits(data: Data, folds: Sequence[set[str]]) -> Residuals:
    """Return the logit of each model minus the mean logit of the models outside its fold."""
    actual = {code: np.empty(len(part.models)) for code, part in data.items()}
    for fold in folds:
        for code, part in data.items():
            rows = _fold_mask(part, fold)
            actual[code][rows] = part.mean_y[rows] - part.mean_y[~rows].mean()
    return actual


def _fold_mask(part: TrainingData, fold: set[str]) -> NDArray[np.bool_]:
    return np.array([name in fold for name in part.models])


def _stacking_weights(
    data: Data, columns: Residuals, actual: Residuals, without: set[str]
) -> Floats:
    """Fit the weights with which two predictions of the same logits are combined (stacking).

    One prediction is based on verdicts, the other on mean features. The weights are at least 0.
    They are shrunk towards 1 for verdicts and 0 for mean features. This prior has the weight of
    :data:`PRIOR` models in each language, so it matters only if there are few models.

    Args:
        data: Training data by language.
        columns: Predicted logits by language. The first column has the logits that are predicted
            from verdicts; the second one, if any, those that are predicted from mean features.
        actual: Actual logits by language.
        without: Names of the models to leave out.
    """
    from scipy.optimize import nnls

    inside = {code: ~_fold_mask(part, without) for code, part in data.items()}
    spread = {code: max(float(part.mean_y.std()), 1e-6) for code, part in data.items()}
    X = np.concatenate([columns[code][inside[code]] / spread[code] for code in data])
    y = np.concatenate([actual[code][inside[code]] / spread[code] for code in data])
    pull = np.sqrt(PRIOR * len(data) * np.mean(X**2, axis=0))
    prior = np.zeros(X.shape[1])
    prior[0] = 1.0
    weights, _ = nnls(np.vstack([X, np.diag(pull)]), np.concatenate([y, pull * prior]))
    return np.asarray(weights)


def _folds(data: Data, seed: int) -> list[set[str]]:
    """Split the models of all languages into folds that have a similar number of groups each.

    All models of a group, such as those with the same kind of fault, are in the same fold.
    """
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


def _ridge_residuals(
    part: TrainingData, of_shared: Floats, recipe: Recipe, folds: Sequence[set[str]], scale: Floats
) -> Floats:
    """Return the residuals of the ridge regression on one language's held-out models.

    It predicts ``of_shared``, the residuals of the shared regressor. The result has one residual
    per model: ``of_shared`` minus the prediction.
    """
    if recipe.alpha is None:
        return of_shared
    residuals = np.empty_like(of_shared)
    for fold in folds:
        out = np.array([model in fold for model in part.models])
        Z = _standardise(part.mean_X, part.mean_X[~out].mean(axis=0), scale)
        slopes = _slopes(Z[~out], of_shared[~out], recipe, part.monotone)
        residuals[out] = of_shared[out] - Z[out] @ slopes
    return residuals


def _scale(data: Data) -> Floats:
    """Return the standard deviation of each feature between the models of a language.

    The variance is averaged over languages. A standard deviation of 0 is replaced by 1.
    """
    variance = np.mean([part.mean_X.var(axis=0) for part in data.values()], axis=0)
    return np.where(variance > 1e-12, np.sqrt(variance), 1.0)


def _standardise(X: Floats, centre: Floats, scale: Floats) -> Floats:
    return np.clip((X - centre) / scale, -FARTHEST, FARTHEST)


def _slopes(Z: Floats, y: Floats, recipe: Recipe, monotone: Sequence[int]) -> Floats:
    """Return the coefficients of a ridge regression of ``y`` on the models' features ``Z``.

    If there is no shared regressor, ``monotone`` restricts the signs of the coefficients.
    """
    from scipy.optimize import lsq_linear

    assert recipe.alpha is not None
    signs = np.array(monotone) * (recipe.shared is None)
    bounds = np.where(signs > 0, 0.0, -np.inf), np.where(signs < 0, 0.0, np.inf)
    # Ridge as bounded least squares: an added row per coefficient shrinks it towards 0.
    rows = np.vstack([Z, np.sqrt(recipe.alpha) * np.eye(len(monotone))])
    targets = np.concatenate([y, np.zeros(len(monotone))])
    return np.asarray(lsq_linear(rows, targets, bounds).x)
