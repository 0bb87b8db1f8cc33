"""Rankings of the same models in several languages."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from mirage._base.arrays import Floats
from mirage._base.tables import Table, to_html, to_markdown, to_text
from mirage.errors import MirageError, UnknownNameError
from mirage.ranking._pages import Presentable
from mirage.ranking._rendering import failure_notes, finding_notes, frame_by_model, number_or_none
from mirage.ranking.ranking import Ranking
from mirage.statistics.bootstrap import NO_INTERVAL, Interval
from mirage.statistics.ranks import confidences_by_draws, rank_intervals_by_confidence, ranks

if TYPE_CHECKING:
    import pandas as pd

    from mirage.features.findings import PooledFinding

__all__ = ["MultilingualRanking"]


class MultilingualRanking(Presentable, Mapping[str, Ranking]):
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
            "intervals": {m: [*map(number_or_none, ends)] for m, ends in self.intervals.items()},
            "rank_intervals": dict(self.rank_intervals),
            "languages": {code: ranking.to_dict() for code, ranking in self.items()},
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
        return frame_by_model(columns, tuple(self._means)).astype(integer_columns)

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
                *(f"{code}: {note}" for code, r in self.items() for note in failure_notes(r, 1)),
                *finding_notes(self.findings),
                *dict.fromkeys(ranking.about for ranking in self.values() if ranking.about),
            ),
        )
