"""MIRAGE-Bench on the Hugging Face hub: prompts, recorded outputs and judgments (extra ``hub``).

Three datasets of Thakur et al. (MIRAGE-Bench, arXiv 2410.13716), each with a folder a language and
in it one split, ``{language}/dev-00000-of-00001.parquet``. They are read from the hub, or from
copies on disk (``path``).

No revision is written down here. The first download takes the newest and the cache of the hub's
own client remembers its commit, so that later calls, also for other languages, read the same one
without asking again. ``revisions`` chooses others.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.files import parquet_rows, validated
from mirage._base.logs import logger
from mirage._base.quoting import shell_word
from mirage.errors import DatasetError, UnknownNameError, needing
from mirage.languages import Language
from mirage.models import Judgment, Passage, Query, Response, Run, Verdict

__all__ = [
    "DATASETS",
    "JUDGMENTS",
    "OUTPUTS",
    "QUERIES",
    "REFERENCE_MODEL",
    "LeftOut",
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

_BLOCK = 1 << 20  # bytes of a file that are in memory at a time


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
        for file in self.files:
            yield from parquet_rows(file, "hub", first=0)


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
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            while block := content.read(_BLOCK):
                digest.update(block)
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
    option = f" --revision {shell_word(revision)}" if revision else ""
    return (
        f"hf download {name} --repo-type dataset{option} --include '{code}/*' "
        f"--local-dir {shell_word(folder)}"
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


class LeftOut(list[str]):
    """What was left out of some rows, and why, a line each; ``rows`` counts those that were read.

    One bad row costs that row and not its language, so readers go on behind it. They are given one
    of these where somebody wants to see what they left out; ``iterable`` is what is known before.
    """

    rows = 0

    def note(self, error: DatasetError) -> None:
        """Add why something was left out."""
        self.append(str(error))

    def report(self, split: Split, what: str) -> None:
        """Log how much was left out.

        Raises:
            DatasetError: more than half of the rows: then it is not the data that it should be.
        """
        if not self:
            return
        found = f"{split.files[0]}: {len(self)} of {self.rows} {what}"
        if 2 * len(self) > self.rows:
            raise DatasetError(f"{found} cannot be read; the first: {self[0]}")
        _LOG.warning("%s left out; the first: %s", found, self[0])


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


def read_queries(
    split: Split, language: str, runs: Mapping[str, Run], left_out: LeftOut | None = None
) -> list[Query]:
    """The queries of :data:`QUERIES`, with the output of :data:`REFERENCE_MODEL` as reference.

    ``runs`` are those of :func:`read_outputs`.

    Question and passages are cut out of ``prompt``: the question stands between ``Question:`` and
    the first line ``Contexts:`` (or ``Context:``), the passages between that and the last line that
    begins with ``Instruction``. ``positive_ids`` and ``negative_ids`` say which passages there are.
    A passage opens where a line begins with its id in brackets for the first time, and ends where
    the next one opens; quotes may stand around the brackets, as in the paper's Figure 10, or any
    punctuation in their place. So any other brackets are text: ``[123#4]`` of no passage of the
    query, an id within a line, and an id that has opened its passage. A title, where the prompt
    shows one, is part of the text. ``relevant`` are the positive ids. A row that stands there twice
    counts once. One that is not as it should be is left out, into ``left_out``, and so is one with
    an id that its prompt does not show; how many is logged.

    Raises:
        DatasetError: more than half of the rows are left out, or all; names the first, and what is
            wrong with it.
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
                raise DatasetError(f"{where}: query {query.id!r} stood above with another prompt")
        except DatasetError as error:
            left_out.note(error)
    left_out.report(split, "rows")
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


_PROMPT = re.compile(
    r"(?ms)Question:(?P<question>.*?)^[^\S\n]*Contexts?:(?P<contexts>.*)^[^\S\n]*Instruction"
)
# Around an id: brackets of its own first of all, then whatever punctuation stands there.
_BEFORE, _BEHIND = "[\"'“”„‘’«»*_`]", "[\"'“”„‘’«»*_`]"
_OPENINGS = (
    rf"^[^\S\n]*{_BEFORE}*\[{{id}}\]{_BEHIND}*:?",
    rf"^[^\S\n]*(?:{_BEFORE}|[(\[{{{{<【])*{{id}}(?![\w#])(?:{_BEHIND}|[)\]}}}}>】])*[:.]?",
)


def _passages(where: str, contexts: str, ids: Iterable[str]) -> list[Passage]:
    openings = []
    for id_ in ids:
        named = (form.format(id=re.escape(str(id_))) for form in _OPENINGS)
        found = (re.search(form, contexts, re.MULTILINE) for form in named)
        opening = next((match for match in found if match is not None), None)
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


def read_outputs(split: Split, language: str, left_out: LeftOut | None = None) -> Outputs:
    """Runs and feature values of :data:`OUTPUTS`, of the models that have any output.

    An output of null is a failure, with the reason in its response; of two outputs of one model,
    the first counts. Every column that holds a number a model is a feature; other columns, such as
    texts by model, are ignored. A row that stands there twice counts once. One that is not as it
    should be, or says otherwise than one above, is left out, into ``left_out``; how many is logged.

    Raises:
        DatasetError: more than half of the rows are left out, or all; names the first, and what is
            wrong with it.
    """
    code = Language.of(language).code
    rows: dict[str, Mapping[str, Any]] = {}
    responses: dict[str, dict[str, Response]] = {}
    left_out = LeftOut() if left_out is None else left_out
    for where, row in split.rows():
        left_out.rows += 1
        try:
            query_id, own = _output_row(where, row)
            above = rows.setdefault(query_id, row)
            if above is not row and repr(above) != repr(row):  # NaN is unequal to itself
                raise DatasetError(f"{where}: query {query_id!r} stood above with other outputs")
        except DatasetError as error:
            left_out.note(error)
            continue
        for model, response in own.items():
            responses.setdefault(model, {}).setdefault(query_id, response)
    left_out.report(split, "rows")
    if not responses:
        raise DatasetError(f"{split.files[0]}: no output of any model in this file")
    runs = {
        model: Run(model=model, language=code, responses=tuple(responses[model].values()))
        for model in sorted(responses)
    }
    features = sorted({name for row in rows.values() for name in row if _is_feature(row[name])})
    cells = [[_cell(row.get(name)) for name in features] for row in rows.values()]
    values = np.array([[[_number(cell.get(m)) for cell in row] for row in cells] for m in runs])
    return Outputs(runs, tuple(rows), tuple(features), values)


def _output_row(where: str, row: Mapping[str, Any]) -> tuple[str, dict[str, Response]]:
    """The query of a row, and what each model answered to it."""
    query_id, outputs = _columns(where, row, ("query_id", "outputs"))
    for name, values in row.items():
        if _is_feature(values):
            _check_numbers(f"{where}, column {name!r}", values)
    responses: dict[str, Response] = {}
    for item in outputs or ():
        if not isinstance(item, Mapping) or not item.get("model"):
            raise DatasetError(f"{where}, column 'outputs': {item!r} names no model")
        text = item.get("output")
        error = None if text is not None else "the published data has no output"
        response = validated(Response, {"query_id": query_id, "text": text, "error": error}, where)
        responses.setdefault(item["model"], response)
    # A row in which no model answered has an id all the same.
    named = validated(Response, {"query_id": query_id, "text": ""}, where)
    return named.query_id, responses


def _is_feature(values: object) -> bool:
    """Whether a column holds a number a model, and not texts or something else."""
    return isinstance(values, Mapping) and any(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values.values()
    )


def _check_numbers(where: str, values: Mapping[str, Any]) -> None:
    for model, value in values.items():
        if value is not None and not isinstance(value, int | float):
            raise DatasetError(f"{where}: {value!r} of model {model!r} is no number")


def _cell(values: object) -> Mapping[str, Any]:
    return values if isinstance(values, Mapping) else {}


def _number(value: object) -> float:
    number = float(value) if isinstance(value, int | float) else math.nan
    return number if math.isfinite(number) else math.nan


# Judgments ----------------------------------------------------------------------------------------

_VERDICTS: Mapping[str, Verdict] = {"A": "a", "B": "b", "TIE": "tie", "C": "tie"}
_GPT_4O = re.compile(r"gpt-4o(-azure|-\d{4}-\d{2}-\d{2})*", re.IGNORECASE)

MOST_UNKNOWN = 0.01
"""The share of a judge's verdicts that may be none of A, B and Tie."""


def read_judgments(
    split: Split,
    judge: str | None = None,
    *,
    as_in_paper: bool = False,
    left_out: LeftOut | None = None,
) -> list[Judgment]:
    """The verdicts of one judge in :data:`JUDGMENTS`.

    A verdict is A, B or Tie, or C for a tie, in any case and in brackets or without. One that is
    none of them is left out, into ``left_out``, and so is a row without a verdict, or with a name
    missing; how many is logged. A row that stands there twice, with the same words of the judge,
    counts once; a second verdict of the judge counts too.

    Args:
        split: the files. The columns ``judge`` and ``output`` may be missing.
        judge: its name in the data. ``None`` is the only judge there, or else the one whose name
            is that of GPT-4o, with or without a date or ``-azure``.
        as_in_paper: drop ties, and of several verdicts on a pair in one order count the last, as
            the code of MIRAGE-Bench (arXiv 2410.13716) does.
        left_out: takes what is left out.

    Raises:
        DatasetError: more than one in a hundred verdicts is none (names the first and its row), no
            judgment is left, or nothing tells which of several judges to take.
        UnknownNameError: no judge has this name.
    """
    left_out = LeftOut() if left_out is None else left_out
    rows: dict[tuple[Any, ...], str] = {}
    for where, row in split.rows():
        left_out.rows += 1
        names = _columns(where, row, ("query_id", "model_A", "model_B", "verdict"))
        said = row.get("judge"), row.get("output"), str(names)
        rows.setdefault((str(row.get("judge") or ""), *names, said), where)
    if not rows:
        raise DatasetError(f"{split.files[0]}: no judgment in this file")
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
            elif (known := _verdict(verdict)) is None:
                unknown.append(f"{where}: verdict {verdict!r} is none of A, B, Tie")
            else:
                judgments.append(validated(Judgment, fields | {"verdict": known}, where))
        except DatasetError as error:
            left_out.note(error)
    _report_verdicts(split, left_out, unknown)
    if as_in_paper:
        last = {(one.query_id, one.model_a, one.model_b): one for one in judgments}
        judgments = [one for one in last.values() if one.verdict != "tie"]
    if not judgments:
        raise DatasetError(f"{split.files[0]}: no judgment of judge {judge!r} in this file")
    return judgments


def _verdict(said: object) -> Verdict | None:
    return _VERDICTS.get(said.strip(" \t\n[]").upper()) if isinstance(said, str) else None


def _report_verdicts(split: Split, left_out: LeftOut, unknown: LeftOut) -> None:
    if len(unknown) > MOST_UNKNOWN * unknown.rows:
        raise DatasetError(
            f"{unknown[0]}; of {unknown.rows} verdicts, {len(unknown)} are not, and one in a "
            "hundred is the most"
        )
    silent = sum(line.endswith("no verdict") for line in left_out)
    if silent:
        _LOG.warning("%s: %d rows have no verdict and are left out", split.files[0], silent)
    left_out += unknown
    if len(left_out) > silent:
        first = next(line for line in left_out if not line.endswith("no verdict"))
        count = len(left_out) - silent
        _LOG.warning("%s: %d rows left out; the first: %s", split.files[0], count, first)


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
