"""Uncertainty of logits of models that were judged on different queries.

The plain sandwich treats all models alike: it has one small-sample factor and one number of degrees
of freedom, both computed from the number of all queries. This is right if the same pairs were
judged on every query. A model that was judged on few of the queries determines its own expected
scores on them. Its residuals are then too small: on a single query they sum to 0, whatever its true
logit is. The plain sandwich would give such a model the narrowest interval.

The correction is that of Bell & McCaffrey (2002, Bias Reduction in Standard Errors for Linear
Regression with Multi-Stage Samples, Survey Methodology 28, 169-181) and Pustejovsky & Tipton (2018,
Journal of Business & Economic Statistics 36, 672-683), applied to each logit: squared residuals are
divided by 1 minus the leverage, and degrees of freedom are Satterthwaite's. The leverage of a query
is its share of the information about the logit. ``validation/coverage/judged_ranking.py`` prints
the coverage of models that were judged on few queries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Bools, Floats, Ints
from mirage.arena import estimation
from mirage.arena.judgments import Judgments
from mirage.statistics.clusters import FEWEST, SmallSample, small_sample

_BELOW = 1.5  # a logit needs this number of degrees of freedom less than FEWEST

_CELLS = 1 << 22  # array elements of the information about several logits, computed together
_DENSE = 1 << 23  # array elements of the information from all clusters; above it, models count
_DOMINANT = 0.9  # share of the information; a residual of such a cluster is mostly 0
_SAME = 1e-9  # relative rounding error of the sums of pair weights


class Corrected(NamedTuple):
    """Covariance of logits and degrees of freedom, corrected for leverage.

    Attributes:
        covariance: Covariance of the logits, of shape ``(models, models)``.
        degrees: Degrees of freedom of each logit; 0 if it has no interval.
    """

    covariance: Floats
    degrees: Floats


def correct(
    judgments: Judgments,
    wins: Floats,
    logits: Floats,
    cluster: Ints,
    plain: Corrected,
    unbound: Bools,
    *,
    ridge: float,
    log_nu: float | None,
) -> Corrected:
    """Correct the sandwich covariance of logits for the leverage of clusters of queries.

    If the same pairs were judged on every query, the result equals ``plain``. Otherwise a logit has
    0 degrees of freedom if its judgments are on fewer than :data:`FEWEST
    <mirage.statistics.clusters.FEWEST>` clusters, or not on all clusters if there are fewer. Its
    uncertainty is then estimated from that of the other logits. It affects these logits too,
    because all logits are relative to their mean.

    Args:
        judgments: The judgments.
        wins: Win matrix of the judgments.
        logits: Fitted logits.
        cluster: Cluster of each query of ``judgments``, from 0.
        plain: The sandwich covariance with its small-sample correction, and its degrees of freedom.
        unbound: For each model, whether its logit has no finite estimate. Its uncertainty is that
            of :func:`mirage.arena.estimation.separation_covariance`, so it is not corrected.
        ridge: Strength of the ridge, in judgments per model.
        log_nu: Log of Davidson's tie parameter; ``None`` for Bradley-Terry.
    """
    if not plain.degrees.any() or unbound.all() or _same_pairs(judgments):
        return plain
    code = cluster[judgments.query]
    curvature = estimation.curvature(logits, log_nu)
    bread = estimation.information(wins, logits, ridge, log_nu)
    clusters = int(code.max()) + 1
    least = min(FEWEST, clusters) - _BELOW
    degrees = _degrees_of_models(judgments, code, curvature)
    known = _at_least_two((degrees >= least) & ~unbound)
    if clusters * len(logits) > _DENSE:
        scale = np.sqrt(_factors(degrees) / _factors(plain.degrees))
        covariance = plain.covariance * np.outer(scale, scale)
    else:
        contrasts = _contrasts(known)
        shares = _information(
            judgments, code, contrasts @ np.linalg.inv(bread)[: len(logits)], curvature
        )
        corrections = [_correction(column) for column in shares.T]
        degrees = np.array([correction.degrees for correction in corrections])
        sides = judgments.a, judgments.b, judgments.score
        influence = estimation.influences(wins, logits, code, *sides, ridge, log_nu)
        factors = np.stack([correction.factors for correction in corrections], axis=1)
        sizes = np.bincount(cluster[np.unique(judgments.query)])
        # The part of the covariance that is due to the ridge stays as it is.
        covariance = plain.covariance + _gram(influence @ contrasts.T, factors)
        covariance -= _gram(influence, small_sample(sizes).factors[:, None])
    known = _at_least_two(known & (degrees >= least))
    degrees = np.where(known, np.minimum(degrees, plain.degrees), 0.0)
    degrees[unbound] = plain.degrees[unbound]
    logit_bread = bread[: len(logits), : len(logits)]
    unknown = _unknown(covariance, logit_bread, known, degrees == 0)
    return Corrected(covariance + unknown, degrees)


def _at_least_two(known: Bools) -> Bools:
    """Return the known models, or none if there is only one.

    Logits are relative to each other, so one logit alone tells nothing about their variance.
    """
    return known & (np.count_nonzero(known) > 1)


def _degrees_of_models(judgments: Judgments, code: Ints, curvature: Floats) -> Floats:
    """Return the approximate degrees of freedom of each logit, treating all other logits as known.

    They are the effective number of clusters in which the model was judged, minus 1.

    Args:
        judgments: The judgments.
        code: Cluster of each judgment.
        curvature: Information in one judgment about the difference of two logits.
    """
    from scipy.sparse import csc_array

    models = len(judgments.models)
    entries = np.tile(curvature[judgments.a, judgments.b], 2)
    columns = np.concatenate([judgments.a, judgments.b])
    table = csc_array((entries, (np.tile(code, 2), columns)), shape=(int(code.max()) + 1, models))
    table.sum_duplicates()
    # The variance of a cluster's error is proportional to its squared information, as in
    # small_sample.
    squares = np.square(table.data)
    column = np.repeat(np.arange(models), np.diff(table.indptr))
    total, of_squares = (np.bincount(column, x, models) for x in (squares, np.square(squares)))
    return np.asarray(np.square(total) / np.maximum(of_squares, 1e-300) - 1)


def _correction(information: Floats) -> SmallSample:
    """Return the small-sample correction of a logit, given the information from each cluster."""
    if information.max() > _DOMINANT * information.sum():
        return SmallSample(np.ones(len(information)), 0.0)
    return small_sample(information)


def _factors(degrees: Floats) -> Floats:
    """Return the small-sample factor of the variance for each number of degrees of freedom."""
    return np.where(degrees > 0, 1 + 1 / np.maximum(degrees, 1), 1.0)


def _gram(moves: Floats, factors: Floats) -> Floats:
    """Return the covariance of logits, given each cluster's influence and small-sample factor."""
    scaled = moves * np.sqrt(factors)
    return np.asarray(scaled.T @ scaled)


def _contrasts(chosen: Bools) -> Floats:
    """Return the matrix that subtracts the mean of the chosen models from their logits.

    From the logits of all other models, it subtracts the mean of all models.
    """
    models = len(chosen)
    means = np.full((models, models), 1 / models)
    if chosen.any():
        means[chosen] = chosen / np.count_nonzero(chosen)
    return np.asarray(np.eye(models) - means)


def _same_pairs(judgments: Judgments) -> bool:
    """Return whether the same pairs of models were judged on every query that has judgments."""
    models = len(judgments.models)
    low, high = np.minimum(judgments.a, judgments.b), np.maximum(judgments.a, judgments.b)
    # Sums of random weights differ if the pairs differ.
    weights = np.random.default_rng(0).random(models * models)
    sums = np.bincount(judgments.query, weights[low.astype(np.intp) * models + high])
    sums = sums[np.bincount(judgments.query) > 0]
    return bool(np.ptp(sums) <= _SAME * sums.max())


def _information(judgments: Judgments, code: Ints, weights: Floats, curvature: Floats) -> Floats:
    """Return the information about each logit from each cluster, of shape ``(clusters, models)``.

    Args:
        judgments: The judgments.
        code: Cluster of each judgment.
        weights: Change in each logit per unit of each model's score, of shape ``(models, models)``.
        curvature: Information in one judgment about the difference of two logits.
    """
    from scipy.sparse import csr_array

    models = len(curvature)
    low, high = np.minimum(judgments.a, judgments.b), np.maximum(judgments.a, judgments.b)
    pairs, pair = np.unique(low.astype(np.intp) * models + high, return_inverse=True)
    first, second = np.divmod(pairs, models)
    games = csr_array((np.ones(len(pair)), (code, pair)), shape=(int(code.max()) + 1, len(pairs)))
    root = np.sqrt(curvature[first, second])[:, None]
    step = max(1, _CELLS // len(pairs))
    columns = [weights[start : start + step].T for start in range(0, models, step)]
    blocks = [games @ np.square(root * (block[first] - block[second])) for block in columns]
    return np.asarray(np.hstack(blocks))


def _unknown(covariance: Floats, bread: Floats, known: Bools, chosen: Bools) -> Floats:
    """Return the part of the covariance of all logits that is due to errors of the chosen logits.

    The variance of these errors cannot be estimated from residuals. It is assumed to be the inverse
    of the information times a factor: the ratio of variance to inverse information for the known
    logits (Wedderburn 1974, Quasi-likelihood Functions, Biometrika 61, 439-447), but at least 1.

    Args:
        covariance: Covariance of the logits, without these errors.
        bread: Information matrix of the logits.
        known: For each model, whether its variance is known.
        chosen: For each model, whether its errors have to be added.
    """
    models = len(bread)
    if not chosen.any() or not known.any():
        return np.zeros((models, models))
    contrasts = _contrasts(known)
    by_information = np.diag(contrasts @ np.linalg.inv(bread) @ contrasts.T)[known].sum()
    dispersion = max(1.0, float(np.diag(covariance)[known].sum() / max(by_information, 1e-300)))
    moves = (np.eye(models) - 1 / models)[:, chosen]
    return np.asarray(dispersion * moves @ np.linalg.inv(moves.T @ bread @ moves) @ moves.T)
