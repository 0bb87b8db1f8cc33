"""Trees as arrays predict what the library that fitted them predicts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from mirage.surrogate._tree_arrays import TreeArrays


@pytest.fixture(scope="module")
def fitted() -> tuple[HistGradientBoostingRegressor, np.ndarray]:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(600, 4)).round(1)  # ties, so that values lie on thresholds
    target = np.where(rows[:, 0] > 0, rows[:, 1], -(rows[:, 2] ** 2))
    rows[rng.random(rows.shape) < 0.2] = np.nan
    model = HistGradientBoostingRegressor(
        max_iter=30, monotonic_cst=[1, 0, 0, -1], early_stopping=False, random_state=0
    )
    return model.fit(rows, target), rows


def test_predictions_are_those_of_scikit_learn(
    fitted: tuple[HistGradientBoostingRegressor, np.ndarray],
) -> None:
    model, rows = fitted
    trees = TreeArrays.of(model)
    assert trees.is_sound(4)
    assert len(trees.roots) == 30
    np.testing.assert_allclose(trees.predict(rows), model.predict(rows), rtol=1e-12)
    for value in (np.nan, np.inf, -np.inf):
        equal = np.full((2, 4), value)
        np.testing.assert_allclose(trees.predict(equal), model.predict(equal), rtol=1e-12)
    assert trees.predict(rows[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("name", "index", "value"),
    [
        ("left", 0, 0),  # a circle
        ("right", 0, 10**6),
        ("right", 0, 1),  # the left child
        ("feature", -1, 0),  # the last tree has no last leaf
        ("feature", 0, -1),  # the first tree is a leaf
        ("feature", 0, 4),
        ("feature", 0, -2),
        ("roots", 1, -1),
        ("roots", 0, 10**6),
        ("value", 0, np.inf),
        ("threshold", 0, np.nan),
    ],
)
def test_damaged_trees_are_not_sound(
    fitted: tuple[HistGradientBoostingRegressor, np.ndarray], name: str, index: int, value: float
) -> None:
    trees = TreeArrays.of(fitted[0])
    column = getattr(trees, name).copy()
    column[index] = value
    assert not replace(trees, **{name: column}).is_sound(4)


def test_a_tree_has_at_most_as_many_leaves_as_a_mask_has_bits() -> None:
    rows = np.arange(100.0)[:, None]
    for leaves in (32, 33):
        model = HistGradientBoostingRegressor(
            max_iter=2, max_leaf_nodes=leaves, min_samples_leaf=1, early_stopping=False
        ).fit(rows, rows[:, 0] ** 2)
        trees = TreeArrays.of(model)
        assert trees.is_sound(1) == (leaves == 32)
        if leaves == 32:
            np.testing.assert_allclose(trees.predict(rows), model.predict(rows), rtol=1e-12)


def test_trees_need_their_arrays_and_features(
    fitted: tuple[HistGradientBoostingRegressor, np.ndarray],
) -> None:
    trees = TreeArrays.of(fitted[0])
    assert not trees.is_sound(3)
    assert not replace(trees, value=trees.value[:-1]).is_sound(4)
    assert not replace(trees, start=np.nan).is_sound(4)
