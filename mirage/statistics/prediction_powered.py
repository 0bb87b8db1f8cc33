"""Prediction-powered inference: estimates from a few labels, carried by predictions for all items.

What labels alone say is moved by what predictions say of all items less what they say of the
labelled ones, times a tuning between 0 and 1. That difference is 0 in the mean whatever the
predictions are worth, so they can make an estimate better and never biased.

Sources, by the name under which the functions cite them:

* Angelopoulos, Bates, Fannjiang, Jordan & Zrnic (2023), Prediction-Powered Inference. Science 382,
  669-674.
* PPI++: Angelopoulos, Duchi & Zrnic (2023), PPI++: Efficient Prediction-Powered Inference. arXiv
  2311.01453; section 6 is on power tuning.
* Hajek (1971), Comment on an essay by Basu: weights by inverse probability that are made to sum to
  the number of items.
* Morris (1983), Parametric Empirical Bayes Inference. JASA 78, 47-55: shrinkage of an estimate by
  how sure it is not 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mirage._base.arrays import Bools, Floats, Ints
from mirage.errors import SettingError
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, check_level

__all__ = [
    "FEWEST",
    "FEWEST_OF_EACH",
    "PoweredMean",
    "Tuned",
    "cross_predicted",
    "logistic_weights",
    "power_tuned",
    "powered_mean",
]

FEWEST = 10
"""Labelled clusters below which no interval is shown."""

FEWEST_OF_EACH = 5
"""Labels on either side of the middle below which the interval of a share is not shown."""


_RIDGE = 2.0  # in labels; features are on a scale of 1
_STEPS = 50


class Tuned(NamedTuple):
    """How much predictions count, and what each cluster adds by them.

    Attributes:
        tuning: 0 leaves the labels alone, 1 trusts predictions as if they were labels.
        moves: ``(clusters,)``, what each cluster adds to the labels' contributions.
    """

    tuning: float
    moves: Floats


def power_tuned(contributions: Floats, controls: Floats) -> Tuned:
    """Power tuning for clusters of items and any known probabilities of being labelled.

    The tuning of PPI++ (section 6) is the coefficient that makes the variance least: here
    ``-sum(a b) / sum(b b)`` over clusters, held between 0 and 1, and shrunk by ``1 - 1 / F``
    (Morris 1983) so that predictions which are worth nothing cost next to nothing. That of a
    cluster is learnt from the other clusters, so that no label has a part in how much its own
    prediction counts: without that, intervals are too narrow where labels are few.

    Args:
        contributions: ``a``, what each cluster's labels add to the estimating equation, weighted
            by inverse probability; they sum to 0, ``(clusters,)``.
        controls: ``b``, the predictions of a cluster's items, centred, less those of its labelled
            ones weighted likewise; 0 in the mean over samples, ``(clusters,)``.
    """
    labelled = int(np.count_nonzero(contributions))
    cross, own, power = contributions * controls, contributions**2, controls**2
    tuning = _tuning(cross.sum(), own.sum(), power.sum(), labelled)
    others = _tuning(
        cross.sum() - cross, own.sum() - own, power.sum() - power, max(labelled - 1, 0)
    )
    return Tuned(float(tuning), others * controls)


def _tuning(cross: Floats, own: Floats, power: Floats, labelled: int) -> Floats:
    tiny = 1e-12
    explained = np.clip(cross**2 / np.maximum(own * power, tiny), tiny, 1 - tiny)
    shrinkage = np.maximum(0, 1 - (1 - explained) / (explained * max(labelled - 3, 1)))
    coefficient = np.where(power > tiny, -cross / np.maximum(power, tiny), 0.0)
    return np.asarray(np.clip(coefficient * shrinkage, 0, 1))


class PoweredMean(NamedTuple):
    """A mean of labels over all items, most of which have a prediction alone.

    Attributes:
        estimate: the mean that labels would have on all items.
        interval: lower and upper end; NaN where :attr:`why` says so.
        alone: the mean of the labels, without predictions.
        alone_interval: its interval.
        predicted: the mean of the predictions.
        tuning: how much predictions count, 0 to 1.
        labels: how many there are.
        clusters: that have a label.
        worth: how many labels alone would have an interval as narrow.
        why: there is no interval, in words; empty where there is one.
    """

    estimate: float
    interval: Interval
    alone: float
    alone_interval: Interval
    predicted: float
    tuning: float
    labels: int
    clusters: int
    worth: float
    why: str


def powered_mean(
    labels: ArrayLike,
    predictions: ArrayLike,
    *,
    cluster: ArrayLike | None = None,
    probability: ArrayLike | None = None,
    level: float = 0.95,
) -> PoweredMean:
    """The mean of labels over all items, from the labels of some and predictions for all.

    A share is the mean of labels 1 and 0, a win rate that of 1, 0.5 and 0. The estimate is that of
    PPI++ (section 6) with :func:`power_tuned`, its interval Student's t with one degree of freedom
    less than there are labelled clusters, and with standard errors ``n / (n - 1)`` times as large
    for n of them, as by the jackknife. None is shown below :data:`FEWEST` labelled clusters, nor
    where labels are shares and fewer than :data:`FEWEST_OF_EACH` stand on one side:
    ``benchmarks/powered_means.py`` shows how often intervals hold the truth.

    Args:
        labels: NaN where an item has none, ``(items,)``.
        predictions: of the labels, on any scale on which larger says larger, ``(items,)``; one
            that is NaN is taken at the mean of the others.
        cluster: what items belong together, such as the query, ``(items,)``; by default each
            stands alone.
        probability: that an item was to be labelled, ``(items,)``; by default alike for all. Items
            that were labelled because they looked bad make every estimate wrong.
        level: of the intervals.

    Raises:
        SettingError: arrays of different lengths, fewer than two labels, a probability that is
            none, or no such level.
    """
    y, f = (np.asarray(values, dtype=np.float64) for values in (labels, predictions))
    shared = [y, f, *(np.asarray(part) for part in (cluster, probability) if part is not None)]
    if any(part.shape != (len(y),) for part in shared):
        raise SettingError(
            "labels, predictions, clusters and probabilities are one a item, not of shapes "
            + ", ".join(str(part.shape) for part in shared)
        )
    known = ~np.isnan(y)
    if np.count_nonzero(known) < 2:
        raise SettingError(f"a mean takes 2 labels or more, not {np.count_nonzero(known)}")
    check_level(level)
    weight = _weights(known, probability)
    group = np.unique(np.arange(len(y)) if cluster is None else cluster, return_inverse=True)[1]
    predicted = float(np.nanmean(f)) if np.isfinite(f).any() else 0.0
    centred = np.where(np.isnan(f), 0.0, f - predicted)
    gap = np.where(known, y, 0.0)
    total = float(weight.sum())
    alone = float((weight * gap).sum()) / total

    def by_cluster(mean: float) -> Floats:
        return _sums(group, weight * np.where(known, gap - mean, 0.0))

    tuned = power_tuned(by_cluster(alone), _sums(group, (1 - weight) * centred))
    estimate = alone + float(tuned.moves.sum()) / total
    clusters = len(np.unique(group[known]))
    errors = [
        _error(part, clusters) / total
        for part in (by_cluster(alone), by_cluster(estimate) + tuned.moves)
    ]
    why = _no_interval(y[known], clusters)
    reach = [np.nan if why else error * _t(level, clusters - 1) for error in errors]
    count = int(np.count_nonzero(known))
    return PoweredMean(
        estimate,
        NO_INTERVAL if why else (estimate - reach[1], estimate + reach[1]),
        alone,
        NO_INTERVAL if why else (alone - reach[0], alone + reach[0]),
        predicted if np.isfinite(f).any() else np.nan,
        tuned.tuning,
        count,
        clusters,
        count * (errors[0] / errors[1]) ** 2 if errors[1] > 0 else np.nan,
        why,
    )


def _sums(group: Ints, values: Floats) -> Floats:
    return np.asarray(np.bincount(group, values), dtype=np.float64)


def cross_predicted(
    features: Floats, labels: Floats, cluster: Ints, *, seed: int = 0, folds: int = 5
) -> Floats:
    """Predictions of labels from several features, taught by the labels themselves: ``(items,)``.

    Labelled clusters are dealt into parts, and those of one are predicted from the others, so that
    no label has a part in its own prediction; what has no label is at the mean of all (Zrnic &
    Candes 2024, Cross-Prediction-Powered Inference, PNAS 121, e2322083121). By logistic regression
    with a ridge; a feature that is missing is at its mean.

    Args:
        features: ``(items, features)``.
        labels: 0 to 1, NaN where there is none, ``(items,)``.
        cluster: of each item, ``(items,)``.
        seed: of the parts.
        folds: how many parts.
    """
    known = ~np.isnan(labels)
    spread = np.nanstd(features, axis=0)
    scaled = (features - np.nanmean(features, axis=0)) / np.where(spread > 0, spread, 1.0)
    design = np.column_stack([np.ones(len(scaled)), np.nan_to_num(scaled)])
    ridge = np.append(1e-6, np.full(scaled.shape[1], _RIDGE))
    order = np.random.default_rng(seed).permutation(np.unique(cluster[known]))
    predicted = np.zeros((folds, len(labels)))
    own = np.full(len(labels), -1)
    for fold in range(folds):
        out = np.isin(cluster, order[fold::folds])
        own[out] = fold
        train = known & ~out
        weights = logistic_weights(design[train], labels[train], ridge)
        predicted[fold] = 0.5 + 0.5 * np.tanh(design @ weights / 2)
    held_out = predicted[own, np.arange(len(labels))]
    return np.asarray(np.where(own < 0, predicted.mean(axis=0), held_out))


def logistic_weights(X: Floats, y: Floats, ridge: Floats) -> Floats:
    """Weights of a logistic regression by Newton's method; ``y`` may lie between 0 and 1.

    Args:
        X: ``(rows, weights)``.
        y: ``(rows,)``.
        ridge: of half the squared weights, ``(weights,)``, in units of rows.
    """
    weights = np.zeros(X.shape[1])
    for _ in range(_STEPS if len(y) else 0):
        chance = 0.5 + 0.5 * np.tanh(X @ weights / 2)
        slope = X.T @ (y - chance) - ridge * weights
        curve = (X * (chance * (1 - chance))[:, None]).T @ X + np.diag(ridge)
        step = np.linalg.solve(curve, slope)
        weights = weights + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-6:
            break
    return weights


def _weights(known: Bools, probability: ArrayLike | None) -> Floats:
    """How many items each label stands for; they sum to the number of items (Hajek 1971)."""
    chance = np.ones(len(known)) if probability is None else np.asarray(probability, np.float64)
    if not ((chance[known] > 0) & (chance[known] <= 1)).all():
        raise SettingError("the probability of a label is above 0 and up to 1")
    weight = np.where(known, 1 / np.where(known, chance, 1.0), 0.0)
    return np.asarray(weight * len(known) / weight.sum())


def _error(contributions: Floats, clusters: int) -> float:
    """The standard error of a sum of clusters' contributions, as by the jackknife."""
    if clusters < 2:
        return float("nan")
    return float(np.sqrt((contributions**2).sum())) * clusters / (clusters - 1)


def _t(level: float, degrees: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + level) / 2))


def _no_interval(labels: Floats, clusters: int) -> str:
    if clusters < FEWEST:
        return f"no interval: labels of {clusters} clusters are too few, {FEWEST} are needed"
    if labels.min() == labels.max():
        return "no interval: all labels are the same"
    if labels.min() >= 0 and labels.max() <= 1:
        fewer = min(labels.sum(), (1 - labels).sum())
        if fewer < FEWEST_OF_EACH:
            return (
                f"no interval: the labels count {fewer:g} on one side, and {FEWEST_OF_EACH} are "
                "needed"
            )
    return ""
