"""The test that is running, where pytest runs one; loaded in every pytest run, so kept small."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = [
    "CURRENT",
    "default_language",
    "is_listening",
    "leave_open",
    "option",
    "record",
    "without_traces",
]

# A pytest.Item; this module does without pytest, which need not be installed.
CURRENT: ContextVar[Any] = ContextVar("mirage_current_test", default=None)


def record(name: str, facts: Mapping[str, Any]) -> None:
    """Put what an assertion found, as a JSON object, among the running test's properties.

    They stand in the JUnit file, and reach it from the workers of xdist too. Outside of pytest
    nothing happens.
    """
    test = CURRENT.get()
    if test is not None:
        import json

        test.user_properties.append((name, json.dumps(facts, ensure_ascii=False)))


def default_language() -> str | None:
    """What the running test's marker ``mirage_language`` says, or else the ini option."""
    test = CURRENT.get()
    if test is None:
        return None
    marker = test.get_closest_marker("mirage_language")
    if marker is not None:
        return str(*marker.args[:1])
    return option("mirage_language") or None


def option(name: str) -> str:
    """What an ini option of pytest says; empty where it says nothing, or there is no pytest."""
    test = CURRENT.get()
    return "" if test is None else str(test.config.getini(name))


def leave_open(reason: str) -> None:
    """Let the running test be shown as skipped if nothing else fails in it."""
    test = CURRENT.get()
    if test is not None:
        test.mirage_open = [*getattr(test, "mirage_open", ()), reason]


def is_listening() -> bool:
    """Return whether a test is running that shows why it is skipped."""
    return CURRENT.get() is not None and not isinstance(CURRENT.get(), _Untraced)


class _Untraced:
    """A running test that takes neither records nor skips; its settings are those of the test."""

    def __init__(self, test: Any) -> None:
        self.config, self.get_closest_marker = test.config, test.get_closest_marker
        self.user_properties: list[Any] = []


@contextmanager
def without_traces() -> Iterator[None]:
    """Let assertions in the block neither record anything in the running test nor skip it."""
    test = CURRENT.get()
    token = CURRENT.set(None if test is None else _Untraced(test))
    try:
        yield
    finally:
        CURRENT.reset(token)
