"""Feature values that are kept while many runs with mostly the same responses are scored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from mirage.features import feature as feature_of_name
from mirage.features.base import Answered, Facts, Feature, NotComputed
from mirage.features.registry import facts

__all__ = ["remembered", "remembering"]

Value = float | NotComputed
Values = dict[tuple[str, str, str], Value]

_VALUES: ContextVar[Values | None] = ContextVar("mirage_remembered_values", default=None)


@contextmanager
def remembering() -> Iterator[None]:
    """Compute each library feature once per query and response in the block."""
    token = _VALUES.set(_VALUES.get() or {})
    try:
        yield
    finally:
        _VALUES.reset(token)


def remembered(name: str) -> Feature:
    """Return the feature of this name; in a :func:`remembering` block it keeps its values."""
    feature, values = feature_of_name(name), _VALUES.get()
    return feature if values is None else _RememberedFeature(feature, values)


class _RememberedFeature:
    """A feature that looks up the values that it has computed before."""

    def __init__(self, feature: Feature, values: Values) -> None:
        self.name: str = feature.name
        self.facts: Facts = facts(feature)
        self._feature, self._values = feature, values

    def compute(self, batch: Sequence[Answered]) -> list[Value]:
        """Compute the values of the items that are new, and look up the others."""
        keys = [
            (self.name, item.query.model_dump_json(), item.response.model_dump_json())
            for item in batch
        ]
        new = {key: item for key, item in zip(keys, batch, strict=True) if key not in self._values}
        computed = self._feature.compute(list(new.values()))
        self._values.update(zip(new, computed, strict=True))
        return [self._values[key] for key in keys]
