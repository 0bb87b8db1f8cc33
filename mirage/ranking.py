"""Rankings: models ordered by logit, with intervals, in one language or in several."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage._base.rows import first_duplicate
from mirage._base.tables import RANKED, Table, frame_of, ranked_cells, to_html, to_markdown, to_text
from mirage.arena.bradley_terry import BradleyTerry, BradleyTerryFit, Tournaments
from mirage.arena.cautions import cautions
from mirage.arena.fragility import Fragility, fragility
from mirage.arena.judgments import Judgments, JudgmentsLike, as_judgments
from mirage.arena.verdicts import Judged
from mirage.dataset import Cluster, clusters_of
from mirage.errors import MirageError, SettingError, UnknownNameError
from mirage.languages import Language
from mirage.statistics.bootstrap import NO_INTERVAL, Interval
from mirage.statistics.ranks import (
    confidences_by_draws,
    kendall_tau,
    p_better_by_draws,
    p_better_by_intervals,
    rank_intervals_by_confidence,
    ranks,
)

if TYPE_CHECKING:
    import pandas as pd

    from mirage.dataset import MirageDataset
    from mirage.features import FeatureTable
    from mirage.findings import Finding, PooledFinding
    from mirage.models import HumanAgreement, Run, Vote
    from mirage.surrogate import SurrogateRanker

__all__ = ["Entry", "Evidence", "MultilingualRanking", "Ranking"]

UNFAMILIAR = "(?)"
"""Stands before the name of a model that is unlike any that the surrogate learnt from."""

UNANSWERED = 0.2
"""Share of its queries that a model may fail on before its place is warned of."""

DRAWS = 1000
"""Draws of a judged ranking that one over several languages counts ranks in."""

_FRAGILE_MODELS = 50
"""Above so many models, only the first place's fragility is computed: all would take minutes."""

UNDETERMINED = "und"
"""The language of judgments that come without queries (ISO 639-2)."""


@dataclass(frozen=True)
class Entry:
    """One model's place in a ranking.

    Attributes:
        rank: 1 is the best; equal logits share the better rank.
        model: the model's name.
        logit: natural-log odds; NaN in a ranking that was published without logits.
        interval: 95 % interval of the logit, lower and upper; NaN where there is none.
        rank_interval: 95 % interval of the rank, best and worst; ``None`` where there is none.
        features: mean of each feature over the queries that have it; empty for published models.
        anchor: whether the model was there before: a training model, or a published one.
        answered: queries with a response; ``None`` for anchors, whose responses are not at hand.
        failures: why the model failed, by query id. A failure is left out of the features' means.
        uncontrolled: the logit without the controls of a fit; ``None`` where there were none.
        unfamiliar: how its features are unlike those of any model that the surrogate learnt from,
            in words; empty where they are not, or where there is no surrogate.
    """

    rank: int
    model: str
    logit: float
    interval: Interval
    rank_interval: tuple[int, int] | None = None
    features: Mapping[str, float] = field(default_factory=dict, hash=False)
    anchor: bool = False
    answered: int | None = None
    failures: Mapping[str, str] = field(default_factory=dict, hash=False)
    unfamiliar: str = ""
    uncontrolled: float | None = None

    @property
    def failed(self) -> int:
        """Number of queries that the model failed on."""
        return len(self.failures)


@dataclass(frozen=True)
class Evidence:
    """What a ranking was made from, for who wants to look behind it; each part may be missing.

    Attributes:
        dataset: the queries, with their passages.
        runs: the responses of the models that are no anchors, by name of the model.
        tables: their features, a row a query, by name of the model.
        ranker: the surrogate, with the mean features and logits of the anchors.
        provenance: what the surrogate or the fit was made from, where that is known.
        judgments: the verdicts on pairs of models.
        fit: to these judgments.
        votes: what each judge said, from which these judgments follow.
        bradley_terry: how they were fitted; ``None`` where logits come from tournaments.
    """

    dataset: MirageDataset | None = None
    runs: Mapping[str, Run] = field(default_factory=dict)
    tables: Mapping[str, FeatureTable] = field(default_factory=dict)
    ranker: SurrogateRanker | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    judgments: Judgments | None = None
    fit: BradleyTerryFit | None = None
    votes: tuple[Vote, ...] = ()
    bradley_terry: BradleyTerry | None = None


class Ranking:
    """Models ordered by logit, best first.

    Iterates over its :class:`Entry` objects; ``ranking["my-rag"]`` is the entry of one model.

    Args:
        entries: one a model, with their ranks.
        language: ISO 639-1 code.
        title: what was ranked on, a line above the table.
        draws: logits of each model in each of many tournaments, arrays of one length that are
            paired with each other.
        confidence: what :meth:`p_better` says, by the first model and the second; without it it
            goes by the draws, and without either by the intervals.
        notes: lines below the table.
        about: what the models are that were there before, and what a rank says, in a line.
        evidence: what it was made from; ``None`` for a ranking that was published.
        agreement: how far the judge, and the features, were measured to agree with people.
        level: of the intervals.

    Raises:
        MirageError: a model is there twice, or none is there.
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        *,
        language: str,
        title: str = "",
        draws: Mapping[str, Floats] | None = None,
        confidence: Mapping[str, Mapping[str, float]] | None = None,
        notes: Iterable[str] = (),
        about: str = "",
        evidence: Evidence | None = None,
        agreement: Iterable[HumanAgreement] = (),
        level: float = 0.95,
    ) -> None:
        self.entries: tuple[Entry, ...] = tuple(
            sorted(entries, key=lambda entry: (entry.rank, entry.model))
        )
        self.language: str = language
        self.title: str = title
        self.notes: tuple[str, ...] = tuple(notes)
        self.about: str = about
        self.evidence: Evidence | None = evidence
        self.agreement: tuple[HumanAgreement, ...] = tuple(agreement)
        self.level = level
        self._draws, self._confidence = draws, confidence
        self._by_model = {entry.model: entry for entry in self.entries}
        if not self.entries:
            raise MirageError("a ranking needs at least one model")
        if len(self._by_model) != len(self.entries):
            twice = first_duplicate(self.models)
            raise MirageError(f"model {twice!r} is in the ranking twice; names are unique")

    @classmethod
    def from_judgments(
        cls,
        judgments: Judged | JudgmentsLike,
        *,
        dataset: MirageDataset | None = None,
        runs: Iterable[Run] = (),
        cluster: Cluster = None,
        bradley_terry: BradleyTerry | None = None,
        agreement: Iterable[HumanAgreement] = (),
        tournaments: int = 0,
        level: float = 0.95,
        seed: int = 0,
        progress: bool = True,
    ) -> Ranking:
        """Models ranked by verdicts on pairs of their responses.

        Logits are those of :meth:`BradleyTerry.fit <mirage.BradleyTerry.fit>`. Intervals, ranks'
        intervals and confidence come from their covariance, robust to dependence within a query,
        by Student's t with one degree of freedom less than there are queries;
        ``benchmarks/judged_ranking.py`` shows how often they hold the truth. Where a logit rests
        on the ridge alone, as that of a model that won everything, no interval is shown, and ranks
        take what is not known of it into account. :attr:`notes` says so, and whatever else makes
        the ranking say little: few queries, ties alone, votes that were lost.

        Args:
            judgments: what :meth:`PairwiseJudge.compare <mirage.PairwiseJudge.compare>` gives,
                :class:`~mirage.Judgments`, records, or a pandas frame with the columns
                ``query_id``, ``model_a``, ``model_b`` and ``verdict``.
            dataset: the queries, for the report.
            runs: the responses, for the report; those of models without a judgment are left out.
            cluster: what queries hang together by, such as a document that several are about, where
                :attr:`Query.cluster <mirage.Query>` does not say so: a key of their metadata, a
                function of the query, or a mapping from query id. Without a dataset only a mapping
                will do. With fewer than four clusters nothing is sure.
            bradley_terry: the model to fit, ``BradleyTerry()`` by default.
            agreement: how far the judge agrees with people, such as
                :attr:`PairwiseJudge.agreement <mirage.PairwiseJudge.agreement>`.
            tournaments: where it is above 0, logits are the means, and intervals those, of so many
                tournaments on as many queries as were judged (:meth:`BradleyTerry.bootstrap
                <mirage.BradleyTerry.bootstrap>`).
            level: of the intervals.
            seed: of the tournaments.
            progress: show a progress bar of the tournaments on stderr, if that is a terminal.

        Raises:
            JudgmentError: no judgments, models that fall into pieces never compared with each
                other (names them), or a row that is wrong.
            SettingError: ``level`` is not between 0 and 1, or nothing tells the clusters without a
                dataset.
            UnknownNameError: no query has such a key of metadata.
        """
        said = judgments if isinstance(judgments, Judged) else Judged((), ())
        model = BradleyTerry() if bradley_terry is None else bradley_terry
        # With controls single verdicts count, and their judges.
        records = [*judgments] if isinstance(judgments, Iterator) else judgments
        columns = as_judgments(records)
        clusters = _clusters(dataset, cluster)
        fit = model.fit(records if model.controls else columns, clusters=clusters)
        numbers = _by_t(fit, fit.logits, level)
        if tournaments:
            drawn = model.bootstrap(
                columns,
                tournaments=tournaments,
                queries=None,
                clusters=clusters,
                seed=seed,
                progress=progress,
            )
            numbers = _by_tournaments(drawn, fit, level)
        answers = {run.model: run for run in runs if run.model in fit.models}
        hidden = fit.models if bool((columns.score == 0.5).all()) else fit.unbound
        language = next((part.language for part in (dataset, *answers.values()) if part), None)
        named = f"{dataset.name}: {Language.of(dataset.language).name}, " if dataset else ""
        return cls(
            _judged_entries(fit, numbers, hidden, answers),
            language=language or UNDETERMINED,
            title=f"{named}{len(columns)} judgments on {fit.queries} queries",
            confidence=numbers.confidence,
            notes=(*map(str, fit.effects), *cautions(fit, columns, said.votes, said.skipped)),
            evidence=Evidence(
                dataset,
                answers,
                provenance={"ties": model.ties, "ridge": model.ridge}
                | ({"tournaments": tournaments} if tournaments else {}),
                judgments=columns,
                fit=fit,
                votes=said.votes,
                bradley_terry=None if tournaments or model.controls else model,
            ),
            agreement=agreement,
            level=level,
        )

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models, best first."""
        return tuple(entry.model for entry in self.entries)

    @cached_property
    def findings(self) -> Mapping[str, tuple[Finding, ...]]:
        """What is wrong with the responses of each model whose features are at hand, by its name.

        See :func:`mirage.findings.findings_of`.
        """
        from mirage.findings import findings_of

        if self.evidence is None or self.evidence.dataset is None:
            return {}
        dataset, runs = self.evidence.dataset, self.evidence.runs
        return {
            model: findings_of(dataset, runs[model], table)
            for model, table in self.evidence.tables.items()
            if model in runs
        }

    @cached_property
    def fragility(self) -> Mapping[str, Fragility]:
        """How few queries, and how few verdicts, each judged model's rank depends on, by name.

        See :func:`mirage.arena.fragility`, which takes a second for 19 models. If there are more
        than 50 models, only those in first place are here. Empty for rankings that do not come
        from one fit to judgments, or come from adaptively chosen pairs.
        """
        evidence = self.evidence
        if evidence is None or evidence.judgments is None or evidence.bradley_terry is None:
            return {}
        if evidence.judgments.halves is not None:
            return {}
        models = self.models
        if len(models) > _FRAGILE_MODELS:
            models = tuple(entry.model for entry in self if entry.rank == 1)[:_FRAGILE_MODELS]
        rows = fragility(evidence.judgments, models=models, bradley_terry=evidence.bradley_terry)
        return {row.model: row for row in rows if row.rank == self[row.model].rank}

    @property
    def fragility_notes(self) -> tuple[str, ...]:
        """On how little the first place of a judged ranking hangs, in words."""
        first = [entry.model for entry in self if entry.rank == 1]
        if len(first) == len(self):  # nobody is ahead
            return ()
        return tuple(str(self.fragility[model]) for model in first if model in self.fragility)

    @property
    def unanswered_notes(self) -> tuple[str, ...]:
        """A warning of each model that failed on more than a fifth of its queries."""
        return tuple(
            f"Warning: {entry.model} answered only {entry.answered} of "
            f"{entry.answered + entry.failed} queries, so that its place says little; mend the "
            "failures first"
            for entry in self
            if entry.answered is not None
            and entry.failed > UNANSWERED * (entry.answered + entry.failed)
        )

    def __getitem__(self, model: str) -> Entry:
        if model not in self._by_model:
            raise UnknownNameError("model of this ranking", model, self.models)
        return self._by_model[model]

    def __contains__(self, model: object) -> bool:
        return model in self._by_model

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"Ranking({self.title!r}, language={self.language!r}, models={len(self)})"

    def __str__(self) -> str:
        return self.to_text()

    def p_better(self, a: str, b: str) -> float:
        """Confidence that a's logit is larger than b's, from 0 to 1.

        From judgments: one-sided, by Student's t. With draws alone: the share of tournaments in
        which a is ahead of b, ties counting half. Without either (published rankings): from normal
        distributions with the logits for means and a standard deviation of the interval's length
        / (2 * 1.96), taken as independent though both models answered the same queries.

        Raises:
            UnknownNameError: a or b is not in the ranking.
            MirageError: nothing says how sure the order is: ranks alone were published (Yoruba),
                or all judgments are on one query.
        """
        first, second = self[a], self[b]
        if a == b:
            return 0.5
        if self._confidence is not None:
            p = self._confidence[a][b]
        elif self._draws is not None:
            return p_better_by_draws(self._draws[a], self._draws[b])
        else:
            p = p_better_by_intervals(first.logit - second.logit, first.interval, second.interval)
        if math.isnan(p) and self._confidence is not None:
            raise MirageError(
                f"the ranking {self.title!r} rests on one query, so nothing says how sure it is "
                f"that {a!r} is better than {b!r}; have them judged on more"
            )
        if math.isnan(p):
            raise MirageError(
                f"the ranking {self.title!r} has ranks only, no logits with intervals, so nothing "
                f"says how sure it is that {a!r} is better than {b!r}; compare their ranks"
            )
        return p

    def drawn(self) -> Mapping[str, Floats] | None:
        """Logits of each model as they may be, in many draws; ``None`` where there are none.

        Those of rankings on the same queries, as in several languages, belong together: what
        speaks for a model in one draw is the same queries in each.
        """
        fit = None if self.evidence is None else self.evidence.fit
        if fit is None or not fit.degrees:
            return self._draws
        return dict(zip(fit.models, fit.draws(DRAWS).T, strict=True))

    def kendall_tau(self, other: Ranking | Mapping[str, float]) -> float:
        """Kendall's tau-b between two orders of the models that both have, -1 to 1.

        Args:
            other: a ranking, or numbers by model of which a larger one is better.

        Returns:
            tau-b (Kendall 1945, The treatment of ties in ranking problems, Biometrika 33); NaN
            if all models are equal in one of the orders.

        Raises:
            MirageError: fewer than two models are in both, or a number is NaN.
        """
        shared = [model for model in self.models if model in other]
        if len(shared) < 2:
            raise MirageError(
                f"Kendall's tau needs two models that are in both rankings, found {len(shared)}; "
                f"this one has {', '.join(self.models[:5])}, ..."
            )
        ours = [-self[model].rank for model in shared]
        theirs = [
            -other[model].rank if isinstance(other, Ranking) else float(other[model])
            for model in shared
        ]
        for model, value in zip(shared, theirs, strict=True):
            if math.isnan(value):
                raise MirageError(f"the number to compare model {model!r} by is NaN; leave it out")
        # Of the other numbers only the order counts, whatever their scale.
        return float(kendall_tau(ours, np.unique(theirs, return_inverse=True)[1]))

    def to_text(self) -> str:
        """A table of at most 80 columns; ``*`` marks the models that are not anchors.

        ``(?)`` marks those that are unlike any model that the surrogate learnt from. Longer names
        are cut. Below stand failures, findings, what the ranking is about, and notes.
        """
        return to_text(self._table())

    def to_markdown(self) -> str:
        """The same table in GitHub's Markdown; the models that are not anchors are bold."""
        return to_markdown(self._table())

    def _repr_html_(self) -> str:
        return to_html(self._table())

    def to_json(self) -> str:
        """A JSON object with everything but the draws; what is NaN or not there is null."""
        return json.dumps(self._plain(), ensure_ascii=False, allow_nan=False)

    def to_pandas(self) -> pd.DataFrame:
        """A frame indexed by model, best first.

        Columns: rank, logit, lower, upper, rank_best, rank_worst, anchor, answered, failed,
        unfamiliar, and one a feature.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        names = dict.fromkeys(name for entry in self for name in entry.features)
        columns: dict[str, list[Any]] = {
            "rank": [e.rank for e in self],
            "logit": [e.logit for e in self],
            "lower": [e.interval[0] for e in self],
            "upper": [e.interval[1] for e in self],
            "rank_best": [e.rank_interval and e.rank_interval[0] for e in self],
            "rank_worst": [e.rank_interval and e.rank_interval[1] for e in self],
            "anchor": [e.anchor for e in self],
            "answered": [e.answered for e in self],
            "failed": [e.failed for e in self],
            "unfamiliar": [e.unfamiliar for e in self],
            **{name: [e.features.get(name, math.nan) for e in self] for name in names},
        }
        # Int64 is pandas' integer that may be missing.
        whole = dict.fromkeys(("rank_best", "rank_worst", "answered"), "Int64")
        return _frame(columns, self.models).astype(whole)

    def _table(self) -> Table:
        return Table(
            title=self.title,
            header=(
                *(word.replace("95", f"{100 * self.level:g}") for word in RANKED),
                "uncontrolled",
            ),
            rows=tuple(
                (
                    *ranked_cells(e.rank, _named(e), e.logit, e.interval, e.rank_interval),
                    _without_controls(e),
                )
                for e in self
            ),
            marked=tuple(map(self._is_new, self)),
            notes=(
                *self.unanswered_notes,
                *_failure_notes(self, most=5),
                *_finding_notes(self.findings),
                *filter(None, [self.about]),
                *self.notes,
                *self.fragility_notes,
            ),
        ).filled()

    def _is_new(self, entry: Entry) -> bool:
        """Whether to mark a model; where all were judged alike, none is worth a mark."""
        judged = self.evidence is not None and self.evidence.judgments is not None
        return not entry.anchor and not judged

    def _plain(self) -> dict[str, Any]:
        return {
            "language": self.language,
            "title": self.title,
            "about": self.about,
            "entries": [
                _plain_entry(entry)
                | {"findings": [*map(_plain_finding, self.findings.get(entry.model, ()))]}
                | {"fragility": _plain_fragility(self.fragility.get(entry.model))}
                for entry in self
            ],
            "notes": [*self.unanswered_notes, *self.notes, *self.fragility_notes],
            "agreement": [figure.model_dump() for figure in self.agreement],
        }


class MultilingualRanking(Mapping[str, Ranking]):
    """Rankings of the same models in several languages, and their mean ranks.

    A mapping from language code to :class:`Ranking`. Languages whose queries have the same ids, as
    parallel questions do, are drawn together: what is hard in one language is hard in the others,
    so that many languages are not many times the queries.

    Args:
        rankings: by language code.
        left_out: languages that have no ranking, and why.

    Attributes:
        level: of the intervals; the least of the rankings'.

    Raises:
        MirageError: no ranking, or no model that is in all of them.
    """

    def __init__(
        self, rankings: Mapping[str, Ranking], left_out: Mapping[str, str] | None = None
    ) -> None:
        self._rankings = dict(rankings)
        self.left_out: Mapping[str, str] = MappingProxyType(dict(left_out or {}))
        if not self._rankings:
            raise MirageError("a ranking over languages needs at least one language")
        first, *others = self._rankings.values()
        shared = [model for model in first.models if all(model in other for other in others)]
        if not shared:
            raise MirageError("no model is ranked in all of the languages")
        means = {model: float(np.mean([r[model].rank for r in self.values()])) for model in shared}
        self._means = dict(sorted(means.items(), key=lambda item: item[1]))
        self.level: float = min(ranking.level for ranking in self.values())

    def __contains__(self, language: object) -> bool:
        return language in self._rankings

    def __getitem__(self, language: str) -> Ranking:
        if language not in self._rankings:
            raise UnknownNameError("language of this ranking", language, self._rankings)
        return self._rankings[language]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rankings)

    def __len__(self) -> int:
        return len(self._rankings)

    def __repr__(self) -> str:
        return f"MultilingualRanking(languages={list(self)}, models={len(self._means)})"

    def __str__(self) -> str:
        return self.to_text()

    @cached_property
    def findings(self) -> Mapping[str, tuple[PooledFinding, ...]]:
        """What is wrong with the responses of each model in all languages, by its name."""
        from mirage.findings import pooled

        models = dict.fromkeys(model for ranking in self.values() for model in ranking.findings)
        return {
            model: pooled(
                {code: r.findings[model] for code, r in self.items() if model in r.findings}
            )
            for model in models
        }

    @property
    def mean_ranks(self) -> Mapping[str, float]:
        """Mean rank over the languages of each model that all of them have, best first.

        As in Figure 4 of MIRAGE-Bench (arXiv 2410.13716).
        """
        return MappingProxyType(self._means)

    @cached_property
    def intervals(self) -> Mapping[str, Interval]:
        """Interval of the mean rank of each model, best and worst, in the order of the means.

        The means of the ends of :attr:`Entry.rank_interval` over the languages, outwards to the
        next half, which hold the mean rank however languages hang together. Percentiles of draws
        would not: where models are nearly equal, ranks vary in each language, and the mean over
        many hardly does. ``benchmarks/mean_ranks.py`` prints how often either holds. NaN where a
        language has no rank interval.
        """
        return MappingProxyType({model: self._interval(model) for model in self._means})

    def _interval(self, model: str) -> Interval:
        spans = [ranking[model].rank_interval for ranking in self.values()]
        known = [span for span in spans if span is not None]
        if len(known) < len(spans):
            return NO_INTERVAL
        best, worst = np.mean(known, axis=0).tolist()
        return math.floor(2 * best) / 2, math.ceil(2 * worst) / 2

    @cached_property
    def rank_intervals(self) -> Mapping[str, tuple[int, int] | None]:
        """Interval of each model's place by mean rank, best and worst, in the order of the means.

        By :func:`mirage.statistics.ranks.rank_intervals_by_confidence` with :meth:`p_better`;
        ``None`` where that has no answer.
        """
        if self._confidences is None:
            return MappingProxyType(dict.fromkeys(self._means))
        ends = rank_intervals_by_confidence(self._confidences, level=self.level).tolist()
        pairs = zip(self._means, ends, strict=True)
        return MappingProxyType({model: (best, worst) for model, (best, worst) in pairs})

    def p_better(self, a: str, b: str) -> float:
        """Confidence that a's mean rank is better than b's, from 0 to 1.

        The share of draws in which it is, equal ones counting half. A draw takes the same queries
        in all languages that share them.

        Raises:
            UnknownNameError: a or b is not ranked in all of the languages.
            MirageError: a language has no draws: it was published, or judged on one query.
        """
        for model in (a, b):
            if model not in self._means:
                raise UnknownNameError("model ranked in all languages", model, self._means)
        if self._confidences is None:
            code = next(code for code, ranking in self.items() if ranking.drawn() is None)
            raise MirageError(
                f"the ranking in {code!r} has no draws, so nothing says how sure it is over all "
                f"languages that {a!r} is better than {b!r}; compare their mean ranks"
            )
        places = list(self._means)
        return float(self._confidences[places.index(a), places.index(b)])

    @cached_property
    def _confidences(self) -> Floats | None:
        """:meth:`p_better` of each model over each, in the order of the means."""
        total, languages = np.zeros((1, len(self._means))), 0
        for ranking in self.values():
            drawn = ranking.drawn()
            if drawn is None:
                return None
            places = ranks(np.stack(list(drawn.values()), axis=1))
            columns = [list(drawn).index(model) for model in self._means]
            length = min(len(total), len(places)) if languages else len(places)
            total = total[:length] + places[:length, columns]
            languages += 1
        return confidences_by_draws(-total / languages)

    def to_text(self) -> str:
        """A table of at most 80 columns: mean rank, intervals, and the best and worst language.

        ``*`` marks the models that are not anchors. Below stand failures, findings and what the
        rankings are about.
        """
        rows = []
        for model in self._means:
            places = sorted((ranking[model].rank, code) for code, ranking in self.items())
            worst = max(places, key=lambda place: place[0])
            ends = [f"{rank} ({code})" for rank, code in (places[0], worst)]
            rows.append((f"{self._means[model]:.1f}", model, *self._known(model), *ends))
        header = ("mean rank", "model", *self._spans, "best", "worst")
        return to_text(self._table(header, rows).filled())

    def to_markdown(self) -> str:
        """The rank in each language and their mean, in GitHub's Markdown."""
        return to_markdown(self._map())

    def _repr_html_(self) -> str:
        return to_html(self._map())

    def to_json(self) -> str:
        """A JSON object: mean ranks and intervals, the ranking of each language, those left out."""
        plain = {
            "mean_ranks": self._means,
            "intervals": {m: [*map(_number, ends)] for m, ends in self.intervals.items()},
            "rank_intervals": dict(self.rank_intervals),
            "languages": {code: ranking._plain() for code, ranking in self.items()},
            "left_out": dict(self.left_out),
        }
        return json.dumps(plain, ensure_ascii=False, allow_nan=False)

    def to_pandas(self) -> pd.DataFrame:
        """A frame of ranks indexed by model, best mean first.

        Columns: one a language, mean, and lower, upper, rank_best and rank_worst, the ends of
        :attr:`intervals` and :attr:`rank_intervals`.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        columns: dict[str, list[Any]] = {
            code: [ranking[model].rank for model in self._means] for code, ranking in self.items()
        }
        ends, spans = [*self.intervals.values()], [*self.rank_intervals.values()]
        columns |= {
            "mean": list(self._means.values()),
            "lower": [low for low, _ in ends],
            "upper": [high for _, high in ends],
            "rank_best": [span and span[0] for span in spans],
            "rank_worst": [span and span[1] for span in spans],
        }
        whole = dict.fromkeys(("rank_best", "rank_worst"), "Int64")
        return _frame(columns, tuple(self._means)).astype(whole)

    def _notes_on_judgments(self) -> Iterator[str]:
        asked = {
            code: ranking.evidence.provenance["judgments"]
            for code, ranking in self.items()
            if ranking.evidence is not None and "judgments" in ranking.evidence.provenance
        }
        if asked:
            yield f"Placed by {sum(asked.values())} judgments in {len(asked)} languages."

    def _map(self) -> Table:
        rows = []
        for model, mean in self._means.items():
            places = (str(ranking[model].rank) for ranking in self.values())
            rows.append((f"{mean:.1f}", model, *self._known(model), *places))
        return self._table(("mean rank", "model", *self._spans, *self), rows).filled()

    @property
    def _spans(self) -> tuple[str, str]:
        """The header of :meth:`_known`."""
        return f"{100 * self.level:g} % interval", "rank interval"

    def _known(self, model: str) -> tuple[str, str]:
        """How far the mean rank and the place of a model are known; blank where nothing says."""
        (low, high), span = self.intervals[model], self.rank_intervals[model]
        return (
            "" if math.isnan(low) else f"{low:g}-{high:g}",
            "" if span is None else "{}-{}".format(*span),
        )

    def _table(self, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
        first = next(iter(self.values()))
        return Table(
            title=f"Mean rank over {len(self)} languages",
            header=header,
            rows=tuple(rows),
            marked=tuple(not first[model].anchor for model in self._means),
            notes=(
                *(f"{code} is left out: {why}" for code, why in self.left_out.items()),
                *(f"{code}: {note}" for code, r in self.items() for note in r.unanswered_notes),
                *self._notes_on_judgments(),
                *(f"{code}: {note}" for code, r in self.items() for note in _failure_notes(r, 1)),
                *_finding_notes(self.findings),
                *dict.fromkeys(ranking.about for ranking in self.values() if ranking.about),
            ),
        )


class _Numbers(NamedTuple):
    """What is known of models, each array in their order."""

    logits: Floats
    ends: Floats
    rank_ends: Ints
    confidence: Mapping[str, Mapping[str, float]]


def _clusters(dataset: MirageDataset | None, cluster: Cluster) -> Mapping[str, str]:
    """The cluster of each query that has one, by its id."""
    if dataset is not None:
        return clusters_of(dataset, cluster)
    if cluster is None or isinstance(cluster, Mapping):
        return cluster or {}
    raise SettingError(
        "cluster= names what queries have in common, and there are no queries: give them as "
        "dataset=, or a mapping from query id to cluster"
    )


def _by_t(fit: BradleyTerryFit | Tournaments, logits: Floats, level: float) -> _Numbers:
    rows = zip(fit.models, fit.confidences.tolist(), strict=True)
    confidence = {model: dict(zip(fit.models, row, strict=True)) for model, row in rows}
    ends, rank_ends = fit.interval(level=level), fit.rank_interval(level=level)
    return _Numbers(logits, ends, rank_ends, confidence)


def _by_tournaments(drawn: Tournaments, fit: BradleyTerryFit, level: float) -> _Numbers:
    # Tournaments repeat what never varied, and would be sure of the order.
    numbers = _by_t(fit if fit.unbound else drawn, drawn.mean, level)
    return numbers._replace(ends=drawn.interval(level=level))


def _judged_entries(
    fit: BradleyTerryFit, numbers: _Numbers, hidden: Sequence[str], answers: Mapping[str, Run]
) -> Iterator[Entry]:
    plain = fit.uncontrolled.logits.tolist() if fit.uncontrolled else [None] * len(fit.models)
    places, spans = ranks(numbers.logits).tolist(), numbers.rank_ends.tolist()
    for i, (model, logit, (low, high)) in enumerate(
        zip(fit.models, numbers.logits.tolist(), numbers.ends.tolist(), strict=True)
    ):
        run = answers.get(model)
        failures = {} if run is None else {r.query_id: r.error or "" for r in run.failed}
        yield Entry(
            places[i],
            model,
            logit,
            NO_INTERVAL if model in hidden else (low, high),
            (spans[i][0], spans[i][1]),
            answered=None if run is None else len(run) - len(failures),
            failures=failures,
            uncontrolled=plain[i],
        )


def _failure_notes(ranking: Ranking, most: int) -> list[str]:
    """A line a model that failed on queries, with the reasons for ``most`` of them."""
    return [_failure_note(entry, most) for entry in ranking if entry.failures]


def _failure_note(entry: Entry, most: int) -> str:
    total = (entry.answered or 0) + entry.failed
    shown = list(entry.failures.items())[:most]
    reasons = ", ".join(f"{query_id} ({_short(reason)})" for query_id, reason in shown)
    more = f", and {entry.failed - len(shown)} more" if entry.failed > len(shown) else ""
    return f"{entry.model}: {entry.failed} of {total} queries failed: {reasons}{more}"


def _without_controls(entry: Entry) -> str:
    """The logit without controls, where there were some."""
    return "" if entry.uncontrolled is None else f"{entry.uncontrolled:.2f}"


def _named(entry: Entry) -> str:
    """The name in a table; with a mark where nobody like it was seen before."""
    return f"{UNFAMILIAR} {entry.model}" if entry.unfamiliar else entry.model


def _finding_notes(findings: Mapping[str, Sequence[Finding | PooledFinding]]) -> Iterator[str]:
    """A line a model with its findings."""
    from mirage.findings import summary

    for model, some in findings.items():
        if words := summary(some):
            yield f"{model} {words}."


def _plain_fragility(fragile: Fragility | None) -> dict[str, Any] | None:
    if fragile is None:
        return None
    return {
        kind: removal and {"dropped": list(removal.dropped), "of": removal.of, "rank": removal.rank}
        for kind, removal in (("queries", fragile.queries), ("verdicts", fragile.verdicts))
    }


def _plain_finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "words": finding.words,
        "count": finding.count,
        "of": finding.of,
        "query_ids": list(finding.query_ids),
        "quotes": dict(finding.quotes),
    }


def _short(reason: str, most: int = 100) -> str:
    return reason if len(reason) <= most else reason[: most - 1].rstrip() + "…"


def _plain_entry(entry: Entry) -> dict[str, Any]:
    return {
        "rank": entry.rank,
        "model": entry.model,
        "logit": _number(entry.logit),
        "interval": [_number(end) for end in entry.interval],
        "rank_interval": entry.rank_interval and list(entry.rank_interval),
        "features": {name: _number(value) for name, value in entry.features.items()},
        "anchor": entry.anchor,
        "answered": entry.answered,
        "failed": entry.failed,
        "failures": dict(entry.failures),
        "unfamiliar": entry.unfamiliar,
        "uncontrolled": entry.uncontrolled,
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _frame(columns: Mapping[str, list[Any]], models: tuple[str, ...]) -> pd.DataFrame:
    return frame_of({"model": models, **columns}).set_index("model")
