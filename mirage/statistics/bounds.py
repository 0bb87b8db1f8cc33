"""How large a mean may be, of values of which the largest possible one is known."""

from __future__ import annotations

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.errors import SettingError
from mirage.statistics.bootstrap import check_level
from mirage.statistics.clusters import cluster_sums

__all__ = ["upper_bounds"]

_BLOCK = 1000  # draws at a time


def upper_bounds(
    values: Floats,
    codes: Ints,
    *,
    most: float = 1.0,
    level: float = 0.95,
    weightings: int = 9999,
    seed: int = 0,
) -> Floats:
    """Upper ends of one-sided intervals for the mean of each column.

    One cluster more is imagined, as large as the largest, that has the largest possible value
    alone, and clusters are weighted by exponential deviates: the bound is the percentile of the
    weighted means (Gaffke 2005, Three Test Statistics for a Nonparametric One-Sided Hypothesis on
    the Mean of a Nonnegative Variable, Mathematical Methods of Statistics 14, 451-467;
    Learned-Miller & Thomas 2019, arXiv 1905.06208). Of 0 and 1 without clusters it is Clopper and
    Pearson's: of ``n`` zeros it is ``1 - (1 - level) ** (1 / n)``, where Student's t says 0.
    ``benchmarks/power.py`` prints how often what is below such a bound is called so wrongly.

    Args:
        values: ``(queries, columns)``, none above ``most``.
        codes: the cluster of each query.
        most: the largest value that there can be.
        level: share of the bounds that are no smaller than the mean.
        weightings: how many are drawn.
        seed: of these draws.

    Returns:
        A bound a column.

    Raises:
        SettingError: ``level`` is not between 0 and 1, or ``weightings`` is below 1.
    """
    check_level(level)
    if weightings < 1:
        raise SettingError(f"a bound takes 1 weighting or more, not {weightings}")
    size = np.bincount(codes).astype(np.float64)
    sizes = np.append(size, size.max(initial=1.0))
    sums = np.vstack([cluster_sums(codes, values), np.full(values.shape[1], most * sizes[-1])])
    rng = np.random.default_rng(seed)
    means = []
    for start in range(0, weightings, _BLOCK):
        weights = rng.exponential(size=(min(_BLOCK, weightings - start), len(sizes)))
        means.append(weights @ sums / (weights @ sizes)[:, None])
    return np.asarray(np.quantile(np.concatenate(means), level, axis=0))
