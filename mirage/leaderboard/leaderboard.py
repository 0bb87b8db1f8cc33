"""Leaderboards, which rank a model among reference models whose logits are known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from mirage._base.garbage import rare_collection
from mirage._base.near_names import NearNames
from mirage.arena.judge import PairwiseJudge
from mirage.arena.judgments import JudgmentsLike, as_judgments
from mirage.arena.pairs import Pair
from mirage.arena.verdicts import Judged
from mirage.dataset import Cluster, DatasetLike, MirageDataset, as_dataset
from mirage.errors import DatasetError, JudgmentError, UnknownNameError
from mirage.generation import respond
from mirage.generation.base import check_name
from mirage.generation.responses import ModelLike, own_name
from mirage.human_agreement import known_agreement
from mirage.languages import Language
from mirage.leaderboard import _judged
from mirage.leaderboard._anchors import JudgedAnchors, TrainedAnchors
from mirage.leaderboard._closed_book import closed_book_accuracies
from mirage.leaderboard._entries import (
    EQUAL,
    ScoredModel,
    build_ranking,
    feature_agreement,
    judged_entry,
    ranking_title,
    undecided_notes,
)
from mirage.leaderboard._published import published_ranking
from mirage.leaderboard._settings import (
    RankOptions,
    RankSettings,
    systems_by_name,
    with_named_closed_book,
    with_rank_options,
)
from mirage.leaderboard._suite import offline_suite
from mirage.llm.estimates import Estimate, sum_estimates
from mirage.models import HumanAgreement, Run
from mirage.ranking import Evidence, Ranking
from mirage.statistics.bootstrap import NO_INTERVAL
from mirage.statistics.rank_sets import first_model, rank_sets, winner_interval
from mirage.statistics.ranks import ranks

if TYPE_CHECKING:
    from mirage.features import FeatureSuite, FeatureTable
    from mirage.ranking.accuracy import Accuracy
    from mirage.surrogate.ranker import SurrogateRanker

SIMULATED = (
    "anchor/... are simulated systems, whose answers are made from the bundled corpus, most of "
    "them with a known fault. A rank shows how well a system answers the bundled "
    "general-knowledge questions from given passages, not how good it is on your documents."
)
"""Explanation of a bundled leaderboard of the quick level."""

SIMULATED_HARD = (
    "anchor/... are simulated systems, whose answers are made from the bundled corpus, most of "
    "them with a known fault. A rank shows how well a system combines passages on invented facts, "
    "which it cannot know, not how good it is on your documents."
)
"""Explanation of a bundled leaderboard of the hard level."""

OFFICIAL = (
    "The other models are the LLMs of MIRAGE-Bench, as an LLM judged them. A rank predicts from "
    "features how this judge would rank a system on questions about Wikipedia."
)
"""Explanation of the leaderboard of MIRAGE-Bench."""


class Leaderboard(NearNames):
    """A leaderboard that ranks a model among reference models, with few judgments or none.

    The reference models, called anchors, are training models of a surrogate. The surrogate predicts
    logits from features of responses. :attr:`ranking` is the ranking of the anchors, and
    :meth:`rank` adds a model to it.

    Args:
        dataset: Queries that models answer, or the language code of bundled queries.
        suite: Features of the responses, which must include those that the ranker needs.
        ranker: The surrogate that predicts logits from features.
        anchors: Names of the ranker's training models that serve as anchors. By default all.
        prefix: Text to put before the names of the anchors, such as ``anchor/``.
        agreement: How well the judge whose judgments trained the ranker agrees with people, such as
            :attr:`PairwiseJudge.agreement <mirage.PairwiseJudge.agreement>`.
        runs: Responses of the anchors, or a function that returns them when they are first needed.
            They are needed if :meth:`rank` is called with a judge.
        about: One line that explains the anchors and the meaning of a rank to readers of a ranking.
        provenance: Sources of the ranker, such as its training data.

    Attributes:
        agreement: How well the judge and the ranker's features agree with people, if this is known.

    Raises:
        FeatureError: If suite, ranker and dataset differ in language, or if the suite lacks a
            feature that the ranker needs.
        UnknownNameError: If an anchor is not a training model of the ranker.

    Example:
        >>> from mirage import Leaderboard
        >>> Leaderboard.published("en").models[0]
        'gpt-4o-azure'
    """

    def __init__(
        self,
        dataset: DatasetLike,
        suite: FeatureSuite,
        ranker: SurrogateRanker | JudgedAnchors,
        anchors: Sequence[str] | None = None,
        *,
        prefix: str = "",
        agreement: Iterable[HumanAgreement] = (),
        runs: Iterable[Run] | Callable[[], Iterable[Run]] = (),
        about: str = "",
        provenance: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.dataset: MirageDataset = as_dataset(dataset)
        self.suite: FeatureSuite = suite
        # from_judgments passes anchors whose surrogate is fitted when it is first needed.
        judged = isinstance(ranker, JudgedAnchors)
        self._anchors = (
            ranker
            if isinstance(ranker, JudgedAnchors)
            else TrainedAnchors(self.dataset, suite, ranker, anchors, prefix, runs)
        )
        self.anchors: tuple[str, ...] = self._anchors.models
        self.prefix = prefix
        self.about = about
        self.provenance = dict(provenance)  # a read-only view of it could not be pickled
        features = suite.names if judged else self.ranker.features
        self.agreement: tuple[HumanAgreement, ...] = (
            *agreement,
            *feature_agreement(features, self.dataset.language),
        )

    @classmethod
    def bundled(cls, language: str, *, level: str = "quick") -> Leaderboard:
        """Return a leaderboard that ships with mirage: bundled queries and a trained surrogate.

        The anchors are simulated systems, such as ``anchor/uncited``. Most of them have a known
        fault. :meth:`MultilingualLeaderboard.bundled` returns one leaderboard for each of the 18
        languages.

        Args:
            language: ISO 639-1 code.
            level: ``"quick"`` for 40 general-knowledge queries with five passages each; they
                distinguish good systems from careless ones. ``"hard"`` for 60 queries with 12 to 15
                passages each, several of which are needed for the answer; they distinguish good
                systems from each other. See :meth:`mirage.MirageDataset.bundled`.

        Raises:
            UnknownNameError: If there is no such language or level.

        Example:
            >>> from mirage import Leaderboard
            >>> len(Leaderboard.bundled("sw", level="hard").dataset)
            60
        """
        from mirage.features import FeatureSuite
        from mirage.surrogate.levels import SIMULATED as SYSTEMS
        from mirage.surrogate.pretraining import simulated_runs
        from mirage.surrogate.ranker import SurrogateRanker

        code = Language.with_board(language).code
        dataset = MirageDataset.bundled(code, level=level)
        anchors = SYSTEMS[level].anchors
        return cls(
            dataset,
            FeatureSuite.default(code),
            SurrogateRanker.pretrained(code, level=level),
            anchors,
            prefix="anchor/",
            runs=lambda: simulated_runs(code, anchors, level=level).values(),
            about=SIMULATED if level == "quick" else SIMULATED_HARD,
        )

    @classmethod
    def from_hub(
        cls,
        language: str,
        suite: FeatureSuite | None = None,
        *,
        path: str | Path | None = None,
        revisions: Mapping[str, str] | None = None,
        judge: str | None = None,
        published: Collection[str] = (),
        estimator: str = "auto",
        seed: int = 0,
        n_jobs: int = 1,
        progress: bool = True,
    ) -> Leaderboard:
        """Return the leaderboard of MIRAGE-Bench: 19 LLMs judged by GPT-4o (extra ``hub``).

        The surrogate is trained on features of the recorded outputs of the 19 LLMs, and on their
        logits in 200 tournaments (arXiv 2410.13716). A tournament is a bootstrap sample of 100
        queries, and its logits are fitted to the judgments on these queries. The surrogate is
        stored in the folder ``hub`` of the library's cache, and trained again only if its inputs
        change. :attr:`provenance` records these inputs, and the accuracy of the surrogate on
        held-out models. The dataset contains only queries with judgments.

        Args:
            language: ISO 639-1 code of one of the 18 languages.
            suite: Features of the responses. By default those of
                :meth:`~mirage.FeatureSuite.default`, ``reference_recall``, ``answer_char3`` and
                ``answer_length``, if they can be computed on the benchmark. They are computed from
                the recorded outputs with the same code as for a new model.
            path: Folder with copies of the benchmark's datasets, to read instead of
                downloading them from the hub.
            revisions: Commit hash of the revision to read, by name of the dataset. By default the
                newest revisions are downloaded once, and later calls use them again.
            judge: Name of the judge whose judgments are used. By default the only one or, if there
                are several, GPT-4o.
            published: Features of the suite whose values for the 19 LLMs are read from the
                published data instead of being computed. This is correct only if the suite uses the
                same models as the benchmark. Missing values count as 0, as in the paper.
            estimator: Estimator of :class:`~mirage.SurrogateRanker`. By default the surrogate may
                also be fitted to single verdicts. ``"forest"`` is the random forest of the paper,
                which is always trained and stored as well, for comparison.
            seed: Random seed of tournaments and surrogate.
            n_jobs: Number of processes that compute features and validate, as in joblib.
            progress: Whether to show progress bars on stderr, if stderr is a terminal.

        Raises:
            DatasetError: If the hub cannot be reached (the message has a command for a machine with
                access), or if a file is invalid (the message names the row).
            UnknownNameError: If there is no such language, dataset, judge or feature, or if a
                judged model or query is not in the other datasets.
            FeatureError: If a feature fails, or if a model has no value of a feature on any query.
            MissingPackageError: If the extra is not installed.
        """
        from mirage.leaderboard import official

        surrogate = official.surrogate(
            suite,
            language,
            path=path,
            revisions=revisions,
            judge=judge,
            published=published,
            estimator=estimator,
            seed=seed,
            n_jobs=n_jobs,
            progress=progress,
        )
        provenance = surrogate.provenance
        return cls(
            surrogate.dataset,
            surrogate.suite,
            surrogate.ranker,
            agreement=known_agreement(provenance["judge"], language),
            runs=lambda: official.load(
                language, path=path, revisions=revisions, judge=judge
            ).runs.values(),
            about=f"{OFFICIAL} {_validation_text(provenance['validation'])}".rstrip(),
            provenance=provenance,
        )

    @classmethod
    def from_judgments(
        cls,
        judgments: Judged | JudgmentsLike,
        dataset: DatasetLike,
        runs: Iterable[Run],
        *,
        cluster: Cluster = None,
        agreement: Iterable[HumanAgreement] = (),
        tournaments: int = 200,
        seed: int = 0,
        progress: bool = True,
        suite: FeatureSuite | None = None,
        estimator: str = "auto",
        n_jobs: int = 1,
    ) -> Leaderboard:
        """Return a leaderboard of models that a judge, or people, compared.

        The attribute :attr:`ranking` is the result of :meth:`Ranking.from_judgments
        <mirage.Ranking.from_judgments>`. The first call of :meth:`rank` fits a surrogate to the
        logits of the judged models in many tournaments. A tournament is a bootstrap sample of the
        judged queries, with as many queries as were judged. The surrogate then ranks other models
        among the judged ones without a judge. The notes of both rankings contain warnings about
        weak judgments.

        To use the leaderboard again later, keep judgments, dataset and runs, and call this method
        again: the same inputs give the same figures. A saved surrogate alone does not suffice. A
        ``Leaderboard`` that is created from it has other logits and intervals of the judged models,
        because the surrogate stores only means over tournaments and not the fit.

        Args:
            judgments: Judgments, as for :meth:`Ranking.from_judgments
                <mirage.Ranking.from_judgments>`.
            dataset: Queries, or the language code of bundled queries.
            runs: Responses of every judged model.
            cluster: Clusters of related queries, as for :meth:`Ranking.from_judgments
                <mirage.Ranking.from_judgments>`.
            agreement: Agreement of the judge with people, such as :attr:`PairwiseJudge.agreement
                <mirage.PairwiseJudge.agreement>`.
            tournaments: Number of tournaments on which the surrogate is trained.
            seed: Random seed of tournaments and surrogate.
            progress: Whether to show progress bars on stderr, if stderr is a terminal.
            suite: Features of the responses. By default those of
                :meth:`~mirage.FeatureSuite.default`, ``reference_recall``, ``answer_char3`` and
                ``answer_length``, if they can be computed on the dataset. If a judged model has no
                value of a feature on any query, the surrogate does not use this feature, and a note
                names it.
            estimator: Estimator of the surrogate, as for :class:`~mirage.SurrogateRanker`.
            n_jobs: Number of processes that compute features, as in joblib.

        Raises:
            JudgmentError: If :meth:`Ranking.from_judgments <mirage.Ranking.from_judgments>` raises
                it, or if no judged model has a run because the names do not match.
            UnknownNameError: If a judged model has no run, or if there is no such estimator.
            FeatureError: If suite and dataset differ in language. Later, :meth:`rank` raises this
                error if there are too few models to train a surrogate, or if no feature has a value
                for every model.
        """
        from mirage.surrogate.ranker import SurrogateRanker
        from mirage.surrogate.training import require_models

        surrogate = SurrogateRanker(estimator, seed=seed)
        queries = as_dataset(dataset)
        queries = queries if cluster is None else queries.clustered(cluster)
        # The judgments are read several times, which an iterator does not allow.
        judgments = judgments if isinstance(judgments, Judged) else as_judgments(judgments)
        answers = {run.model: run for run in runs}
        require_models(as_judgments(judgments).models, tuple(answers), "run")
        agreement = tuple(agreement)
        anchors = JudgedAnchors(
            queries,
            offline_suite(queries) if suite is None else suite,
            surrogate,
            judgments,
            answers,
            agreement=agreement,
            tournaments=tournaments,
            seed=seed,
            n_jobs=n_jobs,
            progress=progress,
        )
        return cls(queries, anchors.suite, anchors, agreement=agreement)

    @property
    def ranker(self) -> SurrogateRanker:
        """The surrogate. On a leaderboard from judgments, it is fitted at first use."""
        return self._anchors.ranker

    @cached_property
    def ranking(self) -> Ranking:
        """The ranking of the anchors (reference models) alone.

        It is computed from the judgments on the anchors or, if there are none, from the logits on
        which the surrogate was trained.
        """
        if self._anchors.ranking is not None:
            return self._anchors.ranking
        evidence = Evidence(self.dataset, ranker=self.ranker, provenance=self.provenance)
        anchors, notes = self._anchors.scored(), self._anchors.notes()
        return build_ranking(
            anchors, self.dataset, evidence, self.agreement, notes, about=self.about
        )

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the anchors (reference models), best first, spelled as in rankings."""
        return self.ranking.models

    @staticmethod
    def published(language: str) -> Ranking:
        """Return the ranking of 19 LLMs that the MIRAGE-Bench paper publishes.

        Logits and 95 % intervals are those of the paper's Tables 7 and 8 (arXiv 2410.13716), which
        were fitted to the judgments of GPT-4o. The paper has no logits for Yoruba. For this
        language, logits and intervals are NaN, and ranks come from Figure 4.

        Args:
            language: ISO 639-1 code.

        Raises:
            UnknownNameError: If there is no such language.

        Example:
            >>> from mirage import Leaderboard
            >>> ranking = Leaderboard.published("sw")
            >>> len(ranking)
            19
        """
        return published_ranking(language)

    def __repr__(self) -> str:
        return f"Leaderboard({self.dataset!r}, anchors={len(self.anchors)})"

    def _repr_html_(self) -> str:
        """Return the ranking of the reference models as HTML, for notebooks."""
        return self.ranking._repr_html_()

    @with_rank_options
    def rank(
        self, system: ModelLike, model: str | None = None, **options: Unpack[RankOptions]
    ) -> Ranking:
        """Rank one system among the anchors.

        Without a judge, the surrogate predicts the logit from the system's features. With a judge,
        responses of the system are compared with responses of the anchors, in ``judgments`` pairs.
        The surrogate's predictions for all pairs supplement these verdicts. This is
        prediction-powered inference: the interval is valid regardless of the quality of the
        surrogate (:func:`mirage.arena.placement.place`). If all pairs are judged, the surrogate has
        no effect. The logits of the anchors do not change.

        Pairs are drawn at random, and all queries are used once before any query is used twice. A
        larger number of judgments includes the pairs of any smaller number, so judgments can be
        added later.

        Args:
            system: System to rank: a function, a :class:`~mirage.Generator`, a
                :class:`~mirage.Run`, a mapping from query id to text, or the path of a JSON Lines
                file of responses. A function, sync or async, takes a query. It returns a text, a
                tuple of the text and its passages, or a :class:`~mirage.Response`. To store the
                responses of a function or generator, create a run first with
                :func:`~mirage.respond` and ``out=``.
            model: Name in the ranking. By default that of the generator or run, or ``"my-model"``.
            **options: The keyword arguments below.

        Keyword Args:
            judge: A :class:`~mirage.PairwiseJudge`, an :class:`~mirage.LLM` or its name, or any
                object with the method ``judge`` of :class:`~mirage.arena.judge.PairJudge`. By
                default there is no judge. :meth:`estimate` predicts the cost of the judge.
            judgments: Number of pairs for the judge. By default all pairs; with 0 the judge is not
                called.
            until_width: Stop the judge when the interval of the logit is at most this wide.
            until_against: Name of an anchor. Stop the judge when the system is significantly better
                or significantly worse than this anchor. A stopping rule is checked at most eight
                times, and intervals are wider to compensate.
            out: File to which votes are appended, as for :class:`~mirage.PairwiseJudge`.
            seed: Random seed of the choice of pairs.
            progress: Whether to show progress bars on stderr, if stderr is a terminal.
            n_jobs: Number of processes that compute features, as in joblib.
            concurrency: Number of simultaneous calls of an async function. A generator uses its own
                setting.
            timeout: Seconds that a function may take for a query; see :func:`~mirage.respond`.
            closed_book: Whether to measure the accuracy of the system's answers from memory.
                ``True`` asks the system all queries a second time, without passages. For an LLM,
                pass a generator instead whose prompt asks for an answer from memory, such as
                :class:`~mirage.generation.ShortAnswerPrompt`. Any other system works too, such as
                a run of recorded responses. The result is :attr:`Entry.closed_book
                <mirage.ranking.Entry.closed_book>`, and does not change the logit.

        Returns:
            The ranking. Queries on which the system fails are listed under the table and excluded
            from its features. For the logit, a failed query gets the worst feature values of any
            training model on it. With a judge, a note states the number of judgments that were
            used, and the number that would be needed for the same precision without the surrogate's
            predictions.

        Raises:
            GenerationError: If the system fails on every query.
            UnknownNameError: If the system answers a query that is not in the dataset.
            DatasetError: If a run or file cannot be used, or if the name is empty or the name of an
                anchor.
            FeatureError: If a feature fails, or cannot be computed for any response.
            SettingError: If ``judgments`` is below 0, if it is above 0 without a judge, or if there
                is a stopping rule without judgments.
            JudgmentError: If the responses of the anchors are not available, or if no judgment was
                obtained.
        """
        model = own_name(system) if model is None else model
        return self.rank_many({model: system}, **with_named_closed_book(options, model))

    @with_rank_options
    def rank_many(self, models: Mapping[str, ModelLike], **options: Unpack[RankOptions]) -> Ranking:
        """Rank several models together among the anchors, in one ranking.

        ``judgments``, ``until_width`` and ``until_against`` apply to each model separately.
        :meth:`Ranking.compare <mirage.Ranking.compare>` compares two of these models query by
        query. The method raises the same errors as :meth:`rank`.

        Args:
            models: Systems by name, each as for :meth:`rank`.
            **options: The keyword arguments of :meth:`rank`: ``judge``, ``judgments``,
                ``until_width``, ``until_against``, ``out``, ``seed``, ``progress``, ``n_jobs``,
                ``concurrency``, ``timeout`` and ``closed_book``, which is ``True`` or a mapping
                from model names to systems without passages.

        Returns:
            The ranking of the anchors and all of these models.
        """
        return self._rank(systems_by_name(models), RankSettings(**options))

    @rare_collection()
    def _rank(self, models: Mapping[str, ModelLike], settings: RankSettings) -> Ranking:
        """Rank several models with validated settings; see :meth:`rank_many`."""
        for name in models:
            self._check_name(name)
        if settings.asks_judge:
            self._check_anchors(settings)
        closed_book = closed_book_accuracies(self.dataset, models, settings)
        runs = [self._respond(model, name, settings) for name, model in models.items()]
        tables = self.suite.score_all(
            self.dataset, runs, n_jobs=settings.n_jobs, progress=settings.progress
        )
        if settings.asks_judge:
            return self._rank_by_judge(settings, runs, tables, closed_book)
        scored = [self._score(run, table) for run, table in zip(runs, tables, strict=True)]
        evidence = Evidence(
            self.dataset,
            {run.model: run for run in runs},
            {run.model: table for run, table in zip(runs, tables, strict=True)},
            self.ranker,
            self.provenance,
            fit=self._anchors.fit,
            closed_book=closed_book,
        )
        anchors = self._anchors.scored()
        notes = (
            *self._anchors.notes(),
            *self._anchors.surrogate_notes(),
            *undecided_notes(scored, anchors, len(self._anchors.data.models)),
        )
        return build_ranking(
            [*anchors, *scored], self.dataset, evidence, self.agreement, notes, about=self.about
        )

    @with_rank_options
    def estimate(
        self, system: ModelLike, model: str | None = None, **options: Unpack[RankOptions]
    ) -> Estimate:
        """Estimate the largest number of judge calls that :meth:`rank` makes, and their cost.

        The judge is not called, but the system is. To avoid the cost of the system's answers, pass
        its run or the file of its responses.

        Args:
            system: System to rank, as for :meth:`rank`.
            model: Name in the ranking, as for :meth:`rank`.
            **options: The keyword arguments of :meth:`rank`: ``judge``, ``judgments``,
                ``until_width``, ``until_against``, ``out``, ``seed``, ``progress``, ``n_jobs``,
                ``concurrency``, ``timeout`` and ``closed_book``.

        Returns:
            The estimated calls and cost.

        Raises:
            JudgmentError: If the responses of the anchors are not available, or if the judge cannot
                estimate its cost.
            SettingError: If settings contradict each other, as for :meth:`rank`.
        """
        model = own_name(system) if model is None else model
        return self._estimate(system, model, RankSettings(**options))

    def _estimate(self, system: ModelLike, model: str, settings: RankSettings) -> Estimate:
        """Estimate the judge's calls with validated settings; see :meth:`estimate`."""
        if not settings.asks_judge:
            return sum_estimates([])
        judge = settings.judge
        if not isinstance(judge, PairwiseJudge):
            raise JudgmentError(f"{judge!r} cannot estimate its cost; only a PairwiseJudge can")
        self._check_name(model)
        runs = self._anchors.runs()
        run = self._respond(system, model, settings)
        pairs = _judged.pairs_for(self.dataset, run, runs, settings.judgments, settings.seed)[0]
        return judge.estimate_pairs(self.dataset, [run, *runs.values()], pairs)

    def judged_pairs(
        self, run: Run, *, judgments: int | None = None, seed: int = 0
    ) -> tuple[tuple[Run, ...], tuple[Pair, ...]]:
        """Return the pairs that :meth:`rank` would pass to a judge, for people to compare.

        Args:
            run: Responses of the system.
            judgments: Number of pairs. By default all pairs.
            seed: Random seed of the choice of pairs.

        Returns:
            The runs and the pairs. The first run is that of the system, and the others are those of
            the anchors. The pairs are in the order of judging.

        Raises:
            JudgmentError: If the responses of the anchors are not available.
            DatasetError: If the model of the run has no name or the name of an anchor.
        """
        self._check_name(run.model)
        runs = self._anchors.runs()
        pairs = _judged.pairs_for(self.dataset, run, runs, judgments, seed)[0]
        return (run, *runs.values()), tuple(pairs)

    def _respond(self, system: ModelLike, model: str, settings: RankSettings) -> Run:
        """Return the responses of a system."""
        return respond(
            system,
            self.dataset,
            model,
            progress=settings.progress,
            concurrency=settings.concurrency,
            timeout=settings.timeout,
        )

    def _rank_by_judge(
        self,
        settings: RankSettings,
        runs: Sequence[Run],
        tables: Sequence[FeatureTable],
        closed_book: Mapping[str, Accuracy],
    ) -> Ranking:
        """Return the ranking of reference models and of models that a judge places among them."""
        anchor_set = self._anchors.anchor_set()
        placements = [
            _judged.place_by_judge(
                settings,
                self.dataset,
                run,
                anchor_set,
                self._anchors.predicted_scores(table, anchor_set),
            )
            for run, table in zip(runs, tables, strict=True)
        ]
        confidence, draws = (
            _judged.joint_confidence(anchor_set, placements),
            _judged.joint_draws(anchor_set, placements),
        )
        entries = [*self._anchors.entries(), *map(judged_entry, runs, tables, placements)]
        logits = np.array([entry.logit for entry in entries])
        rank_numbers = ranks(logits).tolist()
        rank_intervals = rank_sets(logits, draws - logits, level=_judged.LEVEL).tolist()
        winner = winner_interval(logits, draws - logits, level=_judged.LEVEL)
        first = entries[first_model(logits)]
        names, unbound = [entry.model for entry in entries], self._anchors.unbound
        return Ranking(
            [
                replace(entry, rank=rank, rank_interval=None if name in unbound else (best, worst))
                for name, entry, rank, (best, worst) in zip(
                    names, entries, rank_numbers, rank_intervals, strict=True
                )
            ],
            language=self.dataset.language,
            title=ranking_title(self.dataset),
            draws=None if np.isnan(draws).any() else dict(zip(names, draws.T, strict=True)),
            confidence={
                name: dict(zip(names, row, strict=True))
                for name, row in zip(names, confidence.tolist(), strict=True)
            },
            notes=(
                *self._anchors.notes(),
                *(note for placement in placements for note in placement.notes),
            ),
            about=self.about,
            evidence=Evidence(
                self.dataset,
                {run.model: run for run in runs},
                {run.model: table for run, table in zip(runs, tables, strict=True)},
                self._anchors.ranker_of_judged,
                {
                    **self.provenance,
                    "judgments": sum(len(placement.judged) for placement in placements),
                },
                closed_book=closed_book,
            ),
            agreement=(*getattr(settings.judge, "agreement", ()), *self.agreement),
            level=_judged.LEVEL,
            winner_interval=NO_INTERVAL if np.isnan(first.interval[0]) else winner,
        )

    def _check_anchors(self, settings: RankSettings) -> None:
        """Raise an error if an anchor has no responses, or ``until_against`` is not an anchor."""
        runs = self._anchors.runs()
        if settings.until_against is not None and settings.until_against not in runs:
            raise UnknownNameError("anchor", settings.until_against, runs, "on this leaderboard")

    def _check_name(self, name: str) -> None:
        """Raise a DatasetError if a model's name is empty, or is the name of an anchor."""
        is_empty = isinstance(name, str) and not name.strip()
        if is_empty or name in self._anchors.shown_names:
            why = "is empty" if is_empty else "is the name of an anchor"
            raise DatasetError(f"the model name {name!r} {why}; choose another name")
        check_name(name)

    def _score(self, run: Run, table: FeatureTable) -> ScoredModel:
        """Return the run's model with the logit that the surrogate predicts from its features."""
        prediction = self.ranker.predict(table)
        failures = {response.query_id: response.error or "" for response in run.failed}
        interval = prediction.interval()
        return ScoredModel(
            model=run.model,
            logit=prediction.logit,
            # The interval has width 0 only if all training judgments are ties.
            interval=NO_INTERVAL if np.ptp(interval) < EQUAL else interval,
            draws=prediction.draws,
            features=dict(zip(table.features, table.mean().tolist(), strict=True)),
            answered=len(run) - len(failures),
            failures=failures,
            unfamiliar=prediction.unfamiliar,
            assumed=prediction.assumed,
        )


def _validation_text(validation: Mapping[str, Any]) -> str:
    """Return Kendall's tau for held-out models as a sentence; empty if it has no interval."""
    if "tau" not in validation:
        return ""
    forest = validation.get("forest")
    forest_text = f", by the paper's forest with {_tau_text(forest)}" if forest else ""
    return f"LLMs that were held out are ordered with {_tau_text(validation)}{forest_text}."


def _tau_text(validation: Mapping[str, Any]) -> str:
    low, high = validation["tau_interval"]
    return f"Kendall's tau {validation['tau']:.2f} (95 % interval {low:.2f} to {high:.2f})"
