"""What a generator is, and the two ways to make a run: concurrently, or batch by batch."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from mirage._base.concurrency import for_each, run_sync
from mirage._base.journal import Journal
from mirage._base.logs import logger
from mirage._base.progress import progress_bar
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, GenerationError, MirageError, UnknownNameError
from mirage.generation.replies import response_of
from mirage.models import Query, Response, Run

__all__ = [
    "Generator",
    "Recording",
    "answered",
    "check_ids",
    "check_name",
    "failed",
    "recording",
    "run_concurrently",
    "run_in_batches",
    "with_passages",
]

_LOG = logger("mirage.generation")


@runtime_checkable
class Generator(Protocol):
    """Anything with a name and this method is a generator: it answers the queries of a dataset."""

    @property
    def name(self) -> str:
        """What the run calls the model."""

    def run(
        self, dataset: MirageDataset, *, out: str | Path | None = None, progress: bool = True
    ) -> Run:
        """A run with one response to each query of the dataset, in its order.

        A query that fails, after all attempts at it, is in the run as a failure with its reason.
        Failures are counted in the progress bar and logged at the end, and do not stop the rest.

        Args:
            dataset: the queries.
            out: a JSON Lines file (:func:`~mirage.read_run` reads it) that every response is
                appended to as it comes. Where the file has a text for a query already, that text
                is kept and the query not asked again; failures are asked again. So a run that was
                killed goes on where it was. The file does not say which model wrote it, or by
                which prompt: each needs a file of its own. At the end it is in the dataset's order.
            progress: show a progress bar on stderr, if that is a terminal.

        Raises:
            GenerationError: every query failed; shows the first reason.
            UnknownNameError: ``out`` has a query that the dataset does not have.
            DatasetError: ``out`` is not such a file, or another process writes it.
        """


# Responses ----------------------------------------------------------------------------------------


def answered(query: Query, reply: object, shown: Sequence[str] | None = None) -> Response:
    """Return the response to a query from what a system returned.

    Args:
        query: the query.
        reply: a text, a (text, passages) tuple or a response.
        shown: the ids of the passages in the order of the prompt, if that is not the query's.

    Raises:
        GenerationError: it is nothing that a system may return; names the query.
        UnicodeEncodeError: a text is not Unicode, such as the half of an emoji that a cut JSON
            string gives.
    """
    response = response_of(query, reply)
    return response if shown is None else response.model_copy(update={"shown": tuple(shown)})


def failed(query: Query, error: Exception) -> Response:
    """A response that is a failure, with this error for its reason."""
    # Our own messages say what was wrong; of others, the class is often all that does.
    reason = str(error)
    if not isinstance(error, MirageError):
        reason = f"{type(error).__name__}: {reason}".removesuffix(": ")
        if isinstance(error, IndexError) and not query.passages:
            reason += " (the query has no passages)"
    reason = reason.encode("utf-8", "replace").decode("utf-8")
    return Response(query_id=query.id, text=None, error=reason)


def check_name(name: object) -> None:
    """Refuse a name that no run can have, before anything is asked.

    Raises:
        DatasetError: it is no text, empty, or no Unicode.
    """
    sound = isinstance(name, str) and bool(name)
    if isinstance(name, str):
        sound = sound and name == name.encode("utf-8", "replace").decode()
    if not sound:
        raise DatasetError(f"the name of a model is a text in Unicode, and not {name!a}")


def check_ids(query_ids: Iterable[str], dataset: MirageDataset, source: str) -> None:
    """Refuse answers to queries that the dataset does not have; ``source`` says whose they are.

    Raises:
        UnknownNameError: names the first such query.
    """
    ids = set(dataset.query_ids)
    for query_id in query_ids:
        if query_id not in ids:
            kind = f"query of {dataset.name}, answered {source}:"
            raise UnknownNameError(kind, query_id, dataset.query_ids)


# Runs that grow -----------------------------------------------------------------------------------


class Recording:
    """A run that grows: every response is written as it comes, counted, and shown.

    ``pending`` are the queries that were not answered before. Made by :func:`recording`.
    """

    def __init__(
        self, name: str, dataset: MirageDataset, journal: Journal[Response], bar: Any
    ) -> None:
        self.name: str = name
        self.dataset: MirageDataset = dataset
        self._journal, self._bar = journal, bar
        self._responses = {response.query_id: response for response in journal.earlier}
        self.pending: tuple[Query, ...] = tuple(
            query.without_gold() for query in dataset if query.id not in self._responses
        )
        self._failures = 0
        self._first_error: Exception | None = None

    def add(self, response: Response) -> None:
        """Record a response, with the passages that it was made from where they were retrieved."""
        if self.dataset.retrieved:
            response = with_passages(response, self.dataset[response.query_id])
        self._journal.add(response)
        self._responses[response.query_id] = response
        if response.error is not None:
            self._failures += 1
            self._bar.set_postfix(failed=self._failures)
        self._bar.update()

    def fail(self, query: Query, error: Exception) -> None:
        """Record that a query failed."""
        if query.id == self.dataset.query_ids[0]:
            self._first_error = error
        self.add(failed(query, error))

    async def ask(self, query: Query, answer: Callable[[Query], Awaitable[Response]]) -> None:
        """Record what ``answer`` gives for a query, or that it failed."""
        try:
            response = await answer(query)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # The function itself gave up, as some clients do on a timeout.
            self.fail(query, GenerationError(f"cancelled {error}".strip()))
        except Exception as error:
            self.fail(query, error)
        else:
            self.add(response)

    def finish(self) -> Run:
        """The whole run, once no query is pending; its file is then in the dataset's order.

        Raises:
            GenerationError: every response is a failure.
        """
        responses = tuple(self._responses[query_id] for query_id in self.dataset.query_ids)
        self._journal.finish(responses)
        run = Run(model=self.name, language=self.dataset.language, responses=responses)
        if run.failed:
            self._report(run.failed)
        return run

    def _report(self, failures: Sequence[Response]) -> None:
        queries = f"{len(self.dataset)} queries of {self.dataset.name}"
        first = f"the first failure, on {failures[0].query_id!r}: {failures[0].error}"
        if len(failures) == len(self.dataset):
            raise GenerationError(
                f"model {self.name!r} failed on all {queries}; {first}", failures
            ) from self._first_error
        _LOG.warning(
            "model %r failed on %d of the %s; %s", self.name, len(failures), queries, first
        )


@contextmanager
def recording(
    name: str, dataset: MirageDataset, out: str | Path | None, progress: bool
) -> Iterator[Recording]:
    """A run to record, that has what was answered in the file ``out``; see :class:`Generator`.

    Raises:
        UnknownNameError: the file has a query that the dataset does not have.
        DatasetError: it answers a query twice, is not such a file, or another process writes it.
    """
    check_name(name)
    with (
        _journal(dataset, out) as journal,
        progress_bar(
            len(dataset), f"responses of {name}", progress, done=len(journal.earlier)
        ) as bar,
    ):
        yield Recording(name, dataset, journal, bar)


def _journal(dataset: MirageDataset, out: str | Path | None) -> Journal[Response]:
    """The journal of a run, with what was answered and without what failed."""
    with Journal(out, Response) as journal:
        check_ids((response.query_id for response in journal.earlier), dataset, f"in {out}")
        responses: dict[str, Response] = {}
        for response in journal.earlier:
            if response.query_id in responses:
                raise DatasetError(
                    f"{out}: query {response.query_id!r} is answered twice; remove one line of it"
                )
            if response.error is None and _is_current(response, dataset):
                responses[response.query_id] = response
        if len(responses) < len(journal.earlier):  # what is asked again has no line
            journal.finish(responses.values())
    return Journal(out, Response)


def with_passages(response: Response, query: Query) -> Response:
    """A response with the passages of a query that it was made from; a failure stays as it is."""
    if response.text is None:
        return response
    shown = query.shown_to(response)
    passages = query.passages_shown_to(response)
    return response.model_copy(update={"shown": shown, "passages": passages})


def _is_current(response: Response, dataset: MirageDataset) -> bool:
    """Whether a response was made from the passages that would be shown for it today."""
    query = dataset[response.query_id]
    return not dataset.retrieved or set(response.passages) <= set(query.passages)


def run_concurrently(
    name: str,
    dataset: MirageDataset,
    connect: Callable[[], AbstractAsyncContextManager[Callable[[Query], Awaitable[Response]]]],
    concurrency: int,
    out: str | Path | None,
    progress: bool,
) -> Run:
    """A run by an async function, ``concurrency`` calls of it under way at a time.

    ``connect`` opens what the function needs, once for the run; it is not called where the file
    ``out`` answers every query already. See :meth:`Generator.run` for the rest.
    """

    async def ask_all(record: Recording) -> None:
        async with connect() as answer:
            await for_each(record.pending, lambda query: record.ask(query, answer), concurrency)

    with recording(name, dataset, out, progress) as record:
        if record.pending:
            run_sync(ask_all(record))
        return record.finish()


def run_in_batches(
    name: str,
    dataset: MirageDataset,
    answer: Callable[[Sequence[Query]], Sequence[Response]],
    batch_size: int,
    out: str | Path | None,
    progress: bool,
) -> Run:
    """A run by a function that answers several queries at a time.

    A batch that fails is halved: it may be too large for the memory, and then the smaller size is
    kept; or one of its queries may fail by itself, and then that one alone is a failure. See
    :meth:`Generator.run` for the rest.
    """
    with recording(name, dataset, out, progress) as record:
        start, size = 0, batch_size
        while start < len(record.pending):
            batch = record.pending[start : start + size]
            try:
                responses = answer(batch)
            except Exception as error:
                traceback.clear_frames(error.__traceback__)  # they hold the memory that ran out
                if len(batch) > 1:
                    size = len(batch) // 2
                    continue
                record.fail(batch[0], error)
                size = batch_size  # it was this query, not the size
            else:
                for response in responses:
                    record.add(response)
            start += len(batch)
        return record.finish()
