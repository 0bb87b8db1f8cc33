"""A surrogate that predicts a model's logit from features of its responses, without a judge."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import combinations, islice
from math import comb
from types import MappingProxyType
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats
from mirage._base.near_names import NearNames
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
from mirage.executors import Executor
from mirage.executors.base import in_order
from mirage.features import FeatureTable, facts
from mirage.statistics.bootstrap import Interval, check_level, draw_clusters, widened
from mirage.statistics.clusters import cluster_names
from mirage.statistics.held_out import held_out_tau_interval
from mirage.statistics.ranks import kendall_tau
from mirage.surrogate import artifacts
from mirage.surrogate._tree_arrays import TreeArrays
from mirage.surrogate._verdicts import Shares
from mirage.surrogate.estimators import LINEAR, NAMES, SELECTED_FROM, VERDICT_TREES, VERDICTS
from mirage.surrogate.familiarity import Familiarity
from mirage.surrogate.model import Candidate, FittedModel, Recipe, evaluate, fit_model, select
from mirage.surrogate.training import TrainingData, data_and_left_out, require_values

STACKED_WITH = (None, "ridge")
"""Estimators on mean features whose predictions are combined with those from verdicts.

They are simple, so they train fast. ``None`` is the regression per language.
"""

_LOG = logging.getLogger("mirage.surrogate")

_DIGEST_DECIMALS = 9


FEWEST_ANSWERED = 5
"""Fewest queries that a model must have answered to be ranked."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """A model's predicted logit, in natural-log odds on the scale of the training models.

    Attributes:
        model: Name of the model.
        language: Language code.
        logit: Predicted logit.
        draws: Random draws of the logit. The tournaments (bootstrap samples of the queries) of the
            training data are repeated :data:`~mirage.surrogate.familiarity.ERRORS_PER_DRAW` times,
            in the same order. If the model answered all queries, a draw uses the queries of its
            tournament, and can be compared with the training models' logits in it. Each draw
            includes a random prediction error, as large as the errors on held-out models. The
            errors are the same for equal features, whatever the name of the model.
        unfamiliar: Features in which the model differs most from the training models, as text;
            empty if it is similar to one of them.
        assumed: Features that could not be computed on any query. Their mean over the training
            models was used instead.
    """

    model: str
    language: str
    logit: float
    draws: Floats
    unfamiliar: str = ""
    assumed: tuple[str, ...] = ()

    def interval(self, *, level: float = 0.95) -> tuple[float, float]:
        """Return the lower and the upper end of the logit's interval.

        The ends are percentiles of the draws. The percentiles use Hazen's plotting positions, which
        give each draw the same probability, so the interval does not become narrower if there are
        only few draws.

        Args:
            level: Confidence level of the interval.

        Raises:
            SettingError: If ``level`` is not between 0 and 1.
        """
        check_level(level)
        tail = (1 - level) / 2
        low, high = np.quantile(self.draws, [tail, 1 - tail], method="hazen")
        return float(low), float(high)


@dataclass(frozen=True, eq=False)
class Validation:
    """The predicted and the actual logits of held-out models.

    In each split, some models are held out, and a surrogate that is trained on the others predicts
    their logits. Arrays have the shape ``(splits, held-out models)``.

    Attributes:
        held_out: Names of the models that were held out in each split.
        predicted: Predicted logits by language.
        actual: Bradley-Terry logits by language, averaged over the tournaments (bootstrap samples
            of the queries).
        covered: Whether the 95 % interval of the prediction contains the actual logit, by language.
        spread: Squared differences between the actual logits and the mean logit of the split's
            training models, by language.
        spread_in_paper: Squared differences between the actual logits and the mean logit of all
            models, by language. The paper on MIRAGE-Bench (arXiv 2410.13716) uses this definition.
    """

    held_out: tuple[tuple[str, ...], ...]
    predicted: Mapping[str, Floats]
    actual: Mapping[str, Floats]
    covered: Mapping[str, NDArray[np.bool_]]
    spread: Mapping[str, Floats]
    spread_in_paper: Mapping[str, Floats]

    @property
    def tau(self) -> dict[str, float]:
        """Kendall's tau-b between predicted and actual logits, averaged over splits, by language.

        A split in which all predictions are equal counts as 0.
        """
        return {
            code: float(np.mean(np.nan_to_num(list(map(kendall_tau, logits, self.actual[code])))))
            for code, logits in self.predicted.items()
        }

    def tau_interval(self, *, level: float = 0.95) -> dict[str, Interval]:
        """Return a confidence interval of :attr:`tau` by language, with models as sampling units.

        The interval is NaN if there are fewer than eight models, or if each split holds out one
        model; see :func:`mirage.statistics.held_out.held_out_tau_interval`.

        Args:
            level: Confidence level of the interval.
        """
        names = sorted({name for models in self.held_out for name in models})
        rows = np.array([[names.index(name) for name in models] for models in self.held_out])
        return {
            code: held_out_tau_interval(rows, logits, self.actual[code], level=level)
            for code, logits in self.predicted.items()
        }

    @property
    def r2(self) -> dict[str, float]:
        """R² on the held-out models of all splits together, by language.

        R² is the share of the logits' variance that the surrogate explains: ``1 - sum (actual -
        predicted)^2 / sum (actual - mean)^2``. The mean is that of the logits of the split's
        training models, which is the best prediction without features. A value of 0 means that the
        surrogate predicts no better than this mean; values can be far below 0. This measure is
        known as the predictive Q2 (Wold 1982; Schüürmann et al. 2008, Journal of Chemical
        Information and Modeling 48(11), equation 9).
        """
        return self._share(self.spread)

    @property
    def r2_in_paper(self) -> dict[str, float]:
        """R² as in :attr:`r2`, but with the mean logit of all models, including held-out ones.

        The tables of MIRAGE-Bench use this definition. In practice, this mean is not known when a
        logit is predicted. A surrogate that always predicts the mean of the training models has a
        value below 0 (-0.25 if 2 of 10 models are held out).
        """
        return self._share(self.spread_in_paper)

    def _share(self, spread: Mapping[str, Floats]) -> dict[str, float]:
        return {
            code: float(1 - np.sum((self.actual[code] - logits) ** 2) / np.sum(spread[code]))
            for code, logits in self.predicted.items()
        }

    @property
    def coverage(self) -> dict[str, float]:
        """Share of the held-out models' logits that lie inside their 95 % interval, by language."""
        return {code: float(inside.mean()) for code, inside in self.covered.items()}


class _Estimate(NamedTuple):
    """An estimate of a model's logit from one version of its feature values.

    If the model left queries unanswered, there are two versions: one without these queries, and one
    in which they have the worst values.

    Attributes:
        profile: Mean of each feature.
        logit: Predicted logit.
        spread: Logit in each random draw of queries, minus ``logit``.
        errors: Random errors of the prediction in natural-log odds, of shape ``(errors, draws of
            queries)``.
    """

    profile: Floats
    logit: float
    spread: Floats
    errors: Floats


class SurrogateRanker(NearNames):
    """A surrogate that predicts the logits of new models from features, without a judge.

    It is trained on feature tables of judged models and on tournaments. A tournament is a bootstrap
    sample of the queries; the logits of the models are fitted to the judgments on these queries. A
    tournament gives one training row per model: the model's mean features over the tournament's
    queries, and its logit in the tournament (Algorithm 1 of MIRAGE-Bench, arXiv 2410.13716). If
    judgments are passed, single verdicts are used as well. Train on one language or, better, on
    several at once: see :mod:`mirage.surrogate.model`.

    Args:
        estimator: A name in :data:`~mirage.surrogate.estimators.NAMES`, or ``"verdicts"``,
            ``"verdict_trees"`` or ``"auto"``. ``"linear"`` is a monotone ridge regression per
            language. ``"forest"`` is the random forest of MIRAGE-Bench. ``"verdicts"`` selects, on
            held-out models, whether to learn from judgments, from mean features or from both.
            ``"verdict_trees"`` trains boosted trees on judgments; use it with at least
            fifteen models. ``"auto"`` selects, on held-out models, ``"linear"`` or one of the
            estimators in :data:`~mirage.surrogate.estimators.SELECTED_FROM`; with judgments it is
            the same as ``"verdicts"``.
        seed: Random seed of fitting and of the draws of predictions.

    Raises:
        UnknownNameError: If no estimator has this name.

    Example:
        >>> SurrogateRanker("ridge", seed=1)
        SurrogateRanker('ridge', seed=1)
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
        self._familiarities: dict[str, Familiarity] = {}

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
        """Train on feature tables of models and on tournaments, in one language or several.

        A language is left out if its tables lack features that most languages have. It is also left
        out if a model has no value of some feature on any query. :attr:`left_out` gives the reason.

        Args:
            tables: One table for every model of the tournaments, all with the same features.
            tournaments: Tournaments, or a mapping from language to tournaments if there are several
                languages.
            judgments: Verdicts to which the tournaments were fitted, or a mapping from language to
                verdicts. Only ``"auto"``, ``"verdicts"`` and ``"verdict_trees"`` use them.
            groups: Group of each model, such as its kind of fault. Models of one group are held out
                together when errors are measured, so intervals are also valid for new groups.

        Returns:
            The fitted surrogate itself.

        Raises:
            FeatureError: If there are no tables, if tables are in several languages but tournaments
                or judgments are not passed by language, if every language is left out, if a
                language has fewer than three models, or if the estimator needs judgments and none
                are passed.
            JudgmentError: If none of the models of the tournaments has a feature table.
            UnknownNameError: If a model or query of the tournaments has no features, or if a
                judgment is on a model or query that the tournaments do not have.
            MissingPackageError: If the estimator needs an extra that is not installed.
        """
        data, left_out = data_and_left_out(tables, tournaments, groups, judgments)
        for reason in left_out.values():
            _LOG.warning("one language is left out of the surrogate: %s", reason)
        self.fit_data(data)
        self._left_out = left_out
        return self

    def fit_data(self, data: Mapping[str, TrainingData]) -> Self:
        """Train on training data by language, and return the fitted surrogate.

        Args:
            data: Training data by language, as :func:`mirage.surrogate.training.training_data`
                returns it.

        Raises:
            FeatureError: If a language has fewer than three models, or if the estimator needs
                judgments and ``data`` has none.
        """
        judged = all(part.judgments is not None for part in data.values())
        if self.estimator in (VERDICTS, VERDICT_TREES) and not judged:
            raise FeatureError(
                f"the estimator {self.estimator!r} learns from judgments; pass the judgments to "
                "which the tournaments were fitted, as in fit(tables, tournaments, "
                "judgments=judgments)"
            )
        self._left_out = {}
        if self.estimator == VERDICT_TREES:
            recipe = Recipe(None, None, verdicts=True, trees=True)
            return self._refit(data, evaluate(data, recipe, seed=self.seed))
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
        return self._refit(data, candidate)

    @property
    def data(self) -> Mapping[str, TrainingData]:
        """The training data by language."""
        self._require_fitted()
        return self._data

    @property
    def left_out(self) -> Mapping[str, str]:
        """The languages that were left out of training: a mapping from code to reason."""
        return self._left_out

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features that a table must have for :meth:`predict`."""
        return next(iter(self.data.values())).features

    @property
    def recipe(self) -> Recipe:
        """The selected configuration of the regression."""
        return self._require_fitted()[0].recipe

    def predict(self, table: FeatureTable) -> Prediction:
        """Predict the logit of a model, with random draws that represent its uncertainty.

        If the model answered all queries of the training tournaments, the i-th draw uses the
        queries of the i-th tournament. Otherwise clusters of the answered queries are drawn with
        replacement. Draws are widened (:func:`mirage.statistics.bootstrap.widened`), because plain
        bootstrap intervals of few queries are too narrow.

        A query without any feature value counts as failed. The logit is predicted twice: without
        the failed queries, and with the worst value that a training model has on each of them. The
        lower logit is used, so a model cannot gain by not answering.

        A random prediction error is added to each draw. Its size is that of the errors on held-out
        models with similar features (:mod:`mirage.surrogate.familiarity`). The jackknife+ (Barber
        et al. 2021, Annals of Statistics 49(1)) needs no assumption about the distribution, but its
        95 % interval is infinite with fewer than 19 models.
        ``validation/coverage/held_out_intervals.py`` compares the two methods.

        A feature may have no value on any query although every query was answered. An example is
        the language of answers that are too short to identify it. If the feature needs data that a
        query may lack, this is an error. Otherwise its mean over the training models is used.

        Args:
            table: Features of the model. It may have more features than needed, in any order.

        Returns:
            The logit with its draws.

        Raises:
            FeatureError: If fewer than :data:`FEWEST_ANSWERED` queries were answered, if the table
                lacks a feature, or if a feature that needs data of the queries has no value.
            UnknownNameError: If the surrogate was not trained on the table's language.
            NotFittedError: If the surrogate is not fitted.
        """
        self._require_fitted()
        if table.language in self._left_out:
            raise FeatureError(
                f"the language {table.language!r} was left out of this surrogate: "
                f"{self._left_out[table.language]}"
            )
        part = self._part(table.language)
        if missing := [name for name in self.features if name not in table.features]:
            raise FeatureError(
                f"the features of {table.model!r} lack {', '.join(missing)}, on which this "
                "surrogate was trained; score the model with a suite that has these features"
            )
        answered = _answered_queries(table)
        table, assumed = _fill_missing_features(
            table.columns(self.features), part, partly_answered=len(answered) < len(table)
        )
        answered_table = table.select(answered)
        answered_ids = set(answered)
        if set(part.query_ids) <= answered_ids:
            table = answered_table = answered_table.select(part.query_ids)
        versions = [answered_table.values]
        if len(answered_table) < len(table):
            versions.append(_fill_with_worst(table, answered_table, part))
        order = (
            *answered_table.query_ids,
            *(id_ for id_ in table.query_ids if id_ not in answered_ids),
        )
        estimates = [
            self._estimate(table, values, order[: len(values)], part) for values in versions
        ]
        least = min(estimates, key=lambda estimate: estimate.logit)
        spread = max((estimate.spread for estimate in estimates), key=np.std)
        errors = max((estimate.errors for estimate in estimates), key=np.std)
        # Use the widest spread and errors: missing answers must not narrow the interval.
        draws = (least.logit + spread + errors).ravel()
        unlike = self._familiarity(part.language).unlike(least.profile)
        return Prediction(table.model, table.language, least.logit, draws, unlike, assumed)

    def _estimate(
        self, table: FeatureTable, values: Floats, queries: tuple[str, ...], part: TrainingData
    ) -> _Estimate:
        _, model = self._require_fitted()
        counts, clusters = part.counts, part.clusters
        if queries != part.query_ids:
            clusters = tuple(cluster_names(queries, table.clusters))
            counts = draw_clusters(clusters, None, len(counts), seed=self.seed)
        profile = np.nanmean(values, axis=0)
        indices = _indices_of(queries, part.query_ids)
        (logit,) = model.logits(part.language, values[None], queries=indices).tolist()
        drawn_logits = model.logits(part.language, values, counts, queries=indices)
        seed = [self.seed, *_digest(values)]
        errors = self._familiarity(part.language).errors(profile, len(drawn_logits), seed)
        return _Estimate(profile, logit, widened(drawn_logits, counts, clusters) - logit, errors)

    def fitted_logits(self, language: str) -> Floats:
        """Return the logits that the surrogate predicts for its own training models.

        The logits are computed from features alone, whereas the logits in :attr:`data` come from
        verdicts.

        Args:
            language: Language code.

        Returns:
            Logits in natural-log odds, of shape ``(models,)``, in the order of the models in
            :attr:`data`.

        Raises:
            UnknownNameError: If the surrogate was not trained on the language.
            NotFittedError: If the surrogate is not fitted.
        """
        _, model = self._require_fitted()
        part = self._part(language)
        return model.logits(language, part.values, queries=np.arange(len(part.query_ids)))

    def scores(self, table: FeatureTable) -> Floats:
        """Return a score for each response of a model.

        For two responses to a query, the difference of their scores is the log-odds that the first
        response wins. If no verdicts were used in training, a score is the logit that a model would
        have if all its responses had the features of this response. A missing value is replaced by
        the mean of the feature over the training models.

        Args:
            table: Features of the model.

        Returns:
            Scores of shape ``(queries,)``.

        Raises:
            UnknownNameError: If the surrogate was not trained on the table's language.
            NotFittedError: If the surrogate is not fitted.
        """
        _, model = self._require_fitted()
        part = self._part(table.language)
        values = table.columns(self.features).values
        means = part.mean_X.mean(axis=0)
        return model.response_logits(part.language, np.where(np.isnan(values), means, values))

    def _part(self, language: str) -> TrainingData:
        """Return the training data of a language."""
        if language not in self._data:
            raise UnknownNameError("training language", language, self._data)
        return self._data[language]

    def _familiarity(self, language: str) -> Familiarity:
        if language not in self._familiarities:
            candidate, _ = self._require_fitted()
            self._familiarities[language] = Familiarity.of(self._data[language], candidate.of_all)
        return self._familiarities[language]

    def cross_validate(
        self,
        holdout: int = 2,
        repeats: int = 20,
        *,
        n_jobs: int = 1,
        executor: Executor | None = None,
    ) -> Validation:
        """Train without some models in each of several splits, and predict the held-out models.

        Held-out models are not used in training at all, not even to select the configuration.

        Args:
            holdout: Number of models that are held out in each split, in all languages at once. If
                there are several languages, only models that all of them have are held out.
            repeats: Number of random splits, in which each model is held out about equally often.
                If at most this many distinct splits exist, each of them is used once instead.
            n_jobs: Number of processes.
            executor: Executor whose workers fit and predict, instead of processes.

        Returns:
            Predicted and actual logits of the held-out models.

        Raises:
            FeatureError: If fewer than three models would remain in training, or if the surrogate
                was stored without its verdicts, as the bundled surrogates are.
            SettingError: If ``repeats`` is below 1.
            NotFittedError: If the surrogate is not fitted.
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
        spread, spread_in_paper = {}, {}
        for code, part in self._data.items():
            means = [[part.without(models).mean_y.mean()] for models in splits]
            spread[code] = (actual[code] - np.array(means)) ** 2
            spread_in_paper[code] = (actual[code] - part.mean_y.mean()) ** 2
        return Validation(tuple(splits), predicted, actual, covered, spread, spread_in_paper)

    def importances(self, holdout: int = 2, repeats: int = 20) -> dict[str, float]:
        """Return the permutation importance of each feature on held-out models, largest first.

        The selected configuration is fitted again without the held-out models. The feature's values
        for a held-out model are then replaced by those of each model in turn. The importance is the
        increase of the mean squared error, divided by the variance of the logits (Breiman 2001,
        Random Forests, section 10), averaged over languages.

        Args:
            holdout: Number of models that are held out in each split.
            repeats: Number of splits.

        Returns:
            Importances by name of the feature.

        Raises:
            FeatureError: If fewer than three models would remain in training, or if the surrogate
                was stored without its verdicts, as the bundled surrogates are.
            SettingError: If ``repeats`` is below 1.
            NotFittedError: If the surrogate is not fitted.
        """
        self._require_verdicts()
        candidate, _ = self._require_fitted()
        increase = np.zeros(len(self.features))
        splits = list(deal_splits(shared_models(self._data), holdout, repeats, self.seed))
        for models in splits:
            rest = {code: part.without(models) for code, part in self._data.items()}
            refit = evaluate(rest, candidate.recipe, seed=self.seed)
            model = fit_model(rest, refit, seed=self.seed)
            for part in self._data.values():
                increase += _error_increase(model, part, models) / (len(splits) * len(self._data))
        order = np.argsort(-increase, kind="stable")
        return {self.features[i]: float(increase[i]) for i in order}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the surrogate to a file: training data, selected configuration, and any trees.

        :meth:`load` fits everything but trees again. The file contains arrays and JSON (``.npz``),
        whatever its name is, and cannot run code.

        Args:
            path: Path of the file.

        Raises:
            ArtifactError: If the file cannot be written.
            NotFittedError: If the surrogate is not fitted.
        """
        artifacts.write(path, self.artifact)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, trust: bool = False) -> Self:
        """Read a surrogate that :meth:`save` wrote with any version of scikit-learn.

        Args:
            path: Path of the file.
            trust: Whether to read files other than bundled surrogates. Trust only your own files or
                those of authors you trust. A surrogate decides how models are ranked, and joblib
                files, which earlier versions wrote, can run code.

        Raises:
            ArtifactError: If there is no such file, or it is not a surrogate or not trusted.
            MissingPackageError: If the estimator needs an extra that is not installed.
        """
        return cls.restored(artifacts.read(path, trust=trust))

    @classmethod
    def pretrained(cls, language: str, *, level: str = "quick") -> Self:
        """Return the bundled surrogate of a language, trained on simulated systems.

        Args:
            language: Language code.
            level: Level of the bundled queries, see :meth:`mirage.MirageDataset.bundled`.

        Raises:
            UnknownNameError: If there is no such language or level.
            ArtifactError: If the file of the surrogate is missing or damaged.
        """
        return cls.restored(artifacts.read_pretrained(language, level))

    @property
    def artifact(self) -> artifacts.Artifact:
        """The contents of the file that :meth:`save` writes: training data and configuration."""
        candidate, model = self._require_fitted()
        trees = model.scores.trees if isinstance(model.scores, Shares) else None
        return artifacts.Artifact(self.estimator, self.seed, candidate, self._data, trees)

    @classmethod
    def restored(cls, artifact: artifacts.Artifact) -> Self:
        """Fit a surrogate to the training data of an artifact.

        Args:
            artifact: Contents of a surrogate file.

        Raises:
            ArtifactError: If fitting fails on the data of the artifact.
            MissingPackageError: If the estimator needs an extra that is not installed.
        """
        try:
            ranker = cls(artifact.estimator, seed=artifact.seed)
            return ranker._refit(artifact.data, artifact.candidate, artifact.trees)
        except MissingPackageError:
            raise
        except Exception as error:  # foreign data can fail anywhere
            raise ArtifactError(
                f"the surrogate cannot be fitted to the training data in its file ({error}); "
                "train it again"
            ) from error

    def _refit(
        self,
        data: Mapping[str, TrainingData],
        candidate: Candidate,
        trees: TreeArrays | None = None,
    ) -> Self:
        self._data, self._candidate, self._familiarities = dict(data), candidate, {}
        self._model = fit_model(self._data, candidate, seed=self.seed, trees=trees)
        return self

    def _require_verdicts(self) -> None:
        candidate, _ = self._require_fitted()
        stored = all(part.judgments is not None for part in self._data.values())
        if candidate.recipe.verdicts and not stored:
            raise FeatureError(
                "this surrogate was saved without its training verdicts, so it cannot be refitted "
                "with models held out; train a new one with `mirage surrogate train` or "
                "mirage.surrogate.pretraining.train_on_arena"
            )

    def _require_fitted(self) -> tuple[Candidate, FittedModel]:
        if self._candidate is None or self._model is None:
            raise NotFittedError("this surrogate is not fitted: call fit or load first")
        return self._candidate, self._model


def _fill_missing_features(
    table: FeatureTable, part: TrainingData, *, partly_answered: bool
) -> tuple[FeatureTable, tuple[str, ...]]:
    """Replace each feature that has no value on any query by its mean over the training models.

    If all queries were answered, a feature that needs data in the query, such as a reference, is
    not replaced, and its absence is an error. If the model failed on some queries
    (``partly_answered``), all features without values are replaced.

    Returns:
        The table, and the names of the replaced features.
    """
    missing = [
        j
        for j, name in enumerate(table.features)
        if np.isnan(table.values[:, j]).all()
        and (partly_answered or not facts(name, part.facts).needs)
    ]
    if not missing or np.isnan(table.values).all():
        require_values(table)
        return table, ()
    values = table.values.copy()
    values[:, missing] = part.mean_X[:, missing].mean(axis=0)
    filled = replace(table, values=values)
    require_values(filled)
    return filled, tuple(table.features[j] for j in missing)


def _answered_queries(table: FeatureTable) -> tuple[str, ...]:
    """Return the queries on which at least one feature has a value.

    Raises:
        FeatureError: If there are fewer than :data:`FEWEST_ANSWERED` of them.
    """
    rows = np.flatnonzero(~np.isnan(table.values).all(axis=1)).tolist()
    if len(rows) < FEWEST_ANSWERED:
        raise FeatureError(
            f"model {table.model!r} answered {len(rows)} of {len(table)} queries "
            f"({table.language}); at least {FEWEST_ANSWERED} answered queries are needed to rank it"
        )
    return tuple(table.query_ids[row] for row in rows)


def _fill_with_worst(
    table: FeatureTable, answered_table: FeatureTable, part: TrainingData
) -> Floats:
    """Return the values of the answered queries, followed by the worst values for other queries.

    For each feature, the worst value of any training model on the query is used. If no training
    model has a value on this query, the worst value on any query is used. The filled value is never
    better than the model's mean over the answered queries. It is NaN if the feature has no known
    direction, that is, neither high nor low values are better.
    """
    signs = np.array(part.monotone)
    direction = np.where(signs < 0, -1, 1)
    on_query = np.fmin.reduce(direction * part.values, axis=0)
    on_any = np.fmin.reduce(on_query, axis=0)
    positions = {id_: position for position, id_ in enumerate(part.query_ids)}
    answered = set(answered_table.query_ids)
    rows = [
        on_query[positions[id_]] if id_ in positions else on_any
        for id_ in table.query_ids
        if id_ not in answered
    ]
    worst = np.array(rows).reshape(-1, len(signs))
    worst = np.where(np.isnan(worst), on_any, worst)
    worst = direction * np.fmin(worst, direction * np.nanmean(answered_table.values, axis=0))
    worst[:, signs == 0] = np.nan
    return np.concatenate([answered_table.values, worst])


def _digest(values: Floats) -> bytes:
    """Return a digest of features, to which differences by rounding make no difference."""
    rounded = np.nan_to_num(values.round(_DIGEST_DECIMALS), nan=np.inf, posinf=np.inf) + 0.0
    return sha256(rounded.tobytes()).digest()


def shared_models(data: Mapping[str, TrainingData]) -> list[str]:
    """Return the names of the models that every language has, sorted."""
    return sorted(set.intersection(*(set(part.models) for part in data.values())))


def deal_splits(
    models: Sequence[str], holdout: int, repeats: int, seed: int
) -> Iterator[tuple[str, ...]]:
    """Return an iterator over the models to hold out in each split, ``holdout`` at a time.

    If at most ``repeats`` distinct sets of models exist, each of them is held out once. Otherwise
    there are ``repeats`` random sets.

    Raises:
        SettingError: If ``repeats`` is below 1.
        FeatureError: If ``holdout`` is below 1, or fewer than three models would remain.
    """
    if repeats < 1:
        raise SettingError(f"repeats must be at least 1, got {repeats}")
    if not 1 <= holdout <= len(models) - 3:
        raise FeatureError(
            f"{holdout} of {len(models)} models cannot be held out; at least one must be held "
            "out, and at least three must remain for training"
        )
    # Random splits would repeat if there are only a few distinct ones.
    if comb(len(models), holdout) <= repeats:
        return combinations(models, holdout)
    return islice(_shuffled_splits(models, holdout, np.random.default_rng(seed)), repeats)


def _shuffled_splits(
    models: Sequence[str], holdout: int, rng: np.random.Generator
) -> Iterator[tuple[str, ...]]:
    while True:
        order = rng.permutation(len(models))
        for start in range(0, len(models) - holdout + 1, holdout):
            yield tuple(models[i] for i in sorted(order[start : start + holdout]))


def _predict_held_out(
    estimator: str, seed: int, data: Mapping[str, TrainingData], models: tuple[str, ...]
) -> dict[str, tuple[Floats, Floats, NDArray[np.bool_]]]:
    """Train without some models, and predict their logits.

    Returns:
        For each language, three arrays in the order of ``models``: the predicted logits, the actual
        logits, and whether the 95 % interval contains the actual logit.
    """
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


def _indices_of(query_ids: Sequence[str], among: Sequence[str]) -> NDArray[np.intp] | None:
    """Return the indices of queries in ``among``; ``None`` if some query is not in it."""
    index = {query_id: i for i, query_id in enumerate(among)}
    indices = [index.get(query_id, -1) for query_id in query_ids]
    return None if -1 in indices else np.array(indices, dtype=np.intp)


def _error_increase(model: FittedModel, part: TrainingData, models: Sequence[str]) -> Floats:
    """Return, for each feature, the increase in mean squared error when the feature is permuted.

    To permute a feature, its values for each held-out model in ``models`` are replaced by those of
    each model in turn. The increase is divided by the variance of the logits.
    """
    rows = [part.models.index(name) for name in models]
    all_queries = np.arange(len(part.query_ids))
    actual, variance = part.mean_y[rows], part.mean_y.var()
    predicted = model.logits(part.language, part.values[rows], queries=all_queries)
    before = np.mean((predicted - actual) ** 2)
    increase = np.zeros(len(part.features))
    for row, logit in zip(rows, actual, strict=True):
        for j in range(len(part.features)):
            # One copy of the responses per model; each copy has that model's values of feature j.
            values = np.repeat(part.values[row][None], len(part.models), axis=0)
            values[:, :, j] = part.values[:, :, j]
            after = np.mean((model.logits(part.language, values, queries=all_queries) - logit) ** 2)
            increase[j] += (after - before) / max(variance, 1e-12) / len(rows)
    return increase
