"""Runs whose queries are divided among the workers of an executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from mirage.dataset import MirageDataset
from mirage.errors import GenerationError
from mirage.executors import Executor
from mirage.executors.base import Once
from mirage.generation.base import Generator, recording
from mirage.llm import LLM
from mirage.llm.questions import part_size
from mirage.models import Query, Response, Run

_Part = tuple[list[Query], bool]


def run_on_workers(
    executor: Executor,
    generator: Generator,
    dataset: MirageDataset,
    out: str | Path | None,
    progress: bool,
) -> Run:
    """Run a generator on the workers of an executor; see :meth:`Generator.run`.

    The queries are divided into parts, and each part goes to one worker. If a generator has a
    ``batch_size``, a part is one batch, as in a run without an executor. Otherwise, a part has
    enough queries to keep the generator's concurrent calls busy. This process appends the responses
    to ``out`` as they come back.
    """
    with recording(generator.name, dataset, out, progress) as record:
        size = _queries_per_part(generator, executor)
        parts = (
            (list(record.pending[start : start + size]), dataset.retrieved)
            for start in range(0, len(record.pending), size)
        )
        work = Once(partial(_answer_function, generator))
        for _, responses in executor.map(work, parts):
            for response in responses:
                record.add(response)
        return record.finish()


def _queries_per_part(generator: Generator, executor: Executor) -> int:
    batch = getattr(generator, "batch_size", None)
    if isinstance(batch, int):
        return batch
    llm = getattr(generator, "llm", None)
    concurrency = llm.concurrency if isinstance(llm, LLM) else getattr(generator, "concurrency", 1)
    return part_size(concurrency, executor)


def _answer_function(generator: Generator) -> Callable[[_Part], Sequence[Response]]:
    """Return the function that answers a part of the queries in a worker."""

    def answer(part: _Part) -> Sequence[Response]:
        queries, retrieved = part
        try:
            run = generator.run(MirageDataset(queries, retrieved=retrieved), progress=False)
        except GenerationError as error:
            # If all queries of a part failed, their failures still belong in the run.
            if len(error.responses) != len(queries):
                raise
            return [each for each in error.responses if isinstance(each, Response)]
        return run.responses

    return answer
