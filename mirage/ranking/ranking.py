"""Rankings: models ordered by logit, with intervals."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from mirage._base.answers import incomplete_note
from mirage._base.arrays import Floats
from mirage._base.garbage import no_collection
from mirage._base.rows import first_duplicate
from mirage._base.tables import to_html, to_markdown, to_text
from mirage.arena.bradley_terry import BradleyTerry
from mirage.arena.cautions import cautions, nothing_decided
from mirage.arena.fragility import Fragility, fragility
from mirage.arena.judgments import JudgmentsLike, as_judgments
from mirage.arena.verdicts import Judged
from mirage.dataset import Cluster, DatasetLike, as_dataset
from mirage.errors import MirageError, UnknownNameError
from mirage.languages import Language
from mirage.ranking._display import ranking_dict, ranking_frame, ranking_table
from mirage.ranking._rendering import accuracy_lines, winner_notes
from mirage.ranking._standing import standing_note
from mirage.ranking.accuracy import accuracy_of
from mirage.ranking.comparison import (
    QueryComparer,
    QueryGains,
    SystemComparison,
    compare_systems,
    is_comparable,
    p_positive_each,
)
from mirage.ranking.entries import Entry, Evidence
from mirage.ranking.judged import (
    clusters_by_query,
    estimates_by_t,
    estimates_by_tournaments,
    judged_entries,
)
from mirage.ranking.pages import Presentable
from mirage.statistics.bootstrap import NO_INTERVAL, Interval
from mirage.statistics.ranks import kendall_tau, p_better_by_draws, p_better_by_intervals

if TYPE_CHECKING:
    import pandas as pd

    from mirage.features.findings import Finding
    from mirage.models import HumanAgreement, Run

__all__ = ["Ranking"]

UNANSWERED = 0.2
"""Share of failed queries above which a warning about a model's rank is shown."""

DRAWS = 1000
"""Number of draws of a judged ranking for the intervals of a multilingual ranking."""

_FRAGILE_MODELS = 50
"""Number of models above which only the fragility of first place is computed, to save time."""

UNDETERMINED = "und"
"""Language code (ISO 639-2) of judgments without queries."""


class Ranking(Presentable):
    """Models ordered by logit, best first.

    Iterating over a ranking yields its :class:`Entry` objects. ``ranking["my-rag"]`` is the entry
    of one model, and ``ranking[0]`` that of the best.

    Args:
        entries: One entry per model, with its rank.
        language: ISO 639-1 code.
        title: Line above the table, usually about the dataset.
        draws: Random draws of each model's logit, by model name. All arrays have the same length.
            Their i-th elements belong to the same draw, such as a bootstrap sample of the queries.
        confidence: Confidence that one model is better than another: ``confidence[a][b]`` is the
            result of ``p_better(a, b)``. For other pairs, :meth:`p_better` uses the draws or, if
            there are none, the intervals.
        notes: Lines below the table.
        about: Line that explains the anchors (reference models) and the meaning of a rank.
        evidence: Data behind the ranking; ``None`` if the ranking was published.
        agreement: Measured agreement of the judge, and of the features, with people.
        level: Confidence level of the intervals.
        winner_interval: Interval of the first model's logit, corrected for its selection as the
            best (:func:`mirage.statistics.rank_sets.winner_interval`); NaN if it is not known.

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
        winner_interval: Interval = NO_INTERVAL,
    ) -> None:
        self.entries: tuple[Entry, ...] = tuple(
            sorted(_with_accuracies(entries, evidence), key=lambda entry: (entry.rank, entry.model))
        )
        self.language: str = language
        self.title: str = title
        self.notes: tuple[str, ...] = tuple(notes)
        self.about: str = about
        self.evidence: Evidence | None = evidence
        self.agreement: tuple[HumanAgreement, ...] = tuple(agreement)
        self.level = level
        self.winner_interval: Interval = winner_interval
        self._draws, self._confidence = draws, confidence or {}
        self._by_model = {entry.model: entry for entry in self.entries}
        self._comparisons: dict[tuple[str, str], SystemComparison] = {}
        self._p_better: dict[tuple[str, str], float] = {}
        if not self.entries:
            raise MirageError("a ranking needs at least one model")
        if len(self._by_model) != len(self.entries):
            twice = first_duplicate(self.models)
            raise MirageError(f"model {twice!r} is in the ranking twice; names must be unique")

    @classmethod
    def from_judgments(
        cls,
        judgments: Judged | JudgmentsLike,
        dataset: DatasetLike | None = None,
        runs: Iterable[Run] = (),
        *,
        cluster: Cluster = None,
        agreement: Iterable[HumanAgreement] = (),
        tournaments: int = 0,
        seed: int = 0,
        progress: bool = True,
        bradley_terry: BradleyTerry | None = None,
        level: float = 0.95,
    ) -> Ranking:
        """Rank models by verdicts on pairs of their responses.

        Logits are those of :meth:`BradleyTerry.fit <mirage.BradleyTerry.fit>`. Intervals and
        confidences use Student's t and a covariance of the logits that is robust to dependence
        within a query. The degrees of freedom are the number of queries (or clusters of queries)
        minus 1. A model that was judged on fewer queries than others has fewer degrees of freedom,
        and no interval with fewer than four queries. ``validation/coverage/judged_ranking.py``
        measures the coverage. Rank intervals hold jointly for all models. A model that won
        everything has a finite logit only because of the ridge penalty. Such a logit has no
        interval, and rank intervals include this uncertainty. :attr:`notes` lists such models and
        other weaknesses: few queries, models that were judged on fewer queries than others, only
        ties, or votes that failed.

        Args:
            judgments: Result of :meth:`PairwiseJudge.compare <mirage.PairwiseJudge.compare>`,
                :class:`~mirage.Judgments`, records, or a pandas DataFrame with the columns
                ``query_id``, ``model_a``, ``model_b`` and ``verdict``.
            dataset: The queries, or the language code of bundled queries. The report shows them.
            runs: The responses, which the report shows too. Runs of models without judgments are
                ignored.
            cluster: Groups of related queries, such as queries about one document, if they differ
                from :attr:`Query.cluster <mirage.Query>`: a key of the queries' metadata, a
                function of the query, or a mapping from query id. Without a dataset it must be a
                mapping. With fewer than four clusters there are no intervals.
            agreement: Agreement of the judge with people, such as :attr:`PairwiseJudge.agreement
                <mirage.PairwiseJudge.agreement>`.
            tournaments: Number of bootstrap samples of the queries, called tournaments. If above 0,
                logits and intervals are computed from fits to these samples, each with as many
                queries as were judged (:meth:`BradleyTerry.bootstrap
                <mirage.BradleyTerry.bootstrap>`). By default there is one fit to all judgments.
            seed: Random seed of the tournaments.
            progress: Show a progress bar of the tournaments on stderr, if stderr is a terminal.
            bradley_terry: The model to fit; ``BradleyTerry()`` by default.
            level: Confidence level of the intervals.

        Returns:
            The ranking.

        Raises:
            JudgmentError: There are no judgments, a row is not valid, or the models fall into
                groups that were never compared with each other (the message lists them).
            SettingError: ``level`` is not between 0 and 1, or ``cluster`` is not a mapping although
                there is no dataset.
            UnknownNameError: ``cluster`` is a key that the metadata of no query has, or a mapping
                with an id that no query has.

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
        dataset = None if dataset is None else as_dataset(dataset)
        votes_and_skips = judgments if isinstance(judgments, Judged) else Judged((), ())
        model = BradleyTerry() if bradley_terry is None else bradley_terry
        # Controls need the single judgments with their judges, so keep an iterator's records.
        records = [*judgments] if isinstance(judgments, Iterator) else judgments
        columns = as_judgments(records)
        clusters = clusters_by_query(dataset, cluster)
        fit = model.fit(records if model.controls else columns, clusters=clusters)
        estimates = estimates_by_t(fit, fit.logits, level)
        if tournaments:
            bootstrapped = model.bootstrap(
                columns,
                tournaments=tournaments,
                queries=None,
                clusters=clusters,
                seed=seed,
                progress=progress,
            )
            estimates = estimates_by_tournaments(bootstrapped, fit, level)
        answers = {run.model: run for run in runs if run.model in fit.models}
        is_undecided = nothing_decided(columns)
        language = next((part.language for part in (dataset, *answers.values()) if part), None)
        dataset_text = f"{dataset.name}: {Language.of(dataset.language).name}, " if dataset else ""
        return cls(
            judged_entries(fit, estimates, fit.models if is_undecided else fit.unbound, answers),
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
            winner_interval=NO_INTERVAL if is_undecided else estimates.winner,
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
        with no_collection():
            return {
                model: findings_of(dataset, runs[model], table)
                for model, table in self.evidence.tables.items()
                if model in runs
            }

    @cached_property
    def fragility(self) -> Mapping[str, Fragility]:
        """Fewest queries, and fewest verdicts, whose removal changes a model's rank, by model name.

        See :func:`mirage.arena.fragility`, which takes about a second for 19 models. With more than
        50 models, only the models in first place are included. The mapping is empty if the ranking
        does not come from one fit to judgments, or comes from adaptively chosen pairs.
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
    def winner_notes(self) -> tuple[str, ...]:
        """A sentence on :attr:`winner_interval`; empty if the table shows the same interval."""
        return winner_notes(self.best.model, self.best.interval, self.winner_interval, self.level)

    @property
    def unanswered_notes(self) -> tuple[str, ...]:
        """A warning for each model that has many failures, or incomplete or empty answers."""
        runs = {} if self.evidence is None else self.evidence.runs
        notes = {model: incomplete_note(runs[model]) for model in self.models if model in runs}
        incomplete = (
            f"Warning: {model}: {note}; they are scored as they are"
            for model, note in notes.items()
            if note
        )
        many_failures = (
            f"Warning: {entry.model} answered only {entry.answered} of "
            f"{entry.answered + entry.failed} queries, so its rank is not reliable; fix the "
            "failures first"
            for entry in self
            if entry.answered is not None
            and entry.failed > UNANSWERED * (entry.answered + entry.failed)
        )
        return (*many_failures, *incomplete)

    @property
    def best(self) -> Entry:
        """The entry of the best model, or of the first by name if several have rank 1."""
        return self.entries[0]

    def __getitem__(self, model: str | int) -> Entry:
        if isinstance(model, int):
            return self.entries[model]
        if model not in self._by_model:
            raise UnknownNameError("model", model, self.models, "in this ranking")
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

    def compare(self, a: str, b: str) -> SystemComparison:
        """Compare two systems query by query.

        Two systems that were ranked together answered the same queries. The errors of the surrogate
        affect both systems alike and largely cancel, so their difference is estimated more
        precisely than the two logits. On each query, the surrogate predicts from features of both
        responses which share of verdicts the first one would win. Small differences in features
        that depend on writing style are ignored, so that only differences in content count.
        The interval treats the clusters of queries as independent of each other. The probability
        also takes into account how strongly the queries of a cluster depend on each other, which is
        estimated from the data.

        ``validation/coverage/compared_systems.py`` measures how often a difference on three queries
        is detected, and how often a difference is reported between texts that have the same content
        in two styles.

        Args:
            a: Name of a system whose responses were ranked; not an anchor.
            b: Name of another such system.

        Returns:
            The probability that ``a`` is better, the difference with its interval, and the queries
            on which one of them is better.

        Raises:
            UnknownNameError: a or b is not in the ranking.
            MirageError: The ranking has no features of one of the two systems, or they share no
                query.

        Example:
            >>> from mirage import Leaderboard
            >>> board = Leaderboard.bundled("en")
            >>> right = {query.id: query.reference for query in board.dataset}
            >>> cautious = right | dict.fromkeys(("q01", "q03", "q04"), "I do not know.")
            >>> ranking = board.rank_many({"a": right, "b": cautious}, progress=False)
            >>> sorted(query.query_id for query in ranking.compare("b", "a").queries)
            ['q01', 'q03', 'q04']
        """
        first, second = self[a].model, self[b].model  # raises an error for unknown names
        if not is_comparable(self.evidence, first, second):
            raise MirageError(
                f"{min(a, b)!r} and {max(a, b)!r} cannot be compared query by query, because the "
                "ranking does not have the responses of both; rank both systems in one call of "
                "rank_many (anchors have no responses)"
            )
        self._compare_pairs([(first, second)])
        return self._comparisons[a, b]

    def _compare_pairs(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Compute and store the comparisons of the pairs that are not stored yet."""
        # The order of the names is fixed, so that a comparison does not depend on it.
        new = [(min(pair), max(pair)) for pair in pairs if pair not in self._comparisons]
        if not new:
            return
        gains = {pair: self._comparer.gains(*pair) for pair in new}
        self._add_p_better(gains)
        accuracies = {entry.model: entry.accuracy for entry in self if entry.accuracy}
        for pair in new:
            comparison = compare_systems(
                gains[pair], self._p_better[pair], accuracies, *pair, level=self.level
            )
            for each in (comparison, comparison.swapped()):
                self._comparisons[each.models] = each

    def _add_p_better(self, gains: Mapping[tuple[str, str], QueryGains]) -> None:
        """Compute and store ``p_better`` of the pairs of ``gains`` that have no stored value."""
        new = [pair for pair in gains if pair not in self._p_better]
        probabilities = p_positive_each([(gains[pair].gains, gains[pair].codes) for pair in new])
        for (a, b), p in zip(new, probabilities, strict=True):
            self._p_better[a, b], self._p_better[b, a] = p, 1 - p

    @cached_property
    def _comparer(self) -> QueryComparer:
        assert self.evidence is not None  # as is_comparable checks
        return QueryComparer(self.evidence, self.findings)

    @cached_property
    def comparisons(self) -> tuple[SystemComparison, ...]:
        """Comparisons of each system with the next system below, best first, without anchors.

        See :meth:`compare`. Empty if fewer than two systems have features.
        """
        systems = [model for model in self.models if is_comparable(self.evidence, model, model)]
        self._compare_pairs(pairwise(systems))
        return tuple(self._comparisons[pair] for pair in pairwise(systems))

    @property
    def accuracy_notes(self) -> tuple[str, ...]:
        """One line per system with the number of right, wrong and declined responses.

        If a system was also asked without passages, a second line has the numbers of its responses
        without passages.
        """
        return tuple(line for entry in self for line in accuracy_lines(entry))

    @property
    def standing_notes(self) -> tuple[str, ...]:
        """One line per system: its neighbours in the ranking, and some of its more frequent faults.

        The system has these faults at least twice as often as the three systems just above it.
        """
        return tuple(
            standing_note(self.entries, entry, self.findings[entry.model])
            for entry in self
            if entry.model in self.findings and not math.isnan(entry.logit)
        )

    def p_better(self, a: str, b: str) -> float:
        """Return the confidence that a's logit is larger than b's, from 0 to 1.

        In a judged ranking, this is the one-sided confidence by Student's t. In a predicted
        ranking, it is the share of random draws in which a's logit is larger; draws with equal
        logits count half. If the responses of both models were ranked in one call, the result is
        that of :meth:`compare` instead, which is more precise because it compares responses to the
        same queries. Published rankings have only intervals. For them, the two logits are assumed
        to be normal and independent, although both models answered the same queries. The standard
        deviation of a logit is taken to be the length of its interval divided by 2 * 1.96.

        Args:
            a: Name of a model.
            b: Name of another model.

        Raises:
            UnknownNameError: a or b is not in the ranking.
            MirageError: The uncertainty is not known: only ranks were published (Yoruba), all
                judgments are on one query, or related queries form fewer than four clusters.

        Example:
            >>> from mirage import Leaderboard
            >>> ranking = Leaderboard.published("en")
            >>> ranking.p_better("gpt-4o-azure", "Qwen/Qwen2-1.5B-Instruct")
            1.0
        """
        first, second = self[a], self[b]
        if a == b:
            return 0.5
        is_known = b in self._confidence.get(a, {})
        if is_known:
            p = self._confidence[a][b]
        elif is_comparable(self.evidence, a, b):
            return self._p_better_by_query(a, b)
        elif self._draws is not None:
            return p_better_by_draws(self._draws[a], self._draws[b])
        else:
            p = p_better_by_intervals(first.logit - second.logit, first.interval, second.interval)
        if math.isnan(p) and is_known:
            raise MirageError(
                f"the ranking {self.title!r} has too few queries or clusters to estimate the "
                f"probability that {a!r} is better than {b!r}; have them judged on more queries"
            )
        if math.isnan(p):
            raise MirageError(
                f"the ranking {self.title!r} has only ranks and no logits with intervals, so the "
                f"probability that {a!r} is better than {b!r} is not known; compare their ranks"
            )
        return p

    def _p_better_by_query(self, a: str, b: str) -> float:
        """Return the ``p_better`` of :meth:`compare`, without the rest of the comparison."""
        if (a, b) not in self._p_better:
            pair = min(a, b), max(a, b)
            self._add_p_better({pair: self._comparer.gains(*pair)})
        return self._p_better[a, b]

    def _query_gains(self, a: str, b: str) -> QueryGains | None:
        """Return the advantages from which ``p_better(a, b)`` is computed, if it uses them."""
        if b in self._confidence.get(a, {}) or not is_comparable(self.evidence, a, b):
            return None
        return self._comparer.gains(a, b)

    def p_better_matrix(self, rows: Sequence[str], columns: Sequence[str]) -> Floats:
        """Return :meth:`p_better` for each model of ``rows`` and each of ``columns``.

        This is faster than one call per pair.

        Args:
            rows: Names of models.
            columns: Names of models.

        Returns:
            Probabilities of shape ``(rows, columns)``.

        Raises:
            UnknownNameError: A model is not in the ranking.
            MirageError: The uncertainty of a pair is not known.

        Example:
            >>> from mirage import Leaderboard
            >>> ranking = Leaderboard.published("en")
            >>> ranking.p_better_matrix(ranking.models[:2], ranking.models[-2:]).tolist()
            [[1.0, 1.0], [1.0, 1.0]]
        """
        pairs = dict.fromkeys(
            (min(a, b), max(a, b))
            for a in rows
            for b in columns
            if a != b and (a, b) not in self._p_better
        )
        gains = {pair: self._query_gains(*pair) for pair in pairs}
        self._add_p_better({pair: each for pair, each in gains.items() if each is not None})
        return np.array([[self.p_better(a, b) for b in columns] for a in rows], dtype=np.float64)

    def drawn(self) -> Mapping[str, Floats] | None:
        """Return random draws of each model's logit, or ``None`` if the ranking has no draws.

        Draws of rankings on the same queries, for instance in several languages, are paired: in the
        i-th draw, a query has the same weight in all of these rankings.
        """
        fit = None if self.evidence is None else self.evidence.fit
        if self._draws is not None or fit is None or not fit.degrees:
            return self._draws
        return dict(zip(fit.models, fit.draws(DRAWS).T, strict=True))

    def kendall_tau(self, other: Ranking | Mapping[str, float]) -> float:
        """Return Kendall's tau-b between two orders of the models, from -1 to 1.

        Only models that are in both orders count.

        Args:
            other: A ranking, or a mapping from model name to a number; larger numbers are better.

        Returns:
            tau-b (Kendall 1945, The treatment of ties in ranking problems, Biometrika 33); NaN if
            all models are equal in one of the orders.

        Raises:
            MirageError: Fewer than two models are in both orders, or a number is NaN.

        Example:
            >>> from mirage import Leaderboard
            >>> ranking = Leaderboard.published("en")
            >>> ranking.kendall_tau(ranking)
            1.0
        """
        shared = [model for model in self.models if model in other]
        if len(shared) < 2:
            raise MirageError(
                "Kendall's tau needs at least two models that are in both rankings, got "
                f"{len(shared)}; this ranking has {', '.join(self.models[:5])}, ..."
            )
        ours = [-self[model].rank for model in shared]
        theirs = [
            -other[model].rank if isinstance(other, Ranking) else float(other[model])
            for model in shared
        ]
        for model, value in zip(shared, theirs, strict=True):
            if math.isnan(value):
                raise MirageError(
                    f"the value of model {model!r} in `other` is NaN; leave the model out"
                )
        # Only the order of the other numbers matters, so replace them by their ranks.
        return float(kendall_tau(ours, np.unique(theirs, return_inverse=True)[1]))

    def to_text(self) -> str:
        """Return the ranking as a table of at most 80 characters per line.

        ``*`` marks the models that are not anchors (reference models of a leaderboard). ``(?)``
        marks models that are unlike every training model of the surrogate. Long names are
        shortened. Lines below the table describe the accuracy, failures and findings of each
        system, its neighbours in the ranking, comparisons of neighbouring systems that are not
        anchors, and the meaning of the ranking.
        """
        return to_text(ranking_table(self))

    def to_markdown(self) -> str:
        """Return the table in GitHub's Markdown; models that are not anchors are bold."""
        return to_markdown(ranking_table(self))

    def _repr_html_(self) -> str:
        return to_html(ranking_table(self))

    def to_json(self) -> str:
        """Return the ranking as a JSON object.

        Its keys are ``language``, ``title``, ``about``, ``level``, ``entries``, ``comparisons``,
        ``winner_interval``, ``notes`` and ``agreement``. ``level`` is the confidence level of all
        intervals except those of accuracies, which is 0.95. NaN and missing values are null.
        """
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame indexed by model, best first.

        Columns: rank, logit, lower, upper, rank_best, rank_worst, anchor, answered, failed,
        unfamiliar, right, wrong, declined, and one per feature.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        return ranking_frame(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of :meth:`to_json` as a dictionary; NaN values are ``None``."""
        return ranking_dict(self)


def _with_accuracies(entries: Iterable[Entry], evidence: Evidence | None) -> Iterator[Entry]:
    """Yield the entries; responses are counted as right or wrong if ``evidence`` has features."""
    for entry in entries:
        if evidence is None or evidence.dataset is None or entry.model not in evidence.tables:
            yield entry
        else:
            accuracy = accuracy_of(evidence.dataset, evidence.tables[entry.model])
            closed_book = evidence.closed_book.get(entry.model)
            yield replace(entry, accuracy=accuracy, closed_book=closed_book)
