"""LLMs that a function answers in this process, for tests of what is asked and read.

An answer takes a tenth of the time that it takes over a connection. Tests of the client, of its
faults and of servers use the real connection of :mod:`llm_server`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Self

import httpx
import openai
from llm_server import Answer, Reply

from mirage.llm import LLM


class DirectServer:
    """The part of :class:`~llm_server.ChatServer` that needs no connection.

    ``answer`` maps a request to a :class:`~llm_server.Reply`, or to the text of one. ``requests``
    and ``headers`` have what was sent, and ``at_once`` the highest number of concurrent requests.
    """

    url = "http://127.0.0.1:9/v1"

    def __init__(self, answer: Answer = lambda _: "ok") -> None:
        self.answer = answer
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.at_once = self._under_way = 0

    async def reply_to(self, request: Mapping[str, Any]) -> Reply:
        """Record a request, and return the reply to it when it is due."""
        self.requests.append(dict(request))
        self._under_way += 1
        self.at_once = max(self.at_once, self._under_way)
        try:
            reply = self.answer(request)
            reply = Reply(reply) if isinstance(reply, str) else reply
            if reply.drip:
                raise AssertionError("this reply needs a connection")
            while not reply.when():
                await asyncio.sleep(0.02)
            await asyncio.sleep(reply.delay)
            return reply
        finally:
            self._under_way -= 1


class DirectLLM(LLM):
    """An LLM whose requests a :class:`DirectServer` answers; all else is that of an LLM."""

    def __init__(self, model: str, server: DirectServer, **settings: Any) -> None:
        super().__init__(model, base_url=server.url, **settings)
        self._server = server

    def with_parameters(self, **parameters: Any) -> LLM:
        copy = super().with_parameters(**parameters)
        copy.__class__ = DirectLLM
        return copy

    def _client(self, address: str) -> Any:
        return _Client(self._server, address, self._sent_headers())


class _Client:
    """The client of openai, as far as an LLM uses it."""

    def __init__(self, server: DirectServer, address: str, headers: dict[str, Any]) -> None:
        self._server, self._address = server, address
        self.default_headers = headers

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def post(self, path: str, *, body: Any, **_: Any) -> Any:
        sent = {k.lower(): v for k, v in self.default_headers.items() if isinstance(v, str)}
        self._server.headers.append(sent)
        request = json.loads(json.dumps(body, ensure_ascii=False).encode())
        reply = await self._server.reply_to(request)
        sent_to: Any = httpx.Request("POST", self._address + path)
        if reply.cut:
            raise openai.APIConnectionError(request=sent_to)
        response: Any = httpx.Response(
            reply.status,
            headers=reply.headers,
            content=reply.content(request),
            request=sent_to,
        )
        if not response.is_success:
            error = response.json()["error"]
            raise openai.APIStatusError(response.text, response=response, body=error)
        return response
