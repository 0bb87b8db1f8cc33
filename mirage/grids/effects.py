"""The contribution of each component of a pipeline to a metric, as shares of the variance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mirage._base.arrays import Floats
from mirage._base.tables import Printed, Rows, Table, frame_of
from mirage.errors import SettingError, UnknownNameError
from mirage.grids.cells import Cell, common_bounds
from mirage.grids.tables import ResultTable
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, check_level, draw_queries
from mirage.statistics.clusters import FEWEST_FOR_MEANS, SmallSample, small_sample

if TYPE_CHECKING:
    import pandas as pd

INTERACTIONS = "interactions"
"""The name of the row for variance that axes explain only in combination with each other."""

GRID = np.linspace(0, 1, 201)
"""The shares that are tested; the interval consists of the shares that are not rejected."""

_ROUNDING = 1e-9
"""Standard errors up to this size come from rounding."""

MOST_AXES = 10
"""The maximum number of axes; each further axis doubles the computing time."""


class AxisEffect(NamedTuple):
    """The share of the variance of a metric that one axis, such as the retriever, explains.

    Attributes:
        axis: The name of the axis, or ``interactions`` for the share that the axes explain only in
            combination.
        share: The share of the variance between cell means, from 0 to 1, that is due to the axis.
            NaN if the means differ so little that sampling error alone may explain the differences.
        interval: The lower and upper end of the confidence interval of the share. NaN if there are
            fewer than ten clusters of queries, or if cells have no values per query.
    """

    axis: str
    share: float
    interval: Interval


class SettingMean(NamedTuple):
    """The mean of a metric for one setting of an axis.

    Attributes:
        axis: The name of the axis.
        setting: The setting, such as ``bm25``.
        mean: The least-squares mean of the metric for this setting, with equal weights for the
            settings of every other axis. NaN if the grid has too few combinations to estimate it.
        interval: The lower and upper end of the confidence interval of the mean. NaN if there are
            fewer than ten clusters of queries, or if cells have no values per query.
        cells: The number of cells that have the setting.
    """

    axis: str
    setting: str
    mean: float
    interval: Interval
    cells: int


@dataclass(frozen=True, eq=False, repr=False)
class ComponentEffects(Printed, Rows[AxisEffect]):
    """The share of the variance of one metric that each axis explains.

    Iterating yields one :class:`AxisEffect` per axis. The last one is named ``interactions``: the
    share that the axes explain only in combination.

    Attributes:
        metric: The name of the metric.
        settings: The mean of the metric for each setting of each axis.
        level: The confidence level of the intervals.
        notes: Lines that are printed below the table.
    """

    metric: str
    settings: tuple[SettingMean, ...]
    level: float = 0.95
    notes: tuple[str, ...] = ()

    def __getitem__(self, axis: str) -> AxisEffect:
        """Return the row with this name: an axis, or ``interactions``.

        Raises:
            UnknownNameError: If there is no row with this name.
        """
        for row in self:
            if row.axis == axis:
                return row
        raise UnknownNameError("axis", axis, [row.axis for row in self])

    def __repr__(self) -> str:
        shares = ", ".join(f"{row.axis}={row.share:.2f}" for row in self)
        return f"ComponentEffects({self.metric!r}, {shares})"

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with one row per axis and the columns axis, share, lower and upper.

        The means of the settings are not included; see ``settings``.
        """
        rows = [(row.axis, row.share, *row.interval) for row in self]
        return frame_of(rows, ["axis", "share", "lower", "upper"])

    def _tables(self) -> tuple[Table, Table]:
        ends = f"{100 * self.level:g} % interval"
        shares = Table(
            f"Share of the variance of {self.metric} between cells",
            ("axis", "share", ends),
            tuple((row.axis, *_format_cells(row.share, row.interval)) for row in self),
            notes=self.notes,
            name=0,
        )
        means = Table(
            f"Mean {self.metric} by setting, with all other settings balanced",
            ("axis", "setting", "mean", ends, "cells"),
            tuple(
                (row.axis, row.setting, *_format_cells(row.mean, row.interval), str(row.cells))
                for row in self.settings
            ),
            name=1,
            texts=(0,),
        )
        return shares.filled(), means.filled()


def _format_cells(value: float, ends: Interval) -> tuple[str, str]:
    low, high = ends
    text = "-" if math.isnan(value) else f"{value:.3f}"
    return text, "" if math.isnan(low) else f"[{low:.3f}, {high:.3f}]"


def component_effects(
    table: ResultTable,
    metric: str,
    *,
    axes: Sequence[str] | None = None,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> ComponentEffects:
    """Return the contribution of each axis, such as retriever, generator or prompt, to a metric.

    The variance between the means of the cells is divided among the axes. The sum of squares of an
    axis is the amount that the axis adds to the sum of squares explained by a linear model,
    averaged over all orders in which the axes can be added (Lindeman, Merenda & Gold 1980,
    Introduction to Bivariate and Multivariate Analysis; Groemping 2007, Estimators of Relative
    Importance in Linear Regression Based on Variance Decomposition, American Statistician 61,
    139-147). In a grid with all combinations, this equals the main effect in the analysis of
    variance and in functional ANOVA (Hutter, Hoos & Leyton-Brown 2014, An Efficient Approach for
    Assessing Hyperparameter Importance, ICML). The variance that the linear model does not explain
    is reported as interactions. The amount that the sampling of queries is expected to add to each
    sum of squares is subtracted, as in Hays' omega squared.

    The intervals of the shares come from a bootstrap that draws clusters of queries with
    replacement, the same clusters for all cells. An interval contains a share if the bootstrap does
    not reject the hypothesis that the axis has exactly this share of the total sum of squares
    (Fieller 1954, Journal of the Royal Statistical Society B 16, 175-185). If the range of the
    metric is known, each draw also adds a hypothetical cluster, on which all cells of one setting,
    or a single cell, have the largest possible difference from the others. The intervals therefore
    allow for rare differences that these queries lack, such as complete failures of one prompt
    (:func:`mirage.statistics.bounds.rare_differences`). The mean of a setting is the least-squares
    mean under the same linear model (Searle, Speed & Milliken 1980, American Statistician 34,
    216-221). Its interval combines the intervals of the cells and the correlations of the cell
    means (Zou & Donner 2008, Construction of confidence limits about effect measures: A general
    approach, Statistics in Medicine 27, 1693-1702). It therefore stays within the bounds of the
    metric. If a cell has no interval, Student's t interval with standard errors clustered by query
    cluster is used instead. ``validation/coverage/grids.py`` measures the coverage of both
    intervals.

    Args:
        table: The table with the cells. Select one dataset with ``where`` to exclude differences
            between datasets. Cells that failed are ignored.
        metric: The name of the metric.
        axes: The axes to report; by default all axes in which cells differ. Variance that other
            axes explain counts as interactions. If a cell has no setting on an axis, such as a
            closed-book cell (without retrieval) on ``show_k``, it counts as an equal mixture of all
            settings of this axis.
        draws: Number of bootstrap draws.
        level: Confidence level of the intervals.
        seed: Random seed of the bootstrap.

    Raises:
        UnknownNameError: If there is no such metric or axis.
        SettingError: If no two cells with a mean differ in an axis, if cells differ in more than
            ten axes, or if ``draws`` or ``level`` is out of range.

    Example:
        >>> from mirage.grids import Cell, ResultTable, component_effects
        >>> from mirage.grids.cells import Score
        >>> means = {"bm25": 0.4, "oracle": 0.7}
        >>> cells = tuple(
        ...     Cell({"retriever": name, "show_k": k}, {"qa_match": Score(mean)})
        ...     for name, mean in means.items()
        ...     for k in ("2", "5")
        ... )
        >>> effects = component_effects(ResultTable("small", cells, ("qa_match",)), "qa_match")
        >>> round(effects["retriever"].share, 2)
        1.0
    """
    check_level(level)
    if draws < 1:
        raise SettingError(f"draws must be at least 1, got draws={draws}")
    if metric not in table.metrics:
        raise UnknownNameError("metric", metric, table.metrics)
    for axis in axes or ():
        table.values_of(axis)
    scored_cells = [
        c for c in table if metric in c.scores and not math.isnan(c.scores[metric].mean)
    ]
    differing = [axis for axis in axes or table.axes if len(_values(scored_cells, axis)) > 1]
    if not differing:
        raise SettingError(
            f"{table.name}: the cells with a mean of {metric} do not differ in any axis, so no "
            "effect can be estimated"
        )
    if len(differing) > MOST_AXES:
        raise SettingError(
            f"the cells differ in {len(differing)} axes, but at most {MOST_AXES} can be compared "
            "at once; select some of them with axes="
        )
    design = _Design(scored_cells, differing)
    means = np.array([cell.scores[metric].mean for cell in scored_cells])
    noise = _SamplingError.of(scored_cells, metric)
    bounds = common_bounds(scored_cells, metric)
    shares = _shares(design, means, noise, bounds, draws, level, seed)
    rows = [AxisEffect(axis, *share) for axis, share in zip(design.names, shares, strict=True)]
    settings = design.marginals(means, noise, bounds, level)
    return ComponentEffects(
        tuple(rows),
        metric,
        settings,
        level,
        tuple(_notes(table, scored_cells, noise, metric, bounds, rows)),
    )


def _notes(
    table: ResultTable,
    scored_cells: Sequence[Cell],
    noise: _SamplingError | None,
    metric: str,
    bounds: Interval,
    rows: Sequence[AxisEffect],
) -> list[str]:
    notes = [f"{len(scored_cells)} cells."]
    if len(scored_cells) < len(table):
        notes = [f"{len(scored_cells)} of {len(table)} cells; the others have no mean."]
    if noise is None:
        notes.append("Published figures: no intervals, and sampling error is not subtracted.")
    elif not noise.has_enough_clusters:
        notes.append(f"{noise.clusters} clusters of queries are too few for intervals.")
    elif not np.isfinite(bounds).all():
        notes.append(
            "No range of the metric is known: the intervals of shares assume that these queries "
            "contain the rare large differences, such as complete failures of one setting."
        )
    elif not all(metric in cell.bounds for cell in scored_cells):
        notes.append("Assumed range of the metric: 0 to 1.")
    if any(math.isnan(row.share) for row in rows):
        notes.append("The cells do not differ by more than the choice of queries explains.")
    return notes


# The settings of the cells ------------------------------------------------------------------------


class _Design:
    """The design matrix of some cells: one indicator column per setting of each axis.

    A closed-book cell (without retrieval) has no setting on some axes, such as the number of
    passages. It gets the value 1 / (number of settings) in each column of such an axis. An extra
    column for "no setting" would be confounded with the effect of the retriever.
    """

    def __init__(self, cells: Sequence[Cell], axes: Sequence[str]) -> None:
        self.axes = tuple(axes)
        self.settings = {axis: _values(cells, axis) for axis in axes}
        self.columns = {
            axis: np.array([_indicators(cell.settings.get(axis, ""), values) for cell in cells])
            for axis, values in self.settings.items()
        }
        self.size = len(cells)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.axes, INTERACTIONS)

    def matrix(self, axes: Sequence[str]) -> Floats:
        """Return the design matrix of some axes; its first column is the intercept (all ones)."""
        return np.hstack([np.ones((self.size, 1)), *(self.columns[axis] for axis in axes)])

    def quadratic_forms(self) -> list[Floats]:
        """Return one matrix ``Q`` per axis, followed by one for the interactions.

        If ``y`` is the vector of the cell means, ``y'Qy`` is the sum of squares that the axis or
        the interactions explain.
        """
        count = len(self.axes)
        quadratic_forms = {axis: np.zeros((self.size, self.size)) for axis in self.axes}
        projection = np.zeros((self.size, self.size))
        for size in range(count + 1):
            for subset in combinations(self.axes, size):
                projection = _projection(self.matrix(subset))
                for axis in self.axes:
                    # The weight is the share of all orders of the axes in which this axis is the
                    # last one of the subset, or the first one after the subset.
                    before = size - 1 if axis in subset else size
                    if 0 <= before < count:
                        weight = 1 / (count * math.comb(count - 1, before))
                        quadratic_forms[axis] += (
                            weight * projection if axis in subset else -weight * projection
                        )
        return [*quadratic_forms.values(), np.eye(self.size) - projection]

    def directions(self) -> Floats:
        """Return the changes of cells that a rare query may cause: one column per change.

        A change is 1 in the affected cells, which are all cells of one setting or a single cell,
        and 0 in the others.
        """
        return np.hstack([*self.columns.values(), np.eye(self.size)])

    def marginals(
        self, means: Floats, noise: _SamplingError | None, bounds: Interval, level: float
    ) -> tuple[SettingMean, ...]:
        """Return the least-squares mean of each setting of each axis, with its interval.

        ``means`` are the means of the cells, and ``noise`` is their sampling error. A least-squares
        mean is NaN if the grid has too few combinations to estimate it. All intervals are NaN if
        ``noise`` is ``None``, because the cells have no values per query. In a grid without all
        combinations, a linear model may predict values beyond the ``bounds`` of the metric; they
        are replaced with the bounds.
        """
        X = self.matrix(self.axes)
        inverse = np.linalg.pinv(X)
        rows = []
        for axis in self.axes:
            for position, value in enumerate(self.settings[axis]):
                contrast = [np.ones(1)]
                for other in self.axes:
                    size = len(self.settings[other])
                    equal_parts = np.full(size, 1 / size)
                    contrast.append(np.eye(size)[position] if other == axis else equal_parts)
                weights = np.concatenate(contrast) @ inverse
                cell_count = int((self.columns[axis][:, position] == 1).sum())
                # The mean is estimable only if the contrast is in the row space of the design.
                if np.allclose(weights @ X, np.concatenate(contrast), atol=1e-8):
                    mean = float(weights @ means)
                    ends = NO_INTERVAL if noise is None else noise.interval(mean, weights, level)
                    mean, *ends = np.clip([mean, *ends], *bounds).tolist()
                    rows.append(SettingMean(axis, value, mean, (ends[0], ends[1]), cell_count))
                else:
                    rows.append(SettingMean(axis, value, math.nan, NO_INTERVAL, cell_count))
        return tuple(rows)


def _values(cells: Sequence[Cell], axis: str) -> tuple[str, ...]:
    """Return the distinct settings that cells have on an axis, without empty ones."""
    return tuple(dict.fromkeys(cell.settings[axis] for cell in cells if cell.settings.get(axis)))


def _indicators(setting: str, values: Sequence[str]) -> list[float]:
    return [float(setting == value) if setting else 1 / len(values) for value in values]


def _projection(X: Floats) -> Floats:
    """Return the projection matrix onto the column space of ``X``, which may have any rank."""
    basis, singular_values, _ = np.linalg.svd(X, full_matrices=False)
    basis = basis[:, singular_values > 1e-9 * singular_values[0]]
    return np.asarray(basis @ basis.T)


# Sampling error -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SamplingError:
    """The sampling error of the cell means, which comes from the choice of queries.

    Attributes:
        sums: The sum of the metric over the queries of each cluster, of shape ``(clusters,
            cells)``.
        counts: The number of queries of each cluster that have a value, of shape ``(clusters,
            cells)``.
        correction: The correction of variances and degrees of freedom for few clusters.
        reaches: The distance of the lower and the upper end of each cell's 95 % interval from its
            mean, of shape ``(2, cells)``; NaN if the cell has no interval.
    """

    sums: Floats
    counts: Floats
    correction: SmallSample
    reaches: Floats

    @classmethod
    def of(cls, cells: Sequence[Cell], metric: str) -> _SamplingError | None:
        """Return the sampling error of the cell means on one metric.

        It is ``None`` if a cell has no values per query, for example because its scores were copied
        from a publication. Queries of different datasets share a cluster only if their clusters
        have the same name.
        """
        if not all(metric in cell.values for cell in cells):
            return None
        row_of: dict[tuple[str, ...], int] = {}
        queries_of: list[set[tuple[str, str]]] = []
        entries = []
        for column, cell in enumerate(cells):
            dataset = cell.settings.get("dataset", "")
            for id_, value in zip(cell.query_ids, cell.values[metric].tolist(), strict=True):
                if not math.isnan(value):
                    cluster = cell.clusters.get(id_)
                    # Tuples of different lengths keep cluster names and query ids apart.
                    key = (cluster,) if cluster is not None else (dataset, id_)
                    row = row_of.setdefault(key, len(row_of))
                    if row == len(queries_of):
                        queries_of.append(set())
                    queries_of[row].add((dataset, id_))
                    entries.append((row, column, value))
        sums, counts = np.zeros((2, len(row_of), len(cells)))
        rows, columns, values = (np.array(part) for part in zip(*entries, strict=True))
        np.add.at(sums, (rows, columns), values)
        np.add.at(counts, (rows, columns), 1.0)
        scores = [cell.scores[metric] for cell in cells]
        reaches = np.array([(s.mean - s.interval[0], s.interval[1] - s.mean) for s in scores]).T
        return cls(sums, counts, small_sample([len(members) for members in queries_of]), reaches)

    @property
    def clusters(self) -> int:
        return len(self.sums)

    @property
    def has_enough_clusters(self) -> bool:
        return self.clusters >= FEWEST_FOR_MEANS

    @property
    def residuals(self) -> Floats:
        """The residual of each cluster in each cell, an array of shape ``(clusters, cells)``.

        A residual is the sum of the deviations of the cluster's queries from the mean of the cell,
        divided by the number of queries of the cell.
        """
        total = self.counts.sum(axis=0)
        means = self.sums.sum(axis=0) / total
        return np.asarray((self.sums - self.counts * means) / total)

    @property
    def covariance(self) -> Floats:
        """The covariance matrix of the cell means, of shape ``(cells, cells)``."""
        residuals = self.residuals
        return np.asarray(residuals.T @ (self.correction.factors[:, None] * residuals))

    def interval(self, mean: float, weights: Floats, level: float) -> Interval:
        """Return the confidence interval of a weighted sum of the cell means.

        The interval combines the intervals of the cells (Zou & Donner 2008). If all weights are
        positive, it stays within the bounds of the metric. If a cell has no interval, Student's t
        interval is used instead.

        Args:
            mean: The weighted sum.
            weights: The weight of each cell.
            level: Confidence level.
        """
        if not self.has_enough_clusters:
            return NO_INTERVAL
        if not np.isnan(self.reaches[:, weights != 0]).any():
            # The intervals of the cells have the level 0.95.
            scale = self._critical_value(level) / self._critical_value(0.95)
            low, high = (scale * reach for reach in self._combined_reaches(weights))
            return mean - low, mean + high
        variance = float(self.correction.factors @ (self.residuals @ weights) ** 2)
        reach = self._critical_value(level) * math.sqrt(variance)
        return (mean - reach, mean + reach) if reach > _ROUNDING else NO_INTERVAL

    def _combined_reaches(self, weights: Floats) -> tuple[float, float]:
        """Return the distances of the interval's ends from a weighted sum of the cell means."""
        used = weights != 0
        weights, covariance = weights[used], self.covariance[np.ix_(used, used)]
        deviations = np.sqrt(np.diag(covariance))
        product = np.outer(deviations, deviations)
        # Cells without variation: equal signs count as correlated, so the interval is wide enough.
        assumed = (np.outer(weights, weights) > 0).astype(np.float64)
        correlations = np.divide(covariance, product, out=assumed, where=product > _ROUNDING**2)
        lower, upper = self.reaches[:, used]
        ends = []
        for positive, negative in ((lower, upper), (upper, lower)):
            parts = np.abs(weights) * np.where(weights > 0, positive, negative)
            signed = np.sign(weights) * parts
            ends.append(math.sqrt(max(float(signed @ correlations @ signed), 0.0)))
        return ends[0], ends[1]

    def draw_means(self, draws: int, level: float, seed: int) -> Floats:
        """Return the bootstrap means of the cells, centred on their average over all draws.

        The result has the shape ``(draws, cells)``. It is scaled so that percentiles at this
        confidence level match Student's t intervals.
        """
        from scipy.special import ndtri

        counts = draw_queries(self.clusters, self.clusters, draws, seed=seed).astype(np.float64)
        total = counts @ self.counts
        means = np.where(total > 0, counts @ self.sums / np.maximum(total, 1e-12), np.nan)
        centred = np.nan_to_num(means - np.nanmean(means, axis=0))
        scale = math.sqrt(float(np.mean(self.correction.factors)))
        return np.asarray(
            centred * scale * self._critical_value(level) / float(ndtri((1 + level) / 2))
        )

    def draw_rare_weights(self, draws: int, seed: int) -> Floats:
        """Return the share of the queries that a hypothetical cluster has in each bootstrap draw.

        The cluster is as large as the largest one. See
        :func:`mirage.statistics.bounds.rare_differences`.
        """
        size = np.random.default_rng([seed, 1]).exponential(size=draws) * self.counts.max()
        return np.asarray(size / (size + self.counts.sum(axis=0).max()))

    def _critical_value(self, level: float) -> float:
        from scipy.special import stdtrit

        return float(stdtrit(max(self.correction.degrees, 1.0), (1 + level) / 2))


# Shares -------------------------------------------------------------------------------------------


def _shares(
    design: _Design,
    means: Floats,
    noise: _SamplingError | None,
    bounds: Interval,
    draws: int,
    level: float,
    seed: int,
) -> list[tuple[float, Interval]]:
    """Return the share of the variance between cells that each axis explains, with its interval.

    The last item is the share of the interactions of axes. A share is NaN if the cells differ so
    little that sampling error alone may explain the differences.

    Args:
        design: The settings of the cells.
        means: The mean of the metric in each cell.
        noise: The sampling error of the means; ``None`` if cells have no values per query.
        bounds: The lowest and highest possible value of the metric; infinite if unknown.
        draws: Number of bootstrap draws.
        level: Confidence level.
        seed: Random seed of the bootstrap.
    """
    quadratic_forms = design.quadratic_forms()
    centre = means - means.mean()
    covariance = np.zeros((len(means),) * 2) if noise is None else noise.covariance
    squares = np.array([centre @ form @ centre for form in quadratic_forms])
    bias = np.array([np.sum(form * covariance) for form in quadratic_forms])
    total_squares = float((squares - bias).sum())
    # Without variance beyond the sampling error there is nothing to divide.
    if not total_squares > 1e-12:
        return [(math.nan, NO_INTERVAL)] * len(quadratic_forms)
    shares = np.clip((squares - bias) / total_squares, 0, 1).tolist()
    if noise is None or not noise.has_enough_clusters:
        return [(share, NO_INTERVAL) for share in shares]
    deviations = noise.draw_means(draws, level, seed)
    spread = float(np.mean(np.square(deviations).sum(axis=1)) / max(np.trace(covariance), 1e-300))
    directions, sizes = np.empty((len(means), 0)), np.zeros(draws)
    if np.isfinite(bounds).all():
        directions = design.directions()
        sizes = (bounds[1] - bounds[0]) * noise.draw_rare_weights(draws, seed)
    drawn_squares = np.stack(
        [_squares(centre + deviations, form, directions, sizes) for form in quadratic_forms]
    )
    total = drawn_squares.sum(axis=0)
    return [
        (share, _interval(drawn_squares[i], total, bias[i], float(bias.sum()), spread, level))
        for i, share in enumerate(shares)
    ]


def _squares(means: Floats, form: Floats, directions: Floats, sizes: Floats) -> Floats:
    """Return sums of squares in each draw: without a change of the means, and after each change.

    Args:
        means: The means of the cells in each draw, of shape ``(draws, cells)``.
        form: The quadratic form of the sum of squares.
        directions: The changes, of shape ``(cells, changes)``. Each is added and subtracted.
        sizes: The factor by which the changes are multiplied in each draw.

    Returns:
        The sums of squares, of shape ``(draws, 1 + 2 * changes)``.
    """
    weighted = means @ form
    plain = (weighted * means).sum(axis=1)[:, None]
    linear = 2 * sizes[:, None] * (weighted @ directions)
    square = sizes[:, None] ** 2 * ((form @ directions) * directions).sum(axis=0)
    return np.hstack([plain, plain + linear + square, plain - linear + square])


def _interval(
    drawn_squares: Floats,
    total: Floats,
    bias: float,
    total_bias: float,
    spread: float,
    level: float,
) -> Interval:
    """Return the range of values for the share of one axis that the bootstrap does not reject.

    The bootstrap sums of squares are biased upwards, because the means already contain sampling
    error and drawing clusters adds more. Each end of the interval is computed with and without
    subtracting this bias, and the wider result is used. Of all changes that a rare query may cause,
    the one that is most favourable to the tested share counts in each draw.

    Args:
        drawn_squares: The sum of squares of the axis in each bootstrap draw, of shape ``(draws, 1 +
            changes)``: without a rare change of the cells, and after each of several changes.
        total: The total sum of squares in each draw, in the same shape.
        bias: The amount that the sampling of queries is expected to add to the axis's sum of
            squares.
        total_bias: The amount that this sampling is expected to add to the total sum of squares.
        spread: The variance of the bootstrap means divided by the sampling variance of the means.
        level: Confidence level.
    """
    gaps = drawn_squares[:, :1] - GRID * total[:, :1]
    low, high = np.quantile(gaps, [(1 - level) / 2, (1 + level) / 2], axis=0)
    smallest, largest = gaps.copy(), gaps
    for squares, whole in zip(drawn_squares.T[1:], total.T[1:], strict=True):
        changed = squares[:, None] - GRID * whole[:, None]
        np.minimum(smallest, changed, out=smallest)
        np.maximum(largest, changed, out=largest)
    # As in rare_differences, the ends for rare changes are one-sided bounds.
    low = np.minimum(low, np.quantile(smallest, 1 - level, axis=0))
    high = np.maximum(high, np.quantile(largest, level, axis=0))
    excess = (1 + spread) * (bias - GRID * total_bias)
    accepted = GRID[(np.minimum(low, low - excess) <= 0) & (np.maximum(high, high - excess) >= 0)]
    if not len(accepted):
        return NO_INTERVAL
    step = GRID[1] / 2
    return max(float(accepted[0]) - step, 0.0), min(float(accepted[-1]) + step, 1.0)
