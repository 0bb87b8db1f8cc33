"""Items are divided among workers, results have numbers, and closing stops the work."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from mirage.errors import SettingError
from mirage.executors import Executor, LocalExecutor
from mirage.executors.base import Once, in_order

EXECUTORS = [LocalExecutor(), LocalExecutor(threads=3)]
each_executor = pytest.mark.parametrize("executor", EXECUTORS, ids=repr)


@each_executor
def test_every_item_has_its_result(executor: Executor) -> None:
    assert isinstance(executor, Executor)
    assert sorted(executor.map(lambda x: x * x, range(20))) == [(i, i * i) for i in range(20)]
    assert list(executor.map(abs, [])) == []


def test_in_order_sorts_results() -> None:
    def late_first(x: int) -> int:
        time.sleep(0.05 if x == 0 else 0)
        return -x

    executor = LocalExecutor(threads=3)
    assert next(executor.map(late_first, range(6)))[0] > 0
    assert list(in_order(executor, late_first, range(6))) == [0, -1, -2, -3, -4, -5]


@each_executor
def test_items_are_taken_as_they_are_needed(executor: Executor) -> None:
    count = 0

    def endless() -> Iterator[int]:
        nonlocal count
        while True:
            yield count
            count += 1

    results = executor.map(abs, endless())
    for _ in range(10):
        next(results)
    results.close()  # type: ignore[attr-defined]
    assert count < 10 + 2 * executor.workers


@each_executor
def test_an_error_has_a_note_that_names_the_item(executor: Executor) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        list(executor.map(lambda x: 1 // (x - 7), range(20)))
    assert caught.value.__notes__ == ["on item 7, counted from 0"]


@each_executor
def test_a_function_is_loaded_once(executor: Executor) -> None:
    loads = []

    def load() -> object:
        loads.append(threading.get_ident())
        time.sleep(0.01)
        return abs

    once: Once[int, int] = Once(load)
    for _ in range(2):
        assert sorted(executor.map(once, [-1, -2, -3])) == [(0, 1), (1, 2), (2, 3)]
    assert len(loads) == 1


def test_zero_threads_are_refused() -> None:
    with pytest.raises(SettingError, match="threads must be at least 1, got 0"):
        LocalExecutor(threads=0)
