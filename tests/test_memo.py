"""Results are cached for each object, also if two objects are equal."""

from __future__ import annotations

from mirage._base.memo import MOST_OBJECTS, cached_by_identity


def test_results_belong_to_objects() -> None:
    calls: list[list[int]] = []

    @cached_by_identity
    def length(numbers: list[int]) -> int:
        calls.append(numbers)
        return len(numbers)

    first, equal = [1, 2], [1, 2]
    assert [length(first), length(equal), length(first)] == [2, 2, 2]
    assert len(calls) == 2


def test_temporary_objects_do_not_share_results() -> None:
    @cached_by_identity
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    numbers = range(3 * MOST_OBJECTS)
    assert [total([number]) for number in numbers] == [*numbers]
