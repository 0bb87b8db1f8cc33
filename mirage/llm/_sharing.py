"""One budget, one cache and one number of calls under way for the copies of an LLM on a cluster.

An executor sends copies of an LLM to its workers. What they may spend, what was answered before and
how many calls are under way is decided in one place, the process that has the original: a thread
there listens, and copies ask it before and after each call. So a budget holds for all of them
together, and the file of the cache is opened by one process.

What a worker had put aside of a budget when it was lost is spent, for its call may be billed.
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

__all__ = ["Account", "Copy", "SharedBudget", "SharedCache", "SharedSlots", "copy_of"]

_WAIT_S = 0.02  # between looks at whether a call may begin, at first
_MOST_WAIT_S = 0.5


@dataclass(frozen=True)
class Account:
    """What copies of an LLM share with it."""

    cache: Cache | None
    budget: Budget | None
    count: Callable[..., None]
    concurrency: int


# In the process that decides ----------------------------------------------------------------------


class _Visit:
    """One process that asks, and what it has not given back yet."""

    def __init__(self) -> None:
        self.holds: Counter[tuple[int, int, float]] = Counter()
        self.slots: Counter[int] = Counter()


class _Desk:
    """Listens at one address, and answers for all LLMs of this process."""

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
        """Return the number of an account, one for each ``owner`` and cache."""
        with self._lock:
            key = id(owner), id(account.cache)
            number = self._numbers.setdefault(key, len(self._numbers))
            # The owner is part of the account, so that nothing else gets its id.
            self._accounts.setdefault(number, account)
        return number

    def _listen(self) -> None:
        while True:
            connection = self._listener.accept()
            work = partial(self._serve, connection)
            threading.Thread(target=work, daemon=True, name="mirage: a worker's LLMs").start()

    def _serve(self, connection: Connection) -> None:
        visit = _Visit()
        try:
            deliver_challenge(connection, self.key)
            answer_challenge(connection, self.key)
            while True:
                what, number, *asked = connection.recv()
                try:
                    connection.send((getattr(self, f"_{what}")(visit, number, *asked), None))
                except LLMError as error:
                    connection.send((None, error))
        except (OSError, EOFError, ProcessError):  # the worker is gone, or it is somebody else
            pass
        finally:
            connection.close()
            self._close(visit)

    def _close(self, visit: _Visit) -> None:
        """Whoever asked is gone: its calls are over, and what they might have cost is spent."""
        with self._lock:
            self._under_way.subtract(visit.slots)
        for number, tokens, cost in visit.holds.elements():
            budget = self._accounts[number].budget
            if budget is not None:
                budget.settle(tokens, cost, Hold(tokens, cost))

    def _get(self, _: _Visit, number: int, key: bytes) -> dict[str, Any] | None:
        cache = self._accounts[number].cache
        return None if cache is None else cache.get(key)

    def _put(self, _: _Visit, number: int, key: bytes, model: str, answer: dict[str, Any]) -> None:
        cache = self._accounts[number].cache
        if cache is not None:
            cache.put(key, model, answer)

    def _size(self, _: _Visit, number: int) -> int:
        cache = self._accounts[number].cache
        return 0 if cache is None else len(cache)

    def _count(self, _: _Visit, number: int, used: Mapping[str, float]) -> None:
        self._accounts[number].count(**used)

    def _take(self, visit: _Visit, number: int, tokens: int, cost: float) -> bool:
        budget = self._accounts[number].budget
        taken = budget is None or budget.take(tokens, cost)
        visit.holds[number, tokens, cost] += taken
        return taken

    def _settle(self, visit: _Visit, number: int, tokens: int, cost: float, hold: Hold) -> None:
        budget = self._accounts[number].budget
        if budget is not None:
            budget.settle(tokens, cost, hold)
        visit.holds[number, tokens, cost] -= 1

    def _begin(self, visit: _Visit, number: int) -> bool:
        """Whether one call more may be under way."""
        with self._lock:
            if self._under_way[number] >= self._accounts[number].concurrency:
                return False
            self._under_way[number] += 1
            visit.slots[number] += 1
        return True

    def _end(self, visit: _Visit, number: int) -> None:
        with self._lock:
            self._under_way[number] -= 1
            visit.slots[number] -= 1


@cache
def _desk(host: str) -> _Desk:
    return _Desk(host)


# In a worker --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Copy:
    """Where a copy asks: the address of the original's process, and the number of its account."""

    address: tuple[str, int]
    key: bytes
    number: int

    def ask(self, what: str, *asked: object) -> Any:
        """What the original's process says.

        Raises:
            BudgetError: the budget does not allow it.
            LLMError: the process is gone.
        """
        return _line(self.address, self.key).ask(what, self.number, *asked)

    def count(self, **used: float) -> None:
        """Add to the usage of the original."""
        self.ask("count", used)


def copy_of(account: Account, owner: object, host: str) -> Copy:
    """What a copy of an LLM needs to ask for what it shares with others.

    Args:
        account: what is shared.
        owner: by which accounts are told apart: all LLMs that count for it have one.
        host: where workers find this process.
    """
    desk = _desk(host)
    return Copy(desk.address, desk.key, desk.number_of(account, owner))


class _Line:
    """A connection to the process of the original, which threads share."""

    def __init__(self, address: tuple[str, int], key: bytes) -> None:
        self._address, self._lock = address, threading.Lock()
        with self._saying_what_is_lost():
            self._connection = Client(address, authkey=key)

    def ask(self, *asked: object) -> Any:
        with self._lock, self._saying_what_is_lost():
            self._connection.send(asked)
            answer, error = self._connection.recv()
        if error is not None:
            raise error
        return answer

    @contextmanager
    def _saying_what_is_lost(self) -> Iterator[None]:
        try:
            yield
        except (OSError, EOFError, ProcessError) as error:
            raise LLMError(
                f"the process at {self._address[0]} that decides about budget and cache does not "
                f"answer ({type(error).__name__}: {error}); workers have to reach it, on any port"
            ) from None


_line = cache(_Line)


class SharedCache(Cache):
    """The cache of the original."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy

    def __repr__(self) -> str:
        return f"SharedCache({self._copy.address})"

    def get(self, key: bytes) -> dict[str, Any] | None:
        """As :meth:`Cache.get`."""
        answer: dict[str, Any] | None = self._copy.ask("get", key)
        return answer

    def put(self, key: bytes, model: str, answer: dict[str, Any]) -> None:
        """As :meth:`Cache.put`."""
        self._copy.ask("put", key, model, answer)

    def __len__(self) -> int:
        return int(self._copy.ask("size"))

    def close(self) -> None:
        """There is nothing to close."""


class SharedBudget(Budget):
    """The budget of the original; what is spent is known there."""

    def __init__(self, copy: Copy, caps: Mapping[str, Any]) -> None:
        super().__init__(**caps)
        self._copy = copy

    def take(self, tokens: int, cost: float) -> bool:
        """As :meth:`Budget.take`."""
        return bool(self._copy.ask("take", tokens, cost))

    def settle(self, tokens: int, cost: float, hold: Hold) -> None:
        """As :meth:`Budget.settle`."""
        self._copy.ask("settle", tokens, cost, hold)


class SharedSlots:
    """Calls under way at a time, those of all copies together."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._first = asyncio.Lock()  # one call a process asks for a place; others wait for it

    async def __aenter__(self) -> None:
        wait = _WAIT_S
        async with self._first:
            while not self._copy.ask("begin"):
                await asyncio.sleep(random.uniform(0, wait))
                wait = min(2 * wait, _MOST_WAIT_S)

    async def __aexit__(self, *_: object) -> None:
        self._copy.ask("end")
