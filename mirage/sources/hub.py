"""MIRAGE-Bench on the Hugging Face hub: prompts, recorded outputs and judgments (extra ``hub``).

MIRAGE-Bench consists of three datasets (Thakur et al., arXiv 2410.13716). Each has a folder per
language with one split, ``{language}/dev-00000-of-00001.parquet``. The files are read from the hub,
or from copies on disk (``path``).

By default, the first download gets the newest revision of a dataset, and the cache of the hub's
client stores its commit. Later calls read the same commit, also for other languages. No request is
made for files that are in the cache. The argument ``revisions`` selects other revisions.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.files import parquet_rows, validated
from mirage._base.logs import logger
from mirage._base.packages import package
from mirage._base.quoting import shell_word
from mirage.errors import DatasetError, UnknownNameError
from mirage.languages import Language
from mirage.models import Judgment, Passage, Query, Response, Run, Verdict

__all__ = [
    "QUERIES",
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
"""Name of the model whose output is the reference of a query, as in the benchmark."""

PARQUET = "refs/convert/parquet"
"""Revision with the hub's Parquet copies of a dataset, ``{config}/{split}/*.parquet``."""

_LOG = logger("mirage.hub")

_BLOCK = 1 << 20  # bytes that are read at a time


# Files --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """The files of a dataset in one language.

    Attributes:
        files: Paths of the files, in the order of their rows.
        revision: Commit hash on the hub. For files on disk, ``sha256:`` followed by the SHA-256 of
            their content.
    """

    files: tuple[Path, ...]
    revision: str

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the location and the content of each row.

        The location is ``{file}, row {n}``, where rows are counted from 0.

        Raises:
            DatasetError: If a file is not valid Parquet.
            MissingPackageError: If the extra ``hub`` is not installed.
        """
        for file in self.files:
            yield from parquet_rows(file, first=0)


def find(
    name: str,
    language: str,
    *,
    path: str | Path | None = None,
    revisions: Mapping[str, str] | None = None,
) -> Split:
    """Return the files of a dataset in one language, and download them if necessary.

    Args:
        name: Name of the dataset, one of :data:`DATASETS`.
        language: ISO 639-1 code.
        path: Folder with copies of the datasets (``mirage-bench``, ``mirage-bench-output``,
            ``mirage-bench-pairwise-judgments``), to read instead of downloading them from the hub.
        revisions: Revision to read (a commit hash, tag or branch), by name of the dataset.

    Raises:
        DatasetError: If there are no such files, or if the hub cannot be reached; the message gives
            the commands that download the files. Also if both ``path`` and ``revisions`` are
            passed.
        UnknownNameError: If there is no such language, or if ``revisions`` names another dataset.
        MissingPackageError: If the extra ``hub`` is not installed.
    """
    code = Language.with_board(language).code
    for dataset in revisions or {}:
        if dataset not in DATASETS:
            raise UnknownNameError("MIRAGE-Bench dataset", dataset, DATASETS)
    if path is None:
        return _find_on_hub(name, code, revisions or {})
    if revisions:
        raise DatasetError(
            "pass either path= or revisions=, but not both, because files on disk have no revisions"
        )
    folder = Path(path).expanduser() / _folder(name)
    files = _files(folder, code)
    if not files:
        raise DatasetError(
            f"{folder / code}: files such as dev-00000-of-00001.parquet are missing; "
            f"download them with: {_command(name, code, None, str(folder))}"
        )
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            while block := content.read(_BLOCK):
                digest.update(block)
    return Split(files, f"sha256:{digest.hexdigest()}")


def _folder(name: str) -> str:
    """Return the name that a folder with a copy of a dataset must have."""
    return name.partition("/")[2]


def _files(folder: Path, code: str) -> tuple[Path, ...]:
    """Return the files of a language in order; empty if one of them is missing."""
    files = tuple(sorted((folder / code).glob("dev-*-of-*.parquet")))
    last = f"dev-{len(files) - 1:05}-of-{len(files):05}"
    return files if files and files[-1].stem == last else ()


def _command(name: str, code: str, revision: str | None, folder: str) -> str:
    option = f" --revision {shell_word(revision)}" if revision else ""
    return (
        f"hf download {name} --repo-type dataset{option} --include '{code}/*' "
        f"--local-dir {shell_word(folder)}"
    )


def _find_on_hub(name: str, code: str, revisions: Mapping[str, str]) -> Split:
    client = package("huggingface_hub")
    revision = revisions.get(name)

    def snapshot(**more: Any) -> Path:
        return Path(client.snapshot_download(name, repo_type="dataset", revision=revision, **more))

    try:
        folder = snapshot(local_files_only=True, allow_patterns=[])  # it may lack this language
    except client.errors.LocalEntryNotFoundError:
        pass
    else:
        if files := _files(folder, code):
            return Split(files, folder.name)
        revision = folder.name  # the commit of the languages that are in the cache
    try:
        # This request fails at once if there is no network; a download would keep retrying.
        seconds = client.constants.HF_HUB_ETAG_TIMEOUT
        client.HfApi().dataset_info(name, revision=revision, timeout=seconds)
        folder = snapshot(allow_patterns=f"{code}/dev-*.parquet")
    except Exception as error:  # its type depends on the HTTP library that the client uses
        raise DatasetError(_unreachable_message(name, code, revisions, error)) from None
    if files := _files(folder, code):
        return Split(files, folder.name)
    raise DatasetError(
        f"dataset {name} at revision {folder.name} has no files {code}/dev-*.parquet"
    )


def split_files(name: str, config: str, split: str) -> tuple[Path, ...]:
    """Return the Parquet files of one split of any dataset, and download them if necessary.

    The hub converts every dataset to Parquet, in the revision :data:`PARQUET`.

    Args:
        name: Name of the dataset on the hub.
        config: Name of the configuration.
        split: Name of the split.

    Raises:
        DatasetError: If there are no such files, or if the hub cannot be reached.
        MissingPackageError: If the extra ``hub`` is not installed.
    """
    client = package("huggingface_hub")
    pattern = f"{config}/{split}/*.parquet"

    def snapshot(*, local: bool) -> tuple[Path, ...]:
        folder = client.snapshot_download(
            name,
            repo_type="dataset",
            revision=PARQUET,
            allow_patterns=pattern,
            local_files_only=local,
        )
        return tuple(sorted(Path(folder).glob(pattern)))

    try:
        files = snapshot(local=True)
    except client.errors.LocalEntryNotFoundError:
        files = ()
    if files:
        return files
    try:
        # This request fails at once if there is no network; a download would keep retrying.
        seconds = client.constants.HF_HUB_ETAG_TIMEOUT
        client.HfApi().dataset_info(name, revision=PARQUET, timeout=seconds)
        files = snapshot(local=False)
    except Exception as error:  # its type depends on the HTTP library that the client uses
        raise DatasetError(
            f"dataset {name} is not in the cache and cannot be downloaded "
            f"({type(error).__name__}: {' '.join(str(error).split())}). On a machine with a "
            f"network, run:\n  hf download {shell_word(name)} --repo-type dataset --revision "
            f"{PARQUET} --include {shell_word(pattern)} --local-dir FOLDER\nthen copy the files "
            "to this machine, and give their path instead of the name of the dataset"
        ) from None
    if not files:
        raise DatasetError(
            f"dataset {name} has no files {pattern} at revision {PARQUET}; check config and split"
        )
    return files


def _unreachable_message(
    name: str, code: str, revisions: Mapping[str, str], error: Exception
) -> str:
    commands = "".join(
        f"\n  {_command(dataset, code, revisions.get(dataset), f'FOLDER/{_folder(dataset)}')}"
        for dataset in DATASETS
    )
    return (
        f"{name} ({code}) is not in the cache and cannot be downloaded "
        f"({type(error).__name__}: {' '.join(str(error).split())}). On a machine with a network, "
        f"run:{commands}\nthen copy FOLDER here and pass path='FOLDER'"
    )


# Queries ------------------------------------------------------------------------------------------


class LeftOut(list[str]):
    """A list of the reasons why rows were left out, one text per row.

    Readers leave out invalid rows, and read the other rows. They only log the number of rows that
    they left out, and the first reason. To get all reasons, pass an object of this class to a
    reader.

    Attributes:
        rows: Number of rows that were read, including those that were left out.
    """

    rows = 0

    def note(self, error: DatasetError) -> None:
        """Add the reason why a row was left out."""
        self.append(str(error))

    def report(self, split: Split, what: str) -> None:
        """Log the number of rows that were left out.

        Args:
            split: Files that were read, for the message.
            what: Noun that names the rows in the message, such as ``"rows"``.

        Raises:
            DatasetError: If more than half of the rows were left out, because the files then
                probably belong to another dataset.
        """
        if not self:
            return
        summary = f"{split.files[0]}: {len(self)} of {self.rows} {what}"
        if 2 * len(self) > self.rows:
            raise DatasetError(f"{summary} cannot be read; the first error is: {self[0]}")
        _LOG.warning("%s were left out; the first reason is: %s", summary, self[0])


def queries(
    language: str,
    *,
    path: str | Path | None = None,
    revisions: Mapping[str, str] | None = None,
) -> list[Query]:
    """Return the queries of MIRAGE-Bench in a language, with their reference answers.

    Args:
        language: ISO 639-1 code.
        path: Folder with copies of the datasets, to read instead of downloading them from the hub.
        revisions: Revision to read (a commit hash, tag or branch), by name of the dataset.

    Raises:
        DatasetError: If files are missing or cannot be read, if the hub cannot be reached, or if
            both ``path`` and ``revisions`` are passed.
        UnknownNameError: If there is no such language or dataset.
        MissingPackageError: If the extra ``hub`` is not installed.
    """
    outputs = find(OUTPUTS, language, path=path, revisions=revisions)
    prompts = find(QUERIES, language, path=path, revisions=revisions)
    return read_queries(prompts, language, read_outputs(outputs, language).runs)


def read_queries(
    split: Split, language: str, runs: Mapping[str, Run], left_out: LeftOut | None = None
) -> list[Query]:
    """Return the queries in the files of the dataset :data:`QUERIES`.

    Question and passages are extracted from the column ``prompt``. The question is between
    ``Question:`` and the first line ``Contexts:`` (or ``Context:``). The passages are between that
    line and the last line that begins with ``Instruction``. The columns ``positive_ids`` and
    ``negative_ids`` contain the ids of the passages.

    A passage begins at the first line that begins with its id in brackets, and ends at the next
    passage. The brackets may be in quotation marks, as in the paper's Figure 10. If no line begins
    with the id in brackets, the id may have other punctuation around it, or none. All other
    bracketed ids are part of the text: ids of other queries' passages, ids within a line, and the
    second occurrence of an id. A title, if the prompt has one, is part of the text.

    ``metadata["prompt"]`` is the whole prompt, and ``relevant`` are the positive ids. The reference
    is the output of :data:`REFERENCE_MODEL`. A row that occurs twice counts once. A row is left out
    if it is not valid, or if its prompt lacks a passage; the number of such rows is logged.

    Args:
        split: Files of :data:`QUERIES`.
        language: ISO 639-1 code.
        runs: Runs by model, from :func:`read_outputs`, for the references.
        left_out: List to which the reasons for left-out rows are added.

    Raises:
        DatasetError: If more than half of the rows are left out, or if no row remains; the message
            names the first row that was left out, and the reason.
    """
    code = Language.of(language).code
    answers = runs.get(REFERENCE_MODEL, ())
    references = {response.query_id: response.text for response in answers}
    by_id: dict[str, Query] = {}
    left_out = LeftOut() if left_out is None else left_out
    for where, row in split.rows():
        left_out.rows += 1
        try:
            query = _query(where, row, code, references)
            if by_id.setdefault(query.id, query) != query:
                raise DatasetError(
                    f"{where}: query {query.id!r} has a different prompt in an earlier row; query "
                    "ids must be unique"
                )
        except DatasetError as error:
            left_out.note(error)
    left_out.report(split, "rows")
    if not by_id:
        raise DatasetError(f"{split.files[0]}: there is no query in this file")
    return list(by_id.values())


def _query(
    where: str, row: Mapping[str, Any], code: str, references: Mapping[str, str | None]
) -> Query:
    names = ("query_id", "prompt", "positive_ids", "negative_ids")
    query_id, prompt, positive, negative = _columns(where, row, names)
    relevant = dict.fromkeys(positive or ())  # a set that keeps the order
    other = dict.fromkeys(negative or ())
    if both := [id_ for id_ in other if id_ in relevant]:
        raise DatasetError(f"{where}: passage {both[0]!r} is in positive_ids and negative_ids")
    match = _PROMPT.search(prompt) if isinstance(prompt, str) else None
    if match is None:
        raise DatasetError(
            f"{where}: the prompt lacks one of the sections 'Question:', 'Contexts:' and "
            "'Instruction'"
        )
    fields = {
        "id": query_id,
        "language": code,
        "text": match["question"].strip(),
        "passages": _passages(where, match["contexts"], [*relevant, *other]),
        "relevant": tuple(relevant),
        "reference": references.get(str(query_id)),
        "answerable": bool(relevant),
        "metadata": {"prompt": prompt},
    }
    return validated(Query, fields, where)


_PROMPT = re.compile(
    r"(?ms)Question:(?P<question>.*?)^[^\S\n]*Contexts?:(?P<contexts>.*)^[^\S\n]*Instruction"
)
# The start of a passage. The first form has the id in square brackets, perhaps in quotation marks;
# only if no line has it, the second form accepts the id in any punctuation.
_BEFORE, _AFTER = "[\"'“”„‘’«»*_`]", "[\"'“”„‘’«»*_`]"
_OPENINGS = (
    rf"^[^\S\n]*{_BEFORE}*\[{{id}}\]{_AFTER}*:?",
    rf"^[^\S\n]*(?:{_BEFORE}|[(\[{{{{<【])*{{id}}(?![\w#])(?:{_AFTER}|[)\]}}}}>】])*[:.]?",
)


def _passages(where: str, contexts: str, ids: Iterable[str]) -> list[Passage]:
    openings = []
    for id_ in ids:
        patterns = (form.format(id=re.escape(str(id_))) for form in _OPENINGS)
        matches = (re.search(form, contexts, re.MULTILINE) for form in patterns)
        opening = next((match for match in matches if match is not None), None)
        if opening is None:
            raise DatasetError(f"{where}: no line of the prompt begins with the passage id [{id_}]")
        openings.append((opening.start(), opening.end(), id_))
    openings.sort()
    starts = [*(start for start, _, _ in openings), len(contexts)]
    if unknown := contexts[: starts[0]].strip():
        raise DatasetError(
            f"{where}: the passages of the prompt must begin with an id of positive_ids or "
            f"negative_ids, but they begin with {unknown[:60]!r}"
        )
    return [
        validated(Passage, {"id": id_, "text": contexts[begin:end].strip()}, where)
        for (_, begin, id_), end in zip(openings, starts[1:], strict=True)
    ]


# Outputs ------------------------------------------------------------------------------------------


class Outputs(NamedTuple):
    """The outputs of the benchmark's models in one language, and the published feature values.

    Attributes:
        runs: Run of each model, by name. A run may lack responses to some queries.
        query_ids: Ids of the queries, in the order of the files.
        features: Names of the features, as in the files.
        values: Feature values of shape ``(models, queries, features)``, in the order of ``runs``,
            ``query_ids`` and ``features``; NaN if the files have no number.
    """

    runs: dict[str, Run]
    query_ids: tuple[str, ...]
    features: tuple[str, ...]
    values: NDArray[np.float64]


def read_outputs(split: Split, language: str, left_out: LeftOut | None = None) -> Outputs:
    """Return the runs and feature values in the files of the dataset :data:`OUTPUTS`.

    An output that is null becomes a failed response. If a model has two outputs for a query, the
    first one is used. Columns that have a number per model are features; other columns, such as
    those with a text per model, are ignored. A row that occurs twice counts once. A row is left out
    if it is not valid, or if it contradicts an earlier row; the number of such rows is logged.

    Args:
        split: Files of :data:`OUTPUTS`.
        language: ISO 639-1 code.
        left_out: List to which the reasons for left-out rows are added.

    Raises:
        DatasetError: If more than half of the rows are left out, or if no output remains; the
            message names the first row that was left out, and the reason.
    """
    code = Language.of(language).code
    rows: dict[str, Mapping[str, Any]] = {}
    responses: dict[str, dict[str, Response]] = {}
    left_out = LeftOut() if left_out is None else left_out
    for where, row in split.rows():
        left_out.rows += 1
        try:
            query_id, row_responses = _output_row(where, row)
            earlier = rows.setdefault(query_id, row)
            if earlier is not row and repr(earlier) != repr(row):  # NaN is unequal to itself
                raise DatasetError(
                    f"{where}: query {query_id!r} has different outputs in an earlier row"
                )
        except DatasetError as error:
            left_out.note(error)
            continue
        for model, response in row_responses.items():
            responses.setdefault(model, {}).setdefault(query_id, response)
    left_out.report(split, "rows")
    if not responses:
        raise DatasetError(f"{split.files[0]}: there is no output of any model in this file")
    runs = {
        model: Run(model=model, language=code, responses=tuple(responses[model].values()))
        for model in sorted(responses)
    }
    features = sorted({name for row in rows.values() for name in row if _is_feature(row[name])})
    cells = [[_cell(row.get(name)) for name in features] for row in rows.values()]
    values = np.array([[[_number(cell.get(m)) for cell in row] for row in cells] for m in runs])
    return Outputs(runs, tuple(rows), tuple(features), values)


def _output_row(where: str, row: Mapping[str, Any]) -> tuple[str, dict[str, Response]]:
    """Return the query id of a row, and a dict from the names of models to their responses."""
    query_id, outputs = _columns(where, row, ("query_id", "outputs"))
    for name, values in row.items():
        if _is_feature(values):
            _check_numbers(f"{where}, column {name!r}", values)
    responses: dict[str, Response] = {}
    for item in outputs or ():
        if not isinstance(item, Mapping) or not item.get("model"):
            raise DatasetError(f"{where}, column 'outputs': {item!r} does not name its model")
        text = item.get("output")
        error = None if text is not None else "the published data has no output"
        response = validated(Response, {"query_id": query_id, "text": text, "error": error}, where)
        responses.setdefault(item["model"], response)
    # Validate the id even if no model has an output in this row.
    checked = validated(Response, {"query_id": query_id, "text": ""}, where)
    return checked.query_id, responses


def _is_feature(values: object) -> bool:
    """Return whether a column has a number for at least one model."""
    return isinstance(values, Mapping) and any(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values.values()
    )


def _check_numbers(where: str, values: Mapping[str, Any]) -> None:
    for model, value in values.items():
        if value is not None and not isinstance(value, int | float):
            raise DatasetError(f"{where}: {value!r} of model {model!r} is not a number")


def _cell(values: object) -> Mapping[str, Any]:
    return values if isinstance(values, Mapping) else {}


def _number(value: object) -> float:
    number = float(value) if isinstance(value, int | float) else math.nan
    return number if math.isfinite(number) else math.nan


# Judgments ----------------------------------------------------------------------------------------

_VERDICTS: Mapping[str, Verdict] = {"A": "a", "B": "b", "TIE": "tie", "C": "tie"}
_GPT_4O = re.compile(r"gpt-4o(-azure|-\d{4}-\d{2}-\d{2})*", re.IGNORECASE)

MOST_UNKNOWN = 0.01
"""Largest share of a judge's verdicts that may differ from A, B, Tie and C."""


def read_judgments(
    split: Split,
    judge: str | None = None,
    *,
    as_in_paper: bool = False,
    left_out: LeftOut | None = None,
) -> list[Judgment]:
    """Return the verdicts of one judge in the files of the dataset :data:`JUDGMENTS`.

    A verdict is A, B, Tie, or C (a tie), in upper or lower case, with or without brackets. Rows
    with another verdict, or without a verdict, query id or model name, are left out; their number
    is logged. Two rows with the same models, query and verdict count as two judgments only if the
    texts of the judge differ.

    Args:
        split: Files of :data:`JUDGMENTS`. The columns ``judge`` and ``output`` may be missing.
        judge: Name of the judge in the files. By default the only judge or, if there are several,
            GPT-4o (its name may contain a date or ``-azure``).
        as_in_paper: Whether to count verdicts as the code of MIRAGE-Bench (arXiv 2410.13716) does.
            If so, ties are left out. If a query has several verdicts on the same two models in the
            same order, only the last one counts.
        left_out: List to which the reasons for left-out rows are added.

    Raises:
        DatasetError: If more than 1 % of the verdicts are invalid (the message quotes the first
            one), or if no judgment remains. Also if ``judge`` is not passed although there are
            several judges, unless exactly one of them is GPT-4o.
        UnknownNameError: If there is no judge with this name.
    """
    left_out = LeftOut() if left_out is None else left_out
    rows: dict[tuple[Any, ...], str] = {}
    for where, row in split.rows():
        left_out.rows += 1
        names = _columns(where, row, ("query_id", "model_A", "model_B", "verdict"))
        details = row.get("judge"), row.get("output"), str(names)
        rows.setdefault((str(row.get("judge") or ""), *names, details), where)
    if not rows:
        raise DatasetError(f"{split.files[0]}: there is no judgment in this file")
    judge = _judge(sorted({row[0] for row in rows}), judge)
    judgments, unknown = [], LeftOut()
    for (name, query_id, model_a, model_b, verdict, _), where in rows.items():
        if name != judge:
            continue
        unknown.rows += 1
        try:
            fields = {"query_id": query_id, "model_a": model_a, "model_b": model_b, "judge": judge}
            if verdict is None:
                left_out.append(f"{where}: no verdict")
            elif (parsed := _verdict(verdict)) is None:
                unknown.append(f"{where}: verdict {verdict!r} must be A, B or Tie")
            else:
                judgments.append(validated(Judgment, fields | {"verdict": parsed}, where))
        except DatasetError as error:
            left_out.note(error)
    _report_verdicts(split, left_out, unknown)
    if as_in_paper:
        last = {(each.query_id, each.model_a, each.model_b): each for each in judgments}
        judgments = [each for each in last.values() if each.verdict != "tie"]
    if not judgments:
        raise DatasetError(
            f"{split.files[0]}: there is no judgment of judge {judge!r} in this file"
        )
    return judgments


def _verdict(text: object) -> Verdict | None:
    return _VERDICTS.get(text.strip(" \t\n[]").upper()) if isinstance(text, str) else None


def _report_verdicts(split: Split, left_out: LeftOut, unknown: LeftOut) -> None:
    if len(unknown) > MOST_UNKNOWN * unknown.rows:
        raise DatasetError(
            f"{len(unknown)} of {unknown.rows} verdicts cannot be read, but at most 1 in 100 may "
            f"be skipped; the first is: {unknown[0]}. If the dataset has a new format, pass an "
            "earlier revision"
        )
    silent = sum(line.endswith("no verdict") for line in left_out)
    if silent:
        _LOG.warning("%s: %d rows have no verdict and are left out", split.files[0], silent)
    left_out += unknown
    if len(left_out) > silent:
        first = next(line for line in left_out if not line.endswith("no verdict"))
        count = len(left_out) - silent
        _LOG.warning(
            "%s: %d rows are left out; the first reason is: %s", split.files[0], count, first
        )


def _judge(names: list[str], name: str | None) -> str:
    if name is not None:
        if name not in names:
            raise UnknownNameError("judge", name, names, f"in {JUDGMENTS}")
        return name
    likely = names if len(names) == 1 else list(filter(_GPT_4O.fullmatch, names))
    if len(likely) != 1:
        raise DatasetError(
            f"{JUDGMENTS} has the judges {', '.join(map(repr, names))}; select one with judge="
        )
    return likely[0]


def _columns(where: str, row: Mapping[str, Any], names: Iterable[str]) -> list[Any]:
    for name in names:
        if name not in row:
            raise DatasetError(
                f"{where}: column {name!r} is missing; the columns are {', '.join(row)}"
            )
    return [row[name] for name in names]
