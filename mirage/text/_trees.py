"""Boosted trees that are stored as JSON and need no machine learning library to predict.

The trees are trained by gradient boosting (Friedman 2001, *Greedy function approximation*). A sign
is a numeric input feature. A node is ``[sign, threshold, left, right]`` and a leaf ``[value]``:
``sign`` is an index into the list of signs in the same file, and ``left`` and ``right`` are indices
of nodes of the same tree. Prediction follows a path from the root to a leaf. It continues at the
left child if the value of the sign is at most the threshold, and otherwise at the right child.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, reduce
from importlib import resources
from itertools import chain
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats

__all__ = ["Forest", "forest", "packaged_json"]


class Forest(NamedTuple):
    """A sum of boosted trees, which predicts the log odds of one class.

    The nodes of all trees are in one list. The children of a leaf are the leaf itself, so that all
    trees can be followed for the same number of steps.

    Attributes:
        start: The log odds before the first tree.
        roots: The index of the first node of each tree.
        steps: The number of steps from a root to the deepest leaf.
        signs: The index of the sign (input feature) that each node tests; 0 in a leaf.
        thresholds: The threshold of each node, or the value of a leaf.
        left_children: The index of the node that follows if the value of the sign is at most the
            threshold.
        right_children: The index of the node that follows otherwise.
    """

    start: float
    roots: NDArray[np.intp]
    steps: int
    signs: NDArray[np.intp]
    thresholds: Floats
    left_children: NDArray[np.intp]
    right_children: NDArray[np.intp]

    def margin(self, signs: Sequence[float]) -> float:
        """Return the log odds of the class, as the trees predict them.

        Args:
            signs: Values of the input features, in the order of the names passed to :func:`forest`.
        """
        values, nodes = np.array(signs, dtype=np.float64), self.roots
        for _ in range(self.steps):
            goes_left = values[self.signs[nodes]] <= self.thresholds[nodes]
            nodes = np.where(goes_left, self.left_children[nodes], self.right_children[nodes])
        # ``sum`` rounds differently from Python 3.12 on.
        return reduce(add, self.thresholds[nodes].tolist(), self.start)


@cache
def packaged_json(name: str) -> Any:
    """Return the content of a JSON file in the package's ``data`` folder."""
    source = resources.files("mirage") / "data" / name
    return json.loads(source.read_text(encoding="utf-8"))


def forest(model: Any, names: Sequence[str], signs: Sequence[str]) -> Forest:
    """Build a forest from its JSON.

    Args:
        model: The parsed JSON, with the keys ``start`` (the log odds before the first tree) and
            ``trees``.
        names: Names of the input features to which the indices in the nodes refer.
        signs: Names of the input features, in the order in which they are passed to
            :meth:`Forest.margin`.
    """
    position = {name: index for index, name in enumerate(signs)}
    indices = np.array([position[name] for name in names], dtype=np.intp)
    trees = model["trees"]
    sizes = np.array([*map(len, trees)], dtype=np.intp)
    roots = sizes.cumsum() - sizes
    nodes = [*chain.from_iterable(trees)]
    is_leaf = np.array([*map(len, nodes)]) == 1
    leaves = np.array([node[0] for node in nodes if len(node) == 1], dtype=np.float64)
    splits = np.array([node for node in nodes if len(node) > 1], dtype=np.float64).reshape(-1, 4)
    first = roots.repeat(sizes)[~is_leaf]
    numbers = np.zeros(len(nodes), dtype=np.intp)
    thresholds = np.zeros(len(nodes))
    left_children, right_children = np.arange(len(nodes)), np.arange(len(nodes))
    numbers[~is_leaf] = indices[splits[:, 0].astype(np.intp)]
    thresholds[~is_leaf], thresholds[is_leaf] = splits[:, 1], leaves
    left_children[~is_leaf] = first + splits[:, 2].astype(np.intp)
    right_children[~is_leaf] = first + splits[:, 3].astype(np.intp)
    steps, level = 0, roots[~is_leaf[roots]]
    while len(level):
        steps += 1
        level = np.concatenate((left_children[level], right_children[level]))
        level = level[~is_leaf[level]]
    return Forest(model["start"], roots, steps, numbers, thresholds, left_children, right_children)
