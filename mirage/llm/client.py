"""A client for chat completions, embeddings and reranking at OpenAI-compatible endpoints."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import quote

from mirage._base.calls import note_request
from mirage._base.concurrency import run_sync
from mirage._base.near_names import NearNames
from mirage._base.settings import check_number
from mirage.errors import BudgetError, LLMError, SettingError, needing
from mirage.executors.base import driver_host
from mirage.llm._servers import Server, ask_in_turn
from mirage.llm._sharing import Account, Copy, SharedBudget, SharedCache, SharedSlots, copy_of
from mirage.llm.answers import (
    AnswerError,
    Completion,
    RefusalError,
    completion_in_cache,
    completion_of,
    counted_tokens,
    message_text,
    scores_of,
    status_error,
    vectors_of,
)
from mirage.llm.budget import Budget, Hold, Price, Usage
from mirage.llm.cache import Cache, default_cache_path
from mirage.llm.endpoints import checked_url, tls
from mirage.llm.keys import KEY_VARIABLE, default_address, is_openai
from mirage.llm.limits import MOST_BYTES, PACKING, limited
from mirage.llm.retries import Reach, Retries, TransientError, decoded
from mirage.llm.secrets import Secrets

if TYPE_CHECKING:
    from openai import AsyncOpenAI, Omit

T = TypeVar("T")
U = TypeVar("U")

RerankForm = Literal["jina", "tei"]
"""The format of ``/rerank``: ``"jina"`` for Jina, Cohere, Voyage and vLLM, ``"tei"`` for TEI."""

_DOCUMENTS: Mapping[RerankForm, str] = {"jina": "documents", "tei": "texts"}

Message = Mapping[str, str]
"""One message of a chat: ``{"role": "user", "content": "..."}``."""

_LIMITS = ("max_tokens", "max_completion_tokens")
_OURS = ("model", "messages", "stream", "n")  # the client sets these; parameters= must not
_OF_CHATS = (*_LIMITS, "temperature")  # not sent with requests for embeddings and scores
_IDLE_CONNECTIONS = 20  # httpx's default; its pool checks every idle connection at each request
_ROLE_TOKENS = 16  # the most tokens that a chat template adds to a message


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text: its UTF-8 bytes divided by four, rounded up.

    For English, this is close to the count of current tokenizers. Most other scripts have two or
    three bytes per letter, so the estimate is above that count.

    Example:
        >>> estimate_tokens("What is the capital of Kenya?")
        8
    """
    return _estimate_from_size(len(text.encode("utf-8", "replace")))


def _estimate_from_size(size: int) -> int:
    return -(-size // 4)


def _tokens(answer: Mapping[str, Any], size: int) -> tuple[int, int]:
    """Return the numbers of input and output tokens of an answer.

    They are estimated if the answer does not report them. ``size`` is the size of the request's
    text in bytes.
    """
    if (counts := counted_tokens(answer)) is not None:
        return counts
    try:
        text = str(message_text(answer["choices"][0]["message"]["content"]) or "")
    except (LookupError, TypeError):
        text = ""
    return _estimate_from_size(size), estimate_tokens(text)


def _counted_tokens(completion: Completion, messages: Sequence[Message]) -> tuple[int, int] | None:
    """Return the numbers of tokens that the server counted, or ``None`` if they are estimates."""
    counted = completion.counted
    if counted is None:
        # Earlier versions did not store it with cached answers, but estimates can be recognized.
        size = sum(len(message["content"].encode("utf-8", "replace")) for message in messages)
        estimate = _estimate_from_size(size), estimate_tokens(completion.text)
        counted = (completion.prompt_tokens, completion.completion_tokens) != estimate
    return (completion.prompt_tokens, completion.completion_tokens) if counted else None


def cached_amounts(
    llm: LLM, messages: Sequence[Message], text: str
) -> tuple[float | None, tuple[int, int] | None]:
    """Return the time of a cached answer, and the numbers of tokens that the server counted.

    Both are ``None`` if the answer to the messages is not in the cache, or if it is not ``text``.
    """
    answer = None if llm.cache is None else llm.cache.get(llm.digest(messages))
    completion = None if answer is None else completion_in_cache(answer)
    if completion is None or completion.text != text:
        return None, None
    return completion.seconds, _counted_tokens(completion, messages)


class LLM(NearNames):
    """A client for a model at an endpoint, with caching, retries and a budget.

    Args:
        model: The endpoint's name for the model (for Azure, the deployment).
        base_url: The address of the endpoint, such as ``http://localhost:8000/v1``. The default is
            ``OPENAI_BASE_URL`` of the environment, or else OpenAI. If several servers run one
            model, pass a list: each request goes to the server with the fewest requests under way.
            A server that cannot be reached gets no requests for ten seconds. The cache stores
            answers under the first address of the list.
        api_key: The API key. If ``base_url`` is not set, the default is ``OPENAI_API_KEY`` of the
            environment; that key is never sent to a ``base_url`` that is passed here.
        azure_api_version: The API version for Azure's protocol. ``base_url`` is then the address of
            the resource, ``https://NAME.openai.azure.com``.
        headers: Additional HTTP headers. Like the key, their values never appear in errors or logs.
        temperature: Sampling temperature. ``None`` sends no temperature, which some models require.
            The papers use 0.1 (see :mod:`mirage.papers`).
        max_tokens: Maximum length of an answer, in tokens. ``None`` uses the endpoint's limit.
        parameters: Other parameters to send, such as ``{"seed": 1, "top_p": 0.9}``.
        concurrency: Maximum number of concurrent calls, at all servers together. A call that waits
            for a retry also counts.
        timeout: Seconds that one request may take, until the last byte of its answer.
        total_timeout: Seconds that a call may take with all of its retries.
        retries: Maximum number of retries after a transient fault: HTTP statuses 408, 409, 429 and
            5xx, timeouts, lost connections, and malformed answers. Other statuses (400, 401, 403,
            404, ...), a filtered answer, a refusal and an exhausted quota are not retried. As long
            as no call has reached the endpoint, a call is tried three times at most. If none of
            these attempts reaches it, all other calls on the same connection fail too. The same
            happens after 32 calls in a row that all failed with one status (5xx, 401, 402, 404, 405
            or an exhausted quota), if no call has succeeded; all but the first 8 are tried once.
        backoff: Maximum wait before the first retry, in seconds; see
            :class:`~mirage.llm.retries.Retries`.
        max_bytes: Maximum size of a response, in bytes after decompression; 8 MiB by default. If a
            response is longer, the call fails without a retry.
        cache: Where to store answers: a path, a :class:`Cache`, ``True`` for
            :func:`~mirage.llm.cache.default_cache_path`, or ``False`` for no cache.
        budget: A cap on spending, which several models may share. A cap on tokens or money requires
            a limit on the length of answers.
        price: The price of tokens; required if the budget limits the cost.

    Attributes:
        usage: The calls, tokens and money that this object has used.

    Raises:
        SettingError: If a setting is not valid, or the address contains a password or a query.

    Example:
        >>> LLM("my-model", base_url="http://localhost:8000/v1", max_tokens=100, cache=False)
        LLM('my-model', endpoint='http://localhost:8000/v1')
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | Sequence[str] | None = None,
        api_key: str | None = None,
        azure_api_version: str | None = None,
        headers: Mapping[str, str] | None = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = 1024,
        parameters: Mapping[str, Any] | None = None,
        concurrency: int = 8,
        timeout: float = 120.0,
        total_timeout: float = 900.0,
        retries: int = 5,
        backoff: float = 1.0,
        max_bytes: int = MOST_BYTES,
        cache: bool | str | Path | Cache = True,
        budget: Budget | None = None,
        price: Price | None = None,
    ) -> None:
        if not model or not isinstance(model, str):
            raise SettingError(
                f"model must be the name of a model, such as 'gpt-4o'; got {model!r}"
            )
        for name, value, kind in (
            ("azure_api_version", azure_api_version, str),
            ("parameters", parameters, Mapping),
            ("budget", budget, Budget),
            ("price", price, Price),
        ):
            if value is not None and not isinstance(value, kind):
                expected, actual = kind.__name__, type(value).__name__
                raise SettingError(f"{name} must be of type {expected} or None, got {actual}")
        check_number("concurrency", concurrency, 1, whole=True)
        check_number("max_tokens", max_tokens, 1, whole=True, optional=True)
        check_number("temperature", temperature, optional=True)
        if budget is not None and budget.cost is not None and price is None:
            raise SettingError("a budget with a cap on cost requires token prices; pass price=")
        if azure_api_version is not None and base_url is None:
            raise SettingError("Azure has no default endpoint; pass base_url=")
        self.model = model
        self._is_default_endpoint = base_url is None
        urls = [url.rstrip("/") for url in _addresses(base_url)]
        self.endpoints: tuple[str, ...] = tuple(dict.fromkeys(urls))
        self.endpoint: str = self.endpoints[0]
        if api_key is None and self._is_default_endpoint:
            api_key = os.environ.get(KEY_VARIABLE)
        self._secrets = Secrets(api_key or None, headers or {})
        self._azure = azure_api_version
        # OpenAI has renamed the parameter; other servers only accept the old name.
        limit = "max_completion_tokens" if is_openai(self.endpoint) else "max_tokens"
        self.parameters: dict[str, Any] = _parameters(
            temperature, limit, max_tokens, parameters or {}
        )
        self.max_tokens = max_tokens
        limits = [self.parameters[name] for name in _LIMITS if name in self.parameters]
        if budget is not None and (budget.tokens is not None or budget.cost is not None):
            if not limits:
                raise SettingError(
                    "a budget with a cap on tokens or cost requires a limit on the length of "
                    "answers; pass max_tokens="
                )
            if not all(isinstance(limit, int) for limit in limits):
                raise SettingError(
                    "max_tokens and max_completion_tokens must be whole numbers if a budget has "
                    f"a cap on tokens or cost; got {', '.join(map(repr, limits))}"
                )
        self._longest = _longest(self.parameters)
        self.concurrency = concurrency
        self.retries: Retries = Retries(retries, backoff, timeout, total_timeout)
        limited(max_bytes)  # raises an error if the limit is not valid
        self._max_bytes = max_bytes
        self.cache: Cache | None = _cache(cache)
        self.budget: Budget | None = budget
        self.price: Price | None = price
        self.usage: Usage = Usage()
        self._counting = threading.Lock()
        self._copy: Copy | None = None  # set in a worker: the connection to the original LLM

    def __repr__(self) -> str:
        return f"LLM({self.model!r}, endpoint={self.endpoint!r})"

    def _error(
        self, reason: str, status: int | None = None, kind: type[LLMError] = LLMError
    ) -> LLMError:
        """Return an error that names the model and the endpoint and contains no secret."""
        reason = self._secrets.redacted(reason).encode("utf-8", "replace").decode()
        more_servers = len(self.endpoints) - 1
        where = f"{self.endpoint} and {more_servers} more" if more_servers else self.endpoint
        return kind(f"{self.model} at {where}: {reason}", status)

    def __reduce__(self) -> Any:
        host = driver_host()
        if not host:
            raise SettingError(
                "an LLM cannot be sent to another process, because it has an API key and counts "
                "what it spends; use one process (n_jobs=1), since its calls are concurrent "
                "already, or the workers of a cluster (executor=)"
            )
        account = Account(self.cache, self.budget, self._count, self.concurrency)
        unshared = {"cache", "budget", "usage", "_counting", "_copy"}
        settings = {name: value for name, value in vars(self).items() if name not in unshared}
        copy = self._copy or copy_of(account, self.usage, host)
        caps = None if self.budget is None else self.budget.caps
        return _copy_of_llm, (settings, copy, self.cache is not None, caps)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """Open a connection to the endpoint for the running event loop.

        Yields:
            The connection, which is closed at the end of the ``async with`` block.

        Raises:
            LLMError: If the endpoint is OpenAI's and there is no key.
            MissingPackageError: If the extra ``llm`` is not installed.
        """
        for package in ("openai", "tenacity"):
            with needing(package):
                import_module(package)
        if self._secrets.key is None and not self._secrets.headers and is_openai(self.endpoint):
            how = "set OPENAI_API_KEY, or " if self._is_default_endpoint else ""
            raise LLMError(
                f"no API key for {self.endpoint}: {how}pass api_key=, in commands --llm "
                "key_from=VARIABLE"
            )
        with self._secrets.out_of_logs():
            async with AsyncExitStack() as stack:
                clients = {url: self._client(url) for url in self.endpoints}
                for client in clients.values():
                    await stack.enter_async_context(client)
                servers = [Server(url, client) for url, client in clients.items()]
                yield Connection(self, servers)

    def _client(self, address: str) -> AsyncOpenAI:
        """Return the HTTP client that sends requests to one address."""
        import httpx
        import openai

        query = {}
        if self._azure is not None:
            address += f"/openai/deployments/{quote(self.model, safe='')}"
            query = {"api-version": self._azure}
        pool: Any = httpx.Limits(
            max_connections=self.concurrency, max_keepalive_connections=_IDLE_CONNECTIONS
        )
        return openai.AsyncOpenAI(
            base_url=address,
            api_key="in the headers",
            default_headers=self._sent_headers(),
            default_query=query,
            max_retries=0,  # we retry ourselves, because retries count in the budget
            timeout=None,  # see Connection._send
            http_client=openai.DefaultAsyncHttpxClient(
                limits=pool,
                timeout=None,
                follow_redirects=False,  # the headers hold secrets for this host only
                event_hooks={"response": [limited(self._max_bytes)]},
                verify=tls(openai.DefaultAsyncHttpxClient.__mro__[1]),  # httpx's, or httpx2's
            ),
        )

    def _sent_headers(self) -> dict[str, Any]:
        """Return the headers to send, with ``Omit()`` for headers that the SDK must not add.

        Environment variables may set an organization, a project and more headers for OpenAI. Like
        the key in the environment, these headers are sent only to the default endpoint.
        """
        from openai import Omit

        foreign = ["OpenAI-Organization", "OpenAI-Project"]
        lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
        foreign += [line.partition(":")[0].strip() for line in lines if ":" in line]
        # Omit() removes a header that the SDK would add by itself.
        headers: dict[str, str | Omit] = (
            {} if self._is_default_endpoint else {name: Omit() for name in foreign}
        )
        headers |= PACKING
        headers["Authorization"] = Omit()
        if self._secrets.key is not None:
            key = self._secrets.key.get_secret_value()
            headers |= {"api-key": key} if self._azure else {"Authorization": f"Bearer {key}"}
        for name, value in self._secrets.headers.items():
            # The SDK recognizes this header only in this spelling.
            name = "Authorization" if name.lower() == "authorization" else name
            headers[name] = value.get_secret_value()
        return headers

    def with_parameters(self, **parameters: Any) -> LLM:
        """Return a copy of this LLM that sends these parameters too.

        The copy shares cache, budget and usage with this LLM.

        Args:
            parameters: Parameters such as ``logprobs=True, top_logprobs=20``.

        Raises:
            SettingError: If a parameter cannot be sent as JSON, or only the client may set it.

        Example:
            >>> llm = LLM("my-model", base_url="http://localhost:8000/v1", cache=False)
            >>> llm.with_parameters(seed=1).parameters
            {'temperature': 0.0, 'max_tokens': 1024, 'seed': 1}
        """
        copy = object.__new__(LLM)
        copy.__dict__.update(self.__dict__)
        copy.parameters = _parameters(None, "", None, self.parameters | parameters)
        copy._longest = _longest(copy.parameters)
        return copy

    def complete(self, messages: str | Sequence[Message], *, sample: int = 0) -> Completion:
        """Return the answer to one prompt or one chat, from the cache if possible.

        The method also works while an event loop is running, as in a notebook. To send many
        requests concurrently, use :meth:`connect` in async code.

        Args:
            messages: A prompt, or a chat such as ``[{"role": "user", "content": "Hello"}]``.
            sample: Index of the answer, counted from 0. To get more answers to the same messages,
                pass 1, 2, and so on; each is cached separately.

        Returns:
            The answer, which prints as its text.

        Raises:
            LLMError: If there is no answer; the message gives the reason and the number of
                attempts.
            BudgetError: If the budget does not allow the call or a retry.
            SettingError: If ``messages`` is neither a text nor a list of messages.

        Example:
            >>> LLM("gpt-4o-mini").complete("Which river is the longest?")  # doctest: +SKIP
        """
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        if not messages or not all(
            isinstance(message, Mapping) and {"role", "content"} <= message.keys()
            for message in messages
        ):
            raise SettingError(
                "complete needs a prompt, or messages such as [{'role': 'user', 'content': "
                f"'Hello'}}], got {messages!r}"
            )

        async def ask() -> Completion:
            async with self.connect() as connection:
                return await connection.ask(messages, sample=sample)

        return run_sync(ask())

    def cached(self, messages: Sequence[Message], sample: int = 0) -> bool:
        """Return whether the cache has the answer to these messages.

        Args:
            messages: The chat.
            sample: Index of the answer, counted from 0. To get more answers to the same messages,
                pass 1, 2, and so on; each is cached separately.
        """
        return self.cache is not None and self.cache.get(self.digest(messages, sample)) is not None

    def digest(self, messages: Sequence[Message], sample: int = 0, *, limits: bool = True) -> bytes:
        """Return the SHA-256 digest of endpoint, model, messages, parameters and ``sample``.

        The cache stores the answer to a request under this digest.

        Args:
            messages: The chat.
            sample: Index of the answer, counted from 0. To get more answers to the same messages,
                pass 1, 2, and so on; each is cached separately.
            limits: Whether the digest depends on the limit on the length of answers. The limit does
                not influence an answer that ended before it.
        """
        chat = [dict(message) for message in messages]
        parameters = {
            name: value for name, value in self.parameters.items() if limits or name not in _LIMITS
        }
        request = [self.endpoint, self._azure, self.model, chat, parameters, sample]
        return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).digest()

    def embedding_digest(self, text: str) -> bytes:
        """Return the SHA-256 digest of the request for the embedding of a text."""
        return self._digest("embedding", text)

    def relevance_digest(self, query: str, text: str, form: RerankForm) -> bytes:
        """Return the SHA-256 digest of a request for the relevance score of a text.

        Args:
            query: The query.
            text: The text.
            form: The format of the request, ``"jina"`` or ``"tei"``; see :data:`RerankForm`.
        """
        return self._digest("relevance", [query, text, form])

    def _digest(self, kind: str, content: object) -> bytes:
        settings = self._settings_without_chat_limits()
        request = [kind, self.endpoint, self._azure, self.model, content, settings]
        return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).digest()

    def _settings_without_chat_limits(self) -> dict[str, Any]:
        return {name: value for name, value in self.parameters.items() if name not in _OF_CHATS}

    def _count(self, **amounts: float) -> None:
        """Add numbers to the usage of this object and, in a worker, of the original LLM."""
        if self._copy is not None:
            self._copy.count(**amounts)
        with self._counting:
            for name, number in amounts.items():
                setattr(self.usage, name, getattr(self.usage, name) + number)


def as_llm(llm: LLM | str) -> LLM:
    """Return an LLM unchanged, or convert the name of a model to an LLM with default settings.

    Args:
        llm: The LLM, or the name of a model.

    Raises:
        SettingError: If the argument is neither an LLM nor a string.
    """
    if isinstance(llm, LLM):
        return llm
    if not isinstance(llm, str):
        raise SettingError(f"expected an LLM or the name of one, such as 'gpt-4o'; got {llm!r}")
    return LLM(llm)


def _copy_of_llm(
    settings: Mapping[str, Any], copy: Copy, is_cached: bool, caps: Mapping[str, Any] | None
) -> LLM:
    """Return a copy of an LLM for a worker; it shares the cache and the budget of the original.

    Args:
        settings: Attributes of the original that the copy takes over.
        copy: Data that the copy needs to contact the driver.
        is_cached: Whether the original has a cache.
        caps: Caps of the original's budget; ``None`` if it has no budget.
    """
    llm = object.__new__(LLM)
    llm.__dict__.update(settings)
    llm.cache = SharedCache(copy) if is_cached else None
    llm.budget = None if caps is None else SharedBudget(copy, caps)
    llm.usage, llm._counting, llm._copy = Usage(), threading.Lock(), copy
    return llm


class _Request(NamedTuple, Generic[T]):
    """An HTTP request, and the function that reads its answer.

    Attributes:
        path: The path below the endpoint's address.
        body: The JSON body.
        size: Size of the text in the body, in bytes.
        most: Largest numbers of input tokens and output tokens that the request may use.
        read: Function that returns the result, given the JSON answer and its numbers of input
            tokens and output tokens.
    """

    path: str
    body: Mapping[str, Any]
    size: int
    most: tuple[int, int]
    read: Callable[[Mapping[str, Any], tuple[int, int]], T]


class Connection:
    """A connection to the servers of one :class:`LLM`, yielded by :meth:`LLM.connect`.

    A connection belongs to one event loop.
    """

    def __init__(self, llm: LLM, servers: Sequence[Server]) -> None:
        from openai import Omit

        self.llm = llm
        self._servers = servers
        # The SDK insists that every request without this header omits it explicitly.
        left_out = isinstance(servers[0].client.default_headers["Authorization"], Omit)
        self._options: Any = {"headers": {"Authorization": Omit()}} if left_out else {}
        self._slots = (
            asyncio.Semaphore(llm.concurrency) if llm._copy is None else SharedSlots(llm._copy)
        )
        self._reach = Reach()

    async def ask_once(self, messages: Sequence[Message], *, sample: int = 0) -> Completion:
        """Return the answer to a chat as :meth:`ask` does, but store refusals in the cache too.

        Raises:
            RefusalError: If the model refused, now or when the cached request was sent.
        """
        cache = self.llm.cache
        # Earlier versions cannot read an entry without a text, so refusals have keys of their own.
        key = hashlib.sha256(b"refusal" + self.llm.digest(messages, sample)).digest()
        if cache is not None and (entry := cache.get(key)) is not None:
            self.llm._count(cached=1)
            raise RefusalError(entry["refusal"])
        try:
            return await self.ask(messages, sample=sample)
        except RefusalError as error:
            if cache is not None:
                cache.put(key, self.llm.model, {"refusal": str(error)})
            raise

    async def ask(self, messages: Sequence[Message], *, sample: int = 0) -> Completion:
        """Return the answer to a chat, from the cache if possible.

        Args:
            messages: The chat.
            sample: Index of the answer, counted from 0. Requests that differ only in this index are
                cached separately. To get more answers to the same chat, pass 1, 2, and so on.
        """
        llm = self.llm
        key = llm.digest(messages, sample)
        if llm.cache is not None and (answer := llm.cache.get(key)) is not None:
            llm._count(cached=1)
            completion = completion_in_cache(answer)
            note_request(completion.seconds, _counted_tokens(completion, messages))
            return completion
        completion, seconds = await self._answer(messages, self._chat)
        completion = replace(completion, seconds=seconds)
        note_request(completion.seconds, _counted_tokens(completion, messages))
        if llm.cache is not None:
            answer = {name: fact for name, fact in asdict(completion).items() if name != "cached"}
            for name in ("logprobs", "reasoning"):
                if not answer[name]:
                    del answer[name]
            llm.cache.put(key, llm.model, answer)
        return completion

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the embedding of each text, from the cache if possible.

        Texts that are not in the cache are sent in one request. The temperature of the
        :class:`LLM` and its limits on the length of answers are not sent, because they only apply
        to chats.
        """
        keys = {text: self.llm.embedding_digest(text) for text in texts}
        return await self._request_missing(keys, "embedding", self._embedding, texts)

    async def relevance(self, query: str, texts: Sequence[str], form: RerankForm) -> list[float]:
        """Return the relevance score of each text for a query, from the cache if possible.

        Texts that are not in the cache are sent in one request to ``/rerank``, in the format
        ``form``.
        """
        keys = {text: self.llm.relevance_digest(query, text, form) for text in texts}
        return await self._request_missing(
            keys, "relevance", lambda new: self._reranking(query, new, form), texts
        )

    async def _request_missing(
        self,
        keys: Mapping[str, bytes],
        field: str,
        request: Callable[[Sequence[str]], _Request[list[T]]],
        texts: Sequence[str],
    ) -> list[T]:
        """Return one value per text, from the cache or from one request for all missing values.

        ``keys`` maps each text to its key in the cache, and ``field`` is the name under which the
        cache stores the value. ``request`` is a function that builds the HTTP request for a list of
        texts.
        """
        llm = self.llm
        values: dict[str, T] = {}
        for text, key in keys.items():
            if llm.cache is not None and (entry := llm.cache.get(key)) is not None:
                values[text] = entry[field]
        llm._count(cached=len(values))
        if new := [text for text in keys if text not in values]:
            new_values, _ = await self._answer(new, request)
            for text, value in zip(new, new_values, strict=True):
                values[text] = value
                if llm.cache is not None:
                    llm.cache.put(keys[text], llm.model, {field: value})
        return [values[text] for text in texts]

    async def _answer(
        self, content: Sequence[U], request: Callable[[Sequence[U]], _Request[T]]
    ) -> tuple[T, float]:
        """Return the result of a request, and the seconds that it took with its retries."""
        async with self._slots:
            start = time.monotonic()
            result = await self._retry(content, request)
            seconds = time.monotonic() - start
        if isinstance(result, Exception):
            # Raised outside of all except blocks, whose exceptions may hold secrets.
            raise result
        return result, round(seconds, 6)

    async def _retry(
        self, content: Sequence[U], request: Callable[[Sequence[U]], _Request[T]]
    ) -> T | LLMError:
        """Send a request, retrying it if necessary; return the answer, or the last error.

        ``content`` contains the messages or texts to send, and ``request`` is a function that
        builds the HTTP request from them.
        """
        llm = self.llm
        try:
            prepared = request(content)
        except UnicodeEncodeError as error:
            return llm._error(f"not sent: the prompt is not valid Unicode ({error})")
        try:
            return await llm.retries.call(
                lambda seconds: self._attempt(prepared, seconds), self._reach
            )
        except BudgetError as error:
            return error
        except (TransientError, LLMError) as error:
            kind = type(error) if isinstance(error, AnswerError) else LLMError
            return llm._error(str(error), error.status, kind)

    def _chat(self, messages: Sequence[Message]) -> _Request[Completion]:
        llm = self.llm
        size = sum(len(message["content"].encode()) for message in messages)
        most = size + _ROLE_TOKENS * len(messages), llm._longest
        body = {"model": llm.model, "messages": messages, **llm.parameters}
        return _Request(
            "/chat/completions",
            body,
            size,
            most,
            lambda answer, tokens: completion_of(answer, tokens, llm._secrets),
        )

    def _embedding(self, texts: Sequence[str]) -> _Request[list[list[float]]]:
        llm = self.llm
        size = sum(len(text.encode()) for text in texts)
        most = size + _ROLE_TOKENS * len(texts), 0
        # Not every server can send base64, which the SDK would ask for.
        body = {"model": llm.model, "input": list(texts), "encoding_format": "float"}
        return _Request(
            "/embeddings",
            llm._settings_without_chat_limits() | body,
            size,
            most,
            lambda answer, _: vectors_of(answer, len(texts), llm._secrets),
        )

    def _reranking(
        self, query: str, texts: Sequence[str], form: RerankForm
    ) -> _Request[list[float]]:
        llm = self.llm
        sizes = [len(query.encode()) + len(text.encode()) for text in texts]
        most = sum(sizes) + _ROLE_TOKENS * len(texts), 0
        body = {"query": query, _DOCUMENTS[form]: list(texts)}
        if form == "jina":
            body["model"] = llm.model
        return _Request(
            "/rerank",
            llm._settings_without_chat_limits() | body,
            sum(sizes),
            most,
            lambda answer, _: scores_of(answer, len(texts), llm._secrets),
        )

    async def _attempt(self, request: _Request[T], seconds: float) -> T:
        """Send a request to one server, or to the next one if it is not available.

        ``seconds`` is the timeout for all servers together.
        """
        end = time.monotonic() + seconds
        return await ask_in_turn(
            self._servers,
            lambda server: self._ask_server(server, request, max(0.0, end - time.monotonic())),
        )

    async def _ask_server(self, server: Server, request: _Request[T], seconds: float) -> T:
        """Send a request once, count its tokens and cost, and return its result.

        ``seconds`` is the timeout.
        """
        llm = self.llm
        price, most = llm.price or Price(0, 0), request.most
        need = sum(most), price.cost(*most)
        async with llm.budget.call(*need) if llm.budget else nullcontext(Hold(*need)) as hold:
            llm._count(calls=1)
            answer = decoded(await self._send(server, request, seconds, hold))
            if isinstance(answer, list) and request.path == "/rerank":  # TEI sends a bare list
                answer = {"results": answer}
            if not isinstance(answer, dict):
                excerpt = llm._secrets.excerpt(answer)
                raise TransientError(f"the endpoint must reply with a JSON object, got {excerpt}")
            tokens = _tokens(answer, request.size)
            hold.tokens, hold.cost = sum(tokens), price.cost(*tokens)
        llm._count(prompt_tokens=tokens[0], completion_tokens=tokens[1], cost=hold.cost)
        return request.read(answer, tokens)

    async def _send(
        self, server: Server, request: _Request[Any], seconds: float, hold: Hold
    ) -> bytes:
        """Send a request to a server, and return the body of the response.

        The response must be complete within ``seconds``. ``hold`` contains the amounts that the
        budget reserves for the call. This method sets them to 0 if the server answers with an error
        status or cannot be reached, because such a call is not billed.
        """
        import httpx
        import openai

        try:
            # httpx's timeouts are per read: a server that sends a byte at a time never hits them.
            async with asyncio.timeout(seconds):
                response = await server.client.post(
                    request.path,
                    cast_to=httpx.Response,
                    body=request.body,
                    options=self._options,
                )
            content: bytes = response.content
            return content
        except TimeoutError:
            raise TransientError(f"no complete answer arrived within {seconds:.3g} s") from None
        except openai.APIStatusError as error:
            hold.give_back()
            raise status_error(error, self.llm._secrets) from None
        except (openai.APIConnectionError, OSError) as error:
            cause = error.__cause__ or error
            if isinstance(cause, LLMError | TransientError):
                raise cause from None
            reason = f"{type(cause).__name__}: {cause}".removesuffix(": ")
            unreached = type(cause).__name__ == "ConnectError"  # httpx's or httpx2's
            if unreached:
                hold.give_back()
            raise TransientError(
                f"the connection to the endpoint failed or was lost ({reason})",
                unreached=unreached,
                lost=True,
            ) from None
        except openai.OpenAIError as error:
            raise LLMError(f"{type(error).__name__}: {error}") from None


# Settings -----------------------------------------------------------------------------------------


def _addresses(base_url: str | Sequence[str] | None) -> list[str]:
    """Return the addresses of the servers; only ``None`` means the default address."""
    urls = default_address() if base_url is None else base_url
    urls = [urls] if isinstance(urls, str) else urls
    if not urls or not isinstance(urls, Sequence) or not all(isinstance(u, str) for u in urls):
        raise SettingError(
            "base_url must be the address of an endpoint, or a list of addresses; leave it out to "
            "use the default"
        )
    return [checked_url(url) for url in urls]


def _parameters(
    temperature: float | None, limit: str, max_tokens: int | None, more: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parameters to send.

    Args:
        temperature: Sampling temperature; ``None`` to send none.
        limit: The endpoint's name for the parameter that limits the length of an answer.
        max_tokens: The value of this parameter; ``None`` to send none.
        more: Further parameters. A length limit among them replaces ``max_tokens``.
    """
    if ours := [name for name in _OURS if name in more]:
        raise SettingError(
            f"parameters must not contain {', '.join(ours)}, because the client sets these "
            "values; leave them out"
        )
    for name in _LIMITS:
        check_number(name, more.get(name), 1, whole=True, optional=True)
    chosen: dict[str, Any] = {"temperature": temperature}
    if not any(name in more for name in _LIMITS):
        chosen[limit] = max_tokens
    parameters = {name: value for name, value in chosen.items() if value is not None}
    parameters |= more
    try:
        json.dumps(parameters, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise SettingError(f"parameters cannot be converted to JSON ({error})") from None
    return parameters


def _longest(parameters: Mapping[str, Any]) -> int:
    """Return the limit on an answer's tokens, or 0 if there is none."""
    return max(parameters.get(name) or 0 for name in _LIMITS)


def _cache(cache: bool | str | Path | Cache) -> Cache | None:
    if isinstance(cache, Cache):
        return cache
    if cache is False:
        return None
    return Cache(default_cache_path() if cache is True else cache)
