"""Chat completions and embeddings from OpenAI, Azure, and servers that speak their protocol."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, cast
from urllib.parse import quote

from mirage.errors import BudgetError, LLMError, SettingError
from mirage.executors.base import driver_host
from mirage.llm._servers import Server, asked_in_turn
from mirage.llm._sharing import Account, Copy, SharedBudget, SharedCache, SharedSlots, copy_of
from mirage.llm.budget import Budget, Hold, Price, Usage
from mirage.llm.cache import Cache, default_cache_path
from mirage.llm.endpoints import checked_url, tls
from mirage.llm.keys import KEY_VARIABLE, default_address, is_openai
from mirage.llm.limits import MOST_BYTES, PACKING, limited
from mirage.llm.retries import Reach, Retries, TransientError, decoded, transient_status
from mirage.llm.secrets import Secrets

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI, Omit

__all__ = ["LLM", "Completion", "Connection", "Message", "RerankForm", "estimate_tokens"]

T = TypeVar("T")
U = TypeVar("U")

RerankForm = Literal["jina", "tei"]
"""How ``/rerank`` is asked: as Jina, Cohere, Voyage and vLLM take it, or as TEI does."""

_DOCUMENTS: Mapping[RerankForm, str] = {"jina": "documents", "tei": "texts"}

Message = Mapping[str, str]
"""One message of a chat: ``{"role": "user", "content": "..."}``."""

_LIMITS = ("max_tokens", "max_completion_tokens")
_OURS = ("model", "messages", "stream", "n")  # what parameters may not set
_OF_CHATS = (*_LIMITS, "temperature")  # what means nothing where embeddings are asked for
_IDLE_CONNECTIONS = 20  # httpx's default; its pool looks at each of them at every request
_ABSURD = 2**40  # tokens that no request can have
_ROLE_TOKENS = 16  # at most, for what a chat template writes around a message


@dataclass(frozen=True)
class Completion:
    """One answer.

    Attributes:
        text: what the model wrote.
        finish_reason: why it ended: ``stop``, or ``length`` where ``max_tokens`` cut it off.
        prompt_tokens: tokens of the input, estimated where the server does not say.
        completion_tokens: tokens of the output, likewise.
        cached: it was read from the cache, and cost nothing.
        logprobs: for each token of the text, natural-log probabilities by token: of those that
            might have stood there. Empty where the server sends none; it is asked for them by
            :meth:`LLM.with_parameters`.
    """

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    cached: bool = False
    logprobs: tuple[Mapping[str, float], ...] = ()


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has: its UTF-8 bytes by four, rounded up.

    That is near the count of today's tokenizers for English, and above it for most other scripts,
    whose letters take two or three bytes.
    """
    return _by_size(len(text.encode("utf-8", "replace")))


def _by_size(size: int) -> int:
    return -(-size // 4)


class LLM:
    """A model behind an endpoint for chats or embeddings; what to ask, how often, at what cost.

    Args:
        model: the endpoint's name for the model (for Azure, the deployment).
        base_url: the endpoint, ``http://localhost:8000/v1``. By default ``OPENAI_BASE_URL`` of the
            environment, or OpenAI. Of several servers of one model, a list: each request goes to
            the one with the fewest under way, and where one is gone its requests go to the others;
            it is tried again after ten seconds. The cache knows answers by the first address.
        api_key: its key. Without a ``base_url``, by default ``OPENAI_API_KEY`` of the environment;
            that key is never sent to a ``base_url`` given here.
        azure_api_version: set it for Azure's own form of the protocol, with ``base_url`` the
            resource's endpoint, ``https://NAME.openai.azure.com``.
        headers: more headers to send. Their values are kept out of errors and logs, as the key is.
        temperature: sampling temperature, ``None`` to send none, as some models demand. The papers
            have 0.1, which :mod:`mirage.experiments` names.
        max_tokens: the longest answer, in tokens; ``None`` for the endpoint's own limit.
        parameters: anything else to send, such as ``{"seed": 1, "top_p": 0.9}``.
        concurrency: calls under way at a time, at all servers together, on one connection; a call
            that waits to be sent again is under way.
        timeout: seconds one request may take, from sending it to the last byte of its answer.
        total_timeout: seconds that a call may take with all of its retries.
        retries: how often to send a request again after a fault that may pass: the statuses 408,
            409, 429 and 5xx, timeouts, lost connections, and answers that make no sense. Other
            statuses (400, 401, 403, 404, ...), a filtered answer, a refusal and a used-up quota
            are final. An endpoint that no call has reached is tried three times at most, and then
            given up for all calls on that connection.
        backoff: seconds of the first wait, at most; see :class:`~mirage.llm.retries.Retries`.
        max_bytes: the longest answer of the server that is read, in bytes and unpacked: 8 MiB by
            default. A longer one fails the call, for good.
        cache: where to keep answers: a path, a :class:`Cache`, ``True`` for
            :func:`~mirage.llm.cache.default_cache_path`, ``False`` for nowhere.
        budget: what may be spent; several models may share one. A cap on tokens or money needs a
            limit to the length of an answer.
        price: what tokens cost; a budget of money needs it.

    ``usage`` counts what was used by this object.

    Raises:
        SettingError: a setting that makes no sense, or an endpoint with a password or a query in
            its address.
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
            raise SettingError(f"an LLM needs the name of a model, such as 'gpt-4o', not {model!r}")
        if not (concurrency >= 1 and retries >= 0 and backoff >= 0):
            raise SettingError(
                f"concurrency={concurrency} is to be 1 or more, retries={retries} and "
                f"backoff={backoff} 0 or more"
            )
        if max_tokens is not None and max_tokens < 1:
            raise SettingError(f"max_tokens={max_tokens} is to be 1 or more, or None for no limit")
        if not (timeout > 0 and total_timeout > 0):
            raise SettingError(
                f"timeout={timeout} and total_timeout={total_timeout} are to be above 0 seconds"
            )
        if budget is not None and budget.cost is not None and price is None:
            raise SettingError("a budget of money needs to know what tokens cost: give price=")
        if azure_api_version is not None and base_url is None:
            raise SettingError("Azure has no default endpoint: give base_url=")
        self.model = model
        self._own = base_url is None  # the endpoint is the environment's own
        endpoint = base_url or default_address()
        given = [endpoint] if isinstance(endpoint, str) else endpoint
        urls = [checked_url(url).rstrip("/") for url in given]
        self.endpoints: tuple[str, ...] = tuple(dict.fromkeys(urls))
        self.endpoint: str = self.endpoints[0]
        if api_key is None and self._own:
            api_key = os.environ.get(KEY_VARIABLE)
        self._secrets = Secrets(api_key or None, headers or {})
        self._azure = azure_api_version
        # OpenAI has renamed the parameter; other servers know the old name.
        limit = "max_completion_tokens" if is_openai(self.endpoint) else "max_tokens"
        self.parameters: dict[str, Any] = _parameters(
            temperature, limit, max_tokens, parameters or {}
        )
        self.max_tokens = max_tokens
        limits = [self.parameters[name] for name in _LIMITS if name in self.parameters]
        if budget is not None and (budget.tokens is not None or budget.cost is not None):
            if not limits:
                raise SettingError("a budget of tokens or money needs a limit: give max_tokens=")
            if not all(isinstance(limit, int) for limit in limits):
                raise SettingError("the limit to the tokens of an answer is a whole number")
        self._longest = _longest(self.parameters)
        self.concurrency = concurrency
        self.retries: Retries = Retries(retries, backoff, timeout, total_timeout)
        limited(max_bytes)  # refuses what makes no sense
        self._max_bytes = max_bytes
        self.cache: Cache | None = _cache(cache)
        self.budget: Budget | None = budget
        self.price: Price | None = price
        self.usage: Usage = Usage()
        self._counting = threading.Lock()
        self._copy: Copy | None = None  # where the original is, if this is in a worker

    def __repr__(self) -> str:
        return f"LLM({self.model!r}, endpoint={self.endpoint!r})"

    def _error(self, reason: str, status: int | None = None) -> LLMError:
        """An error that says who did not answer, and holds no secret."""
        reason = self._secrets.redacted(reason).encode("utf-8", "replace").decode()
        others = len(self.endpoints) - 1
        where = f"{self.endpoint} and {others} more" if others else self.endpoint
        return LLMError(f"{self.model} at {where}: {reason}", status)

    def __reduce__(self) -> Any:
        host = driver_host()
        if not host:
            raise SettingError(
                "an LLM cannot be sent to another process: it holds a key and counts what it "
                "spends; its calls are concurrent already, so use one process (n_jobs=1), or the "
                "workers of a cluster (executor=)"
            )
        account = Account(self.cache, self.budget, self._count, self.concurrency)
        own = {"cache", "budget", "usage", "_counting", "_copy"}
        settings = {name: value for name, value in vars(self).items() if name not in own}
        copy = self._copy or copy_of(account, self.usage, host)
        caps = None if self.budget is None else self.budget.caps
        return _copied, (settings, copy, self.cache is not None, caps)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """A connection to the endpoint, for the running event loop.

        Raises:
            LLMError: there is no key for OpenAI.
        """
        if self._secrets.key is None and not self._secrets.headers and is_openai(self.endpoint):
            how = "set OPENAI_API_KEY, or give api_key=" if self._own else "give api_key="
            raise LLMError(f"no key for {self.endpoint}: {how}")
        with self._secrets.out_of_logs():
            async with AsyncExitStack() as stack:
                clients = {url: self._client(url) for url in self.endpoints}
                for client in clients.values():
                    await stack.enter_async_context(client)
                servers = [Server(url, client) for url, client in clients.items()]
                yield Connection(self, servers)

    def _client(self, address: str) -> AsyncOpenAI:
        """What sends requests to one address."""
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
            max_retries=0,  # retries count in the budget, so they are ours
            timeout=None,  # see Connection._send
            http_client=openai.DefaultAsyncHttpxClient(
                limits=pool,
                timeout=None,
                follow_redirects=False,  # our headers are for this host
                event_hooks={"response": [limited(self._max_bytes)]},
                verify=tls(openai.DefaultAsyncHttpxClient.__mro__[1]),  # httpx's, or httpx2's
            ),
        )

    def _sent_headers(self) -> dict[str, Any]:
        """Key and headers as they are sent, and those of the SDK's that are not.

        What the environment sets for OpenAI (organization, project, more headers) goes where its
        key goes: to the environment's own endpoint only.
        """
        from openai import Omit

        foreign = ["OpenAI-Organization", "OpenAI-Project"]
        lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
        foreign += [line.partition(":")[0].strip() for line in lines if ":" in line]
        headers: dict[str, str | Omit] = {} if self._own else {name: Omit() for name in foreign}
        headers |= PACKING
        headers["Authorization"] = Omit()
        if self._secrets.key is not None:
            key = self._secrets.key.get_secret_value()
            headers |= {"api-key": key} if self._azure else {"Authorization": f"Bearer {key}"}
        for name, value in self._secrets.headers.items():
            # The SDK knows this one by this spelling.
            name = "Authorization" if name.lower() == "authorization" else name
            headers[name] = value.get_secret_value()
        return headers

    def with_parameters(self, **parameters: Any) -> LLM:
        """The same LLM, asked with these parameters too; cache, budget and usage are shared.

        Args:
            parameters: such as ``logprobs=True, top_logprobs=20``.

        Raises:
            SettingError: they cannot be sent, or are the client's own.
        """
        other = object.__new__(LLM)
        other.__dict__.update(self.__dict__)
        other.parameters = _parameters(None, "", None, self.parameters | parameters)
        other._longest = _longest(other.parameters)
        return other

    def cached(self, messages: Sequence[Message], sample: int = 0) -> bool:
        """Whether the cache has the answer to these messages, the ``sample``-th to them."""
        return self.cache is not None and self.cache.get(self.digest(messages, sample)) is not None

    def digest(self, messages: Sequence[Message], sample: int = 0) -> bytes:
        """SHA-256 of what identifies a request: endpoint, model, messages, settings, ``sample``."""
        chat = [dict(message) for message in messages]
        request = [self.endpoint, self._azure, self.model, chat, self.parameters, sample]
        return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).digest()

    def embedding_digest(self, text: str) -> bytes:
        """SHA-256 of what identifies the embedding of a text: endpoint, model, text, settings."""
        return self._digest("embedding", text)

    def relevance_digest(self, query: str, text: str, form: RerankForm) -> bytes:
        """SHA-256 of what identifies the relevance of a text to a query, likewise."""
        return self._digest("relevance", [query, text, form])

    def _digest(self, what: str, asked: object) -> bytes:
        settings = self._settings_but_of_chats()
        request = [what, self.endpoint, self._azure, self.model, asked, settings]
        return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).digest()

    def _settings_but_of_chats(self) -> dict[str, Any]:
        return {name: value for name, value in self.parameters.items() if name not in _OF_CHATS}

    def _count(self, **used: float) -> None:
        """Add to ``usage``, which threads may share, and workers of a cluster."""
        if self._copy is not None:
            self._copy.count(**used)
        with self._counting:
            for name, number in used.items():
                setattr(self.usage, name, getattr(self.usage, name) + number)


def _copied(
    settings: Mapping[str, Any], copy: Copy, is_cached: bool, caps: Mapping[str, Any] | None
) -> LLM:
    """An LLM in a worker, which asks where the original is about all that it shares with it."""
    llm = object.__new__(LLM)
    llm.__dict__.update(settings)
    llm.cache = SharedCache(copy) if is_cached else None
    llm.budget = None if caps is None else SharedBudget(copy, caps)
    llm.usage, llm._counting, llm._copy = Usage(), threading.Lock(), copy
    return llm


class _Request(NamedTuple, Generic[T]):
    """What is posted, and how what comes back is read.

    ``size`` is how many bytes of text it holds, ``most`` how many tokens of input and output it
    may cost. ``read`` gets the answer and the tokens that it used.
    """

    path: str
    body: Mapping[str, Any]
    size: int
    most: tuple[int, int]
    read: Callable[[Mapping[str, Any], tuple[int, int]], T]


class Connection:
    """Asks one :class:`LLM` by its ``servers``, in one event loop; made by :meth:`LLM.connect`."""

    def __init__(self, llm: LLM, servers: Sequence[Server]) -> None:
        from openai import Omit

        self.llm = llm
        self._servers = servers
        # Said once more: the SDK wants it to be left out on purpose.
        left_out = isinstance(servers[0].client.default_headers["Authorization"], Omit)
        self._options: Any = {"headers": {"Authorization": Omit()}} if left_out else {}
        self._slots = (
            asyncio.Semaphore(llm.concurrency) if llm._copy is None else SharedSlots(llm._copy)
        )
        self._reach = Reach()

    async def ask(self, messages: Sequence[Message], *, sample: int = 0) -> Completion:
        """The answer to a chat, from the cache if it was asked before.

        ``sample`` is a number that tells requests apart that are otherwise the same: ask with 1, 2,
        ... for more answers.

        Raises:
            LLMError: there was no answer; says why, and after how many attempts.
            BudgetError: the budget does not allow the call, or another attempt at it.
        """
        llm = self.llm
        key = llm.digest(messages, sample)
        if llm.cache is not None and (answer := llm.cache.get(key)) is not None:
            llm._count(cached=1)
            logprobs = tuple(answer.pop("logprobs", ()))
            return Completion(**answer, cached=True, logprobs=logprobs)
        answered = await self._answered(messages, self._chat)
        if llm.cache is not None:
            answer = {name: fact for name, fact in asdict(answered).items() if name != "cached"}
            if not answered.logprobs:
                del answer["logprobs"]
            llm.cache.put(key, llm.model, answer)
        return answered

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """The embedding of each text, from the cache where it was asked for before.

        The others are asked for in one request. Of the parameters of the :class:`LLM`, temperature
        and limits are not sent: they are for chats.

        Raises:
            LLMError: there was no answer; says why, and after how many attempts.
            BudgetError: the budget does not allow the call, or another attempt at it.
        """
        keys = {text: self.llm.embedding_digest(text) for text in texts}
        return await self._of_texts(keys, "embedding", self._embedding, texts)

    async def relevance(self, query: str, texts: Sequence[str], form: RerankForm) -> list[float]:
        """How relevant each text is to a query, from the cache where it was asked for before.

        As :meth:`embed`, by ``POST .../rerank``.

        Args:
            query: the question.
            texts: the passages.
            form: how the endpoint is asked.

        Raises:
            LLMError: there was no answer; says why, and after how many attempts.
            BudgetError: the budget does not allow the call, or another attempt at it.
        """
        keys = {text: self.llm.relevance_digest(query, text, form) for text in texts}
        return await self._of_texts(
            keys, "relevance", lambda new: self._reranking(query, new, form), texts
        )

    async def _of_texts(
        self,
        keys: Mapping[str, bytes],
        what: str,
        request: Callable[[Sequence[str]], _Request[list[T]]],
        texts: Sequence[str],
    ) -> list[T]:
        """One thing of each text; those that the cache lacks are asked for in one request."""
        llm = self.llm
        known: dict[str, T] = {}
        for text, key in keys.items():
            if llm.cache is not None and (entry := llm.cache.get(key)) is not None:
                known[text] = entry[what]
        llm._count(cached=len(known))
        if new := [text for text in keys if text not in known]:
            values: list[T] = await self._answered(new, request)
            for text, value in zip(new, values, strict=True):
                known[text] = value
                if llm.cache is not None:
                    llm.cache.put(keys[text], llm.model, {what: value})
        return [known[text] for text in texts]

    async def _answered(
        self, asked: Sequence[U], request: Callable[[Sequence[U]], _Request[T]]
    ) -> T:
        async with self._slots:
            answered = await self._retried(asked, request)
        if isinstance(answered, Exception):
            # Raised here, and not where others are caught: those may hold secrets.
            raise answered
        return answered

    async def _retried(
        self, asked: Sequence[U], request: Callable[[Sequence[U]], _Request[T]]
    ) -> T | LLMError:
        """The answer, or why there is none."""
        llm = self.llm
        try:
            made = request(asked)
        except UnicodeEncodeError as error:
            return llm._error(f"not asked: the prompt has text that is not Unicode ({error})")
        try:
            return await llm.retries.call(lambda seconds: self._attempt(made, seconds), self._reach)
        except BudgetError as error:
            return error
        except (TransientError, LLMError) as error:
            return llm._error(str(error), error.status)

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
            lambda answer, used: _completion(answer, used, llm._secrets),
        )

    def _embedding(self, texts: Sequence[str]) -> _Request[list[list[float]]]:
        llm = self.llm
        size = sum(len(text.encode()) for text in texts)
        most = size + _ROLE_TOKENS * len(texts), 0
        # In base64, which the SDK prefers, not every server can send it.
        asked = {"model": llm.model, "input": list(texts), "encoding_format": "float"}
        return _Request(
            "/embeddings",
            llm._settings_but_of_chats() | asked,
            size,
            most,
            lambda answer, _: _vectors(answer, len(texts), llm._secrets),
        )

    def _reranking(
        self, query: str, texts: Sequence[str], form: RerankForm
    ) -> _Request[list[float]]:
        llm = self.llm
        sizes = [len(query.encode()) + len(text.encode()) for text in texts]
        most = sum(sizes) + _ROLE_TOKENS * len(texts), 0
        asked = {"query": query, _DOCUMENTS[form]: list(texts)}
        if form == "jina":
            asked["model"] = llm.model
        return _Request(
            "/rerank",
            llm._settings_but_of_chats() | asked,
            sum(sizes),
            most,
            lambda answer, _: _relevance(answer, len(texts), llm._secrets),
        )

    async def _attempt(self, request: _Request[T], seconds: float) -> T:
        """Send a request to one server, or to the next where that one is gone."""
        end = time.monotonic() + seconds
        return await asked_in_turn(
            self._servers,
            lambda server: self._asked(server, request, max(0.0, end - time.monotonic())),
        )

    async def _asked(self, server: Server, request: _Request[T], seconds: float) -> T:
        """Send a request once, and count what it costs."""
        llm = self.llm
        price, most = llm.price or Price(0, 0), request.most
        need = sum(most), price.cost(*most)
        async with llm.budget.call(*need) if llm.budget else nullcontext(Hold(*need)) as hold:
            llm._count(calls=1)
            answer = decoded(await self._send(server, request, seconds, hold))
            if isinstance(answer, list) and request.path == "/rerank":  # as TEI answers
                answer = {"results": answer}
            if not isinstance(answer, dict):
                excerpt = llm._secrets.excerpt(answer)
                raise TransientError(f"the answer is not a JSON object but {excerpt}")
            used = _tokens(answer, request.size)
            hold.tokens, hold.cost = sum(used), price.cost(*used)
        llm._count(prompt_tokens=used[0], completion_tokens=used[1], cost=hold.cost)
        return request.read(answer, used)

    async def _send(
        self, server: Server, request: _Request[Any], seconds: float, hold: Hold
    ) -> bytes:
        """The server's answer; the hold is given back where it can have cost nothing.

        Raises:
            TransientError: there was none, for a reason that may pass.
            LLMError: there was none, for another reason.
        """
        import httpx
        import openai

        try:
            # httpx's own timeouts are for one read: a server that drips would never reach them.
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
            raise TransientError(f"no complete answer within {seconds:.3g} s") from None
        except openai.APIStatusError as error:
            hold.give_back()
            raise _status_error(error, self.llm._secrets) from None
        except (openai.APIConnectionError, OSError) as error:
            cause = error.__cause__ or error
            if isinstance(cause, LLMError | TransientError):
                raise cause from None
            reason = f"{type(cause).__name__}: {cause}".removesuffix(": ")
            unreached = type(cause).__name__ == "ConnectError"  # httpx's or httpx2's
            if unreached:
                hold.give_back()
            raise TransientError(
                f"no connection, or it was lost ({reason})", unreached=unreached, lost=True
            ) from None
        except openai.OpenAIError as error:
            raise LLMError(f"{type(error).__name__}: {error}") from None


# Reading what servers send ------------------------------------------------------------------------


def _completion(answer: Mapping[str, Any], used: tuple[int, int], secrets: Secrets) -> Completion:
    """The first choice of an answer.

    Raises:
        TransientError: it has none, or one without a text.
        LLMError: the model, or a filter before it, would not answer; it called a tool; or it gave
            the key away.
    """
    try:
        choice = answer["choices"][0]
        message = choice["message"]
        text, reason = _text(message.get("content")), choice.get("finish_reason") or ""
    except (LookupError, TypeError, AttributeError):
        raise TransientError(f"the answer has no choice: {secrets.excerpt(answer)}") from None
    if reason == "content_filter":
        raise LLMError("the answer was held back by a content filter")
    if message.get("refusal"):
        raise LLMError(f"the model refused: {secrets.excerpt(message['refusal'])}")
    if reason == "length" and not (isinstance(text, str) and text.strip()):
        raise LLMError("max_tokens were used up before any text was written; give more")
    if not isinstance(text, str) and (message.get("tool_calls") or message.get("function_call")):
        raise LLMError(
            f"the model called a tool, and wrote no text: {secrets.excerpt(choice)}; ask without "
            "tools"
        )
    if not isinstance(text, str):
        raise TransientError(f"the answer has no text: {secrets.excerpt(choice)}")
    reason = str(reason)
    try:
        (text + reason).encode()
    except UnicodeEncodeError as error:
        raise TransientError(f"the answer has text that is not Unicode ({error})") from None
    if secrets.key_in(text):
        raise LLMError("the answer repeats the key, and is not kept")
    return Completion(text, reason, *used, logprobs=_logprobs(choice))


def _logprobs(choice: Mapping[str, Any]) -> tuple[dict[str, float], ...]:
    """The log probabilities of a choice; none where it has none, or others than OpenAI's form."""
    try:
        places = (choice.get("logprobs") or {}).get("content") or ()
        return tuple(
            {
                str(each["token"]).encode("utf-8", "replace").decode(): float(each["logprob"])
                for each in (*(place.get("top_logprobs") or ()), place)
            }
            for place in places
        )
    except (LookupError, TypeError, AttributeError, ValueError):
        return ()


def _text(content: Any) -> Any:
    """The text of a message, of which some servers make a list of parts."""
    if not isinstance(content, list) or not content:
        return content
    parts = [part.get("text") if isinstance(part, dict) else part for part in content]
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if len(texts) == len(parts) else content


def _vectors(answer: Mapping[str, Any], count: int, secrets: Secrets) -> list[list[float]]:
    """The embeddings in an answer, in the order of the texts.

    Raises:
        TransientError: they are not as many, not of one length, or no numbers.
    """
    try:
        entries = {entry["index"]: entry["embedding"] for entry in answer["data"]}
        vectors = [[float(number) for number in entries[i]] for i in range(count)]
    except (LookupError, TypeError, ValueError, OverflowError):
        raise TransientError(
            f"the answer has no {count} embeddings: {secrets.excerpt(answer)}"
        ) from None
    sound = vectors and len({len(vector) for vector in vectors}) == 1
    if not sound or not vectors[0] or not all(map(math.isfinite, chain(*vectors))):
        raise TransientError("the answer has embeddings that are not finite numbers of one length")
    return vectors


def _relevance(answer: Mapping[str, Any], count: int, secrets: Secrets) -> list[float]:
    """The scores in an answer, in the order of the texts.

    Raises:
        TransientError: they are not as many, or no finite numbers.
    """
    try:
        rows = answer["results"] if "results" in answer else answer["data"]
        scores = {row["index"]: row.get("relevance_score", row.get("score")) for row in rows}
        found = [float(scores[i]) for i in range(count)]
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError):
        raise TransientError(
            f"the answer has no {count} scores: {secrets.excerpt(answer)}"
        ) from None
    if not all(map(math.isfinite, found)):
        raise TransientError("the answer has scores that are not finite numbers")
    return found


def _tokens(answer: Mapping[str, Any], size: int) -> tuple[int, int]:
    """The tokens of input and output that an answer reports, estimated where it does not."""
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    # Embeddings and scores have no output.
    written = usage.get("completion_tokens", None if "choices" in answer else 0)
    used = usage.get("prompt_tokens"), written
    if all(type(number) is int and 0 <= number < _ABSURD for number in used):
        return cast(tuple[int, int], used)
    try:
        text = str(_text(answer["choices"][0]["message"]["content"]) or "")
    except (LookupError, TypeError):
        text = ""
    return _by_size(size), estimate_tokens(text)


def _status_error(error: APIStatusError, secrets: Secrets) -> TransientError | LLMError:
    status, response = error.status_code, error.response
    details = error.body if isinstance(error.body, dict) else {}
    said = secrets.excerpt(details.get("message") or error.body or response.text)
    reason = f"HTTP {status}: {said}" if said else f"HTTP {status}"
    if response.is_redirect:
        moved = secrets.excerpt(response.headers.get("location", ""))
        return LLMError(f"{reason}: moved to {moved}; give that as base_url", status)
    if error.code == "content_filter":
        return LLMError(f"held back by a content filter ({reason})", status)
    fault = transient_status(status, reason, response.headers)
    return fault if fault and error.code != "insufficient_quota" else LLMError(reason, status)


# Settings -----------------------------------------------------------------------------------------


def _parameters(
    temperature: float | None, limit: str, max_tokens: int | None, more: Mapping[str, Any]
) -> dict[str, Any]:
    """What is sent beside model and messages; a limit among ``more`` stands for ``max_tokens``."""
    if ours := [name for name in _OURS if name in more]:
        raise SettingError(f"parameters may not set {', '.join(ours)}: the client does")
    chosen: dict[str, Any] = {"temperature": temperature}
    if not any(name in more for name in _LIMITS):
        chosen[limit] = max_tokens
    parameters = {name: value for name, value in chosen.items() if value is not None}
    parameters |= more
    try:
        json.dumps(parameters, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise SettingError(f"parameters are sent as JSON, and these cannot be ({error})") from None
    return parameters


def _longest(parameters: Mapping[str, Any]) -> int:
    """The tokens that an answer may have, 0 where nothing limits them."""
    return max((parameters[name] for name in _LIMITS if name in parameters), default=0)


def _cache(cache: bool | str | Path | Cache) -> Cache | None:
    if isinstance(cache, Cache):
        return cache
    if cache is False:
        return None
    return Cache(default_cache_path() if cache is True else cache)
