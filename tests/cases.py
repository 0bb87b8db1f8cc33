"""Many cheap cases of one check in one test, because pytest takes milliseconds for each test."""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200


def each_case(
    names: str | Sequence[str], cases: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test with every case, and name each case that fails.

    This replaces ``pytest.mark.parametrize`` if the cases are cheap and do not change the fixtures
    that they share.

    Args:
        names: Names of the test's arguments, as in ``pytest.mark.parametrize``.
        cases: A value for a single name, or a tuple of values for several.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [_row(keys, case) for case in cases]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            _report(list(_failures(test, rows, fixtures)), len(rows))

        signature = inspect.signature(test)
        parameters = [p for name, p in signature.parameters.items() if name not in keys]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _row(keys: Sequence[str], case: Any) -> dict[str, Any]:
    if hasattr(case, "marks"):
        if case.marks:
            raise TypeError(f"a case with a mark needs a test of its own: {case}")
        return dict(zip(keys, case.values, strict=True))
    return dict(zip(keys, [case] if len(keys) == 1 else case, strict=True))


def _failures(
    test: Callable[..., None], rows: Sequence[dict[str, Any]], fixtures: dict[str, Any]
) -> Iterator[BaseException]:
    for row in rows:
        try:
            test(**row, **fixtures)
        except (Exception, pytest.fail.Exception) as error:
            case = ", ".join(f"{name}={_SHORT.repr(value)}" for name, value in row.items())
            error.add_note(f"in the case {case}")
            yield error


def _report(failures: Sequence[BaseException], number: int) -> None:
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {number} cases failed", failures)
