"""From whatever answers queries (a function, a file, ...) to a run on a dataset."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirage.dataset import MirageDataset, read_run
from mirage.errors import DatasetError, GenerationError, UnknownNameError
from mirage.models import Query, Response, Run

__all__ = ["ModelLike", "respond"]

Answer = Callable[[Query], str] | Callable[[Query], Awaitable[str]]

ModelLike = Answer | Run | Mapping[str, str] | str | os.PathLike[str]
"""What can answer queries.

A function ``(query) -> str``, sync or async; a :class:`~mirage.Run`; a mapping from query id to
text; or the path of a JSON Lines file of responses.
"""

MISSING = "no response to this query"


def respond(
    model: ModelLike,
    dataset: MirageDataset,
    name: str = "my-model",
    *,
    progress: bool = True,
    concurrency: int = 8,
) -> Run:
    """A run with one response to each query of the dataset, in its order.

    A function is called once a query. If it is async, ``concurrency`` calls are under way at a
    time, also where an event loop is running already (in a notebook): they then run in a thread,
    in a loop of their own. A query is a failure, with the reason in its response, where the
    function raises an exception or returns something other than text, and where a run, mapping
    or file has no response.

    Args:
        model: what answers; see :data:`ModelLike`.
        dataset: the queries.
        name: the run's name for the model.
        progress: show a progress bar on stderr while a function is called, if that is a terminal.
        concurrency: calls of an async function under way at a time.

    Raises:
        GenerationError: every query is a failure; shows the first reason.
        UnknownNameError: a run, mapping or file answers a query that the dataset does not have.
        DatasetError: a run is in another language, a file is not as it should be, or ``model`` is
            nothing that can answer.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency is a number of calls, 1 or more, not {concurrency}")
    if isinstance(model, Run):
        outcomes = _recorded(model, dataset, name)
    elif isinstance(model, Mapping):
        outcomes = _recorded(_run_of(model, dataset, name), dataset, name)
    elif isinstance(model, str | os.PathLike):
        run = read_run(Path(model), language=dataset.language, model=name)
        outcomes = _recorded(run, dataset, name)
    elif callable(model):
        with _bar(len(dataset), name, progress) as bar:
            outcomes = _asked(model, tuple(dataset), concurrency, bar.update)
    else:
        raise DatasetError(
            f"{model!r} cannot answer queries: give a function (query) -> str, a Run, a mapping "
            "from query id to text, or the path of a JSON Lines file of responses"
        )
    return _checked(outcomes, dataset, name)


@dataclass(frozen=True)
class _Outcome:
    """The response to one query, and the exception if it failed with one."""

    response: Response
    error: Exception | None = None


def _checked(outcomes: Sequence[_Outcome], dataset: MirageDataset, name: str) -> Run:
    """The run, if anything in it is not a failure."""
    if all(outcome.response.text is None for outcome in outcomes):
        first = outcomes[0]
        raise GenerationError(
            f"model {name!r} failed on all {len(outcomes)} queries of {dataset.name}; the first "
            f"failure, on {first.response.query_id!r}: {first.response.error}"
        ) from first.error
    responses = tuple(outcome.response for outcome in outcomes)
    return Run(model=name, language=dataset.language, responses=responses)


# What was answered before -------------------------------------------------------------------------


def _recorded(run: Run, dataset: MirageDataset, name: str) -> list[_Outcome]:
    if run.language != dataset.language:
        raise DatasetError(
            f"run of model {name!r} is in {run.language!r}, but {dataset.name} is in "
            f"{dataset.language!r}; rank it on a dataset of its own language"
        )
    _check_ids((response.query_id for response in run), dataset, name)
    return [
        _Outcome(run.get(id_) or Response(query_id=id_, text=None, error=MISSING))
        for id_ in dataset.query_ids
    ]


def _run_of(texts: Mapping[Any, Any], dataset: MirageDataset, name: str) -> Run:
    # As in files, a query id 34 is the id "34".
    by_id = {str(key) if type(key) is int else key: text for key, text in texts.items()}
    _check_ids(by_id, dataset, name)
    responses = tuple(
        _outcome(id_, text).response for id_, text in by_id.items() if text is not None
    )
    return Run(model=name, language=dataset.language, responses=responses)


def _check_ids(query_ids: Iterable[str], dataset: MirageDataset, name: str) -> None:
    known = set(dataset.query_ids)
    for query_id in query_ids:
        if query_id not in known:
            kind = f"query of {dataset.name}, answered by model {name!r}:"
            raise UnknownNameError(kind, query_id, dataset.query_ids)


# Calling a function -------------------------------------------------------------------------------


def _asked(
    model: Answer, queries: Sequence[Query], concurrency: int, done: Callable[[], object]
) -> list[_Outcome]:
    """Call the function on one query after the other, or concurrently once it proves async.

    Whether it is cannot be told before a call: think of ``lambda query: client.answer(query)``.
    """
    outcomes = []
    for i, query in enumerate(queries):
        try:
            answer: Any = model(query)
        except Exception as error:
            outcomes.append(_failure(query.id, error))
        else:
            if inspect.isawaitable(answer):
                rest = _ask_concurrently(model, queries[i:], answer, concurrency, done)
                try:
                    return outcomes + _finished(rest)
                except BaseExceptionGroup as group:
                    raise group.exceptions[0].__cause__ or group from None
            outcomes.append(_outcome(query.id, answer))
        done()
    return outcomes


class _InterruptError(Exception):
    """Carries an interrupt out of a task: by itself it would break the loop off, not end it."""


async def _ask_concurrently(
    model: Answer,
    queries: Sequence[Query],
    first: Awaitable[Any],
    concurrency: int,
    done: Callable[[], object],
) -> list[_Outcome]:
    """The outcomes of all queries, the call on the first one having been made already."""
    outcomes: dict[str, _Outcome] = {}
    waiting = iter(queries)

    async def work() -> None:
        for query in waiting:
            pending = first if query is queries[0] else None
            try:
                outcomes[query.id] = await _ask(model, query, pending)
            except (KeyboardInterrupt, SystemExit) as interrupt:
                raise _InterruptError from interrupt
            done()

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, len(queries))):
            group.create_task(work())
    return [outcomes[query.id] for query in queries]


async def _ask(model: Answer, query: Query, pending: Awaitable[Any] | None) -> _Outcome:
    try:
        answer: Any = model(query) if pending is None else pending
        if inspect.isawaitable(answer):
            answer = await answer
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # The function itself gave up, as some clients do on a timeout.
        return _failure(query.id, RuntimeError(f"cancelled {error}".strip()))
    except Exception as error:
        return _failure(query.id, error)
    return _outcome(query.id, answer)


def _finished(work: Coroutine[Any, Any, list[_Outcome]]) -> list[_Outcome]:
    """Run to the end, in a thread if this one has a running loop (which cannot be waited in)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return _finished_in_thread(work)


def _finished_in_thread(work: Coroutine[Any, Any, list[_Outcome]]) -> list[_Outcome]:
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def main() -> list[_Outcome]:
        task = asyncio.current_task()
        assert task is not None
        started.append((asyncio.get_running_loop(), task))
        return await work

    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(context.run, asyncio.run, main())
        try:
            return future.result()
        except BaseException:
            # Interrupted while waiting: leaving the pool would wait for every query still.
            for loop, task in started:
                with contextlib.suppress(RuntimeError):  # the loop is closed: all is over
                    loop.call_soon_threadsafe(task.cancel)
            raise


def _outcome(query_id: str, answer: object) -> _Outcome:
    if not isinstance(answer, str):
        reason = f"the response is of type {type(answer).__name__}, not str"
        return _Outcome(Response(query_id=query_id, text=None, error=reason))
    try:
        answer.encode("utf-8")
    except UnicodeEncodeError as error:
        return _failure(query_id, error)
    return _Outcome(Response(query_id=query_id, text=answer))


def _failure(query_id: str, error: Exception) -> _Outcome:
    reason = f"{type(error).__name__}: {error}".removesuffix(": ")
    reason = reason.encode("utf-8", "replace").decode("utf-8")
    return _Outcome(Response(query_id=query_id, text=None, error=reason), error)


def _bar(total: int, name: str, progress: bool) -> Any:
    from tqdm import tqdm

    # None: on a terminal only.
    return tqdm(total=total, desc=f"responses of {name}", disable=None if progress else True)
