"""The figures and tables of BERGEN (arXiv 2407.01102), on any grid or on the published numbers.

Each function takes a :class:`~mirage.benchmarking.ResultTable`. In one of your own, the retriever
``none`` is closed book, and ``oracle`` shows the relevant passages; differences are between the
same queries, and have intervals. :func:`published` gives the paper's tables, which have neither.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, ClassVar

import numpy as np

from mirage.benchmarking import Cell, Pivot, ResultTable, Score
from mirage.errors import SettingError, UnknownNameError
from mirage.experiments.results import Line, Result
from mirage.statistics import mean_tau
from mirage.statistics.bootstrap import NO_INTERVAL, Interval
from mirage.statistics.clusters import cluster_codes
from mirage.statistics.paired import paired_means
from mirage.statistics.ranks import kendall_tau

__all__ = [
    "AgreementRow",
    "ContextRow",
    "CorrelationRow",
    "GainRow",
    "OracleRow",
    "SystemRow",
    "TuningRow",
    "context_size",
    "finetuning_gain",
    "main_table",
    "metric_agreement",
    "multilingual_table",
    "oracle_gain",
    "prompt_table",
    "published",
    "retrieval_correlation",
    "retrieval_gain",
    "retrieval_table",
    "retrieval_vs_generation",
]

NONE, ORACLE = "none", "oracle"
"""The retrievers of closed-book cells, and of those that show the relevant passages."""

TUNED = " + QLoRA"
"""What the names of fine-tuned generators of the paper end in."""

SYSTEM = ("retriever", "reranker")
RETRIEVAL = ("dataset", "corpus", "language", "query", *SYSTEM)
"""What the measures of retrieval hang on."""


# The published numbers ----------------------------------------------------------------------------


def published(number: int = 4) -> ResultTable:
    """One of the paper's tables; cells have no intervals, for the paper gives none.

    Args:
        number: of the table. 4 are the main results, with the retrieval quality of Table 5 beside
            them where the paper measured it. 2 is fine-tuning, with the zero-shot numbers of Table
            4; 3, 10, 11 and 12 are multilingual, 5 and 7 are on retrieval, 9 is on prompts, and 14
            on how metrics agree with the judge.

    Raises:
        SettingError: there are no numbers of such a table.
    """
    tables = _published()
    if str(number) not in tables:
        raise SettingError(f"tables {', '.join(tables)} are published as numbers, not {number}")
    cells = {2: _fine_tuned, 4: _with_recall}.get(number, lambda: _cells(str(number)))()
    table = tables[str(number)]
    notes = (
        f"BERGEN (arXiv 2407.01102), Table {number}, printed to {table['decimals']} decimals.",
        *table["doubts"],
    )
    metrics = dict.fromkeys(metric for cell in cells for metric in cell.scores)
    return ResultTable(table["title"], cells, tuple(metrics), notes)


def _with_recall() -> tuple[Cell, ...]:
    """Table 4, with what Table 5 says of the same systems."""
    recall = {_key(cell, RETRIEVAL): cell.scores for cell in _cells("5")}
    return tuple(
        replace(cell, scores={**cell.scores, **recall.get(_key(cell, RETRIEVAL), {})})
        for cell in _cells("4")
    )


def _fine_tuned() -> tuple[Cell, ...]:
    """Table 2, behind the cells of Table 4 that it is compared with."""
    after = _cells("2")
    wanted = {_key(cell) for cell in after}
    before = (cell for cell in _cells("4") if _key(cell) in wanted)
    tuned = (_renamed(cell, cell.settings["generator"] + TUNED) for cell in after)
    return (*before, *tuned)


def _renamed(cell: Cell, generator: str) -> Cell:
    return replace(cell, settings={**cell.settings, "generator": generator})


@cache
def _published() -> dict[str, Any]:
    source = resources.files("mirage") / "data" / "published" / "bergen.json"
    figures: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))["tables"]
    return figures


def _cells(number: str) -> tuple[Cell, ...]:
    table = _published()[number]
    axes, metrics = table["axes"], table["metrics"]
    cells = []
    for row in table["rows"]:
        settings = {
            axis: value for axis, value in zip(axes, row, strict=False) if value is not None
        }
        figures = zip(metrics, row[len(axes) :], strict=True)
        cells.append(Cell(settings, {m: Score(v) for m, v in figures if v is not None}))
    return tuple(cells)


def _key(cell: Cell, axes: Sequence[str] = ()) -> tuple[tuple[str, str], ...]:
    """What a cell is, by these axes or by all."""
    return tuple(sorted((a, v) for a, v in cell.settings.items() if not axes or a in axes))


# What retrieval brings (Figures 3 and 5) ----------------------------------------------------------


@dataclass(frozen=True)
class GainRow(Line):
    """How much answers gain from one system of retrieval on one dataset.

    Attributes:
        dataset: its name.
        retriever: the first stage.
        reranker: the second.
        generators: over how many the gain is the mean.
        gain: mean of the metric, less that without retrieval.
        lower: as ``upper``, an end of its 95 % interval.
    """

    keys: ClassVar[tuple[str, ...]] = SYSTEM
    over: ClassVar[str] = "dataset"

    dataset: str
    retriever: str
    reranker: str
    generators: int
    gain: float
    lower: float
    upper: float


def retrieval_gain(
    table: ResultTable,
    metric: str = "LLMeval",
    *,
    retriever: str | None = None,
    reranker: str | None = None,
) -> Result[GainRow]:
    """What retrieval brings over closed book, mean over generators (Figure 3).

    The paper's figure has SPLADE-v3, reranked by DeBERTa-v3.

    Args:
        table: with closed-book cells.
        metric: of the answers.
        retriever: show this alone; by default all but ``none`` and ``oracle``.
        reranker: show this alone.

    Raises:
        UnknownNameError: there is no such metric.
        SettingError: no cell has one without retrieval beside it.
    """
    groups: dict[tuple[str, str, str], list[tuple[Cell, Cell]]] = {}
    for cell, bare in _beside(table, metric):
        dataset, first, second = (cell.settings.get(axis, "") for axis in ("dataset", *SYSTEM))
        if first.casefold() == ORACLE and retriever is None:
            continue
        if retriever in (None, first) and reranker in (None, second):
            groups.setdefault((dataset, first, second), []).append((cell, bare))
    rows = []
    for place, pairs in groups.items():
        gain, (lower, upper) = _mean_gain(pairs, metric)
        generators = len({cell.settings.get("generator", "") for cell, _ in pairs})
        rows.append(GainRow(*place, generators, gain, lower, upper))
    rows.sort(key=lambda row: -row.gain)
    title = f"{metric} with retrieval, less {metric} closed book"
    return Result(title, tuple(_found(rows, table, "without retrieval (retriever: none)")))


@dataclass(frozen=True)
class OracleRow(Line):
    """What one generator gains on one dataset from the passages that hold the answer.

    Attributes:
        dataset: its name.
        generator: its name.
        closed_book: mean of the metric without retrieval.
        oracle: the same with the relevant passages.
        gain: their difference, over the queries that both have.
        lower: as ``upper``, an end of its 95 % interval.
    """

    keys: ClassVar[tuple[str, ...]] = ("generator",)
    over: ClassVar[str] = "dataset"

    dataset: str
    generator: str
    closed_book: float
    oracle: float
    gain: float
    lower: float
    upper: float


def oracle_gain(table: ResultTable, metric: str = "LLMeval") -> Result[OracleRow]:
    """What perfect retrieval would bring over closed book, by generator (Figure 5).

    Args:
        table: with cells of the retrievers ``none`` and ``oracle``.
        metric: of the answers.

    Raises:
        UnknownNameError: there is no such metric.
        SettingError: no dataset has both.
    """
    rows = []
    for cell, bare in _beside(table, metric):
        if cell.settings.get("retriever", "").casefold() == ORACLE:
            gain, (lower, upper) = _mean_gain([(cell, bare)], metric)
            means = bare.scores[metric].mean, cell.scores[metric].mean
            dataset, generator = (cell.settings.get(a, "") for a in ("dataset", "generator"))
            rows.append(OracleRow(dataset, generator, *means, gain, lower, upper))
    title = f"{metric} with oracle passages, less {metric} closed book"
    return Result(title, tuple(_found(rows, table, "with the retriever oracle, and with none")))


def _beside(table: ResultTable, metric: str) -> Iterator[tuple[Cell, Cell]]:
    """Cells with a number, each with the closed-book one which is otherwise most like it.

    Closed-book cells have one corpus or none, so that not all settings are the same.
    """
    _known(table, metric)
    measured = [cell for cell in table if metric in cell.scores]
    others: dict[tuple[str, ...], list[Cell]] = {}
    for cell in measured:
        if _retriever(cell) == NONE:
            others.setdefault(_who(cell), []).append(cell)
    for cell in measured:
        if _retriever(cell) != NONE and _who(cell) in others:
            alike = others[_who(cell)]
            yield cell, max(alike, key=lambda other: len({*_key(other)} & {*_key(cell)}))


def _retriever(cell: Cell) -> str:
    return cell.settings.get("retriever", "").casefold() or NONE


def _who(cell: Cell) -> tuple[str, ...]:
    return tuple(cell.settings.get(axis, "") for axis in ("dataset", "language", "generator"))


def _mean_gain(pairs: Sequence[tuple[Cell, Cell]], metric: str) -> tuple[float, Interval]:
    """The mean of differences of cells, over the queries that both have where these are known."""
    if not all(metric in cell.values for pair in pairs for cell in pair):
        gaps = [cell.scores[metric].mean - bare.scores[metric].mean for cell, bare in pairs]
        return float(np.mean(gaps)), NO_INTERVAL
    by_query: dict[str, list[float]] = {}
    clusters: dict[str, str] = {}
    for cell, bare in pairs:
        known = dict(zip(bare.query_ids, bare.values[metric].tolist(), strict=True))
        clusters |= cell.clusters
        for id_, value in zip(cell.query_ids, cell.values[metric].tolist(), strict=True):
            gap = value - known.get(id_, math.nan)
            if not math.isnan(gap):
                by_query.setdefault(id_, []).append(gap)
    if not by_query:
        return math.nan, NO_INTERVAL
    means = np.array([np.mean(some) for some in by_query.values()])
    (row,) = paired_means(means[:, None], cluster_codes([*by_query], clusters))
    return row.mean, row.interval


# Retrieval and answers (Figures 4, 6 and 7, Table 7) ----------------------------------------------


@dataclass(frozen=True)
class SystemRow(Line):
    """One system on one dataset: how good what it found was, and what was made of it.

    Attributes:
        dataset: its name.
        generator: its name.
        retriever: the first stage.
        reranker: the second.
        retrieval: mean of the measure of retrieval; NaN where there is none, as closed book.
        answers: mean of the metric of the answers.
    """

    keys: ClassVar[tuple[str, ...]] = ("generator", *SYSTEM)
    over: ClassVar[str] = "dataset"

    dataset: str
    generator: str
    retriever: str
    reranker: str
    retrieval: float
    answers: float


def retrieval_vs_generation(
    table: ResultTable, metric: str = "LLMeval", retrieval: str = "R@5"
) -> Result[SystemRow]:
    """The quality of what was found, and that of the answers: the points of Figures 4, 6 and 7.

    :func:`retrieval_correlation` says how they go together.

    Args:
        table: with both; a cell without the measure of retrieval has that of another on the same
            dataset by the same retriever and reranker.
        metric: of the answers.
        retrieval: of what was found.

    Raises:
        UnknownNameError: there is no such metric.
        SettingError: no cell has both.
    """
    _known(table, metric, retrieval)
    found = {
        _key(cell, RETRIEVAL): cell.scores[retrieval].mean
        for cell in reversed(table.cells)
        if retrieval in cell.scores
    }
    rows = []
    for cell in table:
        if metric in cell.scores:
            quality = found.get(_key(cell, RETRIEVAL), math.nan)
            named = {a: cell.settings.get(a, "") for a in ("dataset", "generator", *SYSTEM)}
            answers = cell.scores[metric].mean
            rows.append(SystemRow(**named, retrieval=quality, answers=answers))
    both = (row for row in rows if not math.isnan(row.retrieval))
    _found(both, table, f"with {retrieval} and {metric}")
    return Result(f"{retrieval} (retrieval) and {metric} (answers)", tuple(rows))


@dataclass(frozen=True)
class CorrelationRow(Line):
    """Whether better retrieval goes with better answers, over systems.

    Attributes:
        dataset: its name.
        generator: its name.
        reranked: ``yes`` or ``no``: of systems with a reranker, or without; ``any`` of all.
        systems: how many have both numbers.
        rho: Spearman's rank correlation; NaN with fewer than three.
    """

    keys: ClassVar[tuple[str, ...]] = ("generator", "reranked")
    over: ClassVar[str] = "dataset"

    dataset: str
    generator: str
    reranked: str
    systems: int
    rho: float


def retrieval_correlation(
    table: ResultTable, metric: str = "LLMeval", retrieval: str = "R@5"
) -> Result[CorrelationRow]:
    """Spearman's rank correlation of retrieval and answers over systems (Figures 4 and 6, Table 7).

    It has no interval: systems are not drawn from anything. It takes the arguments of
    :func:`retrieval_vs_generation`.

    Args:
        table: as there.
        metric: of the answers.
        retrieval: of what was found.

    Raises:
        UnknownNameError: there is no such metric.
        SettingError: no cell has both.
    """
    groups: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for row in retrieval_vs_generation(table, metric, retrieval):
        if not math.isnan(row.retrieval + row.answers):
            reranked = "no" if row.reranker.casefold() in ("", NONE) else "yes"
            for kind in ("any", reranked):
                place = row.dataset, row.generator, kind
                groups.setdefault(place, []).append((row.retrieval, row.answers))
    rows = tuple(
        CorrelationRow(*place, len(points), _spearman(points)) for place, points in groups.items()
    )
    return Result(f"Spearman's rho of {retrieval} and {metric} over systems", rows)


def _spearman(points: Sequence[tuple[float, float]]) -> float:
    """Pearson's correlation of mid-ranks (Spearman 1904); NaN where one of the two is constant."""
    from scipy.stats import rankdata

    first, second = (rankdata(column) for column in zip(*points, strict=True))
    if len(points) < 3 or not np.ptp(first) or not np.ptp(second):
        return math.nan
    return float(np.corrcoef(first, second)[0, 1])


# The size of the context (Figure 8) ---------------------------------------------------------------


@dataclass(frozen=True)
class ContextRow(Line):
    """How well one generator answers from so many passages.

    Attributes:
        dataset: its name.
        retriever: the first stage.
        reranker: the second.
        generator: its name.
        show_k: passages that it is shown.
        mean: of the metric.
        lower: as ``upper``, an end of its 95 % interval.
        n: queries that are measured.
    """

    keys: ClassVar[tuple[str, ...]] = (*SYSTEM, "generator", "show_k")
    over: ClassVar[str] = "dataset"

    dataset: str
    retriever: str
    reranker: str
    generator: str
    show_k: int
    mean: float
    lower: float
    upper: float
    n: int


def context_size(table: ResultTable, metric: str = "LLMeval") -> Result[ContextRow]:
    """The quality of answers by the number of passages that are shown (Figure 8).

    Args:
        table: whose cells differ by the axis ``show_k``.
        metric: of the answers.

    Raises:
        UnknownNameError: there is no such metric.
        SettingError: no cell says how many passages it shows.
    """
    _known(table, metric)
    rows = []
    for cell in table:
        shown = cell.settings.get("show_k", "")
        if metric in cell.scores and shown.isdecimal() and _retriever(cell) != NONE:
            dataset, first, second, generator = (
                cell.settings.get(axis, "") for axis in ("dataset", *SYSTEM, "generator")
            )
            score = cell.scores[metric]
            known = score.mean, *score.interval, score.n
            rows.append(ContextRow(dataset, first, second, generator, int(shown), *known))
    rows.sort(key=lambda r: (r.dataset, r.retriever, r.reranker, r.generator, r.show_k))
    return Result(f"{metric} by passages shown", tuple(_found(rows, table, "with show_k")))


# Fine-tuning (Table 2) ----------------------------------------------------------------------------


@dataclass(frozen=True)
class TuningRow(Line):
    """What one generator gains from fine-tuning.

    Attributes:
        dataset: its name.
        generator: before fine-tuning.
        metric: its name.
        before: mean of the metric.
        after: that of the fine-tuned generator.
        gain: their difference, over the queries that both have.
        lower: as ``upper``, an end of its 95 % interval.
    """

    keys: ClassVar[tuple[str, ...]] = ("generator", "metric")
    over: ClassVar[str] = "dataset"

    dataset: str
    generator: str
    metric: str
    before: float
    after: float
    gain: float
    lower: float
    upper: float


def finetuning_gain(
    table: ResultTable, tuned: Mapping[str, str] | None = None
) -> Result[TuningRow]:
    """What fine-tuning brings, by generator (Table 2).

    Args:
        table: with cells of both.
        tuned: the generator that each fine-tuned one was made from, by name; by default those of
            ``published(2)``.

    Raises:
        SettingError: no cell of a fine-tuned generator has one of the other beside it.
    """
    names = {cell.settings.get("generator", "") for cell in table}
    if tuned is None:
        tuned = {name: name.removesuffix(TUNED) for name in names if name.endswith(TUNED)}
    places = {_key(cell): cell for cell in table}
    rows = []
    for cell in table:
        base = tuned.get(cell.settings.get("generator", ""))
        if base is None:
            continue
        other = places.get(_key(_renamed(cell, base)))
        for metric in table.metrics if other is not None else ():
            if other is not None and metric in cell.scores and metric in other.scores:
                gain, (lower, upper) = _mean_gain([(cell, other)], metric)
                means = other.scores[metric].mean, cell.scores[metric].mean
                dataset = cell.settings.get("dataset", "")
                rows.append(TuningRow(dataset, base, metric, *means, gain, lower, upper))
    return Result("Fine-tuned, less zero-shot", tuple(_found(rows, table, "fine-tuned, and not")))


# Metrics and a judge (Figure 2, Table 14) ---------------------------------------------------------


@dataclass(frozen=True)
class AgreementRow(Line):
    """How far a metric agrees with a judge on one dataset.

    Attributes:
        dataset: its name.
        metric: its name.
        tau: Kendall's tau-b between the two over queries, mean over cells.
        lower: as ``upper``, an end of its 95 % interval.
        queries: the most that a cell has of both.
        tau_of_means: Kendall's tau-b between the means of cells; NaN with fewer than three.
        cells: how many have both.
    """

    keys: ClassVar[tuple[str, ...]] = ("metric",)
    over: ClassVar[str] = "dataset"

    dataset: str
    metric: str
    tau: float
    lower: float
    upper: float
    queries: int
    tau_of_means: float
    cells: int


def metric_agreement(
    table: ResultTable, judge: str = "LLMeval", metrics: Sequence[str] = ()
) -> Result[AgreementRow]:
    """How far metrics agree with a judge: on single answers, and on systems (Figure 2, Table 14).

    On single answers it is :func:`mirage.statistics.mean_tau`, on systems Kendall's tau-b
    of their means, which has no interval: systems are not drawn from anything.

    Args:
        table: with both.
        judge: the metric that counts as the truth.
        metrics: the others; by default all.

    Raises:
        UnknownNameError: there is no such metric.
        SettingError: no cell has the judge's numbers and another's.
    """
    others = [metric for metric in metrics or table.metrics if metric != judge]
    _known(table, judge, *others)
    by_dataset: dict[str, list[Cell]] = {}
    for cell in table:
        if judge in cell.scores:
            by_dataset.setdefault(cell.settings.get("dataset", ""), []).append(cell)
    rows = [
        _agreement(dataset, metric, judge, [cell for cell in cells if metric in cell.scores])
        for dataset, cells in by_dataset.items()
        for metric in others
        if any(metric in cell.scores for cell in cells)
    ]
    title = f"Kendall's tau-b between metrics and {judge}"
    return Result(title, tuple(_found(rows, table, f"with {judge} and another metric")))


def _agreement(dataset: str, metric: str, judge: str, cells: Sequence[Cell]) -> AgreementRow:
    known = [cell for cell in cells if metric in cell.values and judge in cell.values]
    ids = tuple(dict.fromkeys(id_ for cell in known for id_ in cell.query_ids))
    clusters = {id_: name for cell in known for id_, name in cell.clusters.items()}
    row = {id_: i for i, id_ in enumerate(ids)}
    pairs = []
    for cell in known:
        columns = np.full((2, len(ids)), np.nan)
        columns[:, [row[id_] for id_ in cell.query_ids]] = cell.values[metric], cell.values[judge]
        pairs.append((columns[0], columns[1]))
    found = mean_tau(pairs, cluster_codes(ids, clusters))
    means = np.array([[cell.scores[name].mean for cell in cells] for name in (metric, judge)])
    means = means[:, ~np.isnan(means).any(axis=0)]
    count = means.shape[1]
    of_means = float(kendall_tau(means[0], means[1])) if count > 2 else math.nan
    return AgreementRow(dataset, metric, found.tau, *found.interval, found.n, of_means, count)


# Tables -------------------------------------------------------------------------------------------


def main_table(table: ResultTable, metrics: Sequence[str] = ()) -> Pivot:
    """Datasets and generators by systems of retrieval (Table 4).

    Args:
        table: the cells.
        metrics: names of metrics; by default all.

    Raises:
        UnknownNameError: there is no such metric.
    """
    return _pivot(table, SYSTEM, metrics)


def retrieval_table(table: ResultTable, metrics: Sequence[str] = ("R@5",)) -> Pivot:
    """Systems of retrieval by datasets (Table 5).

    Args:
        table: the cells; those with the same dataset, corpus, retriever and reranker found the
            same, whatever generator they have.
        metrics: measures of retrieval.

    Raises:
        UnknownNameError: there is no such metric.
    """
    _known(table, *metrics)
    cells = {
        _key(cell, RETRIEVAL): replace(cell, settings=dict(_key(cell, RETRIEVAL)))
        for cell in reversed(table.cells)
        if any(metric in cell.scores for metric in metrics)
    }
    some = replace(table, cells=tuple(reversed(cells.values())))
    return _pivot(some, ("dataset",), metrics)


def prompt_table(table: ResultTable, metrics: Sequence[str] = ()) -> Pivot:
    """Prompts by generators and languages (Table 9).

    Args:
        table: the cells.
        metrics: names of metrics; by default all.

    Raises:
        UnknownNameError: there is no such metric.
    """
    return _pivot(table, ("generator", _language(table)), metrics)


def multilingual_table(table: ResultTable, metrics: Sequence[str] = ()) -> Pivot:
    """Systems and corpora by languages (Tables 3 and 10 to 12).

    Args:
        table: the cells; a grid without the axis ``language`` has a dataset a language.
        metrics: names of metrics; by default all.

    Raises:
        UnknownNameError: there is no such metric.
    """
    return _pivot(table, (_language(table),), metrics)


def _language(table: ResultTable) -> str:
    return "language" if "language" in table.axes else "dataset"


def _pivot(table: ResultTable, columns: Sequence[str], metrics: Sequence[str]) -> Pivot:
    """The table with these axes as columns, and all others by which its cells differ as rows."""
    across = [axis for axis in columns if axis in table.axes]
    down = [axis for axis in table.differing if axis not in across] if len(table) > 1 else []
    rest = [axis for axis in table.axes if axis not in across]
    return table.pivot(down or rest[:1] or across[:1], across if down or rest else (), metrics)


# What all have in common --------------------------------------------------------------------------


def _known(table: ResultTable, *metrics: str) -> None:
    for metric in metrics:
        if metric not in table.metrics:
            raise UnknownNameError("metric", metric, table.metrics)


def _found(rows: Iterable[Any], table: ResultTable, what: str) -> list[Any]:
    """The rows, if there is one."""
    some = list(rows)
    if not some:
        raise SettingError(f"{table.name} has no cells {what}")
    return some
