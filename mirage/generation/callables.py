"""Generators from what is at hand: a function, or what was recorded before."""

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
from mirage.dataset import MirageDataset, read_run
from mirage.errors import DatasetError, GenerationError, SettingError
from mirage.generation.base import Recording, answered, check_ids, failed, recording
from mirage.generation.replies import Reply
from mirage.models import Query, Response, Run

__all__ = ["Answer", "CallableGenerator", "Recorded", "ReplayGenerator", "recorded"]

Answer = Callable[[Query], Reply] | Callable[[Query], Awaitable[Reply]]
"""A function that answers a query, sync or async.

It returns a text; or a tuple of the text and the passages that it was made from; or a
:class:`~mirage.Response`. Passages are :class:`~mirage.Passage` objects, mappings with ``id`` and
``text``, texts, or ids of passages of the query.
"""

Recorded = Run | Mapping[str, Reply] | str | os.PathLike[str]
"""Responses: a run, a mapping from query id to text, or the path of a JSON Lines file.

A mapping may hold whatever a function may return.
"""

MISSING = "no response to this query"


class CallableGenerator:
    """A generator from a function of a query, which is called once for each query.

    The function returns a text, a tuple ``(text, passages)`` with the passages that the text was
    made from, or a :class:`~mirage.Response`; see :data:`Answer`. It gets the query without what
    its answer is measured by (:meth:`mirage.Query.without_gold`).

    A sync function is called on one query after the other, in the thread that runs it. A query is a
    failure if the function raises an exception, returns something else, or takes longer than
    ``timeout``.

    Example:
        >>> from mirage import CallableGenerator, MirageDataset
        >>> def bot(query):
        ...     return "The harbour opened in 1912 [1].", ["The harbour opened in 1912."]
        >>> run = CallableGenerator(bot).run(MirageDataset.bundled("en").sample(1))
        >>> [passage.text for response in run for passage in response.passages]
        ['The harbour opened in 1912.']

    Args:
        function: the function.
        name: what the run calls the model.
        concurrency: calls of an async function under way at a time.
        timeout: seconds that a call may take, ``None`` for any time. An async function is cancelled
            then. A sync one is called in a thread of its own, where it goes on though nobody waits
            for it: Python cannot stop it, and what it holds or spends there it goes on to hold and
            spend. Nor can an async function be stopped that blocks without awaiting.

    Raises:
        SettingError: ``concurrency`` is below 1, or ``timeout`` not above 0.
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
            raise SettingError(f"concurrency is a number of calls, 1 or more, not {concurrency}")
        if timeout is not None and not timeout > 0:
            raise SettingError(f"timeout is a number of seconds above 0, or None, not {timeout}")
        self.function: Answer = function
        self.name: str = name
        self.concurrency: int = concurrency
        self.timeout = timeout

    def __repr__(self) -> str:
        return f"CallableGenerator({self.name!r})"

    def run(
        self, dataset: MirageDataset, *, out: str | Path | None = None, progress: bool = True
    ) -> Run:
        """As :meth:`mirage.Generator.run`."""
        with recording(self.name, dataset, out, progress) as record:
            for i, query in enumerate(record.pending):
                # Whether the function is async cannot be told before a call: think of
                # ``lambda query: client.answer(query)``.
                try:
                    answer: Any = self._called(query)
                    response = None if inspect.isawaitable(answer) else answered(query, answer)
                except Exception as error:
                    record.fail(query, error)
                    continue
                if response is None:
                    run_sync(self._concurrently(record, record.pending[i:], answer))
                    break
                record.add(response)
            return record.finish()

    def _called(self, query: Query) -> Any:
        """What the function returns, if that is not too long in coming."""
        if self.timeout is None:
            return self.function(query)
        answers: SimpleQueue[tuple[Any, Exception | None]] = SimpleQueue()
        context = copy_context()

        def call() -> None:
            try:
                answers.put((context.run(self.function, query), None))
            except Exception as error:
                answers.put((None, error))

        # Of all threads, only a daemon does not keep the process from ending.
        Thread(target=call, daemon=True, name=f"mirage: {query.id}").start()
        try:
            answer, error = answers.get(timeout=self.timeout)
        except Empty:
            raise self._late() from None
        if error is not None:
            raise error
        return answer

    def _late(self) -> GenerationError:
        return GenerationError(f"no answer within {self.timeout:g} s")

    async def _concurrently(
        self, record: Recording, queries: Sequence[Query], first: Awaitable[Reply]
    ) -> None:
        """Ask all of these queries, the call on the first one having been made already."""

        async def answer(query: Query) -> Response:
            limit = asyncio.timeout(self.timeout)
            try:
                async with limit:
                    text: Any = first if query is queries[0] else self.function(query)
                    return answered(query, await text if inspect.isawaitable(text) else text)
            except TimeoutError:
                if limit.expired():
                    raise self._late() from None
                raise  # the function's own

        await for_each(queries, lambda query: record.ask(query, answer), self.concurrency)


class ReplayGenerator:
    """Answers with what was recorded before.

    A query without a response is a failure. Query ids of a mapping may be numbers.

    Args:
        source: a :class:`~mirage.Run`, a mapping from query id to text, or the path of a JSON Lines
            file of responses; see :func:`~mirage.read_run`.
        name: what the run calls the model.

    ``run`` also raises what :func:`mirage.respond` does.
    """

    def __init__(self, source: Recorded, name: str = "my-model") -> None:
        self.source: Recorded = source
        self.name: str = name

    def __repr__(self) -> str:
        return f"ReplayGenerator({self.name!r})"

    def run(
        self, dataset: MirageDataset, *, out: str | Path | None = None, progress: bool = True
    ) -> Run:
        """As :meth:`mirage.Generator.run`."""
        responses = recorded(self.recording(dataset), dataset, self.name)
        with recording(self.name, dataset, out, progress) as record:
            pending = {query.id for query in record.pending}
            for response in responses:
                if response.query_id in pending:
                    record.add(response)
            return record.finish()

    def recording(self, dataset: MirageDataset) -> Run:
        """What was recorded, with all of its repeats."""
        if isinstance(self.source, Run):
            return self.source
        if isinstance(self.source, Mapping):
            return _run_of(self.source, dataset, self.name)
        if not os.path.exists(self.source):
            raise DatasetError(
                f"{os.fspath(self.source)[:200]}: no such file; a text or a path stands for a "
                "JSON Lines file of responses"
            )
        return read_run(Path(self.source), language=dataset.language, model=self.name)


def recorded(run: Run, dataset: MirageDataset, name: str) -> tuple[Response, ...]:
    """The run's responses in the dataset's order; what it does not answer is a failure.

    Raises:
        UnknownNameError: the run answers a query that the dataset does not have.
        DatasetError: the run is in another language.
    """
    if run.language != dataset.language:
        raise DatasetError(
            f"run of model {name!r} is in {run.language!r}, but {dataset.name} is in "
            f"{dataset.language!r}; rank it on a dataset of its own language"
        )
    check_ids((response.query_id for response in run), dataset, f"by model {name!r}")
    return tuple(
        run.get(id_) or Response(query_id=id_, text=None, error=MISSING)
        for id_ in dataset.query_ids
    )


def _run_of(texts: Mapping[Any, Any], dataset: MirageDataset, name: str) -> Run:
    # As in files, a query id 34 is the id "34".
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
