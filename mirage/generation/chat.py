"""Answers from a chat-completions endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mirage.dataset import MirageDataset
from mirage.errors import SettingError
from mirage.generation.base import answered, run_concurrently
from mirage.generation.prompts import ANSWER_TOKENS, PromptMaker, RagPrompt
from mirage.llm import LLM
from mirage.models import Query, Response, Run

__all__ = ["OpenAIGenerator"]


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
        self.llm = llm if isinstance(llm, LLM) else LLM(llm, **settings)
        self.name = name or self.llm.model
        self.prompt = prompt or RagPrompt(answer_tokens=self.llm.max_tokens or ANSWER_TOKENS)

    def __repr__(self) -> str:
        return f"OpenAIGenerator({self.llm}, name={self.name!r})"

    def run(
        self, dataset: MirageDataset, *, out: str | Path | None = None, progress: bool = True
    ) -> Run:
        """As :meth:`mirage.Generator.run`."""
        return run_concurrently(
            self.name, dataset, self._connect, self.llm.concurrency, out, progress
        )

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[Callable[[Query], Awaitable[Response]]]:
        async with self.llm.connect() as connection:

            async def answer(query: Query) -> Response:
                prompt = self.prompt(query)
                completion = await connection.ask(prompt.messages)
                return answered(query, completion.text, prompt.shown)

            yield answer
