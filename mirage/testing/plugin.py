"""The pytest plugin: fixtures, a marker, ini options, and results in the JUnit file.

It does nothing until one of them or an assertion of :mod:`mirage.testing` is used, and it imports
the library no sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

import pytest

from mirage.testing._current_test import CURRENT

if TYPE_CHECKING:
    import pluggy

    from mirage.leaderboard import Leaderboard
    from mirage.testing._runs import Runs

__all__ = ["mirage_leaderboard", "mirage_run"]

_MARKER = "mirage_language(code): whose bundled queries mirage's assertions use, such as 'sw'"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini options ``mirage_language`` and ``mirage_cannot_tell``."""
    parser.addini("mirage_language", "whose bundled queries mirage's assertions use", default="")
    words = (
        "what becomes of a test where nobody can tell whether a model is worse: skip, fail, pass"
    )
    parser.addini("mirage_cannot_tell", words, default="")


def pytest_configure(config: pytest.Config) -> None:
    """Add the marker ``mirage_language``."""
    config.addinivalue_line("markers", _MARKER)


@pytest.hookimpl(hookwrapper=True)  # wrapper=True would need pytest 8
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let assertions know in which test they are."""
    token = CURRENT.set(item)
    yield
    CURRENT.reset(token)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pluggy.Result[pytest.TestReport], None]:
    """Show a test as skipped that passed though nobody could tell; what else it asserts, ran."""
    report = (yield).get_result()
    reasons = getattr(item, "mirage_open", ())
    if reasons and call.when == "call" and report.passed:
        file, line, _ = item.location
        report.outcome = "skipped"
        report.longrepr = (file, (line or 0) + 1, "; ".join(reasons))


@pytest.fixture(scope="session")
def mirage_leaderboard() -> Callable[..., Leaderboard]:
    """``mirage_leaderboard("sw")``: the bundled leaderboard of a language, loaded once a process.

    Without a language, that of the marker ``mirage_language`` or of the ini option.
    """
    from mirage.testing._inputs import leaderboard

    return leaderboard


@pytest.fixture(scope="session")
def mirage_run(request: pytest.FixtureRequest) -> Runs:
    """``mirage_run(model, "my-rag")``: the model's run, asked for once in the test session.

    See :class:`mirage.testing._runs.Runs`.
    """
    from mirage.testing._runs import Runs

    config = request.config
    shared = None
    if hasattr(config, "workerinput"):  # a worker of xdist; all of them have one parent folder
        shared = request.getfixturevalue("tmp_path_factory").getbasetemp().parent / "mirage"
    return Runs(shared, getattr(config, "cache", None))
