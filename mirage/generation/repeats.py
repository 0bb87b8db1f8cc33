"""Asking each query several times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from mirage._base.files import refuse_link, write_records
from mirage._base.journal import Journal
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, SettingError
from mirage.executors import Executor
from mirage.generation._dividing import run_on_workers
from mirage.generation.base import Generator
from mirage.generation.callables import ReplayGenerator
from mirage.models import Response, Run

__all__ = ["again", "repeated"]

T = TypeVar("T")


def again(system: T, number: int) -> T:
    """What gives the ``number``-th answer, counted from 0, where it would give the same each time.

    A generator says so by a method ``again``, such as one that has an LLM's cache or a seed of its
    own; anything else is asked once more as it is.
    """
    method = getattr(system, "again", None)
    return system if method is None or not number else method(number)


def repeated(
    generator: Generator,
    dataset: MirageDataset,
    repeats: int | None = None,
    *,
    out: str | Path | None = None,
    executor: Executor | None = None,
    progress: bool = True,
) -> Run:
    """The run of a generator that is asked so often; see :func:`mirage.respond`.

    Each time goes through all queries. With ``out``, it has a file beside that one until all are
    done, so that a run that was killed goes on where it was.

    Raises:
        SettingError: ``repeats`` is below 1, or more than were recorded.
        DatasetError: the generator returns no run; and as :meth:`mirage.Generator.run` raises.
    """
    if repeats is not None and repeats < 1:
        raise SettingError(f"repeats={repeats} is to be 1 or more")
    times = _times(generator, dataset, repeats)
    if len(times) == 1:
        return _run(times[0], dataset, out, executor, progress)
    with Journal(out, Response) as journal:
        parts = _parts(journal, len(times))
        runs = [
            _run(once, dataset, part, executor, progress)
            for once, part in zip(times, parts, strict=True)
        ]
        run = Run.of_repeats(runs)
        journal.finish(run.responses)
    for part in filter(None, parts):
        part.unlink()
    return run


def _times(
    generator: Generator, dataset: MirageDataset, repeats: int | None
) -> Sequence[Generator]:
    """What to ask each time."""
    if not isinstance(generator, ReplayGenerator):
        return [again(generator, number) for number in range(repeats or 1)]
    run = generator.recording(dataset)
    if repeats is not None and repeats > len(run.repeats):
        raise SettingError(
            f"repeats={repeats}, but the responses of {generator.name!r} were recorded "
            f"{len(run.repeats)} times: what is recorded cannot be asked again"
        )
    return [ReplayGenerator(once, generator.name) for once in run.repeats[:repeats]]


def _run(
    generator: Generator,
    dataset: MirageDataset,
    out: str | Path | None,
    executor: Executor | None,
    progress: bool,
) -> Run:
    if executor is None or isinstance(generator, ReplayGenerator):
        run = generator.run(dataset, out=out, progress=progress)
    else:
        run = run_on_workers(executor, generator, dataset, out, progress)
    if not isinstance(run, Run):
        raise DatasetError(
            f"the generator {generator.name!r} returned {type(run).__name__} from run(), which is "
            "to return a Run"
        )
    return run


def _parts(journal: Journal[Response], times: int) -> list[Path | None]:
    """A file for each time, with what the whole has of it already."""
    if journal.path is None:
        return [None] * times
    whole = journal.path
    parts: list[Path | None] = []
    for number in range(times):
        part = whole.with_name(f"{whole.name}.repeat-{number}")
        refuse_link(part)
        earlier = [
            response.model_copy(update={"repeat": 0})
            for response in journal.earlier
            if response.repeat == number
        ]
        if earlier and not part.exists():
            write_records(earlier, part, follow=False)
        parts.append(part)
    return parts
