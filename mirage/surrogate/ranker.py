"""The surrogate: from the features of a model's responses to its logit, without a judge."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, islice
from math import comb
from types import MappingProxyType
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats
from mirage.arena import Tournaments
from mirage.arena.judgments import JudgmentsLike
from mirage.errors import (
    ArtifactError,
    FeatureError,
    MissingPackageError,
    NotFittedError,
    SettingError,
    UnknownNameError,
)
from mirage.executors import Executor, in_order
from mirage.features import FeatureTable, facts
from mirage.statistics.bootstrap import check_level, draw_clusters, widened
from mirage.statistics.clusters import cluster_names
from mirage.statistics.ranks import kendall_tau
from mirage.surrogate import artifacts
from mirage.surrogate._tree_arrays import TreeArrays
from mirage.surrogate._verdicts import Shares
from mirage.surrogate.estimators import LINEAR, NAMES, SELECTED_FROM, VERDICT_TREES, VERDICTS
from mirage.surrogate.familiarity import Familiarity
from mirage.surrogate.model import Candidate, FittedModel, Recipe, evaluate, fit_model, select
from mirage.surrogate.training import TrainingData, data_and_left_out, require_values

__all__ = ["Prediction", "SurrogateRanker", "Validation"]

STACKED_WITH = (None, "ridge")
"""What verdicts are stacked with: stiff models of the means, which take no time."""

_LOG = logging.getLogger("mirage.surrogate")


FEWEST_ANSWERED = 5
"""Queries that a model has to have answered: of fewer, too little is known of the others."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """A model's predicted logit, natural-log odds on the scale of the training models.

    ``draws`` (tournaments,) are logits in the tournaments of the training data: the t-th has the
    queries of the t-th tournament, and an error such as the surrogate makes on models that it has
    not seen. They compare with the t-th logits of the training models. ``unfamiliar`` says in words
    how the model's features are unlike those of any training model; empty where they are not.
    ``assumed`` are the features that the model has on no query and that were taken at their mean
    over the training models.
    """

    model: str
    language: str
    logit: float
    draws: Floats
    unfamiliar: str = ""
    assumed: tuple[str, ...] = ()

    def interval(self, *, level: float = 0.95) -> tuple[float, float]:
        """Lower and upper percentile of the draws.

        Each draw stands for an equal share of what may be (Hazen's plotting positions), so that
        few draws do not make the interval narrower.

        Raises:
            SettingError: ``level`` is not between 0 and 1.
        """
        check_level(level)
        tail = (1 - level) / 2
        low, high = np.quantile(self.draws, [tail, 1 - tail], method="hazen")
        return float(low), float(high)


@dataclass(frozen=True, eq=False)
class Validation:
    """How well models that were held out are predicted; arrays are ``(splits, held out)``.

    Attributes:
        held_out: the models of each split.
        predicted: predicted logits, by language.
        actual: their Bradley-Terry logits, mean over tournaments, by language.
        covered: whether the 95 % interval holds the actual logit, by language.
        spread: squares of the actual logits about the mean of the models that were learnt from in
            the split, an array of the same shape, by language.
        spread_in_paper: the same about the mean of all models of the language.
    """

    held_out: tuple[tuple[str, ...], ...]
    predicted: Mapping[str, Floats]
    actual: Mapping[str, Floats]
    covered: Mapping[str, NDArray[np.bool_]]
    spread: Mapping[str, Floats]
    spread_in_paper: Mapping[str, Floats]

    @property
    def tau(self) -> dict[str, float]:
        """Kendall's tau-b between predicted and actual order of a split, mean over splits.

        A split whose predictions are all equal counts 0.
        """
        return {
            code: float(np.mean(np.nan_to_num(list(map(kendall_tau, logits, self.actual[code])))))
            for code, logits in self.predicted.items()
        }

    @property
    def r2(self) -> dict[str, float]:
        """Share of the variance of held-out logits that is predicted, over all splits together.

        ``1 - sum (actual - predicted)^2 / sum (actual - mean)^2``, the mean being that of the
        models that were learnt from, which is what one would predict without any feature: the
        predictive Q2 (Wold 1982; Schüürmann et al. 2008, Journal of Chemical Information and
        Modeling 48(11), equation 9). 0 is no better than that mean, and it can be far below.
        """
        return self._share(self.spread)

    @property
    def r2_in_paper(self) -> dict[str, float]:
        """As :attr:`r2`, but about the mean of all models, those held out among them.

        So MIRAGE-Bench's tables have it. Nobody who predicts knows that mean: to predict the mean
        of the training models scores less than 0 here (-0.25 with 2 of 10 held out).
        """
        return self._share(self.spread_in_paper)

    def _share(self, spread: Mapping[str, Floats]) -> dict[str, float]:
        return {
            code: float(1 - np.sum((self.actual[code] - logits) ** 2) / np.sum(spread[code]))
            for code, logits in self.predicted.items()
        }

    @property
    def coverage(self) -> dict[str, float]:
        """Share of held-out logits inside their 95 % interval."""
        return {code: float(inside.mean()) for code, inside in self.covered.items()}


class _View(NamedTuple):
    """What some values of a model's features make of it."""

    profile: Floats
    logit: float
    spread: Floats
    """Of the logit, over draws of queries."""
    errors: Floats
    """Of the surrogate, a draw each."""


class SurrogateRanker:
    """Learns from feature tables and tournaments, and ranks a new model without a judge.

    For each tournament the mean features of each model on its queries stand against that
    tournament's logits (Algorithm 1 of MIRAGE-Bench, arXiv 2410.13716); where the judgments are
    given, single verdicts are learnt from as well. Learn from one language or, better, from several
    at once: see :mod:`mirage.surrogate.model`.

    Args:
        estimator: a name of :data:`~mirage.surrogate.estimators.NAMES`: ``"linear"`` is a ridge
            regression for each language in which no feature has the wrong sign;
            ``"forest"`` is the paper's; ``"lambdamart"`` needs the extra ``ltr``; ``"verdicts"``
            learns from judgments and from means; ``"verdict_trees"`` learns boosted trees from
            judgments, for fifteen models or more; ``"auto"`` selects one of
            :data:`~mirage.surrogate.estimators.SELECTED_FROM` on held-out models, and is
            ``"verdicts"`` if there are judgments.
        seed: of everything random in fitting and in the draws of predictions.

    Raises:
        UnknownNameError: no estimator has this name.
    """

    def __init__(self, estimator: str = "auto", *, seed: int = 0) -> None:
        names = ("auto", VERDICTS, VERDICT_TREES, *NAMES)
        if estimator not in names:
            raise UnknownNameError("estimator", estimator, names)
        self.estimator = estimator
        self.seed = seed
        self._data: dict[str, TrainingData] = {}
        self._candidate: Candidate | None = None
        self._model: FittedModel | None = None
        self._left_out: dict[str, str] = {}
        self._known: dict[str, Familiarity] = {}

    def __repr__(self) -> str:
        state = f", recipe={self.recipe}, languages={list(self._data)}" if self._candidate else ""
        return f"SurrogateRanker({self.estimator!r}, seed={self.seed}{state})"

    def fit(
        self,
        tables: Sequence[FeatureTable],
        tournaments: Tournaments | Mapping[str, Tournaments],
        *,
        judgments: JudgmentsLike | Mapping[str, JudgmentsLike] | None = None,
        groups: Mapping[str, str] = MappingProxyType({}),
    ) -> Self:
        """Learn from tables of models, of one language or several, and their tournaments.

        Args:
            tables: a table for every model of the tournaments, with the same features.
            tournaments: those of the tables' language; of several languages, a mapping.
            judgments: the verdicts that the tournaments were fitted to; of several languages, a
                mapping. Only ``"auto"``, ``"verdicts"`` and ``"verdict_trees"`` use them.
            groups: by model, what it has in common with others, such as a kind of fault. Models of
                one group are held out together where errors are measured, so that intervals hold
                for kinds that were not seen.

        A language whose tables lack a feature that those of most languages have, or in which a
        model has one on no query, is left out; :attr:`left_out` says why.

        Raises:
            FeatureError: tables or tournaments do not fit together, every language is left out, a
                language has fewer than three models, or an estimator that learns from judgments has
                none.
            UnknownNameError: a model or a query of the tournaments has no features, or one of the
                judgments is in no tournament.
            MissingPackageError: the estimator needs an extra that is not installed.
        """
        data, left_out = data_and_left_out(tables, tournaments, groups, judgments)
        for why in left_out.values():
            _LOG.warning("left out of the surrogate: %s", why)
        self.fit_data(data)
        self._left_out = left_out
        return self

    def fit_data(self, data: Mapping[str, TrainingData]) -> Self:
        """Learn from numbers that were put together before."""
        judged = all(part.judgments is not None for part in data.values())
        if self.estimator in (VERDICTS, VERDICT_TREES) and not judged:
            raise FeatureError(
                f"the estimator {self.estimator!r} learns from judgments: give those that the "
                "tournaments were fitted to, as in fit(tables, tournaments, judgments=judgments)"
            )
        self._left_out = {}
        if self.estimator == VERDICT_TREES:
            recipe = Recipe(None, None, verdicts=True, trees=True)
            return self._refitted(data, evaluate(data, recipe, seed=self.seed))
        verdicts = judged and self.estimator in ("auto", VERDICTS)
        estimators: Sequence[str | None] = {
            "auto": (None, *SELECTED_FROM),
            LINEAR: (None,),
        }.get(self.estimator, (None, self.estimator) if len(data) > 1 else (self.estimator,))
        if verdicts:
            estimators = STACKED_WITH
        candidate = select(
            data,
            estimators,
            verdicts=verdicts,
            seed=self.seed,
        )
        return self._refitted(data, candidate)

    @property
    def data(self) -> Mapping[str, TrainingData]:
        """What was learnt from, by language."""
        self._fitted()
        return self._data

    @property
    def left_out(self) -> Mapping[str, str]:
        """Why a language that was given was not learnt from, by its code."""
        return self._left_out

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features that a table needs."""
        return next(iter(self.data.values())).features

    @property
    def recipe(self) -> Recipe:
        """The estimator and the pooling of languages that was chosen."""
        return self._fitted()[0].recipe

    def predict(self, table: FeatureTable) -> Prediction:
        """The logit of a model, with draws that cover which queries were asked and the surrogate.

        The draws take the queries of the training tournaments where the table answers them all,
        and else as many of those that it answers, with replacement, those of one cluster together,
        widened as Student's t asks for so many. A query without any feature is one that the model
        failed on: it counts as the worst that a training model had on it, feature by feature, so
        that not to answer never helps. To each draw is added an error such as the
        recipe made on held-out models with features like these: see
        :mod:`mirage.surrogate.familiarity`. The jackknife+ (Barber et al. 2021, Annals of
        Statistics 49(1)), which assumes no distribution, has no ends at 95 % for fewer than 19
        models: ``benchmarks/held_out_intervals.py`` compares them.

        Args:
            table: the model's features; it may have more of them than needed, in any order.

        Raises:
            FeatureError: fewer than :data:`FEWEST_ANSWERED` queries were answered, a feature is
                missing, or the model has one on no query though the
                feature needs something that a query may lack. One that needs nothing, such as the
                language of answers that are all too short to tell, is taken at its mean over the
                training models.
            UnknownNameError: the table's language was not learnt from.
        """
        self._fitted()
        if table.language in self._left_out:
            raise FeatureError(
                f"{table.language!r} was left out of this surrogate: "
                f"{self._left_out[table.language]}"
            )
        if table.language not in self._data:
            raise UnknownNameError("language of this surrogate", table.language, self._data)
        if missing := [name for name in self.features if name not in table.features]:
            raise FeatureError(
                f"the features of {table.model!r} lack {', '.join(missing)}, which this surrogate "
                "was trained on; score the model with a suite that has them"
            )
        part = self._data[table.language]
        answered = _answered(table)
        table, assumed = _with_values(table.columns(self.features), part)
        given = table.select(answered)
        if set(part.query_ids) <= set(answered):
            table = given = given.select(part.query_ids)
        versions = [given.values]
        if len(given) < len(table):
            versions.append(_at_worst(table, given, part))
        order = (*given.query_ids, *(id_ for id_ in table.query_ids if id_ not in set(answered)))
        views = [self._view(table, values, order[: len(values)], part) for values in versions]
        # What is least favourable: not to answer never helps.
        least = min(views, key=lambda view: view.logit)
        spread = max((view.spread for view in views), key=np.std)
        errors = max((view.errors for view in views), key=np.std)
        draws = least.logit + spread + errors
        unlike = self._familiarity(part.language).unlike(least.profile)
        return Prediction(table.model, table.language, least.logit, draws, unlike, assumed)

    def _view(
        self, table: FeatureTable, values: Floats, queries: tuple[str, ...], part: TrainingData
    ) -> _View:
        _, model = self._fitted()
        counts, clusters = part.counts, part.clusters
        if queries != part.query_ids:
            clusters = tuple(cluster_names(queries, table.clusters))
            counts = draw_clusters(clusters, None, len(counts), seed=self.seed)
        profile = np.nanmean(values, axis=0)
        places = _places_of(queries, part.query_ids)
        (logit,) = model.logits(part.language, values[None], queries=places).tolist()
        drawn = model.logits(part.language, values, counts, queries=places)
        seed = [self.seed, *table.model.encode()]
        errors = self._familiarity(part.language).errors(profile, len(drawn), seed)
        return _View(profile, logit, widened(drawn, counts, clusters) - logit, errors)

    def fitted_logits(self, language: str) -> Floats:
        """Return what the surrogate makes of the models that it learnt from, (models,).

        In natural-log odds, in the order of their models in :attr:`data`. Unlike their logits in
        :attr:`data`, which verdicts gave, these follow from features alone.
        """
        _, model = self._fitted()
        part = self._data[language]
        return model.logits(language, part.values, queries=np.arange(len(part.query_ids)))

    def scores(self, table: FeatureTable) -> Floats:
        """What each response is worth: the difference of two is the logit of a verdict on them.

        As far as verdicts tell, where they were learnt from; else the logit of a model all of whose
        responses had the features of this one. What a response lacks is taken at the mean of the
        training models. Raises are those of :meth:`predict`.
        """
        _, model = self._fitted()
        if table.language not in self._data:
            raise UnknownNameError("language of this surrogate", table.language, self._data)
        part = self._data[table.language]
        values = table.columns(self.features).values
        means = part.mean_X.mean(axis=0)
        return model.response_logits(part.language, np.where(np.isnan(values), means, values))

    def _familiarity(self, language: str) -> Familiarity:
        if language not in self._known:
            candidate, _ = self._fitted()
            self._known[language] = Familiarity.of(self._data[language], candidate.of_all)
        return self._known[language]

    def cross_validate(
        self,
        holdout: int = 2,
        repeats: int = 20,
        *,
        n_jobs: int = 1,
        executor: Executor | None = None,
    ) -> Validation:
        """Predict models that were held out of everything, selection included.

        Args:
            holdout: models held out at a time, in all languages at once. With several languages
                only models that all of them have are held out.
            repeats: splits. If there are no more different ones than this, each is taken once;
                else models are shuffled and dealt out, so that each is held out equally often.
            executor: whose workers fit and predict, in place of processes.

        Raises:
            FeatureError: too few models to hold so many out, or the surrogate was stored without
                the verdicts that it learnt from, as those that ship are.
            SettingError: ``repeats`` is below 1.
            NotFittedError: nothing was fitted or loaded.
        """
        from joblib import Parallel, delayed

        self._require_verdicts()
        splits = list(deal_splits(shared_models(self.data), holdout, repeats, self.seed))
        predict = partial(_predict_held_out, self.estimator, self.seed, self._data)
        if executor is None:
            results = Parallel(n_jobs=n_jobs)(delayed(predict)(models) for models in splits)
        else:
            results = list(in_order(executor, predict, splits))
        predicted, actual, covered = (
            {code: np.array([result[code][part] for result in results]) for code in self._data}
            for part in range(3)
        )
        learnt, every = {}, {}
        for code, part in self._data.items():
            means = [[part.without(models).mean_y.mean()] for models in splits]
            learnt[code] = (actual[code] - np.array(means)) ** 2
            every[code] = (actual[code] - part.mean_y.mean()) ** 2
        return Validation(tuple(splits), predicted, actual, covered, learnt, every)

    def importances(self, holdout: int = 2, repeats: int = 20) -> dict[str, float]:
        """How much worse held-out models are predicted when a feature is another model's.

        Permutation importance (Breiman 2001, Random Forests, section 10), on held-out models:
        the rise of the mean squared error, over the variance of the logits, when a held-out
        model's value is replaced by that of each other model in turn; mean over languages. The
        recipe is kept, and refitted without the held-out models. Largest first. ``holdout`` and
        ``repeats``, and what is raised, are as for :meth:`cross_validate`.
        """
        self._require_verdicts()
        candidate, _ = self._fitted()
        rise = np.zeros(len(self.features))
        splits = list(deal_splits(shared_models(self._data), holdout, repeats, self.seed))
        for models in splits:
            rest = {code: part.without(models) for code, part in self._data.items()}
            refit = evaluate(rest, candidate.recipe, seed=self.seed)
            model = fit_model(rest, refit, seed=self.seed)
            for part in self._data.values():
                rise += _rise_of_error(model, part, models) / (len(splits) * len(self._data))
        order = np.argsort(-rise, kind="stable")
        return {self.features[i]: float(rise[i]) for i in order}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was learnt from, the chosen recipe and its trees, if it has any.

        :meth:`load` refits everything but trees.

        The file holds arrays and JSON (``.npz``), in which nothing can run, whatever its name.

        Raises:
            ArtifactError: the file cannot be written.
            NotFittedError: nothing was fitted or loaded.
        """
        artifacts.write(path, self.artifact)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, trust: bool = False) -> Self:
        """Read a surrogate that :meth:`save` wrote, under any version of scikit-learn.

        Args:
            path: the file.
            trust: read it though it is none of those that ship, which their SHA-256 in the
                package shows. Trust what you made, or who made it: a surrogate decides which model
                stands above which, and reading one in joblib, as earlier versions wrote them, runs
                code that it brings along.

        Raises:
            ArtifactError: no such file, not a surrogate, or not trusted.
            MissingPackageError: the estimator needs an extra that is not installed.
        """
        return cls.restored(artifacts.read(path, trust=trust))

    @classmethod
    def pretrained(cls, language: str) -> Self:
        """The surrogate that ships for a language: trained on the simulated arena."""
        return cls.restored(artifacts.read_pretrained(language))

    @property
    def artifact(self) -> artifacts.Artifact:
        """What is kept of it on disk: what was learnt from, and the chosen recipe."""
        candidate, model = self._fitted()
        trees = model.scores.trees if isinstance(model.scores, Shares) else None
        return artifacts.Artifact(self.estimator, self.seed, candidate, self._data, trees)

    @classmethod
    def restored(cls, artifact: artifacts.Artifact) -> Self:
        """The surrogate of an artifact, refitted.

        Raises:
            ArtifactError: it cannot be refitted from what the artifact holds.
            MissingPackageError: the estimator needs an extra that is not installed.
        """
        try:
            ranker = cls(artifact.estimator, seed=artifact.seed)
            return ranker._refitted(artifact.data, artifact.candidate, artifact.trees)
        except MissingPackageError:
            raise
        except Exception as error:  # numbers of others fail anywhere
            raise ArtifactError(f"the surrogate cannot be refitted ({error})") from error

    def _refitted(
        self,
        data: Mapping[str, TrainingData],
        candidate: Candidate,
        trees: TreeArrays | None = None,
    ) -> Self:
        self._data, self._candidate, self._known = dict(data), candidate, {}
        self._model = fit_model(self._data, candidate, seed=self.seed, trees=trees)
        return self

    def _require_verdicts(self) -> None:
        candidate, _ = self._fitted()
        stored = all(part.judgments is not None for part in self._data.values())
        if candidate.recipe.verdicts and not stored:
            raise FeatureError(
                "this surrogate was stored without the verdicts that it learnt from, so it cannot "
                "be fitted again without some models; train it again with `mirage surrogate train` "
                "or mirage.surrogate.pretraining.train_on_arena"
            )

    def _fitted(self) -> tuple[Candidate, FittedModel]:
        if self._candidate is None or self._model is None:
            raise NotFittedError("this surrogate has learnt nothing yet: call fit or load first")
        return self._candidate, self._model


def _with_values(table: FeatureTable, part: TrainingData) -> tuple[FeatureTable, tuple[str, ...]]:
    """The table with the training models' means for features that could not be told at all."""
    without = [
        j
        for j, name in enumerate(table.features)
        if np.isnan(table.values[:, j]).all() and not facts(name, part.facts).needs
    ]
    if not without or np.isnan(table.values).all():
        require_values(table)
        return table, ()
    values = table.values.copy()
    values[:, without] = part.mean_X[:, without].mean(axis=0)
    filled = replace(table, values=values)
    require_values(filled)
    return filled, tuple(table.features[j] for j in without)


def _answered(table: FeatureTable) -> tuple[str, ...]:
    """The queries with any feature, where they are enough."""
    rows = np.flatnonzero(~np.isnan(table.values).all(axis=1)).tolist()
    if len(rows) < FEWEST_ANSWERED:
        raise FeatureError(
            f"model {table.model!r} answered {len(rows)} of {len(table)} queries "
            f"({table.language}), and a rank takes {FEWEST_ANSWERED} or more; have it answer more"
        )
    return tuple(table.query_ids[row] for row in rows)


def _at_worst(table: FeatureTable, given: FeatureTable, part: TrainingData) -> Floats:
    """The features, where a query that is not given has the worst that a training model had on it.

    Of a query that no training model answered, the worst on any; and never more than the mean of
    what is given. A feature without a direction has none that is worst, and is NaN there.
    """
    signs = np.array(part.monotone)
    turn = np.where(signs < 0, -1, 1)
    on_query = np.fmin.reduce(turn * part.values, axis=0)
    on_any = np.fmin.reduce(on_query, axis=0)
    places = {id_: place for place, id_ in enumerate(part.query_ids)}
    answered = set(given.query_ids)
    rows = [
        on_query[places[id_]] if id_ in places else on_any
        for id_ in table.query_ids
        if id_ not in answered
    ]
    worst = np.array(rows).reshape(-1, len(signs))
    worst = np.where(np.isnan(worst), on_any, worst)
    worst = turn * np.fmin(worst, turn * np.nanmean(given.values, axis=0))
    worst[:, signs == 0] = np.nan
    return np.concatenate([given.values, worst])


def shared_models(data: Mapping[str, TrainingData]) -> list[str]:
    """The models that every language has, sorted."""
    return sorted(set.intersection(*(set(part.models) for part in data.values())))


def deal_splits(
    models: Sequence[str], holdout: int, repeats: int, seed: int
) -> Iterator[tuple[str, ...]]:
    if repeats < 1:
        raise SettingError(f"models are held out in 1 split or more, not {repeats}")
    if not 1 <= holdout <= len(models) - 3:
        raise FeatureError(
            f"cannot hold {holdout} of {len(models)} models out and learn from three or more"
        )
    if comb(len(models), holdout) <= repeats:
        return combinations(models, holdout)
    return islice(_deals(models, holdout, np.random.default_rng(seed)), repeats)


def _deals(
    models: Sequence[str], holdout: int, rng: np.random.Generator
) -> Iterator[tuple[str, ...]]:
    while True:
        order = rng.permutation(len(models))
        for start in range(0, len(models) - holdout + 1, holdout):
            yield tuple(models[i] for i in sorted(order[start : start + holdout]))


def _predict_held_out(
    estimator: str, seed: int, data: Mapping[str, TrainingData], models: tuple[str, ...]
) -> dict[str, tuple[Floats, Floats, NDArray[np.bool_]]]:
    """By language: predicted and actual logits of the held-out models, and who is covered."""
    ranker = SurrogateRanker(estimator, seed=seed)
    ranker.fit_data({code: part.without(models) for code, part in data.items()})
    results = {}
    for code, part in data.items():
        rows = [part.models.index(model) for model in models]
        predictions = [ranker.predict(part.table(row)) for row in rows]
        logits = np.array([prediction.logit for prediction in predictions])
        low, high = np.array([prediction.interval() for prediction in predictions]).T
        actual = part.mean_y[rows]
        results[code] = (logits, actual, (low <= actual) & (actual <= high))
    return results


def _places_of(query_ids: Sequence[str], among: Sequence[str]) -> NDArray[np.intp] | None:
    """Where queries stand among others; ``None`` unless all do."""
    place = {query_id: i for i, query_id in enumerate(among)}
    places = [place.get(query_id, -1) for query_id in query_ids]
    return None if -1 in places else np.array(places, dtype=np.intp)


def _rise_of_error(model: FittedModel, part: TrainingData, models: Sequence[str]) -> Floats:
    """Rise of the mean squared error, over the variance of logits, per replaced feature."""
    rows = [part.models.index(name) for name in models]
    every = np.arange(len(part.query_ids))
    actual, variance = part.mean_y[rows], part.mean_y.var()
    predicted = model.logits(part.language, part.values[rows], queries=every)
    before = np.mean((predicted - actual) ** 2)
    rise = np.zeros(len(part.features))
    for row, logit in zip(rows, actual, strict=True):
        for j in range(len(part.features)):
            # The model's responses once for each model, with this model's values of the feature.
            values = np.repeat(part.values[row][None], len(part.models), axis=0)
            values[:, :, j] = part.values[:, :, j]
            after = np.mean((model.logits(part.language, values, queries=every) - logit) ** 2)
            rise[j] += (after - before) / max(variance, 1e-12) / len(rows)
    return rise
