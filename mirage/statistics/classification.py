"""Accuracy, ROC area and calibration of labels or scores against human labels, from arrays.

Balanced accuracy is the mean recall over labels. The recall of a label is the share of the
sentences with this true label that the judge labels correctly. MEMERAG (arXiv 2502.17163, appendix
E) reports its mean over languages. A judge that guesses has a balanced accuracy of 1 divided by the
number of labels, whatever the frequencies of the labels are.

Sentences of one query are not independent. Standard errors and intervals therefore treat
queries as clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mirage._base.arrays import Bools, Floats, Ints
from mirage.errors import JudgmentError, SettingError
from mirage.statistics.bootstrap import (
    FEWEST_QUERIES,
    NO_INTERVAL,
    Interval,
    check_level,
)
from mirage.statistics.clusters import small_sample
from mirage.statistics.prediction_powered import FEWEST, FEWEST_OF_EACH

FEW_ERRORS = 10
"""The number of clusters with an error that suffices to estimate how strongly errors cluster.

If correct labels are rarer than errors, clusters with a correct label are counted instead.
"""

# Balanced accuracy --------------------------------------------------------------------------------


class Tallies(NamedTuple):
    """Counts of the sentences of one language, and of those that each judge labelled correctly.

    Only labels that occur in the language are included. A cluster is a group of dependent queries,
    by default a single query.

    Attributes:
        cluster: Integer that identifies each cluster, sorted.
        total: Number of sentences with each true label, of shape ``(clusters, labels)``.
        right: Number of sentences that each judge labelled correctly, of shape ``(clusters, labels,
            judges)``.
    """

    cluster: Ints
    total: Floats
    right: Floats


def tally(cluster: Ints, label: Ints, right: Bools) -> Tallies:
    """Count sentences, and those that each judge labelled correctly, by cluster and true label.

    Args:
        cluster: Integer that identifies the query of each sentence, or its cluster of queries.
        label: Integer that identifies the true label of each sentence.
        right: Whether each judge gave each sentence its true label, of shape ``(sentences,
            judges)``.
    """
    clusters, row = np.unique(cluster, return_inverse=True)
    labels, column = np.unique(label, return_inverse=True)
    cell, size = row * len(labels) + column, len(clusters) * len(labels)
    shape = (len(clusters), len(labels))
    total = np.bincount(cell, minlength=size).astype(np.float64).reshape(shape)
    hits = [np.bincount(cell, correct, minlength=size).reshape(shape) for correct in right.T]
    return Tallies(clusters, total, np.stack(hits, axis=-1))


def recalls(tallies: Tallies) -> Floats:
    """Return the recall of each label by each judge, of shape ``(labels, judges)``."""
    return np.asarray(tallies.right.sum(axis=0) / tallies.total.sum(axis=0)[:, None])


def standard_errors(tallies: Sequence[Tallies]) -> Floats:
    """Return the standard error of each judge's mean balanced accuracy over several languages.

    Recalls are ratios of sums, so their errors are linearized with queries as clusters (Cochran
    1977, Sampling Techniques, chapters 6 and 9A). The contribution of a cluster is the mean over
    labels of ``(right - recall * total) / sum of total``. The standard error is the square root of
    the sum of the squared contributions. The variance of each language is multiplied by
    ``G / (G - 1)``, for its ``G`` clusters. If languages share a cluster, its contributions are
    added before they are squared.

    Args:
        tallies: Sentence counts of each language.

    Returns:
        The standard errors, of shape ``(judges,)``; NaN if a language has fewer than two clusters.
    """
    if min(len(part.total) for part in tallies) < 2:
        return np.full(tallies[0].right.shape[2], np.nan)
    parts = []
    for part in tallies:
        clusters = len(part.total)
        influence = _influences(part).mean(axis=1) * np.sqrt(clusters / (clusters - 1))
        parts.append(influence / len(tallies))
    row = np.unique(np.concatenate([part.cluster for part in tallies]), return_inverse=True)[1]
    sums = np.zeros((row.max() + 1, parts[0].shape[1]))
    np.add.at(sums, row, np.concatenate(parts))
    return np.asarray(np.sqrt(np.square(sums).sum(axis=0)))


def _influences(tallies: Tallies) -> Floats:
    """Return the first-order influence of each cluster of queries on each recall.

    The result has the shape ``(clusters, labels, judges)``.
    """
    excess = tallies.right - recalls(tallies) * tallies.total[:, :, None]
    return np.asarray(excess / tallies.total.sum(axis=0)[:, None])


class _Recalls(NamedTuple):
    """Recalls with their sampling errors; there is one row per label and language.

    Attributes:
        value: Recall, of shape ``(rows, judges)``.
        weight: Weight of each row in the balanced accuracy.
        spread: Variance of each recall divided by ``recall * (1 - recall)``, of shape ``(rows,
            judges)``.
        least: Floor of ``spread``, which is higher if the judge's errors are in only a few
            clusters.
        degrees: Degrees of freedom of each row's variance.
        influence: Influence of each cluster on each recall, after the small-sample correction, of
            shape ``(clusters, rows, judges)``.
    """

    value: Floats
    weight: Floats
    spread: Floats
    least: Floats
    degrees: Floats
    influence: Floats


def _all_recalls(tallies: Sequence[Tallies]) -> _Recalls:
    clusters = np.unique(np.concatenate([part.cluster for part in tallies]))
    rows, influences = [], []
    for part in tallies:
        position = np.searchsorted(clusters, part.cluster)
        labels = part.total.shape[1]
        for label, (value, influence) in enumerate(
            zip(recalls(part), np.moveaxis(_influences(part), 1, 0), strict=True)
        ):
            present = part.total[:, label] > 0
            sizes, hits = part.total[present, label], part.right[present, label]
            correction = small_sample(sizes)
            # A recall from a single cluster has a residual of 0, so its factor does not matter.
            factors = np.nan_to_num(correction.factors, nan=1.0)
            corrected = np.zeros((len(clusters), influence.shape[1]))
            corrected[position[present]] = influence[present] * np.sqrt(factors)[:, None]
            most = value * (1 - value)
            spread = np.zeros_like(most)
            np.divide(np.square(corrected).sum(axis=0), most, out=spread, where=most > 1e-12)
            rarer = np.where(
                value > 0.5, (hits < sizes[:, None]).sum(axis=0), (hits > 0).sum(axis=0)
            )
            doubt = np.clip(1 - rarer / FEW_ERRORS, 0, 1)
            sentences = sizes.sum()
            identical = np.square(sizes / sentences).sum()
            least = doubt * identical + (1 - doubt) / sentences
            weight = 1 / (len(tallies) * labels)
            rows.append((value, weight, spread, least, max(correction.degrees, 1.0)))
            influences.append(corrected)
    value, weight, spread, least, degrees = map(np.array, zip(*rows, strict=True))
    return _Recalls(value, weight, spread, least, degrees, np.stack(influences, axis=1))


def intervals(tallies: Sequence[Tallies], contrasts: ArrayLike, *, level: float = 0.95) -> Floats:
    """Return confidence intervals of balanced accuracies, or of weighted sums such as differences.

    Each recall has a score interval (Wilson 1927, Journal of the American Statistical Association
    22, 209-212), which uses the variance between clusters instead of the binomial variance. The
    variance and its degrees of freedom have the correction of
    :func:`mirage.statistics.clusters.small_sample`; the degrees of freedom of several recalls are
    combined with the formula of Satterthwaite (1946, Biometrics Bulletin 2, 110-114).

    The variance has a floor. If at least :data:`FEW_ERRORS` clusters have an error, the floor is
    the variance of independent sentences. If fewer clusters have an error, the estimated variance
    is unreliable, so the floor is higher. Without any error, it is the variance of sentences that
    are identical within a cluster.

    The distances from the recalls to the ends of their intervals are then combined. The
    correlations of the recalls over clusters are taken into account (Newcombe 1998, Statistics in
    Medicine 17, 2635-2650, method 10; Zou and Donner 2008, Statistics in Medicine 27, 1693-1702).
    ``validation/coverage/balanced_accuracy.py`` prints the coverage.

    Args:
        tallies: Sentence counts of each language.
        contrasts: Weights of the judges in each weighted sum, of shape ``(sums, judges)``. A row of
            the identity matrix gives the accuracy of one judge; 1 and -1 give the difference of two
            judges.
        level: Confidence level of the intervals.

    Returns:
        The intervals, of shape ``(sums, 2)``; NaN if a language has fewer than
        :data:`mirage.statistics.bootstrap.FEWEST_QUERIES` clusters.

    Example:
        >>> truth, right = np.tile([0, 1], 20), np.ones((40, 1), dtype=bool)
        >>> counts = tally(np.arange(40), truth, right)
        >>> intervals([counts], np.eye(1)).round(3).tolist()
        [[0.886, 1.0]]
    """
    check_level(level)
    weights = np.asarray(contrasts, dtype=np.float64)
    if min(len(part.total) for part in tallies) < FEWEST_QUERIES:
        return np.full((len(weights), 2), np.nan)
    parts = _all_recalls(tallies)
    ends = np.array(
        [_interval_of_sum(parts, row * parts.weight[:, None], level) for row in weights]
    )
    # Rounding errors can exceed the range of the sum.
    least, most = weights.clip(max=0).sum(axis=1), weights.clip(min=0).sum(axis=1)
    return ends.clip(least[:, None], most[:, None])


def _interval_of_sum(parts: _Recalls, weights: Floats, level: float) -> Interval:
    """Return the confidence interval of a weighted sum of the recalls in ``parts``.

    ``weights`` contains the weight of each recall, in the shape of ``parts.value``.
    """
    from scipy.special import ndtri, stdtrit

    tail, value = (1 + level) / 2, parts.value
    # Shrunk towards 1/2, so that a recall of 1 has an error too.
    shrunk = (value + parts.least / 2) / (1 + parts.least)
    errors = weights**2 * np.maximum(parts.spread, parts.least) * shrunk * (1 - shrunk)
    by_row = errors.sum(axis=1)
    degrees = by_row.sum() ** 2 / (by_row**2 / parts.degrees).sum()
    # An estimated variance needs Student's t; the lower limit is not an estimate.
    square = np.maximum(stdtrit(degrees, tail) ** 2 * parts.spread, ndtri(tail) ** 2 * parts.least)
    centre, root = 2 * value + square, np.sqrt(square**2 + 4 * square * value * (1 - value))
    below = value - (centre - root) / (2 + 2 * square)
    above = (centre + root) / (2 + 2 * square) - value
    used = weights != 0
    influence = parts.influence[:, used] * np.sign(weights[used])
    norms = np.linalg.norm(influence, axis=0)
    scaled = influence / np.where(norms > 0, norms, 1.0)
    correlation = scaled.T @ scaled
    np.fill_diagonal(correlation, 1.0)
    ends = []
    for sign, (positive, negative) in ((-1, (below, above)), (1, (above, below))):
        reach = np.abs(weights[used]) * np.where(weights > 0, positive, negative)[used]
        distance = np.sqrt(max(float(reach @ correlation @ reach), 0.0))
        ends.append(float((weights * value).sum()) + sign * distance)
    return ends[0], ends[1]


def sentence_weights(language: Ints, label: Ints) -> Floats:
    """Return the weight of each sentence in the balanced accuracy.

    The balanced accuracy of a judge is the sum of the weights of the sentences that it labels
    correctly. All weights sum to 1. Each language has the same sum of weights, and so does each
    label within a language.

    Args:
        language: Language of each sentence, as an integer.
        label: True label of each sentence, as an integer.
    """
    codes, group = np.unique(np.stack([language, label]), axis=1, return_inverse=True)
    alike = np.bincount(group.ravel())  # sentences of the same language and label
    _, language_index, labels = np.unique(codes[0], return_inverse=True, return_counts=True)
    return np.asarray(1 / (len(labels) * labels[language_index] * alike))[group.ravel()]


# Thresholds ---------------------------------------------------------------------------------------


class Threshold(NamedTuple):
    """A threshold for scores, as chosen on labelled sentences.

    Attributes:
        value: The threshold. Sentences with at least this score get the positive label.
        balanced_accuracy: Balanced accuracy on the sentences on which the threshold was chosen.
    """

    value: float
    balanced_accuracy: float


def best_threshold(scores: Floats, positive: Bools, weights: Floats) -> Threshold:
    """Return the threshold with the best balanced accuracy, midway between two neighbouring scores.

    The balanced accuracy in the result is optimistic, because the threshold was chosen on the same
    sentences. Sentences without a score (NaN) count as wrong for every threshold. If several
    thresholds are best, the middle one is returned.

    Args:
        scores: Score of each sentence.
        positive: Whether each sentence has the positive label.
        weights: Weight of each sentence (:func:`sentence_weights`).

    Raises:
        JudgmentError: If no sentence has a score.

    Example:
        >>> import numpy as np
        >>> labels = np.array([False, False, True, True])
        >>> best_threshold(np.array([0.1, 0.2, 0.6, 0.9]), labels, np.full(4, 0.25))
        Threshold(value=0.4, balanced_accuracy=1.0)
    """
    scored = np.flatnonzero(~np.isnan(scores))
    if not len(scored):
        raise JudgmentError("no sentence has a score, so no threshold can be chosen")
    order = scored[np.argsort(scores[scored], kind="stable")]
    ascending, weight = scores[order], weights[order]
    # With a cut at index i, the sentences from i on are labelled positive.
    below = np.concatenate([[0.0], np.cumsum(np.where(positive[order], 0.0, weight))])
    above = np.concatenate([np.cumsum(np.where(positive[order], weight, 0.0)[::-1])[::-1], [0.0]])
    cuts = np.flatnonzero(np.diff(ascending, prepend=-np.inf, append=np.inf) > 0)
    accuracy = (below + above)[cuts]
    best = cuts[accuracy >= accuracy.max() - 1e-12]  # sums of weights are rounded
    return Threshold(_between(ascending, int(best[len(best) // 2])), float(accuracy.max()))


def _between(scores: Floats, cut: int) -> float:
    """Return a threshold above ``scores[cut - 1]`` and at most ``scores[cut]``.

    The scores are sorted.
    """
    # At both ends there is only one neighbouring score.
    if cut in (0, len(scores)):
        return float(np.nextafter(scores[-1], np.inf) if cut else scores[0])
    middle = (scores[cut - 1] + scores[cut]) / 2
    return float(middle if middle > scores[cut - 1] else scores[cut])


FOLDS = 5


def cross_validated_thresholds(
    scores: Floats, positive: Bools, language: Ints, query: Ints, *, seed: int
) -> Floats:
    """Return a threshold for each sentence, chosen on the queries of the other folds.

    Queries are assigned at random to :data:`FOLDS` folds, evenly within each language. A sentence
    and the other sentences of its query are therefore never used to choose the threshold of this
    sentence.

    Args:
        scores: Score of each sentence; NaN if it has none.
        positive: Whether each sentence has the positive label.
        language: Language of each sentence, as an integer.
        query: Query of each sentence, as an integer.
        seed: Random seed of the folds.

    Raises:
        JudgmentError: If the sentences outside one of the folds all have the same label, or no
            score.
    """
    fold = _folds(language, query, seed)
    thresholds = np.empty(len(scores))
    for number in np.unique(fold).tolist():
        outside = fold != number
        if len(np.unique(positive[outside])) < 2:
            raise JudgmentError(
                "too few queries to choose a threshold by cross-validation: when one of the "
                f"{FOLDS} folds is held out, the sentences of the other folds all have the same "
                "label; pass a threshold"
            )
        weights = sentence_weights(language[outside], positive[outside].astype(np.intp))
        thresholds[~outside] = best_threshold(scores[outside], positive[outside], weights).value
    return thresholds


def _folds(language: Ints, query: Ints, seed: int) -> Ints:
    queries, first, row = np.unique(query, return_index=True, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(queries))
    # Sort by language after shuffling, so that the folds of each language have equal sizes.
    order = order[np.argsort(language[first][order], kind="stable")]
    fold = np.empty(len(queries), dtype=np.intp)
    fold[order] = np.arange(len(queries)) % FOLDS
    return fold[row]


# Scores -------------------------------------------------------------------------------------------


def roc_auc(scores: Floats, positive: Bools) -> float:
    """Return the area under the ROC curve.

    It is the probability that a random positive sentence has a higher score than a random negative
    one.

    Pairs with equal scores count half (Hanley & McNeil 1982, Radiology 143, 29-36). Sentences
    without a score (NaN) are ignored. The area is NaN if the remaining sentences lack one of the
    two labels.

    Args:
        scores: Score of each sentence.
        positive: Whether each sentence has the positive label.
    """
    from scipy.stats import rankdata

    scored = ~np.isnan(scores)
    labels = positive[scored].astype(bool)
    positives, negatives = int(labels.sum()), int((~labels).sum())
    if not positives or not negatives:
        return float("nan")
    ranks = float(rankdata(scores[scored])[labels].sum())
    return (ranks - positives * (positives + 1) / 2) / (positives * negatives)


def roc_auc_interval(
    scores: Floats, positive: Bools, cluster: Ints, *, level: float = 0.95
) -> Interval:
    """Return a confidence interval for :func:`roc_auc`, with clustered standard errors.

    The variance is that of Obuchowski (1997), Nonparametric Analysis of Clustered ROC Curve Data,
    Biometrics 53, 567-578, with the correction of
    :func:`mirage.statistics.clusters.small_sample`. A cluster counts the more, the larger its share
    of the sentences of a label. The interval is Student's t on the log odds of the area.

    Args:
        scores: Score of each sentence.
        positive: Whether each sentence has the positive label.
        cluster: Cluster of each sentence, such as its query, as an integer.
        level: Confidence level of the interval.

    Returns:
        The interval; NaN with fewer than :data:`~mirage.statistics.prediction_powered.FEWEST`
        clusters, if fewer than :data:`~mirage.statistics.prediction_powered.FEWEST_OF_EACH`
        clusters have a positive sentence, if fewer than that have a negative one, or if the area is
        0 or 1.
    """
    from scipy.special import expit, logit, stdtrit
    from scipy.stats import rankdata

    check_level(level)
    scored = ~np.isnan(scores)
    values, above, group = scores[scored], positive[scored], cluster[scored]
    more, less = int(above.sum()), int((~above).sum())
    area, code = roc_auc(values, above), np.unique(group, return_inverse=True)[1]
    positives, negatives = np.bincount(code, above), np.bincount(code, ~above)
    fewest_of_each = min(np.count_nonzero(positives), np.count_nonzero(negatives))
    if fewest_of_each < FEWEST_OF_EACH or len(positives) < FEWEST or area in (0.0, 1.0):
        return NO_INTERVAL
    ranks = rankdata(values)
    # The number of sentences with the other label that a sentence beats (ties count half) is its
    # rank among all sentences minus its rank among those with its own label.
    influence = np.empty(len(values))
    influence[above] = ((ranks[above] - rankdata(values[above])) / less - area) / more
    influence[~above] = (1 - (ranks[~above] - rankdata(values[~above])) / more - area) / less
    correction = small_sample(np.hypot(positives / more, negatives / less))
    error = float(np.sqrt(correction.factors @ np.square(np.bincount(code, influence))))
    reach = float(stdtrit(correction.degrees, (1 + level) / 2)) * error / (area * (1 - area))
    return float(expit(logit(area) - reach)), float(expit(logit(area) + reach))


class Bin(NamedTuple):
    """A bin of a reliability table.

    Attributes:
        lower: Lower end of the scores in the bin.
        upper: Upper end of the scores in the bin.
        sentences: Number of sentences in the bin.
        mean_score: Mean score of the sentences.
        positive: Share of the sentences that have the positive label.
    """

    lower: float
    upper: float
    sentences: int
    mean_score: float
    positive: float


class Calibration(NamedTuple):
    """The calibration of scores that are used as probabilities of the positive label.

    Attributes:
        error: Expected calibration error: the absolute difference between mean score and share of
            positive labels in each bin, averaged over sentences (Naeini et al. 2015, AAAI; Guo et
            al. 2017, ICML, section 2).
        brier: Mean squared difference between the score and the label, which is 1 if positive and 0
            if not (Brier 1950, Monthly Weather Review 78, 1-3).
        bins: Bins of equal width, without empty ones.
    """

    error: float
    brier: float
    bins: tuple[Bin, ...]


def calibration(scores: ArrayLike, positive: ArrayLike, *, bins: int = 10) -> Calibration:
    """Measure how well scores in [0, 1] are calibrated, ignoring scores that are NaN.

    Args:
        scores: Score of each sentence.
        positive: Whether each sentence has the positive label.
        bins: Number of bins of equal width. Each bin includes its upper end; the first also
            includes 0.

    Returns:
        The calibration error, the Brier score, and the bins.

    Raises:
        JudgmentError: If a score is outside [0, 1], or if there is no score.
        SettingError: If ``bins`` is below 1.

    Example:
        >>> result = calibration([0.1, 0.2, 0.8, 0.9], [False, False, True, True], bins=2)
        >>> round(result.error, 3), round(result.brier, 3)
        (0.15, 0.025)
    """
    if bins < 1:
        raise SettingError(f"bins must be at least 1, got {bins}")
    values, is_positive = np.asarray(scores, dtype=np.float64), np.asarray(positive, dtype=bool)
    scored = ~np.isnan(values)
    values, is_positive = values[scored], is_positive[scored]
    if not len(values):
        raise JudgmentError("there are no scores to calibrate; pass at least one")
    if values.min() < 0 or values.max() > 1:
        raise JudgmentError(
            "calibration needs scores in [0, 1], because they are read as probabilities; got "
            f"scores from {values.min():g} to {values.max():g}"
        )
    edges = np.linspace(0, 1, bins + 1)
    bin_index = np.clip(np.searchsorted(edges, values, side="left") - 1, 0, bins - 1)
    table = tuple(
        Bin(
            float(edges[i]),
            float(edges[i + 1]),
            int(np.count_nonzero(bin_index == i)),
            float(values[bin_index == i].mean()),
            float(is_positive[bin_index == i].mean()),
        )
        for i in np.unique(bin_index).tolist()
    )
    error = sum(bin.sentences * abs(bin.mean_score - bin.positive) for bin in table) / len(values)
    return Calibration(error, float(np.mean(np.square(values - is_positive))), table)
