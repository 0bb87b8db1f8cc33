"""Answers from endpoints: a chat-completions server, or an HTTP service of the user's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from copy import copy
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mirage.dataset import MirageDataset
from mirage.errors import GenerationError, LLMError, SettingError
from mirage.generation.base import answered, run_concurrently
from mirage.generation.prompts import ANSWER_TOKENS, PromptMaker, RagPrompt, prompt_for
from mirage.generation.replies import Reply
from mirage.llm import LLM
from mirage.llm.endpoints import checked_url, tls
from mirage.llm.limits import MOST_BYTES, PACKING, limited
from mirage.llm.retries import Reach, Retries, TransientError, decoded, transient_status
from mirage.llm.secrets import Secrets
from mirage.models import Query, Response, Run

if TYPE_CHECKING:
    from httpx import AsyncClient
    from httpx import Response as Answer

__all__ = ["HTTPGenerator", "OpenAIGenerator"]


# Chat completions ---------------------------------------------------------------------------------


class OpenAIGenerator:
    """Answers by OpenAI's models, or those of any server that speaks their protocol.

    ``OpenAIGenerator("gpt-4o-mini").run(dataset)`` asks OpenAI;
    ``OpenAIGenerator("my-model", base_url="http://localhost:8000/v1")`` a server of one's own.

    Args:
        llm: the LLM, or its model's name.
        name: what the run calls the model, by default what the endpoint calls it.
        prompt: from a query to its prompt; by default a :class:`RagPrompt` that leaves room for
            the LLM's ``max_tokens``.
        settings: with a model's name, anything that :class:`~mirage.LLM` takes.

    A query fails where the LLM gives no answer after its retries, and where the LLM's budget does
    not allow the call. ``run`` raises :class:`~mirage.errors.LLMError` where there is no key.

    Raises:
        SettingError: settings beside an LLM, which has its own.
    """

    def __init__(
        self,
        llm: LLM | str,
        *,
        name: str | None = None,
        prompt: PromptMaker | None = None,
        **settings: Any,
    ) -> None:
        if isinstance(llm, LLM) and settings:
            raise SettingError(f"{llm} has its settings: {', '.join(settings)} go to LLM(...)")
        self.llm: LLM = llm if isinstance(llm, LLM) else LLM(llm, **settings)
        self.name: str = name or self.llm.model
        self.prompt: PromptMaker = prompt or RagPrompt(
            answer_tokens=self.llm.max_tokens or ANSWER_TOKENS
        )
        self._sample = 0

    def again(self, number: int) -> OpenAIGenerator:
        """The generator that asks for the ``number``-th answer, where the cache has others."""
        other = copy(self)
        other._sample = number
        return other

    def __repr__(self) -> str:
        return f"OpenAIGenerator({self.llm}, name={self.name!r})"

    def run(
        self, dataset: MirageDataset, *, out: str | Path | None = None, progress: bool = True
    ) -> Run:
        """As :meth:`mirage.Generator.run`."""
        connect = partial(self._connect, prompt_for(dataset, self.prompt))
        return run_concurrently(self.name, dataset, connect, self.llm.concurrency, out, progress)

    @asynccontextmanager
    async def _connect(
        self, make_prompt: PromptMaker
    ) -> AsyncIterator[Callable[[Query], Awaitable[Response]]]:
        async with self.llm.connect() as connection:

            async def answer(query: Query) -> Response:
                prompt = make_prompt(query)
                completion = await connection.ask(prompt.messages, sample=self._sample)
                return answered(query, completion.text, prompt.shown)

            yield answer


# A service of the user's own ----------------------------------------------------------------------


def _question(query: Query) -> dict[str, Any]:
    return {
        "query": query.text,
        "language": query.language,
        "passages": [passage.model_dump(exclude={"document"}) for passage in query.passages],
    }


class HTTPGenerator:
    """Answers by a service that takes JSON and gives JSON, such as a RAG system of one's own.

    Args:
        url: the address that is asked, without a password and without a query.
        request: from a query to the JSON to send; by default ``{"query": ..., "language": ...,
            "passages": [{"id": ..., "text": ..., "title": ...}, ...]}``.
        response: from the JSON that comes to the text: a function, or the keys that lead there,
            with dots between and numbers for places in a list (``choices.0.message.content``). A
            function may also return a tuple ``(text, passages)`` with the passages that the
            service answered from.
        method: the HTTP method.
        headers: headers to send; their values are kept out of errors and logs.
        name: what the run calls the model, by default the host.
        concurrency: requests under way at a time.

    ``timeout``, ``total_timeout``, ``retries``, ``backoff`` and ``max_bytes`` are as in
    :class:`mirage.LLM`. JSON without the text is final.

    Raises:
        SettingError: a setting that makes no sense, or an address with a password or a query.
    """

    def __init__(
        self,
        url: str,
        *,
        request: Callable[[Query], Any] = _question,
        response: Callable[[Any], Reply] | str = "answer",
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        name: str | None = None,
        concurrency: int = 8,
        timeout: float = 120.0,
        total_timeout: float = 900.0,
        retries: int = 5,
        backoff: float = 1.0,
        max_bytes: int = MOST_BYTES,
    ) -> None:
        if concurrency < 1 or retries < 0 or timeout <= 0 or total_timeout <= 0 or backoff < 0:
            raise SettingError(
                "concurrency is 1 or more, retries and backoff 0 or more, timeouts above 0 s"
            )
        self.url: str = checked_url(url)
        self.name: str = name or urlsplit(url).netloc
        self.concurrency = concurrency
        self._request = request
        self._response = response if callable(response) else _at(response)
        self._method = method
        self._secrets = Secrets(None, headers or {})
        self._retries = Retries(retries, backoff, timeout, total_timeout)
        self._limit = limited(max_bytes)

    def __repr__(self) -> str:
        return f"HTTPGenerator({self.url!r}, name={self.name!r})"

    def run(
        self, dataset: MirageDataset, *, out: str | Path | None = None, progress: bool = True
    ) -> Run:
        """As :meth:`mirage.Generator.run`."""
        return run_concurrently(self.name, dataset, self._connect, self.concurrency, out, progress)

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[Callable[[Query], Awaitable[Response]]]:
        import httpx

        own = {k: value.get_secret_value() for k, value in self._secrets.headers.items()}
        limits = httpx.Limits(max_connections=self.concurrency)
        # One request's time is limited as a whole: httpx's own timeouts are for one read each.
        trusted = tls(httpx.AsyncClient)
        client = httpx.AsyncClient(
            headers=PACKING | own,
            timeout=None,
            limits=limits,
            verify=trusted,
            event_hooks={"response": [self._limit]},
        )
        reach = Reach()
        with self._secrets.out_of_logs():
            async with client:

                async def answer(query: Query) -> Response:
                    reply = await self._reply(client, self._request(query), reach)
                    try:
                        return answered(query, reply)
                    except GenerationError as error:
                        reason = self._secrets.excerpt(str(error))
                    raise GenerationError(f"{self.url}: {reason}")  # its cause may hold secrets

                yield answer

    async def _reply(self, client: AsyncClient, body: Any, reach: Reach) -> Reply:
        """Send a request and return the text of the answer, or what ``response`` makes of it.

        Raises:
            GenerationError: there was none; says why, and after how many attempts.
        """
        try:
            content = await self._retries.call(
                lambda seconds: self._attempt(client, body, seconds), reach
            )
            return self._read(content)
        except (TransientError, GenerationError) as error:
            reason = str(error)
        # Raised here, and not where others are caught: those hold the request, with its headers.
        raise GenerationError(f"{self.url}: {reason}")

    async def _attempt(self, client: AsyncClient, body: Any, seconds: float) -> Any:
        """Send a request once; the JSON that came."""
        import httpx

        try:
            async with asyncio.timeout(seconds):
                answer = await client.request(self._method, self.url, json=body)
        except TimeoutError:
            raise TransientError(f"no complete answer within {seconds:.3g} s") from None
        except LLMError as error:  # it is too long
            raise GenerationError(str(error)) from None
        except httpx.RequestError as error:
            reason = self._secrets.excerpt(f"{type(error).__name__}: {error}".removesuffix(": "))
            raise TransientError(
                f"no connection, or it was lost ({reason})",
                unreached=isinstance(error, httpx.ConnectError),
            ) from None
        if not answer.is_success:
            raise self._status_error(answer)
        return decoded(answer.content)

    def _status_error(self, answer: Answer) -> TransientError | GenerationError:
        status = answer.status_code
        reason = f"HTTP {status}: {self._secrets.excerpt(answer.text)}".removesuffix(": ")
        if fault := transient_status(status, reason, answer.headers):
            return fault
        if answer.is_redirect:
            moved = self._secrets.excerpt(answer.headers.get("location", ""))
            reason += f": moved to {moved}; give that address"
        return GenerationError(reason)

    def _read(self, content: Any) -> Reply:
        """Return what ``response`` makes of the JSON that came."""
        try:
            reply: Reply = self._response(content)
        except Exception as error:
            why = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise GenerationError(
                f"the answer has no text where it should ({self._secrets.excerpt(why)}): "
                f"{self._secrets.excerpt(content)}"
            ) from None
        if not isinstance(reply, str | tuple | Response):
            raise GenerationError(
                f"the answer has {type(reply).__name__} for text: {self._secrets.excerpt(content)}"
            )
        return reply


def _at(path: str) -> Callable[[Any], Any]:
    """A function that follows keys into JSON."""

    def inside(content: Any, key: str) -> Any:
        return content[int(key)] if isinstance(content, list) else content[key]

    return lambda content: reduce(inside, path.split("."), content)
