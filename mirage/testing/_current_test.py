"""The test that pytest is running, if any.

Every pytest run loads this module, so it imports little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

# The types are Any instead of pytest.Item, because pytest may not be installed.
_current: Any = None


def current_test() -> Any:
    """Return the running test; ``None`` if no test is running.

    All threads share the test, because assertions may run in the worker threads of a test.
    """
    return _current


def set_current_test(test: Any) -> Any:
    """Store the running test, and return the one that was stored before."""
    global _current
    before, _current = _current, test
    return before


def record(name: str, facts: Mapping[str, Any]) -> None:
    """Add the result of an assertion to the running test's properties.

    The property is called ``name``; its value is the JSON object ``facts``. pytest writes these
    properties to its JUnit file, including properties from xdist workers. Outside pytest the
    function does nothing.
    """
    test = current_test()
    if test is not None:
        import json

        test.user_properties.append((name, json.dumps(facts, ensure_ascii=False)))


def default_language() -> str | None:
    """Return the language that the running test sets for its queries.

    The marker ``mirage_language`` of the test has priority over the ini option with this name.

    Returns:
        A language code; ``None`` if neither is set or no test is running.
    """
    test = current_test()
    if test is None:
        return None
    marker = test.get_closest_marker("mirage_language")
    if marker is not None:
        return str(*marker.args[:1])
    return option("mirage_language") or None


def option(name: str) -> str:
    """Return an ini option of pytest; empty if it is not set or no test is running."""
    test = current_test()
    return "" if test is None else str(test.config.getini(name))


def leave_open(reason: str) -> None:
    """Make pytest show the running test as skipped, with this reason, if nothing in it fails.

    If a fixture is being set up, this applies to all tests that use the fixture.
    """
    test = current_test()
    if test is not None:
        owner = getattr(test, "mirage_fixture", None) or test
        owner.mirage_open = [*getattr(owner, "mirage_open", ()), reason]


def is_listening() -> bool:
    """Return whether :func:`leave_open` has an effect.

    It has an effect while a test is running, except in a :func:`without_traces` block.
    """
    return current_test() is not None and not isinstance(current_test(), _Untraced)


class _Untraced:
    """A substitute for the running test, with the same settings.

    It ignores results that are recorded in it, and requests to show the test as skipped.
    """

    def __init__(self, test: Any) -> None:
        self.config, self.get_closest_marker = test.config, test.get_closest_marker
        self.user_properties: list[Any] = []


@contextmanager
def without_traces() -> Iterator[None]:
    """Keep assertions in a ``with`` block from changing the running test.

    Their results are not recorded, and an inconclusive assertion does not skip the test.
    """
    test = current_test()
    set_current_test(None if test is None else _Untraced(test))
    try:
        yield
    finally:
        set_current_test(test)
