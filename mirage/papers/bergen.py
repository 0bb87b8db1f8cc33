"""Figures and tables of BERGEN (arXiv 2407.01102), on any grid or on the published numbers.

The argument of each function is a :class:`~mirage.grids.ResultTable`, the results of a grid. A cell
of the table is one combination of settings. In tables of your own grids, the retriever ``none``
means closed book (no passages in the prompt), and ``oracle`` means that the prompt has the relevant
passages. Differences between cells are computed on the same queries and have intervals.
:func:`published` returns the tables of the paper, which have no values per query and no intervals.
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

from mirage.errors import SettingError, UnknownNameError
from mirage.grids import Cell, ResultTable
from mirage.grids.cells import Score, axes_of, common_bounds, differing_axes
from mirage.grids.pivots import Pivot
from mirage.papers.results import Line, Result
from mirage.statistics.bootstrap import NO_INTERVAL, Interval
from mirage.statistics.clusters import cluster_codes
from mirage.statistics.item_tau import mean_tau
from mirage.statistics.paired import paired_means
from mirage.statistics.ranks import kendall_tau

__all__ = [
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
"""Names of the retrievers of closed-book cells, and of cells with the relevant passages."""

TUNED = " + QLoRA"
"""Suffix of the names of the paper's fine-tuned generators."""

SYSTEM = ("retriever", "reranker")
RETRIEVAL = ("dataset", "corpus", "language", "query", *SYSTEM)
"""Axes of a grid that affect retrieval metrics; other axes, such as the generator, do not."""


# The published numbers ----------------------------------------------------------------------------


def published(number: int = 4) -> ResultTable:
    """Return one of BERGEN's tables (arXiv 2407.01102).

    Cells have no intervals, because the paper has none.

    Args:
        number: Number of the table in the paper. Table 4 contains the main results; the retrieval
            quality in Table 5 is added to them. Table 2 is about fine-tuning; the zero-shot results
            in Table 4 are added to it. Tables 3, 10, 11 and 12 are multilingual, Tables 5 and 7 are
            about retrieval, and Table 9 is about prompts. Table 14 is about the agreement of
            metrics with the judge.

    Raises:
        SettingError: If there are no numbers for this table.

    Example:
        >>> published(5).metrics
        ('R@5',)
    """
    tables = _read_published()
    if str(number) not in tables:
        raise SettingError(
            f"the numbers of table {number} of the paper are not included; choose one of the "
            f"tables {', '.join(tables)}"
        )
    cells = {2: _tuning_cells, 4: _main_cells}.get(number, lambda: _cells(str(number)))()
    table = tables[str(number)]
    notes = (
        f"BERGEN (arXiv 2407.01102), Table {number}, printed to {table['decimals']} decimals.",
        *table["doubts"],
    )
    metrics = dict.fromkeys(metric for cell in cells for metric in cell.scores)
    return ResultTable(table["title"], cells, tuple(metrics), notes)


def _main_cells() -> tuple[Cell, ...]:
    """Return the cells of Table 4, with the retrieval quality of the same systems from Table 5."""
    recall = {_key(cell, RETRIEVAL): cell.scores for cell in _cells("5")}
    return tuple(
        replace(cell, scores={**cell.scores, **recall.get(_key(cell, RETRIEVAL), {})})
        for cell in _cells("4")
    )


def _tuning_cells() -> tuple[Cell, ...]:
    """Return the cells of Table 2, after the cells of Table 4 that have the same settings."""
    after = _cells("2")
    wanted = {_key(cell) for cell in after}
    before = (cell for cell in _cells("4") if _key(cell) in wanted)
    tuned = (_rename_generator(cell, cell.settings["generator"] + TUNED) for cell in after)
    return (*before, *tuned)


def _rename_generator(cell: Cell, generator: str) -> Cell:
    return replace(cell, settings={**cell.settings, "generator": generator})


@cache
def _read_published() -> dict[str, Any]:
    source = resources.files("mirage") / "data" / "published" / "bergen.json"
    figures: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))["tables"]
    return figures


def _cells(number: str) -> tuple[Cell, ...]:
    table = _read_published()[number]
    axes, metrics = table["axes"], table["metrics"]
    cells = []
    for row in table["rows"]:
        # A row has the values of the axes first, then those of the metrics.
        settings = {
            axis: value for axis, value in zip(axes, row, strict=False) if value is not None
        }
        figures = zip(metrics, row[len(axes) :], strict=True)
        cells.append(Cell(settings, {m: Score(v) for m, v in figures if v is not None}))
    return tuple(cells)


def _key(cell: Cell, axes: Sequence[str] = ()) -> tuple[tuple[str, str], ...]:
    """Return a cell's settings on these axes, by default on all axes, as a dictionary key."""
    return tuple(sorted((a, v) for a, v in cell.settings.items() if not axes or a in axes))


# Gains from retrieval (Figures 3 and 5) -----------------------------------------------------------


@dataclass(frozen=True)
class GainRow(Line):
    """Gain of one retrieval system over closed book (no passages) on one dataset.

    Attributes:
        dataset: Name of the dataset.
        retriever: Name of the retriever.
        reranker: Name of the reranker.
        generators: Number of generators over which the gain is averaged.
        gain: Mean of the metric with retrieval, minus its mean without retrieval.
        lower: Lower end of the 95 % interval of the gain.
        upper: Upper end of this interval.
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
    """Compute the gain of retrieval over closed book (no passages), averaged over generators.

    Figure 3 of BERGEN shows this gain for the retriever SPLADE-v3, reranked by DeBERTa-v3.

    Args:
        table: Results that include closed-book cells (those with the retriever ``none``).
        metric: Name of the answer metric.
        retriever: The only retriever to include. By default all except ``none`` and ``oracle``.
        reranker: The only reranker to include. By default all.

    Returns:
        One row per dataset, retriever and reranker, sorted by gain, largest first.

    Raises:
        UnknownNameError: If there is no such metric.
        SettingError: If no cell with retrieval has a matching closed-book cell.

    Example:
        >>> row = retrieval_gain(published(4), retriever="SPLADE-v3", reranker="DeBERTa-v3").rows[0]
        >>> row.dataset, row.generators, round(row.gain, 3)
        ('POPQA', 6, 0.264)
    """
    groups: dict[tuple[str, str, str], list[tuple[Cell, Cell]]] = {}
    for cell, bare in _pair_with_closed_book(table, metric):
        dataset, first, second = (cell.settings.get(axis, "") for axis in ("dataset", *SYSTEM))
        # The oracle is no retrieval system, so it is included only on request.
        if first.casefold() == ORACLE and retriever is None:
            continue
        if retriever in (None, first) and reranker in (None, second):
            groups.setdefault((dataset, first, second), []).append((cell, bare))
    rows = []
    for key, pairs in groups.items():
        gain, (lower, upper) = _mean_gain(pairs, metric)
        generators = len({cell.settings.get("generator", "") for cell, _ in pairs})
        rows.append(GainRow(*key, generators, gain, lower, upper))
    rows.sort(key=lambda row: -row.gain)
    title = f"{metric} with retrieval minus {metric} closed book"
    return Result(title, tuple(_require_rows(rows, table, "without retrieval (retriever: none)")))


@dataclass(frozen=True)
class OracleRow(Line):
    """Gain of one generator on one dataset if the prompt has the relevant passages.

    Attributes:
        dataset: Name of the dataset.
        generator: Name of the generator.
        closed_book: Mean of the metric without passages.
        oracle: Mean of the metric with the relevant passages.
        gain: ``oracle`` minus ``closed_book``, on the queries that have both values.
        lower: Lower end of the 95 % interval of the gain.
        upper: Upper end of this interval.
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
    """Compute the gain of perfect retrieval over closed book, by generator (BERGEN, Figure 5).

    With perfect retrieval, the prompt has the relevant passages. With closed book, it has none.

    Args:
        table: Results that include cells with the retrievers ``none`` and ``oracle``.
        metric: Name of the answer metric.

    Returns:
        One row per dataset and generator. If a generator has several cells with the retriever
        ``oracle``, such as one per number of shown passages, the row is their mean, and a note
        says so.

    Raises:
        UnknownNameError: If there is no such metric.
        SettingError: If no cell with the retriever ``oracle`` has a matching closed-book cell.

    Example:
        >>> row = oracle_gain(published(4)).rows[0]
        >>> row.generator, row.closed_book, row.oracle
        ('Llama2-70B', 0.706, 0.627)
    """
    groups: dict[tuple[str, str], list[tuple[Cell, Cell]]] = {}
    for cell, bare in _pair_with_closed_book(table, metric):
        if _retriever(cell) == ORACLE:
            dataset, generator = (cell.settings.get(a, "") for a in ("dataset", "generator"))
            groups.setdefault((dataset, generator), []).append((cell, bare))
    rows = []
    for key, pairs in groups.items():
        gain, (lower, upper) = _mean_gain(pairs, metric)
        closed_book = float(np.mean([bare.scores[metric].mean for _, bare in pairs]))
        oracle = float(np.mean([cell.scores[metric].mean for cell, _ in pairs]))
        rows.append(OracleRow(*key, closed_book, oracle, gain, lower, upper))
    title = f"{metric} with oracle passages minus {metric} closed book"
    place = "with the retriever oracle that have a matching closed-book cell"
    return Result(title, tuple(_require_rows(rows, table, place)), _mean_notes(groups.values()))


def _mean_notes(groups: Iterable[Sequence[tuple[Cell, Cell]]]) -> tuple[str, ...]:
    """Return a note that names the axes over which rows average, if rows have several cells."""
    axes: dict[str, None] = {}
    for pairs in groups:
        cells = [cell for cell, _ in pairs]
        axes |= dict.fromkeys(differing_axes(cells, axes_of(cells)) if len(cells) > 1 else ())
    if not axes:
        return ()
    return (
        f"each row is a mean over the cells that differ in {', '.join(axes)}; to select one of "
        "them, pass table.where(...)",
    )


def _pair_with_closed_book(table: ResultTable, metric: str) -> Iterator[tuple[Cell, Cell]]:
    """Yield each cell with retrieval, together with the closed-book cell to compare it with.

    Both cells have the metric, and the same dataset, language and generator. Other settings may
    differ: a closed-book cell may, for example, have no corpus. If there are several candidates,
    the one with most settings in common is used.
    """
    _require_metrics(table, metric)
    measured = [cell for cell in table if metric in cell.scores]
    closed_book: dict[tuple[str, ...], list[Cell]] = {}
    for cell in measured:
        if _retriever(cell) == NONE:
            closed_book.setdefault(_generator_key(cell), []).append(cell)
    for cell in measured:
        if _retriever(cell) != NONE and _generator_key(cell) in closed_book:
            candidates = closed_book[_generator_key(cell)]
            yield cell, max(candidates, key=lambda other: len({*_key(other)} & {*_key(cell)}))


def _retriever(cell: Cell) -> str:
    return cell.settings.get("retriever", "").casefold() or NONE


def _generator_key(cell: Cell) -> tuple[str, ...]:
    return tuple(cell.settings.get(axis, "") for axis in ("dataset", "language", "generator"))


def _mean_gain(pairs: Sequence[tuple[Cell, Cell]], metric: str) -> tuple[float, Interval]:
    """Return the mean difference of a metric between paired cells, and its 95 % interval.

    The second cell of a pair is subtracted from the first, on the queries on which both have a
    value. The interval is NaN if a cell has no values per query.
    """
    # Published tables have no values per query, so there is no interval.
    if not all(metric in cell.values for pair in pairs for cell in pair):
        gaps = [cell.scores[metric].mean - bare.scores[metric].mean for cell, bare in pairs]
        return float(np.mean(gaps)), NO_INTERVAL
    by_query: dict[str, list[float]] = {}
    clusters: dict[str, str] = {}
    for cell, bare in pairs:
        bare_values = dict(zip(bare.query_ids, bare.values[metric].tolist(), strict=True))
        clusters |= cell.clusters
        for id_, value in zip(cell.query_ids, cell.values[metric].tolist(), strict=True):
            gap = value - bare_values.get(id_, math.nan)
            if not math.isnan(gap):
                by_query.setdefault(id_, []).append(gap)
    if not by_query:
        return math.nan, NO_INTERVAL
    means = np.array([np.mean(gaps) for gaps in by_query.values()])
    low, high = common_bounds([cell for pair in pairs for cell in pair], metric)
    codes = cluster_codes([*by_query], clusters)
    (row,) = paired_means(means[:, None], codes, most=high - low)
    return row.difference, row.interval


# Retrieval and answers (Figures 4, 6 and 7, Table 7) ----------------------------------------------


@dataclass(frozen=True)
class SystemRow(Line):
    """Retrieval quality and answer quality of one system on one dataset.

    Attributes:
        dataset: Name of the dataset.
        generator: Name of the generator.
        retriever: Name of the retriever.
        reranker: Name of the reranker.
        retrieval: Mean of the retrieval metric; NaN if it was not measured, as for closed book.
        answers: Mean of the answer metric.
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
    """Return retrieval quality and answer quality of each system (BERGEN, Figures 4, 6 and 7).

    :func:`retrieval_correlation` computes the correlation of the two.

    Args:
        table: Results with both metrics. A cell without the retrieval metric gets its value from
            another cell with the same dataset, corpus, language, query, retriever and reranker.
        metric: Name of the answer metric.
        retrieval: Name of the retrieval metric.

    Returns:
        One row per cell that has the answer metric.

    Raises:
        UnknownNameError: If there is no such metric.
        SettingError: If no cell has both metrics.

    Example:
        >>> len(retrieval_vs_generation(published(4)))
        450
    """
    _require_metrics(table, metric, retrieval)
    # Reversed, so that the first of several cells with the same retrieval is used.
    retrieval_means = {
        _key(cell, RETRIEVAL): cell.scores[retrieval].mean
        for cell in reversed(table.cells)
        if retrieval in cell.scores
    }
    rows = []
    for cell in table:
        if metric in cell.scores:
            quality = retrieval_means.get(_key(cell, RETRIEVAL), math.nan)
            settings = {a: cell.settings.get(a, "") for a in ("dataset", "generator", *SYSTEM)}
            answers = cell.scores[metric].mean
            rows.append(SystemRow(**settings, retrieval=quality, answers=answers))
    both = (row for row in rows if not math.isnan(row.retrieval))
    _require_rows(both, table, f"with {retrieval} and {metric}")
    return Result(f"{retrieval} (retrieval) and {metric} (answers)", tuple(rows))


@dataclass(frozen=True)
class CorrelationRow(Line):
    """Rank correlation between retrieval quality and answer quality, over retrieval systems.

    Attributes:
        dataset: Name of the dataset.
        generator: Name of the generator.
        reranked: ``yes`` if the systems have a reranker, ``no`` if they have none, ``any`` for all
            systems.
        systems: Number of systems for which both metrics are known.
        rho: Spearman's rank correlation; NaN with fewer than three systems.
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
    """Compute Spearman's rank correlation of retrieval quality and answer quality over systems.

    Figures 4 and 6 and Table 7 of BERGEN show this relation. There is no interval, because systems
    are not a random sample.

    Args:
        table: Results with both metrics. A cell without the retrieval metric gets its value from
            another cell with the same dataset, corpus, language, query, retriever and reranker.
        metric: Name of the answer metric.
        retrieval: Name of the retrieval metric.

    Returns:
        Up to three rows per dataset and generator: one for all systems, one for those with a
        reranker, and one for those without.

    Raises:
        UnknownNameError: If there is no such metric.
        SettingError: If no cell has both metrics.

    Example:
        >>> row = retrieval_correlation(published(4)).rows[0]
        >>> row.dataset, row.systems, round(row.rho, 2)
        ('KILT ELI5', 6, 0.83)
    """
    groups: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for row in retrieval_vs_generation(table, metric, retrieval):
        if not math.isnan(row.retrieval + row.answers):
            reranked = "no" if row.reranker.casefold() in ("", NONE) else "yes"
            # Each system is in two groups: all systems, and those with or without a reranker.
            for kind in ("any", reranked):
                key = row.dataset, row.generator, kind
                groups.setdefault(key, []).append((row.retrieval, row.answers))
    rows = tuple(
        CorrelationRow(*key, len(points), _spearman(points)) for key, points in groups.items()
    )
    return Result(f"Spearman's rho of {retrieval} and {metric} over systems", rows)


def _spearman(points: Sequence[tuple[float, float]]) -> float:
    """Return Spearman's rank correlation of the two columns of ``points``; ties get mean ranks.

    The result is NaN with fewer than three points, or if all values of one column are equal.
    """
    from scipy.stats import rankdata

    first, second = (rankdata(column) for column in zip(*points, strict=True))
    if len(points) < 3 or not np.ptp(first) or not np.ptp(second):
        return math.nan
    return float(np.corrcoef(first, second)[0, 1])


# The size of the context (Figure 8) ---------------------------------------------------------------


@dataclass(frozen=True)
class ContextRow(Line):
    """Quality of one generator's answers with a given number of passages.

    Attributes:
        dataset: Name of the dataset.
        retriever: Name of the retriever.
        reranker: Name of the reranker.
        generator: Name of the generator.
        show_k: Number of passages in the generator's prompt.
        mean: Mean of the metric.
        lower: Lower end of the 95 % interval of the mean.
        upper: Upper end of this interval.
        n: Number of queries that have a value of the metric.
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
    """Return the quality of answers by the number of passages in the prompt (BERGEN, Figure 8).

    Args:
        table: Results with the axis ``show_k``.
        metric: Name of the answer metric.

    Returns:
        One row per cell that has the metric and a number of passages.

    Raises:
        UnknownNameError: If there is no such metric.
        SettingError: If no cell has both the metric and a number of passages.
    """
    _require_metrics(table, metric)
    rows = []
    for cell in table:
        show_k = cell.settings.get("show_k", "")
        if metric in cell.scores and show_k.isdecimal() and _retriever(cell) != NONE:
            dataset, first, second, generator = (
                cell.settings.get(axis, "") for axis in ("dataset", *SYSTEM, "generator")
            )
            score = cell.scores[metric]
            measures = score.mean, *score.interval, score.n
            rows.append(ContextRow(dataset, first, second, generator, int(show_k), *measures))
    rows.sort(key=lambda r: (r.dataset, r.retriever, r.reranker, r.generator, r.show_k))
    return Result(f"{metric} by passages shown", tuple(_require_rows(rows, table, "with show_k")))


# Fine-tuning (Table 2) ----------------------------------------------------------------------------


@dataclass(frozen=True)
class TuningRow(Line):
    """Gain of one generator from fine-tuning.

    Attributes:
        dataset: Name of the dataset.
        generator: Name of the generator before fine-tuning.
        metric: Name of the metric.
        before: Mean of the metric before fine-tuning.
        after: Mean of the metric after fine-tuning.
        gain: ``after`` minus ``before``, on the queries that have both values.
        lower: Lower end of the 95 % interval of the gain.
        upper: Upper end of this interval.
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
    """Compute the gain from fine-tuning by generator (BERGEN, Table 2).

    Args:
        table: Results of the original and of the fine-tuned generators.
        tuned: Name of the original generator, by name of the fine-tuned one. By default every
            generator whose name ends in ``" + QLoRA"``, as in ``published(2)``, is the fine-tuned
            version of the generator without this suffix.

    Returns:
        One row per dataset, generator and metric.

    Raises:
        SettingError: If no cell of a fine-tuned generator has a matching cell of the original
            generator.

    Example:
        >>> row = finetuning_gain(published(2)).rows[0]
        >>> row.generator, row.before, row.after
        ('TinyLlama-1.1B', 0.437, 0.56)
    """
    names = {cell.settings.get("generator", "") for cell in table}
    if tuned is None:
        tuned = {name: name.removesuffix(TUNED) for name in names if name.endswith(TUNED)}
    cell_by_key = {_key(cell): cell for cell in table}
    rows = []
    for cell in table:
        base = tuned.get(cell.settings.get("generator", ""))
        if base is None:
            continue
        original = cell_by_key.get(_key(_rename_generator(cell, base)))
        for metric in table.metrics if original is not None else ():
            if original is not None and metric in cell.scores and metric in original.scores:
                gain, (lower, upper) = _mean_gain([(cell, original)], metric)
                means = original.scores[metric].mean, cell.scores[metric].mean
                dataset = cell.settings.get("dataset", "")
                rows.append(TuningRow(dataset, base, metric, *means, gain, lower, upper))
    return Result(
        "Fine-tuned minus zero-shot",
        tuple(_require_rows(rows, table, "of a fine-tuned generator and of its original")),
    )


# Metrics and a judge (Figure 2, Table 14) ---------------------------------------------------------


@dataclass(frozen=True)
class AgreementRow(Line):
    """Agreement of a metric with a judge on one dataset.

    Attributes:
        dataset: Name of the dataset.
        metric: Name of the metric.
        tau: Kendall's tau-b between the values of the metric and of the judge on single queries,
            averaged over cells.
        lower: Lower end of the 95 % interval of ``tau``.
        upper: Upper end of this interval.
        queries: Number of queries with both values, in the cell that has most of them.
        tau_of_means: Kendall's tau-b between the means of the metric and of the judge, over cells;
            NaN with fewer than three cells.
        cells: Number of cells that have both means.
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
    """Compute the agreement of metrics with a judge (BERGEN, Figure 2 and Table 14).

    The agreement on single answers is Kendall's tau-b between the values of the metric and of the
    judge within a cell, averaged over cells (:func:`mirage.statistics.item_tau.mean_tau`). The
    agreement on systems is Kendall's tau-b between the means of the metric and of the judge. It has
    no interval, because systems are not a random sample.

    Args:
        table: Results with values of the judge and of the metrics.
        judge: Name of the judge's metric, with which other metrics are compared.
        metrics: Names of the metrics to compare with the judge. By default all.

    Returns:
        One row per dataset and metric.

    Raises:
        UnknownNameError: If there is no such metric.
        SettingError: If no cell has values of both the judge and another metric.
    """
    compared_metrics = [metric for metric in metrics or table.metrics if metric != judge]
    _require_metrics(table, judge, *compared_metrics)
    by_dataset: dict[str, list[Cell]] = {}
    for cell in table:
        if judge in cell.scores:
            by_dataset.setdefault(cell.settings.get("dataset", ""), []).append(cell)
    rows = [
        _agreement(dataset, metric, judge, [cell for cell in cells if metric in cell.scores])
        for dataset, cells in by_dataset.items()
        for metric in compared_metrics
        if any(metric in cell.scores for cell in cells)
    ]
    title = f"Kendall's tau-b between metrics and {judge}"
    return Result(title, tuple(_require_rows(rows, table, f"with {judge} and another metric")))


def _agreement(dataset: str, metric: str, judge: str, cells: Sequence[Cell]) -> AgreementRow:
    cells_with_both = [cell for cell in cells if metric in cell.values and judge in cell.values]
    ids = tuple(dict.fromkeys(id_ for cell in cells_with_both for id_ in cell.query_ids))
    clusters = {id_: name for cell in cells_with_both for id_, name in cell.clusters.items()}
    row = {id_: i for i, id_ in enumerate(ids)}
    pairs = []
    for cell in cells_with_both:
        columns = np.full((2, len(ids)), np.nan)
        columns[:, [row[id_] for id_ in cell.query_ids]] = cell.values[metric], cell.values[judge]
        pairs.append((columns[0], columns[1]))
    item_tau = mean_tau(pairs, cluster_codes(ids, clusters))
    means = np.array([[cell.scores[name].mean for cell in cells] for name in (metric, judge)])
    means = means[:, ~np.isnan(means).any(axis=0)]
    count = means.shape[1]
    tau_of_means = float(kendall_tau(means[0], means[1])) if count > 2 else math.nan
    return AgreementRow(
        dataset, metric, item_tau.tau, *item_tau.interval, item_tau.n, tau_of_means, count
    )


# Tables -------------------------------------------------------------------------------------------


def main_table(table: ResultTable, metrics: Sequence[str] = ()) -> Pivot:
    """Return a table with one row per dataset and generator, like Table 4 of BERGEN.

    There is one column per combination of retriever, reranker and metric.

    Args:
        table: Results to show.
        metrics: Names of metrics. By default all.

    Raises:
        UnknownNameError: If there is no such metric.

    Example:
        >>> table = published().where(dataset="KILT NQ")
        >>> main_table(table, ["LLMeval"]).columns[0]
        ('none', 'none', 'LLMeval')
    """
    return _pivot(table, SYSTEM, metrics)


def retrieval_table(table: ResultTable, metrics: Sequence[str] = ("R@5",)) -> Pivot:
    """Return a table with one row per retrieval system, like Table 5 of BERGEN.

    There is one column per dataset and metric.

    Args:
        table: Results to show. Cells that differ only in axes that do not affect retrieval, such as
            the generator, become one cell.
        metrics: Names of retrieval metrics.

    Raises:
        UnknownNameError: If there is no such metric.

    Example:
        >>> retrieval_table(published(5)).columns[0]
        ('KILT ELI5', 'R@5')
    """
    _require_metrics(table, *metrics)
    # Keep the first of several cells with the same retrieval.
    cells = {
        _key(cell, RETRIEVAL): replace(cell, settings=dict(_key(cell, RETRIEVAL)))
        for cell in reversed(table.cells)
        if any(metric in cell.scores for metric in metrics)
    }
    unique_cells = replace(table, cells=tuple(reversed(cells.values())))
    return _pivot(unique_cells, ("dataset",), metrics)


def prompt_table(table: ResultTable, metrics: Sequence[str] = ()) -> Pivot:
    """Return a table with one row per prompt, like Table 9 of BERGEN.

    There is one column per generator, language and metric.

    Args:
        table: Results to show.
        metrics: Names of metrics. By default all.

    Raises:
        UnknownNameError: If there is no such metric.

    Example:
        >>> prompt_table(published(9)).columns[0]
        ('SOLAR-10.7B', 'ko', 'CLR')
    """
    return _pivot(table, ("generator", _language(table)), metrics)


def multilingual_table(table: ResultTable, metrics: Sequence[str] = ()) -> Pivot:
    """Return a table with one row per system and corpus, like Tables 3 and 10 to 12 of BERGEN.

    There is one column per language and metric. If a grid has no axis ``language``, each dataset
    counts as a language.

    Args:
        table: Results to show.
        metrics: Names of metrics. By default all.

    Raises:
        UnknownNameError: If there is no such metric.

    Example:
        >>> multilingual_table(published(3)).columns[0]
        ('en', 'LLMeval')
    """
    return _pivot(table, (_language(table),), metrics)


def _language(table: ResultTable) -> str:
    return "language" if "language" in table.axes else "dataset"


def _pivot(table: ResultTable, columns: Sequence[str], metrics: Sequence[str]) -> Pivot:
    """Return a pivot table in which some axes become columns, and other varying axes become rows.

    ``columns`` are the names of the axes that become columns.
    """
    across = [axis for axis in columns if axis in table.axes]
    down = [axis for axis in table.differing if axis not in across] if len(table) > 1 else []
    # A table of one cell has no differing axes, but a pivot needs at least one axis for its rows.
    rest = [axis for axis in table.axes if axis not in across]
    return table.pivot(down or rest[:1] or across[:1], across if down or rest else (), metrics)


# Shared checks ------------------------------------------------------------------------------------


def _require_metrics(table: ResultTable, *metrics: str) -> None:
    for metric in metrics:
        if metric not in table.metrics:
            raise UnknownNameError("metric", metric, table.metrics)


def _require_rows(rows: Iterable[Any], table: ResultTable, condition: str) -> list[Any]:
    """Return the rows as a list; if there are none, raise an error that quotes ``condition``."""
    listed = list(rows)
    if not listed:
        raise SettingError(f"the result table {table.name!r} has no cells {condition}")
    return listed
