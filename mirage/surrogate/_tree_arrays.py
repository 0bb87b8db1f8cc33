"""Boosted trees as arrays, which can predict without scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats

ARRAYS = {
    "roots": np.int32,
    "feature": np.int16,
    "threshold": np.float64,
    "missing_left": np.bool_,
    "left": np.int32,
    "right": np.int32,
    "value": np.float64,
}
"""Type of each array of :class:`TreeArrays`, by name."""


@dataclass(frozen=True, eq=False)
class TreeArrays:
    """Regression trees whose predictions are added up.

    ``roots`` has the shape ``(trees,)``, and the other arrays have the shape ``(nodes,)``.

    Attributes:
        start: Constant that is added to the sum.
        roots: Index of the root node of each tree.
        feature: Index of the feature that a node compares with its threshold; -1 in a leaf.
        threshold: Threshold of a node. Rows whose feature is at most the threshold go to the left
            child, and other rows to the right child.
        missing_left: Whether rows in which the feature is NaN go to the left child.
        left: Index of the left child.
        right: Index of the right child.
        value: Value that a leaf adds to the sum; 0 in other nodes.
    """

    start: float
    roots: NDArray[np.int32]
    feature: NDArray[np.int16]
    threshold: Floats
    missing_left: NDArray[np.bool_]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: Floats

    @classmethod
    def of(cls, fitted: Any) -> TreeArrays:
        """Return the arrays of a ``HistGradientBoostingRegressor`` fitted with squared error."""
        trees: Sequence[Any] = [members[0].nodes for members in fitted._predictors]
        sizes = [len(nodes) for nodes in trees]
        roots = np.cumsum([0, *sizes[:-1]])
        offsets = np.repeat(roots, sizes)
        nodes = np.concatenate(trees)
        leaf = nodes["is_leaf"].astype(bool)
        columns = {
            "roots": roots,
            "feature": np.where(leaf, -1, nodes["feature_idx"].astype(np.int64)),
            "threshold": np.where(leaf, 0.0, nodes["num_threshold"]),
            "missing_left": nodes["missing_go_to_left"],
            "left": np.where(leaf, 0, nodes["left"] + offsets),
            "right": np.where(leaf, 0, nodes["right"] + offsets),
            "value": np.where(leaf, nodes["value"], 0.0),
        }
        start = float(np.asarray(fitted._baseline_prediction).item())
        return cls(start, **{name: columns[name].astype(kind) for name, kind in ARRAYS.items()})

    def predict(self, rows: Floats) -> Floats:
        """Return the prediction for each row.

        ``rows`` has the shape ``(rows, features)``, and the result the shape ``(rows,)``.
        """
        shape = len(rows), len(self.roots)
        values, missing = rows.ravel(), np.isnan(rows).ravel()
        has_missing = missing.any()
        first = (np.arange(shape[0]) * rows.shape[1]).repeat(shape[1])
        node = np.tile(self.roots, shape[0])
        # The paths that have not reached a leaf yet.
        open_paths = np.flatnonzero(self.feature[node] >= 0)
        while len(open_paths):
            parents = node[open_paths]
            cells = first[open_paths] + self.feature[parents]
            goes_left = values[cells] <= self.threshold[parents]
            if has_missing:
                goes_left |= missing[cells] & self.missing_left[parents]
            children = np.where(goes_left, self.left[parents], self.right[parents])
            node[open_paths] = children
            open_paths = open_paths[self.feature[children] >= 0]
        return np.asarray(self.start + self.value[node].reshape(shape).sum(axis=1))

    def is_sound(self, features: int) -> bool:
        """Return whether the arrays are valid trees.

        Every path must end in a leaf, the value of every leaf must be finite, and no node may
        compare a feature that does not exist.

        Args:
            features: Number of features that the trees may use.
        """
        columns = [getattr(self, name) for name in ARRAYS if name != "roots"]
        size = len(self.feature)
        if size == 0 or any(column.shape != (size,) for column in columns):
            return False
        inner = np.flatnonzero(self.feature >= 0)
        children = np.stack([self.left[inner], self.right[inner]])
        return bool(
            self.roots.ndim == 1
            and np.all((self.roots >= 0) & (self.roots < size))
            and np.all((self.feature >= -1) & (self.feature < features))
            # A child comes after its parent, so no path is circular.
            and np.all((children > inner) & (children < size))
            and np.isfinite([self.start]).all()
            and np.isfinite(self.value).all()
            and not np.isnan(self.threshold).any()
        )
