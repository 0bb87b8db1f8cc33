"""The outcome of a test whose assertion is inconclusive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from mirage.errors import SettingError
from mirage.testing._current_test import is_listening, leave_open, option
from mirage.testing._shortfalls import inconclusive_error

OnInconclusive = Literal["skip", "fail", "pass"]
"""The outcome of a test whose assertion is inconclusive."""


def inconclusive_action(choice: str | None) -> str:
    """Return the outcome of a test whose assertion is inconclusive.

    Args:
        choice: ``"skip"``, ``"fail"`` or ``"pass"``; ``None`` for pytest's ini option
            ``mirage_inconclusive``, or ``"skip"`` if it is not set.

    Raises:
        SettingError: There is no such choice.
    """
    action = option("mirage_inconclusive") or "skip" if choice is None else choice
    if action not in get_args(OnInconclusive):
        choices = ", ".join(get_args(OnInconclusive))
        raise SettingError(f"inconclusive must be one of {choices}, got {action!r}")
    return action


def settle_inconclusive(
    action: str, reason: Callable[[], str], details: Callable[[], str] | None = None
) -> None:
    """Fail, skip or pass the running test, whose assertion is inconclusive.

    Args:
        action: Return value of :func:`inconclusive_action`.
        reason: Function that returns why the assertion is inconclusive, in one line; pytest shows
            it for a skipped test.
        details: Function that returns the message of a failure; ``reason`` by default.

    Raises:
        FellShortError: ``action`` is ``"fail"``.
    """
    if action == "fail":
        raise inconclusive_error((details or reason)())
    if action == "skip" and is_listening():
        leave_open(reason())
