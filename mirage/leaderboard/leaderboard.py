"""Leaderboards, which rank a model among models that were ranked before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from mirage._base.arrays import Floats
from mirage.arena import BradleyTerry
from mirage.arena.judge import PairJudge, PairwiseJudge
from mirage.arena.judgments import JudgmentsLike, as_judgments
from mirage.arena.verdicts import Judged
from mirage.dataset import Cluster, MirageDataset, clusters_of
from mirage.errors import (
    DatasetError,
    FeatureError,
    GenerationError,
    JudgmentError,
    MirageError,
    NeuralError,
    SettingError,
    UnknownNameError,
)
from mirage.generation import Answer, Generator, respond
from mirage.generation.responses import ModelLike, own_name
from mirage.human_agreement import known_agreement
from mirage.languages import LANGUAGES, Language
from mirage.leaderboard import _judged, predictions
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
from mirage.leaderboard._suite import offline_suite
from mirage.llm.estimates import Estimate, sum_estimates
from mirage.models import HumanAgreement, Run
from mirage.ranking import Entry, Evidence, MultilingualRanking, Ranking
from mirage.statistics.bootstrap import NO_INTERVAL
from mirage.statistics.ranks import (
    rank_intervals_by_confidence,
    ranks,
)

if TYPE_CHECKING:
    from mirage.features import FeatureSuite, FeatureTable
    from mirage.surrogate.ranker import SurrogateRanker

__all__ = ["Leaderboard", "MultilingualLeaderboard"]

SIMULATED = (
    "anchor/... are simulated systems: texts made from the bundled corpus, most of them with a "
    "known fault. A rank shows how well a system answers these general-knowledge questions from "
    "given passages, not how good it is on your documents."
)
"""Explanation of a bundled leaderboard."""

OFFICIAL = (
    "The other models are the LLMs of MIRAGE-Bench, as an LLM judged them. A rank predicts from "
    "features how their judge would rank a system on questions about Wikipedia."
)
"""Explanation of the leaderboard of MIRAGE-Bench."""

MultilingualModelLike = Answer | Generator | Mapping[str, ModelLike]
"""A function or generator for the queries of all languages, or a system per language."""


class Leaderboard:
    """Ranks a model among a surrogate's training models, without a judge or with few judgments.

    Anchors are the training models that a leaderboard shows. :attr:`ranking` is their ranking, and
    :meth:`rank` adds a model to it.

    Args:
        dataset: The queries that a model answers.
        suite: Features of the responses; at least those that the ranker needs.
        ranker: The surrogate that predicts logits from features.
        anchors: Training models of the ranker to show; all by default.
        prefix: Text put before the names of the anchors.
        agreement: Agreement with people of the judge behind the ranker, such as
            :attr:`PairwiseJudge.agreement <mirage.PairwiseJudge.agreement>`.
        runs: Responses of the anchors, for :meth:`rank` with a judge.

    Attributes:
        provenance: Sources of the ranker if the leaderboard comes from :meth:`from_hub`, else
            empty.
        agreement: Agreement with people of the judge, and of the ranker's features if it is known.
        about: What the anchors are and what a rank means, in one line; empty if it is not known.

    Raises:
        FeatureError: Suite, ranker and dataset differ in language, or a feature is missing.
        UnknownNameError: An anchor is not a training model.

    Example:
        >>> from mirage import Leaderboard
        >>> Leaderboard.published("en").models[0]
        'gpt-4o-azure'
    """

    def __init__(
        self,
        dataset: MirageDataset,
        suite: FeatureSuite,
        ranker: SurrogateRanker,
        anchors: Sequence[str] | None = None,
        *,
        prefix: str = "",
        agreement: Iterable[HumanAgreement] = (),
        runs: Iterable[Run] = (),
    ) -> None:
        models = _check_parts(dataset, suite, ranker)
        self.dataset: MirageDataset = dataset
        self.suite: FeatureSuite = suite
        self.anchors: tuple[str, ...] = models if anchors is None else tuple(anchors)
        self.prefix = prefix
        self.provenance: Mapping[str, Any] = {}
        self.about: str = ""
        self.agreement: tuple[HumanAgreement, ...] = (
            *agreement,
            *feature_agreement(ranker.features, dataset.language),
        )
        self._get_ranker: Callable[[], SurrogateRanker] = lambda: ranker
        self._judged_ranking: Ranking | None = None
        answers = {run.model: run for run in runs}
        self._get_runs: Callable[[], Mapping[str, Run]] = lambda: answers
        self._get_tables: Callable[[], list[FeatureTable]] = self._tables_of_ranker
        for anchor in self.anchors:
            if anchor not in models:
                raise UnknownNameError("training model of the ranker", anchor, models)

    @overload
    @classmethod
    def bundled(cls, language: str) -> Leaderboard: ...

    @overload
    @classmethod
    def bundled(cls, language: None = None) -> MultilingualLeaderboard: ...

    @classmethod
    def bundled(cls, language: str | None = None) -> Leaderboard | MultilingualLeaderboard:
        """Return the leaderboard that ships with mirage: bundled corpus and pretrained surrogate.

        The anchors are simulated systems, such as ``anchor/uncited``, most of them with a known
        fault.

        Args:
            language: Language name or code; by default, return one leaderboard for each of the 18
                languages.
        """
        if language is None:
            return MultilingualLeaderboard({code: cls.bundled(code) for code in LANGUAGES})
        from mirage.features import FeatureSuite
        from mirage.surrogate.pretraining import simulated_runs
        from mirage.surrogate.ranker import SurrogateRanker
        from mirage.surrogate.simulation import ANCHORS

        code = Language.of(language).code
        board = cls(
            MirageDataset.bundled(code),
            FeatureSuite.offline(code),
            SurrogateRanker.pretrained(code),
            ANCHORS,
            prefix="anchor/",
        )
        board.about = SIMULATED
        board._get_runs = cache(lambda: simulated_runs(code, ANCHORS))
        return board

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

        The surrogate learns from the recorded outputs of the 19 LLMs and from their logits in 200
        tournaments of 100 queries (arXiv 2410.13716). It is stored in the folder ``hub`` of the
        library's cache, and trained again only if its inputs change. :attr:`provenance` records
        these inputs and how well the surrogate predicts held-out models. The dataset contains only
        the queries that GPT-4o judged.

        Args:
            language: One of the 18 languages.
            suite: The features. By default those of :meth:`~mirage.FeatureSuite.offline`,
                ``reference_recall``, ``answer_char3`` and ``answer_length``, if they can be
                computed on the benchmark. They are computed from the recorded outputs with the same
                code as for a new model.
            path: Folder with copies of the benchmark's datasets, to read instead of the hub.
            revisions: Commit hashes by name of the dataset. By default the newest revisions at the
                time of the first download, which are stored.
            judge: The judge whose judgments are used; GPT-4o by default.
            published: Features of the suite that are taken, for the 19 LLMs, from the published
                data. This is correct only if the suite uses the same models as the benchmark.
                Missing values count as 0, as in the paper.
            estimator: Estimator of :class:`~mirage.SurrogateRanker`; by default the surrogate
                learns from verdicts. ``"forest"`` is the paper's, which is always trained and
                stored as well, for comparison.
            seed: Random seed of tournaments and surrogate.
            n_jobs: Number of processes that compute features and validate, as in joblib.
            progress: Show progress bars on stderr, if stderr is a terminal.

        Raises:
            DatasetError: The hub cannot be reached (the message gives a command for a machine that
                can), or a file is wrong (the message gives the row).
            UnknownNameError: There is no such language, dataset, judge or feature, or a judged
                model or query is not in the other datasets.
            FeatureError: A feature fails, or some model has no value of it on any query.
            MissingPackageError: The extra is not installed.
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
        judge_name = surrogate.provenance["judge"]
        agreement = known_agreement(judge_name, language)
        board = cls(surrogate.dataset, surrogate.suite, surrogate.ranker, agreement=agreement)
        board.provenance = surrogate.provenance
        board.about = f"{OFFICIAL} {_validation_text(surrogate.provenance['validation'])}"
        board._get_runs = cache(
            lambda: official.load(language, path=path, revisions=revisions, judge=judge).runs
        )
        return board

    @classmethod
    def from_judgments(
        cls,
        dataset: MirageDataset,
        runs: Iterable[Run],
        judged: Judged | JudgmentsLike,
        *,
        suite: FeatureSuite | None = None,
        cluster: Cluster = None,
        estimator: str = "auto",
        tournaments: int = 200,
        agreement: Iterable[HumanAgreement] = (),
        seed: int = 0,
        n_jobs: int = 1,
        progress: bool = True,
    ) -> Leaderboard:
        """Return a leaderboard of models that a judge, or people, compared.

        Its :attr:`ranking` is that of :meth:`Ranking.from_judgments
        <mirage.Ranking.from_judgments>`. The first call of :meth:`rank` fits a surrogate to the
        judged models, in tournaments of as many queries as were judged. The surrogate then ranks
        other models among them without a judge. Warnings about weak judgments are in the notes of
        both rankings.

        Args:
            dataset: The queries.
            runs: Responses of every judged model.
            judged: Result of :meth:`PairwiseJudge.compare <mirage.PairwiseJudge.compare>`, or
                judgments.
            suite: The features. By default those of :meth:`~mirage.FeatureSuite.offline`,
                ``reference_recall``, ``answer_char3`` and ``answer_length``, if they can be
                computed on the dataset.
            cluster: How to group related queries if :attr:`Query.cluster <mirage.Query>` does not,
                as for :meth:`Ranking.from_judgments <mirage.Ranking.from_judgments>`.
            estimator: Estimator of the surrogate, as for :class:`~mirage.SurrogateRanker`.
            tournaments: Number of tournaments from which the surrogate learns.
            agreement: Agreement of the judge with people, such as :attr:`PairwiseJudge.agreement
                <mirage.PairwiseJudge.agreement>`.
            seed: Random seed of tournaments and surrogate.
            n_jobs: Number of processes that compute features, as in joblib.
            progress: Show progress bars on stderr, if stderr is a terminal.

        Raises:
            JudgmentError: As for :meth:`Ranking.from_judgments <mirage.Ranking.from_judgments>`; or
                no judged model has a run, because names do not match.
            UnknownNameError: A judged model has no run, or there is no such estimator.
            FeatureError: Suite and dataset differ in language. :meth:`rank` raises it if there are
                too few models for a surrogate, or a model has no value of a feature on any query.
        """
        from mirage.surrogate.ranker import SurrogateRanker
        from mirage.surrogate.training import require_models

        surrogate = SurrogateRanker(estimator, seed=seed)
        dataset = dataset if cluster is None else dataset.clustered(cluster)
        judgments, answers = as_judgments(judged), {run.model: run for run in runs}
        require_models(judgments.models, tuple(answers), "run")
        board = cls.__new__(cls)
        board.dataset = dataset
        board.suite = offline_suite(dataset) if suite is None else suite
        _check_suite(dataset, board.suite)
        board.anchors, board.prefix, board.provenance = judgments.models, "", {}
        board.about = ""
        judge_agreement = tuple(agreement)
        board.agreement = (
            *judge_agreement,
            *feature_agreement(board.suite.names, dataset.language),
        )
        judgments_with_votes = judged if isinstance(judged, Judged) else judgments
        board._get_runs = lambda: answers
        board._judged_ranking = board.ranking = Ranking.from_judgments(
            judgments_with_votes, dataset=dataset, runs=answers.values(), agreement=judge_agreement
        )

        def ranker() -> SurrogateRanker:
            bootstrapped = BradleyTerry().bootstrap(
                judgments,
                tournaments=tournaments,
                queries=None,
                clusters=clusters_of(dataset),
                seed=seed,
                progress=progress,
            )
            return surrogate.fit(tables(), bootstrapped, judgments=judgments)

        @cache
        def tables() -> list[FeatureTable]:
            return [
                board.suite.score(dataset, answers[model], n_jobs=n_jobs, progress=progress)
                for model in judgments.models
            ]

        board._get_ranker, board._get_tables = ranker, tables
        return board

    @cached_property
    def ranker(self) -> SurrogateRanker:
        """The surrogate; for judged models it is fitted at first use."""
        return self._get_ranker()

    @cached_property
    def ranking(self) -> Ranking:
        """Ranking of the anchors alone, by their judgments or the surrogate's training logits."""
        evidence = Evidence(self.dataset, ranker=self.ranker, provenance=self.provenance)
        notes = self._notes_on_anchors()
        return build_ranking(
            self._scored_anchors(), self.dataset, evidence, self.agreement, notes, about=self.about
        )

    @staticmethod
    def published(language: str) -> Ranking:
        """Return the ranking of 19 LLMs that the MIRAGE-Bench paper publishes.

        Logits and 95 % intervals are those of its Tables 7 and 8 (arXiv 2410.13716), fitted to the
        judgments of GPT-4o. The paper has no logits for Yoruba: logits and intervals are NaN then,
        and ranks come from Figure 4.

        Args:
            language: Language name or code.

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
        """Return the ranking of the anchors as HTML, for notebooks."""
        return self.ranking._repr_html_()

    def rank(
        self,
        system: ModelLike,
        model: str | None = None,
        *,
        judge: PairJudge | None = None,
        judgments: int | None = 0,
        until_width: float | None = None,
        until_against: str | None = None,
        out: str | Path | None = None,
        seed: int = 0,
        progress: bool = True,
        n_jobs: int = 1,
        concurrency: int = 8,
        timeout: float | None = None,
    ) -> Ranking:
        """Rank one system among the anchors.

        Without a judge, the surrogate predicts the logit from the system's features. With a judge,
        the judge compares ``judgments`` pairs of a response of the system and one of an anchor, and
        the surrogate's predictions for all pairs supplement the verdicts. This is
        prediction-powered inference: the interval is valid regardless of the quality of the
        surrogate (:func:`mirage.arena.placement.place`). If all pairs are judged, the surrogate has
        no effect. The logits of the anchors do not change. Pairs are drawn at random, and all
        queries are used once before any query is used twice. A longer sample begins with the
        shorter one, so judgments can be added later.

        Args:
            system: A function of a query, sync or async, that returns a text, a tuple of the text
                and its passages, or a :class:`~mirage.Response`; a :class:`~mirage.Generator`; a
                :class:`~mirage.Run`; a mapping from query id to text; or the path of a JSON Lines
                file of responses. To store the answers of a function or generator, create a run
                first with :func:`~mirage.respond` and ``out=``.
            model: Name in the ranking; by default that of the generator or run, or ``"my-model"``.
            judge: A :class:`~mirage.PairwiseJudge`, or any object with its method ``judge``.
                :meth:`estimate` predicts its cost.
            judgments: Number of pairs for the judge; 0 for none, ``None`` for all pairs.
            until_width: Stop when the interval of the logit is at most this wide.
            until_against: Stop when it is statistically significant whether the model is better
                than this anchor. A stopping rule is checked at most eight times, and intervals are
                wider to compensate.
            out: File to which votes are appended, as for :class:`~mirage.PairwiseJudge`.
            seed: Random seed of the choice of pairs.
            progress: Show progress bars on stderr, if stderr is a terminal.
            n_jobs: Number of processes that compute features, as in joblib.
            concurrency: Number of simultaneous calls of an async function; a generator has its own.
            timeout: Seconds that a function may take for a query; see :func:`~mirage.respond`.

        Returns:
            The ranking. Queries that the model fails on are listed under the table and excluded
            from its features. In its logit they count as the worst result of a training model on
            this query. With a judge, a note gives the number of judgments that place the model, and
            how many judgments would be as precise without the predictions.

        Raises:
            GenerationError: The model failed on every query.
            UnknownNameError: The model answers a query that is not in the dataset.
            DatasetError: A run or file cannot be used, or the name is empty or that of an anchor.
            FeatureError: A feature fails, or cannot be computed for any response.
            SettingError: ``judgments`` is above 0 without a judge or below 0, or there is a
                stopping rule without judgments.
            JudgmentError: The responses of the anchors are not available, or no judgment was
                obtained.
        """
        return self.rank_all(
            {own_name(system) if model is None else model: system},
            judge=judge,
            judgments=judgments,
            until_width=until_width,
            until_against=until_against,
            out=out,
            seed=seed,
            progress=progress,
            n_jobs=n_jobs,
            concurrency=concurrency,
            timeout=timeout,
        )

    def rank_all(
        self,
        models: Mapping[str, ModelLike],
        *,
        judge: PairJudge | None = None,
        judgments: int | None = 0,
        until_width: float | None = None,
        until_against: str | None = None,
        out: str | Path | None = None,
        seed: int = 0,
        progress: bool = True,
        n_jobs: int = 1,
        concurrency: int = 8,
        timeout: float | None = None,
    ) -> Ranking:
        """Rank several models, by name, among the anchors and each other.

        ``judgments``, ``until_width`` and ``until_against`` apply to each model separately. The
        arguments, such as ``judge`` and ``timeout``, are those of :meth:`rank`, except ``models``,
        which maps names to systems.
        """
        plan = _judged.make_plan(judge, judgments, until_width, until_against, out, seed)
        for name in models:
            self._check_name(name)
        if plan is not None:
            self._check_anchors(plan)
        runs = [
            respond(
                model,
                self.dataset,
                name,
                progress=progress,
                concurrency=concurrency,
                timeout=timeout,
            )
            for name, model in models.items()
        ]
        tables = [
            self.suite.score(self.dataset, run, n_jobs=n_jobs, progress=progress) for run in runs
        ]
        if plan is not None:
            return self._rank_by_judge(plan, runs, tables, progress=progress)
        scored = [self._score(run, table) for run, table in zip(runs, tables, strict=True)]
        evidence = Evidence(
            self.dataset,
            {run.model: run for run in runs},
            {run.model: table for run, table in zip(runs, tables, strict=True)},
            self.ranker,
            self.provenance,
        )
        anchors = self._scored_anchors()
        all_models = [*anchors, *scored]
        systems = len(self.ranker.data[self.dataset.language].models)
        notes = (*self._notes_on_anchors(), *undecided_notes(scored, anchors, systems))
        return build_ranking(
            all_models, self.dataset, evidence, self.agreement, notes, about=self.about
        )

    def estimate(
        self,
        system: ModelLike,
        model: str | None = None,
        *,
        judge: PairwiseJudge,
        judgments: int | None,
        seed: int = 0,
        progress: bool = True,
        concurrency: int = 8,
    ) -> Estimate:
        """Estimate the largest number and cost of the judge's calls in :meth:`rank`.

        The judge is not called, but the system is. To avoid the cost of its answers, pass its run
        or the file of its responses.

        Args:
            system: As for :meth:`rank`.
            model: Name in the ranking.
            judge: The judge.
            judgments: Number of pairs for the judge; ``None`` for all pairs.
            seed: Random seed of the choice of pairs.
            progress: Show progress bars on stderr, if stderr is a terminal.
            concurrency: Number of simultaneous calls of an async function.

        Raises:
            JudgmentError: The responses of the anchors are not available.
            SettingError: ``judgments`` is below 0.
        """
        plan = _judged.make_plan(judge, judgments, None, None, None, seed)
        if plan is None:
            return sum_estimates([])
        model = own_name(system) if model is None else model
        self._check_name(model)
        run = respond(system, self.dataset, model, progress=progress, concurrency=concurrency)
        runs = self._anchor_runs()
        pairs = _judged.pairs_for(self.dataset, run, runs, judgments, seed)[0]
        return judge.estimate_pairs(self.dataset, [run, *runs.values()], pairs)

    def _rank_by_judge(
        self,
        plan: _judged.JudgingPlan,
        runs: Sequence[Run],
        tables: Sequence[FeatureTable],
        *,
        progress: bool,
    ) -> Ranking:
        """Return the ranking of the anchors and of models that a judge places among them."""
        anchor_set = self._anchor_set()
        placements = [
            _judged.place_by_judge(
                plan,
                self.dataset,
                run,
                anchor_set,
                self._predicted_scores(table, anchor_set),
                progress=progress,
            )
            for run, table in zip(runs, tables, strict=True)
        ]
        confidence, draws = (
            _judged.joint_confidence(anchor_set, placements),
            _judged.joint_draws(anchor_set, placements),
        )
        anchors = self._anchor_entries(anchor_set)
        entries = [*anchors, *map(judged_entry, runs, tables, placements)]
        rank_numbers = ranks(np.array([entry.logit for entry in entries])).tolist()
        rank_intervals = rank_intervals_by_confidence(confidence, level=plan.level).tolist()
        names, unbound = [entry.model for entry in entries], self._unbound
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
                *self._notes_on_anchors(),
                *(note for placement in placements for note in placement.notes),
            ),
            about=self.about,
            evidence=Evidence(
                self.dataset,
                {run.model: run for run in runs},
                {run.model: table for run, table in zip(runs, tables, strict=True)},
                None if self._judged_ranking else self.ranker,
                {
                    **self.provenance,
                    "judgments": sum(len(placement.judged) for placement in placements),
                },
            ),
            agreement=(*getattr(plan.judge, "agreement", ()), *self.agreement),
            level=plan.level,
        )

    def _check_anchors(self, plan: _judged.JudgingPlan) -> None:
        """Raise an error if anchors cannot be judged, or the anchor to compare with is unknown."""
        runs = self._anchor_runs()
        if plan.until_against is not None and plan.until_against not in runs:
            raise UnknownNameError("anchor of this leaderboard", plan.until_against, runs)

    def _anchor_runs(self) -> dict[str, Run]:
        """Return the responses of the anchors, by the names that the ranking shows.

        Raises:
            JudgmentError: Some responses are not available.
        """
        answers = self._get_runs()
        missing = [anchor for anchor in self.anchors if anchor not in answers]
        if missing or not self.anchors:
            raise JudgmentError(
                f"the responses of {', '.join(missing[:5]) or 'anchors'} are not available for a "
                "judge; pass them as Leaderboard(..., runs=...)"
            )
        named_runs = ((self.prefix + anchor, answers[anchor]) for anchor in self.anchors)
        return {name: run.model_copy(update={"model": name}) for name, run in named_runs}

    def _anchor_set(self) -> _judged.AnchorSet:
        """Return the anchors with their runs and the uncertainty of their logits."""
        runs, judged = self._anchor_runs(), self._judged_ranking and self._judged_ranking.evidence
        if judged and judged.fit is not None:
            return _judged.anchors_from_fit(runs, self.dataset, judged.fit)
        scored = self._scored_anchors()
        draws = np.stack([anchor.draws for anchor in scored], axis=1)
        logits = np.array([anchor.logit for anchor in scored])
        return _judged.anchors_from_draws(runs, self.dataset, logits, draws)

    def _predicted_scores(self, table: FeatureTable, anchor_set: _judged.AnchorSet) -> Floats:
        """Return the predicted score of a model on each pair, from its features."""
        by_model = {anchor.model: anchor for anchor in self._get_tables()}
        tables = [by_model[anchor] for anchor in self.anchors]
        predicted = np.full((len(anchor_set.query_ids), len(tables)), np.nan)
        if self._judged_ranking is not None and self._judged_ranking.evidence is not None:
            judgments = self._judged_ranking.evidence.judgments
        else:
            judgments = self.ranker.data[self.dataset.language].judgments
        if judgments is not None:
            predicted_by_features = predictions.from_verdicts(table, tables, judgments)
        else:
            predicted_by_features = predictions.from_logits(self.ranker, table, tables)
        predicted[: len(self.dataset)] = predicted_by_features
        return predicted

    def _tables_of_ranker(self) -> list[FeatureTable]:
        """Return the features of the anchors.

        They come from the ranker's training data if that covers the queries; otherwise they are
        computed from the responses.
        """
        data, runs = self.ranker.data[self.dataset.language], self._get_runs()
        if set(self.dataset.query_ids) <= set(data.query_ids):
            rows = [data.models.index(anchor) for anchor in self.anchors]
            return [data.table(row).select(self.dataset.query_ids) for row in rows]
        return [
            self.suite.score(self.dataset, runs[anchor], progress=False) for anchor in self.anchors
        ]

    def _anchor_entries(self, anchor_set: _judged.AnchorSet) -> list[Entry]:
        """Return the entries of the anchors, with their mean features."""
        if self._judged_ranking is not None:
            means = {
                table.model: dict(zip(table.features, table.mean().tolist(), strict=True))
                for table in self._get_tables()
            }
            return [
                replace(self._judged_ranking[name], features=means[name], anchor=True)
                for name in anchor_set.runs
            ]
        return [
            Entry(
                1,
                anchor.model,
                anchor.logit,
                anchor.interval,
                features=anchor.features,
                anchor=True,
            )
            for anchor in self._scored_anchors()
        ]

    def _check_name(self, name: str) -> None:
        """Raise an error if a model's name is empty or that of an anchor."""
        if not name.strip() or name in {self.prefix + anchor for anchor in self.anchors}:
            why = "is the name of an anchor" if name.strip() else "is empty"
            raise DatasetError(f"the model name {name!r} {why}; choose another name")

    @property
    def _unbound(self) -> set[str]:
        """Names, as shown, of the anchors whose logits the tournaments do not bound."""
        if self._judged_ranking is not None:  # its fit already includes this uncertainty
            return set()
        unbound = self.ranker.data[self.dataset.language].unbound
        return {self.prefix + anchor for anchor in self.anchors if anchor in unbound}

    def _notes_on_anchors(self) -> tuple[str, ...]:
        """Return notes on anchors whose order or distance is not known."""
        if self._judged_ranking is not None:
            return self._judged_ranking.notes
        data = self.ranker.data[self.dataset.language]
        if (np.ptp(data.y, axis=1) < EQUAL).all():
            return (
                "all systems of this board have the same logit in every tournament, as if every "
                "judgment were a tie, so nothing shows which is better",
            )
        return tuple(
            f"{model} won or lost every judgment in most tournaments: its distance from the "
            "others is not known, and it has no interval"
            for model in sorted(self._unbound)
        )

    def _scored_anchors(self) -> list[ScoredModel]:
        """Return the anchors with their logits, intervals and draws."""
        data, judged = self.ranker.data[self.dataset.language], self._judged_ranking
        fit = judged.evidence.fit if judged and judged.evidence else None
        models, logits, draws = data.models, data.mean_y, data.draws
        if fit is not None and fit.degrees:
            # A model that won everything wins every tournament and would look certain.
            models, logits, draws = fit.models, fit.logits, fit.draws(len(data.y))
        anchors, unbound_names = [], self._unbound
        for anchor in self.anchors:
            row, column = data.models.index(anchor), models.index(anchor)
            low, high = np.quantile(draws[:, column], [0.025, 0.975]).tolist()
            unbound = self.prefix + anchor in unbound_names
            # Draws without variation carry no information about the uncertainty.
            if unbound or np.ptp(draws[:, column]) < EQUAL:
                low, high = NO_INTERVAL
            scored = ScoredModel(
                model=self.prefix + anchor,
                logit=float(logits[column]),
                interval=judged[anchor].interval if judged else (low, high),
                draws=draws[:, column],
                features=dict(zip(data.features, data.mean_X[row].tolist(), strict=True)),
                anchor=True,
                unbound=unbound,
            )
            anchors.append(scored)
        return anchors

    def _score(self, run: Run, table: FeatureTable) -> ScoredModel:
        """Return the model with the logit that the surrogate predicts."""
        prediction = self.ranker.predict(table)
        failures = {response.query_id: response.error or "" for response in run.failed}
        interval = prediction.interval()
        return ScoredModel(
            model=run.model,
            logit=prediction.logit,
            # An interval of width 0 comes from training judgments that are all ties.
            interval=NO_INTERVAL if np.ptp(interval) < EQUAL else interval,
            draws=prediction.draws,
            features=dict(zip(table.features, table.mean().tolist(), strict=True)),
            answered=len(run) - len(failures),
            failures=failures,
            unfamiliar=prediction.unfamiliar,
            assumed=prediction.assumed,
        )


class MultilingualLeaderboard(Mapping[str, Leaderboard]):
    """Leaderboards by language code; :meth:`rank` averages ranks over the languages.

    Args:
        leaderboards: Leaderboard of each language, by language code.

    Raises:
        DatasetError: There is no leaderboard, or one has the code of another language.
    """

    def __init__(self, leaderboards: Mapping[str, Leaderboard]) -> None:
        self._leaderboards = dict(leaderboards)
        if not self._leaderboards:
            raise DatasetError("a multilingual leaderboard needs at least one language")
        for code, leaderboard in self._leaderboards.items():
            if leaderboard.dataset.language != code:
                raise DatasetError(
                    f"the leaderboard for {code!r} is in {leaderboard.dataset.language!r}"
                )

    def __contains__(self, language: object) -> bool:
        return language in self._leaderboards

    def __getitem__(self, language: str) -> Leaderboard:
        if language not in self._leaderboards:
            raise UnknownNameError("language of this leaderboard", language, self._leaderboards)
        return self._leaderboards[language]

    def __iter__(self) -> Iterator[str]:
        return iter(self._leaderboards)

    def __len__(self) -> int:
        return len(self._leaderboards)

    def __repr__(self) -> str:
        return f"MultilingualLeaderboard(languages={list(self)})"

    def rank(
        self,
        system: MultilingualModelLike,
        model: str | None = None,
        *,
        judge: PairJudge | None = None,
        judgments: int | None = 0,
        until_width: float | None = None,
        until_against: str | None = None,
        out: str | Path | None = None,
        seed: int = 0,
        progress: bool = True,
        n_jobs: int = 1,
        concurrency: int = 8,
        timeout: float | None = None,
    ) -> MultilingualRanking:
        """Rank one system in every language.

        If, in some language, the model fails on every query, a feature fails, or no judgment is
        obtained, the language is left out and listed in
        :attr:`~mirage.MultilingualRanking.left_out`.

        Args:
            system: A function or generator as for :meth:`Leaderboard.rank`, called with the queries
                of all languages (``query.language`` is their language); or a mapping from every
                language code to a system as for :meth:`Leaderboard.rank`.
            model: Name in the ranking; by default that of the generator or run, or ``"my-model"``.
            judge: As for :meth:`Leaderboard.rank`; :meth:`estimate` predicts its cost.
            judgments: Number of pairs for the judge, divided over the languages; 0 for none,
                ``None`` for all pairs. Each language draws its own pairs.
            until_width: In each language, stop when the interval of the logit is at most this wide.
            until_against: In each language, stop when it is statistically significant whether the
                model is better than this anchor.
            out: Folder of files to which votes are appended, one per language, such as
                ``sw.jsonl``.
            seed: Random seed of the choice of pairs.
            progress: Show progress bars on stderr, if stderr is a terminal.
            n_jobs: Number of processes that compute features, as in joblib.
            concurrency: Number of simultaneous calls of an async function; a generator has its own.
            timeout: Seconds that a function may take for a query; see :func:`~mirage.respond`.

        Returns:
            The rankings by language, and the mean ranks.

        Raises:
            DatasetError: The mapping lacks a language, or ``system`` is in one language only.
            UnknownNameError: A key of the mapping is not a language of this leaderboard.
            GenerationError: The model failed on every query of every language.
            SettingError: As for :meth:`Leaderboard.rank`, or there are fewer judgments than
                languages.
        """
        return self.rank_all(
            {own_name(system) if model is None else model: system},
            judge=judge,
            judgments=judgments,
            until_width=until_width,
            until_against=until_against,
            out=out,
            seed=seed,
            progress=progress,
            n_jobs=n_jobs,
            concurrency=concurrency,
            timeout=timeout,
        )

    def rank_all(
        self,
        models: Mapping[str, MultilingualModelLike],
        *,
        judge: PairJudge | None = None,
        judgments: int | None = 0,
        until_width: float | None = None,
        until_against: str | None = None,
        out: str | Path | None = None,
        seed: int = 0,
        progress: bool = True,
        n_jobs: int = 1,
        concurrency: int = 8,
        timeout: float | None = None,
    ) -> MultilingualRanking:
        """Rank several models, by name, in every language.

        ``judgments``, ``until_width`` and ``until_against`` apply to each model separately. The
        arguments, such as ``judge`` and ``timeout``, are those of :meth:`rank`, except ``models``,
        which maps names to systems.
        """
        judgments_by_language = self._judgments_by_language(judgments)
        by_language = {
            name: self._systems_by_language(model, name) for name, model in models.items()
        }
        rankings: dict[str, Ranking] = {}
        failed: dict[str, MirageError] = {}
        for code, leaderboard in self.items():
            try:
                rankings[code] = leaderboard.rank_all(
                    {name: model[code] for name, model in by_language.items()},
                    judge=judge,
                    judgments=judgments_by_language[code],
                    until_width=until_width,
                    until_against=until_against,
                    out=None if out is None else Path(out) / f"{code}.jsonl",
                    seed=_language_seed(code, seed),
                    progress=progress,
                    n_jobs=n_jobs,
                    concurrency=concurrency,
                    timeout=timeout,
                )
            except (GenerationError, FeatureError, JudgmentError, NeuralError) as error:
                failed[code] = error  # keep the results of the other languages
        if not rankings:
            raise next(iter(failed.values()))
        return MultilingualRanking(rankings, {code: str(why) for code, why in failed.items()})

    def estimate(
        self,
        system: MultilingualModelLike,
        model: str | None = None,
        *,
        judge: PairwiseJudge,
        judgments: int | None,
        seed: int = 0,
        progress: bool = True,
        concurrency: int = 8,
    ) -> Estimate:
        """Estimate the largest number and cost of the judge's calls in :meth:`rank`.

        It is the sum of :meth:`Leaderboard.estimate` over the languages, with the same errors.

        Args:
            system: As for :meth:`rank`.
            model: Name in the ranking.
            judge: The judge.
            judgments: Number of pairs, divided over the languages; ``None`` for all pairs.
            seed: Random seed of the choice of pairs.
            progress: Show progress bars on stderr, if stderr is a terminal.
            concurrency: Number of simultaneous calls of an async function.
        """
        model = own_name(system) if model is None else model
        systems, judgments_by_language = (
            self._systems_by_language(system, model),
            self._judgments_by_language(judgments),
        )
        return sum_estimates(
            board.estimate(
                systems[code],
                model,
                judge=judge,
                judgments=judgments_by_language[code],
                seed=_language_seed(code, seed),
                progress=progress,
                concurrency=concurrency,
            )
            for code, board in self.items()
        )

    def _judgments_by_language(self, judgments: int | None) -> Mapping[str, int | None]:
        """Return the number of judgments per language; a remainder goes to the first languages.

        Raises:
            SettingError: There are fewer judgments than languages.
        """
        if not judgments or judgments < 0:
            return dict.fromkeys(self, judgments)
        each, remainder = divmod(judgments, len(self))
        if not each:
            raise SettingError(
                f"{judgments} judgments are fewer than the {len(self)} languages; ask for "
                f"{len(self)} or more, or in fewer languages"
            )
        return {code: each + (index < remainder) for index, code in enumerate(self)}

    def _systems_by_language(
        self, model: MultilingualModelLike, name: str
    ) -> Mapping[str, ModelLike]:
        """Return the system for each language.

        Raises:
            DatasetError: A language is missing, or the system cannot serve several languages.
            UnknownNameError: A key of the mapping is not a language of this leaderboard.
        """
        if isinstance(model, Mapping):
            for code in model:
                self[code]
            missing = [code for code in self if code not in model]
            if missing:
                raise DatasetError(
                    f"model {name!r} has no system for the languages {', '.join(missing)}; pass a "
                    "mapping with every language of this leaderboard"
                )
            return model
        if isinstance(model, Run) or not (callable(model) or isinstance(model, Generator)):
            raise DatasetError(
                f"model {name!r} is not a function, generator or mapping; pass a mapping from "
                "language code to a function, a Generator, a Run, a mapping from query id to text, "
                "or a path"
            )
        return dict.fromkeys(self, model)


def _language_seed(code: str, seed: int) -> int:
    """Return the seed of a language's pairs.

    It differs by language, because on parallel questions different pairs are more informative.
    """
    return seed + int.from_bytes(code.encode())


def _validation_text(validation: Mapping[str, Any]) -> str:
    """Return the accuracy of predictions for held-out models, as a sentence."""
    template = "R2 {r2:.2f}, tau {tau:.2f}"
    forest = validation.get("forest")
    forest_text = f" (the paper's forest: {template.format(**forest)})" if forest else ""
    return (
        f"LLMs that were held out are predicted with {template.format(**validation)}{forest_text}."
    )


def _check_suite(dataset: MirageDataset, suite: FeatureSuite) -> None:
    """Raise an error if the suite is for another language than the dataset."""
    code = dataset.language
    if suite.language not in (None, code):
        raise FeatureError(
            f"the suite is for {suite.language!r}, but {dataset.name} is in {code!r}; create a "
            "suite for that language"
        )


def _check_parts(
    dataset: MirageDataset, suite: FeatureSuite, ranker: SurrogateRanker
) -> tuple[str, ...]:
    """Return the training models of the ranker, after checking that the parts match.

    Raises:
        FeatureError: The parts differ in language, or the suite lacks a feature.
    """
    _check_suite(dataset, suite)
    code = dataset.language
    if code not in ranker.data:
        raise FeatureError(
            f"the ranker was trained on {', '.join(ranker.data)}, but {dataset.name} is in "
            f"{code!r}; train one on that language"
        )
    missing = [name for name in ranker.features if name not in suite.names]
    if missing:
        raise FeatureError(
            f"the suite lacks {', '.join(map(repr, missing))}, which the ranker was trained on; "
            f"add these features, as in suite + {missing[0]!r}"
        )
    return ranker.data[code].models
