"""Caps on calls, tokens and money, and counters of usage."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from numbers import Real

from mirage.errors import BudgetError, SettingError

_WAIT_S = 0.02  # the wait before a call checks again whether other calls have released budget


@dataclass(frozen=True)
class Price:
    """The price of a million tokens of input and of output, in any currency.

    Attributes:
        input: Price of a million tokens of prompts.
        output: Price of a million tokens of answers.

    Raises:
        SettingError: If a price is below 0 or is not a number.

    Example:
        >>> Price(input=0.15, output=0.60).cost(prompt_tokens=2_000, completion_tokens=1_000)
        0.0009
    """

    input: float
    output: float

    def __post_init__(self) -> None:
        if not (self.input >= 0 and self.output >= 0):
            raise SettingError(
                f"input and output prices must be at least 0, got {self.input} and {self.output}"
            )

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the price of a request with these numbers of tokens."""
        return (prompt_tokens * self.input + completion_tokens * self.output) / 1e6


@dataclass
class Usage:
    """Counters of the requests and tokens that an LLM has used.

    Attributes:
        calls: Requests that were sent, including retries.
        cached: Answers from the cache, which cost nothing.
        prompt_tokens: Tokens of input.
        completion_tokens: Tokens of output.
        cost: Money, in the currency of the price; 0 if the LLM has no price.
    """

    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    def __str__(self) -> str:
        text = (
            f"{self.calls:,} calls (and {self.cached:,} answers from the cache): "
            f"{self.prompt_tokens:,} tokens of prompts and {self.completion_tokens:,} of answers"
        )
        return f"{text}, cost {self.cost:,.2f}" if self.cost else text

    @property
    def tokens(self) -> int:
        """The number of input and output tokens together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass
class Hold:
    """The tokens and the cost of one call.

    Until the answer arrives, these are the amounts reserved in the budget. Afterwards, they are the
    amounts that the call used.
    """

    tokens: int
    cost: float

    def give_back(self) -> None:
        """Set tokens and cost to 0, for a call that turned out to cost nothing."""
        self.tokens, self.cost = 0, 0.0


class Budget:
    """A cap on calls, tokens or money that several LLMs and threads may share.

    A request counts as a call when it is sent; retries count too. An answer from the cache is free.
    Before a request is sent, the budget reserves the largest amounts that it may use. For this, the
    answer is assumed to have the maximum length, and the prompt one token per byte, because no
    tokenizer produces more. So tokens and cost stay under the cap, unless a server counts more
    tokens.

    When the answer arrives, only the tokens that the server counted are spent. Without an answer (a
    timeout, a lost connection) the whole reservation is spent, because the call may be billed. A
    response with a status other than 200 costs nothing.

    Args:
        calls: Maximum number of requests. ``None`` means no cap.
        tokens: Maximum number of tokens of input and output together. ``None`` means no cap.
        cost: Maximum cost, in the currency of :class:`Price`. ``None`` means no cap.

    Raises:
        SettingError: If no cap is set, or a cap is below 0 or is not a number.

    Example:
        >>> Budget(calls=100, cost=2.5)
        Budget(calls=0/100, cost=0/2.5)
    """

    def __init__(
        self, *, calls: int | None = None, tokens: int | None = None, cost: float | None = None
    ) -> None:
        if calls is None and tokens is None and cost is None:
            raise SettingError("a budget needs at least one cap; pass calls=, tokens= or cost=")
        for name, cap in (("calls", calls), ("tokens", tokens), ("cost", cost)):
            if cap is not None and not (isinstance(cap, Real) and cap >= 0):
                raise SettingError(f"the cap on {name} must be a number of at least 0, got {cap!r}")
        self.calls: int | None = calls
        self.tokens: int | None = tokens
        self.cost: float | None = cost
        self.spent_calls: int = 0
        self.spent_tokens: int = 0
        self.spent_cost: float = 0.0
        self._holds, self._reserved_tokens, self._reserved_cost = 0, 0, 0.0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        parts = [
            f"{name}={spent:.6g}/{cap:.6g}"
            for name, spent, cap in (
                ("calls", self.spent_calls, self.calls),
                ("tokens", self.spent_tokens, self.tokens),
                ("cost", self.spent_cost, self.cost),
            )
            if cap is not None
        ]
        return f"Budget({', '.join(parts)})"

    @property
    def caps(self) -> dict[str, float | None]:
        """The caps on ``calls``, ``tokens`` and ``cost``, by these names; ``None`` for no cap."""
        return {"calls": self.calls, "tokens": self.tokens, "cost": self.cost}

    @asynccontextmanager
    async def call(self, tokens: int, cost: float) -> AsyncIterator[Hold]:
        """Reserve budget for one request; when the request is over, release the unused part.

        If the budget is too small now, but calls under way may release enough of it, this method
        waits for those calls.

        Args:
            tokens: Maximum number of tokens that the request may use.
            cost: Maximum cost of the request.

        Yields:
            The reserved tokens and cost; the caller replaces them with those that were used.

        Raises:
            BudgetError: If the request does not fit into the budget and must not be sent.
        """
        while not self.take(tokens, cost):
            await asyncio.sleep(_WAIT_S)
        hold = Hold(tokens, cost)
        try:
            yield hold
        finally:
            self.settle(tokens, cost, hold)

    def settle(self, tokens: int, cost: float, hold: Hold) -> None:
        """Release the reservation of a finished call, and count the amounts that it used as spent.

        Args:
            tokens: Tokens that were reserved for the call.
            cost: Money that was reserved for the call.
            hold: The amounts that the call has used.
        """
        with self._lock:
            # Release and spend in one step, so that no other call sees the amount as free.
            self._add(-1, -tokens, -cost)
            self.spent_tokens += hold.tokens
            self.spent_cost += hold.cost

    def take(self, tokens: int, cost: float) -> bool:
        """Try to reserve budget for one call.

        Args:
            tokens: Maximum number of tokens that the call may use.
            cost: Maximum cost of the call.

        Returns:
            Whether the amounts were reserved. ``False`` means that the budget may suffice once
            other calls are over.

        Raises:
            BudgetError: If the budget is too small for the call, so it must not be sent.
        """
        with self._lock:
            if self.calls is not None and self.spent_calls >= self.calls:
                raise BudgetError(
                    f"the call was not sent, because the budget of {self.calls} calls is spent; "
                    "increase the budget"
                )
            for name, cap, spent, reserved, wanted in (
                ("tokens", self.tokens, self.spent_tokens, self._reserved_tokens, tokens),
                ("cost", self.cost, self.spent_cost, self._reserved_cost, cost),
            ):
                if cap is None or spent + reserved + wanted <= cap:
                    continue
                # Other calls may use less than they have reserved, so waiting can help.
                if self._holds and spent + wanted <= cap:
                    return False
                raise BudgetError(
                    f"the call was not sent: {spent:.6g} of the budget of {cap:.6g} ({name}) are "
                    f"spent, and this call may need up to {wanted:.6g}; increase the budget"
                )
            self._add(1, tokens, cost)
            self.spent_calls += 1
            return True

    def _add(self, holds: int, tokens: int, cost: float) -> None:
        self._holds += holds
        self._reserved_tokens += tokens
        # Rounding errors would keep the sum above 0 after all reservations are released.
        self._reserved_cost = self._reserved_cost + cost if self._holds else 0.0
