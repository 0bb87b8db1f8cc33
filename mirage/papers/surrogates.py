"""Experiments on the agreement of surrogates with the judge, and on the factors that affect it.

A surrogate is a regression that predicts the logits of models from features, without a judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from mirage._base.arrays import Floats
from mirage.features import facts
from mirage.papers.arenas import Arena
from mirage.papers.results import (
    ImportanceRow,
    R2Row,
    RankRow,
    Result,
    TauRow,
    ValidationRow,
    middle,
    tau_b,
)
from mirage.statistics.ranks import ranks
from mirage.surrogate import SurrogateRanker
from mirage.surrogate.estimators import ESTIMATORS
from mirage.surrogate.model import evaluate, fit_model
from mirage.surrogate.ranker import deal_splits, shared_models
from mirage.surrogate.training import TrainingData, training_data

T = TypeVar("T")
Data = Mapping[str, TrainingData]

ALL = "all"
"""Language of a row that is about all languages together."""

R2_NOTE = (
    "r2 is relative to the mean of the training models; r2 in paper to that of all models, as in "
    "the paper's tables."
)

_VALIDATION_NOTES = (
    "tau is for held-out models; lower and upper are the ends of its 95 % interval, with models as "
    "sampling units. R2 has no interval that holds with so few models.",
)


def tau_by_language(
    arenas: Mapping[str, Arena],
    *,
    estimator: str = "auto",
    pooled: bool = True,
    holdout: int = 2,
    repeats: int = 20,
    seed: int = 0,
    n_jobs: int = 1,
) -> Result[TauRow]:
    """Compute Kendall's tau between the surrogate's and the judge's order of the models.

    Table 2 of MIRAGE-Bench (arXiv 2410.13716) shows the same measure.

    Args:
        arenas: Arenas by language.
        estimator: Name of the surrogate's estimator; see :class:`~mirage.SurrogateRanker`.
        pooled: Whether all languages share one surrogate.
        holdout: Number of models that are held out of training in each split.
        repeats: Number of splits (choices of the held-out models).
        seed: Random seed.
        n_jobs: Number of processes, as in joblib.

    Returns:
        One row per language.

    Raises:
        FeatureError: If the tables of the models have different features, if a model has no value
            of a feature on any query, or if fewer than three models remain for training.
        SettingError: If ``repeats`` is below 1.
    """
    rows = []
    settings = estimator, pooled, holdout, repeats, seed, n_jobs
    for code, data, logits in _measure_splits(_predict_without, arenas, *settings):
        # The first result is that of a surrogate without held-out models.
        train, *taus = tau_b(np.array(logits), data.mean_y).tolist()
        rows.append(
            TauRow(code, len(data.models), float(np.mean(taus)), *middle(taus), tau_train=train)
        )
    return Result(
        "Kendall's tau between the surrogate's order and Bradley-Terry's",
        tuple(rows),
        (
            f"{holdout} models are held out of the training; for tau train, none is. The range is "
            "the middle 95 % of splits, and says nothing about other models.",
        ),
    )


def surrogate_ranking(
    arenas: Mapping[str, Arena],
    *,
    estimator: str = "auto",
    pooled: bool = True,
    holdout: int = 2,
    repeats: int = 20,
    seed: int = 0,
    n_jobs: int = 1,
) -> Result[RankRow]:
    """Rank the models by a surrogate, with some models held out of training in each split.

    The logit of a model is averaged over all splits. As in Figure 4 (right) of MIRAGE-Bench, each
    model is a training model in most splits, so the result does not show how well a surrogate ranks
    new models.

    Args:
        arenas: Arenas by language.
        estimator: Name of the surrogate's estimator; see :class:`~mirage.SurrogateRanker`.
        pooled: Whether all languages share one surrogate.
        holdout: Number of models that are held out of training in each split.
        repeats: Number of splits (choices of the held-out models).
        seed: Random seed.
        n_jobs: Number of processes, as in joblib.

    Returns:
        One row per language and model, in the order of the predicted ranks.

    Raises:
        FeatureError: If the tables of the models have different features, if a model has no value
            of a feature on any query, or if fewer than three models remain for training.
        SettingError: If ``repeats`` is below 1.
    """
    rows: list[RankRow] = []
    settings = estimator, pooled, holdout, repeats, seed, n_jobs
    for code, data, (_, *splits) in _measure_splits(_predict_without, arenas, *settings):
        logits = np.array(splits)
        mean = logits.mean(axis=0)
        lower, upper = np.quantile(logits, [0.025, 0.975], axis=0)
        columns = ranks(mean), ranks(data.mean_y), mean, lower, upper, data.mean_y
        in_order = np.argsort(columns[0], kind="stable").tolist()
        rows += [
            RankRow(code, data.models[i], *(float(column[i]) for column in columns))
            for i in in_order
        ]
    return Result(
        "Ranking by the surrogate, and by the judge",
        tuple(rows),
        (f"{holdout} models are held out in each split; the range is the middle 95 % of splits.",),
    )


def compare_regressors(
    arenas: Mapping[str, Arena],
    estimators: Sequence[str] = (*ESTIMATORS, "auto"),
    *,
    pooled: Sequence[str] = ("auto",),
    holdout: int = 2,
    repeats: int = 50,
    seed: int = 0,
    n_jobs: int = 1,
) -> Result[ValidationRow]:
    """Compare estimators on training models and on held-out models.

    In Table 3 of MIRAGE-Bench, four models were held out in each of 50 splits. The paper's linear
    regression is called ``least_squares`` here. Its XGBoost is called ``boosting``, which uses the
    trees of scikit-learn with the default settings of XGBoost.

    Args:
        arenas: Arenas by language.
        estimators: Names of estimators.
        pooled: Names of the estimators that are trained on all languages together. Other estimators
            are trained on each language separately.
        holdout: Number of models that are held out of training in each split.
        repeats: Number of splits (choices of the held-out models).
        seed: Random seed.
        n_jobs: Number of processes, as in joblib.

    Returns:
        One row per estimator and language.

    Raises:
        FeatureError: If the tables of the models have different features, if a model has no value
            of a feature on any query, or if fewer than three models remain for training.
        SettingError: If ``repeats`` is below 1.
        UnknownNameError: If there is no estimator with a name in ``estimators`` or ``pooled``.
    """
    for name in (*estimators, *pooled):
        SurrogateRanker(name)  # raises an error about an unknown name before the slow part
    data = surrogate_data(arenas)
    rows = [
        row
        for name in estimators
        for row in _validate(data, name, name, name in pooled, holdout, repeats, seed, n_jobs)
    ]
    return Result(
        f"Estimators, {holdout} models held out, {repeats} splits", tuple(rows), _VALIDATION_NOTES
    )


def compare_feature_sets(
    arenas: Mapping[str, Arena],
    sets: Mapping[str, Sequence[str]] | None = None,
    *,
    estimator: str = "auto",
    pooled: bool = True,
    holdout: int = 2,
    repeats: int = 20,
    seed: int = 0,
    n_jobs: int = 1,
) -> Result[ValidationRow]:
    """Compare sets of features with one estimator, as in Table 4 of MIRAGE-Bench.

    Args:
        arenas: Arenas by language.
        sets: Names of the features in each set, by name of the set. By default those of
            :func:`feature_sets`.
        estimator: Name of the surrogate's estimator; see :class:`~mirage.SurrogateRanker`.
        pooled: Whether all languages share one surrogate.
        holdout: Number of models that are held out of training in each split.
        repeats: Number of splits (choices of the held-out models).
        seed: Random seed.
        n_jobs: Number of processes, as in joblib.

    Returns:
        One row per set and language.

    Raises:
        FeatureError: If the tables of the models have different features, if a model has no value
            of a feature on any query, or if fewer than three models remain for training.
        SettingError: If ``repeats`` is below 1.
        UnknownNameError: If a set has a feature that the tables do not have.
    """
    rows: list[ValidationRow] = []
    for name, features in (feature_sets(arenas) if sets is None else sets).items():
        data = surrogate_data(
            {code: arena.with_features(features) for code, arena in arenas.items()}
        )
        rows += _validate(data, name, estimator, pooled, holdout, repeats, seed, n_jobs)
    return Result(
        f"Sets of features, {holdout} models held out, {repeats} splits",
        tuple(rows),
        _VALIDATION_NOTES,
    )


def feature_sets(arenas: Mapping[str, Arena], *, least: float = 0.2) -> dict[str, tuple[str, ...]]:
    """Return the sets of features that MIRAGE-Bench compares, by name; empty sets are left out.

    The sets are ``all``, ``without LLM-rated``, ``without low correlation`` and ``LLM-rated only``.
    As in the paper, correlations are computed on all models, including those that are held out
    later.

    Args:
        arenas: Arenas by language.
        least: Threshold for the set ``without low correlation``. A feature is in this set if its
            Kendall's tau-b with the logit, averaged over languages, is at least ``least`` in
            absolute value.
    """
    data = surrogate_data(arenas)
    features = next(iter(data.values())).features
    taus = np.mean([tau_b(arena.mean_X.T, arena.mean_y) for arena in data.values()], axis=0)
    rated = [feature for feature in features if "LLM" in facts(feature).needs]
    sets = {
        "all": features,
        "without LLM-rated": [feature for feature in features if feature not in rated],
        "without low correlation": np.array(features)[np.abs(taus) >= least].tolist(),
        "LLM-rated only": rated,
    }
    return {name: tuple(chosen) for name, chosen in sets.items() if chosen}


def r2_by_tournaments(
    arenas: Mapping[str, Arena],
    *,
    estimator: str = "auto",
    pooled: bool = True,
    holdout: int = 2,
    repeats: int = 20,
    seed: int = 0,
    n_jobs: int = 1,
) -> Result[R2Row]:
    """Compute R2 in each tournament, and its mean and range over tournaments.

    A tournament is a fit of the models' logits to the judgments on a bootstrap sample of the
    queries. The surrogate predicts the logits of a tournament from the features on its queries. In
    a tournament, R2 is ``1 - sum (actual - predicted)^2 / sum (actual - mean)^2``, where the mean
    is that of the training models. ``r2_in_paper`` uses the mean of all models, as in Table 5 of
    MIRAGE-Bench.

    Args:
        arenas: Arenas by language.
        estimator: Name of the surrogate's estimator; see :class:`~mirage.SurrogateRanker`.
        pooled: Whether all languages share one surrogate.
        holdout: Number of models that are held out of training in each split.
        repeats: Number of splits (choices of the held-out models).
        seed: Random seed.
        n_jobs: Number of processes, as in joblib.

    Returns:
        One row per language.

    Raises:
        FeatureError: If the tables of the models have different features, if a model has no value
            of a feature on any query, or if fewer than three models remain for training.
        SettingError: If ``repeats`` is below 1.
    """
    rows = []
    settings = estimator, pooled, holdout, repeats, seed, n_jobs
    for code, _, ((error, spread, _), *held_out_parts) in _measure_splits(
        _squares, arenas, *settings
    ):
        errors, spreads, in_paper = np.sum(held_out_parts, axis=0)
        train, new, paper = 1 - error / spread, 1 - errors / spreads, 1 - errors / in_paper
        rows.append(
            R2Row(
                code,
                float(train.mean()),
                *middle(train),
                float(new.mean()),
                *middle(new),
                float(paper.mean()),
            )
        )
    notes = R2_NOTE, "Ranges are over tournaments of these models; other models vary more."
    return Result(f"R2 over tournaments, {holdout} models held out", tuple(rows), notes)


def feature_importance(
    arenas: Mapping[str, Arena],
    *,
    estimator: str = "auto",
    pooled: bool = True,
    holdout: int = 2,
    repeats: int = 20,
    seed: int = 0,
) -> Result[ImportanceRow]:
    """Return the permutation importance of each feature on held-out models.

    The importance of a feature is the increase of the squared error if a model's values of the
    feature are replaced by those of other models
    (:meth:`mirage.surrogate.SurrogateRanker.importances`).

    If the estimator is a forest, rows also have the importance in Figure 5 of MIRAGE-Bench: the
    mean decrease in impurity on training models (Breiman 2001, Random Forests, Machine Learning 45,
    5-32). It favours features with many distinct values, and gives no information about new models.

    Args:
        arenas: Arenas by language.
        estimator: Name of the surrogate's estimator; see :class:`~mirage.SurrogateRanker`.
        pooled: Whether all languages share one surrogate.
        holdout: Number of models that are held out of training in each split.
        repeats: Number of splits (choices of the held-out models).
        seed: Random seed.

    Returns:
        One row per feature, the most important feature first. If languages share a surrogate, the
        language of a row is ``"all"``. Otherwise there is one row per language and feature.

    Raises:
        FeatureError: If the tables of the models have different features, if a model has no value
            of a feature on any query, or if fewer than three models remain for training.
        SettingError: If ``repeats`` is below 1.
    """
    rows = []
    for ranker, group in fit_rankers(surrogate_data(arenas), estimator, pooled, seed):
        code = ALL if pooled else next(iter(group))
        impurity = _impurity_importances(ranker, group, seed)
        rows += [
            ImportanceRow(code, feature, importance, impurity.get(feature, float("nan")))
            for feature, importance in ranker.importances(holdout, repeats).items()
        ]
    return Result(
        "Increase of the squared error on held-out models with another model's feature",
        tuple(rows),
        (
            "In units of the variance of the logits; impurity: importance in the trained forest, "
            "as in the paper. Neither has an interval that holds with so few models, so the order "
            "of features may differ for other models.",
        ),
    )


def _impurity_importances(ranker: SurrogateRanker, data: Data, seed: int) -> dict[str, float]:
    """Return the mean decrease in impurity by feature; empty if the estimator is not a forest."""
    means = fit_model(data, evaluate(data, ranker.recipe, seed=seed), seed=seed).means
    values = getattr(means and means.shared, "feature_importances_", None)
    if values is None:
        return {}
    return dict(zip(ranker.features, values.tolist(), strict=True))


def surrogate_data(arenas: Mapping[str, Arena]) -> Data:
    """Convert arenas, by language code, to the training data of a surrogate."""
    tables = [table for arena in arenas.values() for table in arena.tables]
    return training_data(
        tables,
        {code: arena.tournaments for code, arena in arenas.items()},
        judgments={code: arena.judgments for code, arena in arenas.items()},
    )


def _groups(data: Data, pooled: bool) -> list[Data]:
    """Split the data by language into groups that share a surrogate; one group if ``pooled``."""
    return [data] if pooled else [{code: arena} for code, arena in data.items()]


def fit_rankers(
    data: Data, estimator: str, pooled: bool, seed: int
) -> Iterator[tuple[SurrogateRanker, Data]]:
    """Fit one surrogate for all languages, or one for each; yield each with its training data.

    Args:
        data: Training data by language.
        estimator: Name of the surrogates' estimator.
        pooled: Whether all languages share one surrogate.
        seed: Random seed.
    """
    for group in _groups(data, pooled):
        yield SurrogateRanker(estimator, seed=seed).fit_data(group), group


def _measure_splits(
    measure: Callable[[Data, str, Sequence[str], int], Mapping[str, T]],
    arenas: Mapping[str, Arena],
    estimator: str,
    pooled: bool,
    holdout: int,
    repeats: int,
    seed: int,
    n_jobs: int,
) -> Iterator[tuple[str, TrainingData, list[T]]]:
    """Yield each language with its training data and a list of measurements.

    ``measure`` is called with the training data, the estimator, the held-out models and the random
    seed, and returns a measurement by language. The first measurement is made without held-out
    models. Every other measurement belongs to one split.
    """
    from joblib import Parallel, delayed

    for group in _groups(surrogate_data(arenas), pooled):
        # The empty split gives the measures on training models.
        splits = [(), *deal_splits(shared_models(group), holdout, repeats, seed)]
        results = Parallel(n_jobs=n_jobs)(
            delayed(measure)(group, estimator, held_out, seed) for held_out in splits
        )
        for code, data in group.items():
            yield code, data, [by_language[code] for by_language in results]


def _validate(
    data: Data,
    name: str,
    estimator: str,
    pooled: bool,
    holdout: int,
    repeats: int,
    seed: int,
    n_jobs: int,
) -> Iterator[ValidationRow]:
    for ranker, group in fit_rankers(data, estimator, pooled, seed):
        train_logits = _predict_all(ranker, group)
        validation = ranker.cross_validate(holdout, repeats, n_jobs=n_jobs)
        intervals = validation.tau_interval()
        for code, arena in group.items():
            squared_error = np.sum((arena.mean_y - train_logits[code]) ** 2)
            yield ValidationRow(
                code,
                name,
                pooled,
                tau=validation.tau[code],
                lower=intervals[code][0],
                upper=intervals[code][1],
                r2_train=float(
                    1 - squared_error / np.sum((arena.mean_y - arena.mean_y.mean()) ** 2)
                ),
                tau_train=float(tau_b(train_logits[code], arena.mean_y)),
                r2=validation.r2[code],
                coverage=validation.coverage[code],
                r2_in_paper=validation.r2_in_paper[code],
            )


def _predict_all(ranker: SurrogateRanker, data: Data) -> dict[str, Floats]:
    """Return the logits that a surrogate predicts for all models, by language."""
    return {
        code: np.array([ranker.predict(arena.table(i)).logit for i in range(len(arena.models))])
        for code, arena in data.items()
    }


def _fit_without(
    data: Data, estimator: str, held_out: Sequence[str], seed: int
) -> tuple[SurrogateRanker, Data]:
    """Fit a surrogate without the held-out models, and return it with its training data."""
    train_data = {code: arena.without(held_out) for code, arena in data.items()}
    return SurrogateRanker(estimator, seed=seed).fit_data(train_data), train_data


def _predict_without(
    data: Data, estimator: str, held_out: Sequence[str], seed: int
) -> dict[str, Floats]:
    return _predict_all(_fit_without(data, estimator, held_out, seed)[0], data)


def _squares(
    data: Data, estimator: str, held_out: Sequence[str], seed: int
) -> dict[str, tuple[Floats, Floats, Floats]]:
    """Return three sums of squares for each tournament, by language.

    They are sums over the held-out models, or over all models if none is held out. The first sum
    adds up the squared errors of the predicted logits. The second sum adds up the squared
    differences between the actual logits and the mean logit of the training models. The third sum
    uses the mean logit of all models instead.
    """
    ranker, train_data = _fit_without(data, estimator, held_out, seed)
    model = fit_model(train_data, evaluate(train_data, ranker.recipe, seed=seed), seed=seed)
    squares = {}
    for code, arena in data.items():
        rows = [i for i, name in enumerate(arena.models) if name in held_out or not held_out]
        actual = arena.y[:, rows]
        all_queries = np.arange(len(arena.query_ids))
        predicted = [
            model.logits(code, arena.values[row], arena.counts, queries=all_queries) for row in rows
        ]
        errors = actual - np.stack(predicted, axis=1)
        means = (part.y.mean(axis=1, keepdims=True) for part in (train_data[code], arena))
        spreads = (np.sum((actual - mean) ** 2, axis=1) for mean in means)
        squares[code] = (np.sum(errors**2, axis=1), *spreads)
    return squares
