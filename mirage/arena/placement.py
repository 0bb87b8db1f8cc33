"""A model's place among others whose logits are known, from verdicts on some pairs with them.

Pairs that nobody judged count by their predicted verdicts, in a way that holds whatever these are
worth (:mod:`mirage.statistics.prediction_powered`). Arrays are ``(queries, anchors)``; queries
that hang together are one cluster (:mod:`mirage.statistics.clusters`).
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

__all__ = [
    "Anchors",
    "Placement",
    "Sample",
    "joint_covariance",
    "level_of_looks",
    "place",
    "sample",
]

_RIDGE = 0.1  # of BradleyTerry(), where verdicts all went one way
_WALKS = 200_000


class Sample(NamedTuple):
    """Pairs for a judge: places in the arrays, in the order to ask, and each pair's probability.

    Attributes:
        query: of each pair, ``(pairs,)``.
        anchor: of each pair, ``(pairs,)``.
        probability: that a pair is among them, ``(queries, anchors)``; 0 where it cannot be judged.
    """

    query: Ints
    anchor: Ints
    probability: Floats


def sample(possible: Bools, pairs: int, *, seed: int = 0) -> Sample:
    """Pairs at random, spread over queries: all queries once before one of them twice.

    With the same seed a longer sample begins with the shorter one.

    Args:
        possible: whether a pair can be judged, ``(queries, anchors)``.
        pairs: how many; all where there are fewer.
        seed: of the draw.
    """
    rng = np.random.default_rng(seed)
    within, among = rng.random(possible.shape), rng.random(possible.shape)
    turn = np.argsort(np.argsort(np.where(possible, within, 2.0), axis=1), axis=1)
    # ``among`` is drawn anew for each turn, so that no query is always the first.
    query, anchor = np.nonzero(possible)
    lot = among[query, turn[query, anchor]]
    order = np.lexsort((lot, turn[query, anchor]))[:pairs]
    return Sample(query[order], anchor[order], _probability(possible, len(order)))


def _probability(possible: Bools, pairs: int) -> Floats:
    """That each pair is among so many of :func:`sample`."""
    count = possible.sum(axis=1)
    asked = np.zeros(len(count))
    left = pairs
    for turn in range(possible.shape[1]):
        here = count > turn
        size = int(np.count_nonzero(here))
        if not left or not size:
            break
        asked += here * min(1.0, left / size)
        left -= min(left, size)
    return np.asarray(possible * (asked / np.maximum(count, 1))[:, None])


class Anchors(NamedTuple):
    """Models with known logits.

    Attributes:
        logits: ``(anchors,)``, natural-log odds.
        influence: how far each cluster of queries moves each logit, ``(clusters, anchors)``: what
            is uncertain of the logits because queries were drawn. 0 where that is not known.
        covariance: what is uncertain of them besides, ``(anchors, anchors)``.
    """

    logits: Floats
    influence: Floats
    covariance: Floats


class Placement(NamedTuple):
    """Where a model stands among anchors.

    Attributes:
        logit: on the anchors' scale.
        interval: lower and upper end; NaN with fewer than
            :data:`~mirage.statistics.prediction_powered.FEWEST` judged clusters of queries, and
            where verdicts leave an end open, as they do of a model that won everything.
        errors: how far the verdicts of each cluster move the logit, ``(clusters,)``.
        leverage: how far each anchor's logit moves it, ``(anchors,)``.
        open_variance: of the logit where verdicts all went one way, else 0.
        judgments: pairs that were judged.
        queries: that they are on.
        clusters: of these queries.
        degrees: of freedom, by :func:`mirage.statistics.clusters.small_sample`.
        tuning: how much predictions count, 0 to 1.
        worth: how many judgments alone would say as much; NaN where that cannot be told.
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
    """Place a model by what it got against anchors in some pairs, and by predictions for all.

    The logit is that at which the Bradley-Terry model expects what the model got: verdicts weighted
    by inverse probability, moved by predictions (:func:`power_tuned
    <mirage.statistics.prediction_powered.power_tuned>`). Without predictions this is the fit to
    the verdicts alone, and where every pair was judged predictions have no part. The interval is
    the set of logits whose expectation Student's t does not refuse, with the small-sample
    correction of clusters and standard errors ``n / (n - 1)`` times as large for n judged clusters
    of one size, as by the jackknife;
    ``benchmarks/few_judgments.py`` shows how often it holds the truth.

    Args:
        verdicts: what the model got against an anchor on a query: 1, 0.5 for a tie, 0; NaN where
            the pair was not judged.
        predicted: the same as predicted, by anything, 0 to 1; NaN where nobody can judge the pair,
            for one of the two has no response.
        probability: that a pair was to be judged, as :func:`sample` gives it.
        anchors: whom the model was compared with.
        cluster: of each query, counted from 0; by default each is one by itself.
        level: of the interval.
    """
    check_level(level)
    judged = ~np.isnan(verdicts)
    group = np.arange(len(judged)) if cluster is None else cluster

    def by_cluster(values: ArrayLike) -> Floats:
        return np.asarray(np.bincount(group, values), dtype=np.float64)

    sizes = by_cluster(judged.any(axis=1))
    weight = np.where(judged, 1 / np.where(judged, probability, 1.0), 0.0)
    weight *= np.count_nonzero(~np.isnan(predicted)) / max(weight.sum(), 1e-12)
    games, got = weight.sum(axis=0), float(np.where(judged, weight * verdicts, 0).sum())
    score = np.where(judged, verdicts, 0.0)

    def contributions(logit: float) -> Floats:
        return by_cluster((weight * (score - _expected(logit, anchors))).sum(axis=1))

    if not 0 < got < games.sum() or np.count_nonzero(sizes) < 2:
        return _open(judged, score, anchors, sizes)
    alone = _logit(got, games, anchors)
    centred = predicted - np.nanmean(predicted, axis=0)
    control = np.where(np.isnan(predicted), 0.0, (1 - weight) * centred).sum(axis=1)
    tuned = power_tuned(contributions(alone), by_cluster(control))
    moved = got + float(tuned.moves.sum())
    if not 0 < moved < games.sum():
        return _open(judged, score, anchors, sizes)
    logit = _logit(moved, games, anchors)
    slope = games * _expected(logit, anchors) * (1 - _expected(logit, anchors))
    own = contributions(logit) + tuned.moves
    small, few = small_sample(sizes[sizes > 0]), _inflation(sizes)
    error = _total_error(own, slope, anchors, few)
    before = _total_error(contributions(alone), slope, anchors, few)
    return Placement(
        logit,
        _interval(moved, error, games, anchors, small, level),
        few * own / slope.sum(),
        slope / slope.sum(),
        0.0,
        int(np.count_nonzero(judged)),
        int(sizes.sum()),
        int(np.count_nonzero(sizes)),
        small.degrees,
        tuned.tuning,
        float(np.count_nonzero(judged) * (before / error) ** 2) if error > 0 else np.nan,
    )


def joint_covariance(anchors: Anchors, placed: list[Placement]) -> Floats:
    """Of the logits of anchors and placed models together, in this order."""
    count = len(anchors.logits)
    lever = np.vstack([np.eye(count), *(one.leverage for one in placed)])
    own = np.stack([np.zeros(len(anchors.influence))] * count + [one.errors for one in placed], 1)
    moves = own + anchors.influence @ lever.T
    covariance = moves.T @ moves + lever @ anchors.covariance @ lever.T
    covariance[range(count, len(lever)), range(count, len(lever))] += [
        one.open_variance for one in placed
    ]
    return np.asarray(covariance)


def _expected(logit: float, anchors: Anchors) -> Floats:
    return np.asarray(0.5 + 0.5 * np.tanh((logit - anchors.logits) / 2))


def _logit(got: float, games: Floats, anchors: Anchors) -> float:
    """At which so much is expected; infinite where no logit is."""
    from scipy.optimize import brentq

    if not 0 < got < games.sum():
        return float(np.inf if got > 0 else -np.inf)
    low, high = anchors.logits.min() - 40.0, anchors.logits.max() + 40.0
    return float(brentq(lambda x: float(games @ _expected(x, anchors)) - got, low, high))


def _inflation(sizes: Floats) -> Floats:
    """The factor on what each cluster adds, from the number of its queries that were judged."""
    judged = sizes > 0
    clusters = int(np.count_nonzero(judged))
    square = np.full(len(sizes), clusters / (clusters - 1))
    square[judged] = small_sample(sizes[judged]).factors
    return np.asarray(np.sqrt(square * clusters / (clusters - 1)))


def _total_error(own: Floats, slope: Floats, anchors: Anchors, few: Floats) -> float:
    """Standard error of what the model got less what is expected of it."""
    each = few * (own + anchors.influence @ slope)
    return float(np.sqrt((each**2).sum() + slope @ anchors.covariance @ slope))


def _interval(
    got: float, error: float, games: Floats, anchors: Anchors, small: SmallSample, level: float
) -> Interval:
    from scipy.special import stdtrit

    reach = float(stdtrit(small.degrees, (1 + level) / 2)) * error
    ends = _logit(got - reach, games, anchors), _logit(got + reach, games, anchors)
    return ends if len(small.factors) >= FEWEST and np.isfinite(ends).all() else NO_INTERVAL


def _open(judged: Bools, score: Floats, anchors: Anchors, sizes: Floats) -> Placement:
    """Verdicts that say on which side the model stands, and not how far: the ridge decides."""
    games, got = judged.sum(axis=0).astype(np.float64), float(score.sum())
    middle = float(anchors.logits.mean())
    held = Anchors(np.append(anchors.logits, middle), anchors.influence, anchors.covariance)
    games = np.append(games, _RIDGE)
    logit = _logit(got + _RIDGE / 2, games, held)
    slope = games * _expected(logit, held) * (1 - _expected(logit, held))
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
    """The level of each of several intervals that all of them together hold the truth at ``level``.

    Who looks several times whether to stop needs wider intervals at every look: by a constant
    factor (Pocock 1977, Group Sequential Methods in the Design and Analysis of Clinical Trials,
    Biometrika 64, 191-199), for information that grows as the numbers of judgments do. The factor
    is from 200,000 random walks, and right to about 0.5 %.

    Args:
        level: of all together.
        looks: the judgments at each look, rising.
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
