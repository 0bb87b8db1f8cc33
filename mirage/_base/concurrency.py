"""Async work with a sync face, a bounded number of things at a time."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

from mirage.errors import SettingError

__all__ = ["for_each", "run_sync"]

T = TypeVar("T")

_LOOK_S = 0.1  # between looks at whether a blocked loop was to be interrupted


class _InterruptError(Exception):
    """Carries an interrupt out of a task: by itself it would break the loop off, not end it."""


async def for_each(
    items: Iterable[T], work: Callable[[T], Awaitable[None]], concurrency: int
) -> None:
    """Await ``work`` on every item, ``concurrency`` of them at a time, begun in their order.

    Items are taken as they are needed, so there may be any number of them.

    Raises:
        Exception: the first that ``work`` or the items raised; what was under way is then
            cancelled. Work that cancels itself is a RuntimeError.
        SettingError: ``concurrency`` is less than 1.
    """
    if concurrency < 1:
        raise SettingError(f"concurrency={concurrency} is to be 1 or more")
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            try:
                await work(item)
            except (KeyboardInterrupt, SystemExit) as interrupt:
                raise _InterruptError from interrupt
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                # The work itself gave up. A task group would take that for a quiet end.
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
        raise failure  # out here, where it keeps its cause


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, also where an event loop is running already (in a notebook).

    A running loop cannot be waited in: the work then runs in a thread, in a loop of its own.
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
        pool.submit(int).result()  # the pool would not wait for a thread whose start is interrupted
        try:
            future = pool.submit(context.run, asyncio.run, main())
            while not wait((future,), _LOOK_S).done:
                # asyncio.run turns Ctrl-C into a cancellation, which its blocked loop cannot see.
                if outer is not None and outer.cancelling() > cancelled:
                    raise asyncio.CancelledError
            return future.result()
        except BaseException:
            # Interrupted while waiting: leaving the pool would wait for all the work still.
            stopped.set()
            for loop, task in started:
                with contextlib.suppress(RuntimeError):  # the loop is closed: all is over
                    loop.call_soon_threadsafe(task.cancel)
            raise
