"""Count the records of MIRAGE-Bench in one language, and list its invalid rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from mirage.errors import DatasetError
from mirage.models import Run
from mirage.sources import hub


class Part(NamedTuple):
    """The number of records and the invalid rows of one MIRAGE-Bench dataset.

    Attributes:
        dataset: Name of the dataset.
        revision: Commit hash, or the SHA-256 of the files on disk; empty if there are no files.
        columns: Names of the columns, in the order of the files.
        rows: Number of rows that were read, including those that were left out.
        found: Number of records by kind, such as ``{"queries": 300, "passages": 3000}``.
        names: Names of the models, judges and features, by kind.
        left_out: Reasons why rows were left out, one text per row.
        problem: Reason why the dataset cannot be used; empty if it can be used.
    """

    dataset: str
    revision: str = ""
    columns: tuple[str, ...] = ()
    rows: int = 0
    found: Mapping[str, int] = {}
    names: Mapping[str, tuple[str, ...]] = {}
    left_out: tuple[str, ...] = ()
    problem: str = ""


Contents = tuple[dict[str, int], dict[str, tuple[str, ...]]]


def survey(language: str, *, path: str | Path | None = None) -> list[Part]:
    """Count the records of the datasets :data:`mirage.sources.hub.DATASETS` in one language.

    If a dataset cannot be used, the others are still counted.

    Args:
        language: ISO 639-1 code.
        path: Folder with copies of the datasets, to read instead of downloading them from the hub.

    Returns:
        One part per dataset: outputs, queries and judgments.
    """
    runs: dict[str, Run] = {}

    def outputs(split: hub.Split, left_out: hub.LeftOut) -> Contents:
        read = hub.read_outputs(split, language, left_out)
        runs.update(read.runs)
        failed = sum(len(run.failed) for run in read.runs.values())
        count = {"queries": len(read.query_ids), "models": len(runs)}
        count |= {"outputs": sum(map(len, runs.values())), "of them null": failed}
        return count, {"models": tuple(runs), "columns of numbers": read.features}

    def queries(split: hub.Split, left_out: hub.LeftOut) -> Contents:
        read = hub.read_queries(split, language, runs, left_out)
        passages = sum(len(query.passages) for query in read)
        references = sum(query.reference is not None for query in read)
        return {"queries": len(read), "passages": passages, "references": references}, {}

    def judgments(split: hub.Split, left_out: hub.LeftOut) -> Contents:
        read = hub.read_judgments(split, left_out=left_out)
        verdicts = Counter(judgment.verdict for judgment in read)
        models = tuple(
            sorted({name for judgment in read for name in (judgment.model_a, judgment.model_b)})
        )
        count = {"judgments": len(read), "models": len(models), "A": verdicts["a"]}
        count |= {"B": verdicts["b"], "ties": verdicts["tie"]}
        return count, {"judge": (read[0].judge,), "models": models}

    readers = {hub.QUERIES: queries, hub.OUTPUTS: outputs, hub.JUDGMENTS: judgments}
    # Outputs are read first, because the references of the queries are among them.
    order = sorted(readers, key=[hub.OUTPUTS, hub.QUERIES, hub.JUDGMENTS].index)
    return [_part(name, language, path, readers[name]) for name in order]


def _part(
    name: str,
    language: str,
    path: str | Path | None,
    read: Callable[[hub.Split, hub.LeftOut], Contents],
) -> Part:
    left_out = hub.LeftOut()
    try:
        split = hub.find(name, language, path=path)
    except DatasetError as error:
        return Part(name, problem=str(error))
    part = Part(name, split.revision)
    try:
        columns = tuple(next((row for _, row in split.rows()), ()))
        part = part._replace(columns=columns)
        count, names = read(split, left_out)
    # Keep what was counted before the error.
    except DatasetError as error:
        return part._replace(rows=left_out.rows, left_out=tuple(left_out), problem=str(error))
    return part._replace(rows=left_out.rows, found=count, names=names, left_out=tuple(left_out))
