"""Scores of single responses, fitted to verdicts, and logits of models, computed from these scores.

A language has ten to forty models, but thousands of verdicts. A verdict compares the responses of
two models to one query. A score, which is linear in the features of a single response, is fitted to
the verdicts. If higher values of a feature are known to be better, its slope is at least 0; if they
are known to be worse, at most 0. The difference of two scores determines the probability that one
response wins, as the difference of two logits does in the model of Bradley and Terry (1952). The
scores of a model's responses determine the share of verdicts that the model is expected to win
against the training models. The predicted logit is the logit of a model that wins this share.

If a language has many models, trees can be trained instead. They directly predict the share of
verdicts that a response wins, and can represent interactions that a linear score cannot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mirage._base.arrays import Floats
from mirage.errors import needing
from mirage.surrogate._tree_arrays import TreeArrays
from mirage.surrogate.estimators import one_thread
from mirage.surrogate.training import TrainingData

ROWS = 200_000
"""Largest number of verdicts, over all languages, to which a score is fitted.

More verdicts would not improve its accuracy, which is limited by the number of models.
"""

RIDGE = 0.01
"""Ridge penalty: this number, times half the sum of the squared slopes, is added to the mean loss.

With fewer than 100 verdicts, 1 divided by the number of verdicts is used instead.
"""

FARTHEST = 3.0
"""Distance from the mean, in standard deviations, at which a response's features are clipped.

The regression on mean features has the same limit.
"""

RESPONSES, RESPONSES_PER_LANGUAGE = 20_000, 4_000
"""Limits of the number of responses that trees are trained on.

The limit per language is the first number divided by the number of languages, or the second number
if that is larger.
"""

LEAST_SHARE = 0.001
"""Predicted shares of won verdicts are clipped to the range from this number to 1 minus it."""


@dataclass(frozen=True)
class Scores:
    """A linear score of single responses; only differences of scores on one query are meaningful.

    Attributes:
        slopes: Change of the score if a feature increases by one standard deviation, by feature.
        centres: Mean of each feature over the training responses, by language.
        scale: Standard deviation of each feature over the training responses within a language.
    """

    slopes: Floats
    centres: Mapping[str, Floats]
    scale: Floats

    def of(self, language: str, values: Floats) -> Floats:
        """Return the score of each response, which is higher for better responses.

        If two responses to a query have scores that differ by d, the better one wins with
        probability ``1 / (1 + exp(-d))``.

        Args:
            language: Language of the responses.
            values: Features of the responses, of shape ``(..., features)``. A feature that is NaN
                is replaced by its mean over the training responses in this language.

        Returns:
            Scores of shape ``(...)``.
        """
        return _standardise(values, self.centres[language], self.scale) @ self.slopes


def fit_scores(data: Mapping[str, TrainingData], signs: Sequence[int], *, seed: int) -> Scores:
    """Fit a linear score to the verdicts of all languages; each language has the same weight.

    With these scores, response a wins against response b with the probability ``1 / (1 + exp(score
    of b - score of a))``. The loss is the mean cross-entropy of the verdicts, plus a ridge penalty.
    A tie counts as half a win for either response.

    Args:
        data: Training data by language; every language must have judgments.
        signs: 1 for a feature whose slope must be at least 0, -1 for one whose slope must be at
            most 0, 0 for any other.
        seed: Random seed. If there are more than :data:`ROWS` verdicts, it determines the sample
            that is used.
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
        Z = _standardise(part.values, centres[code], scale)
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
    solution = minimize(loss, np.zeros(len(signs)), jac=True, method="L-BFGS-B", bounds=bounds)
    return Scores(np.asarray(solution.x), centres, scale)


@dataclass(frozen=True)
class Shares:
    """A model of the share of verdicts that a response wins against the training models.

    Attributes:
        trees: Trees that predict this share from the response's features. The mean of each feature
            in the language (``centres``) is subtracted first.
        centres: Mean of each feature over the training responses, by language.
    """

    trees: TreeArrays
    centres: Mapping[str, Floats]

    def wins(self, language: str, values: Floats) -> Floats:
        """Return the predicted share of verdicts that each response wins.

        Args:
            language: Language of the responses.
            values: Features of the responses, of shape ``(..., features)``. A feature may be NaN,
                which the trees treat as a separate case.

        Returns:
            Shares of shape ``(...)``.
        """
        rows = (values - self.centres[language]).reshape(-1, values.shape[-1])
        shares = self.trees.predict(rows).reshape(values.shape[:-1])
        return np.clip(shares, LEAST_SHARE, 1 - LEAST_SHARE)

    def of(self, language: str, values: Floats) -> Floats:
        """Return a score for each response: the log odds of its predicted share of won verdicts.

        Args:
            language: Language of the responses.
            values: Features of the responses, of shape ``(..., features)``. A feature may be NaN.

        Returns:
            Scores of shape ``(...)``.
        """
        from scipy.special import logit

        return np.asarray(logit(self.wins(language, values)))


def fit_shares(data: Mapping[str, TrainingData], signs: Sequence[int], *, seed: int) -> Shares:
    """Fit boosted trees that predict the share of verdicts that a response wins.

    The trees are fitted to all languages together (Friedman 2001, Annals of Statistics 29(5)). The
    weight of a response is proportional to its number of verdicts, and each language has the same
    total weight.

    Args:
        data: Training data by language; every language must have judgments.
        signs: 1 for a feature whose higher values must not lower the share, -1 for one whose higher
            values must not raise it, 0 for any other.
        seed: Random seed of the trees. If there are more responses than :data:`RESPONSES`, or more
            in a language than :data:`RESPONSES_PER_LANGUAGE`, it also determines the sample that is
            used.
    """
    with needing("scikit-learn"):
        from sklearn.ensemble import HistGradientBoostingRegressor

    rng = np.random.default_rng(seed)
    centres = {code: _mean(part.values) for code, part in data.items()}
    features, shares, weights = [], [], []
    for code, part in data.items():
        won, judged = _count_wins(part)
        rows = np.flatnonzero(judged)
        if len(rows) > (most := max(RESPONSES // len(data), RESPONSES_PER_LANGUAGE)):
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
    """Return the model of won shares that consists of ``trees``, which were fitted to ``data``."""
    return Shares(trees, {code: _mean(part.values) for code, part in data.items()})


def _count_wins(part: TrainingData) -> tuple[Floats, Floats]:
    """Return, for each response, the number of verdicts that it won and the number of all verdicts.

    Both arrays have the shape ``(models * queries,)``. A tie counts as half a win.
    """
    judged = part.judgments
    assert judged is not None
    queries = len(part.query_ids)
    size = len(part.models) * queries
    a, b = (side.astype(np.intp) * queries + judged.query for side in (judged.a, judged.b))
    won = np.bincount(a, judged.score, size) + np.bincount(b, 1 - judged.score, size)
    number = np.bincount(a, minlength=size) + np.bincount(b, minlength=size)
    return np.asarray(won), number.astype(np.float64)


def expected_wins(scores: Floats, others: Floats, *, paired: bool) -> Floats:
    """Return the share of verdicts that each response of a model is expected to win.

    Args:
        scores: Scores of the model's responses, of shape ``(..., queries)``.
        others: Scores of its opponents' responses, of shape ``(models, other queries)``.
        paired: Whether the opponents answer the same queries in the same order. If so, responses to
            the same query are compared. If not, each response is compared with all responses of an
            opponent.

    Returns:
        Shares of shape ``(..., queries)``, averaged over opponents.
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
    """Return the logits that a model needs to win given shares of verdicts against its opponents.

    The share increases with the logit, so the logits are computed by bisection. Newton's method
    would overshoot at extreme shares.

    Args:
        share: Shares of verdicts that the model wins, of shape ``(n,)``.
        logits: Logits of the opponents, of shape ``(models,)``.

    Returns:
        Logits of shape ``(n,)``, one for each share.
    """
    # Against opponents that all have the lowest (or highest) logit, the solution has a closed
    # form; these two solutions enclose the root.
    log_odds = np.array([_logit(part) for part in np.clip(share, 1e-9, 1 - 1e-9).tolist()])
    low, high = log_odds + logits.min(), log_odds + logits.max()
    for _ in range(50):
        middle = (low + high) / 2
        excess = _mean_wins(middle, logits, np.exp) - share
        close = np.abs(excess) < _CLOSE
        if close.any():
            excess[close] = _mean_wins(middle[close], logits, _exact_exp) - share[close]
        low, high = np.where(excess < 0, middle, low), np.where(excess < 0, high, middle)
    return np.asarray((low + high) / 2)


# If a mean share is closer to its target than this, the last digits of the exponential matter.
_CLOSE = 1e-13


def _mean_wins(logits: Floats, others: Floats, exp: Callable[[Floats], Floats]) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray((1 / (1 + exp(others - logits[:, None]))).mean(axis=1))


def _exact_exp(x: Floats) -> Floats:
    """Return the exponential of each number; the result is identical on every processor.

    The last digit of numpy's exponential of a real number depends on the processor. For complex
    numbers, numpy calls the C library instead, as ``scipy.special.expit`` does.
    """
    return np.asarray(np.exp(x.astype(np.complex128)).real)


def _logit(share: float) -> float:
    """Return the log odds of a share, with the rounding of ``scipy.special.logit``."""
    if 0.3 <= share <= 0.65:
        doubled = 2 * (share - 0.5)
        return math.log1p(doubled) - math.log1p(-doubled)
    return math.log(share / (1 - share))


def _standardise(values: Floats, centre: Floats, scale: Floats) -> Floats:
    return np.nan_to_num(np.clip((values - centre) / scale, -FARTHEST, FARTHEST))


def _mean(values: Floats) -> Floats:
    return np.asarray(np.nanmean(values, axis=(0, 1)))


def _variance(values: Floats, centre: Floats) -> Floats:
    return np.asarray(np.nanmean((values - centre) ** 2, axis=(0, 1)))
