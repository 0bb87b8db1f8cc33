"""Simultaneous intervals for ranks, and an interval for the true value of the top model.

Both are valid even if models are nearly equal. Ordinary intervals are then not valid, for two
reasons. With more models, an error in at least one of the many comparisons is more likely. It is
also more likely that the model in first place is there by luck.
"""

from __future__ import annotations

import numpy as np

from mirage._base.arrays import Bools, Floats, Ints
from mirage.statistics.bootstrap import check_level
from mirage.statistics.ranks import DECIMALS

_DRAWS = 4000
_SELECTION = 0.1  # share of the error rate that is spent on finding the candidates for first place


def error_draws(covariance: Floats, degrees: Floats | float, *, seed: int = 0) -> Floats:
    """Draw random errors of estimates from Student's t with a given covariance.

    The result has the shape ``(4000, models)``.

    Args:
        covariance: Covariance of the estimates, of shape ``(models, models)``.
        degrees: Degrees of freedom of each estimate, or of all estimates. If they are 0, the draws
            are NaN.
        seed: Random seed.
    """
    models = len(covariance)
    by_model = np.broadcast_to(np.asarray(degrees, dtype=np.float64), (models,))
    if not by_model.any() or not np.isfinite(covariance).all():
        return np.full((_DRAWS, models), np.nan)
    rng = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(covariance)
    # The symmetric root does not depend on the signs of the eigenvectors.
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    scale = t_scales(by_model, _DRAWS, rng)
    return np.asarray(rng.standard_normal((_DRAWS, models)) @ root / scale)


def t_scales(degrees: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """Draw ratios of estimated to true standard errors, as Student's t implies them.

    In a draw, the ratios of all models are at the same quantile of their distributions. A ratio is
    NaN if there are no degrees of freedom.

    Args:
        degrees: Degrees of freedom of each model.
        draws: Number of draws.
        rng: Random generator.

    Returns:
        The ratios, of shape ``(draws, models)``, or ``(draws, 1)`` if ``degrees`` are equal.
    """
    largest = float(degrees.max())
    squares = rng.chisquare(largest, (draws, 1))
    if (degrees == largest).all():
        return np.asarray(np.sqrt(squares / largest))
    order = np.argsort(np.argsort(squares[:, 0]))
    columns = {0.0: np.full(draws, np.nan), largest: np.sqrt(squares[:, 0] / largest)}
    for number in np.unique(degrees[(degrees > 0) & (degrees < largest)]).tolist():
        columns[number] = np.sqrt(np.sort(rng.chisquare(number, draws))[order] / number)
    return np.stack([columns[number] for number in degrees.tolist()], axis=1)


def first_model(estimates: Floats) -> int:
    """Return the index of the largest estimate; if several are equal, the first of them."""
    return int(np.argmax(np.round(estimates, DECIMALS)))


def rank_sets(
    estimates: Floats, errors: Floats, *, level: float = 0.95, alone: Bools | None = None
) -> Ints:
    """Return simultaneous ranges of ranks: the best and worst rank of each model.

    The result has the shape ``(models, 2)``.

    With a probability of ``level``, the range of every model contains its true rank. The best rank
    of a model is 1 plus the number of models that are significantly better. Its worst rank is the
    number of models that are not significantly worse, itself included. The critical value is the
    quantile of the largest studentised difference of any two models, so that it allows for the
    number of models. Source: Mogstad, Romano, Shaikh & Wilhelm (2024), Inference for Ranks with
    Applications to Mobility across Neighbourhoods and Academic Achievement across Countries, Review
    of Economic Studies 91, 476-518. ``validation/coverage/rank_sets.py`` prints the coverage.

    Args:
        estimates: Estimate of each model, of shape ``(models,)``; larger is better.
        errors: Draws of the estimates' errors, of shape ``(draws, models)``, such as bootstrap
            estimates minus their mean, or the result of :func:`error_draws`. A model with a NaN is
            counted as not significantly different from any model.
        level: Confidence level.
        alone: For each model, whether its range must contain the true rank with probability
            ``level`` only by itself, and not jointly with the other ranges. Comparisons with such
            models do not widen the ranges of the other models. By default it is false for all
            models.

    Example:
        >>> import numpy as np
        >>> errors = np.random.default_rng(0).normal(0, 0.1, (1000, 3))
        >>> rank_sets(np.array([2.0, 0.1, 0.0]), errors).tolist()
        [[1, 1], [2, 3], [2, 3]]
    """
    check_level(level)
    models = len(estimates)
    sets = np.tile([1, models], (models, 1))
    finite = np.isfinite(errors).all(axis=0) & np.isfinite(estimates)
    if np.count_nonzero(finite) < 2:
        return sets
    separate = np.zeros(models, dtype=bool) if alone is None else np.asarray(alone, dtype=bool)
    reach = _reach(errors[:, finite], separate[finite], level)
    difference = np.round(estimates[finite, None] - estimates[finite], DECIMALS)
    sets[finite, 0] += (difference < -reach).sum(axis=1)
    sets[finite, 1] -= (difference > reach).sum(axis=1)
    return sets


def winner_interval(
    estimates: Floats, errors: Floats, *, level: float = 0.95
) -> tuple[float, float]:
    """Return a confidence interval for the true value of the model with the largest estimate.

    The largest of several estimates is too large on average, because it was selected for being the
    largest. This interval allows for the selection: it holds simultaneously for all models that may
    be the best. Source: Zrnic & Fithian (2024), Locally Simultaneous Inference, Annals of
    Statistics 52, 1227-1253, section 4. ``validation/coverage/rank_sets.py`` prints the coverage.

    Args:
        estimates: Estimate of each model, of shape ``(models,)``.
        errors: Draws of the estimates' errors, of shape ``(draws, models)``, such as bootstrap
            estimates minus their mean, or the result of :func:`error_draws`. Models with a NaN are
            left out. If the model with the largest estimate has one, both ends are NaN.
        level: Confidence level.

    Example:
        >>> import numpy as np
        >>> errors = np.random.default_rng(0).normal(0, 0.1, (1000, 3))
        >>> low, high = winner_interval(np.array([2.0, 0.1, 0.0]), errors)
        >>> round(low, 1), round(high, 1)
        (1.8, 2.2)
    """
    check_level(level)
    if not np.isfinite(errors[:, first_model(estimates)]).all():
        return np.nan, np.nan
    known = np.isfinite(errors).all(axis=0)
    estimates, errors = estimates[known], errors[:, known]
    first = first_model(estimates)
    spent = _SELECTION * (1 - level)
    deviations = _difference_deviations(errors)
    largest = _largest_differences(errors, deviations)
    # True values and estimates from another sample may both differ from these estimates by this.
    reach = 2 * np.quantile(largest, 1 - spent) * deviations[first]
    candidates = np.flatnonzero(estimates[first] - estimates <= reach)
    deviation = errors.std(axis=0)
    studentised = np.abs(errors[:, candidates]) / np.where(deviation > 0, deviation, 1)[candidates]
    half = float(np.quantile(studentised.max(axis=1), level + spent) * deviation[first])
    return float(estimates[first]) - half, float(estimates[first]) + half


def _reach(errors: Floats, alone: Bools, level: float) -> Floats:
    """Return the smallest significant difference of each pair of models.

    The result has the shape ``(models, models)``. ``errors`` and ``alone`` are as in
    :func:`rank_sets`.
    """
    deviations = _difference_deviations(errors)
    joint = np.flatnonzero(~alone)
    reach = np.zeros_like(deviations)
    if len(joint) > 1:
        pairs = np.ix_(joint, joint)
        largest = _largest_differences(errors[:, joint], deviations[pairs])
        reach[pairs] = np.quantile(largest, level) * deviations[pairs]
    for model in np.flatnonzero(alone):
        scale = np.where(deviations[model] > 0, deviations[model], 1)
        largest = (np.abs(errors[:, [model]] - errors) / scale).max(axis=1)
        own_reach = np.quantile(largest, level) * deviations[model]
        reach[model] = np.maximum(reach[model], own_reach)
        reach[:, model] = reach[model]
    return reach


def _difference_deviations(errors: Floats) -> Floats:
    """Return the standard deviation of each pair's difference, of shape ``(models, models)``."""
    covariance = np.atleast_2d(np.cov(errors, rowvar=False))
    variance = np.diag(covariance)
    squared = variance[:, None] + variance - 2 * covariance
    # Rounding leaves about 1e-16 of the variances where two errors are the same.
    return np.asarray(np.sqrt(np.where(squared > 1e-12 * variance.max(), squared, 0)))


def _largest_differences(errors: Floats, deviations: Floats) -> Floats:
    """Return, for each draw, the largest absolute studentised difference of any two models.

    ``deviations`` has the standard deviation of each difference.
    """
    by_model = np.ascontiguousarray(errors.T)
    scale = np.divide(1, deviations, out=np.zeros_like(deviations), where=deviations > 0)
    largest = np.zeros(len(errors))
    for model in range(1, len(by_model)):
        differences = by_model[:model] - by_model[model]
        differences *= scale[:model, model, None]
        np.maximum(largest, np.abs(differences, out=differences).max(axis=0), out=largest)
    return largest
