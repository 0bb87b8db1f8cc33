"""Distance of a model from a surrogate's training models, and the expected error at that distance.

A surrogate's errors are small on models similar to its training models and larger on others. The
errors for a new model are therefore estimated from the errors on held-out models. A held-out model
has the more weight, the nearer it is to the new model. If no training model is near, the estimated
errors grow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mirage._base.arrays import Floats
from mirage.statistics.quantiles import normal_quantiles, t_quantiles
from mirage.surrogate.training import TrainingData

RESIDUALS_FROM_ALL = 5
"""Weight, in numbers of models, of the mean squared residual over all languages when it is averaged
with the residuals of near models.
"""

MANY = 100
"""Number of models from which errors have the distribution of the residuals instead of Student's t.
"""

RESIDUALS_FROM_ALL_OF_MANY = 20
"""Weight, in numbers of models, of the residuals over all languages in that distribution.
"""

FAR = 0.9
"""Share of training models that have another one within the distance beyond which errors grow."""

MOST_WORDS = 3  # features that a message names


@dataclass(frozen=True, eq=False)
class Familiarity:
    """Profiles (mean features) of one language's training models, and the errors on these models.

    Attributes:
        features: Names of the features, in the order of the columns.
        profiles: Mean features in standard deviations of the training models, ``(models,
            features)``. The distance of two profiles is the root mean squared difference.
        scale: Standard deviations of the training models, of shape ``(features,)``.
        residuals: Absolute residuals on the models when they were held out, of shape ``(models,)``.
        everywhere: Absolute residuals on the models of all languages.
        nearest: Distance of each model to the nearest model of another group, sorted. Models of one
            group, such as a kind of fault, are held out together.
        models: Number of models, plus five if there are other languages.
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
        """Compute the familiarity of a language from residuals of held-out models."""
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
        """Draw prediction errors for a model with these mean features, in random order.

        The residual of a held-out model at the distance d has the weight ``exp(-(d / h)^2 / 2)``. h
        is the median distance of a training model to the nearest model of another group. Residuals
        of all models in all languages are added with the weight of a few models.

        With few models, the distribution is Student's t, scaled by the weighted squares of the
        residuals. Degrees of freedom are one less than the effective number of residuals (Kish
        1965), or than :attr:`models` if that is smaller. With at least :data:`MANY` models, the
        distribution is that of the residuals with either sign, widened by the ratio of Student's t
        to the normal distribution. A scaled Student's t would not fit here: most residuals are
        small and a few are large, so its 80 % intervals would contain 92 % of errors.

        Errors grow in proportion to the distance if it is above the 90 % quantile of the distances
        of training models to their nearest neighbours.
        """
        distances = _distances(self.profiles, profile / self.scale)
        weights = np.exp(-((distances / max(float(np.median(self.nearest)), 1e-9)) ** 2) / 2)
        far = max(float(np.quantile(self.nearest, FAR)), 1e-9)
        growth = max(1.0, distances.min() / far)
        near = weights.sum() ** 2 / max((weights**2).sum(), 1e-300)
        effective = min(near + RESIDUALS_FROM_ALL, self.models)
        # Evenly spread quantiles, so that the interval has no sampling noise.
        quantiles = (np.random.default_rng(seed).permutation(draws) + 0.5) / draws
        degrees = max(float(effective) - 1, 1)
        by_t = t_quantiles(degrees, quantiles)
        if len(self.residuals) >= MANY:
            normal = normal_quantiles(quantiles)
            wider = np.where(normal == 0, 1.0, by_t / np.where(normal == 0, 1.0, normal))
            return np.asarray(growth * self._residual_quantiles(weights, quantiles) * wider)
        total = weights.sum() + RESIDUALS_FROM_ALL
        overall = np.mean(self.everywhere**2)
        square = (weights @ self.residuals**2 + RESIDUALS_FROM_ALL * overall) / total
        return np.asarray(growth * np.sqrt(square) * by_t)

    def _residual_quantiles(self, weights: Floats, quantiles: Floats) -> Floats:
        """Return quantiles of the weighted distribution of residuals with random sign."""
        sizes = np.concatenate([self.residuals, self.everywhere])
        share = RESIDUALS_FROM_ALL_OF_MANY / len(self.everywhere)
        mass = np.concatenate([weights, np.full(len(self.everywhere), share)])
        order = np.argsort(sizes, kind="stable")
        middles = np.cumsum(mass[order]) - mass[order] / 2
        # The share of residuals that are smaller than the one at a quantile, whatever their sign.
        inside = np.abs(2 * quantiles - 1)
        size = np.interp(inside, [0, *(middles / mass.sum())], [0, *sizes[order]])
        return np.asarray(np.sign(quantiles - 0.5) * size)

    def unlike(self, profile: Floats) -> str:
        """Return the features in which a model differs from all training models, as text.

        The text is empty if the model does not differ. A model differs if its distance to the
        nearest training model is larger than the largest such distance among training models, where
        only models of other groups count. If a new model comes from the same population as the n
        training models, this happens with probability 1 / (n + 1).
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


def _distances(profiles: Floats, profile: Floats) -> Floats:
    return np.asarray(np.sqrt(np.mean((profiles - profile) ** 2, axis=1)))
