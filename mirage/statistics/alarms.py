"""An alarm for a series that is checked after every value.

The probability that any of the checks gives a false alarm is limited.

The null hypothesis is that the values vary around a level that does not rise: they are normal
deviates with the same mean and the same unknown variance. Means over many answers are close to
normal. ``validation/coverage/history.py`` prints false alarm rates for means of 0s and 1s.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats, Ints

FEWEST_VALUES = 4
"""Number of values at the start that only define the level of a series; no rise begins in them."""

_TINY = 1e-300  # a divisor instead of 0
_EFFECT = 10.0  # prior variance of the size of a rise, in units of the variance of the values


class RiseEvidence(NamedTuple):
    """The evidence that a series has risen; both arrays have shape ``(values, columns)``.

    Attributes:
        evidence: The e-value after each value: the factor by which the values so far are more
            likely if the level rose at some point than if it did not. Under the null hypothesis,
            the probability that the e-value ever reaches ``1 / alpha`` is at most ``alpha``.
            Therefore 1 divided by the e-value is a p-value that is valid at any time.
        start: Position of the value at which the rise most likely began; 0 while there are too few
            values for a rise.
    """

    evidence: Floats
    start: Ints


def rise_evidence(
    values: Floats,
    *,
    smallest: Floats,
    groups: Ints | None = None,
    inflation: Floats | None = None,
    weights: Floats | None = None,
    latest: bool = False,
) -> RiseEvidence:
    """Return, for each value of a series, the evidence so far that the level has risen permanently.

    For each possible start of a rise, the function computes the likelihood ratio of a rise against
    no rise. This ratio is averaged over a half-normal distribution of the size of the rise. The
    unknown level and variance are integrated out under the right Haar prior. The ratio then depends
    only on differences of values in units of their standard deviation, and is a test martingale
    (Perez-Ortiz, Lardy, de Heide & Grunwald 2024, E-statistics, Group Invariance and Anytime-valid
    Testing, Annals of Statistics 52, 1410-1432; Wang & Ramdas 2025, Anytime-valid t-tests and
    Confidence Sequences for Gaussian Means with Unknown Variance, Sequential Analysis 44). The
    ratios are averaged with fixed weights over the starts (Shin, Ramdas & Rinaldo 2024,
    E-detectors, New England Journal of Statistics in Data Science 2, 229-260). By Ville's
    inequality the average reaches ``1 / alpha`` with a probability of at most ``alpha``.

    The variance is estimated from the series itself. It therefore includes all noise between
    values, such as the noise of the day on which each value was measured.

    Args:
        values: Values in chronological order, of shape ``(values, columns)``; larger is worse.
        smallest: The smallest credible standard deviation of a value of weight 1, for each column.
            If all values so far are equal, this limit alone determines how large a difference
            counts as a rise.
        groups: An integer for each value that identifies its group, such as its day of the week.
            Values of different groups may have different levels. By default all values have the
            same level.
        inflation: Factor by which the variance of each column is increased, because successive
            values are correlated; by default 1.
        weights: Weight of each value, in the same shape as ``values``: the variance of a value is
            inversely proportional to it. A value of weight 0 is missing. By default all weights
            are 1.
        latest: Whether to compute only the evidence after the last value. This is faster for a
            long series; the evidence after all earlier values is then 1.

    Returns:
        The evidence after each value; it is 1 until there are more than :data:`FEWEST_VALUES`
        values.

    Example:
        >>> import numpy as np
        >>> values = np.array([[0.1, 0.2, 0.1, 0.2, 0.1, 0.2, 0.9, 0.8, 0.9]]).T
        >>> evidence, start = rise_evidence(values, smallest=np.array([0.01]))
        >>> bool(evidence[5, 0] < 1), bool(evidence[8, 0] > 20), int(start[8, 0])
        (True, True, 6)
    """
    length, columns = values.shape
    groups = np.zeros(length, dtype=np.intp) if groups is None else groups
    factor = np.ones(columns) if inflation is None else inflation
    weights = np.ones_like(values) if weights is None else weights
    evidence, start = np.ones((length, columns)), np.zeros((length, columns), dtype=np.intp)
    first = length if latest else FEWEST_VALUES + 1
    for count in range(max(first, FEWEST_VALUES + 1), length + 1):
        starts = np.arange(FEWEST_VALUES, count)
        sums = _weighted_sums(values[:count], weights[:count], groups[:count])
        squares = factor * sums.squares + np.maximum(sums.degrees, 0) * smallest**2
        ratios = _likelihood_ratios(sums.products, sums.lengths, squares, sums.degrees)
        # The weights of all starts, also of those still to come, sum to 1.
        weighted = ratios * (FEWEST_VALUES / (starts * (starts + 1.0)))[:, None]
        evidence[count - 1] = weighted.sum(axis=0) + FEWEST_VALUES / count
        start[count - 1] = starts[weighted.argmax(axis=0)]
    return RiseEvidence(evidence, start)


class _Sums(NamedTuple):
    """Weighted sums of a series, with values and steps centred by group.

    Attributes:
        products: Inner product of the values and the step of each start, of shape ``(starts,
            columns)``. The step of a start is 0 before it and 1 afterwards.
        lengths: Squared length of the step of each start, of shape ``(starts, columns)``.
        squares: Sum of squares of the values, of shape ``(columns,)``.
        degrees: Degrees of freedom of the values, of shape ``(columns,)``.
    """

    products: Floats
    lengths: Floats
    squares: Floats
    degrees: Ints


def _weighted_sums(values: Floats, weights: Floats, groups: Ints) -> _Sums:
    """Return the weighted sums of a series, for each start after the first values."""
    members = np.eye(int(groups.max()) + 1)[groups]
    totals = np.maximum(members.T @ weights, _TINY)
    residuals = values - members @ (members.T @ (weights * values) / totals)
    weighted = weights * residuals
    # The sum of the weights in each group from a start on.
    later = _sums_from(members[:, :, None] * weights[:, None])
    degrees = (weights > 0).sum(axis=0) - (totals > _TINY).sum(axis=0)
    return _Sums(
        _sums_from(weighted)[FEWEST_VALUES:],
        (later * (1 - later / totals)).sum(axis=1)[FEWEST_VALUES:],
        (weighted * residuals).sum(axis=0),
        degrees,
    )


def _sums_from(values: Floats) -> Floats:
    """Return, for each position, the sum of the values from there on."""
    return np.asarray(values[::-1].cumsum(axis=0)[::-1])


def _likelihood_ratios(products: Floats, lengths: Floats, squares: Floats, degrees: Ints) -> Floats:
    """Return the likelihood ratio of a rise at each start against no rise.

    The result has the shape ``(starts, columns)``.

    The size of the rise, in standard deviations, has a half-normal prior with the variance
    ``g = _EFFECT``. The standard deviation is integrated out. With ``p`` for a product, ``l`` for a
    length, ``S`` for a sum of squares and ``d`` for the degrees of freedom, the ratio is
    ``2 T(q) (1 + g l)^(-1/2) (S / R)^(d / 2)``. Here ``R = S - g p^2 / (1 + g l)`` and
    ``q = p sqrt(g d / ((1 + g l) R))``. ``T`` is the distribution function of Student's t with
    ``d`` degrees of freedom, so ``T(q)`` is the probability that the rise is above 0.

    The arguments are those of :class:`_Sums`. With less than two degrees of freedom, the ratio
    is 1.
    """
    from scipy.special import stdtr

    enough = degrees >= 2
    products, squares = np.where(enough, products, 0.0), np.where(enough, squares, 1.0)
    degrees = np.maximum(degrees, 2)
    share = _EFFECT / (1 + _EFFECT * np.maximum(lengths, 0.0))
    rest = squares - share * products**2
    position = products * np.sqrt(share * degrees / rest)
    log_ratios = degrees / 2 * np.log(squares / rest) - np.log(_EFFECT / share) / 2
    ratios = 2 * np.exp(np.minimum(log_ratios, 600.0)) * stdtr(degrees, position)
    return np.where(enough, ratios, 1.0)
