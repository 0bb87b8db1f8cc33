"""Variance of metrics between queries and between repeats of one query."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats


class VarianceComponents(NamedTuple):
    """The two components of the variance of values: within queries and between queries.

    Attributes:
        within: Variance of the repeats of a query around their mean, of shape ``(columns,)``.
        between: Variance of the true means of the queries, of shape ``(columns,)``; at least 0.
    """

    within: Floats
    between: Floats


def variance_components(repeats: Floats) -> VarianceComponents:
    """Estimate the variance within queries and between them by one-way analysis of variance.

    The variance within queries is the mean of their sample variances. The variance between queries
    is the variance of the query means, minus the part that the variance of the repeats explains
    (Searle, Casella & McCulloch 1992, Variance Components, section 3.6). Queries with few repeats
    have the same weight as others. The variance of a mean over ``n`` queries with ``k`` repeats
    each is ``(between + within / k) / n``.

    Args:
        repeats: Values of shape ``(repeats, queries, columns)``; NaN if a query has no value.

    Returns:
        The components. Both are NaN for a column in which no query has two values. ``between`` is
        also NaN for a column in which only one query has values.

    Example:
        >>> import numpy as np
        >>> variance_components(np.array([[[1.0], [3.0]], [[2.0], [4.0]]]))
        VarianceComponents(within=array([0.5]), between=array([1.75]))
    """
    present = ~np.isnan(repeats)
    counts = present.sum(axis=0)
    several = counts > 1
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(present, repeats, 0.0).sum(axis=0) / counts
        squares = np.where(present, (repeats - means) ** 2, 0.0).sum(axis=0)
        variances = np.where(several, squares / (counts - 1), 0.0)
        within = variances.sum(axis=0) / several.sum(axis=0)
        queries = (counts > 0).sum(axis=0)
        centre = np.where(counts > 0, means, 0.0).sum(axis=0) / queries
        about = np.where(counts > 0, (means - centre) ** 2, 0.0).sum(axis=0) / (queries - 1)
        noise = np.where(counts > 0, within / counts, 0.0).sum(axis=0) / queries
    return VarianceComponents(within, np.maximum(about - noise, 0.0))
