"""Copies of an LLM on other machines share budget, concurrency and cache with the original."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from llm_server import ChatServer, Reply

from mirage._base.concurrency import for_each, run_sync
from mirage.errors import BudgetError, LLMError, SettingError
from mirage.executors.base import sending
from mirage.executors.ray import RayExecutor
from mirage.llm import LLM, Budget, Price


def copy_of(llm: LLM) -> LLM:
    with sending("127.0.0.1"):
        pickled = pickle.dumps(llm)
    copy: LLM = pickle.loads(pickled)
    return copy


def asking(llm: LLM, prefix: str, most: int = 30) -> int:
    """Ask many questions and return how many are answered before the budget is spent."""
    answered = 0

    async def ask_all() -> None:
        async with llm.connect() as connection:

            async def ask(number: int) -> None:
                nonlocal answered
                try:
                    await connection.ask([{"role": "user", "content": f"{prefix} {number}"}])
                except BudgetError:
                    return
                answered += 1

            await for_each(range(most), ask, 8)

    run_sync(ask_all())
    return answered


def in_threads(work: Callable[[int], int], count: int) -> list[int]:
    results = [0] * count

    def run_one(number: int) -> None:
        results[number] = work(number)

    threads = [threading.Thread(target=run_one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_an_llm_is_pickled_only_by_an_executor(server: ChatServer) -> None:
    with pytest.raises(SettingError, match="cannot be sent to another process"):
        pickle.dumps(LLM("m", base_url=server.url))


def test_copies_spend_one_budget(server: ChatServer, tmp_path: Path) -> None:
    server.answer = lambda _: Reply("yes", delay=0.01)
    budget = Budget(calls=50)
    llm = LLM("m", base_url=server.url, cache=tmp_path / "c", budget=budget, concurrency=5)
    copies = [copy_of(llm), copy_of(llm), copy_of(copy_of(llm))]
    answered = in_threads(lambda n: asking(copies[n], str(n)), 3)
    assert sum(answered) == len(server.requests) == budget.spent_calls == 50
    assert llm.usage.calls == 50
    assert server.at_once <= 5
    assert len(llm.cache or ()) == 50


def test_tokens_and_money_are_capped_together(server: ChatServer) -> None:
    server.answer = lambda _: Reply("one two three", delay=0.005)
    budget = Budget(tokens=1500, cost=1.0)
    settings = {"max_tokens": 20, "budget": budget, "price": Price(1000.0, 1000.0)}
    llm = LLM("m", base_url=server.url, cache=False, **settings)
    copies = [copy_of(llm), copy_of(llm)]
    answered = in_threads(lambda n: asking(copies[n], str(n), 200), 2)
    spent = 5 * sum(answered)  # two tokens of the question, three of the answer
    assert budget.spent_tokens == spent
    assert budget.spent_cost == pytest.approx(spent * 1e-3)
    assert 0.9 < budget.spent_cost <= 1.0


def test_copies_share_the_cache(server: ChatServer, tmp_path: Path) -> None:
    llm = LLM("m", base_url=server.url, cache=tmp_path / "c")
    copy = copy_of(llm)
    assert asking(copy, "same", 5) == asking(copy_of(llm), "same", 5) == 5
    assert len(copy.cache or ()) == 5
    assert asking(llm, "same", 5) == 5
    assert len(server.requests) == 5
    assert (llm.usage.calls, llm.usage.cached) == (5, 10)


def test_a_client_with_the_wrong_key_is_not_answered(server: ChatServer) -> None:
    copy = copy_of(LLM("m", base_url=server.url, cache=False))
    assert copy._copy is not None
    wrong = type(copy._copy)(copy._copy.address, b"guessed", copy._copy.number)
    with pytest.raises(LLMError, match="does not answer"):
        wrong.ask("begin")
    lost_driver = type(copy._copy)(("127.0.0.1", 9), b"", 0)
    with pytest.raises(
        LLMError, match=r"the driver .the main process. at 127.0.0.1, .* does not answer"
    ):
        lost_driver.ask("begin")
    gc.collect()


@pytest.fixture
def by_value(ray_of_two: RayExecutor) -> RayExecutor:
    """Pickle this module's functions by value, because workers cannot import this file."""
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return ray_of_two


@pytest.mark.slow
def test_two_workers_share_one_budget(by_value: RayExecutor, server: ChatServer) -> None:
    server.answer = lambda _: Reply("yes", delay=0.005)
    budget = Budget(calls=137)
    llm = LLM("m", base_url=server.url, cache=False, budget=budget, concurrency=6)
    results = dict(by_value.map(lambda n: asking(llm, f"part {n}", 40), range(8)))
    assert sum(results.values()) == len(server.requests) == budget.spent_calls == 137
    assert server.at_once <= 6


@pytest.mark.slow
def test_the_reservations_of_a_dead_worker_are_spent(
    by_value: RayExecutor, server: ChatServer, tmp_path: Path
) -> None:
    budget = Budget(tokens=10_000)
    settings = {"budget": budget, "max_tokens": 1000, "concurrency": 1}
    llm = LLM("m", base_url=server.url, cache=False, **settings)
    server.answer = lambda r: Reply("yes", delay=30.0 if "first" in str(r) else 0.0)

    def work(number: int) -> int:
        if number == 0 and not (tmp_path / "dead").exists():
            (tmp_path / "dead").touch()
            threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGKILL)).start()
            return asking(llm, "first", 1)
        return asking(llm, f"then {number}", 2)

    start = time.monotonic()
    results = dict(by_value.map(work, range(4)))
    assert time.monotonic() - start < 20  # its place was free again at once
    assert results == {0: 2, 1: 2, 2: 2, 3: 2}
    # A dead call may be billed: all that it might have used is spent.
    assert 1000 < budget.spent_tokens < 1100
    assert budget.spent_calls == 9
