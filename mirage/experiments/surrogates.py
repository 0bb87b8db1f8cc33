"""Experiments on the surrogate: how near it comes to the judge, and what that depends on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from mirage._base.arrays import Floats
from mirage.experiments.arenas import Arena
from mirage.experiments.results import (
    ImportanceRow,
    R2Row,
    Result,
    TauRow,
    ValidationRow,
    middle,
    tau_b,
)
from mirage.features import facts
from mirage.surrogate import SurrogateRanker
from mirage.surrogate.estimators import ESTIMATORS
from mirage.surrogate.model import evaluate, fit_model
from mirage.surrogate.ranker import deal_splits, shared_models
from mirage.surrogate.training import TrainingData, training_data

__all__ = [
    "compare_feature_sets",
    "compare_regressors",
    "feature_importance",
    "feature_sets",
    "r2_by_tournaments",
    "surrogate_data",
    "surrogate_groups",
    "tau_by_language",
]

T = TypeVar("T")
Data = Mapping[str, TrainingData]

ALL = "all"
"""What stands for a language in what all languages share."""

R2_NOTE = (
    "r2 is about the mean of the models learnt from; r2 in paper about that of all models, as the "
    "paper's tables have it."
)

_VALIDATION_NOTES = (
    "r2 and tau are of models held out, r2 train and tau train of models seen; coverage is that "
    "of the 95 % interval.",
    R2_NOTE,
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
    """Kendall's tau between the surrogate's order of models and the judge's (Table 2).

    Args:
        arenas: by language.
        estimator: of the surrogate.
        pooled: whether all languages have one surrogate.
        holdout: models held out at a time, from which the surrogate does not learn.
        repeats: splits, as in :meth:`mirage.surrogate.SurrogateRanker.cross_validate`.
        seed: of everything random.
        n_jobs: processes, as in joblib.

    Raises:
        FeatureError: features and tournaments do not fit together, or models are too few.
    """
    rows = []
    settings = estimator, pooled, holdout, repeats, seed, n_jobs
    for code, data, logits in _over_splits(_predicted_without, arenas, *settings):
        train, *taus = tau_b(np.array(logits), data.mean_y).tolist()
        rows.append(
            TauRow(code, len(data.models), float(np.mean(taus)), *middle(taus), tau_train=train)
        )
    return Result(
        "Kendall's tau between the surrogate's order and Bradley-Terry's",
        tuple(rows),
        (f"{holdout} models are new to the surrogate; to tau train, none is.",),
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
    """Estimators on models that they have seen and on models held out (Table 3).

    Args:
        arenas: by language.
        estimators: names, one or more.
        pooled: those of them that learn from all languages together; the others make a surrogate
            for each language alone.
        holdout: as ``repeats``, ``seed`` and ``n_jobs``, those of :func:`tau_by_language`.

    Raises:
        FeatureError: as :func:`tau_by_language`.
        UnknownNameError: no estimator has such a name.
    """
    for name in (*estimators, *pooled):
        SurrogateRanker(name)  # a wrong name is an error before anything takes long
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
    """One estimator with different sets of features (Table 4).

    Args:
        arenas: by language.
        sets: names of features, by the name of the set; by default :func:`feature_sets`.
        estimator: as ``pooled``, ``holdout``, ``repeats``, ``seed`` and ``n_jobs``, those of
            :func:`tau_by_language`.

    Raises:
        FeatureError: as :func:`tau_by_language`.
        UnknownNameError: a set has a feature that the tables do not have.
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
    """The sets of features that the paper compares, by name; sets that are empty are left out.

    ``all``; ``without LLM-rated``; ``without low correlation``, which keeps the features whose
    Kendall's tau-b with the logit is ``least`` or more in size, in the mean over languages; and
    ``LLM-rated only``. The correlations are taken over all models, as in the paper, so that the
    third set has seen those that are held out later.
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
    """R2 in each tournament, with intervals over tournaments (Table 5).

    In a tournament the features on its queries predict its logits, and R2 is ``1 - sum
    (actual - predicted)^2 / sum (actual - mean)^2``, the mean being that of the models learnt from;
    ``r2_in_paper`` takes that of all models, as the paper's table does.

    Arguments (``arenas``, ``estimator``, ``pooled``, ``holdout``, ``repeats``, ``seed``,
    ``n_jobs``) and errors are those of :func:`tau_by_language`.
    """
    rows = []
    settings = estimator, pooled, holdout, repeats, seed, n_jobs
    for code, _, ((error, spread, _), *others) in _over_splits(_squares, arenas, *settings):
        errors, spreads, in_paper = np.sum(others, axis=0)
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
    return Result(f"R2 over tournaments, {holdout} models held out", tuple(rows), (R2_NOTE,))


def feature_importance(
    arenas: Mapping[str, Arena],
    *,
    estimator: str = "auto",
    pooled: bool = True,
    holdout: int = 2,
    repeats: int = 20,
    seed: int = 0,
) -> Result[ImportanceRow]:
    """How much each feature tells, the largest first (Figure 5).

    Permutation importance on held-out models, as
    :meth:`mirage.surrogate.SurrogateRanker.importances` says. The language of a row is ``"all"``
    where languages are pooled.

    Arguments (``arenas``, ``estimator``, ``pooled``, ``holdout``, ``repeats``, ``seed``) and
    errors are those of :func:`tau_by_language`.
    """
    rows = []
    for group in surrogate_groups(surrogate_data(arenas), pooled):
        ranker = SurrogateRanker(estimator, seed=seed).fit_data(group)
        code = ALL if pooled else next(iter(group))
        rows += [
            ImportanceRow(code, feature, importance)
            for feature, importance in ranker.importances(holdout, repeats).items()
        ]
    return Result(
        "Rise of the squared error on held-out models when a feature is another model's",
        tuple(rows),
        ("In units of the variance of the logits.",),
    )


def surrogate_data(arenas: Mapping[str, Arena]) -> Data:
    """What a surrogate learns from, by language."""
    tables = [table for arena in arenas.values() for table in arena.tables]
    return training_data(
        tables,
        {code: arena.tournaments for code, arena in arenas.items()},
        judgments={code: arena.judgments for code, arena in arenas.items()},
    )


def surrogate_groups(data: Data, pooled: bool) -> list[Data]:
    """The languages that share a surrogate: all of them, or each with itself."""
    return [data] if pooled else [{code: arena} for code, arena in data.items()]


def _over_splits(
    measure: Callable[[Data, str, Sequence[str], int], Mapping[str, T]],
    arenas: Mapping[str, Arena],
    estimator: str,
    pooled: bool,
    holdout: int,
    repeats: int,
    seed: int,
    n_jobs: int,
) -> Iterator[tuple[str, TrainingData, list[T]]]:
    """Each language, its data, and what is measured with no model held out, then in each split."""
    from joblib import Parallel, delayed

    for group in surrogate_groups(surrogate_data(arenas), pooled):
        splits = [(), *deal_splits(shared_models(group), holdout, repeats, seed)]
        measured = Parallel(n_jobs=n_jobs)(
            delayed(measure)(group, estimator, held, seed) for held in splits
        )
        for code, data in group.items():
            yield code, data, [by_language[code] for by_language in measured]


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
    for group in surrogate_groups(data, pooled):
        ranker = SurrogateRanker(estimator, seed=seed).fit_data(group)
        seen = _predicted(ranker, group)
        validation = ranker.cross_validate(holdout, repeats, n_jobs=n_jobs)
        for code, arena in group.items():
            left = np.sum((arena.mean_y - seen[code]) ** 2)
            yield ValidationRow(
                code,
                name,
                pooled,
                r2_train=float(1 - left / np.sum((arena.mean_y - arena.mean_y.mean()) ** 2)),
                tau_train=float(tau_b(seen[code], arena.mean_y)),
                r2=validation.r2[code],
                tau=validation.tau[code],
                coverage=validation.coverage[code],
                r2_in_paper=validation.r2_in_paper[code],
            )


def _predicted(ranker: SurrogateRanker, data: Data) -> dict[str, Floats]:
    """Predicted logits of all models, by language."""
    return {
        code: np.array([ranker.predict(arena.table(i)).logit for i in range(len(arena.models))])
        for code, arena in data.items()
    }


def _fitted_without(
    data: Data, estimator: str, held: Sequence[str], seed: int
) -> tuple[SurrogateRanker, Data]:
    """A surrogate that has not seen some of the models, and what it has seen."""
    seen = {code: arena.without(held) for code, arena in data.items()}
    return SurrogateRanker(estimator, seed=seed).fit_data(seen), seen


def _predicted_without(
    data: Data, estimator: str, held: Sequence[str], seed: int
) -> dict[str, Floats]:
    return _predicted(_fitted_without(data, estimator, held, seed)[0], data)


def _squares(
    data: Data, estimator: str, held: Sequence[str], seed: int
) -> dict[str, tuple[Floats, Floats, Floats]]:
    """By language, for each tournament: squared errors on the models held out, and their spread
    about the mean of the models learnt from, and of all models.

    With none held out, those on all models.
    """
    ranker, seen = _fitted_without(data, estimator, held, seed)
    model = fit_model(seen, evaluate(seen, ranker.recipe, seed=seed), seed=seed)
    squares = {}
    for code, arena in data.items():
        rows = [i for i, name in enumerate(arena.models) if name in held or not held]
        actual = arena.y[:, rows]
        every = np.arange(len(arena.query_ids))
        predicted = [
            model.logits(code, arena.values[row], arena.counts, queries=every) for row in rows
        ]
        errors = actual - np.stack(predicted, axis=1)
        means = (part.y.mean(axis=1, keepdims=True) for part in (seen[code], arena))
        spreads = (np.sum((actual - mean) ** 2, axis=1) for mean in means)
        squares[code] = (np.sum(errors**2, axis=1), *spreads)
    return squares
