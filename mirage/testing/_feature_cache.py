"""A cache of feature values, for scoring many runs that share most of their responses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from mirage.features import feature as feature_of_name
from mirage.features.base import Answered, Facts, Feature, NotComputed
from mirage.features.registry import facts

Value = float | NotComputed
Values = dict[tuple[str, str, str], Value]

_VALUES: ContextVar[Values | None] = ContextVar("mirage_feature_values", default=None)


@contextmanager
def caching_features() -> Iterator[None]:
    """Compute each feature only once per query and response within the ``with`` block.

    Only features that :func:`cached_feature` returns use the cache.
    """
    # Nested blocks share the cache of the outermost one.
    token = _VALUES.set(_VALUES.get() or {})
    try:
        yield
    finally:
        _VALUES.reset(token)


def cached_feature(name: str) -> Feature:
    """Return the feature with this name.

    In a :func:`caching_features` block, the returned feature caches its values.
    """
    feature, values = feature_of_name(name), _VALUES.get()
    return feature if values is None else _CachedFeature(feature, values)


class _CachedFeature:
    """A feature that caches its values by query and response."""

    def __init__(self, feature: Feature, values: Values) -> None:
        self.name: str = feature.name
        self.facts: Facts = facts(feature)
        self._feature, self._values = feature, values

    def compute(self, batch: Sequence[Answered]) -> list[Value]:
        """Return the values of the items; compute only those that are not in the cache."""
        keys = [
            (self.name, item.query.model_dump_json(), item.response.model_dump_json())
            for item in batch
        ]
        new = {key: item for key, item in zip(keys, batch, strict=True) if key not in self._values}
        computed = self._feature.compute(list(new.values()))
        self._values.update(zip(new, computed, strict=True))
        return [self._values[key] for key in keys]
