"""Accuracy, ROC area and calibration of labels or scores against human labels, on plain arrays.

Balanced accuracy is the mean recall over labels. The recall of a label is the share of sentences
with this true label to which the judge gave it. MEMERAG (arXiv 2502.17163, appendix E) reports its
mean over languages, all with the same weight. A judge that guesses has 1 / labels, whatever the
label frequencies are.

Sentences of one query are not independent. Standard errors and draws therefore treat queries as
clusters.
"""

from __future__ import annotations

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
    middle,
)
from mirage.statistics.prediction_powered import FEWEST, FEWEST_OF_EACH

# Balanced accuracy --------------------------------------------------------------------------------


class Tallies(NamedTuple):
    """Number of sentences of one language by query and label, and how many each judge got right.

    Only labels that occur in the language are included.

    Attributes:
        total: Number of sentences, ``(queries, labels)``.
        right: Number of sentences that each judge labelled correctly, ``(queries, labels,
            judges)``.
    """

    total: Floats
    right: Floats


def tally(query: Ints, label: Ints, right: Bools) -> Tallies:
    """Count sentences, and correctly labelled ones per judge, by query and true label.

    Args:
        query: Query of each sentence, as any integers.
        label: True label of each sentence, as any integers.
        right: Whether each judge gave a sentence its true label, ``(sentences, judges)``.
    """
    queries, row = np.unique(query, return_inverse=True)
    labels, column = np.unique(label, return_inverse=True)
    cell, size = row * len(labels) + column, len(queries) * len(labels)
    shape = (len(queries), len(labels))
    total = np.bincount(cell, minlength=size).astype(np.float64).reshape(shape)
    hits = [np.bincount(cell, correct, minlength=size).reshape(shape) for correct in right.T]
    return Tallies(total, np.stack(hits, axis=-1))


def recalls(tallies: Tallies) -> Floats:
    """Return the recall of each label by each judge, ``(labels, judges)``."""
    return np.asarray(tallies.right.sum(axis=0) / tallies.total.sum(axis=0)[:, None])


def standard_errors(tallies: Tallies) -> Floats:
    """Return the standard error of each judge's balanced accuracy, NaN with fewer than two queries.

    Recalls are ratios of sums; they are linearized with queries as clusters (Cochran 1977, Sampling
    Techniques, chapters 6 and 9A). The standard error is the square root of ``G / (G - 1)`` times a
    sum over the ``G`` queries: the squares of ``mean over labels of (right - recall * total) / sum
    of total``.
    """
    queries = len(tallies.total)
    if queries < 2:
        return np.full(tallies.right.shape[2], np.nan)
    excess = tallies.right - recalls(tallies) * tallies.total[:, :, None]
    influence = (excess / tallies.total.sum(axis=0)[:, None]).mean(axis=1)
    return np.asarray(np.sqrt(queries / (queries - 1) * np.square(influence).sum(axis=0)))


def draws_of(tallies: Tallies, *, draws: int, seed: int, deviates: Floats | None = None) -> Floats:
    """Return random draws of each judge's balanced accuracy, ``(draws, judges)``.

    One right and one wrong sentence are added to each label. Without them, a judge with no error on
    the few sentences of a rare label would have too narrow an interval (Agresti & Caffo 2000,
    Simple and Effective Confidence Intervals for Proportions and Differences of Proportions Result
    from Adding Two Successes and Two Failures, American Statistician 54, 280-288). The influence of
    each query, as in :func:`standard_errors`, is multiplied by a normal deviate that all judges
    share. The added sentences vary independently for each judge. All deviations are divided as in
    Student's t, with one degree of freedom less than the number of queries.
    ``validation/coverage/intervals.py`` prints the coverage of their percentiles.

    Args:
        tallies: Sentence counts of one language.
        draws: Number of draws.
        seed: Random seed.
        deviates: Normal deviates of the queries, ``(draws, queries)``; by default they are drawn
            here.

    Returns:
        The draws; NaN with fewer than two queries.
    """
    queries, labels, judges = tallies.right.shape
    if queries < 2:
        return np.full((draws, judges), np.nan)
    total = tallies.total.sum(axis=0)[:, None] + 2
    shares = (tallies.right.sum(axis=0) + 1) / total
    influence = (tallies.right - shares * tallies.total[:, :, None]) / total
    by_query = influence.mean(axis=1) * np.sqrt(queries / (queries - 1))
    added_error = np.sqrt((2 * shares * (1 - shares) / total**2).sum(axis=0)) / labels
    rng = np.random.default_rng(seed)
    # Always drawn, so that the later draws are the same with and without ``deviates``.
    drawn_deviates = rng.standard_normal((draws, queries))
    errors = (drawn_deviates if deviates is None else deviates) @ by_query
    errors += rng.standard_normal((draws, judges)) * added_error
    scale = np.sqrt(rng.chisquare(queries - 1, (draws, 1)) / (queries - 1))
    return np.asarray(shares.mean(axis=0) + errors / scale)


def interval(drawn: Floats, value: float, queries: int, level: float) -> Interval:
    """Return the central percentile interval of the draws, clipped to [-1, 1].

    The interval is widened to contain ``value``. It is NaN with fewer than
    :data:`mirage.statistics.bootstrap.FEWEST_QUERIES` queries.
    """
    check_level(level)
    if queries < FEWEST_QUERIES:
        return NO_INTERVAL
    lower, upper = middle(drawn, level).tolist()
    return max(min(lower, value), -1.0), min(max(upper, value), 1.0)


def sentence_weights(language: Ints, label: Ints) -> Floats:
    """Return weights of sentences; the sum over the correct ones is the balanced accuracy.

    All weights sum to 1. Each language has the same sum of weights, and so does each label within a
    language.
    """
    codes, group = np.unique(np.stack([language, label]), axis=1, return_inverse=True)
    alike = np.bincount(group.ravel())  # sentences of the same language and label
    _, language_index, labels = np.unique(codes[0], return_inverse=True, return_counts=True)
    return np.asarray(1 / (len(labels) * labels[language_index] * alike))[group.ravel()]


# Thresholds ---------------------------------------------------------------------------------------


class Threshold(NamedTuple):
    """A threshold, and its balanced accuracy on the same sentences that it was chosen on."""

    value: float
    balanced_accuracy: float


def best_threshold(scores: Floats, positive: Bools, weights: Floats) -> Threshold:
    """Return the threshold with the best balanced accuracy, midway between two neighbouring scores.

    Its balanced accuracy is optimistic: it is the best of many on the sentences that it was chosen
    on. Sentences without a score (NaN) count as wrong for every threshold. If several thresholds
    are best, the middle one is returned.

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
    """Return a threshold that labels the sorted scores from index ``cut`` on as positive."""
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

    Queries are assigned at random to :data:`FOLDS` folds, evenly within each language. No threshold
    is therefore chosen on the sentence that it is applied to, or on another sentence of its query.

    Raises:
        JudgmentError: If the sentences outside a fold lack one of the labels.
    """
    fold = _folds(language, query, seed)
    thresholds = np.empty(len(scores))
    for number in np.unique(fold).tolist():
        outside = fold != number
        if len(np.unique(positive[outside])) < 2:
            raise JudgmentError(
                "too few queries to choose a threshold by cross-validation: when one of the "
                f"{FOLDS} folds is held out, the others have only one label; pass a threshold"
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
    """Return the area under the ROC curve: how often a positive sentence has the higher score.

    Ties count half (Hanley & McNeil 1982, Radiology 143, 29-36). Sentences without a score (NaN)
    are ignored. The area is NaN if the remaining sentences lack one of the two labels.
    """
    from sklearn.metrics import roc_auc_score

    scored = ~np.isnan(scores)
    if len(np.unique(positive[scored])) < 2:
        return float("nan")
    return float(roc_auc_score(positive[scored], scores[scored]))


def roc_auc_interval(
    scores: Floats, positive: Bools, cluster: Ints, *, level: float = 0.95
) -> Interval:
    """Return a confidence interval for :func:`roc_auc`, with clustered standard errors.

    The variance is that of Obuchowski (1997), Nonparametric Analysis of Clustered ROC Curve Data,
    Biometrics 53, 567-578. The standard error is multiplied by ``n / (n - 1)`` for n clusters, as
    in the jackknife. The interval is Student's t on the log odds of the area.

    Returns:
        The interval; NaN with fewer than :data:`~mirage.statistics.prediction_powered.FEWEST`
        clusters, with fewer than :data:`~mirage.statistics.prediction_powered.FEWEST_OF_EACH`
        sentences of either label, or if the area is 0 or 1.
    """
    from scipy.special import expit, logit, stdtrit
    from scipy.stats import rankdata

    check_level(level)
    scored = ~np.isnan(scores)
    values, above, group = scores[scored], positive[scored], cluster[scored]
    more, less = int(above.sum()), int((~above).sum())
    area, clusters = roc_auc(values, above), len(np.unique(group))
    if min(more, less) < FEWEST_OF_EACH or clusters < FEWEST or area in (0.0, 1.0):
        return NO_INTERVAL
    ranks = rankdata(values)
    # The number of sentences with the other label that a sentence beats (ties count half) is its
    # rank among all sentences minus its rank among those with its own label.
    influence = np.empty(len(values))
    influence[above] = ((ranks[above] - rankdata(values[above])) / less - area) / more
    influence[~above] = (1 - (ranks[~above] - rankdata(values[~above])) / more - area) / less
    sums = np.bincount(np.unique(group, return_inverse=True)[1], influence)
    error = float(np.sqrt((sums**2).sum())) * clusters / (clusters - 1)
    reach = float(stdtrit(clusters - 1, (1 + level) / 2)) * error / (area * (1 - area))
    return float(expit(logit(area) - reach)), float(expit(logit(area) + reach))


class Bin(NamedTuple):
    """A bin of a reliability table.

    Attributes:
        lower: Lower end of the scores in the bin.
        upper: Upper end.
        sentences: Number of sentences.
        mean_score: Mean score of the sentences.
        positive: Share of the sentences that have the positive label.
    """

    lower: float
    upper: float
    sentences: int
    mean_score: float
    positive: float


class Calibration(NamedTuple):
    """Deviation of scores from probabilities of the positive label.

    Attributes:
        error: Expected calibration error: the absolute difference between mean score and share of
            positive labels in each bin, averaged over sentences (Naeini et al. 2015, AAAI; Guo et
            al. 2017, ICML, section 2).
        brier: Mean squared difference between the score and the label, 1 if positive and 0 if not
            (Brier 1950, Monthly Weather Review 78, 1-3).
        bins: Bins of equal width that contain sentences.
    """

    error: float
    brier: float
    bins: tuple[Bin, ...]


def calibration(scores: ArrayLike, positive: ArrayLike, *, bins: int = 10) -> Calibration:
    """Measure how well scores in [0, 1] are calibrated, ignoring scores that are NaN.

    Args:
        scores: Score of each sentence.
        positive: Whether each sentence has the positive label.
        bins: Number of bins of equal width. Each includes its upper end; the first also includes 0.

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
        raise JudgmentError("there is no score to calibrate")
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
