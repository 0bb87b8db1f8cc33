"""Retries after transient faults, with exponential backoff and a circuit breaker."""

from __future__ import annotations

import email.utils
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from mirage._base.logs import logger
from mirage._base.settings import check_number

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")

_LOG = logger("mirage.llm")

_UNREACHED = 2  # most retries of a call if no call has ever reached the endpoint
# If no call has ever succeeded, and so many calls in a row failed with the same HTTP status, ...
_RETRIED_FAILURES = 8  # ... further calls are tried once.
_MOST_FAILURES = 32  # ... no further call is sent.
# Statuses that are not retried, and mean the same for all requests: a wrong key, no credit, a wrong
# address or model, and (if not transient) an exhausted quota.
_FINAL_STATUSES = (401, 402, 404, 405, 429)


class TransientError(Exception):
    """A fault after which a retry may succeed, such as a timeout.

    Attributes:
        status: HTTP status of the response; ``None`` if there was no response.
        retry_after: Seconds that the server asks to wait; ``None`` if it does not ask for a wait.
        unreached: Whether no connection to the server could be opened.
        lost: Whether the connection could not be opened, or was lost.
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
    """The state of an endpoint (reached, answering or given up), which all calls to it share.

    Attributes:
        reached: Whether a call has ever reached the endpoint.
        answered: Whether a call has ever succeeded.
        status: HTTP status of the last failed call, if it counts in ``failures``; else ``None``.
        failures: Number of calls in a row that failed with this status.
        given_up: The reason why no more calls are sent; empty as long as calls may be sent.
    """

    reached: bool = False
    answered: bool = False
    status: int | None = None
    failures: int = 0
    given_up: str = ""

    def retries(self, most: int) -> int:
        """Return how often a call may be retried, given the maximum of an endpoint that works."""
        if self.given_up or (not self.answered and self.failures >= _RETRIED_FAILURES):
            return 0
        return most if self.reached else min(most, _UNREACHED)

    def end_attempt(self, error: Exception | None) -> None:
        """Record the outcome of an attempt: an error, or ``None`` if it succeeded."""
        if not self.reached and not getattr(error, "unreached", False):
            self.reached, self.given_up = True, ""
        if error is None:
            self.answered, self.given_up = True, ""

    def fail(self, error: Exception) -> None:
        """Record that a call failed, and give the endpoint up if it seems to answer no call."""
        if not self.reached:
            self.given_up = self.given_up or f"no earlier call reached the endpoint: {error}"
            return
        status = _status_of_endpoint(error)
        if status != self.status:
            self.status, self.failures = status, 0
        self.failures += status is not None
        if self.answered or self.given_up or self.failures < _MOST_FAILURES:
            return
        failures = f"{self.failures} calls in a row failed with HTTP {status}, and none succeeded"
        self.given_up = f"{failures}: {error}"
        _LOG.warning("%s, so no more calls are sent on this connection", failures)


def _status_of_endpoint(error: Exception) -> int | None:
    """Return the HTTP status of an error that does not depend on the request, else ``None``."""
    status: int | None = getattr(error, "status", None)
    if status is None:
        return None
    if isinstance(error, TransientError):
        return status if status >= 500 else None
    return status if status in _FINAL_STATUSES else None


def transient_status(status: int, reason: str, headers: Mapping[str, str]) -> TransientError | None:
    """Return a ``TransientError`` if a retry may succeed after this HTTP status, else ``None``.

    ``reason`` is the message of the error. ``headers`` are those of the response, which may state
    when to retry.
    """
    if status not in (408, 409, 429) and status < 500:
        return None
    return TransientError(reason, status=status, retry_after=_retry_after(headers))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a response asks to wait, or ``None`` if it does not ask for a wait.

    All formats of ``Retry-After`` are read: seconds, a date, and milliseconds (``retry-after-ms``).
    """
    value = headers.get("retry-after", "")
    forms: tuple[Callable[[], float], ...] = (
        lambda: float(headers["retry-after-ms"]) / 1000,
        lambda: float(value),
        lambda: email.utils.parsedate_to_datetime(value).timestamp() - time.time(),
    )
    for seconds in forms:
        # Not only ValueError: a date may be beyond the range of datetime or of the platform.
        with suppress(KeyError, ValueError, TypeError, OverflowError, OSError):
            return max(0.0, seconds())
    return None


def decoded(content: bytes) -> Any:
    """Return the JSON value of a response body.

    Raises:
        TransientError: If the body is not JSON in UTF-8.
    """
    try:
        return json.loads(content.decode())
    except (ValueError, RecursionError) as error:  # ValueError: also for a number of 5,000 digits
        raise TransientError(f"the response is not JSON in UTF-8 ({error})") from None


@dataclass(frozen=True)
class Retries:
    """A policy that decides when to retry a call and when to stop.

    The n-th wait is random between 0 and ``backoff_s * 2 ** (n - 1)`` seconds, at most a minute
    ("full jitter": Brooker 2015, Exponential Backoff And Jitter). If the server requests a waiting
    time, the wait is that time plus up to ``backoff_s`` seconds.

    As long as no call has reached the endpoint, a call is retried twice at most. If these retries
    fail too, no further calls are sent (a circuit breaker: Nygard 2018, Release It!, 2nd ed.).
    The same applies if an endpoint answers every call with the same HTTP status, such as 500 or
    401: after 8 such calls in a row, calls are not retried, and after 32, no further calls are
    sent. Nothing is given up once a call has succeeded.

    Attributes:
        most: Maximum number of retries of a call.
        backoff_s: Maximum wait before the first retry, in seconds.
        attempt_s: Timeout of one attempt, in seconds.
        total_s: Timeout of a call with all its attempts and waits, in seconds.

    Raises:
        SettingError: If a value is not valid; the message names the argument of :class:`LLM`.
    """

    most: int
    backoff_s: float
    attempt_s: float
    total_s: float

    def __post_init__(self) -> None:
        check_number("retries", self.most, whole=True)
        check_number("backoff", self.backoff_s)
        check_number("timeout", self.attempt_s, above=True)
        check_number("total_timeout", self.total_s, above=True)

    async def call(self, attempt: Callable[[float], Awaitable[T]], reach: Reach) -> T:
        """Return the result of the first attempt that does not raise a :class:`TransientError`.

        Args:
            attempt: Async function that makes one attempt, given the seconds that it may take.
            reach: The state that all calls to the endpoint share.

        Raises:
            TransientError: If the last attempt failed; the message gives the number of attempts.
        """
        from tenacity import AsyncRetrying, retry_if_exception_type, stop_before_delay

        if reach.given_up:
            raise TransientError(
                f"the call was not sent, because {reach.given_up}",
                status=reach.status,
                unreached=not reach.reached,
            )
        is_late = stop_before_delay(self.total_s)
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(TransientError),
            stop=lambda state: state.attempt_number > reach.retries(self.most) or is_late(state),
            wait=self._wait,
            reraise=True,
        )
        end = time.monotonic() + self.total_s
        attempts = 0

        async def once() -> T:
            nonlocal attempts
            attempts += 1
            try:
                result = await attempt(max(0.0, min(self.attempt_s, end - time.monotonic())))
            except Exception as error:
                reach.end_attempt(error)
                raise
            reach.end_attempt(None)
            return result

        try:
            return await retrying(once)
        except TransientError as error:
            failure = self._final_error(error, attempts, reach)
        except Exception as error:
            reach.fail(error)
            raise
        reach.fail(failure)
        raise failure

    def _wait(self, state: RetryCallState) -> float:
        error = state.outcome and state.outcome.exception()
        if isinstance(error, TransientError) and error.retry_after is not None:
            return error.retry_after + random.uniform(0, self.backoff_s)
        return random.uniform(0, min(60.0, self.backoff_s * 2.0 ** (state.attempt_number - 1)))

    def _final_error(self, error: TransientError, attempts: int, reach: Reach) -> TransientError:
        count = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        over = attempts > reach.retries(self.most)
        why = "" if over else f", and the limit of {self.total_s:g} s allows no more"
        if why and error.retry_after is not None:
            why += f" (the server asks to wait {error.retry_after:.0f} s)"
        return TransientError(
            f"{error}; {count}{why}", status=error.status, unreached=error.unreached
        )
