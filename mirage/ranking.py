"""Rankings: models ordered by logit, with intervals, in one or several languages."""

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
from mirage.arena.bradley_terry import BradleyTerry
from mirage.arena.cautions import cautions
from mirage.arena.fits import BradleyTerryFit, Tournaments
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
    from mirage.features.findings import Finding, PooledFinding
    from mirage.models import HumanAgreement, Run, Vote
    from mirage.surrogate import SurrogateRanker

__all__ = ["Entry", "Evidence", "MultilingualRanking", "Ranking"]

UNFAMILIAR = "(?)"
"""Mark before the name of a model that is unlike every training model of the surrogate."""

UNANSWERED = 0.2
"""Share of failed queries above which a warning about a model's rank is shown."""

DRAWS = 1000
"""Number of draws of a judged ranking for the intervals of a multilingual ranking."""

_FRAGILE_MODELS = 50
"""With more models than this, only the fragility of first place is computed, to save minutes."""

UNDETERMINED = "und"
"""Language code (ISO 639-2) of judgments without queries."""


@dataclass(frozen=True)
class Entry:
    """One model in a ranking.

    Attributes:
        rank: Rank; 1 is the best, and equal logits share the better rank.
        model: Name of the model.
        logit: Natural-log odds; NaN in a ranking that was published without logits.
        interval: 95 % interval of the logit, lower and upper end; NaN if there is none.
        rank_interval: 95 % interval of the rank, best and worst; ``None`` if there is none.
        features: Mean of each feature over the queries that have it; empty for published models.
        anchor: Whether the model was ranked before: a training model, or a published one.
        answered: Number of queries with a response; ``None`` for anchors, whose responses are not
            available.
        failures: Reason of each failure, by query id. Failed queries are excluded from the
            features' means.
        unfamiliar: How the model's features differ from those of every training model of the
            surrogate, in words; empty if they do not, or if there is no surrogate.
        uncontrolled: The logit without the controls of a fit; ``None`` if there were none.
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
    """The data behind a ranking, for further analysis; each part may be missing.

    Attributes:
        dataset: The queries, with their passages.
        runs: Responses of the models that are not anchors, by model name.
        tables: Their features, one row per query, by model name.
        ranker: The surrogate, with the mean features and logits of the anchors.
        provenance: Sources and settings of the surrogate or the fit, if they are known.
        judgments: Verdicts on pairs of models.
        fit: The fit to these judgments.
        votes: Votes of each judge, from which these judgments follow.
        bradley_terry: The model that was fitted; ``None`` if logits come from tournaments.
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

    It iterates over its :class:`Entry` objects; ``ranking["my-rag"]`` is the entry of one model.

    Args:
        entries: One entry per model, with its rank.
        language: ISO 639-1 code.
        title: Line above the table, usually about the dataset.
        draws: Draws of each model's logit, for instance in tournaments; arrays of the same length,
            paired with each other.
        confidence: Result of :meth:`p_better` by the first and the second model. By default
            :meth:`p_better` uses the draws, or, if there are none, the intervals.
        notes: Lines below the table.
        about: Line about the anchors and the meaning of a rank.
        evidence: Data behind the ranking; ``None`` if the ranking was published.
        agreement: Measured agreement of the judge, and of the features, with people.
        level: Confidence level of the intervals.

    Raises:
        MirageError: A model is listed twice, or there is no model.

    Example:
        >>> from mirage import Leaderboard
        >>> ranking = Leaderboard.published("en")
        >>> ranking["gpt-4o-azure"].rank
        1
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
            raise MirageError(f"model {twice!r} is in the ranking twice; names must be unique")

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
        """Rank models by verdicts on pairs of their responses.

        Logits are those of :meth:`BradleyTerry.fit <mirage.BradleyTerry.fit>`. Intervals and
        confidences use the covariance of the logits, which is robust to dependence within a query.
        They use Student's t with one degree of freedom less than there are queries.
        ``validation/coverage/judged_ranking.py`` measures their coverage. If only the ridge bounds
        a logit, as for a model that won everything, it has no interval, and rank intervals include
        this uncertainty. :attr:`notes` lists such models and other weaknesses: few queries, only
        ties, or votes that failed.

        Args:
            judgments: Result of :meth:`PairwiseJudge.compare <mirage.PairwiseJudge.compare>`,
                :class:`~mirage.Judgments`, records, or a pandas DataFrame with the columns
                ``query_id``, ``model_a``, ``model_b`` and ``verdict``.
            dataset: The queries, for the report.
            runs: The responses, for the report; those of models without judgments are ignored.
            cluster: How to group related queries, such as queries about one document, if
                :attr:`Query.cluster <mirage.Query>` does not: a key of their metadata, a function
                of the query, or a mapping from query id. Without a dataset it must be a mapping.
                With fewer than four clusters there are no intervals.
            bradley_terry: The model to fit; ``BradleyTerry()`` by default.
            agreement: Agreement of the judge with people, such as :attr:`PairwiseJudge.agreement
                <mirage.PairwiseJudge.agreement>`.
            tournaments: If above 0, logits are the means, and intervals those, of this many
                tournaments on as many queries as were judged (:meth:`BradleyTerry.bootstrap
                <mirage.BradleyTerry.bootstrap>`).
            level: Confidence level of the intervals.
            seed: Random seed of the tournaments.
            progress: Show a progress bar of the tournaments on stderr, if stderr is a terminal.

        Returns:
            The ranking.

        Raises:
            JudgmentError: There are no judgments, a row is wrong, or the models fall into groups
                that were never compared with each other (the message lists them).
            SettingError: ``level`` is not between 0 and 1, or ``cluster`` is not a mapping although
                there is no dataset.
            UnknownNameError: No query has this key of metadata.

        Example:
            >>> from mirage import Judgments, Ranking
            >>> judgments = Judgments.from_arrays(
            ...     query=["q1", "q2", "q3", "q4"],
            ...     model_a=["x", "x", "y", "x"],
            ...     model_b=["y"] * 2 + ["x"] + ["y"],
            ...     verdict=["a", "tie", "b", "b"],
            ... )
            >>> Ranking.from_judgments(judgments).models
            ('x', 'y')
        """
        votes_and_skips = judgments if isinstance(judgments, Judged) else Judged((), ())
        model = BradleyTerry() if bradley_terry is None else bradley_terry
        # Controls need the single judgments with their judges, so keep an iterator's records.
        records = [*judgments] if isinstance(judgments, Iterator) else judgments
        columns = as_judgments(records)
        clusters = _clusters(dataset, cluster)
        fit = model.fit(records if model.controls else columns, clusters=clusters)
        estimates = _estimates_by_t(fit, fit.logits, level)
        if tournaments:
            bootstrapped = model.bootstrap(
                columns,
                tournaments=tournaments,
                queries=None,
                clusters=clusters,
                seed=seed,
                progress=progress,
            )
            estimates = _estimates_by_tournaments(bootstrapped, fit, level)
        answers = {run.model: run for run in runs if run.model in fit.models}
        without_interval = fit.models if bool((columns.score == 0.5).all()) else fit.unbound
        language = next((part.language for part in (dataset, *answers.values()) if part), None)
        dataset_text = f"{dataset.name}: {Language.of(dataset.language).name}, " if dataset else ""
        return cls(
            _judged_entries(fit, estimates, without_interval, answers),
            language=language or UNDETERMINED,
            title=f"{dataset_text}{len(columns)} judgments on {fit.queries} queries",
            confidence=estimates.confidence,
            notes=(
                *map(str, fit.effects),
                *cautions(fit, columns, votes_and_skips.votes, votes_and_skips.skipped),
            ),
            evidence=Evidence(
                dataset,
                answers,
                provenance={"ties": model.ties, "ridge": model.ridge}
                | ({"tournaments": tournaments} if tournaments else {}),
                judgments=columns,
                fit=fit,
                votes=votes_and_skips.votes,
                bradley_terry=None if tournaments or model.controls else model,
            ),
            agreement=agreement,
            level=level,
        )

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, best first."""
        return tuple(entry.model for entry in self.entries)

    @cached_property
    def findings(self) -> Mapping[str, tuple[Finding, ...]]:
        """Faults in the responses of each model whose features are available, by model name.

        See :func:`mirage.features.findings.findings_of`.
        """
        from mirage.features.findings import findings_of

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
        """Fewest queries and verdicts on which each judged model's rank depends, by model name.

        See :func:`mirage.arena.fragility`, which takes about a second for 19 models. With more than
        50 models, only those in first place are included. It is empty if the ranking does not come
        from one fit to judgments, or comes from adaptively chosen pairs.
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
        """Sentences on how fragile the first place of a judged ranking is."""
        first = [entry.model for entry in self if entry.rank == 1]
        if len(first) == len(self):  # all models are equal
            return ()
        return tuple(str(self.fragility[model]) for model in first if model in self.fragility)

    @property
    def unanswered_notes(self) -> tuple[str, ...]:
        """A warning for each model that failed on more than a fifth of its queries."""
        return tuple(
            f"Warning: {entry.model} answered only {entry.answered} of "
            f"{entry.answered + entry.failed} queries, so its rank is not reliable; fix the "
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
        """Return the confidence that a's logit is larger than b's, from 0 to 1.

        For judged rankings it is one-sided, from Student's t. If there are only draws, it is the
        share of draws in which a is ahead of b, with ties counted half. If there are neither
        (published rankings), each logit is taken as normal with a standard deviation of the
        interval's length / (2 * 1.96). The two logits are then taken as independent, although both
        models answered the same queries.

        Args:
            a: Name of a model.
            b: Name of another model.

        Raises:
            UnknownNameError: a or b is not in the ranking.
            MirageError: The uncertainty is not known: only ranks were published (Yoruba), or all
                judgments are on one query.

        Example:
            >>> from mirage import Leaderboard
            >>> ranking = Leaderboard.published("en")
            >>> ranking.p_better("gpt-4o-azure", "Qwen/Qwen2-1.5B-Instruct")
            1.0
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
                f"the ranking {self.title!r} uses one query, so the confidence that {a!r} is "
                f"better than {b!r} is not known; have them judged on more queries"
            )
        if math.isnan(p):
            raise MirageError(
                f"the ranking {self.title!r} has only ranks, no logits with intervals, so the "
                f"confidence that {a!r} is better than {b!r} is not known; compare their ranks"
            )
        return p

    def drawn(self) -> Mapping[str, Floats] | None:
        """Return draws of each model's logit, or ``None`` if there are none.

        Draws of rankings on the same queries, for instance in several languages, are paired: each
        draw gives a query the same weight in all of these rankings.
        """
        fit = None if self.evidence is None else self.evidence.fit
        if fit is None or not fit.degrees:
            return self._draws
        return dict(zip(fit.models, fit.draws(DRAWS).T, strict=True))

    def kendall_tau(self, other: Ranking | Mapping[str, float]) -> float:
        """Return Kendall's tau-b between two orders of the models that both have, -1 to 1.

        Args:
            other: A ranking, or numbers by model; larger numbers are better.

        Returns:
            tau-b (Kendall 1945, The treatment of ties in ranking problems, Biometrika 33); NaN if
            all models are equal in one of the orders.

        Raises:
            MirageError: Fewer than two models are in both, or a number is NaN.

        Example:
            >>> from mirage import Leaderboard
            >>> ranking = Leaderboard.published("en")
            >>> ranking.kendall_tau(ranking)
            1.0
        """
        shared = [model for model in self.models if model in other]
        if len(shared) < 2:
            raise MirageError(
                f"Kendall's tau needs at least two models in both rankings, got {len(shared)}; "
                f"this one has {', '.join(self.models[:5])}, ..."
            )
        ours = [-self[model].rank for model in shared]
        theirs = [
            -other[model].rank if isinstance(other, Ranking) else float(other[model])
            for model in shared
        ]
        for model, value in zip(shared, theirs, strict=True):
            if math.isnan(value):
                raise MirageError(f"the number of model {model!r} is NaN; leave the model out")
        # Only the order of the other numbers matters, so replace them by their ranks.
        return float(kendall_tau(ours, np.unique(theirs, return_inverse=True)[1]))

    def to_text(self) -> str:
        """Return a table of at most 80 columns; ``*`` marks the models that are not anchors.

        ``(?)`` marks models that are unlike every training model of the surrogate. Long names are
        shortened. Failures, findings, the meaning of the ranking, and notes are below the table.
        """
        return to_text(self._table())

    def to_markdown(self) -> str:
        """Return the table in GitHub's Markdown; models that are not anchors are bold."""
        return to_markdown(self._table())

    def _repr_html_(self) -> str:
        return to_html(self._table())

    def to_json(self) -> str:
        """Return a JSON object with everything except the draws.

        NaN and missing values are null.
        """
        return json.dumps(self._to_dict(), ensure_ascii=False, allow_nan=False)

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame indexed by model, best first.

        Columns: rank, logit, lower, upper, rank_best, rank_worst, anchor, answered, failed,
        unfamiliar, and one per feature.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        names = dict.fromkeys(name for entry in self for name in entry.features)
        columns: dict[str, list[Any]] = {
            "rank": [entry.rank for entry in self],
            "logit": [entry.logit for entry in self],
            "lower": [entry.interval[0] for entry in self],
            "upper": [entry.interval[1] for entry in self],
            "rank_best": [entry.rank_interval and entry.rank_interval[0] for entry in self],
            "rank_worst": [entry.rank_interval and entry.rank_interval[1] for entry in self],
            "anchor": [entry.anchor for entry in self],
            "answered": [entry.answered for entry in self],
            "failed": [entry.failed for entry in self],
            "unfamiliar": [entry.unfamiliar for entry in self],
            **{name: [entry.features.get(name, math.nan) for entry in self] for name in names},
        }
        # Int64 is pandas' integer type with missing values.
        integer_columns = dict.fromkeys(("rank_best", "rank_worst", "answered"), "Int64")
        return _frame(columns, self.models).astype(integer_columns)

    def _table(self) -> Table:
        return Table(
            title=self.title,
            header=(
                *(word.replace("95", f"{100 * self.level:g}") for word in RANKED),
                "uncontrolled",
            ),
            rows=tuple(
                (
                    *ranked_cells(
                        entry.rank,
                        _display_name(entry),
                        entry.logit,
                        entry.interval,
                        entry.rank_interval,
                    ),
                    _uncontrolled_cell(entry),
                )
                for entry in self
            ),
            marked=tuple(map(self._is_marked, self)),
            notes=(
                *self.unanswered_notes,
                *_failure_notes(self, limit=5),
                *_finding_notes(self.findings),
                *filter(None, [self.about]),
                *self.notes,
                *self.fragility_notes,
            ),
        ).filled()

    def _is_marked(self, entry: Entry) -> bool:
        """Return whether to mark a model; in a judged ranking no model is marked."""
        judged = self.evidence is not None and self.evidence.judgments is not None
        return not entry.anchor and not judged

    def _to_dict(self) -> dict[str, Any]:
        """Return the content of :meth:`to_json` as a dictionary."""
        return {
            "language": self.language,
            "title": self.title,
            "about": self.about,
            "entries": [
                _entry_dict(entry)
                | {"findings": [*map(_finding_dict, self.findings.get(entry.model, ()))]}
                | {"fragility": _fragility_dict(self.fragility.get(entry.model))}
                for entry in self
            ],
            "notes": [*self.unanswered_notes, *self.notes, *self.fragility_notes],
            "agreement": [figure.model_dump() for figure in self.agreement],
        }


class MultilingualRanking(Mapping[str, Ranking]):
    """Rankings of the same models in several languages, and their mean ranks.

    It is a mapping from language code to :class:`Ranking`. Languages whose queries have the same
    ids, like parallel questions, are drawn together: a query that is hard in one language is hard
    in the others, so more languages are not more independent queries.

    Args:
        rankings: Rankings by language code.
        left_out: Languages without a ranking, with the reason.

    Attributes:
        left_out: Languages without a ranking, with the reason.
        level: Confidence level of the intervals; the smallest of the rankings' levels.

    Raises:
        MirageError: There is no ranking, or no model is in all rankings.

    Example:
        >>> from mirage import Leaderboard, MultilingualRanking
        >>> rankings = {code: Leaderboard.published(code) for code in ("en", "sw")}
        >>> MultilingualRanking(rankings).mean_ranks["gpt-4o-azure"]
        1.0
    """

    def __init__(
        self, rankings: Mapping[str, Ranking], left_out: Mapping[str, str] | None = None
    ) -> None:
        self._rankings = dict(rankings)
        self.left_out: Mapping[str, str] = MappingProxyType(dict(left_out or {}))
        if not self._rankings:
            raise MirageError("a multilingual ranking needs at least one language")
        first, *remaining_rankings = self._rankings.values()
        shared = [
            model for model in first.models if all(model in other for other in remaining_rankings)
        ]
        if not shared:
            raise MirageError("no model is ranked in all languages")
        means = {
            model: float(np.mean([ranking[model].rank for ranking in self.values()]))
            for model in shared
        }
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
        """Faults in the responses of each model in all languages, by model name."""
        from mirage.features.findings import pooled

        models = dict.fromkeys(model for ranking in self.values() for model in ranking.findings)
        return {
            model: pooled(
                {code: r.findings[model] for code, r in self.items() if model in r.findings}
            )
            for model in models
        }

    @property
    def mean_ranks(self) -> Mapping[str, float]:
        """Mean rank over the languages, for each model that all of them have, best first.

        It is computed as in Figure 4 of MIRAGE-Bench (arXiv 2410.13716).
        """
        return MappingProxyType(self._means)

    @cached_property
    def intervals(self) -> Mapping[str, Interval]:
        """Interval of each model's mean rank, best and worst, in the order of the means.

        Each end is the mean of that end of :attr:`Entry.rank_interval` over the languages, rounded
        outwards to the next half. These intervals are valid for any dependence between languages.
        Percentiles of draws would be too narrow: if models are nearly equal, ranks vary in each
        language, but the mean over many languages hardly varies.
        ``validation/coverage/mean_ranks.py`` compares the coverage of both. NaN if a language has
        no rank interval.
        """
        return MappingProxyType({model: self._interval(model) for model in self._means})

    def _interval(self, model: str) -> Interval:
        """Return the interval of one model's mean rank."""
        spans = [ranking[model].rank_interval for ranking in self.values()]
        available = [span for span in spans if span is not None]
        if len(available) < len(spans):
            return NO_INTERVAL
        best, worst = np.mean(available, axis=0).tolist()
        return math.floor(2 * best) / 2, math.ceil(2 * worst) / 2

    @cached_property
    def rank_intervals(self) -> Mapping[str, tuple[int, int] | None]:
        """Interval of each model's rank by mean rank, best and worst, in the order of the means.

        It comes from :func:`mirage.statistics.ranks.rank_intervals_by_confidence` with
        :meth:`p_better`, and is ``None`` if :meth:`p_better` has no result.
        """
        if self._confidences is None:
            return MappingProxyType(dict.fromkeys(self._means))
        ends = rank_intervals_by_confidence(self._confidences, level=self.level).tolist()
        pairs = zip(self._means, ends, strict=True)
        return MappingProxyType({model: (best, worst) for model, (best, worst) in pairs})

    def p_better(self, a: str, b: str) -> float:
        """Return the confidence that a's mean rank is better than b's, from 0 to 1.

        It is the share of draws in which a's mean rank is better, with equal ranks counted half. A
        draw uses the same queries in all languages that share them.

        Args:
            a: Name of a model.
            b: Name of another model.

        Raises:
            UnknownNameError: a or b is not ranked in all languages.
            MirageError: A language has no draws, because its ranking was published, or judged on
                one query.
        """
        for model in (a, b):
            if model not in self._means:
                raise UnknownNameError("model ranked in all languages", model, self._means)
        if self._confidences is None:
            code = next(code for code, ranking in self.items() if ranking.drawn() is None)
            raise MirageError(
                f"the ranking in {code!r} has no draws, so the confidence over all languages that "
                f"{a!r} is better than {b!r} is not known; compare their mean ranks"
            )
        models = list(self._means)
        return float(self._confidences[models.index(a), models.index(b)])

    @cached_property
    def _confidences(self) -> Floats | None:
        """:meth:`p_better` of each model over each, in the order of the means."""
        rank_sums, languages = np.zeros((1, len(self._means))), 0
        for ranking in self.values():
            draws = ranking.drawn()
            if draws is None:
                return None
            draw_ranks = ranks(np.stack(list(draws.values()), axis=1))
            columns = [list(draws).index(model) for model in self._means]
            length = min(len(rank_sums), len(draw_ranks)) if languages else len(draw_ranks)
            rank_sums = rank_sums[:length] + draw_ranks[:length, columns]
            languages += 1
        return confidences_by_draws(-rank_sums / languages)

    def to_text(self) -> str:
        """Return a table of at most 80 columns: mean rank, intervals, best and worst language.

        ``*`` marks the models that are not anchors. Failures, findings and the meaning of the
        rankings are below the table.
        """
        rows = []
        for model in self._means:
            ranks_and_codes = sorted((ranking[model].rank, code) for code, ranking in self.items())
            worst = max(ranks_and_codes, key=lambda rank_and_code: rank_and_code[0])
            ends = [f"{rank} ({code})" for rank, code in (ranks_and_codes[0], worst)]
            rows.append((f"{self._means[model]:.1f}", model, *self._interval_cells(model), *ends))
        header = ("mean rank", "model", *self._interval_header, "best", "worst")
        return to_text(self._table(header, rows).filled())

    def to_markdown(self) -> str:
        """Return the rank in each language and the mean rank, in GitHub's Markdown."""
        return to_markdown(self._rank_table())

    def _repr_html_(self) -> str:
        return to_html(self._rank_table())

    def to_json(self) -> str:
        """Return a JSON object: mean ranks, intervals, the ranking of each language, left_out."""
        content = {
            "mean_ranks": self._means,
            "intervals": {m: [*map(_number, ends)] for m, ends in self.intervals.items()},
            "rank_intervals": dict(self.rank_intervals),
            "languages": {code: ranking._to_dict() for code, ranking in self.items()},
            "left_out": dict(self.left_out),
        }
        return json.dumps(content, ensure_ascii=False, allow_nan=False)

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame of ranks indexed by model, best mean first.

        Columns: one per language, mean, and lower, upper, rank_best and rank_worst, the ends of
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
        integer_columns = dict.fromkeys(("rank_best", "rank_worst"), "Int64")
        return _frame(columns, tuple(self._means)).astype(integer_columns)

    def _notes_on_judgments(self) -> Iterator[str]:
        """Yield the number of judgments by which a judge placed models."""
        judgment_counts = {
            code: ranking.evidence.provenance["judgments"]
            for code, ranking in self.items()
            if ranking.evidence is not None and "judgments" in ranking.evidence.provenance
        }
        if judgment_counts:
            yield (
                f"Placed by {sum(judgment_counts.values())} judgments in "
                f"{len(judgment_counts)} languages."
            )

    def _rank_table(self) -> Table:
        """Return the table of ranks in each language."""
        rows = []
        for model, mean in self._means.items():
            rank_texts = (str(ranking[model].rank) for ranking in self.values())
            rows.append((f"{mean:.1f}", model, *self._interval_cells(model), *rank_texts))
        return self._table(("mean rank", "model", *self._interval_header, *self), rows).filled()

    @property
    def _interval_header(self) -> tuple[str, str]:
        """Header of the columns of :meth:`_interval_cells`."""
        return f"{100 * self.level:g} % interval", "rank interval"

    def _interval_cells(self, model: str) -> tuple[str, str]:
        """Return the intervals of a model's mean rank and rank as text; empty if there are none."""
        (low, high), rank_ends = self.intervals[model], self.rank_intervals[model]
        return (
            "" if math.isnan(low) else f"{low:g}-{high:g}",
            "" if rank_ends is None else "{}-{}".format(*rank_ends),
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


class _Estimates(NamedTuple):
    """Logits with intervals and confidences, each array in the order of the models."""

    logits: Floats
    ends: Floats
    rank_ends: Ints
    confidence: Mapping[str, Mapping[str, float]]


def _clusters(dataset: MirageDataset | None, cluster: Cluster) -> Mapping[str, str]:
    """Return the cluster of each query that has one, by query id.

    Raises:
        SettingError: ``cluster`` needs the queries, and there is no dataset.
    """
    if dataset is not None:
        return clusters_of(dataset, cluster)
    if cluster is None or isinstance(cluster, Mapping):
        return cluster or {}
    raise SettingError(
        "cluster= is a key or function of the queries, and there are no queries: pass them as "
        "dataset=, or pass a mapping from query id to cluster"
    )


def _estimates_by_t(fit: BradleyTerryFit | Tournaments, logits: Floats, level: float) -> _Estimates:
    """Return the logits with intervals by Student's t."""
    rows = zip(fit.models, fit.confidences.tolist(), strict=True)
    confidence = {model: dict(zip(fit.models, row, strict=True)) for model, row in rows}
    ends, rank_ends = fit.interval(level=level), fit.rank_interval(level=level)
    return _Estimates(logits, ends, rank_ends, confidence)


def _estimates_by_tournaments(
    tournaments: Tournaments, fit: BradleyTerryFit, level: float
) -> _Estimates:
    # A model that won everything wins every tournament, so its order would look certain.
    """Return the mean logits of tournaments, with their intervals."""
    estimates = _estimates_by_t(fit if fit.unbound else tournaments, tournaments.mean, level)
    return estimates._replace(ends=tournaments.interval(level=level))


def _judged_entries(
    fit: BradleyTerryFit,
    estimates: _Estimates,
    without_interval: Sequence[str],
    answers: Mapping[str, Run],
) -> Iterator[Entry]:
    """Yield the entry of each judged model."""
    uncontrolled_logits = (
        fit.uncontrolled.logits.tolist() if fit.uncontrolled else [None] * len(fit.models)
    )
    rank_numbers, rank_ends = ranks(estimates.logits).tolist(), estimates.rank_ends.tolist()
    for i, (model, logit, (low, high)) in enumerate(
        zip(fit.models, estimates.logits.tolist(), estimates.ends.tolist(), strict=True)
    ):
        run = answers.get(model)
        failures = {} if run is None else {r.query_id: r.error or "" for r in run.failed}
        yield Entry(
            rank_numbers[i],
            model,
            logit,
            NO_INTERVAL if model in without_interval else (low, high),
            (rank_ends[i][0], rank_ends[i][1]),
            answered=None if run is None else len(run) - len(failures),
            failures=failures,
            uncontrolled=uncontrolled_logits[i],
        )


def _failure_notes(ranking: Ranking, limit: int) -> list[str]:
    """Return a line for each model that failed on queries, with up to ``limit`` reasons."""
    return [_failure_note(entry, limit) for entry in ranking if entry.failures]


def _failure_note(entry: Entry, limit: int) -> str:
    """Return the line on one model's failures."""
    total = (entry.answered or 0) + entry.failed
    listed = list(entry.failures.items())[:limit]
    reasons = ", ".join(f"{query_id} ({_shorten(reason)})" for query_id, reason in listed)
    more = f", and {entry.failed - len(listed)} more" if entry.failed > len(listed) else ""
    return f"{entry.model}: {entry.failed} of {total} queries failed: {reasons}{more}"


def _uncontrolled_cell(entry: Entry) -> str:
    """Return the logit without controls as text; empty if there were no controls."""
    return "" if entry.uncontrolled is None else f"{entry.uncontrolled:.2f}"


def _display_name(entry: Entry) -> str:
    """Return the name in a table, with a mark if the model is unlike every training model."""
    return f"{UNFAMILIAR} {entry.model}" if entry.unfamiliar else entry.model


def _finding_notes(findings: Mapping[str, Sequence[Finding | PooledFinding]]) -> Iterator[str]:
    """Yield a line for each model with findings."""
    from mirage.features.findings import summary

    for model, model_findings in findings.items():
        if text := summary(model_findings):
            yield f"{model} {text}."


def _fragility_dict(fragile: Fragility | None) -> dict[str, Any] | None:
    if fragile is None:
        return None
    return {
        kind: removal and {"dropped": list(removal.dropped), "of": removal.of, "rank": removal.rank}
        for kind, removal in (("queries", fragile.queries), ("verdicts", fragile.verdicts))
    }


def _finding_dict(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "words": finding.words,
        "count": finding.count,
        "of": finding.of,
        "query_ids": list(finding.query_ids),
        "quotes": dict(finding.quotes),
    }


def _shorten(reason: str, limit: int = 100) -> str:
    """Return the reason, shortened with an ellipsis if it is long."""
    return reason if len(reason) <= limit else reason[: limit - 1].rstrip() + "…"


def _entry_dict(entry: Entry) -> dict[str, Any]:
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
    """Return the number, or ``None`` for NaN, which JSON does not have."""
    return None if math.isnan(value) else float(value)


def _frame(columns: Mapping[str, list[Any]], models: tuple[str, ...]) -> pd.DataFrame:
    return frame_of({"model": models, **columns}).set_index("model")
