"""From whatever answers queries (a function, a generator, a file, ...) to a run on a dataset."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Mapping
from pathlib import Path

from mirage.dataset import MirageDataset
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

__all__ = ["ModelLike", "own_name", "respond"]

ModelLike = Answer | Generator | Recorded
"""What can answer queries.

A function of a query, sync or async, that returns a text, a tuple of the text and the passages that
it was made from, or a :class:`~mirage.Response`; a :class:`~mirage.Generator`; a
:class:`~mirage.Run`; a mapping from query id to text; or the path of a JSON Lines file of
responses.
"""


def respond(
    system: ModelLike,
    dataset: MirageDataset,
    model: str | None = None,
    *,
    repeats: int | None = None,
    out: str | Path | None = None,
    executor: Executor | None = None,
    progress: bool = True,
    concurrency: int = 8,
    timeout: float | None = None,
) -> Run:
    """A run with one response to each query of the dataset, in its order.

    A function is called once a query. If it is async, ``concurrency`` calls are under way at a
    time, also where an event loop is running already (in a notebook): they then run in a thread,
    in a loop of their own. A query is a failure, with the reason in its response, if the function
    raises an exception or returns something that is no response, and if a run, mapping or file has
    no response.

    Args:
        system: what answers; see :data:`ModelLike`.
        dataset: the queries.
        model: its name in the run; by default a generator's or a run's own, or ``"my-model"``.
        repeats: how often each query is asked; by default once, and of what was recorded as often
            as it was asked then. The cache of an LLM keeps an answer for each time.
        out: a file that responses are appended to as they come, and that a run which was killed
            goes on from; see :meth:`mirage.Generator.run`.
        executor: whose workers answer, each a part of the queries; the file is written here. A
            model that is given by name is loaded there, and ``concurrency`` and budget of an LLM
            are for all machines together (that of a function or service is for each worker).
        progress: show a progress bar on stderr while queries are answered, if that is a terminal.
        concurrency: calls of an async function under way at a time; a generator has its own.
        timeout: seconds that a function may take for a query, which is a failure after that; by
            default as long as it likes. A sync function is then called in threads, and one that
            hangs stays in its thread, for Python cannot stop it. A generator has its own.

    Raises:
        GenerationError: every query is a failure; shows the first reason.
        UnknownNameError: a run, mapping or file answers a query that the dataset does not have.
        SettingError: ``concurrency`` or ``repeats`` is below 1, ``timeout`` not above 0, or more
            repeats are asked for than were recorded.
        DatasetError: a run is in another language, a file is not as it should be, or ``system`` is
            nothing that can answer.
    """
    model = own_name(system) if model is None else model
    check_name(model)
    generator = _generator(system, model, concurrency, timeout)
    # Our own hand out queries without gold by themselves; somebody else's gets none to hand out.
    asked = dataset.without_gold() if generator is system else dataset
    run = repeated(generator, asked, repeats, out=out, executor=executor, progress=progress)
    runs = [_complete(once, dataset, model) for once in run.repeats]
    return runs[0] if len(runs) == 1 else Run.of_repeats(runs)


def _complete(run: Run, dataset: MirageDataset, model: str) -> Run:
    """The run under this name, in the dataset's order, with a failure where it has nothing."""
    responses = recorded(run, dataset, model)
    if dataset.retrieved:  # somebody else's generator does not know
        responses = tuple(with_passages(each, dataset[each.query_id]) for each in responses)
    return Run(model=model, language=dataset.language, responses=responses)


def own_name(system: object) -> str:
    """What a system is called by default: as a generator or a run is, or the runs of a mapping."""
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
            f"{system.__name__} is a class, which cannot answer queries; make an object of it: "
            f"{system.__name__}(...)"
        )
    if isinstance(system, Run | Mapping | str | os.PathLike):
        return ReplayGenerator(system, model)
    if isinstance(system, Generator):
        return system
    if callable(system):
        return CallableGenerator(system, model, concurrency=concurrency, timeout=timeout)
    raise DatasetError(
        f"{reprlib.repr(system)} cannot answer queries: give a function of a query, a "
        "Generator, a Run, a mapping from query id to text, or the path of a JSON Lines file of "
        "responses"
    )
