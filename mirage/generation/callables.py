"""Generators from a Python function, and from responses that were recorded before."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import copy_context
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from mirage._base.concurrency import for_each, run_sync
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, GenerationError, SettingError
from mirage.generation.base import Recording, answered, check_ids, failed, recording
from mirage.generation.replies import Reply
from mirage.models import Query, Response, Run

Answer = Callable[[Query], Reply] | Callable[[Query], Awaitable[Reply]]
"""A function that answers a query, sync or async.

A function returns a text, a tuple of the text and the passages that it was made from, or a
:class:`~mirage.Response`. A passage is a :class:`~mirage.Passage` object, a mapping with ``id`` and
``text``, a text, or the id of one of the query's passages.
"""

Recorded = Run | Mapping[str, Reply] | str | os.PathLike[str]
"""Recorded responses: a run, a mapping from query id to text, or the path of a JSON Lines file.

The values of a mapping may be anything that a function may return; see :data:`Answer`.
"""

MISSING = "no response to this query"


class CallableGenerator:
    """A generator that calls a function once for each query.

    The function returns a text, a tuple ``(text, passages)`` with the passages that the text was
    made from, or a :class:`~mirage.Response`; see :data:`Answer`. It receives the query without
    gold answers and labels (:meth:`mirage.Query.without_gold`).

    A sync function is called on one query at a time, in the thread that calls ``run`` or, with a
    ``timeout``, in a separate thread. A query counts as failed if the function raises an exception,
    returns a value of any other type, or takes longer than ``timeout``.

    Example:
        >>> from mirage import MirageDataset
        >>> from mirage.generation.callables import CallableGenerator
        >>> def bot(query):
        ...     return "The harbour opened in 1912 [1].", ["The harbour opened in 1912."]
        >>> run = CallableGenerator(bot).run(MirageDataset.bundled("en").sample(1))
        >>> [passage.text for response in run for passage in response.passages]
        ['The harbour opened in 1912.']

    Args:
        function: The function, sync or async.
        name: The name of the model in the run.
        concurrency: Maximum number of concurrent calls of an async function.
        timeout: Seconds that a call may take; ``None`` for no limit. After that time, an async
            function is cancelled. Python cannot stop the thread of a sync function: the call
            continues, with its costs, although its result is no longer used. An async function that
            blocks without awaiting cannot be stopped either.

    Raises:
        SettingError: If ``concurrency`` is below 1, or ``timeout`` is not above 0.
    """

    def __init__(
        self,
        function: Answer,
        name: str = "my-model",
        *,
        concurrency: int = 8,
        timeout: float | None = None,
    ) -> None:
        if concurrency < 1:
            raise SettingError(f"concurrency must be at least 1, got {concurrency}")
        if timeout is not None and not timeout > 0:
            raise SettingError(f"timeout must be above 0 seconds, or None; got {timeout}")
        self.function: Answer = function
        self.name: str = name
        self.concurrency: int = concurrency
        self.timeout = timeout

    def __repr__(self) -> str:
        return f"CallableGenerator({self.name!r})"

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
        with recording(self.name, dataset, out, progress, self._answer_settings) as record:
            for i, query in enumerate(record.pending):
                # Only a call shows whether the function is async: a sync
                # ``lambda query: client.answer(query)`` may return an awaitable.
                try:
                    answer: Any = self._call(query)
                    response = None if inspect.isawaitable(answer) else answered(query, answer)
                except Exception as error:
                    record.fail(query, error)
                    continue
                if response is None:
                    run_sync(self._answer_concurrently(record, record.pending[i:], answer))
                    break
                record.add(response)
            return record.finish()

    def _answer_settings(self, _: MirageDataset) -> dict[str, Any]:
        """Return the settings on which answers depend; of a function, only the name is known."""
        return {"name": self.name}

    def _call(self, query: Query) -> Any:
        """Return the result of the function, or raise an error if it takes too long."""
        if self.timeout is None:
            return self.function(query)
        answers: SimpleQueue[tuple[Any, Exception | None]] = SimpleQueue()
        context = copy_context()

        def call() -> None:
            try:
                answers.put((context.run(self.function, query), None))
            except Exception as error:
                answers.put((None, error))

        # A daemon thread does not keep the process alive if the function hangs.
        Thread(target=call, daemon=True, name=f"mirage: {query.id}").start()
        try:
            answer, error = answers.get(timeout=self.timeout)
        except Empty:
            raise self._timeout_error() from None
        if error is not None:
            raise error
        return answer

    def _timeout_error(self) -> GenerationError:
        return GenerationError(f"no answer arrived within {self.timeout:g} s")

    async def _answer_concurrently(
        self, record: Recording, queries: Sequence[Query], first: Awaitable[Reply]
    ) -> None:
        """Record answers to the queries concurrently.

        ``first`` is the awaitable that returns the answer to the first query.
        """

        async def answer(query: Query) -> Response:
            limit = asyncio.timeout(self.timeout)
            try:
                async with limit:
                    text: Any = first if query is queries[0] else self.function(query)
                    return answered(query, await text if inspect.isawaitable(text) else text)
            except TimeoutError:
                if limit.expired():
                    raise self._timeout_error() from None
                raise  # the function itself raised it

        await for_each(queries, lambda query: record.ask(query, answer), self.concurrency)


class ReplayGenerator:
    """A generator that returns responses that were recorded before.

    A query without a response counts as failed. If ``source`` is a mapping, its query ids may be
    integers. ``run`` raises the same errors as :func:`mirage.respond`.

    Args:
        source: A :class:`~mirage.Run`, a mapping from query id to text, or the path of a JSON Lines
            file of responses (see :meth:`mirage.Run.load`).
        name: The name of the model in the run.

    Example:
        >>> from mirage import MirageDataset
        >>> dataset = MirageDataset.bundled("en").sample(1)
        >>> texts = {dataset[0].id: "It opened in 1912."}
        >>> [response.text for response in ReplayGenerator(texts).run(dataset)]
        ['It opened in 1912.']
    """

    def __init__(self, source: Recorded, name: str = "my-model") -> None:
        self.source: Recorded = source
        self.name: str = name

    def __repr__(self) -> str:
        return f"ReplayGenerator({self.name!r})"

    def run(
        self, dataset: MirageDataset, *, out: str | Path | None = None, progress: bool = True
    ) -> Run:
        """Return a run with the recorded responses to the queries of the dataset.

        Args:
            dataset: The queries.
            out: The file to which responses are appended, and from which a killed run resumes; see
                :meth:`mirage.Generator.run`.
            progress: Whether to show a progress bar on stderr, if stderr is a terminal.
        """
        responses = recorded(self.recording(dataset), dataset, self.name)
        with recording(self.name, dataset, out, progress) as record:
            pending = {query.id for query in record.pending}
            for response in responses:
                if response.query_id in pending:
                    record.add(response)
            return record.finish()

    def recording(self, dataset: MirageDataset) -> Run:
        """Return the recorded run, with all of its repeats.

        Args:
            dataset: The dataset that the responses answer.

        Raises:
            DatasetError: If the file does not exist or is not a file of responses.
            UnknownNameError: If a response answers a query that is not in the dataset.
        """
        if isinstance(self.source, Run):
            return self.source
        if isinstance(self.source, Mapping):
            return _run_of(self.source, dataset, self.name)
        if not os.path.exists(self.source):
            raise DatasetError(
                f"{os.fspath(self.source)[:200]}: no such file; pass the path of a JSON Lines "
                "file of responses, or a mapping from query id to text"
            )
        return Run.load(Path(self.source), language=dataset.language, model=self.name)


def recorded(run: Run, dataset: MirageDataset, name: str) -> tuple[Response, ...]:
    """Return a run's responses in the dataset's order; queries without one become failures.

    ``name`` is the name of the model in error messages.
    """
    if run.language != dataset.language:
        raise DatasetError(
            f"the run of model {name!r} is in {run.language!r}, but {dataset.name} is in "
            f"{dataset.language!r}; use a dataset in the language of the run"
        )
    check_ids((response.query_id for response in run), dataset, f"by model {name!r}")
    return tuple(
        run.get(id_) or Response(query_id=id_, text=None, error=MISSING)
        for id_ in dataset.query_ids
    )


def _run_of(texts: Mapping[Any, Any], dataset: MirageDataset, name: str) -> Run:
    # Query ids in files may be integers too: 34 is the id "34".
    by_id = {str(key) if type(key) is int else key: text for key, text in texts.items()}
    check_ids(by_id, dataset, f"by model {name!r}")
    responses = tuple(
        _response(dataset[id_], text) for id_, text in by_id.items() if text is not None
    )
    return Run(model=name, language=dataset.language, responses=responses)


def _response(query: Query, text: object) -> Response:
    try:
        return answered(query, text)
    except Exception as error:
        return failed(query, error)
