"""Run asynchronous work with limited concurrency, from asynchronous or synchronous code."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

from mirage.errors import SettingError

T = TypeVar("T")

_POLL_S = 0.1  # seconds between two checks for an interrupt of a blocked event loop


class _InterruptError(Exception):
    """An error that replaces a KeyboardInterrupt or SystemExit in a task.

    The original exceptions would stop the event loop abruptly.
    """


async def for_each(
    items: Iterable[T], work: Callable[[T], Awaitable[None]], concurrency: int
) -> None:
    """Await ``work`` on every item, with at most ``concurrency`` calls at a time.

    Calls start in the order of the items. The iterable is read only as far as needed, so it may be
    infinite.
    """
    if concurrency < 1:
        raise SettingError(f"concurrency must be at least 1, got {concurrency}")
    remaining_items = iter(items)

    async def worker() -> None:
        for item in remaining_items:
            try:
                await work(item)
            except (KeyboardInterrupt, SystemExit) as interrupt:
                raise _InterruptError from interrupt
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                # The work cancelled itself. A task group would treat that as success.
                raise RuntimeError(f"cancelled {error}".strip()) from error

    failure: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
    except BaseExceptionGroup as group_error:
        first = group_error.exceptions[0]
        failure = (first.__cause__ or first) if isinstance(first, _InterruptError) else first
    if failure is not None:
        raise failure  # outside of the except block, so that it keeps its own cause


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from synchronous code and return its result.

    If an event loop is running already, as in a notebook, the coroutine runs in another thread with
    a new event loop.
    """
    return _run_in_thread(work) if _is_running() else asyncio.run(work)


def _is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []
    stopped = threading.Event()

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None
        started.append((asyncio.get_running_loop(), task))
        if stopped.is_set():
            task.cancel()
        return await work

    outer = asyncio.current_task()
    cancelled = outer.cancelling() if outer is not None else 0
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool:
        # Start the thread first: the pool would not wait for one whose start is interrupted.
        pool.submit(int).result()
        try:
            future = pool.submit(context.run, asyncio.run, main())
            while not wait((future,), _POLL_S).done:
                # asyncio.run turns Ctrl-C into a cancellation, which its blocked loop cannot see.
                if outer is not None and outer.cancelling() > cancelled:
                    raise asyncio.CancelledError
            return future.result()
        except BaseException:
            # Cancel the task, because leaving the pool would wait until it is finished.
            stopped.set()
            for loop, task in started:
                with contextlib.suppress(RuntimeError):  # the loop is closed: the task has ended
                    loop.call_soon_threadsafe(task.cancel)
            raise
