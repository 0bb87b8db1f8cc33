"""What an executor is: one driver hands out work and writes, workers compute and return.

Rooms that have much of one kind to do take an ``executor=`` and give it a function and items::

    for place, result in executor.map(function, items):
        journal.add(result)  # in the driver, and nowhere else

Function, items and results travel between machines, so they are pickled (by cloudpickle: functions
of a notebook and closures may travel too). A function that has something to load is a
:class:`Once`. Whatever the executor, results are those of ``map(function, items)``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from mirage.errors import SettingError

__all__ = ["Executor", "LocalExecutor", "Once", "driver_host", "in_order", "sending"]

T = TypeVar("T")
R = TypeVar("R")


@runtime_checkable
class Executor(Protocol):
    """Anything that maps a function over many items, perhaps on many machines."""

    @property
    def workers(self) -> int:
        """How many items are worked on at a time."""

    def map(self, function: Callable[[T], R], items: Iterable[T], /) -> Iterator[tuple[int, R]]:
        """The result for each item with the item's number, as they come, in any order.

        Items are taken as they are needed, in their order, and only so many more than there are
        workers are under way; so there may be any number of them. An item whose worker is lost (a
        process that was killed, a machine that is gone) is done again by another; no number comes
        twice. Whoever stops taking results ends the work.

        Args:
            function: is called with each item. One that loads something before its first item is
                a :class:`Once`. It writes nothing: what comes of an item is in its result.
            items: what it is called with.

        Raises:
            Exception: the first that ``function`` or ``items`` raised; a note says which item.
            ExecutorError: the function or an item cannot be sent, an error cannot be sent back, or
                an item was lost again and again.
        """


class Once(Generic[T, R]):
    """A function that is made by its first call in each worker, as one with a model to load.

    ``Once(load)`` where ``load()`` gives the function that is to be called with items. A copy that
    was sent makes its own. Made once for many calls of :meth:`Executor.map`, it is loaded once.

    Args:
        make: gives the function.
    """

    def __init__(self, make: Callable[[], Callable[[T], R]]) -> None:
        self.make = make
        self._made: Callable[[T], R] | None = None
        self._lock = threading.Lock()

    def __call__(self, item: T, /) -> R:
        """What the function gives for an item."""
        with self._lock:
            if self._made is None:
                self._made = self.make()
        return self._made(item)

    def __reduce__(self) -> Any:
        return type(self), (self.make,)


class LocalExecutor:
    """Works in this process: on one item after the other, or in several threads.

    Threads help where a function waits (for a network, a disk, another process) or computes in
    C; pure Python gains nothing from them.

    Args:
        threads: items worked on at a time; with 1 the thread that takes the results does the work.

    Raises:
        SettingError: ``threads`` is below 1.
    """

    def __init__(self, threads: int = 1) -> None:
        if threads < 1:
            raise SettingError(f"threads={threads} is to be 1 or more")
        self.threads: int = threads

    def __repr__(self) -> str:
        return f"LocalExecutor(threads={self.threads})"

    @property
    def workers(self) -> int:
        """How many items are worked on at a time."""
        return self.threads

    def map(self, function: Callable[[T], R], items: Iterable[T], /) -> Iterator[tuple[int, R]]:
        """As :meth:`Executor.map`."""
        numbered = enumerate(items)
        if self.threads == 1:
            for number, item in numbered:
                with naming_item(number):
                    result = function(item)
                yield number, result
            return
        pool = ThreadPoolExecutor(self.threads, "mirage-work")
        under_way: dict[Future[R], int] = {}
        try:
            while True:
                while len(under_way) < 2 * self.threads and (entry := next(numbered, None)):
                    under_way[pool.submit(function, entry[1])] = entry[0]
                if not under_way:
                    return
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    number = under_way.pop(future)
                    with naming_item(number):
                        result = future.result()
                    yield number, result
        finally:
            pool.shutdown(cancel_futures=True)


def in_order(executor: Executor, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """What ``executor.map(function, items)`` gives, in the order of the items.

    Results that come before their turn wait in memory.
    """
    early: dict[int, R] = {}
    turn = 0
    for number, result in executor.map(function, items):
        early[number] = result
        while turn in early:
            yield early.pop(turn)
            turn += 1


@contextmanager
def naming_item(number: int) -> Iterator[None]:
    """Say of an error which item it was met on."""
    try:
        yield
    except Exception as error:
        error.add_note(f"on item {number}, counted from 0")
        raise


# Sending ------------------------------------------------------------------------------------------

_DRIVER_HOST: ContextVar[str] = ContextVar("driver_host", default="")


@contextmanager
def sending(host: str) -> Iterator[None]:
    """While an executor pickles what it sends to workers, which find the driver at ``host``.

    Models and LLMs, which refuse to be pickled otherwise, are then written as what makes them
    anew: a name and settings, or the place where budget and cache are asked for.
    """
    token = _DRIVER_HOST.set(host)
    try:
        yield
    finally:
        _DRIVER_HOST.reset(token)


def driver_host() -> str:
    """Where workers find the driver, while something is sent to them; otherwise empty."""
    return _DRIVER_HOST.get()
