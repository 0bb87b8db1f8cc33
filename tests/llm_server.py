"""A real HTTP server on loopback for chat completions, which can produce faults."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import uvicorn

Messages = list[dict[str, str]]


@dataclass(frozen=True)
class Reply:
    """The reply of the server to one request.

    ``text`` is the answer's content, ``finish_reason`` why it ended; ``body`` replaces the whole
    body instead. ``delay`` is in seconds before the first byte, ``drip`` in seconds between bytes;
    before that, it waits until ``when()`` is true. ``cut`` closes the connection after half of the
    body.
    """

    text: str | None = "ok"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    finish_reason: str = "stop"
    message: Mapping[str, Any] = field(default_factory=dict)
    usage: bool = True
    when: Callable[[], bool] = lambda: True
    delay: float = 0.0
    drip: float = 0.0
    cut: bool = False

    def content(self, request: Mapping[str, Any]) -> bytes:
        if self.body is not None:
            return self.body
        if self.status != 200:
            error = {"message": self.text, "type": "test", "code": None}
            return json.dumps({"error": error}).encode()
        message = {"role": "assistant", "content": self.text, **self.message}
        prompt = sum(len(m["content"].split()) for m in request["messages"])
        answer: dict[str, Any] = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": self.finish_reason}],
        }
        if self.usage:
            written = len((self.text or "").split())
            answer["usage"] = {
                "prompt_tokens": prompt,
                "completion_tokens": written,
                "total_tokens": prompt + written,
            }
        return json.dumps(answer).encode()


Answer = Callable[[Mapping[str, Any]], Reply | str]


class ChatServer:
    """A server of ``POST .../chat/completions`` (``with ChatServer(answer) as server``).

    ``answer`` maps the request's JSON to a :class:`Reply`, or to the text of one; it can change
    at any time. Requests to other paths are passed to ``answer`` too, so the server can play other
    JSON services. With a ``certificate`` (a file with its key), the server uses https.

    For every request, in the order of arrival, ``requests`` has its JSON, ``paths`` its path,
    ``queries`` its query string, ``headers`` its headers, ``times`` its time (``time.monotonic()``)
    and ``clients`` its connection. ``at_once`` is the highest number of concurrent requests.
    """

    def __init__(self, answer: Answer = lambda _: "ok", certificate: Path | None = None) -> None:
        self.answer = answer
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.queries: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.clients: set[tuple[str, int]] = set()
        self.at_once = self._under_way = 0
        # With the protocol named, asyncio sends each part of an answer at once (TCP_NODELAY).
        self._socket = socket.socket(proto=socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            self._app,
            interface="asgi3",
            # The default would close the handlers of other packages, one of which (absl's) closes
            # the standard error that it found, pytest's own.
            log_config=None,
            log_level="critical",
            lifespan="off",
            ssl_certfile=certificate,
        )
        self._scheme = "http" if certificate is None else "https"
        self._server = _Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )

    @property
    def root(self) -> str:
        """The server's address."""
        return f"{self._scheme}://127.0.0.1:{self._socket.getsockname()[1]}"

    @property
    def url(self) -> str:
        """The base_url of the endpoint."""
        return f"{self.root}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    async def _app(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            event = await receive()
            body, more = body + event.get("body", b""), event.get("more_body", False)
        request = json.loads(body or b"{}")
        self.requests.append(request)
        self.paths.append(scope["path"])
        self.queries.append(scope["query_string"].decode())
        self.headers.append({k.decode(): v.decode() for k, v in scope["headers"]})
        self.times.append(time.monotonic())
        self.clients.add(tuple(scope["client"]))
        self._under_way += 1
        self.at_once = max(self.at_once, self._under_way)
        replying = asyncio.ensure_future(self._reply(request, send))
        leaving = asyncio.ensure_future(receive())  # a client that waits no longer
        await asyncio.wait((replying, leaving), return_when=asyncio.FIRST_COMPLETED)
        self._under_way -= 1
        leaving.cancel()
        if not replying.cancel():
            replying.result()  # what went wrong in ``answer``

    async def _reply(self, request: Mapping[str, Any], send: Any) -> None:
        reply = self.answer(request)
        reply = Reply(reply) if isinstance(reply, str) else reply
        while not reply.when():
            await asyncio.sleep(0.02)
        await asyncio.sleep(reply.delay)
        content = reply.content(request)
        headers = {"content-type": "application/json", "content-length": str(len(content))}
        headers |= reply.headers
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": reply.status, "headers": raw})
        if reply.cut:
            half = content[: len(content) // 2]
            await send({"type": "http.response.body", "body": half, "more_body": True})
            return  # uvicorn closes a connection whose response is not complete
        if reply.drip:
            for byte in content[:-1]:
                part = bytes([byte])
                await send({"type": "http.response.body", "body": part, "more_body": True})
                await asyncio.sleep(reply.drip)
            content = content[-1:]
        await send({"type": "http.response.body", "body": content})


class _Server(uvicorn.Server):
    """Uvicorn that stops at once: without its pauses of 0.1 s, and without waiting for answers."""

    async def main_loop(self) -> None:
        while not self.should_exit:
            await asyncio.sleep(0.01)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for listening in sockets or ():
            listening.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        while self.server_state.tasks:
            await asyncio.sleep(0.001)


def last_user_text(request: Mapping[str, Any]) -> str:
    """Return the text of the last message of a request."""
    return str(request["messages"][-1]["content"])
