"""Cells compared with each other on the same queries, with the chance that they are alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.tables import Printed, Rows, Table, frame_of
from mirage.benchmarking import _rendering as rendering
from mirage.benchmarking.cells import Cell, axes_of, differing_axes
from mirage.errors import SettingError, UnknownNameError
from mirage.statistics.bootstrap import Interval
from mirage.statistics.clusters import FEWEST_FOR_MEANS, cluster_codes
from mirage.statistics.paired import PairedMean, paired_means
from mirage.statistics.permutation import holm

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CellComparisons", "CellDifference", "compared"]

Pair = tuple[Cell, Cell]

FIRST = 10_000
"""Permutations after which only those comparisons go on that may be sure."""

SURE = 0.01
"""The p-value up to which a comparison may be sure, corrected for others or not."""

PER_ROW = 40
"""Permutations for each comparison: with fewer, none of many could be called different by Holm."""


class CellDifference(NamedTuple):
    """How much higher one cell is than another by a metric, on the same queries.

    Attributes:
        metric: its name.
        cell: the one.
        baseline: the other.
        difference: of the means over the queries that both are measured on, the one minus the
            other.
        interval: Its lower and upper end, which hold 0 if and only if ``p`` is above 1 minus the
            level; NaN if the two share fewer than ten clusters of queries, or differ on none.
        p: chance of so large a difference, of either sign, if the two cells are alike.
        corrected: the same, corrected for the number of rows (Holm).
        n: the queries.
    """

    metric: str
    cell: Cell
    baseline: Cell
    difference: float
    interval: Interval
    p: float
    corrected: float
    n: int

    @property
    def mark(self) -> str:
        """``***`` where the corrected p is at most 0.001, ``**`` 0.01, ``*`` 0.05; else empty."""
        return "*" * sum(self.corrected <= at for at in (0.05, 0.01, 0.001))


@dataclass(frozen=True, eq=False, repr=False)
class CellComparisons(Printed, Rows[CellDifference]):
    """Cells compared with a baseline, or with each other; iterates over its rows.

    Attributes:
        name: of the experiment.
        level: of the intervals.
        baseline: the settings that all were compared with; empty where it was every pair.
        notes: what was not compared.
    """

    name: str
    level: float = 0.95
    baseline: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"CellComparisons({self.name!r}, {len(self)} comparisons)"

    def to_pandas(self) -> pd.DataFrame:
        """A frame, a row a comparison.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        names = ("metric", "cell", "baseline", "difference", "lower", "upper", "p", "corrected")
        rows = [
            (row.metric, row.cell.name, row.baseline.name, row.difference, *row.interval, *row[5:])
            for row in self
        ]
        return frame_of(rows, [*names, "n"])

    def _tables(self) -> tuple[Table]:
        cells = [cell for row in self for cell in (row.cell, row.baseline)]
        axes = differing_axes(list(dict.fromkeys(cells)), axes_of(cells))
        columns: dict[str, list[str]] = {}
        if len({row.metric for row in self}) > 1:
            columns["metric"] = [row.metric for row in self]
        columns["cell"] = [rendering.named(row.cell, axes) for row in self]
        if not self.baseline:
            columns["minus"] = [rendering.named(row.baseline, axes) for row in self]
        texts = len(columns)
        columns["difference"] = [_difference(row) for row in self]
        columns["p"] = [f"{row.p:.4f}" for row in self]
        columns["Holm"] = [f"{row.corrected:.4f}" for row in self]
        columns[""] = [row.mark for row in self]
        columns["n"] = [str(row.n) for row in self]
        notes = [
            "p: permutations that swap what two cells got for a query; Holm: p corrected for "
            f"{len(self)} comparisons; * 0.05, ** 0.01, *** 0.001 by Holm."
        ]
        if any(not np.isnan(row.interval[0]) for row in self):
            level, alpha = f"{100 * self.level:g} %", f"{1 - self.level:.4g}"
            notes.append(
                f"In brackets: the {level} interval of each difference by itself. It holds 0 if "
                f"and only if p, without Holm's correction, is above {alpha}."
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


def _difference(row: CellDifference) -> str:
    low, high = row.interval
    ends = "" if np.isnan(low) else f" [{low:+.3f}, {high:+.3f}]"
    return f"{row.difference:+.3f}{ends}"


def compared(
    name: str,
    cells: Sequence[Cell],
    metrics: Sequence[str],
    baseline: Mapping[str, str | int] | None,
    *,
    level: float = 0.95,
    permutations: int | None = None,
    seed: int = 0,
) -> CellComparisons:
    """Cells compared with each other; :meth:`ResultTable.compare` says how."""
    if not any(cell.values for cell in cells):
        raise SettingError(
            f"{name} has no numbers of single queries, as published figures have none; without "
            "them cells cannot be compared"
        )
    measured = [cell for cell in cells if cell.values or not cell.failure]
    pairs = list(_pairs(measured, axes_of(cells), baseline))
    if not pairs:
        raise SettingError(
            f"no two cells of {name} can be compared"
            + (f" with the baseline {dict(baseline)}" if baseline else "")
            + ": a pair is on one dataset"
            + (" and alike in every other setting" if baseline else "")
        )
    if permutations is None:
        permutations = max(FIRST, PER_ROW * len(pairs) * len(metrics))
    rows = []
    by_dataset: dict[str, list[Pair]] = {}
    for pair in pairs:
        by_dataset.setdefault(pair[0].settings.get("dataset", ""), []).append(pair)
    for metric in metrics:
        for some in by_dataset.values():
            both = [(a, b) for a, b in some if metric in a.values and metric in b.values]
            gaps, codes = _gaps(both, metric)
            means = _means(gaps, codes, level, permutations, seed)
            rows += [
                CellDifference(metric, a, b, *row[:3], row.p, row.n)
                for (a, b), row in zip(both, means, strict=True)
                if row.n
            ]
    corrected = holm([row.p for row in rows]).tolist()
    notes = []
    if failed := len(cells) - len(measured):
        notes.append(f"{failed} cells failed and are not compared.")
    if unshared := len(pairs) * len(metrics) - len(rows):
        notes.append(f"{unshared} pairs have no query that is measured in both cells.")
    tested = (row._replace(corrected=p) for row, p in zip(rows, corrected, strict=True))
    wanted = {axis: str(value) for axis, value in (baseline or {}).items()}
    return CellComparisons(tuple(tested), name, level, wanted, tuple(notes))


def _means(
    gaps: NDArray[np.float64], codes: NDArray[np.intp], level: float, permutations: int, seed: int
) -> list[PairedMean]:
    """The mean of each column, those that may be sure by all permutations, others by the first.

    The p-value of those is that of the second test alone, and of the others that of the first: none
    is too small more often than its own test makes it.
    """
    first = min(permutations, FIRST)
    means = paired_means(gaps, codes, level=level, permutations=first, seed=seed)
    if permutations > FIRST:
        sure = [i for i, row in enumerate(means) if row.p <= SURE]
        more = paired_means(gaps[:, sure], codes, level=level, permutations=permutations, seed=seed)
        for i, row in zip(sure, more, strict=True):
            means[i] = row
    return means


def _pairs(
    cells: Sequence[Cell], axes: Sequence[str], baseline: Mapping[str, str | int] | None
) -> Iterator[Pair]:
    """Which cells are compared, the baseline second."""
    if not baseline:
        for a, b in combinations(cells, 2):
            if a.settings.get("dataset") == b.settings.get("dataset"):
                yield a, b
        return
    wanted = {axis: str(value) for axis, value in baseline.items()}
    for axis in wanted:
        if axis not in axes:
            raise UnknownNameError("axis", axis, axes)
    bases = [cell for cell in cells if _agrees(cell, wanted)]
    for cell in cells:
        others = {axis: cell.settings.get(axis, "") for axis in axes if axis not in wanted}
        alike = (base for base in bases if _agrees(base, others, lacking=True))
        base = None if cell in bases else next(alike, None)
        if base is not None:
            yield cell, base


def _agrees(cell: Cell, settings: Mapping[str, str], *, lacking: bool = False) -> bool:
    """Whether a cell has these settings; ``lacking`` ones do as well, such as closed book's."""
    values = ((cell.settings.get(axis, ""), value) for axis, value in settings.items())
    return all(own == value or (lacking and not own) for own, value in values)


def _gaps(pairs: Sequence[Pair], metric: str) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """The differences of each pair, ``(queries, pairs)``, NaN where one has no number; clusters."""
    cells = {id(cell): cell for pair in pairs for cell in pair}
    clusters = {id_: name for cell in cells.values() for id_, name in cell.clusters.items()}
    ids = tuple(dict.fromkeys(id_ for cell in cells.values() for id_ in cell.query_ids))
    row = {id_: i for i, id_ in enumerate(ids)}
    columns = {}
    for key, cell in cells.items():
        columns[key] = np.full(len(ids), np.nan)
        columns[key][[row[id_] for id_ in cell.query_ids]] = cell.values[metric]
    gaps = [columns[id(a)] - columns[id(b)] for a, b in pairs]
    stacked = np.stack(gaps, axis=1) if gaps else np.empty((len(ids), 0))
    return stacked, cluster_codes(ids, clusters)
