"""Quantiles of the normal, Student's t and beta distributions, without scipy.

Importing ``scipy.special`` takes longer than a ranking needs for everything else. The results of
these functions agree with those of scipy to a relative error of 1e-12.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from mirage._base.arrays import Floats

_NORMAL = NormalDist()
_EPSILON = 2.0**-52
_NEWTON_STEPS = 200
_FRACTION_STEPS = 100_000
# A step of Newton's method below this size leaves an error of about its square.
_SMALL_STEP = 1e-8
# Parameters from which five terms of Stirling's series are exact to rounding.
_LARGE = 30.0
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


def normal_quantile(p: float) -> float:
    """Return the quantile of the standard normal distribution at the probability ``p``.

    Example:
        >>> round(normal_quantile(0.975), 4)
        1.96
    """
    return _NORMAL.inv_cdf(p)


def t_quantile(degrees: float, p: float) -> float:
    """Return the quantile of Student's t distribution.

    It is computed from a quantile of the beta distribution: the square of a t variable, divided by
    the degrees of freedom, is distributed like the odds of a beta variable.

    Args:
        degrees: Degrees of freedom, above 0; the result is NaN if they are NaN.
        p: Probability of a smaller value, between 0 and 1.

    Example:
        >>> round(t_quantile(39, 0.975), 4)
        2.0227
    """
    if math.isnan(degrees):
        return math.nan
    if p == 0.5:
        return 0.0
    if math.isinf(degrees):
        return normal_quantile(p)
    tail = min(p, 1 - p)
    z = normal_quantile(1 - tail)
    # The first terms of the expansion of Cornish and Fisher, for Newton's method to start from.
    start = z + (z**3 + z) / (4 * degrees)
    log_odds = _beta_log_odds(
        0.5, degrees / 2, abs(2 * p - 1), 2 * tail, math.log(start * start / degrees)
    )
    return math.copysign(math.sqrt(degrees * math.exp(log_odds)), p - 0.5)


def normal_quantiles(p: Floats) -> Floats:
    """Return quantiles of the standard normal distribution for several probabilities ``p``."""
    return np.array([normal_quantile(each) for each in p.tolist()])


def t_quantiles(degrees: float, p: Floats) -> Floats:
    """Return quantiles of Student's t distribution; see :func:`t_quantile`.

    Args:
        degrees: Degrees of freedom, finite and above 0.
        p: Probabilities of a smaller value, between 0 and 1.
    """
    tail = np.minimum(p, 1 - p)
    z = normal_quantiles(1 - tail)
    half, lower, upper = degrees / 2, np.abs(2 * p - 1), 2 * tail
    quantiles = np.zeros(len(p))
    outer = upper < lower
    inner = ~outer & (lower > 0)  # the median is 0
    start = 2 * np.log(np.where(z > 0, z + (z**3 + z) / (4 * degrees), 1)) - math.log(degrees)
    quantiles[inner] = _solve(0.5, half, np.log(lower[inner]), start[inner])
    quantiles[outer] = -_solve(half, 0.5, np.log(upper[outer]), -start[outer])
    quantiles[inner | outer] = np.sqrt(degrees * np.exp(quantiles[inner | outer]))
    return np.copysign(quantiles, p - 0.5)


def _solve(a: float, b: float, target: Floats, log_odds: Floats) -> Floats:
    """Return the log odds of quantiles of the beta distribution, by Newton's method.

    Args:
        a: First parameter of the distribution.
        b: Second parameter of the distribution.
        target: Logarithm of the probability of a smaller value, for each quantile.
        log_odds: Initial guess of ``log(x / (1 - x))``, for each quantile ``x``.
    """
    scale = _log_beta(a, b)
    for _ in range(_NEWTON_STEPS):
        if not len(target):
            break
        log_x, log_y = -np.logaddexp(0, -log_odds), -np.logaddexp(0, log_odds)
        density = np.exp(a * log_x + b * log_y - scale)
        x, y = np.exp(log_x), np.exp(log_y)
        near = x <= (a + 1) / (a + b + 2)
        tails = np.empty(len(x))
        tails[near] = density[near] / _continued_fractions(a, b, x[near], y[near])
        tails[~near] = 1 - density[~near] / _continued_fractions(b, a, y[~near], x[~near])
        steps = (target - np.log(tails)) * tails / density
        log_odds = log_odds + steps
        if np.abs(steps).max() < _SMALL_STEP:
            break
    return log_odds


def beta_quantile(a: float, b: float, p: float) -> float:
    """Return the quantile of the beta distribution.

    Args:
        a: First parameter, above 0.
        b: Second parameter, above 0.
        p: Probability of a smaller value, between 0 and 1.

    Example:
        >>> round(beta_quantile(1, 10, 0.975), 4)
        0.3085
    """
    start = math.log(a / b) + normal_quantile(p) * math.sqrt(1 / a + 1 / b)
    log_odds = _beta_log_odds(a, b, p, 1 - p, start)
    return 1 / (1 + math.exp(-log_odds))


def _beta_log_odds(a: float, b: float, lower: float, upper: float, start: float) -> float:
    """Return the log odds of the quantile of the beta distribution.

    The density of the log odds is log-concave. Newton's method on the logarithm of the smaller tail
    therefore converges from any initial guess (Boyd and Vandenberghe 2004, Convex Optimization,
    3.5.2).

    Args:
        a: First parameter of the distribution.
        b: Second parameter of the distribution.
        lower: Probability below the quantile.
        upper: Probability above the quantile: 1 minus ``lower``. It is a separate argument because
            the difference would lose digits.
        start: Initial guess of the log odds.
    """
    sign = 1.0
    if upper < lower:
        a, b, lower, start, sign = b, a, upper, -start, -1.0
    target, log_odds = math.log(lower), start
    scale = _log_beta(a, b)
    for _ in range(_NEWTON_STEPS):
        tail, density = _beta_tail(a, b, log_odds, scale)
        step = (target - math.log(tail)) * tail / density if tail else 1.0
        log_odds += step
        if abs(step) < _SMALL_STEP:
            break
    return sign * log_odds


def _beta_tail(a: float, b: float, log_odds: float, scale: float) -> tuple[float, float]:
    """Return the probability of log odds below ``log_odds``, and the density at ``log_odds``.

    ``scale`` is the logarithm of the beta function of ``a`` and ``b``.
    """
    # log(x) and log(1 - x) from the log odds, without cancellation
    log_x = -_log1p_exp(-log_odds)
    log_y = -_log1p_exp(log_odds)
    density = math.exp(a * log_x + b * log_y - scale)
    x, y = math.exp(log_x), math.exp(log_y)
    if x <= (a + 1) / (a + b + 2):
        return density / _continued_fraction(a, b, x, y), density
    return 1 - density / _continued_fraction(b, a, y, x), density


def _log1p_exp(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _continued_fraction(a: float, b: float, x: float, y: float) -> float:
    """Return the continued fraction of the incomplete beta function at ``x``, with ``y = 1 - x``.

    The fraction is that of Didonato and Morris (1992, ACM Transactions on Mathematical Software 18,
    360-373, equation 9), evaluated by the method of Lentz.
    """
    value = numerator = (a * (a * y - b * x + 1)) / (a + 1)
    denominator = 0.0
    for m in range(1, _FRACTION_STEPS):
        before, after = a + 2 * m - 1, a + 2 * m + 1
        term = (a + m - 1) * (a + b + m - 1) * m * (b - m) * x * x / (before * before)
        part = m + m * (b - m) * x / before + (a + m) * (a * y - b * x + 1 + m * (2 - x)) / after
        denominator = 1 / (part + term * denominator)
        numerator = part + term / numerator
        factor = numerator * denominator
        value *= factor
        if abs(factor - 1) <= _EPSILON:
            break
    return value


def _continued_fractions(a: float, b: float, x: Floats, y: Floats) -> Floats:
    """Return the values of :func:`_continued_fraction` for arrays of ``x`` and ``y``."""
    value = numerator = (a * (a * y - b * x + 1)) / (a + 1)
    denominator = np.zeros(len(x))
    for m in range(1, _FRACTION_STEPS if len(x) else 0):
        before, after = a + 2 * m - 1, a + 2 * m + 1
        term = (a + m - 1) * (a + b + m - 1) * m * (b - m) / (before * before) * x * x
        part = m + m * (b - m) / before * x + (a + m) / after * (a * y - b * x + 1 + m * (2 - x))
        denominator = 1 / (part + term * denominator)
        numerator = part + term / numerator
        factor = numerator * denominator
        value = value * factor
        if np.abs(factor - 1).max() <= _EPSILON:
            break
    return value


def _log_beta(a: float, b: float) -> float:
    """Return the logarithm of the beta function.

    If a parameter is large, Stirling's expansion is used, because differences between logarithms of
    the gamma function would lose digits.
    """
    a, b = min(a, b), max(a, b)
    total = a + b
    if b < _LARGE:
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(total)
    rest = _stirling(b) - _stirling(total)
    if a < _LARGE:
        power = (b - 0.5) * math.log1p(a / b) + a * math.log(total)
        return math.lgamma(a) - power + a + rest
    powers = a * math.log1p(-b / total) + b * math.log1p(-a / total)
    return powers + 0.5 * math.log(2 * math.pi * total / (a * b)) + _stirling(a) + rest


def _stirling(x: float) -> float:
    """Return the log-gamma function of ``x`` minus Stirling's approximation of it."""
    square = 1 / (x * x)
    series = 0.0
    for coefficient in reversed(_STIRLING):
        series = series * square + coefficient
    return series / x
