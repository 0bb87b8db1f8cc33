"""What a feature is: an object with a name that turns answered queries into numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from mirage.models import Query, Response
from mirage.text import ParsedResponse

__all__ = ["Answered", "Feature", "FunctionFeature", "NotComputed"]


class Answered(NamedTuple):
    """One query with a model's response to it, raw and parsed: what features are computed from."""

    query: Query
    response: Response
    parsed: ParsedResponse


@dataclass(frozen=True, slots=True)
class NotComputed:
    """Stands where a feature has no value, and says why; in a table it is NaN with its reason."""

    reason: str


@runtime_checkable
class Feature(Protocol):
    """Anything with a name and this method is a feature and can join a suite.

    ``compute`` gets many answered queries at once, so that a model behind a feature can batch
    them, and returns one number for each, or :class:`NotComputed` where there is none.
    A suite hands it successful responses only.
    """

    @property
    def name(self) -> str: ...

    def compute(self, batch: Sequence[Answered]) -> Sequence[float | NotComputed]: ...


class FunctionFeature:
    """A plain function ``(query, response) -> float`` as a feature, named after the function."""

    def __init__(self, function: Callable[[Query, Response], float], name: str = "") -> None:
        self.function = function
        self.name = name or getattr(function, "__name__", type(function).__name__)

    def __repr__(self) -> str:
        return self.name

    def compute(self, batch: Sequence[Answered]) -> list[float | NotComputed]:
        """Call the function on each pair; what it raises goes to the caller."""
        return [float(self.function(item.query, item.response)) for item in batch]
