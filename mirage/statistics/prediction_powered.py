"""Prediction-powered inference: estimates from a few labels and from predictions for all items.

The estimate from labels is shifted by a difference times a tuning factor between 0 and 1. The
difference is between the mean prediction of all items and the mean prediction of the labelled
items. Its expectation is 0 whether or not the predictions are accurate. Predictions can therefore
make an estimate more precise but never biased.

Sources, under the names by which the functions cite them:

* Angelopoulos, Bates, Fannjiang, Jordan & Zrnic (2023), Prediction-Powered Inference. Science 382,
  669-674.
* PPI++: Angelopoulos, Duchi & Zrnic (2023), PPI++: Efficient Prediction-Powered Inference. arXiv
  2311.01453; section 6 is on power tuning.
* Hajek (1971), Comment on an essay by Basu: weights by inverse probability that are normalized to
  sum to the number of items.
* Morris (1983), Parametric Empirical Bayes Inference. JASA 78, 47-55: shrinkage of an estimate
  according to the evidence that it is not 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mirage._base.arrays import Bools, Floats, Ints
from mirage.errors import SettingError
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, check_level

FEWEST = 10
"""The smallest number of labelled clusters for an interval."""

FEWEST_OF_EACH = 5
"""The smallest number of positive labels, and of negative labels, for an interval of a share."""


_RIDGE = 2.0  # penalty in units of labels, for standardized features
_STEPS = 50
_FOLDS = 5


class Tuned(NamedTuple):
    """The weight of the predictions, and their contributions to the estimate.

    Attributes:
        tuning: Weight of the predictions. 0 ignores them; 1 trusts them like labels.
        moves: Amount that the predictions add to each cluster's contribution to the estimating
            equation, of shape ``(clusters,)``.
    """

    tuning: float
    moves: Floats


def power_tuned(contributions: Floats, controls: Floats) -> Tuned:
    """Return the weight of predictions that minimizes the variance (power tuning of PPI++).

    The probability with which each cluster was selected for labelling must be known. The weight is
    ``-sum(a b) / sum(b b)`` over clusters (PPI++, section 6), limited to the range from 0 to 1. It
    is shrunk by ``1 - 1 / F`` (Morris 1983), so that useless predictions add almost no variance.
    The weight that is applied to a cluster is estimated from the other clusters. A label therefore
    does not affect the weight of its own prediction. Otherwise intervals would be too narrow if
    there are few labels.

    Args:
        contributions: ``a``: the contribution of each cluster's labels to the estimating equation,
            weighted by inverse probability, of shape ``(clusters,)``. Contributions sum to 0.
        controls: ``b``: the difference of two sums of centred predictions for each cluster, of
            shape ``(clusters,)``. The first sum is over all items. The second is over labelled
            items, with the same weights as in ``a``, and is subtracted. The expectation over
            samples is 0.
    """
    labelled = int(np.count_nonzero(contributions))
    cross, label_power, power = contributions * controls, contributions**2, controls**2
    tuning = _shrunk_tuning(cross.sum(), label_power.sum(), power.sum(), labelled)
    jackknifed = _shrunk_tuning(
        cross.sum() - cross,
        label_power.sum() - label_power,
        power.sum() - power,
        max(labelled - 1, 0),
    )
    return Tuned(float(tuning), jackknifed * controls)


def _shrunk_tuning(cross: Floats, label_power: Floats, power: Floats, labelled: int) -> Floats:
    tiny = 1e-12
    explained = np.clip(cross**2 / np.maximum(label_power * power, tiny), tiny, 1 - tiny)
    shrinkage = np.maximum(0, 1 - (1 - explained) / (explained * max(labelled - 3, 1)))
    coefficient = np.where(power > tiny, -cross / np.maximum(power, tiny), 0.0)
    return np.asarray(np.clip(coefficient * shrinkage, 0, 1))


class PoweredMean(NamedTuple):
    """A mean of labels over all items when most items have only a prediction.

    Attributes:
        estimate: Estimated mean of the labels of all items.
        interval: Lower and upper end; NaN if :attr:`why` is not empty.
        alone: Mean of the labels, without predictions.
        alone_interval: Interval of the mean of the labels.
        predicted: Mean of the predictions.
        tuning: Weight of the predictions, 0 to 1.
        labels: Number of labels.
        clusters: Number of clusters that have a label.
        worth: Number of labels that would give an equally wide interval without predictions.
        why: Reason why there is no interval; empty if there is one.
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
    """Estimate the mean label of all items from labels of some items and predictions for all items.

    To estimate a share, use the labels 1 and 0; to estimate a win rate, use 1, 0.5 and 0. The
    estimate is that of PPI++ (Angelopoulos et al. 2023, arXiv 2311.01453, section 6) with
    :func:`power_tuned`. The interval uses Student's t with one degree of freedom less than there
    are labelled clusters. Standard errors are multiplied by ``n / (n - 1)`` for n labelled
    clusters, as in the jackknife. There is no interval with fewer than :data:`FEWEST` labelled
    clusters, or if all labels are equal. If labels are between 0 and 1, there is also no interval
    if the sum of the labels, or the sum of their distances from 1, is below :data:`FEWEST_OF_EACH`.
    ``validation/power/powered_means.py`` prints the coverage of the intervals.

    Args:
        labels: Label of each item, of shape ``(items,)``; NaN if an item has none.
        predictions: Prediction of each label, of shape ``(items,)``, on any increasing scale. NaN
            is replaced with the mean of the other predictions.
        cluster: Cluster of each item, such as its query, of shape ``(items,)``; by default each
            item is its own cluster.
        probability: Probability with which each item was selected for labelling, of shape
            ``(items,)``; by default equal for all. Estimates are biased if items were selected
            because they looked bad and ``probability`` does not reflect this.
        level: Confidence level of the intervals.

    Returns:
        The estimate with its interval, and the mean of the labels alone for comparison. The ends of
        an interval are NaN if there is none.

    Raises:
        SettingError: If arrays differ in length, there are fewer than two labels, or a probability
            or ``level`` is out of range.

    Example:
        >>> import numpy as np
        >>> predictions = np.tile([0.2, 0.8], 50)
        >>> labels = np.where(np.arange(100) < 40, predictions > 0.5, np.nan)
        >>> result = powered_mean(labels, predictions)
        >>> round(result.estimate, 2), result.labels
        (0.5, 40)
    """
    y, f = (np.asarray(values, dtype=np.float64) for values in (labels, predictions))
    shared = [y, f, *(np.asarray(part) for part in (cluster, probability) if part is not None)]
    if any(part.shape != (len(y),) for part in shared):
        raise SettingError(
            "labels, predictions, clusters and probabilities need one value per item; got shapes "
            + ", ".join(str(part.shape) for part in shared)
        )
    labelled = ~np.isnan(y)
    if np.count_nonzero(labelled) < 2:
        raise SettingError(
            f"at least 2 labels are needed to estimate a mean, got {np.count_nonzero(labelled)}"
        )
    check_level(level)
    weight = _weights(labelled, probability)
    group = np.unique(np.arange(len(y)) if cluster is None else cluster, return_inverse=True)[1]
    predicted = float(np.nanmean(f)) if np.isfinite(f).any() else 0.0
    centred = np.where(np.isnan(f), 0.0, f - predicted)
    filled = np.where(labelled, y, 0.0)
    total = float(weight.sum())
    alone = float((weight * filled).sum()) / total

    def cluster_residuals(mean: float) -> Floats:
        return _cluster_sums(group, weight * np.where(labelled, filled - mean, 0.0))

    tuned = power_tuned(cluster_residuals(alone), _cluster_sums(group, (1 - weight) * centred))
    estimate = alone + float(tuned.moves.sum()) / total
    clusters = len(np.unique(group[labelled]))
    errors = [
        _error(part, clusters) / total
        for part in (cluster_residuals(alone), cluster_residuals(estimate) + tuned.moves)
    ]
    reason = _missing_interval_reason(y[labelled], clusters)
    reach = [np.nan if reason else error * _t_quantile(level, clusters - 1) for error in errors]
    count = int(np.count_nonzero(labelled))
    return PoweredMean(
        estimate,
        NO_INTERVAL if reason else (estimate - reach[1], estimate + reach[1]),
        alone,
        NO_INTERVAL if reason else (alone - reach[0], alone + reach[0]),
        predicted if np.isfinite(f).any() else np.nan,
        tuned.tuning,
        count,
        clusters,
        count * (errors[0] / errors[1]) ** 2 if errors[1] > 0 else np.nan,
        reason,
    )


def _cluster_sums(group: Ints, values: Floats) -> Floats:
    return np.asarray(np.bincount(group, values), dtype=np.float64)


def cross_predicted(features: Floats, labels: Floats, cluster: Ints, *, seed: int = 0) -> Floats:
    """Predict the label of each item from its features, without using the item's own label.

    The result has the shape ``(items,)``.

    Labelled clusters are split into five folds. The labels of a fold are predicted by a model that
    is fitted to the other folds, so that no label affects its own prediction. Items of clusters
    without labels get the mean prediction of these models (Zrnic & Candes 2024,
    Cross-Prediction-Powered Inference, PNAS 121, e2322083121). The model is a logistic regression
    with a ridge penalty. A missing value is replaced with the mean of its feature.

    Args:
        features: Features of shape ``(items, features)``; NaN if a feature is missing.
        labels: Labels from 0 to 1, of shape ``(items,)``; NaN if an item has no label.
        cluster: Cluster of each item, of shape ``(items,)``.
        seed: Random seed of the folds.
    """
    labelled = ~np.isnan(labels)
    spread = np.nanstd(features, axis=0)
    scaled = (features - np.nanmean(features, axis=0)) / np.where(spread > 0, spread, 1.0)
    design = np.column_stack([np.ones(len(scaled)), np.nan_to_num(scaled)])
    ridge = np.append(1e-6, np.full(scaled.shape[1], _RIDGE))
    order = np.random.default_rng(seed).permutation(np.unique(cluster[labelled]))
    predicted = np.zeros((_FOLDS, len(labels)))
    item_fold = np.full(len(labels), -1)
    for fold in range(_FOLDS):
        out = np.isin(cluster, order[fold::_FOLDS])
        item_fold[out] = fold
        train = labelled & ~out
        weights = logistic_weights(design[train], labels[train], ridge)
        predicted[fold] = 0.5 + 0.5 * np.tanh(design @ weights / 2)
    held_out = predicted[item_fold, np.arange(len(labels))]
    return np.asarray(np.where(item_fold < 0, predicted.mean(axis=0), held_out))


def logistic_weights(X: Floats, y: Floats, ridge: Floats) -> Floats:
    """Fit a logistic regression by Newton's method and return its weights.

    Args:
        X: Design matrix, of shape ``(rows, weights)``.
        y: Targets between 0 and 1, of shape ``(rows,)``.
        ridge: Strength of the penalty on each weight, of shape ``(weights,)``. The penalty is half
            the strength times the squared weight. It is subtracted from the log-likelihood, which
            is a sum over rows.
    """
    weights = np.zeros(X.shape[1])
    for _ in range(_STEPS if len(y) else 0):
        chance = 0.5 + 0.5 * np.tanh(X @ weights / 2)
        slope = X.T @ (y - chance) - ridge * weights
        curve = (X * (chance * (1 - chance))[:, None]).T @ X + np.diag(ridge)
        step = np.linalg.solve(curve, slope)
        # Limit the step, because Newton's method can overshoot far from the optimum.
        weights = weights + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-6:
            break
    return weights


def _weights(labelled: Bools, probability: ArrayLike | None) -> Floats:
    """Return the number of items that each labelled item represents (Hajek 1971).

    These numbers sum to the number of all items. They are 0 for items without a label.
    """
    chance = np.ones(len(labelled)) if probability is None else np.asarray(probability, np.float64)
    if not ((chance[labelled] > 0) & (chance[labelled] <= 1)).all():
        raise SettingError(
            "the probability of each labelled item must be above 0 and at most 1, got values from "
            f"{chance[labelled].min():g} to {chance[labelled].max():g}"
        )
    weight = np.where(labelled, 1 / np.where(labelled, chance, 1.0), 0.0)
    return np.asarray(weight * len(labelled) / weight.sum())


def _error(contributions: Floats, clusters: int) -> float:
    """Return the standard error of the sum of contributions, corrected as in the jackknife."""
    if clusters < 2:
        return float("nan")
    return float(np.sqrt((contributions**2).sum())) * clusters / (clusters - 1)


def _t_quantile(level: float, degrees: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + level) / 2))


def _missing_interval_reason(labels: Floats, clusters: int) -> str:
    if clusters < FEWEST:
        return (
            f"no interval: {clusters} labelled clusters are too few, at least {FEWEST} are needed"
        )
    if labels.min() == labels.max():
        return "no interval: all labels are the same"
    if labels.min() >= 0 and labels.max() <= 1:
        fewer = min(labels.sum(), (1 - labels).sum())
        if fewer < FEWEST_OF_EACH:
            return (
                f"no interval: the labels, or their distances from 1, sum to {fewer:g}; at least "
                f"{FEWEST_OF_EACH} is needed"
            )
    return ""
