"""Placement of a model among anchors, from a judge's verdicts on some pairs.

Anchors are models with known logits. A pair consists of a query and an anchor: the response of the
model is compared with the response of the anchor. For pairs without a verdict, a
predicted verdict is used, for instance the prediction of a surrogate. The interval is valid
regardless of the quality of the predictions (:mod:`mirage.statistics.prediction_powered`). Related
queries count as one cluster (:mod:`mirage.statistics.clusters`). Arrays with one value per pair
have the shape ``(queries, anchors)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mirage._base.arrays import Bools, Floats, Ints
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, check_level
from mirage.statistics.clusters import SmallSample, small_sample
from mirage.statistics.prediction_powered import FEWEST, power_tuned

_RIDGE = 0.1  # the ridge of BradleyTerry(), used if all verdicts went one way
_WALKS = 200_000  # simulated random walks


class Sample(NamedTuple):
    """Sampled pairs of a query and an anchor, in the order of judging, with their probabilities.

    Attributes:
        query: Query index of each pair, of shape ``(pairs,)``.
        anchor: Anchor index of each pair, of shape ``(pairs,)``.
        probability: Probability that a pair is sampled, of shape ``(queries, anchors)``; 0 if it
            cannot be judged.
    """

    query: Ints
    anchor: Ints
    probability: Floats


def sample(possible: Bools, pairs: int, *, seed: int = 0) -> Sample:
    """Sample pairs at random, using all queries once before any query twice.

    With the same seed, a larger sample starts with the pairs of every smaller sample.

    Args:
        possible: Whether a pair can be judged, of shape ``(queries, anchors)``.
        pairs: Number of pairs to sample; all possible pairs if there are fewer.
        seed: Random seed.

    Returns:
        The sampled pairs, and the probability of sampling each possible pair.
    """
    rng = np.random.default_rng(seed)
    order_in_query, order_in_turn = rng.random(possible.shape), rng.random(possible.shape)
    turn = np.argsort(np.argsort(np.where(possible, order_in_query, 2.0), axis=1), axis=1)
    # ``order_in_turn`` is drawn separately per turn, so that no query is always first.
    query, anchor = np.nonzero(possible)
    random_order = order_in_turn[query, turn[query, anchor]]
    order = np.lexsort((random_order, turn[query, anchor]))[:pairs]
    return Sample(query[order], anchor[order], _probability(possible, len(order)))


def _probability(possible: Bools, pairs: int) -> Floats:
    """Return the probability that each pair is in a sample of this size from :func:`sample`."""
    count = possible.sum(axis=1)
    expected_pairs = np.zeros(len(count))
    remaining = pairs
    for turn in range(possible.shape[1]):
        eligible = count > turn
        size = int(np.count_nonzero(eligible))
        if not remaining or not size:
            break
        expected_pairs += eligible * min(1.0, remaining / size)
        remaining -= min(remaining, size)
    return np.asarray(possible * (expected_pairs / np.maximum(count, 1))[:, None])


class Anchors(NamedTuple):
    """Models with known logits, against which a new model is compared.

    Attributes:
        logits: Natural-log odds, of shape ``(anchors,)``.
        influence: First-order influence of the judgments on each cluster of queries on each logit,
            of shape ``(clusters, anchors)``; 0 if it is not known. It describes the uncertainty
            that arises because the queries are a sample.
        covariance: Covariance of the remaining uncertainty of the logits, of shape ``(anchors,
            anchors)``.
    """

    logits: Floats
    influence: Floats
    covariance: Floats


class Placement(NamedTuple):
    """The logit of a new model on the scale of the anchors, with its uncertainty.

    Attributes:
        logit: Logit on the anchors' scale.
        interval: Lower and upper end of the logit's confidence interval. NaN with fewer than
            :data:`~mirage.statistics.prediction_powered.FEWEST` judged clusters of queries, or if
            the verdicts do not bound an end, as for a model that won everything.
        errors: Influence of the verdicts of each cluster on the logit, of shape ``(clusters,)``.
        leverage: Derivative of the model's logit with respect to each anchor's logit, of shape
            ``(anchors,)``.
        open_variance: Variance of the logit if the model won, or lost, everything; else 0.
        judgments: Number of judged pairs.
        queries: Number of queries of these pairs.
        clusters: Number of clusters of these queries.
        degrees: Degrees of freedom, by :func:`mirage.statistics.clusters.small_sample`.
        tuning: Weight of the predictions, 0 to 1.
        worth: Number of judgments that would give the same precision without predictions; NaN if it
            is not known.
    """

    logit: float
    interval: Interval
    errors: Floats
    leverage: Floats
    open_variance: float
    judgments: int
    queries: int
    clusters: int
    degrees: float
    tuning: float
    worth: float


def place(
    verdicts: Floats,
    predicted: Floats,
    probability: Floats,
    anchors: Anchors,
    *,
    cluster: Ints | None = None,
    level: float = 0.95,
) -> Placement:
    """Estimate a model's logit from verdicts on some pairs and predicted verdicts for all pairs.

    The model's total score is estimated as the sum of verdicts, weighted by inverse probability and
    adjusted by predictions (:func:`power_tuned
    <mirage.statistics.prediction_powered.power_tuned>`). The estimated logit is the one for which
    the Bradley-Terry model expects this total score. Without predictions, this is the fit to the
    verdicts alone. If every pair was judged, predictions have no effect.

    The interval contains the logits whose expected score a t test does not reject, with a
    small-sample correction for clusters. As with the jackknife, standard errors are multiplied by
    ``n / (n - 1)`` for n judged clusters of equal size. ``validation/power/few_judgments.py``
    measures the coverage.

    Args:
        verdicts: Scores of the model against the anchors, of shape ``(queries, anchors)``: 1, 0.5
            for a tie, 0; NaN if the pair was not judged.
        predicted: Predicted scores, 0 to 1, in the same shape; NaN if the pair cannot be judged
            because one of its responses is missing.
        probability: Probability that a pair is sampled, as returned by :func:`sample`.
        anchors: The models with which the model was compared.
        cluster: Cluster of each query, counted from 0; by default each query is its own cluster.
        level: Confidence level of the interval.

    Returns:
        The placement of the model.
    """
    check_level(level)
    judged = ~np.isnan(verdicts)
    group = np.arange(len(judged)) if cluster is None else cluster

    def by_cluster(values: ArrayLike) -> Floats:
        return np.asarray(np.bincount(group, values), dtype=np.float64)

    sizes = by_cluster(judged.any(axis=1))
    weight = np.where(judged, 1 / np.where(judged, probability, 1.0), 0.0)
    weight *= np.count_nonzero(~np.isnan(predicted)) / max(weight.sum(), 1e-12)
    weights_per_anchor, total_score = (
        weight.sum(axis=0),
        float(np.where(judged, weight * verdicts, 0).sum()),
    )
    score = np.where(judged, verdicts, 0.0)

    def contributions(logit: float) -> Floats:
        return by_cluster((weight * (score - _expected(logit, anchors))).sum(axis=1))

    # Without a win, without a loss, or with one cluster, the verdicts do not bound the logit.
    if not 0 < total_score < weights_per_anchor.sum() or np.count_nonzero(sizes) < 2:
        return _one_sided_placement(judged, score, anchors, sizes)
    logit_without_predictions = _solve_logit(total_score, weights_per_anchor, anchors)
    centred = predicted - np.nanmean(predicted, axis=0)
    control = np.where(np.isnan(predicted), 0.0, (1 - weight) * centred).sum(axis=1)
    tuned = power_tuned(contributions(logit_without_predictions), by_cluster(control))
    adjusted_score = total_score + float(tuned.moves.sum())
    if not 0 < adjusted_score < weights_per_anchor.sum():
        return _one_sided_placement(judged, score, anchors, sizes)
    logit = _solve_logit(adjusted_score, weights_per_anchor, anchors)
    slope = weights_per_anchor * _expected(logit, anchors) * (1 - _expected(logit, anchors))
    cluster_errors = contributions(logit) + tuned.moves
    correction, inflation = small_sample(sizes[sizes > 0]), _inflation(sizes)
    error = _total_error(cluster_errors, slope, anchors, inflation)
    error_without_predictions = _total_error(
        contributions(logit_without_predictions), slope, anchors, inflation
    )
    return Placement(
        logit,
        _interval(adjusted_score, error, weights_per_anchor, anchors, correction, level),
        inflation * cluster_errors / slope.sum(),
        slope / slope.sum(),
        0.0,
        int(np.count_nonzero(judged)),
        int(sizes.sum()),
        int(np.count_nonzero(sizes)),
        correction.degrees,
        tuned.tuning,
        float(np.count_nonzero(judged) * (error_without_predictions / error) ** 2)
        if error > 0
        else np.nan,
    )


def joint_covariance(anchors: Anchors, placed: list[Placement]) -> Floats:
    """Return the covariance matrix of the logits of anchors, followed by placed models."""
    count = len(anchors.logits)
    leverage = np.vstack([np.eye(count), *(placement.leverage for placement in placed)])
    errors = np.stack(
        [np.zeros(len(anchors.influence))] * count + [placement.errors for placement in placed], 1
    )
    moves = errors + anchors.influence @ leverage.T
    covariance = moves.T @ moves + leverage @ anchors.covariance @ leverage.T
    covariance[range(count, len(leverage)), range(count, len(leverage))] += [
        placement.open_variance for placement in placed
    ]
    return np.asarray(covariance)


def _expected(logit: float, anchors: Anchors) -> Floats:
    """Return the expected score of a model with this logit against each anchor."""
    return np.asarray(0.5 + 0.5 * np.tanh((logit - anchors.logits) / 2))


def _solve_logit(total_score: float, games: Floats, anchors: Anchors) -> float:
    """Return the logit at which the expected total score equals ``total_score``.

    ``games`` is the number of comparisons with each anchor. The logit is infinite if the model won
    or lost all of them.
    """
    from scipy.optimize import brentq

    if not 0 < total_score < games.sum():
        return float(np.inf if total_score > 0 else -np.inf)
    low, high = anchors.logits.min() - 40.0, anchors.logits.max() + 40.0
    return float(brentq(lambda x: float(games @ _expected(x, anchors)) - total_score, low, high))


def _inflation(sizes: Floats) -> Floats:
    """Return the factor by which the small-sample correction multiplies each cluster's error.

    ``sizes`` is the number of judged queries in each cluster.
    """
    judged = sizes > 0
    clusters = int(np.count_nonzero(judged))
    square = np.full(len(sizes), clusters / (clusters - 1))
    square[judged] = small_sample(sizes[judged]).factors
    return np.asarray(np.sqrt(square * clusters / (clusters - 1)))


def _total_error(
    cluster_errors: Floats, slope: Floats, anchors: Anchors, inflation: Floats
) -> float:
    """Return the standard error of the difference between the model's score and its expectation.

    It includes the uncertainty of the anchors' logits.

    Args:
        cluster_errors: Contribution of each cluster of queries to the difference.
        slope: Derivative of the expected score with respect to the logit, for each anchor.
        anchors: The anchors.
        inflation: Factor of each cluster, from :func:`_inflation`.
    """
    errors = inflation * (cluster_errors + anchors.influence @ slope)
    return float(np.sqrt((errors**2).sum() + slope @ anchors.covariance @ slope))


def _interval(
    total_score: float,
    error: float,
    games: Floats,
    anchors: Anchors,
    correction: SmallSample,
    level: float,
) -> Interval:
    """Return the interval of the logit; NaN if there are too few clusters or an end is infinite.

    ``error`` is the standard error of ``total_score``; ``games`` is as in :func:`_solve_logit`.
    """
    from scipy.special import stdtrit

    reach = float(stdtrit(correction.degrees, (1 + level) / 2)) * error
    ends = (
        _solve_logit(total_score - reach, games, anchors),
        _solve_logit(total_score + reach, games, anchors),
    )
    return ends if len(correction.factors) >= FEWEST and np.isfinite(ends).all() else NO_INTERVAL


def _one_sided_placement(
    judged: Bools, score: Floats, anchors: Anchors, sizes: Floats
) -> Placement:
    """Place a model that won, or lost, all its comparisons.

    Only the ridge penalty bounds the logit of such a model, so the placement has no interval.
    ``sizes`` is the number of judged queries in each cluster.
    """
    games, total_score = judged.sum(axis=0).astype(np.float64), float(score.sum())
    middle = float(anchors.logits.mean())
    anchors_with_ridge = Anchors(
        np.append(anchors.logits, middle), anchors.influence, anchors.covariance
    )
    games = np.append(games, _RIDGE)
    logit = _solve_logit(total_score + _RIDGE / 2, games, anchors_with_ridge)
    slope = (
        games * _expected(logit, anchors_with_ridge) * (1 - _expected(logit, anchors_with_ridge))
    )
    return Placement(
        logit,
        NO_INTERVAL,
        np.zeros(len(sizes)),
        slope[:-1] / slope.sum(),
        1 / float(slope.sum()),
        int(np.count_nonzero(judged)),
        int(sizes.sum()),
        int(np.count_nonzero(sizes)),
        small_sample(sizes[sizes > 0]).degrees,
        0.0,
        np.nan,
    )


def level_of_looks(level: float, looks: Sequence[int]) -> float:
    """Return the confidence level that intervals need so that all of them hold jointly.

    A judge may be stopped at any of several times, called looks, each after a given number of
    judgments. To keep the joint level, all intervals are widened by a constant factor (Pocock 1977,
    Group Sequential Methods in the Design and Analysis of Clinical Trials, Biometrika 64, 191-199).
    The information is assumed to grow in proportion to the number of judgments. The factor comes
    from 200,000 random walks, and its error is about 0.5 %.

    Args:
        level: Joint confidence level of all intervals.
        looks: Number of judgments at each look, in ascending order.

    Returns:
        The confidence level of the interval at each look.
    """
    from scipy.special import ndtr

    check_level(level)
    if len(looks) == 1:
        return level
    times = np.asarray(looks, dtype=np.float64)
    steps = np.sqrt(np.diff(times, prepend=0.0))
    highest = np.zeros(_WALKS)
    rng = np.random.default_rng(0)
    walk = np.zeros(_WALKS)
    for step, time in zip(steps, times, strict=True):
        walk += step * rng.standard_normal(_WALKS)
        np.maximum(highest, np.abs(walk) / np.sqrt(time), out=highest)
    return float(2 * ndtr(np.quantile(highest, level)) - 1)
