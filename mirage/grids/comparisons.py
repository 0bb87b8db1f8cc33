"""Comparisons of cells on the same queries, with confidence intervals and p-values.

A cell holds the results of one RAG pipeline on one dataset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, combinations
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mirage._base.tables import Printed, Rows, Table, frame_of
from mirage.errors import SettingError, UnknownNameError
from mirage.grids import _rendering as rendering
from mirage.grids._metrics import is_of_ranking
from mirage.grids.cells import Cell, axes_of, common_bounds, differing_axes, is_unfinished
from mirage.statistics.clusters import FEWEST_FOR_MEANS, cluster_codes
from mirage.statistics.differences import CorrectedDifference
from mirage.statistics.paired import PairedDifference, paired_means
from mirage.statistics.permutation import holm

if TYPE_CHECKING:
    import pandas as pd

Pair = tuple[Cell, Cell]

Correction = Literal["holm", "bh"]
"""A correction of p-values for multiple tests.

``"holm"`` limits the probability of at least one false positive. ``"bh"`` (Benjamini & Hochberg
1995, Journal of the Royal Statistical Society B 57, 289-300) limits the expected share of false
positives among the significant rows, and has more power in a large grid.
"""

FIRST_PERMUTATIONS = 10_000
"""The maximum number of permutations in the first test of each comparison.

Comparisons that may be significant are tested again with more permutations.
"""

RETEST_AT = 0.01
"""The largest uncorrected p-value at which a comparison is tested again with more permutations."""

PER_COMPARISON = 40
"""The default number of permutations is at least this number times the number of comparisons.

With fewer permutations, no p-value could be small enough to be significant after Holm's correction
for many comparisons.
"""


BEST_PERMUTATIONS = 2_000
"""The minimum number of permutations of the tests that mark the best cells of a table."""

ALPHA = 0.05
"""The significance level of the tests that mark the best cells of a table."""


_AFTER_RANKING = ("processor", "generator", "prompt", "show_k")
"""The axes of the steps after the ranking, on which retrieval measures do not depend."""

_CORRECTIONS = {
    "holm": ("Holm", ""),
    "bh": ("BH", " by Benjamini and Hochberg, which limits the share of false positives"),
}
"""For each correction, the heading of its column and an addition to the note below the table."""


@dataclass(frozen=True, kw_only=True)
class CellDifference(CorrectedDifference):
    """The difference between the means of two cells on one metric, ``cell`` minus ``baseline``.

    Both means are over the same ``n`` queries, on which both cells have a value. The interval
    contains 0 if and only if ``p`` is above 1 minus the confidence level. The interval is NaN if
    there are fewer than ten clusters of queries, or if the cells have equal values on every query.

    Attributes:
        metric: The name of the metric.
        cell: The cell that is compared.
        baseline: The cell with which it is compared.
        n: The number of queries on which both cells have a value.
    """

    metric: str
    cell: Cell
    baseline: Cell
    n: int


@dataclass(frozen=True, eq=False, repr=False)
class CellComparisons(Printed, Rows[CellDifference]):
    """Comparisons of cells with a baseline, or of all pairs of cells.

    Iterating yields one :class:`CellDifference` per pair of cells and metric.

    Attributes:
        name: The name of the experiment.
        level: The confidence level of the intervals.
        baseline: The settings of the baseline; empty if all pairs were compared.
        notes: Lines below the table about cells and pairs that were not compared.
        correction: The method that corrects the p-values for the number of rows: ``"holm"`` or
            ``"bh"`` (Benjamini and Hochberg).
    """

    name: str
    level: float = 0.95
    baseline: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    correction: Correction = "holm"

    def __repr__(self) -> str:
        return f"CellComparisons({self.name!r}, {len(self)} comparisons)"

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with one row per comparison of two cells on one metric.

        The columns are metric, cell, baseline, difference, lower, upper, p, corrected (p-value
        corrected for the number of rows) and n (number of queries).
        """
        names = ("metric", "cell", "baseline", "difference", "lower", "upper", "p", "corrected")
        rows = [
            (
                row.metric,
                row.cell.name,
                row.baseline.name,
                row.difference,
                *row.interval,
                row.p,
                row.corrected,
                row.n,
            )
            for row in self
        ]
        return frame_of(rows, [*names, "n"])

    def _tables(self) -> tuple[Table]:
        cells = [cell for row in self for cell in (row.cell, row.baseline)]
        axes = differing_axes(list(dict.fromkeys(cells)), axes_of(cells))
        columns: dict[str, list[str]] = {}
        if len({row.metric for row in self}) > 1:
            columns["metric"] = [row.metric for row in self]
        columns["cell"] = [rendering.settings_line(row.cell, axes) for row in self]
        if not self.baseline:
            columns["minus"] = [rendering.settings_line(row.baseline, axes) for row in self]
        texts = len(columns)
        columns["difference"] = [" ".join(filter(None, row.cells)) for row in self]
        columns["p"] = [f"{row.p:.4f}" for row in self]
        by, meaning = _CORRECTIONS[self.correction]
        columns[by] = [f"{row.corrected:.4f}" for row in self]
        columns[""] = [row.mark for row in self]
        columns["n"] = [str(row.n) for row in self]
        notes = [
            "p: permutation test that swaps the values of two cells on a query. If rare large "
            "differences, which these queries may lack, could outweigh the difference, p is larger "
            f"(needs a metric with a known range). {by}: p-value "
            f"corrected for {len(self)} comparisons{meaning}; * 0.05, ** 0.01, *** 0.001 by {by}."
        ]
        if any(not np.isnan(row.interval[0]) for row in self):
            level, alpha = f"{100 * self.level:g} %", f"{1 - self.level:.4g}"
            notes.append(
                f"In brackets: the {level} interval of each difference by itself. It contains 0 "
                f"if and only if p, without the correction by {by}, is above {alpha}."
            )
        if any(np.isnan(row.interval[0]) for row in self):
            notes.append(
                f"No interval: fewer than {FEWEST_FOR_MEANS} clusters of queries, or no difference."
            )
        of = "" if "metric" in columns or not cells else f" of {self.rows[0].metric}"
        base = ", ".join(f"{axis}: {value}" for axis, value in self.baseline.items())
        table = Table(
            f"{self.name}: differences{of}" + (f" from {base}" if base else ""),
            tuple(columns),
            tuple(zip(*columns.values(), strict=True)),
            notes=(*notes, *self.notes),
            name=texts - 1,
            texts=tuple(range(texts - 1)),
        )
        return (table.filled(),)


def compare_cells(
    name: str,
    cells: Sequence[Cell],
    metrics: Sequence[str],
    baseline: Mapping[str, str | int] | None,
    *,
    level: float = 0.95,
    correction: Correction = "holm",
    permutations: int | None = None,
    seed: int = 0,
) -> CellComparisons:
    """Return the differences between cells on each metric; see :meth:`ResultTable.compare`.

    Args:
        name: The name of the experiment.
        cells: The cells. Cells that failed are not compared.
        metrics: The names of the metrics.
        baseline: Settings of the baseline by axis; ``None`` compares all pairs of cells on the same
            dataset.
        level: Confidence level of the intervals.
        correction: How p-values are corrected for the number of rows: ``"holm"`` or ``"bh"``.
        permutations: Number of random permutations; by default 10,000, or more for long tables.
        seed: Random seed of the permutations.

    Raises:
        SettingError: If no two cells can be compared, or the correction is unknown.
    """
    if correction not in get_args(Correction):
        raise SettingError(f"correction must be 'holm' or 'bh', got {correction!r}")
    if not any(cell.values for cell in cells):
        raise SettingError(
            f"{name}: no cell has values per query, which a comparison needs; run the grid "
            "(published figures cannot be compared)"
        )
    measured = [cell for cell in cells if cell.values or not cell.failure]
    pairs = list(_pairs(measured, axes_of(cells), baseline))
    if not pairs:
        raise SettingError(
            f"no two cells of {name} can be compared"
            + (f" with the baseline {dict(baseline)}" if baseline else "")
            + ": compared cells must have the same dataset"
            + (" and the same other settings" if baseline else "")
        )
    if permutations is None:
        permutations = max(FIRST_PERMUTATIONS, PER_COMPARISON * len(pairs) * len(metrics))
    rows: list[CellDifference] = []
    repeated = 0
    by_dataset: dict[str, list[Pair]] = {}
    for pair in pairs:
        by_dataset.setdefault(pair[0].settings.get("dataset", ""), []).append(pair)
    for metric in metrics:
        # Pairs of one dataset share queries, so one set of permutations serves all of them.
        for dataset_pairs in by_dataset.values():
            both = [(a, b) for a, b in dataset_pairs if metric in a.values and metric in b.values]
            distinct = _distinct_pairs(both, metric)
            repeated += len(both) - len(distinct)
            both = distinct
            gaps, codes = _differences(both, metric)
            low, high = common_bounds([cell for pair in both for cell in pair], metric)
            means = _test_differences(gaps, codes, high - low, level, permutations, seed)
            rows += [
                CellDifference(metric=metric, cell=a, baseline=b, corrected=row.p, **asdict(row))
                for (a, b), row in zip(both, means, strict=True)
                if row.n
            ]
    # All metrics and datasets are corrected together, because they are read as one table.
    p_values = [row.p for row in rows]
    corrected = _false_discoveries(p_values) if correction == "bh" else holm(p_values).tolist()
    notes = []
    unfinished = sum(map(is_unfinished, cells)) - sum(map(is_unfinished, measured))
    if failed := len(cells) - len(measured) - unfinished:
        notes.append(f"{failed} cells failed and are not compared.")
    if unfinished:
        notes.append(f"{unfinished} cells have not run yet and are not compared.")
    if repeated:
        axes = f"{', '.join(_AFTER_RANKING[:-1])} and {_AFTER_RANKING[-1]}"
        notes.append(
            f"{repeated} pairs on retrieval metrics repeat another pair or have the same retrieval "
            f"results in both cells, and are left out: these metrics do not depend on {axes}."
        )
    if unshared := len(pairs) * len(metrics) - len(rows) - repeated:
        notes.append(f"{unshared} pairs have no query with a value in both cells.")
    notes.extend(_range_notes(rows))
    tested = (replace(row, corrected=p) for row, p in zip(rows, corrected, strict=True))
    baseline_settings = {axis: str(value) for axis, value in (baseline or {}).items()}
    return CellComparisons(tuple(tested), name, level, baseline_settings, tuple(notes), correction)


def _distinct_pairs(pairs: Sequence[Pair], metric: str) -> list[Pair]:
    """Return the pairs of cells to compare on a metric, without copies of the same comparison.

    A retrieval measure has the same values in all cells with the same ranking, such as cells that
    differ only in their generator. Copies would make a correction for multiple tests too strict.
    """
    if not is_of_ranking(metric):
        return list(pairs)
    ranking = _rankings([cell for pair in pairs for cell in pair], metric)
    distinct: dict[frozenset[int], Pair] = {}
    for a, b in pairs:
        key = frozenset((ranking[id(a)], ranking[id(b)]))
        if len(key) > 1:
            distinct.setdefault(key, (a, b))
    return list(distinct.values())


def _rankings(cells: Sequence[Cell], metric: str) -> dict[int, int]:
    """Return a number for each cell, by its ``id()``; cells with the same ranking share a number.

    The number is the ``id()`` of the first cell with this ranking. Cells have the same ranking if
    all their settings up to the ranking, their queries and their values are the same.
    """
    first: dict[tuple[object, ...], int] = {}
    numbers = {}
    for cell in cells:
        settings = {a: value for a, value in cell.settings.items() if a not in _AFTER_RANKING}
        key = (*sorted(settings.items()), cell.query_ids, cell.values[metric].tobytes())
        numbers[id(cell)] = first.setdefault(key, id(cell))
    return numbers


def _false_discoveries(p_values: list[float]) -> list[float]:
    from scipy.stats import false_discovery_control

    corrected: list[float] = false_discovery_control(p_values).tolist() if p_values else []
    return corrected


def best_cells(cells: Sequence[Cell], metric: str, *, higher: bool = True) -> set[int]:
    """Return the positions in ``cells`` of the best cells of each dataset on one metric.

    The best cells are the cell with the best mean, and all cells that are not significantly
    different from it. The test is a paired permutation test at the significance level 0.05, with
    Holm's correction for the number of comparisons on the dataset. Cells with the same ranking
    count once on a retrieval measure. Cells with the retriever ``oracle`` are left out, because it
    reads the qrels. A dataset with a single cell has no best cell.

    Args:
        cells: The cells, of any number of datasets.
        metric: The name of a metric. Cells without values per query are left out.
        higher: Whether higher values are better.
    """
    by_dataset: dict[str, list[int]] = {}
    for i, cell in enumerate(cells):
        has_values = metric in cell.values and not np.isnan(cell.scores[metric].mean)
        if has_values and cell.settings.get("retriever") != "oracle":
            by_dataset.setdefault(cell.settings.get("dataset", ""), []).append(i)
    best: set[int] = set()
    for positions in by_dataset.values():
        if len(positions) < 2:
            continue
        sign = 1 if higher else -1
        copies = _copies(cells, positions, metric)
        top = max(copies, key=lambda i: sign * cells[i].scores[metric].mean)
        others = [i for i in copies if i != top]
        gaps, codes = _differences([(cells[i], cells[top]) for i in others], metric)
        permutations = max(BEST_PERMUTATIONS, PER_COMPARISON * len(others))
        low, high = common_bounds([cells[i] for i in positions], metric)
        tests = _test_differences(gaps, codes, high - low, 1 - ALPHA, permutations, seed=0)
        corrected = holm([test.p for test in tests]).tolist()
        pairs = zip(others, tests, corrected, strict=True)
        distinct = [top, *(i for i, test, p in pairs if test.n and p > ALPHA)]
        best.update(chain.from_iterable(copies[i] for i in distinct))
    return best


def _copies(cells: Sequence[Cell], positions: Sequence[int], metric: str) -> dict[int, list[int]]:
    """Group the positions of cells by the first cell with the same ranking.

    If the metric is no retrieval measure, each cell is a group.
    """
    if not is_of_ranking(metric):
        return {i: [i] for i in positions}
    numbers = _rankings([cells[i] for i in positions], metric)
    first = {id(cells[i]): i for i in positions}
    groups: dict[int, list[int]] = {}
    for i in positions:
        groups.setdefault(first[numbers[id(cells[i])]], []).append(i)
    return groups


def _range_notes(rows: Sequence[CellDifference]) -> Iterator[str]:
    """Yield notes on metrics whose range is assumed or not known."""
    cells: dict[str, list[Cell]] = {}
    for row in rows:
        cells.setdefault(row.metric, []).extend((row.cell, row.baseline))
    undeclared = {
        metric: common_bounds(compared, metric)
        for metric, compared in cells.items()
        if not all(metric in cell.bounds for cell in compared)
    }
    if assumed := [metric for metric, ends in undeclared.items() if np.isfinite(ends).all()]:
        yield f"Assumed range of 0 to 1: {', '.join(assumed)}."
    if unknown := [metric for metric in undeclared if metric not in assumed]:
        yield (
            f"No range is known for {', '.join(unknown)}: p and intervals assume that these "
            "queries contain the rare large differences, such as complete failures of one cell."
        )


def _test_differences(
    gaps: NDArray[np.float64],
    codes: NDArray[np.intp],
    most: float,
    level: float,
    permutations: int,
    seed: int,
) -> list[PairedDifference]:
    """Return the mean difference of each pair of cells, with its interval and p-value.

    All pairs are first tested with at most :data:`FIRST_PERMUTATIONS` permutations. If
    ``permutations`` is larger, pairs with a p-value of at most :data:`RETEST_AT` are tested again
    with all permutations, and get the result of the second test. Each of the two tests is valid by
    itself.

    Args:
        gaps: The differences between two cells, of shape ``(queries, pairs)``; NaN if a cell has no
            value.
        codes: The cluster of each query, counted from 0.
        most: The largest possible difference; infinite if it is not known.
        level: Confidence level of the intervals.
        permutations: The maximum number of permutations.
        seed: Random seed.
    """
    first = min(permutations, FIRST_PERMUTATIONS)
    means = paired_means(gaps, codes, most=most, level=level, permutations=first, seed=seed)
    if permutations > FIRST_PERMUTATIONS:
        promising = [i for i, row in enumerate(means) if row.p <= RETEST_AT]
        retested = paired_means(
            gaps[:, promising],
            codes,
            most=most,
            level=level,
            permutations=permutations,
            seed=seed,
        )
        for i, row in zip(promising, retested, strict=True):
            means[i] = row
    return means


def _pairs(
    cells: Sequence[Cell], axes: Sequence[str], baseline: Mapping[str, str | int] | None
) -> Iterator[Pair]:
    """Yield the pairs of cells to compare.

    Without a baseline, these are all pairs of cells on the same dataset. With a baseline, the
    second cell of each pair has the settings of the baseline, and its other settings are those of
    the first cell.
    """
    if not baseline:
        for a, b in combinations(cells, 2):
            if a.settings.get("dataset") == b.settings.get("dataset"):
                yield a, b
        return
    baseline_settings = {axis: str(value) for axis, value in baseline.items()}
    for axis in baseline_settings:
        if axis not in axes:
            raise UnknownNameError("axis", axis, axes)
    baselines = [cell for cell in cells if _has_settings(cell, baseline_settings)]
    for cell in cells:
        other_settings = {
            axis: cell.settings.get(axis, "") for axis in axes if axis not in baseline_settings
        }
        candidates = (
            base for base in baselines if _has_settings(base, other_settings, allow_unused=True)
        )
        base = None if cell in baselines else next(candidates, None)
        if base is not None:
            yield cell, base


def _has_settings(cell: Cell, settings: Mapping[str, str], *, allow_unused: bool = False) -> bool:
    """Return whether a cell has these settings.

    With ``allow_unused``, any setting is accepted on axes that the cell does not use. For example,
    a closed-book cell (without retrieval) has no reranker and no number of passages.
    """
    unused = _unused_axes(cell) if allow_unused else ()
    values = ((axis, cell.settings.get(axis, ""), value) for axis, value in settings.items())
    return all(setting == value or axis in unused for axis, setting, value in values)


def _unused_axes(cell: Cell) -> set[str]:
    """Return the axes on which a cell has no setting, or only ``none`` because of another axis."""
    unused = {axis for axis, setting in cell.settings.items() if not setting}
    if cell.settings.get("retriever") == "none":
        unused |= {"corpus", "reranker", "processor", "show_k"}
    if cell.settings.get("generator") == "none":
        unused |= {"processor", "prompt", "show_k"}
    return unused


def _differences(
    pairs: Sequence[Pair], metric: str
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the differences between the two cells of each pair, and the cluster of each query.

    The differences (first cell minus second) have the shape ``(queries, pairs)``. A difference is
    NaN if one of the two cells has no value for the query. Clusters are numbered from 0.
    """
    cells = {id(cell): cell for pair in pairs for cell in pair}
    clusters = {id_: name for cell in cells.values() for id_, name in cell.clusters.items()}
    ids = tuple(dict.fromkeys(id_ for cell in cells.values() for id_ in cell.query_ids))
    row = {id_: i for i, id_ in enumerate(ids)}
    # Cells may list queries in different orders, so values are aligned by query id.
    columns = {}
    for key, cell in cells.items():
        columns[key] = np.full(len(ids), np.nan)
        columns[key][[row[id_] for id_ in cell.query_ids]] = cell.values[metric]
    gaps = [columns[id(a)] - columns[id(b)] for a, b in pairs]
    stacked = np.stack(gaps, axis=1) if gaps else np.empty((len(ids), 0))
    return stacked, cluster_codes(ids, clusters)
