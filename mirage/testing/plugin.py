"""The pytest plugin: a fixture, a marker, ini options, and results in the JUnit file.

The plugin does nothing, and does not import the rest of the library, until a test uses one of these
or an assertion of :mod:`mirage.testing`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

from mirage.testing._current_test import CURRENT

if TYPE_CHECKING:
    import pluggy

    from mirage.testing._runs import Runs

_MARKER = "mirage_language(code): language of the test's bundled mirage queries, such as 'sw'"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini options ``mirage_language`` and ``mirage_inconclusive``."""
    parser.addini(
        "mirage_language", "language of the bundled queries for mirage's assertions", default=""
    )
    words = "outcome of a test whose mirage assertion is inconclusive: skip (default), fail or pass"
    parser.addini("mirage_inconclusive", words, default="")


def pytest_configure(config: pytest.Config) -> None:
    """Add the marker ``mirage_language``."""
    config.addinivalue_line("markers", _MARKER)


@pytest.hookimpl(hookwrapper=True)  # wrapper=True would need pytest 8
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Store the running test, so that assertions can record their results in it."""
    token = CURRENT.set(item)
    yield
    CURRENT.reset(token)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pluggy.Result[pytest.TestReport], None]:
    """Report a passed test as skipped if one of its assertions was inconclusive."""
    report = (yield).get_result()
    reasons = getattr(item, "mirage_open", ())
    if reasons and call.when == "call" and report.passed:
        file, line, _ = item.location
        # Skipping only here lets the assertions after the inconclusive one run too.
        report.outcome = "skipped"
        report.longrepr = (file, (line or 0) + 1, "; ".join(reasons))


@pytest.fixture(scope="session")
def mirage_run(request: pytest.FixtureRequest) -> Runs:
    """Return a function that runs a model on the queries once per test session.

    ``mirage_run(model, "my-rag")`` returns the model's responses as a :class:`mirage.Run` with the
    name ``my-rag``. Later calls with the same model and name return the same run. See
    :class:`mirage.testing._runs.Runs` for all arguments.
    """
    from mirage.testing._runs import Runs

    config = request.config
    shared = None
    if hasattr(config, "workerinput"):  # an xdist worker; the workers' folders share a parent
        shared = request.getfixturevalue("tmp_path_factory").getbasetemp().parent / "mirage"
    return Runs(shared, getattr(config, "cache", None))
