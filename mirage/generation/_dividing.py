"""Runs that the workers of an executor make together, a part of the queries each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from mirage.dataset import MirageDataset
from mirage.errors import GenerationError
from mirage.executors import Executor, Once
from mirage.generation.base import Generator, recording
from mirage.llm import LLM
from mirage.llm.questions import part_size
from mirage.models import Query, Response, Run

__all__ = ["run_on_workers"]

_Part = tuple[list[Query], bool]


def run_on_workers(
    executor: Executor,
    generator: Generator,
    dataset: MirageDataset,
    out: str | Path | None,
    progress: bool,
) -> Run:
    """As :meth:`Generator.run`; what is answered is written here, as parts come back.

    A part is a batch of a generator that has a ``batch_size``, so that batches are those that it
    makes by itself; of another, as many queries as keep its calls under way.
    """
    with recording(generator.name, dataset, out, progress) as record:
        size = _size(generator, executor)
        parts = (
            (list(record.pending[start : start + size]), dataset.retrieved)
            for start in range(0, len(record.pending), size)
        )
        work = Once(partial(_answering, generator))
        for _, responses in executor.map(work, parts):
            for response in responses:
                record.add(response)
        return record.finish()


def _size(generator: Generator, executor: Executor) -> int:
    batch = getattr(generator, "batch_size", None)
    if isinstance(batch, int):
        return batch
    llm = getattr(generator, "llm", None)
    own = llm.concurrency if isinstance(llm, LLM) else getattr(generator, "concurrency", 1)
    return part_size(own, executor)


def _answering(generator: Generator) -> Callable[[_Part], Sequence[Response]]:
    """What a worker does: the responses to a part, failures among them."""

    def answers(part: _Part) -> Sequence[Response]:
        queries, retrieved = part
        try:
            run = generator.run(MirageDataset(queries, retrieved=retrieved), progress=False)
        except GenerationError as error:
            if len(error.responses) != len(queries):
                raise
            return [each for each in error.responses if isinstance(each, Response)]
        return run.responses

    return answers
