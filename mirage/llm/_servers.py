"""Load balancing and failover between several servers of one model."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mirage._base.logs import logger
from mirage.llm.retries import TransientError

T = TypeVar("T")

_LOG = logger("mirage.llm")
_PAUSE_S = 10.0  # how long a server that failed gets no requests, if another server is available
_GONE = (502, 503, 504)  # statuses that a proxy sends if the server behind it is down


@dataclass(eq=False)
class Server:
    """One server of a model.

    Attributes:
        url: The address of the server.
        client: The HTTP client that sends requests to it.
        under_way: The number of requests that were sent but not yet answered.
        sent: The number of requests sent so far.
        paused_until: The time (:func:`time.monotonic`) until which other servers are preferred.
    """

    url: str
    client: Any
    under_way: int = 0
    sent: int = 0
    paused_until: float = 0.0


async def ask_in_turn(servers: Sequence[Server], ask: Callable[[Server], Awaitable[T]]) -> T:
    """Send a request to the server with the fewest requests under way, and return its answer.

    ``ask`` is an async function that sends the request to a server and returns the answer. If a
    server cannot be reached or the connection breaks, the request goes to the next server, and the
    failed server is avoided for ten seconds. If all servers are being avoided, the request goes to
    the one that becomes available first.

    Raises:
        TransientError: If no server is available, or a server answers with another transient fault,
            such as HTTP status 429.
    """
    tried: list[Server] = []
    while True:
        server = _least_busy(servers, tried)
        tried.append(server)
        server.under_way += 1
        server.sent += 1
        try:
            answer = await ask(server)
        except TransientError as error:
            if len(servers) == 1 or not (error.lost or error.status in _GONE):
                raise
            _pause(server, error)
            if len(tried) == len(servers):
                raise
        else:
            return answer
        finally:
            server.under_way -= 1


def _least_busy(servers: Sequence[Server], tried: Collection[Server]) -> Server:
    now = time.monotonic()
    rest = [server for server in servers if server not in tried]
    return min(rest, key=lambda s: (max(s.paused_until - now, 0), s.under_way, s.sent))


def _pause(server: Server, error: TransientError) -> None:
    now = time.monotonic()
    if server.paused_until < now:
        _LOG.warning(
            "the server %s is not available (%s); requests are sent to the other servers for %g s",
            server.url,
            error,
            _PAUSE_S,
        )
    server.paused_until = now + _PAUSE_S
