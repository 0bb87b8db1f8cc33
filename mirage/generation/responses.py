"""Make a run on a dataset with any system: a function, a generator, a run, a mapping or a file."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Mapping
from pathlib import Path

from mirage.dataset import DatasetLike, MirageDataset, as_dataset
from mirage.errors import DatasetError
from mirage.executors import Executor
from mirage.generation.base import Generator, check_name, with_passages
from mirage.generation.callables import (
    Answer,
    CallableGenerator,
    Recorded,
    ReplayGenerator,
    recorded,
)
from mirage.generation.repeats import repeated
from mirage.models import Run

ModelLike = Answer | Generator | Recorded
"""A system that can answer queries.

It is a function of a query, sync or async, that returns a text, a tuple of the text and the
passages that it was made from, or a :class:`~mirage.Response`; a :class:`~mirage.Generator`; a
:class:`~mirage.Run`; a mapping from query id to text; or the path of a JSON Lines file of
responses.
"""


def respond(
    system: ModelLike,
    dataset: DatasetLike,
    model: str | None = None,
    *,
    repeats: int | None = None,
    out: str | Path | None = None,
    executor: Executor | None = None,
    progress: bool = True,
    concurrency: int = 8,
    timeout: float | None = None,
) -> Run:
    """Answer each query of the dataset, and return the responses as a run in the dataset's order.

    A function is called once per query. It returns a text, a tuple of a text and the passages that
    it was made from, or a :class:`~mirage.Response`; see :data:`Answer`. If the function is async,
    up to ``concurrency`` calls run at a time. If an event loop is already running, as in a
    notebook, the calls run in a separate thread with a new event loop.

    If the function raises an exception or returns a value of another kind, the query gets a failed
    response with the reason. A query also fails if a run, mapping or file has no response to it.

    Args:
        system: The system: a function of a query, sync or async; a :class:`~mirage.Generator`; a
            :class:`~mirage.Run`; a mapping from query id to text; or the path of a JSON Lines file
            of responses.
        dataset: The queries: a dataset, the language code of a bundled dataset, or the path of a
            JSON Lines file of queries.
        model: Name of the model in the run; by default the name of the generator or run, or
            ``"my-model"``.
        repeats: Number of answers to each query. The default is 1, or for recorded responses the
            number of recorded repeats. The cache of an LLM stores an answer for each repeat.
        out: A file to which responses are appended as they arrive, and from which a killed run
            resumes; see :meth:`mirage.Generator.run`.
        executor: An executor whose workers each answer a part of the queries; by default this
            process answers all of them. This process writes the file. Each worker loads a model
            that is given by name. The ``concurrency`` and budget of an LLM apply to all workers
            together; the ``concurrency`` of a function or service applies to each worker.
        progress: Whether to show a progress bar on stderr, if stderr is a terminal.
        concurrency: Maximum number of concurrent calls of an async function. Generators have their
            own setting.
        timeout: Seconds that a function may take for a query before the query fails; by default
            there is no limit. With a timeout, a sync function is called in threads; Python cannot
            stop a thread whose call hangs. Generators have their own setting.

    Raises:
        GenerationError: If every query failed; the message says why the first one failed.
        UnknownNameError: If a run, mapping or file answers a query that the dataset does not have.
        SettingError: If ``concurrency`` or ``repeats`` is below 1, ``timeout`` is not above 0, or
            ``repeats`` is above the number of recorded repeats.
        DatasetError: If a run is in another language, a file is not valid, or ``system`` has an
            unsupported type.

    Example:
        >>> from mirage import MirageDataset, respond
        >>> dataset = MirageDataset.bundled("en").sample(2)
        >>> run = respond(lambda query: "I do not know.", dataset, "silent")
        >>> run.model, [response.text for response in run]
        ('silent', ['I do not know.', 'I do not know.'])
    """
    dataset = as_dataset(dataset)
    model = own_name(system) if model is None else model
    check_name(model)
    generator = _generator(system, model, concurrency, timeout)
    # Our generators remove gold answers and labels from queries; other generators may not.
    queries = dataset.without_gold() if generator is system else dataset
    run = repeated(generator, queries, repeats, out=out, executor=executor, progress=progress)
    runs = [_complete_run(each, dataset, model) for each in run.repeats]
    return runs[0] if len(runs) == 1 else Run.of_repeats(runs)


def _complete_run(run: Run, dataset: MirageDataset, model: str) -> Run:
    """Return a run with this model name, in the dataset's order of queries.

    Queries without a response get a failed response.
    """
    responses = recorded(run, dataset, model)
    if dataset.retrieved:  # a generator of the user may not have stored the passages
        responses = tuple(with_passages(each, dataset[each.query_id]) for each in responses)
    return Run(model=model, language=dataset.language, responses=responses)


def own_name(system: object) -> str:
    """Return the default model name of a system.

    This is the name of a generator or run, or the name that all runs in a mapping share. For other
    systems, it is ``"my-model"``.
    """
    if isinstance(system, Run):
        return system.model
    if isinstance(system, Generator) and not isinstance(system, type):
        return system.name
    names = (
        {value.model for value in system.values() if isinstance(value, Run)}
        if isinstance(system, Mapping)
        else set()
    )
    return names.pop() if len(names) == 1 else "my-model"


def _generator(system: ModelLike, model: str, concurrency: int, timeout: float | None) -> Generator:
    if isinstance(system, type):
        raise DatasetError(
            f"{system.__name__} is a class, which cannot answer queries; create an object of it: "
            f"{system.__name__}(...)"
        )
    if isinstance(system, Run | Mapping | str | os.PathLike):
        return ReplayGenerator(system, model)
    if isinstance(system, Generator):
        return system
    if callable(system):
        return CallableGenerator(system, model, concurrency=concurrency, timeout=timeout)
    raise DatasetError(
        f"{reprlib.repr(system)} cannot answer queries; pass a function of a query, a "
        "Generator, a Run, a mapping from query id to text, or the path of a JSON Lines file of "
        "responses"
    )
