"""Several servers behind one name: which is asked next, and which is left alone for a while."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mirage._base.logs import logger
from mirage.llm.retries import TransientError

__all__ = ["Server", "asked_in_turn"]

T = TypeVar("T")

_LOG = logger("mirage.llm")
_ASIDE_S = 10.0  # for which a server that is gone is left alone
_GONE = (502, 503, 504)  # what stands in front of a server says so where it is not there


@dataclass(eq=False)
class Server:
    """One of several: its address, what asks it, and what is known of it."""

    url: str
    client: Any
    under_way: int = 0
    asked: int = 0
    aside_until: float = 0.0


async def asked_in_turn(servers: Sequence[Server], ask: Callable[[Server], Awaitable[T]]) -> T:
    """What the server with the fewest requests under way answers.

    One that cannot be reached, or breaks off, is left alone for ten seconds, and the request goes
    to the next; where all are left alone, they are asked all the same.

    Raises:
        TransientError: as ``ask`` raises it; the last one, where all are gone.
    """
    tried: list[Server] = []
    while True:
        server = _next(servers, tried)
        tried.append(server)
        server.under_way += 1
        server.asked += 1
        try:
            answer = await ask(server)
        except TransientError as error:
            if len(servers) == 1 or not (error.lost or error.status in _GONE):
                raise
            _set_aside(server, error)
            if len(tried) == len(servers):
                raise
        else:
            return answer
        finally:
            server.under_way -= 1


def _next(servers: Sequence[Server], tried: Collection[Server]) -> Server:
    now = time.monotonic()
    rest = [server for server in servers if server not in tried]
    return min(rest, key=lambda s: (max(s.aside_until - now, 0), s.under_way, s.asked))


def _set_aside(server: Server, error: TransientError) -> None:
    now = time.monotonic()
    if server.aside_until < now:
        _LOG.warning(
            "%s is gone (%s); its requests go to others for %g s", server.url, error, _ASIDE_S
        )
    server.aside_until = now + _ASIDE_S
