"""Bradley-Terry logits beside the coefficients of controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.arena import estimation
from mirage.arena.judgments import Judgments
from mirage.errors import JudgmentError

__all__ = ["Controlled", "with_controls"]


class Controlled(NamedTuple):
    """Logits that sum to 0, coefficients, and the covariance of both, logits first."""

    logits: Floats
    effects: Floats
    covariance: Floats


def with_controls(
    columns: Judgments, values: Floats, names: Sequence[str], ridge: float
) -> Controlled:
    """The maximum of the likelihood, with ``ridge`` as of logits on the coefficients, too.

    ``values (judgments, controls)`` are in favour of model a. The covariance is the sandwich with
    queries as clusters, as :func:`mirage.arena.estimation.sandwich`.

    Raises:
        JudgmentError: a control says nothing that models and other controls do not.
    """
    a, b = columns.a.astype(np.intp), columns.b.astype(np.intp)
    models, size = len(columns.models), len(columns.models) + values.shape[1]
    score = columns.score.astype(np.float64)

    def sides(weight: Floats) -> Floats:
        """The sum of weights where each model is a, less that where it is b."""
        won, lost = (np.bincount(side, weight, models) for side in (a, b))
        return np.asarray(won - lost, dtype=np.float64)

    def information(curvature: Floats, penalty: float) -> Floats:
        between = estimation.win_matrix(a, b, np.ones(len(a)), models, curvature)
        whole = np.empty((size, size))
        whole[:models, :models] = estimation.penalised_information(between + between.T, penalty)
        whole[:models, models:] = np.stack([sides(curvature * x) for x in values.T], axis=1)
        whole[models:, :models] = whole[:models, models:].T
        whole[models:, models:] = values.T @ (curvature[:, None] * values)
        whole[models:, models:] += penalty * np.eye(size - models)
        return whole

    def chances(params: Floats) -> Floats:
        from scipy.special import expit

        log_odds = params[a] - params[b] + values @ params[models:]
        return np.asarray(expit(log_odds), dtype=np.float64)

    def derivatives(params: Floats, _: Ints) -> tuple[Floats, Floats]:
        chance = chances(params[0])
        residual = score - chance
        gradient = np.concatenate([sides(residual), values.T @ residual]) - ridge / 4 * params[0]
        return gradient[None], information(chance * (1 - chance), ridge / 4)[None]

    _check_told_apart(information(np.full(len(a), 0.25), 0.0), models, names, ridge)
    params = estimation.newton(derivatives, np.zeros((1, size)), models)[0]
    chance = chances(params)
    bread = information(chance * (1 - chance), ridge / 4)
    cluster = np.unique(columns.query, return_inverse=True)[1]
    clusters = int(cluster.max()) + 1
    if clusters < 2:
        return Controlled(params[:models], params[models:], np.full((size, size), np.nan))
    gradients = np.zeros((clusters, size))
    residual = score - chance
    np.add.at(gradients, (cluster, a), residual)
    np.add.at(gradients, (cluster, b), -residual)
    for place, x in enumerate(values.T, start=models):
        gradients[:, place] = np.bincount(cluster, residual * x, clusters)
    meat = gradients.T @ gradients * clusters / (clusters - 1)
    meat[:models, :models] += ridge / 4 * (np.eye(models) - 1 / models)
    meat[models:, models:] += ridge / 4 * np.eye(size - models)
    half = np.linalg.solve(bread, meat)
    covariance = np.linalg.solve(bread, half.T)
    return Controlled(params[:models], params[models:], (covariance + covariance.T) / 2)


def _check_told_apart(whole: Floats, models: int, names: Sequence[str], ridge: float) -> None:
    """That judgments say more of each control than a ridge does, all else accounted for."""
    for place, name in enumerate(names, start=models):
        others = np.arange(len(whole)) != place
        cross = whole[others, place]
        left = whole[place, place] - cross @ np.linalg.pinv(whole[np.ix_(others, others)]) @ cross
        if left <= max(ridge / 4, 1e-9):
            raise JudgmentError(
                f"the judgments cannot tell {name} from quality: it is as models are, on every "
                "query and by every judge, or as another control is; leave it out, or add judgments"
            )
