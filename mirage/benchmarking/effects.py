"""What each component of a pipeline contributes: the variance of cells' means, by axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mirage._base.arrays import Floats
from mirage._base.tables import Printed, Rows, Table, frame_of
from mirage.benchmarking.cells import Cell
from mirage.benchmarking.tables import ResultTable
from mirage.errors import SettingError, UnknownNameError
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, check_level, draw_queries
from mirage.statistics.clusters import FEWEST_FOR_MEANS, SmallSample, small_sample

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AxisEffect", "ComponentEffects", "SettingMean", "component_effects"]

INTERACTIONS = "interactions"
"""What stands for an axis where settings do more, or less, together than alone."""

GRID = np.linspace(0, 1, 201)
"""The shares that an interval is looked for among."""

MOST_AXES = 10


class AxisEffect(NamedTuple):
    """How much one axis contributes.

    Attributes:
        axis: its name, or ``interactions``.
        share: of the variance of cells' means, 0 to 1; NaN where these do not differ by more than
            queries do by chance.
        interval: its lower and upper end; NaN with fewer than ten clusters of queries, and of
            published figures.
    """

    axis: str
    share: float
    interval: Interval


class SettingMean(NamedTuple):
    """The mean of one setting.

    Attributes:
        axis: its name.
        setting: its value.
        mean: of the metric, as if every setting of each other axis went with it, equally often.
        interval: its lower and upper end; NaN with fewer than ten clusters of queries, and of
            published figures.
        cells: that have the setting.
    """

    axis: str
    setting: str
    mean: float
    interval: Interval
    cells: int


@dataclass(frozen=True, eq=False, repr=False)
class ComponentEffects(Printed, Rows[AxisEffect]):
    """What each axis contributes; iterates over :class:`AxisEffect` rows, interactions last.

    Attributes:
        metric: its name.
        settings: the mean of each setting of each axis.
        level: of the intervals.
        notes: what a reader should know.
    """

    metric: str
    settings: tuple[SettingMean, ...]
    level: float = 0.95
    notes: tuple[str, ...] = ()

    def __getitem__(self, axis: str) -> AxisEffect:
        """The row of one axis."""
        for row in self:
            if row.axis == axis:
                return row
        raise UnknownNameError("axis", axis, [row.axis for row in self])

    def __repr__(self) -> str:
        shares = ", ".join(f"{row.axis}={row.share:.2f}" for row in self)
        return f"ComponentEffects({self.metric!r}, {shares})"

    def to_pandas(self) -> pd.DataFrame:
        """A frame of the shares, a row an axis; ``settings`` has the means.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        rows = [(row.axis, row.share, *row.interval) for row in self]
        return frame_of(rows, ["axis", "share", "lower", "upper"])

    def _tables(self) -> tuple[Table, Table]:
        ends = f"{100 * self.level:g} % interval"
        shares = Table(
            f"Share of the variance of {self.metric} between cells",
            ("axis", "share", ends),
            tuple((row.axis, *_cells(row.share, row.interval)) for row in self),
            notes=self.notes,
            name=0,
        )
        means = Table(
            f"{self.metric} by setting, all else alike",
            ("axis", "setting", "mean", ends, "cells"),
            tuple(
                (row.axis, row.setting, *_cells(row.mean, row.interval), str(row.cells))
                for row in self.settings
            ),
            name=1,
            texts=(0,),
        )
        return shares.filled(), means.filled()


def _cells(value: float, ends: Interval) -> tuple[str, str]:
    low, high = ends
    shown = "-" if math.isnan(value) else f"{value:.3f}"
    return shown, "" if math.isnan(low) else f"[{low:.3f}, {high:.3f}]"


def component_effects(
    table: ResultTable,
    metric: str,
    *,
    axes: Sequence[str] | None = None,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> ComponentEffects:
    """What retriever, reranker, generator, prompt and every other axis contribute to a metric.

    The variance of the cells' means is parted among the axes: an axis has the sum of squares that
    it adds to a model of main effects, mean over the orders in which axes can be added (Lindeman,
    Merenda & Gold 1980, Introduction to Bivariate and Multivariate Analysis; Groemping 2007,
    Estimators of Relative Importance in Linear Regression Based on Variance Decomposition,
    American Statistician 61, 139-147). In a full grid this is the main effect of the analysis of
    variance, and of the functional one (Hutter, Hoos & Leyton-Brown 2014, An Efficient Approach for
    Assessing Hyperparameter Importance, ICML). The rest are interactions. What cells differ by
    because queries are few is subtracted, as in Hays' omega squared.

    Clusters of queries are drawn with replacement, the same for all cells. A share is in the
    interval if, by the draws, the axis's sum of squares less that share of the whole can be 0
    (Fieller 1954, Journal of the Royal Statistical Society B 16, 175-185). The mean of a setting is
    that of the model of main effects over all combinations (least-squares mean; Searle, Speed &
    Milliken 1980, American Statistician 34, 216-221), with Student's t interval between clusters.
    ``benchmarks/grids.py`` prints how often both hold.

    Args:
        table: the cells; choose one dataset with ``where`` to leave the differences of datasets
            out. Cells that failed are left out.
        metric: its name.
        axes: what may contribute; by default all by which cells differ. Others count as
            interactions. A cell that lacks a setting counts for none of the axis.
        draws: how many.
        level: share of the intervals that hold the truth.
        seed: of the draws.

    Raises:
        UnknownNameError: there is no such metric or axis.
        SettingError: no two cells are measured that differ by an axis.
    """
    check_level(level)
    if draws < 1:
        raise SettingError(f"intervals take 1 draw or more, not {draws}")
    if metric not in table.metrics:
        raise UnknownNameError("metric", metric, table.metrics)
    for axis in axes or ():
        table.values_of(axis)
    known = [c for c in table if metric in c.scores and not math.isnan(c.scores[metric].mean)]
    differing = [axis for axis in axes or table.axes if len(_values(known, axis)) > 1]
    if not differing:
        raise SettingError(f"{table.name} has no two cells with {metric} that differ by an axis")
    if len(differing) > MOST_AXES:
        raise SettingError(
            f"{len(differing)} axes are too many, {MOST_AXES} at most: name some by axes="
        )
    design = _Design(known, differing)
    means = np.array([cell.scores[metric].mean for cell in known])
    noise = _Noise.of(known, metric)
    shares = _shares(design, means, noise, draws, level, seed)
    rows = [AxisEffect(axis, *share) for axis, share in zip(design.names, shares, strict=True)]
    settings = design.marginals(means, noise, level)
    return ComponentEffects(
        tuple(rows), metric, settings, level, tuple(_notes(table, known, noise, rows))
    )


def _notes(
    table: ResultTable, known: Sequence[Cell], noise: _Noise | None, rows: Sequence[AxisEffect]
) -> list[str]:
    notes = [f"{len(known)} cells."]
    if len(known) < len(table):
        notes = [f"{len(known)} of {len(table)} cells; the others have no number."]
    if noise is None:
        notes.append("Published figures: no intervals, and chance is not subtracted.")
    elif not noise.enough:
        notes.append(f"{noise.clusters} clusters of queries are too few for intervals.")
    if any(math.isnan(row.share) for row in rows):
        notes.append("The cells do not differ by more than queries do by chance.")
    return notes


# Which cell has which settings --------------------------------------------------------------------


class _Design:
    """The axes of some cells as columns of 0 and 1.

    A cell that lacks a setting, as closed book lacks a number of passages, has an equal part of
    each: it is no setting of its own that could be taken for what the retriever does.
    """

    def __init__(self, cells: Sequence[Cell], axes: Sequence[str]) -> None:
        self.axes = tuple(axes)
        self.settings = {axis: _values(cells, axis) for axis in axes}
        self.columns = {
            axis: np.array([_parts(cell.settings.get(axis, ""), values) for cell in cells])
            for axis, values in self.settings.items()
        }
        self.size = len(cells)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.axes, INTERACTIONS)

    def matrix(self, axes: Sequence[str]) -> Floats:
        """A column of ones, and those of some axes."""
        return np.hstack([np.ones((self.size, 1)), *(self.columns[axis] for axis in axes)])

    def forms(self) -> list[Floats]:
        """For each axis, and for interactions, the matrix ``Q`` of its sum of squares ``y'Qy``."""
        count = len(self.axes)
        forms = {axis: np.zeros((self.size, self.size)) for axis in self.axes}
        whole = np.zeros((self.size, self.size))
        for size in range(count + 1):
            for some in combinations(self.axes, size):
                whole = _projection(self.matrix(some))
                for axis in self.axes:
                    # The share of the orders in which the axis comes right after these, or is the
                    # last of them.
                    before = size - 1 if axis in some else size
                    if 0 <= before < count:
                        weight = 1 / (count * math.comb(count - 1, before))
                        forms[axis] += weight * whole if axis in some else -weight * whole
        return [*forms.values(), np.eye(self.size) - whole]

    def marginals(
        self, means: Floats, noise: _Noise | None, level: float
    ) -> tuple[SettingMean, ...]:
        """The mean of each setting by a model of main effects; NaN where the cells do not say."""
        X = self.matrix(self.axes)
        inverse = np.linalg.pinv(X)
        rows = []
        for axis in self.axes:
            for place, value in enumerate(self.settings[axis]):
                wanted = [np.ones(1)]
                for other in self.axes:
                    size = len(self.settings[other])
                    even = np.full(size, 1 / size)
                    wanted.append(np.eye(size)[place] if other == axis else even)
                weights = np.concatenate(wanted) @ inverse
                count = int((self.columns[axis][:, place] == 1).sum())
                if np.allclose(weights @ X, np.concatenate(wanted), atol=1e-8):
                    mean = float(weights @ means)
                    ends = NO_INTERVAL if noise is None else noise.around(mean, weights, level)
                    rows.append(SettingMean(axis, value, mean, ends, count))
                else:
                    rows.append(SettingMean(axis, value, math.nan, NO_INTERVAL, count))
        return tuple(rows)


def _values(cells: Sequence[Cell], axis: str) -> tuple[str, ...]:
    """The settings of an axis, without that of cells that lack one."""
    return tuple(dict.fromkeys(cell.settings[axis] for cell in cells if cell.settings.get(axis)))


def _parts(setting: str, values: Sequence[str]) -> list[float]:
    return [float(setting == value) if setting else 1 / len(values) for value in values]


def _projection(X: Floats) -> Floats:
    """Onto the space of the columns, whatever their rank."""
    base, size, _ = np.linalg.svd(X, full_matrices=False)
    base = base[:, size > 1e-9 * size[0]]
    return np.asarray(base @ base.T)


# What is chance -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Noise:
    """How much queries move the means of cells.

    Attributes:
        sums: of the values of each cluster's queries, ``(clusters, cells)``.
        counts: of those queries, likewise.
        correction: for few clusters.
    """

    sums: Floats
    counts: Floats
    correction: SmallSample

    @classmethod
    def of(cls, cells: Sequence[Cell], metric: str) -> _Noise | None:
        """None where a cell has no numbers of single queries.

        Queries of different datasets hang together only where they have a cluster's name.
        """
        if not all(metric in cell.values for cell in cells):
            return None
        places: dict[tuple[str, ...], int] = {}
        queries: list[set[tuple[str, str]]] = []
        entries = []
        for column, cell in enumerate(cells):
            dataset = cell.settings.get("dataset", "")
            for id_, value in zip(cell.query_ids, cell.values[metric].tolist(), strict=True):
                if not math.isnan(value):
                    own = cell.clusters.get(id_)
                    key = (own,) if own is not None else (dataset, id_)
                    row = places.setdefault(key, len(places))
                    if row == len(queries):
                        queries.append(set())
                    queries[row].add((dataset, id_))
                    entries.append((row, column, value))
        sums, counts = np.zeros((2, len(places), len(cells)))
        rows, columns, values = (np.array(part) for part in zip(*entries, strict=True))
        np.add.at(sums, (rows, columns), values)
        np.add.at(counts, (rows, columns), 1.0)
        return cls(sums, counts, small_sample([len(some) for some in queries]))

    @property
    def clusters(self) -> int:
        return len(self.sums)

    @property
    def enough(self) -> bool:
        return self.clusters >= FEWEST_FOR_MEANS

    @property
    def residuals(self) -> Floats:
        """What each cluster adds to the error of each mean, ``(clusters, cells)``."""
        total = self.counts.sum(axis=0)
        means = self.sums.sum(axis=0) / total
        return np.asarray((self.sums - self.counts * means) / total)

    @property
    def covariance(self) -> Floats:
        """Of the means of cells."""
        residuals = self.residuals
        return np.asarray(residuals.T @ (self.correction.factors[:, None] * residuals))

    def around(self, mean: float, weights: Floats, level: float) -> Interval:
        """Student's t interval of a weighted sum of means."""
        if not self.enough:
            return NO_INTERVAL
        variance = float(self.correction.factors @ (self.residuals @ weights) ** 2)
        reach = self._reach(level) * math.sqrt(variance)
        return (mean - reach, mean + reach) if reach > 0 else NO_INTERVAL

    def drawn(self, draws: int, level: float, seed: int) -> Floats:
        """Means of the cells when clusters are drawn, ``(draws, cells)``, less their own mean.

        They are as far apart as Student's t says that percentiles have to be.
        """
        from scipy.special import ndtri

        counts = draw_queries(self.clusters, self.clusters, draws, seed=seed).astype(np.float64)
        total = counts @ self.counts
        means = np.where(total > 0, counts @ self.sums / np.maximum(total, 1e-12), np.nan)
        about = np.nan_to_num(means - np.nanmean(means, axis=0))
        scale = math.sqrt(float(np.mean(self.correction.factors)))
        return np.asarray(about * scale * self._reach(level) / float(ndtri((1 + level) / 2)))

    def _reach(self, level: float) -> float:
        from scipy.special import stdtrit

        return float(stdtrit(max(self.correction.degrees, 1.0), (1 + level) / 2))


# Shares -------------------------------------------------------------------------------------------


def _shares(
    design: _Design,
    means: Floats,
    noise: _Noise | None,
    draws: int,
    level: float,
    seed: int,
) -> list[tuple[float, Interval]]:
    """The share of each axis, and of interactions, with its interval."""
    forms = design.forms()
    centre = means - means.mean()
    covariance = np.zeros((len(means),) * 2) if noise is None else noise.covariance
    squares = np.array([centre @ form @ centre for form in forms])
    chance = np.array([np.sum(form * covariance) for form in forms])
    whole = float((squares - chance).sum())
    if not whole > 1e-12:
        return [(math.nan, NO_INTERVAL)] * len(forms)
    shares = np.clip((squares - chance) / whole, 0, 1).tolist()
    if noise is None or not noise.enough:
        return [(share, NO_INTERVAL) for share in shares]
    apart = noise.drawn(draws, level, seed)
    spread = float(np.mean(np.square(apart).sum(axis=1)) / max(np.trace(covariance), 1e-300))
    drawn = np.stack([_squares(centre + apart, form) for form in forms], axis=1)
    total = drawn.sum(axis=1)
    return [
        (share, _interval(drawn[:, i], total, chance[i], float(chance.sum()), spread, level))
        for i, share in enumerate(shares)
    ]


def _squares(means: Floats, form: Floats) -> Floats:
    return np.asarray(((means @ form) * means).sum(axis=1))


def _interval(
    own: Floats, total: Floats, chance: float, all_chance: float, spread: float, level: float
) -> Interval:
    """The shares that can be the true one: where its sum of squares less that share can be 0.

    Draws exceed the truth by what is chance in the means, and by as much again in the draws; both
    are subtracted for the one end and neither for the other, whichever makes it wider.
    """
    tails = [(1 - level) / 2, (1 + level) / 2]
    gaps = own[:, None] - GRID * total[:, None]
    bias = (1 + spread) * (chance - GRID * all_chance)
    low, high = np.quantile(gaps, tails, axis=0)
    held = GRID[(np.minimum(low, low - bias) <= 0) & (np.maximum(high, high - bias) >= 0)]
    if not len(held):
        return NO_INTERVAL
    step = GRID[1] / 2
    return max(float(held[0]) - step, 0.0), min(float(held[-1]) + step, 1.0)
