"""A budget, a cache and a limit on concurrent calls that the workers of a cluster share.

An executor sends copies of an LLM to its workers. The process with the original LLM (the driver)
limits the spending and the concurrent calls of all copies, and looks up cached answers. A thread of
the driver listens on a port, and each copy contacts it before and after each call. So one budget
covers all workers, and only one process opens the cache file.

If a worker is lost, the amounts that its calls had reserved in the budget count as spent, because
the calls may be billed.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import ProcessError
from multiprocessing.connection import (
    Client,
    Connection,
    Listener,
    answer_challenge,
    deliver_challenge,
)
from typing import Any

from mirage.errors import LLMError
from mirage.llm.budget import Budget, Hold
from mirage.llm.cache import Cache

_WAIT_S = 0.02  # the first wait before a copy asks again whether a call may begin; it doubles
_MOST_WAIT_S = 0.5


@dataclass(frozen=True)
class Account:
    """The state that an LLM shares with its copies in worker processes.

    Attributes:
        cache: The cache of the LLM, or ``None``.
        budget: The budget of the LLM, or ``None``.
        count: Function that adds calls, tokens and cost to the usage of the LLM.
        concurrency: Maximum number of concurrent calls across all copies.
    """

    cache: Any
    budget: Any
    count: Callable[..., None]
    concurrency: int


# In the driver ------------------------------------------------------------------------------------


class _WorkerState:
    """The budget reservations and call slots that one connected worker has not yet released."""

    def __init__(self) -> None:
        self.holds: Counter[tuple[int, int, float]] = Counter()
        self.slots: Counter[int] = Counter()


class _DriverServer:
    """A server in the driver (the process with the original LLMs), which their copies contact.

    It listens on a free port of ``host``.
    """

    def __init__(self, host: str) -> None:
        self.key: bytes = secrets.token_bytes(32)
        self._listener = Listener((host, 0), backlog=128)
        self.address: tuple[str, int] = self._listener.address
        self._accounts: dict[int, Account] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        self._under_way: Counter[int] = Counter()
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, daemon=True, name="mirage: LLMs").start()

    def number_of(self, account: Account, owner: object) -> int:
        """Return the number that identifies an account.

        ``owner`` is the object with the usage counters of the LLM. LLMs with the same owner and the
        same cache share one account and get the same number.
        """
        with self._lock:
            key = id(owner), id(account.cache)
            number = self._numbers.setdefault(key, len(self._numbers))
            # Accounts are never dropped: a new object could get the id of a deleted owner.
            self._accounts.setdefault(number, account)
        return number

    def _listen(self) -> None:
        while True:
            connection = self._listener.accept()
            work = partial(self._serve, connection)
            threading.Thread(target=work, daemon=True, name="mirage: a worker's LLMs").start()

    def _serve(self, connection: Connection) -> None:
        state = _WorkerState()
        try:
            deliver_challenge(connection, self.key)
            answer_challenge(connection, self.key)
            while True:
                operation, number, *arguments = connection.recv()
                try:
                    connection.send(
                        (getattr(self, f"_{operation}")(state, number, *arguments), None)
                    )
                except LLMError as error:
                    connection.send((None, error))
        except (OSError, EOFError, ProcessError):  # the worker is gone, or has the wrong key
            pass
        finally:
            connection.close()
            self._close(state)

    def _close(self, state: _WorkerState) -> None:
        """Free the slots of a disconnected worker, and count all its reservations as spent."""
        with self._lock:
            self._under_way.subtract(state.slots)
        for number, tokens, cost in state.holds.elements():
            self._accounts[number].budget.settle(tokens, cost, Hold(tokens, cost))

    def _cache(self, _: _WorkerState, number: int, method: str, *arguments: object) -> Any:
        return getattr(self._accounts[number].cache, method)(*arguments)

    def _count(self, _: _WorkerState, number: int, amounts: Mapping[str, float]) -> None:
        self._accounts[number].count(**amounts)

    def _take(self, state: _WorkerState, number: int, tokens: int, cost: float) -> bool:
        is_reserved: bool = self._accounts[number].budget.take(tokens, cost)
        state.holds[number, tokens, cost] += is_reserved
        return is_reserved

    def _settle(
        self, state: _WorkerState, number: int, tokens: int, cost: float, hold: Hold
    ) -> None:
        self._accounts[number].budget.settle(tokens, cost, hold)
        state.holds[number, tokens, cost] -= 1

    def _begin(self, state: _WorkerState, number: int) -> bool:
        """Reserve a slot for a call; return ``False`` if all slots of the account are taken.

        ``number`` identifies the account, and ``state`` belongs to the worker that makes the call.
        """
        with self._lock:
            if self._under_way[number] >= self._accounts[number].concurrency:
                return False
            self._under_way[number] += 1
            state.slots[number] += 1
        return True

    def _end(self, state: _WorkerState, number: int) -> None:
        with self._lock:
            self._under_way[number] -= 1
            state.slots[number] -= 1


@cache
def _driver_server(host: str) -> _DriverServer:
    return _DriverServer(host)


# In a worker --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Copy:
    """The data that a copy of an LLM in a worker process needs to contact the driver.

    Attributes:
        address: Host and port of the driver's server.
        key: Secret with which the worker and the driver authenticate each other.
        number: Number of the account that the copy belongs to.
    """

    address: tuple[str, int]
    key: bytes
    number: int

    def ask(self, operation: str, *arguments: object) -> Any:
        """Have the driver perform an operation with these arguments, and return the result."""
        return _driver_connection(self.address, self.key).ask(operation, self.number, *arguments)

    def count(self, **amounts: float) -> None:
        """Add amounts, such as ``calls=1``, to the usage of the original LLM."""
        self.ask("count", amounts)


def copy_of(account: Account, owner: object, host: str) -> Copy:
    """Register the shared state of an LLM, and return the data that its copies need.

    Args:
        account: The state to share.
        owner: The object with the usage counters of the LLM. LLMs that
            :meth:`LLM.with_parameters` made from one LLM have the same owner. LLMs with the same
            owner and the same cache share one account.
        host: The host name or address at which workers reach this process.
    """
    server = _driver_server(host)
    return Copy(server.address, server.key, server.number_of(account, owner))


class _DriverConnection:
    """A connection from a worker to the driver, shared by the threads of the worker."""

    def __init__(self, address: tuple[str, int], key: bytes) -> None:
        self._address, self._lock = address, threading.Lock()
        with self._translate_errors():
            self._connection = Client(address, authkey=key)

    def ask(self, *request: object) -> Any:
        with self._lock, self._translate_errors():
            self._connection.send(request)
            answer, error = self._connection.recv()
        if error is not None:
            raise error
        return answer

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, EOFError, ProcessError) as error:
            raise LLMError(
                f"the driver (the main process) at {self._address[0]}, which manages budget and "
                f"cache, does not answer ({type(error).__name__}: {error}); check that workers "
                "can connect to all of its ports"
            ) from None


_driver_connection = cache(_DriverConnection)


class SharedCache(Cache):
    """The cache of the LLM in the driver process, accessed from a worker over the network."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy

    def __repr__(self) -> str:
        return f"SharedCache({self._copy.address})"

    def get(self, key: bytes) -> dict[str, Any] | None:
        """Return a cached answer; see :meth:`Cache.get`."""
        answer: dict[str, Any] | None = self._copy.ask("cache", "get", key)
        return answer

    def put(self, key: bytes, model: str, answer: dict[str, Any]) -> None:
        """Store an answer; see :meth:`Cache.put`."""
        self._copy.ask("cache", "put", key, model, answer)

    def __len__(self) -> int:
        return int(self._copy.ask("cache", "__len__"))

    def close(self) -> None:
        """Do nothing: only the driver has the file open."""


class SharedBudget(Budget):
    """The budget of the LLM in the driver process, accessed from a worker over the network.

    ``caps`` are the arguments of the original :class:`Budget`.
    """

    def __init__(self, copy: Copy, caps: Mapping[str, Any]) -> None:
        super().__init__(**caps)
        self._copy = copy

    def take(self, tokens: int, cost: float) -> bool:
        """Try to reserve budget for one call; see :meth:`Budget.take`."""
        return bool(self._copy.ask("take", tokens, cost))

    def settle(self, tokens: int, cost: float, hold: Hold) -> None:
        """Release a reservation and count the used amounts as spent; see :meth:`Budget.settle`."""
        self._copy.ask("settle", tokens, cost, hold)


class SharedSlots:
    """A semaphore that limits the number of concurrent calls across all copies of an LLM."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        # Only one call of a process polls for a slot, so that the driver is not flooded.
        self._first = asyncio.Lock()

    async def __aenter__(self) -> None:
        wait = _WAIT_S
        async with self._first:
            while not self._copy.ask("begin"):
                await asyncio.sleep(random.uniform(0, wait))
                wait = min(2 * wait, _MOST_WAIT_S)

    async def __aexit__(self, *_: object) -> None:
        self._copy.ask("end")
