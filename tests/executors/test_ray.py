"""A local Ray cluster of two workers returns the same results, even if workers are killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from mirage.errors import ExecutorError, UnknownNameError
from mirage.executors import Executor
from mirage.executors.base import Once, in_order
from mirage.executors.ray import RayExecutor

pytestmark = pytest.mark.slow


@pytest.fixture
def executor(ray_of_two: RayExecutor) -> RayExecutor:
    return ray_of_two


def killed_once(folder: Path, victim: int) -> object:
    """Return a function that ends its process the first time that it is called with a number."""

    def work(x: int) -> int:
        mark = folder / "killed"
        if x == victim and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return -x

    return work


def test_every_item_has_its_result(executor: Executor) -> None:
    assert isinstance(executor, Executor)
    assert executor.workers == 2
    assert list(in_order(executor, lambda x: x * x, range(50))) == [i * i for i in range(50)]
    assert list(executor.map(abs, [])) == []


@pytest.mark.parametrize("loads", [False, True], ids=["task", "actor"])
def test_the_items_of_a_killed_worker_are_done_again(
    executor: Executor, tmp_path: Path, loads: bool
) -> None:
    work = killed_once(tmp_path, 7)
    function = Once(lambda: work) if loads else work
    assert list(in_order(executor, function, range(30))) == [-i for i in range(30)]  # type: ignore[arg-type]
    assert (tmp_path / "killed").exists()


@pytest.mark.parametrize("loads", [False, True], ids=["task", "actor"])
def test_an_item_that_kills_every_worker_is_named(executor: Executor, loads: bool) -> None:
    def work(x: int) -> int:
        if x == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    with pytest.raises(
        ExecutorError, match="item 3, counted from 0, was lost because 5 workers ended"
    ):
        list(executor.map(Once(lambda: work) if loads else work, range(5)))


def test_each_worker_loads_a_function_once(executor: Executor, tmp_path: Path) -> None:
    def load() -> object:
        (tmp_path / f"{os.getpid()}-{time.time_ns()}").touch()
        return lambda x: (os.getpid(), x)

    once = Once(load)  # type: ignore[arg-type]
    rows = [result for _ in range(3) for result in in_order(executor, once, range(10))]
    assert [x for _, x in rows] == [*range(10)] * 3
    loads = [path.name.partition("-")[0] for path in tmp_path.iterdir()]
    assert sorted(loads) == sorted({str(process) for process, _ in rows})
    assert len(loads) <= 2


def test_the_error_of_the_function_is_raised(executor: Executor) -> None:
    def unknown(x: int) -> int:
        if x == 2:
            raise UnknownNameError("model", "lama", ["llama"])
        return x

    with pytest.raises(UnknownNameError, match="did you mean 'llama'") as caught:
        list(executor.map(unknown, range(4)))
    assert caught.value.__notes__[-1] == "on item 2, counted from 0"
    assert "in unknown" in caught.value.__notes__[0]


def test_an_error_that_cannot_be_pickled_keeps_its_message(executor: Executor) -> None:
    class LocalError(Exception):
        def __reduce__(self) -> str:
            return "nowhere"

    def work(_: int) -> None:
        raise LocalError("lost words")

    with pytest.raises(ExecutorError, match="LocalError: lost words"):
        list(executor.map(work, [1]))


def test_unpicklable_functions_items_and_results_are_named(executor: Executor) -> None:
    lock = threading.Lock()
    with pytest.raises(ExecutorError, match=r"the function .* cannot be sent to workers"):
        list(executor.map(lambda _: lock.locked(), [1]))
    with pytest.raises(ExecutorError, match="item 1, counted from 0, cannot be sent to a worker"):
        list(executor.map(abs, [1, lock]))  # type: ignore[list-item]
    with pytest.raises(ExecutorError, match="cannot send back the result of item 0"):
        list(executor.map(lambda _: threading.Lock(), [1]))


def test_closing_the_iterator_stops_the_work(executor: Executor) -> None:
    for function in (time.sleep, Once(lambda: time.sleep)):
        results = executor.map(function, [0.0, *[20.0] * 10])
        assert next(results) == (0, None)
        results.close()  # type: ignore[attr-defined]
    start = time.monotonic()
    assert len(list(executor.map(abs, range(4)))) == 4
    assert time.monotonic() - start < 15
