"""Boosted trees stored as JSON: small models that ship without a machine learning library.

The trees are those of gradient boosting (Friedman 2001, *Greedy function approximation*). A node is
``[sign, threshold, left, right]`` and a leaf ``[value]``. A node sends a text to its left child if
the sign is at most the threshold.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

__all__ = ["Forest", "forest", "packaged_json"]


class Node(NamedTuple):
    """One node of a tree."""

    sign: int  # index of the sign; -1 in a leaf
    threshold: float  # of a leaf: its value
    left: int = 0
    right: int = 0


class Forest(NamedTuple):
    """A sum of trees: the log odds of one class before normalisation."""

    start: float
    trees: tuple[tuple[Node, ...], ...]

    def margin(self, signs: Sequence[float]) -> float:
        """Return the log odds for these signs."""
        margin = self.start
        for tree in self.trees:
            sign, threshold, left, right = tree[0]
            while sign >= 0:
                sign, threshold, left, right = tree[left if signs[sign] <= threshold else right]
            margin += threshold
        return margin


@cache
def packaged_json(name: str) -> Any:
    """Return the JSON of a data file of the package."""
    source = resources.files("mirage") / "data" / name
    return json.loads(source.read_text(encoding="utf-8"))


def forest(model: Any, names: Sequence[str]) -> Forest:
    """Return a forest from its JSON, whose nodes name the signs that they compare."""
    places = {name: index for index, name in enumerate(names)}
    trees = tuple(
        tuple(Node(places[n[0]], *n[1:]) if len(n) > 1 else Node(-1, n[0]) for n in tree)
        for tree in model["trees"]
    )
    return Forest(model["start"], trees)
