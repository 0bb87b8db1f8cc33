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

__all__ = ["Retries", "TransientError", "decoded", "transient_status"]

T = TypeVar("T")


class TransientError(Exception):
    """A fault that may pass, such as a timeout; ``retry_after`` is in seconds, if one was named."""

    def __init__(
        self, reason: str, *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(reason)
        self.status, self.retry_after = status, retry_after


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
    """

    most: int
    backoff_s: float
    attempt_s: float
    total_s: float

    async def call(self, attempt: Callable[[float], Awaitable[T]]) -> T:
        """The result of the first attempt that does not end in a :class:`TransientError`.

        ``attempt`` is given the seconds that it may take.

        Raises:
            TransientError: the last one, saying after how many attempts, and why no more.
        """
        from tenacity import (
            AsyncRetrying,
            retry_if_exception_type,
            stop_after_attempt,
            stop_before_delay,
        )

        retrying = AsyncRetrying(
            retry=retry_if_exception_type(TransientError),
            stop=stop_after_attempt(self.most + 1) | stop_before_delay(self.total_s),
            wait=self._wait,
            reraise=True,
        )
        end = time.monotonic() + self.total_s
        made = 0

        async def once() -> T:
            nonlocal made
            made += 1
            return await attempt(max(0.0, min(self.attempt_s, end - time.monotonic())))

        try:
            return await retrying(once)
        except TransientError as error:
            raise self._last(error, made) from None

    def _wait(self, state: RetryCallState) -> float:
        error = state.outcome and state.outcome.exception()
        if isinstance(error, TransientError) and error.retry_after is not None:
            return error.retry_after + random.uniform(0, self.backoff_s)
        return random.uniform(0, min(60.0, self.backoff_s * 2.0 ** (state.attempt_number - 1)))

    def _last(self, error: TransientError, made: int) -> TransientError:
        count = "1 attempt" if made == 1 else f"{made} attempts"
        why = "" if made > self.most else f", and {self.total_s:g} s allow no more"
        if why and error.retry_after is not None:
            why += f" (the server asks to wait {error.retry_after:.0f} s)"
        return TransientError(f"{error}; {count}{why}", status=error.status)
