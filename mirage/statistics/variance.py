"""How much of what varies lies between queries, and how much within one that is asked again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats

__all__ = ["VarianceComponents", "variance_components"]


class VarianceComponents(NamedTuple):
    """Where the variance of values lies.

    Attributes:
        within: variance of the values of one query about what it has on average, ``(columns,)``.
        between: variance of these averages over queries; not below 0.
    """

    within: Floats
    between: Floats


def variance_components(repeats: Floats) -> VarianceComponents:
    """Variance within queries and between them, one-way analysis of variance by its expectations.

    Within is the mean of the queries' sample variances, and between what the variance of their
    means has above what the repeats give it (Searle, Casella & McCulloch 1992, Variance Components,
    section 3.6; queries with few repeats count as much as others). The variance of a mean over
    ``n`` queries with ``k`` repeats each is ``(between + within / k) / n``.

    Args:
        repeats: ``(repeats, queries, columns)``, NaN where a query has none.

    Returns:
        NaN for a column that no query, or for within no query twice, has.
    """
    known = ~np.isnan(repeats)
    counts = known.sum(axis=0)
    several = counts > 1
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(known, repeats, 0.0).sum(axis=0) / counts
        squares = np.where(known, (repeats - means) ** 2, 0.0).sum(axis=0)
        variances = np.where(several, squares / (counts - 1), 0.0)
        within = variances.sum(axis=0) / several.sum(axis=0)
        queries = (counts > 0).sum(axis=0)
        centre = np.where(counts > 0, means, 0.0).sum(axis=0) / queries
        about = np.where(counts > 0, (means - centre) ** 2, 0.0).sum(axis=0) / (queries - 1)
        noise = np.where(counts > 0, within / counts, 0.0).sum(axis=0) / queries
    return VarianceComponents(within, np.maximum(about - noise, 0.0))
