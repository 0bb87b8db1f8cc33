"""How well labels or scores agree with people's labels: figures on plain arrays.

Balanced accuracy is the mean over labels of the recall: the share of the sentences with a label in
truth that a judge gave it. MEMERAG (arXiv 2502.17163, appendix E) reports its mean
over languages, all of the same weight. A judge that guesses has 1 / labels, however frequent they
are.

Sentences of one query are not independent, and so queries are the clusters, of errors and draws.
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

__all__ = [
    "Bin",
    "Calibration",
    "Tallies",
    "Threshold",
    "best_threshold",
    "calibration",
    "cross_validated_thresholds",
    "draws_of",
    "interval",
    "recalls",
    "roc_auc",
    "roc_auc_interval",
    "sentence_weights",
    "standard_errors",
    "tally",
]


# Balanced accuracy --------------------------------------------------------------------------------


class Tallies(NamedTuple):
    """Sentences of one language by query and label, and how many of them each judge got right.

    ``total`` has shape ``(queries, labels)`` and ``right`` ``(queries, labels, judges)``. Only
    labels that occur in the language are there.
    """

    total: Floats
    right: Floats


def tally(query: Ints, label: Ints, right: Bools) -> Tallies:
    """Count the sentences of one language.

    Args:
        query: the query of each sentence, as any integers.
        label: the label of each sentence in truth, likewise.
        right: whether each judge gave a sentence that label, ``(sentences, judges)``.
    """
    queries, row = np.unique(query, return_inverse=True)
    labels, column = np.unique(label, return_inverse=True)
    cell, size = row * len(labels) + column, len(queries) * len(labels)
    shape = (len(queries), len(labels))
    total = np.bincount(cell, minlength=size).astype(np.float64).reshape(shape)
    hits = [np.bincount(cell, of_judge, minlength=size).reshape(shape) for of_judge in right.T]
    return Tallies(total, np.stack(hits, axis=-1))


def recalls(tallies: Tallies) -> Floats:
    """The recall of each label by each judge, ``(labels, judges)``."""
    return np.asarray(tallies.right.sum(axis=0) / tallies.total.sum(axis=0)[:, None])


def standard_errors(tallies: Tallies) -> Floats:
    """Standard error of each judge's balanced accuracy, NaN with fewer than two queries.

    The ratios of sums that recalls are, made linear, with queries as clusters (Cochran 1977,
    Sampling Techniques, chapters 6 and 9A): the root of ``G / (G - 1)`` times the sum over the
    ``G`` queries of the squares of ``mean over labels of (right - recall * total) / sum of total``.
    """
    queries = len(tallies.total)
    if queries < 2:
        return np.full(tallies.right.shape[2], np.nan)
    excess = tallies.right - recalls(tallies) * tallies.total[:, :, None]
    influence = (excess / tallies.total.sum(axis=0)[:, None]).mean(axis=1)
    return np.asarray(np.sqrt(queries / (queries - 1) * np.square(influence).sum(axis=0)))


def draws_of(tallies: Tallies, *, draws: int, seed: int, deviates: Floats | None = None) -> Floats:
    """Balanced accuracy of each judge as it may be, ``(draws, judges)``.

    To the sentences of each label one that is right and one that is wrong is added, without which
    a judge with no error on the few sentences of a rare label would look certain (Agresti & Caffo
    2000, Simple and Effective Confidence Intervals for Proportions and Differences of Proportions
    Result from Adding Two Successes and Two Failures, American Statistician 54, 280-288). The
    influence of each query, as in :func:`standard_errors`, is multiplied by the same normal deviate
    for all judges, the added sentences vary for each judge by themselves, and all is divided as
    Student's t is, with one degree of freedom less than there are queries. NaN with fewer than two
    queries. ``benchmarks/intervals.py`` prints how often their percentiles hold the truth.
    ``deviates`` are those of the queries, ``(draws, queries)``, where they were drawn before.
    """
    queries, labels, judges = tallies.right.shape
    if queries < 2:
        return np.full((draws, judges), np.nan)
    total = tallies.total.sum(axis=0)[:, None] + 2
    shares = (tallies.right.sum(axis=0) + 1) / total
    influence = (tallies.right - shares * tallies.total[:, :, None]) / total
    by_query = influence.mean(axis=1) * np.sqrt(queries / (queries - 1))
    of_added = np.sqrt((2 * shares * (1 - shares) / total**2).sum(axis=0)) / labels
    rng = np.random.default_rng(seed)
    own = rng.standard_normal((draws, queries))
    errors = (own if deviates is None else deviates) @ by_query
    errors += rng.standard_normal((draws, judges)) * of_added
    scale = np.sqrt(rng.chisquare(queries - 1, (draws, 1)) / (queries - 1))
    return np.asarray(shares.mean(axis=0) + errors / scale)


def interval(drawn: Floats, value: float, queries: int, level: float) -> Interval:
    """The middle ``level`` of the draws, with the value itself, from -1 to 1.

    NaN with fewer than :data:`mirage.statistics.bootstrap.FEWEST_QUERIES` queries.
    """
    check_level(level)
    if queries < FEWEST_QUERIES:
        return NO_INTERVAL
    lower, upper = middle(drawn, level).tolist()
    return max(min(lower, value), -1.0), min(max(upper, value), 1.0)


def sentence_weights(language: Ints, label: Ints) -> Floats:
    """What each sentence counts: balanced accuracy is the sum of the weights of the right ones.

    The weights of one label of one language have the same sum as those of any other label of that
    language, those of a language the same sum as those of any other, and all of them sum to 1.
    """
    codes, group = np.unique(np.stack([language, label]), axis=1, return_inverse=True)
    alike = np.bincount(group.ravel())  # sentences of the same language and label
    _, at, labels = np.unique(codes[0], return_inverse=True, return_counts=True)
    return np.asarray(1 / (len(labels) * labels[at] * alike))[group.ravel()]


# Thresholds ---------------------------------------------------------------------------------------


class Threshold(NamedTuple):
    """A threshold, and the balanced accuracy that it gives on what it was chosen on."""

    value: float
    balanced_accuracy: float


def best_threshold(scores: Floats, positive: Bools, weights: Floats) -> Threshold:
    """The threshold that separates best, half way between the two scores that it parts.

    Its balanced accuracy flatters: it is the best of many on the very sentences that it was chosen
    on. Sentences without a score (NaN) are wrong whatever the threshold. Of several best ones it is
    the middle one.

    Args:
        scores: a number a sentence.
        positive: whether the sentence has the positive label.
        weights: what a sentence counts (:func:`sentence_weights`).
    """
    known = np.flatnonzero(~np.isnan(scores))
    if not len(known):
        raise JudgmentError("no sentence has a score, so there is no threshold to choose")
    order = known[np.argsort(scores[known], kind="stable")]
    ascending, weight = scores[order], weights[order]
    # With the threshold at place i, the sentences from i on are called positive.
    below = np.concatenate([[0.0], np.cumsum(np.where(positive[order], 0.0, weight))])
    above = np.concatenate([np.cumsum(np.where(positive[order], weight, 0.0)[::-1])[::-1], [0.0]])
    places = np.flatnonzero(np.diff(ascending, prepend=-np.inf, append=np.inf) > 0)
    accuracy = (below + above)[places]
    best = places[accuracy >= accuracy.max() - 1e-12]  # sums of weights are rounded
    return Threshold(_between(ascending, int(best[len(best) // 2])), float(accuracy.max()))


def _between(scores: Floats, place: int) -> float:
    """A threshold that calls exactly the sorted scores from this place on positive."""
    if place in (0, len(scores)):
        return float(np.nextafter(scores[-1], np.inf) if place else scores[0])
    middle = (scores[place - 1] + scores[place]) / 2
    return float(middle if middle > scores[place - 1] else scores[place])


FOLDS = 5


def cross_validated_thresholds(
    scores: Floats, positive: Bools, language: Ints, query: Ints, *, seed: int
) -> Floats:
    """For each sentence the best threshold on the queries of the four other of five folds.

    Queries are dealt to the folds at random, those of each language evenly; so no threshold is
    chosen on a sentence that it is used for, nor on another of the same query.

    Raises:
        JudgmentError: what is left outside a fold lacks sentences of one of the labels.
    """
    fold = _folds(language, query, seed)
    thresholds = np.empty(len(scores))
    for number in np.unique(fold).tolist():
        others = fold != number
        if len(np.unique(positive[others])) < 2:
            raise JudgmentError(
                "too few queries to choose a threshold by cross-validation: without one fold of "
                f"{FOLDS}, the others lack a label; give a threshold"
            )
        weights = sentence_weights(language[others], positive[others].astype(np.intp))
        thresholds[~others] = best_threshold(scores[others], positive[others], weights).value
    return thresholds


def _folds(language: Ints, query: Ints, seed: int) -> Ints:
    queries, first, row = np.unique(query, return_index=True, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(queries))
    order = order[np.argsort(language[first][order], kind="stable")]
    fold = np.empty(len(queries), dtype=np.intp)
    fold[order] = np.arange(len(queries)) % FOLDS
    return fold[row]


# Scores -------------------------------------------------------------------------------------------


def roc_auc(scores: Floats, positive: Bools) -> float:
    """Area under the ROC curve: how often a positive sentence has the higher score.

    Ties count half (Hanley & McNeil 1982, Radiology 143, 29-36). Sentences without a score (NaN)
    are left out; NaN where the others lack one of the two labels.
    """
    from sklearn.metrics import roc_auc_score

    known = ~np.isnan(scores)
    if len(np.unique(positive[known])) < 2:
        return float("nan")
    return float(roc_auc_score(positive[known], scores[known]))


def roc_auc_interval(
    scores: Floats, positive: Bools, cluster: Ints, *, level: float = 0.95
) -> Interval:
    """Interval of :func:`roc_auc`, with what is in one cluster taken as dependent.

    The variance is that of Obuchowski (1997), Nonparametric Analysis of Clustered ROC Curve Data,
    Biometrics 53, 567-578, ``n / (n - 1)`` times the standard error for n clusters, as by the
    jackknife; the interval is Student's t on the scale of the log odds of the area. NaN with fewer
    than :data:`~mirage.statistics.prediction_powered.FEWEST` clusters or
    :data:`~mirage.statistics.prediction_powered.FEWEST_OF_EACH` sentences of either label, and
    where the area is 0 or 1.
    """
    from scipy.special import expit, logit, stdtrit
    from scipy.stats import rankdata

    check_level(level)
    known = ~np.isnan(scores)
    values, above, group = scores[known], positive[known], cluster[known]
    more, less = int(above.sum()), int((~above).sum())
    area, clusters = roc_auc(values, above), len(np.unique(group))
    if min(more, less) < FEWEST_OF_EACH or clusters < FEWEST or area in (0.0, 1.0):
        return NO_INTERVAL
    ranks = rankdata(values)
    # How many of the other label each sentence beats, ties counting half: ranks among all less
    # ranks among its own.
    influence = np.empty(len(values))
    influence[above] = ((ranks[above] - rankdata(values[above])) / less - area) / more
    influence[~above] = (1 - (ranks[~above] - rankdata(values[~above])) / more - area) / less
    sums = np.bincount(np.unique(group, return_inverse=True)[1], influence)
    error = float(np.sqrt((sums**2).sum())) * clusters / (clusters - 1)
    reach = float(stdtrit(clusters - 1, (1 + level) / 2)) * error / (area * (1 - area))
    return float(expit(logit(area) - reach)), float(expit(logit(area) + reach))


class Bin(NamedTuple):
    """A bin of a reliability table: sentences with scores from ``lower`` to ``upper``."""

    lower: float
    upper: float
    sentences: int
    mean_score: float
    positive: float
    """Share of the sentences that have the positive label."""


class Calibration(NamedTuple):
    """How far scores are probabilities of the positive label.

    Attributes:
        error: expected calibration error: mean over sentences of the distance, in their bin, of
            the mean score from the share of positive labels (Naeini et al. 2015, AAAI; Guo et al.
            2017, ICML, section 2).
        brier: mean squared distance of the score from 1 where the label is positive and from 0
            elsewhere (Brier 1950, Monthly Weather Review 78, 1-3).
        bins: bins of the same width that hold sentences.
    """

    error: float
    brier: float
    bins: tuple[Bin, ...]


def calibration(scores: ArrayLike, positive: ArrayLike, *, bins: int = 10) -> Calibration:
    """Reliability of scores in [0, 1]; sentences without a score (NaN) are left out.

    Args:
        scores: a number a sentence.
        positive: whether the sentence has the positive label.
        bins: of the same width, each closed above, the first one also below.

    Raises:
        JudgmentError: a score lies outside [0, 1], or there is none.
        SettingError: ``bins`` is below 1.
    """
    if bins < 1:
        raise SettingError(f"calibration takes 1 bin or more, not {bins}")
    values, is_positive = np.asarray(scores, dtype=np.float64), np.asarray(positive, dtype=bool)
    known = ~np.isnan(values)
    values, is_positive = values[known], is_positive[known]
    if not len(values):
        raise JudgmentError("there is no score to calibrate")
    if values.min() < 0 or values.max() > 1:
        raise JudgmentError(
            "calibration takes scores in [0, 1], as probabilities are, not from "
            f"{values.min():g} to {values.max():g}"
        )
    edges = np.linspace(0, 1, bins + 1)
    place = np.clip(np.searchsorted(edges, values, side="left") - 1, 0, bins - 1)
    table = tuple(
        Bin(
            float(edges[i]),
            float(edges[i + 1]),
            int(np.count_nonzero(place == i)),
            float(values[place == i].mean()),
            float(is_positive[place == i].mean()),
        )
        for i in np.unique(place).tolist()
    )
    error = sum(bin.sentences * abs(bin.mean_score - bin.positive) for bin in table) / len(values)
    return Calibration(error, float(np.mean(np.square(values - is_positive))), table)
