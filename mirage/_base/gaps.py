"""A placeholder for missing values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NotComputed:
    """A missing value of a feature; a table stores it as NaN, with the reason.

    Attributes:
        reason: The reason why there is no value.
        retry: Whether a second attempt may succeed, for example after a failed network call.
    """

    reason: str
    retry: bool = False
