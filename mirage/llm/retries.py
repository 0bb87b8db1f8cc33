"""Asking again after faults that pass, and only after those."""

from __future__ import annotations

import email.utils
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tenacity import RetryCallState

__all__ = ["Reach", "Retries", "TransientError", "decoded", "transient_status"]

T = TypeVar("T")

_UNREACHED = 2  # retries of a call to an endpoint that nobody has reached


class TransientError(Exception):
    """A fault that may pass, such as a timeout.

    ``retry_after`` is in seconds, if a server named a time; ``unreached`` says that there was no
    connection to one, ``lost`` that there was none, or that it broke off.
    """

    def __init__(
        self,
        reason: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        unreached: bool = False,
        lost: bool = False,
    ) -> None:
        super().__init__(reason)
        self.status: int | None = status
        self.retry_after: float | None = retry_after
        self.unreached: bool = unreached
        self.lost: bool = lost or unreached


@dataclass
class Reach:
    """What calls to one endpoint know of each other: whether one reached it, or it was given up."""

    reached: bool = False
    given_up: str = ""


def transient_status(status: int, reason: str, headers: Mapping[str, str]) -> TransientError | None:
    """The fault behind an HTTP status after which a request may succeed later; else ``None``."""
    if status not in (408, 409, 429) and status < 500:
        return None
    return TransientError(reason, status=status, retry_after=_retry_after(headers))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a response asks to wait, in any of the forms of ``Retry-After``."""
    value = headers.get("retry-after", "")
    forms: tuple[Callable[[], float], ...] = (
        lambda: float(headers["retry-after-ms"]) / 1000,
        lambda: float(value),
        lambda: email.utils.parsedate_to_datetime(value).timestamp() - time.time(),
    )
    for seconds in forms:
        # Other types than ValueError: a date beyond the years of datetime, or of the platform.
        with suppress(KeyError, ValueError, TypeError, OverflowError, OSError):
            return max(0.0, seconds())
    return None


def decoded(content: bytes) -> Any:
    """The JSON that a server sent; none, or half of it, is a :class:`TransientError`."""
    try:
        return json.loads(content.decode())
    except (ValueError, RecursionError) as error:  # ValueError: also a number of 5,000 digits
        raise TransientError(f"the answer is not JSON in UTF-8 ({error})") from None


@dataclass(frozen=True)
class Retries:
    """When to ask again, and when to give up.

    ``attempt_s`` is the time that one attempt may take, ``total_s`` that of all of them with the
    waits between. The n-th wait is random between 0 and ``backoff_s * 2 ** (n - 1)``, at most a
    minute ("full jitter": Brooker 2015, Exponential Backoff And Jitter); a server that names a
    time is given that time, and up to ``backoff_s`` more.

    An endpoint that no call has reached is not there: then two retries are the most, and once they
    are over no other call is sent (a circuit breaker: Nygard 2018, Release It!, 2nd ed.).
    """

    most: int
    backoff_s: float
    attempt_s: float
    total_s: float

    async def call(self, attempt: Callable[[float], Awaitable[T]], reach: Reach) -> T:
        """The result of the first attempt that does not end in a :class:`TransientError`.

        ``attempt`` is given the seconds that it may take; ``reach`` is shared by all calls.

        Raises:
            TransientError: the last one, saying after how many attempts, and why no more.
        """
        from tenacity import (
            AsyncRetrying,
            retry_if_exception_type,
            stop_after_attempt,
            stop_before_delay,
        )

        if reach.given_up:
            raise TransientError(
                f"not asked, for no call has reached the endpoint: {reach.given_up}", unreached=True
            )

        def is_not_there(state: RetryCallState) -> bool:
            return not reach.reached and (
                bool(reach.given_up) or state.attempt_number > min(self.most, _UNREACHED)
            )

        is_enough = stop_after_attempt(self.most + 1) | stop_before_delay(self.total_s)
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(TransientError),
            stop=lambda state: is_enough(state) or is_not_there(state),
            wait=self._wait,
            reraise=True,
        )
        end = time.monotonic() + self.total_s
        made = 0

        async def once() -> T:
            nonlocal made
            made += 1
            try:
                result = await attempt(max(0.0, min(self.attempt_s, end - time.monotonic())))
            except Exception as error:
                reach.reached |= not getattr(error, "unreached", False)
                raise
            reach.reached = True
            return result

        try:
            return await retrying(once)
        except TransientError as error:
            if not reach.reached:
                reach.given_up = reach.given_up or str(error)
            raise self._last(error, made, reach) from None

    def _wait(self, state: RetryCallState) -> float:
        error = state.outcome and state.outcome.exception()
        if isinstance(error, TransientError) and error.retry_after is not None:
            return error.retry_after + random.uniform(0, self.backoff_s)
        return random.uniform(0, min(60.0, self.backoff_s * 2.0 ** (state.attempt_number - 1)))

    def _last(self, error: TransientError, made: int, reach: Reach) -> TransientError:
        count = "1 attempt" if made == 1 else f"{made} attempts"
        over = made > self.most or not reach.reached
        why = "" if over else f", and {self.total_s:g} s allow no more"
        if why and error.retry_after is not None:
            why += f" (the server asks to wait {error.retry_after:.0f} s)"
        return TransientError(
            f"{error}; {count}{why}", status=error.status, unreached=error.unreached
        )
