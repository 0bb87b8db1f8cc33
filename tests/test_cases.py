"""A test of many cases names those that fail."""

from __future__ import annotations

import pytest
from cases import each_case


@each_case("number, square", [(2, 4), (3, 8), (4, 15), (5, 25)])
def _squares(number: int, square: int) -> None:
    assert number**2 == square


@each_case("first", [1, 2])
@each_case("second", [1, 2])
def _pairs(first: int, second: int) -> None:
    if (first, second) == (2, 1):
        pytest.fail("wrong pair")


def test_every_case_that_fails_is_named() -> None:
    with pytest.raises(ExceptionGroup, match="2 of 4 cases failed") as caught:
        _squares()
    notes = [error.__notes__ for error in caught.value.exceptions]
    assert notes == [["in the case number=3, square=8"], ["in the case number=4, square=15"]]


def test_a_single_failure_is_raised_as_it_is() -> None:
    with pytest.raises(pytest.fail.Exception, match="wrong pair") as caught:
        _pairs()
    assert caught.value.__notes__ == ["in the case second=1", "in the case first=2"]


def test_a_case_with_a_mark_is_refused() -> None:
    with pytest.raises(TypeError, match="needs a test of its own"):
        each_case("number", [pytest.param(1, marks=pytest.mark.slow)])


def test_other_arguments_are_fixtures() -> None:
    @each_case("number", [1, 2])
    def both(number: int, folder: str) -> None:
        assert (number, folder) != (2, "a")

    assert both(folder="b") is None
    with pytest.raises(AssertionError):
        both(folder="a")
