"""Statistics of this field as functions on arrays: bootstrap, permutation tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.statistics.permutation import holm, permutation_p_values

__all__ = [
    "holm",
    "permutation_p_values",
]

__getattr__, __dir__ = lazy(__name__, __file__)
