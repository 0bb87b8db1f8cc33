"""MIRAGE-Bench on the Hugging Face hub: prompts, recorded outputs and judgments (extra ``hub``).

Three datasets of Thakur et al. (MIRAGE-Bench, arXiv 2410.13716), each with a folder a language and
in it one split, ``{language}/dev-00000-of-00001.parquet``. They are read from the hub, or from
copies on disk (``path``).

No revision is written down here. The first download takes the newest and the cache of the hub's
own client remembers its commit, so that later calls, also for other languages, read the same one
without asking again. ``revisions`` chooses others.
"""

from __future__ import annotations

import glob
import hashlib
import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.files import validated
from mirage._base.logs import logger
from mirage.errors import DatasetError, UnknownNameError, needing
from mirage.languages import Language
from mirage.models import Judgment, Passage, Query, Response, Run, Verdict

__all__ = [
    "DATASETS",
    "JUDGMENTS",
    "OUTPUTS",
    "QUERIES",
    "REFERENCE_MODEL",
    "Outputs",
    "Split",
    "find",
    "queries",
    "read_judgments",
    "read_outputs",
    "read_queries",
]

QUERIES = "nthakur/mirage-bench"
OUTPUTS = "nthakur/mirage-bench-output"
JUDGMENTS = "nthakur/mirage-bench-pairwise-judgments"
DATASETS = (QUERIES, OUTPUTS, JUDGMENTS)
"""The names of the datasets on the hub."""

REFERENCE_MODEL = "gpt-4-azure"
"""The model whose output is the reference of a query, as in the benchmark."""

_LOG = logger("mirage.hub")


# Files --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """The files of one language of a dataset, in order.

    ``revision`` is the commit hash on the hub; of files on disk, ``sha256:`` and the SHA-256 of
    what is in them.
    """

    files: tuple[Path, ...]
    revision: str

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each row after its place (``file, row n``, counting from 0).

        Raises:
            DatasetError: a file is not parquet.
            MissingPackageError: the extra ``hub`` is not installed.
        """
        load_dataset = _package("datasets").load_dataset
        for file in self.files:
            pattern = glob.escape(str(file))  # the library takes every name for a pattern
            try:
                # Streaming reads the file itself; otherwise there would be a second copy of it.
                rows = load_dataset("parquet", data_files=pattern, split="train", streaming=True)
                yield from ((f"{file}, row {number}", row) for number, row in enumerate(rows))
            except (ValueError, OSError) as error:
                raise DatasetError(f"{file}: cannot be read as parquet ({error})") from error


def find(
    name: str,
    language: str,
    *,
    path: str | Path | None = None,
    revisions: Mapping[str, str] | None = None,
) -> Split:
    """The files of a language of one of :data:`DATASETS`, downloaded where they are not yet.

    Args:
        name: of the dataset.
        language: ISO 639-1 code.
        path: a folder with copies of the datasets (``mirage-bench``, ``mirage-bench-output``,
            ``mirage-bench-pairwise-judgments``) to read in place of the hub.
        revisions: commit hashes, tags or branches by name of the dataset.

    Raises:
        DatasetError: there are no such files, or the hub cannot be reached; says what to run where
            it can.
        UnknownNameError: no such language, or a revision of another dataset.
        MissingPackageError: the extra ``hub`` is not installed.
    """
    code = Language.of(language).code
    for dataset in revisions or {}:
        if dataset not in DATASETS:
            raise UnknownNameError("dataset of the benchmark", dataset, DATASETS)
    if path is None:
        return _on_hub(name, code, revisions or {})
    if revisions:
        raise DatasetError("give path or revisions: files on disk have no revision to choose")
    folder = Path(path).expanduser() / _folder(name)
    files = _files(folder, code)
    if not files:
        raise DatasetError(
            f"{folder / code}: not all of the files dev-00000-of-00001.parquet (or more) are here; "
            f"get them with: {_command(name, code, None, str(folder))}"
        )
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files))
    return Split(files, f"sha256:{digest.hexdigest()}")


def _folder(name: str) -> str:
    """The name of a folder with a copy of a dataset."""
    return name.partition("/")[2]


def _files(folder: Path, code: str) -> tuple[Path, ...]:
    """The files of a language in their order, and none unless all are there."""
    files = tuple(sorted((folder / code).glob("dev-*-of-*.parquet")))
    last = f"dev-{len(files) - 1:05}-of-{len(files):05}"
    return files if files and files[-1].stem == last else ()


def _command(name: str, code: str, revision: str | None, folder: str) -> str:
    option = f" --revision {revision}" if revision else ""
    return (
        f"hf download {name} --repo-type dataset{option} --include '{code}/*' "
        f"--local-dir {shlex.quote(folder)}"
    )


def _on_hub(name: str, code: str, revisions: Mapping[str, str]) -> Split:
    client = _package("huggingface_hub")
    revision = revisions.get(name)

    def snapshot(**more: Any) -> Path:
        return Path(client.snapshot_download(name, repo_type="dataset", revision=revision, **more))

    try:
        folder = snapshot(local_files_only=True, allow_patterns=[])  # whatever is in it
    except client.errors.LocalEntryNotFoundError:
        pass
    else:
        if files := _files(folder, code):
            return Split(files, folder.name)
        revision = folder.name  # that of the languages that are here already
    try:
        # Asked first, because it fails at once where there is no network; a download keeps trying.
        seconds = client.constants.HF_HUB_ETAG_TIMEOUT
        client.HfApi().dataset_info(name, revision=revision, timeout=seconds)
        folder = snapshot(allow_patterns=f"{code}/dev-*.parquet")
    except Exception as error:  # those of whichever HTTP library the client is built on
        raise DatasetError(_unreachable(name, code, revisions, error)) from None
    if files := _files(folder, code):
        return Split(files, folder.name)
    raise DatasetError(f"{name} at revision {folder.name} has no files {code}/dev-*.parquet")


def _package(name: str) -> Any:
    with needing("datasets", "hub"):
        return import_module(name)


def _unreachable(name: str, code: str, revisions: Mapping[str, str], error: Exception) -> str:
    commands = "".join(
        f"\n  {_command(dataset, code, revisions.get(dataset), f'FOLDER/{_folder(dataset)}')}"
        for dataset in DATASETS
    )
    return (
        f"{name} ({code}) is not in the cache and cannot be downloaded "
        f"({type(error).__name__}: {' '.join(str(error).split())}). Where there is a network, run:"
        f"{commands}\nthen copy FOLDER here and pass path='FOLDER'"
    )


# Queries ------------------------------------------------------------------------------------------


def queries(
    language: str,
    *,
    path: str | Path | None = None,
    revisions: Mapping[str, str] | None = None,
) -> list[Query]:
    """The queries of a language with their references.

    ``language``, ``path`` and ``revisions``, and what is raised, are as for :func:`find`.
    """
    outputs = find(OUTPUTS, language, path=path, revisions=revisions)
    prompts = find(QUERIES, language, path=path, revisions=revisions)
    return read_queries(prompts, language, read_outputs(outputs, language).runs)


def read_queries(split: Split, language: str, runs: Mapping[str, Run]) -> list[Query]:
    """The queries of :data:`QUERIES`, with the output of :data:`REFERENCE_MODEL` as reference.

    ``runs`` are those of :func:`read_outputs`.

    Question and passages are cut out of ``prompt``: the question stands between ``Question:`` and
    the first line ``Contexts:``, the passages between that and the last line that begins with
    ``Instruction``. ``positive_ids`` and ``negative_ids`` say which passages there are. A passage
    opens where a line begins with its id in brackets for the first time, and ends where the next
    one opens. So any other brackets are text: ``[123#4]`` of no passage of the query, an id
    within a line, and an id that has opened its passage. A title, where the prompt shows one, is
    part of the text. ``relevant`` are the positive ids. A row that stands there twice counts once.

    Raises:
        DatasetError: names the file, the row and what is wrong with it.
    """
    code = Language.of(language).code
    answers = runs.get(REFERENCE_MODEL, ())
    references = {response.query_id: response.text for response in answers}
    by_id: dict[str, Query] = {}
    for where, row in split.rows():
        query = _query(where, row, code, references)
        if by_id.setdefault(query.id, query) != query:
            raise DatasetError(f"{where}: query {query.id!r} stood above with another prompt")
    if not by_id:
        raise DatasetError(f"{split.files[0]}: no query in this file")
    return list(by_id.values())


def _query(
    where: str, row: Mapping[str, Any], code: str, references: Mapping[str, str | None]
) -> Query:
    names = ("query_id", "prompt", "positive_ids", "negative_ids")
    query_id, prompt, positive, negative = _columns(where, row, names)
    relevant = dict.fromkeys(positive or ())  # a set in order
    other = dict.fromkeys(negative or ())
    if both := [id_ for id_ in other if id_ in relevant]:
        raise DatasetError(f"{where}: passage {both[0]!r} is in positive_ids and in negative_ids")
    match = _PROMPT.search(prompt) if isinstance(prompt, str) else None
    if match is None:
        raise DatasetError(f"{where}: the prompt lacks Question:, Contexts: or Instruction")
    fields = {
        "id": query_id,
        "language": code,
        "text": match["question"].strip(),
        "passages": _passages(where, match["contexts"], [*relevant, *other]),
        "relevant": tuple(relevant),
        "reference": references.get(str(query_id)),
        "answerable": bool(relevant),
    }
    return validated(Query, fields, where)


_PROMPT = re.compile(r"(?ms)Question:(?P<question>.*?)^Contexts:(?P<contexts>.*)^Instruction")


def _passages(where: str, contexts: str, ids: Iterable[str]) -> list[Passage]:
    openings = []
    for id_ in ids:
        opening = re.search(rf"^[^\S\n]*\[{re.escape(str(id_))}\]:?", contexts, re.MULTILINE)
        if opening is None:
            raise DatasetError(f"{where}: no line of the prompt begins with [{id_}], a passage")
        openings.append((opening.start(), opening.end(), id_))
    openings.sort()
    starts = [*(start for start, _, _ in openings), len(contexts)]
    if unknown := contexts[: starts[0]].strip():
        raise DatasetError(
            f"{where}: the prompt shows {unknown[:60]!r} before any passage of positive_ids and "
            "negative_ids"
        )
    return [
        validated(Passage, {"id": id_, "text": contexts[begin:end].strip()}, where)
        for (_, begin, id_), end in zip(openings, starts[1:], strict=True)
    ]


# Outputs ------------------------------------------------------------------------------------------


class Outputs(NamedTuple):
    """What the benchmark's models answered in one language, and the published feature values.

    Attributes:
        runs: by model. A model need not have answered every query.
        query_ids: the queries, in the order of the data.
        features: the names of the features, as the data has them.
        values: ``(models, queries, features)``, models in the order of ``runs``; NaN where the
            data has no number.
    """

    runs: dict[str, Run]
    query_ids: tuple[str, ...]
    features: tuple[str, ...]
    values: NDArray[np.float64]


def read_outputs(split: Split, language: str) -> Outputs:
    """Runs and feature values of :data:`OUTPUTS`, of the models that have any output.

    An output of null is a failure, with the reason in its response. Every column that holds a
    value a model is a feature. A row that stands there twice counts once.

    Raises:
        DatasetError: names the file, the row and what is wrong with it.
    """
    code = Language.of(language).code
    rows: dict[str, Mapping[str, Any]] = {}
    responses: dict[str, dict[str, Response]] = {}
    for where, row in split.rows():
        query_id, outputs = _columns(where, row, ("query_id", "outputs"))
        _check_values(where, row)
        for model, response in _responses(where, query_id, outputs).items():
            responses.setdefault(model, {})[response.query_id] = response
        above = rows.setdefault(str(query_id), row)
        if above is not row and repr(above) != repr(row):  # NaN is unequal to itself
            raise DatasetError(f"{where}: query {query_id!r} stood above with other outputs")
    if not responses:
        raise DatasetError(f"{split.files[0]}: no output of any model in this file")
    runs = {
        model: Run(model=model, language=code, responses=tuple(responses[model].values()))
        for model in sorted(responses)
    }
    features = sorted(
        {name for row in rows.values() for name in row if isinstance(row[name], Mapping)}
    )
    cells = [[row.get(name) or {} for name in features] for row in rows.values()]
    values = np.array([[[_number(cell.get(m)) for cell in row] for row in cells] for m in runs])
    return Outputs(runs, tuple(rows), tuple(features), values)


def _responses(where: str, query_id: object, outputs: Any) -> dict[str, Response]:
    """What each model answered to one query."""
    responses: dict[str, Response] = {}
    for item in outputs or ():
        if not isinstance(item, Mapping) or not item.get("model"):
            raise DatasetError(f"{where}, column 'outputs': {item!r} names no model")
        text = item.get("output")
        error = None if text is not None else "the published data has no output"
        response = validated(Response, {"query_id": query_id, "text": text, "error": error}, where)
        if responses.setdefault(item["model"], response) != response:
            raise DatasetError(f"{where}: model {item['model']!r} has two different outputs")
    return responses


def _check_values(where: str, row: Mapping[str, Any]) -> None:
    for name, values in row.items():
        for model, value in values.items() if isinstance(values, Mapping) else ():
            if value is not None and not isinstance(value, int | float):
                raise DatasetError(
                    f"{where}, column {name!r}: {value!r} of model {model!r} is no number"
                )


def _number(value: float | None) -> float:
    return float(value) if value is not None and math.isfinite(value) else math.nan


# Judgments ----------------------------------------------------------------------------------------

_VERDICTS: Mapping[str, Verdict] = {"A": "a", "B": "b", "Tie": "tie"}
_GPT_4O = re.compile(r"gpt-4o(-azure|-\d{4}-\d{2}-\d{2})*", re.IGNORECASE)


def read_judgments(split: Split, judge: str | None = None) -> list[Judgment]:
    """The verdicts of one judge in :data:`JUDGMENTS`.

    A row without a verdict is left out, and how many there are is logged. A row that stands there
    twice, with the same words of the judge, counts once; a second verdict of the judge counts too.

    Args:
        split: the files.
        judge: its name in the data. ``None`` is the only judge there, or else the one whose name
            is that of GPT-4o, with or without a date or ``-azure``.

    Raises:
        DatasetError: a verdict is none of A, B and Tie (names the file and the row), no judgment
            is left, or nothing tells which of several judges to take.
        UnknownNameError: no judge has this name.
    """
    names = ("query_id", "judge", "model_A", "model_B", "output", "verdict")
    rows: dict[tuple[Any, ...], str] = {}
    for where, row in split.rows():
        rows.setdefault(tuple(_columns(where, row, names)), where)
    if not rows:
        raise DatasetError(f"{split.files[0]}: no judgment in this file")
    judge = _judge(sorted({str(row[1] or "") for row in rows}), judge)
    judgments = []
    own = [(row, where) for row, where in rows.items() if str(row[1] or "") == judge]
    silent = sum(row[-1] is None for row, _ in own)
    for (query_id, _, model_a, model_b, _, verdict), where in own:
        if verdict not in (None, *_VERDICTS):
            raise DatasetError(f"{where}: verdict {verdict!r} is none of {', '.join(_VERDICTS)}")
        if verdict is not None:
            fields = {"query_id": query_id, "model_a": model_a, "model_b": model_b, "judge": judge}
            judgments.append(validated(Judgment, fields | {"verdict": _VERDICTS[verdict]}, where))
    if silent:
        _LOG.warning("%s: %d rows have no verdict and are left out", split.files[0], silent)
    if not judgments:
        raise DatasetError(f"{split.files[0]}: no judgment of judge {judge!r} in this file")
    return judgments


def _judge(names: list[str], name: str | None) -> str:
    if name is not None:
        if name not in names:
            raise UnknownNameError(f"judge in {JUDGMENTS}", name, names)
        return name
    likely = names if len(names) == 1 else list(filter(_GPT_4O.fullmatch, names))
    if len(likely) != 1:
        raise DatasetError(
            f"{JUDGMENTS} has the judges {', '.join(map(repr, names))}; choose one with judge="
        )
    return likely[0]


def _columns(where: str, row: Mapping[str, Any], names: Iterable[str]) -> list[Any]:
    for name in names:
        if name not in row:
            raise DatasetError(f"{where}: column {name!r} is missing; there are {', '.join(row)}")
    return [row[name] for name in names]
