"""The pytest plugin: a fixture, a marker, ini options, and results in the JUnit file.

The plugin does nothing, and does not import the rest of the library, until a test uses one of these
or an assertion of :mod:`mirage.testing`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from mirage.testing._current_test import current_test, set_current_test

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
    before = set_current_test(item)
    yield
    set_current_test(before)


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Iterator[None]:
    """Store the fixture that the running test sets up, because other tests may use it too."""
    test = current_test()
    fixturedef.mirage_open = ()
    outer = getattr(test, "mirage_fixture", None)
    if test is not None:
        test.mirage_fixture = fixturedef
    yield
    if test is not None:
        test.mirage_fixture = outer


@pytest.hookimpl(hookwrapper=True, tryfirst=True)  # after xfail has changed the outcome
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pluggy.Result[pytest.TestReport], None]:
    """Report a passed test as skipped if one of its assertions was inconclusive."""
    report = (yield).get_result()
    reasons = _open_reasons(item) if call.when == "call" else []
    if reasons and (report.passed or str(report.longrepr).startswith("[XPASS(strict)]")):
        file, line, _ = item.location
        # Skipping only here lets the assertions after the inconclusive one run too.
        report.outcome = "skipped"
        report.longrepr = (file, (line or 0) + 1, "; ".join(reasons))
        vars(report).pop("wasxfail", None)


def _open_reasons(item: pytest.Item) -> list[str]:
    """Return why assertions of a test, and of the fixtures that it uses, were inconclusive."""
    info = getattr(item, "_fixtureinfo", None)
    fixtures = [each for group in getattr(info, "name2fixturedefs", {}).values() for each in group]
    return [why for owner in (*fixtures, item) for why in getattr(owner, "mirage_open", ())]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Report the runs whose answers come from an earlier session."""
    reports = [each for group in terminalreporter.stats.values() for each in group]
    properties = [pair for each in reports for pair in getattr(each, "user_properties", ())]
    for text in dict.fromkeys(text for name, text in properties if name == "mirage.resumed"):
        import json

        facts = json.loads(text)
        terminalreporter.write_line(
            "mirage: {model}: {stored} of {answers} answers come from an interrupted session; "
            "--cache-clear asks for all of them again".format(**facts)
        )


@pytest.fixture(scope="session")
def mirage_run(request: pytest.FixtureRequest) -> Iterator[Runs]:
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
    runs = Runs(shared, getattr(config, "cache", None))
    yield runs
    interruptions = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
    if request.session.exitstatus not in interruptions:
        runs.delete_stored()
