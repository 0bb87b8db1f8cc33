"""The protocol of executors, and an executor for this machine.

The driver (the process that calls the executor) hands out items and writes files; workers compute
and return results. Functions with many items to process take an ``executor=`` and use it like
this::

    for number, result in executor.map(function, items):
        journal.add(result)  # only the driver writes

Functions, items and results may be sent between machines, so they must be picklable. They are
pickled with cloudpickle, which also supports closures and functions defined in a notebook. If a
function has to load something first, such as a model, make it a :class:`Once`. Every executor
yields the same results as the built-in ``map(function, items)``, possibly in another order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from mirage.errors import SettingError

T = TypeVar("T")
R = TypeVar("R")


@runtime_checkable
class Executor(Protocol):
    """The protocol of an executor, which maps a function over items, perhaps on many machines."""

    @property
    def workers(self) -> int:
        """The number of items that are processed at a time."""

    def map(self, function: Callable[[T], R], items: Iterable[T], /) -> Iterator[tuple[int, R]]:
        """Yield the index of each item and its result, in the order in which results arrive.

        Only about two items per worker are taken from the iterable ahead of time, so the iterable
        may be of any length. If a worker is lost (its process was killed, or its machine is gone),
        another worker processes its item again. No index is yielded twice. Closing the iterator
        stops the work.

        Args:
            function: The function to call with each item. It must have no side effects; for
                example, it must not write files. If it has to load something first, use
                :class:`Once`.
            items: The items.

        Yields:
            The index of an item, counted from 0, and the function's result.

        Raises:
            Exception: The first error that ``function`` or ``items`` raised, with a note that names
                the item.
            ExecutorError: If the function or an item cannot be sent to a worker, if a result or an
                error cannot be sent back, or if several workers were lost while processing the same
                item.
        """


class Once(Generic[T, R]):
    """A function that each worker creates at its first call, for example because it needs a model.

    At its first call, ``Once(load)`` calls ``load()``, which returns a function. This function is
    then called with each item. When a ``Once`` is sent to a worker, ``load()`` is called there. To
    load only once for several calls of :meth:`Executor.map`, pass the same object to each of them.

    Args:
        make: Function without arguments that returns the function to use.

    Example:
        >>> def load():
        ...     print("loading")
        ...     return str.upper
        >>> list(LocalExecutor().map(Once(load), ["a", "b"]))
        loading
        [(0, 'A'), (1, 'B')]
    """

    def __init__(self, make: Callable[[], Callable[[T], R]]) -> None:
        self.make = make
        self._function: Callable[[T], R] | None = None
        self._lock = threading.Lock()

    def __call__(self, item: T, /) -> R:
        """Return the function's result for an item; the first call creates the function."""
        # Several threads may make the first call at once.
        with self._lock:
            if self._function is None:
                self._function = self.make()
        return self._function(item)

    def __reduce__(self) -> Any:
        return type(self), (self.make,)


class LocalExecutor:
    """An executor that runs the function in this process, in one thread or several.

    Several threads help if the function waits (for a network, a disk, another process) or spends
    its time in C code. They do not make pure Python faster.

    Args:
        threads: Number of threads, which is also the number of items processed at a time. With 1,
            the function runs in the thread that iterates over the results.

    Raises:
        SettingError: If ``threads`` is below 1.

    Example:
        >>> list(LocalExecutor().map(len, ["a", "bcd"]))
        [(0, 1), (1, 3)]
    """

    def __init__(self, threads: int = 1) -> None:
        if threads < 1:
            raise SettingError(f"threads must be at least 1, got {threads}")
        self.threads: int = threads

    def __repr__(self) -> str:
        return f"LocalExecutor(threads={self.threads})"

    @property
    def workers(self) -> int:
        """The number of items that are processed at a time."""
        return self.threads

    def map(self, function: Callable[[T], R], items: Iterable[T], /) -> Iterator[tuple[int, R]]:
        """Yield the index and result of each item; see :meth:`Executor.map`."""
        numbered = enumerate(items)
        if self.threads == 1:
            for number, item in numbered:
                with note_item(number):
                    result = function(item)
                yield number, result
            return
        pool = ThreadPoolExecutor(self.threads, "mirage-work")
        under_way: dict[Future[R], int] = {}
        try:
            while True:
                # More items than threads, so that no thread is idle while the caller uses a result.
                while len(under_way) < 2 * self.threads and (entry := next(numbered, None)):
                    under_way[pool.submit(function, entry[1])] = entry[0]
                if not under_way:
                    return
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    number = under_way.pop(future)
                    with note_item(number):
                        result = future.result()
                    yield number, result
        finally:
            # Also reached when the caller stops iterating.
            pool.shutdown(cancel_futures=True)


def in_order(executor: Executor, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield the results of ``executor.map(function, items)`` in the order of the items.

    A result that arrives before those of earlier items waits in memory.

    Example:
        >>> list(in_order(LocalExecutor(), len, ["a", "bcd"]))
        [1, 3]
    """
    early: dict[int, R] = {}
    next_number = 0
    for number, result in executor.map(function, items):
        early[number] = result
        while next_number in early:
            yield early.pop(next_number)
            next_number += 1


@contextmanager
def note_item(number: int) -> Iterator[None]:
    """Add a note with the item's index to errors that are raised in the ``with`` block."""
    try:
        yield
    except Exception as error:
        error.add_note(f"on item {number}, counted from 0")
        raise


# Sending ------------------------------------------------------------------------------------------

_DRIVER_HOST: ContextVar[str] = ContextVar("driver_host", default="")


@contextmanager
def sending(host: str) -> Iterator[None]:
    """Allow models and LLMs to be pickled in the ``with`` block, to send them to workers.

    Outside of such a block, pickling them raises an error. In the block, a model is pickled as its
    name and settings. An LLM is pickled as its settings and the address of the driver (this
    process), which manages the budget and the cache of the LLM.

    Args:
        host: Host name or IP address at which the workers reach the driver.
    """
    token = _DRIVER_HOST.set(host)
    try:
        yield
    finally:
        _DRIVER_HOST.reset(token)


def driver_host() -> str:
    """Return the host name of the driver in a :func:`sending` block, else an empty string."""
    return _DRIVER_HOST.get()
