"""What stands where there is no value."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NotComputed"]


@dataclass(frozen=True, slots=True)
class NotComputed:
    """A feature value that is missing; in a table it is NaN with its reason.

    Attributes:
        reason: Why there is no value.
        retry: Whether computing the value again may succeed, as after a failed call.
    """

    reason: str
    retry: bool = False
