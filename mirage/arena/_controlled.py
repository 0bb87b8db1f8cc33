"""Joint fit of Bradley-Terry logits and coefficients of control variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.arena import estimation
from mirage.arena.judgments import Judgments
from mirage.errors import JudgmentError


class Controlled(NamedTuple):
    """Logits of models and coefficients of control variables, from a joint fit.

    Attributes:
        logits: Logit of each model; the logits sum to 0.
        effects: Coefficient of each control variable.
        covariance: Joint covariance matrix. Its rows and columns are the logits, followed by the
            coefficients.
    """

    logits: Floats
    effects: Floats
    covariance: Floats


def with_controls(
    columns: Judgments, values: Floats, names: Sequence[str], ridge: float
) -> Controlled:
    """Fit logits of models and coefficients of controls by penalised maximum likelihood.

    A control is a covariate such as the difference in length. The penalty is a ridge, which shrinks
    the coefficients in the same way as the logits. The covariance is the sandwich estimate with
    queries as clusters, as in :func:`mirage.arena.estimation.sandwich`.

    Args:
        columns: The judgments.
        values: Value of each control for each judgment, of shape ``(judgments, controls)``;
            positive values favour model a.
        names: Names of the controls, for error messages.
        ridge: Strength of the ridge, in judgments per model, as in
            :func:`mirage.arena.estimation.fit_bradley_terry`.

    Returns:
        The logits, the coefficients and their covariance, which is NaN for a single query.

    Raises:
        JudgmentError: The effect of a control cannot be distinguished from the quality of the
            models or from the effects of the other controls.
    """
    a, b = columns.a.astype(np.intp), columns.b.astype(np.intp)
    models, size = len(columns.models), len(columns.models) + values.shape[1]
    score = columns.score.astype(np.float64)

    def net_weights(weight: Floats) -> Floats:
        """Return each model's sum of weights as model a, minus its sum of weights as model b.

        ``weight`` has one value per judgment, such as a derivative with respect to the log-odds.
        """
        won, lost = (np.bincount(side, weight, models) for side in (a, b))
        return np.asarray(won - lost, dtype=np.float64)

    def information(curvature: Floats, penalty: float) -> Floats:
        between = estimation.win_matrix(a, b, np.ones(len(a)), models, curvature)
        matrix = np.empty((size, size))
        matrix[:models, :models] = estimation.penalised_information(between + between.T, penalty)
        matrix[:models, models:] = np.stack([net_weights(curvature * x) for x in values.T], axis=1)
        matrix[models:, :models] = matrix[:models, models:].T
        matrix[models:, models:] = values.T @ (curvature[:, None] * values)
        matrix[models:, models:] += penalty * np.eye(size - models)
        return matrix

    def chances(params: Floats) -> Floats:
        from scipy.special import expit

        log_odds = params[a] - params[b] + values @ params[models:]
        return np.asarray(expit(log_odds), dtype=np.float64)

    def derivatives(params: Floats, _: Ints) -> tuple[Floats, Floats]:
        chance = chances(params[0])
        residual = score - chance
        gradient = (
            np.concatenate([net_weights(residual), values.T @ residual]) - ridge / 4 * params[0]
        )
        return gradient[None], information(chance * (1 - chance), ridge / 4)[None]

    _check_identifiable(information(np.full(len(a), 0.25), 0.0), models, names, ridge)
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
    for column, x in enumerate(values.T, start=models):
        gradients[:, column] = np.bincount(cluster, residual * x, clusters)
    meat = gradients.T @ gradients * clusters / (clusters - 1)
    meat[:models, :models] += ridge / 4 * (np.eye(models) - 1 / models)
    meat[models:, models:] += ridge / 4 * np.eye(size - models)
    return Controlled(params[:models], params[models:], estimation.solve_sandwich(bread, meat))


def _check_identifiable(
    information: Floats, models: int, names: Sequence[str], ridge: float
) -> None:
    """Raise an error if the judgments contain too little information about a control.

    ``information`` is the information matrix of the logits of the ``models`` models, followed by
    the coefficients of the controls ``names``. The information about a coefficient that is left
    after estimating all other parameters must exceed the information that the ridge adds.
    """
    for column, name in enumerate(names, start=models):
        remaining = np.arange(len(information)) != column
        # Schur complement: the information about this control once all else is estimated.
        cross = information[remaining, column]
        conditional = (
            information[column, column]
            - cross @ np.linalg.pinv(information[np.ix_(remaining, remaining)]) @ cross
        )
        if conditional <= max(ridge / 4, 1e-9):
            raise JudgmentError(
                f"the judgments cannot separate {name} from quality: on every query and for every "
                "judge, its value is determined by the models or by another control; leave this "
                "control out, or add judgments"
            )
