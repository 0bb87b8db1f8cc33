"""Rankings of the same models in several languages."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mirage._base.arrays import Floats
from mirage._base.tables import RANKED, Table, ranked_cells, to_html, to_markdown, to_text
from mirage.errors import DatasetError, MirageError, UnknownNameError
from mirage.ranking._means import mean_logit_errors
from mirage.ranking._rendering import (
    failure_notes,
    finding_notes,
    frame_by_model,
    number_or_none,
    winner_notes,
)
from mirage.ranking.comparison import QueryGains
from mirage.ranking.pages import Presentable
from mirage.ranking.ranking import UNDETERMINED, Ranking
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, middle
from mirage.statistics.rank_sets import rank_sets, winner_interval
from mirage.statistics.ranks import p_better_by_draws, ranks

if TYPE_CHECKING:
    import pandas as pd

    from mirage.features.findings import PooledFinding

__all__ = ["MultilingualRanking", "check_languages"]

T = TypeVar("T")

_NAMES = 10  # models in a note on models without a mean


class MultilingualRanking(Presentable, Mapping[str, Ranking]):
    """Rankings of the same models in several languages, their mean logits and mean ranks.

    It is a mapping from language code to :class:`Ranking`. Models are ordered by mean logit, or by
    mean rank if a language was published with ranks only. Intervals are those of the mean logit.

    Parallel questions have the same query id in several languages, and count as one cluster: a
    query that is hard in one language is hard in the others, so more languages do not mean more
    independent queries. Languages without common query ids count as independent.

    Args:
        rankings: Rankings by language code.
        left_out: Reason why a language has no ranking, by language code.

    Attributes:
        left_out: Reason why a language has no ranking, by language code.
        left_out_models: Reason why a model has no mean, by model name. A model has a mean only if
            it is ranked in all languages.
        models: Names of the models that all rankings contain, best first.
        level: Confidence level of the intervals; the smallest of the rankings' levels.

    Raises:
        MirageError: There is no ranking, or no model is in all rankings.
        DatasetError: ``rankings`` is not a mapping, or a key is not the language of its ranking.

    Example:
        >>> from mirage import Leaderboard, MultilingualRanking
        >>> rankings = {code: Leaderboard.published(code) for code in ("en", "sw")}
        >>> MultilingualRanking(rankings).mean_ranks["gpt-4o-azure"]
        1.0
    """

    def __init__(
        self, rankings: Mapping[str, Ranking], left_out: Mapping[str, str] | None = None
    ) -> None:
        check_languages(rankings, Ranking, lambda ranking: ranking.language)
        self._rankings = dict(rankings)
        self.left_out: Mapping[str, str] = dict(left_out or {})
        if not self._rankings:
            raise MirageError("a multilingual ranking needs at least one language")
        first, *remaining_rankings = self._rankings.values()
        shared = [
            model for model in first.models if all(model in other for other in remaining_rankings)
        ]
        self.left_out_models: Mapping[str, str] = _missing(self._rankings)
        if not shared:
            raise MirageError("no model is ranked in all languages, so there is no mean to rank by")
        mean_ranks, mean_logits = (
            {
                model: float(np.mean([getattr(ranking[model], field) for ranking in self.values()]))
                for model in shared
            }
            for field in ("rank", "logit")
        )
        self._mean_ranks = dict(sorted(mean_ranks.items(), key=lambda item: item[1]))
        by_logit = dict(sorted(mean_logits.items(), key=lambda item: -item[1]))
        self._has_logits = not any(map(math.isnan, by_logit.values()))
        self.models: tuple[str, ...] = tuple(by_logit if self._has_logits else self._mean_ranks)
        self._mean_logits = {model: mean_logits[model] for model in self.models}
        self._by_query: dict[tuple[str, str], float | None] = {}
        self.level: float = min(ranking.level for ranking in self.values())

    def __contains__(self, language: object) -> bool:
        return language in self._rankings

    def __getitem__(self, language: str) -> Ranking:
        if language not in self._rankings:
            raise UnknownNameError("language", language, self._rankings, "in this ranking")
        return self._rankings[language]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rankings)

    def __len__(self) -> int:
        return len(self._rankings)

    def __repr__(self) -> str:
        return f"MultilingualRanking(languages={list(self)}, models={len(self.models)})"

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
        """Mean rank over the languages, for each model that is ranked in all of them, best first.

        The mean is computed as in Figure 4 of MIRAGE-Bench (arXiv 2410.13716). It has no interval:
        in each language the rank of a model depends on small differences to all other models, so a
        valid interval would contain nearly all ranks.
        """
        return MappingProxyType(self._mean_ranks)

    @property
    def mean_logits(self) -> Mapping[str, float]:
        """Mean logit of each model over the languages, in the order of :attr:`models`.

        It is NaN if a language was published with ranks only.
        """
        return MappingProxyType(self._mean_logits)

    @cached_property
    def ranks(self) -> Mapping[str, int]:
        """Rank of each model by mean logit, or by mean rank if a language has no logits."""
        means = [-self._mean_ranks[model] for model in self.models]
        numbers = ranks(self._logits if self._has_logits else means).tolist()
        return MappingProxyType(dict(zip(self.models, numbers, strict=True)))

    @cached_property
    def intervals(self) -> Mapping[str, Interval]:
        """Interval of each model's mean logit, in the order of :attr:`models`.

        Both ends are NaN if the model has no interval in some language.
        ``validation/coverage/rank_sets.py`` prints the coverage of the intervals.
        """
        if self._errors is None:
            return MappingProxyType(dict.fromkeys(self.models, NO_INTERVAL))
        errors = {**dict(zip(self.models, self._errors.T, strict=True)), **self._errors_by_fits}
        ends = {
            model: mean + middle(errors[model], self.level)
            for model, mean in self._mean_logits.items()
        }
        pairs = ((model, pair.tolist()) for model, pair in ends.items())
        return MappingProxyType(
            {m: (low, high) if self._is_bound(m) else NO_INTERVAL for m, (low, high) in pairs}
        )

    @cached_property
    def rank_intervals(self) -> Mapping[str, tuple[int, int] | None]:
        """Best and worst rank of each model by mean logit, in the order of :attr:`models`.

        With the confidence :attr:`level`, these bounds jointly contain the true ranks of all models
        (:func:`mirage.statistics.rank_sets.rank_sets`). ``None`` if the uncertainty in a language
        is not known.
        """
        if self._errors is None:
            return MappingProxyType(dict.fromkeys(self.models))
        ends = rank_sets(self._logits, self._errors, level=self.level).tolist()
        pairs = zip(self.models, ends, strict=True)
        return MappingProxyType({model: (best, worst) for model, (best, worst) in pairs})

    @cached_property
    def winner_interval(self) -> Interval:
        """Interval of the best model's mean logit, corrected for the selection of the best model.

        See :func:`mirage.statistics.rank_sets.winner_interval`. NaN if the model has no interval.
        """
        if self._errors is None or not self._is_bound(self.models[0]):
            return NO_INTERVAL
        return winner_interval(self._logits, self._errors, level=self.level)

    @property
    def winner_notes(self) -> tuple[str, ...]:
        """A sentence on :attr:`winner_interval`; empty if the table shows the same interval."""
        best = self.models[0]
        return winner_notes(best, self.intervals[best], self.winner_interval, self.level)

    @property
    def without_logits_notes(self) -> tuple[str, ...]:
        """A sentence on languages without logits, because of which there are no mean logits."""
        codes = [code for code, part in self.items() if any(math.isnan(row.logit) for row in part)]
        if self._has_logits or not codes:
            return ()
        return (
            f"Only ranks are known in {', '.join(codes)}, so models are ordered by their mean "
            "rank, which has no interval; leave this out to order them by their mean logit.",
        )

    @property
    def left_out_notes(self) -> tuple[str, ...]:
        """One sentence for each reason in :attr:`left_out_models`, with the names of its models."""
        models: dict[str, list[str]] = {}
        for model, why in self.left_out_models.items():
            models.setdefault(why, []).append(model)
        return tuple(
            f"Left out of the mean ({why}): {_list_names(names)}." for why, names in models.items()
        )

    def _is_bound(self, model: str) -> bool:
        """Return whether the model's logit has an interval in every language."""
        return not any(math.isnan(ranking[model].interval[0]) for ranking in self.values())

    @property
    def _logits(self) -> Floats:
        """Mean logits in the order of the models."""
        return np.array([*self._mean_logits.values()])

    @cached_property
    def _errors(self) -> Floats | None:
        """Random draws of the errors of the mean logits; ``None`` if a language has no draws."""
        if not self._has_logits:
            return None
        errors = mean_logit_errors([*self.values()], self.models)
        return None if errors is None or np.isnan(errors).all() else errors

    @cached_property
    def _errors_by_fits(self) -> Mapping[str, Floats]:
        """Draws of the errors of models that were judged in all languages, from the fits alone.

        Predictions for models that were ranked later do not change the figures of judged models.
        """
        fits = [ranking.evidence and ranking.evidence.fit for ranking in self.values()]
        judged = [m for m in self.models if all(fit and m in fit.models for fit in fits)]
        errors = mean_logit_errors([*self.values()], judged) if judged else None
        return {} if errors is None else dict(zip(judged, errors.T, strict=True))

    def p_better(self, a: str, b: str) -> float:
        """Return the confidence that a is better than b on average over the languages, from 0 to 1.

        If the responses of both models were ranked together in every language, the responses to
        each query are compared, as in :meth:`Ranking.p_better`. The advantages on a query id are
        added over the languages, because translations of a question are not independent. The
        result is the probability that the mean advantage over all languages, which have equal
        weight, is above 0. With one language, it is the ``p_better`` of that ranking.
        ``validation/coverage/dossiers.py`` prints how often a probability of 0.9 is right.

        For other models, the result is the share of random draws in which a's mean logit is larger;
        draws with equal logits count half. In each draw, a query has the same weight in all
        languages in which it occurs.

        Args:
            a: Name of a model.
            b: Name of another model.

        Raises:
            UnknownNameError: a or b is not ranked in all languages.
            MirageError: A language has no draws, because its ranking was published, or was judged
                on one query or on too few clusters of queries.
        """
        for model in (a, b):
            if model not in self._mean_ranks:
                raise UnknownNameError(
                    "model", model, self._mean_ranks, "among those ranked in all languages"
                )
        if (p_by_query := self._p_better_by_query(a, b)) is not None:
            return p_by_query
        if self._errors is None:
            code = next(code for code, ranking in self.items() if ranking.drawn() is None)
            raise MirageError(
                f"the ranking in {code!r} has no random draws of logits, so the probability that "
                f"{a!r} is better than {b!r} over all languages cannot be computed; compare their "
                "mean logits or ranks"
            )
        errors = self._errors_by_fits
        if not {a, b} <= errors.keys():
            errors = dict(zip(self.models, self._errors.T, strict=True))
        p = p_better_by_draws(*(self._mean_logits[model] + errors[model] for model in (a, b)))
        if math.isnan(p):
            raise MirageError(
                f"in a language, {a!r} or {b!r} was judged on too few queries to estimate the "
                "probability that one of them is better; have it judged on more queries"
            )
        return p

    def _p_better_by_query(self, a: str, b: str) -> float | None:
        """Return the probability that a is better, or ``None`` if a language has no responses."""
        # The order of the names is fixed, so that both directions add up to 1.
        pair = min(a, b), max(a, b)
        if pair not in self._by_query:
            gains = [ranking._query_gains(*pair) for ranking in self.values()]
            known = [part for part in gains if part is not None]
            complete = len(known) == len(gains)
            self._by_query[pair] = QueryGains.pooled(known).p_positive if complete else None
        p = self._by_query[pair]
        return p if p is None or a == pair[0] else 1 - p

    def to_text(self) -> str:
        """Return a table of mean logits, with at most 80 characters per line.

        If the uncertainty is known, the table shows intervals, and the worst rank with its
        language. Otherwise it shows the mean rank, and the best and worst rank with their
        languages. No language is named if the rank is the same in all languages. ``*`` marks the
        models that are not anchors (reference models). Lines below the table describe failures,
        findings and the meaning of the rankings.
        """
        rows = []
        for model, ranked in self._ranked_cells():
            ranks_and_codes = sorted((ranking[model].rank, code) for code, ranking in self.items())
            best = ranks_and_codes[0]
            worst = max(ranks_and_codes, key=lambda rank_and_code: rank_and_code[0])
            same = best[0] == worst[0]
            ends = [str(rank) if same else f"{rank} ({code})" for rank, code in (best, worst)]
            cells = (f"{self._mean_ranks[model]:.1f}", *ends)
            rows.append((*ranked, *(cells if self._errors is None else ("", "", ends[1]))))
        return to_text(self._table((*self._header, "mean rank", "best", "worst"), rows).filled())

    def to_markdown(self) -> str:
        """Return a table of mean logits, mean ranks and ranks by language in GitHub's Markdown."""
        return to_markdown(self._rank_table())

    def _repr_html_(self) -> str:
        return to_html(self._rank_table())

    def to_json(self) -> str:
        """Return the rankings as a JSON object.

        Its keys are ``level`` (the confidence level of intervals), ``ranks``, ``mean_logits``,
        ``intervals``, ``rank_intervals``, ``winner_interval``, ``mean_ranks``, ``languages`` (the
        ranking of each language), ``left_out`` and ``left_out_models``.
        """
        content = {
            "level": self.level,
            "ranks": dict(self.ranks),
            "mean_logits": {m: number_or_none(mean) for m, mean in self._mean_logits.items()},
            "intervals": {m: [*map(number_or_none, ends)] for m, ends in self.intervals.items()},
            "rank_intervals": dict(self.rank_intervals),
            "winner_interval": [*map(number_or_none, self.winner_interval)],
            "mean_ranks": self._mean_ranks,
            "languages": {code: ranking.to_dict() for code, ranking in self.items()},
            "left_out": dict(self.left_out),
            "left_out_models": dict(self.left_out_models),
        }
        return json.dumps(content, ensure_ascii=False, allow_nan=False)

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame of ranks indexed by model, best first.

        The columns are: the rank in each language, by language code; ``mean``, the mean rank;
        ``rank``, the rank by ``logit``, the mean logit; ``lower`` and ``upper``, the ends of
        :attr:`intervals`; ``rank_best`` and ``rank_worst``, the ends of :attr:`rank_intervals`.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        columns: dict[str, list[Any]] = {
            code: [ranking[model].rank for model in self.models] for code, ranking in self.items()
        }
        ends, spans = [*self.intervals.values()], [*self.rank_intervals.values()]
        columns |= {
            "mean": [self._mean_ranks[model] for model in self.models],
            "rank": list(self.ranks.values()),
            "logit": list(self._mean_logits.values()),
            "lower": [low for low, _ in ends],
            "upper": [high for _, high in ends],
            "rank_best": [span and span[0] for span in spans],
            "rank_worst": [span and span[1] for span in spans],
        }
        integer_columns = dict.fromkeys(("rank_best", "rank_worst"), "Int64")
        return frame_by_model(columns, self.models).astype(integer_columns)

    def _notes_on_judgments(self) -> Iterator[str]:
        """Yield a note on the number of judgments, if a judge placed models among anchors."""
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
        rows = [
            (
                *ranked,
                f"{self._mean_ranks[model]:.1f}",
                *(str(ranking[model].rank) for ranking in self.values()),
            )
            for model, ranked in self._ranked_cells()
        ]
        return self._table((*self._header, "mean rank", *self), rows).filled()

    @property
    def _header(self) -> tuple[str, ...]:
        """Names of the columns of :meth:`_ranked_cells`."""
        return tuple(word.replace("95", f"{100 * self.level:g}") for word in RANKED)

    def _ranked_cells(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield each model with its cells in a table: rank, name, mean logit and intervals."""
        for model, mean in self._mean_logits.items():
            ends, rank_ends = self.intervals[model], self.rank_intervals[model]
            yield model, ranked_cells(self.ranks[model], model, mean, ends, rank_ends)

    def _table(self, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
        first = next(iter(self.values()))
        return Table(
            title=f"Mean {'logit' if self._has_logits else 'rank'} over {len(self)} languages",
            header=header,
            rows=tuple(rows),
            marked=tuple(not first[model].anchor for model in self.models),
            notes=(
                *self.without_logits_notes,
                *(f"{code} is left out: {why}" for code, why in self.left_out.items()),
                *self.left_out_notes,
                *(f"{code}: {note}" for code, r in self.items() for note in r.unanswered_notes),
                *self._notes_on_judgments(),
                *(f"{code}: {note}" for code, r in self.items() for note in failure_notes(r, 1)),
                *finding_notes(self.findings),
                *self.winner_notes,
                *dict.fromkeys(ranking.about for ranking in self.values() if ranking.about),
            ),
        )


def check_languages(parts: Mapping[str, T], kind: type[T], language_of: Callable[[T], str]) -> None:
    """Raise an error if ``parts`` is not a mapping from language code to objects of a class.

    Args:
        parts: Rankings or leaderboards by language code.
        kind: Class of the objects.
        language_of: Function that returns the language code of an object.

    Raises:
        DatasetError: ``parts`` is not such a mapping, or a key is another language than that of its
            object. Judgments without queries have no language, and any key is valid.
    """
    name = kind.__name__
    if not isinstance(parts, Mapping) or not all(isinstance(x, kind) for x in parts.values()):
        raise DatasetError(
            f"expected a mapping from language code to {name}, such as "
            f"{{'sw': {name.lower()}, 'en': other_{name.lower()}}}, got {reprlib.repr(parts)}"
        )
    for code, part in parts.items():
        language = language_of(part)
        if language not in (code, UNDETERMINED):
            raise DatasetError(
                f"the {name.lower()} with the key {code!r} is in {language!r}; use the language of "
                f"each {name.lower()} as its key"
            )


def _missing(rankings: Mapping[str, Ranking]) -> dict[str, str]:
    """Return, by model name, why a model has no mean: some of the languages do not rank it."""
    reasons = {}
    for model in dict.fromkeys(model for ranking in rankings.values() for model in ranking.models):
        codes = [code for code, ranking in rankings.items() if model not in ranking]
        if codes:
            reasons[model] = f"not ranked in {', '.join(codes)}"
    return reasons


def _list_names(names: Sequence[str]) -> str:
    """Return the names separated by commas, with at most :data:`_NAMES` of them."""
    more = f" and {len(names) - _NAMES} more models" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more
