"""Boosted trees stored as JSON: small models that ship without a machine learning library.

The trees are trained by gradient boosting (Friedman 2001, *Greedy function approximation*). A sign
is a numeric input feature. A node is ``[sign, threshold, left, right]`` and a leaf ``[value]``. The
path through a tree continues at the left child if the sign is at most the threshold.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

__all__ = ["Forest", "forest", "packaged_json"]


class Node(NamedTuple):
    """One node of a tree; in a leaf, ``threshold`` is the value of the leaf."""

    sign: int  # index of the sign; -1 in a leaf
    threshold: float
    left_child: int = 0
    right_child: int = 0


class Forest(NamedTuple):
    """A sum of boosted trees, which predicts the log odds of one class."""

    start: float
    trees: tuple[tuple[Node, ...], ...]

    def margin(self, signs: Sequence[float]) -> float:
        """Return the log odds that the trees predict.

        Args:
            signs: Values of the input features, in the order of the names passed to :func:`forest`.
        """
        margin = self.start
        for tree in self.trees:
            sign, threshold, left_child, right_child = tree[0]
            while sign >= 0:
                sign, threshold, left_child, right_child = tree[
                    left_child if signs[sign] <= threshold else right_child
                ]
            margin += threshold
        return margin


@cache
def packaged_json(name: str) -> Any:
    """Return the content of a JSON file in the package's ``data`` folder."""
    source = resources.files("mirage") / "data" / name
    return json.loads(source.read_text(encoding="utf-8"))


def forest(model: Any, names: Sequence[str]) -> Forest:
    """Build a forest from its JSON.

    Args:
        model: JSON of the trees, whose nodes refer to features by name.
        names: Names of the input features, in order.
    """
    indices = {name: index for index, name in enumerate(names)}
    trees = tuple(
        tuple(Node(indices[n[0]], *n[1:]) if len(n) > 1 else Node(-1, n[0]) for n in tree)
        for tree in model["trees"]
    )
    return Forest(model["start"], trees)
