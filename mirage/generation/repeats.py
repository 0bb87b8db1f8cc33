"""Runs in which each query is answered several times."""

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

T = TypeVar("T")


def again(system: T, number: int) -> T:
    """Return the system to use for repeat ``number`` of a run, counted from 0.

    A generator with a cache or a random seed would give the same answers again. Such a generator
    has a method ``again``, which returns a variant that gives new answers. Any other system is
    returned unchanged.
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
    """Return a run in which a generator answers each query several times.

    Each repeat goes through all queries. If ``out`` is given, each repeat is written to a separate
    file beside ``out`` until all repeats are finished, so a killed run can resume. See
    :func:`mirage.respond`.

    Args:
        generator: The generator.
        dataset: The queries.
        repeats: Number of answers to each query. The default is 1, or for recorded responses the
            number of repeats that were recorded.
        out: The file of responses to write or to resume; ``None`` writes no file.
        executor: The executor whose workers answer, or ``None`` for this process.
        progress: Whether to show a progress bar.

    Example:
        >>> from mirage import MirageDataset
        >>> from mirage.generation.callables import CallableGenerator
        >>> dataset = MirageDataset.bundled("en").sample(1)
        >>> generator = CallableGenerator(lambda query: "I do not know.")
        >>> len(repeated(generator, dataset, 3).repeats)
        3
    """
    if repeats is not None and repeats < 1:
        raise SettingError(f"repeats must be at least 1, got {repeats}")
    generators = _generators(generator, dataset, repeats)
    if len(generators) == 1:
        return _run(generators[0], dataset, out, executor, progress)
    with Journal(out, Response) as journal:
        parts = _parts(journal, len(generators))
        runs = [
            _run(each, dataset, part, executor, progress)
            for each, part in zip(generators, parts, strict=True)
        ]
        run = Run.of_repeats(runs)
        journal.finish(run.responses)
    # Deleted only now, because a run that is killed resumes from these files.
    for part in filter(None, parts):
        part.unlink()
    return run


def _generators(
    generator: Generator, dataset: MirageDataset, repeats: int | None
) -> Sequence[Generator]:
    if not isinstance(generator, ReplayGenerator):
        return [again(generator, number) for number in range(repeats or 1)]
    run = generator.recording(dataset)
    if repeats is not None and repeats > len(run.repeats):
        raise SettingError(
            f"repeats={repeats}, but the responses of {generator.name!r} were recorded with only "
            f"{len(run.repeats)} repeats; record more repeats, or set a smaller repeats"
        )
    return [ReplayGenerator(repeat, generator.name) for repeat in run.repeats[:repeats]]


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
            f"run() of the generator {generator.name!r} must return a Run, but it returned "
            f"{type(run).__name__}"
        )
    return run


def _parts(journal: Journal[Response], times: int) -> list[Path | None]:
    """Return the file of each of ``times`` repeats, or ``None`` for each if no file is written.

    If the file of the whole run already has responses of a repeat, they are copied to the file of
    that repeat.
    """
    if journal.path is None:
        return [None] * times
    whole = journal.path
    parts: list[Path | None] = []
    for number in range(times):
        part = whole.with_name(f"{whole.name}.repeat-{number}")
        # The name is predictable, so another user could have placed a link there.
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
