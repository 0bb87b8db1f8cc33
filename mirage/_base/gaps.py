"""What stands where there is no value."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NotComputed"]


@dataclass(frozen=True, slots=True)
class NotComputed:
    """Stands where a feature has no value, and says why; in a table it is NaN with its reason."""

    reason: str
