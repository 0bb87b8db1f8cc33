"""What becomes of a test when the queries are too few to tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from mirage.errors import SettingError
from mirage.testing._current_test import is_listening, leave_open, option
from mirage.testing._shortfalls import undecided

__all__ = ["Unclear", "settle_unclear", "unclear_action"]

Unclear = Literal["skip", "fail", "pass"]
"""What becomes of a test when nobody can tell."""


def unclear_action(choice: str | None) -> str:
    """Return what becomes of a test when nobody can tell.

    Args:
        choice: ``"skip"``, ``"fail"`` or ``"pass"``; ``None`` for what pytest's ini option
            ``mirage_cannot_tell`` says, or else ``"skip"``.

    Raises:
        SettingError: There is no such choice.
    """
    action = option("mirage_cannot_tell") or "skip" if choice is None else choice
    if action not in get_args(Unclear):
        choices = ", ".join(get_args(Unclear))
        raise SettingError(f"cannot_tell is one of {choices}, not {action!r}")
    return action


def settle_unclear(
    action: str, reason: Callable[[], str], details: Callable[[], str] | None = None
) -> None:
    """Fail, skip or pass the running test.

    Args:
        action: What :func:`unclear_action` returned.
        reason: Returns why nobody can tell, in one line; pytest shows it for a skipped test.
        details: Returns the message of a failure; ``reason`` by default.

    Raises:
        FellShortError: ``action`` is ``"fail"``.
    """
    if action == "fail":
        raise undecided((details or reason)())
    if action == "skip" and is_listening():
        leave_open(reason())
