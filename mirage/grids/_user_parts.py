"""Adapters for components that users write for a grid, as objects, functions or classes.

In a grid file such a component has ``kind: own``; here it is called a part.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mirage.corpus import Corpus
from mirage.errors import GenerationError, SettingError
from mirage.generation import Generator, Prompt
from mirage.generation.base import answered
from mirage.generation.callables import CallableGenerator
from mirage.generation.prompts import PromptMaker, user_message
from mirage.models import Passage, Query, Response
from mirage.retrieval import RetrievalRun
from mirage.retrieval.run import NO_HITS

METHODS = {
    "retrievers": "retrieve",
    "rewriters": "rewrite",
    "rerankers": "rerank",
    "processors": "process",
    "generators": "run",
    "prompts": "__call__",
}
"""The method that a component of each section must have, unless it is a function or a class."""

NO_FUNCTIONS = ("rewriters", "rerankers")
"""The sections whose components must be objects; functions and classes are refused."""


def check(section: str, part: object) -> None:
    """Raise a ``SettingError`` if ``part`` cannot be a component of this section of the file."""
    method = METHODS[section]
    if _has(part, method) or (callable(part) and section not in NO_FUNCTIONS):
        return
    name = getattr(part, "__name__", type(part).__name__)
    kind = "an object" if section in NO_FUNCTIONS else "a function, or an object"
    raise SettingError(f"expected {kind} with a method {method!r}, got {name}")


def _has(part: object, method: str) -> bool:
    return hasattr(part, method) and not isinstance(part, type)


class _Retriever:
    """A wrapper around the user's retriever that hides answers and qrels from it."""

    def __init__(self, part: Any, name: str, corpus: Corpus) -> None:
        self._part = part if _has(part, "retrieve") else part(corpus)
        self.name = name
        self.corpus = corpus
        self.fingerprint = name

    def retrieve(self, queries: Iterable[Query], k: int) -> RetrievalRun:
        hidden = [query.without_gold() for query in queries]
        run = self._part.retrieve(hidden, k)
        _check_run(run, self.name)
        hits = {query.id: run.get(query.id, NO_HITS).top(k) for query in hidden}
        return RetrievalRun(hits, self.name)


class _Rewriter:
    """A wrapper around the user's query rewriter that hides answers and qrels from it."""

    def __init__(self, part: Any, name: str) -> None:
        self._part = part
        self.name = name
        self.fingerprint = name

    def rewrite(self, queries: Sequence[Query]) -> Sequence[Query]:
        rewritten: Sequence[Query] = self._part.rewrite([query.without_gold() for query in queries])
        return rewritten


class _Reranker:
    """A wrapper around the user's reranker that hides answers and qrels from it."""

    def __init__(self, part: Any, name: str) -> None:
        self._part = part
        self.name = name
        self.fingerprint = name

    def rerank(
        self, run: RetrievalRun, corpus: Corpus, queries: Iterable[Query], depth: int
    ) -> RetrievalRun:
        hidden = [query.without_gold() for query in queries]
        reranked = self._part.rerank(run, corpus, hidden, depth)
        _check_run(reranked, self.name)
        hits = {query.id: reranked.get(query.id, NO_HITS).top(depth) for query in hidden}
        return RetrievalRun(hits, self.name)


def _check_run(run: object, name: str) -> None:
    if not isinstance(run, RetrievalRun):
        raise SettingError(
            f"{name} must return a RetrievalRun, such as RetrievalRun.of({{query_id: "
            f"{{passage_id: score}}}}), got {type(run).__name__}"
        )


class _Processor:
    """A context processor that calls the user's function with a query and its passages."""

    def __init__(self, function: Callable[[Query, Sequence[Passage]], Sequence[Passage]]) -> None:
        self.process = function


def takes_prompt(part: Any) -> bool:
    """Return whether the user's generator is a function with a parameter ``prompt``.

    Such a function gets the prompt that the grid's prompt entry builds for each query.
    """
    if isinstance(part, Generator) and not isinstance(part, type):
        return False
    return "prompt" in inspect.signature(part).parameters


def _make_generator(
    part: Any, name: str, *, prompt: PromptMaker | None = None, **_: Any
) -> Generator:
    """Return the user's generator, or wrap the user's function as a generator.

    If the function has a parameter ``prompt``, it gets the prompt of each query.
    """
    if isinstance(part, Generator) and not isinstance(part, type):
        return part
    model = name.partition(".")[2]
    if not takes_prompt(part):
        return CallableGenerator(part, model)
    if prompt is None:
        raise SettingError(
            f"{name} has a parameter 'prompt', but this cell of the grid has no prompt; list a "
            "prompt in grid.prompt"
        )

    def answer(query: Query) -> Response:
        made = prompt(query)
        return answered(query, part(query, prompt=made), made.shown)

    async def answer_async(query: Query) -> Response:
        made = prompt(query)
        return answered(query, await part(query, prompt=made), made.shown)

    return CallableGenerator(answer_async if inspect.iscoroutinefunction(part) else answer, model)


def _make_prompt(part: Any, name: str, **_: Any) -> PromptMaker:
    """Wrap the user's prompt function so that it returns a :class:`mirage.generation.Prompt`.

    The user's function may return a string, a list of messages, or a ``Prompt``.
    """

    def make(query: Query) -> Prompt:
        prompt = part(query)
        if isinstance(prompt, Prompt):
            return prompt
        ids = tuple(passage.id for passage in query.passages)
        if isinstance(prompt, str):
            return Prompt(user_message(prompt), ids)
        if isinstance(prompt, list | tuple) and all(isinstance(m, Mapping) for m in prompt):
            return Prompt(tuple(prompt), ids)
        raise GenerationError(
            f"{name} must return a text, a list of messages or a Prompt, got "
            f"{type(prompt).__name__}"
        )

    return make


def _make_processor(part: Any, name: str, **_: Any) -> Any:  # noqa: ARG001
    return part if _has(part, "process") else _Processor(part)


ADAPTERS: Mapping[str, Callable[..., Any]] = {
    "retrievers": lambda part, name, *, corpus, **_: _Retriever(part, name, corpus),
    "rewriters": lambda part, name, **_: _Rewriter(part, name),
    "rerankers": lambda part, name, **_: _Reranker(part, name),
    "processors": _make_processor,
    "generators": _make_generator,
    "prompts": _make_prompt,
}
"""For each section, the function that wraps a user's component for use in a pipeline."""
