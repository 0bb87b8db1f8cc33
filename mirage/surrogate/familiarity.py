"""How near a model's features are to those that a surrogate learnt from, and how far it errs there.

A surrogate errs little on models like those it knows and more on others, so its errors on held-out
models count for a new one by how near they are to it, and grow where none is near.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mirage._base.arrays import Floats
from mirage.surrogate.training import TrainingData

__all__ = ["Familiarity"]

RESIDUALS_FROM_ALL = 5
"""How many models' worth of the mean squared residual, over all languages, near ones are mixed
with."""

FAR = 0.9
"""The share of models that have another one nearer than the distance where errors begin to grow."""

MOST_WORDS = 3


@dataclass(frozen=True, eq=False)
class Familiarity:
    """The profiles (mean features) of one language's training models, and errors on them.

    Attributes:
        features: names, in the order of the columns.
        profiles: mean features in standard deviations of the training models,
            ``(models, features)``; a distance is the root of the mean squared difference.
        scale: these standard deviations, ``(features,)``.
        squares: squared residuals on the models when they were held out, ``(models,)``.
        overall: mean squared residual over all languages.
        nearest: the distance of each model to the nearest one of another group, sorted.
        models: how many there are, with five more where there are other languages.
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
        """That of a language, given the residuals of held-out models of every language."""
        spread = part.mean_X.std(axis=0)
        scale = np.where(spread > 1e-6, spread, 1.0)
        profiles = part.mean_X / scale
        groups = np.array([part.group(row) for row in range(len(part.models))])
        apart = np.stack([_distances(profiles, profile) for profile in profiles])
        apart[groups[:, None] == groups] = np.inf
        everyone = np.concatenate(list(residuals.values()))
        return cls(
            part.features,
            profiles,
            scale,
            residuals[part.language] ** 2,
            float(np.mean(everyone**2)),
            np.sort(apart.min(axis=1)),
            len(part.models) + (RESIDUALS_FROM_ALL if len(residuals) > 1 else 0),
        )

    def errors(self, profile: Floats, draws: int, seed: Sequence[int]) -> Floats:
        """Errors such as the recipe makes on models with features like these, in random order.

        Student's t, scaled by squared residuals of held-out models: each weighs
        ``exp(-(d / h)^2 / 2)`` at the distance d, h being the median distance of a model to the
        nearest of another group, and the mean over all models and languages weighs as five more.
        Degrees of freedom are the effective number of residuals (Kish 1965), or that of models
        with five more for other languages if that is less, less one. Beyond the distance within
        which nine of ten models have another one, the scale grows in proportion.
        """
        from scipy.special import stdtrit

        apart = _distances(self.profiles, profile / self.scale)
        weights = np.exp(-((apart / max(float(np.median(self.nearest)), 1e-9)) ** 2) / 2)
        total = weights.sum() + RESIDUALS_FROM_ALL
        square = (weights @ self.squares + RESIDUALS_FROM_ALL * self.overall) / total
        far = max(float(np.quantile(self.nearest, FAR)), 1e-9)
        scale = np.sqrt(square) * max(1.0, apart.min() / far)
        near = weights.sum() ** 2 / max((weights**2).sum(), 1e-300)
        effective = min(near + RESIDUALS_FROM_ALL, self.models)
        # Evenly spread quantiles: the interval does not hang on the luck of few draws.
        quantiles = (np.random.default_rng(seed).permutation(draws) + 0.5) / draws
        return np.asarray(scale * stdtrit(max(effective - 1, 1), quantiles))

    def unlike(self, profile: Floats) -> str:
        """In which features a model is unlike any known one, in words; empty where it is not.

        It is where it lies farther from the nearest than each known model from the nearest of
        another group: of n models like the known ones, one in n + 1 does.
        """
        place = profile / self.scale
        apart = _distances(self.profiles, place)
        if apart.min() <= self.nearest[-1]:
            return ""
        off = place - self.profiles[int(apart.argmin())]
        return ", ".join(
            f"{'high' if off[i] > 0 else 'low'} {self.features[i]}"
            for i in np.argsort(-np.abs(off), kind="stable")[:MOST_WORDS]
        )


def _distances(profiles: Floats, place: Floats) -> Floats:
    return np.asarray(np.sqrt(np.mean((profiles - place) ** 2, axis=1)))
