"""Penalised estimates, compared with scipy's optimum of the likelihood."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from mirage.arena.estimation import fit_davidson


@pytest.mark.parametrize("ridge", [0.1, 5.0])
def test_the_ridge_holds_the_tie_parameter_as_judgments_between_equals_would(ridge: float) -> None:
    # How often the row was preferred to the column, and ties, of three models: mostly ties.
    won = np.array([[0, 3, 1], [1, 0, 4], [0, 2, 0]])
    tied = np.array([[0, 9, 4], [9, 0, 12], [4, 12, 0]])

    def loss(params: np.ndarray) -> float:
        strength, nu = np.exp(params[:3]), np.exp(params[3])
        middle = nu * np.sqrt(np.outer(strength, strength))
        total = strength[:, None] + strength + middle
        likelihood = (won * np.log(strength[:, None] / total)).sum()
        likelihood += (tied * np.log(middle / total)).sum() / 2
        # Where all is equal each of three outcomes has 1/3: a judgment has the information 1/4
        # about a logit, and 1/3 * 2/3 about log nu.
        spread = np.square(params[:3] - params[:3].mean()).sum()
        return float(-likelihood + ridge * (spread / 8 + params[3] ** 2 * (1 / 3 * 2 / 3) / 2))

    best = minimize(loss, np.zeros(4), tol=1e-10, method="BFGS").x
    logits, log_nu = fit_davidson(won + tied / 2, np.array(tied.sum() / 2), ridge)
    assert logits == pytest.approx(best[:3] - best[:3].mean(), abs=1e-5)
    assert log_nu == pytest.approx(best[3], abs=1e-5)
