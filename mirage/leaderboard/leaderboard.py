"""The leaderboard: where a model stands among models that were ranked before."""

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
from mirage.generation import Answer, Generator, ModelLike, respond
from mirage.generation.responses import own_name
from mirage.human_agreement import known_agreement
from mirage.languages import LANGUAGES, Language
from mirage.leaderboard import _judged, predictions
from mirage.leaderboard._entries import (
    EQUAL,
    Scored,
    agreement_of,
    judged_entry,
    ranking_of,
    title_of,
    undecided,
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
    "known fault. A rank says how a system answers these general-knowledge questions from given "
    "passages, not how good it is on your documents."
)
"""What a bundled leaderboard is about."""

OFFICIAL = (
    "The other models are the LLMs of MIRAGE-Bench, as an LLM judged them. A rank says where their "
    "judge would put a system on questions about Wikipedia, as far as features tell."
)
"""What the leaderboard of MIRAGE-Bench is about."""

MultilingualModelLike = Answer | Generator | Mapping[str, ModelLike]
"""A function or generator for the queries of all languages, or something for each language."""


class Leaderboard:
    """Ranks a model among the models that a surrogate was trained on, without a judge.

    :attr:`ranking` is that of the anchors, and :meth:`rank` puts a model among them.

    Args:
        dataset: the queries that a model answers.
        suite: the features of its responses; all those that the ranker needs, or more.
        ranker: the surrogate from features to logits.
        anchors: the ranker's training models to show, all of them by default.
        prefix: put before the names of the anchors.
        agreement: how far the judge behind the ranker agrees with people, such as
            :attr:`PairwiseJudge.agreement <mirage.PairwiseJudge.agreement>`.
        runs: the responses of the anchors, for :meth:`rank` with a judge.

    Attributes:
        provenance: what :meth:`from_hub` made the ranker from; of another leaderboard, empty.
        agreement: that of the judge, and what is known of the ranker's features.
        about: what the anchors are and what a rank says, in a line; empty where it is not known.

    Raises:
        FeatureError: suite, ranker and dataset differ in language, or a feature is missing.
        UnknownNameError: an anchor is no training model.
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
            *agreement_of(ranker.features, dataset.language),
        )
        self._ranker: Callable[[], SurrogateRanker] = lambda: ranker
        self._judged: Ranking | None = None
        answers = {run.model: run for run in runs}
        self._runs: Callable[[], Mapping[str, Run]] = lambda: answers
        self._tables: Callable[[], list[FeatureTable]] = self._tables_of_ranker
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
        """The leaderboard that ships with the library: bundled corpus, pretrained surrogate.

        The anchors are simulated systems, such as ``anchor/uncited``, most of them with a known
        fault. Without
        a language: one leaderboard for each of the 18.
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
        board._runs = cache(lambda: simulated_runs(code, ANCHORS))
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
        """The leaderboard of MIRAGE-Bench: 19 LLMs as anchors, judged by GPT-4o (extra ``hub``).

        The surrogate learns from the recorded outputs of the 19 and from their logits in 200
        tournaments of 100 queries (arXiv 2410.13716), once: it is kept in the folder ``hub`` of
        the library's cache, and made again only where its inputs change. :attr:`provenance` says
        from what it was made and how well it predicts models that were held out.

        The queries are those that GPT-4o judged on: others have no part in the surrogate.

        Args:
            language: one of the 18.
            suite: the features, by default those of :meth:`~mirage.FeatureSuite.offline`,
                ``reference_recall``, ``answer_char3`` and ``answer_length``, as far as they can
                be computed on the benchmark. They are computed from the recorded outputs, by the
                code that also scores a new model.
            path: a folder with copies of the benchmark's datasets, to read in place of the hub.
            revisions: commit hashes by name of the dataset, such as ``nthakur/mirage-bench``. By
                default what the first download found, which was then the newest: it is kept.
            judge: whose judgments, GPT-4o's by default.
            published: features of the suite to take, for the 19, from the published data instead.
                Right only where the suite has the models that the benchmark had. A value that
                the data lacks counts as 0, as in the paper.
            estimator: as :class:`~mirage.SurrogateRanker` takes it; by default verdicts are learnt
                from. ``"forest"`` is the paper's, which is made and kept beside any other.
            seed: of tournaments and surrogate.
            n_jobs: processes that compute features and validate, as in joblib.
            progress: show progress bars on stderr, if that is a terminal.

        Raises:
            DatasetError: the hub cannot be reached (says what to run where it can), or a file is
                not as it should be (names the row).
            UnknownNameError: no such language, dataset, judge or feature, or a judged model or
                query is not in the other datasets.
            FeatureError: a feature fails, or some model has it on no query.
            MissingPackageError: the extra is not installed.
        """
        from mirage.leaderboard import official

        made = official.surrogate(
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
        made_by = made.provenance["judge"]
        agreement = known_agreement(made_by, language)
        board = cls(made.dataset, made.suite, made.ranker, agreement=agreement)
        board.provenance = made.provenance
        board.about = f"{OFFICIAL} {_validated(made.provenance['validation'])}"
        board._runs = cache(
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
        """The leaderboard of models that a judge, or people, compared.

        Its :attr:`ranking` is that of :meth:`Ranking.from_judgments
        <mirage.Ranking.from_judgments>`. The first call of :meth:`rank` fits a surrogate to the
        judged models, in tournaments of as many queries as were judged, and ranks others among
        them without a judge. What makes the judgments say little stands among the notes of both.

        Args:
            dataset: the queries.
            runs: the responses of every model that was judged.
            judged: what :meth:`PairwiseJudge.compare <mirage.PairwiseJudge.compare>` gives, or
                judgments.
            suite: features, by default those of :meth:`~mirage.FeatureSuite.offline`,
                ``reference_recall``, ``answer_char3`` and ``answer_length``, as far as they can
                be computed on the dataset.
            cluster: what queries hang together by, where :attr:`Query.cluster <mirage.Query>` does
                not say so; as :meth:`Ranking.from_judgments <mirage.Ranking.from_judgments>`
                takes it.
            estimator: of the surrogate, as :class:`~mirage.SurrogateRanker` takes it.
            tournaments: that the surrogate learns from.
            agreement: how far the judge agrees with people, such as
                :attr:`PairwiseJudge.agreement <mirage.PairwiseJudge.agreement>`.
            seed: of tournaments and surrogate.
            n_jobs: processes that compute features, as in joblib.
            progress: show progress bars on stderr, if that is a terminal.

        Raises:
            JudgmentError: as :meth:`Ranking.from_judgments <mirage.Ranking.from_judgments>`; or no
                judged model has a run, so that names do not match.
            UnknownNameError: a model was judged and has no run, or there is no such estimator.
            FeatureError: suite and dataset differ in language; from :meth:`rank`, the models are
                too few for a surrogate, or one has a feature on no query.
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
        measured = tuple(agreement)
        board.agreement = (*measured, *agreement_of(board.suite.names, dataset.language))
        said = judged if isinstance(judged, Judged) else judgments
        board._runs = lambda: answers
        board._judged = board.ranking = Ranking.from_judgments(
            said, dataset=dataset, runs=answers.values(), agreement=measured
        )

        def ranker() -> SurrogateRanker:
            drawn = BradleyTerry().bootstrap(
                judgments,
                tournaments=tournaments,
                queries=None,
                clusters=clusters_of(dataset),
                seed=seed,
                progress=progress,
            )
            return surrogate.fit(tables(), drawn, judgments=judgments)

        @cache
        def tables() -> list[FeatureTable]:
            return [
                board.suite.score(dataset, answers[model], n_jobs=n_jobs, progress=progress)
                for model in judgments.models
            ]

        board._ranker, board._tables = ranker, tables
        return board

    @cached_property
    def ranker(self) -> SurrogateRanker:
        """The surrogate; of judged models it is fitted when it is first used."""
        return self._ranker()

    @cached_property
    def ranking(self) -> Ranking:
        """The anchors alone: as they were judged, or as the surrogate was taught."""
        evidence = Evidence(self.dataset, ranker=self.ranker, provenance=self.provenance)
        notes = self._notes_on_anchors()
        return ranking_of(
            self._anchors(), self.dataset, evidence, self.agreement, notes, about=self.about
        )

    @staticmethod
    def published(language: str) -> Ranking:
        """The ranking of 19 LLMs that the MIRAGE-Bench paper publishes.

        Logits and 95 % intervals are those of its Tables 7 and 8 (arXiv 2410.13716), fitted to
        the judgments of GPT-4o. It has no logits for Yoruba: there logits and intervals are NaN,
        and ranks come from Figure 4.
        """
        return published_ranking(language)

    def __repr__(self) -> str:
        return f"Leaderboard({self.dataset!r}, anchors={len(self.anchors)})"

    def _repr_html_(self) -> str:
        """For notebooks: the ranking of the anchors."""
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

        Without a judge its logit is what the surrogate makes of its features. With one, the judge
        is asked about ``judgments`` pairs of its response and an anchor's, and the surrogate's
        predictions for all pairs carry the rest: by prediction-powered inference, whose interval
        holds whatever the surrogate is worth (:func:`mirage.arena.placement.place`). With all
        pairs the surrogate has no part in it. Anchors stay where they are. Pairs are drawn at
        random, all queries once before one of them twice; more judgments go on where fewer ended.

        Args:
            system: a function of a query, sync or async, that returns a text, a tuple of the text
                and its passages, or a :class:`~mirage.Response`; a :class:`~mirage.Generator`; a
                :class:`~mirage.Run`; a mapping from query id to text; or the path of a JSON Lines
                file of responses. To keep what a function or generator answers, make a run of it
                first with :func:`~mirage.respond` and ``out=``.
            model: its name in the ranking; by default a generator's or run's, or ``"my-model"``.
            judge: a :class:`~mirage.PairwiseJudge`, or anything with its method ``judge``.
                :meth:`estimate` says what that takes.
            judgments: pairs to put to the judge; 0 for none, ``None`` for all that there are.
            until_width: stop asking once the interval of the logit is no wider.
            until_against: stop asking once it is sure whether the model is better than this anchor.
                A rule to stop looks eight times at most, and intervals are wider for it.
            out: a file of votes that grows, as that of :class:`~mirage.PairwiseJudge`.
            seed: of the choice of pairs.
            progress: show progress bars on stderr, if that is a terminal.
            n_jobs: processes that compute features, as in joblib.
            concurrency: calls of an async function under way at a time; a generator has its own.
            timeout: seconds that a function may take for a query; see :func:`~mirage.respond`.

        Returns:
            The ranking. A query that the model fails on has no part in its features, counts in
            its logit as the worst that a training model had on it, and is listed under the table.
            Below the table stands how many judgments place the model, and how many they are worth
            with the predictions.

        Raises:
            GenerationError: the model failed on every query.
            UnknownNameError: it answers a query that the dataset does not have.
            DatasetError: a run or file cannot be used, or the name is empty or an anchor's.
            FeatureError: a feature fails, or cannot be computed for any response.
            SettingError: judgments without a judge, fewer than 0, or a rule to stop without any.
            JudgmentError: the responses of the anchors are not at hand, or no judgment came of it.
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
        """Rank several models, by name, among the anchors and each other; see :meth:`rank`.

        ``judgments`` are those on each of them, and ``until_width`` and ``until_against`` say when
        to stop for each. ``timeout`` is as there.
        """
        plan = _judged.plan(judge, judgments, until_width, until_against, out, seed)
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
        anchors = self._anchors()
        everyone = [*anchors, *scored]
        systems = len(self.ranker.data[self.dataset.language].models)
        notes = (*self._notes_on_anchors(), *undecided(scored, anchors, systems))
        return ranking_of(everyone, self.dataset, evidence, self.agreement, notes, about=self.about)

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
        """What :meth:`rank` with these arguments will ask the judge for at most; it is not asked.

        The system is: give its run, or the file of its responses, where answers cost.

        Raises:
            JudgmentError: the responses of the anchors are not at hand.
            SettingError: fewer than 0 judgments.
        """
        plan = _judged.plan(judge, judgments, None, None, None, seed)
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
        plan: _judged.Plan,
        runs: Sequence[Run],
        tables: Sequence[FeatureTable],
        *,
        progress: bool,
    ) -> Ranking:
        field = self._field()
        told = [
            _judged.ask(
                plan, self.dataset, run, field, self._predicted(table, field), progress=progress
            )
            for run, table in zip(runs, tables, strict=True)
        ]
        confidence, draws = _judged.confidence(field, told), _judged.draws_of(field, told)
        anchors = self._anchor_entries(field)
        entries = [*anchors, *map(judged_entry, runs, tables, told)]
        places = ranks(np.array([entry.logit for entry in entries])).tolist()
        spans = rank_intervals_by_confidence(confidence, level=plan.level).tolist()
        names, unbound = [entry.model for entry in entries], self._unbound
        return Ranking(
            [
                replace(entry, rank=rank, rank_interval=None if name in unbound else (best, worst))
                for name, entry, rank, (best, worst) in zip(
                    names, entries, places, spans, strict=True
                )
            ],
            language=self.dataset.language,
            title=title_of(self.dataset),
            draws=None if np.isnan(draws).any() else dict(zip(names, draws.T, strict=True)),
            confidence={
                name: dict(zip(names, row, strict=True))
                for name, row in zip(names, confidence.tolist(), strict=True)
            },
            notes=(
                *self._notes_on_anchors(),
                *(note for one in told for note in one.notes),
            ),
            about=self.about,
            evidence=Evidence(
                self.dataset,
                {run.model: run for run in runs},
                {run.model: table for run, table in zip(runs, tables, strict=True)},
                None if self._judged else self.ranker,
                {**self.provenance, "judgments": sum(len(one.judged) for one in told)},
            ),
            agreement=(*getattr(plan.judge, "agreement", ()), *self.agreement),
            level=plan.level,
        )

    def _check_anchors(self, plan: _judged.Plan) -> None:
        runs = self._anchor_runs()
        if plan.until_against is not None and plan.until_against not in runs:
            raise UnknownNameError("anchor of this leaderboard", plan.until_against, runs)

    def _anchor_runs(self) -> dict[str, Run]:
        """The responses of the anchors, by the names that the ranking shows."""
        answers = self._runs()
        missing = [anchor for anchor in self.anchors if anchor not in answers]
        if missing or not self.anchors:
            raise JudgmentError(
                f"the responses of {', '.join(missing[:5]) or 'anchors'} are not at hand for a "
                "judge to compare with; give Leaderboard(..., runs=...)"
            )
        named = ((self.prefix + anchor, answers[anchor]) for anchor in self.anchors)
        return {name: run.model_copy(update={"model": name}) for name, run in named}

    def _field(self) -> _judged.Field:
        runs, judged = self._anchor_runs(), self._judged and self._judged.evidence
        if judged and judged.fit is not None:
            return _judged.field_by_fit(runs, self.dataset, judged.fit)
        scored = self._anchors()
        draws = np.stack([one.draws for one in scored], axis=1)
        logits = np.array([one.logit for one in scored])
        return _judged.field_by_draws(runs, self.dataset, logits, draws)

    def _predicted(self, table: FeatureTable, field: _judged.Field) -> Floats:
        """What a judge will say of each pair, as far as features tell."""
        by_model = {anchor.model: anchor for anchor in self._tables()}
        tables = [by_model[anchor] for anchor in self.anchors]
        predicted = np.full((len(field.query_ids), len(tables)), np.nan)
        if self._judged is not None and self._judged.evidence is not None:
            judgments = self._judged.evidence.judgments
        else:
            judgments = self.ranker.data[self.dataset.language].judgments
        if judgments is not None:
            known = predictions.from_verdicts(table, tables, judgments)
        else:
            known = predictions.from_logits(self.ranker, table, tables)
        predicted[: len(self.dataset)] = known
        return predicted

    def _tables_of_ranker(self) -> list[FeatureTable]:
        """The features of the anchors, as they were learnt from where that was on these queries."""
        data, runs = self.ranker.data[self.dataset.language], self._runs()
        if set(self.dataset.query_ids) <= set(data.query_ids):
            rows = [data.models.index(anchor) for anchor in self.anchors]
            return [data.table(row).select(self.dataset.query_ids) for row in rows]
        return [
            self.suite.score(self.dataset, runs[anchor], progress=False) for anchor in self.anchors
        ]

    def _anchor_entries(self, field: _judged.Field) -> list[Entry]:
        if self._judged is not None:
            means = {
                t.model: dict(zip(t.features, t.mean().tolist(), strict=True))
                for t in self._tables()
            }
            return [
                replace(self._judged[name], features=means[name], anchor=True)
                for name in field.runs
            ]
        return [
            Entry(1, one.model, one.logit, one.interval, features=one.features, anchor=True)
            for one in self._anchors()
        ]

    def _check_name(self, name: str) -> None:
        if not name.strip() or name in {self.prefix + anchor for anchor in self.anchors}:
            why = "is the name of an anchor" if name.strip() else "is empty"
            raise DatasetError(f"the model name {name!r} {why}; choose another one")

    @property
    def _unbound(self) -> set[str]:
        """Anchors, as they are shown, of which the tournaments tell no distance."""
        if self._judged is not None:  # its fit knows how little is known of them
            return set()
        unbound = self.ranker.data[self.dataset.language].unbound
        return {self.prefix + anchor for anchor in self.anchors if anchor in unbound}

    def _notes_on_anchors(self) -> tuple[str, ...]:
        if self._judged is not None:
            return self._judged.notes
        data = self.ranker.data[self.dataset.language]
        if (np.ptp(data.y, axis=1) < EQUAL).all():
            return (
                "all systems of this board have the same logit in every tournament, as where every "
                "judgment is a tie: nothing says which is better",
            )
        return tuple(
            f"{model} won or lost every judgment in most tournaments: how far it is from the "
            "others is not known, and it has no interval"
            for model in sorted(self._unbound)
        )

    def _anchors(self) -> list[Scored]:
        data, judged = self.ranker.data[self.dataset.language], self._judged
        fit = judged.evidence.fit if judged and judged.evidence else None
        models, logits, draws = data.models, data.mean_y, data.draws
        if fit is not None and fit.degrees:
            # Tournaments repeat what never varied: whoever won them all would look certain.
            models, logits, draws = fit.models, fit.logits, fit.draws(len(data.y))
        anchors, without = [], self._unbound
        for anchor in self.anchors:
            row, place = data.models.index(anchor), models.index(anchor)
            low, high = np.quantile(draws[:, place], [0.025, 0.975]).tolist()
            unbound = self.prefix + anchor in without
            if unbound or np.ptp(draws[:, place]) < EQUAL:  # that nothing varied is no certainty
                low, high = NO_INTERVAL
            scored = Scored(
                model=self.prefix + anchor,
                logit=float(logits[place]),
                interval=judged[anchor].interval if judged else (low, high),
                draws=draws[:, place],
                features=dict(zip(data.features, data.mean_X[row].tolist(), strict=True)),
                anchor=True,
                unbound=unbound,
            )
            anchors.append(scored)
        return anchors

    def _score(self, run: Run, table: FeatureTable) -> Scored:
        prediction = self.ranker.predict(table)
        failures = {response.query_id: response.error or "" for response in run.failed}
        interval = prediction.interval()
        return Scored(
            model=run.model,
            logit=prediction.logit,
            interval=NO_INTERVAL if np.ptp(interval) < EQUAL else interval,  # learnt from ties
            draws=prediction.draws,
            features=dict(zip(table.features, table.mean().tolist(), strict=True)),
            answered=len(run) - len(failures),
            failures=failures,
            unfamiliar=prediction.unfamiliar,
            assumed=prediction.assumed,
        )


class MultilingualLeaderboard(Mapping[str, Leaderboard]):
    """Leaderboards by language code, and the mean rank over all of them.

    Raises:
        DatasetError: no leaderboard, or one under the code of another language.
    """

    def __init__(self, leaderboards: Mapping[str, Leaderboard]) -> None:
        self._leaderboards = dict(leaderboards)
        if not self._leaderboards:
            raise DatasetError("a leaderboard over languages needs at least one language")
        for code, leaderboard in self._leaderboards.items():
            if leaderboard.dataset.language != code:
                raise DatasetError(
                    f"the leaderboard given for {code!r} is in {leaderboard.dataset.language!r}"
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

        Args:
            system: a function or generator as :meth:`Leaderboard.rank` takes it, asked the queries
                of all languages (``query.language`` tells which); or a mapping from every language
                code to anything that :meth:`Leaderboard.rank` takes.
            model: its name in the ranking; by default a generator's or run's, or ``"my-model"``.
            judge: as :meth:`Leaderboard.rank` takes it; :meth:`estimate` says what that takes.
            judgments: pairs to put to the judge, divided over the languages; 0 for none, ``None``
                for all that there are. Each language draws pairs of its own.
            until_width: in each language, stop asking once the interval of the logit is no wider.
            until_against: in each language, stop asking once it is sure whether the model is better
                than this anchor.
            out: a folder of files of votes that grow, one a language, such as ``sw.jsonl``.
            seed: of the choice of pairs.
            progress: show progress bars on stderr, if that is a terminal.
            n_jobs: processes that compute features, as in joblib.
            concurrency: calls of an async function under way at a time; a generator has its own.
            timeout: seconds that a function may take for a query; see :func:`~mirage.respond`.

        A language in which the model fails on every query, a feature fails, or no judgment came of
        the votes, is left out of the ranking, which says so
        (:attr:`~mirage.MultilingualRanking.left_out`).

        Raises:
            DatasetError: the mapping lacks a language, or ``system`` is in one language only.
            UnknownNameError: the mapping has a key that is no language of this leaderboard.
            GenerationError: the model failed on every query of every language.
            SettingError: as :meth:`Leaderboard.rank`, or fewer judgments than languages.
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
        """Rank several models, by name, in every language (``timeout`` and all: :meth:`rank`).

        The ``judge`` is asked for ``judgments`` on each of them, and ``until_width`` and
        ``until_against`` say when to stop for each.
        """
        asked = self._divided(judgments)
        by_language = {name: self._by_language(model, name) for name, model in models.items()}
        rankings: dict[str, Ranking] = {}
        failed: dict[str, MirageError] = {}
        for code, leaderboard in self.items():
            try:
                rankings[code] = leaderboard.rank_all(
                    {name: model[code] for name, model in by_language.items()},
                    judge=judge,
                    judgments=asked[code],
                    until_width=until_width,
                    until_against=until_against,
                    out=None if out is None else Path(out) / f"{code}.jsonl",
                    seed=_seed_of(code, seed),
                    progress=progress,
                    n_jobs=n_jobs,
                    concurrency=concurrency,
                    timeout=timeout,
                )
            except (GenerationError, FeatureError, JudgmentError, NeuralError) as error:
                failed[code] = error  # what was answered in other languages is not lost for it
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
        """What :meth:`rank` with these arguments will ask the judge for at most; it is not asked.

        The sum of :meth:`Leaderboard.estimate` over the languages, with its errors.

        Args:
            system: as :meth:`rank` takes it.
            model: its name.
            judge: whom to ask.
            judgments: pairs, divided over the languages; ``None`` for all that there are.
            seed: of the choice of pairs.
            progress: show progress bars on stderr, if that is a terminal.
            concurrency: calls of an async function under way at a time.
        """
        model = own_name(system) if model is None else model
        by_language, asked = self._by_language(system, model), self._divided(judgments)
        return sum_estimates(
            board.estimate(
                by_language[code],
                model,
                judge=judge,
                judgments=asked[code],
                seed=_seed_of(code, seed),
                progress=progress,
                concurrency=concurrency,
            )
            for code, board in self.items()
        )

    def _divided(self, judgments: int | None) -> Mapping[str, int | None]:
        """So many judgments for each language; the first have one more where they do not divide."""
        if not judgments or judgments < 0:
            return dict.fromkeys(self, judgments)
        each, more = divmod(judgments, len(self))
        if not each:
            raise SettingError(
                f"{judgments} judgments are fewer than the {len(self)} languages; ask for "
                f"{len(self)} or more, or in fewer languages"
            )
        return {code: each + (place < more) for place, code in enumerate(self)}

    def _by_language(self, model: MultilingualModelLike, name: str) -> Mapping[str, ModelLike]:
        if isinstance(model, Mapping):
            for code in model:
                self[code]
            missing = [code for code in self if code not in model]
            if missing:
                raise DatasetError(
                    f"model {name!r} has nothing for the languages {', '.join(missing)}; give a "
                    "mapping with every language of this leaderboard"
                )
            return model
        if isinstance(model, Run) or not (callable(model) or isinstance(model, Generator)):
            raise DatasetError(
                f"model {name!r} is no function, generator or mapping: give a mapping from "
                "language code to a function, a Generator, a Run, a mapping from query id to text, "
                "or a path"
            )
        return dict.fromkeys(self, model)


def _seed_of(code: str, seed: int) -> int:
    """Of a language's own pairs: on parallel questions, other ones tell more than the same."""
    return seed + int.from_bytes(code.encode())


def _validated(validation: Mapping[str, Any]) -> str:
    """How well models that were held out were predicted, in words."""
    figures = "R2 {r2:.2f}, tau {tau:.2f}"
    forest = validation.get("forest")
    beside = f" (the paper's forest: {figures.format(**forest)})" if forest else ""
    return f"LLMs that were held out are predicted with {figures.format(**validation)}{beside}."


def _check_suite(dataset: MirageDataset, suite: FeatureSuite) -> None:
    code = dataset.language
    if suite.language not in (None, code):
        raise FeatureError(
            f"the suite is for {suite.language!r}, but {dataset.name} is in {code!r}; make a suite "
            "for that language"
        )


def _check_parts(
    dataset: MirageDataset, suite: FeatureSuite, ranker: SurrogateRanker
) -> tuple[str, ...]:
    """The models that the ranker was trained on, where the parts go together."""
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
            f"add to the suite, as in suite + {missing[0]!r}"
        )
    return ranker.data[code].models
