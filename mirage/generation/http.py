"""Generators that call a chat-completions endpoint or an HTTP service of the user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from copy import copy
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mirage._base.settings import check_number
from mirage.dataset import MirageDataset
from mirage.errors import GenerationError, LLMError, SettingError
from mirage.generation._fingerprints import prompt_digest
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

# Chat completions ---------------------------------------------------------------------------------


class OpenAIGenerator:
    """A generator that asks a model of OpenAI, or of any OpenAI-compatible server.

    ``OpenAIGenerator("gpt-4o-mini").run(dataset)`` asks OpenAI, and
    ``OpenAIGenerator("my-model", base_url="http://localhost:8000/v1")`` asks another server.

    A query counts as failed if the LLM gives no answer after its retries, or if the LLM's budget
    does not allow the call. ``run`` raises :class:`~mirage.errors.LLMError` if there is no API key.

    Args:
        llm: The LLM, or the name of a model.
        name: The name of the model in the run; by default the name of the LLM.
        prompt: A function that returns the prompt for a query. The default is a :class:`RagPrompt`
            that reserves the LLM's ``max_tokens`` for the answer.
        settings: Further arguments of :class:`~mirage.LLM`, if ``llm`` is a name.

    Raises:
        SettingError: If ``settings`` are passed together with an LLM.

    Example:
        >>> OpenAIGenerator("my-model", base_url="http://localhost:8000/v1", cache=False)
        OpenAIGenerator(LLM('my-model', endpoint='http://localhost:8000/v1'), name='my-model')
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
            raise SettingError(
                f"{llm} is an LLM object, whose settings cannot be changed here; pass "
                f"{', '.join(settings)} to LLM(...) instead"
            )
        self.llm: LLM = llm if isinstance(llm, LLM) else LLM(llm, **settings)
        self.name: str = name or self.llm.model
        self.prompt: PromptMaker = prompt or RagPrompt(
            answer_tokens=self.llm.max_tokens or ANSWER_TOKENS
        )
        self._sample = 0

    def again(self, number: int) -> OpenAIGenerator:
        """Return a copy of this generator for repeat ``number`` of a run, counted from 0.

        The answers of each repeat are cached separately.
        """
        repeat = copy(self)
        repeat._sample = number
        return repeat

    def __repr__(self) -> str:
        return f"OpenAIGenerator({self.llm}, name={self.name!r})"

    def run(
        self, dataset: MirageDataset, *, out: str | Path | None = None, progress: bool = True
    ) -> Run:
        """Return a run with one response to each query of the dataset.

        Args:
            dataset: The queries.
            out: The file to which responses are appended, and from which a killed run resumes; see
                :meth:`mirage.Generator.run`.
            progress: Whether to show a progress bar on stderr, if stderr is a terminal.
        """
        connect = partial(self._connect, prompt_for(dataset, self.prompt))
        return run_concurrently(
            self.name,
            dataset,
            connect,
            self.llm.concurrency,
            out,
            progress,
            self._answer_settings,
        )

    def _answer_settings(self, dataset: MirageDataset) -> dict[str, Any]:
        """Return the settings on which the answers to a dataset depend."""
        prompt = prompt_digest(prompt_for(dataset, self.prompt), dataset.language)
        parameters = {"server": self.llm.endpoint, **self.llm.parameters}
        return {"model": self.llm.model, **parameters, "prompt": prompt}

    @asynccontextmanager
    async def _connect(
        self, make_prompt: PromptMaker
    ) -> AsyncIterator[Callable[[Query], Awaitable[Response]]]:
        async with self.llm.connect() as connection:

            async def answer(query: Query) -> Response:
                prompt = make_prompt(query)
                completion = await connection.ask(prompt.messages, sample=self._sample)
                return answered(
                    query,
                    completion.text,
                    prompt.shown,
                    completion.reasoning,
                    cut_off=completion.finish_reason == "length",
                )

            yield answer


# A service of the user's own ----------------------------------------------------------------------


def _question(query: Query) -> dict[str, Any]:
    return {
        "query": query.text,
        "language": query.language,
        "passages": [passage.model_dump(exclude={"document"}) for passage in query.passages],
    }


class HTTPGenerator:
    """A generator that asks a JSON service, such as the user's RAG system.

    Requests are retried after transient faults: timeouts, lost connections, malformed JSON, and
    HTTP statuses 408, 409, 429 and 5xx. If the JSON has no text in the expected place, the request
    is not retried.

    Args:
        url: The address of the service, without a password or a query string.
        request: A function that returns the JSON to send for a query. By default ``{"query": ...,
            "language": ..., "passages": [{"id": ..., "text": ..., "title": ...}, ...]}``.
        response: Either a function that returns the text in the received JSON, or the path of this
            text: keys and list positions, separated by dots (``choices.0.message.content``). A
            function may also return a tuple ``(text, passages)`` with the passages that the service
            used.
        method: The HTTP method.
        headers: HTTP headers. Their values never appear in errors or logs.
        name: The name of the model in the run; by default the host.
        concurrency: Maximum number of concurrent requests.
        timeout: Seconds that one request may take.
        total_timeout: Seconds that a request may take with all of its retries.
        retries: Maximum number of retries of a request.
        backoff: Maximum wait before the first retry, in seconds; the limit doubles with each
            further retry. If requests in a row fail with the same status 5xx and none has
            succeeded, those after the first 8 are tried once, and after 32 no more are sent.
        max_bytes: Maximum size of a response, in bytes after decompression. If a response is
            longer, the query fails without a retry.

    Raises:
        SettingError: If a setting is not valid, or the address contains a password or a query
            string.

    Example:
        >>> HTTPGenerator("http://localhost:5000/answer", response="result.text")
        HTTPGenerator('http://localhost:5000/answer', name='localhost:5000')
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
        check_number("concurrency", concurrency, 1, whole=True)
        self.url: str = checked_url(url)
        self.name: str = name or urlsplit(url).netloc
        self.concurrency = concurrency
        self._request = request
        self._response = response if callable(response) else _follow_path(response)
        self._path = None if callable(response) else response
        self._method = method
        self._secrets = Secrets(None, headers or {})
        self._retries = Retries(retries, backoff, timeout, total_timeout)
        self._limit = limited(max_bytes)

    def __repr__(self) -> str:
        return f"HTTPGenerator({self.url!r}, name={self.name!r})"

    def run(
        self, dataset: MirageDataset, *, out: str | Path | None = None, progress: bool = True
    ) -> Run:
        """Return a run with one response to each query of the dataset.

        Args:
            dataset: The queries.
            out: The file to which responses are appended, and from which a killed run resumes; see
                :meth:`mirage.Generator.run`.
            progress: Whether to show a progress bar on stderr, if stderr is a terminal.
        """
        return run_concurrently(
            self.name,
            dataset,
            self._connect,
            self.concurrency,
            out,
            progress,
            self._answer_settings,
        )

    def _answer_settings(self, dataset: MirageDataset) -> dict[str, Any]:
        """Return the settings on which the answers to a dataset depend."""
        request = prompt_digest(self._request, dataset.language)
        return {"service": self.url, "method": self._method, "answer": self._path} | {
            "prompt": request
        }

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[Callable[[Query], Awaitable[Response]]]:
        import httpx

        headers = {k: value.get_secret_value() for k, value in self._secrets.headers.items()}
        limits = httpx.Limits(max_connections=self.concurrency)
        # asyncio limits the time of the whole request; httpx's timeouts are for a single read.
        trusted = tls(httpx.AsyncClient)
        client = httpx.AsyncClient(
            headers=PACKING | headers,
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
                    # Raised outside of the except block, so that its cause leaks no secrets.
                    raise GenerationError(f"{self.url}: {reason}")

                yield answer

    async def _reply(self, client: AsyncClient, body: Any, reach: Reach) -> Reply:
        """Send a request with a JSON body, retry it if necessary, and extract the reply."""
        try:
            content = await self._retries.call(
                lambda seconds: self._attempt(client, body, seconds), reach
            )
            return self._read(content)
        except (TransientError, GenerationError) as error:
            reason = str(error)
        # Raised outside of the except block, whose exception holds the request with its headers.
        raise GenerationError(f"{self.url}: {reason}")

    async def _attempt(self, client: AsyncClient, body: Any, seconds: float) -> Any:
        """Send a request once, with a timeout in seconds, and return the JSON of the answer."""
        import httpx

        try:
            async with asyncio.timeout(seconds):
                answer = await client.request(self._method, self.url, json=body)
        except TimeoutError:
            raise TransientError(f"no complete answer arrived within {seconds:.3g} s") from None
        except LLMError as error:  # the response is too long
            raise GenerationError(str(error)) from None
        except httpx.RequestError as error:
            reason = self._secrets.excerpt(f"{type(error).__name__}: {error}".removesuffix(": "))
            raise TransientError(
                f"the connection to the service failed or was lost ({reason})",
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
            reason += f": the service has moved to {moved}; pass this address as url"
        return GenerationError(reason)

    def _read(self, content: Any) -> Reply:
        """Extract the text, or the text with passages, from the JSON of an answer."""
        try:
            reply: Reply = self._response(content)
        except Exception as error:
            why = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise GenerationError(
                "the text cannot be extracted from the service's reply "
                f"({self._secrets.excerpt(why)}): "
                f"{self._secrets.excerpt(content)}"
            ) from None
        if not isinstance(reply, str | tuple | Response):
            raise GenerationError(
                f"the text in the service's reply is of type {type(reply).__name__}, not str: "
                f"{self._secrets.excerpt(content)}"
            )
        return reply


def _follow_path(path: str) -> Callable[[Any], Any]:
    """Return a function that returns the value at a path of keys and list positions in JSON."""

    def step(content: Any, key: str) -> Any:
        return content[int(key)] if isinstance(content, list) else content[key]

    return lambda content: reduce(step, path.split("."), content)
