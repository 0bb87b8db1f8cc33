"""Boosted trees as arrays, which can predict without scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats, Ints

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

LEAVES = 32
"""Largest number of leaves of a tree, the number of bits of a mask."""

_ALL = 2**LEAVES - 1
"""The mask of all leaves."""


class _Masks(NamedTuple):
    """The leaves that a row can still reach after one of its features was compared.

    A mask has one bit per leaf of a tree. The lowest bit is that of the leftmost leaf.

    Attributes:
        feature: Index of the feature.
        thresholds: Thresholds of the feature in all trees, in ascending order.
        leaves: Masks of shape ``(thresholds + 2, trees)``. Row ``i`` is for values above ``i``
            thresholds, and the last row for missing values.
    """

    feature: int
    thresholds: Floats
    leaves: NDArray[np.uint32]

    def of(self, values: Floats) -> NDArray[np.uint32]:
        """Return the mask of reachable leaves for each value, of shape ``(values, trees)``."""
        rows = np.searchsorted(self.thresholds, values)
        rows[np.isnan(values)] = -1
        return self.leaves[rows]


@dataclass(frozen=True, eq=False)
class TreeArrays:
    """Regression trees whose predictions are added up.

    ``roots`` has the shape ``(trees,)``, and the other arrays have the shape ``(nodes,)``. The
    nodes of each tree are in depth-first order: first the root, then all nodes below its left
    child, then those below its right child. A tree has at most :data:`LEAVES` leaves.

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

        Each node has a bit mask that clears the leaves below its left child. If a row goes right at
        a node, it cannot reach these leaves. The masks of all such nodes are combined, and the row
        reaches the leftmost leaf that remains (QuickScorer, Lucchese et al. 2015, SIGIR, 73-82).
        """
        leaves = np.full((len(rows), len(self.roots)), _ALL, np.uint32)
        for masks in self._masks:
            leaves &= masks.of(rows[:, masks.feature])
        leftmost = leaves & (~leaves + np.uint32(1))
        # The exponent of a float32 that is a power of two is the position of the bit.
        position = (leftmost.astype(np.float32).view(np.int32) >> 23) - 127
        values = self.value[self.feature < 0][position + self._leaves_before[self.roots]]
        return np.asarray(self.start + values.sum(axis=1))

    @cached_property
    def _leaves_before(self) -> Ints:
        """The number of leaves that precede each node, counted over all trees."""
        leaf = self.feature < 0
        return np.cumsum(leaf) - leaf

    @cached_property
    def _masks(self) -> list[_Masks]:
        """For each feature that the trees use, the leaves that its values can reach."""
        features = sorted({*self.feature.tolist()} - {-1})
        return [self._masks_of(feature) for feature in features]

    def _masks_of(self, feature: int) -> _Masks:
        nodes = np.flatnonzero(self.feature == feature)
        trees = np.searchsorted(self.roots, nodes, side="right") - 1
        not_left = self._without_left(nodes, trees)
        thresholds, ranks = np.unique(self.threshold[nodes], return_inverse=True)
        leaves = np.full((len(thresholds) + 2, len(self.roots)), _ALL, np.uint32)
        np.bitwise_and.at(leaves, (ranks + 1, trees), not_left)
        leaves[:-1] = np.bitwise_and.accumulate(leaves[:-1], axis=0)
        right = ~self.missing_left[nodes]
        np.bitwise_and.at(leaves[-1], trees[right], not_left[right])
        return _Masks(feature, thresholds, leaves)

    def _without_left(self, nodes: Ints, trees: Ints) -> NDArray[np.uint32]:
        """Return, for each node, the mask of all leaves that are not below its left child."""
        first, end = (
            self._leaves_before[child[nodes]] - self._leaves_before[self.roots[trees]]
            for child in (self.left, self.right)
        )
        return np.asarray(_ALL - (1 << end) + (1 << first), dtype=np.uint32)

    def is_sound(self, features: int) -> bool:
        """Return whether the arrays are valid trees.

        Nodes must be in depth-first order and refer to existing features. Values must be finite,
        and no tree may have more than :data:`LEAVES` leaves.

        Args:
            features: Number of features that the trees may use.
        """
        columns = [getattr(self, name) for name in ARRAYS if name != "roots"]
        size = len(self.feature)
        if size == 0 or any(column.shape != (size,) for column in columns):
            return False
        return bool(
            self._is_depth_first()
            and np.add.reduceat(self.feature < 0, self.roots, dtype=np.intp).max() <= LEAVES
            and np.all((self.feature >= -1) & (self.feature < features))
            and np.isfinite([self.start]).all()
            and np.isfinite(self.value).all()
            and not np.isnan(self.threshold).any()
        )

    def _is_depth_first(self) -> bool:
        """Return whether the nodes form complete trees in depth-first order."""
        inner = np.flatnonzero(self.feature >= 0)
        # The number of right children that are still to come, before each node and at the end: a
        # leaf completes a subtree, and any other node adds a right child.
        pending = np.concatenate([[0], np.cumsum(np.where(self.feature < 0, -1, 1))])
        if pending.argmin() < len(self.feature):  # the last tree is not complete
            return False
        pending = pending[:-1]
        # The right child of a node is the next node before which as many are pending.
        order = np.argsort(pending, kind="stable")
        following = np.empty_like(order)
        following[order[:-1]] = order[1:]
        roots = np.flatnonzero(np.diff(np.minimum.accumulate(pending), prepend=1))
        return (
            np.array_equal(self.roots, roots)
            and np.array_equal(self.left[inner], inner + 1)
            and np.array_equal(self.right[inner], following[inner])
        )
