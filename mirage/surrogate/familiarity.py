"""Distance of a model from a surrogate's training models, and the expected error at that distance.

A surrogate's errors are small on models that are similar to its training models, and larger on
other models. The errors for a new model are therefore estimated from the errors on held-out models.
Held-out models that are more similar to the new model have a larger weight. If no training model is
near, the estimated errors are larger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.statistics.quantiles import normal_quantiles, t_quantiles
from mirage.surrogate.training import TrainingData

RESIDUALS_FROM_ALL = 5
"""Weight of the mean squared residual over all languages, in numbers of models.

The mean is averaged with the squared residuals of near models in the same language.
"""

MANY = 100
"""Smallest number of models with which errors are drawn from the distribution of the residuals.

With fewer models, errors are drawn from Student's t-distribution.
"""

RESIDUALS_FROM_ALL_OF_MANY = 20
"""Weight of the residuals over all languages, in numbers of models, from :data:`MANY` models on."""

FAR = 0.9
"""Quantile of the distances between training models and their nearest neighbours.

Errors grow if the distance of a new model is larger than this quantile.
"""

ERRORS_PER_DRAW = 20
"""Number of random errors for each draw of the queries.

With 200 draws of the queries, the ends of an interval then vary by about 1 % of its width if other
random numbers are used.
"""

MOST_WORDS = 3  # largest number of features that a message names


@dataclass(frozen=True, eq=False)
class Familiarity:
    """Estimated errors of a surrogate in one language, given the distance to its training models.

    The distance is between profiles. A profile consists of the mean features of a model.

    Attributes:
        features: Names of the features, in the order of the columns.
        profiles: Mean features of the training models, divided by ``scale``, of shape ``(models,
            features)``. The distance of two profiles is their root mean squared difference.
        scale: Standard deviation of each feature between the training models, of shape
            ``(features,)``.
        residuals: Absolute residuals (actual minus predicted logits) on the models when they were
            held out, of shape ``(models,)``.
        everywhere: Absolute residuals on the held-out models of all languages.
        nearest: Distance of each model to the nearest model of another group, in ascending order.
            Models of one group, such as those with the same kind of fault, are held out together.
        models: Largest effective number of models for the degrees of freedom of Student's t. It is
            the number of training models, plus :data:`RESIDUALS_FROM_ALL` if there are other
            languages.
    """

    features: tuple[str, ...]
    profiles: Floats
    scale: Floats
    residuals: Floats
    everywhere: Floats
    nearest: Floats
    models: int

    @classmethod
    def of(cls, part: TrainingData, residuals: Mapping[str, Floats]) -> Familiarity:
        """Return the familiarity for one language, from its models' profiles and residuals.

        Args:
            part: Training data of the language.
            residuals: Residuals of held-out models by language.
        """
        spread = part.mean_X.std(axis=0)
        scale = np.where(spread > 1e-6, spread, 1.0)
        profiles = part.mean_X / scale
        groups = np.array([part.group(row) for row in range(len(part.models))])
        distances = np.stack([_distances(profiles, profile) for profile in profiles])
        distances[groups[:, None] == groups] = np.inf
        all_residuals = np.concatenate(list(residuals.values()))
        return cls(
            part.features,
            profiles,
            scale,
            np.abs(residuals[part.language]),
            np.abs(all_residuals),
            np.sort(distances.min(axis=1)),
            len(part.models) + (RESIDUALS_FROM_ALL if len(residuals) > 1 else 0),
        )

    def errors(self, profile: Floats, draws: int, seed: Sequence[int]) -> Floats:
        """Draw prediction errors for a model, in random order.

        The residual of a held-out model at the distance d from the model has the weight ``exp(-(d /
        h)^2 / 2)``, where h is the median of :attr:`nearest`. The residuals of all models in all
        languages are added, with a total weight of :data:`RESIDUALS_FROM_ALL` or, with at least
        :data:`MANY` models, :data:`RESIDUALS_FROM_ALL_OF_MANY`.

        With fewer than :data:`MANY` models, the errors have Student's t-distribution. Its scale is
        the root of the weighted mean of the squared residuals. Its degrees of freedom are one less
        than the smaller of two numbers: the effective number of models with these weights (Kish
        1965) plus :data:`RESIDUALS_FROM_ALL`, and :attr:`models`.

        With more models, the errors have the distribution of the residuals. Each absolute residual
        is used twice, as a positive and as a negative error. The distribution is widened by the
        ratio of the quantiles of Student's t to those of the normal distribution. A scaled
        Student's t would not fit here: most residuals are small and a few are large, so its 80 %
        intervals would contain 92 % of errors.

        If the distance to the nearest training model is above the :data:`FAR` quantile of
        :attr:`nearest`, errors grow in proportion to it.

        Args:
            profile: Mean features of the model, of shape ``(features,)``.
            draws: Number of draws of the queries. Each gets :data:`ERRORS_PER_DRAW` errors, which
                are spread evenly over the distribution.
            seed: Random seed.

        Returns:
            Errors in natural-log odds, of shape ``(ERRORS_PER_DRAW, draws)``.
        """
        distances = _distances(self.profiles, profile / self.scale)
        weights = np.exp(-((distances / max(float(np.median(self.nearest)), 1e-9)) ** 2) / 2)
        far = max(float(np.quantile(self.nearest, FAR)), 1e-9)
        growth = max(1.0, distances.min() / far)
        near = weights.sum() ** 2 / max((weights**2).sum(), 1e-300)
        effective = min(near + RESIDUALS_FROM_ALL, self.models)
        # Evenly spread quantiles, so that the interval has little sampling noise.
        quantiles = (np.arange(ERRORS_PER_DRAW * draws) + 0.5) / (ERRORS_PER_DRAW * draws)
        order = _stratified_order(draws, np.random.default_rng(seed))
        degrees = max(float(effective) - 1, 1)
        by_t = t_quantiles(degrees, quantiles)
        if len(self.residuals) >= MANY:
            normal = normal_quantiles(quantiles)
            wider = np.where(normal == 0, 1.0, by_t / np.where(normal == 0, 1.0, normal))
            return np.asarray(growth * self._residual_quantiles(weights, quantiles) * wider)[order]
        total = weights.sum() + RESIDUALS_FROM_ALL
        overall = np.mean(self.everywhere**2)
        square = (weights @ self.residuals**2 + RESIDUALS_FROM_ALL * overall) / total
        return np.asarray(growth * np.sqrt(square) * by_t)[order]

    def _residual_quantiles(self, weights: Floats, quantiles: Floats) -> Floats:
        """Return quantiles of the errors, which are weighted residuals of either sign.

        Each absolute residual is used twice, as a positive and as a negative error.

        Args:
            weights: Weights of the language's held-out models.
            quantiles: Probabilities of the quantiles, from 0 to 1.
        """
        sizes = np.concatenate([self.residuals, self.everywhere])
        share = RESIDUALS_FROM_ALL_OF_MANY / len(self.everywhere)
        mass = np.concatenate([weights, np.full(len(self.everywhere), share)])
        order = np.argsort(sizes, kind="stable")
        middles = np.cumsum(mass[order]) - mass[order] / 2
        # The share of absolute residuals that are smaller than the one at a quantile.
        inside = np.abs(2 * quantiles - 1)
        size = np.interp(inside, [0, *(middles / mass.sum())], [0, *sizes[order]])
        return np.asarray(np.sign(quantiles - 0.5) * size)

    def unlike(self, profile: Floats) -> str:
        """Return the features in which a model differs most from its nearest training model.

        The result is a text such as ``high answer_length, low support_lexical``. It is empty if the
        distance to the nearest training model is at most the largest value of :attr:`nearest`. If a
        new model comes from the same population as the n training models, the probability that its
        distance exceeds this value is 1 / (n + 1).

        Args:
            profile: Mean features of the model, of shape ``(features,)``.
        """
        scaled = profile / self.scale
        distances = _distances(self.profiles, scaled)
        if distances.min() <= self.nearest[-1]:
            return ""
        offset = scaled - self.profiles[int(distances.argmin())]
        return ", ".join(
            f"{'high' if offset[i] > 0 else 'low'} {self.features[i]}"
            for i in np.argsort(-np.abs(offset), kind="stable")[:MOST_WORDS]
        )


def _stratified_order(draws: int, rng: np.random.Generator) -> Ints:
    """Return the numbers from 0 in random order, of shape ``(ERRORS_PER_DRAW, draws)``.

    Each column has one number from each of :data:`ERRORS_PER_DRAW` equal parts of their range.
    """
    parts = np.arange(ERRORS_PER_DRAW * draws).reshape(ERRORS_PER_DRAW, draws)
    return np.asarray(rng.permuted(rng.permuted(parts, axis=1), axis=0))


def _distances(profiles: Floats, profile: Floats) -> Floats:
    return np.asarray(np.sqrt(np.mean((profiles - profile) ** 2, axis=1)))
