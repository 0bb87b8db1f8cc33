"""The reference models (anchors) of a leaderboard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mirage._base.arrays import Floats
from mirage.arena import BradleyTerry
from mirage.arena.fits import BradleyTerryFit
from mirage.arena.judgments import Judgments, JudgmentsLike, as_judgments
from mirage.arena.verdicts import Judged
from mirage.dataset import MirageDataset, clusters_of
from mirage.errors import FeatureError, JudgmentError, UnknownNameError
from mirage.leaderboard import _judged, predictions
from mirage.leaderboard._entries import EQUAL, ScoredModel
from mirage.models import HumanAgreement, Run
from mirage.ranking import Entry, Ranking
from mirage.statistics.bootstrap import NO_INTERVAL
from mirage.surrogate.familiarity import ERRORS_PER_DRAW

if TYPE_CHECKING:
    from mirage.features import FeatureSuite, FeatureTable
    from mirage.surrogate.ranker import SurrogateRanker
    from mirage.surrogate.training import TrainingData


class TrainedAnchors:
    """The training models of a surrogate, as the anchors (reference models) of a leaderboard.

    Args:
        dataset: Queries that models answer.
        suite: Features of the responses.
        ranker: The surrogate.
        models: Names of the training models that serve as anchors. By default all.
        prefix: Text that a ranking puts before these names.
        runs: Responses of these models, or a function that returns them when they are first needed.

    Attributes:
        ranking: Ranking of the models by a judge or people; ``None`` if they were not judged.

    Raises:
        FeatureError: If suite, ranker and dataset differ in language, or if the suite lacks a
            feature that the ranker needs.
        UnknownNameError: If there is no such training model.
    """

    def __init__(
        self,
        dataset: MirageDataset,
        suite: FeatureSuite,
        ranker: SurrogateRanker,
        models: Sequence[str] | None,
        prefix: str,
        runs: Iterable[Run] | Callable[[], Iterable[Run]],
    ) -> None:
        training_models = _check_parts(dataset, suite, ranker)
        self.dataset = dataset
        self.suite = suite
        self.models: tuple[str, ...] = training_models if models is None else tuple(models)
        self.prefix = prefix
        self.ranking: Ranking | None = None
        self._ranker = ranker
        self._runs = runs
        for model in self.models:
            if model not in training_models:
                raise UnknownNameError("training model", model, training_models, "of the ranker")

    @property
    def ranker(self) -> SurrogateRanker:
        """The surrogate."""
        return self._ranker

    @property
    def data(self) -> TrainingData:
        """The surrogate's training data in the language of the dataset."""
        return self.ranker.data[self.dataset.language]

    @property
    def shown_names(self) -> tuple[str, ...]:
        """Names of the models as spelled in rankings: :attr:`prefix`, followed by the name."""
        return tuple(self.prefix + model for model in self.models)

    @cached_property
    def _run_of_model(self) -> Mapping[str, Run]:
        runs = self._runs() if callable(self._runs) else self._runs
        return {run.model: run for run in runs}

    def runs(self) -> dict[str, Run]:
        """Return the run of each model, by the name of the model in a ranking.

        Raises:
            JudgmentError: If some responses are not available.
        """
        missing = [model for model in self.models if model not in self._run_of_model]
        if missing or not self.models:
            raise JudgmentError(
                f"a judge needs the responses of {', '.join(missing[:5]) or 'the anchors'}, which "
                "this leaderboard does not have; pass them as Leaderboard(..., runs=...)"
            )
        return {
            name: self._run_of_model[model].model_copy(update={"model": name})
            for name, model in zip(self.shown_names, self.models, strict=True)
        }

    def tables(self) -> list[FeatureTable]:
        """Return the features of the models, one table per model.

        If the training data of the ranker contains all queries of the dataset, the features are
        read from it. Otherwise they are computed from the responses.
        """
        data = self.data
        if set(self.dataset.query_ids) <= set(data.query_ids):
            rows = [data.models.index(model) for model in self.models]
            return [data.table(row).select(self.dataset.query_ids) for row in rows]
        runs = [self._run_of_model[model] for model in self.models]
        return self.suite.score_all(self.dataset, runs, progress=False)

    @property
    def unbound(self) -> set[str]:
        """The names of models whose logits have no finite estimate.

        These models won or lost every judgment in most tournaments (bootstrap samples of the
        queries).
        """
        unbound = self.data.unbound
        return {self.prefix + model for model in self.models if model in unbound}

    def notes(self) -> tuple[str, ...]:
        """Return notes on models whose order or logits the judgments do not determine."""
        if (np.ptp(self.data.y, axis=1) < EQUAL).all():
            return (
                "all systems of this board have the same logit in every tournament, as if every "
                "judgment were a tie, so nothing shows which is better",
            )
        return tuple(
            f"{model} won or lost every judgment in most tournaments: its distance from the "
            "others is not known, and it has no interval"
            for model in sorted(self.unbound)
        )

    def scored(self) -> list[ScoredModel]:
        """Return each model with its logit, the logit's interval, and random draws of the logit."""
        data, unbound = self.data, self.unbound
        models, logits, draws = self._draws()
        scored = []
        for name, model in zip(self.shown_names, self.models, strict=True):
            row, column = data.models.index(model), models.index(model)
            tournaments = draws[: len(data.y), column]
            low, high = np.quantile(tournaments, [0.025, 0.975]).tolist()
            # Draws without variation carry no information about the uncertainty.
            if name in unbound or np.ptp(draws[:, column]) < EQUAL:
                low, high = NO_INTERVAL
            scored.append(
                ScoredModel(
                    model=name,
                    logit=float(logits[column]),
                    interval=(low, high),
                    draws=draws[:, column],
                    features=dict(zip(data.features, data.mean_X[row].tolist(), strict=True)),
                    anchor=True,
                    unbound=name in unbound,
                )
            )
        return scored

    def _draws(self) -> tuple[tuple[str, ...], Floats, Floats]:
        """Return the names of models, their logits, and random draws of these logits.

        The draws have the shape ``(draws, models)``. As in predictions, the tournaments are
        repeated.
        """
        draws = np.tile(self.data.draws, (ERRORS_PER_DRAW, 1))
        return self.data.models, self.data.mean_y, draws

    def anchor_set(self) -> _judged.AnchorSet:
        """Return the models with their runs, their logits, and the uncertainty of the logits."""
        models, logits, draws = self._draws()
        columns = [models.index(model) for model in self.models]
        return _judged.anchors_from_draws(
            self.runs(), self.dataset, logits[columns], draws[: len(self.data.y), columns]
        )

    def entries(self) -> list[Entry]:
        """Return the rows of a ranking for these models, with placeholders for the ranks."""
        return [
            Entry(
                1,
                anchor.model,
                anchor.logit,
                anchor.interval,
                features=anchor.features,
                anchor=True,
            )
            for anchor in self.scored()
        ]

    @property
    def fit(self) -> BradleyTerryFit | None:
        """The fit that ranks the models; ``None`` if the surrogate's training data ranks them."""
        return (
            None
            if self.ranking is None or not self.ranking.evidence
            else (self.ranking.evidence.fit)
        )

    @property
    def judgments(self) -> Judgments | None:
        """The judgments on the models; ``None`` if only their logits are known."""
        return self.data.judgments

    def surrogate_notes(self) -> tuple[str, ...]:
        """Return notes on the training of the surrogate; always empty for this class.

        The leaderboard did not train the surrogate, so there is nothing to note.
        """
        return ()

    @property
    def ranker_of_judged(self) -> SurrogateRanker | None:
        """The surrogate to store in a ranking that uses a judge; ``None`` to store none."""
        return self.ranker

    def predicted_scores(self, table: FeatureTable, anchor_set: _judged.AnchorSet) -> Floats:
        """Predict the scores of a model against the anchors (reference models) from its features.

        Args:
            table: Features of the model.
            anchor_set: Result of :meth:`anchor_set`.

        Returns:
            Expected scores, from 0 (the model loses) to 1 (it wins), of shape ``(queries,
            anchors)``; NaN for queries outside the dataset.
        """
        by_model = {anchor.model: anchor for anchor in self.tables()}
        tables = [by_model[model] for model in self.models]
        predicted = np.full((len(anchor_set.query_ids), len(tables)), np.nan)
        judgments = self.judgments
        predicted[: len(self.dataset)] = (
            predictions.from_logits(self.ranker, table, tables)
            if judgments is None
            else predictions.from_verdicts(table, tables, judgments)
        )
        return predicted


class JudgedAnchors(TrainedAnchors):
    """Models that a judge or people compared, as the anchors (reference models) of a leaderboard.

    Args:
        dataset: Queries that models answer.
        suite: Features of the responses.
        surrogate: An untrained surrogate, which is fitted when it is first needed.
        judgments: Result of :meth:`mirage.PairwiseJudge.judge`, or judgments from another source.
        runs: Responses of the judged models, by model name.
        agreement: Agreement of the judge with people.
        tournaments: Number of tournaments, which are bootstrap samples of the queries. The
            surrogate is trained on the logits that are fitted to the judgments of each sample.
        seed: Random seed of the tournaments.
        n_jobs: Number of processes that compute features.
        progress: Whether to show progress bars.

    Raises:
        FeatureError: If suite and dataset differ in language.
    """

    def __init__(
        self,
        dataset: MirageDataset,
        suite: FeatureSuite,
        surrogate: SurrogateRanker,
        judgments: Judged | JudgmentsLike,
        runs: Mapping[str, Run],
        *,
        agreement: Sequence[HumanAgreement],
        tournaments: int,
        seed: int,
        n_jobs: int,
        progress: bool,
    ) -> None:
        check_suite(dataset, suite)
        columns = as_judgments(judgments)
        self.dataset = dataset
        self.suite = suite
        self.models = columns.models
        self.prefix = ""
        self.ranking = self._ranking = Ranking.from_judgments(
            judgments if isinstance(judgments, Judged) else columns,
            dataset,
            runs.values(),
            agreement=agreement,
        )
        self._runs = runs.values()
        self._columns = columns
        self._surrogate = surrogate
        self._tournaments = tournaments
        self._seed = seed
        self._n_jobs = n_jobs
        self._progress = progress

    @cached_property
    def _tables(self) -> list[FeatureTable]:
        return self.suite.score_all(
            self.dataset,
            [self._run_of_model[model] for model in self.models],
            n_jobs=self._n_jobs,
            progress=self._progress,
        )

    def tables(self) -> list[FeatureTable]:
        """Return the features of the models; the first call computes them."""
        return self._tables

    @cached_property
    def _without_value(self) -> dict[str, str]:
        """Features that have no value for some model, each mapped to the name of such a model."""
        return {
            feature: table.model for table in reversed(self._tables) for feature in table.unmeasured
        }

    @cached_property
    def ranker(self) -> SurrogateRanker:
        """The surrogate, which is fitted at first use to the features that every model has."""
        bootstrapped = BradleyTerry().bootstrap(
            self._columns,
            tournaments=self._tournaments,
            queries=None,
            clusters=clusters_of(self.dataset),
            seed=self._seed,
            progress=self._progress,
        )
        features = [name for name in self.suite.names if name not in self._without_value]
        # Without any feature, the fit raises an error that gives the reason.
        tables = [table.columns(features) for table in self._tables] if features else self._tables
        return self._surrogate.fit(tables, bootstrapped, judgments=self._columns)

    @property
    def unbound(self) -> set[str]:
        """The names of models whose logits have no finite estimate; always empty for this class.

        The intervals of the judged ranking already account for such models.
        """
        return set()

    def notes(self) -> tuple[str, ...]:
        """Return the notes of the judged ranking."""
        return self._ranking.notes

    def surrogate_notes(self) -> tuple[str, ...]:
        """Return a note on each feature that the surrogate does not use."""
        return tuple(
            f"{feature} is not used, because {model} has no value of it on any query"
            for feature, model in self._without_value.items()
        )

    def scored(self) -> list[ScoredModel]:
        """Return each model with its logit and interval in the judged ranking, and logit draws."""
        return [
            replace(anchor, interval=self._ranking[anchor.model].interval)
            for anchor in super().scored()
        ]

    def _draws(self) -> tuple[tuple[str, ...], Floats, Floats]:
        fit = self.fit
        if fit is not None and fit.degrees:
            # A model that won every judgment wins every tournament, so its draws would not vary.
            return fit.models, fit.logits, fit.draws(len(self.data.y) * ERRORS_PER_DRAW)
        return super()._draws()

    def anchor_set(self) -> _judged.AnchorSet:
        """Return the models with their runs, their logits, and the uncertainty of the logits."""
        fit = self.fit
        if fit is None:
            return super().anchor_set()
        return _judged.anchors_from_fit(self.runs(), self.dataset, fit)

    def entries(self) -> list[Entry]:
        """Return the entries of the judged ranking with the mean features of each model added."""
        means = {
            table.model: dict(zip(table.features, table.mean().tolist(), strict=True))
            for table in self._tables
        }
        return [
            replace(self._ranking[model], features=means[model], anchor=True)
            for model in self.models
        ]

    @property
    def judgments(self) -> Judgments | None:
        """The judgments on the models."""
        return self._columns

    @property
    def ranker_of_judged(self) -> SurrogateRanker | None:
        """``None``, because a judged ranking needs no surrogate and may have too few models."""
        return None


def check_suite(dataset: MirageDataset, suite: FeatureSuite) -> None:
    """Raise a FeatureError if suite and dataset differ in language."""
    code = dataset.language
    if suite.language not in (None, code):
        raise FeatureError(
            f"the suite is for {suite.language!r}, but {dataset.name} is in {code!r}; create a "
            "suite for that language"
        )


def _check_parts(
    dataset: MirageDataset, suite: FeatureSuite, ranker: SurrogateRanker
) -> tuple[str, ...]:
    """Check that dataset, suite and ranker match, and return the ranker's training models."""
    check_suite(dataset, suite)
    code = dataset.language
    if code not in ranker.data:
        raise FeatureError(
            f"the ranker was trained on {', '.join(ranker.data)}, but {dataset.name} is in "
            f"{code!r}; train a ranker on that language"
        )
    missing = [name for name in ranker.features if name not in suite.names]
    if missing:
        raise FeatureError(
            f"the suite lacks {', '.join(map(repr, missing))}, on which the ranker was trained; "
            f"add these features, as in suite + {missing[0]!r}"
        )
    return ranker.data[code].models
