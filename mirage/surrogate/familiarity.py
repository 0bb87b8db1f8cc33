"""Distance of a model from a surrogate's training models, and the expected error at that distance.

A surrogate errs little on models similar to its training models and more on others. The errors for
a new model are therefore estimated from the errors on held-out models, weighted by their distance
to it. They grow if no training model is near.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mirage._base.arrays import Floats
from mirage.surrogate.training import TrainingData

RESIDUALS_FROM_ALL = 5
"""Weight, in numbers of models, of the mean squared residual over all languages when it is averaged
with the residuals of near models.
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
        scale: Standard deviations of the training models, ``(features,)``.
        squares: Squared residuals on the models when they were held out, ``(models,)``.
        overall: Mean squared residual over all languages.
        nearest: Distance of each model to the nearest one of another group, sorted.
        models: Number of models, plus five if there are other languages.
    """

    features: tuple[str, ...]
    profiles: Floats
    scale: Floats
    squares: Floats
    overall: float
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
            residuals[part.language] ** 2,
            float(np.mean(all_residuals**2)),
            np.sort(distances.min(axis=1)),
            len(part.models) + (RESIDUALS_FROM_ALL if len(residuals) > 1 else 0),
        )

    def errors(self, profile: Floats, draws: int, seed: Sequence[int]) -> Floats:
        """Draw prediction errors for a model with these features, in random order.

        The distribution is Student's t, scaled by squared residuals of held-out models. At the
        distance d, a residual has the weight ``exp(-(d / h)^2 / 2)``; h is the median distance of a
        model to the nearest one of another group. The mean over all models and languages is added
        with the weight of five models. Degrees of freedom are one less than the effective number of
        residuals (Kish 1965), or than :attr:`models` if that is smaller. The scale grows in
        proportion to the distance beyond the one within which nine of ten models have another one.
        """
        from scipy.special import stdtrit

        distances = _distances(self.profiles, profile / self.scale)
        weights = np.exp(-((distances / max(float(np.median(self.nearest)), 1e-9)) ** 2) / 2)
        total = weights.sum() + RESIDUALS_FROM_ALL
        square = (weights @ self.squares + RESIDUALS_FROM_ALL * self.overall) / total
        far = max(float(np.quantile(self.nearest, FAR)), 1e-9)
        scale = np.sqrt(square) * max(1.0, distances.min() / far)
        near = weights.sum() ** 2 / max((weights**2).sum(), 1e-300)
        effective = min(near + RESIDUALS_FROM_ALL, self.models)
        # Evenly spread quantiles, so that the interval has no sampling noise.
        quantiles = (np.random.default_rng(seed).permutation(draws) + 0.5) / draws
        return np.asarray(scale * stdtrit(max(effective - 1, 1), quantiles))

    def unlike(self, profile: Floats) -> str:
        """Name the features in which a model differs from all training models, or return "".

        A model differs if its nearest training model is farther away than any training model is
        from the nearest one of another group. Among n models similar to the training models, one in
        n + 1 does.
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
