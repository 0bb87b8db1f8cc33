"""The protocol of generators, and the two ways to make a run: concurrently or in batches."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from mirage._base.answers import incomplete_note
from mirage._base.concurrency import for_each, run_sync
from mirage._base.journal import Journal
from mirage._base.logs import logger
from mirage._base.progress import progress_bar
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, GenerationError, MirageError, UnknownNameError
from mirage.generation._fingerprints import check_answers
from mirage.generation.replies import response_of
from mirage.models import Query, Response, Run

_LOG = logger("mirage.generation")


@runtime_checkable
class Generator(Protocol):
    """The protocol of generators: an object with a name that answers the queries of a dataset."""

    @property
    def name(self) -> str:
        """The name of the model in the run."""

    def run(
        self, dataset: MirageDataset, *, out: str | Path | None = None, progress: bool = True
    ) -> Run:
        """Return a run with one response to each query of the dataset, in the dataset's order.

        If a query fails after all retries, its response in the run is a failure with the reason.
        Failures are counted in the progress bar and logged at the end; they do not stop the run.

        Args:
            dataset: The queries.
            out: A JSON Lines file (readable with :meth:`mirage.Run.load`) to which each response is
                appended as it arrives. Queries that have an answer in the file are not asked again,
                so a run that was killed resumes. Queries that failed are asked again. At the end,
                its lines are in the dataset's order. The file ``out`` plus ``.settings`` records
                the settings and questions; if they differ in a later run, it raises an error, so
                use a separate file for each model and prompt. ``None`` writes no file.
            progress: Whether to show a progress bar on stderr, if stderr is a terminal.

        Raises:
            GenerationError: If every query failed; the message says why the first one failed.
            UnknownNameError: If ``out`` answers a query that the dataset does not have.
            DatasetError: If ``out`` is not a file of responses, has answers that were made with
                other settings or questions, or another process is writing it.
        """


SettingsOf = Callable[[MirageDataset], Mapping[str, Any]]
"""A function that returns the settings on which a generator's answers to a dataset depend."""


def settings_of(generator: Generator) -> SettingsOf | None:
    """Return the function that returns the settings of a generator, if it has one."""
    return getattr(generator, "_answer_settings", None)


# Responses ----------------------------------------------------------------------------------------


def answered(
    query: Query,
    reply: object,
    shown: Sequence[str] | None = None,
    reasoning: str = "",
    *,
    cut_off: bool = False,
) -> Response:
    """Return the response to a query, made from the value that a system returned.

    Args:
        query: The query.
        reply: A text, a (text, passages) tuple or a response.
        shown: Ids of the passages in the order of the prompt, if this order differs from that of
            the query's passages.
        reasoning: The reasoning that the model wrote before its answer, if the system returned it
            separately from the answer.
        cut_off: Whether the limit on the length of answers cut off the reply.
    """
    response = response_of(query, reply)
    update: dict[str, object] = {} if shown is None else {"shown": tuple(shown)}
    if reasoning:
        update["reasoning"] = reasoning
    if cut_off:
        update["cut_off"] = True
    return response.model_copy(update=update) if update else response


def failed(query: Query, error: Exception) -> Response:
    """Return a failed response to a query, with this error as its reason."""
    # Messages of our own errors are clear; those of other errors often need their class.
    reason = str(error)
    if not isinstance(error, MirageError):
        reason = f"{type(error).__name__}: {reason}".removesuffix(": ")
        if isinstance(error, IndexError) and not query.passages:
            reason += " (the query has no passages)"
    reason = reason.encode("utf-8", "replace").decode("utf-8")
    return Response(query_id=query.id, text=None, error=reason)


def check_name(name: object) -> None:
    """Raise an error if a model name is not valid for a run, before any query is sent."""
    is_valid = isinstance(name, str) and bool(name)
    if isinstance(name, str):
        is_valid = is_valid and name == name.encode("utf-8", "replace").decode()
    if not is_valid:
        raise DatasetError(
            f"model must be the name of the system, as a string of valid Unicode, got "
            f"model={name!a}; pass the system itself as the first argument"
        )


def check_ids(query_ids: Iterable[str], dataset: MirageDataset, source: str) -> None:
    """Raise an error if there are answers to queries that the dataset does not have.

    Args:
        query_ids: Ids of the queries that were answered.
        dataset: The dataset.
        source: A phrase for the error message that says where the answers come from, such as
            ``in answers.jsonl``.
    """
    ids = set(dataset.query_ids)
    for query_id in query_ids:
        if query_id not in ids:
            place = f"in {dataset.name}, answered {source}"
            raise UnknownNameError("query", query_id, dataset.query_ids, place)


# Runs in progress ---------------------------------------------------------------------------------


class Recording:
    """A run in progress, which writes each response to a file as it arrives.

    Use :func:`recording` to create one.

    Attributes:
        name: The name of the model.
        dataset: The dataset.
        pending: The queries without an answer in the file. Their gold answers and labels are
            removed.
    """

    def __init__(
        self,
        name: str,
        dataset: MirageDataset,
        journal: Journal[Response],
        bar: Any,
        *,
        is_generated: bool = True,
    ) -> None:
        self.name: str = name
        self.dataset: MirageDataset = dataset
        self._journal, self._bar = journal, bar
        self._is_generated = is_generated
        self._responses = {response.query_id: response for response in journal.earlier}
        self.pending: tuple[Query, ...] = tuple(
            query.without_gold() for query in dataset if query.id not in self._responses
        )
        self._failures = 0
        self._first_error: Exception | None = None

    def add(self, response: Response) -> None:
        """Record a response.

        If the evaluated system itself retrieved the passages of the dataset, the passages that its
        prompt showed are stored in the response.
        """
        if self.dataset.retrieved:
            response = with_passages(response, self.dataset[response.query_id])
        self._journal.add(response)
        self._responses[response.query_id] = response
        if response.error is not None:
            self._failures += 1
            self._bar.set_postfix(failed=self._failures)
        self._bar.update()

    def fail(self, query: Query, error: Exception) -> None:
        """Record that a query failed with this error."""
        if query.id == self.dataset.query_ids[0] and _is_from_outside(error):
            self._first_error = error
        self.add(failed(query, error))

    async def ask(self, query: Query, answer: Callable[[Query], Awaitable[Response]]) -> None:
        """Record the response that ``answer`` returns for a query, or its failure."""
        try:
            response = await answer(query)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Only the call was cancelled, not our task: some clients do so on a timeout.
            self.fail(query, GenerationError(f"the call was cancelled {error}".strip()))
        except Exception as error:
            self.fail(query, error)
        else:
            self.add(response)

    def finish(self) -> Run:
        """Sort the lines of the file, and return the run; every query must have a response.

        Raises:
            GenerationError: If all queries failed.
        """
        responses = tuple(self._responses[query_id] for query_id in self.dataset.query_ids)
        self._journal.finish(responses)
        run = Run(model=self.name, language=self.dataset.language, responses=responses)
        if run.failed:
            self._report(run.failed)
        if self._is_generated and (note := incomplete_note(responses)):
            _LOG.warning("model %r: %s; %s", self.name, note, _SCORED_AS_THEY_ARE)
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


_SCORED_AS_THEY_ARE = (
    "they are scored as they are; raise the limit (max_tokens) if answers are cut off, and check "
    "the model or server if they are empty"
)


def _is_from_outside(error: Exception) -> bool:
    """Return whether an error passed through code outside this library, such as the user's model.

    The traceback of other errors, such as that of a reply of the wrong type, shows nothing to the
    user that the message does not say.
    """
    modules = (
        frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)
    )
    return any(module.partition(".")[0] != "mirage" for module in modules)


@contextmanager
def recording(
    name: str,
    dataset: MirageDataset,
    out: str | Path | None,
    progress: bool,
    settings: SettingsOf | None = None,
) -> Iterator[Recording]:
    """Start a run, or continue the run in the file ``out`` if it already has answers.

    Args:
        name: The name of the model in the run.
        dataset: The queries.
        out: The file to which responses are appended, or ``None`` for no file.
        progress: Whether to show a progress bar.
        settings: A function that returns the settings on which the answers depend. Answers in the
            file that were made with other settings, or to other questions, then raise an error.
            With ``None``, the answers in the file are not checked.

    Yields:
        The recording, to which responses are added.
    """
    check_name(name)
    with (
        _journal(dataset, out, settings) as journal,
        progress_bar(
            len(dataset), f"responses of {name}", progress, done=len(journal.earlier)
        ) as bar,
    ):
        # Recorded responses have no settings; the commands that score them count empty answers.
        yield Recording(name, dataset, journal, bar, is_generated=settings is not None)


def _journal(
    dataset: MirageDataset, out: str | Path | None, settings: SettingsOf | None
) -> Journal[Response]:
    """Open the file of a run for appending, and remove the lines of queries to ask again.

    The removed lines are failures, and answers based on passages that the query no longer has.
    """
    with Journal(out, Response) as journal:
        check_ids((response.query_id for response in journal.earlier), dataset, f"in {out}")
        responses: dict[str, Response] = {}
        for response in journal.earlier:
            if response.query_id in responses:
                raise DatasetError(
                    f"{out}: the file has two responses to query {response.query_id!r}; remove "
                    "one of the lines"
                )
            if response.error is None and _is_current(response, dataset):
                responses[response.query_id] = response
        if journal.path is not None and settings is not None:
            check_answers(journal.path, responses, dataset, settings(dataset))
        if len(responses) < len(journal.earlier):  # drop the lines of queries to ask again
            journal.finish(responses.values())
    return Journal(out, Response)


def with_passages(response: Response, query: Query) -> Response:
    """Return a copy of a response to which the passages in its prompt have been added.

    Failures are returned unchanged.
    """
    if response.text is None:
        return response
    shown = query.shown_to(response)
    passages = query.passages_shown_to(response)
    return response.model_copy(update={"shown": shown, "passages": passages})


def _is_current(response: Response, dataset: MirageDataset) -> bool:
    """Return whether a response is still valid because the query still has all of its passages.

    The retriever may have changed since the response was made. Only passages that the evaluated
    system retrieved are checked; for other datasets, the result is always true.
    """
    query = dataset[response.query_id]
    return not dataset.retrieved or set(response.passages) <= set(query.passages)


def run_concurrently(
    name: str,
    dataset: MirageDataset,
    connect: Callable[[], AbstractAsyncContextManager[Callable[[Query], Awaitable[Response]]]],
    concurrency: int,
    out: str | Path | None,
    progress: bool,
    settings: SettingsOf | None = None,
) -> Run:
    """Make a run by calling an async function on each query concurrently.

    Args:
        name: The name of the model in the run.
        dataset: The queries.
        connect: A function that returns a context manager, which yields the async function.
        concurrency: Maximum number of concurrent calls.
        out: The file to which responses are appended, or ``None`` for no file; see
            :meth:`Generator.run`.
        progress: Whether to show a progress bar.
        settings: A function that returns the settings on which the answers depend.
    """

    async def ask_all(record: Recording) -> None:
        async with connect() as answer:
            await for_each(record.pending, lambda query: record.ask(query, answer), concurrency)

    with recording(name, dataset, out, progress, settings) as record:
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
    settings: SettingsOf | None = None,
) -> Run:
    """Make a run by calling a function on batches of queries.

    If a batch fails, for example because memory is short, its first half is tried, and later
    batches have this smaller size too. If a batch of one query fails, the query gets a failed
    response, and later batches have the full size again.

    Args:
        name: The name of the model in the run.
        dataset: The queries.
        answer: A function that returns the responses to a batch of queries.
        batch_size: Maximum number of queries in a batch.
        out: The file to which responses are appended, or ``None`` for no file; see
            :meth:`Generator.run`.
        progress: Whether to show a progress bar.
        settings: A function that returns the settings on which the answers depend.
    """
    with recording(name, dataset, out, progress, settings) as record:
        start, size = 0, batch_size
        while start < len(record.pending):
            batch = record.pending[start : start + size]
            try:
                responses = answer(batch)
            except Exception as error:
                traceback.clear_frames(error.__traceback__)  # frees the tensors that they hold
                if len(batch) > 1:
                    size = len(batch) // 2
                    continue
                record.fail(batch[0], error)
                size = batch_size  # the cause was this query, not the size
            else:
                for response in responses:
                    record.add(response)
            start += len(batch)
        return record.finish()
