"""Consistency of a judge across languages, measured on parallel items.

An item is a sentence, or a pair of responses to a query, that exists in several languages. The
bundled corpus has the same queries in 18 languages. Each language is treated as a rater of the
items, and their agreement is measured like that of people. Consistency does not show that the judge
is right: it may make the same errors in all languages.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mirage._base.arrays import Bools, Floats, Ints
from mirage._base.tables import Rows, Table, frame_of, to_text
from mirage.arena.judge import PairJudge
from mirage.arena.pairs import Pair
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

Verdicts = Mapping[tuple[str, ...], Hashable]
"""The verdicts of a judge on items in one language; ``None`` if an item has no valid verdict.

The key of an item is a tuple whose first element is the id of the item's query. Items of the same
query form a cluster.
"""


# The verdict on the same two responses in reverse order.
_SWAPPED = {"a": "b", "b": "a", "tie": "tie"}


class ConsistencyOfPair(NamedTuple):
    """The agreement of a judge's verdicts in two languages.

    Attributes:
        languages: The codes of the languages.
        items: The number of items with a verdict in both languages.
        agreement: The share of these items with the same verdict.
        kappa: Cohen's kappa; NaN if all verdicts are the same.
        interval: The confidence interval of kappa. NaN with fewer than 14 queries, with fewer than
            5 queries on which the verdicts differ, or if kappa is undefined for a bootstrap sample.
    """

    languages: tuple[str, str]
    items: int
    agreement: float
    kappa: float
    interval: Interval


@dataclass(frozen=True, eq=False)
class LanguageConsistency(Rows[ConsistencyOfPair]):
    """The consistency of a judge across languages; iterating yields a row per pair of languages.

    Attributes:
        judge: The name of the judge.
        languages: The codes of the languages, in the order of the input.
        items: The number of items with a verdict in at least two languages.
        queries: The number of queries of these items; queries are the clusters of all intervals.
        missing: For each language, the number of items that have no verdict in this language but
            have one in other languages.
        agreement: For each item, the share of pairs of languages with the same verdict; averaged
            over items.
        alpha: Krippendorff's alpha with languages as raters; NaN if all verdicts are the same.
        alpha_interval: The interval of ``alpha``; NaN under the conditions of
            :attr:`ConsistencyOfPair.interval`.
        kappa: Fleiss' kappa; NaN if all verdicts are the same.
        kappa_interval: The interval of ``kappa``; NaN under the same conditions.
        kappas: For each language, the mean of its Cohen's kappas with the other languages.
        kappas_intervals: The intervals of ``kappas``; NaN under the same conditions. Here the
            verdicts on a query differ if, on one of its items, the language disagrees with at least
            half of the other languages.
        level: The confidence level of all intervals.
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
        """Return the agreement of the verdicts in two languages, given in either order.

        Raises:
            JudgmentError: The languages were not compared.
        """
        for row in self:
            if {*row.languages} == {first, second}:
                return row
        raise JudgmentError(
            f"{self.judge}: the languages {first!r} and {second!r} were not compared; pass two "
            f"different languages of {', '.join(self.languages)}"
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with one row per pair of languages."""
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
            "rows of languages: the mean of Cohen's kappas with the others; of all: Krippendorff's "
            "alpha, Fleiss' kappa",
        ]
        defined = [row for row in self if not np.isnan(row.kappa)]
        if defined and len(self.languages) > 2:
            least = min(defined, key=lambda row: row.kappa)
            notes.append(
                f"lowest: {' and '.join(least.languages)}, {_number(least.kappa)} "
                f"({_span(least.interval)})"
            )
        if len(defined) < len(self.rows):
            notes.append(
                f"{len(self.rows) - len(defined)} pairs of languages have no kappa: all verdicts "
                "are the same, or no item has a verdict in both"
            )
        title = (
            f"Agreement of {self.judge} with itself in {len(self.languages)} languages, on "
            f"{self.items} items of {self.queries} queries"
        )
        return to_text(Table(title, header, tuple(rows), notes=tuple(notes), name=0))


def language_consistency(
    verdicts: Mapping[str, Verdicts],
    *,
    judge: str = "the judge",
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> LanguageConsistency:
    """Measure how consistent a judge's verdicts on parallel items are across languages.

    The verdicts can come from :func:`sentence_verdicts` or :func:`pair_verdicts`, which run a
    judge, or from recorded results. The items of one query are not independent, and neither are the
    translations of one item. The bootstrap therefore resamples queries, and each sample has the
    same queries in all languages (:func:`mirage.statistics.bootstrap.bootstrap`).
    ``validation/coverage/language_consistency.py`` prints the coverage of the intervals.

    Args:
        verdicts: For each language, the verdict on each item. An item has the same name in every
            language, such as ``("q01", "model a", "model b")``. An item that is missing in a
            language, or has the verdict ``None`` there, is left out of that language's statistics.
        judge: The name of the judge in tables.
        draws: The number of bootstrap samples behind each interval.
        level: The confidence level of the intervals.
        seed: Random seed.

    Returns:
        The consistency, with one row per pair of languages.

    Raises:
        JudgmentError: There are fewer than two languages, or no item has a verdict in two of them.
        SettingError: ``level`` is not between 0 and 1, or ``draws`` is below 1.

    Example:
        >>> verdicts = {
        ...     "de": {("q1",): "yes", ("q2",): "no", ("q3",): "no"},
        ...     "en": {("q1",): "yes", ("q2",): "no", ("q3",): "yes"},
        ... }
        >>> round(language_consistency(verdicts).agreement, 2)
        0.67
    """
    codes = tuple(verdicts)
    if len(codes) < 2:
        raise JudgmentError(
            f"{judge}: consistency needs verdicts in at least two languages, got {len(codes)}"
        )
    table, query = _table(verdicts)
    several = (table >= 0).sum(axis=1) > 1
    if not several.any():
        raise JudgmentError(
            f"{judge}: no item has a verdict in two languages; items are matched by their names, "
            "which must be the same in each language"
        )
    kinds = int(table.max()) + 1
    counts = np.stack([(table == kind).sum(axis=1) for kind in range(kinds)], axis=1)
    sums = terms(counts[several])

    def estimate(
        group: Ints, values: Floats, of: Callable[[Floats], Floats], differ: Bools
    ) -> tuple[float, Interval]:
        # Bootstrap intervals are too narrow if few clusters differ.
        value, ends = bootstrap(group, values, of, draws=draws, level=level, seed=seed)
        return value, ends if len(np.unique(group[differ])) >= FEWEST_OF_EACH else NO_INTERVAL

    differ = np.asarray((counts[several] > 0).sum(axis=1) > 1)
    (alpha, alpha_interval), (kappa, kappa_interval) = (
        estimate(query[several], sums, of, differ) for of in (alpha_of, fleiss_of)
    )
    cells = {
        pair: _cells(table[:, pair[0]], table[:, pair[1]], kinds)
        for pair in combinations(range(len(codes)), 2)
    }
    off_diagonal = ~np.eye(kinds, dtype=bool).ravel()
    rows, means = [], {}
    for (first, second), values in cells.items():
        apart = np.asarray(values[:, off_diagonal].any(axis=1))
        value, ends = estimate(query, values, cohen_of, apart)
        totals = values.sum(axis=0)
        both = int(totals.sum())
        same = float(1 - totals[off_diagonal].sum() / both) if both else np.nan
        rows.append(ConsistencyOfPair((codes[first], codes[second]), both, same, value, ends))

    def mean_kappa(drawn: Floats) -> Floats:
        return np.asarray(cohen_of(drawn.reshape(*drawn.shape[:-1], -1, kinds**2)).mean(-1))

    for position, code in enumerate(codes):
        own_cells = np.stack([v for pair, v in cells.items() if position in pair], axis=1)
        partners = own_cells.any(axis=2).sum(axis=1)
        # A query counts as different only if at least half of the other languages differ.
        differ = (partners > 0) & (
            2 * own_cells[:, :, off_diagonal].any(axis=2).sum(axis=1) >= partners
        )
        own_cells = own_cells.reshape(len(own_cells), -1)
        means[code] = estimate(query, own_cells, mean_kappa, differ)
    return LanguageConsistency(
        rows=tuple(rows),
        judge=judge,
        languages=codes,
        items=int(several.sum()),
        queries=len(np.unique(query[several])),
        missing={code: int((table[:, column] < 0).sum()) for column, code in enumerate(codes)},
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

    The n-th sentence of a query in one language must be parallel to the n-th sentence of the query
    with the same id in each other language.

    Args:
        judge: The judge, such as :class:`~mirage.metaeval.LLMSentenceJudge`.
        sentences: The sentences in all languages.

    Returns:
        Labels by language and ``(query id, n)``, for :func:`language_consistency`.

    Raises:
        JudgmentError: A query has more sentences in one language than in another, or the judge did
            not return one label per sentence.
    """
    sentences = list(sentences)
    counts: dict[tuple[str, str], int] = {}
    names = []
    for sentence in sentences:
        query = sentence.query
        number = counts[query.language, query.id] = counts.get((query.language, query.id), 0) + 1
        names.append((query.language, (query.id, str(number))))
    for (code, id_), number in counts.items():
        for (other, other_id), count in counts.items():
            if other_id == id_ and count != number:
                raise JudgmentError(
                    f"query {id_!r} has {number} sentences in {code!r} and {count} in {other!r}; "
                    "each language needs the same sentences in the same order"
                )
    labels = list(judge.label(sentences))
    if len(labels) != len(sentences):
        raise JudgmentError(
            f"{judge.name!r} returned {len(labels)} labels for {len(sentences)} sentences; it "
            "must return one label per sentence"
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
        judge: The judge, such as :class:`~mirage.arena.PairwiseJudge`, which stores votes in its
            cache.
        parallel: For each language, its dataset and the runs of the same models. Queries must have
            the same ids in each language.
        pairs: The pairs of responses to judge; the judge sees the response of ``model_a`` first. By
            default, each pair of shared models on each query that all languages have. In every
            second pair, the order of the two models is reversed.
        progress: Show progress bars on stderr if that is a terminal.

    Returns:
        Verdicts by language and ``(query id, model, model)``, for :func:`language_consistency`;
        ``None`` if a vote failed or was invalid.

    Raises:
        JudgmentError: No query is in all languages, or there are fewer than two models.
        UnknownNameError: A pair has a query or model that a language lacks.
    """
    all_pairs = _common_pairs(parallel) if pairs is None else [Pair(*pair) for pair in pairs]
    verdicts: dict[str, dict[tuple[str, ...], str | None]] = {}
    for code, (dataset, runs) in parallel.items():
        judged = judge.judge(dataset, runs, all_pairs, progress=progress)
        by_pair: dict[tuple[str, ...], str] = {}
        for vote in judged:
            by_pair[vote.query_id, vote.model_a, vote.model_b] = vote.verdict
            by_pair[vote.query_id, vote.model_b, vote.model_a] = _SWAPPED[vote.verdict]
        verdicts[code] = {tuple(pair): by_pair.get(tuple(pair)) for pair in all_pairs}
    return verdicts


def _common_pairs(parallel: Mapping[str, tuple[MirageDataset, Sequence[Run]]]) -> list[Pair]:
    """Return every pair of the shared models on each query that all languages have."""
    ids = [[query.id for query in dataset] for dataset, _ in parallel.values()]
    models = [[run.model for run in runs] for _, runs in parallel.values()]
    queries = [id_ for id_ in (ids or [[]])[0] if all(id_ in names for names in ids)]
    shared = [name for name in (models or [[]])[0] if all(name in names for names in models)]
    if not queries or len(shared) < 2:
        raise JudgmentError(
            f"only {len(queries)} queries and {len(shared)} models are in all {len(ids)} "
            "languages, but at least one query and two models are needed; use the same query ids "
            "and model names in each language"
        )
    every = [(id_, *two) for id_ in queries for two in combinations(shared, 2)]
    return [Pair(id_, *((a, b) if n % 2 else (b, a))) for n, (id_, a, b) in enumerate(every)]


def _table(verdicts: Mapping[str, Verdicts]) -> tuple[Ints, Ints]:
    """Return the verdicts on all items as integers, and an integer per item for its query.

    The verdicts have the shape ``(items, languages)``. Equal verdicts have equal integers, and a
    missing verdict is -1.
    """
    items = list(dict.fromkeys(item for column in verdicts.values() for item in column))
    kinds = dict.fromkeys(
        verdict
        for column in verdicts.values()
        for verdict in column.values()
        if verdict is not None
    )
    code: dict[Hashable, int] = {kind: number for number, kind in enumerate(kinds)} | {None: -1}
    table = [[code[column.get(item)] for column in verdicts.values()] for item in items]
    queries: dict[str, int] = {}
    of_items = [queries.setdefault(item[0], len(queries)) for item in items]
    return np.array(table, dtype=np.intp).reshape(len(items), len(verdicts)), np.array(of_items)


def _cells(first: Ints, second: Ints, kinds: int) -> Floats:
    """Return a flattened contingency table per item, from its verdicts in two languages.

    The arguments are two columns of :func:`_table` and the number of different verdicts. The result
    has one row per item and one column per pair of verdicts. It is 1 in the column of the item's
    two verdicts, and 0 elsewhere. If a verdict is missing, the whole row is 0.
    """
    cells = np.zeros((len(first), kinds**2))
    both = np.flatnonzero((first >= 0) & (second >= 0))
    cells[both, first[both] * kinds + second[both]] = 1
    return cells


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f}"


def _span(ends: Interval) -> str:
    return "-" if np.isnan(ends[0]) else f"{ends[0]:.2f} to {ends[1]:.2f}"
