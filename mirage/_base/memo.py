"""A dictionary that computes missing values, for functions of single words."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

LARGEST = 1 << 16
"""Number of values from which on all are forgotten, to bound the memory."""


class Memo(dict[Key, Value], Generic[Key, Value]):
    """A dictionary that computes the value of a missing key, and keeps it.

    Looking up a known key takes a third of the time that a function with
    :func:`functools.lru_cache` takes.

    Args:
        compute: Returns the value of a key.
    """

    def __init__(self, compute: Callable[[Key], Value]) -> None:
        self._compute = compute

    def __missing__(self, key: Key) -> Value:
        if len(self) >= LARGEST:
            self.clear()
        value = self[key] = self._compute(key)
        return value
