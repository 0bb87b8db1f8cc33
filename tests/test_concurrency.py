"""Test bounded concurrency, and async work called from synchronous code with and without a loop."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mirage._base.concurrency import for_each, run_sync
from mirage.errors import SettingError

# Many things, so many at a time -------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 3, 10, 100])
def test_calls_start_in_order_with_bounded_concurrency(concurrency: int) -> None:
    begun: list[int] = []
    ended: list[int] = []
    most = 0

    async def work(i: int) -> None:
        nonlocal most
        begun.append(i)
        most = max(most, len(begun) - len(ended))
        for _ in range(1 + 7 * i % 5):
            await asyncio.sleep(0)
        ended.append(i)

    asyncio.run(for_each(range(20), work, concurrency))
    assert begun == list(range(20))
    assert sorted(ended) == begun
    assert most == min(concurrency, 20)


def test_items_are_taken_as_they_are_needed() -> None:
    taken_items = finished_items = 0

    def items() -> Iterator[int]:
        nonlocal taken_items
        for i in range(1000):
            taken_items += 1
            assert taken_items - finished_items <= 4
            yield i

    async def work(_: int) -> None:
        nonlocal finished_items
        await asyncio.sleep(0)
        finished_items += 1

    asyncio.run(for_each(items(), work, 4))
    assert (taken_items, finished_items) == (1000, 1000)


def test_no_items() -> None:
    async def work(_: int) -> None:
        raise AssertionError

    asyncio.run(for_each([], work, 4))


def test_the_first_error_cancels_the_remaining_calls() -> None:
    begun: list[int] = []
    cancelled: list[int] = []

    async def work(i: int) -> None:
        begun.append(i)
        if i == 2:
            await asyncio.sleep(0)
            raise KeyError("two")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(i)
            raise

    with pytest.raises(KeyError, match="two"):
        asyncio.run(for_each(range(100), work, 4))
    assert begun == [0, 1, 2, 3]
    assert sorted(cancelled) == [0, 1, 3]


def test_an_error_of_the_items_is_raised() -> None:
    def items() -> Iterator[int]:
        yield 0
        raise OSError("no more")

    async def work(_: int) -> None:
        await asyncio.sleep(0)

    with pytest.raises(OSError, match="no more"):
        asyncio.run(for_each(items(), work, 3))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_raised_as_it_is(kind: type[BaseException]) -> None:
    async def work(i: int) -> None:
        if i == 1:
            raise kind
        await asyncio.sleep(60)

    with pytest.raises(kind):
        asyncio.run(for_each(range(5), work, 2))


def test_work_that_cancels_itself_raises() -> None:
    """Some clients cancel their own task on a timeout. Later items would be skipped silently."""

    async def work(i: int) -> None:
        if i == 3:
            raise asyncio.CancelledError("the client gave up")

    with pytest.raises(RuntimeError, match="cancelled the client gave up"):
        asyncio.run(for_each(range(10), work, 1))


def test_from_outside_it_can_be_cancelled() -> None:
    ended: list[int] = []

    async def work(i: int) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(i)

    async def main() -> None:
        task = asyncio.create_task(for_each(range(100), work, 5))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert sorted(ended) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("concurrency", [0, -1])
def test_a_concurrency_below_1_raises(concurrency: int) -> None:
    async def work(_: int) -> None: ...

    with pytest.raises(SettingError, match=f"concurrency must be at least 1, got {concurrency}"):
        asyncio.run(for_each([1], work, concurrency))


# From plain code ----------------------------------------------------------------------------------


async def identity(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


def in_a_running_loop(call: Callable[[], Any]) -> Any:
    async def notebook() -> Any:
        return call()

    return asyncio.run(notebook())


def outside(call: Callable[[], Any]) -> Any:
    return call()


contexts = pytest.mark.parametrize("in_context", [outside, in_a_running_loop])


@contexts
def test_the_result_is_returned(in_context: Callable[..., Any]) -> None:
    assert in_context(lambda: run_sync(identity("x"))) == "x"
    assert in_context(lambda: run_sync(identity(None))) is None


@contexts
@pytest.mark.parametrize("kind", [KeyError, TimeoutError, asyncio.CancelledError, SystemExit])
def test_an_error_is_raised(in_context: Callable[..., Any], kind: type[BaseException]) -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise kind("why")

    with pytest.raises(kind):
        in_context(lambda: run_sync(work()))


@contexts
def test_an_error_has_no_context(in_context: Callable[..., Any]) -> None:
    async def work() -> None:
        raise KeyError("why")

    with pytest.raises(KeyError) as caught:
        in_context(lambda: run_sync(work()))
    assert caught.value.__context__ is None


def test_work_runs_in_another_thread_only_inside_a_loop() -> None:
    async def where() -> threading.Thread:
        return threading.current_thread()

    assert run_sync(where()) is threading.current_thread()
    assert in_a_running_loop(lambda: run_sync(where())) is not threading.current_thread()


@contexts
def test_the_work_sees_the_context_of_its_caller(in_context: Callable[..., Any]) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    async def read() -> str:
        return variable.get()

    def call() -> str:
        variable.set("seen")
        return run_sync(read())

    assert in_context(call) == "seen"


def test_calls_can_be_nested() -> None:
    """A function that is called in async work may itself run async work, to any depth."""

    async def nested(depth: int) -> int:
        return 0 if depth == 0 else 1 + run_sync(nested(depth - 1))

    assert run_sync(nested(4)) == 4


@pytest.mark.filterwarnings("default")
def test_no_warning_or_thread_remains() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise KeyError

    before = threading.active_count()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for in_context in (outside, in_a_running_loop):
            with pytest.raises(KeyError):
                in_context(lambda: run_sync(work()))
        gc.collect()
    assert caught == []
    assert threading.active_count() == before


# Ctrl-C -------------------------------------------------------------------------------------------

SCRIPT = """
import asyncio, os, signal, sys
from mirage._base.concurrency import for_each, run_sync
from mirage.errors import SettingError

async def work(i):
    print("begun", i, flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        print("ended", i, flush=True)

def call():
    run_sync(for_each(range(10), work, 3))

async def notebook():
    if sys.argv[1] == "kernel":  # which handles Ctrl-C by itself, as IPython does
        signal.signal(signal.SIGINT, signal.default_int_handler)
    call()

try:
    call() if sys.argv[1] == "plain" else asyncio.run(notebook())
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("way", ["plain", "loop", "kernel"])
def test_ctrl_c_ends_the_work(way: str) -> None:
    """The work is cancelled, not abandoned, so that it can close its resources."""
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, way], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        begun = [process.stdout.readline() for _ in range(3)]
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read().splitlines()
    assert time.monotonic() - start < 20  # not the 60 s of the work
    assert begun == ["begun 0\n", "begun 1\n", "begun 2\n"]
    assert sorted(rest[:3]) == ["ended 0", "ended 1", "ended 2"]
    assert rest[3:] == ["interrupted"]
    assert process.returncode == 0


def test_an_interrupt_before_the_thread_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is cancelled as soon as it begins."""
    ended: list[str] = []
    run = asyncio.run

    def late(main: Any) -> Any:
        time.sleep(0.3)
        return run(main)

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("work")

    async def notebook() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        monkeypatch.setattr(asyncio, "run", late)
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        run_sync(work())

    handler = signal.getsignal(signal.SIGINT)
    start = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            run(notebook())
    finally:
        signal.signal(signal.SIGINT, handler)
    assert time.monotonic() - start < 20
    assert ended == ["work"]
