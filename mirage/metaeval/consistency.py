"""Whether a judge says the same in every language, of items that are the same in all of them.

An item is a pair of responses to a query, or a sentence, with its translations; the bundled corpus
asks the same queries in 18 languages. Languages are taken as raters of the items, and how far they
agree is measured as agreement of people is. A judge may be wrong in all languages alike: that it
agrees with itself says nothing of that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mirage._base.arrays import Bools, Floats, Ints
from mirage._base.tables import Rows, Table, frame_of, to_text
from mirage.arena import Pair, PairJudge
from mirage.dataset import MirageDataset
from mirage.errors import JudgmentError
from mirage.metaeval.judges import SentenceJudge
from mirage.metaeval.sentences import AnswerSentence
from mirage.models import Run
from mirage.statistics.agreement import Sums, alpha_of, cohen_of, fleiss_of, terms
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, bootstrap
from mirage.statistics.prediction_powered import FEWEST_OF_EACH

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ConsistencyOfPair",
    "LanguageConsistency",
    "Verdicts",
    "language_consistency",
    "pair_verdicts",
    "sentence_verdicts",
]

Verdicts = Mapping[tuple[str, ...], Hashable]
"""What a judge said of each item, ``None`` where nothing valid.

The first part of an item's name is what it hangs together by: its query.
"""


_SWAPPED = {"a": "b", "b": "a", "tie": "tie"}


class ConsistencyOfPair(NamedTuple):
    """How far a judge says the same in two languages.

    Attributes:
        languages: their codes.
        items: with a verdict in both.
        agreement: share of them that have the same verdict.
        kappa: Cohen's; NaN where all verdicts are the same.
        interval: of kappa; NaN with fewer than 14 queries, with fewer than 5 on which the verdicts
            differ, and where kappa is not defined for a draw.
    """

    languages: tuple[str, str]
    items: int
    agreement: float
    kappa: float
    interval: Interval


@dataclass(frozen=True, eq=False)
class LanguageConsistency(Rows[ConsistencyOfPair]):
    """How far a judge agrees with itself across languages; iterates over pairs of languages.

    Attributes:
        judge: its name.
        languages: as they were given.
        items: with a verdict in two languages or more.
        queries: that these are about: the clusters of all intervals.
        missing: for each language, the items of the others of which it has no verdict.
        agreement: share of the pairs of languages with the same verdict, mean over items.
        alpha: Krippendorff's, with languages as raters; NaN where all verdicts are the same.
        alpha_interval: NaN as those of pairs are.
        kappa: Fleiss', likewise.
        kappa_interval: likewise.
        kappas: for each language, the mean of its kappas with the others.
        kappas_intervals: of these; NaN as those of pairs are, where verdicts differ from those of
            half of the other languages.
        level: of all intervals.
    """

    judge: str
    languages: tuple[str, ...]
    items: int
    queries: int
    missing: Mapping[str, int]
    agreement: float
    alpha: float
    alpha_interval: Interval
    kappa: float
    kappa_interval: Interval
    kappas: Mapping[str, float]
    kappas_intervals: Mapping[str, Interval]
    level: float

    def pair(self, first: str, second: str) -> ConsistencyOfPair:
        """The consistency of the languages ``first`` and ``second``, in either order.

        Raises:
            JudgmentError: they were not compared.
        """
        for row in self:
            if {*row.languages} == {first, second}:
                return row
        raise JudgmentError(f"{self.judge}: {first!r} and {second!r} were not compared")

    def to_pandas(self) -> pd.DataFrame:
        """A frame, a row a pair of languages."""
        return frame_of(
            {
                "first": row.languages[0],
                "second": row.languages[1],
                "items": row.items,
                "agreement": row.agreement,
                "kappa": row.kappa,
                "lower": row.interval[0],
                "upper": row.interval[1],
            }
            for row in self
        )

    def __str__(self) -> str:
        header = ("", "no verdict", "kappa", f"{100 * self.level:g} % interval")
        rows = [
            (
                code,
                str(self.missing[code]),
                _number(self.kappas[code]),
                _span(self.kappas_intervals[code]),
            )
            for code in self.languages
        ]
        rows.append(("alpha of all", "", _number(self.alpha), _span(self.alpha_interval)))
        rows.append(("kappa of all", "", _number(self.kappa), _span(self.kappa_interval)))
        notes = [
            f"the same verdict in {100 * self.agreement:.1f} % of the pairs of languages",
            "of a language: the mean of Cohen's kappas with the others; of all: Krippendorff's "
            "alpha, Fleiss' kappa",
        ]
        known = [row for row in self if not np.isnan(row.kappa)]
        if known and len(self.languages) > 2:
            least = min(known, key=lambda row: row.kappa)
            notes.append(
                f"least: {' and '.join(least.languages)}, {_number(least.kappa)} "
                f"({_span(least.interval)})"
            )
        if len(known) < len(self.rows):
            notes.append(
                f"{len(self.rows) - len(known)} pairs of languages have no kappa: all verdicts are "
                "the same, or there are none in common"
            )
        title = (
            f"How far {self.judge} agrees with itself in {len(self.languages)} languages, on "
            f"{self.items} items of {self.queries} queries"
        )
        return to_text(
            Table(title, header, tuple(rows), (False,) * len(rows), tuple(notes), name=0)
        )


def language_consistency(
    verdicts: Mapping[str, Verdicts],
    *,
    judge: str = "the judge",
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> LanguageConsistency:
    """How far one judge's verdicts on parallel items are the same in every language.

    :func:`sentence_verdicts` and :func:`pair_verdicts` ask a judge; recorded verdicts do as well.
    Intervals draw queries with replacement, in all languages together
    (:func:`mirage.statistics.bootstrap.bootstrap`): two items on one query are not two that are
    independent, and no more are 18 translations of one. ``benchmarks/language_consistency.py``
    prints how often they hold the truth.

    Args:
        verdicts: for each language the verdict on each item, by names that are the same in every
            language, such as ``("q01", "model a", "model b")``. An item that a language lacks, or
            of which the verdict is ``None``, has no part in what is said of that language.
        judge: what tables call it.
        draws: behind each interval.
        level: share of the intervals that hold the truth.
        seed: of the draws.

    Raises:
        JudgmentError: fewer than two languages, or no item with a verdict in two of them.
        SettingError: no such level, or no draw.
    """
    codes = tuple(verdicts)
    if len(codes) < 2:
        raise JudgmentError(
            f"{judge}: consistency takes verdicts in two languages or more, not {len(codes)}"
        )
    table, query = _table(verdicts)
    several = (table >= 0).sum(axis=1) > 1
    if not several.any():
        raise JudgmentError(
            f"{judge}: no item has a verdict in two languages; items are matched by their names, "
            "which have to be the same in each"
        )
    kinds = int(table.max()) + 1
    counts = np.stack([(table == kind).sum(axis=1) for kind in range(kinds)], axis=1)
    sums = terms(counts[several])

    def measured(
        group: Ints, values: Floats, of: Callable[[Floats], Floats], differ: Bools
    ) -> tuple[float, Interval]:
        value, ends = bootstrap(group, values, of, draws=draws, level=level, seed=seed)
        return value, ends if len(np.unique(group[differ])) >= FEWEST_OF_EACH else NO_INTERVAL

    differ = np.asarray((counts[several] > 0).sum(axis=1) > 1)
    (alpha, alpha_interval), (kappa, kappa_interval) = (
        measured(query[several], sums, of, differ) for of in (alpha_of, fleiss_of)
    )
    cells = {
        pair: _cells(table[:, pair[0]], table[:, pair[1]], kinds)
        for pair in combinations(range(len(codes)), 2)
    }
    unlike = ~np.eye(kinds, dtype=bool).ravel()
    rows, means = [], {}
    for (one, other), values in cells.items():
        apart = np.asarray(values[:, unlike].any(axis=1))
        value, ends = measured(query, values, cohen_of, apart)
        table_of = values.sum(axis=0)
        both = int(table_of.sum())
        same = float(1 - table_of[unlike].sum() / both) if both else np.nan
        rows.append(ConsistencyOfPair((codes[one], codes[other]), both, same, value, ends))

    def mean_kappa(drawn: Floats) -> Floats:
        return np.asarray(cohen_of(drawn.reshape(*drawn.shape[:-1], -1, kinds**2)).mean(-1))

    for place, code in enumerate(codes):
        own = np.stack([values for pair, values in cells.items() if place in pair], axis=1)
        # Where most others differ from it: one of many that does says little of this one.
        others = own.any(axis=2).sum(axis=1)
        differ = (others > 0) & (2 * own[:, :, unlike].any(axis=2).sum(axis=1) >= others)
        own = own.reshape(len(own), -1)
        means[code] = measured(query, own, mean_kappa, differ)
    return LanguageConsistency(
        rows=tuple(rows),
        judge=judge,
        languages=codes,
        items=int(several.sum()),
        queries=len(np.unique(query[several])),
        missing={code: int((table[:, place] < 0).sum()) for place, code in enumerate(codes)},
        agreement=float(Sums.of(sums.sum(axis=0)).agreement),
        alpha=alpha,
        alpha_interval=alpha_interval,
        kappa=kappa,
        kappa_interval=kappa_interval,
        kappas={code: value for code, (value, _) in means.items()},
        kappas_intervals={code: ends for code, (_, ends) in means.items()},
        level=level,
    )


def sentence_verdicts(
    judge: SentenceJudge, sentences: Iterable[AnswerSentence]
) -> dict[str, dict[tuple[str, ...], str | None]]:
    """Have a judge label sentences that are parallel in several languages.

    The n-th sentence on a query in one language is the n-th on the query of the same id in each
    other: give as many in each, in the same order.

    Args:
        judge: such as :class:`~mirage.metaeval.LLMSentenceJudge`.
        sentences: in all languages.

    Returns:
        What :func:`language_consistency` takes: labels by language and ``(query id, n)``.

    Raises:
        JudgmentError: a query has more sentences in one language than in another; or the judge did
            not return a label a sentence.
    """
    sentences = list(sentences)
    place: dict[tuple[str, str], int] = {}
    names = []
    for sentence in sentences:
        query = sentence.query
        number = place[query.language, query.id] = place.get((query.language, query.id), 0) + 1
        names.append((query.language, (query.id, str(number))))
    for (code, id_), number in place.items():
        for (other, same), count in place.items():
            if same == id_ and count != number:
                raise JudgmentError(
                    f"query {id_!r} has {number} sentences in {code!r} and {count} in {other!r}; "
                    "parallel sentences are as many in each language, in the same order"
                )
    labels = list(judge.label(sentences))
    if len(labels) != len(sentences):
        raise JudgmentError(
            f"{judge.name!r} returned {len(labels)} labels for {len(sentences)} sentences"
        )
    verdicts: dict[str, dict[tuple[str, ...], str | None]] = {}
    for (code, name), label in zip(names, labels, strict=True):
        verdicts.setdefault(code, {})[name] = label
    return verdicts


def pair_verdicts(
    judge: PairJudge,
    parallel: Mapping[str, tuple[MirageDataset, Sequence[Run]]],
    *,
    pairs: Iterable[Pair] | None = None,
    progress: bool = True,
) -> dict[str, dict[tuple[str, ...], str | None]]:
    """Have a judge compare the same pairs of responses in several languages.

    Args:
        judge: such as :class:`~mirage.arena.PairwiseJudge`, with a cache that keeps its votes.
        parallel: for each language its dataset and the runs of the same models, on queries whose
            ids are the same in each.
        pairs: which to judge, in which order of responses; by default every two models on each
            query that all languages have, the order changing from one to the next.
        progress: show progress bars on stderr, if that is a terminal.

    Returns:
        What :func:`language_consistency` takes: verdicts by language and ``(query id, model,
        model)``; ``None`` where a vote failed or was invalid.

    Raises:
        JudgmentError: no query is in all languages, or fewer than two models.
        UnknownNameError: a pair is on a query or model that a language lacks.
    """
    asked = _common(parallel) if pairs is None else [Pair(*pair) for pair in pairs]
    verdicts: dict[str, dict[tuple[str, ...], str | None]] = {}
    for code, (dataset, runs) in parallel.items():
        judged = judge.judge(dataset, runs, asked, progress=progress)
        said: dict[tuple[str, ...], str] = {}
        for one in judged:
            said[one.query_id, one.model_a, one.model_b] = one.verdict
            said[one.query_id, one.model_b, one.model_a] = _SWAPPED[one.verdict]
        verdicts[code] = {tuple(pair): said.get(tuple(pair)) for pair in asked}
    return verdicts


def _common(parallel: Mapping[str, tuple[MirageDataset, Sequence[Run]]]) -> list[Pair]:
    """Every two models on each query that all languages have."""
    ids = [[query.id for query in dataset] for dataset, _ in parallel.values()]
    models = [[run.model for run in runs] for _, runs in parallel.values()]
    queries = [id_ for id_ in (ids or [[]])[0] if all(id_ in own for own in ids)]
    shared = [name for name in (models or [[]])[0] if all(name in own for own in models)]
    if not queries or len(shared) < 2:
        raise JudgmentError(
            f"{len(queries)} queries and {len(shared)} models are in all of {len(ids)} languages; "
            "a judge is compared with itself on the same ids and names in each"
        )
    every = [(id_, *two) for id_ in queries for two in combinations(shared, 2)]
    return [Pair(id_, *((a, b) if n % 2 else (b, a))) for n, (id_, a, b) in enumerate(every)]


def _table(verdicts: Mapping[str, Verdicts]) -> tuple[Ints, Ints]:
    """Verdicts as codes, ``(items, languages)``, -1 for none; and the query of each item."""
    items = list(dict.fromkeys(item for own in verdicts.values() for item in own))
    kinds = dict.fromkeys(
        said for own in verdicts.values() for said in own.values() if said is not None
    )
    code: dict[Hashable, int] = {kind: number for number, kind in enumerate(kinds)} | {None: -1}
    table = [[code[own.get(item)] for own in verdicts.values()] for item in items]
    queries: dict[str, int] = {}
    of_items = [queries.setdefault(item[0], len(queries)) for item in items]
    return np.array(table, dtype=np.intp).reshape(len(items), len(verdicts)), np.array(of_items)


def _cells(one: Ints, other: Ints, kinds: int) -> Floats:
    """For each item the cell of the table of verdict by verdict; none where either lacks one."""
    cells = np.zeros((len(one), kinds**2))
    both = np.flatnonzero((one >= 0) & (other >= 0))
    cells[both, one[both] * kinds + other[both]] = 1
    return cells


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f}"


def _span(ends: Interval) -> str:
    return "-" if np.isnan(ends[0]) else f"{ends[0]:.2f} to {ends[1]:.2f}"
