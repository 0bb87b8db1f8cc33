"""A cap on calls, tokens and money, and what has been used."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from numbers import Real

from mirage.errors import BudgetError, SettingError

__all__ = ["Budget", "Hold", "Price", "Usage"]

_WAIT_S = 0.02  # between looks at whether calls under way have left something


@dataclass(frozen=True)
class Price:
    """What a model costs, in any currency, for a million tokens of input and of output.

    Raises:
        SettingError: one of them is below 0, or no number.
    """

    input: float
    output: float

    def __post_init__(self) -> None:
        if not (self.input >= 0 and self.output >= 0):
            raise SettingError(f"a price is 0 or more, not {self.input} and {self.output}")

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The price of so many ``prompt_tokens`` and ``completion_tokens``."""
        return (prompt_tokens * self.input + completion_tokens * self.output) / 1e6


@dataclass
class Usage:
    """What was used: ``calls`` counts requests sent, retries among them; ``cost`` is in the
    currency of the price, 0 without one. ``cached`` counts answers that cost nothing."""

    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens of input and output together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass
class Hold:
    """What one call may use at most; once it is answered, what it did use."""

    tokens: int
    cost: float

    def give_back(self) -> None:
        """The call has cost nothing."""
        self.tokens, self.cost = 0, 0.0


class Budget:
    """A cap that any number of :class:`~mirage.llm.LLM` objects may share, in any threads.

    A request counts as a call when it is sent, retries too; an answer from the cache is free.
    Before a request is sent, what it may use at most is put aside: the longest answer, and a prompt
    of as many tokens as it has bytes, which no tokenizer exceeds. So tokens and cost stay under the
    cap, unless a server counts more than that. Once the answer is there, only what the server
    counted is spent; without one (a timeout, a lost connection) all that was put aside, for it may
    be billed. A status other than 200 costs nothing.

    Args:
        calls: requests that may be sent.
        tokens: tokens of input and output together.
        cost: money, in the currency of :class:`Price`.

    Raises:
        SettingError: nothing is capped, or a cap is below 0 or no number.
    """

    def __init__(
        self, *, calls: int | None = None, tokens: int | None = None, cost: float | None = None
    ) -> None:
        if calls is None and tokens is None and cost is None:
            raise SettingError("a budget caps something: give calls, tokens or cost")
        for name, cap in (("calls", calls), ("tokens", tokens), ("cost", cost)):
            if cap is not None and not (isinstance(cap, Real) and cap >= 0):
                raise SettingError(f"a budget of {cap} {name} cannot be kept; give 0 or more")
        self.calls: int | None = calls
        self.tokens: int | None = tokens
        self.cost: float | None = cost
        self.spent_calls: int = 0
        self.spent_tokens: int = 0
        self.spent_cost: float = 0.0
        self._holds, self._held_tokens, self._held_cost = 0, 0, 0.0
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
        """What is capped, by name: calls, tokens and cost."""
        return {"calls": self.calls, "tokens": self.tokens, "cost": self.cost}

    @asynccontextmanager
    async def call(self, tokens: int, cost: float) -> AsyncIterator[Hold]:
        """Put aside what one request may use at most; set the hold to what it did use.

        Raises:
            BudgetError: it does not fit. No request may be sent.
        """
        while not self.take(tokens, cost):
            await asyncio.sleep(_WAIT_S)
        hold = Hold(tokens, cost)
        try:
            yield hold
        finally:
            self.settle(tokens, cost, hold)

    def settle(self, tokens: int, cost: float, hold: Hold) -> None:
        """A call is over for which so many ``tokens`` and ``cost`` were put aside, and used
        what the ``hold`` says."""
        with self._lock:
            self._add(-1, -tokens, -cost)
            self.spent_tokens += hold.tokens
            self.spent_cost += hold.cost

    def take(self, tokens: int, cost: float) -> bool:
        """Whether so many ``tokens`` and ``cost`` were put aside now, for a call; ``False`` if they
        may fit once other calls are over.

        Raises:
            BudgetError: they do not fit. No request may be sent.
        """
        with self._lock:
            if self.calls is not None and self.spent_calls >= self.calls:
                raise BudgetError(f"not asked: the budget of {self.calls} calls is spent")
            for name, cap, spent, held, wanted in (
                ("tokens", self.tokens, self.spent_tokens, self._held_tokens, tokens),
                ("cost", self.cost, self.spent_cost, self._held_cost, cost),
            ):
                if cap is None or spent + held + wanted <= cap:
                    continue
                if self._holds and spent + wanted <= cap:
                    return False
                raise BudgetError(
                    f"not asked: of the budget of {cap:.6g} {name}, {spent:.6g} are spent, and "
                    f"this call may need {wanted:.6g}"
                )
            self._add(1, tokens, cost)
            self.spent_calls += 1
            return True

    def _add(self, holds: int, tokens: int, cost: float) -> None:
        self._holds += holds
        self._held_tokens += tokens
        # Sums of floats keep a trace of what was taken away again.
        self._held_cost = self._held_cost + cost if self._holds else 0.0
