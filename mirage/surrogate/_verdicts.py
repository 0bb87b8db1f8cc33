"""What single verdicts teach: a score for every response, and from scores a logit for a model.

A language has ten to forty models, but thousands of verdicts on pairs of their responses to one
query. From these a score of a response is learnt, in which no known direction of a feature is
wrong; two scores give the probability of a verdict, as Bradley and Terry (1952) give it from two
logits; and a model's logit is the one that wins as often as its responses are expected to.

Where a language has many models, trees may learn from the share of its verdicts that a response
wins what no sum of slopes tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mirage._base.arrays import Floats
from mirage.surrogate._tree_arrays import TreeArrays
from mirage.surrogate.estimators import one_thread
from mirage.surrogate.training import TrainingData

__all__ = [
    "Scores",
    "Shares",
    "expected_wins",
    "fit_scores",
    "fit_shares",
    "logit_that_wins",
    "stored_shares",
]

ROWS = 200_000
"""How many verdicts, of all languages together, a score is learnt from; more tell no more, for
models are what is few."""

RIDGE = 0.01
"""Weight of half the squared slopes against the mean loss of a verdict, in each language the same.
With fewer than 100 verdicts it is one over their number."""

FARTHEST = 3.0
"""How many standard deviations from the mean a feature of a response may lie, as in the model of
means: what lies farther is put there."""

RESPONSES = 20_000
"""How many responses, of all languages together, trees learn from."""

LEAST_SHARE = 0.001
"""What a response wins at least, and loses at least."""


@dataclass(frozen=True)
class Scores:
    """A linear score of single responses, of which only differences on a query mean something.

    Attributes:
        slopes: by feature, on the scale of ``scale``.
        centres: mean of each feature over the responses, by language.
        scale: standard deviation of each feature between responses of a language.
    """

    slopes: Floats
    centres: Mapping[str, Floats]
    scale: Floats

    def of(self, language: str, values: Floats) -> Floats:
        """Scores ``(...)`` of responses with features ``(..., features)``; NaN is the mean."""
        return _standardised(values, self.centres[language], self.scale) @ self.slopes


def fit_scores(data: Mapping[str, TrainingData], signs: Sequence[int], *, seed: int) -> Scores:
    """Scores that tell verdicts of all languages best, each language weighing the same.

    The loss of a verdict is the cross-entropy of ``1 / (1 + exp(score of b - score of a))``, a tie
    being half a win of either, with a ridge.

    Args:
        data: by language, all with judgments.
        signs: 1 for a feature whose slope is not to be below 0, -1 for one not above 0, else 0.
        seed: of the verdicts that are drawn where there are more than :data:`ROWS`.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    centres = {code: _mean(part.values) for code, part in data.items()}
    variance = np.mean([_variance(part.values, centres[code]) for code, part in data.items()], 0)
    scale = np.where(variance > 1e-12, np.sqrt(variance), 1.0)
    differences, results, weights = [], [], []
    rng = np.random.default_rng(seed)
    for code, part in data.items():
        judged = part.judgments
        assert judged is not None
        rows = np.arange(len(judged))
        if len(rows) > (most := ROWS // len(data)):
            rows = np.sort(rng.choice(len(rows), most, replace=False))
        if not len(rows):
            continue
        query, a, b = judged.query[rows], judged.a[rows], judged.b[rows]
        Z = _standardised(part.values, centres[code], scale)
        differences.append(Z[a, query] - Z[b, query])
        results.append(judged.score[rows])
        weights.append(np.full(len(rows), 1 / len(rows)))
    D, y = np.concatenate(differences), np.concatenate(results).astype(np.float64)
    weight = np.concatenate(weights) / len(differences)
    ridge = max(RIDGE, 1 / len(D))

    def loss(slopes: Floats) -> tuple[float, Floats]:
        margin = D @ slopes
        value = weight @ (np.logaddexp(0, margin) - y * margin) + ridge / 2 * slopes @ slopes
        return float(value), D.T @ (weight * (expit(margin) - y)) + ridge * slopes

    bounds = [(0.0 if s > 0 else None, 0.0 if s < 0 else None) for s in signs]
    found = minimize(loss, np.zeros(len(signs)), jac=True, method="L-BFGS-B", bounds=bounds)
    return Scores(np.asarray(found.x), centres, scale)


@dataclass(frozen=True)
class Shares:
    """The share of verdicts that a response wins against the models learnt from.

    Attributes:
        trees: From the features of responses, less the language's means, to the share.
        centres: Mean of each feature over the responses, by language.
    """

    trees: TreeArrays
    centres: Mapping[str, Floats]

    def wins(self, language: str, values: Floats) -> Floats:
        """Shares ``(...)`` of responses with features ``(..., features)``; a NaN is a branch."""
        rows = (values - self.centres[language]).reshape(-1, values.shape[-1])
        shares = self.trees.predict(rows).reshape(values.shape[:-1])
        return np.clip(shares, LEAST_SHARE, 1 - LEAST_SHARE)

    def of(self, language: str, values: Floats) -> Floats:
        """As scores: the logits of the shares."""
        from scipy.special import logit

        return np.asarray(logit(self.wins(language, values)))


def fit_shares(data: Mapping[str, TrainingData], signs: Sequence[int], *, seed: int) -> Shares:
    """Boosted trees (Friedman 2001, Annals of Statistics 29(5)), one model for all languages.

    A response weighs as many verdicts as there are on it, and each language the same.

    Args:
        data: by language, all with judgments.
        signs: 1 for a feature that is not to lower the share as it rises, -1 for one that is not to
            raise it, else 0.
        seed: of the responses that are drawn where there are more than :data:`RESPONSES`.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = np.random.default_rng(seed)
    centres = {code: _mean(part.values) for code, part in data.items()}
    features, shares, weights = [], [], []
    for code, part in data.items():
        won, judged = _won(part)
        rows = np.flatnonzero(judged)
        if len(rows) > (most := RESPONSES // len(data)):
            rows = np.sort(rng.choice(rows, most, replace=False))
        features.append((part.values - centres[code]).reshape(-1, len(signs))[rows])
        shares.append(won[rows] / judged[rows])
        weights.append(judged[rows] / max(judged[rows].sum(), 1))
    weight = np.concatenate(weights)
    trees = HistGradientBoostingRegressor(
        max_iter=150,
        learning_rate=0.3,
        max_leaf_nodes=31,
        min_samples_leaf=5,
        l2_regularization=1.0,
        monotonic_cst=signs,
        early_stopping=False,
        random_state=seed,
    )
    with one_thread():
        trees.fit(np.concatenate(features), np.concatenate(shares), weight / weight.mean())
    return Shares(TreeArrays.of(trees), centres)


def stored_shares(data: Mapping[str, TrainingData], trees: TreeArrays) -> Shares:
    """Return shares from trees that were fitted to the same data before."""
    return Shares(trees, {code: _mean(part.values) for code, part in data.items()})


def _won(part: TrainingData) -> tuple[Floats, Floats]:
    """How many verdicts each response won, a tie being half a win, and how many there are on it."""
    judged = part.judgments
    assert judged is not None
    queries = len(part.query_ids)
    size = len(part.models) * queries
    a, b = (side.astype(np.intp) * queries + judged.query for side in (judged.a, judged.b))
    won = np.bincount(a, judged.score, size) + np.bincount(b, 1 - judged.score, size)
    number = np.bincount(a, minlength=size) + np.bincount(b, minlength=size)
    return np.asarray(won), number.astype(np.float64)


def expected_wins(scores: Floats, others: Floats, *, paired: bool) -> Floats:
    """How likely a response wins against another model's, mean over models: ``(..., queries)``.

    Args:
        scores: of a model's responses, ``(..., queries)``.
        others: scores of the other models' responses, ``(models, their queries)``.
        paired: whether these are to the same queries, in the same order. Else a response is
            compared with all responses of another model alike.
    """
    from scipy.special import expit

    if paired:
        margins = (scores - row for row in others)
    else:
        margins = (scores[..., None] - row for row in others)
    wins = np.zeros(scores.shape)
    for margin in margins:  # one model at a time: all at once take too much memory
        wins += expit(margin) if paired else expit(margin).mean(axis=-1)
    return wins / len(others)


def logit_that_wins(share: Floats, logits: Floats) -> Floats:
    """The logits ``(n,)`` that win these shares ``(n,)`` against ``logits (models,)``.

    What is won rises with the logit, so bisection finds it; Newton's steps overshoot far out.
    """
    from scipy.special import expit, logit

    # All others lie between their extremes, and against each of these the logit is known.
    own = logit(np.clip(share, 1e-9, 1 - 1e-9))
    low, high = own + logits.min(), own + logits.max()
    for _ in range(50):
        middle = (low + high) / 2
        below = expit(middle[:, None] - logits).mean(axis=1) < share
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)


def _standardised(values: Floats, centre: Floats, scale: Floats) -> Floats:
    return np.nan_to_num(np.clip((values - centre) / scale, -FARTHEST, FARTHEST))


def _mean(values: Floats) -> Floats:
    return np.asarray(np.nanmean(values, axis=(0, 1)))


def _variance(values: Floats, centre: Floats) -> Floats:
    return np.asarray(np.nanmean((values - centre) ** 2, axis=(0, 1)))
