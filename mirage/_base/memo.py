"""Caches for functions that take a single word or a single record."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

Item = TypeVar("Item")

LARGEST = 1 << 16
"""Largest number of values; a full dictionary is emptied, to limit its memory."""


class Memo(dict[Key, Value], Generic[Key, Value]):
    """A dictionary that computes the value of a missing key, and stores it.

    Looking up an existing key is three times as fast as a cached call with
    :func:`functools.lru_cache`.

    Args:
        compute: Function that returns the value of a key.
    """

    def __init__(self, compute: Callable[[Key], Value]) -> None:
        self._compute = compute

    def __missing__(self, key: Key) -> Value:
        if len(self) >= LARGEST:
            self.clear()
        value = self[key] = self._compute(key)
        return value


MOST_OBJECTS = 256
"""Largest number of objects whose results are kept; features are computed for 64 at once."""


def cached_by_identity(function: Callable[[Item], Value]) -> Callable[[Item], Value]:
    """Cache the results of a function for the objects that it has recently been called with.

    Comparing and hashing a record with long texts takes longer than most functions of it. The
    objects must not change.
    """
    results: dict[int, tuple[Item, Value]] = {}

    @wraps(function)
    def cached(item: Item) -> Value:
        entry = results.get(id(item))
        # A stored object is not deleted, so no other object gets its id.
        if entry is None:
            if len(results) >= MOST_OBJECTS:
                results.clear()
            entry = results[id(item)] = item, function(item)
        return entry[1]

    return cached
