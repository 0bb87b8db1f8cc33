"""What the files of the benchmark hold in one language, and what of them cannot be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from mirage.errors import DatasetError
from mirage.models import Run
from mirage.sources import hub

__all__ = ["Part", "survey"]


class Part(NamedTuple):
    """One dataset of the benchmark, as it was found.

    Attributes:
        dataset: its name.
        revision: the commit, or the SHA-256 of files on disk; empty where there are none.
        columns: their names, in the order of the files.
        rows: how many were read.
        found: what is in them, by what it is: ``{"queries": 300, "passages": 3000}``.
        names: the models, judges and features in them, by kind.
        left_out: why rows were left out, a line each.
        problem: why it cannot be used; empty where it can.
    """

    dataset: str
    revision: str = ""
    columns: tuple[str, ...] = ()
    rows: int = 0
    found: Mapping[str, int] = {}
    names: Mapping[str, tuple[str, ...]] = {}
    left_out: tuple[str, ...] = ()
    problem: str = ""


Found = tuple[dict[str, int], dict[str, tuple[str, ...]]]


def survey(
    language: str,
    *,
    path: str | Path | None = None,
    revisions: Mapping[str, str] | None = None,
    judge: str | None = None,
) -> list[Part]:
    """What can be read of each of :data:`mirage.sources.hub.DATASETS`, whatever becomes of others.

    Args:
        language: ISO 639-1 code.
        path: a folder with copies of the datasets, to read in place of the hub.
        revisions: commit hashes, tags or branches by name of the dataset.
        judge: whose judgments; by default GPT-4o's.

    Raises:
        UnknownNameError: no such language, or a revision of another dataset.
        MissingPackageError: the extra ``hub`` is not installed.
    """
    runs: dict[str, Run] = {}

    def outputs(split: hub.Split, left_out: hub.LeftOut) -> Found:
        read = hub.read_outputs(split, language, left_out)
        runs.update(read.runs)
        failed = sum(len(run.failed) for run in read.runs.values())
        count = {"queries": len(read.query_ids), "models": len(runs)}
        count |= {"outputs": sum(map(len, runs.values())), "of them null": failed}
        return count, {"models": tuple(runs), "columns of numbers": read.features}

    def queries(split: hub.Split, left_out: hub.LeftOut) -> Found:
        read = hub.read_queries(split, language, runs, left_out)
        passages = sum(len(query.passages) for query in read)
        references = sum(query.reference is not None for query in read)
        return {"queries": len(read), "passages": passages, "references": references}, {}

    def judgments(split: hub.Split, left_out: hub.LeftOut) -> Found:
        read = hub.read_judgments(split, judge, left_out=left_out)
        verdicts = Counter(one.verdict for one in read)
        models = tuple(sorted({name for one in read for name in (one.model_a, one.model_b)}))
        count = {"judgments": len(read), "models": len(models), "A": verdicts["a"]}
        count |= {"B": verdicts["b"], "ties": verdicts["tie"]}
        return count, {"judge": (read[0].judge,), "models": models}

    readers = {hub.QUERIES: queries, hub.OUTPUTS: outputs, hub.JUDGMENTS: judgments}
    # Outputs first, for the references of the queries.
    order = sorted(readers, key=[hub.OUTPUTS, hub.QUERIES, hub.JUDGMENTS].index)
    return [_part(name, language, path, revisions, readers[name]) for name in order]


def _part(
    name: str,
    language: str,
    path: str | Path | None,
    revisions: Mapping[str, str] | None,
    read: Callable[[hub.Split, hub.LeftOut], Found],
) -> Part:
    left_out = hub.LeftOut()
    try:
        split = hub.find(name, language, path=path, revisions=revisions)
    except DatasetError as error:
        return Part(name, problem=str(error))
    part = Part(name, split.revision)
    try:
        columns = tuple(next((row for _, row in split.rows()), ()))
        part = part._replace(columns=columns)
        count, names = read(split, left_out)
    except DatasetError as error:
        return part._replace(rows=left_out.rows, left_out=tuple(left_out), problem=str(error))
    return part._replace(rows=left_out.rows, found=count, names=names, left_out=tuple(left_out))
