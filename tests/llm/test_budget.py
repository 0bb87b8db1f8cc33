"""Caps on calls, tokens and money, compared with the requests that reach a server."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llm_server import ChatServer, Reply, last_user_text
from profiles import examples

import mirage.llm.budget
from mirage._base.concurrency import for_each, run_sync
from mirage.errors import BudgetError, LLMError, SettingError
from mirage.llm import LLM, Budget, Price
from mirage.llm.budget import Usage
from mirage.llm.client import Message


def question(i: int) -> list[Message]:
    return [{"role": "user", "content": f"swali {i}"}]


def model(server: ChatServer, name: str = "m", **chosen: Any) -> LLM:
    return LLM(name, base_url=server.url, **{"cache": False, "backoff": 0.01} | chosen)


def ask_all(count: int, *llms: LLM) -> tuple[list[int], list[BudgetError]]:
    """Ask models questions in turn; return the answered ones and the errors of the others."""
    answered: list[int] = []
    refused: list[BudgetError] = []

    async def main() -> None:
        async with AsyncExitStack() as stack:
            connections = [await stack.enter_async_context(llm.connect()) for llm in llms]

            async def ask_one(i: int) -> None:
                try:
                    await connections[i % len(connections)].ask(question(i))
                except BudgetError as error:
                    refused.append(error)
                except LLMError:
                    pass
                else:
                    answered.append(i)

            await for_each(range(count), ask_one, sum(llm.concurrency for llm in llms))

    run_sync(main())
    return answered, refused


def every_third_fails(request: Mapping[str, Any]) -> Reply:
    """Answer the first attempt at every third question with status 500."""
    number = int(last_user_text(request).split()[1])
    if number % 3 == 0 and number not in seen_by_server:
        seen_by_server.add(number)
        return Reply(status=500)
    return Reply(f"jibu {number}", delay=0.002)


seen_by_server: set[int] = set()


@pytest.fixture(autouse=True)
def _forget() -> None:
    seen_by_server.clear()


# Calls --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cap", [0, 1, 50, 137])
def test_no_more_calls_than_the_budget_reach_the_server(
    server: ChatServer, tmp_path: Path, cap: int
) -> None:
    server.answer = every_third_fails
    budget = Budget(calls=cap)
    llm = model(server, budget=budget, concurrency=64, cache=tmp_path / "cache.sqlite")
    answered, refused = ask_all(300, llm)
    assert len(server.requests) == llm.usage.calls == budget.spent_calls == cap
    assert all(llm.cached(question(i)) for i in answered)
    assert llm.cache is not None
    assert len(llm.cache) == len(answered)
    assert len(answered) + len(refused) == 300
    assert {str(error) for error in refused} == {
        f"the call was not sent, because the budget of {cap} calls is spent; increase the budget"
    }


def test_a_budget_that_is_spent_stops_retries_too(server: ChatServer) -> None:
    server.answer = lambda _: Reply(status=500)
    answered, refused = ask_all(3, model(server, budget=Budget(calls=7), retries=4, concurrency=1))
    assert (answered, len(refused)) == ([], 2)
    assert len(server.requests) == 7


def test_work_goes_on_with_a_new_budget(server: ChatServer, tmp_path: Path) -> None:
    """Cached answers are free, even if the budget is spent."""
    server.answer = lambda request: f"jibu {last_user_text(request)}"
    chosen: dict[str, Any] = {"cache": tmp_path / "cache.sqlite", "concurrency": 8}
    first, _ = ask_all(100, model(server, budget=Budget(calls=60), **chosen))
    assert len(first) == 60
    llm = model(server, budget=Budget(calls=40), **chosen)
    second, refused = ask_all(100, llm)
    assert (len(second), refused) == (100, [])
    assert len(server.requests) == 100
    third, refused = ask_all(100, model(server, budget=Budget(calls=0), **chosen))
    assert (len(third), refused) == (100, [])
    assert (llm.usage.calls, llm.usage.cached) == (40, 60)


# Tokens and money ---------------------------------------------------------------------------------


def counting(prompt: int, completion: int) -> Reply:
    """Return an answer for which the server counts this many tokens."""
    body = '{"choices": [{"message": {"content": "ndiyo"}, "finish_reason": "stop"}], "usage": '
    body += f'{{"prompt_tokens": {prompt}, "completion_tokens": {completion}}}}}'
    return Reply(body=body.encode(), delay=0.005)


@pytest.mark.parametrize(("prompt", "completion"), [(7, 50), (24, 100), (0, 0), (3, 1)])
def test_tokens_stay_under_the_cap(server: ChatServer, prompt: int, completion: int) -> None:
    server.answer = lambda _: counting(prompt, completion)
    budget = Budget(tokens=1500)
    llm = model(server, budget=budget, max_tokens=100, concurrency=16)
    answered, refused = ask_all(40, llm)
    spent = len(server.requests) * (prompt + completion)
    assert budget.spent_tokens == llm.usage.tokens == spent <= 1500
    assert len(answered) == len(server.requests)
    if refused:  # one more call might not have fitted
        assert spent + 100 + len("swali 39") + 16 > 1500
        assert "of the budget of 1500 (tokens) are spent" in str(refused[-1])
    else:
        assert len(answered) == 40


def test_money_stays_under_the_cap(server: ChatServer) -> None:
    server.answer = lambda _: counting(20, 100)
    price = Price(input=2.5, output=10.0)
    budget = Budget(cost=0.0111)
    llm = model(server, budget=budget, price=price, max_tokens=100, concurrency=16)
    answered, refused = ask_all(40, llm)
    assert price.cost(20, 100) == pytest.approx(0.00105)
    assert len(answered) == 10
    assert budget.spent_cost == pytest.approx(llm.usage.cost) == pytest.approx(0.0105)
    assert "not sent: 0.0105 of the budget of 0.0111 (cost) are spent, and" in str(refused[-1])


def test_a_call_that_can_never_fit_is_refused_at_once(server: ChatServer) -> None:
    llm = model(server, budget=Budget(tokens=1000), max_tokens=1000)
    with pytest.raises(
        BudgetError,
        match=r"not sent: 0 of the budget of 1000 .tokens. are spent, .* need up to 1023",
    ):
        raise ask_all(1, llm)[1][0]
    assert server.requests == []


def test_tokens_above_the_limit_are_spent_as_the_server_counts_them(server: ChatServer) -> None:
    server.answer = lambda _: counting(5000, 5000)
    budget = Budget(tokens=2000)
    answered, refused = ask_all(3, model(server, budget=budget, max_tokens=10, concurrency=1))
    assert (len(answered), len(refused), budget.spent_tokens) == (1, 2, 10_000)


def test_unusable_answers_are_spent(server: ChatServer) -> None:
    server.answer = lambda _: Reply(None, message={"refusal": "no"})
    budget = Budget(tokens=10_000)
    llm = model(server, budget=budget)
    ask_all(1, llm)
    assert llm.usage.tokens == budget.spent_tokens > 0


@pytest.mark.parametrize(
    ("reply", "spent"),
    [
        (Reply(status=429), 0),
        (Reply(status=500), 0),
        (Reply(status=400), 0),
        (Reply(delay=30), 2 * (100 + len("swali 0") + 16)),
        (Reply(cut=True), 2 * (100 + len("swali 0") + 16)),
        (Reply(body=b"{"), 2 * (100 + len("swali 0") + 16)),
    ],
    ids=["429", "500", "400", "hang", "cut", "no JSON"],
)
def test_calls_without_an_answer_spend_their_reservation(
    server: ChatServer, reply: Reply, spent: int
) -> None:
    server.answer = lambda _: reply
    budget = Budget(tokens=100_000)
    timeout = 0.3 if reply.delay else 30
    llm = model(server, budget=budget, max_tokens=100, retries=1, timeout=timeout)
    ask_all(1, llm)
    assert budget.spent_tokens == spent
    assert llm.usage.tokens == 0  # what is known


def test_an_unreachable_server_costs_nothing() -> None:
    budget = Budget(tokens=10_000, calls=3)
    url = "http://127.0.0.1:1/v1"
    llm = LLM("m", base_url=url, cache=False, retries=1, backoff=0.01, budget=budget)
    ask_all(1, llm)
    assert (budget.spent_tokens, budget.spent_calls) == (0, 2)


# Shared -------------------------------------------------------------------------------------------


def test_two_models_share_a_budget(server: ChatServer) -> None:
    budget = Budget(calls=30)
    llms = [model(server, name, budget=budget) for name in ("a", "b")]
    answered, _ = ask_all(100, *llms)
    assert len(answered) == len(server.requests) == 30
    assert {request["model"] for request in server.requests} == {"a", "b"}
    assert llms[0].usage.calls + llms[1].usage.calls == 30


def test_two_threads_share_a_model_and_a_budget(server: ChatServer, tmp_path: Path) -> None:
    """Each thread has its own event loop."""
    server.answer = lambda _: counting(10, 40)
    budget = Budget(calls=90, tokens=10_000)
    llm = model(server, budget=budget, max_tokens=50, cache=tmp_path / "cache.sqlite")
    answered: list[int] = []

    def work() -> None:
        answered.extend(ask_all(150, llm)[0])

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert llm.usage.calls == budget.spent_calls == len(server.requests) == 90
    assert llm.usage.tokens == budget.spent_tokens == 90 * 50
    assert llm.usage.calls + llm.usage.cached == len(answered)
    assert llm.cache is not None
    assert len(llm.cache) == len({last_user_text(request) for request in server.requests})


def test_counting_in_threads() -> None:
    llm = LLM("m", base_url="http://localhost/v1", cache=False)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [
            threading.Thread(target=lambda: [llm._count(calls=1, cost=0.5) for _ in range(5000)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert (llm.usage.calls, llm.usage.cost) == (20_000, 10_000.0)


# Accounting ---------------------------------------------------------------------------------------

calls = st.tuples(
    st.integers(0, 60),  # tokens that the call may need
    st.floats(0, 1),  # the part of them that it does
    st.integers(0, 3),  # turns of the loop that it takes
    st.sampled_from(["answered", "failed", "free"]),
)


@settings(max_examples=examples(400), deadline=None)
@given(
    st.lists(calls, max_size=20),
    st.none() | st.integers(0, 25),
    st.none() | st.integers(0, 300),
    st.integers(0, 300),
)
def test_spent_and_reserved_amounts_never_exceed_the_cap(
    wanted: list[tuple[int, float, int, str]], cap: int | None, tokens: int | None, cost: int
) -> None:
    budget = Budget(calls=cap, tokens=tokens, cost=float(cost))
    sent, spent = 0, 0

    async def call(need: int, part: float, turns: int, end: str) -> None:
        nonlocal sent, spent
        try:
            async with budget.call(need, float(need)) as hold:
                sent += 1
                for _ in range(turns):
                    aside = budget._reserved_tokens
                    assert budget.spent_tokens + aside <= (
                        aside + spent if tokens is None else tokens
                    )
                    assert budget.spent_cost + budget._reserved_cost <= cost
                    await asyncio.sleep(0)
                if end == "failed":
                    spent += need
                    raise OSError
                if end == "free":
                    hold.give_back()
                else:
                    hold.tokens, hold.cost = int(part * need), float(int(part * need))
                    spent += hold.tokens
        except (BudgetError, OSError):
            pass

    async def main() -> None:
        await asyncio.gather(*(call(*each) for each in wanted))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mirage.llm.budget, "_WAIT_S", 0)
        asyncio.run(main())
    assert (budget.spent_calls, budget.spent_tokens, budget.spent_cost) == (sent, spent, spent)
    assert (budget._reserved_tokens, budget._reserved_cost) == (0, 0.0)
    assert cap is None or sent <= cap
    assert spent <= min(cost, cost if tokens is None else tokens)


def test_a_call_waits_for_reservations_that_may_be_released() -> None:
    budget = Budget(tokens=10)

    async def main() -> None:
        async with budget.call(4, 0.0) as hold:
            whole = asyncio.create_task(spend(10))
            await asyncio.sleep(0.05)
            assert not whole.done()
            hold.give_back()
        await whole

    async def spend(tokens: int) -> None:
        async with budget.call(tokens, 0.0):
            pass

    asyncio.run(main())
    assert (budget.spent_calls, budget.spent_tokens) == (2, 10)


def test_invalid_budgets_are_refused() -> None:
    with pytest.raises(SettingError, match="pass calls=, tokens= or cost="):
        Budget()
    for cap in ({"calls": -1}, {"tokens": -5}, {"cost": float("nan")}, {"calls": "3"}):
        with pytest.raises(SettingError, match="must be a number of at least 0, got"):
            Budget(**cap)  # type: ignore[arg-type]
    for price in ((-1.0, 2.0), (1.0, -2.0), (float("nan"), 2.0)):
        with pytest.raises(SettingError, match="prices must be at least 0, got"):
            Price(*price)


def test_a_budget_of_money_needs_a_price_and_one_of_tokens_a_limit() -> None:
    url = "http://localhost/v1"
    with pytest.raises(SettingError, match="pass price="):
        LLM("m", base_url=url, budget=Budget(cost=1.0))
    for budget in (Budget(cost=1.0), Budget(tokens=1)):
        with pytest.raises(SettingError, match="pass max_tokens="):
            LLM("m", base_url=url, budget=budget, price=Price(1, 1), max_tokens=None)
    LLM("m", base_url=url, budget=Budget(calls=1), max_tokens=None)
    limit = {"max_completion_tokens": 77}
    llm = LLM("m", base_url=url, budget=Budget(tokens=1), max_tokens=None, parameters=limit)
    assert llm.parameters == {"temperature": 0.0, "max_completion_tokens": 77}


def test_repr_of_a_budget() -> None:
    budget = Budget(calls=3, cost=1.5)
    assert repr(budget) == "Budget(calls=0/3, cost=0/1.5)"
    assert Price(2.5, 10).cost(1_000_000, 100_000) == 3.5
    assert Usage(prompt_tokens=3, completion_tokens=4).tokens == 7
